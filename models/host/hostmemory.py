"""A host's coherent memory: root complex, last-level cache and memory controllers, over the node's devices.

Inbound DMA writes and cores meet here. Each way in says when bytes become visible (the byte spaces) and how far they
got (the trace); what certainly happened, in any timing, is the ordering rules' business
(``models.durability.ordering``).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from functools import partial

from numpy.random import Generator

from ...sim.bytespace import LINE_BYTES, lines
from ...sim.clock import Clock
from ...sim.streams import Streams
from ...sim.trace import NEVER, Chunk, Stage, Trace
from ..durability.places import Domain, Path
from ..durability.rules import Circumstances, Placement
from ..memory.devices import DEVICE_SPAN_BITS, DEVICE_SPAN_BYTES, AddressSpace, Destination, MemoryDevice
from ..memory.xpbuffer import service_ps
from ..pcie.credits import PostedCredits
from ..pcie.link import Tlp
from ..pcie.peers import PeerDevice, PeerMemory
from ..profiles.platform import Platform
from .access import CacheAccess
from .cacheset import line_key
from .fillbuffers import FillBuffers
from .homeagent import HomeAgent
from .llc import CacheCounters, IoWrite, insert
from .privatecaches import Caches, victims_from

_OFFSET = DEVICE_SPAN_BYTES - 1

INBOX_WRITES = 4096
"""So many inbound writes wait for somebody who asks the caches; then those are told that are visible."""
LATE_FACTOR = 4
"""WRITEs in any order are late by less than so many times ``pcie.posted_write``: enough for neighbours to overtake."""


class HostMemory:
    """What lies behind the root port and below the cores of one node."""

    def __init__(self, clock: Clock, trace: Trace, platform: Platform, memory: AddressSpace, streams: Streams) -> None:
        self.clock = clock
        self.trace = trace
        self.memory = memory
        self._devices = memory.by_index
        self.ddio = platform.llc.ddio
        self._posted_write_ps = platform.pcie.visible_ps
        self._load_ps = platform.cpu.load_ps
        self._platform = platform
        self.caches = Caches(platform.llc, platform.private, partial(victims_from, streams, memory.by_index[0].number))
        self.home = HomeAgent(clock, trace, platform, memory)
        self._access = CacheAccess(platform, self.caches, self.home)
        self.peers = PeerMemory(trace, platform, memory)
        self._streams = streams
        self._circumstances: dict[tuple[int, Placement], Circumstances] = {}
        self._by_number = {device.number: device for device in memory.devices.values()}
        self._untraced = 0
        self._inbox: deque[IoWrite] = deque()
        """Inbound writes that caches and queues do not know yet, in order of time."""
        self._inbox_ps = 0
        """When the last of all that ever came into it is visible."""
        self._owed: dict[int, tuple[PostedCredits, int]] = {}
        """By the identity of an inbound write in the inbox: whom to tell when it is taken, and of how many bytes."""
        self._reads = itertools.count()
        trace.unsettled.append(self.catch_up)
        self.last_visible_ps = 0
        """When all posted writes that came to the root port so far are visible, completions included; it keeps order,
        but for what is late."""
        self.late_up_to_ps = 0
        """How late what others may overtake is placed, if whoever explores schedules wants it later than usual."""
        self._last_queued_ps = 0
        """With DDIO off: when all inbound writes that are visible so far are in a write pending queue."""
        self._line_ps = service_ps(LINE_BYTES, platform.pcie.tlp_bits_per_s)
        self._memory_ready_ps = 0
        """When memory can serve the DMA read that was looked at last."""

    @property
    def counters(self) -> CacheCounters:
        """What the caches have done so far."""
        return self.caches.counters

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
        credits: PostedCredits | None = None,
        chunk: Chunk | None = None,
    ) -> int:
        """An inbound write reaches the root complex at ``arrive_ps``; returns when it is visible.

        ``accepted_ps`` is now. ``behind`` are its release edges, ``not_before_ps`` is when those are visible;
        ``late_ps`` is how much later it shows than in order (:meth:`late_ps`), without holding up what comes after it.
        ``credits`` are told when it is taken; ``chunk`` is what :meth:`accept` has recorded of it, if it has.
        """
        device, offset = self._devices[address >> DEVICE_SPAN_BITS], address & _OFFSET
        if self.peers and device.number in self.peers:
            visible_ps, kept_ps = self.peers[device.number].dma_write(arrive_ps, len(data), late_ps, not_before_ps)
            if credits is not None:
                credits.give(visible_ps, len(data))
            reached = [accepted_ps, transit_ps, visible_ps, kept_ps, kept_ps]
            if chunk is None:
                self._written(device, offset, data, channel, Path.PEER, writer, reached, behind)
            else:
                chunk.reached_ps[:] = reached
                device.space.write_at(visible_ps, channel, chunk.number, offset, data, None, accepted_ps)
            return visible_ps
        visible_ps = arrive_ps + self._posted_write_ps
        if credits is not None and (self.ddio or late_ps):
            credits.give(visible_ps, len(data))
            credits = None
        last_ps = self.last_visible_ps
        self.last_visible_ps = visible_ps if visible_ps > last_ps else last_ps
        if late_ps or not_before_ps:
            visible_ps = max(visible_ps + late_ps, not_before_ps)
        inbox = self._inbox
        entry = (visible_ps, device.number, offset, offset + len(data))
        if visible_ps >= self._inbox_ps:
            self._inbox_ps = visible_ps
            inbox.append(entry)
        else:
            insert(inbox, entry)
        if credits is not None:
            self._owed[id(entry)] = credits, len(data)
        if len(inbox) > INBOX_WRITES:
            self.catch_up(accepted_ps)
        if chunk is not None:
            number = chunk.number
            chunk.reached_ps[Stage.TRANSIT : Stage.QUEUED] = transit_ps, visible_ps
        elif device.traced:
            path = Path.DMA_DDIO if self.ddio else Path.DMA_NO_DDIO
            reached = [accepted_ps, transit_ps, visible_ps, NEVER, NEVER]
            number = self.trace.write(device.number, channel, offset, data, path, writer, reached, behind).number
        else:
            number = self._untraced = self._untraced + 1
        device.space.write_at(visible_ps, channel, number, offset, data, None, accepted_ps)
        return visible_ps

    def accept(
        self, address: int, data: bytes, channel: int, writer: str, at_ps: int, behind: tuple[tuple[int, int], ...]
    ) -> Chunk | None:
        """An adapter has accepted a write that has to wait there: record it, if it may outlive a power failure."""
        device = self._devices[address >> DEVICE_SPAN_BITS]
        if not device.traced:
            return None
        path = Path.PEER if device.number in self.peers else Path.DMA_DDIO if self.ddio else Path.DMA_NO_DDIO
        reached = [at_ps, NEVER, NEVER, NEVER, NEVER]
        return self.trace.write(device.number, channel, address & _OFFSET, data, path, writer, reached, behind)

    @property
    def next_taken_ps(self) -> int | None:
        """When memory is asked next about a write whose credits it holds, if it holds any; after :meth:`catch_up`."""
        return self._inbox[0][0] if self._owed else None

    def dma_writes(
        self,
        address: int,
        data: bytes,
        channel: int,
        writer: str,
        accepted_ps: int,
        tlps: list[Tlp],
        credits: PostedCredits | None = None,
    ) -> int:
        """One write's TLPs, in order, as :meth:`dma_write` of each; returns when all are visible.

        Where nothing stands between them they are told of as one run.
        """
        device, offset = self._devices[address >> DEVICE_SPAN_BITS], address & _OFFSET
        way_ps, visible_ps = self._posted_write_ps, 0
        first_ps = tlps[0][2] + way_ps
        if (self.peers and device.number in self.peers) or first_ps < self._inbox_ps:
            at = 0
            for size, start_ps, arrive_ps in tlps:
                piece = data[at : at + size]
                visible_ps = self.dma_write(
                    address + at, piece, channel, writer, accepted_ps, start_ps, arrive_ps, credits=credits
                )
                at += size
            return visible_ps
        sizes, starts, arrivals = zip(*tlps, strict=True)
        instants: list[int] = [arrive_ps + way_ps for arrive_ps in arrivals]
        parts = list(zip(sizes, instants, strict=True))
        inbox, number = self._inbox, device.number
        if self.ddio:
            inbox.append((first_ps, number, offset, offset + len(data), parts))
            if credits is not None:
                for size, at_ps in parts:
                    credits.give(at_ps, size)
        else:
            at = offset
            for size, at_ps in parts:
                inbox.append((at_ps, number, at, at + size))
                at += size
                if credits is not None:
                    self._owed[id(inbox[-1])] = credits, size
        visible_ps = self._inbox_ps = instants[-1]
        last_ps = self.last_visible_ps
        self.last_visible_ps = visible_ps if visible_ps > last_ps else last_ps
        if len(inbox) > INBOX_WRITES:
            self.catch_up(accepted_ps)
        if device.traced:
            moves = list(zip(sizes, starts, instants, strict=True))
            path = Path.DMA_DDIO if self.ddio else Path.DMA_NO_DDIO
            first = self.trace.write_run(number, channel, offset, data, path, writer, accepted_ps, moves)
        else:
            first = self._untraced + 1
            self._untraced += len(tlps)
        device.space.write_run(channel, first, offset, data, parts, accepted_ps)
        return visible_ps

    def catch_up(self, now_ps: int) -> None:
        """Let the caches know, and the write pending queues have, what inbound writes have brought until ``now_ps``.

        Whoever asks caches or queues catches up first, so that they are asked in order of time.
        """
        inbox = self._inbox
        if self.ddio:
            for at_ps, key, reads in self.caches.io_writes(inbox, now_ps):
                if reads:
                    self.home.read_line(key, at_ps)
                else:
                    self.home.write_back(key, at_ps)
            return
        keep, drain_ps = self._platform.llc.non_allocating_hit == "update", self._platform.llc.iio_wc_drain_ps
        while inbox and inbox[0][0] <= now_ps:
            entry = inbox.popleft()
            visible_ps, number, start, end = entry[:4]
            taken_ps = visible_ps
            for line in lines(start, end - start):
                # The dirty bytes of a copy, if there is one, go along: then the line is whole.
                key, way_ps = line_key(number, line), drain_ps
                merged = self.caches.flush(key, keep)
                self.counters.io_passed += 1
                if not merged and (start > line * LINE_BYTES or end < (line + 1) * LINE_BYTES):
                    self.counters.io_fills += 1  # memory writes whole lines: it reads this one before
                    way_ps += self.home.read_line(key, visible_ps)[0]
                queued_ps, stored_ps = self.home.queue(key, visible_ps, way_ps)
                self._last_queued_ps = max(self._last_queued_ps, queued_ps)
                taken_ps = max(taken_ps, queued_ps)
                if self._by_number[number].traced:
                    self.trace.wrote_back(number, line, visible_ps, queued_ps, stored_ps)
            if self._owed:
                credits, size = self._owed.pop(id(entry), (None, 0))
                if credits is not None:
                    credits.give(taken_ps, size)

    def stream(self, name: str) -> Generator:
        """The stream of random choices of that name."""
        return self._streams.stream(name)

    def late_ps(self, name: str) -> int:
        """How much later than in order a WRITE shows that may be placed in any order; ``name`` is its queue pair's.

        Which of the orders a run meets is the schedule's choice, and no promise of any hardware.
        """
        window_ps = max(LATE_FACTOR * self._platform.pcie.visible_ps, self.late_up_to_ps)
        return self.draw(f"placement of {name}", window_ps)

    def late_release_ps(self, name: str) -> int:
        """The same of an ATOMIC WRITE, which later WRITEs may overtake: nothing, unless a schedule asks for it."""
        return self.draw(f"releases of {name}", self.late_up_to_ps) if self.late_up_to_ps else 0

    def draw(self, name: str, n: int) -> int:
        """One of ``n``: a choice of the hardware that this run's schedule makes, from the stream of that name."""
        return int(self._streams.stream(name).integers(n))

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

    # DMA reads (``models.nic.dma``) ---------------------------------------------------------------------------------
    def peer_of(self, address: int) -> PeerDevice | None:
        """The device beside the adapter that ``address`` is in; None for host memory."""
        return self.peers.get(self._devices[address >> DEVICE_SPAN_BITS].number) if self.peers else None

    def looked_at_ps(self, at_root_ps: int) -> int:
        """When a read request, at the root complex at ``at_root_ps``, is looked at: behind all posted writes."""
        return max(at_root_ps, self.last_visible_ps)

    def dma_read_ps(self, address: int, length: int) -> int:
        """Round trip of a read that is looked at now: shorter from the cache, longer from slow media."""
        now_ps = self.clock._now
        if self._inbox:
            self.catch_up(now_ps)
        device, offset = self._devices[address >> DEVICE_SPAN_BITS], address & _OFFSET
        pcie, asked = self._platform.pcie, lines(offset, length)
        self._memory_ready_ps = 0
        if self.caches.dma_reads(device.number, asked):
            return pcie.read_ps - self._platform.llc.dma_read_hit_saving_ps
        media = self._platform.media[device.kind]
        took_ps, self._memory_ready_ps = self.home.read_lines(device.number, asked[0], asked[-1], now_ps, self._line_ps)
        return pcie.read_ps + max(0, took_ps - media.load_ps + media.dma_read_extra_ps)

    def read_ready_ps(self, at_root_ps: int, latency_ps: int) -> int:
        """When a read that is looked at now is served.

        With DDIO off it also waits until the writes before it are in the write pending queues (Intel's appliance
        persistency method); and a read after persist until its line can be read.
        """
        now_ps = self.clock._now
        ready_ps = max(at_root_ps + latency_ps // 2, now_ps, self._memory_ready_ps)
        if self.ddio:
            return ready_ps
        self.catch_up(now_ps)
        return max(ready_ps, self._last_queued_ps)

    def read_at(
        self, at_ps: int, address: int, length: int, sink: Callable[[bytes], None], chunks: list[Chunk]
    ) -> None:
        """Tell ``sink`` what a read at ``at_ps``, not before now, returns; ``chunks`` gets what that proves visible.

        It is told by :meth:`catch_up_bytes` at the latest.
        """
        device, offset = self._devices[address >> DEVICE_SPAN_BITS], address & _OFFSET

        def read(data: bytes) -> None:
            chunks.extend(self.trace.observed(device.number, offset, length, at_ps))
            sink(data)

        device.space.read_at(at_ps, next(self._reads), offset, length, read if device.traced else sink)

    def catch_up_bytes(self, address: int) -> None:
        """Let all reads until now of the device that ``address`` is in tell what they return."""
        self._devices[address >> DEVICE_SPAN_BITS].space.catch_up(self.clock._now)

    # from the cores --------------------------------------------------------------------------------------
    def load(self, now_ps: int, address: int, length: int) -> tuple[bytes, list[Chunk]]:
        """What a load at ``now_ps`` returns, and which chunks the bytes prove to be visible."""
        device, offset = self._devices[address >> DEVICE_SPAN_BITS], address & _OFFSET
        data = device.space.read(now_ps, offset, length)
        if not device.traced:
            return data, []
        # Somebody may have read at a later instant before: then these bytes are as new as that.
        return data, self.trace.observed(device.number, offset, length, max(now_ps, device.space.caught_up_ps))

    def access_ps(
        self, address: int, length: int, dirty: bool, agent: int, fills: FillBuffers, wait: bool = True
    ) -> int:
        """How long the core ``agent`` takes from now to touch these lines (``models.host.access``).

        A line that has left the caches and is not in a write pending queue yet is waited for: the home agent orders
        the access behind it. Without ``wait`` the core goes on as soon as all lines are on their way.
        """
        start_ps = self.clock._now
        if self._inbox:
            self.catch_up(start_ps)
        device, offset = self._devices[address >> DEVICE_SPAN_BITS], address & _OFFSET
        if self.peers and device.number in self.peers:
            peer = self.peers[device.number]
            if not dirty:
                return peer.load_ps(length, start_ps)
            return peer.stores_ps(len(lines(offset, length)), self._platform.cpu.store_ps, start_ps)
        line = offset // LINE_BYTES
        if (
            not dirty
            and (offset + length - 1) // LINE_BYTES == line
            and self._access.at_hand(agent, device.number, line)
        ):
            return self._load_ps
        return self._access.cost_ps(agent, fills, device.number, offset, length, dirty, start_ps, wait)

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
        self.catch_up(at_ps)
        device, offset = self.memory.locate(address)
        if device.number in self.peers:
            self._mmio_store(device, offset, data, channel, writer, at_ps)
            return at_ps
        done, last_ps = 0, at_ps
        while done < len(data):
            take = min(LINE_BYTES - (offset + done) % LINE_BYTES, len(data) - done)
            piece, line = data[done : done + take], (offset + done) // LINE_BYTES
            key = line_key(device.number, line)
            dirty = self.caches.flush(key, keep=False)
            queued_ps, stored_ps = self.home.queue(
                key, at_ps, self._platform.media[device.kind].ntstore_to_wpq_ps, True
            )
            if dirty and device.traced:  # what the cache had goes along
                self.trace.wrote_back(device.number, line, at_ps, queued_ps, stored_ps)
            last_ps = max(last_ps, queued_ps)
            reached = [at_ps, at_ps, queued_ps, queued_ps, stored_ps]
            self._written(device, offset + done, piece, channel, Path.NTSTORE, writer, reached)
            done += take
        return last_ps

    def drained_ps(self, address: int) -> int:
        """When a fence behind what was written back of this line goes on: queued, or past the queues of its DIMM."""
        device, offset = self.memory.locate(address)
        return 0 if device.number in self.peers else self.home.drained_ps(device.number, offset // LINE_BYTES)

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
        self.catch_up(self.clock.now_ps)
        key = line_key(device.number, line)
        drained_ps = max(issued_ps, self.home.left_ps(key))
        if not self.caches.flush(key, keep):
            return drained_ps
        return max(drained_ps, self.home.write_back(key, issued_ps, flush=True))

    def flush_all(self) -> int:
        """All lines of all caches are written back and dropped from now on; returns when memory has them."""
        self.catch_up(self.clock.now_ps)
        return self._access.flush_all(self.clock.now_ps)

    def persist_line(self, device: MemoryDevice, line: int, issued_ps: int, keep: bool) -> int:
        """The root complex writes a line back for a FLUSH; returns when it is in the persistence domain."""
        queued_ps = self.flush_line(device, line, issued_ps, keep)
        if device.domain is not Domain.MEDIA:
            return queued_ps
        return max(queued_ps, self.home.stored_ps(device.number, line))

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
        device.space.write_at(reached[Stage.VISIBLE], channel, number, offset, data, None, reached[Stage.ACCEPTED])
