"""The files of a database on the drive, and the tables in them.

File systems here have the files that they were made with. So a database has one file with a place for each table, the
table's number modulo their count, some manifests, which are cut and begun again in turn, and as many logs as a run can
need, which are used in turn, too. A log that is not needed any more is removed by the next recovery alone: it is cut to
nothing, durably. ``CURRENT`` is one block that is overwritten, which a drive does whole or not at all, as a rename
would be.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Generator, Iterable, Sequence
from typing import Any

from ....models.cpu import Thread
from ....models.storage.files import File
from ....models.system import Node
from .coding import Corruption, LevelEntry
from .log import DatabaseLog
from .sstable import BLOCK, FOOTER, TRAILER, TableIndex, entries_in, index_handle, table_of, verified
from .version import TableFile, described

Code = Generator[Any, Any, Any]

CURRENT_BYTES = 4096
MANIFEST = b"MANIFEST-%06d\n"
MANIFEST_BYTES = 8 << 20
SPARE = 16
"""So many manifests there are, and logs beyond what a run without failures needs."""


class DatabaseFiles:
    """All files; ``tables`` is how many places for tables there are, of ``table_bytes`` each."""

    def __init__(
        self, node: Node, logs: int, log_bytes: int, tables: int, table_bytes: int, cache_bytes: int, entry_bytes: int
    ) -> None:
        system = node.kernel.file_system("ssd")
        self.current = system.create("CURRENT", CURRENT_BYTES)
        self.manifests = [system.create(f"MANIFEST-{n:06}", MANIFEST_BYTES, grows=True) for n in range(SPARE)]
        self.logs = [system.create(f"{n:06}.log", log_bytes, grows=True) for n in range(logs + SPARE)]
        self.places = tables
        self._place_bytes = -(-table_bytes // CURRENT_BYTES) * CURRENT_BYTES
        self._tables = system.create("tables.ldb", tables * self._place_bytes)
        self._drive = node.memory["ssd"]
        self._slot_bytes = -(-(BLOCK + entry_bytes + 64) // 64) * 64
        self._slots = max(1, cache_bytes // self._slot_bytes)
        self._cache_at = node.memory["dram"].allocate(self._slots * self._slot_bytes, "block cache")
        self.begin()

    def begin(self) -> None:
        """A new process: nothing is in its caches."""
        self._indexes: dict[int, TableIndex] = {}
        self._cached: OrderedDict[tuple[int, int], tuple[int, int]] = OrderedDict()
        """By table and offset: slot and length, the one that was used longest ago first."""
        self._begun = 0
        """So many slots, the first ones, have been used."""
        self._free: list[int] = []
        """Those of them that no block has."""
        self._readers: Counter[int] = Counter()
        """By slot: how many threads load it."""

    # tables -----------------------------------------------------------------------------------------------------
    def _offset(self, number: int) -> int:
        return number % self.places * self._place_bytes

    def write_table(self, thread: Thread, number: int, entries: Sequence[LevelEntry]) -> Code:
        """Write a table and make it durable; returns it as the version knows it."""
        at = start = self._offset(number)
        for block in table_of(entries):
            yield from thread.crc32_of(block)
            yield from self._tables.pwrite(thread, block, at)
            at += len(block)
        yield from thread.software("leveldb_entry", len(entries))
        yield from self.sync_table(thread)
        return described(number, at - start, entries[0], entries[-1])

    def sync_table(self, thread: Thread) -> Code:
        """Make a table durable that has been written."""
        yield from self._tables.fdatasync(thread)

    def load_table(self, number: int, entries: Sequence[LevelEntry]) -> TableFile:
        """Have a table before the run."""
        data = b"".join(table_of(entries))
        self.show(self._tables, data, self._offset(number))
        return described(number, len(data), entries[0], entries[-1])

    def read_table(self, thread: Thread, table: TableFile) -> Code:
        """All entries of a table, in order. Raises Corruption."""
        index = yield from self._index(thread, table)
        found: list[LevelEntry] = []
        for handle in index.handles:
            block = yield from self._block(thread, table, *handle)
            found += entries_in(block)
        yield from thread.software("leveldb_entry", len(found))
        return found

    def find(self, thread: Thread, table: TableFile, key: bytes, sequence: int) -> Code:
        """The newest version of a key that a table has, up to a sequence number; None. Raises Corruption."""
        index = yield from self._index(thread, table)
        order = key, -sequence
        yield from thread.software("leveldb_compare", len(index.orders).bit_length())
        handle = index.block_of(order)
        if handle is None:
            return None
        block = yield from self._cached_block(thread, table, *handle)
        for entry in entries_in(block):
            if entry.order >= order:
                return entry if entry.key == key else None
        return None

    def _index(self, thread: Thread, table: TableFile) -> Code:
        """A table's index, read when it is asked for first."""
        found = self._indexes.get(table.number)
        if found is None:
            footer = yield from self._tables.pread(thread, self._offset(table.number) + table.length - FOOTER, FOOTER)
            block = yield from self._block(thread, table, *index_handle(footer))
            found = self._indexes[table.number] = TableIndex(block)
        return found

    def _block(self, thread: Thread, table: TableFile, offset: int, length: int) -> Code:
        """A block's bytes from the file."""
        if offset + length + TRAILER > table.length:
            raise Corruption(f"a block behind the end of table {table.number}")
        data = yield from self._tables.pread(thread, self._offset(table.number) + offset, length + TRAILER)
        yield from thread.crc32_of(data)
        return verified(data)

    def _cached_block(self, thread: Thread, table: TableFile, offset: int, length: int) -> Code:
        """A block's bytes from the block cache, where they are put if they are not there."""
        cached, key = self._cached, (table.number, offset)
        if key in cached:
            cached.move_to_end(key)
            slot, length = cached[key]
            self._readers[slot] += 1
            block = yield from thread.load(self._cache_at + slot * self._slot_bytes, length)
            self._readers[slot] -= 1
            return block
        block = yield from self._block(thread, table, offset, length)
        if len(block) <= self._slot_bytes and key not in cached:
            empty = self._empty_slot()
            if empty is not None:
                yield from thread.store(self._cache_at + empty * self._slot_bytes, block)
                if key in cached:  # another reader has put it there meanwhile
                    self._free.append(empty)
                else:
                    cached[key] = empty, len(block)
        return block

    def _empty_slot(self) -> int | None:
        """A slot that no block has from now on, if need be that of the block that was used longest ago and that nobody
        loads; None where there is none.
        """
        if self._free:
            return self._free.pop()
        if self._begun < self._slots:
            self._begun += 1
            return self._begun - 1
        key = next((key for key, (slot, _) in self._cached.items() if not self._readers[slot]), None)
        return None if key is None else self._cached.pop(key)[0]

    def forget(self, numbers: Iterable[int]) -> None:
        """These tables are not part of the version any more."""
        for number in numbers:
            self._indexes.pop(number, None)

    # logs and manifests -----------------------------------------------------------------------------------------
    def read_all(self, thread: Thread, file: File) -> Code:
        """All bytes of a file."""
        return (yield from file.pread(thread, 0, file.size_bytes)) if file.size_bytes else b""

    def log(self, number: int) -> File:
        """The file of a log."""
        return self.logs[number % len(self.logs)]

    def remove_logs(self, thread: Thread, numbers: Iterable[int]) -> Code:
        """Have the files of logs be empty, durably."""
        files = [log for log in map(self.log, numbers) if log.size_bytes]
        for file in files:
            yield from file.ftruncate(thread, 0)
        for file in files:
            yield from file.fdatasync(thread)

    def begin_manifest(self, thread: Thread, after: int, snapshot: bytes) -> Code:
        """A new manifest with a snapshot of the version, which ``CURRENT`` names from now on; returns it, and its
        number.
        """
        number = (after + 1) % len(self.manifests)
        manifest = DatabaseLog(self.manifests[number])
        if manifest.file.size_bytes:  # nobody needs it: CURRENT has not named it for long, or never
            yield from manifest.file.ftruncate(thread, 0)
        yield from manifest.append(thread, snapshot)
        yield from manifest.sync(thread)
        yield from self.current.pwrite(thread, MANIFEST % number, 0)
        yield from self.current.fdatasync(thread)
        return manifest, number

    def manifest_number(self, thread: Thread) -> Code:
        """The number of the manifest that ``CURRENT`` names. Raises Corruption."""
        name = yield from self.current.pread(thread, 0, len(MANIFEST % 0))
        digits = name[len(b"MANIFEST-") : -1]
        if not digits.isdigit() or name != MANIFEST % int(digits) or int(digits) >= len(self.manifests):
            raise Corruption(f"CURRENT names {name!r}")
        return int(digits)

    def show(self, file: File, data: bytes, offset: int = 0) -> None:
        """Have a file hold bytes before the run."""
        inode, space = file.inode, self._drive.space
        space.poke(inode.base + offset, data)
        if inode.size_at is not None:
            space.poke(inode.size_at, len(data).to_bytes(8, "little"))
            inode.size_bytes = None  # to be looked up
