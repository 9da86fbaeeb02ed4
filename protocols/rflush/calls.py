"""What the calls beside the durable ones share: a request, its execution in place, a reply when the object is durable.

Source: Duan et al., SC'21, section 3 and figure 2. A system is the path of its requests and that of its replies. The
server copies the data to the target memory space in place, flushes them, and replies: the call has completed then, and
is persistent. Whether all lines of an object are flushed is not said; the public code flushes the first one.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ...models.verbs import CompletionQueue, ProtectionDomain, QpType, QueuePair, Status
from ..guarantees import SERVER_CRASH, Claims, Condition
from ..naming import Option
from ..parts.locks import Locks
from ..parts.rpc import Listener
from ..scheme import OutcomeUnknown, Request, Role, Scheme
from .messages import DONE, READ, WRITE, CallMessage, Disconnected, room_for
from .objects import ObjectTable
from .paths import ByWrite, MessagePath

Code = Generator[Any, Any, Any]


@dataclass
class CallSession:
    """A client process: where its requests go, and where their replies come from."""

    thread: Thread
    domain: ProtectionDomain
    requests: MessagePath
    replies: MessagePath
    calls: int = 0

    def call(self, message: CallMessage, length: int) -> Code:
        """A request; returns its reply, which has ``length`` bytes of data."""
        self.calls += 1
        yield from self.requests.send(self.thread, message)
        reply = yield from self.replies.receive(self.thread, length)
        if reply is None:
            raise Disconnected
        return reply


class CallClient(Role, invokes=True):
    """A machine whose processes call, one call after the other."""

    scheme: CallScheme

    @override
    def begin(self) -> None:
        self.server: CallServer = self.scheme.roles["server"][0]

    @override
    def connect(self, thread: Thread) -> CallSession:
        return self.server.admit(thread, self.node)

    @override
    def perform(self, session: CallSession, request: Request) -> Code:
        """Where the server dies meanwhile, a read is tried again with its successor; a write is not, since nothing
        keeps it from being executed twice.
        """
        number, value = self.sizes.objects.index(request.step.object), request.step.value
        while True:
            try:
                if value is None:
                    reply = yield from session.call(CallMessage(READ, number), self.sizes.value_bytes)
                    return reply.data if any(reply.data) else None  # an object that was never written
                yield from self.write(session, number, value)
                return None
            except Disconnected as error:
                yield from self.server.listener.until_listening(session.thread)
                vars(session).update(vars(self.connect(session.thread)))
                if value is not None:
                    raise OutcomeUnknown("the connection is broken") from error

    def write(self, session: CallSession, number: int, value: bytes) -> Code:
        """A call that writes; returns when the server has replied."""
        yield from session.call(CallMessage(WRITE, number, value), 0)


@dataclass
class CallConnection:
    """The server's end of one connection."""

    requests: MessagePath
    replies: MessagePath | None = None


