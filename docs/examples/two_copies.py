"""Two copies: a client keeps each value on two memory nodes without code of their own, and reads either of them.

Source: an example; passive memory nodes as in Clover (Tsai, Shan, Zhang, ATC'20, section 4.1), values with a checksum
as in Pilaf (Mitchell, Geng, Li, ATC'13, section 4.2).

A value is overwritten where it lies, so that a failure in the middle leaves a copy that is torn: the checksum tells.
The copies are written one after the other, each durable before the next, so that never both are torn. A put that fails
leaves copies that differ; the next one makes them alike before it writes. An object has one writer.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Mapping
from typing import Any, ClassVar

from ..models.cpu import Thread
from ..models.system import Node
from ..models.verbs import FLUSHES, REMOTE, QueuePair
from .guarantees import ALWAYS, Claims, Condition
from .layout import U32, U64, Layout, Rest
from .parts.onesided import Door, Poster, VerbsError
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


class Session:
    """A client process, and its queue pairs to memory nodes, by their numbers."""

    def __init__(self, poster: Poster) -> None:
        self.poster = poster
        self.ways: dict[int, QueuePair] = {}


class TwoCopies(Scheme, name="two-copies"):
    """Each value on two memory nodes, read by its checksum."""

    title = "each value on two memory nodes, read by its checksum"
    paper = "an example"
    section = "docs/examples"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: "data power; data lost", Condition.COMMITTED: ALWAYS}
    faults: ClassVar[Mapping[str, tuple[str, ...]]] = {"data": ("power", "lost")}
    operations = ("put", "get")
    updates = frozenset({"put"})

    class Data(Role, memory=("dram", "pm"), many=True, passive=True):
        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.each = -(-(Record.size + self.sizes.value_bytes) // 64) * 64
            self.length = self.each * len(self.sizes.objects)
            self.copies = node.memory["pm"].allocate(self.length, "copies", item_bytes=self.each)

        def begin(self) -> None:
            """The adapter opens the memory."""
            self.door = Door(self.node)
            self.key = self.door.register(self.copies, self.length, REMOTE | FLUSHES).key

        def address(self, number: int) -> int:
            return self.copies + number * self.each

    class Client(Role, invokes=True):
        def begin(self) -> None:
            self.nodes: list[TwoCopies.Data] = list(self.scheme.roles["data"])
            self.length = Record.size + self.sizes.value_bytes

        def connect(self, thread: Thread) -> Session:
            session = Session(Poster(thread, self.node, self.length, slots=2))
            for data in self.nodes:
                self.way(session, data)
            return session

        def way(self, session: Session, data: TwoCopies.Data) -> QueuePair:
            """The queue pair to a node; a new one if the last broke."""
            if data.number not in session.ways:
                session.ways[data.number] = session.poster.connect(data.door)
            return session.ways[data.number]

        def perform(self, session: Session, request: Request) -> Code:
            step = request.step
            number = self.sizes.objects.index(step.object)
            if step.value is None:
                return (yield from self.get(session, number))
            return (yield from self.put(session, number, step.value))

        def get(self, session: Session, number: int) -> Code:
            """The first copy that is whole."""
            for data in self.nodes:
                found = yield from self.read(session, data, number)
                if found is not None:
                    return found.value
            raise OperationFailed(f"no copy of object {number} is whole")

        def put(self, session: Session, number: int, value: bytes) -> Code:
            """Make both copies alike, then write one after the other."""
            found = []
            for data in self.nodes:
                found.append((yield from self.read(session, data, number)))
            whole = [record for record in found if record is not None]
            if not whole:
                raise OperationFailed(f"no copy of object {number} is whole")
            newest = max(whole, key=lambda record: record.version)
            for data, record in zip(self.nodes, found, strict=True):
                if record is None or record.version < newest.version:
                    yield from self.write(session, data, number, newest.version, newest.value)
            for data in self.nodes:
                yield from self.write(session, data, number, newest.version + 1, value)

        def read(self, session: Session, data: TwoCopies.Data, number: int) -> Code:
            """A record; None if it cannot be reached or is not whole."""
            poster = session.poster
            posted = yield from poster.read(self.way(session, data), data.address(number), data.key, self.length)
            try:
                content = yield from poster.result(posted)
            except VerbsError:
                del session.ways[data.number]
                return None
            record = Record.unpack(content)
            return record if (yield from poster.thread.crc32_of(content[4:])) == record.crc else None

        def write(self, session: Session, data: TwoCopies.Data, number: int, version: int, value: bytes) -> Code:
            """Write a record; returns when it is durable."""
            poster, way, address = session.poster, self.way(session, data), data.address(number)
            posted = [(yield from poster.write(way, address, data.key, packed(number, version, value)))]
            posted += yield from self.flush(poster, way, address, data.key)
            try:
                yield from poster.all(posted)
            except VerbsError as error:
                del session.ways[data.number]
                raise OutcomeUnknown(str(error)) from error

        def flush(self, poster: Poster, way: QueuePair, address: int, key: int) -> Code:
            """Post what makes a record durable."""
            return [(yield from poster.flush(way, address, key, self.length))]

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        for number, value in enumerate(objects.values()):
            for data in self.roles["data"]:
                pm = data.node.memory["pm"]
                pm.space.poke(data.address(number) - pm.base, packed(number, 0, value))

    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class Hasty(TwoCopies, name="two-copies-hasty"):
    """Broken: it acknowledges when the first copy is durable, and writes the other one with the next put."""

    title = "the same that acknowledges after the first copy"

    class Client(TwoCopies.Client):
        def put(self, session: Session, number: int, value: bytes) -> Code:
            first, *others = self.nodes
            record = yield from self.read(session, first, number)
            if record is None:
                raise OutcomeUnknown("the first copy cannot be read")
            for data in others:
                yield from self.write(session, data, number, record.version, record.value)
            yield from self.write(session, first, number, record.version + 1, value)


class Trusting(TwoCopies, name="two-copies-trusting"):
    """Broken: it returns what it reads, whatever the checksum says."""

    title = "the same that trusts what it reads"

    class Client(TwoCopies.Client):
        def read(self, session: Session, data: TwoCopies.Data, number: int) -> Code:
            poster = session.poster
            posted = yield from poster.read(self.way(session, data), data.address(number), data.key, self.length)
            try:
                return Record.unpack((yield from poster.result(posted)))
            except VerbsError:
                del session.ways[data.number]
                return None
