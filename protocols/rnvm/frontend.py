"""The front-end: it runs a structure's algorithm, in a space over the back-end's memory.

Source: rNVM, sections 3.3, 5.1 and 5.5. A structure has one front-end that writes it; others read. The first process
has it, or where each object is a structure (queues, stacks) they are dealt out in turn. Another that wants to write,
or a fresh one after a failure, takes the structure over: the back-end takes nothing more of the one before and replays
what has come; the new one reads the naming area and both LPNs, and executes again what the operation log has behind
its LPN, by the same code. Until that is done nobody else takes the structure over, and whoever comes to read it waits.
If the one that takes over fails or dies, the next one begins again: the back-end learns of a death by its connection,
or by the heartbeats of its machine (a reading: the paper has one front-end only that comes).

An operation that returned is in effect for its own front-end; for readers once it is replayed.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..scheme import OperationFailed, OutcomeUnknown, Request, Role
from ..structures.space import NoRoom
from ..structures.structure import Algorithm, Operation
from .area import Area, Name
from .backend import BROKEN, BackEnd, BackEndGone, TakeOver, Writer
from .link import Link
from .mirror import Copies, Mirror, MirroredBlocks
from .mode import SURPLUS_SLABS
from .readers import read_shared
from .records import LINE, WORD, Position
from .slabs import BlockSource, RemoteBlocks, Slabs
from .spaces import LoggedSpace, NaiveSpace, RemoteSpace

if TYPE_CHECKING:
    from ..structures.structure import Structure
    from .mode import RnvmMode

Code = Generator[Any, Any, Any]

_PRICES = {"pmem": ("pmem_alloc", "pmem_free"), "glibc": ("malloc", "free")}
"""What an allocation and a free are called among the platform's costs of software."""


class PricedChunks(BlockSource):
    """Blocks as they follow each other, at the price of other software where the platform has it."""

    def __init__(self, thread: Thread, node: Node, space: RemoteSpace, names: tuple[str, str]) -> None:
        self._thread, self._space = thread, space
        self._named = [name if name in node.cpu.software else None for name in names]

    @override
    def allocate(self, length: int) -> Code:
        if self._named[0] is not None:
            yield from self._thread.software(self._named[0])
        return (yield from self._space.next_of_chunk(length))

    @override
    def free(self, address: int, length: int) -> Code:
        if self._named[1] is not None:
            yield from self._thread.software(self._named[1])


class OpenStructure:
    """A structure as a session reaches it."""

    def __init__(self, server: BackEnd, area: Area, space: RemoteSpace, writer: Writer | None) -> None:
        self.server = server
        """The machine with the structure."""
        self.area = area
        self.space = space
        self.writer = writer
        """What the back-end knows of it; None: it reads only."""


