"""PMRAccess: requests go by WRITE into the region of the drive, where an update is its own log entry.

Source: Luo et al., TCAD 2024, section IV, algorithms 1 and 2, figure 4. A client owns a chunk of the region. Its
request is written behind the last entry there, a flag into the server's DRAM; the server's thread parses the request
out of the region, has the store execute it, and answers. A GET is written at the same place, and the next request
writes over it. A client without room asks for another chunk (CHUNKALLOC), also at that place, for which room is kept.
Full chunks go to a log file. After a failure each used chunk is parsed up to its first terminator; what is found goes
to the log, which is replayed (section IV-E).

What the paper leaves open is read so. An answer waits for nothing but the parse. One bit cannot tell chunks that are
flushed from those that are written: both are parsed (step 2 would write the former as they are). The log is replayed in
its order, then chunks by their numbers, since nothing else is recorded. An entry of the right shape is valid: there is
no checksum. The chunk of a client that is gone is flushed as a full one is; where there are more clients than
chunks, counting the one that reads after a failure, one that has ended goes, and the server looks for those of which it
has heard nothing for long.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Signal, Thread
from ...models.meter import PartHistory
from ...models.system import Node, System
from ..guarantees import ALWAYS, Claims, Condition
from ..layout import U64, Layout
from ..naming import Option
from ..parts.placement import STORED_KEYS
from ..parts.rpc import PATIENCE
from ..scheme import Limits, OutcomeUnknown, Sizes
from .chunklog import DRIVE, ChunkFlush, ChunkLog, merged
from .chunks import MEMORY, ChunkArea, Chunks
from .cuckoo import Cuckoo
from .entries import CHUNKALLOC, NUL, PUT, ChunkEntry
from .messaging import DONE, ConnectionBroken, RequestPlace, Side
from .stack import MOST_KEY_BYTES, Served, Stack, StackClient, StackServer, StackSession
from .store import Store, key_of

Code = Generator[Any, Any, Any]

LINE = 64
AHEAD_LINES = 8
"""A request's first so many lines are loaded at once where the region is mapped for that."""

CHUNK = Option(
    "64 KiB", quantity="size", at_least=128,
    source="figure 13: 64 clients hold half of 8 MB, so 64 KiB; the paper gives no size",
    text="how much of a chunk is used; it takes whole blocks of the drive",
)  # fmt: skip
CHUNKS = Option(
    0, at_least=0, at_most=1 << 20, source="by definition: as many as the region has room for",
    text="how many chunks there are at most; 0: as many as there is room for",
)  # fmt: skip
SLOTS = Option(
    4096, at_least=1, at_most=1 << 24,
    source="assumption: 256 MiB; the paper says neither how large it is nor when it is reclaimed",
    text="how many chunks the log file has room for until it is reclaimed",
)  # fmt: skip


class ChunkGrant(Layout):
    """The data of the reply to a CHUNKALLOC."""

    address = U64()
    generation = U64()
    """Of the chunk, where entries have it in their checksums; else 0."""


class ServedChunk(Served):
    """A client's connection, and the chunk that it writes."""

    def __init__(self, number: int, side: Side, granted: Signal) -> None:
        super().__init__(number, side)
        self.chunk: int | None = None
        """Its number."""
        self.generation = 0
        self.requests = 0
        """How many have been taken, where they have numbers."""
        self.granted = granted
        """Raised when a client that connects has its first chunk, or is refused one."""
        self.refused = False
        """No chunk becomes empty any more: the store is corrupt."""


