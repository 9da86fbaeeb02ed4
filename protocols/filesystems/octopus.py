"""Octopus, the file system: clients ask a server for a file's extents, and write and read them there themselves.

Source: Lu, Shu, Chen, Li, USENIX ATC'17, by its public code (thustorage/octopus at 44faedf; ``src/client/nrfs.cpp``,
``nrfsWrite`` and ``nrfsRead``), of which the paper itself was not at hand. A write asks for extents, WRITEs each one in
place and waits for its completion, and has the metadata updated; the READ behind the WRITE is commented out
(``src/net/RdmaSocket.cpp``, ``RemoteWrite``), so nothing flushes the data. A read asks, READs, and says that it has
ended. Metadata have a redo log at their server: a record flushed, then its commit (``src/fs/TxManager.cpp``).

What the paper leaves open is read so. A file has its size and its extents for ever, each of ``extent`` bytes at most:
files are not created, grown or removed, so that no metadata change on two servers at once (the code's distributed
transactions). File n is on server n modulo their number. A file has one lock, for reads too, in its server's DRAM; who
finds it taken asks again. The code has a lock for reads and one for writes, and has their release commented out; it
changes size and time with the first call, and does not answer the last one. Here the last call changes them and is
answered, so that a write has ended when its metadata are durable. A lock whose owner is silent for ``lease`` is free.
The code knows no lease. Who is answered that another client has taken the lock over has written or read beside that
one: his write is unknown, since its data are there and its metadata are not, and his read fails; neither is done again,
or two clients could take the lock from each other for ever. A request is a WRITE with immediate, as in the code; its
reply, there a WRITE, is a SEND (the call itself is the scheme ``octopus-rpc``). The code has no recovery: a server
whose power comes back replays its log, and takes data as they are. That a server is lost for good is known to all.
``octopus over wflush`` is figure 7a of Duan et al., SC'21, with the file system's calls.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Deadline, Thread
from ...models.persist.service import Service
from ...models.system import Node
from ...sim.bytespace import LINE_BYTES, round_up
from ..guarantees import Claims
from ..layout import U32, U64, Block, Layout
from ..naming import Option
from ..parts.rpc import Listener
from ..scheme import OperationFailed, OutcomeUnknown, Request, Role, Scheme
from .machines import SLOTS, DataLink, FileClient, check_place, fill, slot_bytes

Code = Generator[Any, Any, Any]

WRITE, UPDATE, READ, READ_END = 1, 2, 3, 4
"""What a client asks for: the extents to write, the update of the metadata behind it; those to read, and its end."""
TAKEN = b"taken"
"""The reply while another client has the lock."""
DONE = b"done"
OVERTAKEN = b"overtaken"
"""The reply to the second call of a client whose lock another one has taken over meanwhile."""
RECORDS = 16
"""Records of the redo log, used in turn: an assumption, the code's log has no end."""


class ExtentRequest(Layout):
    """A request, which lies in the client's place in the server's memory."""

    what = U32()
    """WRITE, UPDATE, READ or READ_END."""
    number = U32()
    """Of the file."""
    length = U32()


class FileExtent(Layout):
    """A piece of a file, as the server tells it."""

    server = U32()
    length = U32()
    address = U64()


class FileInode(Layout):
    """A file's metadata."""

    length = U32()
    unused = Block(4)
    time = U64()
    """Of its last update: here the number of that update at its server, which no two have in common."""


class MetadataRecord(Layout):
    """A record of the redo log: what an inode becomes, and on a line of its own the commit."""

    id = U64()
    number = U32()
    length = U32()
    unused = Block(48)
    commit = U64()
    """The same id, once all before it is durable."""


COMMIT = MetadataRecord.offset_of("commit")
RECORD_BYTES = 2 * LINE_BYTES


