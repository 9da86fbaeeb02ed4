"""What the key-value stores with a log and a one-sided index share: roles, bytes, allocation, GET and recovery.

The client-active access paradigm of Du et al., ICPP'21, section 3: the client asks the server for room in an
append-only log, writes the object there by RDMA WRITE, and reads by two dependent READs, index entry and object. A
store adds when the index entry is published and what is flushed.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ...sim.bytespace import LINE_BYTES, round_up
from ..layout import U32, U64, Bytes, Layout, Rest
from ..naming import Option
from ..scheme import Limits, OutcomeUnknown, Request, Role, Scheme
from .index import ENTRY_BYTES, MOST_VALUE_BYTES, Entry, HashIndex, Location, Word
from .locks import Locks
from .placement import NEIGHBOURHOOD, STORED_KEYS
from .rpc import Connection, Listener, VerbsError

Code = Generator[Any, Any, Any]


class Object(Layout):
    """An object in the log: the value begins at a multiple of eight."""

    key = Bytes(32)
    length = U64()
    value = Rest()


class Allocate(Layout):
    """Ask for room for an object of ``length`` bytes."""

    key = Bytes(32)
    length = U32()


class Region(Layout):
    """The reply: where in the log the object goes."""

    offset = U64()
    length = U32()


CLIENT_CRC = Option(
    False,
    source="assumption: no paper says; clients that write constant values may compute it beforehand",
    text="whether a PUT's latency contains the client's CRC32 of the value",
)
"""The option of stores whose clients compute a checksum."""


@dataclass
class Session:
    """A client process: its connection, and what it learned when it connected."""

    connection: Connection
    index_key: int
    log_key: int


class KvClient(Role, invokes=True):
    """A machine whose processes put and get; subclasses implement :meth:`put`."""

    scheme: KvScheme

    @override
    def begin(self) -> None:
        self.server: KvServer = self.scheme.roles["server"][0]

    @override
    def connect(self, thread: Thread) -> Session:
        listener = self.server.listener
        connection = listener.accept(thread, self.node, max(self.server.object_bytes, NEIGHBOURHOOD * ENTRY_BYTES))
        return Session(connection, self.server.index_region.key, self.server.log_region.key)

    @override
    def perform(self, session: Session, request: Request) -> Code:
        """Where the server dies meanwhile, a get is tried again with its successor. A put is not: no paper says so, and
        on a new queue pair nothing keeps it from being executed twice (IBTA 9.7.5.1.1: duplicates are told by their
        packet sequence numbers, which start anew).
        """
        while True:
            try:
                return (yield from self.attempt(session, request))
            except VerbsError as error:
                if not error.disconnected:
                    raise
                yield from self.reconnect(session)
                if request.step.f in self.scheme.updates:
                    raise OutcomeUnknown(str(error)) from error

    def reconnect(self, session: Session) -> Code:
        """Wait until the server is there again, and connect; what the handshake costs is left out."""
        thread = session.connection.thread
        yield from self.server.listener.until_listening(thread)
        fresh = self.connect(thread)
        session.connection, session.index_key, session.log_key = fresh.connection, fresh.index_key, fresh.log_key

    def attempt(self, session: Session, request: Request) -> Code:
        """Perform an operation over the connection that there is."""
        step = request.step
        if step.f == "put":
            assert step.value is not None
            return self.put(session, key_bytes(step.object), step.value)
        if step.f == "delete":
            return self.delete(session, key_bytes(step.object))
        return self.get(session, key_bytes(step.object))

    def put(self, session: Session, key: bytes, value: bytes) -> Code:
        """Write a new version of ``key``; durable or not when this returns, as the scheme has it."""
        raise NotImplementedError

    def delete(self, session: Session, key: bytes) -> Code:
        """Remove ``key``; only stores whose paper knows a delete have one among their ``operations``."""
        raise NotImplementedError

    def get(self, session: Session, key: bytes) -> Code:
        """Two dependent READs: the index neighbourhood, then the object, whose value is returned unchecked."""
        location = yield from self.read_entry(session, key)
        if location is None:
            return None
        data = yield from self.read_object(session, location)
        return Object.unpack(data).value

    def read_entry(self, session: Session, key: bytes) -> Code:
        """READ the neighbourhood that the key must be in; returns what its entry says, None if it has none."""
        address, length = self.server.index.neighbourhood(key)
        content = yield from session.connection.read(address, session.index_key, length)
        found = self.server.index.find(key, content)
        return found[1] if found is not None else None

    def read_object(self, session: Session, location: Location) -> Code:
        """READ an object; returns its bytes."""
        return session.connection.read(self.server.log + location.offset, session.log_key, location.length)

    def write_object(self, session: Session, key: bytes, value: bytes) -> Code:
        """Ask for room and WRITE the object there; returns its region at the WRITE's work completion."""
        data = Object.pack(key=key, length=len(value), value=value)
        region = yield from self.ask_for_room(session, key, len(data))
        yield from session.connection.write(self.server.log + region.offset, session.log_key, data)
        return region

    def ask_for_room(self, session: Session, key: bytes, length: int) -> Code:
        """A :class:`Region` of the log for an object of ``length`` bytes."""
        return Region.unpack((yield from session.connection.call(Allocate, key=key, length=length)))


