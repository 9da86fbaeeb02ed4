"""libibverbs' constants: what a work request may ask for, how it may end, and which transport carries it.

Names are those of ``infiniband/verbs.h``; texts are how explanations call them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag, StrEnum

from ..durability.rules import RequestKind


class Opcode(StrEnum):
    """``ibv_wr_opcode`` and ``ibv_wc_opcode``."""

    IBV_WR_RDMA_WRITE = "WRITE"
    IBV_WR_RDMA_WRITE_WITH_IMM = "WRITE WITH IMMEDIATE"
    IBV_WR_SEND = "SEND"
    IBV_WR_SEND_WITH_IMM = "SEND WITH IMMEDIATE"
    IBV_WR_RDMA_READ = "READ"
    IBV_WR_ATOMIC_CMP_AND_SWP = "CAS"
    IBV_WR_ATOMIC_FETCH_AND_ADD = "FETCH AND ADD"
    IBV_WR_FLUSH = "FLUSH"
    IBV_WR_ATOMIC_WRITE = "ATOMIC WRITE"
    PRIMITIVE = "PRIMITIVE"
    """A packet of a primitive's own (``models.primitives``); libibverbs has no such request, nor the next two."""
    PRIMITIVE_WRITE = "PRIMITIVE WRITE"
    """A WRITE on whose arrival the responder's adapter goes through a primitive's steps."""
    PRIMITIVE_SEND = "PRIMITIVE SEND"
    IBV_EXP_WR_CQE_WAIT = "WAIT"
    """The requests behind it wait for completions (``models.verbs.cross_channel``); the next two are of that kind."""
    IBV_EXP_WR_SEND_ENABLE = "ENABLE"
    """A managed queue pair may execute more of its requests."""
    IBV_WR_NOP = "NOP"
    """mlx5's NOP: what a work request of a managed queue pair may be turned into."""
    IBV_WC_RECV = "RECV"
    IBV_WC_RECV_RDMA_WITH_IMM = "RECV OF WRITE WITH IMMEDIATE"
    IBV_WC_DRIVER1 = "INTERRUPT"
    """An adapter's own event: a primitive's step interrupts."""


SENDS = frozenset({Opcode.IBV_WR_SEND, Opcode.IBV_WR_SEND_WITH_IMM, Opcode.PRIMITIVE_SEND})
CARRYING = frozenset({Opcode.PRIMITIVE_WRITE, Opcode.PRIMITIVE_SEND})
"""They carry an update to the responder, and its adapter goes through a primitive's steps once it has arrived."""
IMMEDIATE = frozenset({Opcode.IBV_WR_SEND_WITH_IMM, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM})
ATOMICS = frozenset({Opcode.IBV_WR_ATOMIC_CMP_AND_SWP, Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD})
RECEIVING = SENDS | IMMEDIATE
"""They take a receive request at the responder."""
NO_PAYLOAD = ATOMICS | {Opcode.IBV_WR_RDMA_READ, Opcode.IBV_WR_FLUSH, Opcode.PRIMITIVE}
"""Their request carries nothing from the requester's memory."""
RETURNING = ATOMICS | {Opcode.IBV_WR_RDMA_READ}
"""Their response is written to the requester's memory."""
NON_POSTED = NO_PAYLOAD | {Opcode.IBV_WR_ATOMIC_WRITE}
"""Answered once executed, by a response of their own; they share a queue pair's ``max_rd_atomic``."""
CROSS_CHANNEL = frozenset({Opcode.IBV_EXP_WR_CQE_WAIT, Opcode.IBV_EXP_WR_SEND_ENABLE, Opcode.IBV_WR_NOP})
"""The requester's adapter executes them by itself: nothing goes on the wire."""
RECEIVE_COMPLETIONS = frozenset({Opcode.IBV_WC_RECV, Opcode.IBV_WC_RECV_RDMA_WITH_IMM})

