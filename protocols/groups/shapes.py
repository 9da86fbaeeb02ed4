"""Three shapes of replication over any flush primitive: ``fan-out``, ``chain`` and ``quorum``, of so many replicas.

No paper: what replicated systems do with an update is one of these. A client makes an entry of its log durable at the
replicas, over the primitive that the name says.

- ``fan-out``: the client posts to all, and waits until the primitive has ended for all.
- ``chain`` (van Renesse and Schneider, OSDI'04; Assise, OSDI'20, over no-flush by default): the client reaches the
  first replica and tells its CPU; each CPU does the same with the next one, the last one answers.
- ``quorum`` (as the followers of Raft; on persistent memory Kalia et al., SoCC'20): the client, which is the leader
  for its own entries, reaches all replicas and tells their CPUs; each answers if the entry is whole, and a majority
  will do. There are no elections: nothing about flushes is in them.

Readings. Which version of an object is the newest that has returned, clients agree on outside of the protocol, as they
do for the shapes of a single machine: what is compared is replication, not concurrency control. A replica that is lost
is left out by whoever has found out by a queue pair that failed; one that comes back is waited for, by recovery too:
that reads the logs of all replicas that are not lost, and begins again where one fails meanwhile. It takes the newest
version that is whole in any of them; of a chain the newest of the last replica, of those that stand if any does. It is
written to all logs, and what is newer is cleared: a replica that has been told of that drops it. Of several that have
come back one recovers for all; if it is lost meanwhile another one does.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.persist.requester import PrimitiveFailed, SharedCompletions, Ticket
from ...models.system import System
from ...models.verbs import RECEIVE_COMPLETIONS, RecvWR, WorkCompletion
from ...sim.bytespace import LINE_BYTES
from ...sim.errors import InputError, Mistake
from ..guarantees import Claims
from ..naming import Option
from ..parts.onesided import VerbsError
from ..request import OutcomeUnknown, Request
from ..scheme import Role, Sizes
from ..shapes.shape import OverAnyPrimitive
from .log import Directory, EntryPlace, LoggedVersion, LogLayout, packed
from .replicas import SLOTS, Append, GroupReplica, ReplicaLink

Code = Generator[Any, Any, Any]

ANSWER = "600 ms"
"""How long a client waits for an answer: longer than an adapter takes to give up on a dead peer, which is 8 times 67 ms
(IBTA 9.7.6.1.3 with timeout 14 and 7 retries)."""


class GroupSession:
    """A client process, by its number: its links to all replicas, and the answers that have come."""

    def __init__(self, thread: Thread, number: int, writer: int, shared: SharedCompletions) -> None:
        self.thread = thread
        self.number = number
        self.writer = writer
        self.shared = shared
        self.links: list[ReplicaLink] = []
        self.ticket = 0
        """That of its last update."""
        self.answered: set[int] = set()
        """The replicas that have answered for it."""
        self.under_way: list[tuple[ReplicaLink, Ticket, bytes]] = []
        """Entries that the primitive has not ended for, and what their replicas are to be told then."""

    def append(self, layout: LogLayout, version: LoggedVersion) -> bytes:
        """The message about an entry, with a new ticket."""
        self.ticket += 1
        self.answered.clear()
        return Append.pack(offset=layout.offset(version.place), client=self.number, ticket=self.ticket)


class GroupClient(Role, invokes=True):
    """A machine whose processes update objects and read them; subclasses of the group say how an entry travels."""

    scheme: ReplicaGroup

    @override
    def begin(self) -> None:
        self._sessions = 0

    @override
    def connect(self, thread: Thread) -> GroupSession:
        number = self._sessions * len(self.scheme.roles["client"]) + self.number
        shared = SharedCompletions(thread, self.node)
        session = GroupSession(thread, number, number % self.sizes.clients, shared)
        self._sessions += 1
        for replica in self.scheme.roles["replica"]:
            link = ReplicaLink(thread, self.node, replica, shared, number)
            session.links.append(link)
            self.expect_answers(session, link)
        return session

    def expect_answers(self, session: GroupSession, link: ReplicaLink) -> None:
        """Have receive requests there for a replica's answers."""
        for _ in range(SLOTS):
            link.messages.post_recv(RecvWR(0, 0, 0))
        session.shared.takers[link.messages.number] = partial(self.take_answer, session, link)

    def take_answer(self, session: GroupSession, link: ReplicaLink, completion: WorkCompletion) -> None:
        """A completion of the queue pair for messages: an answer, if it is no error."""
        if completion.opcode in RECEIVE_COMPLETIONS and completion.imm_data is not None:
            session.thread.post_recv(link.messages, RecvWR(0, 0, 0))
            if completion.imm_data == session.ticket:
                session.answered.add(link.replica.number)

    def mend(self, session: GroupSession, link: ReplicaLink) -> Code:
        """Wait for a replica to come back, and connect to it again; nothing for one that is lost."""
        session.under_way = [one for one in session.under_way if one[0] is not link]
        yield from link.mend()
        if not link.lost:
            self.expect_answers(session, link)

    @override
    def perform(self, session: GroupSession, request: Request) -> Code:
        step, scheme = request.step, self.scheme
        number = scheme.numbers[step.object]
        if step.value is None:
            return (yield from self.get(session, number))
        version = scheme.directory.next(number, session.writer)
        data = packed(version.number, step.value)
        yield from session.thread.crc32_of(step.value)
        try:
            yield from scheme.replicate(self, session, version, data)
        except PrimitiveFailed as error:
            if error.disconnected:
                raise
            scheme.refused = str(error)
            raise OutcomeUnknown(str(error)) from error
        scheme.directory.returned(version)

    def get(self, session: GroupSession, number: int) -> Code:
        """READ the newest version that has returned from one replica after the other, until one has it whole; where
        none has, the newest that any of them has.
        """
        newest = self.scheme.directory.newest.get(number)
        if newest is not None:
            for link in self.scheme.read_from(session.links):
                found = yield from self.look(session, link, newest.place)
                if found is not None and found.number == newest.number:
                    return found.value
        versions: list[LoggedVersion] = []
        for link in self.scheme.read_from(session.links):
            for place in self.scheme.layout.places(number):
                found = yield from self.look(session, link, place)
                versions += [found] if found is not None else []
        return max(versions).value if versions else None

    def look(self, session: GroupSession, link: ReplicaLink, place: EntryPlace) -> Code:
        """READ an entry of a replica, once that is there; None if it is not whole, or the replica is lost."""
        while not link.lost:
            try:
                return (yield from link.look(place))
            except VerbsError:
                yield from self.mend(session, link)
        return None


