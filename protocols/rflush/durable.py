"""Durable calls: a write is durable in the server's redo log when the caller goes on, and is executed later.

Source: Duan et al., SC'21, sections 4.2 and 4.3, figures 4 and 5. The client puts data and operator into the log ring
of its connection and has them flushed (WFlush behind a WRITE, SFlush behind a SEND); at the flush's acknowledgement
it may issue the next call. A thread of the server executes the call, and the entry is removed then. Calls on one
object are executed in the order in which they came. After a failure the server executes what its log has, connection
by connection.

What the paper leaves open is read so. A thread polls the logs and hands calls to workers, those on one object in
their order. It flushes the operator's line before that: it has seen the operator, which need not be durable yet, and
an object that is half overwritten needs the entry. An entry's removal is durable before the slot is free; how many
have been removed the server WRITEs to the client, who waits where all slots are taken. Reads go beside the log, as
FaRM's requests do, and say how many writes of their connection come before them.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ...models.persist.service import Service
from ...models.primitives.messages import TRAILER_BYTES
from ...models.system import Node
from ...models.verbs import REMOTE, QueuePair
from ...sim.errors import InputError, Mistake
from ..guarantees import Claims, Condition
from ..naming import Option
from ..naming.names import parse_name
from ..parts.dispatch import Dispatcher
from ..parts.locks import Locks
from ..parts.onesided import Poster
from ..parts.rpc import Listener
from ..primitives import primitive
from ..scheme import OutcomeUnknown, Request, Role, Scheme
from .messages import DONE, LINE, READ, WORD, CallMessage, Disconnected, MessageSlot, Sender, post_write, room_for
from .objects import ObjectTable
from .redolog import NONE, LogRing, Operator

Code = Generator[Any, Any, Any]


class DurableConnection:
    """The server's end of one connection: what it knows of the ring, and where it answers."""

    def __init__(self, number: int, ring: LogRing, requests: MessageSlot) -> None:
        self.number = number
        self.ring = ring
        self.requests = requests
        self.next = 1
        """The call whose entry is taken next."""
        self.seen = [NONE] * ring.slots
        """By slot: the operator that the poller has seen there last."""
        self.held: CallMessage | None = None
        """A read that waits for writes of its connection."""
        self.finished: set[int] = set()
        self.removed = 0
        """The calls up to this one are executed, and removed from the ring."""
        self.replies: Sender
        self.qp: QueuePair
        self.count: tuple[int, int, int] | None = None
        """Where the number of removed calls lies here, where it lies at the client, and the key of that."""

    @property
    def spots(self) -> list[tuple[int, bytes]]:
        """What the poller looks at: the next entry's operator, and the slot for requests."""
        return [(self.ring.operator(self.next), self.seen[self.next % self.ring.slots]), self.requests.spot]


@dataclass
class DurableSession:
    """A client process: what it writes the log with, its reads, and the count of removed calls that it is told."""

    thread: Thread
    ring: LogRing
    requester: PrimitiveRequester
    requests: Sender
    replies: MessageSlot
    count: int
    """Where that count lies."""
    written: int = 0
    removed: int = 0

    @property
    def number(self) -> int:
        """The number of the next call."""
        return self.written + 1

    def room(self) -> Code:
        """Until there is a free slot: read how many entries are removed, if need be wait for more."""
        while self.number - self.removed > self.ring.slots:
            seen = self.removed.to_bytes(WORD, "little")
            if (yield from self.thread.spin([(self.count, seen)], queue_pairs=[self.requests.qp])) is None:
                raise Disconnected
            self.removed = int.from_bytes((yield from self.thread.load(self.count, WORD)), "little")

    def call(self, message: CallMessage) -> Code:
        """A request beside the log; returns its reply."""
        yield from self.requests.send(self.thread, message)
        if (yield from self.thread.spin([self.replies.spot], queue_pairs=[self.requests.qp])) is None:
            raise Disconnected
        return (yield from self.replies.take(self.thread))


