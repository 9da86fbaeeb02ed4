"""Orion: clients write pages to data stores, and commit a file's log at the metadata server at the same time.

Source: Yang, Izraelevitz, Swanson, FAST'19, as a reader's notes of it tell (the paper was not at hand, its code is not
public), and Du et al., ICPP'21, sections 3 (IMM) and 7.2. A write goes to new pages (copy on write): WRITE with
immediate to each data store, and at once, speculatively, the log's new entry to the metadata server (mds). A data store
that receives flushes the page, notes the immediate, and acknowledges to the mds by a small WRITE. The mds waits for the
acknowledgements, appends the entry by non-temporal stores, moves the tail, and answers (strong); or it does not wait,
as ext4's writeback does (weak). A read is a READ of the tail; of the entry, if that is newer than what the client
knows; of the page, if it has none in its cache.

What the paper leaves open is read so. A file is one extent of whole pages, of which a write fills what it has bytes
for; pages are not used again in a run. A client gets chunks of pages from the mds, one page of the same number on each
of the ``replicas`` data stores. The log has the entries of all files, each with the tail before it. Commits are served
one after the other: what waits for acknowledgements holds up those behind. Clients' commits are appended as they come;
a client that finds another's entry before its own reads that and does its write again on top, which here, where a write
is of the whole file, is the entry that it has already appended: nothing is sent. What is enough: the acknowledgements
of all data stores that are not lost; that a machine is lost is known to all. Where acknowledgements stay away for
longer than a dead peer is waited for, the commit is dropped, and the client does all of it again.

A mirror of the mds, if there is one, has each entry, and behind it each tail, over the same primitive, before the mds
itself; when the mds is lost it serves. Before its first request then it destroys the mds's queue pairs, and flushes
what has come by them: what was under way is there, and nothing of it comes later; so it does with those of before when
the mds connects again. After a failure the log's tails count, and commits that were not processed are dropped; an mds
whose power comes back has the mirror follow it. A data store whose power comes back fetches pages from the others that
they have noted as flushed and it has not. Who recovers waits for a machine that is away and not lost. Over a primitive
that needs no CPU of the data store, or answers the client by itself, nobody acknowledges to the mds: the client waits
for the primitive's end, then commits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from typing import ClassVar

from typing_extensions import override

from ....models.cpu import Thread
from ....models.persist.requester import Ticket
from ....models.persist.service import ServiceEnd
from ....models.primitives.messages import WINDOW_BITS
from ....models.primitives.order import Range
from ....models.system import Node, System
from ....models.verbs import QueuePair
from ....sim.bytespace import LINE_BYTES, round_up
from ...guarantees import Claims, Condition
from ...layout import WORD, number_in, word_of
from ...naming import Option
from ...parts.listening import Listening
from ...parts.onesided import Poster
from ...parts.rpc import Listener
from ...scheme import OperationFailed, Request, Role, Scheme, Sizes
from ..machines import (
    FAILURES,
    PAGE_BYTES,
    Code,
    DataLink,
    FileClient,
    MachineLink,
    MachineLost,
    ToldService,
    check_place,
    check_refusal,
    fill,
    replies,
)  # fmt: skip
from .mds import DROPPED, NOTED, NOTES, Appended, Commit, LogEntry, OrionMetadata, PageChunk


class Orion(Scheme, name="orion"):
    """A WRITE with immediate and a small WRITE for each data store, one call."""

    title = "Orion: pages by WRITE with immediate, flushed and acknowledged to the metadata server, which appends"
    paper = "Yang et al., FAST'19 (Orion)"
    section = "a reader's notes; Du et al., ICPP'21, sections 3 and 7.2"
    operations = ("put", "get")
    updates = frozenset({"put"})
    claims: ClassVar[Claims] = {
        condition: "all power; mds power; mds process; ds power; ds process; ds lost"
        for condition in (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE)
    }
    faults: ClassVar = {
        "mds": ("power", "process", "lost"), "ds": ("power", "process", "lost"), "client": ("power", "process"),
        "all": ("power",),
    }  # fmt: skip
    over = "write-imm-cpu-flush"
    options: ClassVar[dict[str, Option]] = {
        "consistency": Option("strong", choices=("strong", "weak"), source="Du et al., ICPP'21, section 7.2; notes",
                              text="whether a commit waits for the data"),
        "replicas": Option(2, at_least=1, at_most=8, source="assumption: the fewest of which one may be lost",
                           text="how many data stores have each page"),
        "mds": Option(1, at_least=1, at_most=2, source="notes: a mirror is optional, and works as Mojim's",
                      text="how many metadata servers there are: of two the second one is the mirror"),
        "chunk": Option(4, at_least=1, at_most=512, small=2, source="assumption: notes name chunks and no size",
                        text="how many pages a client gets by a call"),
    }  # fmt: skip

    def __init__(self, system: System, sizes: Sizes) -> None:
        chunk = int(self.option("chunk"))
        files, clients = len(sizes.objects), sizes.clients
        self.pages = files + 2 * sizes.updates + 2 * chunk * (clients + 1)
        """So many there are: some writes are done again, and some pages stay with dead clients."""
        self.page_room = round_up(sizes.value_bytes, PAGE_BYTES)
        self.entries = files + 2 * sizes.updates + 1
        super().__init__(system, sizes)

    @override
    @classmethod
    def composed(cls) -> None:
        check_place(cls)
        if cls.option("consistency") == "weak":
            cls.claims = {}
        if cls.option("mds") == 2:
            cls.claims = {condition: f"{where}; mds lost" for condition, where in cls.claims.items()}

    @property
    def acknowledges(self) -> bool:
        """Whether data stores acknowledge to the mds; else the primitive tells the client."""
        return replies(self.primitive)

    @property
    def serving(self) -> OrionMetadata | None:
        """The mds, or its mirror once that is lost."""
        return next((mds for mds in self.roles["mds"] if mds not in self.lost("mds")), None)

    def stores(self) -> list[Orion.Ds]:
        """The data stores that are not lost."""
        return [ds for ds in self.roles["ds"] if ds not in self.lost("ds")]

    class Client(FileClient):
        """A machine without persistent memory, whose processes write and read files."""

        scheme: Orion

        @override
        def connect(self, thread: Thread) -> OrionSession:
            return OrionSession(thread, self.node, self.scheme)

        @override
        def write(self, session: OrionSession, number: int, value: bytes) -> Code:
            """Data to all data stores, and the commit at the same time; again if that was dropped."""
            scheme = self.scheme
            strong, told = scheme.option("consistency") == "strong", scheme.acknowledges
            while True:
                page = yield from self.new_page(session)
                under_way = yield from self.post(session, page, value)
                if strong and not told:
                    for link, ticket in under_way:
                        with suppress(MachineLost):
                            yield from link.wait(ticket)
                awaited = int(strong and told)
                commit = {"number": number, "length": len(value), "page": page, "awaited": awaited}
                reply = yield from session.metadata.call(Commit, **commit)
                if reply != DROPPED:
                    break
                session.thread.count("commits dropped")
                yield from session.restore()
            appended = Appended.unpack(reply)
            yield from self.arbitrate(session, number, appended.before)
            session.known[number] = appended.tail, value

        def new_page(self, session: OrionSession) -> Code:
            """A page that nobody has used."""
            if not session.chunk:
                pages = int(self.scheme.option("chunk"))
                first = number_in((yield from session.metadata.call(PageChunk, pages=pages)))
                session.chunk = list(range(first, min(first + pages, self.scheme.pages)))
                if not session.chunk:
                    raise OperationFailed("no page is left")
            return session.chunk.pop(0)

        def post(self, session: OrionSession, page: int, value: bytes) -> Code:
            """Post a page to each data store that is not lost; returns what may be waited for."""
            under_way: list[tuple[StoreLink, Ticket]] = []
            for link in session.stores:
                if not link.lost:
                    under_way.append((link, (yield from link.requester.post([(link.machine.address(page), value)]))))
            if not under_way:
                raise MachineLost("no data store is left")
            return under_way

        def arbitrate(self, session: OrionSession, number: int, before: int) -> Code:
            """Read the entries that others have appended between what the client knew and its own."""
            known = session.known[number][0] if number in session.known else before
            if before > known:
                session.thread.count("arbitrated")
            while before > known:
                before = (yield from session.metadata.entry(before)).before

        @override
        def read(self, session: OrionSession, number: int) -> Code:
            """The tail, then what is newer than the client's own."""
            tail = yield from session.metadata.tail(number)
            known, value = session.known.get(number, (0, b""))
            if tail == known:
                return value
            entry = yield from session.metadata.entry(tail)
            for link in session.stores:
                with suppress(MachineLost):
                    value = yield from link.read(link.machine.address(entry.page), link.machine.key, entry.length)
                    session.known[number] = tail, value
                    return value
            raise MachineLost("no data store is left")

    class Ds(Role, memory=("dram", "pm"), counted_by="replicas"):
        """A data store: pages, and a note of each page that it has flushed."""

        scheme: Orion

        def __init__(self, scheme: Orion, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.pm = node.memory["pm"]
            self.length = scheme.pages * scheme.page_room
            self.notes_length = round_up(scheme.pages * WORD)
            self.read_bytes = max(scheme.page_room, self.notes_length)
            self.pages = self.pm.allocate(self.length, "pages", item_bytes=scheme.page_room, align=PAGE_BYTES)
            self.notes = self.pm.allocate(self.notes_length, "notes", item_bytes=WORD, align=LINE_BYTES)

        @override
        def begin(self) -> None:
            scheme = self.scheme
            self.service = ToldService(scheme.primitive, self.node, self.sizes.value_bytes, self.received)
            step = (1 << WINDOW_BITS) // scheme.page_room * scheme.page_room
            for at in range(0, self.length, step):  # an immediate names a byte of such a window
                self.service.register(self.pages + at, min(step, self.length - at))
            self.listener = Listener(self.node, {})
            self.key = self.listener.register(self.pages, self.length).key
            self.notes_key = self.listener.register(self.notes, self.notes_length).key
            self.opened = Listening(self.node)
            """For other data stores: what is here can be fetched whether clients are served or not."""
            self.opened.listen()

        @override
        def start(self) -> None:
            thread = self.node.thread(0, self.node.name)
            self.poster = Poster(thread, self.node, WORD, slots=8)
            self.ways: dict[OrionMetadata, QueuePair] = {}
            if self.service.needs_thread:
                self.node.process(self.node.name).start(self.service.serve(thread))
            self.listener.listen()

        def address(self, page: int) -> int:
            """Where a page is."""
            return self.pages + page * self.scheme.page_room

        # its CPU: a page that has come and is flushed ---------------------------------------------------------------
        def received(self, thread: Thread, end: ServiceEnd, update: Range) -> Code:
            """Note the page, then acknowledge it."""
            page = (update[0] - self.pages) // self.scheme.page_room
            yield from self.note(thread, page)
            mds = self.scheme.serving
            if mds is not None:
                yield from self.acknowledge(mds, page)

        def note(self, thread: Thread, page: int) -> Code:
            """Remember that a page is flushed."""
            yield from thread.store(self.notes + page * WORD, NOTED)
            yield from thread.flush(self.notes + page * WORD, WORD)

        def acknowledge(self, mds: OrionMetadata, page: int) -> Code:
            """A small WRITE to the mds; to one that has begun again on a new queue pair."""
            way = self.ways.get(mds)
            if way is None or (way.error and mds.listener.listening):
                way = self.ways[mds] = self.poster.connect(mds.listener.door)
            posted = yield from self.poster.write(way, mds.acknowledgement(page, self.number), mds.acks_key, NOTED)
            self.poster.drop([posted])

        # after a failure: pages that others have flushed ------------------------------------------------------------
        @override
        def recover(self, thread: Thread) -> Code:
            """Fetch what another data store has noted and this one has not."""
            for other in self.scheme.stores():
                if other is self:
                    continue
                while other in self.scheme.stores():
                    try:
                        yield from self.recover_from(thread, other)
                    except FAILURES as error:  # it has failed again
                        check_refusal(error)
                    else:
                        break

        def recover_from(self, thread: Thread, other: Orion.Ds) -> Code:
            """Fetch what one data store has, once it is there; nothing of one that is lost meanwhile."""
            while other in self.scheme.stores() and not other.opened.listening:
                yield from other.opened.until_listening(thread)
            if other not in self.scheme.stores():
                return
            notes = yield from thread.load(self.notes, self.notes_length)
            reads = other.listener.accept(thread, self.node, self.read_bytes)
            theirs = yield from reads.read(other.notes, other.notes_key, self.notes_length)
            for page in range(self.scheme.pages):
                at = page * WORD
                if notes[at : at + WORD] != NOTED and theirs[at : at + WORD] == NOTED:
                    data = yield from reads.read(other.address(page), other.key, self.sizes.value_bytes)
                    yield from thread.store(self.address(page), data)
                    yield from thread.flush(self.address(page), len(data))
                    yield from self.note(thread, page)

    Mds = OrionMetadata

    @override
    def recovery(self) -> Iterator[Role]:
        """The mirror before the mds, which has it follow."""
        return reversed(list(super().recovery()))

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names, lines = self.sizes.objects, -(-len(objects) * WORD // LINE_BYTES)

        def entry_of(number: int) -> bytes:
            return LogEntry.pack(number=number, length=len(objects[names[number]]), page=number, before=0)

        for ds in self.roles["ds"]:
            fill(ds.pm, ds.pages, self.page_room, len(names), lambda page: objects[names[page]])
            fill(ds.pm, ds.notes, LINE_BYTES, lines, lambda line: NOTED * min(NOTES, len(names) - line * NOTES))
        for mds in self.roles["mds"]:
            fill(mds.pm, mds.tails, LINE_BYTES, len(names), lambda number: word_of(number + 1))
            fill(mds.pm, mds.log, LINE_BYTES, len(names), entry_of)
            fill(mds.pm, mds.given, LINE_BYTES, 1, lambda _: word_of(len(names)))
        self.roles["mds"][0].last = len(names)

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class StoreLink(DataLink):
    """A client process's way to a data store."""

    role = "ds"
    machine: Orion.Ds


class MetadataLink(MachineLink):
    """A client process's way to the machine that serves metadata: the mds, or its mirror once that is lost."""

    role = "mds"
    machine: OrionMetadata

    def tail(self, number: int) -> Code:
        """READ a file's tail."""
        return number_in((yield from self.read(self.machine.tail(number), self.machine.key, WORD)))

    def entry(self, tail: int) -> Code:
        """READ an entry."""
        return LogEntry.unpack((yield from self.read(self.machine.entry(tail), self.machine.key, LogEntry.size)))

    @property
    @override
    def lost(self) -> bool:
        return self.machine.scheme.serving is None

    @override
    def restore(self) -> Code:
        serving = self.machine.scheme.serving
        if serving is not None and serving is not self.machine:
            self.machine, self.failed = serving, True
        yield from super().restore()


class OrionSession:
    """A client process: its links, the chunk of pages that it has left, and what it knows of files."""

    def __init__(self, thread: Thread, node: Node, scheme: Orion) -> None:
        self.thread = thread
        self.metadata = MetadataLink(thread, node, scheme.serving or scheme.roles["mds"][0])
        self.stores = [StoreLink(thread, node, ds) for ds in scheme.roles["ds"]]
        self.chunk: list[int] = []
        self.known: dict[int, tuple[int, bytes]] = {}
        """By file: the newest tail that it has seen, and the page's content then: its cache."""

    def restore(self) -> Code:
        """Connect again where a link is broken; wait for machines that come back."""
        for link in (*self.stores, self.metadata):
            yield from link.restore()
