"""Structures that have one writer: the complaint where two processes write the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ...protocols.objects import PUTS
from .known import Complaint, SchemeFacts


class Writes(NamedTuple):
    """A process writes some of so many objects, from a number on."""

    process: int
    first: int
    objects: int = 1


def writer_complaints(
    chosen: Mapping[str, SchemeFacts], writes: Callable[[SchemeFacts], Iterable[Writes]], remedy: str
) -> Iterator[Complaint]:
    """A complaint for each scheme of structures with one writer of which two processes write one.

    ``writes`` says what the processes of the workload write, ``remedy`` what the workload may say instead.
    """
    for name, facts in chosen.items():
        if not facts.one_writer:
            continue
        found = set(writes(facts))
        apart = any(f in PUTS for f in facts.operations)  # each object is a queue or stack of its own
        most = _most(found) if apart else len({one.process for one in found})
        if most > 1:
            structure = "each of whose objects" if apart else "whose structure"
            yield Complaint(f"{most} processes that write for {name}, {structure} has one writer", remedy)


def _most(writes: Iterable[Writes]) -> int:
    """How many write one and the same object, at most."""
    ends = sorted((at, turn) for one in writes for at, turn in ((one.first, 1), (one.first + one.objects, -1)))
    now = most = 0
    for _, turn in ends:
        now += turn
        most = max(most, now)
    return most
