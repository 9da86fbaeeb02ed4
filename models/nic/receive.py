"""The responder's receive side: where a packet's payload goes, what takes a receive request, what is refused.

Reliable connections answer with a NAK what may not be: RNR where a receive request is missing, an error that breaks the
connection where a key, a range or a length is wrong. Unreliable ones drop it without a word (IBTA 1.4, 9.8.2, 9.9.2).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..durability.rules import Event
from ..verbs.objects import QueuePair, SharedReceiveQueue
from ..verbs.opcodes import IMMEDIATE, RECEIVING, SENDS, Opcode, QpType, Status
from ..verbs.work import RecvWR, SendWR, WorkCompletion
from .packets import GRH_BYTES
from .port import RECEIVED

if TYPE_CHECKING:
    from .responder import Responder


def target(nic: Responder, qp: QueuePair, work: SendWR, at: int, n_bytes: int, last: bool) -> int | None:
    """Where the packet of ``work`` with the ``n_bytes`` from ``at`` on goes, less ``at``; None if it is not taken."""
    if qp.qp_type is not QpType.IBV_QPT_RC and not _in_sequence(qp, at, n_bytes, last):
        return None
    if work.opcode in SENDS or (last and work.opcode in RECEIVING):
        receive = qp.receiving or _take(nic, qp, work, at)
        if receive is None:
            return None
        if work.opcode in SENDS:
            return receive.local_address + (GRH_BYTES if qp.qp_type is QpType.IBV_QPT_UD else 0)
    status = nic.regions.refuses(work)
    if status is not None:
        qp.receiving = None
        if qp.qp_type is QpType.IBV_QPT_RC:
            nic.refuse(qp, work, status)
        else:
            qp.expected_bytes = -1
        return None
    return work.remote_address


def _in_sequence(qp: QueuePair, at: int, n_bytes: int, last: bool) -> bool:
    """Whether a packet continues the message that is arriving; a gap loses the whole message."""
    if at and at != qp.expected_bytes:
        qp.expected_bytes = -1
        return False
    qp.expected_bytes = 0 if last else at + n_bytes
    return True


def _take(nic: Responder, qp: QueuePair, work: SendWR, at: int) -> RecvWR | None:
    """The next receive request for a message that needs one; without a usable one the message is not taken."""
    owner = qp.srq if qp.srq is not None else qp
    queue = owner.receive_queue
    reliable, datagram = qp.qp_type is QpType.IBV_QPT_RC, qp.qp_type is QpType.IBV_QPT_UD
    needed = work.length + (GRH_BYTES if datagram else 0) if work.opcode in SENDS else 0
    if owner.used_bytes and owner.used_bytes + needed > queue[0].length:
        queue.popleft()  # no room in the rest of a multi-packet buffer: it is given up
        owner.used_bytes = 0
    if not queue:
        if reliable:
            qp.expected_attempt, qp.expected_key = work.attempt + 1, work.key
            work.sent_bytes = at
            nic.nak(qp, work, Status.IBV_WC_RNR_RETRY_EXC_ERR)
        else:
            qp.expected_bytes = -1
        return None
    receive = queue[0]
    if datagram and receive.length < needed:
        return None
    qp.receive_offset = owner.used_bytes
    _use(owner, receive, needed)
    error = None
    if receive.length < needed:
        error = Status.IBV_WC_LOC_LEN_ERR, Status.IBV_WC_REM_INV_REQ_ERR
    elif not nic.regions.local(receive.lkey, receive.local_address, needed, written=True):
        error = Status.IBV_WC_LOC_PROT_ERR, Status.IBV_WC_REM_OP_ERR
    if error is None:
        if qp.receive_offset:
            receive = replace(receive, local_address=receive.local_address + qp.receive_offset)
        qp.receiving = receive
        return receive
    here, there = error
    completion = WorkCompletion(receive.wr_id, here, Opcode.IBV_WC_RECV, 0, qp, work.span)
    nic.complete(qp.recv_cq, completion, work.key + RECEIVED)
    if reliable:
        nic.refuse(qp, work, there)
    else:
        qp.fail()
    return None


def _use(owner: QueuePair | SharedReceiveQueue, receive: RecvWR, needed: int) -> None:
    """A message takes the buffer at the head, or strides of it: it leaves the queue with the last."""
    stride_bytes = receive.stride_bytes
    if stride_bytes:
        owner.used_bytes += max(1, -(-needed // stride_bytes)) * stride_bytes
    if not stride_bytes or owner.used_bytes + stride_bytes > receive.length:
        owner.receive_queue.popleft()
        owner.used_bytes = 0


def received(nic: Responder, qp: QueuePair, work: SendWR) -> None:
    """A message that took a receive request has been accepted: its completion follows behind all of its bytes."""
    receive, qp.receiving = qp.receiving, None
    assert receive is not None
    if qp.messages is not None and work.opcode in SENDS:
        qp.messages.append(receive.local_address)
    if not nic.drain.behind(qp, partial(_completes, nic, qp, work, receive, qp.receive_offset)):
        _completes(nic, qp, work, receive, qp.receive_offset)


def _completes(nic: Responder, qp: QueuePair, work: SendWR, receive: RecvWR, byte_offset: int) -> None:
    datagram = qp.qp_type is QpType.IBV_QPT_UD
    completion = WorkCompletion(
        receive.wr_id,
        Status.IBV_WC_SUCCESS,
        Opcode.IBV_WC_RECV if work.opcode in SENDS else Opcode.IBV_WC_RECV_RDMA_WITH_IMM,
        work.length + (GRH_BYTES if datagram else 0),
        qp,
        work.span,
        qp.inbound.everywhere(Event.RECV_COMPLETION),
        work.imm_data if work.opcode in IMMEDIATE else None,
        work.qp.number if datagram else 0,
        byte_offset=byte_offset,
    )
    key, placed_ps = work.key + RECEIVED, qp.inbound.placed_ps

    def complete(_: SendWR) -> None:
        nic.complete(qp.recv_cq, completion, key, "responder NIC, DMA and CQE", placed_ps)

    nic.clock.hardware(nic.clock.now_ps + nic.parameters.recv_processing_ps, key, complete, work)
