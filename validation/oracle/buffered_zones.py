"""``buffered`` of registers with unique values, in n log n: zones for each era, and one instant for each cut.

What an era reads of the eras before it says what survived each crash between. The state after the prefix is then as if
somebody had read all survivors at one instant, the *cut*: the era is buffered if there is an instant, after its last
sync, such that each object's part of the era with that read in it is linearizable. For one object the instants that are
possible are a few closed intervals, found from its zones (see ``durable``); a sweep finds one common to all objects.

- A write that nobody read takes effect nowhere if nobody saw it return, or if it returned only after a crash that it
  was open across. One that was open and was read takes effect in the last era that allows it.
- A read that was open across a crash belongs to one of the eras that it touches: all choices are tried, if they are few.
- Scoped syncs are beyond this; ``applies`` says so, and the search answers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, product
from math import prod

from .durable import Zone, conflict
from .eras import Eras, Op
from .known import BEFORE_PS, NEVER_PS
from .model import READS, WRITES, State

MOST_CHOICES = 256
"""How many ways to put reads that were open across a crash into eras are tried."""

Interval = tuple[int, int]


@dataclass(frozen=True)
class Clash:
    """Why there is no way: in which era, between which values of which objects, and by which operations."""

    era: int
    values: tuple[tuple[int, State], ...]
    numbers: tuple[int, ...]
    reason: str


@dataclass
class _Cell:
    """One object in one era."""

    writes: list[Op] = field(default_factory=list)
    reads: list[tuple[Op, int, int]] = field(default_factory=list)
    """With the part of its interval in the era."""
    begins_as: State = None
    begins_known: bool = False
    survivor: State = None
    survives: bool = False


def applies(eras: Eras) -> bool:
    """Whether this can judge: no scoped sync, and few reads open across a crash."""
    return all(barrier.tags is None for barrier in eras.barriers) and prod(map(len, _choices(eras))) <= MOST_CHOICES


def find(eras: Eras) -> Clash | None:
    """Why a history of registers with unique values is not buffered, or None."""
    reads = [op for op in eras.ops if op.call.f in READS and op.return_ps is not None]
    open_reads = [op for op in reads if eras.spans(op)]
    others = [(op, eras.era(op.invoke_ps)) for op in reads if not eras.spans(op)]
    clash = None
    for chosen in product(*_choices(eras)):
        clash = _find(eras, [*others, *zip(open_reads, chosen, strict=True)])
        if clash is None:
            return None
    return clash


def _choices(eras: Eras) -> list[range]:
    reads = (op for op in eras.ops if op.call.f in READS and op.return_ps is not None and eras.spans(op))
    return [range(eras.era(op.invoke_ps), eras.era(op.return_ps or 0) + 1) for op in reads]


def _find(eras: Eras, reads: Sequence[tuple[Op, int]]) -> Clash | None:
    written = {(op.object, op.call.argument): op for op in eras.ops if op.call.f in WRITES}
    read_in: dict[tuple[int, State], list[tuple[int, Op]]] = {}
    for op, era in reads:
        value = (op.object, op.call.result)
        read_in.setdefault(value, []).append((era, op))
        write = written.get(value)
        if write is None and value[1] is not None:
            return Clash(era, (value,), (op.number,), "nobody wrote that")
        if write is not None and (op.return_ps or 0) < write.invoke_ps:
            return Clash(era, (value,), (op.number, write.number), "it was not written before that")
    cells: dict[tuple[int, int], _Cell] = {}
    stays: dict[int, list[tuple[int, int, State]]] = {}
    for value, rows in read_in.items():
        first, last = min(era for era, _ in rows), max(era for era, _ in rows)
        write = written.get(value)
        effect = 0 if write is None else _effect_era(eras, write, first)
        if first < effect:
            return Clash(first, (value,), tuple(op.number for _, op in rows), "it was not written before that")
        if last > effect:
            stays.setdefault(value[0], []).append((effect, last, value[1]))
        if write is not None:
            cells.setdefault((effect, value[0]), _Cell()).writes.append(write)
    for write in written.values():
        era = eras.era(write.invoke_ps)
        if (write.object, write.call.argument) not in read_in and write.return_ps is not None and not eras.spans(write):
            cells.setdefault((era, write.object), _Cell()).writes.append(write)
    for op, era in reads:
        cell = cells.setdefault((era, op.object), _Cell())
        begin_ps, end_ps = eras.began_ps(era, BEFORE_PS), _ended_ps(eras, era)
        cell.reads.append((op, max(op.invoke_ps, begin_ps), min(op.return_ps or 0, end_ps)))
    clash = _fill(stays, cells, read_in)
    return clash or next((c for c in map(lambda era: _judge(eras, era, cells), _touched(cells)) if c is not None), None)


def _touched(cells: dict[tuple[int, int], _Cell]) -> list[int]:
    return sorted({era for era, _ in cells})


def _ended_ps(eras: Eras, era: int) -> int:
    return eras.crashes_ps[era] if era < len(eras.crashes_ps) else NEVER_PS


def _effect_era(eras: Eras, write: Op, first_read: int) -> int:
    """The last era in which a write that was read may have taken effect."""
    era = eras.era(write.invoke_ps)
    if not eras.spans(write):
        return era
    if write.return_ps is not None:
        latest = eras.era(write.return_ps)
    else:
        latest = len(eras.crashes_ps) if write.dead_ps is None else eras.era(write.dead_ps)
    return max(era, min(first_read, latest))


def _fill(
    stays: dict[int, list[tuple[int, int, State]]],
    cells: dict[tuple[int, int], _Cell],
    read_in: dict[tuple[int, State], list[tuple[int, Op]]],
) -> Clash | None:
    """Note what each era of each object begins as, and what survives it; a Clash if two values had to."""
    eras_of: dict[int, list[int]] = {}
    for era, object in sorted(cells):
        eras_of.setdefault(object, []).append(era)
    for object, rows in stays.items():
        rows.sort(key=lambda row: row[:2])
        for (_, until, value), (since, _, other) in zip(rows, rows[1:], strict=False):
            if since < until:
                numbers = tuple(op.number for v in (value, other) for _, op in read_in[object, v])
                return Clash(since, ((object, value), (object, other)), numbers, "only one of them can have survived")
        mine = eras_of.get(object, [])
        for since, until, value in rows:
            for era in mine[bisect_left(mine, since) : bisect_right(mine, until)]:
                cell = cells[era, object]
                if era < until:
                    cell.survivor, cell.survives = value, True
                if era > since:
                    cell.begins_as, cell.begins_known = value, True
    for era, object in cells:
        if era == 0:
            cells[era, object].begins_known = True
    return None


def _judge(eras: Eras, era: int, cells: dict[tuple[int, int], _Cell]) -> Clash | None:
    syncs_ps = [b.invoke_ps for b in eras.barriers if eras.completed(b) == era] if era < len(eras.crashes_ps) else []
    first_ps, last_ps = max([eras.began_ps(era, BEFORE_PS), *syncs_ps]), _ended_ps(eras, era)
    sets: list[tuple[int, State, list[Interval]]] = []
    for object in sorted(object for at, object in cells if at == era):
        cell = cells[era, object]
        zones, invoked_ps = _zones(eras, era, cell)
        settled = [zone for zone in zones.values() if zone.finish_ps < NEVER_PS]
        pair = conflict(settled)
        if pair is not None:
            values = tuple((object, zone.value) for zone in pair)
            return Clash(era, values, _numbers(cell, [v for _, v in values]), "each would have to come before the other")
        if cell.survives:
            own = zones.get(cell.survivor) or Zone(BEFORE_PS, BEFORE_PS, cell.survivor)
            others = [zone for zone in settled if zone.value != cell.survivor]
            found = [
                (max(low, first_ps), min(high, last_ps))
                for low, high in _instants(own, others, invoked_ps.get(cell.survivor, BEFORE_PS))
            ]
            sets.append((object, cell.survivor, [(low, high) for low, high in found if low <= high]))
    if sets and not _common([intervals for _, _, intervals in sets]):
        involved = _least(sets)
        numbers = tuple(n for object, _ in involved for n in _numbers(cells[era, object], None))
        return Clash(era, involved, numbers, "no instant of the era, at or after its last sync, left all of them")
    return None


def _least(sets: list[tuple[int, State, list[Interval]]]) -> tuple[tuple[int, State], ...]:
    """One or two objects without a common instant, or all if it takes more."""
    for object, value, intervals in sets:
        if not intervals:
            return ((object, value),)
    spread = sorted(sets, key=lambda row: row[2][-1][1])[0], sorted(sets, key=lambda row: -row[2][0][0])[0]
    if not _common([row[2] for row in spread]):
        return tuple((object, value) for object, value, _ in spread)
    return tuple((object, value) for object, value, _ in sets)


def _zones(eras: Eras, era: int, cell: _Cell) -> tuple[dict[State, Zone], dict[State, int]]:
    """The zone of each value, and when its write was invoked (BEFORE_PS for what the era began as)."""
    finish_ps: dict[State, int] = {}
    start_ps: dict[State, int] = {}
    if cell.begins_known:
        finish_ps[cell.begins_as] = start_ps[cell.begins_as] = BEFORE_PS
    begin_ps = eras.began_ps(era, BEFORE_PS)
    for op in cell.writes:
        value = op.call.argument
        start_ps[value] = max(op.invoke_ps, begin_ps)
        returned = op.return_ps is not None and eras.era(op.return_ps) == era
        finish_ps[value] = op.return_ps if returned and op.return_ps is not None else NEVER_PS
    invoked_ps = dict(start_ps)
    for op, from_ps, to_ps in cell.reads:
        value = op.call.result
        finish_ps[value] = min(finish_ps[value], to_ps)
        start_ps[value] = max(start_ps[value], from_ps)
    return {value: Zone(end_ps, start_ps[value], value) for value, end_ps in finish_ps.items()}, invoked_ps


def _instants(own: Zone, others: list[Zone], invoked_ps: int) -> Iterator[Interval]:
    """The instants at which one more read of ``own``'s value conflicts with no other zone."""
    forward = sorted(zone for zone in others if zone.finish_ps < zone.start_ps)
    backward = [zone for zone in others if zone.finish_ps >= zone.start_ps]
    left, right = min(own.finish_ps, own.start_ps), max(own.finish_ps, own.start_ps)
    yield max(invoked_ps, _room_before(right if own.finish_ps < own.start_ps else left, forward, backward)), left
    yield right, _room_after(left if own.finish_ps < own.start_ps else right, forward, backward)
    if own.finish_ps < own.start_ps:
        yield left, right  # inside a forward zone nothing changes
        return
    at_ps = left  # a backward zone shrinks to the instant, which may not lie inside a forward one
    for zone in forward[max(0, bisect_left(forward, (left,)) - 1) :]:
        if zone.finish_ps >= right:
            break
        if zone.start_ps > left:
            yield at_ps, max(zone.finish_ps, left) if zone.finish_ps >= left else at_ps - 1
            at_ps = max(at_ps, zone.start_ps)
    yield at_ps, right


