"""mongod: a server that clients call over TCP, and that is itself a client of a store for distributed memory.

Each connection has a thread (as MongoDB's synchronous service executor has), which executes one command after the
other. What mongod does for a command besides is one time, ``mongod`` of the scheme. It keeps nothing of its own: no
cache, no journal, no lock; a document is an object of the store.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.kernel.sockets import ConnectionReset, Socket
from ...models.kernel.sockets import connect as connected
from ...models.system import Node
from ..layout import U32, Layout, Rest
from ..naming import Option
from ..parts.listening import Listening
from ..scheme import OperationFailed, OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]

OP_MSG = 2013
READ_BYTES = 64 * 1024
"""At most so much is read from a socket at once."""
KEEPALIVE = "120 s"
"""A client that has heard nothing for so long sends a probe (libmongoc, src/mongoc-socket.c: TCP_KEEPIDLE 120)."""
FIND, UPDATE = 1, 2
"""Commands."""
DONE, FAILED, UNKNOWN = 0, 1, 2
"""What a reply says of its command."""
MONGOD = Option(
    "75 us", quantity="time",
    source="assumption: nothing states it; 20 to 200 us in literature, and 50 to 100 us is the usual reading",
    text="what mongod does for a command besides the store's own work",
)  # fmt: skip


class MongoMessage(Layout):
    """A message of MongoDB's wire protocol, whose body is fixed fields instead of BSON: a command or its reply."""

    length = U32()
    """Of the whole message."""
    request_id = U32()
    response_to = U32()
    op_code = U32()
    flag_bits = U32()
    what = U32()
    """FIND or UPDATE; of a reply DONE, FAILED or UNKNOWN."""
    number = U32()
    """Which document."""
    document = Rest()


def message(what: int, number: int, document: bytes = b"", request: int = 0, response_to: int = 0) -> bytes:
    """The bytes of a message."""
    return MongoMessage.pack(
        length=MongoMessage.size + len(document), request_id=request, response_to=response_to, op_code=OP_MSG,
        flag_bits=0, what=what, number=number, document=document,
    )  # fmt: skip


def receive(thread: Thread, socket: Socket) -> Code:
    """The next message; a connection has one under way. Raises ConnectionReset."""
    data = b""
    while len(data) < 4 or len(data) < int.from_bytes(data[:4], "little"):
        data += yield from socket.recv(thread, READ_BYTES)
    return MongoMessage.unpack(data)


class Mongod(Role, memory=("dram",), per_client=True):
    """The machine of mongod: a thread for each connection, with a session of the store's own client."""

    scheme: OnMongod

    def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.store = self.scheme.store_client()(scheme, node, number)

    @override
    def begin(self) -> None:
        self.listener = Listening(self.node)
        self.connections = 0

    @override
    def start(self) -> None:
        self.listener.listen()

    def accept(self, socket: Socket) -> None:
        """The server's end of a new connection."""
        process = self.node.process(self.node.name)
        process.own(socket)
        thread = self.client_thread(self.connections, f"{self.node.name} connection {self.connections}")
        self.connections += 1
        process.start(self.serve(thread, socket))

    def serve(self, thread: Thread, socket: Socket) -> Code:
        """Execute a connection's commands until its client is gone."""
        session = self.store.connect(thread)
        try:
            while True:
                asked = yield from receive(thread, socket)
                yield from thread.work_for(str(self.scheme.option("mongod")))
                what, document = yield from self.execute(session, asked)
                yield from socket.send(thread, message(what, asked.number, document, response_to=asked.request_id))
        except ConnectionReset:
            return

    def execute(self, session: Any, asked: MongoMessage) -> Code:
        """Have the store do what a command says."""
        name = self.sizes.objects[asked.number]
        request = self.scheme.asked_of_store(name, asked.document if asked.what == UPDATE else None)
        try:
            found = yield from self.store.perform(session, request)
        except OperationFailed:
            return FAILED, b""
        except OutcomeUnknown:
            return UNKNOWN, b""
        return DONE, self.scheme.document_of(found) if asked.what == FIND else b""


class MongoSession:
    """A client process's connection to mongod; None where it broke."""

    def __init__(self, thread: Thread, socket: Socket) -> None:
        self.thread = thread
        self.socket: Socket | None = socket
        self.commands = 0


class MongoClient(Role, invokes=True):
    """A machine whose processes send mongod commands, one at a time."""

    scheme: OnMongod

    @property
    def mongod(self) -> Mongod:
        """The server."""
        server: Mongod = self.scheme.roles["mongod"][0]
        return server

    @override
    def connect(self, thread: Thread) -> MongoSession:
        return MongoSession(thread, self.open(thread))

    def open(self, thread: Thread) -> Socket:
        """A new connection."""
        core = self.node.cores.index(thread.core)
        ours, theirs = connected(self.node, self.mongod.node, core, keepalive=KEEPALIVE)
        self.mongod.accept(theirs)
        return self.node.process(thread.name).own(ours)

    @override
    def perform(self, session: MongoSession, request: Request) -> Code:
        """An update or a find, which is sent again where the connection broke."""
        step, number = request.step, self.sizes.objects.index(request.step.object)
        while True:
            try:
                reply = yield from self.call(session, number, step.value)
                break
            except ConnectionReset as error:
                session.socket = None
                if step.value is not None:
                    raise OutcomeUnknown("the connection was reset") from error
        if reply.what != DONE:
            words = "mongod could not ask the store"
            raise OperationFailed(words) if reply.what == FAILED else OutcomeUnknown(words)
        return reply.document if step.value is None else None

    def call(self, session: MongoSession, number: int, document: bytes | None) -> Code:
        """Send a command and wait for its reply."""
        thread = session.thread
        if session.socket is None:
            yield from self.mongod.listener.until_listening(thread)
            session.socket = self.open(thread)
        session.commands += 1
        what = FIND if document is None else UPDATE
        yield from session.socket.send(thread, message(what, number, document or b"", request=session.commands))
        return (yield from receive(thread, session.socket))


class OnMongod(Scheme):
    """What the two schemes have in common: how a command is put to the store. Each names its roles."""

    paper = "Tsai et al., ATC'20 (Clover)"
    section = "section 6.2, figure 7: MongoDB on the store"
    options: ClassVar[dict[str, Option]] = {"mongod": MONGOD}

    @classmethod
    def store_client(cls) -> type[Role]:
        """The role by whose code the store's own clients reach it, and mongod too."""
        raise NotImplementedError

    @classmethod
    def asked_of_store(cls, name: Any, document: bytes | None) -> Request:
        """What the store is asked for an update, or for a find where there is no document."""
        return Request.of("get" if document is None else "put", name, document)

    @classmethod
    def document_of(cls, found: Any) -> bytes:
        """The document in what the store found."""
        return found or b""

    @override
    def probe(self, object: Any) -> Request:
        return Request.of("get", object)
