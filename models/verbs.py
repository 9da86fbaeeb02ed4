"""The verbs layer, as libibverbs names it: protection domains, regions, queue pairs, completion queues, work requests.

What happens to a work request once it is posted is the adapter's business (``models.nic``); a program posts and polls
through its thread (``models.cpu``), which pays the CPU's part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from typing import TYPE_CHECKING

import simpy

from ..sim.clock import Clock
from ..sim.trace import NEVER

if TYPE_CHECKING:
    from .nic import Nic


class Opcode(StrEnum):
    """``ibv_wr_opcode`` and ``ibv_wc_opcode``."""

    IBV_WR_RDMA_WRITE = "WRITE"
    IBV_WR_SEND = "SEND"
    IBV_WR_RDMA_READ = "READ"
    IBV_WC_RECV = "RECV"


class Status(StrEnum):
    """``ibv_wc_status``."""

    IBV_WC_SUCCESS = "success"
    IBV_WC_LOC_PROT_ERR = "local protection error"
    IBV_WC_REM_ACCESS_ERR = "remote access error"
    IBV_WC_RNR_RETRY_EXC_ERR = "RNR retry counter exceeded"
    IBV_WC_RETRY_EXC_ERR = "transport retry counter exceeded"
    IBV_WC_WR_FLUSH_ERR = "work request flushed"


class Access(IntFlag):
    """``ibv_access_flags``."""

    IBV_ACCESS_LOCAL_WRITE = 1
    IBV_ACCESS_REMOTE_WRITE = 2
    IBV_ACCESS_REMOTE_READ = 4


REMOTE = Access.IBV_ACCESS_LOCAL_WRITE | Access.IBV_ACCESS_REMOTE_WRITE | Access.IBV_ACCESS_REMOTE_READ


class SendFlags(IntFlag):
    """``ibv_send_flags``."""

    NONE = 0
    IBV_SEND_SIGNALED = 2
    IBV_SEND_INLINE = 8


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
        """``ibv_reg_mr``."""
        return self.nic.register(address, length, access)

    def create_qp(self, send_cq: CompletionQueue, recv_cq: CompletionQueue) -> QueuePair:
        """``ibv_create_qp`` for a reliable connection; ``connect`` brings it up."""
        qp = QueuePair(self.nic, self.nic.next_qp_number(), send_cq, recv_cq)
        self.queue_pairs.append(qp)
        return qp


@dataclass
class SendWR:
    """``ibv_send_wr``: the payload is ``length`` bytes at ``local_address`` (for a READ: where they go)."""

    wr_id: int
    opcode: Opcode
    local_address: int
    length: int
    remote_address: int = 0
    rkey: int = 0
    send_flags: SendFlags = SendFlags.IBV_SEND_SIGNALED
    span: Span | None = None
    payload: bytes = b""
    """What the adapter fetched, or what was copied into the WQE (inline)."""
    ready: bool = False


@dataclass(frozen=True)
class RecvWR:
    """``ibv_recv_wr``: where the next SEND's payload goes."""

    wr_id: int
    local_address: int
    length: int


@dataclass
class WorkCompletion:
    """``ibv_wc``; ``observe`` tells the ordering rules what its consumer has just observed, at what instant."""

    wr_id: int
    status: Status
    opcode: Opcode
    byte_len: int
    qp: QueuePair
    span: Span | None = None
    observe: Callable[[int], None] | None = None


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
        return self._entries.popleft() if self._entries else None

    def not_empty(self) -> simpy.Event:
        """An event for the next completion (at once if one is waiting)."""
        event = simpy.Event(self._clock)
        if self._entries:
            event.succeed()
        else:
            self._waiting.append(event)
        return event


class QueuePair:
    """``ibv_qp`` of type RC."""

    def __init__(self, nic: Nic, number: int, send_cq: CompletionQueue, recv_cq: CompletionQueue) -> None:
        self.nic = nic
        self.number = number
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.peer: QueuePair | None = None
        self.error = False
        self.send_queue: deque[SendWR] = deque()
        """Posted and not yet on the wire, in order."""
        self.outstanding: deque[SendWR] = deque()
        """On the wire and not yet answered, in order."""
        self.reads_under_way = 0
        self.unseen: list[Callable[[int], None]] = []
        """What unsignalled requests have answered: the next completion lets its poller know."""
        self.receive_queue: deque[RecvWR] = deque()
        self.channel: int | None = None
        """The trace's channel for what this queue pair's peer writes here."""
        self.last_response_ps = 0
        """Responses of one queue pair leave in order."""
        self.last_answer_ps = 0
        """Responses to one queue pair are processed in order."""
        self.timeout = 14
        self.retry_cnt = 7
        """``ibv_qp_attr``: how long and how often the adapter waits for an answer, as rdma_cm and perftest set them."""
        self.destroyed_ps = NEVER

    def connect(self, peer: QueuePair) -> None:
        """``ibv_modify_qp`` to RTS on both ends."""
        self.peer, peer.peer = peer, self

    def post_recv(self, work: RecvWR) -> None:
        """``ibv_post_recv``; a broken queue pair flushes it."""
        self.receive_queue.append(work)
        if self.error:
            self.nic.flush(self)

    def destroy(self) -> None:
        """``ibv_destroy_qp``: packets that have left are out, nothing else comes out of it or is taken in any more."""
        self.destroyed_ps = min(self.destroyed_ps, self.nic.clock.now_ps)
        for queue in (self.send_queue, self.outstanding, self.receive_queue):
            queue.clear()

    def fail(self) -> None:
        """``ibv_modify_qp`` to IBV_QPS_ERR: all work requests are flushed, the posted receives too."""
        if not self.error and not self.gone:
            self.error = True
            self.nic.flush(self)

    @property
    def gone_ps(self) -> int:
        """When it was destroyed, or its adapter lost power."""
        return min(self.destroyed_ps, self.nic.off_ps)

    @property
    def gone(self) -> bool:
        return self.gone_ps < NEVER

    @property
    def retries_ps(self) -> int:
        """After how long without an answer the adapter gives up: a time-out is 4.096 us x 2^timeout (IBTA, 9.7.6)."""
        return (self.retry_cnt + 1) * (4_096_000 << self.timeout)
