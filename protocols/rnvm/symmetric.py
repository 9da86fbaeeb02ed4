"""Symmetric: each machine has the structure in its own persistent memory, and sends its log to another's.

Source: rNVM, section 10.2 ("storing data structures in local NVM and storing logs in remote NVM; the logs are flushed
asynchronously, without waiting the responses"). It is what the paper compares with, and it says of it that it is
inconsistent: it claims nothing.

What is open there is read so. The algorithm loads from its own memory; each range that it changes is stored, flushed
and fenced at once. An operation's changes are one record, as in rNVM's memory log, that is posted to the other machine
and never awaited; nobody replays it, and the ring is written round and round. In batches, changes wait in DRAM, are
merged, stored and flushed together, and are one record. After a reboot the machine goes on with its memory as it is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ...sim.errors import InputError, Mistake
from ..scheme import Role
from ..structures.space import Range
from ..structures.structure import StructureOperation
from .area import FIRST, Area, AreaLayout, Loading, Ring
from .backend import PlainBackEnd
from .batches import BatchFrontEnd, BatchSpace
from .frontend import FrontEnd, FrontEndSession, OpenStructure
from .link import Link
from .mode import SURPLUS_SLABS
from .priced import LOCAL_VISIT, spend
from .records import LINE, Position, Write, lines_of, merged, operation_bytes, record, transaction
from .slabs import BlockSource, LocalBlocks, Slabs
from .spaces import LoggedSpace, RemoteSpace

if TYPE_CHECKING:
    from ..structures.structure import Structure

Code = Generator[Any, Any, Any]


class LogKeeper(PlainBackEnd):
    """The other machine: rings for logs, and no code that looks at them."""

    def __init__(self, scheme: Structure, node: Node, number: int) -> None:
        Role.__init__(self, scheme, node, number)
        self.mode = scheme.mode  # type: ignore[assignment]
        self.pm = node.memory["pm"]
        self.rings = [Ring(0, self.mode.log_bytes() // LINE) for _ in range(scheme.structures())]
        for ring in self.rings:
            ring.address = self.pm.allocate(ring.length, "log", item_bytes=LINE)
        self.start_of_memory = self.rings[0].address
        self.length = self.rings[-1].address + self.rings[-1].length - self.start_of_memory
        self.areas: list[Area] = []

    @override
    def begin(self) -> None:
        self.areas = self.host.areas
        super().begin()

    @override
    def start(self) -> None:
        self.listener.listen()

    @property
    def host(self) -> SymmetricFrontEnd:
        """The machine with the structures."""
        host: SymmetricFrontEnd = self.scheme.roles["client"][0]
        return host

    @override
    def load(self, number: int, entries: Mapping[int, bytes]) -> None:
        self.host.load(number, entries)

    @override
    def retire(self, area: Area) -> Code:
        """There is nobody to tell."""
        yield from ()


class LocalSpace(LoggedSpace):
    """The machine's own memory; each change lasts before the next one is made."""

    host: Node
    log: Ring

    @override
    def fetch(self, address: int, length: int, depth: int) -> Code:
        thread = self.link.thread
        yield from spend(thread, self.host, LOCAL_VISIT)
        return (yield from thread.load(address, length))

    @override
    def fetch_all(self, ranges: Sequence[Range], depth: int) -> Code:
        found = []
        for address, length in ranges:
            found.append((yield from self.fetch(address, length, depth)))
        return found

    @override
    def read(self, address: int, length: int, depth: int = 0) -> Code:
        return (yield from self.fetch(address, length, depth))

    @override
    def read_all(self, ranges: Sequence[Range], depth: int = 0) -> Code:
        return (yield from self.fetch_all(ranges, depth))

    @override
    def write(self, address: int, data: bytes) -> Code:
        self.keep_held(address, data)
        self.writes.append((address, data))
        yield from self.link.thread.store(address, data)
        yield from self.link.thread.flush(address, len(data))

    @override
    def write_all(self, writes: Sequence[Write]) -> Code:
        for address, data in writes:
            yield from self.write(address, data)

    @override
    def commit(
        self, *, awaited: bool, merge: bool = False, operations: int = 0, done: int = 0, more: Iterable[Write] = ()
    ) -> Code:
        """Post the record of what has been changed; what the other modes give besides is of no use here."""
        writes = merged(self.writes) if merge else self.writes
        self.published.clear()
        body = transaction(writes)
        if lines_of(len(body)) > self.log.lines:
            found = f"a transaction of {lines_of(len(body)) * LINE} B in a log of {self.log.lines * LINE} B"
            raise InputError(Mistake(found, "a larger log, or a smaller batch", field="scheme"))
        self.writes = []
        yield from self.link.thread.crc32_of(body)
        place, sequence = self.log.at(self.tail), self.tail.sequence
        self.tail = self.log.behind(self.tail, len(body))
        yield from self.link.log(place, record(sequence, body), awaited=False)


