"""The stacks whose updates are durable in a log file on the drive: synchronously each, or in groups.

Source: Luo et al., TCAD 2024, section V-C. ``SyncAccess``: the request goes to the server's DRAM, the store executes
it, its record is written to a log and synced, the client is answered. ``GroupAccess``: threads that have a record join
a queue; the first of it writes the records of all in one go, syncs once, and wakes the others, as LevelDB does
(``DBImpl::Write``).

What the paper leaves open is read so. There is one log, since the order of its records is that of a replay. Records
follow each other without gaps; each has its length and a checksum before an entry like PMRAccess's, so that what a
failure left of one is none. The checksum is the entry's CRC32 and the record's place in the log, by exclusive or, which
costs nothing: SyncAccess does not clear its buffer behind the newest record, so that the block before stands there,
whose records are whole, but at another place. SyncAccess holds the log's lock while it writes the block with the record
(two where it lies across) by O_DIRECT with O_DSYNC into a preallocated file. GroupAccess appends to a file that grows,
and calls fdatasync. The store executes an update before its record is written: others may read it before. Neither log
is reclaimed: it has room for the run.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ...models.cpu import Signal, Thread
from ...models.storage.files import File, Open
from ...models.system import Node
from ..guarantees import ALWAYS, Claims, Condition
from ..layout import U32, Layout
from ..parts.locks import Locks
from .chunklog import DRIVE
from .cuckoo import Cuckoo
from .entries import PUT, ChunkEntry, EntryHead, pack_head, unpack_head
from .stack import MOST_KEY_BYTES, Served, Stack, StackServer
from .store import Encoded, Store

Code = Generator[Any, Any, Any]

BLOCK = 4096
LOG = "log"


class LogRecordHead(Layout):
    """What comes before the entry of a record."""

    checksum = U32()
    """Of the entry, at this place."""
    length = U32()
    """Of the entry, in bytes; 0: no record is here."""


def sealed(crc: int, at: int) -> int:
    """The checksum of a record at an offset of the log: that of the same entry at any other is another."""
    return crc ^ at & 0xFFFFFFFF


def unpack_record(data: bytes, at: int, seal: Callable[[int, int], int] = sealed) -> ChunkEntry | None:
    """The record at an offset of a log's bytes; None where none is, or not all of it."""
    if at + LogRecordHead.size + EntryHead.size > len(data):
        return None
    head = LogRecordHead.unpack(data[at : at + LogRecordHead.size])
    start = at + LogRecordHead.size
    body = data[start : start + head.length]
    if head.length < EntryHead.size or len(body) < head.length or seal(zlib.crc32(body), at) != head.checksum:
        return None
    op, key_length, _ = unpack_head(body)
    key_end = EntryHead.size + key_length
    return ChunkEntry(op, body[EntryHead.size : key_end], body[key_end:], LogRecordHead.size + head.length)


class UnplacedEntry(NamedTuple):
    """An entry before its record has a place."""

    crc: int
    data: bytes


