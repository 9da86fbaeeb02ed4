"""A device beside the adapter on PCIe whose memory can be addressed: the persistent memory region of an NVMe drive, or
its controller memory buffer.

Writes come peer to peer from the adapter, or as posted stores from cores, into the device's buffer, where reads of the
region see them. They are in the region once they have passed on; no agent knows when, unless a write barrier has
completed (NVMe 1.4, PMRCAP.PMRWBM: a read of the region, or a read of the register PMRSTS). The host's caches and
memory controllers have no part in it, and PCIe keeps no order between this device and host memory.

An elasticity buffer (PMREBS) takes writes in faster than the region behind it does (PMRSWTP), until it is full.
"""

from __future__ import annotations

from ...sim.bytespace import LINE_BYTES
from ...sim.stations import Pipe
from ..memory.buffer import Buffer
from ..profiles.parameters.storage import PeerParameters

LATE_REMEMBERED = 64
"""Of more writes that are late those are forgotten which the region has."""
READ_IS_BARRIER = 1
STATUS_IS_BARRIER = 2


class PeerDevice:
    """The way into one device and back; its instants are those of one schedule."""

    def __init__(self, parameters: PeerParameters) -> None:
        self.parameters = parameters
        self._ingress = Pipe(parameters.ingress_bits_per_s)
        sustained = parameters.sustained_bits_per_s
        self._elastic = Buffer(parameters.buffer_bytes, sustained) if sustained else None
        self._last_arrival_ps = 0
        self.last_visible_ps = 0
        """When everything that came so far is in the buffer."""
        self.last_kept_ps = 0
        """When everything that came so far is in the region. Of both, what is late is left out."""
        self._late: list[tuple[int, int]] = []
        """Writes that are late: when the buffer shows each, and when the region has it."""

    def dma_write(self, arrive_ps: int, n_bytes: int, late_ps: int = 0, not_before_ps: int = 0) -> tuple[int, int]:
        """A write of the adapter is at its root port; returns when the buffer shows it and when the region has it."""
        return self._take(arrive_ps + self.parameters.peer_write_ps, n_bytes, late_ps, not_before_ps)

    def store(self, at_ps: int, n_bytes: int) -> tuple[int, int]:
        """A core's posted write leaves its store buffer; returns as :meth:`dma_write`."""
        return self._take(at_ps + self.parameters.mmio_write_ps, n_bytes)

    def _take(self, arrive_ps: int, n_bytes: int, late_ps: int = 0, not_before_ps: int = 0) -> tuple[int, int]:
        """The adapter's writes and those of cores meet here; they keep the order in which they were sent."""
        arrive_ps = self._last_arrival_ps = max(arrive_ps, self._last_arrival_ps)
        _, taken_ps = self._ingress.send(arrive_ps, n_bytes)
        out_ps = taken_ps
        if self._elastic is not None:
            taken_ps, _, out_ps = self._elastic.put(taken_ps, n_bytes)
        self.last_visible_ps = max(self.last_visible_ps, taken_ps)
        visible_ps = max(taken_ps + late_ps, not_before_ps)
        kept_ps = max(visible_ps, out_ps) + self.parameters.settle_ps
        if visible_ps > taken_ps:
            self._late.append((visible_ps, kept_ps))
        else:
            self.last_kept_ps = max(self.last_kept_ps, kept_ps)
        return visible_ps, kept_ps

    def _all_kept_ps(self, arrive_ps: int) -> int:
        """When the region has all that a barrier finds which arrives then; what is late it finds once it is there."""
        if len(self._late) > LATE_REMEMBERED:
            self._late = [late for late in self._late if late[1] > arrive_ps]
        there = [kept_ps for visible_ps, kept_ps in self._late if visible_ps <= arrive_ps]
        return max(self.last_kept_ps, *there) if there else self.last_kept_ps

    def read_ready_ps(self, arrive_ps: int) -> int:
        """When a read of the region that arrives now is served: behind all writes, and their barrier if it is one.

        Without read bypass (PMREBS.RBB) it also waits until the elasticity buffer has passed all its writes on.
        """
        ordered = self._elastic is not None and not self.parameters.read_bypass
        waits = ordered or self.parameters.pmrwbm & READ_IS_BARRIER
        return max(arrive_ps, self.last_visible_ps, self._all_kept_ps(arrive_ps) if waits else 0)

    def dma_read_ps(self, n_bytes: int) -> int:
        """Round trip of a read by the adapter, without serialisation."""
        return self.parameters.peer_read_ps

    def stores_ps(self, lines: int, issue_ps: int, start_ps: int) -> int:
        """How long a core is held by posted stores to so many lines, ``issue_ps`` each.

        It has a few write-combining buffers; beyond those it goes as fast as the device takes lines in.
        """
        p = self.parameters
        first_ps = max(start_ps + p.mmio_write_ps, self._ingress.free_ps, self.last_visible_ps)
        behind = lines - p.wc_buffers
        room_ps = first_ps + behind * self._ingress.transfer_ps(LINE_BYTES) - p.mmio_write_ps
        return max(lines * issue_ps, room_ps - start_ps)

    def load_ps(self, length: int, start_ps: int) -> int:
        """How long a core's loads of ``length`` bytes take: uncached ones one after the other, streaming ones of a
        write-combining mapping line by line, some lines at once (Intel SDM, volume 1, section 12.10.3: MOVNTDQA).
        """
        p = self.parameters
        trip_ps, at_once_bytes, streamed_bytes = p.mmio_read_ps, p.mmio_width_bytes, LINE_BYTES * p.mmio_overlap
        if p.mapping == "wc":
            at_once_bytes = streamed_bytes
        arrive_ps = start_ps + trip_ps // 2
        trips = max(1, -(-length // at_once_bytes))
        return self.read_ready_ps(arrive_ps) - arrive_ps + trips * trip_ps

    def status_read_ps(self, start_ps: int) -> int:
        """How long a core's read of PMRSTS takes, which may be the write barrier."""
        arrive_ps = start_ps + self.parameters.mmio_read_ps // 2
        barrier = self.parameters.pmrwbm & STATUS_IS_BARRIER
        ready_ps = max(arrive_ps, self.last_visible_ps, self._all_kept_ps(arrive_ps) if barrier else 0)
        return ready_ps - arrive_ps + self.parameters.mmio_read_ps
