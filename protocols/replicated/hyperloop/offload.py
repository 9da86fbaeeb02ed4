"""A chain of adapters: group operations that replicas' adapters pass on by themselves, over pre-posted work requests.

Source: Kim et al., SIGCOMM'18 (HyperLoop), as the RDMA Flush paper (section 4.5) and the Clover paper (section 7) tell,
and as it is remembered: the layout of messages is our reading. At each replica work requests are posted in advance
behind a WAIT for the message of an operation. The message fills them in: its first bytes go into the send queue, the
rest into a buffer from which the last of these requests passes it on. ``gWRITE`` sends a range on and makes it durable
at the next replica by the primitive, whose requests are among those that are filled in; the message follows when they
have completed. For READs its fence sees to that; for FLUSH, and for packets of a primitive's own, for which no fence
waits, a WAIT for their completions comes before the message is enabled. ``gCAS`` and ``gMEMCPY`` are requests of a
queue pair that leads back to the same machine. The last replica answers with a WRITE with immediate. No replica's CPU
has a part in it; it posts new work requests for those that are used up. The head, whose CPU begins each operation,
polls for its own flush where replicas have the WAIT.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ....models.cpu import Thread
from ....models.persist.requester import PrimitiveRequester
from ....models.system import Node
from ....models.verbs import (
    WQE_BYTES,
    CompletionQueue,
    CrossChannelQueue,
    ManagedQueue,
    Opcode,
    QueuePair,
    RecvWR,
    ScatterRecvWR,
    SendFlags,
    SendWR,
    Status,
    enable,
    wait,
)
from ....models.verbs.cross_channel import encode
from ....models.verbs.work import PacketOrder
from ....sim.bytespace import LINE_BYTES, round_up
from ...layout import WORD

if TYPE_CHECKING:
    from .hyperloop import ChainReplica

Code = Generator[Any, Any, Any]

ANSWER = "600 ms"
"""How long the head waits for an answer: longer than an adapter takes to give up on a dead peer, which is 8 times 67 ms
(IBTA 9.7.6.1.3 with timeout 14 and 7 retries)."""
_NONE, _SIGNALED = SendFlags.NONE, SendFlags.IBV_SEND_SIGNALED
_PASSED_ON = SendFlags(SendFlags.IBV_SEND_SIGNALED | SendFlags.IBV_SEND_FENCE)
"""The fence waits for READs and atomics: ``ChainReplica.waits`` says whether a primitive needs more than that."""


def nothing(order: PacketOrder | None = None) -> SendWR:
    """A work request that does nothing until a message fills it in."""
    return SendWR(0, Opcode.IBV_WR_NOP, 0, 0, send_flags=_NONE, order=order)


NOTHING = nothing()
"""As it stands in a message."""


class ChainBroken(Exception):
    """No answer comes any more: a replica or its queue pairs are gone."""


class Posting(NamedTuple):
    """A work request for a queue pair, of its send queue or its receive queue."""

    qp: QueuePair
    work: SendWR | RecvWR


class ChainHop:
    """One replica's part of a chain: what is posted there in advance for each operation."""

    def __init__(self, replica: ChainReplica, behind: ChainHop | None, head: HeadEnd, local: bool, chain: int) -> None:
        """``behind`` is the next replica's hop; the last one answers the ``head``. ``local``: operations on a
        replica's own memory, which come before the message is passed on.
        """
        self.replica = replica
        self.local = local
        node, dram = replica.node, replica.node.memory["dram"]
        self.ahead = replica.scheme.posted_ahead
        self.arrived = CrossChannelQueue()
        self.done = CrossChannelQueue()
        thread = replica.thread
        self.flushes = replica.flush_requests
        self.waits = replica.waits and behind is not None and not local
        """Whether the message is enabled behind a WAIT for the primitive's requests."""
        out = (1 if local else 1 + self.flushes) + (0 if local else 1)
        self.out_wqes, self.own_wqes = out, 1 + self.flushes if local else 0
        self.staging_bytes = round_up(WQE_BYTES * 4 * chain + WORD * chain)
        self._staging = dram.allocate(self.staging_bytes * self.ahead, "staging")
        self._out_ring = ManagedQueue(dram.allocate(WQE_BYTES * out * self.ahead, "send queue"), out * self.ahead)
        self.requester: PrimitiveRequester | None = None
        if behind is not None:
            sent = self.done if self.waits else replica.used_up
            self.requester = behind.replica.service.connect(
                thread, node, managed=self._out_ring, send_cq=sent, arrived=behind.arrived
            )
            self.out = self.requester.qp
        else:
            self.out = replica.service_domain.create_qp(replica.used_up, node.create_cq(), managed=self._out_ring)
            head.accept(self.out)
        self.own: PrimitiveRequester | None = None
        if local:
            ring = ManagedQueue(
                dram.allocate(WQE_BYTES * self.own_wqes * self.ahead, "own"), self.own_wqes * self.ahead
            )
            self.own = replica.service.connect(thread, node, managed=ring, send_cq=self.done)
        unused = node.create_cq()
        self._control = replica.service_domain.create_qp(replica.used_up, unused, cross_channel=True)
        self._control.connect(replica.service_domain.create_qp(unused, unused))
        self.inbound: QueuePair
        """This machine's end of the queue pair that messages come by."""
        self.posted = 0
        replica.hops[self.out.number] = replica.hops[self._control.number] = self

    @property
    def wqes(self) -> int:
        """The work requests that a message fills in here."""
        return self.own_wqes + self.out_wqes

    def staging(self, operation: int) -> int:
        """Where what is to be passed on of an operation's message lies."""
        return self._staging + operation % self.ahead * self.staging_bytes

    def ranges(self, operation: int) -> list[tuple[int, int]]:
        """The buffers that an operation's message fills."""
        turn, found = operation % self.ahead, []
        if self.own is not None and self.own.qp.managed is not None:
            found.append((self.own.qp.managed.place(turn * self.own_wqes), self.own_wqes * WQE_BYTES))
        found.append((self._out_ring.place(turn * self.out_wqes), self.out_wqes * WQE_BYTES))
        return [*found, (self.staging(operation), self.staging_bytes)]

    def next_operation(self) -> Iterator[Posting]:
        """The work requests of the next operation; what the message fills in does nothing before."""
        ranges, own = self.ranges(self.posted), self.own
        self.posted += 1
        if own is not None:
            for blank in (nothing(), *blanks(own)):
                yield Posting(own.qp, blank)
        if self.local:
            filled = [nothing()]
        else:
            flushes = blanks(self.requester) if self.requester else [nothing() for _ in range(self.flushes)]
            filled = [nothing(), *flushes, nothing()]
        for blank in filled:
            yield Posting(self.out, blank)
        length = sum(size for _, size in ranges)
        yield Posting(self.inbound, ScatterRecvWR(0, ranges[0][0], length, sg_list=tuple(ranges)))
        yield Posting(self._control, wait(self.arrived))
        if own is not None:
            yield Posting(self._control, enable(own.qp, self.own_wqes))
            yield Posting(self._control, wait(self.done, self.own_wqes))
        if self.waits:
            yield Posting(self._control, enable(self.out, self.out_wqes - 1))
            yield Posting(self._control, wait(self.done, self.flushes))
            yield Posting(self._control, enable(self.out))
            yield Posting(self._control, replace(wait(self.done), send_flags=_SIGNALED))
        else:
            yield Posting(self._control, enable(self.out, self.out_wqes))

    def post_before(self, operations: int) -> None:
        """Post for so many operations before time zero, as a warm system has it."""
        dram = self.replica.node.memory["dram"]
        lists: dict[QueuePair, list[SendWR]] = {}
        for _ in range(operations):
            for qp, work in self.next_operation():
                if isinstance(work, RecvWR):
                    qp.post_recv(work)
                    continue
                if qp.managed is not None:
                    at = qp.managed.place(qp.managed.posted) - dram.base
                    dram.space.poke(at, encode(work, qp.managed.posted))
                    qp.managed.posted += 1
                qp.posted += 1
                lists.setdefault(qp, []).append(work)
        for qp, works in lists.items():
            qp.device.ring_list(qp, works, [b""] * len(works))

    def post_more(self, thread: Thread) -> Code:
        """The replica's CPU posts for one more operation."""
        for qp, work in self.next_operation():
            if isinstance(work, RecvWR):
                thread.post_recv(qp, work)
            else:
                yield from thread.post_send(qp, work)


