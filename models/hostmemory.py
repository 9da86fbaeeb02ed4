"""A host's coherent memory: root complex, last-level cache and memory controllers, over the node's devices.

Inbound DMA writes and cores meet here. Each way in says when bytes become visible (the byte spaces) and how far they
got (the trace); what certainly happened, in any timing, is the ordering rules' business (``models.ordering``).
"""

from __future__ import annotations

from ..sim.bytespace import LINE_BYTES, lines
from ..sim.clock import Clock
from ..sim.trace import NEVER, Chunk, Stage, Trace
from .imc import MemoryController
from .llc import LineKey, Llc
from .memory import DEVICE_SPAN_BITS, DEVICE_SPAN_BYTES, AddressSpace, MemoryDevice
from .places import Path
from .platform import Platform

_OFFSET = DEVICE_SPAN_BYTES - 1

UNDER_WAY_LINES = 4096
"""Above so many, lines that have arrived are forgotten."""


class HostMemory:
    """What lies behind the root port and below the cores of one node."""

    def __init__(self, clock: Clock, trace: Trace, platform: Platform, memory: AddressSpace) -> None:
        self.clock = clock
        self.trace = trace
        self.memory = memory
        self._devices = memory.by_index
        self.ddio = platform.llc.ddio
        self._posted_write_ps = platform.pcie.posted_write_ps
        self._load_ps = platform.cpu.load_ps
        self._platform = platform
        self.llc = Llc(platform.llc)
        self._controllers = {
            device.number: MemoryController(platform.imc, platform.media[device.kind], device.dimms)
            for device in memory.devices.values()
        }
        self._by_number = {device.number: device for device in memory.devices.values()}
        self._under_way: dict[LineKey, int] = {}
        """Lines that left for memory, and when a write pending queue has them (forgotten some time after that)."""
        self._untraced = 0
        self.last_visible_ps = 0
        """When everything that came through the root port so far is visible (it keeps order)."""
        self.last_queued_ps = 0
        """With DDIO off: when everything that came through the root port so far is in a write pending queue."""

    # from the root port, in order of arrival ------------------------------------------------------------------
    def dma_write(
        self, address: int, data: bytes, channel: int, writer: str, accepted_ps: int, transit_ps: int, arrive_ps: int
    ) -> int:
        """An inbound write reaches the root complex at ``arrive_ps``; returns when it is visible."""
        device, offset = self._devices[address >> DEVICE_SPAN_BITS], address & _OFFSET
        visible_ps = arrive_ps + self._posted_write_ps
        last_ps = self.last_visible_ps
        self.last_visible_ps = visible_ps if visible_ps > last_ps else last_ps
        length, device_number = len(data), device.number
        end = offset + length
        if self.ddio:
            touched = range(offset // LINE_BYTES, (end - 1) // LINE_BYTES + 1)
            for evicted in self.llc.io_write_lines(device_number, touched):
                self._write_back(evicted, visible_ps)
        else:
            for line in lines(offset, length):
                key = (device_number, line)
                self.llc.invalidate(key)
                queued_ps, stored_ps = self._queue(key, visible_ps, self._platform.llc.iio_wc_drain_ps)
                self.last_queued_ps = max(self.last_queued_ps, queued_ps)
                if device.traced:
                    self.trace.wrote_back(device_number, line, visible_ps, queued_ps, stored_ps)
        if device.traced:
            path = Path.DMA_DDIO if self.ddio else Path.DMA_NO_DDIO
            reached = [accepted_ps, transit_ps, visible_ps, NEVER, NEVER]
            number = self.trace.write(device_number, channel, offset, data, path, writer, reached).number
        else:
            number = self._untraced = self._untraced + 1
        device.space.write_at(visible_ps, channel, number, offset, data)
        return visible_ps

    def read_ready_ps(self, arrive_ps: int) -> int:
        """When a DMA read that reaches the root complex at ``arrive_ps`` may be served: behind all posted writes.

        With DDIO off it also waits until they are in the write pending queues (Intel's appliance persistency method).
        """
        behind_ps = self.last_visible_ps if self.ddio else max(self.last_visible_ps, self.last_queued_ps)
        return max(arrive_ps, behind_ps)

    def dma_read_ps(self, address: int, length: int) -> int:
        """Round trip of a DMA read without serialisation: shorter from the cache, longer from slow media."""
        device, offset = self.memory.locate(address)
        pcie, media = self._platform.pcie, self._platform.media[device.kind]
        if all((device.number, line) in self.llc for line in lines(offset, length)):
            return pcie.dma_read_ps - self._platform.llc.dma_read_hit_saving_ps
        return pcie.dma_read_ps + media.dma_read_extra_ps

    @property
    def wqe_read_ps(self) -> int:
        """Round trip of the fetch of a WQE, which the core has just written: a hit."""
        return self._platform.pcie.dma_read_ps - self._platform.llc.dma_read_hit_saving_ps

    def dma_read(self, now_ps: int, address: int, length: int) -> tuple[bytes, list[Chunk]]:
        """What a DMA read at ``now_ps`` returns, and which chunks the bytes prove to be visible."""
        device, offset = self._devices[address >> DEVICE_SPAN_BITS], address & _OFFSET
        data = device.space.read(now_ps, offset, length)
        if not device.traced:
            return data, []
        # Somebody may have read at a later instant before: then these bytes are as new as that.
        return data, self.trace.observed(device.number, offset, length, max(now_ps, device.space.caught_up_ps))

    # from the cores --------------------------------------------------------------------------------------
    def load(self, now_ps: int, address: int, length: int) -> tuple[bytes, list[Chunk]]:
        """What a load at ``now_ps`` returns, and which chunks the bytes prove to be visible."""
        return self.dma_read(now_ps, address, length)

    def access_ps(self, address: int, length: int, dirty: bool, start_ps: int) -> int:
        """How long a core takes to touch these lines: one after the other, from cache or from the device.

        A line that has left the caches and is not in a write pending queue yet is waited for: the home agent orders
        the access behind it.
        """
        device, offset = self._devices[address >> DEVICE_SPAN_BITS], address & _OFFSET
        first = offset // LINE_BYTES
        if not dirty and length and (offset + length - 1) // LINE_BYTES == first:
            # One line to load, most often one that is there.
            hit, evicted = self.llc.core_access((device.number, first), False)
            if hit:
                return self._load_ps
            if evicted is not None:
                self._write_back(evicted, start_ps)
            return max(0, self._under_way.get((device.number, first), 0) - start_ps) + (
                self._platform.media[device.kind].load_ps
            )
        cpu, media = self._platform.cpu, self._platform.media[device.kind]
        total_ps = 0
        for line in lines(offset, length):
            hit, evicted = self.llc.core_access((device.number, line), dirty)
            if not hit and (device.number, line) in self._under_way:
                total_ps = max(total_ps, self._under_way[device.number, line] - start_ps)
            total_ps += (cpu.store_ps if dirty else cpu.load_ps) if hit or dirty else media.load_ps
            if evicted is not None:
                self._write_back(evicted, start_ps)
        return total_ps

    def store(self, address: int, data: bytes, channel: int, writer: str, at_ps: int) -> None:
        """A core's store retires into its store buffer at ``at_ps``, and shows in this timing at once."""
        device, offset = self.memory.locate(address)
        done = 0
        while done < len(data):  # one chunk a line: stores of one core to one line persist in their order
            take = min(LINE_BYTES - (offset + done) % LINE_BYTES, len(data) - done)
            piece = data[done : done + take]
            reached = [at_ps, at_ps, at_ps, NEVER, NEVER]
            self._written(device, offset + done, piece, channel, Path.STORE, writer, reached)
            done += take

    def ntstore(self, address: int, data: bytes, channel: int, writer: str, at_ps: int) -> int:
        """Non-temporal stores leave their write-combining buffers at ``at_ps``; returns when all are queued."""
        device, offset = self.memory.locate(address)
        done, last_ps = 0, at_ps
        while done < len(data):
            take = min(LINE_BYTES - (offset + done) % LINE_BYTES, len(data) - done)
            piece, line = data[done : done + take], (offset + done) // LINE_BYTES
            key = (device.number, line)
            dirty = self.llc.write_back(key, keep=False)
            queued_ps, stored_ps = self._queue(key, at_ps, self._platform.media[device.kind].ntstore_to_wpq_ps)
            if dirty and device.traced:  # what the cache had goes along
                self.trace.wrote_back(device.number, line, at_ps, queued_ps, stored_ps)
            last_ps = max(last_ps, queued_ps)
            reached = [at_ps, at_ps, queued_ps, queued_ps, stored_ps]
            self._written(device, offset + done, piece, channel, Path.NTSTORE, writer, reached)
            done += take
        return last_ps

    def flush_line(self, device: MemoryDevice, line: int, issued_ps: int, keep: bool) -> int:
        """A core writes a line back; returns when the write pending queue has it (at once if there was nothing).

        A line that is on its way there (from the IIO's write cache, evicted, written back by another core) is waited
        for: the home agent orders the flush behind it.
        """
        key = (device.number, line)
        drained_ps = max(issued_ps, self._under_way.get(key, 0))
        if not self.llc.write_back(key, keep):
            return drained_ps
        return max(drained_ps, self._write_back(key, issued_ps))

    def _written(
        self, device: MemoryDevice, offset: int, data: bytes, channel: int, path: Path, writer: str, reached: list[int]
    ) -> None:
        """Let bytes appear when they are visible; what may outlive a power failure is traced."""
        if device.traced:
            number = self.trace.write(device.number, channel, offset, data, path, writer, reached).number
        else:
            number = self._untraced = self._untraced + 1
        device.space.write_at(reached[Stage.VISIBLE], channel, number, offset, data)

    def _write_back(self, key: LineKey, at_ps: int) -> int:
        number, line = key
        queued_ps, stored_ps = self._queue(
            key, at_ps, self._platform.media[self._by_number[number].kind].clwb_to_wpq_ps
        )
        if self._by_number[number].traced:
            self.trace.wrote_back(number, line, at_ps, queued_ps, stored_ps)
        return queued_ps

    def _queue(self, key: LineKey, at_ps: int, way_ps: int) -> tuple[int, int]:
        """A line leaves for memory at ``at_ps``: undisturbed it is queued ``way_ps`` later, the acceptance included."""
        number, line = key
        arrive_ps = at_ps + max(0, way_ps - self._platform.imc.wpq_accept_ps)
        queued_ps, stored_ps = self._controllers[number].write_line(line, arrive_ps)
        if len(self._under_way) >= UNDER_WAY_LINES:
            now_ps = self.clock.now_ps
            self._under_way = {other: ps for other, ps in self._under_way.items() if ps > now_ps}
        self._under_way[key] = queued_ps
        return queued_ps, stored_ps
