"""A node of Hotpot as a holder of pages and copies, and how nodes send each other what is new in copies."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..layout import Layout
from ..parts.lossy import LossyConnection
from ..parts.onesided import VerbsError
from ..parts.rpc import Listener
from ..scheme import Role
from .messages import REPEATED, SLOTS, Calls
from .records import CopyUpdate, DirtyArea, OwnRecord, areas_of, packed_areas

if TYPE_CHECKING:
    from .pages import SharedPages

Code = Generator[Any, Any, Any]


class HolderNode(Role, memory=("dram", "pm"), cores=3, counted_by="nodes"):
    """A machine with pages of its own, and copies of others' pages; where its records are is said here as well."""

    scheme: SharedPages

    def __init__(self, scheme: SharedPages, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.nodes = int(scheme.option("nodes"))
        room = self.room = scheme.room
        rows = scheme.rows * room.page_bytes
        self.regions = {
            home: self.pm.allocate(rows, self.label(home), item_bytes=room.page_bytes, align=4096)
            for home in range(self.nodes)
            if number in scheme.holders(home)
        }
        """By home: where its pages are here."""
        self.redo = self.pm.allocate(self.nodes * self.nodes * room.record, "redo", item_bytes=room.record)
        self.own = self.pm.allocate(OwnRecord.size + room.tail, "own record")
        self.dirty = self.pm.allocate(room.areas * room.page_bytes, "dirty", item_bytes=room.page_bytes, align=4096)
        memory = node.memory[scheme.redo_in]
        self.buffers = memory.allocate(self.nodes * SLOTS * room.message, "received", item_bytes=room.message)

    def label(self, home: int) -> str:
        """What stories call the pages of a home here."""
        return "pages" if home == self.number else f"copies of node[{home}]"

    @override
    def begin(self) -> None:
        self.listener = Listener(self.node, {})
        """Tells others whether this node can be connected to."""
        self.copies = Calls(self.node, self.handlers(), self.room.copy)
        self.ways: dict[tuple[Thread, int], LossyConnection] = {}

    def handlers(self) -> Mapping[type[Layout], Callable[[Thread, Any], Code]]:
        """What the third thread does, which never waits for anybody."""
        return {CopyUpdate: self.on_copy}

    # where things are -------------------------------------------------------------------------------------------------
    def place(self, page: int) -> int:
        """Where a page, or its copy, is here."""
        return self.regions[page % self.nodes] + page // self.nodes * self.room.page_bytes

    def has(self, page: int) -> bool:
        """Whether this node has a page, or a copy of it."""
        return page % self.nodes in self.regions

    def load_page(self, thread: Thread, page: int, length: int) -> Code:
        """The first bytes of a page, or of its copy, that is here."""
        return thread.load(self.place(page), length)

    def persist(self, thread: Thread, address: int, length: int) -> Code:
        """Flush a range, as the published code does (dsnvm-pmem.h:77-90): clflush of every line, then sfence."""
        yield from thread.clflush(address, length)
        yield from thread.sfence()

    def put(self, thread: Thread, address: int, data: bytes) -> Code:
        """Store and flush."""
        yield from thread.store(address, data)
        yield from self.persist(thread, address, len(data))

    # copies -----------------------------------------------------------------------------------------------------------
    def send_copies(self, thread: Thread, home: int, pages: Sequence[int], sources: Sequence[int]) -> Code:
        """Have all holders of copies of these pages hold what is new."""
        holders = [one for one in self.scheme.chain(home) if one != self.number]
        if holders:
            data = yield from self.new_in_copies(thread, pages, sources)
            for holder in holders:
                yield from self.aside(thread, holder, CopyUpdate, {"count": len(pages), "rest": data})

    def new_in_copies(self, thread: Thread, pages: Sequence[int], sources: Sequence[int]) -> Code:
        """The areas, and what they are now."""
        data = packed_areas(pages)
        for source in sources:
            data += yield from thread.load(source, self.room.value_bytes)
        return data

    def aside(self, thread: Thread, other: int, kind: type[Layout], fields: Mapping[str, Any]) -> Code:
        """Call another node's third thread, which never waits for anybody; returns the reply, None from a lost node."""
        node: HolderNode = self.scheme.roles["node"][other]
        while not self.scheme.is_lost(other):
            way = self.ways.get((thread, other))
            try:
                if way is None:
                    yield from node.listener.until_listening(thread)
                    way = self.ways[thread, other] = node.copies.accept(thread, self.node, REPEATED)
                return (yield from way.call(kind, **fields))
            except VerbsError as error:
                if not error.disconnected:
                    raise
                self.ways.pop((thread, other), None)
        return None

    def on_copy(self, thread: Thread, request: CopyUpdate) -> Code:
        """A holder: copy, flush."""
        each = (len(request.rest) - request.count * DirtyArea.size) // request.count
        for turn, page in enumerate(areas_of(request.rest, request.count)):
            at = request.count * DirtyArea.size + turn * each
            yield from self.put(thread, self.place(page), request.rest[at : at + each])
        return b"copied"
