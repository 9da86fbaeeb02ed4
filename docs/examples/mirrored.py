"""Mirrored log: a primary copies each record to its mirror's log over a flush primitive, and acknowledges then.

It does not flush its own copy: the mirror's is the durable one, and while at most one machine fails any copy will do.
Source: an example; the idea of Mojim (Zhang et al., ASPLOS'15, section 4) without its modes.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Mapping
from typing import Any, ClassVar

from ..models.cpu import Thread
from ..models.persist.requester import PrimitiveFailed
from ..models.persist.service import Service
from ..models.system import Node
from .guarantees import ALWAYS, Claims, Condition
from .layout import U32, U64, Layout, Rest
from .parts.rpc import PATIENCE, Connection, Listener, VerbsError
from .scheme import OperationFailed, OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]


class Record(Layout):
    """A record of the log; what is not that of its checksum is not there."""

    crc = U32()
    number = U32()
    """Of the object, from 1."""
    value = Rest()


class Put(Layout):
    """Write a value. The reply comes when it is durable."""

    number = U32()
    value = Rest()


class Get(Layout):
    """Read a value: the reply."""

    number = U64()


def packed(number: int, value: bytes) -> bytes:
    """A record's bytes."""
    return Record.pack(crc=zlib.crc32(number.to_bytes(4, "little") + value), number=number, value=value)


class Logged(Role):
    """A machine with a log: both are alike."""

    def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.covered = Record.size - 4 + self.sizes.value_bytes
        """Bytes of a record behind its checksum, which covers them."""
        self.each = -(-(4 + self.covered) // 64) * 64
        self.length = self.each * (len(self.sizes.objects) + self.sizes.updates)
        self.log = self.pm.allocate(self.length, "log", item_bytes=self.each)


class Mirrored(Scheme, name="mirrored"):
    """One round trip from the client to the primary, and in it the primitive's from the primary to the mirror."""

    title = "a log on two machines: visible here, made durable there, acknowledged"
    paper = "an example"
    section = "docs/adding.md"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: "primary power; mirror lost", Condition.COMMITTED: ALWAYS}
    faults: ClassVar = {"primary": ("power", "process"), "mirror": ("power", "lost"), "all": ("power",)}
    operations = ("put", "get")
    updates = frozenset({"put"})
    over = "read-after-write"

    class Client(Role, invokes=True):
        def connect(self, thread: Thread) -> Connection:
            listener: Listener = self.scheme.roles["primary"][0].listener
            return listener.accept(thread, self.node, 64, PATIENCE)

        def perform(self, session: Connection, request: Request) -> Code:
            value = request.step.value
            number = 1 + self.sizes.objects.index(request.step.object)
            try:
                if value is None:
                    found = yield from session.call(Get, number=number)
                    if not found:
                        raise OperationFailed("no record of it is left")
                    return found
                yield from session.call(Put, number=number, value=value)
            except VerbsError as error:
                raise OutcomeUnknown(str(error)) from error

    class Primary(Logged, memory=("dram", "pm")):
        def begin(self) -> None:
            self.mirror: Mirrored.Mirror = self.scheme.roles["mirror"][0]
            self.tail, self.values = 0, dict[int, bytes]()
            self.alone, self.flushed = False, 0
            room = 64 + self.sizes.value_bytes
            self.listener = Listener(self.node, {Put: self.on_put, Get: self.on_get}, message_bytes=room)

        def start(self) -> None:
            thread = self.node.thread(0, self.node.name)
            self.link = self.mirror.service.connect(thread, self.node)
            self.node.process(self.node.name).start(self.listener.serve(thread))
            self.listener.listen()

        def on_put(self, thread: Thread, request: Put) -> Code:
            record = packed(request.number, request.value)
            yield from self.append(thread, record)
            self.learn(record)
            return b"durable"

        def on_get(self, thread: Thread, request: Get) -> Code:
            yield from thread.compute()
            return self.values.get(request.number, b"")

        def append(self, thread: Thread, record: bytes) -> Code:
            """Add a record; returns when it is durable there, or here once the mirror is gone."""
            yield from thread.store(self.log + self.tail, record)
            try:
                if not self.alone:
                    yield from self.copy(record)
                    return
            except PrimitiveFailed:
                self.alone = True
            yield from thread.flush(self.log + self.flushed, self.tail + len(record) - self.flushed)
            self.flushed = self.tail + len(record)

        def copy(self, record: bytes) -> Code:
            yield from self.link.persist([(self.mirror.log + self.tail, record)])

        # after a failure: a record that is not whole in one log is taken from the other -----------------------
        def recover(self, thread: Thread) -> Code:
            self.alone = bool(self.scheme.lost("mirror"))
            if not self.alone:
                self.link = self.mirror.service.connect(thread, self.node)
                reads = self.mirror.listener.accept(thread, self.node, self.each)
            while self.tail < self.length:
                here, copy = self.log + self.tail, bytes(self.each)
                try:
                    if not self.alone:
                        copy = yield from reads.read(self.mirror.log + self.tail, self.mirror.key, self.each)
                except VerbsError:  # the mirror is gone meanwhile
                    self.alone = True
                head = Record.unpack((yield from thread.load(here, Record.size)))
                if head.number and (yield from thread.crc32_matches(here + 4, self.covered, head.crc)):
                    found = yield from thread.load(here, self.each)
                elif (yield from thread.crc32_of(copy[4 : 4 + self.covered])) == Record.unpack(copy).crc:
                    found = copy
                else:
                    return
                if found is copy or found != copy:
                    yield from self.append(thread, found)
                self.learn(found)

        def learn(self, data: bytes) -> None:
            """The record at the tail is there."""
            record = Record.unpack(data)
            self.values[record.number] = record.value[: self.sizes.value_bytes]
            self.tail += self.each

    class Mirror(Logged, memory=("dram", "pm"), passive=True):
        def begin(self) -> None:
            """The adapter opens the log; the primary's writes it, and reads it after a failure."""
            self.service = Service(self.scheme.primitive, self.node)
            self.service.register(self.log, self.length)
            self.listener = Listener(self.node, {})
            self.key = self.listener.register(self.log, self.length).key

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        primary, mirror = self.roles["primary"][0], self.roles["mirror"][0]
        for number, value in enumerate(objects.values(), start=1):
            for machine in (primary, mirror):
                machine.pm.space.poke(machine.log + primary.tail - machine.pm.base, packed(number, value))
            primary.values[number] = value
            primary.tail += primary.each

    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class Hasty(Mirrored, name="mirrored-hasty"):
    """Broken: when it acknowledges a record, that is in its own cache, and in the mirror only with the next one."""

    title = "the same that mirrors one record late"

    class Primary(Mirrored.Primary):
        def begin(self) -> None:
            super().begin()
            self.late: list[tuple[int, bytes]] = []

        def copy(self, record: bytes) -> Code:
            late, self.late = self.late, [(self.mirror.log + self.tail, record)]
            if late:
                yield from self.link.persist(late)
