"""The raw persisting paths, without a store: where the bytes go, and what the client waits for.

Source: Luo et al., TCAD 2024, sections III-B and V-B, figures 2 and 5.

=================== ==============================================================================================
``ssdsync``         WRITE into DRAM, WRITE of a flag; a server thread spins, writes whole blocks synchronously, answers
``pmrsync``         the same; the server's thread copies to the region by MMIO stores, then answers
``pmrsync-barrier`` the same with a write barrier of the region before the answer: no path of the paper's
``pmemdirect``      one WRITE into Optane, done at its completion
``pmrdirect``       one WRITE peer to peer into the region, done at its completion
=================== ==============================================================================================

An object is a register in the older of two places, its words marked with a version, as of the shape ``line``: so an
update that is torn is no damage, and a verdict is about durability alone. An update whose connection breaks may have
reached its place: the next one goes to the same place, under a version that none had. What the paper leaves open is
read so. The flag is a word, which says the place as well. Requests do not travel inline, as the paper does not mention
it; answers do. Each place of ``ssdsync`` is blocks of its own, written again and again, by O_DIRECT with O_DSYNC.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.pcie.peers import READ_IS_BARRIER
from ...models.storage.files import Open
from ...models.system import Node
from ..guarantees import ALWAYS, Claims, Condition
from ..parts.onesided import Door, Poster, VerbsError
from ..parts.rpc import Listener
from ..scheme import OutcomeUnknown, Request, Role, Scheme
from ..shapes import tagged, untagged, versions_in
from .messaging import ConnectionBroken, Side, WriteSide, connect_by_write

Code = Generator[Any, Any, Any]

LINE, WORD = 64, 8
READ = 1 << 63
"""In a flag: the place is to be read."""
ACKNOWLEDGED = (1).to_bytes(WORD, "little")


class RawAsking(WriteSide):
    """A client's side: its flag is a word, and nothing travels inline."""

    flag_bytes, inlined = WORD, False


class RawAnswering(WriteSide):
    """A server's side: its flag is a word."""

    flag_bytes = WORD


@dataclass
class RawSession:
    """A client process."""

    thread: Thread
    poster: Poster
    side: Side
    """By a server thread: the client's side; else that of its queue pair alone."""


