"""What the calls beside the durable ones share: a request, its execution in place, a reply when the object is durable.

Source: Duan et al., SC'21, section 3 and figure 2. A system is the path of its requests and that of its replies. The
server copies the data to the target memory space in place, flushes them, and replies: the call has completed then, and
is persistent. Whether all lines of an object are flushed is not said; the public code flushes the first one.

A client may send a request again whose reply does not come (option ``resend``): over UC and UD, where messages are
lost, and after a failure of the server as the paper's traditional system does (section 5.4). What a server does with a
call that comes a second time the paper does not say (option ``repeats``); what it knows of calls dies with its process.

Nor does it say what becomes of the connection of a client that is gone. Here the server destroys its queue pairs, waits
until what they had accepted is visible, and empties the slot: then the next client has it. Of a client by datagrams
nobody tells that it is gone: the server keeps what it has for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Deadline, Signal, Thread
from ...models.system import Node
from ...models.verbs import CompletionQueue, ProtectionDomain, QpType, QueuePair, Status
from ..guarantees import SERVER_CRASH, Claims, Condition
from ..naming import Option
from ..parts.locks import Locks
from ..parts.lossy import Answered, Patience, until_reply
from ..parts.rounds import Rounds
from ..parts.rpc import Listener
from ..scheme import OutcomeUnknown, Request, Role, Scheme
from .batches import (
    pack_numbers,
    pack_values,
    pack_writes,
    room_for_values,
    room_for_writes,
    unpack_numbers,
    unpack_values,
    unpack_writes,
)
from .ends import CallConnection, CallProcess, CallSession
from .lists import ListFull, adapt, probe_of, read_object, table_for
from .messages import DONE, READ, READS, REFUSED, WRITE, WRITES, CallMessage, Disconnected, Tail, room_for
from .options import FLUSH, MODEL, REPEATS, REPLY, RESEND
from .paths import ByWrite, MessagePath

Code = Generator[Any, Any, Any]


class CallClient(Role, invokes=True):
    """A machine whose processes call, one call after the other."""

    scheme: CallScheme
    refused: Sequence[Signal] = ()
    """Of processes that wait for a connection."""

    @override
    def begin(self) -> None:
        self.server: CallServer = self.scheme.roles["server"][0]

    @override
    def connect(self, thread: Thread) -> CallProcess:
        return CallProcess(thread, self.open(thread, False) if self.server.has_room(thread.name) else None)

    @override
    def perform(self, process: CallProcess, request: Request) -> Code:
        """Where the server dies meanwhile, a read is tried again with its successor; a write is not, unless the scheme
        sends calls again: nothing keeps it from being executed twice.
        """
        if process.session is None:
            yield from self.until_room(process.thread, False)
            process.session = self.open(process.thread, False)
        session = process.session
        if len(request.steps) > 1:
            return (yield from self.batch(session, request))
        number, value = self.sizes.objects.index(request.step.object), request.step.value
        if value is not None:
            try:
                return (yield from self.write(session, number, value))
            except Disconnected as error:
                yield from self.connect_again(session)
                raise OutcomeUnknown("the connection is broken") from error
        while True:
            try:
                return (yield from self.read_whole(session, number))
            except Disconnected:
                yield from self.connect_again(session)

    def batch(self, session: CallSession, request: Request) -> Code:
        """Several requests: all writes are one call, and all reads one behind it; lists are read item by item."""
        index, size = self.sizes.objects.index, self.sizes.value_bytes
        found: list[Any] = []
        writes = [(index(step.object), step.value) for step in request.steps if step.value is not None]
        reads = [index(step.object) for step in request.steps if step.value is None]
        while True:
            try:
                if len(writes) == 1:
                    yield from self.write(session, *writes[0])
                elif writes:
                    yield from self.update(session, CallMessage(WRITES, writes[0][0], pack_writes(writes)))
                writes = []  # they are answered: of what fails from here on only the reads are tried again
                if self.scheme.model == "append":
                    found = []
                    for number in reads:
                        found.append((yield from self.read_whole(session, number)))
                elif reads:
                    message = CallMessage(READS, reads[0], pack_numbers(reads))
                    reply = yield from self.call(session, message, room_for_values(len(reads), size))
                    found = unpack_values(reply.data, len(reads), size)
                break
            except Disconnected as error:
                yield from self.connect_again(session)
                if writes:
                    raise OutcomeUnknown("the connection is broken") from error
        return tuple(found.pop(0) if step.value is None else None for step in request.steps)

    def read_whole(self, session: CallSession, number: int) -> Code:
        """An object, with all of its items where it is a list."""
        return read_object(self.scheme, partial(self.read, session, number))

    def read(self, session: CallSession, number: int, index: bytes) -> Code:
        """A call that reads an object, or its item with that index."""
        reply = yield from self.call(session, CallMessage(READ, number, index), self.sizes.value_bytes)
        return reply.data

    def write(self, session: CallSession, number: int, value: bytes) -> Code:
        """A call that writes; returns when the server has replied."""
        yield from self.update(session, CallMessage(WRITE, number, value))

    def update(self, session: CallSession, message: CallMessage) -> Code:
        """A call that writes once, or several times."""
        reply = yield from self.call(session, message, 0)
        if reply.kind == REFUSED:
            raise OutcomeUnknown("the server has no room for it")

    def call(self, session: CallSession, message: CallMessage, length: int) -> Code:
        """A call; returns its reply, which has at most ``length`` bytes of data.

        Raises Disconnected where the connection breaks, unless calls are sent again: then it goes on until it has one,
        or raises OutcomeUnknown where it has none, and the server is lost for good, which is known to all.
        """
        session.calls += 1
        message = replace(message, number=session.calls)
        patience = self.scheme.patience
        if patience is None:
            yield from session.send(message)
            return (yield from session.receive(message.number, length, None))

        def send(attempt: int) -> Code:
            gone = session.broken or self.server.listener is not session.listener
            if (attempt or gone) and self.scheme.is_gone(self.server):
                raise OutcomeUnknown("the server is lost for good")
            if gone:
                yield from self.connect_again(session)
            yield from session.send(replace(message, attempt=attempt))

        def receive(deadline: Deadline) -> Code:
            try:
                return (yield from session.receive(message.number, length, deadline))
            except Disconnected:
                session.broken = True
                yield from session.thread.sleep_until(deadline)

        return (yield from until_reply(session.thread, patience, send, receive))

    def connect_again(self, session: CallSession) -> Code:
        """Wait until the server listens, and connect to it; calls are counted on."""
        yield from self.until_room(session.thread, True)
        fresh = self.open(session.thread, True)
        vars(session).update(vars(fresh) | {"calls": session.calls})

    def until_room(self, thread: Thread, again: bool) -> Code:
        """Until the server listens, and has a connection for a thread."""
        yield from self.server.listener.until_listening(thread)
        while not self.server.has_room(thread.name, again):
            signal = Signal(self.system.clock)
            self.refused = [*self.refused, signal]
            yield from thread.wait(signal)
            yield from self.server.listener.until_listening(thread)

    def open(self, thread: Thread, again: bool) -> CallSession:
        """A session over a free connection; ``again``: the client counts its calls on."""
        return self.server.admit(thread, self.node, again)


class CallServer(Role, memory=("dram", "pm"), served=True):
    """The machine with the objects; its threads share the connections, and an object is one thread's at a time."""

    scheme: CallScheme

    def __init__(self, scheme: CallScheme, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.table = table_for(type(scheme), node, self.sizes)
        if scheme.option("flush") == "one line":
            self.table.flushed_bytes = 1
        self.table.place_marks()

    @override
    def begin(self) -> None:
        self.listener = Listener(self.node, {})
        self.domain = self.listener.door.domain
        self.locks = Locks(self.system.clock, self.sizes.threads)
        self.room = room_for(room_for_writes(self.sizes.batch, self.sizes.value_bytes))
        # One for every client, and one for a client that comes after a failure.
        self.connections = [self.connection(number) for number in range(self.sizes.clients + 1)]
        self.vacant = deque(self.connections)
        """Those that no client has."""
        self.left: list[CallConnection] = []
        """Those whose places others have got meanwhile, and at whose requests threads still are."""
        self.received = [self.node.create_cq() for _ in range(min(self.sizes.threads, len(self.connections)))]
        self.of: dict[int, CallConnection] = {}
        """By the number of the queue pair that its requests come on."""
        self.answered: dict[str, Answered[CallMessage]] = {}
        """By client."""
        self._lost = Signal(self.system.clock)
        """Raised when a queue pair of a client gets into the error state."""
        self.moved = Signal(self.system.clock)
        """Raised when a thread has taken a request, or has done with it."""

    @override
    def start(self) -> None:
        name = self.node.name
        for number in range(self.sizes.threads):
            thread = self.node.thread(number, f"{name} {number}" if number else name)
            self.node.process(name).start(self.serve(thread, number))
        self.node.process(name).start(self.look_after())
        self.tell_refused()
        self.listener.listen()

    # its connections ------------------------------------------------------------------------------------------------
    def connection(self, number: int) -> CallConnection:
        """A connection that no client has had."""
        return CallConnection(number, self.scheme.request_path(self.node, self.domain, self.room))

    def has_room(self, client: str, again: bool = False) -> bool:
        """Whether there is a connection for a client. What it has is closed, and is to be free before; if it comes
        ``again``, to go on with its calls, the last one is to be executed before.
        """
        own = [end for end in self.connections if end.client == client]
        for end in own:
            end.close()
        if again:
            own += [end for end in self.left if end.client == client]
        if not own and not self.vacant and self.scheme.requests.type is QpType.IBV_QPT_UD:
            self.connections.append(self.connection(len(self.connections)))
            self.vacant.append(self.connections[-1])
        return not own and bool(self.vacant)

    def admit(self, thread: Thread, node: Node, again: bool = False) -> CallSession:
        """A free connection for ``thread`` on ``node``: a queue pair for both directions, or one for each transport.
        Where it comes ``again``, what is known of its calls still holds.
        """
        end = self.vacant.popleft()
        received = self.received[end.number % len(self.received)]
        domain = node.process(thread.name).alloc_pd()
        known = self.answered.get(thread.name) if again else None
        end.client, end.answered = thread.name, known or Answered()
        self.answered[thread.name] = end.answered
        requests, replies = end.requests, self.scheme.reply_path(node, domain, self.room)
        pairs = {kind: self.pair(node, domain, kind, received) for kind in dict.fromkeys((requests.type, replies.type))}
        theirs, ours = pairs[requests.type]
        requests.attach(node, domain, theirs, ours)
        self.of[ours.number] = end
        theirs, ours = pairs[replies.type]
        replies.attach(self.node, self.domain, ours, theirs)
        end.replies = replies
        end.pairs = [ours for _, ours in pairs.values()]
        for qp in end.pairs:
            qp.watchers.append(self._lost.set)
        return CallSession(thread, domain, requests, replies, self.listener)

    def pair(
        self, node: Node, domain: ProtectionDomain, kind: QpType, received: CompletionQueue
    ) -> tuple[QueuePair, QueuePair]:
        """Two queue pairs, connected unless they are for datagrams: the client's, and the server's."""
        theirs = domain.create_qp(node.create_cq(), node.create_cq(), kind)
        ours = self.domain.create_qp(self.node.create_cq(), received, kind)
        if kind is not QpType.IBV_QPT_UD:
            ours.connect(theirs)
        return theirs, ours

    def look_after(self) -> Code:
        """Whenever a client is gone, have its connection free for the next."""
        while True:
            lost = [end for end in self.connections if end.lost]
            for end in lost:
                yield from self._retire(end)
            if not lost:
                yield self._lost.changed()

    def _retire(self, end: CallConnection) -> Code:
        """Free a connection: nothing of its client can arrive any more, and what has come is taken, or is no more."""
        yield from self._until_taken(end)
        for qp in end.pairs:
            qp.destroy()
        for qp in end.pairs:
            yield qp.placed()
            self.of.pop(qp.number, None)
        yield from end.requests.clear(self.node.thread(0, f"{self.node.name} connections"))
        yield from self._until_taken(end)
        if end.executing:
            self.left.append(end)
        self.connections[end.number] = CallConnection(end.number, end.requests)
        self.vacant.append(self.connections[end.number])
        self.tell_refused()

    def _until_taken(self, end: CallConnection) -> Code:
        while end.in_use:
            yield self.moved.changed()

    def tell_refused(self) -> None:
        """Processes that have found no connection ask again."""
        for client in self.scheme.roles["client"]:
            for signal in client.refused:
                signal.set()
            client.refused = ()

    # its threads ----------------------------------------------------------------------------------------------------
    def serve(self, thread: Thread, number: int) -> Code:
        """A thread, by its number: the requests of its connections as it finds them."""
        rounds = Rounds()
        while number < len(self.received):
            completion = None
            if self.scheme.requests.spun:
                mine = self.connections[number :: self.sizes.threads]
                end = mine[(yield from rounds.next(thread, [each.requests.spot for each in mine]))]
            else:
                completion = yield from thread.poll(self.received[number])
                found = self.of.get(completion.qp.number)
                if completion.status is not Status.IBV_WC_SUCCESS or found is None:  # the client is gone
                    continue
                end = found
            end.in_use = end.executing = True
            request = yield from end.requests.take(thread, completion)
            end.in_use = False
            self.moved.set()
            if request.number and not end.answered.given_up(request.number):  # and the slot has not been emptied
                yield from self.compute(thread)
                yield from self.serve_one(thread, end, request)
            end.executing = False
            if end in self.left:
                self.left.remove(end)
                self.tell_refused()

    def serve_one(self, thread: Thread, end: CallConnection, request: CallMessage) -> Code:
        """Answer a request: the one for a single object while no other thread answers one for that."""
        code = self.answer(thread, end, request)
        return code if request.kind in (WRITES, READS) else self.alone(thread, request.object, code)

    def alone(self, thread: Thread, number: int, code: Code) -> Code:
        """Answer a request while no other thread answers one for this object."""
        return self.locks.under(thread, number, code)

    def compute(self, thread: Thread) -> Code:
        """The work for a request besides touching its data."""
        if "work" in self.scheme.options and self.scheme.option("work") == "skipped":
            yield from thread.compute(injected=False)
        else:
            yield from thread.compute()

    def answer(self, thread: Thread, end: CallConnection, request: CallMessage) -> Code:
        """Execute a request, and reply. One that has been answered gets its reply again, or is executed again."""
        if end.answered.known(request.number) and self.scheme.option("repeats") == "answered":
            reply = end.answered.reply
        else:
            reply = yield from self.execute(thread, end, request)
            if reply is None:
                return
            self.count("executed")
            end.answered.answer(request.number, reply)
        assert reply is not None and end.replies is not None
        yield from end.replies.send(thread, replace(reply, number=request.number, attempt=request.attempt))

    def execute(self, thread: Thread, end: CallConnection, request: CallMessage) -> Code:
        """Read or write the object in place; returns the reply, None where the client is gone."""
        number = request.object
        if request.kind in (WRITES, READS):
            return (yield from self.execute_batch(thread, end, request))
        if request.kind == READ:
            return CallMessage(DONE, number, (yield from self.table.read(thread, number, request.data)))
        try:
            yield from self.table.store(thread, number, request.data)
        except ListFull:
            return CallMessage(REFUSED, number)
        yield from self.flush(thread, number)
        return CallMessage(DONE, number)

    def execute_batch(self, thread: Thread, end: CallConnection, request: CallMessage) -> Code:
        """One request after the other, each on its object alone; returns the reply, with what reads have found."""
        found, kind = [], DONE
        if request.kind == READS:
            writes = [(number, b"") for number in unpack_numbers(request.data)]
        else:
            writes = unpack_writes(request.data, self.sizes.value_bytes)
        for turn, (number, value) in enumerate(writes):
            if turn:
                yield from self.compute(thread)
            one = self.execute(thread, end, CallMessage(WRITE if value else READ, number, value))
            reply = yield from self.locks.under(thread, number, one)
            if reply.kind == REFUSED:
                kind = REFUSED
            found.append(reply.data)
        data = pack_values(found, self.sizes.value_bytes) if request.kind == READS else b""
        return CallMessage(kind, request.object, data)

    def flush(self, thread: Thread, number: int) -> Code:
        """Make what has been written durable."""
        yield from self.table.flush(thread, number)


class CallScheme(Scheme):
    """Calls that are executed, and durable, when their replies come; subclasses say on which paths.

    Of the options in ``options.py`` a subclass declares those that it has; the paths and the server look at those.
    """

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
    options: ClassVar[dict[str, Option]] = {"flush": FLUSH, "resend": RESEND, "repeats": REPEATS, "model": MODEL}

    @override
    @classmethod
    def composed(cls) -> None:
        adapt(cls)

    @property
    def patience(self) -> Patience | None:
        """How long clients wait until they send a call again; None: for ever, or until the connection breaks."""
        wait = self.option("resend")
        return None if wait is None else Patience(wait, repeats=None)

    def request_path(self, node: Node, domain: ProtectionDomain, room: int) -> MessagePath:
        """The path of the requests of one connection to the server's node."""
        path = self.requests(node, domain, room)
        path.awaits_completion = "completion" in self.options and self.option("completion") == "awaited"
        path.copies = self.option("copies") if "copies" in self.options else 0
        return path

    def reply_path(self, node: Node, domain: ProtectionDomain, room: int) -> MessagePath:
        """The path of the replies of one connection to a client's node."""
        path = self.replies(node, domain, room)
        if self.options.get("reply") == REPLY and self.option("reply") == "object":
            path.least_bytes = self.sizes.value_bytes + Tail.size
        return path

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        server: CallServer = self.roles["server"][0]
        server.table.load(self.sizes.objects, objects)

    @override
    def probe(self, object: Hashable) -> Request:
        return probe_of(self, object)
