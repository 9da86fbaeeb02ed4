"""``exactly_once``: no update is executed twice, as a retry or a log that is played again may do.

It shows where an object keeps what was done to it: something that was appended or put in so many times is found more
often in one read, or comes out more often in one era (what came out before a crash and again after it may be a loss of
the taking out, which is another matter). A retry is the same update as what it tries again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ....protocols.objects import TRANSACTIONAL
from ..models.model import UNKNOWN, Call

SHOWS = frozenset({"append", "log", "queue", "stack", *TRANSACTIONAL})
"""The models that show it."""

_PUTS = ("append", "enqueue", "push")
_TAKES = ("dequeue", "pop")
_LISTS = ("read", "read_all")


class Twice(NamedTuple):
    """The operation that shows it, the item, how often it was found and how often it was put in."""

    number: int
    item: Hashable
    found: int
    put: int


def find(rows: Iterable[tuple[int, int, Call]]) -> Twice | None:
    """The first operation, of (number, era, call) in order, by which something was executed too often, or None."""
    rows = list(rows)
    put: Counter[Hashable] = Counter(item for _, _, call in rows for item in _put_by(call))
    taken: Counter[tuple[int, Hashable]] = Counter()
    for number, era, call in rows:
        for found in _found_by(call):
            for item, times in found.items():
                if 0 < put[item] < times:
                    return Twice(number, item, times, put[item])
        if call.f in _TAKES and call.result is not UNKNOWN and call.result is not None:
            taken[era, call.result] += 1
            if 0 < put[call.result] < taken[era, call.result]:
                return Twice(number, call.result, taken[era, call.result], put[call.result])
    return None


def put_in(calls: Iterable[Call]) -> Mapping[Hashable, int]:
    """How often each item is put in by these calls."""
    return Counter(item for call in calls for item in _put_by(call))


def counted_once(call: Call, put: Mapping[Hashable, int]) -> Call:
    """A read of a list as it would be had nothing been executed twice: of an item that it found more often than it was
    ``put`` in, the first ones are left.
    """
    if call.f not in _LISTS or not isinstance(call.result, tuple):
        return call
    seen: Counter[Hashable] = Counter()
    left = []
    for item in call.result:
        seen[item] += 1
        if seen[item] <= put.get(item, seen[item]):
            left.append(item)
    return replace(call, result=tuple(left))


def _put_by(call: Call) -> Iterator[Hashable]:
    if call.f in _PUTS:
        yield call.argument
    elif call.f == "txn" and isinstance(call.argument, tuple):
        yield from ((micro[1], micro[2]) for micro in call.argument if micro[0] == "append")


def _found_by(call: Call) -> Iterator[Counter[Hashable]]:
    if not isinstance(call.result, tuple):
        return
    if call.f in _LISTS:
        yield Counter(call.result)
    elif call.f == "txn":
        for kind, key, value in call.result:
            if kind == "r" and isinstance(value, tuple):
                yield Counter((key, item) for item in value)
