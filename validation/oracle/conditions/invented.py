"""``committed`` of objects that keep items: every item that is found was put there.

By an update that was invoked before the item was found and did not certainly fail. That an item is found twice is
``exactly_once``, that one is missing ``no_lost_ack``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from ....protocols.objects import LOOKS, PUTS, TAKES_OUT
from ..models.model import UNKNOWN, Call

_LISTS = ("read", "read_all")
_PUTS = (*PUTS, "append", "add")


class Invented(NamedTuple):
    """The operation that found an item, and the item."""

    number: int
    item: Hashable


def find(rows: Iterable[tuple[int, int, int | None, Call]]) -> Invented | None:
    """The first operation, of (number, invoked, returned or None, call), that found what nobody had put, or None."""
    rows = list(rows)
    put_ps: dict[Hashable, int] = {}
    for _, invoke_ps, _, call in rows:
        for item in put_by(call):
            put_ps[item] = min(put_ps.get(item, invoke_ps), invoke_ps)
    found = ((number, returned_ps, call) for number, _, returned_ps, call in rows if returned_ps is not None)
    for number, returned_ps, call in sorted(found, key=lambda row: (row[1], row[0])):
        for item in found_by(call):
            if put_ps.get(item, returned_ps + 1) > returned_ps:
                return Invented(number, item)
    return None


def put_by(call: Call) -> Iterator[Hashable]:
    """The items that an operation puts in; of a transaction (key, value)."""
    if call.f in _PUTS:
        yield call.argument
    elif call.f == "txn":
        for kind, key, value in _steps(call.argument):
            if kind == "add":
                yield key, _writer(value)
            elif kind not in LOOKS and value is not None:
                yield key, value


def found_by(call: Call) -> Iterator[Hashable]:
    """The items that an operation found."""
    if call.result is UNKNOWN or call.result is None:
        return
    if call.f in TAKES_OUT:
        yield call.result
    elif call.f in _LISTS and isinstance(call.result, tuple):
        yield from call.result
    elif call.f == "contains" and call.result is True:
        yield call.argument
    elif call.f == "txn":
        for kind, key, value in _steps(call.result):
            if kind == "look" and value is not None:
                yield key, _writer(value)
            elif kind == "r":
                values = value if isinstance(value, tuple) else () if value is None else (value,)
                yield from ((key, one) for one in values)


def _writer(entry: Hashable) -> Hashable:
    """Who wrote an object that holds a number beside its value."""
    return entry[0] if isinstance(entry, tuple) and entry else entry


def _steps(value: Hashable) -> tuple[tuple[str, Hashable, Hashable], ...]:
    return value if isinstance(value, tuple) else ()
