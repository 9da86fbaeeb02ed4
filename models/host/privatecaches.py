"""All caches of a host: a first and a second level for each core, over the shared one.

Who holds a line: private caches, or the last-level cache, never both (Skylake-SP and later: the shared cache takes what
the second levels evict; Intel 64 and IA-32 Architectures Optimization Reference Manual). Several cores may hold a clean
copy. One of them may have it dirty: it has to write the line back even after others have read it, and hands that duty
on when it evicts the line. A second level has all lines of its first level.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum

from ...sim.bytespace import LINE_BYTES
from ...sim.streams import Streams
from ..profiles.parameters import caches
from .cacheset import DIRTY, LINE_BITS, Key, Tags
from .llc import CacheCounters, IoWrite, Llc, Traffic


def victims_from(streams: Streams, device: int, socket: int = 0) -> int:
    """The seed for choosing lines to evict, in a socket of the host whose first memory device has this number."""
    which = f", socket {socket}" if socket else ""
    return int(streams.stream(f"cache victims of the host of device {device}{which}").integers(1 << 62))


class Level(IntEnum):
    """Where a core's load finds a line."""

    L1 = 0
    L2 = 1
    LLC = 2
    """In the shared cache, or in another core's private caches."""
    MEMORY = 3


_L1, _L2, _LLC, _MEMORY = Level


