"""The time that a core takes to touch a range of memory: translation, then each line from the place that holds it.

Loads of one instruction overlap: the core issues the next line a first-level load's time after the last one, and as
many lines as it has fill buffers may be on their way from further out (Intel 64 and IA-32 Architectures Optimization
Reference Manual, "line fill buffers"). Stores retire into the store buffer and do not wait for their lines, but each
line is read before it is written ("read for ownership"), which takes a fill buffer: a stream of stores goes as one of
loads. A line is written back, and a fence goes on, once the core has it. Fences order what becomes visible, not what is
read: a store so soon behind a fence that a core which runs ahead has come to it meanwhile has asked for its line then.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import Protocol

from ...sim.bytespace import LINE_BYTES
from ..profiles.platform import Platform
from .cacheset import LINE_BITS, Key
from .fillbuffers import FillBuffers
from .prefetcher import NO_STREAM, PAGE_LINES, Prefetcher
from .privatecaches import Caches, Level
from .tlb import Tlb


class Memory(Protocol):
    """The memory behind the caches. Instants and durations are picoseconds."""

    def left_ps(self, key: Key) -> int:
        """When a line that left the caches is in a write pending queue; an instant of the past if it did not leave."""

    def read_line(self, key: Key, at_ps: int, issued_ps: int, lead_ps: int = 0) -> tuple[int, int]:
        """Read a line: (how long that takes, the instant until which the read has to wait first).

        ``at_ps`` is when the instruction begins that touches it, ``issued_ps`` when the core comes to it; somebody has
        asked for it ``lead_ps`` before the former.
        """

    def write_back(self, key: Key, at_ps: int, flush: bool = False) -> int:
        """A dirty line leaves the caches; returns when a write pending queue has it."""


_L1, _MEMORY = Level.L1, Level.MEMORY
MOST_COMING = 256
"""With fewer prefetched lines than this on record, the ones that have arrived are not forgotten."""


class CacheAccess:
    """The cores' side of a host's caches."""

    def __init__(self, platform: Platform, caches: Caches, memory: Memory) -> None:
        cpu, private, llc = platform.cpu, platform.private, platform.llc
        self._caches = caches
        self._memory = memory
        self._parameters = platform.tlb
        self._tlbs: dict[int, Tlb] = {}
        self._load_ps = cpu.load_ps
        self._store_ps = cpu.store_ps
        self._level_ps = (cpu.load_ps, private.l2_load_ps or cpu.load_ps, llc.load_ps or cpu.load_ps, 0)
        self._private_bytes = private.l2_bytes
        self._near_ps = self._level_ps[1]
        self._buffers = private.fill_buffers
        self._ahead = private.prefetch_lines
        self._prefetchers: dict[int, Prefetcher] = {}
        """By core, where they have prefetchers."""
        self._waited = private.read_for_ownership == "waited"
        self.owned: dict[Key, int] = {}
        """Lines that cores have stored to before they had them: the instant at which each comes."""
        self._coming: dict[Key, int] = {}
        """Lines whose tags are in the caches before their data: the instant at which a prefetch brings each."""
        self._most_owned = self._most_coming = MOST_COMING
        """With so many on record those that have come are forgotten; twice as many as are left then, so that a long
        range of lines that are still to come does not have them all looked at for each.
        """
        dram = platform.memory.get("dram")
        self._flush_all_ps = llc.size_bytes * llc.flush_all_ps_per_byte
        self._victims_hold = llc.victims_hold
        self._walk_ps = platform.media[dram.device].load_ps if dram is not None and dram.device in platform.media else 0

    def cost_ps(
        self,
        core: int,
        fills: FillBuffers,
        device: int,
        offset: int,
        length: int,
        dirty: bool,
        start_ps: int,
        wait: bool = True,
    ) -> int:
        """The time from ``start_ps``, which is now, until the range is loaded, or stored into the store buffer.

        Without ``wait``, the time until all lines are on their way: a prefetch.
        """
        caches, coming, at_ps, done_ps = self._caches, self._coming, start_ps, 0
        base = device << LINE_BITS
        first, last = base | offset // LINE_BYTES, base | (offset + length - 1) // LINE_BYTES
        if self._parameters.entries:
            tlb = self._tlbs.get(core)
            if tlb is None:
                tlb = self._tlbs[core] = Tlb(self._parameters)
            if tlb.last != first // tlb.page_lines or tlb.last != last // tlb.page_lines:
                missed = tlb.misses(device, offset, length)
                if missed:
                    at_ps += self._walk(core, missed, start_ps)
        each_ps = self._store_ps if dirty else self._load_ps
        stream, within, waited, fenced_ps = NO_STREAM, -1, dirty and self._waited, 0
        if waited:
            fenced_ps = fills.ran_ahead_ps(start_ps)
            if len(self.owned) >= self._most_owned:
                self.owned, self._most_owned = _to_come(self.owned, start_ps)
        elif not wait and len(coming) >= self._most_coming:
            coming, self._most_coming = _to_come(coming, start_ps)
            self._coming = coming
        for key in range(first, last + 1) if length else ():
            level = caches.access(core, key, dirty)
            if level is not _L1:
                victim_ps = self._evict(start_ps) if caches.evicted else 0
                took_ps, not_before_ps, busy_ps, lead_ps = self._level_ps[level], 0, fills.busy_ps, fenced_ps
                if self._ahead:
                    if key // PAGE_LINES != within:
                        within = key // PAGE_LINES
                        streams = self._prefetchers.get(core) or self._prefetcher(core)
                        stream = streams.follow(key, min(last, key | PAGE_LINES - 1), dirty, start_ps)
                    if key - stream.first > 1:
                        busy_ps = fills.streams.busy_ps
                        if level is _MEMORY and stream.front > stream.first and fills.streams is not fills:
                            lead_ps = max(lead_ps, self._prefetchers[core].lead_ps(stream, key, start_ps))
                at_ps = max(at_ps, busy_ps[0])
                if level is _MEMORY:
                    left_ps = self._memory.left_ps(key) if dirty or lead_ps else 0
                    if left_ps > start_ps - lead_ps:  # nobody has asked for it since the core gave it up
                        lead_ps = 0
                    if dirty and left_ps > at_ps:  # behind what this line still has to bring to memory
                        at_ps = left_ps
                    took_ps, not_before_ps = self._memory.read_line(key, start_ps, at_ps, lead_ps)
                    if lead_ps:
                        took_ps = max(self._near_ps, took_ps - lead_ps)
                shared_ps = took_ps // self._buffers
                if victim_ps:  # its buffer has the data until the line that had to go is in the queue
                    took_ps = max(took_ps, victim_ps - max(at_ps, not_before_ps))
                ready_ps = (at_ps if at_ps > not_before_ps or (dirty and not waited) else not_before_ps) + took_ps
                heapreplace(busy_ps, ready_ps)  # ``FillBuffers.take``
                if dirty:
                    if waited:
                        self.owned[key] = ready_ps
                        fills.stored_ps = max(fills.stored_ps, ready_ps)
                    at_ps += shared_ps  # the store buffer hides the rest
                elif not wait:
                    coming[key] = ready_ps
                elif ready_ps > done_ps:
                    done_ps = ready_ps
            if coming and wait and not dirty:
                done_ps = max(done_ps, coming.get(key, 0))
            at_ps += each_ps
        return (at_ps if at_ps > done_ps else done_ps) - start_ps

    def _prefetcher(self, core: int) -> Prefetcher:
        prefetcher = self._prefetchers[core] = Prefetcher(self._ahead)
        return prefetcher

    def hit_ps(self, offset: int, length: int) -> int | None:
        """How long a core loads a range that is in its first-level cache; None without such caches."""
        if not self._private_bytes:
            return None
        return ((offset + length - 1) // LINE_BYTES - offset // LINE_BYTES + 1) * self._load_ps

    def _walk(self, core: int, entries: list[Key], start_ps: int) -> int:
        """How long page walks take that load these entries of the page tables."""
        took_ps = 0
        for key in entries:
            level = self._caches.access(core, key, False)
            took_ps += self._walk_ps if level is _MEMORY else self._level_ps[level]
        self._caches.counters.walks += len(entries)
        if self._caches.evicted:
            self._evict(start_ps)
        return took_ps

    def flush_all(self, at_ps: int) -> int:
        """Write all dirty lines back and empty the caches; returns when the write pending queues have the lines.

        Walking through the whole cache takes the same time however few lines are dirty.
        """
        done_ps = at_ps + self._flush_all_ps
        for key in self._caches.flush_all():
            done_ps = max(done_ps, self._memory.write_back(key, at_ps, flush=True))
        return done_ps

    def _evict(self, at_ps: int) -> int:
        """Lines that had to go leave for memory; returns when a queue has them, 0 where nobody waits for that."""
        evicted, self._caches.evicted = self._caches.evicted, []
        last_ps = max([self._memory.write_back(key, at_ps) for key in evicted])
        return last_ps if self._victims_hold else 0


def _to_come(lines: dict[Key, int], now_ps: int) -> tuple[dict[Key, int], int]:
    """The lines that are still to come, and with how many on record to look again."""
    left = {key: ps for key, ps in lines.items() if ps > now_ps}
    return left, max(MOST_COMING, 2 * len(left))
