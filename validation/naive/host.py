"""A host of the naive model: bytes, and its DIMMs. Tags of caches know no time: both models share them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import simpy

from ...models.host.cacheset import LINE_BITS, LINE_MASK, line_key
from ...models.host.prefetcher import NO_STREAM, PAGE_LINES, Prefetcher
from ...models.host.privatecaches import Caches, Level, victims_from
from ...models.host.tlb import Tlb
from ...models.memory.devices import AddressSpace
from ...models.memory.dram import refreshes
from ...models.profiles.platform import Platform
from ...sim.bytespace import LINE_BYTES, lines
from ...sim.streams import Streams
from ...sim.units import PS_PER_S
from .dimm import Dimm
from .engine import SAMPLE, Process, Simulation

Line = tuple[int, int]
"""(device number, line number within the device)."""


class Touch(NamedTuple):
    """The cost of touching one line, or of a page walk, to a core, and the events that it has to wait for before."""

    cost_ps: int
    """Without the time that memory takes."""
    behind: simpy.Event | None = None
    fetched: bool = False
    """It occupies a fill buffer, and the core goes on meanwhile."""
    coming: simpy.Event | None = None
    """A prefetch is bringing it."""
    key: int = 0
    dirty: bool = False
    """A store: what its line takes is shared by all fill buffers, one of which it occupies."""
    reading: Callable[[], int] | None = None
    """To be called when the core comes to it: how long memory takes from then on."""
    victims: Sequence[simpy.Event] = ()
    """Lines that had to go for it: its fill buffer waits until they have gone."""
    lead_ps: int = 0
    """So long before somebody has asked for it."""
    streamed: bool = False
    """It comes past the fill buffers."""
    owned: simpy.Event | None = None
    """Of a store: to happen when the core has the line."""
    left: simpy.Event | None = None
    """Of a store: the line is on its way to memory until then, and the core waits for it."""

    def begin(self) -> int:
        """The core comes to it: how long it takes, at least ``cost_ps``."""
        return self.cost_ps if self.reading is None else max(self.cost_ps, self.reading() - self.lead_ps)


class Host:
    """Coherent memory of one node, behind the root port and below the cores."""

    def __init__(self, sim: Simulation, platform: Platform, memory: AddressSpace, streams: Streams) -> None:
        self.sim = sim
        self.memory = memory
        self.platform = platform
        number = memory.by_index[0].number
        self.caches = Caches(platform.llc, platform.private, partial(victims_from, streams, number))
        self._tlbs: dict[int, Tlb] = {}
        self._prefetchers: dict[int, Prefetcher] = {}
        self._queued_ps: dict[Line, int] = {}
        """When lines came to write pending queues."""
        self._devices = {device.number: device for device in memory.devices.values()}
        self._dimms = {
            device.number: [
                Dimm(sim, platform, device.kind, number, of(number))
                for of in (refreshes(platform.tails, platform.media[device.kind], streams, device.number),)
                for number in range(device.dimms)
            ]
            for device in memory.devices.values()
        }
        self._under_way: dict[Line, simpy.Event] = {}
        """Lines that have left for memory, until a write pending queue has them."""
        self.owned: dict[int, simpy.Event] = {}
        """Lines that cores have stored to before they had them."""
        self.coming: dict[int, simpy.Event] = {}
        """Lines that prefetches bring."""
        self._draining: list[simpy.Event] = []
        """Inbound writes with DDIO off, of all lines, until a write pending queue has them."""

    def lines(self, address: int, length: int) -> list[Line]:
        """The lines of a range."""
        device, offset = self.memory.locate(address)
        return [(device.number, line) for line in lines(offset, length)]

    def poke(self, address: int, data: bytes) -> None:
        """Write bytes into memory at once, beside all caches."""
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

    def send(self, line: Line, way_ps: int, flush: bool = False, port: int | None = None) -> simpy.Event:
        """A line leaves for memory now; the event is its acceptance by a write pending queue."""
        dimm, index = self._find(line)
        queued = dimm.send(index, way_ps, flush, port)
        self._under_way[line] = queued

        def arrived(_: simpy.Event) -> None:
            self._queued_ps[line] = self.sim.now_ps
            if self._under_way.get(line) is queued:
                del self._under_way[line]

        assert queued.callbacks is not None
        queued.callbacks.append(arrived)
        return queued

    def write_back(self, line: Line, flush: bool = False, port: int | None = None) -> simpy.Event:
        """A dirty line leaves the caches now."""
        return self.send(line, self.platform.media[self._devices[line[0]].kind].clwb_to_wpq_ps, flush, port)

    # the adapter's side ---------------------------------------------------------------------------------------
    def inbound(self, address: int, data: bytes) -> list[simpy.Event]:
        """A posted write becomes visible now; returns the events that have to happen before memory has taken it."""
        device, offset = self.memory.locate(address)
        taken: list[simpy.Event] = []
        if self.platform.llc.ddio:
            write = (self.sim.now_ps, device.number, offset, offset + len(data))
            for _, key, reads in self.caches.io_writes(deque([write]), self.sim.now_ps):
                line = (key >> LINE_BITS, key & LINE_MASK)
                if reads:
                    self.from_memory([line], 1, 0)
                else:
                    taken.append(self.write_back(line, port=0))
            if not self.platform.llc.victims_hold:
                taken = []
        else:
            keep = self.platform.llc.non_allocating_hit == "update"
            for line in self.lines(address, len(data)):
                way_ps = self.platform.llc.iio_wc_drain_ps
                start, end = line[1] * LINE_BYTES, (line[1] + 1) * LINE_BYTES
                if not self.caches.flush(line_key(*line), keep) and (offset > start or offset + len(data) < end):
                    way_ps += self.from_memory([line], 1, 0)[0]
                taken.append(self.send(line, way_ps, port=0))
            self._draining += taken
        self.poke(address, data)
        return taken

    def read_latency(self, address: int, length: int) -> tuple[int, list[simpy.Event]]:
        """A DMA read is looked up now: its round trip, and the events that have to happen before memory can
        serve it.
        """
        pcie, wanted = self.platform.pcie, self.lines(address, length)
        if all(line_key(*line) in self.caches for line in wanted):
            return pcie.read_ps - self.platform.llc.dma_read_hit_saving_ps, []
        device, _ = self.memory.locate(address)
        media = self.platform.media[device.kind]
        line_ps = -(-LINE_BYTES * 8 * PS_PER_S // pcie.tlp_bits_per_s)
        took_ps, behind = self.from_memory(wanted, device.dimms, line_ps)
        return pcie.read_ps + max(0, took_ps - media.load_ps + media.dma_read_extra_ps), behind

    def from_memory(self, wanted: list[Line], dimms: int, line_ps: int) -> tuple[int, list[simpy.Event]]:
        """Lines read from memory now; the reader takes them one by one, ``line_ps`` apart."""
        media = self.platform.media[self._devices[wanted[0][0]].kind]
        if len(wanted) == 1 or not media.controller.buffer_bytes:
            dimm, index = self._find(wanted[0])
            reading = dimm.read(index, 1 if len(wanted) == 1 else -(-len(wanted) // dimms))
            return dimm.issue(reading), reading.behind
        took_ps, behind, done = 0, [], 0
        while done < len(wanted):
            dimm, index = self._find(wanted[done])
            lines, xpline = 1, index * LINE_BYTES // media.line_bytes
            while (
                done + lines < len(wanted)
                and self._find(wanted[done + lines]) == (dimm, index + lines)
                and (index + lines) * LINE_BYTES // media.line_bytes == xpline
            ):
                lines += 1
            reading = dimm.read(index, lines)
            took_ps = max(took_ps, dimm.issue(reading) - done * line_ps)
            behind += reading.behind
            done += lines
        return took_ps, behind

    def drained(self) -> simpy.Event:
        """With DDIO off: all inbound writes so far are in write pending queues."""
        self._draining = [queued for queued in self._draining if not queued.processed]
        return self.sim.all_of(self._draining)

    def sample(self, address: int, length: int) -> Process:
        """The bytes that memory shows of a range at the end of this instant."""
        yield self.sim.late(SAMPLE)
        return self.peek(address, length)

    # the cores' side ------------------------------------------------------------------------------------------
    def touch(self, core: int, address: int, length: int, dirty: bool, ahead_ps: int = 0) -> list[Touch]:
        """A core is about to load or store a range: the caches are looked up once, for all of its pages and lines.

        It has run ahead for ``ahead_ps``.
        """
        device, offset = self.memory.locate(address)
        cpu, private, llc = self.platform.cpu, self.platform.private, self.platform.llc
        level_ps = {Level.L2: private.l2_load_ps or cpu.load_ps, Level.LLC: llc.load_ps or cpu.load_ps}
        found = []
        if self.platform.tlb.entries:
            tlb = self._tlbs.setdefault(core, Tlb(self.platform.tlb))
            dram = self.platform.media[self.platform.memory["dram"].device].load_ps
            for key in tlb.misses(device.number, offset, length):
                level = self.caches.access(core, key, False)
                found.append(Touch(dram if level is Level.MEMORY else level_ps.get(level, cpu.load_ps)))
            self._evict()
        streams = (
            self._prefetchers.setdefault(core, Prefetcher(private.prefetch_lines)) if private.prefetch_lines else None
        )
        within, stream, wanted = -1, NO_STREAM, self.lines(address, length)
        for line in wanted:
            level = self.caches.access(core, line_key(*line), dirty)
            victims = self._evict()
            key, took_ps, behind, reads = line_key(*line), level_ps.get(level, 0), None, None
            streamed, lead_ps = False, 0
            if level is not Level.L1 and streams is not None:
                if key // PAGE_LINES != within:
                    within = key // PAGE_LINES
                    last = min(line_key(*wanted[-1]), within * PAGE_LINES + PAGE_LINES - 1)
                    stream = streams.follow(key, last, dirty, self.sim.now_ps)
                streamed = key - stream.first > 1
            if level is Level.MEMORY:
                lead_ps = ahead_ps
                if streamed and streams is not None:
                    lead_ps = max(lead_ps, streams.lead_ps(stream, key, self.sim.now_ps))
                if line in self._under_way or self._queued_ps.get(line, 0) > self.sim.now_ps - lead_ps:
                    lead_ps = 0
                took_ps = level_ps[Level.L2] if lead_ps else 0
                dimm, index = self._find(line)
                reading = dimm.read(index, 1, lead_ps)
                behind, reads = self.sim.all_of(reading.behind), partial(dimm.issue, reading)
            if dirty:
                before = self._under_way.get(line) if level is Level.MEMORY else None
                if private.read_for_ownership == "waited":
                    fetched = level is not Level.L1
                    owned = None
                    if fetched:
                        owned = self.owned[key] = self.sim.event()
                    found.append(
                        Touch(
                            took_ps, behind, fetched, None, key, True, reads, victims, lead_ps, streamed, owned, before
                        )
                    )
                    continue
                found.append(Touch(took_ps, before, False, None, 0, True, reads, victims, lead_ps, streamed))
            elif level is Level.L1:
                found.append(Touch(cpu.load_ps, coming=self.coming.get(key), key=key))
            else:
                coming = self.coming.get(key)
                found.append(Touch(took_ps, behind, True, coming, key, False, reads, victims, lead_ps, streamed))
        return found

    def before_fence(self, line: Line) -> simpy.Event | None:
        """The event in its DIMM that a fence behind the last write of a line waits for."""
        dimm, index = self._find(line)
        return dimm.before_fence(index)

    def _evict(self) -> Sequence[simpy.Event]:
        """Lines that had to go leave; returns the events that whoever put them out has to wait for."""
        left = [self.write_back((key >> LINE_BITS, key & LINE_MASK)) for key in self.caches.evicted]
        self.caches.evicted.clear()
        return left if self.platform.llc.victims_hold else ()

    def flush(self, line: Line, keep: bool) -> list[simpy.Event]:
        """A core writes a line back now; returns the events that have to happen before the line is certainly queued."""
        before = self._under_way.get(line)
        waits = [] if before is None else [before]
        if self.caches.flush(line_key(*line), keep):
            waits.append(self.write_back(line, flush=True))
        return waits
