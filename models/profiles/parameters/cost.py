"""Prices of the parts of machines, as a platform profile states them where a source has them."""

from __future__ import annotations

from dataclasses import dataclass

from .counts import CountOrZero

HOST, ADAPTER = "host", "adapter"
"""A machine without its adapter and without memory that has a price of its own; its adapter."""


@dataclass(frozen=True, slots=True)
class PartCost:
    """The price of one part of a machine."""

    price: CountOrZero
    """In whole units of one currency for all parts; 0: it comes with another part."""
