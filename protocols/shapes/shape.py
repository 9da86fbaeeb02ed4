"""What all shapes share: an object's register, written over a primitive on one queue pair and read on another."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ...models.persist.service import Service
from ...models.primitives.messages import TRAILER, TRAILER_BYTES
from ...models.system import Node, System
from ...sim.bytespace import round_up
from ...sim.errors import InputError, Mistake
from ..layout import WORD
from ..naming import Option
from ..parts.rpc import Connection, Listener
from ..scheme import ANY_PRIMITIVE, OutcomeUnknown, Request, Role, Scheme, Sizes

Code = Generator[Any, Any, Any]

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


def versions_in(data: bytes) -> list[int]:
    """The version of each word: of a torn value they are several."""
    return [int.from_bytes(data[at + TAGGED : at + WORD], "little") for at in range(0, len(data), WORD)]


@dataclass
class ShapeSession:
    """A client process: its queue pairs for updates, and a connection of its own for reads."""

    requesters: list[PrimitiveRequester]
    reads: Connection


class ShapeClient(Role, invokes=True):
    """A machine whose processes write registers over the primitive; subclasses say of which messages."""

    scheme: Shape

    @override
    def begin(self) -> None:
        self.server: ShapeServer = self.scheme.roles["server"][0]

    def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
        """Update an object; returns at the primitive's end."""
        raise NotImplementedError

    def get(self, session: ShapeSession, number: int) -> Code:
        """Read an object; returns its value."""
        raise NotImplementedError

    @override
    def connect(self, thread: Thread) -> ShapeSession:
        server = self.server
        requesters = [server.service.connect(thread, self.node) for _ in range(self.scheme.queue_pairs)]
        return ShapeSession(requesters, server.listener.accept(thread, self.node, self.scheme.length))

    @override
    def perform(self, session: ShapeSession, request: Request) -> Code:
        step = request.step
        number = self.scheme.numbers[step.object]
        if step.f == "get":
            return (yield from self.get(session, number))
        assert step.value is not None
        try:
            yield from self.put(session, number, step.value)
        except PrimitiveFailed as error:
            self.scheme.refused = str(error)
            raise OutcomeUnknown(str(error)) from error
        return None

    def read(self, session: ShapeSession, address: int, length: int) -> Code:
        """READ on a queue pair that has nothing to do with updates."""
        return (yield from session.reads.read(address, self.server.key, length))


class ShapeServer(Role, memory=("dram", "pm")):
    """The machine that the registers lie on."""

    scheme: Shape

    def __init__(self, scheme: Shape, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        scheme.length = scheme.room()
        scheme.base = self.pm.allocate(scheme.length, scheme.shape)

    @override
    def begin(self) -> None:
        scheme = self.scheme
        self.service = Service(
            scheme.primitive, self.node, receive_in=scheme.option("into"), slots=SLOTS,
            slot_bytes=scheme.message_bytes(), follows=scheme.option("by"),
        )  # fmt: skip
        self.service.register(scheme.base, scheme.length)
        self.listener = Listener(self.node, {})
        self.key = self.listener.register(scheme.base, scheme.length).key

    @override
    def start(self) -> None:
        if self.service.needs_thread:
            thread = self.node.thread(0, self.node.name)
            self.node.process(self.node.name).start(self.service.serve(thread))

    # after a failure: updates that stayed in their receive buffers go where they belong -----------------------------
    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return ("receive buffers",) if self.scheme.stays_in_buffers() else ()

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        return self.recovery_units()

    @override
    def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
        """Go through the receive buffers of the first client, in their order; a word of zeros has not come."""
        scheme, client = self.scheme, self.scheme.roles["client"][0]
        for requester in client.connect(client.node.thread(0, "client 0")).requesters:
            for slot in requester.slots:
                for length in scheme.messages():
                    trailer = yield from thread.load(slot + length, TRAILER_BYTES)
                    address, told = TRAILER.unpack(trailer)
                    if told == length and scheme.base <= address <= scheme.base + scheme.length - length:
                        data = yield from thread.load(slot, length)
                        if all(any(data[at : at + WORD]) for at in range(0, length, WORD)):
                            yield from thread.store(address, data)
                        break
                else:
                    return

    @override
    def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
        yield from thread.sfence()


class OverAnyPrimitive(Scheme):
    """A scheme whose name says the primitive, and how its updates travel: ``word over wflush by SEND into pm``."""

    over = ANY_PRIMITIVE
    options: ClassVar[dict[str, Option]] = {
        "by": Option(
            None, choices=("WRITE", "WRITE_WITH_IMM", "SEND"), source="the primitive's file: follows",
            text="the verb of the updates; without it the first that the primitive's file names",
        ),
        "into": Option(
            "dram", choices=("dram", "pm"), source="assumption: dram; pm as Intel 672762, part 1",
            text="the memory of the receive buffers",
        ),
    }  # fmt: skip

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.refused: str | None = None
        """Why the primitive cannot be used here, if an adapter said so."""
        super().__init__(system, sizes)

    @override
    @classmethod
    def composed(cls) -> None:
        cls.paper = cls.primitive.source
        follows = cls.option("by")
        if follows is not None and follows not in cls.primitive.follows:
            expected = f"{', '.join(cls.primitive.follows)}: so the updates of {cls.primitive.name} may travel"
            raise InputError(Mistake(f"'{follows}' in '{cls.name}'", expected, field="scheme"))

    @classmethod
    def stays_in_buffers(cls) -> bool:
        """Whether an update's only place is the receive buffer that its message came into."""
        follows = cls.option("by") or cls.primitive.follows[0]
        return follows == "SEND" and not any(step.do == "copy" for step in cls.primitive.steps)


class Shape(OverAnyPrimitive):
    """A register for each object; subclasses say what an update and a read are made of."""

    shape: ClassVar[str]
    """Its own name, without the primitive's."""
    queue_pairs: ClassVar[int] = 1
    paper = "no paper: an elementary update"
    section = "docs/matrix.md"
    Server = ShapeServer
    Client = ShapeClient
    operations = ("put", "get")
    updates = frozenset({"put"})
    claims: ClassVar[Mapping[Any, str]] = {}

    base: int
    """Where the objects lie on the server, and how long all of them are."""
    length: int

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.numbers = {name: number for number, name in enumerate(sizes.objects)}
        super().__init__(system, sizes)

    # layout: what a subclass says -----------------------------------------------------------------------------
    def room(self) -> int:
        """Bytes of persistent memory that the objects need."""
        raise NotImplementedError

    def image(self, number: int, value: bytes) -> Iterable[tuple[int, bytes]]:
        """What is there of a loaded object: addresses and bytes."""
        raise NotImplementedError

    def messages(self) -> tuple[int, ...]:
        """The sizes of its updates."""
        return (self.sizes.value_bytes,)

    def message_bytes(self) -> int:
        """Room for a message in a receive buffer."""
        return round_up(max(self.messages()) + TRAILER_BYTES)

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        server: ShapeServer = self.roles["server"][0]
        for name, number in self.numbers.items():
            for address, data in self.image(number, objects[name]):
                server.pm.space.poke(address - server.pm.base, data)

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)
