"""The verbs layer, as libibverbs names it: protection domains, regions, queue pairs, completion queues.

What happens to a work request (``models.verbs.work``) once it is posted is the adapter's business (``models.nic.nic``);
a program posts and polls through its thread (``models.cpu.thread``), which pays the CPU's part.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ...sim.trace import NEVER
from .opcodes import (
    CARRIES,
    NO_PAYLOAD,
    REMOTE,
    Access,
    Opcode,
    QpType,
)
from .work import INLINE, NODE_SHIFT, QP_SHIFT, MemoryRegion, RecvWR, SendWR, WorkCompletion

if TYPE_CHECKING:
    from ..nic.execution import ExecutionOrder
    from ..nic.inbound import Inbound
    from ..nic.lanes import Lanes
    from ..nic.nic import Nic
    from ..nic.responses import Responses


RNR_RETRY_FOREVER = 7
"""``rnr_retry`` that never ends (ibv_modify_qp(3))."""
SMALLEST_PAGE_BYTES = 4096
ACK_TIMEOUT_PS = 4_096_000
"""The unit of a queue pair's local ACK timeout (IBTA 1.3, section 9.7.6.1.3)."""


class ProtectionDomain:
    """``ibv_pd``: regions and queue pairs that belong together."""

    def __init__(self, nic: Nic) -> None:
        self.nic = nic
        self.queue_pairs: list[QueuePair] = []

    def reg_mr(self, address: int, length: int, access: Access = REMOTE, page_bytes: int | None = None) -> MemoryRegion:
        """``ibv_reg_mr`` of memory that is mapped with pages of ``page_bytes`` (None: the platform's ``nic.page``).

        Raises ValueError for IBV_ACCESS_FLUSH_PERSISTENT on memory that loses all with the power, and for pages that
        no processor has.
        """
        nic = self.nic
        page_bytes = nic.parameters.page_bytes if page_bytes is None else page_bytes
        if page_bytes < SMALLEST_PAGE_BYTES or page_bytes & (page_bytes - 1):
            raise ValueError(f"pages of {page_bytes} bytes: a power of two from {SMALLEST_PAGE_BYTES}")
        region = nic.regions.register(address, length, access, page_bytes)
        nic.sram.exists(nic.region_bytes(region))
        return region

    def dereg_mr(self, region: MemoryRegion) -> None:
        """``ibv_dereg_mr``: requests that arrive from now on find no such key; what was accepted still lands."""
        self.nic.regions.deregister(region)
        self.nic.sram.exists(-self.nic.region_bytes(region))
        for qp in self.nic.queue_pairs:
            qp.routes.pop(region.key, None)

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


class Poller(Protocol):
    """Who waits for a completion, and takes it at once: a thread that polls (``models.cpu.thread``)."""

    @property
    def alive(self) -> bool:
        """Whether it still wants one."""

    def found(self, completion: WorkCompletion) -> None:
        """Here it is."""


class CompletionQueue:
    """``ibv_cq``: completions in the order in which they became visible."""

    def __init__(self) -> None:
        self._entries: deque[WorkCompletion] = deque()
        self._waiting: deque[Poller] = deque()
        self.notify: Callable[[], None] | None = None
        """Told of every completion that becomes visible (``models.cpu.channel``)."""

    def push(self, completion: WorkCompletion) -> None:
        """The adapter's CQE has become visible."""
        if self.notify is not None:
            self.notify()
        queue = self._waiting
        while queue:
            waiting = queue.popleft()
            if waiting.alive:
                completion.qp.posted -= completion.slots
                waiting.found(completion)
                return
        self._entries.append(completion)

    def pop(self) -> WorkCompletion | None:
        """The oldest completion, taken out; None if there is none."""
        if not self._entries:
            return None
        completion = self._entries.popleft()
        completion.qp.posted -= completion.slots
        return completion

    def wait(self, poller: Poller) -> None:
        """Give the next completion to ``poller``, behind those who wait already; there must be none now."""
        self._waiting.append(poller)