class CallServer(Role, memory=("dram", "pm"), served=True):
    """The machine with the objects; its threads share the connections, and an object is one thread's at a time."""

    scheme: CallScheme

    def __init__(self, scheme: CallScheme, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.table = ObjectTable(node, len(self.sizes.objects), self.sizes.value_bytes)

    @override
    def begin(self) -> None:
        self.listener = Listener(self.node, {})
        self.domain = self.listener.door.domain
        self.locks = Locks(self.system.clock, self.sizes.threads)
        self.room = room_for(self.sizes.value_bytes)
        # One for every client, and one for a client that comes after a failure.
        self.connections = [
            CallConnection(self.scheme.requests(self.node, self.domain, self.room))
            for _ in range(self.sizes.clients + 1)
        ]
        self.received = [self.node.create_cq() for _ in range(self.sizes.threads)]
        self.of: dict[int, CallConnection] = {}
        """By the number of the queue pair that its requests come on."""
        self.admitted = 0

    @override
    def start(self) -> None:
        name = self.node.name
        for number in range(self.sizes.threads):
            thread = self.node.thread(number, f"{name} {number}" if number else name)
            self.node.process(name).start(self.serve(thread, number))
        self.listener.listen()

    def admit(self, thread: Thread, node: Node) -> CallSession:
        """A connection for ``thread`` on ``node``: a queue pair for both directions, or one for each transport."""
        number = self.admitted
        self.admitted += 1
        end, received = self.connections[number], self.received[number % self.sizes.threads]
        domain = node.process(thread.name).alloc_pd()
        requests, replies = end.requests, self.scheme.replies(node, domain, self.room)
        pairs = {kind: self.pair(node, domain, kind, received) for kind in dict.fromkeys((requests.type, replies.type))}
        theirs, ours = pairs[requests.type]
        requests.attach(node, domain, theirs, ours)
        self.of[ours.number] = end
        theirs, ours = pairs[replies.type]
        replies.attach(self.node, self.domain, ours, theirs)
        end.replies = replies
        return CallSession(thread, domain, requests, replies)

    def pair(
        self, node: Node, domain: ProtectionDomain, kind: QpType, received: CompletionQueue
    ) -> tuple[QueuePair, QueuePair]:
        """Two queue pairs, connected unless they are for datagrams: the client's, and the server's."""
        theirs = domain.create_qp(node.create_cq(), node.create_cq(), kind)
        ours = self.domain.create_qp(self.node.create_cq(), received, kind)
        if kind is not QpType.IBV_QPT_UD:
            ours.connect(theirs)
        return theirs, ours

    # its threads ----------------------------------------------------------------------------------------------------
    def serve(self, thread: Thread, number: int) -> Code:
        """A thread, by its number: the requests of its connections as it finds them."""
        mine = self.connections[number :: self.sizes.threads]
        while mine:
            completion = None
            if self.scheme.requests.spun:
                end = mine[(yield from thread.spin([each.requests.spot for each in mine]))]
            else:
                completion = yield from thread.poll(self.received[number])
                if completion.status is not Status.IBV_WC_SUCCESS:  # the client is gone, its buffers are flushed
                    continue
                end = self.of[completion.qp.number]
            request = yield from end.requests.take(thread, completion)
            yield from thread.compute()
            yield from self.locks.under(thread, request.object, self.execute(thread, end, request))

    def execute(self, thread: Thread, end: CallConnection, request: CallMessage) -> Code:
        """Read or write the object in place, and reply."""
        data = b""
        if request.kind == READ:
            data = yield from self.table.read(thread, request.object)
        else:
            yield from self.table.store(thread, request.object, request.data)
            yield from self.flush(thread, request.object)
        assert end.replies is not None
        yield from end.replies.send(thread, CallMessage(DONE, request.object, data))

    def flush(self, thread: Thread, number: int) -> Code:
        """Make what has been written durable."""
        length = 1 if self.scheme.option("flush") == "one line" else self.sizes.value_bytes
        yield from thread.flush(self.table.place(number), length)


class CallScheme(Scheme):
    """Calls that are executed, and durable, when their replies come; subclasses say on which paths."""

    paper = "Duan et al., SC'21"
    Client = CallClient
    Server = CallServer
    requests: ClassVar[type[MessagePath]] = ByWrite
    replies: ClassVar[type[MessagePath]] = ByWrite
    operations = ("put", "get")
    updates = frozenset({"put"})
    inserts = "put"
    scans_by_reads = True
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: SERVER_CRASH}
    options: ClassVar[dict[str, Option]] = {
        "flush": Option(
            "all lines", choices=("all lines", "one line"),
            source="section 3 says that data are flushed; public code (CGCL-codes/PRDMA, 0426c57): one line",
            text="how much of an object the server flushes",
        ),
    }  # fmt: skip

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        server: CallServer = self.roles["server"][0]
        server.table.load(self.sizes.objects, objects)

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)
