"""The verbs layer, as libibverbs names it: protection domains, regions, queue pairs, completion queues, work requests.

What happens to a work request once it is posted is the adapter's business (``models.nic``); a program posts and polls
through its thread (``models.cpu``), which pays the CPU's part.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import simpy

from ..sim.clock import Clock
from ..sim.trace import NEVER
from .opcodes import (
    CARRIES,
    FLUSHES,
    NO_PAYLOAD,
    REMOTE,
    Access,
    FlushLevel,
    FlushType,
    Opcode,
    QpType,
    SendFlags,
    Status,
)

if TYPE_CHECKING:
    from .execution import ExecutionOrder
    from .inbound import Inbound
    from .nic import Nic
    from .responses import Responses

__all__ = [
    "FLUSHES",
    "REMOTE",
    "Access",
    "CompletionQueue",
    "FlushLevel",
    "FlushType",
    "MemoryRegion",
    "Opcode",
    "ProtectionDomain",
    "QpType",
    "QueuePair",
    "RecvWR",
    "SendFlags",
    "SendWR",
    "SharedReceiveQueue",
    "Span",
    "Status",
    "WorkCompletion",
]

RNR_RETRY_FOREVER = 7
"""``rnr_retry`` that never ends (ibv_modify_qp(3))."""


@dataclass
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

    def covers(self, address: int, length: int) -> bool:
        """Whether a range lies inside."""
        return self.address <= address and address + length <= self.address + self.length


class ProtectionDomain:
    """``ibv_pd``: regions and queue pairs that belong together."""

    def __init__(self, nic: Nic) -> None:
        self.nic = nic
        self.queue_pairs: list[QueuePair] = []

    def reg_mr(self, address: int, length: int, access: Access = REMOTE) -> MemoryRegion:
        """``ibv_reg_mr``. Raises ValueError for IBV_ACCESS_FLUSH_PERSISTENT on memory that loses all with the power."""
        return self.nic.regions.register(address, length, access)

    def dereg_mr(self, region: MemoryRegion) -> None:
        """``ibv_dereg_mr``: requests that arrive from now on find no such key; what was accepted still lands."""
        self.nic.regions.deregister(region)

    def create_srq(self) -> SharedReceiveQueue:
        """``ibv_create_srq``."""
        return SharedReceiveQueue()

    def create_qp(
        self,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        qp_type: QpType = QpType.IBV_QPT_RC,
        *,
        srq: SharedReceiveQueue | None = None,
        max_send_wr: int | None = None,
        max_rd_atomic: int | None = None,
        rnr_retry: int = RNR_RETRY_FOREVER,
        out_of_order: bool = False,
    ) -> QueuePair:
        """``ibv_create_qp``; ``connect`` brings it up (unless it is a UD one, which needs no peer).

        ``max_send_wr`` is how many work requests the send queue holds, None for as many as are posted: a program that
        states it has to signal, and poll, often enough. ``max_rd_atomic`` is at most, and by default, what the adapter
        does. ``rnr_retry`` is how often a SEND that found no receive request is repeated, 7 for ever.
        ``out_of_order`` is the adapter's out-of-order data placement (mlx5's OOO_DP): its peer's WRITEs may be placed
        here in any order.
        """
        most = self.nic.parameters.outstanding_reads
        qp = QueuePair(
            self.nic,
            self.nic.next_qp_number(),
            send_cq,
            recv_cq,
            qp_type,
            srq=srq,
            max_send_wr=max_send_wr,
            max_rd_atomic=min(most, most if max_rd_atomic is None else max_rd_atomic),
            rnr_retry=rnr_retry,
            out_of_order=out_of_order,
        )
        self.queue_pairs.append(qp)
        return qp


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
    src_qp: int = 0
    """Number of the queue pair that sent it."""
    attempt: int = 0
    """How often its queue pair had gone back to repeat something when this was sent."""
    sequence: int = -1
    """Its place among the requests of its queue pair, the same when it is sent again."""
    void: bool = False
    """It is sent again: what is still on its way of it counts for nothing."""
    sent_bytes: int = 0
    """What the responder has taken of it before it asked for a repetition."""


@dataclass(frozen=True)
class RecvWR:
    """``ibv_recv_wr``: where the next SEND's payload goes."""

    wr_id: int
    local_address: int
    length: int
    lkey: int | None = None


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
    slots: int = 0
    """How many places of the send queue its poll gives back: its own, and those of unsignalled ones before it."""


