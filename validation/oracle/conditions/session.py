"""``session``: what each session sees is in some one order: it reads its own writes, sees those of any other session in
the order in which that one made them, and its reads do not go back.

Literally (pipelined RAM: Lipton, Sandberg, Princeton CS-TR-180-88): for each session there is an order of all updates
and of that session's reads in which each read returns the last write before it, and which keeps the order of every
session: an operation that returned comes before what the same session invoked later. It is asked between crashes only:
of reads in one era, and of orders within it; updates of earlier eras may come in any order.

For registers with unique values, where a session's reads come one after the other: a read's writer comes before it,
and any other write of the object that comes before the read comes before its writer. If what follows from this has a
cycle, there is no order; otherwise there is one (each read in turn, after all that must precede it). What precedes an
operation is kept as a position in each *lane*, a sequence of operations of one session one after the other. Where a
session's operations do not overlap, ``passing`` answers first, in near-linear time; this closure then tells what is
wrong, and has the last word where they do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, product
from typing import NamedTuple

from ....protocols.guarantees import Verdict
from ..eras import Eras, Op
from ..known import NEVER_PS, Inconsistent
from ..models.model import READS, WRITES
from .passing import Objects, Passing, Place, Read

MOST_CHAINS = 500
"""How many orders of a session's overlapping reads are tried."""
LARGEST_BLOCK = 6
"""Of how many overlapping reads (as of a batch) all orders are tried."""

Vector = dict[int, int]
"""By lane: the last position that comes before (or is) the operation in question."""


class LanePosition(NamedTuple):
    """An operation's lane and its position there."""

    lane: int
    position: int


@dataclass(frozen=True)
class SessionBreak:
    """The read that breaks its session's order, the write that it should have seen, and the write whose value it
    returned.
    """

    verdict: Verdict
    steps: int
    read: int = -1
    seen: int = -1
    writer: int = -1


class _Cycle(Exception):
    def __init__(self, read: Op, seen: Op | None, writer: Op | None) -> None:
        super().__init__()
        self.read, self.seen, self.writer = read, seen, writer


@dataclass
class _Lane:
    ops: list[Op]
    writes: dict[int, list[int]]
    """By object: the positions of its writes."""
    marks: list[int] = field(default_factory=list)
    """The positions from which on more of other lanes comes before."""
    vectors: list[Vector] = field(default_factory=list)
    """For each mark: the positions in other lanes that come before it."""


def find(eras: Eras) -> SessionBreak:
    """Whether every session of a history of registers with unique values sees some one order."""
    steps = 0
    undecided = False
    by_era: dict[int, list[Op]] = {}
    for op in eras.ops:
        by_era.setdefault(eras.era(op.invoke_ps), []).append(op)
    older: list[Op] = []
    for era in sorted(by_era):
        sessions: dict[Hashable, list[Op]] = {}
        for op in by_era[era]:
            if op.call.f in READS and op.return_ps is not None and not eras.spans(op):
                sessions.setdefault(op.tag[2], []).append(op)
        writes = _Writes(eras, [op for op in by_era[era] if op.call.f in WRITES], older)
        for session, reads in sessions.items():
            steps += len(reads)
            try:
                if not _has_order(writes, session, reads):
                    undecided = True
            except _Cycle as wrong:
                numbers = [-1 if op is None else op.number for op in (wrong.read, wrong.seen, wrong.writer)]
                return SessionBreak(Verdict.VIOLATED, steps, *numbers)
        older += writes.new
    return SessionBreak(Verdict.UNDECIDED if undecided else Verdict.HOLDS, steps)


