"""A host of the naive model: bytes, cache tags, and its DIMMs."""

from __future__ import annotations

from typing import NamedTuple

import simpy

from ...models.memory import AddressSpace
from ...models.parameters.caches import Llc
from ...models.platform import Platform
from ...sim.bytespace import LINE_BYTES, lines
from ...sim.units import PS_PER_S
from .dimm import Dimm
from .engine import SAMPLE, Process, Simulation

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


class Host:
    """Coherent memory of one node, behind the root port and below the cores."""

    def __init__(self, sim: Simulation, platform: Platform, memory: AddressSpace) -> None:
        self.sim = sim
        self.memory = memory
        self.platform = platform
        self.cache = Cache(platform.llc)
        self._devices = {device.number: device for device in memory.devices.values()}
        self._dimms = {
            device.number: [Dimm(sim, platform, device.kind, number) for number in range(device.dimms)]
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

    def _find(self, line: Line) -> tuple[Dimm, int]:
        """The DIMM of a line, and the line's number in it."""
        number, index = line
        dimms, media = self._dimms[number], self.platform.media[self._devices[number].kind]
        chunk_bytes = media.interleave_bytes or self.platform.imc.interleave_bytes
        stripe, within = divmod(index * LINE_BYTES, chunk_bytes * len(dimms))
        offset = stripe * chunk_bytes + within % chunk_bytes
        return dimms[within // chunk_bytes], offset // LINE_BYTES

    def send(self, line: Line, way_ps: int, flush: bool = False) -> simpy.Event:
        """A line leaves for memory now; the event is its acceptance by a write pending queue."""
        dimm, index = self._find(line)
        queued = dimm.send(index, way_ps, flush)
        self._under_way[line] = queued

        def arrived(_: simpy.Event) -> None:
            if self._under_way.get(line) is queued:
                del self._under_way[line]

        assert queued.callbacks is not None
        queued.callbacks.append(arrived)
        return queued

    def write_back(self, line: Line, flush: bool = False) -> simpy.Event:
        """A dirty line leaves the caches now."""
        return self.send(line, self.platform.media[self._devices[line[0]].kind].clwb_to_wpq_ps, flush)

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

    def read_latency(self, address: int, length: int) -> tuple[int, list[simpy.Event]]:
        """A DMA read is looked up now: its round trip, and what has to happen before memory can serve it."""
        pcie, asked = self.platform.pcie, self.lines(address, length)
        if all(self.cache.holds(line) for line in asked):
            return pcie.read_ps - self.platform.llc.dma_read_hit_saving_ps, []
        device, _ = self.memory.locate(address)
        media = self.platform.media[device.kind]
        line_ps = -(-LINE_BYTES * 8 * PS_PER_S // pcie.tlp_bits_per_s)
        took_ps, behind = self._from_memory(asked, device.dimms, line_ps)
        return pcie.read_ps + max(0, took_ps - media.load_ps + media.dma_read_extra_ps), behind

    def _from_memory(self, asked: list[Line], dimms: int, line_ps: int) -> tuple[int, list[simpy.Event]]:
        """Lines that memory is asked for now; whoever reads takes them one by one, ``line_ps`` apart."""
        media = self.platform.media[self._devices[asked[0][0]].kind]
        if len(asked) == 1 or not media.controller.buffer_bytes:
            dimm, index = self._find(asked[0])
            return dimm.read(index, 1 if len(asked) == 1 else -(-len(asked) // dimms))
        took_ps, behind, done = 0, [], 0
        while done < len(asked):
            dimm, index = self._find(asked[done])
            lines, xpline = 1, index * LINE_BYTES // media.line_bytes
            while (
                done + lines < len(asked)
                and self._find(asked[done + lines]) == (dimm, index + lines)
                and (index + lines) * LINE_BYTES // media.line_bytes == xpline
            ):
                lines += 1
            one_ps, events = dimm.read(index, lines)
            took_ps = max(took_ps, one_ps - done * line_ps)
            behind += events
            done += lines
        return took_ps, behind

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
        found = []
        for line in self.lines(address, length):
            hit = self.cache.holds(line)
            if hit or dirty:
                cost_ps = self.platform.cpu.store_ps if dirty else self.platform.cpu.load_ps
                found.append(Touch(cost_ps, None if hit else self._under_way.get(line)))
            else:
                found.append(Touch(0, self.sim.process(self._loads(*self._from_memory([line], 1, 0)))))
            evicted = self.cache.touched_by_core(line, dirty)
            if evicted is not None:
                self.write_back(evicted)
        return [touch for touch in found if touch.cost_ps == 0] + [touch for touch in found if touch.cost_ps]

    def _loads(self, took_ps: int, behind: list[simpy.Event]) -> Process:
        """A line comes from memory."""
        yield self.sim.all_of(behind)
        yield self.sim.timeout(took_ps)

    def flush(self, line: Line, keep: bool) -> list[simpy.Event]:
        """A core writes a line back now; what has to happen before the line is certainly queued."""
        before = self._under_way.get(line)
        waits = [] if before is None else [before]
        if self.cache.clean(line, keep):
            waits.append(self.write_back(line, flush=True))
        return waits