class CompletionQueue:
    """``ibv_cq``: completions in the order in which they became visible."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: deque[WorkCompletion] = deque()
        self._waiting: deque[simpy.Event] = deque()

    def push(self, completion: WorkCompletion) -> None:
        """The adapter's CQE has become visible."""
        self._entries.append(completion)
        if self._waiting:
            self._waiting.popleft().succeed()

    def pop(self) -> WorkCompletion | None:
        """The oldest completion, taken out; None if there is none."""
        if not self._entries:
            return None
        completion = self._entries.popleft()
        completion.qp.posted -= completion.slots
        return completion

    def not_empty(self) -> simpy.Event:
        """An event for the next completion (at once if one is waiting)."""
        event = simpy.Event(self._clock)
        if self._entries:
            event.succeed()
        else:
            self._waiting.append(event)
        return event


class SharedReceiveQueue:
    """``ibv_srq``: receive requests that several queue pairs take from, first come first served."""

    def __init__(self) -> None:
        self.receive_queue: deque[RecvWR] = deque()

    def post_recv(self, work: RecvWR) -> None:
        """``ibv_post_srq_recv``."""
        self.receive_queue.append(work)


class QueuePair:
    """``ibv_qp``."""

    def __init__(
        self,
        nic: Nic,
        number: int,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        qp_type: QpType = QpType.IBV_QPT_RC,
        *,
        srq: SharedReceiveQueue | None = None,
        max_send_wr: int | None = None,
        max_rd_atomic: int = 1,
        rnr_retry: int = RNR_RETRY_FOREVER,
        out_of_order: bool = False,
    ) -> None:
        self.nic = nic
        self.number = number
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.qp_type = qp_type
        self.srq = srq
        self.max_send_wr = max_send_wr
        self.max_rd_atomic = max_rd_atomic
        self.rnr_retry = rnr_retry
        self.out_of_order = out_of_order
        self.peer: QueuePair | None = None
        self.error = False
        # requester
        self.posted = 0
        """Work requests in the send queue that no polled completion has given back."""
        self.send_queue: deque[SendWR] = deque()
        """Posted and not yet on the wire, in order."""
        self.outstanding: deque[SendWR] = deque()
        """On the wire and not yet answered, in order."""
        self.reads_under_way = 0
        """Of those, READ, atomics, FLUSH and ATOMIC WRITE."""
        self.fencing = 0
        """Of those, the ones that a fence waits for."""
        self.unseen: deque[Callable[[int], None]] = deque()
        """What responses that have come prove, as far as no program has polled a completion that tells of them."""
        self.untold = 0
        """Of those, the ones that belong to no completion yet: unsignalled requests."""
        self.unsignalled = 0
        """Unsignalled requests that are done and whose places no completion has given back."""
        self.attempt = 0
        self.sent = 0
        """Requests that have gone out, repetitions apart."""
        self.repeats = 0
        """Repetitions in a row of the request that found no receive request."""
        self.stalled = False
        """An RNR NAK's timer is running."""
        self.last_answer_ps = 0
        """Responses to one queue pair are processed in order."""
        self.timeout = 14
        self.retry_cnt = 7
        """``ibv_qp_attr``: how long and how often the adapter waits for an answer, as rdma_cm and perftest set them."""
        self.destroyed_ps = NEVER
        # responder
        self.receive_queue: deque[RecvWR] = deque()
        self.receiving: RecvWR | None = None
        """What the message that is just arriving has taken."""
        self.expected_attempt = 0
        self.expected_sequence = 0
        """The request that found no receive request: it and all behind it are not taken in before they are repeated."""
        self.expected_bytes = 0
        """Of an unreliable connection: where the next packet of the message belongs; -1 once one was lost."""
        self.responses: Responses = nic.responses()
        self.order: ExecutionOrder = nic.execution_order()
        self.inbound: Inbound = nic.inbound(self)

    def ignores(self, work: SendWR) -> bool:
        """Whether a request that arrives is not taken in: the connection is broken, or one before it is repeated."""
        late = work.attempt < self.expected_attempt and work.sequence >= self.expected_sequence
        return self.error or self.gone or work.void or late

    def fail(self) -> None:
        """``ibv_modify_qp`` to IBV_QPS_ERR: all work requests are flushed, the posted receives too."""
        if not self.error and not self.gone:
            self.error = True
            self.nic.flush(self)

    def destroy(self) -> None:
        """``ibv_destroy_qp``: packets that have left are out, nothing else comes out of it or is taken in any more."""
        self.destroyed_ps = min(self.destroyed_ps, self.nic.clock.now_ps)
        for queue in (self.send_queue, self.outstanding, self.receive_queue):
            queue.clear()

    @property
    def gone_ps(self) -> int:
        """When it was destroyed, or its adapter lost power."""
        return min(self.destroyed_ps, self.nic.off_ps)

    @property
    def gone(self) -> bool:
        """Whether it has been destroyed, or its adapter has no power."""
        return self.gone_ps < NEVER

    @property
    def retries_ps(self) -> int:
        """After how long without an answer the adapter gives up: a time-out is 4.096 us x 2^timeout (IBTA, 9.7.6)."""
        return (self.retry_cnt + 1) * (4_096_000 << self.timeout)

    def reveal(self, answers: int, at_ps: int) -> None:
        """A completion has been polled: what the oldest ``answers`` responses prove is known now."""
        for _ in range(answers):
            self.unseen.popleft()(at_ps)

    def connect(self, peer: QueuePair) -> None:
        """``ibv_modify_qp`` to RTS on both ends. Raises ValueError for different transports, or for datagrams."""
        if self.qp_type is not peer.qp_type or self.qp_type is QpType.IBV_QPT_UD:
            raise ValueError(f"a queue pair of type {self.qp_type} does not connect to one of type {peer.qp_type}")
        self.peer, peer.peer = peer, self

    def check(self, work: SendWR) -> None:
        """Refuse what ``ibv_post_send`` refuses.

        Raises ValueError for an opcode that the transport has not, a datagram beyond the MTU or without destination,
        and inline data of a request that carries none; OSError (ENOMEM) when the send queue is full.
        """
        if work.opcode not in CARRIES[self.qp_type]:
            raise ValueError(f"{work.opcode} ({work.opcode.name}) on a queue pair of type {self.qp_type}")
        if self.qp_type is QpType.IBV_QPT_UD:
            mtu = self.nic.parameters.mtu_bytes
            if work.length > mtu:
                raise ValueError(f"a datagram of {work.length} bytes, the MTU is {mtu}")
            if work.destination is None or work.destination.qp_type is not QpType.IBV_QPT_UD:
                raise ValueError("a datagram needs a destination of type UD")
        if SendFlags.IBV_SEND_INLINE in work.send_flags and work.opcode in NO_PAYLOAD:
            raise ValueError(f"inline data in a {work.opcode}, which carries none")
        if self.max_send_wr is not None and self.posted >= self.max_send_wr:
            raise OSError(errno.ENOMEM, f"the send queue of {self.max_send_wr} work requests is full")

    def post_recv(self, work: RecvWR) -> None:
        """``ibv_post_recv``; a broken queue pair flushes it. Raises ValueError where a shared receive queue serves."""
        if self.srq is not None:
            raise ValueError("this queue pair takes its receive requests from a shared receive queue")
        self.receive_queue.append(work)
        if self.error:
            self.nic.flush(self)
