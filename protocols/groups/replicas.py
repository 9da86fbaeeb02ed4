"""The machines of a group: replicas with a log in persistent memory, and links to them.

A link is a queue pair for the primitive, one for READs and one for messages to the replica's CPU. A message says that
an entry has come, by the primitive's promise; the replica passes the entry on to the next one, or answers the client.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from ...models.cpu import Thread
from ...models.persist.requester import PrimitiveFailed, PrimitiveRequester, SharedCompletions
from ...models.persist.service import Service
from ...models.primitives.messages import TRAILER_BYTES
from ...models.system import Node
from ...models.verbs import Opcode, QueuePair, RecvWR, SendFlags, SendWR, Status
from ..layout import U32, U64, Layout
from ..parts.listening import Listening
from ..parts.onesided import Poster, VerbsError
from ..parts.rpc import PATIENCE, Listener
from ..scheme import Role
from .log import HEAD, EntryPlace, LoggedEntry, LoggedVersion, LogLayout, crc_of, packed

if TYPE_CHECKING:
    from .shapes import ReplicaGroup

Code = Generator[Any, Any, Any]

SLOTS = 16
"""Receive buffers of a link, for updates by SEND and for messages."""
MESSAGE_BYTES, WORD = 64, 8
UNSEEN = "1 ms"
"""How long a replica's CPU looks for an entry that it has been told of. Assumption: far longer than it takes until what
a primitive has ended for is visible; nothing but the time of an update depends on it.
"""


class Append(Layout):
    """An entry has come: its offset in the log, and for whom, by its ticket."""

    offset = U64()
    client = U32()
    ticket = U32()


class ReplicaLink:
    """A thread's way to one replica, which may break and be mended."""

    def __init__(
        self, thread: Thread, node: Node, replica: GroupReplica, shared: SharedCompletions, client: int | None = None
    ) -> None:
        """``client`` is the number of a client's process; None: the link is another replica's."""
        self.client = client
        self.thread = thread
        self.node = node
        self.replica = replica
        self._shared = shared
        self.poster = Poster(thread, node, max(MESSAGE_BYTES, replica.layout.entry_bytes), slots=4)
        self.connect()

    def connect(self) -> None:
        """New queue pairs; the ones before are dead."""
        self.broken = False
        self.requester: PrimitiveRequester = self.replica.service.connect(
            self.thread, self.node, self._shared, patience=PATIENCE
        )
        self.reads: QueuePair = self.poster.connect(self.replica.listener.door)
        self.messages: QueuePair = self.poster.open(self._shared.cq)
        self.replica.admit(self.messages, self.client)

    @property
    def lost(self) -> bool:
        """Whether the replica is gone for good, and this thread has found out."""
        return self.broken and self.replica in self.replica.scheme.lost("replica")

    def fails(self) -> bool:
        """Whether a queue pair of it is in the error state; it is broken then."""
        self.broken = self.broken or any(qp.error for qp in (self.requester.qp, self.reads, self.messages))
        return self.broken

    def stands(self) -> Code:
        """READ a word there: whether the replica is the one that has connected; the link is broken if not."""
        if not self.fails():
            try:
                posted = yield from self.poster.read(self.reads, self.replica.log, self.replica.key, WORD)
                yield from self.poster.result(posted)
            except VerbsError as error:
                if not error.disconnected:
                    raise
                self.broken = True
        return not self.broken

    def mend(self) -> Code:
        """Wait until the replica is there again, and connect; nothing for one that is lost, or is meanwhile."""
        self.broken = True
        while not self.lost and not self.replica.listener.listening:
            yield from self.replica.listener.until_listening(self.thread)
        if not self.lost:
            self.connect()

    def begin(self, place: EntryPlace, data: bytes) -> Code:
        """Begin to make an entry durable there, as far as the primitive goes; returns its ticket."""
        return self.requester.post([(self.replica.address(place), data)])

    def persist(self, place: EntryPlace, data: bytes) -> Code:
        """Make an entry durable there, as far as the primitive goes."""
        yield from self.requester.persist([(self.replica.address(place), data)])

    def tell(self, append: bytes) -> Code:
        """Send a message to the replica's CPU."""
        self.poster.drop([(yield from self.poster.send(self.messages, append))])

    def look(self, place: EntryPlace) -> Code:
        """READ an entry; returns the version, None if it is not whole."""
        layout, address = self.replica.layout, self.replica.address(place)
        data = yield from self.poster.read_checked(
            self.reads, address, self.replica.key, layout.used_bytes, HEAD, crc_of
        )
        return version_in(data, place)

    def clear(self, place: EntryPlace) -> Code:
        """Have an entry hold nothing."""
        yield from self.requester.persist([(self.replica.address(place), bytes(HEAD))])


def version_in(data: bytes | None, place: EntryPlace) -> LoggedVersion | None:
    """The version in an entry's bytes; None for none."""
    entry = LoggedEntry.unpack(data) if data is not None else None
    return LoggedVersion(entry.version, place, entry.value) if entry is not None and entry.version else None


