"""How many bytes a request's packets carry beside their payload: headers of the link and of the transport.

``Headers.middle_bytes`` has what every packet has (link, BTH, ICRC); the rest are the extension headers of the
InfiniBand Architecture Specification 1.4, volume 1, chapter 9, and annex A19 (FETH).
"""

from __future__ import annotations

from ..profiles.parameters.adapter import Headers
from ..verbs.opcodes import ATOMICS, CARRYING, IMMEDIATE, SENDS, Opcode, QpType
from ..verbs.work import PacketOrder
from .message import Message

ATOMIC_ETH_BYTES = 28
ATOMIC_BYTES = 8
"""Size of an atomic's operand and of its result (AtomicAckETH)."""
FETH_BYTES = 4
DETH_BYTES = 8
GRH_BYTES = 40
"""Bytes before a datagram's payload in its receive buffer, filled or not (ibv_create_ah(3))."""


def request_bytes(headers: Headers, qp_type: QpType, message: Message, at: int, last: bool) -> int:
    """Headers of the packet of ``message`` whose payload starts at ``at``."""
    opcode = message.opcode
    if opcode is Opcode.IBV_WR_RDMA_READ:
        return headers.read_request_bytes
    if opcode in ATOMICS:
        return headers.middle_bytes + ATOMIC_ETH_BYTES
    if opcode is Opcode.IBV_WR_FLUSH:
        return headers.read_request_bytes + FETH_BYTES
    if opcode is Opcode.PRIMITIVE:
        return headers.middle_bytes + _order(message).header_bytes
    first_bytes = headers.send_bytes if opcode in SENDS else headers.write_bytes
    size = headers.middle_bytes if at else first_bytes
    if last and opcode in IMMEDIATE:
        size += headers.immediate_bytes
    if opcode in CARRYING and not at:
        size += _order(message).header_bytes
    return size + DETH_BYTES if qp_type is QpType.IBV_QPT_UD else size


def _order(message: Message) -> PacketOrder:
    order = message.work.order
    assert order is not None, "a primitive's packet carries its order"
    return order
