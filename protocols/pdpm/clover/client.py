"""The clients: a get walks a chain, a put writes a free buffer and links it, both without the metadata server.

Source: Tsai et al., ATC'20, sections 5.1 and 5.2, figure 2c. A get is one round trip and a put two where the cursor is
up to date. Buffers are fetched, and versions retired, by a thread in the background.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from typing_extensions import override

from ....models.cpu import Signal, Thread
from ....models.cpu.smoothing import SmoothedTime
from ....models.system import Node
from ...parts.onesided import Posted, VerbsError
from ...scheme import OperationFailed, OutcomeUnknown, Request, Role
from ..data import Code, Links
from .header import DELETED, ChainCursor, HeaderWord, Pointer, Version, header, pack_shortcut, pack_version
from .library import Cursors, Library, Retired
from .messages import (
    AllocateBuffers,
    Create,
    Delete,
    OpenKey,
    Retire,
    pack_changes,
    pack_words,
    unpack_chain,
    unpack_pointers,
)
from .replicated import end_copies, link_copies, take_tail
from .servers import Servers
from .shared import CloverParts
from .walk import Aborted, KeyDeleted, NewestVersion, StaleCursor, Walk


class Latest(NamedTuple):
    """The newest version of a key, and its value where that was read."""

    cursor: ChainCursor
    copy: Pointer
    """The copy that was read."""
    value: bytes


@dataclass
class CloverSession:
    """A client process: its thread, its queue pairs, its way to the metadata server."""

    thread: Thread
    links: Links
    servers: Servers


class CloverClient(Role, invokes=True, background=1):
    """A machine whose processes get and put; they share a library's state."""

    scheme: CloverParts

    def __init__(self, scheme: CloverParts, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pool, self.copies = scheme.pool, scheme.copies

    @override
    def begin(self) -> None:
        scheme = self.scheme
        first = scheme.loaded_chain if not scheme.failures else lambda _: None
        cursors = Cursors(scheme.cached_keys(), first, recent=scheme.option("evict") == "lru")
        self.library = Library(self.pool.nodes, self.copies, cursors, scheme.batch)
        self.trip = SmoothedTime()

    @override
    def connect(self, thread: Thread) -> CloverSession:
        slots = 8 + 2 * self.copies
        links = Links(thread, self.node, self.scheme, self.pool.version_bytes, slots)
        return CloverSession(thread, links, self.servers(thread))

    def servers(self, thread: Thread) -> Servers:
        """A thread's way to the metadata servers."""
        epoch = str(self.scheme.option("epoch"))
        return Servers(thread, self.node, self.scheme.roles["metadata"], self.library, epoch)

    # in the background -----------------------------------------------------------------------------------------------
    @override
    def start(self) -> None:
        self.library.wanted = Signal(self.system.clock)
        thread = self.background_thread(0, f"{self.node.name} buffers")
        self.library.cursors.first_until = thread.deadline(str(self.scheme.option("epoch")))
        self.node.process(self.node.name).start(self.fetch_and_retire(thread))

    def fetch_and_retire(self, thread: Thread) -> Code:
        """Whenever there is enough for a message, and a server is left: retire versions, fetch buffers."""
        library, servers = self.library, None
        assert library.wanted is not None
        while library.served:
            yield from thread.block(library.wanted)
            servers = servers or self.servers(thread)
            since = thread.deadline("0 ns")
            try:
                while library.is_low():
                    yield from self.retire(thread, servers)
                    if (yield from self.fetch(servers)):
                        since = thread.deadline("0 ns")
                    else:  # none is free: asked again after twice the time
                        yield from thread.sleep_again(since)
            except OutcomeUnknown:
                library.served = False
                library.fill([])

    def retire(self, thread: Thread, servers: Servers) -> Code:
        """Retire the versions that have been superseded longest ago."""
        library = self.library
        some = [library.retired[turn] for turn in range(min(len(library.retired), self.scheme.batch))]
        if some:
            changes = [(one.key, one.generation, (one.old, one.new)) for one in some]
            yield from servers.call(Retire, retired=pack_changes(changes, self.copies))
            for _ in some:
                library.retired.popleft()

    def fetch(self, servers: Servers) -> Code:
        """Fetch buffers; whether there were any, or none is needed."""
        library = self.library
        if not library.needed():
            return True
        loads = [now - before for now, before in zip(library.loads, library.told, strict=True)]
        reply = yield from servers.call(AllocateBuffers, words=pack_words([*library.missing(), *loads]))
        library.told = [before + load for before, load in zip(library.told, loads, strict=True)]
        pointers = unpack_pointers(reply[1:])
        library.fill(pointers)
        return bool(pointers)

    # operations -------------------------------------------------------------------------------------------------------
    @override
    def perform(self, session: CloverSession, request: Request) -> Code:
        """A get is repeated when a data node is there again; of a put that was cut short nobody knows."""
        step = request.step
        key = self.sizes.objects.index(step.object)
        while True:
            try:
                if step.f == "put":
                    assert step.value is not None
                    return (yield from self.put(session, key, step.value))
                if step.f == "delete":
                    return (yield from self.delete(session, key))
                return (yield from self.get(session, key))
            except VerbsError as error:
                if not error.disconnected:
                    raise
                yield from session.links.restore()
                if step.f != "get":
                    raise OutcomeUnknown(str(error)) from error

    @override
    def leave(self, session: CloverSession) -> Code:
        """Retire what is left: a version that nobody retires keeps all behind it."""
        yield from ()
        self.library.leaving = True
        self.wake()

    def choose(self, links: Links, version: Version) -> int:
        """The copy that is read: the first one, or that on the least used node; of nodes that are not lost.

        Raises OutcomeUnknown where all are.
        """
        standing = [copy for copy, pointer in enumerate(version) if not links.is_lost(pointer.node)]
        if not standing:
            raise OutcomeUnknown("the nodes of all its copies are lost")
        copy = standing[0]
        if self.scheme.option("balance") == "reads and writes":
            copy = min(standing, key=lambda one: (self.library.loads[version[one].node], one))
        return copy

    def find(self, session: CloverSession, key: int, start: ChainCursor | None, *, value: bool) -> Code:
        """The newest version of a key, from ``start`` on or from the machine's cursor; None if there is no such key."""
        thread, last = session.thread, None
        while True:
            asked = start is None and (start := self.library.cursors.find(key)) is None
            if asked:
                thread.count("misses")
                start = yield from self.open(session, key)
                if start is None:
                    return None
            assert start is not None
            walk = Walk(
                session.links, self.scheme.geometry, key, self.sizes.value_bytes if value else 0, self.choose,
                self.trip if value else None, checks=self.scheme.checks,
            )  # fmt: skip
            try:
                found: NewestVersion = yield from walk.from_cursor(start)
            except Aborted:
                thread.count("aborts")
            except StaleCursor:
                thread.count("stale cursors")
                self.library.cursors.drop(key)
                if asked and start == last:
                    raise OperationFailed("the head of its chain is not there") from None
                last, start = (start if asked else None), None
            except KeyDeleted as end:
                yield from self.tell_deleted(session, key, ChainCursor(end.version, start.generation))
                start = None
            else:
                if found.hops is None:
                    thread.count("shortcuts")
                elif found.hops:
                    thread.count("hops", found.hops)
                latest = ChainCursor(found.version, start.generation)
                self.move(thread, key, latest)
                return Latest(latest, found.pointer, found.value)

    def open(self, session: CloverSession, key: int) -> Code:
        """Ask the metadata server for the head of a key's chain."""
        reply = yield from session.servers.call(OpenKey, key=key)
        return unpack_chain(reply, self.copies)

    def move(self, thread: Thread, key: int, cursor: ChainCursor) -> None:
        """The cursor is this one from now on, for as long as it is used now and then."""
        self.library.cursors.move(key, cursor, thread.deadline(str(self.scheme.option("epoch"))))

    def get(self, session: CloverSession, key: int) -> Code:
        """The value of the newest version."""
        found = yield from self.find(session, key, None, value=True)
        if found is None:
            return None
        self.note(found.copy, self.pool.version_bytes)
        return found.value

    def note(self, pointer: Pointer, length: int) -> None:
        """So many bytes went to or from a node."""
        self.library.loads[pointer.node] += length

    def put(self, session: CloverSession, key: int, value: bytes) -> Code:
        """Write a free buffer, then link it behind the newest version; a key that is not there is created."""
        new: Version | None = None
        while new is None or not self.library.holds(new):  # else they were forgotten while a server was looked for
            new = yield from self.buffers(session, key)
            tail = self.library.cursors.find(key)
            if tail is None:
                session.thread.count("misses")
                tail = yield from self.open(session, key)
        written = yield from session.links.post_all(self.copies_of(new, value))
        if tail is None or self.copies == 1:
            yield from session.links.settled(written)
        while True:
            if tail is None:
                tail = yield from self.create(session, key, new)
                if tail is not None and tail.version == new:
                    break
            else:
                linked, following = yield from self.linking(session, key, tail, new, written)
                if linked:
                    self.library.retired.append(Retired(key, tail.generation, tail.version, new))
                    break
                session.thread.count("retries")
                found = yield from self.find(session, key, following, value=False)
                tail = None if found is None else found.cursor
            if not self.library.holds(new):
                return (yield from self.put(session, key, value))
        self.library.writing.difference_update(new)
        yield from self.publish(session, key, ChainCursor(new, tail.generation))
        self.wake()

    def linking(
        self, session: CloverSession, key: int, tail: ChainCursor, new: Version, written: Sequence[Posted]
    ) -> Code:
        """Link a version behind another: whether that was the newest one, and else from where to look for it, if not
        from the cursor. ``written`` are the WRITEs of the new version, which may be under way.
        """
        if self.copies == 1:
            return (yield from self.link(session, key, tail, new))
        marked = yield from take_tail(self, session, key, tail, written)
        if marked:
            yield from link_copies(self, session, tail.version, new)
        return marked, None if marked else tail

    def buffers(self, session: CloverSession, key: int) -> Code:
        """Free buffers for a version; waits until there are some."""
        library = self.library
        if not library.in_contact():
            yield from session.servers.call(AllocateBuffers, words=pack_words([0] * 2 * self.pool.nodes))
        balanced = self.scheme.option("balance") != "none"
        while (new := library.take(self.pool.copies_of(key), balanced=balanced, lost=session.links.is_lost)) is None:
            if all(map(session.links.is_lost, range(self.pool.nodes))):
                raise OutcomeUnknown("all data nodes are lost")
            if not library.served:
                raise OutcomeUnknown("no metadata server is left, and no free buffer")
            session.thread.count("waits for buffers")
            signal = library.wait(session.thread)
            self.wake()
            yield from session.thread.wait(signal)
        return new

    def wake(self) -> None:
        """Have the thread in the background work, if there is enough for it."""
        if self.library.is_low() and self.library.wanted is not None:
            self.library.wanted.set()

    def copies_of(self, new: Version, value: bytes) -> Iterator[tuple[Any, bytes]]:
        """What is written for a version, to each of its buffers."""
        for pointer in dict.fromkeys(new):
            copy = new.index(pointer)
            self.note(pointer, self.pool.version_bytes)
            yield self.scheme.geometry.buffer(pointer), header(new, copy) + value

    def create(self, session: CloverSession, key: int, new: Version) -> Code:
        """Have the metadata server know a key; returns its head.

        Raises OutcomeUnknown where it has to be asked again, and the buffers may be others' by now.
        """
        reply = None
        while reply is None:
            yield from session.servers.reach()
            if not self.library.holds(new):
                raise OutcomeUnknown("its buffers may be others' by now")
            reply = yield from session.servers.ask(Create, key=key, version=pack_version(new, self.copies))
        return unpack_chain(reply, self.copies)

    def link(self, session: CloverSession, key: int, tail: ChainCursor, new: Version) -> Code:
        """Link a version behind another by CAS: whether that was the newest one, and else what follows it, if anything
        does.
        """
        primary = tail.version[0]
        free, linked = HeaderWord(None, primary.version), HeaderWord(new[0], primary.version)
        place = self.scheme.geometry.buffer(primary)
        there = yield from session.links.compare_and_swap(place, free.pack(), linked.pack())
        if there == free.pack():
            return True, None
        word = HeaderWord.unpack(there)
        if word.own != primary.version:
            self.library.cursors.drop(key)
        elif word.flags & DELETED:
            yield from self.tell_deleted(session, key, tail)
        elif word.next is not None:
            return False, ChainCursor((word.next,), tail.generation)
        return False, None

    def publish(self, session: CloverSession, key: int, new: ChainCursor) -> Code:
        """Move cursor and shortcut to a version that has been linked."""
        self.move(session.thread, key, new)
        shortcut = self.scheme.geometry.shortcut(key)
        if not session.links.is_lost(shortcut.node):
            yield from session.links.hint(shortcut, pack_shortcut(new, self.copies))

    def delete(self, session: CloverSession, key: int) -> Code:
        """Mark the newest version as the last one, then have the metadata servers forget the key."""
        start = None
        while (found := (yield from self.find(session, key, start, value=False))) is not None:
            tail: ChainCursor = found.cursor
            if (yield from self.end(session, key, tail)):
                yield from self.tell_deleted(session, key, tail)
                return
            start = None

    def end(self, session: CloverSession, key: int, tail: ChainCursor) -> Code:
        """Mark a version as the last one of its key; whether it was the newest one."""
        if self.copies > 1:
            marked = yield from take_tail(self, session, key, tail, ())
            if marked:
                yield from end_copies(self, session, tail.version)
            return marked
        free = HeaderWord(None, tail.version[0].version)
        place = self.scheme.geometry.buffer(tail.version[0])
        there = yield from session.links.compare_and_swap(place, free.pack(), free._replace(flags=DELETED).pack())
        return there == free.pack()

    def tell_deleted(self, session: CloverSession, key: int, end: ChainCursor) -> Code:
        """Tell the metadata server that a key's chain ends with this version, as whoever finds it does."""
        self.library.cursors.drop(key)
        version = pack_version(end.version, self.copies)
        yield from session.servers.call(Delete, key=key, generation=end.generation, version=version)
