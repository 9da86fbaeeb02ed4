"""The mirror: a machine without code whose memory has a copy of the back-end's structures and of their logs.

Source: rNVM, section 4.3: at least one mirror node, read-only; the back-end replicates memory and operation logs to it
before it commits a transaction; after the back-end is lost the structures are recovered from it on another NVM device.
Section 10.2 measures the same done by the front-end instead.

What the paper leaves open is read so. The mirror is laid out as the back-end is, and holds at first what that holds. A
record of a log is copied by a WRITE to where it lies on the back-end; the LPN moves when the copy has arrived. The
mirror replays nothing: when its memory log has no room for the next record, whoever copies writes what the records in
it have changed into the mirror's data, and then moves the mirror's LPN. So data and log together are a structure at any
instant. Bits of the allocator are copied before the first record that may need them.

Where a copy does not arrive, the mirror is gone: work goes on without it. Whoever copies tries to connect again with
each transaction or operation, and copies all of a structure once the mirror is back. The first operation that returns
without a copy waits for a mark on the spare machine that the copy is old. The mark goes when the copy is whole again.
So the spare takes no copy that lacks what had returned, unless the spare was away when it should have been told. As
long as the copy is old, what returns is on the back-end alone: the promise that it outlasts the back-end has the
condition that the mirror is there. Who begins again once it is lost for good waits for no copy.

A back-end that begins again, or a front-end that takes a structure over where front-ends copy, copies all of a
structure. The mirror has room for two copies: the new one is made beside the old one, and one word says which of them
counts. It changes when the new copy is whole; where operations wait for their copies nobody takes the structure over
before that. (The paper has one failure at a time.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from ...models.cpu import Thread
from ...models.persist.requester import PrimitiveFailed
from ...models.persist.service import Service
from ...models.system import Node
from ...models.verbs import QueuePair
from ..naming import Option
from ..parts.onesided import VerbsError
from ..parts.rpc import Listener
from ..scheme import Role
from .area import NAME_LINES, Area, AreaLayout, Ring, word_of
from .bitmap import Bitmap
from .link import Link
from .records import LINE, WORD, Position, RecordHead, Write, head_of, lines_of, merged, record, writes_of
from .slabs import RemoteBlocks

if TYPE_CHECKING:
    from ..structures.structure import Structure
    from .mode import RnvmMode

Code = Generator[Any, Any, Any]

MIRROR = Option(
    "none", choices=("none", "back-end", "front-end"),
    source="section 4.3 has at least one mirror node; table 3 does not say whether it was there: a reading",
    text="who copies the logs to a mirror, if there is one",
)  # fmt: skip
MIRRORED = Option(
    None, choices=("behind", "before"),
    source="section 4.3: before the transaction commits; section 10.2: at almost no cost, so an operation does not wait"
    " for a copy by the back-end, of which the front-end learns nothing; its own copies it awaits as all it awaits",
    text="whether an operation returns before its copy is made, which comes behind it, or the copy comes before; else"
    " behind where the back-end copies, and before where the front-end does",
)  # fmt: skip
PIECE = 4096
"""The bytes that are copied at once of all that there is."""
GONE = (VerbsError, PrimitiveFailed)


class Mirror(Role, memory=("dram", "pm"), passive=True):
    """A machine with the copy: its adapter opens the memory to who copies, and to who reads it in the end."""

    scheme: Structure

    def __init__(self, scheme: Structure, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        mode: type[RnvmMode] = scheme.mode  # type: ignore[assignment]
        self.areas, self.start_of_memory, first = AreaLayout.on(self.pm, scheme, mode.log_bytes())
        self._second = self.pm.allocate(first, "second copy", item_bytes=LINE) - self.start_of_memory
        """How far behind the first copy the second one lies."""
        self._counts = self.pm.allocate(LINE * len(self.areas), "copies that count", item_bytes=LINE)
        self.length = self._counts + LINE * len(self.areas) - self.start_of_memory

    def counts(self, area: Area) -> int:
        """Where the word lies that says which copy of a structure counts: by its offset from the first one."""
        return self._counts + LINE * area.number

    def other(self, offset: int) -> int:
        """The offset of the copy beside the one at that offset."""
        return self._second - offset

    @override
    def begin(self) -> None:
        self.listener = Listener(self.node, {})
        self.key = self.listener.register(self.start_of_memory, self.length).key
        self.listener.listen()
        self.service = None
        if self.scheme.over is not None:
            self.service = Service(self.scheme.primitive, self.node)
            self.service.register(self.start_of_memory, self.length)
        self.ends: dict[int, list[QueuePair]] = {}
        """By structure: its ends of the queue pairs by which that is copied."""

    def link(self, thread: Thread, node: Node, area: Area, most_bytes: int, before: Link | None = None) -> Link:
        """A way by which a structure is copied; ``before``: one that is not used any more."""
        made = Link(thread, node, self, most_bytes, before)
        self.ends.setdefault(area.number, []).extend(made.ends())
        return made

    def copy_by(self, link: Link, area: Area) -> Code:
        """A structure's copy that counts, as it is read by a link."""
        return MirroredCopy(link, int.from_bytes((yield from link.read(self.counts(area), WORD)), "little"))

    def fence(self, area: Area) -> Code:
        """Nobody copies a structure any more: nothing that was on its way comes later."""
        ends = self.ends.get(area.number, [])
        for end in tuple(ends):  # whoever does it may die meanwhile, and leave the rest to another
            end.destroy()
            yield end.placed()
            if end in ends:
                ends.remove(end)