class LocalBatchSpace(LocalSpace, BatchSpace):
    """The same, with changes that wait in DRAM until their batch is stored."""

    collected: int
    """Where the operations of a batch lie."""

    @override
    def read(self, address: int, length: int, depth: int = 0) -> Code:
        return (yield from LoggedSpace.read(self, address, length, depth))

    @override
    def read_all(self, ranges: Sequence[Range], depth: int = 0) -> Code:
        return (yield from LoggedSpace.read_all(self, ranges, depth))

    @override
    def write(self, address: int, data: bytes) -> Code:
        yield from LoggedSpace.write(self, address, data)

    @override
    def commit(
        self, *, awaited: bool, merge: bool = False, operations: int = 0, done: int = 0, more: Iterable[Write] = ()
    ) -> Code:
        """Store a batch's merged changes, flush their lines, and post the record."""
        thread = self.link.thread
        self.writes = merged(self.writes)
        for address, data in self.writes:
            yield from thread.store(address, data)
            yield from self.flush_lines(thread, address, len(data))
        yield from thread.sfence()
        self.kept.clear()
        yield from super().commit(awaited=awaited)

    def flush_lines(self, thread: Thread, address: int, length: int) -> Code:
        """Flush a range; one fence comes behind all of the batch."""
        yield from getattr(thread, self.host.cpu.flush_instruction)(address, length)


class SymmetricFrontEnd(FrontEnd, memory=("dram", "pm")):
    """A machine with its structures, and its processes.

    All of the structures are on the first machine of the role, so the processes have to be there as well.
    """

    kind: type[LocalSpace] = LocalSpace

    def __init__(self, scheme: Structure, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.areas = AreaLayout.on(self.pm, scheme, 0).areas

    def load(self, number: int, entries: Mapping[int, bytes]) -> None:
        """Before time zero: a structure that holds these."""
        image = Loading(self.pm, self.areas[number])
        self.scheme.algorithm.load(image, self.areas[number].root, entries, self.sizes.value_bytes)
        image.done()

    @override
    def begin(self) -> None:
        super().begin()
        self.heaps = [area.bitmap() for area in self.areas if area.block_bytes]

    @override
    def allocator(self, link: Link, area: Area, space: RemoteSpace) -> BlockSource:
        """The back-end's part of the allocator is here, too."""
        if not area.block_bytes:
            return super().allocator(link, area, space)
        blocks = LocalBlocks(link.thread, self.heaps[area.number])
        if self.mode.option("allocator") == "rpc":
            return blocks
        return Slabs(link.thread, self.node, blocks, area.block_bytes, SURPLUS_SLABS)

    @override
    def connect(self, thread: Thread) -> FrontEndSession:
        if self.number:
            found = f"{len(self.scheme.roles['client'])} machines of clients with '{self.scheme.name}'"
            raise InputError(Mistake(found, "one: the structure is in its own memory", field="roles.client.machines"))
        return super().connect(thread)

    @override
    def most_bytes(self, area: Area) -> int:
        lines: int = self.scheme.roles["server"][0].rings[area.number].lines
        return max(1 << 16, (lines + 1) * LINE)

    @override
    def space(self, link: Link, area: Area, writes: bool) -> RemoteSpace:
        space = self.kind(link, area, by_field=False, owned=writes)
        space.host = self.node
        space.log = self.scheme.roles["server"][0].rings[area.number]
        space.tail = Position.unpack(Position.pack(sequence=FIRST, line=0))
        return space

    @override
    def take_structure_over(self, session: FrontEndSession, held: OpenStructure) -> Code:
        """The structure is as the memory has it."""
        yield from ()


class SymmetricBatchFrontEnd(SymmetricFrontEnd, BatchFrontEnd):
    """The same by batches: no log says what a batch will do before it is done."""

    kind = LocalBatchSpace

    @override
    def space(self, link: Link, area: Area, writes: bool) -> RemoteSpace:
        space = super().space(link, area, writes)
        assert isinstance(space, LocalBatchSpace)
        space.collected = self.node.memory["dram"].allocate(self.batch() * LINE, "batch", align=LINE)
        return space

    @override
    def append(self, held: OpenStructure, space: BatchSpace, operation: StructureOperation) -> Code:
        """An operation waits in DRAM, in a line for each of the batch."""
        body = operation_bytes(operation, self.scheme.words())
        assert isinstance(space, LocalBatchSpace)
        place = space.collected + len(space.waiting) % self.batch() * LINE
        yield from space.link.thread.store(place, body[:LINE])
