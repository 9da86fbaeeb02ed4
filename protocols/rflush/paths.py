"""The ways of requests and replies: by WRITE, by WRITE and flag, by immediate, by SEND, or left for the client's READ.

A path is one direction of one connection, from a sender to a receiver, with what each of the two knows of it in its own
fields. What the receiver learns of a message it reads from the message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from itertools import pairwise
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Deadline, Thread
from ...models.nic.packets import GRH_BYTES
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
from .messages import LINE, WORD, CallMessage, Disconnected, MessageSlot, Tail, post_write

Code = Generator[Any, Any, Any]


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
        self.least_bytes = 0
        """So many bytes travel at least, those before a shorter message in its buffer among them."""
        self.awaits_completion = False
        """Whether the sender waits for the completion of each of its WRITEs; else they are not signalled."""
        self.copies = 0
        """How often the sender copies a message before it leaves."""

    def attach(self, node: Node, domain: ProtectionDomain, qp: QueuePair, other: QueuePair) -> None:
        """The sender is there: its node, its domain, its queue pair, and the receiver's."""
        self.qp, self.other = qp, other
        dram = node.memory["dram"]
        self._copied = [dram.allocate(self.room, "message", align=LINE) + self.room for _ in range(self.copies)]
        self.buffer = node.memory["dram"].allocate(self.room, "message buffer", align=LINE) + self.room
        """Where the sender's messages end before they leave."""

    @property
    def spot(self) -> tuple[int, bytes]:
        """What the receiver spins on."""
        raise TypeError(f"{type(self).__name__} is found by a completion")

    @abstractmethod
    def send(self, thread: Thread, message: CallMessage) -> Code:
        """The sender sends a message. One call is under way: what comes back shows that it has arrived."""

    @abstractmethod
    def take(self, thread: Thread, completion: WorkCompletion | None) -> Code:
        """The receiver takes the message that has come, with its completion where it is found by one."""

    def clear(self, thread: Thread) -> Code:
        """The receiver, of whose sender nothing comes any more, has his place as it was before the first message."""
        yield from ()

    def receive(self, thread: Thread, number: int, length: int, deadline: Deadline | None = None) -> Code:
        """A receiver with nothing else to do waits for the message of the call of that number, which is to have at most
        ``length`` bytes of data. Those of earlier calls are passed over.

        Returns None where ``deadline`` passes before. Raises :class:`Disconnected` where the connection breaks.
        """
        while True:
            completion = None
            if self.spun:
                if (yield from thread.spin([self.spot], deadline, [self.other])) is None:
                    if self.other.error:
                        raise Disconnected
                    return None
            else:
                completion = yield from thread.poll(self.other.recv_cq, deadline)
                if completion is None:
                    return None
                if completion.status is not Status.IBV_WC_SUCCESS:
                    raise Disconnected
            message = yield from self.take(thread, completion)
            if message.number == number:
                return message

    def build(self, thread: Thread, message: CallMessage) -> Code:
        """Put a message into the sender's buffer; returns where it begins, and its length."""
        data = message.pack()
        end = self._copied[0] if self._copied else self.buffer
        yield from thread.store(end - len(data), data)
        for source, target in pairwise([*self._copied, self.buffer]):
            yield from thread.memcpy(target - len(data), source - len(data), len(data))
        length = max(len(data), self.least_bytes)
        return self.buffer - length, length

    def write(self, thread: Thread, here: int, length: int, there: int, rkey: int) -> Code:
        """WRITE what lies in a buffer."""
        if not self.awaits_completion:
            yield from post_write(thread, self.qp, here, length, there, rkey)
            return
        signaled = SendFlags.IBV_SEND_SIGNALED
        work = SendWR(0, Opcode.IBV_WR_RDMA_WRITE, here, length, there, rkey, send_flags=signaled)
        yield from thread.post_send(self.qp, work)
        yield from thread.poll(self.qp.send_cq)


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
        yield from self.write(thread, here, length, self.slot.end - length, self.key)

    @override
    def take(self, thread: Thread, completion: WorkCompletion | None) -> Code:
        return self.slot.take(thread)

    @override
    def clear(self, thread: Thread) -> Code:
        yield from self.slot.clear(thread)


