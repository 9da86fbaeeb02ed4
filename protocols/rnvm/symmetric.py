"""Symmetric: each machine has the structure in its own persistent memory, and sends its log to another's.

Source: rNVM, section 10.2 ("storing data structures in local NVM and storing logs in remote NVM; the logs are flushed
asynchronously, without waiting the responses"). It is what the paper compares with, and it says of it that it is
inconsistent: it claims nothing.

What is open there is read so. The algorithm loads from its own memory; each range that it changes is stored, flushed
and fenced at once. An operation's changes are one record, as in rNVM's memory log, that is posted to the other machine
and never awaited; nobody replays it, and the ring is written round and round. In batches, changes wait in DRAM, are
merged, stored and flushed together, and are one record. What a transaction takes out is free once that is stored. After
a reboot the machine goes on with its memory as it is. While the other machine does not answer there is no log, and work
goes on without it; it begins again where it would go on when that machine listens. A process that takes a structure
over from one that lives has it store its batch before; from a dead one it has what memory holds.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node, Process
from ...sim.errors import InputError, Mistake
from ..scheme import Role
from ..structures.space import Range
from ..structures.structure import StructureOperation
from .area import FIRST, Area, AreaLayout, Loading, Ring
from .backend import BROKEN, PlainBackEnd, Writer
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
        self.writers = self.host.writers

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
        self.writers.pop(area.number, None)
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
        self.fits(body)
        self.writes = []
        freed, self.freed = self.freed, []
        for address, length in freed:  # what takes them out is durable
            yield from RemoteSpace.free(self, address, length)
        yield from self.post(body)

    def fits(self, body: bytes) -> None:
        """Raise InputError for a transaction that is larger than the log."""
        if lines_of(len(body)) > self.log.lines:
            found = f"a transaction of {lines_of(len(body)) * LINE} B in a log of {self.log.lines * LINE} B"
            raise InputError(Mistake(found, "a larger log, or a smaller batch", field="scheme"))

    def post(self, body: bytes) -> Code:
        """Send a transaction's record to the other machine, if that answers."""
        if self.link.broken:
            return
        yield from self.link.thread.crc32_of(body)
        place, sequence = self.log.at(self.tail), self.tail.sequence
        self.tail = self.log.behind(self.tail, len(body))
        with suppress(*BROKEN):  # nobody waits for it
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
        self.fits(transaction(self.writes))
        for address, data in self.writes:
            yield from thread.store(address, data)
            yield from self.flush_lines(thread, address, len(data))
        yield from thread.sfence()
        self.kept.clear()
        self.unfinished.clear()
        yield from super().commit(awaited=awaited)

    def flush_lines(self, thread: Thread, address: int, length: int) -> Code:
        """Flush a range; one fence comes behind all of the batch."""
        yield from getattr(thread, self.host.cpu.flush_instruction)(address, length)


class Holder(NamedTuple):
    """The process that writes a structure, as the machine's memory says."""

    held: OpenStructure
    process: Process
    ends: int
    """How often a process of its name had died before it."""

    @property
    def lives(self) -> bool:
        """Whether it has not died."""
        return self.process.ends == self.ends


class SymmetricFrontEnd(FrontEnd, memory=("dram", "pm"), hosts=True):
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
        self.holders: dict[int, Holder] = {}
        """By structure: who writes it."""
        self.writers: dict[int, Writer] = {}
        """The same, as the other machine's end of it."""
        for keeper in self.scheme.roles["server"]:
            keeper.areas, keeper.writers = self.areas, self.writers

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
    def hold(self, session: FrontEndSession, area: Area, *, writes: bool) -> OpenStructure:
        held = super().hold(session, area, writes=writes)
        if writes and area.number not in self.holders:
            self.note(session, held)
        return held

    def note(self, session: FrontEndSession, held: OpenStructure) -> None:
        """From now on this process writes the structure."""
        process = self.node.process(session.thread.name)
        self.holders[held.area.number] = Holder(held, process, process.ends)

    @override
    def holding(self, session: FrontEndSession, number: int, operation: StructureOperation) -> Code:
        """What a session holds stays when the other machine is gone: the structure is here, only the log is there."""
        held = session.held.get(number)
        if held is not None:
            reads, now = operation.f not in self.scheme.updates, self.writers.get(number)
            if reads if held.writer is None else held.writer is now:
                if held.space.link.broken and self.server.listener.listening:
                    self.link_again(session, held)
                return held
        return (yield from super().holding(session, number, operation))

    def link_again(self, session: FrontEndSession, held: OpenStructure) -> None:
        """Connect with what listens on the other machine now; the space goes on as it is."""
        space, most = held.space, self.most_bytes(held.area)
        space.link = session.links[held.area.number] = Link(session.thread, self.node, self.server, most, space.link)
        if held.writer is not None:
            held.writer.ends = space.link.ends()

    @override
    def take_structure_over(self, session: FrontEndSession, held: OpenStructure) -> Code:
        """The structure is as the memory has it, once a process that lives has stored what it has done."""
        before = self.holders[held.area.number]
        if before.lives and before.held is not held:
            yield from self.settle(before.held)
        self.note(session, held)

    def settle(self, held: OpenStructure) -> Code:
        """Have all stored that has been done with a structure."""
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
        space.unfinished.append((0, operation))

    @override
    def take_structure_over(self, session: FrontEndSession, held: OpenStructure) -> Code:
        """What this process could not store for want of room waits again."""
        yield from super().take_structure_over(session, held)
        space = held.space
        assert isinstance(space, LocalBatchSpace)
        for _, operation in session.unfinished.pop(held.area.number, []):
            yield from self.append(held, space, operation)
            space.waiting.append(operation)

    @override
    def settle(self, held: OpenStructure) -> Code:
        space = held.space
        assert isinstance(space, LocalBatchSpace)
        if space.waiting or space.performed:
            yield from self.send_batch(held, space)
