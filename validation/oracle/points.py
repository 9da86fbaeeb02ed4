"""A legal order of a register with unique values, out of its zones (see ``durable``)."""

from __future__ import annotations

from bisect import bisect_left

from ...scenarios.history import Value
from .durable import Zone, zones_of
from .known import NOT_READ, ObjectHistory


def order(known: ObjectHistory, deadlines_ps: dict[Value, int] | None = None) -> tuple[int, ...]:
    """The numbers of the operations in a legal order; ``known`` must have one. Open writes that nobody read are out.

    Forward zones are disjoint, and each backward zone has a point outside of them all: that is where it belongs.
    """
    zones = zones_of(known, NOT_READ, deadlines_ps or {})
    forward = sorted(zone for zone in zones if zone.finish_ps < zone.start_ps)
    reads: dict[Value, list[tuple[int, int]]] = {}
    for read in known.reads:
        reads.setdefault(read.result, []).append((read.invoke_ps, read.number))
    numbers: list[int] = []
    for zone in sorted(zones, key=lambda zone: _place(zone, forward)):
        if zone.value in known.writes:
            numbers.append(known.writes[zone.value].number)
        numbers += [number for _, number in sorted(reads.get(zone.value, []))]
    return tuple(numbers)


def _place(zone: Zone, forward: list[Zone]) -> tuple[int, int]:
    if zone.finish_ps < zone.start_ps:
        return 2 * zone.finish_ps + 1, 0
    at_ps = zone.start_ps
    nearest = bisect_left(forward, (at_ps,)) - 1
    if nearest >= 0 and forward[nearest].start_ps > at_ps:
        at_ps = forward[nearest].start_ps
    return 2 * at_ps, zone.start_ps