class DurableClient(Role, invokes=True):
    """A machine whose processes call."""

    scheme: DurableRpc

    @override
    def begin(self) -> None:
        self.server: DurableServer = self.scheme.roles["server"][0]

    @override
    def connect(self, thread: Thread) -> DurableSession:
        return self.server.admit(thread, self.node)

    @override
    def perform(self, session: DurableSession, request: Request) -> Code:
        """Where the server dies meanwhile, a read is tried again with its successor; what became of a write is not
        known: the entry may be in the log.
        """
        number = self.sizes.objects.index(request.step.object)
        while True:
            try:
                if request.step.value is None:
                    reply = yield from session.call(CallMessage(READ, number, after=session.written))
                    return reply.data if any(reply.data) else None  # an object that was never written
                yield from self.write(session, number, request)
                return None
            except (PrimitiveFailed, Disconnected) as error:
                yield from self.server.listener.until_listening(session.thread)
                vars(session).update(vars(self.connect(session.thread)))
                if request.step.value is not None:
                    raise OutcomeUnknown("the connection is broken") from error

    def write(self, session: DurableSession, number: int, request: Request) -> Code:
        """Put a call into the log; returns when the primitive says that it is durable there."""
        yield from session.room()
        sequence, ring, value = session.number, session.ring, request.step.value
        assert value is not None
        session.written = sequence
        operator = Operator.pack(number=number + 1, sequence=sequence)
        yield from self.persist(session.requester, ring, sequence, value, operator)

    def persist(
        self, requester: PrimitiveRequester, ring: LogRing, sequence: int, value: bytes, operator: bytes
    ) -> Code:
        """The data, and behind them the operator: by the adapter where the primitive has it write one, else by a run
        of the primitive of its own, once the data's has ended.
        """
        data, commit = (ring.data(sequence), value), (ring.operator(sequence), operator)
        if self.scheme.option("operator") == "together":
            entry = value.ljust(ring.entry_bytes - WORD, b"\0") + operator
            yield from requester.persist([(ring.data(sequence), entry)])
        elif requester.plan.flagged:
            yield from requester.persist([data], flag=commit)
        else:
            yield from requester.persist([data])
            yield from requester.persist([commit])


