"""The responder's atomic unit: one for each adapter, one CAS or FETCH AND ADD after the other.

The adapter reads the operand over PCIe behind its own posted writes, and writes the result as a posted write. The unit
is held until it has done both, so that RDMA atomics of this adapter see each other (Kalia et al., ATC'16, section 3.4).
Nothing is locked meanwhile: a CPU's store, or its CAS, in between is overwritten (ibv_wr_post(3): IBV_ATOMIC_HCA).
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ..sim.trace import Chunk
from .execution import Running
from .inbound import Observe
from .lanes import Operand
from .opcodes import Opcode
from .packets import ATOMIC_BYTES
from .rules import Event, Request
from .verbs import QueuePair
from .work import SendWR

if TYPE_CHECKING:
    from .responder import Responder

_WORD = 1 << (8 * ATOMIC_BYTES)


class AtomicUnit:
    """Executes the atomics that arrive at one adapter, in order of arrival."""

    def __init__(self, nic: Responder) -> None:
        self._nic = nic
        self._waiting: deque[tuple[QueuePair, SendWR, Running, Operand, Observe]] = deque()
        self._busy = False

    def execute(self, qp: QueuePair, work: SendWR, running: Running) -> None:
        """It is ``work``'s turn on its queue pair: queue for the unit."""
        seen: list[Chunk] = []
        observe = qp.inbound.observer(Event.ATOMIC_RESULT, work.remote_address, returned=seen)
        lanes = qp.inbound.lanes(work.remote_address)
        operand = Operand((*lanes.earlier(), *lanes.earlier_releases()), seen)
        self._waiting.append((qp, work, running, operand, observe))
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if not self._busy:
            return
        qp, work, running, operand, observe = self._waiting.popleft()
        nic, address = self._nic, work.remote_address
        observe = qp.inbound.behind_results(observe, address)
        nic.settle(work.key)
        nic.dma.read(
            work.key,
            address,
            ATOMIC_BYTES,
            partial(self._finish, qp, work, running, operand, observe),
            not_before_ps=qp.inbound.lanes(address).placed_ps,
        )

    def _finish(
        self,
        qp: QueuePair,
        work: SendWR,
        running: Running,
        operand: Operand,
        observe: Observe,
        old: bytes,
        chunks: list[Chunk],
    ) -> None:
        nic, now_ps = self._nic, self._nic.clock.now_ps
        operand.seen.extend(chunks)
        new = _result(work, int.from_bytes(old, "little"))
        if new is not None:
            qp.inbound.behind_executed(Request.ATOMIC, now_ps)
            nic.post_result(qp, work, new.to_bytes(ATOMIC_BYTES, "little"), operand)
        qp.inbound.executed(Request.ATOMIC, observe)
        nic.answer(qp, work, now_ps, old, observe)
        qp.order.end(running, now_ps)
        self._next()


def _result(work: SendWR, old: int) -> int | None:
    """What is written; None for a comparison that fails."""
    if work.opcode is Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD:
        return (old + work.compare_add) % _WORD
    return work.swap % _WORD if old == work.compare_add % _WORD else None