class Copies:
    """Copying one structure's logs, by its back-end's thread or by its front-end."""

    def __init__(self, mirror: Mirror, thread: Thread, node: Node, area: Area, most_bytes: int) -> None:
        """``most_bytes``: the largest request."""
        self.mirror = mirror
        self.link = mirror.link(thread, node, area, most_bytes)
        self.area = area
        self._to_spare: Link | None = None
        self.alone = False
        """The mirror is gone, or its copy is not whole."""
        self._offset = 0
        """Of the copy that is written, from the first one: all places are the back-end's."""
        self._most_bytes = most_bytes
        self._told: bool | None = None if mirror.scheme.failures else False
        """Whether the spare machine knows that the copy is old; None: somebody before may have told it."""
        self._under_way: deque[Any] = deque()
        self._used = 0
        """Lines of the mirror's memory log that are not free."""
        self._changed: list[Write] = []
        """What the transactions in these lines write."""

    def put(self, address: int, data: bytes) -> Code:
        """Copy a range; it is there when :meth:`settle` returns, if :attr:`link` is the same then."""
        yield from self._put(address + self._offset, data)

    def _put(self, place: int, data: bytes) -> Code:
        """Have a place of the mirror's memory hold something."""
        if not self.alone:
            link = self.link
            try:
                begun = yield from link.begin_log(place, data)
            except GONE:
                self._broken(link)
                return
            if link is self.link:  # else the other thread copies all by now, this range too
                self._under_way.append(begun)

    def settle(self) -> Code:
        """Wait until all has arrived that was put."""
        link = self.link
        while self._under_way and not self.alone and link is self.link:
            try:
                yield from link.end_log(self._under_way.popleft())
            except GONE:
                self._broken(link)
        if link is self.link:
            self._under_way.clear()

    def _broken(self, link: Link) -> None:
        """A connection has failed: the mirror is gone, unless another connection has taken its place meanwhile."""
        if link is self.link:
            self.alone = True

    def transaction(self, position: Position, body: bytes, writes: list[Write]) -> Code:
        """Copy a transaction, to where it lies in the back-end's log."""
        lines = lines_of(len(body))
        if self._used + lines > self.area.memory_log.lines:
            yield from self.bring_up_to_date(position)
        self._used += lines
        self._changed += writes
        yield from self.operation(self.area.memory_log, position, body)

    def operation(self, ring: Ring, position: Position, body: bytes) -> Code:
        """Copy a record of a log."""
        yield from self.put(ring.at(position), record(position.sequence, body))

    def bring_up_to_date(self, position: Position) -> Code:
        """Have the mirror's data hold what the transactions before a position write; its log is free then."""
        yield from self.settle()
        for address, data in merged(self._changed):
            for start in range(0, len(data), PIECE):
                yield from self.put(address + start, data[start : start + PIECE])
        yield from self.settle()
        yield from self.put(self.area.lpn, word_of(position))
        yield from self.settle()
        self._used, self._changed = 0, []

    def all_of(self, source: CopySource) -> Code:
        """Copy a whole structure, beside the copy that counts; once it is whole it is the one that counts."""
        self._used, self._changed = 0, []
        link = self.link
        try:
            before: MirroredCopy = yield from self.mirror.copy_by(link, self.area)
        except GONE:
            self._broken(link)
        else:
            self._offset = self.mirror.other(before.offset)
            name, behind = yield from copy_structure(source, self.area, self.put)
            yield from self.put(self.area.name, name)
            yield from self.settle()
            yield from self._put(self.mirror.counts(self.area), self._offset.to_bytes(WORD, "little"))
            yield from self.settle()
            for body in behind:
                self._used += lines_of(len(body))
                self._changed += writes_of(body)
        yield from self._tell_spare()

    def join_again(self, source: CopySource, other: Copies | None = None) -> Code:
        """If the mirror was gone and is there again, connect, and copy all from a source whose LPN does not move
        meanwhile; if it is not, have the spare machine know. ``other`` copies another log of the structure, and goes on
        with it once all is copied.
        """
        if not self.alone:
            return
        if self.mirror.listener.listening:
            yield from source.read(self.area.name, LINE)  # if it is gone, the mirror is another's to connect to
            yield from self.mirror.fence(self.area)
            self._connect()
            yield from self.all_of(source)
            if other is not None:
                other._connect()
        else:
            yield from self._tell_spare()
        if other is not None:
            other.follow(self)

    def follow(self, other: Copies) -> None:
        """Copy to where all of the structure has been copied by the thread that copies another log."""
        self.alone, self._offset = other.alone, other._offset
        self._told, self._used, self._changed = other._told, other._used, list(other._changed)

    def _tell_spare(self) -> Code:
        """Mark the mirror's copy as old on the spare machine, or as whole again, if that can be reached."""
        spare = self.mirror.scheme.roles["spare"][0]
        if self._told is not self.alone and not spare.node.off:
            thread = self.link.thread
            if self._to_spare is None or self._to_spare.broken:
                self._to_spare = Link(thread, self.link.node, spare, LINE, self._to_spare)
            with suppress(*GONE):
                yield from self._to_spare.log(
                    old_mark(self.area), int(self.alone).to_bytes(WORD, "little"), awaited=True
                )
                self._told = self.alone

    def _connect(self) -> None:
        before = self.link
        self.link = self.mirror.link(before.thread, before.node, self.area, self._most_bytes, before)
        self._under_way.clear()
        self.alone = False


