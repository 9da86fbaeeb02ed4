"""Stacks in which no item is put in twice, n log n: is there an order in which last in is first out?

At an instant at which no item is certainly inside, the stack may as well be empty: of the items that an order has in it
then, innermost first, each can be taken just before or be put in just after. So the history falls into pieces, each of
them a time with some item certainly inside at every instant, and takes that find nothing fit in between or nowhere. In
such a piece one item lies at the bottom all the time: its put may be as early as the piece begins, and its take as late
as it ends. Any one that can will do, for what lies on it is the same piece without it: that has an order if the whole
has one, and falls into pieces itself. Items that are never certainly inside are put in and taken at one instant.

An item may stay for ever, which is a take at infinity. Takes of unknown outcome are left to the general search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from ..known import NEVER_PS
from .general import Interval
from .items import Filled, Item, ItemClash, Misfit, NotForItems, by_item, inside_all_along


def find(spans: Iterable[Interval]) -> Misfit | None:
    """Why the operations of one stack have no order, or None. Beyond: where a take is of unknown outcome, too.

    n log n, and for each put a look at those that are under way when it returns.
    """
    stack = by_item(spans)
    if isinstance(stack, Misfit):
        return stack
    if stack.unknown:
        raise NotForItems
    items = [one for one in stack.items if one.there_ps < one.asked_ps]
    filled = Filled(items)
    for take in stack.empty:
        assert take.return_ps is not None
        if filled.over_ps(take.invoke_ps) > take.return_ps:
            inside = inside_all_along(items, take.invoke_ps, take.return_ps)
            assert inside is not None
            return Misfit(ItemClash.NOT_EMPTY, (take.number, *inside))
    return _Pieces(items).misfit() if items else None


class _Pieces:
    """Items that are certainly inside at some time; ``_times_ps`` are all instants at which that begins or ends."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._times_ps = sorted({ps for one in items for ps in (one.there_ps, one.asked_ps)})
        self._index = {at_ps: index for index, at_ps in enumerate(self._times_ps)}
        self._inside = _Counts(len(self._times_ps), [self._span(one) for one in items])
        """At each of these instants: how many items are."""
        self._under_way = _under_way(items)
        self._gone: set[int] = set()

    def _span(self, one: Item) -> tuple[int, int]:
        """The instants at which it is certainly inside: the first, and the first that is none."""
        return self._index[one.there_ps] + 1, self._index[one.asked_ps]

    def misfit(self) -> Misfit | None:
        """Why it has no order."""
        pieces = list(pairwise(self._inside.zeros(0, len(self._times_ps))))
        while pieces:
            begin, end = pieces.pop()
            if end == begin + 1:  # what is inside between two instants, and at none of them: one after the other
                continue
            bottom = self._bottom(begin, end)
            if bottom is None:
                return self._crossed(begin, end)
            self._gone.add(bottom)
            low, high = self._span(self._items[bottom])
            free = [begin, *self._inside.less(low, high), end]
            pieces += pairwise(free)
        return None

    def _bottom(self, begin: int, end: int) -> int | None:
        """An item of a piece that may lie at its bottom."""
        begins_ps, ends_ps = self._times_ps[begin], self._times_ps[end]
        for number in self._under_way[begins_ps]:
            one = self._items[number]
            if number not in self._gone and one.there_ps < ends_ps <= one.gone_ps:
                return number
        return None

    def _crossed(self, begin: int, end: int) -> Misfit:
        begins_ps, ends_ps = self._times_ps[begin], self._times_ps[end]
        rest = [one for number, one in enumerate(self._items) if number not in self._gone]
        piece = [one for one in rest if begins_ps <= one.there_ps < ends_ps]
        chain = inside_all_along(piece, begins_ps + 1, ends_ps - 1)
        assert chain is not None
        return Misfit(ItemClash.CROSSED, chain[::-1])


def _under_way(items: Sequence[Item]) -> dict[int, tuple[int, ...]]:
    """By the instants at which puts returned: the items whose puts were under way."""
    order = sorted(range(len(items)), key=lambda number: items[number].put.invoke_ps)
    returns: list[tuple[int, int]] = []
    found: dict[int, tuple[int, ...]] = {}
    turn = 0
    for at_ps in sorted({one.there_ps for one in items}):
        while turn < len(order) and items[order[turn]].put.invoke_ps <= at_ps:
            heappush(returns, (items[order[turn]].there_ps, order[turn]))
            turn += 1
        while returns[0][0] < at_ps:
            heappop(returns)
        found[at_ps] = tuple(number for _, number in returns)
    return found


class _Counts:
    """A number for each of ``size`` places, in a tree of sums: a decrement of a node counts for all places below it."""

    def __init__(self, size: int, spans: Iterable[tuple[int, int]]) -> None:
        steps = [0] * (size + 1)
        for low, high in spans:
            if low < high:
                steps[low] += 1
                steps[high] -= 1
        self._leaves = 1 << max(size - 1, 0).bit_length()
        count, leaves = 0, []
        for step in steps[:size]:
            count += step
            leaves.append(count)
        self._least = [0] * self._leaves + leaves + [NEVER_PS] * (self._leaves - size)
        """The least number below a node, without the decrements above it."""
        self._off = [0] * (2 * self._leaves)
        for node in range(self._leaves - 1, 0, -1):
            self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])

    def zeros(self, low: int, high: int) -> list[int]:
        """The places from ``low`` to before ``high`` that are 0; they are found once."""
        found: list[int] = []
        self._visit(1, 0, self._leaves, low, high, 0, found)
        return found

    def less(self, low: int, high: int) -> list[int]:
        """Take 1 off the places from ``low`` to before ``high``, and find those that have become 0."""
        found: list[int] = []
        if low < high:
            self._visit(1, 0, self._leaves, low, high, 1, found)
        return found

    def _visit(self, node: int, begin: int, end: int, low: int, high: int, off: int, found: list[int]) -> None:
        if low <= begin and end <= high:
            self._least[node] -= off
            self._off[node] += off
            off = 0
            if self._least[node] > 0:
                return
            if node >= self._leaves:
                found.append(begin)
                self._least[node] = NEVER_PS
                return
        pending, middle = self._off[node], (begin + end) // 2
        for child, first, last in ((2 * node, begin, middle), (2 * node + 1, middle, end)):
            if pending:
                self._least[child] -= pending
                self._off[child] += pending
            if low < last and first < high:
                self._visit(child, first, last, low, high, off, found)
        self._off[node] = 0
        self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])
