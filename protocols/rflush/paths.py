"""The ways of requests and replies: by WRITE, by WRITE and flag, by immediate, by SEND, or left for the client's READ.

A path is one direction of one connection, from a sender to a receiver, with what each of the two knows of it in its own
fields. What the receiver learns of a message it reads from the message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ...models.verbs import (
    REMOTE,
    Opcode,
    ProtectionDomain,
    QpType,
    QueuePair,
    RecvWR,
    SendFlags,
    SendWR,
    Status,
    WorkCompletion,
)
from .messages import LINE, WORD, CallMessage, MessageSlot, Tail, post_write

Code = Generator[Any, Any, Any]

GRH_BYTES = 40
"""Before a datagram in its receive buffer: the global route header (IBTA 9.8.3)."""


class MessagePath(ABC):
    """One direction of one connection; the receiver's side is there before anybody connects."""

    spun: ClassVar[bool] = True
    """Whether the receiver finds a message by spinning on memory, or by polling a receive completion."""
    type: ClassVar[QpType] = QpType.IBV_QPT_RC
    """The transport that it needs."""

    def __init__(self, node: Node, domain: ProtectionDomain, room: int) -> None:
        """``node`` is the receiver's, ``domain`` his; there is ``room`` for a message."""
        self.node = node
        self.domain = domain
        self.room = room
        self.sent = self.taken = 0
        """How many messages the sender has sent; and the receiver has taken."""

    def attach(self, node: Node, domain: ProtectionDomain, qp: QueuePair, other: QueuePair) -> None:
        """The sender is there: its node, its domain, its queue pair, and the receiver's."""
        self.qp, self.other = qp, other
        self.buffer = node.memory["dram"].allocate(self.room, "message buffer", align=LINE) + self.room
        """Where the sender's messages end before they leave."""

    @property
    def spot(self) -> tuple[int, bytes]:
        """What the receiver spins on."""
        raise TypeError(f"{type(self).__name__} is found by a completion")

    @abstractmethod
    def send(self, thread: Thread, message: CallMessage) -> Code:
        """The sender sends a message. One is under way: what comes back shows that it has arrived."""

    @abstractmethod
    def take(self, thread: Thread, completion: WorkCompletion | None) -> Code:
        """The receiver takes the message that has come, with its completion where it is found by one."""

    def receive(self, thread: Thread, length: int) -> Code:
        """A receiver with nothing else to do waits for a message, which is to have ``length`` bytes of data; None
        where the connection breaks.
        """
        if self.spun:
            found = yield from thread.spin([self.spot], queue_pairs=[self.other])
            return None if found is None else (yield from self.take(thread, None))
        completion = yield from thread.poll(self.other.recv_cq)
        if completion.status is not Status.IBV_WC_SUCCESS:
            return None
        return (yield from self.take(thread, completion))

    def build(self, thread: Thread, message: CallMessage) -> Code:
        """Put a message into the sender's buffer; returns where it begins, and its length."""
        self.sent += 1
        data = message.pack(self.sent)
        yield from thread.store(self.buffer - len(data), data)
        return self.buffer - len(data), len(data)


class ByWrite(MessagePath):
    """WRITE into a slot; the receiver spins on its last word (FaRM's ring, of one slot)."""

    def __init__(self, node: Node, domain: ProtectionDomain, room: int) -> None:
        super().__init__(node, domain, room)
        self.slot = MessageSlot(node, room)
        self.key = domain.reg_mr(self.slot.address, room, REMOTE).key

    @property
    @override
    def spot(self) -> tuple[int, bytes]:
        return self.slot.spot

    @override
    def send(self, thread: Thread, message: CallMessage) -> Code:
        here, length = yield from self.build(thread, message)
        yield from post_write(thread, self.qp, here, length, self.slot.end - length, self.key)

    @override
    def take(self, thread: Thread, completion: WorkCompletion | None) -> Code:
        return (yield from self.slot.take(thread))


class ByUnreliableWrite(ByWrite):
    """The same on an unreliable connection."""

    type = QpType.IBV_QPT_UC


