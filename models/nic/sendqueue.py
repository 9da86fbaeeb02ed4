"""What holds a work request back in the send queue, and what sends it again.

READ, atomics, FLUSH and ATOMIC WRITE share a limit of requests under way. A fence waits for those of them that the
table in ``models.durability.rules`` names. A SEND (or an immediate) that found no receive request is answered by an RNR
NAK: after the responder's RNR timer it and everything behind it goes out again (IBTA 1.4, 9.7.5.2.8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..durability.rules import FENCE_WAITS_FOR
from ..verbs.objects import RNR_RETRY_FOREVER, QueuePair
from ..verbs.opcodes import KIND, NON_POSTED, RETURNING, Opcode
from ..verbs.work import FENCE, INLINE, REQUEST_SHIFT, VOID, SendWR, repeated
from .packets import ATOMIC_BYTES

if TYPE_CHECKING:
    from .requester import Requester

_FENCING = frozenset(opcode for opcode, kind in KIND.items() if kind in FENCE_WAITS_FOR)


def may_go(qp: QueuePair, work: SendWR) -> bool:
    """Whether the request at the head of the send queue may go on the wire now."""
    if qp.stalled or (qp.reads_under_way >= qp.max_rd_atomic and work.opcode in NON_POSTED):
        return False
    return not qp.fencing or work.send_flags not in FENCE


def goes(qp: QueuePair, work: SendWR, now_ps: int) -> None:
    """It goes. What a fence has waited for has certainly happened, whether a program has looked or not."""
    if work.send_flags in FENCE:
        for observe in qp.unseen:
            observe(now_ps)
    work.attempt = qp.attempt
    qp.outstanding.append(work)
    if work.opcode in NON_POSTED:
        qp.reads_under_way += 1
        qp.fencing += work.opcode in _FENCING


def is_back(qp: QueuePair, work: SendWR) -> None:
    """It has been answered, or is about to be sent again."""
    if work.opcode in NON_POSTED:
        qp.reads_under_way -= 1
        qp.fencing -= work.opcode in _FENCING


def local_buffer_is_open(nic: Requester, work: SendWR) -> bool:
    """Whether its ``lkey`` allows what the adapter has to do to the local buffer."""
    if work.lkey is None or work.send_flags in INLINE or work.opcode is Opcode.IBV_WR_FLUSH:
        return True
    written = work.opcode in RETURNING
    length = ATOMIC_BYTES if written and work.opcode is not Opcode.IBV_WR_RDMA_READ else work.length
    return nic.regions.local(work.lkey, work.local_address, length, written)


def will_repeat(nic: Requester, qp: QueuePair) -> bool:
    """An RNR NAK has come: wait and go back, unless that has been done too often."""
    if qp.rnr_retry != RNR_RETRY_FOREVER and qp.repeats >= qp.rnr_retry:
        return False
    assert qp.peer is not None
    qp.repeats += 1
    qp.stalled = True
    nic.port.withdraw(qp, nic.clock.now_ps)  # what has not come to the engine goes with the repetition
    nic.clock.call_at(nic.clock.now_ps + qp.peer.nic.parameters.rnr_timer_ps, _repeat, nic, qp)
    return True


def _repeat(nic: Requester, qp: QueuePair) -> None:
    if qp.error:
        return
    qp.attempt += 1
    qp.stalled = False
    while qp.outstanding:
        work = qp.outstanding.pop()
        is_back(qp, work)
        qp.send_queue.appendleft(repeated(work, ready=True))
        work.attempt = VOID
    for work in qp.send_queue:  # keys rise in the order in which requests go out
        qp.key = work.key = qp.key + (1 << REQUEST_SHIFT)
        work.qp = qp
    nic.pump(qp)