def old_mark(area: Area) -> int:
    """Where the spare machine has the word that is not 0 while the mirror's copy of a structure is old."""
    return area.taken + WORD


class CopySource(Protocol):
    """Memory with a structure."""

    def read(self, address: int, length: int) -> Code:
        """The bytes of a range."""

    def record(self, ring: Ring, position: Position) -> Code:
        """The head and the body of the record at a position; None if it is not whole."""


class OwnMemory:
    """A thread's own machine as the source of a copy."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    def read(self, address: int, length: int) -> Code:
        """Load a range."""
        return self._thread.load(address, length)

    def record(self, ring: Ring, position: Position) -> Code:
        """Load a record, if it has its checksum."""
        place = ring.at(position)
        head = head_of((yield from self._thread.load(place, RecordHead.size)), position.sequence)
        if head is None:
            return None
        start = place + (LINE if lines_of(head.length) > 1 else RecordHead.size)
        if not (yield from self._thread.crc32_matches(start, head.length, head.body_crc)):
            return None
        return head, (yield from self._thread.load(start, head.length))


class MirroredCopy:
    """A copy on the mirror as the source of another."""

    def __init__(self, link: Link, offset: int) -> None:
        self._link = link
        self.offset = offset
        """From the first copy; all places are the back-end's."""

    def read(self, address: int, length: int) -> Code:
        """READ a range."""
        return self._link.read(address + self.offset, length)

    def record(self, ring: Ring, position: Position) -> Code:
        """READ a record, if it has its checksum."""
        return self._link.record(Ring(ring.address + self.offset, ring.lines), position)


def copy_structure(source: CopySource, area: Area, put: Callable[[int, bytes], Code]) -> Code:
    """Copy all that a structure is but its line of the naming area; returns that line, and the bodies of the
    transactions behind its LPN.

    These are its words, its root, the bits of its blocks, the data that are taken, the transactions behind its LPN and
    the operations behind theirs.
    """
    words = yield from source.read(area.name, NAME_LINES * LINE)
    if not any(words[:LINE]):
        raise LookupError(f"no copy of structure {area.number}")
    yield from put(area.name + LINE, words[LINE:])
    yield from put(area.root, (yield from source.read(area.root, area.root_bytes)))
    end = int.from_bytes(words[area.taken - area.name :][:WORD], "little")
    taken = [(area.data, end - area.data)]
    if area.block_bytes:
        length = Bitmap.length(area.blocks)
        bits = b""
        for at in range(0, length, PIECE):
            bits += yield from source.read(area.bits + at, min(PIECE, length - at))
            yield from put(area.bits + at, bits[at:])
        taken = list(area.bitmap().taken_in(bits))
    for start, length in taken:
        for at in range(0, length, PIECE):
            data = yield from source.read(start + at, min(PIECE, length - at))
            yield from put(start + at, data)
    done = words[area.operations_lpn - area.name :][:WORD]
    position = Position.unpack(words[area.lpn - area.name :][:WORD])
    behind = []
    while (found := (yield from source.record(area.memory_log, position))) is not None:
        yield from put(area.memory_log.at(position), record(position.sequence, found[1]))
        behind.append(found[1])
        done = next((data for at, data in writes_of(found[1]) if at == area.operations_lpn), done)
        position = area.memory_log.behind(position, len(found[1]))
    position = Position.unpack(done)
    while (found := (yield from source.record(area.operation_log, position))) is not None:
        yield from put(area.operation_log.at(position), record(position.sequence, found[1]))
        position = area.operation_log.behind(position, len(found[1]))
    return words[:LINE], behind


class MirroredBlocks(RemoteBlocks):
    """Calls to the back-end's allocator by a front-end that copies: the bits of what it was given, too."""

    copies: Copies
    back_end: Link

    @override
    def allocate(self, length: int) -> Code:
        address = yield from super().allocate(length)
        start, end = self.heap.words_of(address, self.heap.blocks_of(length))
        yield from self.copies.put(start, (yield from self.back_end.read(start, end - start)))
        return address