class RawPath(Scheme):
    """What all paths have in common: registers of two places each."""

    paper = "Luo et al., TCAD 2024 (PMRDirect, PMRAccess)"
    section = "section III-B, figures 2 and 5"
    is_part = True
    one_writer = True
    operations = ("put", "get")
    updates = frozenset({"put"})
    device: ClassVar[str]
    """The memory that the places are in."""

    class Server(Role, memory=("dram",)):
        """The machine with the places."""

        scheme: RawPath

        def __init__(self, scheme: RawPath, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.size = len(tagged(bytes(self.sizes.value_bytes), 0))
            self.versions = [0] * len(self.sizes.objects)
            """By object: the version that was tried last, on which clients agree outside of the protocol."""
            self.written = list(self.versions)
            """By object: the version whose WRITE has returned; it is the one that is read."""
            self.format()

        def format(self) -> None:
            """Reserve room for the places."""
            self.memory_of_places = self.node.memory[self.scheme.device]
            self.each = -(-self.size // LINE) * LINE
            self.length = 2 * self.each * len(self.versions)
            self.base = self.memory_of_places.allocate(self.length, "places", item_bytes=self.each)

        @override
        def begin(self) -> None:
            self.listener = Listener(self.node, {})
            self.door: Door = self.listener.door
            self.rkey = self.door.register(self.base, self.length).key

        @override
        def start(self) -> None:
            self.listener.listen()

        def next_version(self, number: int) -> int:
            """An object's next version: larger than all that were tried, for the place that is not read."""
            version = self.versions[number] + 1
            self.versions[number] = version + (version % 2 == self.written[number] % 2)
            return self.versions[number]

        def place(self, number: int, version: int) -> int:
            """Where a version of an object lies."""
            return self.base + (2 * number + version % 2) * self.each

        def load(self, number: int, value: bytes) -> None:
            """An object's first version."""
            self.versions[number] = self.written[number] = 1
            self.memory_of_places.space.poke(self.offset(self.place(number, 1)), tagged(value, 1))

        def offset(self, place: int) -> int:
            """Where a place lies in its device."""
            return place - self.memory_of_places.base

        def admit(self, thread: Thread, node: Node) -> RawSession:
            """A session over a queue pair."""
            poster = Poster(thread, node, self.each, 2)
            return RawSession(thread, poster, self.side(thread, node, poster))

        def side(self, thread: Thread, node: Node, poster: Poster) -> Side:
            """The client's side of a new connection."""
            return _Alone(node, poster.domain, poster.connect(self.door), self.each)

        # after a failure ------------------------------------------------------------------------------------------
        @override
        def recovery_units(self) -> Iterable[Hashable]:
            return range(len(self.versions))

        @override
        def units_of(self, object: Hashable) -> Iterable[Hashable]:
            return (self.sizes.objects.index(object),)

        @override
        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            """The newer of the two places whose words are of one version."""
            assert isinstance(unit, int)
            found, tried = [0], [0]
            for parity in (0, 1):
                data = yield from self.look(thread, self.place(unit, parity))
                tried += versions_in(data)
                whole = untagged(data, len(data))
                if whole is not None and whole[0] % 2 == parity:
                    found.append(whole[0])
            self.versions[unit], self.written[unit] = max(tried), max(found)

        def look(self, thread: Thread, place: int) -> Code:
            """The bytes of a place, which the server reads."""
            return (yield from thread.load(place, self.size))

    class Client(Role, invokes=True):
        """A machine whose processes write registers."""

        scheme: RawPath

        @override
        def begin(self) -> None:
            self.server: RawPath.Server = self.scheme.roles["server"][0]

        @override
        def connect(self, thread: Thread) -> RawSession:
            return self.server.admit(thread, self.node)

        @override
        def perform(self, session: RawSession, request: Request) -> Code:
            step, server = request.step, self.server
            number = self.sizes.objects.index(step.object)
            while True:
                try:
                    if step.value is None:
                        return (yield from self.newest(session, number))
                    version = server.next_version(number)
                    yield from self.write(session, server.place(number, version), tagged(step.value, version))
                    server.written[number] = version
                    return None
                except (VerbsError, ConnectionBroken) as error:
                    session.side.disconnect()
                    yield from server.listener.until_listening(session.thread)
                    vars(session).update(vars(self.connect(session.thread)))
                    if step.value is not None:
                        raise OutcomeUnknown("the connection is broken") from error

        def newest(self, session: RawSession, number: int) -> Code:
            """The value that was written last, None if none was; a place that is written meanwhile is read again."""
            server = self.server
            while True:
                version = server.written[number]
                if not version:
                    return None
                data = yield from self.read(session, server.place(number, version))
                whole = untagged(data, self.sizes.value_bytes)
                if whole is not None:
                    return whole[1]
                if version == server.written[number]:
                    return data

        def write(self, session: RawSession, place: int, data: bytes) -> Code:
            """Update a place; returns when the path says that it is durable."""
            poster, qp = session.poster, session.side.qp
            yield from poster.result((yield from poster.write(qp, place, self.server.rkey, data, inline=False)))

        def read(self, session: RawSession, place: int) -> Code:
            """The bytes of a place, by READ."""
            poster, qp = session.poster, session.side.qp
            read = yield from poster.read(qp, place, self.server.rkey, self.server.size)
            return (yield from poster.result(read))

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        server = self.roles["server"][0]
        for name, value in objects.items():
            server.load(self.sizes.objects.index(name), value)

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class _Alone(Side):
    """A queue pair to memory that no thread serves."""

    @override
    def send(self, thread: Thread, data: bytes, place: Any = None) -> Code:
        raise TypeError("nobody serves it")

    @override
    def receive(self, thread: Thread) -> Code:
        raise TypeError("nobody serves it")


class PmemDirect(RawPath, name="pmemdirect"):
    """Nobody but the adapter has a part in it."""

    title = "one WRITE into Optane, durable at its completion if that is so with DDIO off"
    device = "pm"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: "ddio off"}

    class Server(RawPath.Server, memory=("dram", "pm")):
        """The machine with Optane."""


class PmrDirect(RawPath, name="pmrdirect"):
    """The server's adapter forwards the WRITE to the drive, past processor and memory."""

    title = "one WRITE peer to peer into the drive's region, durable at its completion if the region has it then"
    section = "section III, figure 2c"
    device = "pmr"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS}

    class Server(RawPath.Server, memory=("dram", "pmr")):
        """The machine with the region."""