class _Lanes:
    """One session's operations of an era in lanes: each lane one after the other."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self.ops: list[list[Op]] = []
        self.writes: list[dict[int, list[int]]] = []
        """By lane and object: the positions of its writes."""
        self.nodes: dict[int, LanePosition] = {}
        self.across: list[tuple[LanePosition, LanePosition]] = []
        """The order between positions of different lanes."""
        for op in sorted(ops, key=lambda op: (op.invoke_ps, op.number)):
            self._take(op)

    def _take(self, op: Op) -> None:
        """Put ``op`` behind all that returned before it was invoked."""
        before: list[LanePosition] = []
        free = None
        for lane, others in enumerate(self.ops):
            last = _returned_before(others, op.invoke_ps)
            if last == len(others) - 1 and free is None:
                free = lane
            elif last >= 0:
                before.append(LanePosition(lane, last))
        if free is None:
            free = len(self.ops)
            self.ops.append([])
            self.writes.append({})
        node = self.nodes[op.number] = LanePosition(free, len(self.ops[free]))
        self.ops[free].append(op)
        if op.call.f in WRITES:
            self.writes[free].setdefault(op.object, []).append(node.position)
        self.across += [(other, node) for other in before]


class _Writes:
    """The writes of an era, in lanes, and those of earlier ones."""

    def __init__(self, eras: Eras, new: Sequence[Op], older: Sequence[Op]) -> None:
        self.new = new
        self.of = {(op.object, op.call.argument): op for op in [*older, *new]}
        self.old = frozenset(op.number for op in older)
        self.open = frozenset(op.number for op in new if op.return_ps is None or eras.spans(op))
        self.by_session: dict[Hashable, list[Op]] = {}
        for op in new:
            if op.number not in self.open:
                self.by_session.setdefault(op.tag[2], []).append(op)
        self.lanes = {session: _Lanes(ops) for session, ops in self.by_session.items()}
        self._objects: dict[int, Objects] = {}
        """Of the lanes that all views share, by their identity: what each operation writes."""
        for lanes in self.lanes.values():
            self._objects |= {id(ops): [op.object for op in ops] for ops in lanes.ops}

    def objects_of(self, ops: list[Op]) -> Objects:
        """The object that each operation of a lane writes, None for reads."""
        known = self._objects.get(id(ops))
        return [op.object if op.call.f in WRITES else None for op in ops] if known is None else known


def _has_order(writes: _Writes, session: Hashable, reads: Sequence[Op]) -> bool:
    """True, or a _Cycle; False if reads of the session overlap and none of the orders tried was one."""
    view = View(writes, session, reads)
    fits = view.fits()
    if fits:
        return True
    view.close([(read, ()) for read in view.reads])
    if fits is False:
        raise Inconsistent(f"session {session!r} has no order by one way of looking, and one by the other")
    if not view.overlap:
        return True
    wrong = None
    blocks = _blocks(view.reads)
    for tried, chain in enumerate(_chains(blocks)):
        if tried == MOST_CHAINS:
            return False
        again = View(writes, session, reads)
        try:
            again.close(list(zip(chain, [(), *((read,) for read in chain)], strict=False)))
        except _Cycle as cycle:
            wrong = wrong or cycle
        else:
            return True
    if wrong is None or max(map(len, blocks)) > LARGEST_BLOCK:
        return False
    raise wrong


def _blocks(reads: Sequence[Op]) -> list[list[Op]]:
    """Reads in the order of invocation, cut where none overlaps one before."""
    blocks: list[list[Op]] = []
    latest_ps = -1
    for read in reads:
        if read.invoke_ps > latest_ps:
            blocks.append([])
        blocks[-1].append(read)
        latest_ps = max(latest_ps, read.return_ps or 0)
    return blocks


def _chains(blocks: Sequence[list[Op]]) -> Iterator[list[Op]]:
    """All orders that keep those in order that do not overlap, in the order of invocation first.

    Of blocks that are too large that one alone.
    """
    ways = [[b] if len(b) > LARGEST_BLOCK else list(islice(_mixed(b), MOST_CHAINS)) for b in blocks]
    for chosen in product(*ways):
        yield [read for way in chosen for read in way]


def _mixed(reads: list[Op]) -> Iterator[list[Op]]:
    """The same for reads of which each overlaps some other."""
    if not reads:
        yield []
        return
    soonest_ps = min(read.return_ps or 0 for read in reads)
    for turn, read in enumerate(reads):
        if read.invoke_ps <= soonest_ps:
            for rest in _mixed([*reads[:turn], *reads[turn + 1 :]]):
                yield [read, *rest]


class View:
    """All writes and one session's reads, and the order between them as far as it is known."""

    def __init__(self, writes: _Writes, session: Hashable, reads: Sequence[Op]) -> None:
        self.reads = sorted(reads, key=lambda op: (op.invoke_ps, op.number))
        self.overlap = any((a.return_ps or 0) >= b.invoke_ps for a, b in pairwise(self.reads))
        self.lanes: list[_Lane] = []
        self._writes = writes
        self._session = session
        self._first: dict[Hashable, int] = {}
        """By session: the first of its lanes."""
        self._own: dict[int, LanePosition] = {}
        """By number, of operations that are not in the lanes that all views share."""
        self._across: list[tuple[LanePosition, LanePosition]] = []
        """The order inside a session that has several lanes."""
        wanted = dict.fromkeys((op.object, op.call.result) for op in self.reads)
        alone = [op for op in (writes.of.get(value) for value in wanted) if op is not None]
        mine = [op for op in alone if op.number in writes.open and op.tag[2] == session]
        own = _Lanes([*writes.by_session.get(session, ()), *self.reads, *mine])
        self._own_lanes = len(own.ops)
        for name, lanes in (writes.lanes | {session: own}).items():
            self._first[name] = first = len(self.lanes)
            self.lanes += [_Lane(ops, some) for ops, some in zip(lanes.ops, lanes.writes, strict=True)]
            for one, other in lanes.across:
                self._across.append(
                    (LanePosition(first + one.lane, one.position), LanePosition(first + other.lane, other.position))
                )
        first = self._first[session]
        self._own |= {number: LanePosition(first + n.lane, n.position) for number, n in own.nodes.items()}
        for op in alone:  # open ones, and those of earlier eras: each in a lane of its own
            if op.number in writes.old or (op.number in writes.open and op.tag[2] != session):
                node = self._own[op.number] = LanePosition(len(self.lanes), 0)
                self.lanes.append(_Lane([op], {op.object: [0]}))
                if op.number in writes.open and op.tag[2] in self._first:
                    self._behind(op, node)

    def _behind(self, op: Op, node: LanePosition) -> None:
        """An open write comes after what its session had returned before."""
        first = self._first[op.tag[2]]
        for lane in range(first, first + len(self._writes.lanes[op.tag[2]].ops)):
            last = _returned_before(self.lanes[lane].ops, op.invoke_ps)
            if last >= 0:
                self._across.append((LanePosition(lane, last), node))

    def fits(self) -> bool | None:
        """Whether there is an order, near-linear; None where the session's operations overlap or a read is nobody's."""
        own = self._first[self._session]
        if self.overlap or any(lane != own for lane, _ in map(self._node, self.reads)) or self._own_lanes != 1:
            return None
        places: list[Read] = []
        for read in self.reads:
            writer = self._writes.of.get((read.object, read.call.result))
            if writer is None and read.call.result is not None:
                return None
            places.append((self._node(read).position, read.object, None if writer is None else self._node(writer)))
        needs: dict[Place, list[Place]] = {}
        for one, other in self._across:
            needs.setdefault(other, []).append(one)
        lanes = [self._writes.objects_of(lane.ops) for lane in self.lanes]
        return Passing(lanes, own, needs).fits(places)

    def _node(self, op: Op) -> LanePosition:
        node = self._own.get(op.number)
        if node is None:
            shared = self._writes.lanes[op.tag[2]].nodes[op.number]
            node = LanePosition(self._first[op.tag[2]] + shared.lane, shared.position)
        return node

    def _vector(self, node: LanePosition) -> Vector:
        """The positions in other lanes that are known to come before ``node``."""
        place = self.lanes[node.lane]
        mark = bisect_right(place.marks, node.position) - 1
        return place.vectors[mark] if mark >= 0 else _NOTHING

    def _order(self, one: LanePosition, other: LanePosition) -> bool | None:
        """``one`` comes before ``other``, with all that comes before it; whether that is new, None if it is a cycle."""
        more = self._vector(one)
        lane, position = other
        if (one.position if one.lane == lane else more.get(lane, -1)) >= position:
            return None
        known = self._vector(other)
        fresh = {n: at for n, at in more.items() if n != lane and at > known.get(n, -1)}
        if one.lane != lane and one.position > known.get(one.lane, -1):
            fresh[one.lane] = one.position
        if not fresh:
            return False
        place = self.lanes[lane]
        mark = bisect_left(place.marks, position)
        if mark == len(place.marks) or place.marks[mark] != position:
            place.marks.insert(mark, position)
            place.vectors.insert(mark, dict(known))
        for vector in place.vectors[mark:]:
            for n, at in fresh.items():
                if at > vector.get(n, -1):
                    vector[n] = at
        return True

    def close(self, rows: Iterable[tuple[Op, tuple[Op, ...]]]) -> None:
        """Draw all conclusions; ``rows`` are the reads, each with reads to be put before it. Raises _Cycle."""
        rows = list(rows)
        for read, _ in rows:
            if read.call.result is not None and (read.object, read.call.result) not in self._writes.of:
                raise _Cycle(read, None, None)
        thorough = False
        while True:
            changed = False
            for one, other in self._across:
                changed |= bool(self._order(one, other))
            for read, earlier in rows:
                changed |= self._conclude(read, earlier, thorough)
            if thorough and not changed:
                return
            thorough = not changed

    def _conclude(self, read: Op, earlier: tuple[Op, ...], thorough: bool) -> bool:
        """Its writer comes before ``read``, and every other write of the object that does, before its writer.

        What is known is not looked at again, unless ``thorough``: more may have come before it since.
        """
        node = self._node(read)
        writer = self._writes.of.get((read.object, read.call.result))
        target = None if writer is None else self._node(writer)
        changed = False
        for other in (*earlier, *(() if writer is None else (writer,))):
            new = self._order(self._node(other), node)
            if new is None:
                raise _Cycle(read, None, other)
            changed |= new
        for lane, reach in [*self._vector(node).items(), (node.lane, node.position)]:
            positions = self.lanes[lane].writes.get(read.object)
            nearest = -1 if positions is None else bisect_right(positions, reach) - 1
            if positions is None or nearest < 0:
                continue
            last = LanePosition(lane, positions[nearest])
            if last == target:
                continue
            if target is None:
                raise _Cycle(read, self.lanes[lane].ops[last.position], writer)
            if lane == target.lane:
                known = last.position < target.position
            else:
                known = self._vector(target).get(lane, -1) >= last.position
            if known and not thorough:
                continue
            new = self._order(last, target)
            if new is None:
                raise _Cycle(read, self.lanes[lane].ops[last.position], writer)
            changed |= new
        return changed


_NOTHING: Vector = {}


def _returned_before(ops: Sequence[Op], invoke_ps: int) -> int:
    """The last position of a lane that had returned before ``invoke_ps``."""
    ends = bisect_left(ops, invoke_ps, key=lambda op: NEVER_PS if op.return_ps is None else op.return_ps)
    return ends - 1
