"""What it costs a core to touch a range of memory: translation, then each line from where it is.

Loads of one instruction overlap: the core issues the next line a first-level load's time after the last one, and as
many lines as it has fill buffers may be on their way from further out (Intel 64 and IA-32 Architectures Optimization
Reference Manual, "line fill buffers"). Stores retire into the store buffer and do not wait for their lines, but each
line is read before it is written ("read for ownership"). Closed form, as interval analysis prices overlapping misses
(Karkhanis and Smith, ISCA'04): a line costs what bringing it takes over the number of fill buffers.
"""

from __future__ import annotations

from typing import Protocol

from ...sim.bytespace import LINE_BYTES
from ..profiles.platform import Platform
from .cacheset import LINE_BITS, Key, line_key
from .fillbuffers import FillBuffers
from .privatecaches import Caches, Level
from .tlb import Tlb


class Memory(Protocol):
    """What is behind the caches."""

    def left_ps(self, key: Key) -> int:
        """When a line that has left the caches is in a write pending queue; an instant of the past if none has."""

    def read_line(self, key: Key, at_ps: int) -> tuple[int, int]:
        """A line is asked for: (how long that takes, an instant before which it waits)."""

    def write_back(self, key: Key, at_ps: int, flush: bool = False) -> int:
        """A dirty line leaves the caches; returns when a write pending queue has it."""


MOST_COMING = 256
"""Above so many lines that prefetches bring, those are forgotten that have come."""


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
        self._buffers = private.fill_buffers
        self._coming: dict[Key, int] = {}
        """Lines that caches have in name only: when prefetches bring them."""
        dram = platform.memory.get("dram")
        self._flush_all_ps = llc.size_bytes * llc.flush_all_ps_per_byte
        self._walk_ps = platform.media[dram.device].load_ps if dram is not None and dram.device in platform.media else 0

    def at_hand(self, core: int, device: int, line: int) -> bool:
        """A core loads from one line; whether it is in its first level, in the page that it has used last.

        Then that is all that :meth:`cost_ps` would find.
        """
        if self._coming:
            return False
        key = device << LINE_BITS | line
        if self._parameters.entries:
            tlb = self._tlbs.get(core)
            if tlb is None or key // tlb.page_lines != tlb.last:
                return False
        return self._caches.in_l1(core, key)

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
        """From ``start_ps``, which is now, until the range is loaded, or stored into the store buffer.

        Without ``wait``, until it is on its way: a prefetch.
        """
        caches, coming, at_ps = self._caches, self._coming, start_ps
        if self._parameters.entries:
            at_ps += self._walks_ps(core, device, offset, length, start_ps)
        last = line_key(device, (offset + length - 1) // LINE_BYTES)
        done_ps = 0
        for key in range(line_key(device, offset // LINE_BYTES), last + 1 if length else 0):
            level = caches.access(core, key, dirty)
            if caches.evicted:
                self._evict(start_ps)
            if level is not Level.L1:
                took_ps, not_before_ps = self._level_ps[level], 0
                if level is Level.MEMORY:
                    took_ps, not_before_ps = self._memory.read_line(key, start_ps)
                if dirty and level is Level.MEMORY:  # behind what this line still has to bring to memory
                    at_ps = max(at_ps, self._memory.left_ps(key))
                at_ps = fills.free_ps(at_ps)
                if dirty:  # the store buffer hides the rest
                    fills.take(at_ps + took_ps)
                    at_ps += took_ps // self._buffers
                else:
                    ready_ps = (at_ps if at_ps > not_before_ps else not_before_ps) + took_ps
                    fills.take(ready_ps)
                    if not wait:
                        self._comes(key, ready_ps, start_ps)
                    elif ready_ps > done_ps:
                        done_ps = ready_ps
            if coming and wait and not dirty:
                done_ps = max(done_ps, coming.get(key, 0))
            at_ps += self._store_ps if dirty else self._load_ps
        return (at_ps if at_ps > done_ps else done_ps) - start_ps

    def _comes(self, key: Key, ready_ps: int, now_ps: int) -> None:
        """A prefetch brings a line."""
        if len(self._coming) >= MOST_COMING:
            self._coming = {other: ps for other, ps in self._coming.items() if ps > now_ps}
        self._coming[key] = ready_ps

    def walks(self, core: int, device: int, offset: int, length: int) -> list[int]:
        """How long each page walk takes that has to come first."""
        tlb = self._tlbs.get(core)
        if tlb is None:
            tlb = self._tlbs[core] = Tlb(self._parameters)
        found = []
        for key in tlb.misses(device, offset, length):
            level = self._caches.access(core, key, False)
            found.append(self._walk_ps if level is Level.MEMORY else self._level_ps[level])
        self._caches.counters.walks += len(found)
        return found

    def flush_all(self, at_ps: int) -> int:
        """All dirty lines leave and nothing is cached any more; returns when write pending queues have them.

        Walking through the whole cache takes its time, however little is dirty.
        """
        done_ps = at_ps + self._flush_all_ps
        for key in self._caches.flush_all():
            done_ps = max(done_ps, self._memory.write_back(key, at_ps, flush=True))
        return done_ps

    def _walks_ps(self, core: int, device: int, offset: int, length: int, start_ps: int) -> int:
        total_ps = sum(self.walks(core, device, offset, length))
        if self._caches.evicted:
            self._evict(start_ps)
        return total_ps

    def _evict(self, at_ps: int) -> None:
        evicted, self._caches.evicted = self._caches.evicted, []
        for key in evicted:
            self._memory.write_back(key, at_ps)
