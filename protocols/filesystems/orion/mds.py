"""Orion's metadata server: a log with the entries of all files, each file's tail, and its mirror."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from typing_extensions import override

from ....models.cpu import Thread
from ....models.persist.service import Service
from ....models.system import Node
from ....sim.bytespace import LINE_BYTES
from ...layout import U32, U64, WORD, Layout, number_in, word_of
from ...parts.rpc import Listener
from ...scheme import Role
from ..machines import (
    FAILURES,
    PAGE_BYTES,
    SLOTS,
    Code,
    DataLink,
    check_refusal,
    slot_bytes,
)  # fmt: skip

if TYPE_CHECKING:
    from .orion import Orion

NOTES = LINE_BYTES // WORD
PATIENCE = "600 ms"
"""How long the mds waits for acknowledgements: longer than an adapter takes to give up on a dead peer, which is 8 times
67 ms (IBTA 9.7.6.1.3 with timeout 14 and 7 retries)."""
DROPPED = b"dropped"
"""The reply to a commit that was not appended."""
NOTED = word_of(1)
"""What a data store notes of a page that it has flushed, and tells the mds."""


class PageChunk(Layout):
    """A client wants pages. The reply is the number of the first."""

    pages = U32()


class Commit(Layout):
    """An entry for a file's log."""

    number = U32()
    length = U32()
    page = U64()
    awaited = U32()
    """1: once the data stores have acknowledged the page; 0: at once."""


class LogEntry(Layout):
    """An entry of the log: a line."""

    number = U32()
    length = U32()
    page = U64()
    before = U64()
    """The file's tail before it."""


class Appended(Layout):
    """The reply to a commit: the file's tail before it, and now."""

    before = U64()
    tail = U64()


class MirrorLink(DataLink):
    """The mds's way to its mirror."""

    role = "mds"
    machine: OrionMetadata

    @override
    def replace(self) -> Code:
        yield from self.machine.service.fence()


