"""The stacks over LevelDB: requests, logs and answers are those of the stacks over LibCuckoo.

Source: Luo et al., TCAD 2024, sections V-A and V-C. LevelDB's own log stays on and is not synced (``sync`` is false);
its thread makes tables and merges them on the drive that has the stack's log, too.

What the paper leaves open is read so. After a failure LevelDB recovers first, from ``CURRENT``, the manifest, tables
and its log; then the stack's log is replayed over it from its first live entry, also what LevelDB has kept already. The
log of PMRAccess is reclaimed once LevelDB has made a table of its memtable. A database whose files are corrupt answers
so from then on. The page cache is not limited to the paper's 4 GB.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from typing_extensions import override

from ....models.cpu import Thread
from ....models.system import Node
from ...naming import Option
from ..chunklog import DRIVE
from ..chunks import MEMORY
from ..entries import ChunkEntry
from ..messaging import CORRUPT
from ..pmemaccess import PmemServer, PmemStack
from ..pmraccess import ChunkServer, PmrStack, ServedChunk
from ..stack import MOST_KEY_BYTES, Stack, StackServer
from ..store import Store, StoreSizes
from ..synclog import GroupLogServer, LoggedStack, SyncLogServer
from .coding import Corruption
from .database import LEAST_BUFFER_BYTES, LevelDb

Code = Generator[Any, Any, Any]

RECOVERIES = 3
"""There is room for so many recoveries that replay the log of a whole run."""
MEMTABLE = Option(
    "64 MiB", quantity="size", at_least=LEAST_BUFFER_BYTES, source="section V-A: 64 MB; LevelDB's default is 4 MiB",
    text="how large a memtable of LevelDB may be before a table is made of it",
)  # fmt: skip
SHRUNK = Option(
    1, at_least=1, source="where each key of a run stands for so many",
    text="how many times smaller LevelDB's memtable, levels, tables and cache are",
)  # fmt: skip


class DatabaseServer(StackServer, software=LevelDb.software):
    """A server whose store may be found corrupt: then nothing is executed any more."""

    @override
    def begin(self) -> None:
        super().begin()
        self.corrupt = False

    @override
    def execute(self, thread: Thread, end: Any, request: ChunkEntry | None) -> Code:
        if not self.corrupt:
            try:
                return (yield from super().execute(thread, end, request))
            except Corruption:
                self.corrupt = True
        return CORRUPT, b""

    @override
    def recover(self, thread: Thread) -> Code:
        try:
            yield from super().recover(thread)
        except Corruption:
            self.corrupt = True


class OverLevelDb(Stack):
    """A stack whose store is LevelDB; it stands behind the stack's own class among the bases."""

    Backend: ClassVar[type[Store]] = LevelDb
    options: ClassVar[dict[str, Option]] = {"memtable": MEMTABLE, "shrunk": SHRUNK}

    @override
    def make_store(self, node: Node, sizes: StoreSizes) -> Store:
        kind = self.Backend
        assert issubclass(kind, LevelDb)
        return kind(
            node,
            sizes._replace(updates=(1 + RECOVERIES) * sizes.updates),
            loaded=len(self.sizes.objects),
            shrunk=int(self.option("shrunk")),
            write_buffer_bytes=int(self.option("memtable")),
            checkpoints=(1 + RECOVERIES) * self.checkpoints(),
        )

    def checkpoints(self) -> int:
        """How often a run asks for a checkpoint, at most."""
        return 0


class RdmaLevelDb(OverLevelDb, name="rdma-leveldb"):
    """Messages to LevelDB alone: of what it has answered a power failure may leave any first part."""

    title = "messages by WRITE to LevelDB, whose log is not synced; durable some time later"
    section = "section V-C"

    class Server(DatabaseServer, memory=("dram", DRIVE), background=1):
        """The server."""


class PmrAccessLevelDb(PmrStack, OverLevelDb, name="pmraccess-leveldb"):
    """The paper's stack over LevelDB: its requests and chunks are those of ``pmraccess``."""

    title = "requests by WRITE into a chunk of the drive's region, answered once they are parsed there; over LevelDB"
    section = "section IV, algorithms 1 and 2; section V-C"

    @override
    def checkpoints(self) -> int:
        entries, sizes = self.entries, self.sizes
        room = int(self.option("chunk")) - entries.before_bytes - self.alloc_bytes()
        puts = max(1, room // entries.length(MOST_KEY_BYTES, sizes.value_bytes) - 1)  # a GET may ask for a chunk, too
        full = sizes.updates // puts + sizes.clients
        return full // int(self.option("slots")) + 1

    class Server(DatabaseServer, ChunkServer, memory=("dram", MEMORY, DRIVE), background=2):
        """The server with the region: a thread flushes chunks, another one makes tables.

        Once the database is corrupt the log is not reclaimed any more, and full chunks stay full: whoever asks for
        another one, be it for a new connection, is answered so.
        """

        @override
        def flushing(self, thread: Thread) -> Code:
            try:
                yield from super().flushing(thread)
            except Corruption as error:
                self.corrupt = True
                yield from self.chunks.refuse(thread, error)

        @override
        def welcome(self, thread: Thread, end: ServedChunk) -> Code:
            try:
                yield from super().welcome(thread, end)
            except Corruption:
                end.refused = True
                yield from thread.notify(end.granted)

        @override
        def recover(self, thread: Thread) -> Code:
            yield from super().recover(thread)
            if self.corrupt:
                yield from self.chunks.refuse(thread, Corruption("found in recovery"))


class SyncAccessLevelDb(LoggedStack, OverLevelDb, name="syncaccess-leveldb"):
    """The log of ``syncaccess``, over LevelDB: table I's Traditional."""

    title = "requests to DRAM; executed, then written to a log and synced, each by itself; over LevelDB"
    section = "section V-C, table I"

    class Server(DatabaseServer, SyncLogServer, background=1):
        """The server."""


class GroupAccessLevelDb(LoggedStack, OverLevelDb, name="groupaccess-leveldb"):
    """The log of ``groupaccess``, over LevelDB."""

    title = "requests to DRAM; executed, then written to a log and synced in groups; over LevelDB"

    class Server(DatabaseServer, GroupLogServer, background=1):
        """The server."""


class PmemAccessLevelDb(PmemStack, OverLevelDb, name="pmemaccess-leveldb"):
    """The logs of ``pmemaccess``, over LevelDB: table I's RDMA+PMEM."""

    title = "requests by WRITE into the client's log in Optane, answered once they are executed; over LevelDB"
    section = "section V-C, table I"

    class Server(DatabaseServer, PmemServer, memory=("dram", "pm", DRIVE), background=1):
        """The server with Optane."""