class ReplicaGroup(OverAnyPrimitive):
    """A group of replicas; subclasses say how an entry reaches them, and whose log decides after a failure."""

    section = "no paper"
    operations = ("put", "get")
    updates = frozenset({"put"})
    claims: ClassVar[Claims] = {}
    faults: ClassVar = {"replica": ("power", "lost"), "client": ("power", "process"), "all": ("power",)}
    options: ClassVar[dict[str, Option]] = {
        "of": Option(3, at_least=2, at_most=9, source="assumption: as many copies as HDFS, Raft and Tailwind have",
                     text="how many replicas there are"),
    }  # fmt: skip
    tells: ClassVar[bool] = True
    """Whether replicas' CPUs are told of entries."""
    Replica = GroupReplica
    Client = GroupClient

    @override
    @classmethod
    def composed(cls) -> None:
        super().composed()
        if cls.stays_in_buffers():
            expected = "a primitive that copies what comes by SEND: the entry has to be in the log"
            raise InputError(Mistake(f"'{cls.primitive.name}' in '{cls.name}'", expected, field="scheme"))

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.numbers = {name: number for number, name in enumerate(sizes.objects)}
        self.layout = LogLayout(sizes)
        self.directory = Directory(self.layout)
        super().__init__(system, sizes)

    # the shape --------------------------------------------------------------------------------------------------------
    def replicate(self, client: GroupClient, session: GroupSession, version: LoggedVersion, data: bytes) -> Code:
        """Have the replicas hold an entry; returns when the shape says so."""
        raise NotImplementedError

    def read_from(self, links: Sequence[ReplicaLink]) -> Sequence[ReplicaLink]:
        """The replicas in the order in which a client asks them."""
        return links

    def behind(self, replica: GroupReplica) -> Sequence[GroupReplica]:
        """To whom a replica's CPU passes an entry on: the first of these that is not lost."""
        return ()

    def deciding(self, present: Sequence[GroupReplica]) -> Sequence[int]:
        """Those of the replicas that are present, by their places, whose logs say after a failure which version is the
        newest.
        """
        return range(len(present))

    # after a failure ----------------------------------------------------------------------------------------------
    def present(self) -> list[GroupReplica]:
        """The replicas that are not lost."""
        return [one for one in self.roles["replica"] if one not in self.lost("replica")]

    def awaiting(self) -> list[GroupReplica]:
        """Those that have failed, are not lost, and are not recovered yet."""
        failed = self.failed("replica")
        return [one for one in self.present() if not one.listener.listening and (one.follows or one in failed)]

    @property
    def recoverer(self) -> GroupReplica | None:
        """The replica that recovers for all that have come back: the one that does so already, or else the first."""
        awaiting = self.awaiting()
        return next((one for one in awaiting if one.recovering and not one.node.off), next(iter(awaiting), None))

    @override
    def recovery(self) -> Iterator[Role]:
        """Those that have come back begin; the last one of these reads what all have."""
        back = [one for one in self.failed("replica") if one in self.present()]
        return iter([*back[1:], *back[:1]])

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names, layout = self.sizes.objects, self.layout

        def line_of(start: int, line: int) -> bytes:
            offset = line * LINE_BYTES - start
            number, writer, turn = layout.place(offset)
            if writer or turn or number >= len(objects):
                return bytes(LINE_BYTES)
            at = offset % layout.entry_bytes
            return packed(1, objects[names[number]])[at : at + LINE_BYTES].ljust(LINE_BYTES, b"\0")

        for replica in self.roles["replica"]:
            start = replica.log - replica.pm.base
            replica.pm.space.compute(start, layout.length, partial(line_of, start))
        for number in range(len(objects)):
            place = EntryPlace(number, 0, 0)
            self.directory.found(number, LoggedVersion(1, place), {place: 1})

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class FanOut(ReplicaGroup, name="fan-out"):
    """One writes to all replicas, and waits for all."""

    title = "a client writes to all replicas and waits for all"
    tells = False

    @override
    def replicate(self, client: GroupClient, session: GroupSession, version: LoggedVersion, data: bytes) -> Code:
        left = [link for link in session.links if not link.lost]
        while left:
            tickets: list[tuple[ReplicaLink, Ticket]] = []
            for link in left:
                tickets.append((link, (yield from link.begin(version.place, data))))
            left = []
            for link, ticket in tickets:
                try:
                    yield from link.requester.wait(ticket)
                except PrimitiveFailed as error:
                    if not error.disconnected:
                        raise
                    yield from client.mend(session, link)
                    left += [] if link.lost else [link]
        if all(link.lost for link in session.links):
            raise OutcomeUnknown("all replicas are lost")