def blanks(requester: PrimitiveRequester) -> list[SendWR]:
    """Work requests that do nothing, in the places of a primitive's; a packet of its own has its order already."""
    region = requester.service.regions[0]
    return [nothing(work.order) for work in requester.requests([(region.address, WORD)])]


class HeadEnd:
    """The head's end of a chain: the answers of the last replica."""

    def __init__(self, thread: Thread, node: Node, operations: int, result_bytes: int) -> None:
        self.node = node
        self.answers: CompletionQueue = node.create_cq()
        self._domain = node.process(thread.name).alloc_pd()
        self._operations = operations
        self.results = node.memory["dram"].allocate(max(LINE_BYTES, result_bytes), "results")
        self.key = self._domain.reg_mr(self.results, max(LINE_BYTES, result_bytes)).key
        self.qp: QueuePair

    def accept(self, theirs: QueuePair) -> None:
        """Connect the last replica's queue pair, and be ready for its answers."""
        self.qp = self._domain.create_qp(self.node.create_cq(), self.answers)
        self.qp.connect(theirs)
        for _ in range(self._operations):
            self.qp.post_recv(RecvWR(0, 0, 0))


class AdapterChain:
    """One chain over replicas, of one kind of operations; its user has one operation under way."""

    def __init__(self, thread: Thread, node: Node, replicas: Sequence[ChainReplica], *, local: bool) -> None:
        self.thread = thread
        self.node = node
        self.replicas = replicas
        self.local = local
        self.operation = 0
        ahead = replicas[0].scheme.posted_ahead
        self.head = HeadEnd(thread, node, ahead, WORD * len(replicas))
        self.hops: list[ChainHop] = []
        for replica in reversed(replicas):
            self.hops.insert(0, ChainHop(replica, self.hops[0] if self.hops else None, self.head, local, len(replicas)))
        first = self.hops[0]
        self.link: PrimitiveRequester = first.replica.service.connect(thread, node, arrived=first.arrived)
        for hop, ahead_of in zip(self.hops, [self.link, *(one.requester for one in self.hops)], strict=False):
            assert ahead_of is not None and ahead_of.qp.peer is not None
            hop.inbound = ahead_of.qp.peer
            hop.post_before(ahead)
        dram = node.memory["dram"]
        self._message_bytes = WQE_BYTES * 4 * len(replicas) + WORD * len(replicas)
        self._message = dram.allocate(self._message_bytes, "message")
        self._data = dram.allocate(replicas[0].length, "data")

    # what the work requests say ---------------------------------------------------------------------------------------
    def rest(self, index: int) -> int:
        """The bytes that the replica number ``index`` passes on."""
        return sum(hop.wqes for hop in self.hops[index + 1 :]) * WQE_BYTES + self.result_bytes

    @property
    def result_bytes(self) -> int:
        """What the replicas' results take: a word for each, of operations on their own memory."""
        return WORD * len(self.hops) if self.local else 0

    def passes_on(self, index: int) -> SendWR:
        """The work request by which a replica passes the message on, or answers."""
        hop, staging = self.hops[index], self.hops[index].staging(self.operation)
        if index + 1 < len(self.hops):
            return SendWR(0, Opcode.IBV_WR_SEND, staging, self.rest(index), send_flags=_PASSED_ON)
        assert hop.requester is None
        return SendWR(
            0, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, staging, self.result_bytes, self.head.results, self.head.key,
            send_flags=_PASSED_ON, imm_data=self.operation & 0xFFFFFFFF,
        )  # fmt: skip

    def written(self, index: int, offset: int, length: int) -> list[SendWR]:
        """The work requests by which a replica sends a range on and makes it durable at the next one."""
        hop = self.hops[index]
        if hop.requester is None:
            return [NOTHING] * (1 + hop.flushes)
        there = self.hops[index + 1].replica
        work = SendWR(
            0, Opcode.IBV_WR_RDMA_WRITE, hop.replica.at(offset), length, there.at(offset), there.key, send_flags=_NONE
        )
        flags = _SIGNALED if hop.waits else _NONE
        flushes = hop.requester.requests([(there.at(offset), length)])
        return [work, *(replace(flush, send_flags=flags) for flush in flushes)]

    # operations -------------------------------------------------------------------------------------------------------
    def write(self, offset: int, data: bytes) -> Code:
        """gWRITE and gFLUSH: all replicas hold ``data``, durable as far as the primitive goes, when it returns."""
        yield from self.thread.store(self._data, data)
        images = []
        for index in range(len(self.hops)):
            images += [*self.written(index, offset, len(data)), self.passes_on(index)]
        first, thread, qp = self.hops[0].replica, self.thread, self.link.qp
        work = SendWR(0, Opcode.IBV_WR_RDMA_WRITE, self._data, len(data), first.at(offset), first.key, send_flags=_NONE)
        yield from thread.post_send(qp, work)
        flags = _SIGNALED if first.waits else _NONE
        flushes = self.link.requests([(first.at(offset), len(data))])
        for flush in flushes:
            yield from thread.post_send(qp, replace(flush, send_flags=flags))
        if first.waits:
            for _ in flushes:
                yield from self._completed()
        yield from self._go(images)

    def _completed(self) -> Code:
        """Wait for a request of the head's own. Raises ChainBroken if it does not succeed."""
        completion = yield from self.thread.poll(self.link.qp.send_cq, self.thread.deadline(ANSWER))
        if completion is None or completion.status is not Status.IBV_WC_SUCCESS:
            raise ChainBroken

    def own(self, work_of: Callable[[int], SendWR | None], touched: tuple[int, int] | None = None) -> Code:
        """An operation on each replica's own memory; ``touched`` is the range that it changes, which is made durable.

        ``work_of`` says of a replica what it does, None where it does nothing (gCAS's execute map). Returns the words
        that came back, one for each replica.
        """
        images: list[SendWR] = []
        for index, hop in enumerate(self.hops):
            assert hop.own is not None
            work = work_of(index)
            images.append(replace(work or NOTHING, send_flags=_SIGNALED))
            if touched is None or work is None:
                images += [replace(NOTHING, send_flags=_SIGNALED)] * hop.flushes
            else:
                flushes = hop.own.requests([(hop.replica.at(touched[0]), touched[1])])
                images += [replace(flush, send_flags=_SIGNALED) for flush in flushes]
            images.append(self.passes_on(index))
        yield from self._go(images)
        found = yield from self.thread.load(self.head.results, self.result_bytes)
        return [int.from_bytes(found[at : at + WORD], "little") for at in range(0, len(found), WORD)]

    def compare_and_swap(self, offset: int, compare: int, swap: int, execute: Sequence[bool] | None = None) -> Code:
        """gCAS of a word at all replicas that the execute map names (None: all); returns what each one held."""

        def work_of(index: int) -> SendWR | None:
            replica = self.hops[index].replica
            if execute is not None and not execute[index]:
                return None
            result = self.hops[index].staging(self.operation) + self.rest(index) - self.result_bytes + WORD * index
            return SendWR(
                0, Opcode.IBV_WR_ATOMIC_CMP_AND_SWP, result, WORD, replica.at(offset), replica.key,
                compare_add=compare, swap=swap,
            )  # fmt: skip

        return self.own(work_of)

    def copy(self, source: int, destination: int, length: int) -> Code:
        """gMEMCPY and gFLUSH: a range of each replica's memory is copied within it, and made durable."""

        def work_of(index: int) -> SendWR:
            replica = self.hops[index].replica
            return SendWR(0, Opcode.IBV_WR_RDMA_WRITE, replica.at(source), length, replica.at(destination), replica.key)

        return self.own(work_of, (destination, length))

    def _go(self, images: Sequence[SendWR]) -> Code:
        """Send the message that fills in the replicas' work requests, and wait for the last one's answer.

        Raises ChainBroken if none comes.
        """
        thread = self.thread
        message = b"".join(encode(image) for image in images) + bytes(self.result_bytes)
        yield from thread.store(self._message, message)
        work = SendWR(0, Opcode.IBV_WR_SEND, self._message, len(message), send_flags=SendFlags.IBV_SEND_FENCE)
        yield from thread.post_send(self.link.qp, work)
        deadline = thread.deadline(ANSWER)
        while True:
            completion = yield from thread.poll(self.head.answers, deadline)
            if completion is None:
                raise ChainBroken
            if completion.imm_data == self.operation & 0xFFFFFFFF:
                break
        thread.post_recv(self.head.qp, RecvWR(0, 0, 0))
        self.operation += 1
