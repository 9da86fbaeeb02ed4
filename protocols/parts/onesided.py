"""One-sided access to many machines: a thread posts requests on queue pairs to them, and waits for some of these.

Post first, wait then: for all of them, for the first, for a majority, until a deadline. All queue pairs share one
completion queue, and a completion finds its request by ``wr_id``. A request that nobody waits for any more is dropped:
its completion is taken when it comes, and only then is its buffer used again, since the adapter may still write to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from ...models.cpu import CrcOf, Deadline, Thread
from ...models.system import Node
from ...models.verbs import (
    INLINE,
    REMOTE,
    Access,
    CompletedWithError,
    CompletionQueue,
    FlushLevel,
    FlushType,
    MemoryRegion,
    Opcode,
    ProtectionDomain,
    QpType,
    QueuePair,
    SendFlags,
    SendWR,
    Status,
    WorkCompletion,
)
from ...sim.onlooker import Fetched

Code = Generator[Any, Any, Any]

_READ, _WRITE = Opcode.IBV_WR_RDMA_READ, Opcode.IBV_WR_RDMA_WRITE
_CAS, _FETCH_ADD = Opcode.IBV_WR_ATOMIC_CMP_AND_SWP, Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD
_RETURNING = frozenset({_READ, _CAS, _FETCH_ADD})
_SUCCESS = Status.IBV_WC_SUCCESS
_ATOMIC_BYTES = 8
_FLAGS = {
    (signaled, fence, inline): SendFlags(
        (signaled and SendFlags.IBV_SEND_SIGNALED) | (fence and SendFlags.IBV_SEND_FENCE)
        | (inline and SendFlags.IBV_SEND_INLINE)
    )
    for signaled in (False, True) for fence in (False, True) for inline in (False, True)
}  # fmt: skip
"""By whether a request is signalled, fenced, inline."""


class VerbsError(CompletedWithError):
    """A request of a scheme's own completed with an error."""


class Door:
    """A node's memory as its adapter opens it to others: regions, and the near ends of their queue pairs.

    It runs no code: a passive machine has nothing else.
    """

    def __init__(self, node: Node, *, process: str | None = None) -> None:
        """What it opens ends with the process of that name on the node; None: that of the node's own name."""
        self.node = node
        self.domain: ProtectionDomain = node.process(process or node.name).alloc_pd()
        self._unused = node.create_cq()
        """The completion queue of ends that send nothing and receive nothing."""

    def register(self, address: int, length: int, access: Access = REMOTE) -> MemoryRegion:
        """Open a range of the node's memory."""
        return self.domain.reg_mr(address, length, access)

    def admit(
        self, theirs: QueuePair, *, send_cq: CompletionQueue | None = None, recv_cq: CompletionQueue | None = None
    ) -> QueuePair:
        """A queue pair of this node, connected to ``theirs``."""
        ours = self.domain.create_qp(send_cq or self._unused, recv_cq or self._unused, theirs.qp_type)
        ours.connect(theirs)
        return ours


class Posted:
    """A request that has been posted."""

    __slots__ = ("buffer", "completion", "dropped", "length", "opcode", "qp", "succeeded", "there", "turn", "wr_id")

    def __init__(
        self, wr_id: int, qp: QueuePair, opcode: Opcode, buffer: int | None, length: int, there: int = 0
    ) -> None:
        self.wr_id = wr_id
        self.qp = qp
        self.opcode = opcode
        self.buffer = buffer
        """Its buffer in the requester's memory; None where it has none (FLUSH, inline data)."""
        self.length = length
        self.there = there
        """The address in the responder's memory."""
        self.completion: WorkCompletion | None = None
        """Its completion; made up, with success, for an unsignalled one when a later one of its queue pair completes.
        """
        self.succeeded = False
        """Whether it has completed without an error."""
        self.turn = 0
        """Its place in the order of completions."""
        self.dropped = False