class DurableServer(Role, memory=("dram", "pm"), served=True, cores=3):
    """The machine with the logs and the objects: a core polls, one serves the primitive, the others execute calls."""

    scheme: DurableRpc

    def __init__(self, scheme: DurableRpc, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.table = ObjectTable(node, len(self.sizes.objects), self.sizes.value_bytes)
        # One for every client, and one for a client that comes after a failure.
        self.rings = [
            LogRing(node, scheme.option("slots"), self.sizes.value_bytes) for _ in range(self.sizes.clients + 1)
        ]

    @override
    def begin(self) -> None:
        self.listener = Listener(self.node, {})
        room = -(-(self.rings[0].entry_bytes + TRAILER_BYTES) // LINE) * LINE
        self.service = Service(self.scheme.primitive, self.node, slots=2 * self.rings[0].slots, slot_bytes=room)
        first, last = self.rings[0], self.rings[-1]
        self.service.register(first.address, last.address + last.length - first.address)
        self.dispatcher = Dispatcher(self.system.clock)
        self.locks = Locks(self.system.clock, self.sizes.threads)
        self.connections = [
            DurableConnection(number, ring, MessageSlot(self.node, room_for(0), "request"))
            for number, ring in enumerate(self.rings)
        ]
        self.admitted = 0

    @override
    def start(self) -> None:
        name = self.node.name
        process = self.node.process(name)
        if self.service.needs_thread:
            process.start(self.service.serve(self.node.thread(1, f"{name} primitive")))
        process.start(self.poll(self.node.thread(0, name)))
        for worker in range(self.sizes.threads):
            process.start(self.dispatcher.work(self.node.thread(2 + worker, f"{name} worker {worker}")))
        self.listener.listen()

    def admit(self, thread: Thread, node: Node) -> DurableSession:
        """A connection for ``thread`` on ``node``."""
        end = self.connections[self.admitted]
        self.admitted += 1
        poster = Poster(thread, node, LINE)
        theirs = poster.open()
        ours = self.listener.door.admit(theirs)
        here, there = self.node.memory["dram"], node.memory["dram"]
        replies, count = MessageSlot(node, room_for(self.sizes.value_bytes), "reply"), there.allocate(LINE, "removed")
        key = poster.domain.reg_mr(replies.address, replies.room, REMOTE).key
        end.replies = Sender(self.node, ours, replies, key)
        end.qp = ours
        end.count = here.allocate(LINE, "removed"), count, poster.domain.reg_mr(count, LINE, REMOTE).key
        region = self.listener.register(end.requests.address, end.requests.room)
        requests = Sender(node, theirs, end.requests, region.key)
        return DurableSession(thread, end.ring, self.service.connect(thread, node), requests, replies, count)

    # the polling thread ---------------------------------------------------------------------------------------------
    def poll(self, thread: Thread) -> Code:
        """Look at the logs and at the slots for requests, of all connections in turn."""
        while True:
            found = yield from thread.spin([spot for end in self.connections for spot in end.spots])
            end = self.connections[found // 2]
            if found % 2:
                end.held = yield from end.requests.take(thread)
            else:
                yield from self.take_entry(thread, end)
            if end.held is not None and end.held.after < end.next:
                read, end.held = end.held, None
                yield from self.dispatcher.hand_over(thread, read.object, partial(self.answer, end, read))

    def take_entry(self, thread: Thread, end: DurableConnection) -> Code:
        """The next slot's operator has changed: it has been cleared, or the next call has come."""
        place = end.ring.operator(end.next)
        word = yield from thread.load(place, WORD)
        end.seen[end.next % end.ring.slots] = word
        if word == NONE:
            return
        operator = Operator.unpack(word)
        yield from self.make_durable(thread, place)
        end.next += 1
        yield from self.dispatcher.hand_over(thread, operator.number - 1, partial(self.execute, end, operator))

    def make_durable(self, thread: Thread, operator: int) -> Code:
        """Who executes a call relies on its entry: that an operator can be seen does not say that it is durable."""
        yield from thread.flush(operator, WORD)

    # the workers ----------------------------------------------------------------------------------------------------
    def execute(self, end: DurableConnection, operator: Operator, thread: Thread) -> Code:
        """A write: the data from the log to the object's place, durably; then the entry is removed."""
        number, sequence = operator.number - 1, operator.sequence
        yield from thread.compute()
        yield from self.redo(thread, end.ring, operator)
        yield from self.table.flush(thread, number)
        yield from end.ring.clear(thread, sequence)
        end.finished.add(sequence)
        yield from self.locks.under(thread, end.number, self.tell(thread, end))

    def redo(self, thread: Thread, ring: LogRing, operator: Operator) -> Code:
        """Copy an entry's data to where they belong."""
        source, target = ring.data(operator.sequence), self.table.place(operator.number - 1)
        yield from thread.memcpy(target, source, self.sizes.value_bytes)

    def tell(self, thread: Thread, end: DurableConnection) -> Code:
        """Tell the client how many calls from the first on have been removed, if there are more than before."""
        before = end.removed
        while end.removed + 1 in end.finished:
            end.removed += 1
            end.finished.discard(end.removed)
        if end.removed > before and end.count is not None:
            here, there, key = end.count
            yield from thread.store(here, end.removed.to_bytes(WORD, "little"))
            yield from post_write(thread, end.qp, here, WORD, there, key)

    def answer(self, end: DurableConnection, request: CallMessage, thread: Thread) -> Code:
        """A read: the object as the writes before it have left it."""
        yield from thread.compute()
        data = yield from self.table.read(thread, request.object)
        yield from end.replies.send(thread, CallMessage(DONE, request.object, data))

    # after a failure: what the logs have is executed, connection by connection, each in its order ---------------------
    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return range(len(self.rings))

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        """Any log may have a call that writes it."""
        return self.recovery_units()

    @override
    def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
        """All entries are executed and durable before the first is removed, and they are removed in their order: what
        is left, if power fails again, gives the same objects.
        """
        assert isinstance(unit, int)
        ring = self.rings[unit]
        operators = yield from ring.scan(thread)
        for operator in operators:
            yield from self.redo(thread, ring, operator)
            yield from self.table.flush(thread, operator.number - 1)
        for operator in operators:
            yield from ring.clear(thread, operator.sequence)


class DurableRpc(Scheme):
    """Calls that are durable before they are executed, over a flush primitive."""

    paper = "Duan et al., SC'21"
    section = "section 4.2, figures 4 and 5"
    Client = DurableClient
    Server = DurableServer
    operations = ("put", "get")
    updates = frozenset({"put"})
    inserts = "put"
    scans_by_reads = True
    claims: ClassVar[Claims] = {
        Condition.NO_LOST_ACK: "ddio off, server power; ddio off, server process",
        Condition.COMMITTED: "ddio off, server power; ddio off, server process",
    }
    options: ClassVar[dict[str, Option]] = {
        "slots": Option(
            4, at_least=1, at_most=1024, source="public code (CGCL-codes/PRDMA, 0426c57): 4; the paper gives no number",
            text="how many entries a connection's log has",
        ),
        "operator": Option(
            "behind", choices=("behind", "together"),
            source="behind: section 4.2; together: the public code, which has a valid byte as the last of one WRITE",
            text="whether an entry's operator is written behind its data, or with them",
        ),
    }  # fmt: skip

    @override
    @classmethod
    def composed(cls) -> None:
        found = cls.primitive
        stays = found.follows[0] == "SEND" and not any(step.do == "copy" for step in found.steps)
        if stays:
            expected = "a primitive that brings an update to where it belongs: a WRITE, or a SEND that is copied there"
            raise InputError(Mistake(f"'{found.name}' in '{cls.name}'", expected, field="scheme"))
        if cls.option("operator") == "together":  # then nothing is left for an adapter to write
            assert cls.over is not None
            part = parse_name(f"scheme over {cls.over}").primitive
            assert part is not None
            cls.primitive = primitive(part.word, {k: v for k, v in part.options.items() if k != "operator"})

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        server: DurableServer = self.roles["server"][0]
        server.table.load(self.sizes.objects, objects)

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class WFlushRpc(DurableRpc, name="wflush-rpc"):
    """One round trip: a WRITE of the data, and WFlush behind it, which makes data and then operator durable."""

    title = "WRITE into the redo log, then WFlush: durable at its acknowledgement, executed later"
    over = "wflush[operator=behind data]"


class SFlushRpc(DurableRpc, name="sflush-rpc"):
    """One round trip: a SEND, and SFlush behind it, by which the adapter copies the message into the redo log."""

    title = "SEND, then SFlush into the redo log: durable at its acknowledgement, executed later"
    over = "sflush[operator=behind data]"


class WRFlushRpc(DurableRpc, name="w-rflush-rpc"):
    """A WRITE alone: the server's adapter makes it durable on arrival, and notifies the client."""

    title = "WRITE into the redo log, which the adapter flushes on arrival: durable at its notification"
    over = "rflush-write[operator=behind data]"


class SRFlushRpc(DurableRpc, name="s-rflush-rpc"):
    """A SEND alone: the server's adapter copies it into the redo log, makes it durable, and notifies the client."""

    title = "SEND, which the adapter copies into the redo log on arrival: durable at its notification"
    over = "rflush-send[target=memory, operator=behind data]"
