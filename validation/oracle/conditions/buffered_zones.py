"""``buffered`` of registers with unique values, in n log n: zones for each era, and one instant for each cut.

What an era reads of the eras before it says what survived each crash between. The state after the prefix is then as if
somebody had read all survivors at one instant, the *cut*: the era is buffered if there is an instant, after its last
sync, such that each object's part of the era with that read in it is linearizable. For one object the instants that are
possible are a few closed intervals, found from its zones (see ``durable``); a sweep finds one common to all objects.

- A write that nobody read takes effect nowhere if nobody saw it return, or if it returned only after a crash that it
  was open across. One that was open and was read takes effect in the last era that allows it.
- A read that was open across a crash belongs to one of the eras that it touches. What is known to have survived is best
  read after the crash, and any other value was read before it. Where that does not settle it, choices are tried: those
  that a conflict depends on are changed, the latest conflict first.
- Scoped syncs are beyond this, and so are too many choices; then the search answers.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count, pairwise

from ..eras import Eras, Op
from ..known import BEFORE_PS, NEVER_PS
from ..models.model import READS, WRITES, State
from .durable import Zone, conflict

MOST_CHOICES = 2_000
"""How many ways to put reads that were open across a crash into eras are tried."""

Interval = tuple[int, int]


class NotForZones(Exception):
    """This history is not for zones: a scoped sync, or too many choices."""


@dataclass(frozen=True)
class ZoneClash:
    """Why there is no way: in which era, between which values of which objects, and by which operations.

    ``reason`` is a text in which ``{held}`` stands for the values, ``{crash}`` for the crash that ended the era, and
    ``{when}`` for the era.
    """

    era: int
    values: tuple[tuple[int, State], ...]
    numbers: tuple[int, ...]
    reason: str
    choices: frozenset[int] = frozenset()
    """The open reads, by number, that it depends on."""


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

    def key(self, era: int) -> tuple[object, ...]:
        """All that a verdict on it depends on."""
        reads = tuple(op.number for op, _, _ in self.reads)
        writes = tuple(op.number for op in self.writes)
        return era, writes, reads, self.begins_known, self.begins_as, self.survives, self.survivor


@dataclass
class _Sets:
    """The choices of one object: by era the survivor and the instants at which the era may be cut; or a clash."""

    instants: dict[int, tuple[State, list[Interval], tuple[int, ...]]] = field(default_factory=dict)
    clash: ZoneClash | None = None


def find(eras: Eras) -> ZoneClash | None:
    """Why a history of registers with unique values is not buffered, or None; Beyond if it takes a search."""
    if any(barrier.tags is not None for barrier in eras.barriers):
        raise NotForZones
    by_object: dict[int, list[Op]] = {}
    for op in eras.ops:
        by_object.setdefault(op.object, []).append(op)
    objects = [_Object(eras, ops) for ops in by_object.values()]
    options = {number: eras_of for one in objects for number, eras_of in one.options.items()}
    start = dict.fromkeys(options, 0)
    turn = count()
    first = _clash(eras, objects, options, start)
    if first is None:
        return None
    waiting = [(-first.era, next(turn), start, first)]
    met = {tuple(start.values())}
    while waiting:
        _, _, chosen, clash = heapq.heappop(waiting)
        for number in clash.choices:
            if chosen[number] + 1 < len(options[number]):
                other = chosen | {number: chosen[number] + 1}
                if tuple(other.values()) in met:
                    continue
                met.add(tuple(other.values()))
                if len(met) > MOST_CHOICES:
                    raise NotForZones
                now = _clash(eras, objects, options, other)
                if now is None:
                    return None
                heapq.heappush(waiting, (-now.era, next(turn), other, now))
    return first


def _clash(
    eras: Eras, objects: Sequence[_Object], options: dict[int, Sequence[int]], chosen: dict[int, int]
) -> ZoneClash | None:
    """The first clash, by era, of these choices."""
    found = [one.sets(tuple(options[number][chosen[number]] for number in one.options)) for one in objects]
    clashes = [sets.clash for sets in found if sets.clash is not None]
    by_era: dict[int, list[tuple[_Object, tuple[State, list[Interval], tuple[int, ...]]]]] = {}
    for one, sets in zip(objects, found, strict=True):
        for era, row in sets.instants.items():
            by_era.setdefault(era, []).append((one, row))
    for era in sorted(by_era):
        rows = by_era[era]
        if not _common([row[1] for _, row in rows]):
            involved = _least(rows)
            values = tuple((one.object, row[0]) for one, row in involved)
            numbers = tuple(number for _, row in involved for number in row[2])
            depends = frozenset(number for one, _ in involved for number in one.behind(era))
            whole = "all of this" if values[1:] else "this"
            reason = f"{{held}} survived {{crash}}, but no instant before it, at or after the last sync, left {whole}"
            clashes.append(ZoneClash(era, values, numbers, reason, depends))
            break
    return min(clashes, key=lambda clash: clash.era, default=None)


def _least(
    rows: list[tuple[_Object, tuple[State, list[Interval], tuple[int, ...]]]],
) -> list[tuple[_Object, tuple[State, list[Interval], tuple[int, ...]]]]:
    """One or two objects without a common instant, or all if it takes more."""
    for row in rows:
        if not row[1][1]:
            return [row]
    spread = [min(rows, key=lambda row: max(row[1][1])[1]), max(rows, key=lambda row: min(row[1][1])[0])]
    return rows if _common([row[1][1] for row in spread]) else spread


class _Object:
    """One object's operations; ``sets`` gives its choices, once eras are chosen for its open reads."""

    def __init__(self, eras: Eras, ops: Sequence[Op]) -> None:
        self.object = ops[0].object
        self._eras = eras
        self._written = {op.call.argument: op for op in ops if op.call.f in WRITES}
        reads = [op for op in ops if op.call.f in READS and op.return_ps is not None]
        self._open = [op for op in reads if eras.spans(op)]
        self._closed = [(op, eras.era(op.invoke_ps)) for op in reads if not eras.spans(op)]
        self.options = dict(zip((op.number for op in self._open), self._choices(), strict=True))
        """By number of an open read: the eras that it may belong to, the best first."""
        self._known: dict[tuple[int, ...], _Sets] = {}
        self._judged: dict[tuple[object, ...], _Sets] = {}

    def _choices(self) -> list[Sequence[int]]:
        rows: list[tuple[int, int, State]] = []
        for op, era in self._closed:
            write = self._written.get(op.call.result)
            if write is None or not self._eras.spans(write):
                rows.append((self._effect_era(write, era), era, op.call.result))
        choices: list[Sequence[int]] = []
        for op in self._open:
            write = self._written.get(op.call.result)
            first, last = self._eras.era(op.invoke_ps), self._eras.era(op.return_ps or 0)
            if write is not None and self._eras.spans(write):
                choices.append(range(last, first - 1, -1))
                continue
            least = 0 if write is None else self._eras.era(write.invoke_ps)
            options = range(max(first, least), max(last, least) + 1)
            survivors = {value for since, until, value in rows if since <= first < until}
            if survivors and len(options) == 2:
                options = options[1:] if op.call.result in survivors else options[:1]
            choices.append(options)
        return choices

    def sets(self, chosen: tuple[int, ...]) -> _Sets:
        """The choices of this object if its open reads belong to the ``chosen`` eras."""
        if chosen not in self._known:
            self._known[chosen] = self._find([*self._closed, *zip(self._open, chosen, strict=True)])
        return self._known[chosen]

    def behind(self, era: int) -> Iterator[int]:
        """The open reads that what ``era`` sees of this object may depend on."""
        for op in self._open:
            options = self.options[op.number]
            write = self._written.get(op.call.result)
            since = 0 if write is None else self._eras.era(write.invoke_ps)
            if min(*options, since) <= era <= max(options):
                yield op.number

    def _wrong(self, era: int, values: Sequence[State], numbers: Sequence[int], reason: str) -> _Sets:
        named = tuple((self.object, value) for value in values)
        return _Sets({}, ZoneClash(era, named, tuple(numbers), reason, frozenset(self.behind(era))))

    def _find(self, reads: Sequence[tuple[Op, int]]) -> _Sets:
        read_in: dict[State, list[tuple[int, Op]]] = {}
        for op, era in reads:
            write = self._written.get(op.call.result)
            read_in.setdefault(op.call.result, []).append((era, op))
            if write is None and op.call.result is not None:
                return self._wrong(era, [op.call.result], [op.number], "{held} was read, but nobody wrote that")
            if write is not None and (op.return_ps or 0) < write.invoke_ps:
                numbers = [op.number, write.number]
                return self._wrong(era, [op.call.result], numbers, "{held} was read before it was written")
        cells: dict[int, _Cell] = {}
        stays: list[tuple[int, int, State]] = []
        for value, rows in read_in.items():
            first, last = min(era for era, _ in rows), max(era for era, _ in rows)
            write = self._written.get(value)
            effect = self._effect_era(write, first)
            if first < effect:
                numbers = [op.number for _, op in rows]
                return self._wrong(first, [value], numbers, "{held} was read before it was written")
            if last > effect:
                stays.append((effect, last, value))
            if write is not None:
                cells.setdefault(effect, _Cell()).writes.append(write)
        for value, write in self._written.items():
            if value not in read_in and write.return_ps is not None and not self._eras.spans(write):
                cells.setdefault(self._eras.era(write.invoke_ps), _Cell()).writes.append(write)
        for op, era in reads:
            begin_ps, end_ps = self._eras.began_ps(era, BEFORE_PS), _ended_ps(self._eras, era)
            part = op, max(op.invoke_ps, begin_ps), min(op.return_ps or 0, end_ps)
            cells.setdefault(era, _Cell()).reads.append(part)
        stays.sort(key=lambda row: row[:2])
        for (_, until, value), (since, _, other) in pairwise(stays):
            if since < until:
                numbers = [op.number for v in (value, other) for _, op in read_in[v]]
                reason = "{held} were read after {crash}, but only one of them can have survived it"
                return self._wrong(since, [value, other], numbers, reason)
        _fill(stays, cells)
        found = _Sets()
        for era in sorted(cells):
            key = cells[era].key(era)
            if key not in self._judged:
                self._judged[key] = self._judge(era, cells[era])
            one = self._judged[key]
            found.instants |= one.instants
            found.clash = one.clash
            if found.clash is not None:
                break
        return found

    def _effect_era(self, write: Op | None, first_read: int) -> int:
        """The last era in which a value that was read may have been written."""
        if write is None:
            return 0
        era = self._eras.era(write.invoke_ps)
        if not self._eras.spans(write):
            return era
        if write.return_ps is not None:
            latest = self._eras.era(write.return_ps)
        else:
            latest = len(self._eras.crashes_ps) if write.dead_ps is None else self._eras.era(write.dead_ps)
        return max(era, min(first_read, latest))

    def _judge(self, era: int, cell: _Cell) -> _Sets:
        """The instants at which the era may be cut, or the clash."""
        zones, invoked_ps = _zones(self._eras, era, cell)
        settled = [zone for zone in zones.values() if zone.finish_ps < NEVER_PS]
        pair = conflict(settled)
        if pair is not None:
            values = [zone.value for zone in pair]
            reason = "{held} would each have to come before the other {when}"
            return self._wrong(era, values, _numbers(cell, values), reason)
        if cell.survives:
            own = zones.get(cell.survivor) or Zone(BEFORE_PS, BEFORE_PS, cell.survivor)
            others = [zone for zone in settled if zone.value != cell.survivor]
            first_ps = self._eras.last_sync_ps(era, BEFORE_PS)
            some = _instants(own, others, invoked_ps.get(cell.survivor, BEFORE_PS))
            intervals = [(max(low, first_ps), high) for low, high in some if max(low, first_ps) <= high]
            return _Sets({era: (cell.survivor, intervals, _numbers(cell, None))})
        return _Sets()


def _ended_ps(eras: Eras, era: int) -> int:
    return eras.crashes_ps[era] if era < len(eras.crashes_ps) else NEVER_PS


def _fill(stays: list[tuple[int, int, State]], cells: dict[int, _Cell]) -> None:
    """Note what each era begins as, and what survives it."""
    mine = sorted(cells)
    for since, until, value in stays:
        for era in mine[bisect_left(mine, since) : bisect_right(mine, until)]:
            cell = cells[era]
            if era < until:
                cell.survivor, cell.survives = value, True
            if era > since:
                cell.begins_as, cell.begins_known = value, True
    if 0 in cells:
        cells[0].begins_known = True


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