class ByWriteAndFlag(ByWrite):
    """WRITE of the message, and behind it WRITE of one byte into a mailbox, on which the receiver spins."""

    def __init__(self, node: Node, domain: ProtectionDomain, room: int) -> None:
        super().__init__(node, domain, room)
        self._mailbox = node.memory["dram"].allocate(LINE, "mailbox", align=LINE)
        self._mailbox_key = domain.reg_mr(self._mailbox, LINE, REMOTE).key

    @override
    def attach(self, node: Node, domain: ProtectionDomain, qp: QueuePair, other: QueuePair) -> None:
        super().attach(node, domain, qp, other)
        self._flag = node.memory["dram"].allocate(LINE, "flag", align=LINE)

    @property
    @override
    def spot(self) -> tuple[int, bytes]:
        return self._mailbox, bytes([self.slot.taken % 256])

    @override
    def send(self, thread: Thread, message: CallMessage) -> Code:
        yield from super().send(thread, message)
        yield from thread.store(self._flag, bytes([self.sent % 256]))
        yield from post_write(thread, self.qp, self._flag, 1, self._mailbox, self._mailbox_key)


class ByImmediate(ByWrite):
    """WRITE with immediate into a slot; the receiver polls the receive completion."""

    spun = False

    @override
    def attach(self, node: Node, domain: ProtectionDomain, qp: QueuePair, other: QueuePair) -> None:
        super().attach(node, domain, qp, other)
        other.post_recv(RecvWR(0, 0, 0))

    @override
    def send(self, thread: Thread, message: CallMessage) -> Code:
        here, length = yield from self.build(thread, message)
        flags = SendFlags.IBV_SEND_INLINE if length <= self.qp.max_inline_data else SendFlags.NONE
        opcode, there = Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, self.slot.end - length
        work = SendWR(0, opcode, here, length, there, self.key, send_flags=flags, imm_data=self.sent % (1 << 32))
        yield from thread.post_send(self.qp, work)

    @override
    def take(self, thread: Thread, completion: WorkCompletion | None) -> Code:
        thread.post_recv(self.other, RecvWR(0, 0, 0))
        return (yield from self.slot.take(thread))


class BySend(MessagePath):
    """SEND; the receiver polls the receive completion, and finds the message in the buffer that he had posted."""

    spun = False
    header_bytes: ClassVar[int] = 0
    """What comes before a message in its receive buffer."""

    def __init__(self, node: Node, domain: ProtectionDomain, room: int) -> None:
        super().__init__(node, domain, room)
        length = room + -(-self.header_bytes // LINE) * LINE
        self._received = RecvWR(0, node.memory["dram"].allocate(length, "receive buffer", align=LINE), length)

    @override
    def attach(self, node: Node, domain: ProtectionDomain, qp: QueuePair, other: QueuePair) -> None:
        super().attach(node, domain, qp, other)
        other.post_recv(self._received)

    @override
    def send(self, thread: Thread, message: CallMessage) -> Code:
        here, length = yield from self.build(thread, message)
        flags = SendFlags.IBV_SEND_INLINE if length <= self.qp.max_inline_data else SendFlags.NONE
        destination = self.other if self.type is QpType.IBV_QPT_UD else None
        work = SendWR(0, Opcode.IBV_WR_SEND, here, length, send_flags=flags, destination=destination)
        yield from thread.post_send(self.qp, work)

    @override
    def take(self, thread: Thread, completion: WorkCompletion | None) -> Code:
        assert completion is not None
        message = yield from CallMessage.load(thread, self._received.local_address + completion.byte_len)
        thread.post_recv(self.other, self._received)
        return message


class ByDatagram(BySend):
    """SEND of a datagram."""

    type = QpType.IBV_QPT_UD
    header_bytes = GRH_BYTES


class LeftThere(ByWrite):
    """The sender leaves a message where it has built it; the receiver READs it until it is the one that he awaits.

    He relies on the last word to be fetched last, or on the sender to be quicker than the READ: a READ of several lines
    fetches them in any order.
    """

    @override
    def attach(self, node: Node, domain: ProtectionDomain, qp: QueuePair, other: QueuePair) -> None:
        super().attach(node, domain, qp, other)
        self._there = domain.reg_mr(self.buffer - self.room, self.room, REMOTE).key

    @override
    def send(self, thread: Thread, message: CallMessage) -> Code:
        yield from self.build(thread, message)

    @override
    def receive(self, thread: Thread, length: int) -> Code:
        size = length + Tail.size
        here, awaited = self.slot.end, (self.slot.taken + 1).to_bytes(WORD, "little")
        while True:
            work = SendWR(0, Opcode.IBV_WR_RDMA_READ, here - size, size, self.buffer - size, self._there)
            yield from thread.post_send(self.other, work)
            completion = yield from thread.poll(self.other.send_cq)
            if completion.status is not Status.IBV_WC_SUCCESS:
                return None
            if (yield from thread.load(here - WORD, WORD)) == awaited:
                return (yield from self.take(thread, None))
            thread.count("polls in vain")
