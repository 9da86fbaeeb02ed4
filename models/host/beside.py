"""Memory of a device beside the adapter on PCIe, past the host's caches and controllers; cores' stores are posted.

The times of such a device are its :class:`DeviceTiming`: ``models.pcie.peers`` has that of a drive's persistent
memory region, or of its controller memory buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from typing_extensions import override

from ...sim.bytespace import LINE_BYTES, lines
from ...sim.trace import ChannelPrefixes, Chunk
from ..durability.places import Path
from ..durability.rules import Target
from ..memory.devices import Destination, MemoryDevice
from ..pcie.credits import PostedCredits
from ..pcie.peers import PeerDevice
from ..profiles.parameters.storage import PeerParameters
from .attached import AttachedMemory
from .fillbuffers import FillBuffers
from .rootcomplex import RootComplex


class DeviceTiming(Protocol):
    """The way into one device and back; its instants are those of one schedule. Calls come in order of time."""

    def dma_write(self, arrive_ps: int, n_bytes: int, late_ps: int = 0, not_before_ps: int = 0) -> tuple[int, int]:
        """A write of the adapter is at its root port; returns when it is visible and when it is durable."""

    def store(self, at_ps: int, n_bytes: int) -> tuple[int, int]:
        """A core's posted write leaves its store buffer; returns as :meth:`dma_write`."""

    def dma_read_ps(self, n_bytes: int) -> int:
        """Round trip of a read by the adapter, without serialisation."""

    def read_ready_ps(self, arrive_ps: int) -> int:
        """When a read that arrives now is served: behind all writes, and their barrier if it is one."""

    def stores_ps(self, lines: int, issue_ps: int, start_ps: int) -> int:
        """How long a core is held by posted stores to so many lines, ``issue_ps`` each."""

    def load_ps(self, length: int, start_ps: int) -> int:
        """How long a core's uncached loads of ``length`` bytes take, one after the other."""

    def status_read_ps(self, start_ps: int) -> int:
        """How long a core's read of the status register takes."""


class BesideAdapter(AttachedMemory):
    """One such device, with its times and its kind of write barrier (``pmrwbm``: PMRCAP.PMRWBM, 0 for none)."""

    dma_path = Path.PEER
    mmio_path: ClassVar[Path] = Path.MMIO
    """The way of a core's posted stores."""

    def __init__(
        self,
        root: RootComplex,
        device: MemoryDevice,
        timing: DeviceTiming,
        pmrwbm: int = 0,
        combining: bool = False,
    ) -> None:
        """``combining``: cores have it mapped write-combining; else uncached."""
        super().__init__(root.trace, device)
        self.timing = timing
        self.destination = Destination(device.number, Target.PMR, pmrwbm)
        self._root = root
        self.uncached = not combining
        self._mmio: dict[int, int] = {}
        self._drained: dict[int, int] = {}
        """By channel of posted stores: how many have certainly left the core's write-combining buffers."""
        root.trace.uncached.add(device.number)

    @override
    def dma_write(
        self,
        offset: int,
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
        visible_ps, kept_ps = self.timing.dma_write(arrive_ps, len(data), late_ps, not_before_ps)
        if credits is not None:
            credits.give(visible_ps, len(data))
        reached = [accepted_ps, transit_ps, visible_ps, kept_ps, kept_ps]
        if chunk is None:
            self.write(offset, data, channel, self.dma_path, writer, reached, behind)
        else:
            chunk.reached_ps[:] = reached
            self.device.space.write_at(visible_ps, channel, chunk.number, offset, data, None, accepted_ps)
        return visible_ps

    @override
    def dma_read_ps(self, offset: int, length: int) -> int:
        return self.timing.dma_read_ps(length)

    def read_ready_ps(self, arrive_ps: int) -> int:
        """When a read that arrives now is served: behind all writes, and their barrier if it is one."""
        return self.timing.read_ready_ps(arrive_ps)

    @override
    def access_ps(
        self, offset: int, length: int, dirty: bool, agent: int, fills: FillBuffers, wait: bool = True
    ) -> int:
        root = self._root
        start_ps = root.clock._now
        root.catch_up(start_ps)
        if not dirty:
            return self.timing.load_ps(length, start_ps)
        return self.timing.stores_ps(len(lines(offset, length)), root.platform.cpu.store_ps, start_ps)

    @override
    def store(self, offset: int, data: bytes, channel: int, writer: str, at_ps: int) -> None:
        """A core's posted writes, one TLP a line; between two fences write-combining buffers are emptied in any order.

        Uncached ones keep their order.
        """
        own, done = self._channel(channel), 0
        fenced = self._drained.get(own, 0)
        behind = ((own, fenced),) if fenced else ()
        while done < len(data):
            take = min(LINE_BYTES - (offset + done) % LINE_BYTES, len(data) - done)
            visible_ps, kept_ps = self.timing.store(at_ps, take)
            reached = [at_ps, at_ps, visible_ps, kept_ps, kept_ps]
            self.write(offset + done, data[done : done + take], own, self.mmio_path, writer, reached, behind)
            done += take

    @override
    def ntstore(self, offset: int, data: bytes, channel: int, writer: str, at_ps: int) -> int:
        self._root.catch_up(at_ps)
        self.store(offset, data, channel, writer, at_ps)
        return at_ps

    @override
    def write_back(self, line: int, issued_ps: int, keep: bool) -> int:
        """Nothing to write back: no cache holds lines of such a device."""
        return issued_ps

    @override
    def persisted_ps(self, line: int, queued_ps: int) -> int:
        return queued_ps

    @override
    def posted(self, stores: int) -> ChannelPrefixes:
        channel = self._mmio.get(stores)
        if channel is None:
            return ()
        return ((channel, self.trace.count(channel) if self.uncached else self._drained.get(channel, 0)),)

    @override
    def returned(self, seen: Sequence[Chunk], stores: Sequence[int]) -> Sequence[Chunk]:
        if self.uncached or not seen:
            return seen
        own = {channel: self._drained.get(channel, 0) for one in stores if (channel := self._mmio.get(one)) is not None}
        return [chunk for chunk in seen if chunk.position < own.get(chunk.channel, chunk.position + 1)]

    def drain(self, stores: int) -> None:
        """The core's write-combining buffers have been emptied; ``stores`` is as for :meth:`posted`."""
        channel = self._mmio.get(stores)
        if channel is not None and not self.uncached:
            self._drained[channel] = self.trace.count(channel)

    @override
    def status_read_ps(self, start_ps: int) -> int:
        return self.timing.status_read_ps(start_ps)

    def _channel(self, stores: int) -> int:
        """The trace's channel of a core's posted stores; ``stores`` is that of its other stores.

        No fence makes them visible: it empties the core's buffers, and the posted writes are on their way then.
        """
        found = self._mmio.get(stores)
        if found is None:
            entry = self.trace.channels[stores]
            ordered = entry.ordered and self.uncached
            found = self._mmio[stores] = self.trace.channel(f"{entry.name}, posted", ordered=ordered)
        return found


class PeerMemory(BesideAdapter, parameters=PeerParameters):
    """The persistent memory region of a drive, or its controller memory buffer."""

    def __init__(self, root: RootComplex, device: MemoryDevice, parameters: PeerParameters) -> None:
        super().__init__(root, device, PeerDevice(parameters), parameters.pmrwbm, parameters.mapping == "wc")
