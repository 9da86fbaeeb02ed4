"""What requester and responder of an RDMA adapter share: the port, the slot, and completions on their way to the host.

Completions of sends wait in an inbox of the slot's entrance, sorted by instant and key, that is caught up before the
slot is used for anything later, and when the completion may be visible (a lazy merge, as in ``models.port``).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from ..sim.clock import HARDWARE, Clock
from ..sim.stations import Fifo
from ..sim.trace import NEVER
from .fabric import Fabric
from .hostmemory import HostMemory
from .ordering import Ordering
from .pcie import PcieLink
from .platform import Platform
from .port import COMPLETION, RECEIVED, Port
from .verbs import CompletionQueue, Opcode, QueuePair, SendWR, Status, WorkCompletion

_SEND = Opcode.IBV_WR_SEND
_SUCCESS = Status.IBV_WC_SUCCESS
NOT_VISIBLE = -1
"""``SendWR.start_ps`` of a completion whose instant is not known yet."""


class Adapter:
    """One adapter with one port; ``name`` is its vertex in the fabric, ``number`` its place among the vertices."""

    def __init__(
        self, clock: Clock, ordering: Ordering, name: str, platform: Platform, host: HostMemory, fabric: Fabric
    ) -> None:
        self.clock = clock
        self.name = name
        self.number = fabric.number(name)
        self.host = host
        self.fabric = fabric
        self.parameters = platform.nic
        self.port = Port(clock, fabric, name, platform.nic.tx_processing_ps)
        self.pcie = PcieLink(platform.pcie)
        self.receiver = Fifo()
        """Processes packets as they come in."""
        self.queue_pairs: list[QueuePair] = []
        self._ordering = ordering
        self._queue: list[Any] = clock._queue
        self._propagation_ps = fabric.parameters.propagation_ps
        self._switch_ps = fabric.parameters.switch_ps
        self._receive_ps = platform.nic.rx_processing_ps
        self._ack_ps = platform.nic.ack_processing_ps
        self._posted_write_ps = platform.pcie.posted_write_ps
        self._cqe_bytes = platform.nic.cqe_bytes
        self._cqe_ps = self.pcie.write_ps(self._cqe_bytes) + self._posted_write_ps
        """From the entrance of the slot to a visible completion, undisturbed."""
        self._doorbell_ps = platform.nic.doorbell_ps
        self._blueflame = platform.nic.blueflame
        self._mtu_bytes = platform.nic.mtu_bytes
        self._write_bytes = platform.nic.headers.write_bytes
        self._cqes: list[tuple[int, int, SendWR]] = []

    def channel(self, qp: QueuePair) -> int:
        """The trace's channel of what arrives here through ``qp``."""
        if qp.channel is None:
            qp.channel = self._ordering.trace.channel(f"queue pair {qp.number} at {self.name}")
        return qp.channel

    # completions --------------------------------------------------------------------------------------------
    def complete_at(self, at_ps: int, work: SendWR, observe: Callable[[int], None] | None) -> None:
        """A request is successfully done at ``at_ps``, not before now: its CQE is written then, behind what was."""
        work.start_ps, work.observe = NOT_VISIBLE, observe
        key = work.key + COMPLETION
        heappush(self._cqes, (at_ps, key, work))
        heappush(self._queue, (at_ps + self._cqe_ps, HARDWARE, key, self._visible, work))

    def settle(self, key: int) -> None:
        """Whoever asks for the slot now, with ``key``, comes behind the completions that were before it."""
        cqes, now_ps = self._cqes, self.clock._now
        while cqes and (cqes[0][0] < now_ps or (cqes[0][0] == now_ps and cqes[0][1] < key)):
            self._write_cqe()

    def _write_cqe(self) -> SendWR:
        at_ps, _, work = heappop(self._cqes)
        work.start_ps = self.pcie.write(at_ps, self._cqe_bytes)[1] + self._posted_write_ps
        return work

    def _visible(self, work: SendWR) -> None:
        """A completion may be visible: if it is, it goes into its queue."""
        if work.start_ps == NOT_VISIBLE:
            if self._cqes[0][2] is work:
                at_ps, _, _ = heappop(self._cqes)
                work.start_ps = self.pcie.write(at_ps, self._cqe_bytes)[1] + self._posted_write_ps
            else:
                while self._write_cqe() is not work:
                    pass
        visible_ps = work.start_ps
        if visible_ps > self.clock._now:
            heappush(self._queue, (visible_ps, HARDWARE, work.key + COMPLETION, self._visible, work))
            return
        span, qp = work.span, work.qp
        if span is not None and work.opcode is not _SEND:
            span.mark("CQE", visible_ps)
        qp.send_cq.push(WorkCompletion(work.wr_id, _SUCCESS, work.opcode, work.length, qp, span, work.observe))

    def _complete(
        self,
        qp: QueuePair,
        wr_id: int,
        opcode: Opcode,
        work: SendWR,
        observe: Callable[[int], None] | None,
        hop: str | None,
        status: Status = Status.IBV_WC_SUCCESS,
    ) -> None:
        """Write a CQE now, behind everything that went to the host before it; it is polled once it is visible."""
        if qp.off_ps != NEVER:
            return
        received = opcode is Opcode.IBV_WC_RECV
        key = work.key + (RECEIVED if received else COMPLETION)
        self.settle(key)
        _, at_root_ps = self.pcie.write(self.clock.now_ps, self._cqe_bytes)
        visible_ps = at_root_ps + self._posted_write_ps
        if hop is not None:
            mark(work, hop, visible_ps)
        completion = WorkCompletion(wr_id, status, opcode, work.length, qp, work.span, observe)
        self.clock.hardware(visible_ps, key, self._push, (qp.recv_cq if received else qp.send_cq, completion))

    def _push(self, found: tuple[CompletionQueue, WorkCompletion]) -> None:
        queue, completion = found
        queue.push(completion)


def mark(work: SendWR, hop: str, at_ps: int) -> None:
    """A hop of ``work`` ended, if anybody wants to know."""
    if work.span is not None:
        work.span.mark(hop, at_ps)