# by a thread of the server ------------------------------------------------------------------------------------------
class RawSyncServer(RawPath.Server, per_client=True):
    """A thread for each client, which spins on its flag."""

    align: ClassVar[int] = LINE
    """Of the messages, which the server hands on."""

    @override
    def begin(self) -> None:
        super().begin()
        self.forget_connections()

    def forget_connections(self) -> None:
        """The process has no connection yet."""
        self.admitted = 0
        self.turns: dict[str, int] = {}
        """By client process: which of the cores for clients serves it, whichever connection it has."""

    @override
    def side(self, thread: Thread, node: Node, poster: Poster) -> Side:
        kinds = RawAsking, RawAnswering
        near, far = connect_by_write(node, poster.domain, self.node, self.door.domain, self.each, kinds, self.align)
        core = self.turns.setdefault(thread.name, len(self.turns))
        server = self.client_thread(core, f"{self.node.name} {self.admitted}")
        self.admitted += 1
        self.node.process(self.node.name).start(self.serve(server, far))
        return near

    def serve(self, thread: Thread, side: WriteSide) -> Code:
        """The thread of one client: the flag says the place, from 1."""
        try:
            while True:
                yield from side.receive(thread)
                word = int.from_bytes(side.told, "little")
                place = self.base + ((word & ~READ) - 1) * self.each
                if word & READ:
                    yield from side.write(thread, (yield from self.look(thread, place)))
                else:
                    yield from self.keep(thread, place, side.inbox.address)
                yield from side.tell(thread, ACKNOWLEDGED)
        except ConnectionBroken:
            side.qp.destroy()

    def keep(self, thread: Thread, place: int, source: int) -> Code:
        """Put what came into its place."""
        raise NotImplementedError


class RawSyncClient(RawPath.Client, invokes=True):
    """It waits for the server's answer."""

    server: RawSyncServer

    @override
    def write(self, session: RawSession, place: int, data: bytes) -> Code:
        assert isinstance(session.side, WriteSide)
        yield from session.side.write(session.thread, data)
        yield from self.ask(session, place)

    def ask(self, session: RawSession, place: int, bits: int = 0) -> Code:
        """The flag, and the answer to it."""
        assert isinstance(session.side, WriteSide)
        word = 1 + (place - self.server.base) // self.server.each | bits
        yield from session.side.tell(session.thread, word.to_bytes(WORD, "little"))
        yield from session.side.receive(session.thread)

    @override
    def read(self, session: RawSession, place: int) -> Code:
        yield from self.ask(session, place, READ)
        return (yield from session.thread.load(session.side.inbox.address, self.server.size))


class PmrSync(RawPath, name="pmrsync"):
    """By the processor, whose stores are posted: nobody waits for them."""

    title = "WRITE into DRAM; a server thread copies to the drive's region by stores, and answers"
    device = "pmr"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS}
    Client = RawSyncClient

    class Server(RawSyncServer, memory=("dram", "pmr")):
        """The machine with the region."""

        @override
        def keep(self, thread: Thread, place: int, source: int) -> Code:
            yield from thread.memcpy(place, source, self.size)


class PmrSyncBarrier(PmrSync, name="pmrsync-barrier"):
    """No path of the paper's: the write barrier that the literal one leaves out."""

    title = "pmrsync with a write barrier of the region before the answer"
    section = "section III-B, and what it leaves out"

    class Server(PmrSync.Server):
        """The same, with the barrier that the drive's PMRCAP names."""

        @override
        def keep(self, thread: Thread, place: int, source: int) -> Code:
            yield from super().keep(thread, place, source)
            if self.node.system.platform.peers[self.memory_of_places.kind].pmrwbm & READ_IS_BARRIER:
                yield from thread.sfence()  # a read through a write-combining mapping leaves its buffers as they are
                yield from thread.load(place, WORD)
            else:
                yield from thread.read_pmrsts(place)


class SsdSync(RawPath, name="ssdsync"):
    """By the processor and its file system."""

    title = "WRITE into DRAM; a server thread writes whole blocks to a file synchronously, and answers"
    device = "ssd"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS}
    Client = RawSyncClient

    class Server(RawSyncServer, memory=("dram", "ssd")):
        """The machine with the drive: places are of a file, block by block."""

        align: ClassVar[int] = 4096
        FILE: ClassVar[str] = "places"

        @override
        def format(self) -> None:
            self.memory_of_places = self.node.memory["ssd"]
            block = self.node.kernel.drive("ssd").parameters.block_bytes
            self.each = -(-self.size // block) * block
            self.length, self.base = 2 * self.each * len(self.versions), 0
            self.node.kernel.file_system("ssd").create(self.FILE, self.length, Open.O_DIRECT | Open.O_DSYNC)

        @override
        def begin(self) -> None:
            self.listener = Listener(self.node, {})
            self.door = self.listener.door
            self.forget_connections()
            self.file = self.node.kernel.file_system("ssd").open(self.FILE, Open.O_DIRECT | Open.O_DSYNC)

        @override
        def offset(self, place: int) -> int:
            return self.file.inode.base + place

        @override
        def keep(self, thread: Thread, place: int, source: int) -> Code:
            yield from self.file.pwrite(thread, source, place, self.each)

        @override
        def look(self, thread: Thread, place: int) -> Code:
            return (yield from self.file.pread(thread, place, self.size))
