"""A host of the naive model: bytes, cache tags, and a write pending queue per DIMM."""

from __future__ import annotations

from typing import NamedTuple

import simpy

from ...models.memory import AddressSpace
from ...models.parameters.caches import Llc
from ...models.platform import Platform
from ...sim.bytespace import LINE_BYTES, lines
from .engine import SAMPLE, Gate, Process, Simulation, Station, Ticket, Wire

Line = tuple[int, int]
"""(device number, line number within the device)."""


class Touch(NamedTuple):
    """What touching one line means to a core: how long, and what it has to wait for before."""

    cost_ps: int
    behind: simpy.Event | None


class Cache:
    """Tags only: two pools of lines, least recently used first, with whether they are dirty."""

    def __init__(self, parameters: Llc) -> None:
        total = parameters.size_bytes // LINE_BYTES
        self._io_lines = max(1, total * parameters.io_ways // parameters.ways)
        self._core_lines = max(1, total - self._io_lines)
        self._io: dict[Line, bool] = {}
        self._core: dict[Line, bool] = {}

    def holds(self, line: Line) -> bool:
        """Whether the line is there."""
        return line in self._io or line in self._core

    def written_by_io(self, line: Line) -> Line | None:
        """An inbound write; returns the dirty line that had to go, if any."""
        pool, most = (self._core, self._core_lines) if line in self._core else (self._io, self._io_lines)
        return self._put(pool, most, line, dirty=True)

    def touched_by_core(self, line: Line, dirty: bool) -> Line | None:
        """A load or store; returns the dirty line that had to go, if any."""
        dirty = self._io.pop(line, False) or self._core.get(line, False) or dirty
        return self._put(self._core, self._core_lines, line, dirty)

    def clean(self, line: Line, keep: bool) -> bool:
        """A flush; returns whether there was something to write back."""
        pool = self._io if line in self._io else self._core
        dirty = pool.get(line, False)
        if not keep:
            self.drop(line)
        elif line in pool:
            self._put(pool, len(pool), line, dirty=False)
        return dirty

    def drop(self, line: Line) -> None:
        """The line is not there any more."""
        self._io.pop(line, None)
        self._core.pop(line, None)

    @staticmethod
    def _put(pool: dict[Line, bool], most: int, line: Line, dirty: bool) -> Line | None:
        pool.pop(line, None)
        pool[line] = dirty
        if len(pool) <= most:
            return None
        oldest = next(iter(pool))
        return oldest if pool.pop(oldest) else None


class Dimm:
    """The way of lines to one DIMM: in the order in which they were sent, through a bounded queue, to the medium."""

    def __init__(self, sim: Simulation, platform: Platform, kind: str) -> None:
        self._sim = sim
        self._accept_ps = platform.imc.wpq_accept_ps
        self._order = Gate(sim)
        self._entrance = Station(sim)
        self._places = Station(sim, max(1, platform.imc.wpq_bytes // LINE_BYTES))
        self._medium = Wire(sim, platform.media[kind].write_bandwidth_bits_per_s)
        self.most_queued = 0

    def send(self, way_ps: int) -> simpy.Event:
        """A line leaves for this DIMM now; the event is its acceptance by the queue, undisturbed after ``way_ps``."""
        queued = self._sim.event()
        self._sim.process(self._line(way_ps, self._order.ticket(), queued))
        return queued

    def _line(self, way_ps: int, ticket: Ticket, queued: simpy.Event) -> Process:
        yield self._sim.timeout(max(0, way_ps - self._accept_ps))
        yield ticket.before
        key = (ticket.number,)
        with self._entrance.join(key) as turn:
            ticket.after.succeed()
            yield turn
            yield self._sim.timeout(self._accept_ps)
        with self._places.join(key) as place:
            yield place
            self.most_queued = max(self.most_queued, self._places.count)
            queued.succeed()
            yield from self._medium.carry(LINE_BYTES, key)


class Host:
    """Coherent memory of one node, behind the root port and below the cores."""

    def __init__(self, sim: Simulation, platform: Platform, memory: AddressSpace) -> None:
        self.sim = sim
        self.memory = memory
        self.platform = platform
        self.cache = Cache(platform.llc)
        self._devices = {device.number: device for device in memory.devices.values()}
        self._dimms = {
            device.number: [Dimm(sim, platform, device.kind) for _ in range(device.dimms)]
            for device in memory.devices.values()
        }
        self._under_way: dict[Line, simpy.Event] = {}
        """Lines that have left for memory, until a write pending queue has them."""
        self._draining: list[simpy.Event] = []
        """The same for inbound writes with DDIO off, all of them."""

    def lines(self, address: int, length: int) -> list[Line]:
        """The lines of a range."""
        device, offset = self.memory.locate(address)
        return [(device.number, line) for line in lines(offset, length)]

    def poke(self, address: int, data: bytes) -> None:
        """Bytes appear."""
        device, offset = self.memory.locate(address)
        device.space.poke(offset, data)

    def peek(self, address: int, length: int) -> bytes:
        """The bytes as they stand."""
        device, offset = self.memory.locate(address)
        return device.space.peek(offset, length)

    def send(self, line: Line, way_ps: int) -> simpy.Event:
        """A line leaves for memory now; the event is its acceptance by a write pending queue."""
        number, index = line
        dimms = self._dimms[number]
        queued = dimms[index * LINE_BYTES // self.platform.imc.interleave_bytes % len(dimms)].send(way_ps)
        self._under_way[line] = queued

        def arrived(_: simpy.Event) -> None:
            if self._under_way.get(line) is queued:
                del self._under_way[line]

        assert queued.callbacks is not None
        queued.callbacks.append(arrived)
        return queued

    def write_back(self, line: Line) -> simpy.Event:
        """A dirty line leaves the caches now."""
        return self.send(line, self.platform.media[self._devices[line[0]].kind].clwb_to_wpq_ps)

    # the adapter's side ---------------------------------------------------------------------------------------
    def inbound(self, address: int, data: bytes) -> list[simpy.Event]:
        """A posted write becomes visible now; returns what has to happen before memory has taken it."""
        taken = []
        for line in self.lines(address, len(data)):
            if self.platform.llc.ddio:
                evicted = self.cache.written_by_io(line)
                if evicted is not None:
                    self.write_back(evicted)
            else:
                self.cache.drop(line)
                taken.append(self.send(line, self.platform.llc.iio_wc_drain_ps))
        self._draining += taken
        self.poke(address, data)
        return taken

    def read_latency_ps(self, address: int, length: int) -> int:
        """Round trip of a DMA read that is looked up now."""
        pcie = self.platform.pcie
        if all(self.cache.holds(line) for line in self.lines(address, length)):
            return pcie.dma_read_ps - self.platform.llc.dma_read_hit_saving_ps
        device, _ = self.memory.locate(address)
        return pcie.dma_read_ps + self.platform.media[device.kind].dma_read_extra_ps

    def drained(self) -> simpy.Event:
        """With DDIO off: all inbound writes so far are in write pending queues."""
        self._draining = [queued for queued in self._draining if not queued.processed]
        return self.sim.all_of(self._draining)

    def sample(self, address: int, length: int) -> Process:
        """What memory shows of a range at this instant, when everything of it has happened."""
        yield self.sim.late(SAMPLE)
        return self.peek(address, length)

    # the cores' side ------------------------------------------------------------------------------------------
    def touch(self, address: int, length: int, dirty: bool) -> list[Touch]:
        """A core is about to load or store a range: the caches are asked once, for all of its lines."""
        device, _ = self.memory.locate(address)
        found = []
        for line in self.lines(address, length):
            hit = self.cache.holds(line)
            if hit or dirty:
                cost_ps = self.platform.cpu.store_ps if dirty else self.platform.cpu.load_ps
            else:
                cost_ps = self.platform.media[device.kind].load_ps
            found.append(Touch(cost_ps, None if hit else self._under_way.get(line)))
            evicted = self.cache.touched_by_core(line, dirty)
            if evicted is not None:
                self.write_back(evicted)
        return found

    def flush(self, line: Line, keep: bool) -> list[simpy.Event]:
        """A core writes a line back now; what has to happen before the line is certainly queued."""
        before = self._under_way.get(line)
        waits = [] if before is None else [before]
        if self.cache.clean(line, keep):
            waits.append(self.write_back(line))
        return waits