class GroupReplica(Role, memory=("dram", "pm"), cores=2, counted_by="of"):
    """A machine with a copy of the log; one core does the primitive's steps, the other one passes entries on."""

    scheme: ReplicaGroup

    def __init__(self, scheme: ReplicaGroup, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.layout = LogLayout(self.sizes)
        self.log = self.pm.allocate(self.layout.length, "log", item_bytes=self.layout.entry_bytes, align=4096)

    @override
    def begin(self) -> None:
        scheme, room = self.scheme, self.layout.used_bytes + TRAILER_BYTES
        self.service = Service(
            scheme.primitive, self.node, receive_in=scheme.option("into"), slots=SLOTS,
            slot_bytes=-(-room // 64) * 64, follows=scheme.option("by"),
        )  # fmt: skip
        self.service.register(self.log, self.layout.length)
        self.listener = Listener(self.node, {})
        """For clients, and replicas that pass entries on."""
        self.key = self.listener.register(self.log, self.layout.length).key
        self.opened = Listening(self.node)
        """For the replica that recovers: the log can be reached whether clients are served or not."""
        self.opened.listen()
        self.recovering = self.follows = False
        """Whether it recovers for all that have come back, or another one does for it."""
        self.reached: dict[GroupReplica, Listening] = {}
        """Whose logs it has recovered, since which start of theirs."""
        self.received = self.node.create_cq()
        self.ends: dict[int, QueuePair] = {}
        """This machine's ends of clients' queue pairs for messages, by the client's number."""

    def address(self, place: EntryPlace) -> int:
        """Where an entry lies."""
        return self.log + self.layout.offset(place)

    def admit(self, theirs: QueuePair, client: int | None) -> None:
        """Connect a queue pair for messages."""
        ours = self.listener.door.admit(theirs, recv_cq=self.received)
        if client is not None:
            self.ends[client] = ours
        first = self.node.memory["dram"].allocate(SLOTS * MESSAGE_BYTES, "messages")
        for number in range(SLOTS):
            buffer = first + number * MESSAGE_BYTES
            ours.post_recv(RecvWR(buffer, buffer, MESSAGE_BYTES))

    @override
    def start(self) -> None:
        process = self.node.process(self.node.name)
        if self.service.needs_thread:
            process.start(self.service.serve(self.node.thread(0, self.node.name)))
        if self.scheme.tells:
            process.start(self.take_messages(self.node.thread(1, f"{self.node.name} messages")))
        if self.follows:
            process.start(self.follow(self.node.thread(1, f"{self.node.name} recovery")))
        else:
            self.listener.listen()

    # its CPU: entries that have come ------------------------------------------------------------------------------
    def take_messages(self, thread: Thread) -> Code:
        """Take one message after the other, for ever."""
        shared = SharedCompletions(thread, self.node)
        behind = self.scheme.behind(self)
        links = [ReplicaLink(thread, self.node, replica, shared) for replica in behind]
        while True:
            completion = yield from thread.poll(self.received)
            if completion.status is not Status.IBV_WC_SUCCESS:
                continue
            thread.span = completion.span
            buffer = completion.wr_id
            message = yield from thread.load(buffer, completion.byte_len)
            thread.post_recv(completion.qp, RecvWR(buffer, buffer, MESSAGE_BYTES))
            append = Append.unpack(message)
            if (yield from self.comes(thread, self.layout.place(append.offset))):
                yield from self.pass_on(thread, links, append, message)
            thread.span = None

    def comes(self, thread: Thread, place: EntryPlace) -> Code:
        """Whether an entry is whole, or will soon be: the primitive may end before the CPU sees the entry.

        A recovery may have cleared it since. Then it comes again when its client has waited for its answer for long
        enough, and not at all if that is dead; others wait here meanwhile.
        """
        if (yield from self.holds(thread, place)):
            return True
        deadline = thread.deadline(UNSEEN)
        while not (yield from self.holds(thread, place)):
            if deadline.passed:
                return False
            yield from thread.compute()
        return True

    def holds(self, thread: Thread, place: EntryPlace) -> Code:
        """Whether an entry is whole."""
        return (yield from self.look(thread, place)) is not None

    def look(self, thread: Thread, place: EntryPlace) -> Code:
        """Load an entry; returns the version, None if it is not whole."""
        address = self.address(place)
        head = yield from thread.load(address, HEAD)
        crc = crc_of(head)
        if crc is None or not (yield from thread.crc32_matches(address + HEAD, self.sizes.value_bytes, crc)):
            return None
        return version_in(head + (yield from thread.load(address + HEAD, self.sizes.value_bytes)), place)

    def pass_on(self, thread: Thread, links: Iterable[ReplicaLink], append: Append, message: bytes) -> Code:
        """Make an entry durable at the next replica that is not lost, and tell it; answer where none is left. Nothing
        of an entry that has been cleared while this waited for a replica.
        """
        place = self.layout.place(append.offset)
        for link in links:
            while not link.lost:
                data = yield from thread.load(self.address(place), self.layout.used_bytes)
                try:
                    yield from link.persist(place, data)
                    yield from link.tell(message)
                    return
                except (PrimitiveFailed, VerbsError) as error:
                    if not error.disconnected:
                        raise
                yield from link.mend()
                if not (yield from self.holds(thread, place)):
                    return
        yield from self.answer(thread, append)

    def answer(self, thread: Thread, append: Append) -> Code:
        """Tell the client that waits; one that has connected again has another queue pair."""
        end = self.ends.get(append.client)
        if end is not None and not end.error:
            work = SendWR(
                0, Opcode.IBV_WR_SEND_WITH_IMM, 0, 0, imm_data=append.ticket, send_flags=SendFlags.IBV_SEND_INLINE
            )
            yield from thread.post_send(end, work)

    # after a failure: object by object ------------------------------------------------------------------------------
    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return range(len(self.sizes.objects)) if self.scheme.recoverer is self else ()

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        return (self.sizes.objects.index(object),) if self.scheme.recoverer is self else ()

    @override
    def recover_unit(self, thread: Thread, unit: Any) -> Code:
        """Read an object's entries in all logs that are left, and have each hold what the group's rule says; once more
        where a replica fails meanwhile.
        """
        self.recovering = True
        while True:
            try:
                present = yield from self.reach(thread)
                yield from self.agree(thread, unit, present)
            except (PrimitiveFailed, VerbsError) as error:
                if not error.disconnected:
                    raise
            else:
                return

    def reach(self, thread: Thread) -> Code:
        """Wait until all replicas that are not lost are there; returns them."""
        while (away := next((one for one in self.scheme.present() if not one.opened.listening), None)) is not None:
            yield from away.opened.until_listening(thread)
        present = self.scheme.present()
        for one in present:
            self.reached.setdefault(one, one.opened)
        return present

    def agree(self, thread: Thread, unit: int, present: Sequence[GroupReplica]) -> Code:
        """Have the logs of these replicas hold what the group's rule says of an object."""
        scheme = self.scheme
        logs: list[OwnLog | ReplicaLink] = []
        shared = SharedCompletions(thread, self.node)
        for replica in present:
            logs.append(OwnLog(thread, self) if replica is self else ReplicaLink(thread, self.node, replica, shared))
        found: list[dict[EntryPlace, LoggedVersion]] = []
        for log in logs:
            held = {}
            for place in self.layout.places(unit):
                version = yield from log.look(place)
                if version is not None:
                    held[place] = version
            found.append(held)
        deciding = [found[number] for number in scheme.deciding(present)]
        newest = max((version for held in deciding for version in held.values()), default=None)
        for log, held in zip(logs, found, strict=True):
            for place, version in held.items():
                if newest is None or version.number > newest.number:
                    yield from log.clear(place)
            if newest is not None and held.get(newest.place) != newest:
                yield from log.persist(newest.place, packed(newest.number, newest.value))
        if not scheme.standing("client"):
            versions = {place: version.number for held in found for place, version in held.items()}
            scheme.directory.found(unit, newest, versions)

    @override
    def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
        """Clients may connect to all that have come back. One that has failed again since its log was recovered may
        have lost what it was given: then all is recovered anew.
        """
        scheme = self.scheme
        if scheme.recoverer is not self:
            self.follows = True
            return
        while any(self.reached.get(one) is not one.opened for one in scheme.present()):
            self.reached.clear()
            for unit in self.recovery_units():
                yield from self.recover_unit(thread, unit)
        self.recovering = False
        for replica in scheme.awaiting():
            if replica.opened.listening:
                replica.listener.listen()

    def follow(self, thread: Thread) -> Code:
        """Wait until the one that recovers has done so for this replica; recover if that comes to be this one."""
        while not self.listener.listening:
            recoverer = self.scheme.recoverer
            if recoverer is None or recoverer is self:
                yield from self.recover(thread)
            else:
                yield from recoverer.listener.until_listening(thread)


class OwnLog:
    """A replica's own log, as a thread of it recovers it: beside :class:`ReplicaLink`, which reaches another one's."""

    def __init__(self, thread: Thread, replica: GroupReplica) -> None:
        self._thread = thread
        self._replica = replica

    def look(self, place: EntryPlace) -> Code:
        """Load an entry; returns the version, None if it is not whole."""
        return self._replica.look(self._thread, place)

    def persist(self, place: EntryPlace, data: bytes) -> Code:
        """Store an entry, and flush it."""
        address = self._replica.address(place)
        yield from self._thread.store(address, data)
        yield from self._thread.flush(address, len(data))

    def clear(self, place: EntryPlace) -> Code:
        """Have an entry hold nothing."""
        return self.persist(place, bytes(HEAD))
