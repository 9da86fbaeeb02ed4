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
FaRM's requests do, and say how many writes of their connection come before them. Those of the two calls by SEND go as
DaRPC's do in the paper; here theirs go by WRITE too, since the thread that polls the logs looks at memory alone. An
entry goes behind every earlier one that writes an object of its (`removals.py`). A client that comes back may have
calls in several logs: these go in the order in which the logs were given, of which the line that identifies a log, its
"connection information", has the turn.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Signal, Thread
from ...models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ...models.persist.service import Service
from ...models.primitives.messages import TRAILER_BYTES
from ...models.system import Node, System
from ...sim.errors import InputError, Mistake
from ..guarantees import Claims, Condition
from ..naming import Option
from ..naming.names import parse_name
from ..parts.dispatch import Dispatcher
from ..parts.locks import Locks
from ..parts.rounds import Rounds
from ..parts.rpc import Listener
from ..primitives import primitive
from ..scheme import OutcomeUnknown, Request, Role, Scheme, Sizes
from .batches import pack_numbers, pack_values, room_for_numbers, unpack_numbers, unpack_values
from .connections import DurableConnection, DurableConnections, DurableSession
from .lists import ListFull, adapt, probe_of, read_object, table_for
from .messages import DONE, LINE, READ, WORD, CallMessage, Disconnected, room_for
from .options import OF_DURABLE_CALLS, ONE_SLOT, PUBLIC_CODE
from .redolog import NONE, LoggedRequest, LogRing, Operator
from .removals import LoggedCall, Removals

Code = Generator[Any, Any, Any]

LOGS = "logs"
"""What is recovered as one: an entry's place in the order depends on all logs."""


@dataclass
class DurableProcess:
    """A client process: its thread, and its session, which a failure may end."""

    thread: Thread
    session: DurableSession | None