class PrivateCaches:
    """The first and second level of one core; the second level's tags say which lines are dirty."""

    __slots__ = ("bit", "l1", "l2")

    def __init__(self, parameters: caches.PrivateCacheParameters, bit: int) -> None:
        self.bit = bit
        self.l2 = Tags(parameters.l2_bytes // LINE_BYTES, parameters.l2_ways)
        self.l1 = Tags(parameters.l1_bytes // LINE_BYTES, parameters.l1_ways)


class Caches:
    """The caches of a host. Cores are numbered; a core's private caches come into being at its first access."""

    def __init__(
        self, llc: caches.LlcParameters, private: caches.PrivateCacheParameters, seed: Callable[[], int] = lambda: 1
    ) -> None:
        self.counters = CacheCounters()
        self.llc = Llc(llc, self.counters, seed)
        self.evicted: list[Key] = []
        """Dirty lines that have to go to memory; the caller takes them from here."""
        self.taken: dict[Key, list[Callable[[], None]]] = {}
        """By line: the calls to make when a core takes it from the others, to store to it."""
        self._parameters = private
        self._private: dict[int, PrivateCaches] = {}
        self._alone: dict[int, tuple[PrivateCaches]] = {}
        """By the bit of a core: its caches, as what :meth:`_of` returns where it is the only holder; almost always."""
        self._holders: dict[Key, int] = {}
        """The cores that hold a line, a bit for each."""

    def __contains__(self, key: Key) -> bool:
        return key in self.llc.tags.state or key in self._holders

    def io_writes(self, inbox: deque[IoWrite], until_ps: int) -> list[Traffic]:
        """Inbound writes with DDIO on (:meth:`models.host.llc.Llc.io_writes`)."""
        return self.llc.io_writes(inbox, until_ps, self._holders, self._snoop)

    def dma_reads(self, device: int, lines: range) -> bool:
        """A device reads a range of a memory's lines; whether caches have all of it. It allocates nothing."""
        state, holders, base = self.llc.tags.state, self._holders, device << LINE_BITS
        keys = range(base | lines.start, base | lines.stop) if lines else ()
        found = sum(map(state.__contains__, keys))
        if found < len(keys) and holders:  # no line is in both
            found += sum(map(holders.__contains__, keys))
        self.counters.dma_read_hits += found
        self.counters.dma_read_misses += len(keys) - found
        return found == len(keys)

    def access(self, core: int, key: Key, dirty: bool) -> Level:
        """A core loads or stores; returns where the line was. Lines that go to memory for it are in ``evicted``."""
        counters = self.counters
        own = self._private.get(core)
        if own is None:
            if not self._parameters.l2_bytes:
                return self._shared_access(key, dirty)
            own = self._private[core] = PrivateCaches(self._parameters, 1 << len(self._private))
            self._alone[own.bit] = (own,)
        l1, l2, holders = own.l1, own.l2, self._holders
        if key in l2.state:
            if dirty:  # in no other cache from now on
                if not l2.state[key] & DIRTY or holders[key] != own.bit:
                    self._take_from_others(key, own)
                l2.state[key] |= DIRTY
            if key in l1.state:
                l1.tick = tick = l1.tick + l1.step  # as ``Tags.use``
                l1.state[key] = tick | l1.state[key] & DIRTY
                counters.l1_hits += 1
                return _L1
            l2.use(key)
            l1.put(key, 0)
            counters.l2_hits += 1
            return _L2
        level, held = _LLC, holders.get(key, 0)
        if held:
            counters.llc_hits += 1
            was_dirty = self._take_from_others(key, own) if dirty else 0
            held = holders[key]
        elif key in self.llc.tags.state:
            counters.llc_hits += 1
            was_dirty = self.llc.tags.state.pop(key) & DIRTY
        else:
            counters.core_misses += 1
            level, was_dirty = _MEMORY, 0
        gone, gone_dirty = l2.put(key, was_dirty | dirty)
        holders[key] = held | own.bit
        if gone >= 0:
            l1.state.pop(gone, None)
            self._victim(gone, own, gone_dirty)
        l1.put(key, 0)
        return level

    def are_near(self, core: int, device: int, lines: range) -> bool:
        """Whether a core has all these lines of a memory in its first level."""
        own, base = self._private.get(core), device << LINE_BITS
        return own is not None and all(map(own.l1.state.__contains__, range(base | lines.start, base | lines.stop)))

    def flush(self, key: Key, keep: bool) -> bool:
        """The line is written back wherever it is: clean afterwards, and gone unless ``keep``; whether it was dirty."""
        holders = self._holders.get(key, 0)
        if not holders:
            tags = self.llc.tags
            dirty = tags.clean(key) if keep else tags.state.pop(key, 0) & DIRTY
        elif keep:
            dirty = 0
            for own in self._alone.get(holders) or self._of(holders):
                dirty |= own.l2.clean(key)
        else:
            dirty = self._snoop(key)
        self.counters.flushed += dirty
        return bool(dirty)

    def flush_all(self) -> list[Key]:
        """``wbinvd``, or eADR's flush when power fails: empty all caches; returns the lines that were dirty."""
        dirty = self.llc.tags.dirty()
        self.llc.tags.clear()
        for _, own in sorted(self._private.items()):
            dirty += own.l2.dirty()
            own.l1.clear()
            own.l2.clear()
        self._holders.clear()
        self.counters.flushed += len(dirty)
        return dirty

    def _of(self, holders: int) -> list[PrivateCaches]:
        return [own for own in self._private.values() if own.bit & holders]

    def _shared_access(self, key: Key, dirty: bool) -> Level:
        """Without private caches cores use the shared one, all of its ways."""
        tags = self.llc.tags
        if key in tags.state:
            tags.use(key, dirty)
            self.counters.llc_hits += 1
            return Level.LLC
        self.counters.core_misses += 1
        self._put_shared(key, int(dirty))
        return Level.MEMORY

    def _take_from_others(self, key: Key, own: PrivateCaches) -> int:
        """Drop all other copies of a line before a core stores to it; returns 1 if one of them was dirty."""
        others, dirty = self._holders.get(key, 0) & ~own.bit, 0
        if others:
            for other in self._alone.get(others) or self._of(others):
                other.l1.state.pop(key, None)
                dirty |= other.l2.state.pop(key, 0) & DIRTY
            self._holders[key] &= own.bit
            for call in tuple(self.taken.get(key, ())):
                call()
        return dirty

    def _victim(self, key: Key, own: PrivateCaches, dirty: int) -> None:
        """A second level has evicted a line: the last one that held it hands it to the shared cache."""
        rest = self._holders[key] & ~own.bit
        if rest:
            self._holders[key] = rest
            if dirty:
                heir = self._of(rest)[0].l2
                heir.state[key] |= 1
            return
        del self._holders[key]
        self._put_shared(key, dirty)

    def _put_shared(self, key: Key, dirty: int) -> None:
        gone = self.llc.put(key, dirty)
        if gone is not None:
            self.evicted.append(gone)

    def _snoop(self, key: Key) -> int:
        """Take a line out of all private caches; returns 1 if it was dirty."""
        holders, dirty = self._holders.pop(key, 0), 0
        for own in self._alone.get(holders) or self._of(holders):
            own.l1.state.pop(key, None)
            dirty |= own.l2.state.pop(key, 0) & DIRTY
        return dirty
