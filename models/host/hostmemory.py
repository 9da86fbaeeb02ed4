"""A host's memory as adapters and cores address it: the device of an address gets the request.

Inbound DMA writes and cores meet here. Each way in says when bytes become visible (the byte spaces) and how far they
got (the trace); what certainly happened, in any timing, is the ordering rules' business
(``models.durability.ordering``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from numpy.random import Generator

from ...sim.bytespace import ReadRun
from ...sim.clock import Clock
from ...sim.streams import Streams
from ...sim.trace import ChannelPrefixes, Chunk, Trace
from ..durability.rules import Circumstances, Placement
from ..memory.devices import DEVICE_SPAN_BITS, HOST_MEMORY, OFFSET_MASK, AddressSpace, Destination, MemoryDevice
from ..pcie.credits import PostedCredits
from ..pcie.link import Tlp
from ..profiles.platform import Platform
from .attached import AttachedMemory
from .beside import BesideAdapter
from .dimms import Dimms
from .fillbuffers import FillBuffers
from .rootcomplex import RootComplex

__all__ = ["HostMemory"]

LATE_FACTOR = 4
"""WRITEs in any order are late by less than so many times ``pcie.posted_write``: enough for neighbours to overtake."""


class HostMemory(RootComplex):
    """What lies behind the root port and below the cores of one node."""

    def __init__(self, clock: Clock, trace: Trace, platform: Platform, memory: AddressSpace, streams: Streams) -> None:
        super().__init__(clock, trace, platform, memory, streams)
        self.memory = memory
        self.attached: list[AttachedMemory] = []
        """By index of the device in the node."""
        for device in memory.by_index:
            parameters = platform.kind_of(device.kind)
            # A drive's blocks are not addressable memory: the drive is here as DIMMs without any reads or writes.
            known = (AttachedMemory.kinds[group] for group in type(parameters).__mro__ if group in AttachedMemory.kinds)
            kind: Callable[..., AttachedMemory] = next(known, Dimms)
            self.attached.append(kind(self, device, parameters))
        self.peers = [one for one in self.attached if isinstance(one, BesideAdapter)]
        """The devices beside the adapter: PCIe keeps no order between one of them and host memory."""
        self.late_up_to_ps = 0
        """At most how late a write is placed that later ones may overtake; 0 unless schedules are explored."""
        self._streams = streams
        self._circumstances: dict[tuple[int, Placement], Circumstances] = {}
        self._reads = itertools.count()

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
        behind: ChannelPrefixes = (),
        late_ps: int = 0,
        not_before_ps: int = 0,
        credits: PostedCredits | None = None,
        chunk: Chunk | None = None,
    ) -> int:
        """An inbound write reaches the root complex (:meth:`AttachedMemory.dma_write`); returns when it is visible."""
        return self.attached[address >> DEVICE_SPAN_BITS].dma_write(
            address & OFFSET_MASK,
            data,
            channel,
            writer,
            accepted_ps,
            transit_ps,
            arrive_ps,
            behind=behind,
            late_ps=late_ps,
            not_before_ps=not_before_ps,
            credits=credits,
            chunk=chunk,
        )

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
        """One write's TLPs, in order, as :meth:`dma_write` of each; returns when all are visible."""
        return self.attached[address >> DEVICE_SPAN_BITS].dma_writes(
            address & OFFSET_MASK, data, channel, writer, accepted_ps, tlps, credits
        )

    def accept(
        self, address: int, data: bytes, channel: int, writer: str, at_ps: int, behind: ChannelPrefixes
    ) -> Chunk | None:
        """An adapter has accepted a write that has to wait there: record it, if it may outlive a power failure."""
        return self.attached[address >> DEVICE_SPAN_BITS].accept(
            address & OFFSET_MASK, data, channel, writer, at_ps, behind
        )

    # choices of the hardware ----------------------------------------------------------------------------------
    def stream(self, name: str) -> Generator:
        """The stream of random choices of that name."""
        return self._streams.stream(name)

    def late_ps(self, name: str) -> int:
        """How much later than in order a WRITE shows that may be placed in any order; ``name`` is its queue pair's.

        Which of the orders a run meets is the schedule's choice, and no promise of any hardware.
        """
        window_ps = max(LATE_FACTOR * self.platform.pcie.visible_ps, self.late_up_to_ps)
        return self.draw(f"placement of {name}", window_ps)

    def late_release_ps(self, name: str) -> int:
        """How much later an ATOMIC WRITE shows, which later WRITEs may overtake: 0 unless schedules are explored."""
        return self.draw(f"releases of {name}", self.late_up_to_ps) if self.late_up_to_ps else 0

    def peer_late_up_to_ps(self, number: int) -> int:
        """At most how late writes to that destination show that are in order among themselves: 0 of host memory."""
        return 0 if number == HOST_MEMORY else self.platform.pcie.peer_late_ps

    def draw(self, name: str, n: int) -> int:
        """One of ``n``: a choice of the hardware that this run's schedule makes, from the stream of that name."""
        return int(self._streams.stream(name).integers(n))

    # where a request goes -------------------------------------------------------------------------------------
    def destination(self, address: int) -> Destination:
        """Where a request to ``address`` goes, as PCIe sees it."""
        return self.attached[address >> DEVICE_SPAN_BITS].destination

    def circumstances(self, address: int, placement: Placement = Placement.STRICT) -> Circumstances:
        """The circumstances of a request to ``address`` on which the ordering rules depend."""
        to = self.attached[address >> DEVICE_SPAN_BITS].destination
        found = self._circumstances.get((to.number, placement))
        if found is None:
            found = Circumstances(self.ddio, to.target, placement, to.pmrwbm, self.platform.switches)
            self._circumstances[to.number, placement] = found
        return found

    # DMA reads (``models.nic.dma``) ---------------------------------------------------------------------------------
    def peer_of(self, address: int) -> BesideAdapter | None:
        """The device beside the adapter that ``address`` is in; None for host memory."""
        found = self.attached[address >> DEVICE_SPAN_BITS] if self.peers else None
        return found if isinstance(found, BesideAdapter) else None

    def read_at(
        self, at_ps: int, address: int, length: int, sink: Callable[[bytes], None], chunks: list[Chunk]
    ) -> None:
        """Call ``sink`` with the bytes that a read at ``at_ps``, not before now, returns.

        ``chunks`` gets the chunks that the bytes prove visible. The call comes in :meth:`catch_up_bytes` at the latest.
        """
        device, offset = self.attached[address >> DEVICE_SPAN_BITS].device, address & OFFSET_MASK

        def read(data: bytes) -> None:
            chunks.extend(self.trace.observed(device.number, offset, length, at_ps))
            sink(data)

        device.space.read_at(at_ps, next(self._reads), offset, length, read if device.traced else sink)

    def read_run(
        self,
        first_ps: int,
        last_ps: int,
        address: int,
        length: int,
        pieces: Callable[[], Iterable[tuple[int, int, int]]],
        sink: Callable[[int, bytes], None],
        chunks: list[Chunk],
    ) -> None:
        """:meth:`read_at` of each of the ``pieces`` of a range (:class:`sim.bytespace.ReadRun`).

        ``sink`` is called with an offset in the range and the bytes from there on.
        """
        device, offset = self.attached[address >> DEVICE_SPAN_BITS].device, address & OFFSET_MASK

        def read(at_ps: int, at: int, data: bytes) -> None:
            if device.traced:
                chunks.extend(self.trace.observed(device.number, offset + at, len(data), at_ps))
            sink(at, data)

        device.space.read_run(ReadRun(first_ps, last_ps, next(self._reads), offset, length, pieces, read))

    def catch_up_bytes(self, address: int) -> None:
        """Hand over the bytes of all reads until now from the device that ``address`` is in."""
        self.attached[address >> DEVICE_SPAN_BITS].device.space.catch_up(self.clock._now)

    # from the cores --------------------------------------------------------------------------------------
    def load(self, now_ps: int, address: int, length: int) -> tuple[bytes, list[Chunk]]:
        """The bytes that a load at ``now_ps`` returns, and the chunks that they prove to be visible."""
        return self.attached[address >> DEVICE_SPAN_BITS].load(now_ps, address & OFFSET_MASK, length)

    def access_ps(
        self, address: int, length: int, dirty: bool, agent: int, fills: FillBuffers, wait: bool = True
    ) -> int:
        """How long the core ``agent`` takes from now to touch a range (:meth:`AttachedMemory.access_ps`)."""
        return self.attached[address >> DEVICE_SPAN_BITS].access_ps(
            address & OFFSET_MASK, length, dirty, agent, fills, wait
        )

    def store(self, address: int, data: bytes, channel: int, writer: str, at_ps: int) -> None:
        """A core's store retires into its store buffer at ``at_ps``, and shows in this timing at once."""
        self.attached[address >> DEVICE_SPAN_BITS].store(address & OFFSET_MASK, data, channel, writer, at_ps)

    def mmio_stores(self, stores: int, address: int) -> ChannelPrefixes:
        """The posted stores that a read of the device at ``address`` pushes: (channel, number); () of host memory.

        ``stores`` is the channel of the core's other stores.
        """
        return self.attached[address >> DEVICE_SPAN_BITS].posted(stores)

    def drain(self, *stores: int) -> None:
        """A core has emptied its write-combining buffers; ``stores`` are the channels of its other stores."""
        for peer in self.peers:
            for channel in stores:
                peer.drain(channel)

    def status_read_ps(self, address: int, start_ps: int) -> int:
        """How long a core's read of the register PMRSTS takes, of the device beside the adapter at ``address``."""
        return self.attached[address >> DEVICE_SPAN_BITS].status_read_ps(start_ps)

    def flush_line(self, device: MemoryDevice, line: int, issued_ps: int, keep: bool) -> int:
        """A core writes a line back; returns when the write pending queue has it (at once if there was nothing)."""
        return self.attached[device.index].write_back(line, issued_ps, keep)

    def persist_line(self, device: MemoryDevice, line: int, issued_ps: int, keep: bool) -> int:
        """The root complex writes a line back for a FLUSH; returns when it is in the persistence domain."""
        attached = self.attached[device.index]
        return attached.persisted_ps(line, attached.write_back(line, issued_ps, keep))
