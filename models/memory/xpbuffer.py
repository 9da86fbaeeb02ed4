"""The contents of an Optane DIMM's buffers and tables, without any clock.

Lines of 64 B gather in a small buffer of XPLines of 256 B (XPBuffer, Yang et al., FAST'20, section 2): an XPLine whose
four lines have all come is written to the medium in one piece; one that has to go before is written nevertheless, its
other lines read first. The address indirection table (AIT) is cached on the DIMM, and blocks that are written too often
move (Wang et al., MICRO'20). Both models of the timing ask this one, in the order in which lines are sent.

While the write pending queue is full, lines wait outside: in the fill buffers of cores and on the mesh, from where the
memory controller takes them in no documented order. Which of the waiting lines goes in next is a draw here, so
that the lines of many writers come mixed, and XPLines have to go before they are complete. Where the draw falls on a
line of a root port, its first one goes: posted writes do not overtake each other. The queues behind are in order, and
combine their lines of one XPLine (LSQ; Wang et al., MICRO'20).
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from typing import NamedTuple

from ...sim.bytespace import LINE_BYTES
from ...sim.units import PS_PER_S
from ..profiles.parameters.memory import MediaParameters

NOBODY = -1
"""No XPLine has to go."""


def service_ps(n_bytes: int, bits_per_s: int) -> int:
    """How long a medium of this bandwidth is busy with so many bytes, rounded up."""
    return -(-n_bytes * 8 * PS_PER_S // bits_per_s)


class Entered(NamedTuple):
    """The work of the medium because of lines that have gone in."""

    before_ps: int
    """For how long it writes before they have their places, ..."""
    gone: tuple[int, ...]
    """... and which XPLines."""
    after_ps: int
    """For how long it writes the complete XPLines after that, ..."""
    full: tuple[int, ...]
    """... and which XPLines at once."""

    def and_then(self, other: Entered) -> Entered:
        """The work of this line and the next together."""
        gone, full = self.gone + other.gone, self.full + other.full
        return Entered(self.before_ps + other.before_ps, gone, self.after_ps + other.after_ps, full)


NOTHING = Entered(0, (), 0, ())


class XpBuffer:
    """Buffers, AIT and wear of one DIMM; counts the lines that come in and the bytes that reach the medium."""

    __slots__ = (
        "_ait",
        "_ait_pages",
        "_capacity",
        "_combines",
        "_due",
        "_full",
        "_held",
        "_hottest",
        "_lead",
        "_leader",
        "_lines",
        "_lru",
        "_order",
        "_outside",
        "_page",
        "_parameters",
        "_period_ps",
        "_ports",
        "_queue",
        "_queued",
        "_random",
        "_read",
        "_read_capacity",
        "_read_ps",
        "_sent",
        "_wear",
        "_whole",
        "_write_ps",
        "_xpline",
        "lines_read",
        "lines_written",
        "media_read_bytes",
        "media_written_bytes",
        "migrations",
    )

    def __init__(self, media: MediaParameters, seed: int = 0) -> None:
        controller = self._parameters = media.controller
        self._xpline = media.line_bytes
        self._lines = max(1, media.line_bytes // LINE_BYTES)
        self._whole = (1 << self._lines) - 1
        self._full = controller.full_lines == "at_once"
        self._period_ps = controller.full_line_period_ps if controller.full_lines == "periodic" else None
        self._capacity = max(1, controller.buffer_bytes // media.line_bytes)
        self._read_capacity = controller.read_buffer_bytes // media.line_bytes
        self._write_ps = service_ps(media.line_bytes, media.write_bandwidth_bits_per_s)
        self._read_ps = service_ps(media.line_bytes, media.read_bandwidth_bits_per_s)
        self._lru = controller.eviction == "lru"
        self._order: list[int] | None = [] if controller.eviction == "random" else None
        """The XPLines of the buffer in any order, to draw one of them."""
        self._held: dict[int, int] = {}
        """XPLine: which of its lines wait to be written, and above them a bit if all of its bytes are at hand."""
        self._read: dict[int, int] = {}
        """The read buffer, if it is one of its own: XPLine, and which of its lines no core has had yet."""
        self._due: deque[tuple[int, int]] = deque()
        """With ``periodic``: (instant, XPLine): the XPLine is written then if it is still there."""
        self._random = (seed * 2_654_435_761 + 12_345) & 0x7FFFFFFF
        self._combines = controller.lsq_combines
        self._outside: list[int] = []
        """Lines that have been sent and are not in the queues in front of the buffer yet, in any order; for each line
        of root port n, -1 - n."""
        self._ports: dict[int, deque[int]] = {}
        """The lines of each root port that are outside, in their order, by that number."""
        self._queue: dict[int, list[int]] = {}
        """Lines in those queues: XPLine by XPLine where lines are combined, else one by one."""
        self._queued = 0
        self._sent: dict[int, int] = {}
        """How often each line is in ``_outside`` and ``_queue``."""
        self._ait: dict[int, None] = {}
        self._ait_pages = controller.ait_bytes // controller.ait_page_bytes
        self._page = max(1, controller.ait_page_bytes // media.line_bytes)
        self._wear: dict[int, int] = {}
        self._hottest = controller.wear_counts == "hottest block"
        self._leader = NOBODY
        """The block that was written most of late, and ..."""
        self._lead = 0
        """... how many writes it has more than all others together since it is."""
        self.lines_written = 0
        self.lines_read = 0
        self.media_written_bytes = 0
        self.media_read_bytes = 0
        self.migrations = 0

    def write(self, line: int, at_ps: int, waiting: int = 0, queued: int = 0, port: int | None = None) -> Entered:
        """A line is sent that arrives at ``at_ps``, never earlier than before; returns the lines that go in because of
        it.

        Of the lines sent before it ``waiting`` wait now for a place in the queues, and ``queued`` are in them. The
        lines of one root port, ``port``, keep their order.
        """
        self.lines_written += 1
        outside = self._outside
        if not outside and not self._queued and not waiting and not queued:
            return self._goes_in(line, at_ps)
        if port is None:
            outside.append(line)
        else:
            outside.append(-1 - port)
            self._ports.setdefault(-1 - port, deque()).append(line)
        self._sent[line] = self._sent.get(line, 0) + 1
        return self._move(waiting, queued, at_ps)

    def _move(self, waiting: int, queued: int, at_ps: int) -> Entered:
        """Lines go on until so many are left outside and in the queues; returns those that go in."""
        outside = self._outside
        while len(outside) > waiting:
            index = self._draw(len(outside))
            outside[index], outside[-1] = outside[-1], outside[index]
            line = outside.pop()
            if line < 0:
                line = self._ports[line].popleft()
            key = line // self._lines if self._combines else self.lines_written
            self._queue.setdefault(key, []).append(line)
            self._queued += 1
        entered = NOTHING
        while self._queued > queued:
            for one in self._dequeue():
                more = self._goes_in(one, at_ps)
                if more is not NOTHING:
                    entered = entered.and_then(more)
        return entered

    @property
    def waits(self) -> bool:
        """Whether lines have been sent that are not in the buffer yet."""
        return bool(self._sent)

    def emptied(self, at_ps: int) -> XpBuffer:
        """A copy in which all lines that have been sent are in."""
        there = object.__new__(XpBuffer)
        for name in self.__slots__:
            setattr(there, name, deepcopy(getattr(self, name)))
        queued = there._queued
        while there._outside:
            there._move(len(there._outside) - 1, queued, at_ps)
        there._move(0, 0, at_ps)
        return there

    def _dequeue(self) -> list[int]:
        """The lines that leave the queue next: the first, and with ``lsq_combines`` all others of its XPLine."""
        lines = self._queue.pop(next(iter(self._queue)))
        self._queued -= len(lines)
        for line in lines:
            left = self._sent.pop(line) - 1
            if left:
                self._sent[line] = left
        return lines

    def _goes_in(self, line: int, at_ps: int) -> Entered:
        """The buffer has a line."""
        xpline = line // self._lines
        held = self._held
        before_ps, victim, after_ps, full = 0, NOBODY, self._written_back(at_ps) if self._due else 0, False
        mask = held.get(xpline)
        if mask is None:
            if len(held) >= self._capacity:
                before_ps, victim = self._evict()
            mask = self._whole + 1 if self._read and self._read.pop(xpline, None) is not None else 0
            if self._order is not None:
                self._order.append(xpline)
        elif self._lru:
            del held[xpline]
        new = mask | 1 << line % self._lines
        if new & self._whole == self._whole:
            if self._full:
                after_ps += self._write_out(xpline)
                new, full = self._whole + 1, True
            else:
                new |= self._whole + 1
                if self._period_ps is not None and mask & self._whole != self._whole:
                    self._due.append((at_ps + self._period_ps, xpline))
        held[xpline] = new
        if not before_ps and not after_ps:
            return NOTHING
        return Entered(before_ps, (victim,) if before_ps else (), after_ps, (xpline,) if full else ())

    def read(self, line: int, lines: int = 1) -> tuple[int, int, int]:
        """Lines of one XPLine are read, from ``line`` on.

        Returns for how long the medium reads, 0 where they are at hand; for how long it writes lines that had to make
        room; and by how much the read takes longer than usual.
        """
        self.lines_read += lines
        xpline, bits = line // self._lines, (1 << lines) - 1 << line % self._lines
        sent = self._sent
        if sent and all(map(sent.__contains__, range(line, line + lines))):
            return 0, 0, 0
        mask = self._held.get(xpline)
        if mask is not None and (mask > self._whole or mask & bits == bits):
            if self._lru:
                self._held[xpline] = self._held.pop(xpline)
            return 0, 0, 0
        there = self._read.get(xpline, 0)
        if there & bits == bits:  # exclusive of the CPU's caches, which have them now
            self._read[xpline] = there & ~bits
            return 0, 0, 0
        self.media_read_bytes += self._xpline
        late_ps = 0 if self._translated(xpline) else self._parameters.ait_miss_ps
        written_ps = 0
        if mask is not None:
            self._held[xpline] = mask | self._whole + 1
        elif self._read_capacity:
            self._read.pop(xpline, None)
            if len(self._read) >= self._read_capacity:
                del self._read[next(iter(self._read))]
            self._read[xpline] = self._whole & ~bits
        else:
            if len(self._held) >= self._capacity:
                written_ps += self._evict()[0]
            if self._order is not None:
                self._order.append(xpline)
            self._held[xpline] = self._whole + 1
        return self._read_ps, written_ps, late_ps

    def _draw(self, n: int) -> int:
        """A draw below ``n``, of the DIMM's own random numbers."""
        self._random = (self._random * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        return (self._random >> 8) % n

    def _evict(self) -> tuple[int, int]:
        held, order = self._held, self._order
        if order is None:
            victim = next(iter(held))
        else:
            index = self._draw(len(order))
            victim = order[index]
            order[index] = order[-1]
            order.pop()
        mask = held.pop(victim)
        if not mask & self._whole:
            return 0, NOBODY
        if mask < self._whole:  # the medium reads before it writes: the rest of the line is there in time
            self.media_read_bytes += self._xpline
        return self._write_out(victim), victim

    def _write_out(self, xpline: int) -> int:
        """The medium writes an XPLine: for how long, with the pause if its block has to move."""
        self.media_written_bytes += self._xpline
        self._translated(xpline)
        took_ps = self._write_ps
        if self._parameters.wear_writes:
            block = xpline * self._xpline // self._parameters.wear_block_bytes
            if self._wears_out(block):
                self.migrations += 1
                took_ps += self._parameters.wear_pause_ps
        return took_ps

    def _wears_out(self, block: int) -> bool:
        """Whether a block moves now that it is written once more.

        Which blocks an Optane DIMM moves is not published. That one moves which leads all others together (a majority
        vote) is the least state that has both of what is measured: a pause each 14,000 writes to one block, and none
        where the writes go to two or more in turn.
        """
        if not self._hottest:
            writes = self._wear[block] = self._wear.get(block, 0) + 1
            return writes % self._parameters.wear_writes == 0
        if block == self._leader:
            self._lead += 1
        elif self._lead:
            self._lead -= 1
        else:
            self._leader, self._lead = block, 1
        moves = self._lead >= self._parameters.wear_writes
        if moves:
            self._lead = 0
        return moves

    def _written_back(self, now_ps: int) -> int:
        """Full XPLines whose time has come are written, and stay; for how long the medium is busy with them."""
        due, took_ps = self._due, 0
        while due and due[0][0] <= now_ps:
            xpline = due.popleft()[1]
            if self._held.get(xpline, 0) & self._whole == self._whole:
                took_ps += self._write_out(xpline)
                self._held[xpline] = self._whole + 1
        return took_ps

    def _translated(self, xpline: int) -> bool:
        """Whether the AIT's cache has the page; it has it from now on. Until it is full it is as after a long run."""
        pages = self._ait_pages
        if not pages:
            return True
        ait, page = self._ait, xpline // self._page
        known = page in ait
        if known:
            del ait[page]
        elif len(ait) < pages:
            known = True
        else:
            del ait[next(iter(ait))]
        ait[page] = None
        return known
