"""What is behind the region: the log file on the drive, full chunks on their way there, the checkpoint.

Source: Luo et al., TCAD 2024, sections IV-C and IV-E. A full chunk is queued; one background thread writes queued
chunks to a log file by asynchronous I/O, out of the region, and clears a chunk's bit once the drive has it. To keep the
log short the store is checkpointed, and then the log reclaimed.

What the paper leaves open is read so. The log file is preallocated: a superblock, and a ring of slots, one for each
chunk. The superblock says which slots are live; it is one unit that a power failure leaves whole, and is written behind
the slots, before bits are cleared. Chunks that are written side by side are live in the order in which they were
queued; while some are written, the thread looks at the queue again once one of them is there. When no slot is free, the
log is reclaimed. A store that has files of its own is checkpointed by itself. For one in DRAM the thread merges the
last checkpoint and the log, and keeps of each key what a replay would leave: in another area than the last one's, which
the superblock then names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from ...models.cpu import Signal, Thread
from ...models.storage.aio import Iocb
from ...models.storage.files import File, Open
from ...models.storage.nvme import NvmeOpcode
from ...models.system import Node
from ..layout import U32, U64, Layout
from .chunks import ChunkArea, Chunks
from .entries import ChunkEntry

Code = Generator[Any, Any, Any]

LINE = 64
DRIVE = "ssd"
"""The name of the drive among a machine's memory devices."""
LOG, CHECKPOINT = "pmr log", "pmr checkpoint"


class Superblock(Layout):
    """The first bytes of the log file."""

    first = U64()
    """The number of the first live slot, counted from the first chunk ever; its place is that modulo the slots."""
    end = U64()
    """The number behind the last live one."""
    area = U64()
    """Which of the two areas has the checkpoint."""
    records = U64()
    """How many records the checkpoint has."""


class CheckpointRecord(Layout):
    """What comes before key and value of a record of a checkpoint."""

    key_length = U32()
    value_length = U32()
    sequence = U64()


