"""The integrated memory controller: a bounded write pending queue in front of each DIMM, and the DIMM behind it.

A write is inside the ADR domain from the instant at which the write pending queue takes it (Yang et al., FAST'20,
section 2.1). Addresses interleave over the DIMMs of a device. The queue is asked through an in-order gate: writes of
different agents that would overtake each other on the way to one DIMM keep the order in which they were sent.

Behind the queue a plain DIMM writes line by line. One with a controller (Optane) takes lines into a queue of its own
(LSQ), and on into the XPBuffer (``models.memory.xpbuffer``), whose evictions and full XPLines the medium writes; a line
waits for the eviction that makes room for it, and while its XPLine is being written (rewriting a hot line). Reads are
served before writes, and the time that they take of the medium delays the writes after them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ...sim.bytespace import LINE_BYTES
from ..profiles.parameters.memory import ImcParameters, MediaParameters
from .dram import Refresh, Refreshes, Rows, never
from .xpbuffer import Entered, XpBuffer, service_ps

RECENT = 512
"""So many lines or XPLines are remembered on their way; then the ones that arrived long ago are forgotten."""
LONG_PS = 100_000_000


@dataclass(slots=True)
class Traffic:
    """The traffic of a memory and of its media, in bytes; sums are formed by ``+``."""

    written_bytes: int = 0
    read_bytes: int = 0
    media_written_bytes: int = 0
    media_read_bytes: int = 0
    migrations: int = 0
    """Blocks that wear-levelling moved."""
    wpq_waited_ps: int = 0
    """How long lines waited for a place in a write pending queue, summed."""

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def write_amplification(self) -> float:
        """Bytes that the media wrote over bytes that came to be written; 0 where none came."""
        return self.media_written_bytes / self.written_bytes if self.written_bytes else 0.0

    @property
    def read_amplification(self) -> float:
        """Bytes that the media read, for partial XPLines too, over bytes that were requested."""
        return self.media_read_bytes / self.read_bytes if self.read_bytes else 0.0


class Gates:
    """Three gates that lines pass one after the other: how many are between them at an instant."""

    __slots__ = ("_came", "_had", "_went")

    def __init__(self) -> None:
        self._came: deque[int] = deque()
        self._had: deque[int] = deque()
        self._went: deque[int] = deque()

    def pass_at(self, came_ps: int, had_ps: int, went_ps: int) -> None:
        """Note the instants at which a line passes the gates."""
        self._came.append(came_ps)
        self._had.append(had_ps)
        self._went.append(went_ps)

    def between(self, at_ps: int) -> tuple[int, int]:
        """How many lines have passed the first gate before that instant and not the second, and how many that one and
        not the third; calls come in order of time.
        """
        came, had, went = self._came, self._had, self._went
        for coming in (came, had, went):
            while coming and coming[0] < at_ps:
                coming.popleft()
        return len(had) - len(came), len(went) - len(had)


class Dimm:
    """One DIMM behind its write pending queue. All questions in the order in which lines leave for it."""

    def __init__(self, imc: ImcParameters, media: MediaParameters, number: int, refresh: Refresh | None = None) -> None:
        controller = media.controller
        self._accept_ps = imc.wpq_accept_ps
        self._hit_ps = imc.wpq_hit_ps
        self._port_order = imc.port_order == "kept"
        self._load_ps = media.load_ps
        self._near_ps = media.near_load_ps or media.load_ps
        at_medium = media.write_delay_per == "medium"
        self._write_ps = media.write_ps + (media.write_delay_ps if at_medium else 0)
        self._delay_ps, self._delay_per = 0 if at_medium else media.write_delay_ps, media.write_delay_per
        self._places = [0] * max(1, imc.wpq_bytes // LINE_BYTES)
        """Write pending queue: when its places are free, in a ring."""
        self.buffer = XpBuffer(media, number) if controller.buffer_bytes else None
        self._rows = Rows(media, refresh)
        unit = media.line_bytes if self.buffer is not None else LINE_BYTES
        self._unit_write_ps = service_ps(unit, media.write_bandwidth_bits_per_s)
        self._behind_writes_ps = media.read_behind_writes * self._unit_write_ps
        """For how much of the work that the medium was given a read waits at most."""
        self._unit_read_ps = service_ps(unit, media.read_bandwidth_bits_per_s)
        self._unit_lines = max(1, unit // LINE_BYTES)
        self._lsq = [0] * max(1, controller.lsq_bytes // LINE_BYTES)
        self._ingest_ps = controller.ingest_ps
        self._outs = [0] * max(1, controller.buffer_bytes // unit)
        """XPLines on their way out of the buffer, as many as it holds: when their places are free, in a ring."""
        self._outs_count = 0
        self._count = 0
        self._last_ps = 0
        self._last_line = -2
        self._bus_free_ps = 0
        self._ingest_free_ps = 0
        self._stage_ps = 0
        """When the last line left the queues."""
        self._media_free_ps = 0
        self._writes_free_ps = 0
        """When the medium has the writes that it was given, were there no reads but those that overtake them."""
        self._reads_from_ps = self._read_free_ps = 0
        """The reads that follow each other without a gap: from when on the medium serves the last ones, until when."""
        self._stored_ps = 0
        self._gates = Gates()
        """Lines on their way to the buffer: when they came, had places in the queue, and left the queues."""
        self._queued: dict[int, tuple[int, int]] = {}
        """Lines that came: when the write pending queue had them, and when they left it."""
        self._fetched: dict[int, int] = {}
        """XPLines that are read from the medium, and when the DIMM has them."""
        self._in_flight: dict[int, int] = {}
        """XPLines that the medium was given to write, and when it has them."""
        self._recent = RECENT
        self._asked_ps, self._settle_ps = controller.read_after_persist_ps, controller.settle_ps
        self._settles: dict[int, tuple[int, int]] = {}
        """XPLines that lines have come to: when the last one came, and until when reads wait that have asked for it."""
        self._lines_read = 0
        self._waited_ps = 0

    def write(
        self, line: int, sent_ps: int, arrive_ps: int, flush: bool, port: int | None = None, data: bool = True
    ) -> tuple[int, int]:
        """A line that was sent at ``sent_ps`` arrives; returns when the queue has it and when it is on the medium.

        ``port`` is the root port that it came from, whose lines keep their order; None: a core. Without ``data``
        it brings a directory's bits only, and reads do not wait for it as after a persist.
        """
        last_ps = self._last_ps
        if arrive_ps < last_ps:
            arrive_ps = last_ps
        else:
            self._last_ps = arrive_ps
        free_ps = self._bus_free_ps
        came_ps = (free_ps if free_ps > arrive_ps else arrive_ps) + self._accept_ps
        if self._delay_ps:
            came_ps += self._delayed_ps(line, arrive_ps, flush)
        self._bus_free_ps = came_ps
        count, places = self._count, self._places
        self._count = count + 1
        place = count % len(places)
        queued_ps = places[place]
        if queued_ps > came_ps:
            self._waited_ps += queued_ps - came_ps
        else:
            queued_ps = came_ps
        buffer = self.buffer
        if buffer is None:
            media_ps = self._media_free_ps
            left_ps = self._media_free_ps = (queued_ps if queued_ps > media_ps else media_ps) + self._unit_write_ps
            self._stage_ps = queued_ps
            if self._behind_writes_ps:
                self._give(queued_ps, self._unit_write_ps)
            self._rows.write(line, arrive_ps)
            stored_ps = left_ps + self._write_ps
        else:
            waiting, queued = self._gates.between(sent_ps)
            entered = buffer.write(line, arrive_ps, waiting, queued, port if self._port_order else None)
            left_ps, stored_ps = self._take_in(entered, line, queued_ps, count)
            self._gates.pass_at(came_ps, queued_ps, self._stage_ps)
            if self._asked_ps and data:
                self._settles[line // self._unit_lines] = (left_ps, 0)
        places[place] = left_ps
        if len(self._queued) >= self._recent:
            self._forget(arrive_ps - LONG_PS)
        self._queued[line] = (queued_ps, left_ps)
        self._stored_ps = max(self._stored_ps, stored_ps)
        return queued_ps, stored_ps

    def _take_in(self, entered: Entered, line: int, queued_ps: int, count: int) -> tuple[int, int]:
        """From the write pending queue through LSQ and XPBuffer: when the line has left the former, and is stored.

        A line that stays in the XPBuffer counts as stored when its XPLine would be, were it written right away.
        """
        before_ps, gone, after_ps, full = entered
        lsq = self._lsq
        place = count % len(lsq)
        free_ps = self._ingest_free_ps
        left_ps = self._ingest_free_ps = max(free_ps, queued_ps, lsq[place]) + self._ingest_ps
        in_flight, xpline = self._in_flight, line // self._unit_lines
        taken_ps = max(in_flight.get(xpline, 0), left_ps, self._stage_ps)
        if before_ps:
            self._give(taken_ps, before_ps)
            media_ps = self._media_free_ps
            taken_ps = self._media_free_ps = (taken_ps if taken_ps > media_ps else media_ps) + before_ps
            for victim in gone:
                in_flight[victim] = taken_ps + self._write_ps
        if after_ps:
            out = self._outs_count % len(self._outs)
            self._outs_count += 1
            taken_ps = max(taken_ps, self._outs[out])
        self._stage_ps = lsq[place] = taken_ps
        media_ps = self._media_free_ps
        start_ps = taken_ps if taken_ps > media_ps else media_ps
        if not after_ps:
            return left_ps, start_ps + self._unit_write_ps + self._write_ps
        self._give(taken_ps, after_ps)
        self._outs[out] = self._media_free_ps = start_ps + after_ps
        for written in full:
            in_flight[written] = start_ps + after_ps + self._write_ps
        return left_ps, start_ps + after_ps + self._write_ps

    def _give(self, at_ps: int, write_ps: int) -> None:
        """The medium is given a write of so long; reads wait for these, and not for the reads before them."""
        free_ps = self._writes_free_ps
        self._writes_free_ps = (at_ps if at_ps > free_ps else free_ps) + write_ps

    def _forget(self, since_ps: int) -> None:
        self._queued = {line: seen for line, seen in self._queued.items() if seen[1] > since_ps}
        self._in_flight = {xpline: ps for xpline, ps in self._in_flight.items() if ps > since_ps}
        self._settles = {xpline: seen for xpline, seen in self._settles.items() if seen[0] > since_ps}
        self._recent = max(RECENT, 2 * len(self._queued))

    def _delayed_ps(self, line: int, arrive_ps: int, flush: bool) -> int:
        """The time that the line waits where slower memory is emulated; a run goes on while its last line is coming."""
        follows = line == self._last_line + 1 and arrive_ps <= self._bus_free_ps
        self._last_line = line
        if self._delay_per == "line" or (self._delay_per == "flushed line" and flush):
            return self._delay_ps
        if self._delay_per == "flushed line":
            return 0
        return 0 if follows or (self._delay_per == "flush" and not flush) else self._delay_ps

    def read(self, line: int, lines: int, at_ps: int, issued_ps: int, lead_ps: int = 0) -> tuple[int, int]:
        """Lines of one unit of the medium are read: how long that takes, and an instant before which it waits.

        The request queues for the medium from ``at_ps`` on, and it leaves the reader at ``issued_ps``, not earlier than
        that; the first answer is from ``issued_ps`` on.

        That is when the write pending queue has them, or their XPLine has been written: they are ready so long after
        the later of ``issued_ps`` and that. A read that meets such a write is a read after persist.
        """
        self._lines_read += lines
        queued, free_ps, there = self._queued, 0, 0
        if queued:
            for each in range(line, line + lines):
                seen = queued.get(each)
                if seen is not None and seen[1] > at_ps:
                    there += 1
                    free_ps = max(free_ps, seen[0])
            if there == lines:
                return self._hit_ps, free_ps
        buffer = self.buffer
        if buffer is None:
            media_ps, gone_ps, late_ps = lines * self._unit_read_ps, 0, 0
            total_ps = 0
        else:
            xpline = line // self._unit_lines
            free_ps = max(free_ps, self._in_flight.get(xpline, 0))
            if self._settles:
                free_ps = max(free_ps, self._settled_ps(xpline, at_ps, lead_ps))
            media_ps, gone_ps, late_ps = buffer.read(line, lines)
            if not media_ps:
                return self._near_ps, max(free_ps, self._fetched.get(xpline, 0))
            total_ps = self._load_ps
        start_ps, writes_ps, reads_ps = at_ps, self._writes_free_ps, self._read_free_ps
        if writes_ps > at_ps:
            ahead_ps = writes_ps - at_ps
            if reads_ps > at_ps:  # reads that are to come overtake these writes and are no part of them
                ahead_ps -= reads_ps - max(at_ps, self._reads_from_ps)
            start_ps += min(ahead_ps, self._behind_writes_ps)
        if start_ps < reads_ps:
            start_ps = reads_ps
        else:
            self._reads_from_ps = start_ps
        self._read_free_ps = start_ps + media_ps
        if writes_ps > start_ps:
            self._writes_free_ps = writes_ps + media_ps
        if gone_ps:
            self._give(start_ps + media_ps, gone_ps)
        if buffer is None:
            near, start_ps = self._rows.read(line, start_ps)
            total_ps = self._near_ps if near else self._load_ps
        begin_ps = self._stage_ps if self._stage_ps > at_ps else at_ps
        self._media_free_ps = max(self._media_free_ps, begin_ps) + media_ps + gone_ps
        took_ps = (start_ps - issued_ps if start_ps > issued_ps else 0) + total_ps + late_ps
        if buffer is not None:  # the rest of the XPLine is not there before its first line is
            if len(self._fetched) >= RECENT:
                self._fetched = {other: ps for other, ps in self._fetched.items() if ps > at_ps}
            self._fetched[xpline] = max(issued_ps, free_ps) + max(0, took_ps - self._near_ps)
        return took_ps, free_ps

    def _settled_ps(self, xpline: int, at_ps: int, lead_ps: int) -> int:
        """Until when a read waits that asked ``lead_ps`` before ``at_ps`` for an XPLine with lines that came late."""
        came_ps, until_ps = self._settles.get(xpline, (0, 1))
        if lead_ps and at_ps - lead_ps < came_ps:
            return 0
        if not until_ps:
            until_ps = min(max(at_ps - lead_ps, came_ps) + self._asked_ps, came_ps + self._settle_ps)
            self._settles[xpline] = came_ps, until_ps
        return until_ps

    def left_ps(self, line: int) -> int:
        """When a line that came last left the write pending queue; 0 for one that was never there, or long ago."""
        return self._queued.get(line, (0, 0))[1]

    @property
    def stored_ps(self) -> int:
        """When all that arrived so far is on the medium."""
        return self._stored_ps

    @property
    def traffic(self) -> Traffic:
        """The traffic of this DIMM and its medium so far: for all lines that were sent, those that wait included."""
        written, buffer = self._count * LINE_BYTES, self.buffer
        read = self._lines_read * LINE_BYTES
        if buffer is None:
            return Traffic(written, read, written, read, 0, self._waited_ps)
        if buffer.waits:
            buffer = buffer.emptied(self._last_ps)
        media = buffer.media_written_bytes, buffer.media_read_bytes, buffer.migrations
        return Traffic(written, read, *media, self._waited_ps)


class MemoryController:
    """The DIMMs of one memory device."""

    def __init__(self, imc: ImcParameters, media: MediaParameters, dimms: int, refreshes: Refreshes = never) -> None:
        self._refreshes = refreshes
        self._chunk = max(1, (media.interleave_bytes or imc.interleave_bytes) // LINE_BYTES)
        self._count = dimms
        self._imc, self._media = imc, media
        self._unit = max(1, media.line_bytes // LINE_BYTES) if media.controller.buffer_bytes else 0
        """How many lines are read together; 0: as many as there are, each DIMM has its share."""
        self.dimms: dict[int, Dimm] = {}
        """By number, from its first line on: a restart after a crash touches few of them."""

    def _find(self, line: int) -> tuple[Dimm, int]:
        """The DIMM of a line, and the line's number there."""
        chunk, within = divmod(line, self._chunk)
        local, number = divmod(chunk, self._count)
        return self.dimms.get(number) or self._begin(number), local * self._chunk + within

    def _begin(self, number: int) -> Dimm:
        dimm = self.dimms[number] = Dimm(self._imc, self._media, number, self._refreshes(number))
        return dimm

    def write_line(
        self,
        line: int,
        arrive_ps: int,
        flush: bool = False,
        sent_ps: int | None = None,
        port: int | None = None,
    ) -> tuple[int, int]:
        """A line arrives at ``arrive_ps``; returns (in the write pending queue, on the medium).

        ``flush`` says that an instruction or a verb writes it back, not an eviction or an inbound write; ``sent_ps`` is
        when it has left for here, which is now (None: when it arrives). ``port`` is the root port that it came from,
        whose lines keep their order; None: a core.
        """
        chunk, within = divmod(line, self._chunk)  # ``_find`` written out
        local, number = divmod(chunk, self._count)
        dimm = self.dimms.get(number) or self._begin(number)
        sent_ps = arrive_ps if sent_ps is None else sent_ps
        return dimm.write(local * self._chunk + within, sent_ps, arrive_ps, flush, port)

    def write_directory(self, line: int, at_ps: int) -> None:
        """The directory's bits of a line change at ``at_ps``: its memory writes the line again."""
        dimm, local = self._find(line)
        dimm.write(local, at_ps, at_ps, False, data=False)

    def read_line(self, line: int, at_ps: int, issued_ps: int, lead_ps: int = 0) -> tuple[int, int]:
        """Read one line of a range that is asked for at ``at_ps``; the reader comes to it at ``issued_ps``.

        Returns (how long it takes from then on, an instant before which it waits). Who has asked for it ``lead_ps``
        before that has not met the lines that came since.
        """
        chunk, within = divmod(line, self._chunk)  # ``_find`` written out
        local, number = divmod(chunk, self._count)
        dimm = self.dimms.get(number) or self._begin(number)
        return dimm.read(local * self._chunk + within, 1, at_ps, issued_ps, lead_ps)

    def read_lines(self, first: int, last: int, at_ps: int, pace_ps: int = 0) -> tuple[int, int]:
        """Read a range of lines at ``at_ps``: (how long it takes, an instant before which it waits).

        All of them are ready so long after the later of the two. A reader that takes them one by one, ``pace_ps``
        apart, need not wait for lines that come while it is busy with others.
        """
        if first == last or not self._unit:
            dimm, local = self._find(first)
            share = 1 if first == last else -(-(last - first + 1) // self._count)
            return dimm.read(local, share, at_ps, at_ps)
        total_ps = free_ps = 0
        line = first
        while line <= last:
            dimm, local = self._find(line)
            lines = min(self._unit - local % self._unit, self._chunk - line % self._chunk, last - line + 1)
            took_ps, not_before_ps = dimm.read(local, lines, at_ps, at_ps)
            total_ps = max(total_ps, took_ps - (line - first) * pace_ps)
            free_ps = max(free_ps, not_before_ps)
            line += lines
        return total_ps, free_ps

    def left_ps(self, line: int) -> int:
        """When a line that came last left the write pending queue; 0 for one that was never there, or long ago."""
        dimm, local = self._find(line)
        return dimm.left_ps(local)

    def stored_ps(self, line: int) -> int:
        """When the medium has what arrived so far at the DIMM of this line."""
        number = line // self._chunk % self._count
        return self.dimms[number].stored_ps if number in self.dimms else 0

    @property
    def traffic(self) -> Traffic:
        """The traffic of this memory so far."""
        return sum((dimm.traffic for dimm in self.dimms.values()), Traffic())
