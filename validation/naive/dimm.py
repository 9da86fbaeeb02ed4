"""A DIMM of the naive model: write pending queue, the DIMM's own queue, its medium; what its buffers hold is shared."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import simpy
from simpy.resources.resource import PriorityRequest

from ...models.memory.dram import Refresh, Rows
from ...models.memory.xpbuffer import XpBuffer
from ...models.profiles.platform import Platform
from ...sim.bytespace import LINE_BYTES
from ...sim.units import PS_PER_S
from .engine import Gate, Process, Simulation, Station, Ticket


class Steps(NamedTuple):
    """The events that a line waits for in the DIMM, and the XPLines that the medium writes because of it."""

    rewritten: simpy.Event | None
    """Its XPLine has been written before."""
    before_ps: int
    """For how long an XPLine is written that has to go."""
    gone: list[simpy.Event]
    after_ps: int
    """For how long those are written that are complete."""
    full: list[simpy.Event]


class Reading(NamedTuple):
    """Lines that are read: the medium has been asked, the reader may come to them later."""

    own_ps: int
    """How long they take without waiting."""
    begins_ps: int
    """When the medium gets to them."""
    behind: list[simpy.Event]
    """What comes before."""
    fetched: simpy.Event | None = None
    """Happens when the DIMM has the XPLine that they are part of."""


class Dimm:
    """The way of lines to one DIMM: in the order in which they were sent, through bounded queues, to the medium."""

    def __init__(
        self, sim: Simulation, platform: Platform, kind: str, number: int, refresh: Refresh | None = None
    ) -> None:
        media, imc = platform.media[kind], platform.imc
        self._sim = sim
        self._media, self._imc = media, imc
        self._buffer = XpBuffer(media, number) if media.controller.buffer_bytes else None
        self._rows = Rows(media, refresh)
        self._order = Gate(sim)
        self._entrance = Station(sim)
        self._places = Station(sim, max(1, imc.wpq_bytes // LINE_BYTES))
        self._ingest = Station(sim)
        self._lsq = Station(sim, max(1, media.controller.lsq_bytes // LINE_BYTES))
        self._outs = Station(sim, max(1, media.controller.buffer_bytes // media.line_bytes))
        """Places in the buffer that XPLines have on their way out."""
        self._turns = Gate(sim)
        """Lines and reads get at the medium in the order in which they were sent."""
        self._medium = Station(sim)
        self._last_arrival_ps = 0
        self._last_came: tuple[int, int] = (-2, 0)
        """The last line that came over the bus, and when."""
        self._read_free_ps = 0
        self._came: deque[int] = deque()
        """When each line came over the bus that has not been forgotten, ..."""
        self._had: deque[int] = deque()
        """... when the first of them had places in the write pending queue, ..."""
        self._went: deque[int] = deque()
        """... and when the first of those left the queues."""
        self._waiting: dict[int, simpy.Event] = {}
        """Lines that have not left the write pending queue, and their acceptance by it."""
        self._left: dict[int, simpy.Event] = {}
        """Lines, and when the last write of each has left the write pending queue."""
        self._last_to: dict[int, simpy.Event] = {}
        """XPLines, and when the last line has come to each; its value is that instant."""
        self._settles: dict[int, simpy.Event] = {}
        """XPLines that somebody has asked for since, and until when that waits."""
        self._fetched: dict[int, simpy.Event] = {}
        """XPLines that are read, and when the DIMM has them."""
        self._in_flight: dict[int, simpy.Event] = {}
        """XPLines, and the end of the last writing of each."""
        self.most_queued = 0

    def _busy_ps(self, n_bytes: int, bits_per_s: int) -> int:
        return -(-n_bytes * 8 * PS_PER_S // bits_per_s)

    def send(self, line: int, way_ps: int, flush: bool, port: int | None = None) -> simpy.Event:
        """A line leaves for this DIMM now; the event is its acceptance by the queue, undisturbed after ``way_ps``.

        ``port``: the root port that it came from; None: a core.
        """
        queued = self._waiting[line] = self._sim.event()
        left = self._left[line] = self._sim.event()
        xpline = line * LINE_BYTES // self._media.line_bytes
        self._last_to[xpline] = left
        self._settles.pop(xpline, None)
        way_ps = max(0, way_ps - self._imc.wpq_accept_ps)
        tickets = self._order.ticket(), self._turns.ticket()
        self._sim.process(self._line(line, way_ps, flush, tickets, self._planned(line, way_ps, port), queued, left))
        return queued

    def _line(
        self,
        line: int,
        way_ps: int,
        flush: bool,
        tickets: tuple[Ticket, Ticket],
        steps: Steps,
        queued: simpy.Event,
        left: simpy.Event,
    ) -> Process:
        ticket, turns = tickets
        yield self._sim.timeout(way_ps)
        yield ticket.before
        arrived_ps, key = self._sim.now_ps, (ticket.number,)
        with self._entrance.join(key) as turn:
            ticket.after.succeed()
            yield turn
            yield self._sim.timeout(self._imc.wpq_accept_ps + self._delay_ps(line, arrived_ps, flush))
            self._last_came = line, self._sim.now_ps
            self._came.append(self._sim.now_ps)
        with self._places.join(key) as place:
            yield place
            self.most_queued = max(self.most_queued, self._places.count)
            queued.succeed()
            self._had.append(self._sim.now_ps)
            if self._buffer is None:
                yield turns.before
                took_ps = self._busy_ps(LINE_BYTES, self._media.write_bandwidth_bits_per_s)
                yield from self._writes((turns.number, 0), took_ps, joined=turns.after)
            else:
                with self._ingest.join(key) as turn:
                    yield turn
                    room = self._lsq.join(key)
                    yield room
                    yield self._sim.timeout(self._media.controller.ingest_ps)
        left.succeed(self._sim.now_ps)
        if self._waiting.get(line) is queued:
            del self._waiting[line]
        if self._buffer is not None:
            with room:
                yield from self._takes_in(turns, steps)
                self._went.append(self._sim.now_ps)

    def _planned(self, line: int, way_ps: int, port: int | None) -> Steps:
        """The steps that the line will have to take; lines must be planned in the order of sending."""
        self._last_arrival_ps = max(self._last_arrival_ps, self._sim.now_ps + way_ps)
        if self._buffer is None:
            self._rows.write(line, self._last_arrival_ps)
            return Steps(None, 0, [], 0, [])
        xpline = line * LINE_BYTES // self._media.line_bytes
        rewritten = self._in_flight.get(xpline)
        port = port if self._imc.port_order == "kept" else None
        before_ps, gone, after_ps, full = self._buffer.write(line, self._last_arrival_ps, *self._under_way(), port)
        return Steps(rewritten, before_ps, [*map(self._flies, gone)], after_ps, [*map(self._flies, full)])

    def _under_way(self) -> tuple[int, int]:
        """How many lines came before this instant that had no place before it, and how many had, and have it still."""
        now_ps, stages = self._sim.now_ps, (self._came, self._had, self._went)
        while self._went and self._went[0] < now_ps:
            for stage in stages:
                stage.popleft()
        came, had = (sum(1 for at_ps in stage if at_ps < now_ps) for stage in stages[:2])
        return came - had, had

    def _flies(self, xpline: int) -> simpy.Event:
        written = self._in_flight[xpline] = self._sim.event()
        return written

    def _takes_in(self, turns: Ticket, steps: Steps) -> Process:
        """From the DIMM's queue into its buffer, behind the eviction that makes room; then out, if it is complete."""
        yield turns.before
        if steps.rewritten is not None:
            yield steps.rewritten
        if steps.before_ps:
            yield from self._writes((turns.number, 0), steps.before_ps, steps.gone)
        if steps.after_ps:
            place = self._outs.join((turns.number,))
            yield place
            self._sim.process(self._leaves(place, turns, steps))
        else:
            turns.after.succeed()

    def _leaves(self, place: PriorityRequest, turns: Ticket, steps: Steps) -> Process:
        with place:
            yield from self._writes((turns.number, 1), steps.after_ps, steps.full, turns.after)

    def _writes(
        self,
        key: tuple[int, int],
        took_ps: int,
        written: Sequence[simpy.Event] = (),
        joined: simpy.Event | None = None,
    ) -> Process:
        """The medium is busy for ``took_ps``; ``written`` happens once the medium has written."""
        with self._medium.join(key) as turn:
            if joined is not None:
                joined.succeed()
            yield turn
            yield self._sim.timeout(took_ps)
        if written:
            self._sim.process(self._lands(written))

    def _lands(self, written: Sequence[simpy.Event]) -> Process:
        media = self._media
        yield self._sim.timeout(media.write_ps + (media.write_delay_ps if media.write_delay_per == "medium" else 0))
        for one in written:
            one.succeed()

    def _delay_ps(self, line: int, arrived_ps: int, flush: bool) -> int:
        before, came_ps = self._last_came
        follows = line == before + 1 and arrived_ps <= came_ps
        per = self._media.write_delay_per
        each = per == "line" or (per == "flushed line" and flush)
        waits = each or (not follows and (per == "write" or (per == "flush" and flush)))
        return self._media.write_delay_ps if waits else 0

    def read(self, line: int, lines: int, lead_ps: int = 0) -> Reading:
        """Ask the medium now for lines of one XPLine, or of one row; somebody has asked ``lead_ps`` ago."""
        media = self._media
        behind = [self._waiting[each] for each in range(line, line + lines) if each in self._waiting]
        if len(behind) == lines:
            return Reading(self._imc.wpq_hit_ps, 0, behind)
        if self._buffer is None:
            reads_ps, writes_ps, late_ps = lines * self._busy_ps(LINE_BYTES, media.read_bandwidth_bits_per_s), 0, 0
            took_ps = 0
        else:
            xpline = line * LINE_BYTES // media.line_bytes
            flying = self._in_flight.get(xpline)
            behind += [flying] if flying is not None and not flying.processed else []
            behind += self._settled(xpline, lead_ps)
            reads_ps, writes_ps, late_ps = self._buffer.read(line, lines)
            took_ps = media.load_ps
            if not reads_ps:
                near_ps, fetched = media.near_load_ps or media.load_ps, self._fetched.get(xpline)
                return Reading(near_ps, 0, behind if fetched is None or fetched.processed else [*behind, fetched])
        self._sim.process(self._steals(self._turns.ticket(), reads_ps + writes_ps))
        start_ps = max(self._sim.now_ps, self._read_free_ps)
        self._read_free_ps = start_ps + reads_ps
        fetched = None
        if self._buffer is None:
            near, start_ps = self._rows.read(line, start_ps)
            took_ps = media.near_load_ps if media.near_load_ps and near else media.load_ps
        if self._buffer is not None:
            fetched = self._fetched[xpline] = self._sim.event()
        return Reading(took_ps + late_ps, start_ps, behind, fetched)

    def _settled(self, xpline: int, lead_ps: int) -> list[simpy.Event]:
        """What a read of an XPLine waits for which lines have come to."""
        last = self._last_to.get(xpline)
        if last is None or not self._media.controller.read_after_persist_ps:
            return []
        asked_ps = self._sim.now_ps - lead_ps
        if lead_ps and (not last.processed or last.value is None or asked_ps < last.value):
            return []
        if xpline not in self._settles:
            self._settles[xpline] = self._sim.process(self._settle(last, asked_ps))
        return [] if self._settles[xpline].processed else [self._settles[xpline]]

    def _settle(self, last: simpy.Event, asked_ps: int) -> Process:
        controller = self._media.controller
        came_ps = yield last
        until_ps = min(
            max(asked_ps, came_ps) + controller.read_after_persist_ps,
            came_ps + controller.settle_ps,
        )
        yield self._sim.timeout(max(0, until_ps - self._sim.now_ps))

    def issue(self, reading: Reading) -> int:
        """The reader comes to its lines now: how long they take from now on, or from the events before."""
        took_ps = max(0, reading.begins_ps - self._sim.now_ps) + reading.own_ps
        if reading.fetched is not None:
            way_ps = max(0, took_ps - (self._media.near_load_ps or self._media.load_ps))
            self._sim.process(self._comes(reading.behind, way_ps, reading.fetched))
        return took_ps

    def before_fence(self, line: int) -> simpy.Event | None:
        """The event in the DIMM that a fence behind the last write of a line waits for besides the queue."""
        return self._left.get(line) if self._media.controller.fence_drains else None

    def _comes(self, behind: list[simpy.Event], way_ps: int, fetched: simpy.Event) -> Process:
        yield self._sim.all_of(behind)
        yield self._sim.timeout(way_ps)
        fetched.succeed()

    def _steals(self, turns: Ticket, took_ps: int) -> Process:
        yield turns.before
        yield from self._writes((turns.number, 0), took_ps, joined=turns.after)