class ReplicaChain(ReplicaGroup, name="chain"):
    """Each replica passes the entry on, the last one answers."""

    title = "each replica passes on what has come, the last one answers"

    @override
    def replicate(self, client: GroupClient, session: GroupSession, version: LoggedVersion, data: bytes) -> Code:
        message = session.append(self.layout, version)
        while (link := next((one for one in session.links if not one.lost), None)) is not None:
            try:
                yield from link.persist(version.place, data)
                yield from link.tell(message)
            except (PrimitiveFailed, VerbsError) as error:
                if not error.disconnected:
                    raise
                yield from client.mend(session, link)
                continue
            deadline = session.thread.deadline(ANSWER)
            while not session.answered:
                if not (yield from session.shared.take_next(deadline)):
                    break
            if session.answered:
                return
            for one in session.links:  # who answers may have begun again, and know no client
                if not one.lost and not (yield from one.stands()):
                    yield from client.mend(session, one)
        raise OutcomeUnknown("all replicas are lost")

    @override
    def read_from(self, links: Sequence[ReplicaLink]) -> Sequence[ReplicaLink]:
        return links[::-1]

    @override
    def behind(self, replica: GroupReplica) -> Sequence[GroupReplica]:
        return self.roles["replica"][replica.number + 1 :]

    @override
    def deciding(self, present: Sequence[GroupReplica]) -> Sequence[int]:
        awaiting = self.awaiting()
        standing = [number for number, one in enumerate(present) if one not in awaiting]
        return [standing[-1] if standing else len(present) - 1]


