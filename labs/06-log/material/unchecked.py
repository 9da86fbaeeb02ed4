"""A store with a planted mistake, which the tests of lab 6 have to find."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Iterable, Mapping
from typing import Any, ClassVar

from rpsim.models.cpu import Thread
from rpsim.models.system import Node
from rpsim.protocols.guarantees import Claims
from rpsim.protocols.layout import U32, U64, Layout, Rest
from rpsim.protocols.parts.rpc import Connection, Listener, VerbsError
from rpsim.protocols.scheme import OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]
"""Code is a generator: `yield from` lets the time pass that an instruction or a verb takes."""


# what lies in memory and in messages, field by field ----------------------------------------------------------------
class Slot(Layout):
    """One version of an object. The checksum covers all that follows it."""

    crc = U64()
    version = U64()
    value = Rest()


class Put(Layout):
    """Write a value; the reply comes when it is durable."""

    number = U32()
    value = Rest()


class Get(Layout):
    """Read a value: the reply."""

    number = U32()


def packed(version: int, value: bytes) -> bytes:
    """The bytes of a slot."""
    return Slot.pack(crc=zlib.crc32(version.to_bytes(8, "little") + value), version=version, value=value)


class Log(Scheme, name="my-log"):
    """One round trip for a put and for a get; the server's core does all of it."""

    title = "two slots an object: the older one is overwritten and flushed"
    paper = "my own"
    section = "none"
    claims: ClassVar[Claims] = {}
    operations = ("put", "get")
    updates = frozenset({"put"})

    # the client: its processes invoke operations --------------------------------------------------------------------
    class Client(Role, invokes=True):
        def connect(self, thread: Thread) -> Connection:
            """A process's session, made before the run."""
            server: Log.Server = self.scheme.roles["server"][0]
            return server.listener.accept(thread, self.node, 64)

        def perform(self, session: Connection, request: Request) -> Code:
            """An operation; returns the bytes that a get has found."""
            step = request.step
            number = self.sizes.objects.index(step.object)
            try:
                if step.f == "get":
                    return (yield from session.call(Get, number=number))
                yield from session.call(Put, number=number, value=step.value)
            except VerbsError as error:  # the server died meanwhile: nobody knows whether it took effect
                raise OutcomeUnknown(str(error)) from error

    # the server: a machine with DRAM and persistent memory ----------------------------------------------------------
    class Server(Role, memory=("dram", "pm")):
        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            """What outlives a process is allocated here."""
            super().__init__(scheme, node, number)
            self.pm = node.memory["pm"]
            self.used = Slot.size + self.sizes.value_bytes
            self.each = -(-self.used // 64) * 64  # whole cache lines
            self.slots = self.pm.allocate(2 * self.each * len(self.sizes.objects), "slots", item_bytes=self.each)

        def begin(self) -> None:
            """A process starts: what is volatile is made here."""
            self.versions: dict[int, int] = {}
            room = 64 + self.sizes.value_bytes
            self.listener = Listener(self.node, {Put: self.on_put, Get: self.on_get}, message_bytes=room)

        def start(self) -> None:
            """Start its threads."""
            thread = self.node.thread(0, self.node.name)
            self.node.process(self.node.name).start(self.listener.serve(thread))
            self.listener.listen()

        def slot(self, number: int, version: int) -> int:
            """The address of a version: even and odd ones take turns."""
            return self.slots + (2 * number + version % 2) * self.each

        def on_put(self, thread: Thread, request: Put) -> Code:
            version = self.versions[request.number] + 1
            address = self.slot(request.number, version)
            yield from thread.store(address, packed(version, request.value))
            yield from thread.flush(address, self.used)
            self.versions[request.number] = version
            return b"durable"

        def on_get(self, thread: Thread, request: Get) -> Code:
            address = self.slot(request.number, self.versions[request.number])
            return Slot.unpack((yield from thread.load(address, self.used))).value

        # after a power failure, on the surviving bytes: in units, here an object each, so that the explorer is quick
        def recovery_units(self) -> Iterable[Hashable]:
            return range(len(self.sizes.objects))

        def units_of(self, object: Hashable) -> Iterable[Hashable]:
            """The units that a read of `object` depends on."""
            return [self.sizes.objects.index(object)]

        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            assert isinstance(unit, int)
            found = []
            for turn in (0, 1):
                address = self.slot(unit, turn)
                head = Slot.unpack((yield from thread.load(address, Slot.size)))
                if head.version % 2 == turn:
                    found.append(head.version)
            self.versions[unit] = max(found, default=0)  # where no slot is whole, a get shows what there is

    # what belongs to no machine -------------------------------------------------------------------------------------
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """The values before the run, durable: no simulated time passes."""
        server: Log.Server = self.roles["server"][0]
        for number, value in enumerate(objects.values()):
            server.pm.space.poke(server.slot(number, 0) - server.pm.base, packed(0, value))
            server.versions[number] = 0

    def probe(self, object: Hashable) -> Request:
        """The read by which a fresh client finds out what a failure has left."""
        return Request.of("get", object)