@dataclass
class ChunkSession(StackSession):
    """A client process with its chunk."""

    scheme: PmrStack
    end: ServedChunk
    """What the handshake of a connection tells."""
    rkey: int
    chunk: int = 0
    """Where its chunk begins; 0: it has none yet."""
    off: int = 0
    generation: int = 0
    requests: int = 0
    """How many it has made on its connection."""

    @override
    def call(self, op: int, key: bytes, value: bytes = b"") -> Code:
        yield from self.has_chunk()
        if op != CHUNKALLOC:
            yield from self.has_room(op, key, value)
        self.requests += 1
        request = ChunkEntry(op, key, value, 0, number=self.requests)
        data = yield from self.scheme.entries.write(self.thread, request, self.generation)
        return (yield from self.ask(data))

    def ask(self, data: bytes) -> Code:
        """A request at the tail."""
        self.place = RequestPlace(self.chunk + self.off, self.rkey)
        return (yield from self.exchange(data))

    def has_chunk(self) -> Code:
        """Wait for the first one, as a client does whose connection is being made."""
        if not self.chunk:
            server = self.scheme.server
            end = self.end
            yield from self.side.until(self.thread, lambda: end.chunk is not None or end.refused, end.granted)
            if end.chunk is None:
                raise OutcomeUnknown("the server's store is corrupt")
            self.chunk, self.generation = server.area.address(end.chunk), end.generation
            self.off = self.scheme.entries.before_bytes

    def has_room(self, op: int, key: bytes, value: bytes) -> Code:
        """Another chunk, unless this one has room for the request, and then for a CHUNKALLOC."""
        entries, most = self.scheme.entries, self.scheme.server.area.chunk_bytes
        end = self.off + entries.length(len(key), len(value)) + len(NUL)
        if op == PUT:
            end = end - len(NUL) + self.scheme.alloc_bytes()
        if end <= most:
            return
        status, data = yield from self.call(CHUNKALLOC, self.chunk.to_bytes(8, "little"))
        if status != DONE:
            raise ConnectionBroken
        grant = ChunkGrant.unpack(data)
        self.chunk, self.generation, self.off = grant.address, grant.generation, entries.before_bytes

    @override
    def put(self, key: bytes, value: bytes) -> Code:
        yield from super().put(key, value)
        self.off += self.scheme.entries.length(len(key), len(value))


class ChunkClient(StackClient, invokes=True):
    """A machine whose processes have chunks."""

    scheme: PmrStack

    @override
    def leave(self, session: ChunkSession) -> Code:
        """Disconnect where chunks are scarce: else who waits for one would wait for ever."""
        if self.scheme.server.scarce:
            session.side.disconnect()
        yield from ()


