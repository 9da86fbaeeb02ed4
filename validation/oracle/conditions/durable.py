"""``durable``: durable linearizability, literally (Izraelevitz, Mendes, Scott, DISC 2016): process ids are fresh after
a crash, and the history without its crashes is linearizable. Here: as a register with unique values.

By zones, n log n (Gibbons, Korach, "Testing shared memories", SIAM J. Comput. 26(4), 1997). A *cluster* is a write and
the reads of its value. In a linearization each cluster stands in one piece, so cluster A must precede cluster B as
soon as some operation of A returned before some operation of B was invoked: first return of A < last invocation of B.
A history is linearizable if no read returned before its write was invoked (that is in ``committed``) and these
orders have no cycle. If they have one, they have one of length two: in a cycle let M be the cluster with the last
invocation; every cluster of the cycle precedes somebody and hence M, also the one that M precedes. So the test is
for a pair, each of which must precede the other. With the *zone* of a cluster between its first return and its last
invocation, *forward* if in that order and *backward* otherwise, such a pair is two forward zones that overlap, or a
backward zone inside a forward one. Zones that only touch do not conflict (closed intervals).

Where an object is removed values are not unique: every removal leaves it absent. That is searched (``removals``).

The initial value is a write before everything. A pending update that somebody read is in its cluster with a return
at infinity; one that nobody read is dropped: taking it out of a linearization leaves the others legal. Pending reads
are dropped for the same reason. The read after recovery is an operation of a fresh process after all others.

``linearizable`` is the same: with the crashes taken out, each operation is placed between its invocation and its
response, and a pending one anywhere after its invocation, whether or not its process's id is used again. What an id
that is used again adds (it takes effect before that process's next invocation or never) is ``persistent``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ....scenarios.history import Operation, Value
from ..known import BEFORE_PS, NEVER_PS, NOT_READ, Flaw, ObjectHistory, Recovered, return_ps
from ..wording import microseconds, read_text, recovered_text, update_text, value_text
from . import committed, removals


class Zone(NamedTuple):
    """A cluster's first return, last invocation and value; forward if the first return comes first."""

    finish_ps: int
    start_ps: int
    value: Any


def find(known: ObjectHistory, recovered: Recovered) -> Flaw | None:
    """Why the history, with the read after recovery at its end, is not linearizable, or None."""
    return find_by(known, recovered, {})


def find_by(known: ObjectHistory, recovered: Recovered, deadlines_ps: Mapping[Value, int]) -> Flaw | None:
    """The same where the updates of some stamps take effect before an instant or never."""
    flaw = committed.find(known, recovered) or committed.not_there(known, recovered)
    if flaw is not None:
        return flaw
    if known.removes:
        return removals.find(known, recovered, deadlines_ps)
    pair = conflict(zones_of(known, recovered, deadlines_ps))
    if pair is None:
        return None
    earlier = conflict(zones_of(known, NOT_READ, deadlines_ps))
    if earlier is not None:  # it was wrong before the crash: that is what to tell
        return _explain(known, NOT_READ, *earlier)
    return _explain(known, recovered, *pair)


def zones_of(known: ObjectHistory, recovered: Recovered, deadlines_ps: Mapping[Value, int]) -> list[Zone]:
    """The zones of all values that may be in effect: those that were acknowledged, read, or there from the start."""
    acknowledged_ps = known.acknowledged_ps
    finish_ps: dict[Value, int] = {known.initial: BEFORE_PS}
    start_ps: dict[Value, int] = {known.initial: BEFORE_PS}
    for value, write in known.writes.items():
        finish_ps[value] = acknowledged_ps.get(value, NEVER_PS)
        start_ps[value] = write.invoke_ps
    for read in known.reads:
        value = read.result
        finish_ps[value] = min(finish_ps[value], return_ps(read))
        start_ps[value] = max(start_ps[value], read.invoke_ps)
    if recovered is not NOT_READ:
        start_ps[recovered] = NEVER_PS
    for value, by_ps in deadlines_ps.items():
        if finish_ps[value] < NEVER_PS or value == recovered:  # somebody read it, so it took effect
            finish_ps[value] = min(finish_ps[value], by_ps)
    return [Zone(end_ps, start_ps[value], value) for value, end_ps in finish_ps.items() if end_ps < NEVER_PS]


def conflict(zones: list[Zone]) -> tuple[Zone, Zone] | None:
    """Two zones whose clusters must each precede the other, or None."""
    forward = sorted((zone for zone in zones if zone.finish_ps < zone.start_ps), key=lambda zone: zone.finish_ps)
    for left, right in pairwise(forward):
        if right.finish_ps < left.start_ps:
            return left, right
    finishes = [zone.finish_ps for zone in forward]
    for zone in zones:
        if zone.finish_ps >= zone.start_ps:
            nearest = bisect_left(finishes, zone.start_ps) - 1
            if nearest >= 0 and zone.finish_ps < forward[nearest].start_ps:
                return forward[nearest], zone
    return None


def _explain(known: ObjectHistory, recovered: Recovered, one: Zone, other: Zone) -> Flaw:
    if other.start_ps == NEVER_PS:
        one, other = other, one
    named: list[Operation] = []
    first = _order(known, one, other, named)
    if one.start_ps == NEVER_PS and recovered is not NOT_READ:
        returned = _first_return(known, other, named)
        return Flaw(_once(named), f"{recovered_text(known, recovered)}, but {first}, and {returned}")
    second = _order(known, other, one, named)
    return Flaw(_once(named), f"{first}, yet {second}")


def _order(known: ObjectHistory, one: Zone, other: Zone, named: list[Operation]) -> str:
    """``v1 comes before v2: ... had returned at ..., before ... was invoked at ...``."""
    order = f"{value_text(one.value)} comes before {value_text(other.value)}"
    if one.finish_ps == BEFORE_PS:
        return f"{order}, being there before time zero"
    returned = _first_return(known, one, named)
    return f"{order}: {returned}, before {_last_invocation(known, other, named)}"


def _first_return(known: ObjectHistory, zone: Zone, named: list[Operation]) -> str:
    readers = (read for read in known.reads if read.result == zone.value and read.return_ps == zone.finish_ps)
    if known.acknowledged_ps.get(zone.value) == zone.finish_ps:
        operation, text = known.writes[zone.value], update_text(known.writes[zone.value])
    else:
        reader = next(readers, None)
        if reader is None:  # no return, but a deadline
            update = known.writes[zone.value]
            named.append(update)
            if known.killed_ps.get(zone.value) == zone.finish_ps:
                return f"the crash at {microseconds(zone.finish_ps)} had killed the process of {update_text(update)}"
            return f"the process of {update_text(update)}, once killed, had gone on at {microseconds(zone.finish_ps)}"
        operation, text = reader, read_text(reader)
    named.append(operation)
    return f"{text} had returned at {microseconds(zone.finish_ps)}"


def _last_invocation(known: ObjectHistory, zone: Zone, named: list[Operation]) -> str:
    write = known.writes.get(zone.value)
    if write is not None and write.invoke_ps == zone.start_ps:
        operation, text = write, update_text(write)
    else:
        operation = next(r for r in known.reads if r.result == zone.value and r.invoke_ps == zone.start_ps)
        text = read_text(operation)
    named.append(operation)
    return f"{text} was invoked at {microseconds(zone.start_ps)}"


def _once(named: list[Operation]) -> tuple[Operation, ...]:
    """Each operation once, the last named first: that is the one which the others rule out."""
    return tuple({operation.number: operation for operation in reversed(named)}.values())
