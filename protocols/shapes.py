"""Message shapes: what a storage protocol asks of a flush primitive, as schemes over any primitive.

A shape is a register for each object over a primitive's ``persist``; an update is acknowledged where the primitive says
that it is durable. ``line over read-after-write`` is such a scheme's name; ``by SEND`` chooses among the ways in which
the primitive's updates may travel, ``into pm`` the memory of the receive buffers, ``[level=region]`` its switches.

| shape | an update is |
|---|---|
| ``word`` | a value in place; 8 B cannot be torn |
| ``line`` | a value whose words carry a version, in the older of two places, 64 B at 48 B of value |
| ``page`` | the same of 4 KiB, at 3 KiB of value |
| ``log`` | an entry and the word that commits it, handed to the primitive together |
| ``pair`` | an entry, made durable, and only then the word that points at it |
| ``other-qp`` | a word written on one queue pair, and the primitive's steps on another |
"""

from __future__ import annotations

import re
from collections.abc import Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ..models.cpu import Thread
from ..models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ..models.persist.service import Service
from ..models.primitives.language import Primitive
from ..models.primitives.messages import TRAILER, TRAILER_BYTES
from ..models.system import System
from ..sim.errors import InputError, Mistake, unknown
from .parts.rpc import Connection, Server
from .primitives import primitive
from .scheme import OutcomeUnknown, Request, Role, Scheme, Sizes

Code = Generator[Any, Any, Any]

WORD = 8
TAGGED = 6
"""Bytes of a value in a word that carries a version as well."""
SLOTS = 16


def tagged(value: bytes, version: int) -> bytes:
    """A value with its version in each 8-byte word: what is torn between two versions shows it."""
    tag = version.to_bytes(WORD - TAGGED, "little")
    return b"".join(value[at : at + TAGGED].ljust(TAGGED, b"\0") + tag for at in range(0, len(value), TAGGED))


def untagged(data: bytes, length: int) -> tuple[int, bytes] | None:
    """The version and the value, if all words are of one version."""
    if len(set(data[TAGGED::WORD])) != 1 or len(set(data[TAGGED + 1 :: WORD])) != 1:
        return None
    value = b"".join(data[at : at + TAGGED] for at in range(0, len(data), WORD))
    return int.from_bytes(data[TAGGED:WORD], "little"), value[:length]


@dataclass
class ShapeSession:
    """A client process: its queue pairs for updates, and a connection of its own for reads."""

    requesters: list[PrimitiveRequester]
    reads: Connection


