"""Counts of a platform profile that may be none."""

from __future__ import annotations

from typing import NewType

CountOrZero = NewType("CountOrZero", int)
"""A whole number from 0; an ``int`` without a unit is one from 1."""

NONE = CountOrZero(0)
ONE = CountOrZero(1)
