"""The verbs layer, as libibverbs names it: protection domains, regions, queue pairs, completion queues, work requests.

What happens to a work request once it is posted is the adapter's business (``models.nic``); a program posts and polls
through its thread (``models.cpu``), which pays the CPU's part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import simpy

from ..sim.clock import Clock
from ..sim.stations import Pipe
from ..sim.trace import NEVER

if TYPE_CHECKING:
    from .nic import Nic


ACK_TIMEOUT_PS = 4_096_000
"""The unit of a queue pair's local ACK timeout (IBTA 1.3, section 9.7.6.1.3)."""

# A key, from its highest bits: adapter, queue pair, request; then phase and packet (models.port).
NODE_SHIFT, QP_SHIFT, REQUEST_SHIFT = 88, 64, 24


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
    IBV_WC_WR_FLUSH_ERR = "work request flushed"
    IBV_WC_RETRY_EXC_ERR = "transport retry counter exceeded"


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


SIGNALED = int(SendFlags.IBV_SEND_SIGNALED)
INLINE = int(SendFlags.IBV_SEND_INLINE)


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

    def allows(self, needed: Access, address: int, length: int) -> bool:
        """Whether the key opens a range for this."""
        # On plain integers: an enum's operators cost more than all the rest.
        bits = int(needed)
        return int(self.access) & bits == bits and self.covers(address, length)

    def covers(self, address: int, length: int) -> bool:
        """Whether a range lies inside."""
        return self.address <= address and address + length <= self.address + self.length


class ProtectionDomain:
    """``ibv_pd``: regions and queue pairs that belong together."""

    def __init__(self, nic: Nic) -> None:
        self.nic = nic

    def reg_mr(self, address: int, length: int, access: Access = REMOTE) -> MemoryRegion:
        """``ibv_reg_mr``."""
        return self.nic.register(address, length, access)

    def create_qp(self, send_cq: CompletionQueue, recv_cq: CompletionQueue) -> QueuePair:
        """``ibv_create_qp`` for a reliable connection; ``connect`` brings it up."""
        return QueuePair(self.nic, self.nic.next_qp_number(), send_cq, recv_cq)


@dataclass(slots=True)
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
    # Where the adapters are with it; what is on the way is either its request or its response.
    qp: QueuePair = field(init=False, repr=False, compare=False)
    """The requester's."""
    key: int = field(init=False, repr=False, compare=False)
    """Its place among the customers of one station and instant (``models.port``)."""
    status: Status = field(init=False, repr=False, compare=False)
    n_bytes: int = field(init=False, repr=False, compare=False)
    """Of the first packet."""
    more: list[Any] | None = field(init=False, repr=False, compare=False)
    """Of the other packets: how large they are, and then when the first and last bit of each leave."""
    start_ps: int = field(init=False, repr=False, compare=False)
    """When its first packet leaves the port; -1 while that is not known yet."""
    end_ps: int = field(init=False, repr=False, compare=False)
    sent_ps: int = field(init=False, repr=False, compare=False)
    """When the request's last bit has left the port."""
    observe: Callable[[int], None] | None = field(init=False, repr=False, compare=False)
    """What its response lets the poller know."""


@dataclass(frozen=True)
class RecvWR:
    """``ibv_recv_wr``: where the next SEND's payload goes."""

    wr_id: int
    local_address: int
    length: int


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


class Poller(Protocol):
    """Who waits for a completion, and takes it at once: a thread that polls (``models.cpu``)."""

    def found(self, completion: WorkCompletion) -> None:
        """Here it is."""


class CompletionQueue:
    """``ibv_cq``: completions in the order in which they became visible."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: deque[WorkCompletion] = deque()
        self._waiting: deque[simpy.Event | Poller] = deque()

    def push(self, completion: WorkCompletion) -> None:
        """The adapter's CQE has become visible."""
        if not self._waiting:
            self._entries.append(completion)
            return
        waiting = self._waiting.popleft()
        if isinstance(waiting, simpy.Event):
            self._entries.append(completion)
            waiting.succeed()
        elif self._entries:  # somebody has been told of them and has not come yet
            self._entries.append(completion)
            waiting.found(self._entries.popleft())
        else:
            waiting.found(completion)

    def pop(self) -> WorkCompletion | None:
        """The oldest completion, taken out; None if there is none."""
        return self._entries.popleft() if self._entries else None

    def wait(self, poller: Poller) -> None:
        """Give the next completion to ``poller``, behind those who wait already; there must be none now."""
        self._waiting.append(poller)

    def not_empty(self) -> simpy.Event:
        """An event for the next completion (at once if one is waiting)."""
        event = simpy.Event(self._clock)
        if self._entries:
            event.succeed()
        else:
            self._waiting.append(event)
        return event


class _Writers(dict[Opcode, str]):
    """What writes into memory on behalf of a queue pair's peer, by verb: made once, since a run has many."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, opcode: Opcode) -> str:
        self[opcode] = f"{opcode}, queue pair {self._number}"
        return self[opcode]


class QueuePair:
    """``ibv_qp`` of type RC."""

    def __init__(self, nic: Nic, number: int, send_cq: CompletionQueue, recv_cq: CompletionQueue) -> None:
        self.nic = nic
        nic.queue_pairs.append(self)
        self.number = number
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.peer: QueuePair | None = None
        self.error = False
        """It accepts nothing and sends nothing any more."""
        self.off_ps = NEVER
        """When it, or its adapter, ceased to be: what had not left the port by then never does."""
        self.timeout = 14
        """``ibv_qp_attr.timeout``, the local ACK timeout: 4.096 us times 2 to its power; 0 waits for ever."""
        self.retry_cnt = 7
        """``ibv_qp_attr.retry_cnt``: how often a request that nobody answers is repeated."""
        self.key = (nic.number + 1) << NODE_SHIFT | number << QP_SHIFT
        """The key of its next request among the customers of one station and instant, less one request."""
        self.last_link: Pipe | None = None
        """From the switch to its peer."""
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
        self.writers = _Writers(number)
        self.last_response_ps = 0
        """Responses of one queue pair leave in order."""
        self.last_answer_ps = 0
        """Responses to one queue pair are processed in order."""

    def connect(self, peer: QueuePair) -> None:
        """``ibv_modify_qp`` to RTS on both ends."""
        self.peer, peer.peer = peer, self
        for end, other in ((self, peer), (peer, self)):
            end.last_link = end.nic.fabric.last_link(other.nic.name)

    def destroy(self) -> None:
        """``ibv_destroy_qp``: nothing of it leaves any more, and what arrives from now on is dropped silently.

        What it had accepted is still placed. Nothing more appears in its completion queues.
        """
        self.nic.silence([self])

    @property
    def gives_up_after_ps(self) -> int | None:
        """How long it repeats a request that nobody answers; None: for ever. IBTA 1.3, section 9.7.6.1.3."""
        return (self.retry_cnt + 1) * ACK_TIMEOUT_PS << self.timeout if self.timeout else None

    def post_recv(self, work: RecvWR) -> None:
        """``ibv_post_recv``."""
        self.receive_queue.append(work)
