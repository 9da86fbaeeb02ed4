"""What all accessing stacks have in common: a thread of the server for each client, messages, a store behind them.

Source: Luo et al., TCAD 2024, sections IV-B and IV-D, algorithms 1 and 2. When a client connects, the server starts a
thread for it alone, which runs ``ProcessRequest``: it waits for a request, parses it, has the store execute it,
answers. It learns of a request from the flag and the request's bytes and from nothing else. A stack says where its
requests go, and what makes an update durable before the answer.

What the paper leaves open is read so. A request that is no operation is refused: nobody knows then what it asked for,
nor what it would have found. A client whose connection breaks disconnects it, so that the server is done with it, and
connects again once a server listens; a get is asked again, the outcome of a put is unknown. Of a client that is gone
the server learns from its queue pair. A client process's requests are served on a core of its own, over whichever
connection they come.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..guarantees import Claims
from ..naming import Option
from ..parts.rpc import Listener
from ..scheme import OutcomeUnknown, Request, Role, Scheme
from .entries import GET, PUT, ChunkEntries, ChunkEntry
from .messaging import (
    ABSENT,
    CORRUPT,
    DONE,
    REFUSED,
    ConnectionBroken,
    ReplyHead,
    RequestPlace,
    Side,
    connect_by_write,
    pack_reply,
    read_reply,
)
from .store import Encoded, Store, StoreSizes, key_of

Code = Generator[Any, Any, Any]

LINE = 64
KEY_BYTES, MOST_KEY_BYTES = 16, 32
"""The paper's keys, and the longest that there may be: what buffers have room for."""


@dataclass
class StackSession:
    """A client process: its side of the connection, and where its requests go."""

    scheme: Stack
    thread: Thread
    side: Side
    place: RequestPlace | None
    """Where its requests go; None: where messages come, or not known yet."""

    def call(self, op: int, key: bytes, value: bytes = b"") -> Code:
        """One request; returns status and data of its reply."""
        request = ChunkEntry(op, key, value, 0)
        return (yield from self.exchange((yield from self.scheme.entries.write(self.thread, request))))

    def exchange(self, data: bytes) -> Code:
        """Send a request of these bytes; returns status and data of its reply."""
        yield from self.side.send(self.thread, data, self.place)
        yield from self.side.receive(self.thread)
        status, answer = yield from read_reply(self.thread, self.side.inbox.address, self.side.room)
        if status == CORRUPT:
            raise OutcomeUnknown("the server's store is corrupt")
        return status, answer

    def get(self, key: bytes) -> Code:
        """The value of a key; None where there is none."""
        status, data = yield from self.call(GET, key)
        if status == ABSENT:
            return None
        if status != DONE:
            raise OutcomeUnknown("the server refuses the request")
        return data

    def put(self, key: bytes, value: bytes) -> Code:
        """Put a value; returns at the reply."""
        status, _ = yield from self.call(PUT, key, value)
        if status != DONE:
            raise OutcomeUnknown("the server refuses the request")


class Served:
    """A client's connection as the server knows it."""

    def __init__(self, number: int, side: Side) -> None:
        self.number, self.side = number, side
        self.address = side.inbox.address
        """Where its next request is."""
        self.room = side.room


class StackClient(Role, invokes=True):
    """A machine whose processes put and get."""

    scheme: Stack

    @override
    def begin(self) -> None:
        self.server: StackServer = self.scheme.roles["server"][0]

    @override
    def connect(self, thread: Thread) -> StackSession:
        return self.server.admit(thread, self.node)

    @override
    def perform(self, session: StackSession, request: Request) -> Code:
        step = request.step
        key = key_of(step.object)
        while True:
            try:
                if step.value is None:
                    return (yield from session.get(key))
                yield from session.put(key, step.value)
                return None
            except ConnectionBroken as error:
                yield from self.connect_again(session)
                if step.f in self.scheme.updates:
                    raise OutcomeUnknown("the connection is broken") from error

    def connect_again(self, session: StackSession) -> Code:
        """Disconnect, wait until the server listens, and connect; what the handshakes cost is left out."""
        session.side.disconnect()
        yield from self.server.listener.until_listening(session.thread)
        vars(session).update(vars(self.connect(session.thread)))


