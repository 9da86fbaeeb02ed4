"""The messages of calls, byte for byte, and the slot in memory that one of them is written into and found in.

A message is data and a tail behind it, whose last word says which call it belongs to, and which attempt of it. So the
receiver finds a message that ends where its slot ends by looking at one word, whatever its length; it relies on that
word to become visible last, as FaRM does (Dragojevic et al., NSDI'14, section 4).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from ...models.cpu import Thread
from ...models.system import Node
from ...models.verbs import Opcode, QueuePair, SendFlags, SendWR
from ..layout import U32, U64, Layout

Code = Generator[Any, Any, Any]

READ, WRITE, DONE = 1, 2, 3
"""Kinds of messages: read an object, write one, and the reply to either."""
REFUSED = 5
"""The reply to a write for which there is no room."""
WRITES, READS = 6, 7
"""Batches of either: the data of the former are as ``batches.pack_writes`` has them, of the latter objects' numbers."""
WORD = 8
LINE = 64


class Disconnected(Exception):
    """The other end of a connection is gone."""


class Tail(Layout):
    """Behind the data of every message."""

    kind = U32()
    """READ, WRITE, DONE, or one of a system's own."""
    length = U32()
    """Bytes of data before it."""
    object = U64()
    """The object's number, from 0."""
    after = U64()
    """Of a read: so many writes of this connection come before it."""
    number = U32()
    """The number of the call on its connection, from 1; with the attempt the word that says that the message is there.
    """
    attempt = U32()
    """How often the request had been sent before; a reply has that of its request."""


@dataclass(frozen=True)
class CallMessage:
    """A request or a reply, as it has been read."""

    kind: int
    object: int = 0
    data: bytes = b""
    after: int = 0
    number: int = 0
    attempt: int = 0

    def pack(self) -> bytes:
        """Its bytes."""
        return self.data + Tail.pack(
            kind=self.kind, length=len(self.data), object=self.object, after=self.after, number=self.number,
            attempt=self.attempt,
        )  # fmt: skip

    @property
    def word(self) -> bytes:
        """The last word of its bytes."""
        return self.number.to_bytes(4, "little") + self.attempt.to_bytes(4, "little")

    @staticmethod
    def load(thread: Thread, end: int) -> Code:
        """The message that ends at address ``end``."""
        tail = Tail.unpack((yield from thread.load(end - Tail.size, Tail.size)))
        data = b""
        if tail.length:
            data = yield from thread.load(end - Tail.size - tail.length, tail.length)
        return CallMessage(tail.kind, tail.object, data, tail.after, tail.number, tail.attempt)


def room_for(value_bytes: int) -> int:
    """Whole lines for a message with so many bytes of data."""
    return -(-(value_bytes + Tail.size) // LINE) * LINE


class MessageSlot:
    """Room for one message in a node's DRAM, which the other end writes."""

    def __init__(self, node: Node, room: int, name: str = "message") -> None:
        self.room = room
        self.address = node.memory["dram"].allocate(room, name, align=LINE)
        self.end = self.address + room
        self.taken = bytes(WORD)
        """The last word of the message that its owner has taken last."""

    @property
    def spot(self) -> tuple[int, bytes]:
        """What its owner spins on: the last word, as he has seen it."""
        return self.end - WORD, self.taken

    def take(self, thread: Thread) -> Code:
        """The message whose last word has come."""
        message = yield from CallMessage.load(thread, self.end)
        self.taken = message.word
        return message

    def clear(self, thread: Thread) -> Code:
        """Have no message here: the last word is zero, which is none."""
        yield from thread.store(self.end - WORD, bytes(WORD))
        self.taken = bytes(WORD)


class Sender:
    """Sends messages by WRITE into the other end's slot, on a queue pair, from a buffer of its own.

    One message is under way: what comes back shows that it has arrived, so nothing is signalled.
    """

    def __init__(self, node: Node, qp: QueuePair, slot: MessageSlot, rkey: int, sent: int = 0) -> None:
        """``sent`` messages had been written into the slot before, by another sender."""
        self.qp, self.rkey = qp, rkey
        self._there = slot.end
        self._here = node.memory["dram"].allocate(slot.room, "message buffer", align=LINE) + slot.room
        self._sent = sent

    def send(self, thread: Thread, message: CallMessage) -> Code:
        """WRITE a message so that it ends where the slot ends."""
        self._sent += 1
        data = replace(message, number=self._sent).pack()
        here, there = self._here - len(data), self._there - len(data)
        yield from thread.store(here, data)
        yield from post_write(thread, self.qp, here, len(data), there, self.rkey)


def post_write(thread: Thread, qp: QueuePair, here: int, length: int, there: int, rkey: int) -> Code:
    """Post an unsignalled WRITE of what lies in a buffer, inline where it fits."""
    flags = SendFlags.IBV_SEND_INLINE if length <= qp.max_inline_data else SendFlags.NONE
    yield from thread.post_send(qp, SendWR(0, Opcode.IBV_WR_RDMA_WRITE, here, length, there, rkey, send_flags=flags))
