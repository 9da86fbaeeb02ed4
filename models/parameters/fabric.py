"""Links and switches, as a platform profile describes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fabric:
    """Links and switches."""

    link_bits_per_s: int
    propagation_ps: int
    """Of one link."""
    switch_ps: int
    """Port to port, first bit in to first bit out."""