class ByUnreliableWrite(ByWrite):
    """The same on an unreliable connection."""

    type = QpType.IBV_QPT_UC


def flag_of(word: bytes) -> bytes:
    """What stands in the mailbox for a message with this last word: zero where none has come, and never for a message.

    No message of the next call has the same, whatever the attempts are; nor has the next attempt of the same call.
    """
    number, attempt = int.from_bytes(word[:4], "little"), int.from_bytes(word[4:], "little")
    return bytes([1 + (101 * number + attempt % 32) % 255 if number else 0])


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
        return self._mailbox, flag_of(self.slot.taken)

    @override
    def send(self, thread: Thread, message: CallMessage) -> Code:
        yield from super().send(thread, message)
        yield from thread.store(self._flag, flag_of(message.word))
        yield from post_write(thread, self.qp, self._flag, 1, self._mailbox, self._mailbox_key)

    @override
    def clear(self, thread: Thread) -> Code:
        yield from super().clear(thread)
        yield from thread.store(self._mailbox, flag_of(self.slot.taken))


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
        work = SendWR(0, opcode, here, length, there, self.key, send_flags=flags, imm_data=message.number)
        yield from thread.post_send(self.qp, work)

    @override
    def take(self, thread: Thread, completion: WorkCompletion | None) -> Code:
        thread.post_recv(self.other, RecvWR(0, 0, 0))
        return (yield from self.slot.take(thread))


class InKernel(ByImmediate):
    """The same from kernel to kernel: each of the two looks up whether the message is allowed (LITE: Tsai, Zhang,
    SOSP'17, section 5.1).
    """

    @override
    def send(self, thread: Thread, message: CallMessage) -> Code:
        yield from thread.check_permission()
        yield from super().send(thread, message)

    @override
    def take(self, thread: Thread, completion: WorkCompletion | None) -> Code:
        message = yield from super().take(thread, completion)
        yield from thread.check_permission()
        return message


class BySend(MessagePath):
    """SEND; the receiver polls the receive completion, and finds the message in the buffer that he had posted."""

    spun = False
    header_bytes: ClassVar[int] = 0
    """What comes before a message in its receive buffer."""
    receives: ClassVar[int] = 1
    """How many receive buffers there are: one is enough unless messages come again."""

    def __init__(self, node: Node, domain: ProtectionDomain, room: int) -> None:
        super().__init__(node, domain, room)
        length = room + -(-self.header_bytes // LINE) * LINE
        dram = node.memory["dram"]
        self._received = [
            RecvWR(number, dram.allocate(length, "receive buffer", align=LINE), length)
            for number in range(self.receives)
        ]

    @override
    def attach(self, node: Node, domain: ProtectionDomain, qp: QueuePair, other: QueuePair) -> None:
        super().attach(node, domain, qp, other)
        for receive in self._received:
            other.post_recv(receive)

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
        receive = self._received[completion.wr_id]
        message = yield from CallMessage.load(thread, receive.local_address + completion.byte_len)
        thread.post_recv(self.other, receive)
        return message


class ByDatagram(BySend):
    """SEND of a datagram."""

    type = QpType.IBV_QPT_UD
    header_bytes = GRH_BYTES
    receives = 4


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
    def receive(self, thread: Thread, number: int, length: int, deadline: Deadline | None = None) -> Code:
        size = max(length + Tail.size, self.least_bytes)
        here, awaited = self.slot.end, number.to_bytes(4, "little")
        while True:
            work = SendWR(0, Opcode.IBV_WR_RDMA_READ, here - size, size, self.buffer - size, self._there)
            yield from thread.post_send(self.other, work)
            completion = yield from thread.poll(self.other.send_cq)
            if completion.status is not Status.IBV_WC_SUCCESS:
                raise Disconnected
            if (yield from thread.load(here - WORD, WORD))[:4] == awaited:
                return (yield from self.take(thread, None))
            if deadline is not None and deadline.passed:
                return None
            thread.count("polls in vain")