class FrontEndSession:
    """A process of a front-end: what it holds of each structure, by its number."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        found = re.search(r"\d+", thread.name)
        self.process = int(found[0]) if found else 0
        self.held: dict[int, OpenStructure] = {}
        self.links: dict[int, Link] = {}
        """By structure: the newest."""
        self.unfinished: dict[int, list[tuple[int, Operation]]] = {}
        """By structure: operations that a lost connection leaves to this process, with their numbers."""


class FrontEnd(Role, invokes=True):
    """A machine whose processes operate on structures."""

    scheme: Structure

    @override
    def begin(self) -> None:
        self.home: BackEnd = self.scheme.roles["server"][0]
        """The back-end, as long as it is not lost."""
        self.mode: type[RnvmMode] = self.scheme.mode  # type: ignore[assignment]

    @property
    def server(self) -> BackEnd:
        """Where the structures are: on the spare machine, once the back-end is lost for good."""
        if self.scheme.failures and "spare" in self.scheme.roles and self.scheme.lost("server"):
            return self.scheme.roles["spare"][0]  # type: ignore[no-any-return]
        return self.home

    def mirror(self) -> Mirror | None:
        """The mirror that front-ends copy logs to."""
        mirrored = self.home.logged and self.server is self.home and self.mode.option("mirror") == "front-end"
        return self.scheme.roles["mirror"][0] if mirrored and not self.scheme.lost("mirror") else None

    # sessions -------------------------------------------------------------------------------------------------------
    @override
    def connect(self, thread: Thread) -> FrontEndSession:
        session = FrontEndSession(thread)
        if not self.scheme.failures and session.process < self.sizes.clients:
            for area in self.server.areas:
                if self.writes(session, area) and area.number not in self.server.writers:
                    self.hold(session, area, writes=True)
        return session

    def writes(self, session: FrontEndSession, area: Area) -> bool:
        """Whether a process is the one that writes a structure in normal operation."""
        return area.number % self.sizes.clients == session.process

    def hold(self, session: FrontEndSession, area: Area, *, writes: bool) -> OpenStructure:
        """Open a structure; to write it, by the connection by which it has been taken over."""
        taking = self.server.takeovers.get(area.number) if writes else None
        link = self.link(session, area) if taking is None else taking.link
        writer = Writer(link.ends()) if writes else None
        if writer is not None:
            assert area.number not in self.server.writers, "the writer before is not retired"
            self.server.writers[area.number] = writer
        space = self.space(link, area, writes)
        if writes:
            mirror = self.mirror()
            if isinstance(space, LoggedSpace):
                before = self.server is self.home and self.mode.copied_before()
                space.copied_before = before and not self.scheme.lost("mirror")  # then nobody copies any more
            if mirror is not None and isinstance(space, LoggedSpace):
                space.copies = Copies(mirror, session.thread, self.node, area, self.most_bytes(area))
            space.allocator = self.allocator(link, area, space)
        held = session.held[area.number] = OpenStructure(self.server, area, space, writer)
        return held

    def link(self, session: FrontEndSession, area: Area) -> Link:
        """A new connection to the machine with a structure."""
        before = session.links.get(area.number)
        made = session.links[area.number] = Link(session.thread, self.node, self.server, self.most_bytes(area), before)
        return made

    def allocator(self, link: Link, area: Area, space: RemoteSpace) -> BlockSource:
        """What gives blocks of a structure's data."""
        kind = str(self.mode.option("allocator"))
        if not area.block_bytes:
            return PricedChunks(link.thread, self.node, space, _PRICES[kind])
        calls = self.server.calls.accept(link.poster, link.qp)
        heap, copies = self.server.heaps[area.number], space.copies
        if copies is None:
            source = RemoteBlocks(calls, heap, area.number)
        else:
            source = MirroredBlocks(calls, heap, area.number)
            source.copies, source.back_end = copies, link
        if kind == "rpc":
            return source
        return Slabs(link.thread, self.node, source, area.block_bytes, SURPLUS_SLABS)

    def most_bytes(self, area: Area) -> int:
        """The largest request of a link."""
        return max(1 << 16, (area.memory_log.lines + 1) * LINE)

    def space(self, link: Link, area: Area, writes: bool) -> RemoteSpace:
        """The space in which the algorithm runs; a subclass has its own."""
        kind = LoggedSpace if self.server.logged else NaiveSpace
        return kind(link, area, by_field=self.mode.option("reads") == "field", owned=writes)

    def holding(self, session: FrontEndSession, number: int, operation: Operation) -> Code:
        """What the session holds of a structure, taken over if it has to be."""
        held = session.held.get(number)
        reads = operation.f not in self.scheme.updates
        if held is not None and not held.space.link.broken:
            now = held.server.writers.get(number)
            if reads if held.writer is None else held.writer is now:
                if isinstance(held.space, LoggedSpace):
                    yield from held.space.join_mirror()
                return held
        while True:
            server = self.server
            server.is_wanted()
            yield from server.listener.until_listening(session.thread)
            before = server.takeovers.get(number)
            if before is None or before.abandoned:
                break
            yield from before.ended(session.thread, server.node)
        area = server.areas[number]
        if number in server.missing:
            raise OperationFailed("the back-end is lost, and there is no copy of the structure")
        fresh = session.process >= self.sizes.clients or number not in server.writers or before is not None
        if not reads or self.writes(session, area) or fresh:
            return (yield from self.taken_over(session, server, area))
        return self.hold(session, area, writes=False)

    def taken_over(self, session: FrontEndSession, server: BackEnd, area: Area) -> Code:
        """Take a structure over that nobody else is taking over; what the session holds then."""
        taking = server.takeovers[area.number] = TakeOver(self.link(session, area))
        try:
            yield from server.retire(area)
            mirror = self.mirror()
            if mirror is not None:
                yield from mirror.fence(area)
            if server.takeovers.get(area.number) is not taking:
                raise BackEndGone
            held = self.hold(session, area, writes=True)
            if held.space.copies is not None:
                yield from held.space.copies.all_of(held.space.link)
            yield from self.take_structure_over(session, held)
        except Exception:
            taking.end(failed=True)
            raise
        if server.takeovers.get(area.number) is taking:
            del server.takeovers[area.number]
        taking.end()
        return held

    def take_structure_over(self, session: FrontEndSession, held: OpenStructure) -> Code:
        """Read where the log goes on; nothing has to be executed again where a transaction is all there is."""
        if isinstance(held.space, LoggedSpace):
            held.space.begin_at((yield from self.positions(held))[0])

    def positions(self, held: OpenStructure) -> Code:
        """Read the naming area: the LPNs of both logs."""
        area, link = held.area, held.space.link
        name = Name.unpack((yield from link.read(area.name, Name.size)))
        area.memory_log.address, area.operation_log.address = name.memory_log, name.operation_log
        words = yield from link.read(area.lpn, LINE + WORD)
        return Position.unpack(words[:WORD]), Position.unpack(words[LINE:])

    # operations -----------------------------------------------------------------------------------------------------
    @override
    def perform(self, session: FrontEndSession, request: Request) -> Code:
        """Where the back-end dies meanwhile, operations that only read are tried again with its successor."""
        number, operation = self.scheme.operation(request)
        while True:
            try:
                held = yield from self.holding(session, number, operation)
                return (yield from self.execute(held, operation))
            except BROKEN as error:
                self.lose(session, number)
                if operation.f in self.scheme.updates:
                    raise OutcomeUnknown("the connection is broken") from error
            except NoRoom as error:
                self.lose(session, number)
                raise OperationFailed(f"no room for {error}") from error

    def lose(self, session: FrontEndSession, number: int) -> None:
        """The connection to a structure is broken."""
        session.held.pop(number, None)

    def algorithm(self, held: OpenStructure) -> Algorithm:
        """The structure's code, which remembers nothing."""
        return self.scheme.algorithm(held.space, held.area.root, self.sizes.value_bytes)

    def execute(self, held: OpenStructure, operation: Operation) -> Code:
        """Perform one operation: its writes are one transaction, and it returns when that is in the log."""
        if held.writer is None and self.server.logged and isinstance(held.space, LoggedSpace):
            return (yield from read_shared(held.space, self.algorithm(held), operation, self.mode))
        found = yield from self.algorithm(held).perform(operation)
        if isinstance(held.space, LoggedSpace) and held.space.writes:
            yield from held.space.commit(awaited=True)
        return found
