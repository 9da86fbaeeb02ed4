"""How large a work queue element is: units of 64 B, as the adapter fetches them (Kong et al., NSDI'23, Husky).

A control segment, what the opcode needs (remote address, operands) and one data pointer fill the first unit; inline
data takes the pointer's place and goes on into further units; a datagram has an address vector of 48 B besides
(rdma-core, providers/mlx5, wqe.h).
"""

from __future__ import annotations

from ..profiles.parameters.adapter import NicParameters
from .opcodes import QpType
from .work import INLINE, SendWR

ADDRESS_VECTOR_BYTES = 48
POINTER_BYTES = 16

_UD = QpType.IBV_QPT_UD


def further_units(nic: NicParameters, qp_type: QpType, inline_bytes: int) -> int:
    """Units behind the first one, of a work request with so much inline data (0: with a pointer)."""
    if qp_type is _UD:
        inline_bytes = max(inline_bytes, POINTER_BYTES) + ADDRESS_VECTOR_BYTES
    beyond = inline_bytes - nic.wqe_inline_bytes
    return (beyond + nic.wqe_bytes - 1) // nic.wqe_bytes if beyond > 0 else 0


def size_bytes(nic: NicParameters, qp_type: QpType, work: SendWR) -> int:
    """The bytes of a work request's WQE."""
    inline_bytes = work.length if work.send_flags in INLINE else 0
    return nic.wqe_bytes * (1 + further_units(nic, qp_type, inline_bytes))