class KvServer(Role, memory=("dram", "pm"), served=True):
    """The machine with index and log; subclasses add what it does for a PUT."""

    scheme: KvScheme

    def __init__(self, scheme: KvScheme, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.keys = Keys(self.sizes.objects)
        self.index = scheme.Index(self.pm, self.keys)
        self.object_bytes = round_up(scheme.Object.size + self.sizes.value_bytes)
        self.log_bytes = self.bytes_of_log()
        self.log = self.pm.allocate(self.log_bytes, "log")

    def bytes_of_log(self) -> int:
        """Room for what is loaded and for every update: nothing is ever freed."""
        return 64 + self.object_bytes * (len(self.sizes.objects) + self.sizes.updates + 1)

    @override
    def begin(self) -> None:
        self.tail = 64  # offset 0 is never an object
        self.locks = Locks(self.system.clock, self.sizes.threads)
        self.listener = self.open_listener()
        self.index_region = self.listener.register(self.index.address, self.index.length)
        self.log_region = self.listener.register(self.log, self.log_bytes)

    def open_listener(self) -> Listener:
        """The server's end of the connections that clients make."""
        return Listener(self.node, self.handlers(), threads=self.sizes.threads)

    def handlers(self) -> Mapping[type[Layout], Any]:
        """The server's code for each kind of request."""
        return {Allocate: self.on_allocate}

    @override
    def start(self) -> None:
        name = self.node.name
        for number in range(self.sizes.threads):
            thread = self.node.thread(number, f"{name} {number}" if number else name)
            self.node.process(name).start(self.listener.serve(thread, number))
        self.listener.listen()

    def allocate(self, length: int) -> Location:
        """Room at the log's tail, on lines of its own. Raises MemoryError when the log is full."""
        location = Location(self.tail, length)
        if self.tail + length > self.log_bytes:
            raise MemoryError(f"log: no room for {length} bytes")
        self.tail += -(-length // 64) * 64
        return location

    def alone(self, thread: Thread, key: bytes, code: Code) -> Code:
        """Run ``code``, which changes where a key points, while no other request thread does that to this key.

        Keys that the table was not formatted for share one lock: they may want the same free entry.
        """
        name = key if self.sizes.threads == 1 or self.index.slot_of_loaded(key) is not None else None
        return self.locks.under(thread, name, code)

    def on_allocate(self, thread: Thread, request: Allocate) -> Code:
        """Reply with a :class:`Region` for the object: nothing but bookkeeping, the index is left alone."""
        location = self.allocate(request.length)
        yield from ()
        return Region.pack(offset=location.offset, length=location.length)

    # after a failure, on the surviving bytes ---------------------------------------------------------------
    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return range(self.index.slots)

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        """None where recovery only looks, for the log's tail: a read is as good without it."""
        only_looks = type(self).recover_unit is KvServer.recover_unit
        return () if only_looks else self.index.slots_of(key_bytes(object))

    @override
    def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
        """One index entry: returns where its object ends, 0 for a free one."""
        assert isinstance(unit, int)
        _, location = self.index.says((yield from thread.load(self.index.address_of(unit), Entry.size)))
        return location.offset + location.length if location is not None else 0

    @override
    def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
        """The log's tail is behind the last object that an entry points to; what lies beyond is free again."""
        yield from thread.compute()
        self.tail = max(64, -(-max(results, default=0) // 64) * 64)


class KvScheme(Scheme):
    """A store with one server; subclasses derive :class:`KvClient` and :class:`KvServer` as their paper has it."""

    Server = KvServer
    Client = KvClient
    operations: ClassVar[tuple[str, ...]] = ("put", "get")
    model = "kv"
    inserts = "put"
    updates = frozenset({"put"})
    limits = Limits(value_bytes=MOST_VALUE_BYTES, source="its index has 24 bits for an object's length")
    Object: ClassVar[type[Layout]] = Object
    Index: ClassVar[type[HashIndex]] = HashIndex

    @property
    def server(self) -> KvServer:
        """The one server."""
        server: KvServer = self.roles["server"][0]
        return server

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        server = self.server
        if len(server.keys) > STORED_KEYS:
            self._load_computed(objects)
            return
        entries = {}
        for name, value in objects.items():
            key = key_bytes(name)
            data = self.loaded_object(key, value)
            location = server.allocate(len(data))
            server.pm.space.poke(server.log + location.offset - server.pm.base, data)
            entries[key] = location
        server.index.load(lambda key: self.loaded_entry(entries[key]) if key in entries else None)

    def _load_computed(self, objects: Mapping[Hashable, bytes]) -> None:
        """The same objects at the same places, each computed when it is first touched."""
        server, names, length = self.server, self.sizes.objects, self.Object.size + self.sizes.value_bytes
        there = len(objects)
        first = server.tail
        start = server.log - server.pm.base + first

        def line_of(line: int) -> bytes:
            number, offset = divmod(line * LINE_BYTES - start, server.object_bytes)
            data = self.loaded_object(server.keys[number], objects[names[number]])
            return data[offset : offset + LINE_BYTES].ljust(LINE_BYTES, b"\0")

        server.pm.space.compute(start, there * server.object_bytes, line_of)
        server.tail += there * server.object_bytes

        def entry_of(key: bytes) -> Word | None:
            number = server.keys.index(key)
            return self.loaded_entry(Location(first + number * server.object_bytes, length)) if number < there else None

        server.index.load(entry_of)

    def loaded_entry(self, location: Location) -> Word:
        """What the index says of an object that is there before the run."""
        return location

    def loaded_object(self, key: bytes, value: bytes) -> bytes:
        """What lies in the log of an object that is there, durable, before the run."""
        return Object.pack(key=key, length=len(value), value=value)

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


def key_bytes(name: Hashable) -> bytes:
    """A key's bytes in the store."""
    return str(name).encode()


class Keys(Sequence[bytes]):
    """The keys of objects, by number, as the store writes them."""

    def __init__(self, names: Sequence[Hashable]) -> None:
        self._names = names

    @override
    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, number: int) -> bytes: ...

    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...

    @override
    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [key_bytes(name) for name in self._names[number]]
        return key_bytes(self._names[number])

    @override
    def __iter__(self) -> Iterator[bytes]:
        return map(key_bytes, self._names)

    @override
    def index(self, key: Any, start: int = 0, stop: int | None = None) -> int:
        """The number of a key; ValueError if it is none of these."""
        return self._names.index(key.decode(), start, len(self._names) if stop is None else stop)
