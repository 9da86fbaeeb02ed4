"""A whole history between its crashes, for the buffered conditions: they are not local, so no object is judged alone.

An *era* is what lies between two crashes of the system or the server; a crash comes after the responses and invocations
of its instant. An operation is *open across* a crash if it was invoked before it and neither returned by then nor died
with its processes: a crash of the server leaves it on its way. Its response tells when it took effect at the latest, if
it did: the acknowledgement may have been on the wire when the server lost what it acknowledged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .known import BEFORE_PS
from .models.model import Call, Model

Tag = tuple[int, Hashable, Hashable]
"""What the scope of a sync may name: the object's index, its key, the connection."""


class Op(NamedTuple):
    """One operation: the caller's number, the object's index, what it did, and when.

    ``return_ps`` is None if nobody saw a response; ``dead_ps`` is the crash that ended it, if one did.
    """

    number: int
    object: int
    call: Call
    invoke_ps: int
    return_ps: int | None
    dead_ps: int | None = None
    tag: Tag = (0, None, None)


class Barrier(NamedTuple):
    """A sync that returned; of all that had been done (``tags`` is None), or of some objects and connections."""

    invoke_ps: int
    return_ps: int
    tags: frozenset[Tag] | None = None


@dataclass(frozen=True)
class Eras:
    """A history cut into eras by ``crashes_ps``, in order, each instant once."""

    model: Model
    objects: int
    ops: Sequence[Op]
    barriers: Sequence[Barrier]
    crashes_ps: Sequence[int]

    def era(self, at_ps: int) -> int:
        """The era that an instant belongs to, from 0."""
        return bisect_left(self.crashes_ps, at_ps)

    def began_ps(self, era: int, before_ps: int = BEFORE_PS) -> int:
        """When ``era`` began; of the first, ``before_ps``."""
        return self.crashes_ps[era - 1] if era else before_ps

    def last_sync_ps(self, era: int, before_ps: int = BEFORE_PS) -> int:
        """The invocation of the last sync of everything that ``era`` saw complete, or when it began."""
        return max(self._syncs_ps.get(era, before_ps), self.began_ps(era, before_ps))

    @cached_property
    def _syncs_ps(self) -> dict[int, int]:
        latest: dict[int, int] = {}
        for barrier in self.barriers:
            era = self.completed(barrier)
            if barrier.tags is None and era is not None and era < len(self.crashes_ps):
                latest[era] = max(latest.get(era, barrier.invoke_ps), barrier.invoke_ps)
        return latest

    def spans(self, op: Op) -> bool:
        """Whether ``op`` is open across the crash that ends the era of its invocation."""
        era = self.era(op.invoke_ps)
        if era == len(self.crashes_ps):
            return False
        crash_ps = self.crashes_ps[era]
        if op.return_ps is not None:
            return op.return_ps > crash_ps
        return op.dead_ps is None or op.dead_ps > crash_ps

    def completed(self, barrier: Barrier) -> int | None:
        """The era in which ``barrier`` was invoked and returned; None if a crash came between."""
        era = self.era(barrier.invoke_ps)
        return era if self.era(barrier.return_ps) == era else None
