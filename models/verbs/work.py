"""What is posted, as libibverbs names it: work requests, and the regions that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .opcodes import Access, FlushLevel, FlushType, Opcode, QpType, SendFlags
from .span import Span


def _with(flag: SendFlags) -> frozenset[int]:
    """All combinations of flags that have this one: to look one up costs less than an enum's operators."""
    return frozenset(flags for flags in range(2 * max(SendFlags)) if flags & flag.value)


WQE_BYTES = 64
"""A work queue element with a data pointer (``models.verbs.wqe``)."""
SIGNALED = _with(SendFlags.IBV_SEND_SIGNALED)
INLINE = _with(SendFlags.IBV_SEND_INLINE)
FENCE = _with(SendFlags.IBV_SEND_FENCE)


@dataclass(frozen=True)
class MemoryRegion:
    """``ibv_mr``: a registered range of a node's memory and the key that opens it."""

    address: int
    length: int
    key: int
    access: Access
    page_bytes: int = 1 << 21
    """Of its mapping: the adapter has a translation entry for each page."""

    def pages(self, address: int, length: int) -> Sequence[int]:
        """The pages that a range of it touches, by number."""
        return range(address // self.page_bytes, -(-(address + length) // self.page_bytes))

    def allows(self, needed: Access, address: int, length: int) -> bool:
        """Whether the key opens a range for this."""
        # On plain integers: an enum's operators cost more than all the rest.
        start = self.address
        within = start <= address and address + length <= start + self.length
        return within and int.__and__(self.access, needed) == needed

    def covers(self, address: int, length: int) -> bool:
        """Whether a range lies inside."""
        return self.address <= address and address + length <= self.address + self.length


class DatagramDestination(Protocol):
    """The queue pair that a datagram's address handle and number name."""

    @property
    def qp_type(self) -> QpType:
        """Its transport."""

    @property
    def end(self) -> Any:
        """What its adapter keeps of it."""


class PacketOrder(Protocol):
    """What a primitive's packet asks of the responder's adapter (``models.primitives.order``)."""

    @property
    def header_bytes(self) -> int:
        """What its packet has beside the headers of every packet."""


@dataclass(slots=True)
class SendWR:
    """``ibv_send_wr``: the payload is ``length`` bytes at ``local_address`` (READ and atomics: where the answer goes).

    A FLUSH has its range in ``remote_address`` and ``length``, an atomic is 8 bytes long whatever ``length`` says.
    Without an ``lkey`` the local buffer is not checked (IB's reserved L_Key).
    """

    wr_id: int
    opcode: Opcode
    local_address: int
    length: int
    remote_address: int = 0
    rkey: int = 0
    send_flags: SendFlags = SendFlags.IBV_SEND_SIGNALED
    span: Span | None = None
    lkey: int | None = None
    imm_data: int = 0
    compare_add: int = 0
    swap: int = 0
    flush_type: FlushType | int = 0
    flush_level: FlushLevel | int = FlushLevel.IBV_FLUSH_RANGE
    destination: DatagramDestination | None = None
    """Of a datagram."""
    order: PacketOrder | None = None
    """Of a primitive's packet: what it asks of the responder."""


class ManagedQueue:
    """The send queue of a managed queue pair: so many units of memory from ``address`` on, used in turn."""

    def __init__(self, address: int, wqes: int) -> None:
        self.address = address
        self.wqes = wqes
        self.posted = 0
        """How many requests have been posted."""

    def place(self, index: int) -> int:
        """Where the WQE of the request lies that is posted as number ``index``, from 0."""
        return self.address + index % self.wqes * WQE_BYTES


@dataclass(slots=True)
class RecvWR:
    """``ibv_recv_wr``: where the next SEND's payload goes."""

    wr_id: int
    local_address: int
    length: int
    lkey: int | None = None
    stride_bytes: int = 0
    """A buffer of a multi-packet (striding) receive queue: several messages lie in it one behind the other, each from
    a multiple of this on. 0: one message."""


@dataclass(slots=True)
class ScatterRecvWR(RecvWR):
    """A receive request of several buffers, which a message fills one after the other; of a cross-channel queue pair.

    ``length`` is all of them together, ``local_address`` the first one's.
    """

    sg_list: tuple[tuple[int, int], ...] = ()
    """Address and length of each buffer."""

    def pieces(self, at: int, payload: bytes) -> list[tuple[int, bytes]]:
        """Where the bytes of a message go that begin ``at`` its offset."""
        found, start = [], 0
        for address, length in self.sg_list:
            low, high = max(at, start), min(at + len(payload), start + length)
            if low < high:
                found.append((address + low - start, payload[low - at : high - at]))
            start += length
        return found
