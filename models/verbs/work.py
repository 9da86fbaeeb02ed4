"""What is posted and what comes back, as libibverbs names it: work requests, completions, and the regions they name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .opcodes import STEPPED, Access, FlushLevel, FlushType, Opcode, SendFlags, Status

if TYPE_CHECKING:
    from ..nic.lossy.psn import Sent
    from ..primitives.order import PrimitiveOrder
    from .objects import QueuePair

# A key, from its highest bits: adapter, queue pair, request; then phase and packet (models.nic.port).
NODE_SHIFT, QP_SHIFT, REQUEST_SHIFT = 88, 64, 24


def _with(flag: SendFlags) -> frozenset[int]:
    """All combinations of flags that have this one: to look one up costs less than an enum's operators."""
    return frozenset(flags for flags in range(2 * max(SendFlags)) if flags & flag.value)


SIGNALED = _with(SendFlags.IBV_SEND_SIGNALED)
INLINE = _with(SendFlags.IBV_SEND_INLINE)
FENCE = _with(SendFlags.IBV_SEND_FENCE)
VOID = -1
"""``SendWR.attempt`` of what is sent again: whatever is still on its way of it counts for nothing."""


@dataclass(slots=True)
class Span:
    """What somebody is busy with: a label for explanations, and the instants at which its hops ended."""

    label: str
    marks: list[tuple[str, int]] = field(default_factory=list)

    def mark(self, hop: str, at_ps: int) -> None:
        """The hop called ``hop`` ended at ``at_ps``."""
        self.marks.append((hop, at_ps))


@dataclass(frozen=True)
class MemoryRegion:
    """``ibv_mr``: a registered range of a node's memory and the key that opens it."""

    address: int
    length: int
    key: int
    access: Access
    page_bytes: int = 1 << 21
    """Of its mapping: the adapter has a translation entry for each page."""

    def pages(self, address: int, length: int) -> range:
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
    payload: bytes = b""
    """What the adapter fetched, or what was copied into the WQE (inline); of an answer: what it returns."""
    ready: bool = False
    lkey: int | None = None
    imm_data: int = 0
    compare_add: int = 0
    swap: int = 0
    flush_type: FlushType | int = 0
    flush_level: FlushLevel | int = FlushLevel.IBV_FLUSH_RANGE
    destination: QueuePair | None = None
    """Of a datagram: the queue pair that its address handle and number name."""
    attempt: int = 0
    """How often its queue pair had gone back to repeat something when this was sent; VOID: it is sent again."""
    sent_bytes: int = 0
    """What the responder has taken of it before it asked for a repetition."""
    parts: list[int] | None = field(default=None, repr=False, compare=False)
    """When each piece of ``part_bytes`` may come to the port, of a payload that is fetched piece by piece."""
    part_bytes: int = field(default=0, repr=False, compare=False)
    # Where the adapters are with it; what is on the way is either its request or its response.
    qp: QueuePair = field(init=False, repr=False, compare=False)
    """The requester's."""
    key: int = field(init=False, repr=False, compare=False)
    """Its place among the requests of its queue pair, and the customers of a station and instant (``models.nic.port``).
    """
    status: Status = field(init=False, repr=False, compare=False)
    n_bytes: int = field(init=False, repr=False, compare=False)
    """Of the first packet."""
    more: list[Any] | None = field(init=False, repr=False, compare=False)
    """Of the other packets: how large they are, and then when the first and last bit of each leave."""
    start_ps: int = field(init=False, repr=False, compare=False)
    """When its first packet leaves the port; negative while that is not known yet."""
    end_ps: int = field(init=False, repr=False, compare=False)
    sent_ps: int = field(init=False, repr=False, compare=False)
    """When the request's last bit has left the port."""
    observe: Callable[[int], None] | None = field(init=False, repr=False, compare=False)
    """What its response proves, or what its completion lets the poller know."""
    slots: int = field(init=False, repr=False, compare=False)
    """Of its completion, as there."""
    order: PrimitiveOrder = field(init=False, repr=False, compare=False)
    """Of a primitive's packet: what it asks of the responder (``models.primitives``)."""
    # On a fabric that disturbs packets (``models.nic.lossy.transport``):
    psn: int = field(init=False, repr=False, compare=False)
    """Of the packet that its payload begins with; of a NAK, what is expected."""
    sent: Sent | None = field(init=False, repr=False, compare=False)
    """The request that this is one sending of; None of a NAK for a sequence error."""
    asks: bool = field(init=False, repr=False, compare=False)
    """Whether it asks for an acknowledgement."""


def repeated(work: SendWR, **changes: Any) -> SendWR:
    """The same request, to be sent once more."""
    again = replace(work, **changes)
    if work.opcode in STEPPED:
        again.order = work.order
    return again


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
class WorkCompletion:
    """``ibv_wc``; ``observe`` tells the ordering rules what its consumer has just observed, at what instant."""

    wr_id: int
    status: Status
    opcode: Opcode
    byte_len: int
    qp: QueuePair
    span: Span | None = None
    observe: Callable[[int], None] | None = None
    imm_data: int | None = None
    src_qp: int = 0
    """Of a datagram: the number of the queue pair that sent it."""
    byte_offset: int = 0
    """Of a receive: where in its buffer the message lies."""
    slots: int = 0
    """How many places of the send queue its poll gives back: its own, and those of unsignalled ones before it."""
