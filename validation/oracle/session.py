"""``session``: what each session sees is in some one order: it reads its own writes, sees those of any other session in
the order in which that one made them, and its reads do not go back.

Literally (pipelined RAM: Lipton, Sandberg, Princeton CS-TR-180-88): for each session there is an order of all updates
and of that session's reads in which each read returns the last write before it, and which keeps the order of every
session: an operation that returned comes before what the same session invoked later. It is asked between crashes only:
of reads in one era, and of orders within it; updates of earlier eras may come in any order.

For registers with unique values, where a session's reads come one after the other: a read's writer comes before it,
and any other write of the object that comes before the read comes before its writer. If what follows from this has a
cycle, there is no order; otherwise there is one (each read in turn, after all that must precede it). What precedes an
operation is kept as a position in each *lane*, a sequence of operations of one session one after the other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, product
from typing import NamedTuple

from ...protocols.guarantees import Verdict
from .eras import Eras, Op
from .known import NEVER_PS
from .model import READS, WRITES

MOST_CHAINS = 500
"""How many orders of a session's overlapping reads are tried."""
LARGEST_BLOCK = 6
"""Of how many overlapping reads (as of a batch) all orders are tried."""

Vector = dict[int, int]
"""By lane: the last position that comes before (or is) the operation in question."""


class Node(NamedTuple):
    """An operation's lane and its position there."""

    lane: int
    position: int


@dataclass(frozen=True)
class Finding:
    """The read that breaks its session's order, what it should have seen, and the write whose value it returned."""

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
    ops: list[Op] = field(default_factory=list)
    writes: dict[int, list[int]] = field(default_factory=dict)
    """By object: the positions of its writes."""
    earlier: dict[int, Vector] = field(default_factory=dict)
    """By position: what comes before it in other lanes, where that is more than what comes before its predecessor."""
    marks: list[int] = field(default_factory=list)
    """The positions in ``earlier``, sorted."""


def find(eras: Eras) -> Finding:
    """Whether every session of a history of registers with unique values sees some one order."""
    steps = 0
    undecided = False
    by_era: dict[int, list[Op]] = {}
    for op in eras.ops:
        by_era.setdefault(eras.era(op.invoke_ps), []).append(op)
    older: list[Op] = []
    for era in sorted(by_era):
        ops = by_era[era]
        sessions: dict[Hashable, list[Op]] = {}
        for op in ops:
            if op.call.f in READS and op.return_ps is not None and not eras.spans(op):
                sessions.setdefault(op.tag[2], []).append(op)
        for session, reads in sessions.items():
            steps += len(reads)
            try:
                if not _has_order(eras, ops, older, session, reads):
                    undecided = True
            except _Cycle as wrong:
                numbers = [-1 if op is None else op.number for op in (wrong.read, wrong.seen, wrong.writer)]
                return Finding(Verdict.VIOLATED, steps, *numbers)
        older += [op for op in ops if op.call.f in WRITES]
    return Finding(Verdict.UNDECIDED if undecided else Verdict.HOLDS, steps)


