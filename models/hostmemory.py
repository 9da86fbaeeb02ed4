"""A host's coherent memory: root complex, last-level cache and memory controllers, over the node's devices.

Inbound DMA writes and cores meet here. Each way in says when bytes become visible (the byte spaces) and how far they
got (the trace); what certainly happened, in any timing, is the ordering rules' business (``models.ordering``).
"""

from __future__ import annotations

from ..sim.bytespace import LINE_BYTES, lines
from ..sim.clock import Clock
from ..sim.streams import Streams
from ..sim.trace import NEVER, Chunk, Stage, Trace
from .imc import MemoryController
from .llc import LineKey, Llc
from .memory import AddressSpace, Destination, MemoryDevice
from .peers import PeerMemory
from .places import Path
from .platform import Platform
from .rules import Circumstances, Placement

UNDER_WAY_LINES = 4096
"""Above so many, lines that have arrived are forgotten."""
LATE_FACTOR = 4
"""WRITEs in any order are late by less than so many times ``pcie.posted_write``: enough for neighbours to overtake."""


class HostMemory:
    """What lies behind the root port and below the cores of one node."""

    def __init__(self, clock: Clock, trace: Trace, platform: Platform, memory: AddressSpace, streams: Streams) -> None:
        self.clock = clock
        self.trace = trace
        self.memory = memory
        self.ddio = platform.llc.ddio
        self._platform = platform
        self.llc = Llc(platform.llc)
        self._controllers = {
            device.number: MemoryController(platform.imc, platform.media[device.kind], device.dimms)
            for device in memory.devices.values()
            if device.kind in platform.media
        }
        self.peers = PeerMemory(trace, platform, memory)
        self._streams = streams
        self._circumstances: dict[tuple[int, Placement], Circumstances] = {}
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
        self,
        address: int,
        data: bytes,
        channel: int,
        writer: str,
        accepted_ps: int,
        transit_ps: int,
        arrive_ps: int,
        *,
        behind: tuple[tuple[int, int], ...] = (),
        late_ps: int = 0,
        not_before_ps: int = 0,
    ) -> int:
        """An inbound write reaches the root complex at ``arrive_ps``; returns when it is visible.

        ``behind`` are its release edges, ``not_before_ps`` is when those are visible; ``late_ps`` is how much later it
        shows than in order (:meth:`late_ps`), without holding up what comes after it.
        """
        device, offset = self.memory.locate(address)
        if device.number in self.peers:
            visible_ps, kept_ps = self.peers[device.number].dma_write(arrive_ps, len(data), late_ps, not_before_ps)
            reached = [accepted_ps, transit_ps, visible_ps, kept_ps, kept_ps]
            self._written(device, offset, data, channel, Path.PEER, writer, reached, behind)
            return visible_ps
        visible_ps = arrive_ps + self._platform.pcie.posted_write_ps
        self.last_visible_ps = max(self.last_visible_ps, visible_ps)
        if late_ps or not_before_ps:
            visible_ps = max(visible_ps + late_ps, not_before_ps)
        reached = [accepted_ps, transit_ps, visible_ps, NEVER, NEVER]
        for line in lines(offset, len(data)):
            key = (device.number, line)
            if self.ddio:
                evicted = self.llc.io_write(key)
                if evicted is not None:
                    self._write_back(evicted, visible_ps)
            else:
                self.llc.invalidate(key)
                queued_ps, stored_ps = self._queue(key, visible_ps, self._platform.llc.iio_wc_drain_ps)
                self.last_queued_ps = max(self.last_queued_ps, queued_ps)
                if device.traced:
                    self.trace.wrote_back(device.number, line, visible_ps, queued_ps, stored_ps)
        path = Path.DMA_DDIO if self.ddio else Path.DMA_NO_DDIO
        self._written(device, offset, data, channel, path, writer, reached, behind)
        return visible_ps

    def late_ps(self, name: str) -> int:
        """How much later than in order a WRITE shows that may be placed in any order; ``name`` is its queue pair's.

        Which of the orders a run meets is the schedule's choice, and no promise of any hardware.
        """
        window_ps = LATE_FACTOR * self._platform.pcie.posted_write_ps
        return int(self._streams.stream(f"placement of {name}").integers(window_ps))

    def destination(self, address: int) -> Destination:
        """Where a request to ``address`` goes, as PCIe sees it."""
        return self.peers.destination(self.memory.locate(address)[0].number)

    def circumstances(self, address: int, placement: Placement = Placement.STRICT) -> Circumstances:
        """What the ordering rules have to know of a request to ``address``."""
        to = self.destination(address)
        found = self._circumstances.get((to.number, placement))
        if found is None:
            found = Circumstances(self.ddio, to.target, placement, to.pmrwbm, self._platform.switches)
            self._circumstances[to.number, placement] = found
        return found

    def read_ready_ps(self, arrive_ps: int, address: int | None = None) -> int:
        """When a DMA read that reaches the root complex at ``arrive_ps`` may be served: behind all posted writes.

        With DDIO off it also waits until they are in the write pending queues (Intel's appliance persistency method).
        A read of a device beside the adapter waits for the writes to that device only.
        """
        if address is not None and self.peers:
            number = self.memory.locate(address)[0].number
            if number in self.peers:
                return self.peers[number].read_ready_ps(arrive_ps)
        behind_ps = self.last_visible_ps if self.ddio else max(self.last_visible_ps, self.last_queued_ps)
        return max(arrive_ps, behind_ps)

    def dma_read_ps(self, address: int, length: int) -> int:
        """Round trip of a DMA read without serialisation: shorter from the cache, longer from slow media."""
        device, offset = self.memory.locate(address)
        if device.number in self.peers:
            return self.peers[device.number].parameters.peer_read_ps
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
        device, offset = self.memory.locate(address)
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
        device, offset = self.memory.locate(address)
        if device.number in self.peers:  # a store to it is posted: the core pays for issuing it, line by line
            stores_ps = len(lines(offset, length)) * self._platform.cpu.store_ps
            return stores_ps if dirty else self.peers[device.number].load_ps(length, start_ps)
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
        if device.number in self.peers:
            self._mmio_store(device, offset, data, channel, writer, at_ps)
            return
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
        if device.number in self.peers:
            self._mmio_store(device, offset, data, channel, writer, at_ps)
            return at_ps
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

    def mmio_stores(self, stores: int, address: int) -> tuple[tuple[int, int], ...]:
        """A core's posted stores so far to the device that ``address`` is in: (channel, number); () for host memory.

        ``stores`` is the channel of the core's other stores.
        """
        return self.peers.posted(stores, self.memory.locate(address)[0].number)

    def status_read_ps(self, address: int, start_ps: int) -> int:
        """How long a core's read of the register PMRSTS takes, of the device beside the adapter at ``address``."""
        return self.peers[self.memory.locate(address)[0].number].status_read_ps(start_ps)

    def _mmio_store(
        self, device: MemoryDevice, offset: int, data: bytes, channel: int, writer: str, at_ps: int
    ) -> None:
        """A core's posted writes to a device beside the adapter, one TLP a line."""
        own = self.peers.mmio_channel(channel, device.number)
        done = 0
        while done < len(data):
            take = min(LINE_BYTES - (offset + done) % LINE_BYTES, len(data) - done)
            visible_ps, kept_ps = self.peers[device.number].store(at_ps, take)
            reached = [at_ps, at_ps, visible_ps, kept_ps, kept_ps]
            self._written(device, offset + done, data[done : done + take], own, Path.MMIO, writer, reached)
            done += take

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
        self,
        device: MemoryDevice,
        offset: int,
        data: bytes,
        channel: int,
        path: Path,
        writer: str,
        reached: list[int],
        behind: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Let bytes appear when they are visible; what may outlive a power failure is traced."""
        if device.traced:
            number = self.trace.write(device.number, channel, offset, data, path, writer, reached, behind).number
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
