"""Cross-channel work requests: an adapter waits for completions, and executes what another queue pair enables.

Names are those of the experimental verbs (``IBV_EXP_WR_CQE_WAIT``, ``IBV_EXP_WR_SEND_ENABLE``,
``IBV_EXP_QP_CREATE_MANAGED_SEND``). The send queue of a managed queue pair lies in the program's memory, which may be
registered: its adapter reads a work request there when its turn has come, and obeys the bytes, whoever has written
them. A work queue element is one unit of 64 B with the segments of rdma-core, providers/mlx5, wqe.h: control, remote
address, atomic, data pointer; here all four are always there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from .objects import CompletionQueue, QueuePair, WorkCompletion
from .opcodes import RECEIVE_COMPLETIONS, FlushType, Opcode, SendFlags
from .work import WQE_BYTES, SendWR

_WQE = struct.Struct(">IIBxxBIQIIQQIIQ")
assert _WQE.size == WQE_BYTES
_CODES: Mapping[Opcode, int] = {
    Opcode.IBV_WR_NOP: 0x00,
    Opcode.IBV_WR_RDMA_WRITE: 0x08,
    Opcode.IBV_WR_RDMA_WRITE_WITH_IMM: 0x09,
    Opcode.IBV_WR_SEND: 0x0A,
    Opcode.IBV_WR_SEND_WITH_IMM: 0x0B,
    Opcode.IBV_WR_RDMA_READ: 0x10,
    Opcode.IBV_WR_ATOMIC_CMP_AND_SWP: 0x11,
    Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD: 0x12,
    Opcode.IBV_WR_FLUSH: 0x40,
    Opcode.PRIMITIVE: 0x41,
}
"""As mlx5 has them; the last two, which it has not, are codes of ours."""
_OPCODES = {code: opcode for opcode, code in _CODES.items()}
_SIGNALED, _FENCE = 0x08, 0x80
"""Bits of the control segment: MLX5_WQE_CTRL_CQ_UPDATE, MLX5_WQE_CTRL_FENCE."""
NO_LKEY = 0x100
"""In the place of an ``lkey``: the local buffer is not checked (mlx5's invalid key)."""


@dataclass(slots=True)
class CrossChannelWR(SendWR):
    """A WAIT for ``cq_count`` further completions in ``cq``, or an ENABLE of ``wqe_count`` more requests of ``qp``."""

    cq: CompletionQueue | None = None
    cq_count: int = 0
    qp: QueuePair | None = None
    wqe_count: int = 0


def wait(cq: CrossChannelQueue, count: int = 1, wr_id: int = 0) -> CrossChannelWR:
    """A WAIT, unsignalled: the requests behind it go when ``cq`` has had so many more completions."""
    return CrossChannelWR(wr_id, Opcode.IBV_EXP_WR_CQE_WAIT, 0, 0, send_flags=SendFlags.NONE, cq=cq, cq_count=count)


def enable(qp: QueuePair, count: int = 1, wr_id: int = 0) -> CrossChannelWR:
    """An ENABLE, unsignalled: a managed queue pair executes so many more of its requests.

    Raises ValueError for one that is not managed.
    """
    if qp.managed is None:
        raise ValueError(f"queue pair {qp.number} is not managed: it executes what is posted")
    return CrossChannelWR(wr_id, Opcode.IBV_EXP_WR_SEND_ENABLE, 0, 0, send_flags=SendFlags.NONE, qp=qp, wqe_count=count)


class CrossChannelQueue(CompletionQueue):
    """A completion queue that WAITs count; nobody polls it, and its entries are overwritten (IGNORE_OVERRUN)."""

    def __init__(self) -> None:
        super().__init__()
        self.produced = 0
        """How many completions it has had."""
        self.awaited: dict[int, int] = {}
        """By queue pair: how many completions its WAITs have used up."""
        self.told: dict[int, Callable[[], None]] = {}
        """By queue pair whose WAIT is not over: called at the next completion, once."""

    @override
    def push(self, completion: WorkCompletion) -> None:
        completion.qp.posted -= completion.slots
        # Nobody polls. The adapter has had a READ's answer; that a message's bytes have left it, a WAIT does not show.
        if completion.observe is not None and completion.opcode not in RECEIVE_COMPLETIONS:
            completion.observe(completion.qp.device.clock.now_ps)
        self.produced += 1
        told, self.told = self.told, {}
        for look in told.values():
            look()


def encode(work: SendWR, index: int = 0) -> bytes:
    """The WQE of a work request. Raises ValueError for an opcode that has none."""
    if work.opcode not in _CODES:
        raise ValueError(f"{work.opcode} has no element in a managed send queue")
    flags = (_SIGNALED if work.send_flags & SendFlags.IBV_SEND_SIGNALED else 0) | (
        _FENCE if work.send_flags & SendFlags.IBV_SEND_FENCE else 0
    )
    second = int(work.flush_type) if work.opcode is Opcode.IBV_WR_FLUSH else work.compare_add
    return _WQE.pack(
        (index & 0xFFFF) << 8 | _CODES[work.opcode], 4, 0, flags, work.imm_data, work.remote_address, work.rkey, 0,
        work.swap, second, work.length, NO_LKEY if work.lkey is None else work.lkey, work.local_address,
    )  # fmt: skip


def decode(data: bytes, posted: SendWR) -> SendWR | None:
    """The work request that a WQE's bytes say, with the ``wr_id`` of the one that was posted there; None for a code
    that is none. A primitive's own packet has the order of the one that was posted, about the range that the bytes say.
    """
    first, _, _, flags, imm, remote, rkey, _, swap, second, length, lkey, local = _WQE.unpack(data)
    opcode = _OPCODES.get(first & 0xFF)
    if opcode is None:
        return None
    flushes = opcode is Opcode.IBV_WR_FLUSH
    order: Any = posted.order
    if opcode is Opcode.PRIMITIVE:
        order = replace(order, ranges=((remote, length),))
    return replace(
        posted, opcode=opcode, local_address=local, length=length, remote_address=remote, rkey=rkey,
        send_flags=SendFlags((flags & _SIGNALED and 2) | (flags & _FENCE and 1)),
        lkey=None if lkey == NO_LKEY else lkey, imm_data=imm, compare_add=0 if flushes else second, swap=swap,
        flush_type=FlushType(second & 3) if flushes else 0, order=order,
    )  # fmt: skip
