"""LevelDB as a store: writes go to a log and a memtable, a thread makes tables of memtables and merges them.

Writers queue; the first writes the log record of all that wait, and puts them into the memtable (db/db_impl.cc,
``BuildBatchGroup``). When a memtable is full the next one begins, with a log of its own; the writer waits if the one
before is not a table yet, or if level 0 has too many (``MakeRoomForWrite``: a millisecond a write from eight tables on,
a stop at twelve). Recovery reads ``CURRENT``, the manifest, and the logs from the one on that the manifest says.

Blocks are verified whenever they are read from a file (``verify_checksums``, which LevelDB leaves off by default). A
merge that finds a corrupt one is the background thread's last: no write is taken from then on (``bg_error_``).
Reads are of the newest state: there are no snapshots, and of a key a merge keeps the newest version only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ....models.cpu import Signal, Thread
from ....models.system import Node, Process
from ..store import Store, StoreSizes
from .coding import Corruption, LevelEntry
from .files import MANIFEST, SPARE, DatabaseFiles
from .log import BLOCK, DatabaseLog, LogReader, batch_of, entries_of, pieces
from .memtable import Memtable
from .version import (
    LEVELS,
    SLOW_AT,
    STOP_AT,
    Merge,
    Version,
    VersionEdit,
    newest,
    range_of,
)

Code = Generator[Any, Any, Any]

WRITE_BUFFER_BYTES = 64 << 20
"""A memtable of the PMR paper (section V-A; LevelDB's default is 4 MiB)."""
LEAST_BUFFER_BYTES = 128
"""No memtable is smaller: an empty list has room in it, so that no table is made of one."""
CACHE_BYTES = 256 << 20
"""The block cache of the PMR paper (section V-A)."""
GROUP_BYTES = 1 << 20
"""At most so many bytes are written as one record (``BuildBatchGroup``)."""
PUT_OFF = "1 ms"
ARENAS = 3
"""A memtable, the one before, and one that a reader may still look at."""
_ENTRY_EXTRA = 96
"""What an entry takes beside key and value: of a node its head and pointers, of a record its headers."""


class QueuedWrite:
    """A writer in the queue; without entries it asks for a new memtable."""

    def __init__(self, entries: Sequence[tuple[bytes, bytes | None]], signal: Signal) -> None:
        self.entries = entries
        self.signal = signal
        self.done = False
        self.length = sum(len(key) + len(value or b"") for key, value in entries)


class LevelDb(Store):
    """A database; see the module. ``sync``: each write waits until its log record is durable."""

    memory: ClassVar[tuple[str, ...]] = ("dram", "ssd")
    software: ClassVar[tuple[str, ...]] = ("leveldb_call", "leveldb_compare", "leveldb_entry")
    background: ClassVar[int] = 1
    reader: ClassVar[type[LogReader]] = LogReader

    def __init__(
        self,
        node: Node,
        sizes: StoreSizes,
        *,
        loaded: int = 0,
        sync: bool = False,
        shrunk: int = 1,
        write_buffer_bytes: int = WRITE_BUFFER_BYTES,
        cache_bytes: int = CACHE_BYTES,
        checkpoints: int = 0,
    ) -> None:
        """``loaded`` is how many entries there are before the run. ``shrunk``: memtable, levels, tables and cache are
        so many times smaller, as where each key stands for so many. ``checkpoints``: there are so many at most, each of
        which begins a log and makes a table.
        """
        super().__init__(node, sizes)
        self.sync = sync
        self.write_buffer_bytes = max(LEAST_BUFFER_BYTES, write_buffer_bytes // shrunk)
        self._shrunk = shrunk
        entry = sizes.key_bytes + sizes.value_bytes + _ENTRY_EXTRA
        memtables = sizes.updates * entry // self.write_buffer_bytes + 1 + checkpoints
        smallest = min(Version(shrunk).table_bytes, self.write_buffer_bytes)
        places = 2 * ((loaded + sizes.updates) * entry // smallest + checkpoints + STOP_AT + SPARE)
        whole = self.write_buffer_bytes + GROUP_BYTES + 2 * BLOCK + entry * max(sizes.threads, 16)
        table = max(whole, Version(shrunk).table_bytes + entry + 4 * BLOCK)
        self.files = DatabaseFiles(node, memtables, 2 * whole, places, table, cache_bytes // shrunk, entry)
        self._arena_bytes = 2 * whole
        self._arenas = [node.memory["dram"].allocate(self._arena_bytes, "memtable") for _ in range(ARENAS)]
        self._draw = node.system.streams.stream(f"skip lists of {node.name}")

    @override
    def begin(self) -> None:
        self.version = Version(self._shrunk)
        self.sequence = 0
        self.merges = self.flushes = 0
        """How many merges there were, and how many memtables have become tables."""
        self.files.begin()
        self._number = 1
        """The next table's."""
        self._memtables = 0
        self._memtable = self._new_memtable()
        self._before: Memtable | None = None
        """The memtable that is to become a table."""
        self._log_number = self._oldest_log = 0
        """The log that is written, and the oldest whose file may have bytes."""
        self._log = DatabaseLog(self.files.log(0))
        self._manifest: DatabaseLog | None = None
        self._queue: deque[QueuedWrite] = deque()
        self._waiting: list[Signal] = []
        """Of writers that wait for the background thread."""
        self._due = Signal(self.node.system.clock)
        self._runs = False
        self._failed = ""
        """Why the background thread has given up; empty: it has not."""

    def _new_memtable(self) -> Memtable:
        self._memtables += 1
        return Memtable(self._arenas[self._memtables % ARENAS], self._draw)

    @override
    def load(self, entries: Mapping[bytes, bytes]) -> None:
        listed = [LevelEntry(self.padded(key, value), n, value) for n, (key, value) in enumerate(entries.items(), 1)]
        self.sequence = len(listed)
        found, length = [], 0
        for some in _tables_of(newest(listed), self.version.table_bytes):
            table = self.files.load_table(self._number, some)
            self._number += 1
            length += table.length
            found.append(table)
        level, most = 1, self.version.level_1_bytes
        while length > most and level < LEVELS - 1:
            level, most = level + 1, most * 10
        self.version.apply(VersionEdit(new=[(level, table) for table in found]))
        snapshot = b"".join(pieces(self._snapshot().pack(), 0))
        self.files.show(self.files.manifests[0], snapshot)
        self.files.show(self.files.current, MANIFEST % 0)
        self._manifest = DatabaseLog(self.files.manifests[0], len(snapshot))

    def _snapshot(self) -> VersionEdit:
        edit = self.version.whole()
        edit.log, edit.next_number, edit.sequence = self._log_number, self._number, self.sequence
        edit.oldest = self._oldest_log or None
        return edit

    # operations -------------------------------------------------------------------------------------------------
    @override
    def put(self, thread: Thread, key: bytes, value: bytes) -> Code:
        yield from self._write(thread, [(self.padded(key, value), value)])

    @override
    def remove(self, thread: Thread, key: bytes) -> Code:
        yield from self._write(thread, [(self.padded(key), None)])

    @override
    def get(self, thread: Thread, key: bytes) -> Code:
        key, sequence = self.padded(key), self.sequence
        yield from thread.software("leveldb_call")
        memtables = self._memtable, self._before
        tables = list(self.version.tables_with(key))
        for memtable in memtables:
            found = None if memtable is None else (yield from memtable.get(thread, key, sequence))
            if found is not None:
                return found.value
        for table in tables:
            found = yield from self.files.find(thread, table, key, sequence)
            if found is not None:
                return found.value
        return None

    @override
    def checkpoint(self, thread: Thread) -> Code:
        if self._memtable.count:
            yield from self._write(thread, [])
        while self._before is not None:
            yield from self._until_worked(thread)
        return True

    def _write(self, thread: Thread, entries: Sequence[tuple[bytes, bytes | None]]) -> Code:
        """Queue, and write for all that wait once it is one's turn, unless another has done it."""
        yield from thread.software("leveldb_call")
        mine = QueuedWrite(entries, Signal(self.node.system.clock))
        self._queue.append(mine)
        if self._queue[0] is not mine:
            yield from thread.block(mine.signal)
        if mine.done:
            return
        try:
            yield from self._make_room(thread, forced=not entries)
        except Corruption:
            self._queue.popleft()
            for one in list(self._queue)[:1]:
                yield from thread.wake(one.signal)
            raise
        group, length = list[QueuedWrite](), 0
        for one in self._queue:
            if group and not (entries and one.entries and length + one.length <= GROUP_BYTES):
                break
            group.append(one)
            length += one.length
        if entries:
            listed = [entry for one in group for entry in one.entries]
            yield from self._log.append(thread, batch_of(self.sequence + 1, listed))
            if self.sync:
                yield from self._log.sync(thread)
            for number, (key, value) in enumerate(listed, self.sequence + 1):
                yield from self._memtable.add(thread, LevelEntry(key, number, value))
            self.sequence += len(listed)
        for one in group:
            self._queue.popleft()
            one.done = True
        for signal in [one.signal for one in group if one is not mine] + [one.signal for one in list(self._queue)[:1]]:
            yield from thread.wake(signal)

    def _make_room(self, thread: Thread, *, forced: bool) -> Code:
        """Until the memtable has room, or, ``forced``, until a new one has begun. Raises Corruption."""
        may_put_off = not forced
        while True:
            self._check()
            level_0 = len(self.version.levels[0])
            if may_put_off and level_0 >= SLOW_AT:
                yield from thread.sleep_until(thread.deadline(PUT_OFF))
                may_put_off = False
            elif not forced and self._memtable.used_bytes <= self.write_buffer_bytes:
                return
            elif self._before is not None or level_0 >= STOP_AT:
                yield from self._until_worked(thread)
            else:
                self._log_number += 1
                assert self._log_number < self._oldest_log + len(self.files.logs), "a file with an old log in it"
                self._log = DatabaseLog(self.files.log(self._log_number))
                self._before, self._memtable, forced = self._memtable, self._new_memtable(), False
                yield from self._schedule(thread)

    def _schedule(self, thread: Thread) -> Code:
        """Let the background thread know that there is work."""
        if self._runs:
            yield from thread.wake(self._due)

    def _until_worked(self, thread: Thread) -> Code:
        """Wait for the background thread; where there is none, as in recovery, do its work. Raises Corruption."""
        if not self._runs:
            yield from self._work(thread)
            return
        self._check()
        signal = Signal(self.node.system.clock)
        self._waiting.append(signal)
        yield from thread.block(signal)

    def _check(self) -> None:
        if self._failed:
            raise Corruption(self._failed)

    # in the background ------------------------------------------------------------------------------------------
    @override
    def start(self, process: Process, threads: Sequence[Thread] = ()) -> None:
        self._runs = True
        process.start(self._background(threads[0]))

    def _background(self, thread: Thread) -> Code:
        try:
            while True:
                while self._before is not None or self.version.due() is not None:
                    yield from self._work(thread)
                    yield from self._tell(thread)
                yield from thread.block(self._due)
        except Corruption as error:
            self._failed = str(error)
            yield from self._tell(thread)

    def _tell(self, thread: Thread) -> Code:
        """Wake the writers that wait for the background thread."""
        waiting, self._waiting = self._waiting, []
        for signal in waiting:
            yield from thread.wake(signal)

    def _work(self, thread: Thread) -> Code:
        """Make a table of the memtable before, or else the merge that is due most."""
        if self._before is not None:
            yield from self._flush(thread)
        elif (merge := self.version.due()) is not None:
            yield from self._merge(thread, merge)

    def _flush(self, thread: Thread) -> Code:
        memtable = self._before
        assert memtable is not None
        log_number = self._log_number
        yield from thread.touch(memtable.arena, memtable.used_bytes)
        table = yield from self._write_table(thread, newest(list(memtable.entries())))
        level = self.version.level_for(*range_of([table]))
        yield from self._record(thread, VersionEdit(log=log_number, new=[(level, table)]))
        self._before = None
        self.flushes += 1

    def _merge(self, thread: Thread, merge: Merge) -> Code:
        """Merge tables of a level into those of the next one; a single one that overlaps none moves as it is."""
        below, old = merge.level + 1, (*merge.upper, *merge.lower)
        edit = VersionEdit(pointers=[(merge.level, max(table.largest for table in merge.upper))])
        edit.deleted = [(merge.level, one.number) for one in merge.upper] + [(below, one.number) for one in merge.lower]
        if len(old) == 1:
            edit.new = [(below, old[0])]
        else:
            entries: list[LevelEntry] = []
            for table in old:
                entries += yield from self.files.read_table(thread, table)
            kept = [e for e in newest(entries) if e.value is not None or not self.version.is_lowest(below, e.key)]
            for some in _tables_of(kept, self.version.table_bytes):
                edit.new.append((below, (yield from self._write_table(thread, some))))
                if self._before is not None:  # writers may wait for that
                    yield from self._flush(thread)
        yield from self._record(thread, edit)
        if len(old) > 1:
            self.files.forget(table.number for table in old)
        self.merges += 1

    def _write_table(self, thread: Thread, entries: Sequence[LevelEntry]) -> Code:
        """A new table, in a place that no table of the version has."""
        taken = {table.number % self.files.places for tables in self.version.levels for table in tables}
        while self._number % self.files.places in taken:
            self._number += 1
        number, self._number = self._number, self._number + 1
        return (yield from self.files.write_table(thread, number, entries))

    def _record(self, thread: Thread, edit: VersionEdit) -> Code:
        """Write an edit to the manifest, make it durable, then change the version (``LogAndApply``)."""
        edit.next_number, edit.sequence = self._number, self.sequence
        if self._manifest is not None:
            yield from self._manifest.append(thread, edit.pack())
            yield from self._manifest.sync(thread)
        self.version.apply(edit)

    # recovery ---------------------------------------------------------------------------------------------------
    @override
    def recover(self, thread: Thread) -> Code:
        """Raises Corruption where ``CURRENT`` or the manifest are not whole.

        Of all files of logs those have no old log in them that lie behind the oldest which is not removed: the manifest
        says which. Those that it does not need any more are removed before the next manifest says so.
        """
        files, oldest = self.files, 0
        manifest = yield from files.manifest_number(thread)
        data = yield from files.read_all(thread, files.manifests[manifest])
        first = 0
        for record in self.reader(data).records():
            edit = VersionEdit.unpack(record)
            self.version.apply(edit)
            first = first if edit.log is None else edit.log
            oldest = oldest if edit.oldest is None else edit.oldest
            self._number = max(self._number, edit.next_number or 0)
            self.sequence = max(self.sequence, edit.sequence or 0)
        self._log_number = first
        for number in range(first, oldest + len(files.logs)):
            if files.log(number).size_bytes:
                self._log_number = number + 1
                yield from self._replay(thread, files.log(number))
        if self._memtable.count:
            self._before, self._memtable = self._memtable, self._new_memtable()
            yield from self._flush(thread)
        yield from files.remove_logs(thread, range(oldest, first))
        self._oldest_log = first
        self._log = DatabaseLog(files.log(self._log_number))
        self._manifest, _ = yield from files.begin_manifest(thread, manifest, self._snapshot().pack())

    def _replay(self, thread: Thread, file: Any) -> Code:
        """Put a log's updates into the memtable."""
        data = yield from self.files.read_all(thread, file)
        yield from thread.crc32_of(data)
        for record in self.reader(data).records():
            for entry in entries_of(record):
                yield from self._memtable.add(thread, entry)
                self.sequence = max(self.sequence, entry.sequence)
            if self._memtable.used_bytes > self.write_buffer_bytes:
                self._before, self._memtable = self._memtable, self._new_memtable()
                yield from self._flush(thread)


def _tables_of(entries: Sequence[LevelEntry], most_bytes: int) -> Iterator[Sequence[LevelEntry]]:
    """Entries, cut where a table has so many bytes."""
    some: list[LevelEntry] = []
    length = 0
    for entry in entries:
        some.append(entry)
        length += len(entry.key) + len(entry.value or b"")
        if length >= most_bytes:
            yield some
            some, length = [], 0
    if some:
        yield some