class LoggedServer(StackServer, memory=("dram", DRIVE)):
    """A server with one log; a subclass says how a record gets there."""

    flags: ClassVar[Open] = Open.NONE
    grows: ClassVar[bool] = False

    def __init__(self, scheme: Stack, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.longest = LogRecordHead.size + EntryHead.size + MOST_KEY_BYTES + self.sizes.value_bytes
        self.own_files = DRIVE in type(self.store).memory
        records = self.sizes.updates + 1 + (0 if self.own_files else len(self.sizes.objects))
        self.log_bytes = -(-records * self.longest // BLOCK) * BLOCK
        node.kernel.file_system(DRIVE).create(LOG, self.log_bytes, self.flags, grows=self.grows)

    @override
    def begin(self) -> None:
        super().begin()
        self.log: File = self.node.kernel.file_system(DRIVE).open(LOG, self.flags)
        self.tail = 0
        """Where the next record goes."""

    @override
    def put(self, thread: Thread, end: Served, request: ChunkEntry) -> Code:
        yield from super().put(thread, end, request)
        entry = pack_head(PUT, request.key, request.value) + request.key + request.value
        crc = yield from thread.crc32_of(entry)
        yield from self.keep(thread, UnplacedEntry(crc, entry))

    def keep(self, thread: Thread, entry: UnplacedEntry) -> Code:
        """Have the log keep an entry, durably."""
        raise NotImplementedError

    @staticmethod
    def seal(crc: int, at: int) -> int:
        """The checksum of a record at an offset."""
        return sealed(crc, at)

    def record(self, entry: UnplacedEntry, at: int) -> bytes:
        """The record of an entry at an offset of the log."""
        return LogRecordHead.pack(checksum=self.seal(entry.crc, at), length=len(entry.data)) + entry.data

    def load(self, entries: Mapping[bytes, bytes]) -> None:
        """Records of what is loaded, unless the store has it in files of its own."""
        if self.own_files:
            return
        data = bytearray()
        for key, value in entries.items():
            entry = pack_head(PUT, key, value) + key + value
            data += self.record(UnplacedEntry(zlib.crc32(entry), entry), len(data))
        inode, space = self.log.inode, self.node.memory[DRIVE].space
        space.poke(inode.base, bytes(data))
        self.tail = len(data)
        if inode.size_at is not None:
            inode.size_bytes = len(data)
            space.poke(inode.size_at, len(data).to_bytes(8, "little"))

    @override
    def recover(self, thread: Thread) -> Code:
        """Execute the records in the order of the log, up to the first that is none, and go on behind it."""
        yield from super().recover(thread)
        data = b""
        while True:
            entry = unpack_record(data, self.tail, self.seal)
            if entry is None:
                if len(data) - self.tail >= self.longest or len(data) >= self.log.size_bytes:
                    break
                data += yield from self.log.pread(thread, len(data), BLOCK)
                continue
            if self.store.fits(entry.key, entry.value):
                yield from self.store.put(thread, entry.key, entry.value)
            self.tail += entry.length
        yield from self.goes_on(thread, data[self.tail // BLOCK * BLOCK : self.tail])

    def goes_on(self, thread: Thread, begun: bytes) -> Code:
        """Recovery is over; ``begun`` are the records of the block that the next one goes to."""
        yield from ()


class SyncLogServer(LoggedServer):
    """One record at a time, with its block."""

    flags = Open.O_DIRECT | Open.O_DSYNC

    def __init__(self, scheme: Stack, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        room = -(-self.longest // BLOCK) * BLOCK + BLOCK
        self.buffer = node.memory["dram"].allocate(room, "log buffer", align=BLOCK)
        """The block that the next record goes to, with those that are in it already."""

    @override
    def begin(self) -> None:
        super().begin()
        self.locks = Locks(self.system.clock, self.sizes.clients + 1)

    @override
    def load(self, entries: Mapping[bytes, bytes]) -> None:
        super().load(entries)
        dram, start = self.node.memory["dram"], self.tail % BLOCK
        begun = self.node.memory[DRIVE].space.peek(self.log.inode.base + self.tail - start, start) if start else b""
        dram.space.poke(self.buffer - dram.base, begun)

    @override
    def goes_on(self, thread: Thread, begun: bytes) -> Code:
        if begun:
            yield from thread.store(self.buffer, begun)

    @override
    def keep(self, thread: Thread, entry: UnplacedEntry) -> Code:
        yield from self.locks.under(thread, LOG, self.write(thread, entry))

    def write(self, thread: Thread, entry: UnplacedEntry) -> Code:
        """Write the blocks that the entry's record lies in; the lock is held."""
        record = self.record(entry, self.tail)
        start = self.tail % BLOCK
        end = start + len(record)
        yield from thread.store(self.buffer + start, record)
        yield from self.log.pwrite(thread, self.buffer, self.tail - start, -(-end // BLOCK) * BLOCK)
        self.tail += len(record)
        full = end // BLOCK * BLOCK
        if full and end > full:
            yield from thread.memcpy(self.buffer, self.buffer + full, end - full)


class GroupLogServer(LoggedServer):
    """The records of all that wait, by the first of them."""

    grows = True

    @override
    def begin(self) -> None:
        super().begin()
        self.queue: deque[GroupWriter] = deque()

    @override
    def keep(self, thread: Thread, entry: UnplacedEntry) -> Code:
        mine = GroupWriter(entry, Signal(self.system.clock))
        self.queue.append(mine)
        if self.queue[0] is not mine:
            yield from thread.wait(mine.signal)
            if mine.done:
                return
        group, data = list(self.queue), b""
        for writer in group:
            data += self.record(writer.entry, self.tail + len(data))
        yield from self.log.pwrite(thread, data, self.tail)
        self.tail += len(data)
        yield from self.log.fdatasync(thread)
        for writer in group:
            self.queue.popleft()
            writer.done = True
            if writer is not mine:
                yield from thread.notify(writer.signal)
        thread.count("records in groups", len(group))
        if self.queue:
            yield from thread.notify(self.queue[0].signal)


@dataclass(eq=False)
class GroupWriter:
    """A thread in the queue, and its entry."""

    entry: UnplacedEntry
    signal: Signal
    done: bool = False


class LoggedStack(Stack):
    """A stack with a log on the drive."""

    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS}

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        super().load(objects)
        self.server.load(Encoded(objects))


class SyncAccess(LoggedStack, name="syncaccess"):
    """The paper's name for what Redis does in its strong mode, over LibCuckoo."""

    title = "requests to DRAM; executed, then written to a log and synced, each by itself; over LibCuckoo"
    Backend: ClassVar[type[Store]] = Cuckoo

    class Server(SyncLogServer, software=Cuckoo.software):
        """The server."""


class GroupAccess(LoggedStack, name="groupaccess"):
    """The paper's name for what LevelDB does, over LibCuckoo."""

    title = "requests to DRAM; executed, then written to a log and synced in groups; over LibCuckoo"
    Backend: ClassVar[type[Store]] = Cuckoo

    class Server(GroupLogServer, software=Cuckoo.software):
        """The server."""
