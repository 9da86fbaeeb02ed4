"""DIMMs behind the root complex: coherent memory, which caches keep copies of and memory controllers write."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

from typing_extensions import override

from ...sim.bytespace import LINE_BYTES, lines
from ...sim.trace import NEVER, ChannelPrefixes, Chunk, Stage
from ..durability.places import Domain, Path
from ..memory.devices import MemoryDevice
from ..pcie.credits import PostedCredits
from ..pcie.link import Tlp
from ..profiles.parameters.memory import MediaParameters
from .attached import AttachedMemory
from .cacheset import LINE_BITS, line_key
from .fillbuffers import FillBuffers
from .llc import insert
from .rootcomplex import RootComplex


class Dimms(AttachedMemory, parameters=MediaParameters):
    """One such device: all DIMMs of a kind in a node, interleaved."""

    def __init__(self, root: RootComplex, device: MemoryDevice, parameters: MediaParameters) -> None:
        super().__init__(root.trace, device)
        self.dma_path = Path.DMA_DDIO if root.ddio else Path.DMA_NO_DDIO
        self._root = root
        self._media = parameters
        self._number = device.number
        self._posted_write_ps = root.platform.pcie.visible_ps
        self._reads_partial = root.platform.imc.partial_ntstore == "read"
        self._dma_read_ps = root.platform.pcie.read_ps

    # from the adapters --------------------------------------------------------------------------------------------
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
        root, device = self._root, self.device
        visible_ps = arrive_ps + self._posted_write_ps
        if credits is not None and (root.takes_at_once or late_ps):
            credits.give(visible_ps, len(data))
            credits = None
        last_ps = root.last_visible_ps
        root.last_visible_ps = visible_ps if visible_ps > last_ps else last_ps
        if late_ps or not_before_ps:
            visible_ps = max(visible_ps + late_ps, not_before_ps)
        inbox = root.inbox
        entry = (visible_ps, self._number, offset, offset + len(data))
        if visible_ps >= root.inbox_ps:
            root.inbox_ps = visible_ps
            inbox.append(entry)
        else:
            insert(inbox, entry)
        if credits is not None:
            if root.ddio:
                held = root.held
                if credits.__class__ is not PostedCredits or (held and held[-1][0] > visible_ps):
                    root.hold(visible_ps, credits, len(data))
                else:
                    held.append((visible_ps, credits, len(data)))
            else:
                root.owed[id(entry)] = credits, len(data)
        if len(inbox) > root.most_writes:
            root.catch_up(accepted_ps)
        if chunk is not None:
            number = chunk.number
            chunk.reached_ps[Stage.TRANSIT : Stage.QUEUED] = transit_ps, visible_ps
        elif device.traced:
            reached = [accepted_ps, transit_ps, visible_ps, NEVER, NEVER]
            number = self.trace.write(
                self._number, channel, offset, data, self.dma_path, writer, reached, behind
            ).number
        else:
            number = self._untraced = self._untraced + 1
        device.space.write_at(visible_ps, channel, number, offset, data, None, accepted_ps)
        return visible_ps

    @override
    def dma_writes(
        self,
        offset: int,
        data: bytes,
        channel: int,
        writer: str,
        accepted_ps: int,
        tlps: list[Tlp],
        credits: PostedCredits | None = None,
    ) -> int:
        """TLPs with nothing between them reach the caches as one run."""
        root, device = self._root, self.device
        way_ps = self._posted_write_ps
        first_ps = tlps[0][2] + way_ps
        if first_ps < root.inbox_ps or (len(tlps) > 1 and (offset + tlps[0][0]) % LINE_BYTES):
            return super().dma_writes(offset, data, channel, writer, accepted_ps, tlps, credits)
        sizes, starts, arrivals = zip(*tlps, strict=True)
        instants: list[int] = [arrive_ps + way_ps for arrive_ps in arrivals]
        parts = list(zip(sizes, instants, strict=True))
        inbox, number = root.inbox, self._number
        if root.ddio:
            inbox.append((first_ps, number, offset, offset + len(data), parts))
            if credits is not None and root.takes_at_once:
                for size, at_ps in parts:
                    credits.give(at_ps, size)
            elif credits is not None:
                root.held.extend(zip(instants, repeat(credits), sizes, strict=False))
        else:
            at = offset
            for size, at_ps in parts:
                inbox.append((at_ps, number, at, at + size))
                at += size
                if credits is not None:
                    root.owed[id(inbox[-1])] = credits, size
        visible_ps = root.inbox_ps = instants[-1]
        last_ps = root.last_visible_ps
        root.last_visible_ps = visible_ps if visible_ps > last_ps else last_ps
        if len(inbox) * len(tlps) > root.most_tlps:
            root.catch_up(accepted_ps)
        if device.traced:
            moves = list(zip(sizes, starts, instants, strict=True))
            first = self.trace.write_run(number, channel, offset, data, self.dma_path, writer, accepted_ps, moves)
        else:
            first = self._untraced + 1
            self._untraced += len(tlps)
        device.space.write_run(channel, first, offset, data, parts, accepted_ps)
        return visible_ps

    @override
    def dma_read_ps(self, offset: int, length: int) -> int:
        """Shorter from the cache, longer from slow media; the root complex keeps until when memory is not ready."""
        root, number, now_ps = self._root, self._number, self._root.clock._now
        if root.inbox and root.inbox[0][0] <= now_ps:
            root.catch_up(now_ps)
        wanted = lines(offset, length)
        root.memory_ready_ps = 0
        if root.caches.dma_reads(number, wanted):
            return self._dma_read_ps - root.platform.llc.dma_read_hit_saving_ps
        took_ps, root.memory_ready_ps = root.home.read_lines(number, wanted[0], wanted[-1], now_ps, root.line_ps)
        media = self._media  # of a drive, which is never read so, there are no such numbers
        return self._dma_read_ps + max(0, took_ps + media.dma_read_extra_ps - media.load_ps)

    # from the cores -----------------------------------------------------------------------------------------------
    @override
    def access_ps(
        self, offset: int, length: int, dirty: bool, agent: int, fills: FillBuffers, wait: bool = True
    ) -> int:
        """How long the lines take from the places that hold them (``models.host.access``).

        A line that has left the caches and is not in a write pending queue yet is waited for: the home agent orders
        the access behind it.
        """
        root = self._root
        start_ps = root.clock._now
        if root.inbox and root.inbox[0][0] <= start_ps:
            root.catch_up(start_ps)
        return root.access.cost_ps(agent, fills, self._number, offset, length, dirty, start_ps, wait)

    @override
    def hit_ps(self, offset: int, length: int) -> int | None:
        return self._root.access.hit_ps(offset, length)

    @override
    def is_near(self, offset: int, length: int, agent: int) -> bool:
        root = self._root
        root.catch_up(root.clock._now)
        return root.caches.are_near(agent, self._number, lines(offset, length))

    @override
    def owned_ps(self, line: int) -> int:
        owned = self._root.access.owned
        return owned.get(self._number << LINE_BITS | line, 0) if owned else 0

    @override
    def when_taken(self, line: int, call: Callable[[], None]) -> Callable[[], None]:
        taken, key = self._root.caches.taken, self._number << LINE_BITS | line
        taken.setdefault(key, []).append(call)

        def end() -> None:
            there = taken.get(key, [])
            if call in there:
                there.remove(call)
                if not there:
                    del taken[key]

        return end

    @override
    def store(self, offset: int, data: bytes, channel: int, writer: str, at_ps: int) -> None:
        device, length, done = self.device, len(data), 0
        if not device.traced:
            number = self._untraced = self._untraced + 1
            device.space.write_at(at_ps, channel, number, offset, data, None, at_ps)
            return
        while done < length:  # one chunk a line: stores of one core to one line persist in their order
            take = min(LINE_BYTES - (offset + done) % LINE_BYTES, length - done)
            reached = [at_ps, at_ps, at_ps, NEVER, NEVER]
            self.write(offset + done, data[done : done + take], channel, Path.STORE, writer, reached)
            done += take

    @override
    def ntstore(self, offset: int, data: bytes, channel: int, writer: str, at_ps: int) -> int:
        root, number = self._root, self._number
        root.catch_up(at_ps)
        done, last_ps = 0, at_ps
        while done < len(data):
            take = min(LINE_BYTES - (offset + done) % LINE_BYTES, len(data) - done)
            piece, line = data[done : done + take], (offset + done) // LINE_BYTES
            key = line_key(number, line)
            dirty = root.caches.flush(key, keep=False)
            way_ps = self._media.ntstore_to_wpq_ps
            if take < LINE_BYTES and not dirty and self._reads_partial:  # memory writes whole lines
                way_ps += root.home.read_line(key, at_ps, at_ps)[0]
            queued_ps, stored_ps = root.home.queue(key, at_ps, way_ps, True)
            if dirty and self.device.traced:  # the dirty bytes of the cache go along
                self.trace.wrote_back(number, line, at_ps, queued_ps, stored_ps)
            last_ps = max(last_ps, queued_ps)
            reached = [at_ps, at_ps, queued_ps, queued_ps, stored_ps]
            self.write(offset + done, piece, channel, Path.NTSTORE, writer, reached)
            done += take
        return last_ps

    @override
    def write_back(self, line: int, issued_ps: int, keep: bool) -> int:
        """A line that is on its way to the queue (from the IIO's write cache, evicted, written back by another core)
        is waited for: the home agent orders the flush behind it."""
        root = self._root
        if root.inbox:
            root.catch_up(root.clock._now)
        key = self._number << LINE_BITS | line
        drained_ps = max(issued_ps, root.home.left_ps(key))
        if not root.caches.flush(key, keep):
            return drained_ps
        return max(drained_ps, root.home.write_back(key, issued_ps, flush=True))

    @override
    def persisted_ps(self, line: int, queued_ps: int) -> int:
        if self.device.domain is not Domain.MEDIA:
            return queued_ps
        return max(queued_ps, self._root.home.stored_ps(self._number, line))

    @override
    def drained_ps(self, line: int) -> int:
        """Queued, or past the queues of its DIMM."""
        return self._root.home.drained_ps(self._number, line) if self._media.controller.fence_drains else 0