class Octopus(Scheme, name="octopus"):
    """Two calls, and a WRITE for each extent in between."""

    title = "Octopus: extents written in place by clients, metadata by redo log, data never flushed"
    paper = "Lu et al., USENIX ATC'17 (Octopus)"
    section = "public code thustorage/octopus, nrfs.cpp and TxManager.cpp"
    operations = ("put", "get")
    updates = frozenset({"put"})
    claims: ClassVar[Claims] = {}
    faults: ClassVar = {
        "server": ("power", "process", "lost"), "client": ("power", "process"), "all": ("power",),
    }  # fmt: skip
    over = "no-flush"
    options: ClassVar[dict[str, Option]] = {
        "extent": Option("1 MiB", quantity="size", at_least=64, source="public code: common.hpp, BLOCK_SIZE",
                         text="the most bytes of an extent"),
        "extents": Option("home", choices=("home", "in turn"),
                          source="public code: extentWrite takes its own; an extent's tuple names a node",
                          text="on which server a file's extents are: on its own, or on this one and those behind"),
        "lease": Option("1 ms", quantity="time", source="assumption: longer than any write here, by far",
                        text="after what time the lock of a client that is silent is free"),
    }  # fmt: skip

    @override
    @classmethod
    def composed(cls) -> None:
        check_place(cls)

    @property
    def extent_bytes(self) -> int:
        """The most bytes of an extent."""
        return min(int(self.option("extent")), self.sizes.value_bytes)

    @property
    def extents(self) -> int:
        """How many extents a file has."""
        return -(-self.sizes.value_bytes // self.extent_bytes)

    def server_of(self, number: int, index: int) -> Octopus.Server:
        """The server of one of a file's extents."""
        servers = self.roles["server"]
        step = index if self.option("extents") == "in turn" else 0
        server: Octopus.Server = servers[(number + step) % len(servers)]
        return server

    def home(self, number: int) -> Octopus.Server:
        """The server of a file's metadata."""
        return self.server_of(number, 0)

    def extents_of(self, number: int) -> Iterator[tuple[Octopus.Server, int]]:
        """Where a file's extents are: the server, and the address there."""
        for index in range(self.extents):
            server = self.server_of(number, index)
            yield server, server.data + (number * self.extents + index) * server.extent_room

    class Client(FileClient):
        """A machine whose processes write and read files."""

        scheme: Octopus

        @override
        def connect(self, thread: Thread) -> OctopusSession:
            return OctopusSession([ServerLink(thread, self.node, server) for server in self.scheme.roles["server"]])

        @override
        def write(self, session: OctopusSession, number: int, value: bytes) -> Code:
            """Extents, a WRITE to each, metadata."""
            home = session.to(self.scheme.home(number))
            extents = yield from self.ask_for(home, WRITE, number, len(value))
            written = 0
            for extent in extents:
                link = session.links[extent.server]
                yield from link.write(extent.address, value[written : written + extent.length])
                written += extent.length
            if (yield from home.ask(UPDATE, number, len(value))) == OVERTAKEN:
                raise OutcomeUnknown("another client has taken the file's lock over")

        @override
        def read(self, session: OctopusSession, number: int) -> Code:
            """Extents, a READ of each, the end."""
            home = session.to(self.scheme.home(number))
            extents = yield from self.ask_for(home, READ, number, 0)
            data = b""
            for extent in extents:
                link = session.links[extent.server]
                data += yield from link.read(extent.address, link.machine.key, extent.length)
            if (yield from home.ask(READ_END, number, 0)) == OVERTAKEN:
                raise OperationFailed("another client has taken the file's lock over")
            return data

        def ask_for(self, home: ServerLink, what: int, number: int, length: int) -> Code:
            """The extents, once the file's lock is free."""
            while (reply := (yield from home.ask(what, number, length))) == TAKEN:
                home.thread.count("retries")
            return [FileExtent.unpack(reply[at:]) for at in range(0, len(reply), FileExtent.size)]

    class Server(Role, memory=("dram", "pm"), cores=2, many=True):
        """A machine with data and metadata; one core serves requests, the other one does a primitive's steps."""

        scheme: Octopus

        def __init__(self, scheme: Octopus, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            files = len(self.sizes.objects)
            self.pm = node.memory["pm"]
            self.extent_room = round_up(scheme.extent_bytes)
            self.read_bytes = self.extent_room
            self.length = files * scheme.extents * self.extent_room
            self.data = self.pm.allocate(self.length, "data", item_bytes=self.extent_room, align=4096)
            self.inodes = self.pm.allocate(files * LINE_BYTES, "inodes", item_bytes=LINE_BYTES, align=4096)
            self.log = self.pm.allocate(RECORDS * RECORD_BYTES, "log", item_bytes=RECORD_BYTES, align=4096)

        @override
        def begin(self) -> None:
            self.locks: dict[int, tuple[int, Deadline]] = {}
            """By file: whose it is, by the client's place, and until when he may be silent."""
            self.next_id = 1
            self.messages: list[int] = []
            """The clients' places for requests, which immediates name."""
            message_bytes = 64 + FileExtent.size * self.scheme.extents
            self.listener = Listener(self.node, {}, on_immediate=self.on_request, message_bytes=message_bytes)
            self.key = self.listener.register(self.data, self.length).key
            self.service = Service(
                self.scheme.primitive, self.node, slots=SLOTS, slot_bytes=slot_bytes(self.scheme.extent_bytes)
            )
            self.service.register(self.data, self.length)

        @override
        def start(self) -> None:
            process = self.node.process(self.node.name)
            process.start(self.listener.serve(self.node.thread(0, self.node.name)))
            if self.service.needs_thread:
                process.start(self.service.serve(self.node.thread(1, f"{self.node.name} primitive")))
            self.listener.listen()

        def place(self) -> tuple[int, int, int]:
            """A new client's place for requests: its number, its address and its key."""
            address = self.node.memory["dram"].allocate(LINE_BYTES, "request", align=LINE_BYTES)
            self.messages.append(address)
            return len(self.messages) - 1, address, self.listener.register(address, LINE_BYTES).key

        def inode(self, number: int) -> int:
            """Where a file's metadata are."""
            return self.inodes + number * LINE_BYTES

        # requests -----------------------------------------------------------------------------------------------------
        def on_request(self, thread: Thread, client: int) -> Code:
            """An immediate says whose request has come."""
            ask = ExtentRequest.unpack((yield from thread.load(self.messages[client], ExtentRequest.size)))
            if ask.what in (WRITE, READ):
                return (yield from self.lock(thread, client, ask))
            if not self.owns(client, ask.number):
                return OVERTAKEN
            if ask.what == UPDATE:
                yield from self.update(thread, ask.number, ask.length)
            self.locks.pop(ask.number, None)
            return DONE

        def owns(self, client: int, number: int) -> bool:
            """Whether a client has the file's lock."""
            return number in self.locks and self.locks[number][0] == client

        def lock(self, thread: Thread, client: int, ask: ExtentRequest) -> Code:
            """Lock the file; returns its extents, or TAKEN."""
            _, until = self.locks.get(ask.number, (client, None))
            if until is not None and not until.passed:
                return TAKEN
            self.locks[ask.number] = client, thread.deadline(str(self.scheme.option("lease")))
            inode = FileInode.unpack((yield from thread.load(self.inode(ask.number), FileInode.size)))
            left, extents = ask.length or inode.length, b""
            for server, address in self.scheme.extents_of(ask.number):
                length = min(left, self.scheme.extent_bytes)
                extents += FileExtent.pack(server=server.number, length=length, address=address)
                left -= length
            return extents

        def update(self, thread: Thread, number: int, length: int) -> Code:
            """Change a file's metadata: record, commit, in place; each is flushed before the next."""
            id, self.next_id = self.next_id, self.next_id + 1
            record = self.log + id % RECORDS * RECORD_BYTES
            data = MetadataRecord.pack(id=id, number=number, length=length, unused=bytes(48), commit=id)
            yield from self.store(thread, record, data[:COMMIT])
            yield from self.store(thread, record + COMMIT, data[COMMIT:])
            yield from self.apply(thread, MetadataRecord.unpack(data))

        def apply(self, thread: Thread, record: MetadataRecord) -> Code:
            """Have a file's metadata be as a record says."""
            inode = FileInode.pack(length=record.length, unused=bytes(4), time=record.id)
            yield from self.store(thread, self.inode(record.number), inode)

        def store(self, thread: Thread, address: int, data: bytes) -> Code:
            """Store, and flush."""
            yield from thread.store(address, data)
            yield from thread.flush(address, len(data))

        # after a failure: file by file --------------------------------------------------------------------------------
        @override
        def recovery_units(self) -> Iterable[Hashable]:
            return [number for number in range(len(self.sizes.objects)) if self.scheme.home(number) is self]

        @override
        def units_of(self, object: Hashable) -> Iterable[Hashable]:
            number = self.sizes.objects.index(object)
            return (number,) if self.scheme.home(number) is self else ()

        @override
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            """Replay the newest committed record of a file that its metadata are behind of; returns the newest id."""
            inode = FileInode.unpack((yield from thread.load(self.inode(unit), FileInode.size)))
            newest, last = None, int(inode.time)
            for place in range(RECORDS):
                record = MetadataRecord.unpack(
                    (yield from thread.load(self.log + place * RECORD_BYTES, MetadataRecord.size))
                )
                last = max(last, record.id)
                if record.id and record.commit == record.id and record.number == unit and record.id > inode.time:
                    newest = max(newest or record, record, key=lambda one: int(one.id))
            if newest is not None:
                yield from self.apply(thread, newest)
            return last

        @override
        def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
            """Go on behind the newest update."""
            yield from ()
            self.next_id = 1 + max(results, default=0)

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names, parts, each = self.sizes.objects, self.extents, self.extent_bytes

        def extent_of(server: Octopus.Server, turn: int) -> bytes:
            number, index = divmod(turn, parts)
            if self.server_of(number, index) is not server:
                return b""
            return objects[names[number]][index * each : (index + 1) * each]

        def inode_of(number: int) -> bytes:
            return FileInode.pack(length=len(objects[names[number]]), unused=bytes(4), time=0)

        for server in self.roles["server"]:
            fill(server.pm, server.data, server.extent_room, len(names) * parts, partial(extent_of, server))
            fill(server.pm, server.inodes, LINE_BYTES, len(names), inode_of)

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class ServerLink(DataLink):
    """A client process's way to one server."""

    role = "server"
    machine: Octopus.Server

    @override
    def connect(self) -> None:
        super().connect()
        self.place, self.address, self.key = self.machine.place()

    def ask(self, what: int, number: int, length: int) -> Code:
        """Call the server; returns its reply."""
        ask = ExtentRequest.pack(what=what, number=number, length=length)
        return self.trying(self.connection.write_with_imm(self.address, self.key, ask, self.place))


class OctopusSession:
    """A client process: its links to all servers."""

    def __init__(self, links: list[ServerLink]) -> None:
        self.links = links

    def to(self, server: Octopus.Server) -> ServerLink:
        """The link to a server."""
        return self.links[server.number]

    def restore(self) -> Code:
        """Connect again where a link is broken; wait for servers that come back."""
        for link in self.links:
            yield from link.restore()
