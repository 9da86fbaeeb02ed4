"""Clover: chains of versions on passive data nodes, cursors at clients, a metadata server for space and heads.

Source: Tsai et al., ATC'20, section 5, figures 2c, 3 and 4. A get READs the version that the machine's cursor points
to, a put WRITEs a free buffer and links it to the newest version by CAS: one and two round trips.

What the paper leaves open is read so; what concerns one part stands at the head of its file.

- A put of a key that is not there writes its first version, then has the metadata server create the key.
- A delete marks the newest version by CAS as the last one, then has all metadata servers forget the key; whoever finds
  the mark does that too. So a client with an old cursor cannot write behind it.
- A failed CAS finds what follows, and the walk to the newest version begins there; it looks at the shortcut too.
- The writer WRITEs the shortcut right behind its CAS, and waits for nothing.
- A put cut short by a data node's failure is not repeated, and its buffer is not used again.
- That the metadata server may be lost (section 5.4) is said of several servers. A name does not tell how many there
  are, so it is not among the claims.
- Values of a run have one size, so all buffers are of one class. A node has a quarter more of them than versions are
  loaded, and those in clients' hands.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from typing_extensions import override

from ....models.system import System
from ....sim.bytespace import LINE_BYTES
from ...guarantees import ALWAYS, Claims, Condition
from ...naming import Option
from ...parts.kv import key_bytes
from ...scheme import Limits, PastOperation, Request, Role, Sizes
from ..data import DURABLE, REPLICAS, WORD, DataNode
from .client import CloverClient
from .header import ChainCursor, Version
from .library import Library, Retired
from .metadata import ROW_BYTES, MetadataServer, row_line
from .pool import LARGEST_BYTES, FirstImage
from .shared import HISTORY_OF, CloverParts


class Clover(CloverParts, name="clover"):
    """Reads and writes by one-sided verbs; the metadata server is asked only for what is not known."""

    title = "Clover: versions in chains on passive nodes, linked by CAS; space by a metadata server"
    section = "section 5, figures 2c, 3 and 4"
    operations = ("put", "get", "delete")
    updates = frozenset({"put", "delete"})
    removals = frozenset({"delete"})
    inserts = "put"
    claims: ClassVar[Claims] = {
        Condition.COMMITTED: ALWAYS,
        Condition.NO_LOST_ACK: (
            "data power; all power; metadata power; metadata process; client power; client process"
        ),
    }
    faults: ClassVar = {
        "data": ("power", "lost"), "metadata": ("power", "process", "lost"), "client": ("power", "process"),
        "all": ("power",),
    }  # fmt: skip
    limits = Limits(
        value_bytes=LARGEST_BYTES - WORD, source="the largest buffers, of 32 KiB (public code), have the header"
    )
    options: ClassVar[dict[str, Option]] = {
        "durable": DURABLE,
        "replicas": REPLICAS,
        "cache": Option("100%", quantity="share", source="section 6.4", text="keys of which metadata are cached"),
        "evict": Option("fifo", choices=("fifo", "lru"), source="sections 5 and 6.4", text="which key goes first"),
        "balance": Option(
            "none", choices=("none", "writes", "reads and writes"),
            source="sections 5.5 and 6.5, whose round robin is `none`",
            text="what goes to the least used data node: buffers, and copies that are read",
        ),
        "gc": Option(
            "versions", choices=("versions", "strawman"), source="section 5.2",
            text="how a reader finds out that a buffer has been used again: by its GC version, or not at all",
        ),
        "heads": Option(
            "moved", choices=("moved", "at create"),
            source="section 5.4 names the head at creation alone; without moved ones the chain is lost with the server",
            text="whether moved heads are durable, and on the backups, before older buffers are used again",
        ),
        "batch": Option(
            16, at_least=1, at_most=64, source="public code: 16 spaces a request, 16 retired versions a message",
            text="free buffers, and versions to retire, for a message",
        ),
        "spare": Option(0.25, at_least=0, at_most=8, source="assumption", text="buffers beyond those that are loaded"),
        "epoch": Option(
            "1 s", quantity="time", source="assumption; section 5.2 has a configurable T_e",
            text="how long a buffer waits whose GC version has wrapped around",
        ),
        "patience": Option(
            "10 ms", quantity="time", source="assumption: longer than any put takes; no paper says",
            text="how long a put waits for another replicated one before it asks the metadata server to complete that",
        ),
        "copied": Option(
            -1, at_least=-1, source="section 6.5: of its entries one has copies",
            text="the number of the only key that has several copies; -1: all have",
        ),
        "rounds": Option(
            3, at_least=2, at_most=3, source="table 1 counts three round trips of a replicated write, section 5.4 two",
            text="round trips of a put with several copies",
        ),
    }  # fmt: skip
    Data = DataNode
    Metadata = MetadataServer
    Client = CloverClient

    def __init__(self, system: System, sizes: Sizes) -> None:
        self._loaded: range = range(0)
        self._heads: dict[int, Version] = {}
        """By key the head of its chain at time zero, where that is not the first version."""
        super().__init__(system, sizes)
        self.image = FirstImage(self.pool, 0, lambda _: b"")

    @override
    def recovery(self) -> Sequence[Role]:
        one = self.serving()
        return [one] if one is not None and self.failed("metadata") else []

    @override
    def loaded_chain(self, key: int) -> ChainCursor | None:
        return ChainCursor(self.pool.first_version(key), 0) if key in self._loaded else None

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names = self.sizes.objects
        self._loaded = range(len(objects))
        self.image = FirstImage(self.pool, len(objects), lambda key: objects[names[key]])
        self.image.lay(self.roles["data"])
        server: MetadataServer
        for server in self.roles["metadata"]:
            start = server.rows - server.pm.base
            server.pm.space.compute(start, ROW_BYTES * len(names), partial(self._row_line, start // LINE_BYTES))
        for key in self._loaded if len(names) <= HISTORY_OF else ():
            for pointer in dict.fromkeys(self.pool.first_version(key)):
                self.given("loader", pointer)
        serving: MetadataServer = self.roles["metadata"][0]
        for client in self.roles["client"]:
            pointers = list(serving.space.give(client.library.missing(), self.batch * self.pool.nodes, balanced=False))
            client.library.fill(pointers)
            for pointer in pointers:
                self.given("loader", pointer)

    def _row_line(self, first: int, line: int) -> bytes:
        key, second = divmod(line - first, 2)
        head = self._heads.get(key) or (self.pool.first_version(key) if key in self._loaded else None)
        return row_line(head, key_bytes(self.sizes.objects[key]), self.copies, counts=not second)

    @override
    def age(self, past: Sequence[PastOperation]) -> None:
        """Reads and writes of the past move cursors, chains and buffers as those of the run do, in no time."""
        server: MetadataServer = self.roles["metadata"][0]
        clients: Sequence[CloverClient] = self.roles["client"]
        each, index = -(-self.sizes.clients // len(clients)), self.sizes.objects.index
        for one in past:
            key, library = index(one.object), clients[one.process // each].library
            old = self.image.version_of(key)
            if one.f == "get":
                library.cursors.move(key, ChainCursor(old, 0))
                continue
            new = library.take(self.pool.copies_of(key), balanced=False, lost=lambda _: False)
            assert new is not None
            library.writing.clear()
            self.image.append(key, old, new)
            library.cursors.move(key, ChainCursor(new, 0))
            library.retired.append(Retired(key, 0, old, new))
            if library.is_low():
                self._exchange(server, library)

    def _exchange(self, server: MetadataServer, library: Library) -> None:
        """A machine retires versions and fetches buffers."""
        while library.retired:
            gone = library.retired.popleft()
            for version in server.chains.retire(gone.key, 0, gone.old, gone.new):
                for pointer in version:
                    server.space.reclaim(pointer)
            chain = server.chains.of(gone.key)
            assert chain is not None
            self._heads[gone.key] = chain.head
        for pointer in server.space.overflowed:
            server.space.free[pointer.node].append(pointer.buffer)
        server.space.overflowed.clear()
        library.fill(list(server.space.give(library.missing(), library.needed(), balanced=False)))

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)