def _has_order(eras: Eras, ops: Sequence[Op], older: Sequence[Op], session: Hashable, reads: Sequence[Op]) -> bool:
    """True, or a _Cycle; False if reads of the session overlap and none of the orders tried was one."""
    view = View(eras, ops, older, session, reads)
    view.close([(read, ()) for read in view.reads])
    if not view.overlap:
        return True
    wrong = None
    blocks = _blocks(view.reads)
    for tried, chain in enumerate(_chains(blocks)):
        if tried == MOST_CHAINS:
            return False
        again = View(eras, ops, older, session, reads)
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
    """All writes and one session's reads, and what comes before what."""

    def __init__(
        self, eras: Eras, ops: Sequence[Op], older: Sequence[Op], session: Hashable, reads: Sequence[Op]
    ) -> None:
        wanted = {(op.object, op.call.result) for op in reads}
        self.reads = sorted(reads, key=lambda op: (op.invoke_ps, op.number))
        self.overlap = any((a.return_ps or 0) >= b.invoke_ps for a, b in pairwise(self.reads))
        self.lanes: list[_Lane] = []
        self.nodes: dict[int, Node] = {}
        self.writer: dict[tuple[int, Hashable], Op] = {}
        self._lanes_of: dict[Hashable, list[int]] = {}
        for op in older:
            if (op.object, op.call.argument) in wanted:
                self._put(op, self._new_lane())
        mine = [op for op in ops if op.call.f in WRITES]
        for op in sorted([*mine, *self.reads], key=lambda op: (op.invoke_ps, op.number)):
            returned_ps = NEVER_PS if op.return_ps is None or eras.spans(op) else op.return_ps
            if returned_ps == NEVER_PS and (op.object, op.call.argument) not in wanted:
                continue  # an open write that this session did not read plays no part
            self._take(op)

    def _new_lane(self) -> int:
        self.lanes.append(_Lane())
        return len(self.lanes) - 1

    def _take(self, op: Op) -> None:
        """Put ``op`` into a lane of its session, behind all that returned before it was invoked."""
        lanes = self._lanes_of.setdefault(op.tag[2], [])
        before: Vector = {}
        free = None
        for lane in lanes:
            last = _returned_before(self.lanes[lane].ops, op.invoke_ps)
            if last >= 0:
                before[lane] = last
            if last == len(self.lanes[lane].ops) - 1 and free is None:
                free = lane
        if free is None:
            free = self._new_lane()
            lanes.append(free)
        before.pop(free, None)
        node = self._put(op, free)
        if before:
            self._merge(node, before)

    def _put(self, op: Op, lane: int) -> Node:
        place = self.lanes[lane]
        node = self.nodes[op.number] = Node(lane, len(place.ops))
        place.ops.append(op)
        if op.call.f in WRITES:
            place.writes.setdefault(op.object, []).append(node.position)
            self.writer[op.object, op.call.argument] = op
        return node

    def before(self, node: Node) -> Vector:
        """All that comes before ``node``, by lane, and itself."""
        place = self.lanes[node.lane]
        mark = bisect_right(place.marks, node.position) - 1
        vector = dict(place.earlier[place.marks[mark]]) if mark >= 0 else {}
        vector[node.lane] = node.position
        return vector

    def _merge(self, node: Node, more: Vector) -> bool:
        """``more`` comes before ``node`` and before all after it in its lane; whether that is new."""
        place = self.lanes[node.lane]
        vector = self.before(node)
        full: Vector = {}
        for lane, position in more.items():
            for other, reach in self.before(Node(lane, position)).items():
                if reach > full.get(other, -1):
                    full[other] = reach
        fresh = {lane: at for lane, at in full.items() if lane != node.lane and at > vector.get(lane, -1)}
        if not fresh:
            return False
        if node.position not in place.earlier:
            insort(place.marks, node.position)
            place.earlier[node.position] = {lane: at for lane, at in vector.items() if lane != node.lane}
        for mark in place.marks[bisect_left(place.marks, node.position) :]:
            earlier = place.earlier[mark]
            for lane, at in fresh.items():
                if at > earlier.get(lane, -1):
                    earlier[lane] = at
        return True

    def close(self, rows: Iterable[tuple[Op, tuple[Op, ...]]]) -> None:
        """Draw all conclusions; ``rows`` are the reads, each with reads to be put before it. Raises _Cycle."""
        rows = list(rows)
        for read, earlier in rows:
            node = self.nodes[read.number]
            writer = self.writer.get((read.object, read.call.result))
            if writer is None and read.call.result is not None:
                raise _Cycle(read, None, None)
            for other in (*earlier, *(() if writer is None else (writer,))):
                place = self.nodes[other.number]
                if self.before(place).get(node.lane, -1) >= node.position:
                    raise _Cycle(read, None, other)
                self._merge(node, {place.lane: place.position})
        changed = True
        while changed:
            changed = False
            for read, _ in rows:
                changed |= self._conclude(read)

    def _conclude(self, read: Op) -> bool:
        """Every other write of the object that comes before ``read`` comes before its writer."""
        writer = self.writer.get((read.object, read.call.result))
        target = None if writer is None else self.nodes[writer.number]
        changed = False
        seen = self._all_before(self.nodes[read.number])
        for lane, reach in seen.items():
            positions = self.lanes[lane].writes.get(read.object, ())
            nearest = bisect_right(positions, reach) - 1
            if nearest < 0:
                continue
            other = Node(lane, positions[nearest])
            if other == target:
                continue
            op = self.lanes[lane].ops[other.position]
            if target is None or self._all_before(other).get(target.lane, -1) >= target.position:
                raise _Cycle(read, op, writer)
            if other.lane != target.lane:
                changed |= self._merge(target, {other.lane: other.position})
        return changed

    def _all_before(self, node: Node) -> Vector:
        """``before``, with all that comes before what is there."""
        vector = self.before(node)
        waiting = list(vector.items())
        while waiting:
            lane, position = waiting.pop()
            if vector.get(lane, -1) > position:
                continue
            for other, reach in self.before(Node(lane, position)).items():
                if reach > vector.get(other, -1):
                    vector[other] = reach
                    waiting.append((other, reach))
        return vector


def _returned_before(ops: Sequence[Op], invoke_ps: int) -> int:
    """The last position of a lane that had returned before ``invoke_ps``."""
    ends = bisect_left(ops, invoke_ps, key=lambda op: NEVER_PS if op.return_ps is None else op.return_ps)
    return ends - 1