class OrionMetadata(Role, memory=("dram", "pm"), cores=2, counted_by="mds"):
    """A metadata server, or its mirror: the log, a tail for each file, the first page that is not given out."""

    scheme: Orion

    def __init__(self, scheme: Orion, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.read_bytes = LINE_BYTES
        lines = len(self.sizes.objects) + scheme.entries + 1
        self.length = lines * LINE_BYTES
        self.tails = self.pm.allocate(self.length, "metadata", item_bytes=LINE_BYTES, align=PAGE_BYTES)
        self.log = self.tails + len(self.sizes.objects) * LINE_BYTES
        self.given = self.log + scheme.entries * LINE_BYTES

    @override
    def begin(self) -> None:
        scheme = self.scheme
        self.last: int | None = None
        """The newest tail of all files; None: their tails say."""
        self.took_over = False
        """Of a mirror: whether it serves, and has let nobody else write here any more."""
        self.listener = Listener(self.node, {PageChunk: self.on_chunk, Commit: self.on_commit})
        self.key = self.listener.register(self.tails, self.length).key
        self.service = Service(scheme.primitive, self.node, slots=SLOTS, slot_bytes=slot_bytes(LINE_BYTES))
        self.service.register(self.tails, self.length)
        length = scheme.pages * int(scheme.option("replicas")) * WORD
        self.acks = self.node.memory["dram"].allocate(length, "acknowledgements", align=LINE_BYTES)
        self.acks_key = self.listener.register(self.acks, length).key
        self.link: MirrorLink | None = None

    @override
    def start(self) -> None:
        process = self.node.process(self.node.name)
        process.start(self.listener.serve(self.node.thread(0, self.node.name)))
        if self.service.needs_thread:
            process.start(self.service.serve(self.node.thread(1, f"{self.node.name} primitive")))
        self.link = None
        self.listener.listen()

    # where things are ---------------------------------------------------------------------------------------------
    def tail(self, number: int) -> int:
        """Where a file's tail is."""
        return self.tails + number * LINE_BYTES

    def entry(self, tail: int) -> int:
        """Where the entry is that a tail names; they count from 1."""
        return self.log + (tail - 1) * LINE_BYTES

    def acknowledgement(self, page: int, ds: int) -> int:
        """Where a data store acknowledges a page."""
        return self.acks + (page * int(self.scheme.option("replicas")) + ds) * WORD

    def mirror(self) -> OrionMetadata | None:
        """The machine that follows this one, if it is not lost."""
        behind = self.scheme.roles["mds"][self.number + 1 :]
        return next((mds for mds in behind if mds not in self.scheme.lost("mds")), None)

    # requests -----------------------------------------------------------------------------------------------------
    def on_chunk(self, thread: Thread, request: PageChunk) -> Code:
        """Give out pages that nobody has."""
        yield from self.shut_out(thread)
        first = number_in((yield from thread.load(self.given, WORD)))
        yield from self.persist(thread, lambda of: of.given, word_of(first + request.pages))
        return word_of(first)

    def on_commit(self, thread: Thread, request: Commit) -> Code:
        """Append an entry, once the data stores have acknowledged its page where that is awaited."""
        yield from self.shut_out(thread)
        if request.awaited and not (yield from self.acknowledged(thread, request.page)):
            return DROPPED
        if self.last is None:
            self.last = yield from self.newest_tail(thread)
        tail = self.last = self.last + 1
        before = number_in((yield from thread.load(self.tail(request.number), WORD)))
        entry = LogEntry.pack(number=request.number, length=request.length, page=request.page, before=before)
        yield from self.append(thread, tail, entry)
        return Appended.pack(before=before, tail=tail)

    def shut_out(self, thread: Thread) -> Code:
        """A mirror's first request: what the lost mds has sent comes now or never, and what has come is flushed."""
        if self.number and not self.took_over:
            self.took_over = True
            yield from self.service.fence()
            yield from thread.flush(self.tails, self.length)

    def append(self, thread: Thread, tail: int, entry: bytes) -> Code:
        """The entry, then the file's tail."""
        number = LogEntry.unpack(entry).number
        yield from self.persist(thread, lambda of: of.entry(tail), entry)
        yield from self.persist(thread, lambda of: of.tail(number), word_of(tail))

    def acknowledged(self, thread: Thread, page: int) -> Code:
        """Wait for a page's acknowledgements by all data stores that are not lost; whether they have come."""
        deadline = thread.deadline(PATIENCE)
        while True:
            missing = []
            for ds in self.scheme.stores():
                place = self.acknowledgement(page, ds.number)
                if (yield from thread.load(place, WORD)) != NOTED:
                    missing.append((place, bytes(WORD)))
            if not missing or deadline.passed:
                return not missing
            yield from thread.spin(missing, deadline)

    def newest_tail(self, thread: Thread) -> Code:
        """The newest of all files' tails."""
        newest = 0
        for number in range(len(self.sizes.objects)):
            newest = max(newest, number_in((yield from thread.load(self.tail(number), WORD))))
        return newest

    def persist(self, thread: Thread, place: Callable[[OrionMetadata], int], data: bytes) -> Code:
        """Have the mirror hold a few bytes, then this machine."""
        if (mirror := self.mirror()) is not None and self.link is None:
            yield from self.reach(thread, mirror)
        if self.link is not None:
            yield from self.link.deliver(place(self.link.machine), data)
        yield from thread.ntstore(place(self), data)
        yield from thread.sfence()

    def reach(self, thread: Thread, mirror: OrionMetadata) -> Code:
        """Connect to the mirror, once it is there; nothing for one that is lost, or is meanwhile. From then on it lets
        nobody in that has connected before.
        """
        while mirror is self.mirror() and not mirror.listener.listening:
            yield from mirror.listener.until_listening(thread)
        if mirror is self.mirror():
            yield from mirror.service.fence()
            self.link = MirrorLink(thread, self.node, mirror)

    # after a failure: file by file --------------------------------------------------------------------------------
    @override
    def recover(self, thread: Thread) -> Code:
        """Have the mirror's tails, and the pages given out, be those of the mds; once more where the other one fails
        meanwhile.
        """
        while True:
            try:
                yield from self.recover_with_other(thread)
            except FAILURES as error:
                check_refusal(error)
            else:
                return

    def recover_with_other(self, thread: Thread) -> Code:
        """Of a mirror: follow the mds if that stands. Of an mds: have the mirror follow, once that is there."""
        leader = next((mds for mds in self.scheme.standing("mds") if mds.number < self.number), None)
        if leader is None and (mirror := self.mirror()) is not None:
            yield from self.reach(thread, mirror)
        other = leader or self.mirror()
        if other is None:
            return
        reads = other.listener.accept(thread, self.node, LINE_BYTES)
        for number in range(len(self.sizes.objects)):
            mine = yield from thread.load(self.tail(number), WORD)
            theirs = yield from reads.read(other.tail(number), other.key, WORD)
            if mine != theirs:
                tail = number_in(theirs if leader else mine)
                if leader:
                    entry = yield from reads.read(leader.entry(tail), leader.key, LogEntry.size)
                else:
                    entry = yield from thread.load(self.entry(tail), LogEntry.size)
                yield from self.append(thread, tail, entry)
        mine = yield from thread.load(self.given, WORD)
        theirs = yield from reads.read(other.given, other.key, WORD)
        if mine != theirs:
            yield from self.persist(thread, lambda of: of.given, theirs if leader else mine)
