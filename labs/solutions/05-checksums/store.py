"""Two slots: a store whose put is one WRITE of the client and one message, and that trusts a CRC32.

Each object has two slots in persistent memory. The client asks for the older one, WRITEs the value into it, and tells
the server, which stores the slot's head: checksum and version. Recovery takes the newer slot whose checksum is right.
The author's idea: a torn value has another checksum, so nothing of the value has to be flushed.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Iterable, Mapping
from typing import Any, ClassVar

from rpsim.models.cpu import Thread
from rpsim.models.system import Node
from rpsim.protocols.guarantees import Claims
from rpsim.protocols.layout import U32, U64, Layout
from rpsim.protocols.parts.rpc import Connection, Listener, VerbsError
from rpsim.protocols.scheme import OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]
"""Code is a generator: `yield from` lets the time pass that an instruction or a verb takes."""


# what lies in memory and in messages, field by field ----------------------------------------------------------------
class Head(Layout):
    """The first line of a slot; the value begins with the second. The checksum covers the value."""

    crc = U64()
    version = U64()


class Where(Layout):
    """Ask for the place of the next version: the reply."""

    number = U32()


class Put(Layout):
    """The value is written: publish it."""

    number = U32()
    crc = U32()


class Get(Layout):
    """Read a value: the reply."""

    number = U32()


class Store(Scheme, name="two-slots"):
    """A put is a question, a WRITE and a message; a get is a message."""

    title = "two slots an object: the older one is overwritten, and a CRC32 says whether it is whole"
    paper = "my own"
    section = "none"
    claims: ClassVar[Claims] = {}
    operations = ("put", "get")
    updates = frozenset({"put"})

    # the client: its processes invoke operations --------------------------------------------------------------------
    class Client(Role, invokes=True):
        def connect(self, thread: Thread) -> Connection:
            """A process's session, made before the run."""
            server: Store.Server = self.scheme.roles["server"][0]
            return server.listener.accept(thread, self.node, 64 + self.sizes.value_bytes)

        def perform(self, session: Connection, request: Request) -> Code:
            """An operation; returns the bytes that a get has found."""
            server: Store.Server = self.scheme.roles["server"][0]
            step = request.step
            number = self.sizes.objects.index(step.object)
            try:
                if step.f == "get":
                    return (yield from session.call(Get, number=number))
                address = int.from_bytes((yield from session.call(Where, number=number)), "little")
                yield from session.write(address, server.key, step.value)
                yield from session.call(Put, number=number, crc=zlib.crc32(step.value))
            except VerbsError as error:  # the server died meanwhile: nobody knows whether it took effect
                raise OutcomeUnknown(str(error)) from error

    # the server: a machine with DRAM and persistent memory ----------------------------------------------------------
    class Server(Role, memory=("dram", "pm")):
        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            """What outlives a process is allocated here."""
            super().__init__(scheme, node, number)
            self.pm = node.memory["pm"]
            self.length = self.sizes.value_bytes
            self.each = 64 - (-self.length // 64) * 64  # a line for the head, then whole lines
            self.slots = self.pm.allocate(2 * self.each * len(self.sizes.objects), "slots", item_bytes=self.each)

        def begin(self) -> None:
            """A process starts: what is volatile is made here."""
            self.versions: dict[int, int] = {}
            handlers = {Where: self.on_where, Put: self.on_put, Get: self.on_get}
            self.listener = Listener(self.node, handlers, message_bytes=64 + self.length)
            self.key = self.listener.register(self.slots, 2 * self.each * len(self.sizes.objects)).key

        def start(self) -> None:
            """Start its threads."""
            thread = self.node.thread(0, self.node.name)
            self.node.process(self.node.name).start(self.listener.serve(thread))
            self.listener.listen()

        def slot(self, number: int, version: int) -> int:
            """The address of a version: even and odd ones take turns."""
            return self.slots + (2 * number + version % 2) * self.each

        def on_where(self, thread: Thread, request: Where) -> Code:
            yield from thread.compute()
            address = self.slot(request.number, self.versions[request.number] + 1) + 64
            return address.to_bytes(8, "little")

        def on_put(self, thread: Thread, request: Put) -> Code:
            version = self.versions[request.number] + 1
            head = self.slot(request.number, version)
            yield from thread.flush(head + 64, self.length)  # the value first: a head promises that it is there
            yield from thread.store(head, Head.pack(crc=request.crc, version=version))
            yield from thread.flush(head, Head.size)  # clwb, then sfence
            self.versions[request.number] = version
            return b"published"

        def on_get(self, thread: Thread, request: Get) -> Code:
            head = self.slot(request.number, self.versions[request.number])
            return (yield from thread.load(head + 64, self.length))

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
                slot = self.slot(unit, turn)
                head = Head.unpack((yield from thread.load(slot, Head.size)))
                if head.version % 2 == turn and (yield from thread.crc32_matches(slot + 64, self.length, head.crc)):
                    found.append(head.version)
            self.versions[unit] = max(found, default=0)  # where no slot is whole, a get shows what there is

    # what belongs to no machine -------------------------------------------------------------------------------------
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """The values before the run, durable: no simulated time passes."""
        server: Store.Server = self.roles["server"][0]
        for number, value in enumerate(objects.values()):
            slot = server.slot(number, 0) - server.pm.base
            server.pm.space.poke(slot, Head.pack(crc=zlib.crc32(value), version=0))
            server.pm.space.poke(slot + 64, value)
            server.versions[number] = 0

    def probe(self, object: Hashable) -> Request:
        """The read by which a fresh client finds out what a failure has left."""
        return Request.of("get", object)
