"""The last-level cache: which lines it holds, which of them are dirty, and what DDIO may do to it.

An inbound write updates a line that is there, in whatever way it is; one that is not is allocated in the I/O ways only
(Farshin et al., ATC'20; ways from MSR IIO_LLC_WAYS). When those are full, the least recently used I/O line is evicted:
"leaky DMA". Sets are not modelled: the two partitions are fully associative.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from ..sim.bytespace import LINE_BYTES
from .parameters import caches

LineKey = tuple[int, int]
"""(device number, line number within the device)."""
IoWrite = tuple[int, int, int, int]
"""An inbound write: when it is visible, its device's number, its first line and its last."""


class Llc:
    """Presence and dirtiness of lines; the bytes are in the byte spaces, which show what is coherent."""

    def __init__(self, parameters: caches.Llc) -> None:
        lines = parameters.size_bytes // LINE_BYTES
        self._io_capacity = max(1, lines * parameters.io_ways // parameters.ways)
        self._core_capacity = max(1, lines - self._io_capacity)
        self._io: OrderedDict[LineKey, bool] = OrderedDict()
        self._core: OrderedDict[LineKey, bool] = OrderedDict()

    def __contains__(self, key: LineKey) -> bool:
        return key in self._core or key in self._io

    def io_writes(self, inbox: deque[IoWrite], until_ps: int) -> list[tuple[LineKey, int]]:
        """Inbound writes with DDIO on, all until an instant; returns the dirty lines that they evict, and when.

        They are in order of time, and are taken out of ``inbox``.
        """
        core, io, capacity, evicted = self._core, self._io, self._io_capacity, []
        while inbox and inbox[0][0] <= until_ps:
            at_ps, device, line, last = inbox.popleft()
            while line <= last:
                key = (device, line)
                line += 1
                if core and key in core:
                    core[key] = True
                    core.move_to_end(key)
                    continue
                io[key] = True
                io.move_to_end(key)
                if len(io) > capacity:
                    gone = self._evict(io, capacity)
                    if gone is not None:
                        evicted.append((gone, at_ps))
        return evicted

    def core_access(self, key: LineKey, dirty: bool) -> tuple[bool, LineKey | None]:
        """A core loads or stores; returns (hit, the dirty line that it evicts, if any)."""
        core = self._core
        if key in core:  # then it is in no I/O way
            if dirty:
                core[key] = True
            core.move_to_end(key)
            return True, None
        was_dirty = self._io.pop(key, None)
        core[key] = dirty or bool(was_dirty)
        return was_dirty is not None, self._evict(core, self._core_capacity)

    def write_back(self, key: LineKey, keep: bool) -> bool:
        """A flush of the line: clean afterwards, and gone unless ``keep``; returns whether it was dirty."""
        for part in (self._io, self._core):
            if key in part:
                dirty = part.pop(key)
                if keep:
                    part[key] = False
                return dirty
        return False

    def invalidate(self, key: LineKey) -> None:
        """A non-allocating inbound write: the cached copy goes."""
        self._io.pop(key, None)
        self._core.pop(key, None)

    @staticmethod
    def _evict(part: OrderedDict[LineKey, bool], capacity: int) -> LineKey | None:
        if len(part) <= capacity:
            return None
        key, dirty = part.popitem(last=False)
        return key if dirty else None
