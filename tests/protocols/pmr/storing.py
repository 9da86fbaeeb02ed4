"""A store behind calls, and nothing else: what a power failure leaves of a store by itself."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from rpsim.models.cpu import Thread
from rpsim.models.system import Node
from rpsim.protocols.guarantees import ALWAYS, Claims, Condition
from rpsim.protocols.layout import Block, Bytes, Layout
from rpsim.protocols.parts.rpc import Connection, Listener
from rpsim.protocols.pmr.leveldb.coding import Corruption
from rpsim.protocols.pmr.leveldb.database import LevelDb
from rpsim.protocols.pmr.leveldb.log import LogReader
from rpsim.protocols.pmr.store import Encoded, Store, StoreSizes, key_of
from rpsim.protocols.scheme import OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]
VALUE = 16


class PutCall(Layout):
    key = Bytes(16)
    value = Block(VALUE)


class GetCall(Layout):
    key = Bytes(16)


class Stored(Scheme):
    """Values of at most 16 bytes in a store on the server."""

    title = "a store behind calls"
    paper = "a test"
    section = "none"
    operations = ("put", "get")
    updates = frozenset({"put"})
    inserts = "put"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS}

    @classmethod
    def store(cls, node: Node, sizes: StoreSizes, loaded: int) -> Store:
        raise NotImplementedError

    class Client(Role, invokes=True):
        def connect(self, thread: Thread) -> Connection:
            return self.scheme.roles["server"][0].listener.accept(thread, self.node, 64)

        def perform(self, session: Connection, request: Request) -> Code:
            step = request.step
            if step.f == "put":
                yield from session.call(PutCall, key=key_of(step.object), value=step.value)
                return None
            reply = yield from session.call(GetCall, key=key_of(step.object))
            if reply[:1] == b"!":
                raise OutcomeUnknown("the store is corrupt")
            return reply[1:] or None

    class Server(Role, memory=("dram", "ssd"), background=1):
        scheme: Any

        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            sizes = StoreSizes(16, VALUE, self.sizes.updates, 1)
            self.store = self.scheme.store(node, sizes, len(self.sizes.objects))

        def begin(self) -> None:
            self.store.begin()
            self.listener = Listener(self.node, {PutCall: self.on_put, GetCall: self.on_get})
            self.corrupt = False

        def start(self) -> None:
            process = self.node.process(self.node.name)
            self.store.start(process, [self.background_thread(0, "compaction")])
            self.listener.listen()
            process.start(self.listener.serve(self.node.thread(0, "server")))

        def on_put(self, thread: Thread, request: PutCall) -> Code:
            yield from self.store.put(thread, request.key, request.value)
            return b"done"

        def on_get(self, thread: Thread, request: GetCall) -> Code:
            try:
                value = None if self.corrupt else (yield from self.store.get(thread, request.key))
            except Corruption:
                self.corrupt = True
            return b"!" if self.corrupt else b"=" + (value or b"")

        def recover(self, thread: Thread) -> Code:
            try:
                yield from self.store.recover(thread)
            except Corruption:
                self.corrupt = True

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        self.roles["server"][0].store.load(Encoded(objects))

    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class Synced(LevelDb):
    """A memtable is full behind a few writes; each write is synced."""

    def __init__(self, node: Node, sizes: StoreSizes, loaded: int) -> None:
        super().__init__(
            node, sizes, loaded=loaded, sync=True, shrunk=1 << 18, write_buffer_bytes=300 << 18, cache_bytes=1 << 31
        )


class Buffered(Synced):
    """The writes are not."""

    def __init__(self, node: Node, sizes: StoreSizes, loaded: int) -> None:
        super().__init__(node, sizes, loaded)
        self.sync = False


class WithoutCrc(Buffered):
    """Recovery believes every piece of a log."""

    class reader(LogReader):
        @staticmethod
        def matches(crc: int, data: bytes) -> bool:
            return True


class ManifestFirst(Synced):
    """The manifest names a table that is not durable yet."""

    def __init__(self, node: Node, sizes: StoreSizes, loaded: int) -> None:
        super().__init__(node, sizes, loaded)
        self.files.sync_table = lambda thread: iter(())  # type: ignore[method-assign,assignment,return-value]


class LogForgotten(Synced):
    """The manifest says that a log is not needed any more before its memtable is a table."""

    def _make_room(self, thread: Thread, *, forced: bool) -> Code:
        before = self._log_number
        yield from super()._make_room(thread, forced=forced)
        if self._log_number != before:
            from rpsim.protocols.pmr.leveldb.version import VersionEdit

            yield from self._record(thread, VersionEdit(log=self._log_number))


@contextmanager
def registered(kind: type[LevelDb]) -> Iterator[str]:
    """While this lasts, scenarios may name the scheme with such a store; its name."""
    called = f"test-{kind.__name__.lower()}"

    class Over(Stored, name=called):
        @classmethod
        def store(cls, node: Node, sizes: StoreSizes, loaded: int) -> Store:
            return kind(node, sizes, loaded)

    try:
        yield called
    finally:
        del Scheme.registry[called]
