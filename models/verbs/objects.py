"""The verbs layer, as libibverbs names it: protection domains, regions, queue pairs, completion queues.

What happens to a work request (``models.verbs.work``) once it is posted is the adapter's business (``models.nic.nic``);
a program posts and polls through its thread (``models.cpu.thread``), which pays the CPU's part.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import simpy
from typing_extensions import override

from .device import Device
from .files import FileRegion
from .opcodes import CARRIES, CROSS_CHANNEL, NO_PAYLOAD, REMOTE, SENDS, Access, DataInOrder, Opcode, QpType, Status
from .span import Span
from .work import INLINE, ManagedQueue, MemoryRegion, RecvWR, ScatterRecvWR, SendWR

RNR_RETRY_FOREVER = 7
"""``rnr_retry`` that never ends (ibv_modify_qp(3))."""
SMALLEST_PAGE_BYTES = 4096
ACK_TIMEOUT_PS = 4_096_000
"""The unit of a queue pair's local ACK timeout (IBTA 1.3, section 9.7.6.1.3)."""


class ProtectionDomain:
    """``ibv_pd``: regions and queue pairs that belong together."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.queue_pairs: list[QueuePair] = []

    def reg_mr(self, address: int, length: int, access: Access = REMOTE, page_bytes: int | None = None) -> MemoryRegion:
        """``ibv_reg_mr`` of memory that is mapped with pages of ``page_bytes`` (None: the platform's ``nic.page``).

        Raises ValueError for IBV_ACCESS_FLUSH_PERSISTENT on memory that loses all with the power, and for pages that
        no processor has.
        """
        page_bytes = self.device.parameters.page_bytes if page_bytes is None else page_bytes
        if page_bytes < SMALLEST_PAGE_BYTES or page_bytes & (page_bytes - 1):
            raise ValueError(f"pages of {page_bytes} bytes: a power of two from {SMALLEST_PAGE_BYTES}")
        return self.device.register(address, length, access, page_bytes)

    def reg_file_mr(self, extents: Sequence[tuple[int, int]], access: Access = REMOTE) -> FileRegion:
        """A file as a memory region (FileMR): requests with its key address it by offsets in the file.

        ``extents`` are the ranges of one memory device that the file lies in, in its order; each is one translation
        entry. Raises ValueError for none, for an empty one, for several devices, and as :meth:`reg_mr`.
        """
        return self.device.register_file(extents, access)

    def append_extent(self, region: FileRegion, address: int, length: int) -> FileRegion:
        """The file has grown by a range of memory: one more entry, the key stays. Returns the region as it is now.

        Raises ValueError as :meth:`reg_file_mr`, and for a region that has changed since.
        """
        found = region.appended([(address, length)])
        self.device.change_file(found)
        return found

    def remap(self, region: FileRegion, offset: int, address: int, length: int) -> FileRegion:
        """A range of the file lies elsewhere from now on, under the same key; what was accepted before still lands
        where it was. Returns the region as it is now.

        Raises ValueError as :meth:`append_extent`, and for a range that is not in the file.
        """
        if not region.covers(offset, length):
            raise ValueError(f"{length} bytes from {offset} on are not in a file of {region.length}")
        found = region.remapped(offset, address, length)
        self.device.change_file(found)
        return found

    def dereg_mr(self, region: MemoryRegion) -> None:
        """``ibv_dereg_mr``: requests that arrive from now on find no such key; what was accepted still lands."""
        self.device.deregister(region)

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
        cross_channel: bool = False,
        managed: ManagedQueue | None = None,
    ) -> QueuePair:
        """``ibv_create_qp``; ``connect`` brings it up (unless it is a UD one, which needs no peer).

        ``max_send_wr`` is how many work requests the send queue holds, None for as many as are posted: a program that
        states it has to signal, and poll, often enough. ``max_rd_atomic`` is at most, and by default, what the adapter
        does. ``rnr_retry`` is how often a SEND that found no receive request is repeated, 7 for ever.
        ``out_of_order`` is the adapter's out-of-order data placement (mlx5's OOO_DP): its peer's WRITEs may be placed
        here in any order. A ``cross_channel`` queue pair takes WAIT, ENABLE and receive requests of several buffers;
        a ``managed`` one executes what an ENABLE names, as the bytes of its send queue in memory say then.
        """
        most = self.device.parameters.outstanding_reads
        qp = QueuePair(
            self.device,
            self.device.next_qp_number(),
            send_cq,
            recv_cq,
            qp_type,
            srq=srq,
            max_send_wr=max_send_wr,
            max_rd_atomic=min(most, most if max_rd_atomic is None else max_rd_atomic),
            rnr_retry=rnr_retry,
            out_of_order=out_of_order,
            cross_channel=cross_channel or managed is not None,
            managed=managed,
        )
        self.queue_pairs.append(qp)
        return qp


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


class CompletedWithError(Exception):
    """A work request completed with an error; ``completion`` is the ``ibv_wc``.

    It is the only argument, since SimPy makes the exception anew from its arguments for each process that it passes.
    """

    def __init__(self, completion: WorkCompletion) -> None:
        super().__init__(completion)
        self.completion = completion

    @override
    def __str__(self) -> str:
        return f"{self.completion.opcode}: {self.completion.status}"

    @property
    def disconnected(self) -> bool:
        """Whether the other end is gone (and not just this request refused)."""
        return self.completion.status in (Status.IBV_WC_RETRY_EXC_ERR, Status.IBV_WC_WR_FLUSH_ERR)


class Poller(Protocol):
    """Who waits for a completion, and takes it at once: a thread that polls (``models.cpu.thread``)."""

    def found(self, completion: WorkCompletion) -> bool:
        """Here is one: whether it still wants it, and has taken it."""


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
            if queue.popleft().found(completion):
                completion.qp.posted -= completion.slots
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


class QueuePair:
    """``ibv_qp``."""

    __slots__ = (
        "cross_channel",
        "device",
        "end",
        "error",
        "managed",
        "max_rd_atomic",
        "max_send_wr",
        "number",
        "out_of_order",
        "peer",
        "posted",
        "qp_type",
        "receive_queue",
        "recv_cq",
        "reliable",
        "retry_cnt",
        "rnr_retry",
        "send_cq",
        "srq",
        "timeout",
        "unchecked",
        "watchers",
    )

    def __init__(
        self,
        device: Device,
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
        cross_channel: bool = False,
        managed: ManagedQueue | None = None,
    ) -> None:
        self.device = device
        self.number = number
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.qp_type = qp_type
        self.reliable = qp_type is QpType.IBV_QPT_RC
        self.srq = srq
        self.max_send_wr = max_send_wr
        self.max_rd_atomic = max_rd_atomic
        self.rnr_retry = rnr_retry
        self.out_of_order = out_of_order
        self.cross_channel = cross_channel
        self.managed = managed
        self.peer: QueuePair | None = None
        self.error = False
        """It accepts nothing and sends nothing any more (IBV_QPS_ERR)."""
        self.timeout = 14
        """``ibv_qp_attr.timeout``, the local ACK timeout: 4.096 us times 2 to its power; 0 waits for ever."""
        self.retry_cnt = 7
        """``ibv_qp_attr.retry_cnt``: how often a request that nobody answers is repeated."""
        self.unchecked = self.reliable and max_send_wr is None and managed is None
        """A WRITE need not be checked."""
        self.watchers: list[Callable[[], None]] = []
        """Called when it gets into the error state."""
        self.posted = 0
        """Work requests in the send queue that no polled completion has given back."""
        self.receive_queue: deque[RecvWR] = deque()
        self.end: Any = device.open(self)
        """What the adapter keeps of it, as a provider's structure around ``ibv_qp``: nothing to a program."""

    @property
    def gives_up_after_ps(self) -> int | None:
        """How long it repeats a request that nobody answers; None: for ever. IBTA 1.3, section 9.7.6.1.3."""
        return (self.retry_cnt + 1) * ACK_TIMEOUT_PS << self.timeout if self.timeout else None

    def fail(self) -> None:
        """``ibv_modify_qp`` to IBV_QPS_ERR: all work requests are flushed, the posted receives too."""
        if not self.error:
            self.broken()
            self.device.flush(self)

    def broken(self) -> None:
        """The adapter has moved it to IBV_QPS_ERR: whoever watches it learns so."""
        if not self.error:
            self.error = True
            for told in tuple(self.watchers):
                told()

    def destroy(self) -> None:
        """``ibv_destroy_qp``: nothing of it leaves any more, and what arrives from now on is dropped silently.

        What it had accepted is still placed. Nothing more appears in its completion queues.
        """
        self.device.silence([self])

    def placed(self) -> simpy.Event:
        """An event after :meth:`destroy`: all that it had accepted is visible, and nothing of it follows."""
        return self.device.placed(self)

    @property
    def max_inline_data(self) -> int:
        """``ibv_qp_cap``'s: how many bytes a work request may carry inline."""
        return self.device.parameters.inline_max_bytes

    def connect(self, peer: QueuePair) -> None:
        """``ibv_modify_qp`` to RTS on both ends. Raises ValueError for different transports, or for datagrams."""
        if self.qp_type is not peer.qp_type or self.qp_type is QpType.IBV_QPT_UD:
            raise ValueError(f"a queue pair of type {self.qp_type} does not connect to one of type {peer.qp_type}")
        self.peer, peer.peer = peer, self
        self.device.connect(self, peer)
        peer.device.connect(peer, self)

    def query_data_in_order(self, op: Opcode = Opcode.IBV_WR_RDMA_WRITE) -> DataInOrder:
        """``ibv_query_qp_data_in_order`` with IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS: the order in which the bytes of
        one message become visible to a CPU here. It says nothing of two messages, nor of regions with relaxed ordering.

        Of READs: those posted here; of WRITEs and SENDs: those that arrive here (rdma-core,
        ibv_query_qp_data_in_order(3)). Raises ValueError for other operations.
        """
        if op not in SENDS | {Opcode.IBV_WR_RDMA_READ, Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM}:
            raise ValueError(f"the order of the bytes of {op} cannot be queried: of READ, WRITE or SEND it can")
        kept = self.device.parameters.data_in_order
        if kept == "none" or (self.out_of_order and op is not Opcode.IBV_WR_RDMA_READ):
            return DataInOrder.NONE
        blocks = DataInOrder.IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES
        return blocks if kept == "128 B" else blocks | DataInOrder.IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG

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
        if work.opcode not in CARRIES[self.qp_type] or (work.opcode in CROSS_CHANNEL and not self.cross_channel):
            raise ValueError(f"{work.opcode} ({work.opcode.name}) on a queue pair of type {self.qp_type}")
        if self.qp_type is QpType.IBV_QPT_UD:
            mtu = self.device.parameters.mtu_bytes
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
        if work.__class__ is ScatterRecvWR and not self.cross_channel:
            raise ValueError("several buffers in a receive request: the queue pair is not cross-channel")
        self.receive_queue.append(work)
        if self.error:
            self.device.flush(self)
