"""The metadata server: it keeps the head of each key's chain, gives out free buffers, and takes retired ones back.

Source: Tsai et al., ATC'20, sections 5.2 and 5.4. It never talks to data nodes while all goes well. What it keeps in
its persistent memory, and on its backups, is keys and heads; all else it finds out by reading chains.

What the paper leaves open is read so. A head that has moved is durable, and known to the backups, before a buffer from
before it is given out again (``heads=at create``: only the first head ever is, which is the letter of section 5.4). A
head of several copies moves as one: a row has two lines, of which the one that does not count is stored. A
server that has begun again serves when it has read all chains. Buffers that are in no chain and in nobody's hands
wait for the epoch, and are read for their GC version then; a version in a buffer of which nothing has been heard since
the server began, and that is retired before, was linked meanwhile. A backup takes over when the first client comes to
it (``backups.py`` has which one may); the server that was before only keeps a copy from then on. After the power
failure of all machines the chains are cut where a version is missing, half-made links completed, heads and shortcuts
moved to the newest versions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from typing_extensions import override

from ....models.cpu import Signal, Thread
from ....models.system import Node
from ...parts.locks import Locks
from ...parts.rpc import PATIENCE, Connection, Listener
from ...scheme import Role
from ..data import Code, Links
from .backups import OtherServers, ServerStanding
from .header import VERSIONS, WORD, ChainCursor, Pointer, Version, pack_version, unpack_version
from .messages import (
    ABSENT,
    CHAIN_BYTES,
    NOT_HERE,
    PRESENT,
    AllocateBuffers,
    Back,
    Bring,
    Change,
    Copy,
    Create,
    Delete,
    HeadRow,
    InStep,
    OpenKey,
    RegisterHeld,
    Repair,
    Retire,
    pack_chain,
    pack_changes,
    pack_pointers,
    unpack_changes,
    unpack_pointers,
    unpack_words,
)
from .repair import ChainReader
from .shared import CloverParts
from .space import BufferSpace, Chains

TURNS = 1 << 32
ROW_BYTES = 2 * HeadRow.size
EPOCH_NOTICE = 1
"""The immediate by which a server tells its clients that an epoch is over."""


class MetadataServer(Role, memory=("dram", "pm"), served=True, many=True, background=1):
    """A metadata server: the first one serves, the others keep copies."""

    scheme: CloverParts

    def __init__(self, scheme: CloverParts, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.rows = self.pm.allocate(ROW_BYTES * len(self.sizes.objects), "rows", item_bytes=ROW_BYTES)
        self.term = self.pm.allocate(WORD, "term")
        self.head_bytes = WORD * scheme.copies

    @override
    def begin(self) -> None:
        batch, nodes = self.scheme.batch, len(self.scheme.roles["data"])
        held = WORD * (2 * batch * nodes + 2 * self.sizes.clients)
        room = 64 + max(batch * (CHAIN_BYTES + 2 * self.head_bytes), held)
        handlers: dict[Any, Callable[..., Code]] = {
            OpenKey: self.on_open, Create: self.on_create, Delete: self.on_delete, Retire: self.on_retire,
            AllocateBuffers: self.on_allocate, RegisterHeld: self.on_register, Repair: self.on_repair,
            Copy: self.on_copy, Bring: self.on_bring, InStep: self.on_join, Back: self.on_back,
        }  # fmt: skip
        self.listener = Listener(self.node, handlers, message_bytes=room, threads=self.sizes.threads)
        self.locks = Locks(self.system.clock, self.sizes.threads)
        self.serves = self.scheme.serving() is self
        self.space: BufferSpace = self.scheme.full_space()
        self.chains = Chains(self.scheme.loaded_chain)
        self.overflowed = Signal(self.system.clock)
        self.unknown = False
        """Whether buffers wait of which nobody knows whether they are free."""
        in_step = ServerStanding.BEGUN if self.scheme.failed("metadata") else ServerStanding.IN_STEP
        self.others = OtherServers(self, ServerStanding.SERVING if self.serves else in_step)
        if self.serves and not self.scheme.failed("metadata"):
            self.others.members = {one.number for one in self.others.those()}

    @override
    def start(self) -> None:
        process = self.node.process(self.node.name)
        for number in range(self.sizes.threads):
            thread = self.node.thread(number, f"{self.node.name} {number}" if number else self.node.name)
            self.others.connect(thread)
            process.start(self.listener.serve(thread, number))
        process.start(self.free_later(self.background_thread(0, f"{self.node.name} epochs")))
        self.listener.listen()

    def accept(self, thread: Thread, node: Node) -> Connection:
        """A connection for a thread of another machine. How that notices that the server is gone is open in the paper,
        and read so: after a while without a reply it looks.
        """
        return self.listener.accept(thread, node, WORD, PATIENCE)

    # requests: each returns the reply --------------------------------------------------------------------------------
    def on_open(self, thread: Thread, request: OpenKey) -> Code:
        """The head of a key's chain."""
        yield from thread.compute()
        return self.head_of(request.key)

    def head_of(self, key: int) -> bytes:
        """What a client learns of a key."""
        if not self.serves:
            return NOT_HERE
        chain = self.chains.of(key)
        return pack_chain(None if chain is None else ChainCursor(chain.head, chain.generation), self.scheme.copies)

    def on_create(self, thread: Thread, request: Create) -> Code:
        """A key that is not there gets a head."""
        return (yield from self.locks.under(thread, "chains", self.create(thread, request)))

    def create(self, thread: Thread, request: Create) -> Code:
        version = unpack_version(request.version, self.scheme.copies)
        if self.serves and version is not None and self.chains.of(request.key) is None:
            generation = self.chains.generation(request.key) + 1
            yield from self.change(thread, [(request.key, generation, [version])])
            self.chains.know(request.key, version, generation)
        return self.head_of(request.key)

    def on_delete(self, thread: Thread, request: Delete) -> Code:
        """A key is there no more."""
        return (yield from self.locks.under(thread, "chains", self.delete(thread, request)))

    def delete(self, thread: Thread, request: Delete) -> Code:
        end = unpack_version(request.version, self.scheme.copies)
        if not self.serves:
            return NOT_HERE
        if end is not None and self.chains.of(request.key) is not None:
            gone = list(self.chains.delete(request.key, request.generation, end))
            if self.chains.of(request.key) is None:
                yield from self.change(thread, [(request.key, request.generation, [None])])
            self.reclaim(thread, gone)
        return ABSENT

    def on_retire(self, thread: Thread, request: Retire) -> Code:
        """Move heads on, and have the buffers before them."""
        return (yield from self.locks.under(thread, "chains", self.retire(thread, request)))

    def retire(self, thread: Thread, request: Retire) -> Code:
        if not self.serves:
            return NOT_HERE
        gone: list[Version] = []
        moved: dict[int, Change] = {}
        for key, generation, (old, new) in unpack_changes(request.retired, 2, self.scheme.copies):
            if old is None or new is None or self.space.is_gone(old[0]):
                continue  # it has come before
            gone += self.chains.retire(key, generation, old, new)
            chain = self.chains.of(key)
            if chain is not None:
                moved[key] = key, chain.generation, [chain.head]
        if moved and self.scheme.option("heads") == "moved":
            yield from self.change(thread, list(moved.values()))
        self.reclaim(thread, gone)
        return PRESENT

    def reclaim(self, thread: Thread, versions: Iterable[Version]) -> None:
        """The buffers of versions are free."""
        for version in versions:
            for pointer in dict.fromkeys(version):
                if self.space.reclaim(pointer):
                    self.scheme.freed(thread.name, pointer)
        if self.space.overflowed:
            self.overflowed.set()

    def on_allocate(self, thread: Thread, request: AllocateBuffers) -> Code:
        """Give a client buffers."""
        return (yield from self.locks.under(thread, "chains", self.allocate(thread, request)))

    def allocate(self, thread: Thread, request: AllocateBuffers) -> Code:
        yield from thread.compute()
        if not self.serves:
            return NOT_HERE
        words = unpack_words(request.words)
        wanted, loads = words[: self.scheme.pool.nodes], words[self.scheme.pool.nodes :]
        self.space.told(loads)
        pointers = list(self.space.give(wanted, self.scheme.batch, balanced=self.scheme.option("balance") != "none"))
        for pointer in pointers:
            self.scheme.given(thread.name, pointer)
        return PRESENT + pack_pointers(pointers)

    def on_register(self, thread: Thread, request: RegisterHeld) -> Code:
        """A client comes from another server: this one takes over, if it has not."""
        return (yield from self.locks.under(thread, "chains", self.register(thread, request)))

    def register(self, thread: Thread, request: RegisterHeld) -> Code:
        held = unpack_pointers(request.held)
        if not self.serves and not (yield from self.succeed(thread)):
            return NOT_HERE
        for pointer in held:
            self.space.versions[pointer.node, pointer.buffer] = pointer.version
            self.chains.forget_before(pointer)
        return PRESENT

    def on_repair(self, thread: Thread, request: Repair) -> Code:
        """Complete a link that was begun, or have another client begin its own."""
        return (yield from self.locks.under(thread, "chains", self.repair(thread, request)))

    def repair(self, thread: Thread, request: Repair) -> Code:
        version = unpack_version(request.version, self.scheme.copies)
        if version is not None:
            yield from self.reader(thread).mend(version)
        return PRESENT if self.serves else NOT_HERE

    def on_copy(self, thread: Thread, request: Copy) -> Code:
        """Keep what the serving server says."""
        if (self.others.standing, self.others.term) != (ServerStanding.IN_STEP, request.term):
            return NOT_HERE
        return (yield from self.keep(thread, request.rows))

    def on_bring(self, thread: Thread, request: Bring) -> Code:
        """Keep what the serving server has."""
        return (yield from self.keep(thread, request.rows))

    def keep(self, thread: Thread, rows: bytes) -> Code:
        for key, generation, (head,) in unpack_changes(rows, 1, self.scheme.copies):
            yield from self.put_row(thread, key, generation, head)
        yield from thread.sfence()
        return PRESENT

    def on_join(self, thread: Thread, request: InStep) -> Code:
        """Be in step with the serving server."""
        yield from self.put_term(thread, request.term)
        self.others.term = request.term
        yield from self.others.say(thread, ServerStanding.IN_STEP)
        return PRESENT

    def on_back(self, thread: Thread, request: Back) -> Code:
        """Have another server in step that has begun again."""
        return (yield from self.locks.under(thread, "chains", self.attach(thread)))

    # its persistent memory ----------------------------------------------------------------------------------------
    def row(self, key: int) -> int:
        """The address of a key's row."""
        return self.rows + key * ROW_BYTES

    def change(self, thread: Thread, changes: list[Change]) -> Code:
        """Heads are others now, or gone: durable here and on the backups when this returns."""
        yield from self.attach(thread)
        for key, generation, (head,) in changes:
            yield from self.put_row(thread, key, generation, head)
        yield from thread.sfence()
        rows = pack_changes(changes, self.scheme.copies)
        if (yield from self.others.tell(thread, Copy, term=self.others.term, rows=rows)):
            yield from self.others.drop(thread)

    def load_row(self, thread: Thread, key: int) -> Code:
        """What a row says (:class:`HeadRow`), and the address of the line that it does not say it in."""
        lines = yield from thread.load(self.row(key), ROW_BYTES)
        first, second = HeadRow.unpack(lines[: HeadRow.size]), HeadRow.unpack(lines[HeadRow.size :])
        if (first.turn - second.turn) % TURNS < TURNS // 2:
            return first, self.row(key) + HeadRow.size
        return second, self.row(key)

    def put_row(self, thread: Thread, key: int, generation: int, head: Version | None) -> Code:
        """Store a head in the line that does not count, then what makes that line count, and write it back; the caller
        fences. Stores to one line last in their order: a failure leaves the row before, or this one, whole.
        """
        row, line = yield from self.load_row(thread, key)
        turn = HeadRow.pack(turn=(row.turn + 1) % TURNS, generation=generation, heads=b"", key=b"")[:WORD]
        yield from thread.store(line + WORD, pack_version(head, self.scheme.copies))
        yield from thread.store(line, turn)
        yield from thread.clwb(line, WORD + self.head_bytes)

    def put_term(self, thread: Thread, term: int) -> Code:
        """The rows are of this term: durable when this returns."""
        yield from thread.store(self.term, term.to_bytes(WORD, "little"))
        yield from thread.clwb(self.term, WORD)
        yield from thread.sfence()

    # backups that come back, and clients that come to one ------------------------------------------------------------
    def attach(self, thread: Thread) -> Code:
        """Store all rows on each other server that is there and not in step; then it is."""
        if self.others.standing is ServerStanding.SERVING:
            for other in list(self.others.those()):
                if other.number not in self.others.members and (yield from self.bring(thread, other)):
                    self.others.members.add(other.number)
        return PRESENT

    def bring(self, thread: Thread, other: MetadataServer) -> Code:
        """Store all rows on another server, which is in step then; whether it answered."""
        keys, batch = range(len(self.sizes.objects)), self.scheme.batch
        for first in range(0, len(keys), batch) if other.listener.listening else ():
            changes: list[Change] = []
            for key in keys[first : first + batch]:
                row, _ = yield from self.load_row(thread, key)
                changes.append((key, row.generation, [unpack_version(row.heads, self.scheme.copies)]))
            rows = pack_changes(changes, self.scheme.copies)
            if not (yield from self.others.ask(thread, other, Bring, rows=rows)):
                return False
        return (yield from self.others.ask(thread, other, InStep, term=self.others.term))

    def succeed(self, thread: Thread) -> Code:
        """Serve, if this server is in step and no other one serves or is to; whether it does."""
        if self.others.standing is not ServerStanding.IN_STEP:
            return False
        for other in list(self.others.those()):
            found = yield from self.others.look(thread, other)
            least = ServerStanding.IN_STEP if other.number < self.number else ServerStanding.SERVING
            if found is not None and found[0] >= least:
                return False
        yield from self.become_serving(thread)
        return True

    def catch_up(self, thread: Thread) -> Code:
        """Begin again: have the server that serves store its rows here, or serve if that is this one."""
        stored = yield from thread.load(self.term, WORD)
        self.others.term = int.from_bytes(stored, "little")
        yield from self.others.say(thread, ServerStanding.BEHIND)
        since = thread.deadline("0 ns")
        while self.others.standing is ServerStanding.BEHIND:
            newest = yield from self.others.newest(thread)
            if newest is self and self.others.standing is ServerStanding.BEHIND:
                yield from self.locks.under(thread, "chains", self.become_serving(thread))
                return
            if newest is not None and newest is not self:
                yield from self.others.report(thread, newest)
            if self.others.standing is ServerStanding.BEHIND:
                yield from thread.sleep_again(since)

    # after a failure, chain by chain -----------------------------------------------------------------------------
    def reader(self, thread: Thread) -> ChainReader:
        """What reads chains on data nodes by a thread of this machine."""
        links = Links(thread, self.node, self.scheme, self.scheme.pool.header_bytes, 4 * self.scheme.copies)
        return ChainReader(links, self.scheme.geometry)

    def become_serving(self, thread: Thread) -> Code:
        """Read all chains, have those in step that are there, and serve."""
        self.others.term = self.others.after()
        yield from self.others.say(thread, ServerStanding.SERVING)
        results = []
        for unit in range(len(self.sizes.objects)):
            results.append((yield from self.recover_unit(thread, unit)))
        yield from self.attach(thread)
        yield from self.put_term(thread, self.others.term)
        self.resume(results)

    @override
    def recovery_units(self) -> Iterable[Hashable]:
        """None where another server serves by now."""
        return range(len(self.sizes.objects)) if self.serves else ()

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        return (self.sizes.objects.index(object),)

    @override
    def recover_unit(self, thread: Thread, unit: Any) -> Code:
        """One key: returns it with the generation and the head of its chain, and the versions that are there."""
        row, _ = yield from self.load_row(thread, unit)
        generation, head = row.generation, unpack_version(row.heads, self.scheme.copies)
        self.chains.know(unit, head, generation)
        if head is None:
            return unit, generation, None, []
        if self._reader_of != thread:
            self._reader_of, self._reader = thread, self.reader(thread)
        versions, deleted = yield from self._reader.read(head, mend=self.scheme.nobody_lives())
        if deleted and self.scheme.nobody_lives():
            yield from self.put_row(thread, unit, generation, None)
            yield from thread.sfence()
            self.chains.know(unit, None, generation)
            return unit, generation, None, []
        if versions and self.scheme.nobody_lives():
            head, versions = versions[-1], versions[-1:]
            yield from self._reader.point(unit, ChainCursor(head, generation))
            yield from self.put_row(thread, unit, generation, head)
            yield from thread.sfence()
            self.chains.know(unit, head, generation)
        return unit, generation, head, versions

    _reader_of: Thread | None = None
    _reader: ChainReader

    @override
    def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
        """Serve, where no other server does."""
        yield from thread.compute()
        if self.serves:
            self.resume(results)

    def resume(self, results: list[Any]) -> None:
        """Serve from now on, with the chains that have been read. What is in none of them is free later."""
        self.serves = True
        self.space = self.scheme.empty_space()
        self.chains = Chains(lambda _: None)
        for key, generation, head, versions in results:
            self.chains.know(key, head, generation)
            for pointer in (pointer for version in versions for pointer in version):
                self.space.versions[pointer.node, pointer.buffer] = pointer.version
        self.unknown = True
        self.overflowed.set()

    # free later ----------------------------------------------------------------------------------------------------
    def free_later(self, thread: Thread) -> Code:
        """Buffers whose GC versions have wrapped around, or are unknown, are free when the epoch is over."""
        if self.others.standing is ServerStanding.BEGUN:
            yield from self.catch_up(thread)
        while True:
            yield from thread.block(self.overflowed)
            waiting, self.space.overflowed = self.space.overflowed, []
            unknown, self.unknown = self.unknown, False
            yield from thread.sleep_until(thread.deadline(str(self.scheme.option("epoch"))))
            yield from self.listener.tell_who_listens(thread, EPOCH_NOTICE)
            for pointer in waiting:
                self.space.free[pointer.node].append(pointer.buffer)
            if unknown:
                yield from self.find_free(thread)

    def find_free(self, thread: Thread) -> Code:
        """Read the chains again, and the GC version of each buffer that is in none of them, and of which nothing has
        been heard since this server began: no client had it in its hands.
        """
        reader, taken = self.reader(thread), set(self.space.versions)
        for key in range(len(self.sizes.objects)):
            chain = self.chains.of(key)
            if chain is not None:
                versions, _ = yield from reader.read(chain.head, mend=False)
                taken.update((pointer.node, pointer.buffer) for version in versions for pointer in version)
        pool = self.scheme.pool
        for node in range(pool.nodes):
            for buffer in range(pool.buffers):
                if (node, buffer) not in taken:
                    version = yield from reader.own(Pointer(node, buffer, 0))
                    if version is not None and (node, buffer) not in self.space.versions:
                        found = Pointer(node, buffer, (version + 1) % VERSIONS or 1)
                        self.space.versions[node, buffer] = found.version
                        self.space.free[node].append(buffer)
                        self.chains.forget_before(found)
                        self.scheme.found_free(thread.name, found)


def row_line(head: Version | None, key: bytes, copies: int, *, counts: bool) -> bytes:
    """A line of a row before the run, of generation 0: the one that counts, or the other one."""
    return HeadRow.pack(turn=int(counts), generation=0, heads=pack_version(head, copies), key=key)
