"""The home agent behind the caches of a host: its memory controllers, and the lines on their way to them.

The home agent orders each access to a line behind that line's way to memory: a load, a store or a flush of a line that
has left the caches, or the IIO's write cache, waits until a write pending queue has it.
"""

from __future__ import annotations

from ...sim.clock import Clock
from ...sim.streams import Streams
from ...sim.trace import Trace
from ..memory.devices import AddressSpace
from ..memory.dram import refreshes
from ..memory.imc import MemoryController, Traffic
from ..profiles.platform import Platform
from .cacheset import LINE_BITS, LINE_MASK, Key

UNDER_WAY_LINES = 4096
"""With more lines than this on record, and twice what the last time left, the ones that have arrived are forgotten."""


class HomeAgent:
    """The home agent of one host. Calls come in order of time; lines are named as in the caches (``Key``)."""

    def __init__(self, clock: Clock, trace: Trace, platform: Platform, memory: AddressSpace, streams: Streams) -> None:
        self._clock = clock
        self._trace = trace
        self._platform = platform
        self._devices = {device.number: device for device in memory.devices.values()}
        self._controllers = {
            device.number: MemoryController(
                platform.imc,
                platform.media[device.kind],
                device.dimms,
                refreshes(platform.tails, platform.media[device.kind], streams, device.number),
            )
            for device in memory.devices.values()
            if device.kind in platform.media
        }
        self._under_way: dict[Key, int] = {}
        """Lines that left for memory, and when a write pending queue has them (forgotten some time after that)."""
        self._most_under_way = UNDER_WAY_LINES

    def left_ps(self, key: Key) -> int:
        """When a line that left the caches is in a write pending queue; an instant of the past if it did not leave."""
        return self._under_way.get(key, 0)

    def read_line(self, key: Key, at_ps: int, issued_ps: int, lead_ps: int = 0) -> tuple[int, int]:
        """Read a line: (how long that takes, the instant until which the read has to wait first).

        ``at_ps`` is when the range is asked for that the line is part of, ``issued_ps`` when the reader comes to it;
        somebody has asked for it ``lead_ps`` before the former.
        """
        return self._controllers[key >> LINE_BITS].read_line(key & LINE_MASK, at_ps, issued_ps, lead_ps)

    def read_lines(self, number: int, first: int, last: int, at_ps: int, pace_ps: int) -> tuple[int, int]:
        """As :meth:`read_line`, of a range of a device's lines; the reader takes one line each ``pace_ps``."""
        return self._controllers[number].read_lines(first, last, at_ps, pace_ps)

    def write_back(self, key: Key, at_ps: int, flush: bool = False, port: int | None = None) -> int:
        """A dirty line leaves the caches at ``at_ps``; returns when a write pending queue has it.

        ``flush``: an instruction or a verb caused it, not an eviction. ``port``: a write from this root port did, whose
        lines keep their order; None: a core.
        """
        number, line = key >> LINE_BITS, key & LINE_MASK
        device = self._devices[number]
        queued_ps, stored_ps = self.queue(key, at_ps, self._platform.media[device.kind].clwb_to_wpq_ps, flush, port)
        if device.traced:
            self._trace.wrote_back(number, line, at_ps, queued_ps, stored_ps)
        return queued_ps

    def queue(self, key: Key, at_ps: int, way_ps: int, flush: bool = False, port: int | None = None) -> tuple[int, int]:
        """A line leaves for memory at ``at_ps``: undisturbed it is queued ``way_ps`` later, the acceptance included.

        ``port`` is that of :meth:`write_back`. Returns when a write pending queue has it, and when the medium has.
        """
        number, line = key >> LINE_BITS, key & LINE_MASK
        arrive_ps = at_ps + max(0, way_ps - self._platform.imc.wpq_accept_ps)
        queued_ps, stored_ps = self._controllers[number].write_line(line, arrive_ps, flush, at_ps, port)
        if len(self._under_way) >= self._most_under_way:
            now_ps = self._clock.now_ps
            self._under_way = {other: ps for other, ps in self._under_way.items() if ps > now_ps}
            self._most_under_way = max(UNDER_WAY_LINES, 2 * len(self._under_way))
        self._under_way[key] = queued_ps
        return queued_ps, stored_ps

    def drained_ps(self, number: int, line: int) -> int:
        """When the last write of a device's line had left the write pending queue of its DIMM; 0 without one."""
        return self._controllers[number].left_ps(line)

    def stored_ps(self, number: int, line: int) -> int:
        """When the medium has what arrived so far at the DIMM of a device's line."""
        return self._controllers[number].stored_ps(line)

    def traffic(self, number: int) -> Traffic:
        """The traffic of a device and of its media so far."""
        return self._controllers[number].traffic