class SharedReceiveQueue:
    """``ibv_srq``: receive requests that several queue pairs take from, first come first served."""

    def __init__(self) -> None:
        self.receive_queue: deque[RecvWR] = deque()
        self.used_bytes = 0
        """Of the multi-packet buffer at the head of the queue."""

    def post_recv(self, work: RecvWR) -> None:
        """``ibv_post_srq_recv``."""
        self.receive_queue.append(work)


class _Writers(dict[Opcode, str]):
    """What writes into memory on behalf of a queue pair's peer, by verb: made once, since a run has many."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, opcode: Opcode) -> str:
        self[opcode] = f"{opcode}, queue pair {self._number}"
        return self[opcode]


Route = tuple[int, int, "Lanes", int, "ExecutionOrder", "Inbound", "Responses", str]
"""The plain way of WRITEs to a region: its first address, its end, the lanes, the channel; what a responder asks of the
queue pair before it lets one take it, and after; and what it writes as."""


class QueuePair:
    """``ibv_qp``."""

    __slots__ = (
        "_inbound",
        "_order",
        "_responses",
        "_writers",
        "answered_ps",
        "attempt",
        "closed",
        "error",
        "expected_attempt",
        "expected_bytes",
        "expected_key",
        "fencing",
        "key",
        "last_answer_ps",
        "max_rd_atomic",
        "max_send_wr",
        "messages",
        "nic",
        "number",
        "off_ps",
        "out_of_order",
        "outstanding",
        "peer",
        "posted",
        "qp_type",
        "reads_under_way",
        "receive_offset",
        "receive_queue",
        "receiving",
        "recv_cq",
        "reliable",
        "repeats",
        "retry_cnt",
        "rnr_retry",
        "routes",
        "send_cq",
        "send_queue",
        "srq",
        "stalled",
        "timeout",
        "unchecked",
        "unit",
        "unseen",
        "unsignalled",
        "untold",
        "used_bytes",
    )

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
        nic.queue_pairs.append(self)
        nic.sram.exists(nic.context_bytes(max_send_wr))
        self.number = number
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.unit = number % nic.parameters.processing_units
        """Which of the adapter's units serves it."""
        self.qp_type = qp_type
        self.reliable = qp_type is QpType.IBV_QPT_RC
        self.srq = srq
        self.max_send_wr = max_send_wr
        self.max_rd_atomic = max_rd_atomic
        self.rnr_retry = rnr_retry
        self.out_of_order = out_of_order
        self.peer: QueuePair | None = None
        self.error = False
        """It accepts nothing and sends nothing any more."""
        self.off_ps = nic.off_ps
        """When it, or its adapter, ceased to be: what had not left the port by then never does."""
        self.timeout = 14
        """``ibv_qp_attr.timeout``, the local ACK timeout: 4.096 us times 2 to its power; 0 waits for ever."""
        self.retry_cnt = 7
        """``ibv_qp_attr.retry_cnt``: how often a request that nobody answers is repeated."""
        self.key = (nic.number + 1) << NODE_SHIFT | number << QP_SHIFT
        """The key of its last request among the customers of one station and instant."""
        # requester
        self.unchecked = self.reliable and max_send_wr is None
        """A WRITE need not be checked."""
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
        """How often it has gone back to repeat something."""
        self.repeats = 0
        """Repetitions in a row of the request that found no receive request."""
        self.stalled = False
        """An RNR NAK's timer is running."""
        self.closed = False
        """The head of the send queue fails as soon as nothing is outstanding."""
        self.last_answer_ps = 0
        """Responses to one queue pair are processed in order."""
        self.answered_ps = 0
        """When the last of those will have been processed that are not outstanding any more."""
        # responder
        self.receive_queue: deque[RecvWR] = deque()
        self.used_bytes = 0
        """Of the multi-packet buffer at the head of that queue."""
        self.receive_offset = 0
        """Where in its buffer the message lies that is just arriving."""
        self.receiving: RecvWR | None = None
        """What the message that is just arriving has taken."""
        self.messages: deque[int] | None = None
        """Where messages lie that the adapter itself has still to deal with, oldest first; None: it deals with none."""
        self.expected_attempt = 0
        self.expected_key = 0
        """The request that found no receive request: it and all behind it are not taken in before they are repeated."""
        self.expected_bytes = 0
        """Of an unreliable connection: where the next packet of the message belongs; -1 once one was lost."""
        self.routes: dict[int, Route] = {}
        """By key: of a region whose WRITEs take the plain way."""
        self._writers: _Writers | None = None
        self._responses: Responses | None = None
        self._order: ExecutionOrder | None = None
        self._inbound: Inbound | None = None

    # Made when the first request arrives: most ends of most connections never see one.
    @property
    def writers(self) -> _Writers:
        """What its peer's requests write as."""
        if self._writers is None:
            self._writers = _Writers(self.number)
        return self._writers

    @property
    def responses(self) -> Responses:
        """What it has to answer."""
        if self._responses is None:
            self._responses = self.nic.responses()
        return self._responses

    @property
    def order(self) -> ExecutionOrder:
        """In which order its peer's requests are executed."""
        if self._order is None:
            self._order = self.nic.execution_order()
        return self._order

    @property
    def inbound(self) -> Inbound:
        """What arrived through it."""
        if self._inbound is None:
            self._inbound = self.nic.inbound(self)
        return self._inbound

    def ignores(self, work: SendWR) -> bool:
        """Whether a request that arrives is not taken in: the connection is broken, or one before it is repeated."""
        late = work.attempt < self.expected_attempt and work.key >= self.expected_key
        return self.error or work.attempt < 0 or late

    @property
    def gone(self) -> bool:
        """Whether it has been destroyed, or its adapter has no power."""
        return self.off_ps < NEVER

    @property
    def gives_up_after_ps(self) -> int | None:
        """How long it repeats a request that nobody answers; None: for ever. IBTA 1.3, section 9.7.6.1.3."""
        return (self.retry_cnt + 1) * ACK_TIMEOUT_PS << self.timeout if self.timeout else None

    def fail(self) -> None:
        """``ibv_modify_qp`` to IBV_QPS_ERR: all work requests are flushed, the posted receives too."""
        if not self.error:
            self.error = True
            self.nic.flush(self)

    def destroy(self) -> None:
        """``ibv_destroy_qp``: nothing of it leaves any more, and what arrives from now on is dropped silently.

        What it had accepted is still placed. Nothing more appears in its completion queues.
        """
        self.nic.silence([self])

    def reveal(self, answers: int, at_ps: int) -> None:
        """A completion has been polled: what the oldest ``answers`` responses prove is known now."""
        for _ in range(answers):
            self.unseen.popleft()(at_ps)

    @property
    def max_inline_data(self) -> int:
        """``ibv_qp_cap``'s: how many bytes a work request may carry inline."""
        return self.nic.parameters.inline_max_bytes

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
        if self.unchecked and (
            work.opcode is Opcode.IBV_WR_RDMA_WRITE
            or (work.opcode is Opcode.IBV_WR_RDMA_READ and work.send_flags not in INLINE)
        ):
            return
        if work.opcode not in CARRIES[self.qp_type]:
            raise ValueError(f"{work.opcode} ({work.opcode.name}) on a queue pair of type {self.qp_type}")
        if self.qp_type is QpType.IBV_QPT_UD:
            mtu = self.nic.parameters.mtu_bytes
            if work.length > mtu:
                raise ValueError(f"a datagram of {work.length} bytes, the MTU is {mtu}")
            if work.destination is None or work.destination.qp_type is not QpType.IBV_QPT_UD:
                raise ValueError("a datagram needs a destination of type UD")
        if work.send_flags in INLINE and work.opcode in NO_PAYLOAD:
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