KIND: Mapping[Opcode, RequestKind] = {
    Opcode.IBV_WR_RDMA_WRITE: RequestKind.WRITE,
    Opcode.IBV_WR_RDMA_WRITE_WITH_IMM: RequestKind.WRITE,
    Opcode.IBV_WR_SEND: RequestKind.SEND,
    Opcode.IBV_WR_SEND_WITH_IMM: RequestKind.SEND,
    Opcode.IBV_WR_RDMA_READ: RequestKind.READ,
    Opcode.IBV_WR_ATOMIC_CMP_AND_SWP: RequestKind.ATOMIC,
    Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD: RequestKind.ATOMIC,
    Opcode.IBV_WR_FLUSH: RequestKind.FLUSH,
    Opcode.IBV_WR_ATOMIC_WRITE: RequestKind.ATOMIC_WRITE,
    Opcode.PRIMITIVE: RequestKind.FLUSH,
    Opcode.PRIMITIVE_WRITE: RequestKind.WRITE,
    Opcode.PRIMITIVE_SEND: RequestKind.SEND,
}
"""What a work request is to the ordering rules."""


class QpType(StrEnum):
    """``ibv_qp_type``."""

    IBV_QPT_RC = "RC"
    IBV_QPT_UC = "UC"
    IBV_QPT_UD = "UD"


CARRIES: Mapping[QpType, frozenset[Opcode]] = {
    QpType.IBV_QPT_RC: frozenset(KIND) | CROSS_CHANNEL,
    QpType.IBV_QPT_UC: RECEIVING | {Opcode.IBV_WR_RDMA_WRITE, Opcode.PRIMITIVE_WRITE},
    QpType.IBV_QPT_UD: SENDS,
}
"""Which requests a transport has (IBTA 1.4, table 46; FLUSH and ATOMIC WRITE: annex A19, here on RC)."""


class Status(StrEnum):
    """``ibv_wc_status``."""

    IBV_WC_SUCCESS = "success"
    IBV_WC_LOC_LEN_ERR = "local length error"
    IBV_WC_LOC_PROT_ERR = "local protection error"
    IBV_WC_WR_FLUSH_ERR = "work request flushed"
    IBV_WC_REM_INV_REQ_ERR = "remote invalid request error"
    IBV_WC_REM_ACCESS_ERR = "remote access error"
    IBV_WC_REM_OP_ERR = "remote operation error"
    IBV_WC_RETRY_EXC_ERR = "transport retry counter exceeded"
    IBV_WC_RNR_RETRY_EXC_ERR = "RNR retry counter exceeded"


class Access(IntFlag):
    """``ibv_access_flags``."""

    IBV_ACCESS_LOCAL_WRITE = 1
    IBV_ACCESS_REMOTE_WRITE = 1 << 1
    IBV_ACCESS_REMOTE_READ = 1 << 2
    IBV_ACCESS_REMOTE_ATOMIC = 1 << 3
    IBV_ACCESS_FLUSH_GLOBAL = 1 << 8
    IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9
    IBV_ACCESS_RELAXED_ORDERING = 1 << 20


REMOTE = (
    Access.IBV_ACCESS_LOCAL_WRITE
    | Access.IBV_ACCESS_REMOTE_WRITE
    | Access.IBV_ACCESS_REMOTE_READ
    | Access.IBV_ACCESS_REMOTE_ATOMIC
)
FLUSHES = Access.IBV_ACCESS_FLUSH_GLOBAL | Access.IBV_ACCESS_FLUSH_PERSISTENT


class SendFlags(IntFlag):
    """``ibv_send_flags``."""

    NONE = 0
    IBV_SEND_FENCE = 1
    IBV_SEND_SIGNALED = 2
    IBV_SEND_INLINE = 8


class FlushType(IntFlag):
    """``ibv_placement_type``: what a FLUSH asks for; both may be."""

    IBV_FLUSH_GLOBAL = 1
    IBV_FLUSH_PERSISTENT = 2


class DataInOrder(IntFlag):
    """``ibv_query_qp_data_in_order_caps``: what a reader that polls the bytes of a message may rely on."""

    NONE = 0
    IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1
    IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 2


class FlushLevel(IntEnum):
    """``ibv_selectivity_level``: updates to the request's range, or to the whole region of its key."""

    IBV_FLUSH_RANGE = 0
    IBV_FLUSH_MR = 1