class Quorum(ReplicaGroup, name="quorum"):
    """All replicas' CPUs answer for the entry, a majority of answers will do."""

    title = "a client writes to all replicas and waits for the answers of a majority's CPUs"
    options: ClassVar[dict[str, Option]] = {
        "of": Option(3, at_least=3, at_most=9, source="assumption: a majority that survives a loss needs three",
                     text="how many replicas there are"),
    }  # fmt: skip

    @override
    def replicate(self, client: GroupClient, session: GroupSession, version: LoggedVersion, data: bytes) -> Code:
        message = session.append(self.layout, version)
        majority = int(self.option("of")) // 2 + 1
        left = list(session.links)
        while True:
            for link in left:
                yield from self.begin(client, session, link, version, data, message)
            left = []
            while len(session.answered) < majority:
                yield from self.tell(session)
                answering = {link.replica.number for link in session.links if not link.broken} | session.answered
                if len(answering) < majority or not (
                    yield from session.shared.take_next(session.thread.deadline(ANSWER))
                ):
                    break
            else:
                return
            for link in session.links:
                if link.fails() and not link.lost:
                    yield from client.mend(session, link)
            left = [link for link in session.links if not link.lost and link.replica.number not in session.answered]
            if len(left) + len(session.answered) < majority:
                raise OutcomeUnknown("no majority of the replicas is left")

    def begin(
        self,
        client: GroupClient,
        session: GroupSession,
        link: ReplicaLink,
        version: LoggedVersion,
        data: bytes,
        message: bytes,
    ) -> Code:
        """Begin with an entry at a replica; one that is away is passed over, one that is there again connected to."""
        if link.broken and not link.lost and link.replica.listener.listening:
            yield from client.mend(session, link)
        if not link.fails():
            try:
                ticket = yield from link.begin(version.place, data)
                session.under_way.append((link, ticket, message))
            except PrimitiveFailed as error:
                self.breaks(link, error)

    def tell(self, session: GroupSession) -> Code:
        """Tell the replicas' CPUs of the entries for which the primitive has ended."""
        for one in list(session.under_way):
            link, ticket, message = one
            try:
                if link.requester.ended(ticket):
                    session.under_way.remove(one)
                    yield from link.tell(message)
            except (PrimitiveFailed, VerbsError) as error:
                session.under_way = [other for other in session.under_way if other[0] is not link]
                self.breaks(link, error)

    def breaks(self, link: ReplicaLink, error: PrimitiveFailed | VerbsError) -> None:
        """A replica does not answer any more. Raises the error where it was a refusal."""
        if not error.disconnected:
            raise error
        link.broken = True
