"""Containers in which no item is put in twice: the operations by item, and what is wrong whatever order they keep.

An item is *certainly inside* between the return of its put and the invocation of its take, neither included. Unless it
was taken, a put of unknown outcome is left out: taking it out of a legal order leaves the others legal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ..known import NEVER_PS
from ..models.model import PUTS, UNKNOWN
from .general import Interval


class NotForItems(Exception):
    """The history is none that is judged by its items alone."""


class ItemClash(Enum):
    """The reasons why no order fits; each says which operations a :class:`Misfit` numbers."""

    NEVER_PUT = "the take"
    TWICE = "the take, the one that had the item first, and the put"
    TOO_EARLY = "the take, and the put"
    OVERTAKEN = "the take of the later item, both puts, and the take of the earlier item if there was one"
    NOT_EMPTY = "the take that found nothing, puts and takes of what was inside, and takes of unknown outcome"
    LEFT = "takes of later items, puts of what these had to leave to others, and takes of unknown outcome"
    CROSSED = "the last take, then puts and takes of what was inside one after the other"


class Misfit(NamedTuple):
    """A reason why no order fits, and the numbers of the operations that show it."""

    clash: ItemClash
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One item's two operations; an item that was never taken is inside for ever."""

    put: Interval
    take: Interval | None

    @property
    def there_ps(self) -> int:
        """From when on it was certainly put in."""
        return self.put.by_ps if self.put.return_ps is None else self.put.return_ps

    @property
    def asked_ps(self) -> int:
        """Before when it was certainly not taken."""
        return NEVER_PS if self.take is None else self.take.invoke_ps

    @property
    def gone_ps(self) -> int:
        """From when on it was certainly taken."""
        return NEVER_PS if self.take is None or self.take.return_ps is None else self.take.return_ps

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the item's operations."""
        return (self.put.number,) if self.take is None else (self.put.number, self.take.number)


@dataclass
class Items:
    """A container's operations by item."""

    items: list[Item] = field(default_factory=list)
    empty: list[Interval] = field(default_factory=list)
    """Takes that found nothing."""
    unknown: list[Interval] = field(default_factory=list)
    """Takes without a response."""


def by_item(spans: Iterable[Interval]) -> Items | Misfit:
    """The operations by item, or a misfit that no container allows. Raises NotForItems if an item is put in twice."""
    puts: dict[Hashable, Interval] = {}
    takes: dict[Hashable, Interval] = {}
    found = Items()
    twice: tuple[int, int, Hashable] | None = None
    for span in spans:
        call = span.call
        if call.f in PUTS:
            if call.argument in puts:
                raise NotForItems
            puts[call.argument] = span
        elif call.result is UNKNOWN:
            found.unknown.append(span)
        elif call.result is None:
            found.empty.append(span)
        elif call.result in takes:
            first, second = sorted((takes[call.result], span), key=_return_ps)
            twice = twice or (second.number, first.number, call.result)
        else:
            takes[call.result] = span
    for item, take in takes.items():
        if item not in puts:
            return Misfit(ItemClash.NEVER_PUT, (take.number,))
        if _return_ps(take) < puts[item].invoke_ps:
            return Misfit(ItemClash.TOO_EARLY, (take.number, puts[item].number))
    if twice is not None:
        return Misfit(ItemClash.TWICE, (*twice[:2], puts[twice[2]].number))
    for item, put in puts.items():
        if put.return_ps is not None or item in takes:
            found.items.append(Item(put, takes.get(item)))
    return found


def inside_all_along(items: Sequence[Item], from_ps: int, until_ps: int) -> tuple[int, ...] | None:
    """Few of ``items``, by the numbers of their operations, of which some was certainly inside at each instant.

    The instants are those from ``from_ps`` to ``until_ps``, both included. None if there is one without.
    """
    rows = sorted((one for one in items if one.there_ps < one.asked_ps), key=lambda one: one.there_ps)
    numbers: list[int] = []
    at_ps, turn = from_ps, 0
    while at_ps <= until_ps:
        best = None
        while turn < len(rows) and rows[turn].there_ps < at_ps:
            if best is None or rows[turn].asked_ps > best.asked_ps:
                best = rows[turn]
            turn += 1
        if best is None or best.asked_ps <= at_ps:
            return None
        numbers += best.numbers
        at_ps = best.asked_ps
    return tuple(numbers)


class Filled:
    """When some item is certainly inside."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._begins_ps: list[int] = []
        self._ends_ps: list[int] = []
        for one in sorted(items, key=lambda one: one.there_ps):
            if one.there_ps >= one.asked_ps:
                continue
            if self._ends_ps and one.there_ps < self._ends_ps[-1]:
                self._ends_ps[-1] = max(self._ends_ps[-1], one.asked_ps)
            else:
                self._begins_ps.append(one.there_ps)
                self._ends_ps.append(one.asked_ps)

    def over_ps(self, at_ps: int) -> int:
        """The first instant from ``at_ps`` on at which that need not be."""
        turn = bisect_left(self._begins_ps, at_ps) - 1
        return self._ends_ps[turn] if turn >= 0 and at_ps < self._ends_ps[turn] else at_ps


def _return_ps(span: Interval) -> int:
    return NEVER_PS if span.return_ps is None else span.return_ps