class Shape(Scheme):
    """A register for each object; subclasses say what an update and a read are made of."""

    shape: ClassVar[str]
    text: ClassVar[str]
    primitive: ClassVar[Primitive]
    follows: ClassVar[str | None] = None
    receive_in: ClassVar[str] = "dram"
    queue_pairs: ClassVar[int] = 1
    paper = "no paper: an elementary update"
    section = "docs/matrix.md"
    model = "kv"
    roles: ClassVar[Mapping[str, Role]] = {"server": Role(memory=("dram", "pm")), "client": Role(many=True)}
    operations = ("put", "get")
    updates = frozenset({"put"})
    claims: ClassVar[Mapping[Any, str]] = {}

    def __init__(self, system: System, sizes: Sizes) -> None:
        super().__init__(system, sizes)
        self.node = system.nodes["server"][0]
        self.pm = self.node.memory["pm"]
        self.refused: str | None = None
        """Why the primitive cannot be used here, if an adapter said so."""
        self.numbers = {name: number for number, name in enumerate(sizes.objects)}
        self.length = self.room()
        self.base = self.pm.allocate(self.length, self.shape)
        self.begin()

    @override
    def begin(self) -> None:
        kind = type(self)
        self.service = Service(
            kind.primitive, self.node, receive_in=kind.receive_in, slots=SLOTS, slot_bytes=self.message_bytes(),
            follows=kind.follows,
        )  # fmt: skip
        self.service.register(self.base, self.length)
        self.server = Server(self.node, {})
        self.key = self.server.register(self.base, self.length).key

    # what a subclass says -------------------------------------------------------------------------------------
    def room(self) -> int:
        """Bytes of persistent memory that the objects need."""
        raise NotImplementedError

    def image(self, number: int, value: bytes) -> Iterable[tuple[int, bytes]]:
        """What is there of a loaded object: addresses and bytes."""
        raise NotImplementedError

    def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
        """Update an object; returns at the primitive's end."""
        raise NotImplementedError

    def get(self, session: ShapeSession, number: int) -> Code:
        """Read an object; returns its value."""
        raise NotImplementedError

    def messages(self) -> tuple[int, ...]:
        """The sizes of its updates."""
        return (self.sizes.value_bytes,)

    # the scheme -------------------------------------------------------------------------------------------------
    def message_bytes(self) -> int:
        """Room for a message in a receive buffer."""
        return -(-(max(self.messages()) + TRAILER_BYTES) // 64) * 64

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        for name, number in self.numbers.items():
            for address, data in self.image(number, objects[name]):
                self.pm.space.poke(address - self.pm.base, data)

    @override
    def start(self) -> None:
        if self.service.needs_thread:
            thread = self.node.thread(0, self.node.name)
            self.node.process(self.node.name).start(self.service.serve(thread))

    @override
    def connect(self, thread: Thread) -> ShapeSession:
        node = next(node for node in self.system.nodes["client"] if node.host is thread.host)
        requesters = [self.service.connect(thread, node) for _ in range(self.queue_pairs)]
        return ShapeSession(requesters, self.server.accept(thread, node, self.length))

    @override
    def perform(self, session: ShapeSession, request: Request) -> Code:
        number = self.numbers[request.object]
        if request.f == "get":
            return (yield from self.get(session, number))
        assert request.value is not None
        try:
            yield from self.put(session, number, request.value)
        except PrimitiveFailed as error:
            self.refused = str(error)
            raise OutcomeUnknown(str(error)) from error
        return None

    def read(self, session: ShapeSession, address: int, length: int) -> Code:
        """READ on a queue pair that has nothing to do with updates."""
        return (yield from session.reads.read(address, self.key, length))

    # after a failure: updates that stayed in their receive buffers go where they belong -----------------------------
    @classmethod
    def stays_in_buffers(cls) -> bool:
        """Whether an update's only place is the receive buffer that its message came into."""
        follows = cls.follows or cls.primitive.follows[0]
        return follows == "SEND" and not any(step.do == "copy" for step in cls.primitive.steps)

    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return ("receive buffers",) if self.stays_in_buffers() else ()

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        return self.recovery_units()

    @override
    def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
        """Go through the receive buffers of the first client, in their order; a word of zeros has not come."""
        client = self.system.nodes["client"][0]
        for requester in self.connect(client.thread(0, "client 0")).requesters:
            for slot in requester.slots:
                for length in self.messages():
                    trailer = yield from thread.load(slot + length, TRAILER_BYTES)
                    address, told = TRAILER.unpack(trailer)
                    if told == length and self.base <= address <= self.base + self.length - length:
                        data = yield from thread.load(slot, length)
                        if all(any(data[at : at + WORD]) for at in range(0, length, WORD)):
                            yield from thread.store(address, data)
                        break
                else:
                    return

    @override
    def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
        yield from thread.sfence()

    @override
    def probe(self, object: Hashable) -> Request:
        return Request("get", object)


class WordShape(Shape):
    """A value in place: with 8 B nothing can be torn."""

    shape, text = "word", "8 B in place"

    @override
    def room(self) -> int:
        self.each = -(-self.sizes.value_bytes // 64) * 64
        return self.each * len(self.numbers)

    @override
    def image(self, number: int, value: bytes) -> Iterable[tuple[int, bytes]]:
        yield self.base + number * self.each, value

    @override
    def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
        yield from session.requesters[0].persist([(self.base + number * self.each, value)])

    @override
    def get(self, session: ShapeSession, number: int) -> Code:
        return (yield from self.read(session, self.base + number * self.each, self.sizes.value_bytes))


class OtherQp(WordShape):
    """Written on one queue pair, made durable on another: what is covered then?"""

    shape, text, queue_pairs = "other-qp", "8 B on one queue pair, the primitive on another", 2

    @override
    def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
        writer, flusher = session.requesters
        places = yield from writer.write([(self.base + number * self.each, value)])
        yield from flusher.flush(places)


class LineShape(Shape):
    """A value in the older of two places, its words marked with a version: what is torn is ignored."""

    shape, text = "line", "64 B, one line"

    @override
    def room(self) -> int:
        self.size = len(tagged(bytes(self.sizes.value_bytes), 0))
        self.each = -(-self.size // 64) * 64
        self.versions = [1] * len(self.numbers)
        return 2 * self.each * len(self.numbers)

    @override
    def messages(self) -> tuple[int, ...]:
        return (self.size,)

    def place(self, number: int, version: int) -> int:
        """Where a version of an object lies."""
        return self.base + (2 * number + version % 2) * self.each

    @override
    def image(self, number: int, value: bytes) -> Iterable[tuple[int, bytes]]:
        yield self.place(number, 1), tagged(value, 1)

    @override
    def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
        version = self.versions[number] = self.versions[number] + 1
        yield from session.requesters[0].persist([(self.place(number, version), tagged(value, version))])

    @override
    def get(self, session: ShapeSession, number: int) -> Code:
        """The newest version that is whole, as recovery found it or as it was written since."""
        data = yield from self.read(session, self.place(number, self.versions[number]), self.size)
        whole = untagged(data, self.sizes.value_bytes)
        return whole[1] if whole is not None else data

    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return (*super().recovery_units(), *range(len(self.numbers)))

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        return (*super().recovery_units(), self.numbers[object])

    @override
    def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
        if not isinstance(unit, int):
            yield from super().recover_unit(thread, unit)
            return
        firsts = []
        for parity in (0, 1):
            line = yield from thread.load(self.place(unit, parity), min(64, self.size))
            firsts.append((untagged(line, len(line)) or (0, b""))[0])
        for parity in sorted((0, 1), key=lambda parity: -firsts[parity]):
            if firsts[parity] % 2 == parity and (yield from self.is_whole(thread, unit, firsts[parity])):
                self.versions[unit] = firsts[parity]
                return

    def is_whole(self, thread: Thread, number: int, version: int) -> Code:
        """Whether all lines of a version are of that version; looks no further than the first that is not."""
        for at in range(64, self.size, 64):
            line = yield from thread.load(self.place(number, version) + at, min(64, self.size - at))
            if (untagged(line, len(line)) or (0, b""))[0] != version:
                return False
        return True


class PageShape(LineShape):
    """The same over many lines."""

    shape, text = "page", "4 KiB, 64 lines"


class Log(Shape):
    """An entry and the word that says how many there are, in one message sequence with one run of the steps."""

    shape, text = "log", "log entry and commit word together"

    @override
    def room(self) -> int:
        self.entry = -(-self.sizes.value_bytes // 64) * 64
        self.tail = len(self.numbers)
        return 64 * len(self.numbers) + self.entry * (len(self.numbers) + self.sizes.updates + 1)

    @override
    def messages(self) -> tuple[int, ...]:
        return self.sizes.value_bytes, WORD

    def word(self, number: int) -> int:
        """Where an object's commit word lies."""
        return self.base + 64 * number

    def entry_at(self, index: int) -> int:
        """Where an entry lies."""
        return self.base + 64 * len(self.numbers) + self.entry * index

    @override
    def image(self, number: int, value: bytes) -> Iterable[tuple[int, bytes]]:
        yield self.entry_at(number), value
        yield self.word(number), (number + 1).to_bytes(WORD, "little")

    def append(self, number: int, value: bytes) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
        """The two updates of an object's next version."""
        index, self.tail = self.tail, self.tail + 1
        return (self.entry_at(index), value), (self.word(number), (index + 1).to_bytes(WORD, "little"))

    @override
    def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
        entry, commit = self.append(number, value)
        yield from session.requesters[0].persist([entry, commit])

    @override
    def get(self, session: ShapeSession, number: int) -> Code:
        word = yield from self.read(session, self.word(number), WORD)
        index = int.from_bytes(word, "little") - 1
        if not 0 <= self.entry_at(index) - self.base <= self.length - self.entry:
            return None
        return (yield from self.read(session, self.entry_at(index), self.sizes.value_bytes))


class PairShape(Log):
    """An entry first, and when the primitive says that it is durable, the word that points at it."""

    shape, text = "pair", "two objects, the second points at the first"

    @override
    def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
        entry, commit = self.append(number, value)
        yield from session.requesters[0].persist([entry])
        yield from session.requesters[0].persist([commit])


SHAPES: Mapping[str, type[Shape]] = {
    kind.shape: kind for kind in (WordShape, LineShape, PageShape, Log, PairShape, OtherQp)
}

_NAME = re.compile(
    r"(?P<shape>[\w-]+) over (?P<primitive>[^\[\]]+?)(?:\[(?P<switches>[^\[\]]*)\])?"
    r"(?: by (?P<follows>WRITE_WITH_IMM|WRITE|SEND))?(?: into (?P<device>pm|dram))?"
)


def is_shaped(name: str) -> bool:
    """Whether this names a shape over a primitive rather than a scheme."""
    return " over " in name


def shape_name(
    shape: str,
    primitive: str,
    follows: str | None = None,
    device: str | None = None,
    switches: Mapping[str, str] | None = None,
) -> str:
    """The name that :func:`shaped` reads."""
    chosen = f"[{', '.join(f'{key}={value}' for key, value in switches.items())}]" if switches else ""
    return f"{shape} over {primitive}{chosen}{f' by {follows}' if follows else ''}{f' into {device}' if device else ''}"


def shaped(name: str) -> type[Shape]:
    """The scheme that a name such as ``line over read-after-write`` stands for; not remembered in the registry.

    Raises InputError for a shape, a primitive or a switch that there is not.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        expected = "SHAPE over PRIMITIVE, then perhaps [switch=choice], 'by SEND', 'into pm'"
        raise InputError(Mistake(f"'{name}'", expected, field="scheme"))
    if match["shape"] not in SHAPES:
        raise InputError(unknown(match["shape"], SHAPES, "a shape: {}", field="scheme"))
    pairs = [text.partition("=") for text in (match["switches"] or "").split(",") if text.strip()]
    found = primitive(match["primitive"], {key.strip(): value.strip() for key, _, value in pairs})
    follows = match["follows"]
    if follows is not None and follows not in found.follows:
        expected = f"{', '.join(found.follows)}: so the updates of {found.name} may travel"
        raise InputError(Mistake(f"'{follows}'", expected, field="scheme"))
    kind = SHAPES[match["shape"]]
    made = {
        "name": name,
        "title": f"{kind.text}, over {found.title}",
        "paper": found.source,
        "primitive": found,
        "follows": follows,
        "receive_in": match["device"] or "dram",
    }
    return type(kind.__name__, (kind,), made)