class ChunkLog:
    """The files: their places follow from sizes alone, their state from the superblock."""

    def __init__(self, node: Node, stride: int, slots: int, records: int, record_bytes: int) -> None:
        """``stride`` is a chunk's room, ``records`` the most that a checkpoint has, each of ``record_bytes``."""
        self.node, self.stride, self.slots = node, stride, slots
        self.drive = node.kernel.drive(DRIVE)
        self.block = self.drive.parameters.block_bytes
        self.record_bytes = -(-(CheckpointRecord.size + record_bytes) // LINE) * LINE
        self._area_bytes = -(-max(1, records) * self.record_bytes // self.block) * self.block
        system = node.kernel.file_system(DRIVE)
        system.create(LOG, self.block + slots * stride, Open.O_DIRECT)
        system.create(CHECKPOINT, 2 * self._area_bytes, Open.O_DIRECT)
        dram = node.memory["dram"]
        self._superblock = dram.allocate(self.block, "superblock", align=self.block)
        self._records = dram.allocate(self.block, "checkpoint block", align=self.block)
        self.buffer = dram.allocate(stride, "log buffer", align=self.block)
        """Room for one chunk."""

    def begin(self) -> None:
        """A new process: nothing is known yet."""
        system = self.node.kernel.file_system(DRIVE)
        self.log, self.checkpoint = system.open(LOG, Open.O_DIRECT), system.open(CHECKPOINT, Open.O_DIRECT)
        self.first = self.end = self.area = self.records = 0

    def load(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """A checkpoint that is there before time zero."""
        device, base = self.node.memory[DRIVE], self.checkpoint.inode.base
        for key, value in items:
            device.space.poke(base + self.records * self.record_bytes, self._record(key, value, 0))
            self.records += 1
        device.space.poke(self.log.inode.base, self._state())

    def load_computed(self, count: int, item: Callable[[int], tuple[bytes, bytes]]) -> None:
        """The same of ``count`` items that are made, each when somebody looks at its place."""
        device, base = self.node.memory[DRIVE], self.checkpoint.inode.base

        def line_of(line: int) -> bytes:
            number, offset = divmod(line * LINE - base, self.record_bytes)
            return self._record(*item(number), 0)[offset : offset + LINE].ljust(LINE, b"\0")

        device.space.compute(base, count * self.record_bytes, line_of)
        self.records = count
        device.space.poke(self.log.inode.base, self._state())

    def _record(self, key: bytes, value: bytes, sequence: int) -> bytes:
        head = CheckpointRecord.pack(key_length=len(key), value_length=len(value), sequence=sequence)
        return (head + key + value).ljust(self.record_bytes, b"\0")

    def _state(self) -> bytes:
        return Superblock.pack(first=self.first, end=self.end, area=self.area, records=self.records)

    # the log --------------------------------------------------------------------------------------------------------
    def offset(self, slot: int) -> int:
        """Where a slot is in the file."""
        return self.block + slot % self.slots * self.stride

    @property
    def full(self) -> bool:
        """Whether no slot is free."""
        return self.end - self.first >= self.slots

    def write_state(self, thread: Thread) -> Code:
        """What is live, durably."""
        yield from thread.store(self._superblock, self._state())
        yield from self.log.pwrite(thread, self._superblock, 0, self.block)
        yield from self.durable(thread, self.log)

    def read_state(self, thread: Thread) -> Code:
        """What is live, as the drive has it."""
        state = Superblock.unpack((yield from self.log.pread(thread, 0, self.block)))
        self.first, self.end, self.area, self.records = state.first, state.end, state.area, state.records

    def durable(self, thread: Thread, file: File) -> Code:
        """What was written with O_DIRECT lasts: a drive whose cache is protected needs nothing for that."""
        if self.drive.parameters.volatile_cache:
            yield from file.fdatasync(thread)

    def append(self, thread: Thread, data: bytes) -> Code:
        """A slot with these bytes, which end with a terminator, durable and live; whole blocks of it are written."""
        yield from thread.store(self.buffer, data)
        length = -(-len(data) // self.block) * self.block
        yield from self.log.pwrite(thread, self.buffer, self.offset(self.end), length)
        yield from self.durable(thread, self.log)
        self.end += 1
        yield from self.write_state(thread)

    def fetch(self, thread: Thread, slot: int, at: int) -> Code:
        """A slot's block at an offset, into its place in the buffer."""
        data = yield from self.log.pread(thread, self.offset(slot) + at, self.block)
        yield from thread.store(self.buffer + at, data)

    # the checkpoint ---------------------------------------------------------------------------------------------------
    def read_checkpoint(self, thread: Thread) -> Code:
        """Its keys, values and their places among all updates, as entries."""
        found, start = [], self.area * self._area_bytes
        data = b""
        if self.records:
            length = -(-self.records * self.record_bytes // self.block) * self.block
            data = yield from self.checkpoint.pread(thread, start, length)
        for at in range(0, self.records * self.record_bytes, self.record_bytes):
            head = CheckpointRecord.unpack(data[at : at + CheckpointRecord.size])
            key_at = at + CheckpointRecord.size
            value_at = key_at + head.key_length
            value = data[value_at : value_at + head.value_length]
            found.append(ChunkEntry(0, data[key_at:value_at], value, 0, head.sequence))
        return found

    def write_checkpoint(self, thread: Thread, entries: Sequence[ChunkEntry]) -> Code:
        """Another checkpoint, durable; it counts, and the log before it does not, once the state is written."""
        data = b"".join(self._record(entry.key, entry.value, entry.sequence) for entry in entries)
        area = 1 - self.area
        if len(data) > self._area_bytes:
            raise MemoryError(f"{CHECKPOINT}: no room for {len(entries)} records")
        for at in range(0, len(data), self.block):
            yield from thread.store(self._records, data[at : at + self.block].ljust(self.block, b"\0"))
            yield from self.checkpoint.pwrite(thread, self._records, area * self._area_bytes + at, self.block)
        yield from self.durable(thread, self.checkpoint)
        self.area, self.records = area, len(entries)

    def reclaim(self, thread: Thread) -> Code:
        """All slots are free: the checkpoint, or the store itself, has what they had."""
        self.first = self.end
        yield from self.write_state(thread)


class ChunkFlush:
    """The queue of full chunks, and the thread that writes them."""

    def __init__(
        self,
        node: Node,
        area: ChunkArea,
        chunks: Chunks,
        log: ChunkLog,
        make_room: Callable[[Thread], Code],
        gauge: Callable[[int], None],
    ) -> None:
        """``make_room`` checkpoints and reclaims the log; ``gauge`` is told the length of the queue."""
        self._area, self._chunks, self._log = area, chunks, log
        self._make_room = make_room
        self._gauge = gauge
        self._queue: deque[int] = deque()
        self._signal = Signal(node.system.clock)
        self._aio = node.kernel.aio(area.count)
        self._flying: dict[int, int] = {}
        """By slot: the chunk that is on its way there."""
        self._landed: set[int] = set()

    def enqueue(self, thread: Thread, number: int) -> Code:
        """A chunk is full."""
        self._queue.append(number)
        self._gauge(len(self._queue) + len(self._flying))
        yield from thread.notify(self._signal)

    def run(self, thread: Thread) -> Code:
        """The thread."""
        log = self._log
        while True:
            while not self._queue and not self._flying:
                yield from thread.wait(self._signal)
            if not self._flying and log.full:
                yield from self._make_room(thread)
            yield from self._submit(thread)
            for done in (yield from self._aio.io_getevents(thread, 1, self._area.count)):
                self._landed.add(next(slot for slot in self._flying if log.offset(slot) == done.offset))
            first = log.end
            while log.end in self._landed:
                self._landed.discard(log.end)
                log.end += 1
            if log.end > first:
                yield from self.landed(thread, [self._flying.pop(slot) for slot in range(first, log.end)])

    def _submit(self, thread: Thread) -> Code:
        log, requests, numbers = self._log, [], []
        while self._queue and log.end + len(self._flying) - log.first < log.slots:
            number, slot = self._queue.popleft(), log.end + len(self._flying)
            self._flying[slot] = number
            numbers.append(number)
            requests.append(
                Iocb(log.log, NvmeOpcode.WRITE, log.offset(slot), log.stride, source=self._area.address(number))
            )
        if requests:
            yield from self._aio.io_submit(thread, requests)
            yield from self.submitted(thread, numbers)

    def submitted(self, thread: Thread, numbers: Sequence[int]) -> Code:
        """The writes of these chunks are on their way."""
        yield from ()

    def landed(self, thread: Thread, numbers: Sequence[int]) -> Code:
        """The drive has these chunks: the log has them from now on, and then their bits are cleared."""
        yield from self._log.durable(thread, self._log.log)
        yield from self._log.write_state(thread)
        for number in numbers:
            yield from self._chunks.give_back(thread, number)
        self._gauge(len(self._queue) + len(self._flying))


def merged(entries: Iterable[ChunkEntry], newer: Callable[[ChunkEntry, ChunkEntry], bool]) -> list[ChunkEntry]:
    """Of each key the entry that a replay in this order leaves; ``newer(one, other)``: one takes the place of other."""
    last: dict[bytes, ChunkEntry] = {}
    for entry in entries:
        before = last.get(entry.key)
        if before is None or newer(entry, before):
            last[entry.key] = entry
    return list(last.values())
