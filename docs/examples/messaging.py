"""Messaging by spinning: clients WRITE requests into the server's memory, which spins on their last bytes, and back.

Source: an example, after FaRM's message rings (Dragojevic et al., NSDI'14, section 4: the receiver polls memory), with
rings of one slot. Whoever polls the last byte relies on it to become visible last.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Mapping
from typing import Any, ClassVar

from ..models.cpu import Thread
from ..models.system import Node
from ..models.verbs import QueuePair
from .guarantees import NO_FAULT, Claims, Condition
from .layout import U32, Layout, Rest
from .parts.onesided import Door, Posted, Poster
from .scheme import OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]


class Message(Layout):
    """A request or a reply; one byte behind it, its turn, says that it is there."""

    crc = U32()
    number = U32()
    """Of the object, from 1; with the highest bit set it is put."""
    value = Rest()


PUT = 1 << 31


class Slot:
    """Room for one message in a node's DRAM; its owner waits for the last byte to become the next turn."""

    def __init__(self, node: Node, length: int) -> None:
        self.length = length
        self.address = node.memory["dram"].allocate(length + 1, "slot", align=64)
        self.taken = self.sent = 0
        """How many messages have come here; and have gone the other way."""

    @property
    def last(self) -> tuple[int, bytes]:
        """The last byte, as its owner has seen it: what it spins on."""
        return self.address + self.length, turn(self.taken)

    def take(self, thread: Thread) -> Code:
        """The message whose last byte has come."""
        self.taken += 1
        return Message.unpack((yield from thread.load(self.address, self.length)))


def turn(number: int) -> bytes:
    """The last byte of a connection's message of this number, from 1."""
    return bytes([number % 256])


class CheckedSlot(Slot):
    """A slot whose owner does not trust the last byte: it spins until all has the checksum of this turn's message.

    Without the turn in it, the message before would pass for one of which only the last byte has come: it is whole.
    """

    def take(self, thread: Thread) -> Code:
        self.taken += 1
        while True:
            data = yield from thread.load(self.address, self.length)
            message = Message.unpack(data)
            if (yield from thread.crc32_of(data[4:] + turn(self.taken))) == message.crc:
                return message
            thread.count("torn messages")
            yield from thread.spin([(self.address, data)])


class End:
    """One end of a connection: its slot, and its way to the other's."""

    def __init__(self, poster: Poster, qp: QueuePair, slot: Slot, there: Slot, rkey: int) -> None:
        self.poster, self.qp, self.slot = poster, qp, slot
        self.to, self.rkey = there.address, rkey
        self.posted: Posted | None = None

    def send(self, number: int, value: bytes) -> Code:
        """WRITE a message, with its turn behind it, into the other end's slot."""
        if self.posted is not None:  # what came since then shows that it has arrived
            self.poster.replied(self.posted)
        self.slot.sent += 1
        value = value.ljust(self.slot.length - Message.size, b"\0")
        last = turn(self.slot.sent)
        crc = zlib.crc32(number.to_bytes(4, "little") + value + last)
        data = Message.pack(crc=crc, number=number, value=value) + last
        self.posted = yield from self.poster.write(self.qp, self.to, self.rkey, data, signaled=False)


class Messaging(Scheme, name="messaging"):
    """A table in the server's DRAM; one round trip an operation, no completion on the way."""

    title = "requests and replies by WRITE, found by spinning"
    paper = "an example"
    section = "docs/scenarios.md"
    claims: ClassVar[Claims] = {Condition.LINEARIZABLE: NO_FAULT}
    faults: ClassVar = {"server": ("power",), "client": ("power", "process")}
    operations = ("put", "get")
    updates = frozenset({"put"})
    slot: type[Slot] = Slot

    class Server(Role):
        def __init__(self, scheme: Messaging, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.length = Message.size + self.sizes.value_bytes
            self.slots = [scheme.slot(node, self.length) for _ in range(self.sizes.clients + 1)]

        def begin(self) -> None:
            self.values: dict[int, bytes] = {}
            self.ends: list[End] = []
            self.thread = self.node.thread(0, self.node.name)
            self.poster = Poster(self.thread, self.node, self.length + 1, len(self.slots))
            self.door = Door(self.node)
            first, last = self.slots[0].address, self.slots[-1].address + self.length + 1
            self.key = self.door.register(first, last - first).key

        def start(self) -> None:
            self.node.process(self.node.name).start(self.serve(self.thread))

        def serve(self, thread: Thread) -> Code:
            """One thread looks at the last bytes of all slots."""
            while True:
                found = yield from thread.spin([slot.last for slot in self.slots])
                request = yield from self.slots[found].take(thread)
                yield from thread.compute()
                if request.number & PUT:
                    self.values[request.number ^ PUT] = request.value
                yield from self.ends[found].send(request.number, self.values.get(request.number & ~PUT, b""))

    class Client(Role, invokes=True):
        def connect(self, thread: Thread) -> End:
            server: Messaging.Server = self.scheme.roles["server"][0]
            ours, theirs = type(server.slots[0])(self.node, server.length), server.slots[len(server.ends)]
            poster = Poster(thread, self.node, server.length + 1)
            qp = poster.open()
            there = server.door.admit(qp, send_cq=server.poster.sent)
            key = poster.domain.reg_mr(ours.address, server.length + 1).key
            server.ends.append(End(server.poster, there, theirs, ours, key))
            return End(poster, qp, ours, theirs, server.key)

        def perform(self, session: End, request: Request) -> Code:
            thread, value = session.poster.thread, request.step.value
            number = 1 + self.sizes.objects.index(request.step.object)
            yield from session.send(number | PUT if value is not None else number, value or b"")
            if (yield from thread.spin([session.slot.last], queue_pairs=[session.qp])) is None:
                raise OutcomeUnknown("the connection is broken")
            reply = yield from session.slot.take(thread)
            return reply.value if value is None else None

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        self.roles["server"][0].values.update(enumerate(objects.values(), start=1))

    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class Checked(Messaging, name="messaging-checked"):
    """The same with a checksum: right whatever the order of a WRITE's bytes."""

    title = "the same, with a checksum over each message"
    slot = CheckedSlot