class DurableClient(Role, invokes=True):
    """A machine whose processes call."""

    scheme: DurableRpc

    @override
    def begin(self) -> None:
        self.server: DurableServer = self.scheme.roles["server"][0]
        self.refused: list[Signal] = []
        """Of processes that wait for a ring."""
        self.processes: list[DurableProcess] = []

    @override
    def connect(self, thread: Thread) -> DurableProcess:
        process = DurableProcess(thread, self.server.connections.admit(thread, self.node))
        self.processes.append(process)
        return process

    @override
    def at_rest(self) -> bool:
        """Whether every call of a connection that still stands has been executed and removed, as the server tells."""
        return all(process.session is None or process.session.at_rest(self.node) for process in self.processes)

    @override
    def perform(self, process: DurableProcess, request: Request) -> Code:
        """Where the server dies meanwhile, reads are tried again with its successor; what became of a write is not
        known: the entry may be in the log. Of a batch the writes are one entry, and the reads one request behind it.
        """
        index = self.sizes.objects.index
        found: list[bytes | None] = []
        writes = [(index(step.object), step.value) for step in request.steps if step.value is not None]
        numbers = [request.number + turn for turn, step in enumerate(request.steps) if step.value is not None]
        reads = [index(step.object) for step in request.steps if step.value is None]
        while True:
            session = process.session or (yield from self.reconnect(process))
            try:
                for call, own in zip(self.calls_of(writes), self.calls_of(numbers), strict=True):
                    yield from self.write(session, call, own)
                writes, numbers = [], []  # they are durable: of what fails from here on only the reads are tried again
                found = []
                for objects in self.calls_of(reads):
                    found += yield from self.read(session, objects)
                break
            except (PrimitiveFailed, Disconnected) as error:
                yield from self.reconnect(process)
                if writes:
                    raise OutcomeUnknown("the connection is broken") from error
        results = tuple(found.pop(0) if step.value is None else None for step in request.steps)
        return results[0] if len(results) == 1 else results

    def calls_of(self, requests: list[Any]) -> Iterable[list[Any]]:
        """The calls that make up a batch: one for all of its requests, or one each."""
        if self.scheme.option("batching") == "off":
            return ([one] for one in requests)
        return [requests] if requests else []

    def reconnect(self, process: DurableProcess) -> Code:
        """Another connection, as soon as the server listens and has a ring that is at rest."""
        yield from self.server.listener.until_listening(process.thread)
        while (session := self.server.connections.admit(process.thread, self.node)) is None:
            signal = Signal(self.system.clock)
            self.refused.append(signal)
            yield from process.thread.wait(signal)
            yield from self.server.listener.until_listening(process.thread)
        process.session = session
        return session

    def read(self, session: DurableSession, objects: Sequence[int]) -> Code:
        """The values of objects, by one request beside the log; of lists one after the other, item by item."""
        if self.scheme.model == "append":
            found = []
            for number in objects:
                found.append((yield from read_object(self.scheme, partial(self.ask, session, number))))
            return found
        data = yield from self.ask(session, objects[0], pack_numbers(objects) if len(objects) > 1 else b"")
        return unpack_values(data, len(objects), self.sizes.value_bytes)

    def ask(self, session: DurableSession, number: int, data: bytes) -> Code:
        """The data of the reply to a request beside the log."""
        return (yield from session.call(CallMessage(READ, number, data, after=session.written))).data

    def write(self, session: DurableSession, requests: Sequence[tuple[int, bytes]], numbers: Sequence[int]) -> Code:
        """Put a call into the log, whose requests have these numbers in the run's history; returns when the primitive
        says that it is durable there.
        """
        yield from session.room()
        sequence, ring = session.number, session.ring
        self.scheme.numbers[ring.address, sequence] = numbers
        session.written = sequence
        data, operator = ring.call(sequence, requests)
        yield from self.persist(session.requester, ring, sequence, data, operator)

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
        self.table = table_for(type(scheme), node, self.sizes)
        if scheme.option("flush") == "one line":
            self.table.flushed_bytes = 1
        self.asked_bytes = max(WORD if scheme.model == "append" else 0, room_for_numbers(self.sizes.batch))
        # One for every client, and one for a client that comes after a failure.
        self.rings = [
            LogRing(node, scheme.option("slots"), self.sizes.value_bytes, self.sizes.batch)
            for _ in range(self.sizes.clients + 1)
        ]
        self.table.place_marks()

    @override
    def begin(self) -> None:
        self.listener = Listener(self.node, {})
        room = -(-(self.rings[0].entry_bytes + TRAILER_BYTES) // LINE) * LINE
        self.service = Service(self.scheme.primitive, self.node, slots=2 * self.rings[0].slots, slot_bytes=room)
        first, last = self.rings[0], self.rings[-1]
        self.service.register(first.address, last.address + last.length - first.address)
        self.dispatcher = Dispatcher(self.system.clock)
        self.locks = Locks(self.system.clock, self.sizes.threads)
        self.removals = Removals()
        clients = self.scheme.roles["client"]
        self.connections = DurableConnections(
            self.node, self.sizes, self.listener, self.service, self.rings, room_for(self.asked_bytes), clients
        )

    @override
    def start(self) -> None:
        name = self.node.name
        process = self.node.process(name)
        if self.service.needs_thread:
            process.start(self.service.serve(self.node.thread(1, f"{name} primitive")))
        process.start(self.poll(self.node.thread(0, name)))
        for worker in range(self.sizes.threads):
            process.start(self.dispatcher.work(self.node.thread(2 + worker, f"{name} worker {worker}")))
        process.start(self.connections.look_after())
        self.listener.listen()

    @override
    def at_rest(self) -> bool:
        """Whether no log has an entry, and no ring's client is gone that may still have calls on their way."""
        logs = all(ring.empty(self.node) for ring in self.rings)
        return logs and not any(end.client is not None and end.client.gone for end in self.connections.all)

    # the polling thread ---------------------------------------------------------------------------------------------
    def poll(self, thread: Thread) -> Code:
        """Look at the logs and at the slots for requests, of all connections in turn."""
        rounds = Rounds()
        while True:
            found = yield from rounds.next(thread, [spot for end in self.connections.all for spot in end.spots])
            end = self.connections.all[found // 2]
            for former in self.connections.before(end):
                yield from self.take_rest(thread, former)
            if found % 2:
                end.held = yield from end.requests.take(thread)
                end.asked += 1
            else:
                yield from self.take_entry(thread, end)
            if end.held is not None and end.held.after < end.next:
                read, end.held = end.held, None
                yield from self.take_read(thread, end, read)
            self.connections.step()

    def take_rest(self, thread: Thread, end: DurableConnection) -> Code:
        """All calls that a client who is gone has left here, before those of a client who came later."""
        while True:
            before = end.next
            yield from self.take_entry(thread, end)
            if end.next == before:
                return

    def take_entry(self, thread: Thread, end: DurableConnection) -> Code:
        """The next slot's operator has changed: it has been cleared, or the next call has come.

        Anything else that lies there is no call of this connection: what a failure has left is for recovery.
        """
        place = end.ring.operator(end.next)
        word = yield from thread.load(place, WORD)
        end.seen[end.next % end.ring.slots] = word
        operator = Operator.unpack(word)
        if word == NONE or end.client is None or operator.sequence != end.next:
            return
        yield from self.make_durable(thread, place)
        end.next += 1
        requests = yield from end.ring.requests(thread, operator)
        entry = LoggedCall(end, operator.sequence, len(requests), frozenset(one.object for one in requests))
        self.removals.taken(entry)
        for turn, one in enumerate(requests):
            yield from self.dispatcher.hand_over(thread, one.object, partial(self.execute, end, entry, one, turn))

    def take_read(self, thread: Thread, end: DurableConnection, read: CallMessage) -> Code:
        """A read's turn has come: behind all that its objects still have to execute."""
        several = read.data and self.scheme.model != "append"
        objects = unpack_numbers(read.data) if several else [read.object]
        found: dict[int, bytes] = {}
        for turn, number in enumerate(objects):
            job = partial(self.answer, end, read, found, len(objects), turn, number)
            yield from self.dispatcher.hand_over(thread, number, job)

    def make_durable(self, thread: Thread, operator: int) -> Code:
        """Who executes a call relies on its entry: that an operator can be seen does not say that it is durable."""
        if self.scheme.option("executed") == "durable":
            yield from thread.flush(operator, WORD)

    # the workers ----------------------------------------------------------------------------------------------------
    def execute(
        self, end: DurableConnection, call: LoggedCall, request: LoggedRequest, turn: int, thread: Thread
    ) -> Code:
        """A write: the data from the log to the object's place, durably; behind a call's last one its entry may go."""
        if self.scheme.option("work") == "done":
            yield from thread.compute()
        yield from self.redo(thread, request)
        yield from self.table.flush(thread, request.object)
        self.count("executed")
        self.scheme.executed(end.ring, call.sequence, turn)
        call.left -= 1
        if self.removals.may_go(call):
            yield from self.remove(thread, call)

    def remove(self, thread: Thread, call: LoggedCall) -> Code:
        """Remove a call's entry, and then those that have waited for it."""
        going = [call]
        for one in going:
            end = one.end
            yield from end.ring.clear(thread, one.sequence, self.scheme.option("removal") == "durable")
            going += self.removals.gone(one)
            end.finished.add(one.sequence)
            yield from self.locks.under(thread, end.number, end.tell(thread))
            self.connections.step()

    def redo(self, thread: Thread, request: LoggedRequest) -> Code:
        """Copy a request's data to where they belong; a list without room stays as it is: nobody can be told."""
        try:
            yield from self.table.copy(thread, request.object, request.source)
        except ListFull:
            self.count("refused")

    def answer(
        self,
        end: DurableConnection,
        read: CallMessage,
        found: dict[int, bytes],
        count: int,
        turn: int,
        number: int,
        thread: Thread,
    ) -> Code:
        """A read, one of ``count``: the object as the writes before it have left it; the last one replies for all."""
        yield from thread.compute()
        found[turn] = yield from self.table.read(thread, number, read.data)
        self.count("executed")
        if len(found) == count:
            data = pack_values([found[turn] for turn in range(count)], self.sizes.value_bytes)
            yield from end.reply(thread, CallMessage(DONE, read.object, data))
            self.connections.step()

    # after a failure: what the logs have is executed, connection by connection, each in its order ---------------------
    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return (LOGS,)

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        """Any log may have a call that writes it."""
        return self.recovery_units()

    @override
    def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
        """The logs in the order in which they were given to clients: one who came back has an older one as well."""
        turns = []
        for ring in self.rings:
            turns.append((yield from ring.turn(thread)))
        for end in self.connections.in_turn(turns):
            yield from self.recover_ring(thread, end.ring)

    def recover_ring(self, thread: Thread, ring: LogRing) -> Code:
        """All entries are executed and durable before the first is removed, and they are removed in their order: what
        is left, if power fails again, gives the same objects.
        """
        operators = yield from ring.scan(thread)
        for operator in operators:
            yield from self.execute_again(thread, ring, operator)
        for operator in operators:
            yield from ring.clear(thread, operator.sequence)

    def execute_again(self, thread: Thread, ring: LogRing, operator: Operator) -> Code:
        """Execute the requests of a call that a failure has left in the log."""
        for turn, request in enumerate((yield from ring.requests(thread, operator))):
            yield from self.redo(thread, request)
            yield from self.table.flush(thread, request.object)
            self.count("executed")
            self.count("recovered")
            self.scheme.executed(ring, operator.sequence, turn)


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
    batches = True
    claims: ClassVar[Claims] = {
        Condition.NO_LOST_ACK: "ddio off, server power, one writer; ddio off, server process, one writer",
        Condition.COMMITTED: "ddio off, server power; ddio off, server process",
    }
    options: ClassVar[dict[str, Option]] = OF_DURABLE_CALLS
    public_over: ClassVar[str]
    """The primitive of the public code, unless a name says another one."""

    @override
    @classmethod
    def composed(cls) -> None:
        adapt(cls)
        if cls.option("as") == PUBLIC_CODE and "over" not in vars(cls):
            cls.over = cls.public_over
            part = parse_name(f"scheme over {cls.over}").primitive
            assert part is not None
            cls.primitive = primitive(part.word, part.options)
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
        return probe_of(self, object)

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.numbers: dict[tuple[int, int], Sequence[int]] = {}
        """By ring and call: the numbers of its requests in the run's history, for :meth:`executed`."""
        super().__init__(system, sizes)

    @property
    @override
    def promises(self) -> frozenset[str]:
        return self.updates if self.option("applied") == "said" else frozenset()

    def executed(self, ring: LogRing, sequence: int, turn: int) -> None:
        """One request of a call, by its place in it, is in effect: the history may know."""
        if self.promises and (ring.address, sequence) in self.numbers:
            self.applied(self.numbers[ring.address, sequence][turn])


class WFlushRpc(DurableRpc, name="wflush-rpc"):
    """One round trip: a WRITE of the data, and WFlush behind it, which makes data and then operator durable."""

    title = "WRITE into the redo log, then WFlush: durable at its acknowledgement, executed later"
    over = "wflush[operator=behind data]"
    public_over = "wflush-emulated[read=nothing]"


class SFlushRpc(DurableRpc, name="sflush-rpc"):
    """One round trip: a SEND, and SFlush behind it, by which the adapter copies the message into the redo log."""

    title = "SEND, then SFlush into the redo log: durable at its acknowledgement, executed later"
    over = "sflush[operator=behind data]"
    public_over = "sflush[look up=emulated]"


class WRFlushRpc(DurableRpc, name="w-rflush-rpc"):
    """A WRITE alone: the server's adapter makes it durable on arrival, and notifies the client."""

    title = "WRITE into the redo log, which the adapter flushes on arrival: durable at its notification"
    over = "rflush-write[operator=behind data]"
    public_over = "rflush-write-emulated[flush=nothing]"
    options: ClassVar[dict[str, Option]] = {"slots": ONE_SLOT}


class SRFlushRpc(DurableRpc, name="s-rflush-rpc"):
    """A SEND alone: the server's adapter copies it into the redo log, makes it durable, and notifies the client."""

    title = "SEND, which the adapter copies into the redo log on arrival: durable at its notification"
    over = "rflush-send[target=memory, operator=behind data]"
    public_over = "rflush-send-emulated[target=memory, flush=nothing]"
    options: ClassVar[dict[str, Option]] = {"slots": ONE_SLOT}