class StackServer(Role, per_client=True):
    """The machine with the store."""

    scheme: Stack

    def __init__(self, scheme: Stack, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        names = self.sizes.objects
        longest = max(KEY_BYTES, *(len(key_of(names[turn])) for turn in (0, -1) if names))
        sizes = StoreSizes(longest, self.sizes.value_bytes, self.sizes.updates, self.sizes.clients + 1)
        self.store = scheme.make_store(node, sizes)

    @override
    def begin(self) -> None:
        self.listener = Listener(self.node, {})
        self.domain = self.listener.door.domain
        self.process = self.node.process(self.node.name)
        self.store.begin()
        self.admitted = 0
        self.turns: dict[str, int] = {}
        """By client process: which of the cores for clients serves it, whichever connection it has."""

    @override
    def start(self) -> None:
        turns = range(self.background - self.store.background, self.background)
        threads = [self.background_thread(turn, f"{self.node.name} store {turn}") for turn in turns]
        self.store.start(self.process, threads)
        self.listener.listen()

    # connections ----------------------------------------------------------------------------------------------------
    @property
    def room(self) -> int:
        """Room for a message."""
        most = self.scheme.entries.length(MOST_KEY_BYTES, self.sizes.value_bytes) + 1
        return -(-max(most, ReplyHead.size + self.sizes.value_bytes) // LINE) * LINE

    def admit(self, thread: Thread, node: Node) -> StackSession:
        """A connection for ``thread`` on ``node``, and a thread that serves it."""
        domain = node.process(thread.name).alloc_pd()
        theirs, ours = connect_by_write(node, domain, self.node, self.domain, self.room)
        return self.serve_from_now(thread, theirs, ours)

    def serve_from_now(self, thread: Thread, theirs: Side, ours: Side) -> StackSession:
        """A session over a connection, which a thread of its own serves."""
        end = self.connection(self.admitted, ours)
        self.admitted += 1
        session = self.session(thread, theirs, end)
        core = self.turns.setdefault(thread.name, len(self.turns))
        server = self.client_thread(core, f"{self.node.name} {end.number}")
        self.process.start(self.serve(server, end))
        return session

    def connection(self, number: int, side: Side) -> Served:
        """The connection of that number."""
        return Served(number, side)

    def session(self, thread: Thread, side: Side, end: Any) -> StackSession:
        """The client's side of it."""
        return StackSession(self.scheme, thread, side, None)

    # ProcessRequest -------------------------------------------------------------------------------------------------
    def serve(self, thread: Thread, end: Any) -> Code:
        """The thread of one client."""
        yield from self.welcome(thread, end)
        try:
            while True:
                yield from end.side.receive(thread)
                request = yield from self.parse(thread, end)
                yield from thread.compute()
                status, data = yield from self.execute(thread, end, request)
                end.side.expect(thread)
                yield from end.side.send(thread, pack_reply(status, data))
        except ConnectionBroken:
            yield from self.farewell(thread, end)

    def welcome(self, thread: Thread, end: Any) -> Code:
        """What comes before a client's first request."""
        yield from ()

    def farewell(self, thread: Thread, end: Any) -> Code:
        """A client is gone: nothing of it can arrive any more once this has waited."""
        end.side.qp.destroy()
        yield end.side.qp.placed()

    def parse(self, thread: Thread, end: Any) -> Code:
        """The request that the flag has announced; None where the bytes are none."""
        return (yield from self.scheme.entries.read(thread, end.address, end.room, LINE))

    def execute(self, thread: Thread, end: Any, request: ChunkEntry | None) -> Code:
        """Execute a request; returns the reply's status and data."""
        if request is None:
            return REFUSED, b""
        if request.op == GET:
            value = yield from self.store.get(thread, request.key)
            return (ABSENT, b"") if value is None else (DONE, value)
        if request.op == PUT:
            yield from self.put(thread, end, request)
            return DONE, b""
        return REFUSED, b""

    def put(self, thread: Thread, end: Any, request: ChunkEntry) -> Code:
        """Execute an update, and make it as durable as the stack does before the answer."""
        yield from self.store.put(thread, request.key, request.value)

    # after a failure ------------------------------------------------------------------------------------------------
    @override
    def recover(self, thread: Thread) -> Code:
        """What the store has itself."""
        yield from self.store.recover(thread)


class Stack(Scheme):
    """An accessing stack over a store."""

    paper = "Luo et al., TCAD 2024 (PMRDirect, PMRAccess)"
    section = "section V-C"
    model = "kv"
    operations = ("put", "get")
    updates = frozenset({"put"})
    inserts = "put"
    claims: ClassVar[Claims] = {}
    options: ClassVar[dict[str, Option]] = {}
    Backend: ClassVar[type[Store]]
    entries: ClassVar[ChunkEntries] = ChunkEntries()
    Server: ClassVar[type[StackServer]] = StackServer
    Client: ClassVar[type[StackClient]] = StackClient

    def make_store(self, node: Node, sizes: StoreSizes) -> Store:
        """The store of a server's machine."""
        return self.Backend(node, sizes)

    @property
    def server(self) -> Any:
        """The one server."""
        return self.roles["server"][0]

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        self.server.store.load(Encoded(objects))

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)
