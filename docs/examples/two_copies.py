"""Two copies: a client keeps each value on two memory nodes without code of their own, and reads either of them.

Source: an example; passive memory nodes as in Clover (Tsai, Shan, Zhang, ATC'20, section 4.1), values with a checksum
as in Pilaf (Mitchell, Geng, Li, ATC'13, section 4.2).

A value is overwritten where it lies, so that a failure in the middle leaves a copy that is torn: the checksum tells.
The copies are written one after the other, each durable before the next, so that never both are torn; and a put that
fails leaves its node alone until another client has made both copies alike again.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Mapping
from typing import Any, ClassVar

from ..models.cpu import Thread
from ..models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ..models.persist.service import Service
from ..models.system import Node
from .guarantees import ALWAYS, Claims, Condition
from .layout import U32, U64, Layout, Rest
from .parts.rpc import Connection, Listener, VerbsError
from .primitives import primitive
from .scheme import OperationFailed, OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]


class Record(Layout):
    """A copy of a value."""

    crc = U32()
    number = U32()
    """Of the object."""
    version = U64()
    """Of the value: the higher of two is the newer."""
    value = Rest()


def packed(number: int, version: int, value: bytes) -> bytes:
    """A record's bytes."""
    rest = Record.pack(crc=0, number=number, version=version, value=value)[4:]
    return zlib.crc32(rest).to_bytes(4, "little") + rest


class Copy:
    """A session's way to one memory node: a queue pair for the primitive, one for READs."""

    def __init__(self, data: TwoCopies.Data, thread: Thread, node: Node) -> None:
        self.data = data
        self.link: PrimitiveRequester = data.service.connect(thread, node)
        self.reads: Connection = data.listener.accept(thread, node, data.each)


class Session:
    """A client process, and the copies that it has a connection to."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.copies: dict[int, Copy] = {}


class TwoCopies(Scheme, name="two-copies"):
    """Nobody runs code on the memory nodes; clients write an object each."""

    title = "each value on two memory nodes, read by its checksum"
    paper = "an example"
    section = "docs/examples"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS, Condition.COMMITTED: ALWAYS}
    faults: ClassVar[Mapping[str, tuple[str, ...]]] = {"data": ("power", "lost")}
    operations = ("put", "get")
    updates = frozenset({"put"})
    primitive = "ibta-flush-persistent"

    class Data(Role, memory=("dram", "pm"), many=True, passive=True):
        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.each = -(-(Record.size + self.sizes.value_bytes) // 64) * 64
            self.length = self.each * len(self.sizes.objects)
            self.copies = node.memory["pm"].allocate(self.length, "copies", item_bytes=self.each)

        def begin(self) -> None:
            """The adapter opens the memory."""
            self.service = Service(primitive(self.scheme.primitive), self.node)
            self.service.register(self.copies, self.length)
            self.listener = Listener(self.node, {})
            self.key = self.listener.register(self.copies, self.length).key

        def address(self, number: int) -> int:
            return self.copies + number * self.each

    class Client(Role, invokes=True):
        def connect(self, thread: Thread) -> Session:
            session = Session(thread)
            for data in self.scheme.roles["data"]:
                session.copies[data.number] = Copy(data, thread, self.node)
            return session

        def perform(self, session: Session, request: Request) -> Code:
            step = request.step
            number = self.sizes.objects.index(step.object)
            if step.value is None:
                return (yield from self.get(session, number))
            return (yield from self.put(session, number, step.value))

        def get(self, session: Session, number: int) -> Code:
            """The first copy whose checksum is right; the newer one, where both have to be read."""
            for data in self.scheme.roles["data"]:
                found = yield from self.read(session, data, number)
                if found is not None:
                    return found.value[: self.sizes.value_bytes]
            raise OperationFailed(f"no copy of object {number} is whole")

        def put(self, session: Session, number: int, value: bytes) -> Code:
            """Make both copies alike, then write one after the other."""
            found = []
            for data in self.scheme.roles["data"]:
                found.append((yield from self.read(session, data, number)))
            whole = [record for record in found if record is not None]
            if not whole:
                raise OperationFailed(f"no copy of object {number} is whole")
            newest = max(whole, key=lambda record: record.version)
            for data, record in zip(self.scheme.roles["data"], found, strict=True):
                if record is None or record.version < newest.version:
                    yield from self.write(session, data, number, newest.version, newest.value)
            for data in self.scheme.roles["data"]:
                yield from self.write(session, data, number, newest.version + 1, value)

        def read(self, session: Session, data: TwoCopies.Data, number: int) -> Code:
            """A record, None if it cannot be reached or is not whole."""
            try:
                copy = self.copy(session, data)
                content = yield from copy.reads.read(data.address(number), data.key, data.each)
            except VerbsError:
                session.copies.pop(data.number, None)
                return None
            content = content[: Record.size + self.sizes.value_bytes]
            matches = (yield from session.thread.crc32_of(content[4:])) == Record.unpack(content).crc
            return Record.unpack(content) if matches else None

        def write(self, session: Session, data: TwoCopies.Data, number: int, version: int, value: bytes) -> Code:
            """Write a record; returns when it is durable."""
            record = packed(number, version, value[: self.sizes.value_bytes])
            try:
                copy = self.copy(session, data)
                yield from self.persist(copy, [(data.address(number), record)])
            except (PrimitiveFailed, VerbsError) as error:
                session.copies.pop(data.number, None)
                raise OutcomeUnknown(str(error)) from error

        def persist(self, copy: Copy, updates: list[tuple[int, bytes]]) -> Code:
            yield from copy.link.persist(updates)

        def copy(self, session: Session, data: TwoCopies.Data) -> Copy:
            """The way to a node; a new one if the last broke."""
            if data.number not in session.copies:
                session.copies[data.number] = Copy(data, session.thread, self.node)
            return session.copies[data.number]

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        for number, value in enumerate(objects.values()):
            for data in self.roles["data"]:
                pm = data.node.memory["pm"]
                pm.space.poke(data.address(number) - pm.base, packed(number, 0, value))

    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class Hasty(TwoCopies, name="two-copies-hasty"):
    """Broken: it acknowledges when the first copy is durable, and writes the other one with the next put."""

    class Client(TwoCopies.Client):
        def put(self, session: Session, number: int, value: bytes) -> Code:
            first, *others = self.scheme.roles["data"]
            record = yield from self.read(session, first, number)
            if record is None:
                raise OutcomeUnknown("the first copy cannot be read")
            for data in others:
                yield from self.write(session, data, number, record.version, record.value)
            yield from self.write(session, first, number, record.version + 1, value)


class Trusting(TwoCopies, name="two-copies-trusting"):
    """Broken: it returns what it reads, whatever the checksum says."""

    class Client(TwoCopies.Client):
        def read(self, session: Session, data: TwoCopies.Data, number: int) -> Code:
            try:
                copy = self.copy(session, data)
                content = yield from copy.reads.read(data.address(number), data.key, data.each)
            except VerbsError:
                session.copies.pop(data.number, None)
                return None
            return Record.unpack(content[: Record.size + self.sizes.value_bytes])