class ChunkServer(StackServer, memory=("dram", MEMORY, DRIVE), background=1):
    """The server with the region, and the thread that flushes chunks."""

    scheme: PmrStack
    ChunkFlush: ClassVar[type[ChunkFlush]] = ChunkFlush

    def __init__(self, scheme: PmrStack, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        block = node.kernel.drive(DRIVE).parameters.block_bytes
        self.area = ChunkArea(node, int(scheme.option("chunk")), block, int(scheme.option("chunks")) or None)
        self.own_files = DRIVE in type(self.store).memory
        keys = 0 if self.own_files else len(self.sizes.objects)
        self.log = ChunkLog(
            node, self.area.stride, int(scheme.option("slots")), keys, MOST_KEY_BYTES + self.sizes.value_bytes
        )
        region = node.system.platform.peers[self.area.device.kind]
        self.ahead = AHEAD_LINES * LINE if region.mapping == "wc" else 0
        """So much of a request is loaded before its length is known."""

    @property
    def scarce(self) -> bool:
        """Whether there may be more clients than chunks, with the one that comes to read after a failure."""
        return self.sizes.clients + 1 > self.area.count

    @override
    def begin(self) -> None:
        super().begin()
        self.log.begin()
        history, threads = self.scheme.chunk_history, self.sizes.clients + 1
        history.crash()
        self.chunks = Chunks(self.area, self.node, threads, history, lambda n: self.gauge("chunks in use", n))
        self.flush = self.ChunkFlush(
            self.node, self.area, self.chunks, self.log, self.make_room, lambda n: self.gauge("chunks to flush", n)
        )
        self.rkey = self.listener.register(self.area.meta, self.area.length).key

    @override
    def start(self) -> None:
        self.process.start(self.flushing(self.background_thread(0, f"{self.node.name} flush")))
        super().start()

    def flushing(self, thread: Thread) -> Code:
        """The thread that flushes chunks."""
        yield from self.flush.run(thread)

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """The checkpoint of what is loaded, and the chunks of those that are connected at time zero."""
        self.chunks.promise(self.sizes.clients)
        names = self.sizes.objects
        if self.own_files:
            self.log.load(())
        elif len(objects) > STORED_KEYS:
            self.log.load_computed(len(objects), lambda n: (key_of(names[n]), objects[names[n]]))
        else:
            self.log.load((key_of(name), value) for name, value in objects.items())

    # connections ------------------------------------------------------------------------------------------------------
    @override
    def connection(self, number: int, side: Side) -> ServedChunk:
        if self.scarce:
            side.patience = PATIENCE  # of a client without power no error tells
        end = ServedChunk(number, side, Signal(self.system.clock))
        promised = self.chunks.promised()
        if promised is not None:
            self.owns(end, promised, 0)
        return end

    @override
    def session(self, thread: Thread, side: Side, end: ServedChunk) -> ChunkSession:
        side.qp.watchers.append(end.granted.set)
        return ChunkSession(self.scheme, thread, side, None, end, self.rkey)

    def owns(self, end: ServedChunk, number: int, generation: int) -> None:
        """A client has a chunk from now on."""
        end.chunk, end.generation = number, generation
        end.address = self.area.address(number) + self.scheme.entries.before_bytes
        end.room = self.area.chunk_bytes - self.scheme.entries.before_bytes

    @override
    def welcome(self, thread: Thread, end: ServedChunk) -> Code:
        if end.chunk is None:
            yield from self.allocate(thread, end)
            yield from thread.notify(end.granted)

    def allocate(self, thread: Thread, end: ServedChunk) -> Code:
        """Another chunk for a client; returns its number."""
        number = yield from self.chunks.take(thread)
        generation = yield from self.prepare(thread, number)
        self.chunks.granted(thread.name, number)
        self.owns(end, number, generation)
        return number

    def prepare(self, thread: Thread, number: int) -> Code:
        """What a chunk needs before a client has it; returns its generation."""
        yield from ()
        return 0

    @override
    def farewell(self, thread: Thread, end: ServedChunk) -> Code:
        yield from super().farewell(thread, end)
        if end.chunk is not None:
            number, end.chunk = end.chunk, None
            yield from self.flush.enqueue(thread, number)

    # requests -------------------------------------------------------------------------------------------------------
    @override
    def parse(self, thread: Thread, end: ServedChunk) -> Code:
        return (yield from self.scheme.entries.read(thread, end.address, end.room, self.ahead, end.generation))

    @override
    def execute(self, thread: Thread, end: ServedChunk, request: ChunkEntry | None) -> Code:
        if request is not None and request.op == CHUNKALLOC:
            number, end.chunk = self.area.number(int.from_bytes(request.key, "little")), None
            if number is not None:
                yield from self.flush.enqueue(thread, number)
            chunk = yield from self.allocate(thread, end)
            return DONE, ChunkGrant.pack(address=self.area.address(chunk), generation=end.generation)
        return (yield from super().execute(thread, end, request))

    @override
    def put(self, thread: Thread, end: ServedChunk, request: ChunkEntry) -> Code:
        yield from super().put(thread, end, request)
        self.passes(end, request)

    def passes(self, end: ServedChunk, request: ChunkEntry) -> None:
        """The next request is behind this one."""
        end.address += request.length
        end.room -= request.length

    # log and recovery -----------------------------------------------------------------------------------------------
    def make_room(self, thread: Thread) -> Code:
        """Checkpoint the store, then reclaim the log; what no store could hold is no entry."""
        if not (yield from self.store.checkpoint(thread)):
            entries = yield from self.log.read_checkpoint(thread)
            for slot in range(self.log.first, self.log.end):
                found = yield from self.entries_of(thread, slot)
                entries += (entry for entry in found if self.store.fits(entry.key, entry.value))
            yield from self.log.write_checkpoint(thread, merged(entries, self.newer))
        yield from self.log.reclaim(thread)

    def entries_of(self, thread: Thread, slot: int) -> Code:
        """The entries of a slot of the log, which is read block by block until they end."""
        log, entries, found = self.log, self.scheme.entries, []
        longest = entries.length(MOST_KEY_BYTES, self.sizes.value_bytes)
        at, there, generation = entries.before_bytes, 0, 0
        while there < log.stride and there - at <= longest:
            yield from log.fetch(thread, slot, there)
            generation = generation or (yield from self.generation_at(thread, log.buffer))
            there += log.block
            more = yield from entries.scan(thread, log.buffer, at, min(there, self.area.chunk_bytes), generation)
            at += sum(entry.length for entry in more)
            found += more
        return [entry for entry in found if self.executed(entry)]

    def executed(self, entry: ChunkEntry) -> bool:
        """Whether an update that was found has been executed, as far as its entry tells."""
        return True

    def generation_at(self, thread: Thread, address: int) -> Code:
        """The generation of the chunk at an address, where chunks have one."""
        yield from ()
        return 0

    def newer(self, one: ChunkEntry, other: ChunkEntry) -> bool:
        """Whether a replay that has come to ``one`` puts it in the place of ``other``."""
        return True

    @override
    def recover(self, thread: Thread) -> Code:
        log, area, entries = self.log, self.area, self.scheme.entries
        yield from super().recover(thread)
        yield from log.read_state(thread)
        self.replayed: dict[bytes, ChunkEntry] = {}
        for entry in (yield from log.read_checkpoint(thread)):
            yield from self.replay(thread, entry)
        for slot in range(log.first, log.end):
            for entry in (yield from self.entries_of(thread, slot)):
                yield from self.replay(thread, entry)
        used = yield from area.scan(thread)
        self.chunks.found(used)
        self.gauge("chunks to flush", 0)
        for number in used:
            generation = yield from self.generation_at(thread, area.address(number))
            found = yield from entries.scan(
                thread, area.address(number), entries.before_bytes, area.chunk_bytes, generation
            )
            found = [entry for entry in found if self.executed(entry)]
            if found:
                if log.full:
                    yield from self.make_room(thread)
                yield from log.append(thread, (yield from entries.image(thread, found, generation)))
            for entry in found:
                yield from self.replay(thread, entry)
            yield from self.chunks.give_back(thread, number)

    def replay(self, thread: Thread, entry: ChunkEntry) -> Code:
        """Have the store execute an entry, unless one that is newer was found; what no store could hold is none."""
        before = self.replayed.get(entry.key)
        if self.store.fits(entry.key, entry.value) and (before is None or self.newer(entry, before)):
            self.replayed[entry.key] = entry
            yield from self.store.put(thread, entry.key, entry.value)


class PmrStack(Stack):
    """A stack whose requests go into chunks of the region."""

    section = "section IV, algorithms 1 and 2"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS, Condition.COMMITTED: ALWAYS}
    options: ClassVar[dict[str, Option]] = {"chunk": CHUNK, "chunks": CHUNKS, "slots": SLOTS}
    Server: ClassVar[type[StackServer]] = ChunkServer
    Client: ClassVar[type[StackClient]] = ChunkClient

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.chunk_history = PartHistory(system.clock)
        self.histories = {"chunks": self.chunk_history.rows}
        super().__init__(system, sizes)

    @classmethod
    def alloc_bytes(cls) -> int:
        """The bytes of a CHUNKALLOC, with its terminator."""
        return cls.entries.length(8, 0) + len(NUL)

    @override
    def __init_subclass__(cls, name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(name, **kwargs)
        cls.limits = cls.limits_of(int(cls.option("chunk")))

    @classmethod
    def limits_of(cls, chunk_bytes: int) -> Limits:
        """What fits into a chunk of so many bytes."""
        most = chunk_bytes - cls.entries.before_bytes - cls.entries.length(MOST_KEY_BYTES, 0) - cls.alloc_bytes()
        return Limits(max(0, most), None, f"a chunk of {chunk_bytes} B, with a key and a CHUNKALLOC")

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        super().load(objects)
        self.server.load(objects)


class PmrAccess(PmrStack, name="pmraccess"):
    """The paper's stack over LibCuckoo."""

    title = "requests by WRITE into a chunk of the drive's region, answered once they are parsed there; over LibCuckoo"
    Backend: ClassVar[type[Store]] = Cuckoo

    class Server(ChunkServer, software=Cuckoo.software):
        """The server."""
