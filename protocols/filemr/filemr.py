"""FileMR: clients reach the records of a file by one-sided verbs, and the adapter knows the file by its extents.

Source: Yang, Izraelevitz, Swanson, NSDI'20 (its abstract; the paper itself was not at hand). A memory region that is a
file of a persistent-memory file system: clients address it by offsets in the file, and the adapter translates ranges
instead of pages, so that its tables stay small. It promises nothing about durability, so that updates go by WRITE alone
unless the name says another primitive.

What the abstract leaves open is read so. A file has records, one an object, one behind the other, and lies in extents
of ``extent`` bytes with as much of other files between them. An update is in place. A client that writes behind the
end has the server grow the file by an extent: the file system's call, with an entry for the adapter (``regions=file``),
or with a region more, whose key clients have to learn (``regions=ordinary``, which is what the paper compares with: a
registration for each extent, an entry for each page of ``page`` bytes). How many extents a file has is a word in
persistent memory, flushed before anybody is told; where they lie follows from it. A record that was never written is
zeros, and reads find nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ...models.persist.service import Service
from ...models.system import Node
from ...models.verbs import FileRegion
from ...sim.bytespace import LINE_BYTES, PAGE_BYTES, round_up
from ...sim.errors import InputError, Mistake
from ..guarantees import Claims
from ..layout import U32, U64, WORD, Layout
from ..naming import Option
from ..parts.onesided import VerbsError
from ..parts.rpc import PATIENCE, Connection, Listener
from ..scheme import OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]
SLOTS = 16


class OpenFile(Layout):
    """Tell the extents behind those that the client knows, of which there are to be as many as it needs."""

    known = U32()
    needed = U32()


class ExtentTold(Layout):
    """An extent, as the server tells it: of ordinary regions where it lies and by which key it is reached."""

    address = U64()
    key = U32()


class FileMr(Scheme, name="filemr"):
    """A WRITE or a READ at a record's offset."""

    title = "FileMR: a file as a memory region, an entry an extent, beside ordinary regions with an entry a page"
    paper = "Yang et al., NSDI'20 (FileMR)"
    section = "abstract"
    operations = ("put", "get")
    updates = frozenset({"put"})
    inserts = "put"
    over = "no-flush"
    claims: ClassVar[Claims] = {}
    faults: ClassVar = {"server": ("power", "process"), "client": ("power", "process"), "all": ("power",)}
    options: ClassVar[dict[str, Option]] = {
        "regions": Option("file", choices=("file", "ordinary"), source="abstract; ordinary is what it compares with",
                          text="one region for the file, or an ordinary one for each extent"),
        "extent": Option("16 MiB", quantity="size", at_least=4096,
                         source="assumption: a file system that has not aged has extents of megabytes",
                         text="the bytes of an extent"),
        "page": Option("4 KiB", quantity="size", at_least=4096,
                       source="assumption: files are mapped in the smallest pages, as blocks need not be aligned",
                       text="the pages of ordinary regions"),
    }  # fmt: skip

    @override
    @classmethod
    def composed(cls) -> None:
        steps = cls.primitive.steps
        if cls.primitive.follows[0] == "SEND" and not any(step.do == "copy" for step in steps):
            raise InputError(Mistake(f"'{cls.name}'", "a primitive whose updates get to their place", field="scheme"))

    @property
    def extent_bytes(self) -> int:
        """The bytes of an extent, in whole pages."""
        return round_up(int(self.option("extent")), PAGE_BYTES)

    @property
    def record_bytes(self) -> int:
        """The room of a record, in whole lines."""
        return round_up(self.sizes.value_bytes)

    @property
    def is_file(self) -> bool:
        """Whether the adapter knows the file as one."""
        return str(self.option("regions")) == "file"

    def extents_for(self, records: int) -> int:
        """How many extents so many records need; a file has one at least."""
        return max(1, -(-records * self.record_bytes // self.extent_bytes))

    def pieces(self, offset: int, length: int) -> Iterator[tuple[int, int, int]]:
        """A range of the file, cut at the ends of extents: the extent, where in it, and how many bytes."""
        while length:
            extent, start = divmod(offset, self.extent_bytes)
            size = min(length, self.extent_bytes - start)
            yield extent, start, size
            offset, length = offset + size, length - size

    class Client(Role, invokes=True):
        """A machine whose processes write and read records."""

        scheme: FileMr

        @override
        def connect(self, thread: Thread) -> FileSession:
            return FileSession(thread, self.node, self.scheme)

        @override
        def perform(self, session: FileSession, request: Request) -> Code:
            """Of a put that was cut short nobody knows; a get is repeated with the server that begins again."""
            value, number = request.step.value, self.sizes.objects.index(request.step.object)
            while True:
                try:
                    if value is None:
                        return (yield from session.get(number))
                    yield from session.put(number, value)
                    return None
                except (VerbsError, PrimitiveFailed) as error:
                    if not error.disconnected:
                        raise
                    yield from session.restore()
                    if value is not None:
                        raise OutcomeUnknown(str(error)) from error

    class Server(Role, memory=("dram", "pm"), cores=2):
        """The machine with the file; one core grows it, the other one does a primitive's steps."""

        scheme: FileMr

        def __init__(self, scheme: FileMr, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.pm = node.memory["pm"]
            most = scheme.extents_for(len(self.sizes.objects))
            self.most = most
            self.inode = self.pm.allocate(LINE_BYTES, "inode", align=4096)
            self.blocks = self.pm.allocate(2 * most * scheme.extent_bytes, "blocks", align=4096)

        @override
        def begin(self) -> None:
            slot_bytes = round_up(self.scheme.record_bytes + 64)
            self.service = Service(self.scheme.primitive, self.node, slots=SLOTS, slot_bytes=slot_bytes)
            room = 64 + ExtentTold.size * self.most
            self.listener = Listener(self.node, {OpenFile: self.on_open}, message_bytes=room)
            self.told: list[bytes] = []
            """What clients are told of each extent."""
            self.file: FileRegion | None = None

        @override
        def start(self) -> None:
            process = self.node.process(self.node.name)
            process.start(self.listener.serve(self.node.thread(0, self.node.name)))
            if self.service.needs_thread:
                process.start(self.service.serve(self.node.thread(1, f"{self.node.name} primitive")))
            self.listener.listen()

        def extent(self, number: int) -> tuple[int, int]:
            """Where an extent lies: address and length."""
            return self.blocks + 2 * number * self.scheme.extent_bytes, self.scheme.extent_bytes

        def open(self, count: int) -> None:
            """Register a file of so many extents before anything runs."""
            extents = [self.extent(number) for number in range(count)]
            if self.scheme.is_file:
                self.file = self.service.register_file(extents)
            else:
                for address, length in extents:
                    self.service.register(address, length, page_bytes=int(self.scheme.option("page")))
            self.tell(count)

        def tell(self, count: int) -> None:
            """Clients may be told of so many extents."""
            for number in range(len(self.told), count):
                region = self.file or self.service.region_of(self.extent(number)[0])[1]
                self.told.append(ExtentTold.pack(address=self.extent(number)[0], key=region.key))

        def on_open(self, thread: Thread, request: OpenFile) -> Code:
            """Grow the file as far as it is needed, and tell what is new."""
            while len(self.told) < request.needed:
                yield from self.grow(thread)
            return b"".join(self.told[request.known :])

        def grow(self, thread: Thread) -> Code:
            """One extent more: the file system's call, the adapter's entry or region, and the word in the inode."""
            count = len(self.told)
            yield from thread.syscall()
            if self.file is not None:
                self.file = yield from self.service.append_by(thread, self.file, *self.extent(count))
            else:
                page = int(self.scheme.option("page"))
                yield from self.service.register_by(thread, *self.extent(count), page)
            yield from self.note(thread, count + 1)
            self.tell(count + 1)

        def note(self, thread: Thread, count: int) -> Code:
            """Write down how many extents the file has."""
            yield from thread.store(self.inode, count.to_bytes(WORD, "little"))
            yield from thread.flush(self.inode, WORD)

        @override
        def recover(self, thread: Thread) -> Code:
            """Register the file again, as many extents as the inode says."""
            count = int.from_bytes((yield from thread.load(self.inode, WORD)), "little")
            extents = [self.extent(number) for number in range(count)]
            if self.scheme.is_file:
                yield from self.service.register_file_by(thread, extents)
                found = self.service.regions[-1]
                assert isinstance(found, FileRegion)
                self.file = found
            else:
                for address, length in extents:
                    page = int(self.scheme.option("page"))
                    yield from self.service.register_by(thread, address, length, page)
            self.tell(count)

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        server: FileMr.Server = self.roles["server"][0]
        count, names, size = self.extents_for(len(objects)), self.sizes.objects, self.record_bytes
        server.open(count)
        server.pm.space.poke(server.inode - server.pm.base, count.to_bytes(WORD, "little"))

        def line_of(first: int, base: int, line: int) -> bytes:
            number, inside = divmod(first + line * LINE_BYTES - base, size)
            value = objects[names[number]] if number < len(objects) else b""
            return value[inside : inside + LINE_BYTES].ljust(LINE_BYTES, b"\0")

        for number in range(count):
            address, length = server.extent(number)
            start = address - server.pm.base
            server.pm.space.compute(start, length, partial(line_of, number * length, start))

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class FileSession:
    """A client process: its queue pair for updates, one for reads and calls, and the extents that it knows."""

    def __init__(self, thread: Thread, node: Node, scheme: FileMr) -> None:
        self.thread = thread
        self.node = node
        self.scheme = scheme
        self.server: FileMr.Server = scheme.roles["server"][0]
        self.connect()

    def connect(self) -> None:
        """New queue pairs, to the server's process of now; what it opens is known."""
        server = self.server
        self.requester: PrimitiveRequester = server.service.connect(self.thread, self.node, patience=PATIENCE)
        self.connection: Connection = server.listener.accept(self.thread, self.node, self.scheme.record_bytes, PATIENCE)
        self.extents = [ExtentTold.unpack(told) for told in server.told]

    def restore(self) -> Code:
        """Wait until the server is there again, and connect."""
        self.server = self.scheme.roles["server"][0]
        yield from self.server.listener.until_listening(self.thread)
        self.connect()

    def put(self, number: int, value: bytes) -> Code:
        """Write a record; first the file grows, if the record is behind its end."""
        offset, length = number * self.scheme.record_bytes, len(value)
        yield from self.learn(self.scheme.extents_for(number + 1))
        for address, _, start, size in self.places(offset, length):
            yield from self.requester.persist([(address, value[start : start + size])])

    def get(self, number: int) -> Code:
        """Read a record; None if there is none."""
        scheme, data = self.scheme, b""
        if scheme.extents_for(number + 1) > len(self.extents):
            yield from self.learn(0)
            if scheme.extents_for(number + 1) > len(self.extents):
                return None
        for address, key, _, size in self.places(number * scheme.record_bytes, scheme.sizes.value_bytes):
            data += yield from self.connection.read(address, key, size)
        return data if any(data) else None

    def learn(self, needed: int) -> Code:
        """Have the server tell what is new, and grow the file to as many extents as are needed (0: as it is)."""
        if needed and needed <= len(self.extents):
            return
        reply = yield from self.connection.call(OpenFile, known=len(self.extents), needed=needed)
        step = ExtentTold.size
        self.extents += [ExtentTold.unpack(reply[at : at + step]) for at in range(0, len(reply), step)]

    def places(self, offset: int, length: int) -> Iterator[tuple[int, int, int, int]]:
        """By which addresses and keys a range of the file is reached; from where in it on, and how many bytes."""
        if self.scheme.is_file:
            yield offset, self.extents[0].key, 0, length
            return
        at = 0
        for extent, start, size in self.scheme.pieces(offset, length):
            told = self.extents[extent]
            yield told.address + start, told.key, at, size
            at += size