def _room_before(end_ps: int, forward: list[Zone], backward: list[Zone]) -> int:
    """From when on a forward zone may begin that ends at ``end_ps``."""
    room = [zone.start_ps for zone in forward[: bisect_left(forward, (end_ps,))][-1:]]
    room += [zone.start_ps for zone in backward if zone.finish_ps < end_ps]
    return max(room, default=BEFORE_PS)


def _room_after(begin_ps: int, forward: list[Zone], backward: list[Zone]) -> int:
    """Until when a forward zone may last that begins at ``begin_ps``."""
    nearest = bisect_right(forward, begin_ps, key=lambda zone: zone.start_ps)
    room = [zone.finish_ps for zone in forward[nearest : nearest + 1]]
    room += [zone.finish_ps for zone in backward if zone.start_ps > begin_ps]
    return min(room, default=NEVER_PS)


def _common(sets: Sequence[list[Interval]]) -> bool:
    """Whether some instant lies in an interval of each of the sets."""
    ends: list[tuple[int, int]] = []
    for intervals in sets:
        merged: list[Interval] = []
        for low, high in sorted(i for i in intervals if i[0] <= i[1]):
            if merged and low <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(high, merged[-1][1])
            else:
                merged.append((low, high))
        ends += [(low, 0) for low, _ in merged] + [(high, 1) for _, high in merged]
    depths = accumulate(-1 if closing else 1 for _, closing in sorted(ends))
    return max(depths, default=0) == len(sets)


def _numbers(cell: _Cell, values: Sequence[State] | None) -> tuple[int, ...]:
    ops = [op for op in cell.writes if values is None or op.call.argument in values]
    ops += [op for op, _, _ in cell.reads if values is None or op.call.result in values]
    return tuple(op.number for op in ops)
