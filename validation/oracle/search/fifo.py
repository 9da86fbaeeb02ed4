"""Queues in which no item is put in twice, n log n: is there an order in which first in is first out?

A complete history has one unless (Henzinger, Sezgin, Vafeiadis, "Aspect-oriented linearizability proofs", CONCUR 2013)
an item is taken that was not put in, or before it was, or twice; an item is *overtaken* (it was certainly in before
another was put in, which was certainly taken before anybody took it); or a take finds nothing although at each of its
instants some item was certainly inside.

There may be takes of unknown outcome, too. One that is asked for at an instant may have had any item from then on, and
its return is at infinity: so it can be no other item's undoing, and only helps the one that it took. Items that nobody
else took have to leave by an instant if others have overtaken them by then, or if they are in before the instant that
is chosen for a take that found nothing. Which take has which item plays no part: there is an assignment if by every
instant as many takes were asked for as items have to leave (Hall); and what was in before an item that has been
overtaken has been overtaken too, so that one count does not add to the other. For a take that found nothing it suffices
to try the first instants at which no taken item was inside, from its invocation and from that of each unknown take on:
later ones have more items leave, and nobody to take them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..known import NEVER_PS
from .general import Interval
from .items import Filled, Item, ItemClash, Items, Misfit, NotForItems, by_item, inside_all_along


def find(spans: Iterable[Interval]) -> Misfit | None:
    """Why the operations of one queue have no order, or None. Beyond: where an unknown take has a deadline, too."""
    queue = by_item(spans)
    if isinstance(queue, Misfit):
        return queue
    if any(take.by_ps < NEVER_PS for take in queue.unknown):
        raise NotForItems
    return _overtaken(queue) or _not_empty(queue)


@dataclass(frozen=True, slots=True)
class _Overtakers:
    """The items by when their puts were invoked, and of each and those behind it the one that was gone first."""

    puts_ps: Sequence[int]
    first_gone: Sequence[Item]

    def of(self, item: Item) -> Item | None:
        """Of the items that were certainly put in later, the one that was gone first."""
        turn = bisect_right(self.puts_ps, item.there_ps)
        return self.first_gone[turn] if turn < len(self.puts_ps) else None


def _overtakers(items: Sequence[Item]) -> _Overtakers:
    rows = sorted(items, key=lambda one: one.put.invoke_ps)
    behind = accumulate(reversed(rows), _first_gone)
    return _Overtakers([one.put.invoke_ps for one in rows], list(behind)[::-1])


def _first_gone(one: Item, other: Item) -> Item:
    return other if other.gone_ps < one.gone_ps else one


def _overtaken(queue: Items) -> Misfit | None:
    overtakers = _overtakers(queue.items)
    leave: list[tuple[int, Item, Item]] = []  # by when, who, because of whom
    for item in queue.items:
        other = overtakers.of(item)
        if other is None or other.gone_ps == NEVER_PS:
            continue
        if item.take is None:
            leave.append((other.gone_ps, item, other))
        elif other.gone_ps < item.asked_ps:
            return _pair(item, other)
    asked_ps = sorted(take.invoke_ps for take in queue.unknown)
    leave.sort(key=lambda row: row[0])
    for count, (by_ps, item, other) in enumerate(leave, 1):
        if bisect_right(asked_ps, by_ps) < count:
            if count == 1:
                return _pair(item, other)
            rows = leave[:count]
            takes = dict.fromkeys(other.take.number for _, _, other in reversed(rows) if other.take is not None)
            behind = dict.fromkeys(other.put.number for _, _, other in rows)
            return Misfit(
                ItemClash.LEFT, (*takes, *(one.put.number for _, one, _ in rows), *behind, *_asked(queue, by_ps))
            )
    return None


def _pair(item: Item, other: Item) -> Misfit:
    assert other.take is not None
    last = () if item.take is None else (item.take.number,)
    return Misfit(ItemClash.OVERTAKEN, (other.take.number, item.put.number, other.put.number, *last))


def _not_empty(queue: Items) -> Misfit | None:
    there_ps = sorted(one.there_ps for one in queue.items if one.take is None)
    asked_ps = sorted(take.invoke_ps for take in queue.unknown)
    filled = Filled(one for one in queue.items if one.take is not None)
    for take in queue.empty:
        assert take.return_ps is not None
        low, high = bisect_right(asked_ps, take.invoke_ps), bisect_right(asked_ps, take.return_ps)
        moments = (filled.over_ps(at_ps) for at_ps in (take.invoke_ps, *asked_ps[low:high]))
        possible = (at_ps for at_ps in moments if at_ps <= take.return_ps)
        if all(bisect_left(there_ps, at_ps) > bisect_right(asked_ps, at_ps) for at_ps in possible):
            return Misfit(ItemClash.NOT_EMPTY, (take.number, *_inside(queue, take)))
    return None


def _inside(queue: Items, take: Interval) -> Sequence[int]:
    """What fills the queue while ``take`` finds nothing in it."""
    assert take.return_ps is not None
    asked = _asked(queue, take.return_ps)
    if asked:
        return [*(number for one in queue.items for number in one.numbers), *asked]
    few = inside_all_along(queue.items, take.invoke_ps, take.return_ps)
    assert few is not None
    return few


def _asked(queue: Items, by_ps: int) -> list[int]:
    """The takes of unknown outcome that may have had something by then: without them there would be less to explain."""
    return [take.number for take in queue.unknown if take.invoke_ps <= by_ps]
