"""The responder's receive side: where a packet's payload goes, which messages take a receive request, refusals.

Reliable connections refuse a packet with a NAK: RNR where a receive request is missing, an error that breaks the
connection where a key, a range or a length is wrong. Unreliable ones drop it without a word (IBTA 1.4, 9.8.2, 9.9.2).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...verbs.objects import SharedReceiveQueue, WorkCompletion
from ...verbs.opcodes import IMMEDIATE, RECEIVING, SENDS, Opcode, QpType, Status
from ...verbs.ties import RECEIVED
from ...verbs.work import RecvWR
from ..adapter import Adapter
from ..ends import ReceiveEnd
from ..message import Message
from ..packets import GRH_BYTES


def target(nic: Adapter, end: ReceiveEnd, message: Message, at: int, n_bytes: int, last: bool) -> int | None:
    """Where the packet with the ``n_bytes`` from ``at`` on goes, less ``at``; None if it is not taken."""
    if end.qp.qp_type is not QpType.IBV_QPT_RC and not _in_sequence(end, at, n_bytes, last):
        return None
    if message.opcode in SENDS or (last and message.opcode in RECEIVING):
        receive = end.receiving or _take(nic, end, message, at)
        if receive is None:
            return None
        if message.opcode in SENDS:
            return receive.local_address + (GRH_BYTES if end.qp.qp_type is QpType.IBV_QPT_UD else 0)
    status = nic.regions.refuses(message.work)
    if status is not None:
        end.receiving = None
        if end.qp.qp_type is QpType.IBV_QPT_RC:
            nic.answers.refuse(end, message, status)
        else:
            end.expected_bytes = -1
        return None
    return nic.regions.place(message.work)


def _in_sequence(end: ReceiveEnd, at: int, n_bytes: int, last: bool) -> bool:
    """Whether a packet continues the message that is arriving; a gap loses the whole message."""
    if at and at != end.expected_bytes:
        end.expected_bytes = -1
        return False
    end.expected_bytes = 0 if last else at + n_bytes
    return True


def _take(nic: Adapter, end: ReceiveEnd, message: Message, at: int) -> RecvWR | None:
    """The next receive request for a message that needs one; without a usable one the message is not taken."""
    owner = end.qp.srq if end.qp.srq is not None else end
    queue = owner.receive_queue
    reliable, datagram = end.qp.qp_type is QpType.IBV_QPT_RC, end.qp.qp_type is QpType.IBV_QPT_UD
    needed = message.length + (GRH_BYTES if datagram else 0) if message.opcode in SENDS else 0
    if owner.used_bytes and owner.used_bytes + needed > queue[0].length:
        queue.popleft()  # no room in the rest of a multi-packet buffer: it is given up
        owner.used_bytes = 0
    if not queue:
        if reliable:
            end.expected_attempt, end.expected_key = message.attempt + 1, message.key
            message.sent_bytes = at
            nic.answers.acknowledge(end, message, None, Status.IBV_WC_RNR_RETRY_EXC_ERR)
        else:
            end.expected_bytes = -1
        return None
    receive = queue[0]
    if datagram and receive.length < needed:
        return None
    end.receive_offset = owner.used_bytes
    _use(owner, receive, needed)
    error = None
    if receive.length < needed:
        error = Status.IBV_WC_LOC_LEN_ERR, Status.IBV_WC_REM_INV_REQ_ERR
    elif not nic.regions.local(receive.lkey, receive.local_address, needed, written=True):
        error = Status.IBV_WC_LOC_PROT_ERR, Status.IBV_WC_REM_OP_ERR
    if error is None:
        if end.receive_offset:
            receive = replace(receive, local_address=receive.local_address + end.receive_offset)
        end.receiving = receive
        return receive
    here, there = error
    completion = WorkCompletion(receive.wr_id, here, Opcode.IBV_WC_RECV, 0, end.qp, message.span)
    nic.slot.complete(end.qp.recv_cq, completion, message.key + RECEIVED)
    if reliable:
        nic.answers.refuse(end, message, there)
    else:
        end.qp.fail()
    return None


def _use(owner: ReceiveEnd | SharedReceiveQueue, receive: RecvWR, needed: int) -> None:
    """A message takes the buffer at the head, or strides of it: it leaves the queue with the last."""
    stride_bytes = receive.stride_bytes
    if stride_bytes:
        owner.used_bytes += max(1, -(-needed // stride_bytes)) * stride_bytes
    if not stride_bytes or owner.used_bytes + stride_bytes > receive.length:
        owner.receive_queue.popleft()
        owner.used_bytes = 0


def received(nic: Adapter, end: ReceiveEnd, message: Message) -> None:
    """A message that took a receive request has been accepted: its completion follows behind all of its bytes."""
    receive, end.receiving = end.receiving, None
    assert receive is not None
    if end.messages is not None and message.opcode in SENDS:
        end.messages.append(receive.local_address)
    if not nic.responder.drain.behind(end, partial(completes, nic, end, message, receive, end.receive_offset)):
        completes(nic, end, message, receive, end.receive_offset)


def completes(nic: Adapter, end: ReceiveEnd, message: Message, receive: RecvWR, byte_offset: int) -> None:
    """The bytes of a message that took a receive request are on their way: its completion follows them."""
    qp, sends, inbound = end.qp, message.opcode in SENDS, end.inbound
    datagram = qp.qp_type is QpType.IBV_QPT_UD
    completion = WorkCompletion(
        receive.wr_id,
        Status.IBV_WC_SUCCESS,
        Opcode.IBV_WC_RECV if sends else Opcode.IBV_WC_RECV_RDMA_WITH_IMM,
        message.length + (GRH_BYTES if datagram else 0),
        qp,
        message.span,
        inbound.received(),
        message.work.imm_data if message.opcode in IMMEDIATE else None,
        message.end.number if datagram else 0,
        byte_offset,
    )
    at_ps = nic.clock._now + nic.parameters.recv_processing_ps
    nic.slot.complete_receive(at_ps, message.key + RECEIVED, completion, inbound.placed_ps)
