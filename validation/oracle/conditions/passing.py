"""One session whose operations come one after the other: is there an order of all writes that its reads fit into?

The same question as :meth:`session.View.close` answers for any session, near-linear here. Let a write *pass* at the
first of the session's reads, counted from 0, that it comes before. What is sought is when every write passes:

- a lane (operations of one session, one after the other) passes from its beginning on, the session's own lane at its
  own reads and no earlier;
- a read's writer passes by that read, and every other write of its object that has passed by then passes no later than
  the writer.

Everything passes as late as these rules allow: each read lets through what it needs, and what turns out to be too late
is pulled forward. Of what passes at the same read the writers that some read names come after all other writes of their
objects; if that and the lanes' own order make a cycle, there is no order, otherwise there is one. Every rule is forced,
and what passes latest passes no earlier in any other solution: so the answer is exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence

Place = tuple[int, int]
"""A lane and a position in it."""
Objects = Sequence[int | None]
"""A lane: the object that each operation writes, None for what writes nothing."""
Read = tuple[int, int, Place | None]
"""A read: its position in the own lane, its object, and where its writer is (None: the initial value)."""


class _None(Exception):
    """No order of all writes fits the session's reads."""


class Passing:
    """The lanes, of which ``own`` is the reader's; ``needs`` holds, by place, the writes that have to pass by then."""

    def __init__(self, lanes: Sequence[Objects], own: int, needs: Mapping[Place, Sequence[Place]]) -> None:
        self._lanes, self._own, self._needs = lanes, own, needs
        self._ends: list[list[int]] = [[] for _ in lanes]
        """By lane: up to which positions (exclusive) it has passed in steps, and ``_whens`` at which read."""
        self._whens: list[list[int]] = [[] for _ in lanes]
        self._front = [0] * len(lanes)
        self._passed: dict[int, list[tuple[int, int, int]]] = {}
        """By object: the writes that have passed, by (read, lane, position), in order."""
        self._reads: dict[int, list[tuple[int, Place | None]]] = {}
        """By object: its reads so far and their writers."""
        self._named: dict[Place, int] = {}
        """Writers, each with the last read that returned its value."""

    def fits(self, reads: Sequence[Read]) -> bool:
        """Whether there is an order."""
        try:
            for turn, (position, object, writer) in enumerate(reads):
                self._read(turn, position, object, writer)
            self._no_cycles()
        except _None:
            return False
        return True

    def _read(self, turn: int, position: int, object: int, writer: Place | None) -> None:
        self._advance(self._own, position, turn)
        if writer is None:
            if self._passed.get(object):
                raise _None
        else:
            lane, place = writer
            if place >= self._front[lane]:
                if lane == self._own:
                    raise _None
                self._advance(lane, place + 1, turn)
            passed, by = self._passed[object], self._when(lane, place)
            self._named[writer] = turn
            if passed[-1][0] > by:
                self._reads.setdefault(object, []).append((turn, writer))
                self._pull([(entry[1], entry[2], by) for entry in passed if entry[0] > by])
                return
        self._reads.setdefault(object, []).append((turn, writer))

    def _when(self, lane: int, position: int) -> int:
        """At which read a place has passed."""
        return self._whens[lane][bisect_right(self._ends[lane], position)]

    def _advance(self, lane: int, end: int, turn: int) -> None:
        """Let a lane pass up to ``end`` at read ``turn``, with all that it needs."""
        front = self._front[lane]
        if end <= front:
            return
        passed, needs = self._passed, self._needs
        for position, object in enumerate(self._lanes[lane][front:end], front):
            if object is not None:
                entries = passed.get(object)
                if entries is None:
                    passed[object] = [(turn, lane, position)]
                else:
                    insort(entries, (turn, lane, position)) if entries[-1][0] == turn else entries.append(
                        (turn, lane, position)
                    )
        self._front[lane] = end
        whens, ends = self._whens[lane], self._ends[lane]
        if whens and whens[-1] == turn:
            ends[-1] = end
        else:
            whens.append(turn)
            ends.append(end)
        if needs:
            for position in range(front, end):
                for other, place in needs.get((lane, position), ()):
                    if other == self._own and place >= self._front[other]:
                        raise _None
                    self._advance(other, place + 1, turn)

    def _pull(self, waiting: list[tuple[int, int, int]]) -> None:
        """Let places (lane, position) pass by an earlier read, with all that follows from it."""
        while waiting:
            lane, position, by = waiting.pop()
            ends, whens = self._ends[lane], self._whens[lane]
            first = bisect_right(whens, by)  # the first step that is too late
            begin = ends[first - 1] if first else 0
            if position < begin:
                continue
            if lane == self._own:
                raise _None
            moved = [(place, self._when(lane, place)) for place in range(begin, position + 1)]
            last = bisect_right(ends, position)  # the step that the position is in
            keep = last if ends[last] > position + 1 else last + 1
            joined = first > 0 and whens[first - 1] == by
            start = first - 1 if joined else first
            ends[start:keep], whens[start:keep] = [position + 1], [by]
            for place, before in moved:
                self._moved(lane, place, before, by, waiting)

    def _moved(self, lane: int, place: int, before: int, by: int, waiting: list[tuple[int, int, int]]) -> None:
        """What follows from a place having passed at ``by`` instead of ``before``."""
        waiting += [(other, needed, by) for other, needed in self._needs.get((lane, place), ())]
        object = self._lanes[lane][place]
        if object is None:
            return
        passed = self._passed[object]
        del passed[bisect_left(passed, (before, lane, place))]
        insort(passed, (by, lane, place))
        reads = self._reads.get(object, [])
        for turn, writer in reads[bisect_left(reads, by, key=lambda row: row[0]) :]:
            if turn >= before:
                break
            if writer is None:
                raise _None
            if self._when(*writer) < by:
                waiting.append((lane, place, self._when(*writer)))
        until = self._named.get((lane, place))
        if until is not None:  # whatever has passed by its last read passes no later than it
            waiting += [(other, p, by) for when, other, p in passed if by < when <= until]

    def _no_cycles(self) -> None:
        """Order what passes at one read; _None if that cannot be."""
        ranges: dict[int, list[tuple[int, int, int]]] = {}
        for lane, (ends, whens) in enumerate(zip(self._ends, self._whens, strict=True)):
            begin = 0
            for end, when in zip(ends, whens, strict=True):
                ranges.setdefault(when, []).append((lane, begin, end))
                begin = end
        named: dict[int, list[Place]] = {}
        for lane, place in self._named:
            named.setdefault(self._when(lane, place), []).append((lane, place))
        for when, writers in named.items():
            here = ranges[when]
            if len(writers) == 1 and not self._needs:
                lane, place = writers[0]
                end = next(end for other, _, end in here if other == lane)
                objects = self._lanes[lane]
                if end > place + 1 and objects[place] in objects[place + 1 : end]:
                    raise _None
            else:
                self._ordered(here, set(writers))

    def _ordered(self, ranges: Sequence[tuple[int, int, int]], writers: set[Place]) -> None:
        """Place by place, each when all that it waits for has gone; _None if some cannot go."""
        left: dict[int, int] = {}
        for lane, begin, end in ranges:
            for object in self._lanes[lane][begin:end]:
                if object is not None:
                    left[object] = left.get(object, 0) + 1
        at = {lane: begin for lane, begin, _ in ranges}
        ends = {lane: end for lane, _, end in ranges}
        going = True
        while going:
            going = False
            for lane, end in ends.items():
                while at[lane] < end:
                    place = (lane, at[lane])
                    object = self._lanes[lane][at[lane]]
                    if place in writers and object is not None and left[object] > 1:
                        break
                    if any(at.get(other, -1) <= p < ends.get(other, 0) for other, p in self._needs.get(place, ())):
                        break
                    if object is not None:
                        left[object] -= 1
                    at[lane] += 1
                    going = True
        if any(at[lane] < end for lane, end in ends.items()):
            raise _None