class Poster:
    """The requests of one ``thread``: its queue pairs, their completion queue, and ``slots`` buffers of ``slot_bytes``.

    A post waits for a completion while ``slots`` requests are under way. An unsignalled one is so until a later,
    signalled one of its queue pair completes, or until the program knows better (:meth:`replied`). What is posted on a
    queue pair in the error state completes with IBV_WC_WR_FLUSH_ERR.
    """

    def __init__(
        self,
        thread: Thread,
        node: Node,
        slot_bytes: int,
        slots: int = 1,
        *,
        domain: ProtectionDomain | None = None,
        buffers: Sequence[int] | None = None,
    ) -> None:
        """``domain`` is that of its queue pairs; None: a new one of the process that has the thread's name. ``buffers``
        are those of one whose queue pairs are destroyed or in the error state, of as many bytes; None: new ones.
        """
        self.thread = thread
        self.node = node
        self.domain = domain or node.process(thread.name).alloc_pd()
        self.sent = node.create_cq()
        self._slot_bytes = max(64, slot_bytes)
        self._slots = slots
        dram = node.memory["dram"]
        self.buffers = buffers or [dram.allocate(self._slot_bytes, "scratch") for _ in range(slots)]
        self._free = deque(self.buffers)
        self._under_way: dict[int, Posted] = {}
        """By wr_id, in the order of the posts."""
        self._posted = self._completed = 0

    def open(
        self, recv_cq: CompletionQueue | None = None, qp_type: QpType = QpType.IBV_QPT_RC, **attributes: Any
    ) -> QueuePair:
        """A queue pair that posts here; ``attributes`` are those of :meth:`ProtectionDomain.create_qp`."""
        return self.domain.create_qp(self.sent, recv_cq or self.node.create_cq(), qp_type, **attributes)

    def connect(self, door: Door) -> QueuePair:
        """A queue pair to the memory behind ``door``."""
        qp = self.open()
        door.admit(qp)
        return qp

    # posts: each returns its Posted -------------------------------------------------------------------------------
    def read(self, qp: QueuePair, address: int, rkey: int, length: int) -> Code:
        """Post an RDMA READ."""
        return self._post(qp, _READ, length, remote_address=address, rkey=rkey)

    def write(
        self,
        qp: QueuePair,
        address: int,
        rkey: int,
        data: bytes,
        *,
        imm_data: int | None = None,
        inline: bool | None = None,
        signaled: bool = True,
        fence: bool = False,
    ) -> Code:
        """Post an RDMA WRITE, with an immediate if there is one; inline where it fits, unless that is said."""
        opcode = _WRITE if imm_data is None else Opcode.IBV_WR_RDMA_WRITE_WITH_IMM
        if inline is None:
            inline = len(data) <= qp.max_inline_data
        flags = _FLAGS[signaled, fence, inline]
        return self._post(
            qp, opcode, len(data), data, remote_address=address, rkey=rkey, imm_data=imm_data or 0, send_flags=flags
        )

    def compare_and_swap(
        self, qp: QueuePair, address: int, rkey: int, compare: int, swap: int, *, fence: bool = False
    ) -> Code:
        """Post a CAS of the 8 bytes at ``address``; its result is the number that was there."""
        return self._post(
            qp, _CAS, _ATOMIC_BYTES, remote_address=address, rkey=rkey, compare_add=compare, swap=swap,
            send_flags=_FLAGS[True, fence, False],
        )  # fmt: skip

    def fetch_and_add(self, qp: QueuePair, address: int, rkey: int, add: int, *, fence: bool = False) -> Code:
        """Post a FETCH AND ADD to the 8 bytes at ``address``; its result is the number that was there."""
        return self._post(
            qp, _FETCH_ADD, _ATOMIC_BYTES, remote_address=address, rkey=rkey, compare_add=add,
            send_flags=_FLAGS[True, fence, False],
        )  # fmt: skip

    def flush(
        self,
        qp: QueuePair,
        address: int,
        rkey: int,
        length: int,
        flush_type: FlushType | int = FlushType.IBV_FLUSH_PERSISTENT,
        level: FlushLevel = FlushLevel.IBV_FLUSH_RANGE,
    ) -> Code:
        """Post a FLUSH of earlier updates by this queue pair."""
        return self._post(
            qp, Opcode.IBV_WR_FLUSH, length, remote_address=address, rkey=rkey, flush_type=flush_type, flush_level=level
        )

    def atomic_write(self, qp: QueuePair, address: int, rkey: int, data: bytes, *, fence: bool = False) -> Code:
        """Post an ATOMIC WRITE of 8 bytes."""
        flags = _FLAGS[True, fence, len(data) <= qp.max_inline_data]
        return self._post(
            qp, Opcode.IBV_WR_ATOMIC_WRITE, len(data), data, remote_address=address, rkey=rkey, send_flags=flags
        )

    def send(
        self,
        qp: QueuePair,
        data: bytes,
        destination: QueuePair | None = None,
        *,
        imm_data: int | None = None,
        signaled: bool = True,
    ) -> Code:
        """Post a SEND; a datagram (UD) names its ``destination``."""
        opcode = Opcode.IBV_WR_SEND if imm_data is None else Opcode.IBV_WR_SEND_WITH_IMM
        flags = _FLAGS[signaled, False, len(data) <= qp.max_inline_data]
        return self._post(
            qp, opcode, len(data), data, imm_data=imm_data or 0, send_flags=flags, destination=destination
        )

    def _post(self, qp: QueuePair, opcode: Opcode, length: int, data: bytes | None = None, **fields: Any) -> Code:
        if length > self._slot_bytes and opcode is not Opcode.IBV_WR_FLUSH:
            raise ValueError(f"{length} bytes in a buffer of {self._slot_bytes}")
        buffer, flags = None, fields.setdefault("send_flags", SendFlags.IBV_SEND_SIGNALED)
        while len(self._under_way) >= self._slots or not self._free:
            self._take((yield from self.thread.poll(self.sent)))
        if opcode is not Opcode.IBV_WR_FLUSH:
            buffer = self._free.popleft()
            if data is not None:
                yield from self.thread.store(buffer, data)
        self._posted += 1
        work = SendWR(self._posted, opcode, buffer or 0, length, **fields)
        posted = Posted(self._posted, qp, opcode, buffer, length, work.remote_address)
        try:
            yield from self.thread.post_send(qp, work)
        except (ValueError, OSError):
            self._release(posted)
            raise
        self._under_way[work.wr_id] = posted
        if flags in INLINE:  # the adapter has the bytes
            self._release(posted)
        return posted

    def post(self, qp: QueuePair, work: SendWR) -> Code:
        """Post a request of one's own, with a buffer of one's own, that nobody waits for; it gets a ``wr_id``.

        If it fails, all that is under way on its queue pair fails with it.
        """
        self._posted += 1
        work.wr_id = self._posted
        return self.thread.post_send(qp, work)

    # waits ----------------------------------------------------------------------------------------------------
    def wait(self, requests: Sequence[Posted], count: int | None = None, deadline: Deadline | None = None) -> Code:
        """Until ``count`` of the requests (None: all) have completed, with an error or without, or ``deadline`` has
        passed; returns those that have, in that order.

        Raises ValueError for more than there are.
        """
        wanted = len(requests) if count is None else count
        if wanted > len(requests):
            raise ValueError(f"{wanted} of {len(requests)} requests cannot complete")
        while sum(request.completion is not None for request in requests) < wanted:
            completion = yield from self.thread.poll(self.sent, deadline)
            if completion is None:
                break
            self._take(completion)
        done = [request for request in requests if request.completion is not None]
        return sorted(done, key=lambda request: request.turn)

    def first(self, requests: Sequence[Posted], deadline: Deadline | None = None) -> Code:
        """The request that has completed first, or None where ``deadline`` passes before."""
        done = yield from self.wait(requests, 1, deadline)
        return done[0] if done else None

    def all(self, requests: Sequence[Posted]) -> Code:
        """The results of all requests. Raises :class:`VerbsError` for the first that failed, once all are complete."""
        yield from self.wait(requests)
        results = []
        for number, request in enumerate(requests):
            if not request.succeeded:
                self.drop(requests[number:])
            results.append((yield from self.result(request)))
        return results

    def result(self, request: Posted) -> Code:
        """The result of one request, once it is complete: a READ's bytes, an atomic's number, else None.

        Its buffer is free from now on. Raises :class:`VerbsError` if it failed.
        """
        while request.completion is None:
            self._take((yield from self.thread.poll(self.sent)))
        found = None
        if request.succeeded and request.opcode in _RETURNING:
            if request.buffer is None:
                raise ValueError("the result of a request is taken once")
            data = yield from self.thread.load(request.buffer, request.length)
            found = data if request.opcode is _READ else int.from_bytes(data, "little")
        self._release(request)
        if not request.succeeded:
            raise VerbsError(request.completion)
        return found

    def looked_at(self, request: Posted) -> Code:
        """The same of a READ, as :class:`Fetched`: for bytes of which some decide whether others are looked at."""
        data = yield from self.result(request)
        return Fetched(data, _given_out(request))

    def read_checked(self, qp: QueuePair, address: int, rkey: int, length: int, head: int, crc: CrcOf) -> Code:
        """READ a record of ``length`` bytes and compare the CRC32 of what is behind its first ``head`` bytes with the
        one that these tell (``crc``); returns the record, or None if it has another.

        An explorer of crash states decides the comparison before the bytes are fetched, exactly and without going
        through all images, if the head has lines of its own. Of a record that has another checksum then the head alone
        is fetched; and if the range is written to meanwhile, the record after all.
        """
        assert qp.peer is not None
        memory = qp.peer.end.nic.host.memory
        if self.thread.fetched_matches(memory, address, length, head, crc) is False:
            yield from self.result((yield from self.read(qp, address, rkey, head)))
            if self.thread.fetched_matches(memory, address, length, head, crc) is False:
                yield from self.thread.compute()
                return None
        data = yield from self.result((yield from self.read(qp, address, rkey, length)))
        expected = crc(data[:head])
        return data if expected is not None and (yield from self.thread.crc32_of(data[head:])) == expected else None

    def replied(self, request: Posted) -> None:
        """An answer of the other side shows that an unsignalled request is complete: its buffer is free."""
        self._under_way.pop(request.wr_id, None)
        self._release(request)

    def drop(self, requests: Sequence[Posted]) -> None:
        """Nobody waits for these any more; their buffers are free as soon as they are complete."""
        for request in requests:
            request.dropped = True
            if request.completion is not None:
                self._forget(request)

    def _take(self, completion: WorkCompletion) -> None:
        """A completion has been polled: it completes its request, and the unsignalled ones before that."""
        wr_id, failed = completion.wr_id, completion.status is not _SUCCESS
        done = self._under_way.pop(wr_id, None)
        if done is not None:
            if self._under_way and next(iter(self._under_way)) < wr_id:
                self._complete_before(done)
            self._complete(done, completion, not failed)
        elif failed:
            for request in [one for one in self._under_way.values() if one.qp is completion.qp]:
                del self._under_way[request.wr_id]
                self._complete(request, completion, False)

    def _complete_before(self, done: Posted) -> None:
        """Requests of one queue pair complete in order: unsignalled ones before this have succeeded."""
        assert done.completion is None
        for request in [one for one in self._under_way.values() if one.wr_id < done.wr_id and one.qp is done.qp]:
            del self._under_way[request.wr_id]
            self._complete(request, WorkCompletion(request.wr_id, _SUCCESS, request.opcode, 0, request.qp), True)

    def _complete(self, request: Posted, completion: WorkCompletion, succeeded: bool) -> None:
        self._completed += 1
        request.completion, request.succeeded, request.turn = completion, succeeded, self._completed
        if request.dropped:
            self._forget(request)

    def _forget(self, request: Posted) -> None:
        """Nobody takes the result of a request that is complete."""
        if request.opcode is _READ and request.succeeded and request.buffer is not None:
            _given_out(request)
        self._release(request)

    def _release(self, request: Posted) -> None:
        if request.buffer is not None:
            self._free.append(request.buffer)
            request.buffer = None


def _given_out(request: Posted) -> Callable[[int, int], None] | None:
    """Nobody looks at what a READ has fetched but as the returned call is told; None: nobody wants to know."""
    assert request.qp.peer is not None
    device, offset = request.qp.peer.end.nic.host.memory.locate(request.there)
    onlooker = device.space.onlooker
    return None if onlooker is None else onlooker.claim(offset, request.length)
