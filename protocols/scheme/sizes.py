"""How much a scheme has to hold, and how much it can hold at most."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Limits(NamedTuple):
    """The largest value and the most client processes that a scheme has room for; None: as many as there are."""

    value_bytes: int | None = None
    clients: int | None = None
    source: str = ""
    """Why, with the place: ``a datagram of 4096 B (IBTA 9.8.3)``."""


@dataclass(frozen=True)
class Sizes:
    """What a system is formatted for: bytes of a value, objects, updates of the run, client processes."""

    value_bytes: int
    objects: Sequence[Hashable]
    """By number; there may be too many of them to look at each."""
    updates: int
    clients: int
    threads: int = 1
    """How many threads serve the requests of a role that is ``served``."""
    batch: int = 1
    """How many operations the largest request has."""
    own: int = 0
    """Each client process has so many objects in turn for itself alone (see :mod:`.objects`); 0: all belong to all."""
