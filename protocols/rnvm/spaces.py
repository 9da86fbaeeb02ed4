"""The spaces of the modes: how a front-end's algorithm reads and writes a structure in the back-end's memory.

Source: rNVM, sections 3.3, 4.2 and 5.1. In the naive space a read is a READ and a write an awaited WRITE in place. In a
logged space writes are gathered and go into the memory log as one transaction; the front-end keeps what the back-end
may not have replayed yet, and lays it over what it reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import override

from ...sim.errors import InputError, Mistake
from ..parts.onesided import Posted
from ..structures.space import NoRoom, Range, Space
from .area import FIRST, Area
from .link import Link
from .records import LINE, WORD, Position, RecordHead, Write, by_line, lines_of, merged, record, runs_of, transaction
from .slabs import BlockSource

if TYPE_CHECKING:
    from .mirror import Copies

Code = Generator[Any, Any, Any]

LOOK_AFTER = 16
"""Where so many transactions may not be replayed yet the front-end looks at the LPN (the paper is silent)."""
PATIENT = 32
"""After so many READs in vain a front-end that waits for a copy sleeps between them, each time for as long as it has
waited by then (assumption: the paper is silent).
"""
CHUNK = 4096
"""The bytes that a front-end takes at once of what nobody has."""


class RemoteSpace(Space):
    """What all modes share: reading by READ, and blocks out of chunks, which a word in the naming area counts."""

    def __init__(self, link: Link, area: Area, *, by_field: bool, owned: bool) -> None:
        """``owned``: this front-end writes the structure, and nobody else does."""
        self.link = link
        self.area = area
        self.by_field = by_field
        self.owned = owned
        self.copies: Copies | None = None
        """What copies the logs to a mirror, where the front-end does."""
        self.allocator: BlockSource
        """What gives blocks to the front-end that writes."""
        self._free = self._end = 0
        self._mine: set[int] = set()
        """Blocks that its allocator has given."""
        self._held: dict[int, bytearray] = {}
        """By address: ranges that nobody else changes, own writes included."""

    @override
    def read(self, address: int, length: int, depth: int = 0) -> Code:
        return (yield from self.link.read(address, length))

    @override
    def read_held(self, address: int, length: int) -> Code:
        """READ once, and kept with its own writes, by the front-end that has the structure."""
        if not self.owned:
            return (yield from self.read(address, length))
        if address not in self._held:
            self._held[address] = bytearray((yield from self.read(address, length)))
        return bytes(self._held[address])

    def keep_held(self, address: int, data: bytes) -> None:
        """Of what is held a part has been written."""
        for start, held in self._held.items():
            first, last = max(start, address), min(start + len(held), address + len(data))
            if first < last:
                held[first - start : last - start] = data[first - address : last - address]

    @override
    def read_all(self, ranges: Sequence[Range], depth: int = 0) -> Code:
        return (yield from self.link.read_all(ranges))

    @override
    def allocate(self, length: int) -> Code:
        address = yield from self.allocator.allocate(length)
        self._mine.add(address)
        return address

    def next_of_chunk(self, length: int) -> Code:
        """A block of what nobody has: the next of a chunk, or of another one."""
        unit = LINE if length >= LINE else WORD
        start = -(-self._free // unit) * unit
        if start + length > self._end:
            start = yield from self._take_chunk(max(CHUNK, -(-length // LINE) * LINE))
        self._free = start + length
        return start

    def _take_chunk(self, length: int) -> Code:
        area = self.area
        start = int.from_bytes((yield from self.read(area.taken, WORD)), "little")
        if start + length > area.data + area.data_bytes:
            raise NoRoom(f"{length} bytes")
        yield from self.write(area.taken, (start + length).to_bytes(WORD, "little"))
        self._end = start + length
        return start

    @override
    def free(self, address: int, length: int) -> Code:
        """What this front-end has not allocated leaks: nobody knows what else is in its block."""
        if address in self._mine:
            self._mine.discard(address)
            yield from self.allocator.free(address, length)
        else:
            self.link.thread.count("blocks leaked")


class NaiveSpace(RemoteSpace):
    """Every range is read and written where it is."""

    @override
    def write(self, address: int, data: bytes) -> Code:
        self.keep_held(address, data)
        yield from self.link.write(address, data)

    @override
    def write_all(self, writes: Sequence[Write]) -> Code:
        for address, data in writes:
            self.keep_held(address, data)
        yield from self.link.write_all(writes)


class Outstanding(NamedTuple):
    """A transaction that may not have been replayed."""

    sequence: int
    lines: int
    """How many lines of the log it has."""
    touched: frozenset[int]
    """The lines of data that it writes."""
    operations: int
    """How many lines of the operation log are free once it is replayed."""
    done: int
    """The operations before this one's number are done then."""
    freed: tuple[Range, ...]
    """Blocks that nobody needs once it is replayed."""


class KeptLine:
    """A line of data as far as this front-end has written it: ``mask`` has a bit for each byte that it knows."""

    __slots__ = ("content", "mask", "sequence")

    def __init__(self) -> None:
        self.content = bytearray(LINE)
        self.mask = 0
        self.sequence: int | None = None
        """The last transaction that writes it; None while that has not been sent."""


class LoggedSpace(RemoteSpace):
    """Writes are gathered; :meth:`commit` makes a transaction of them."""

    def __init__(self, link: Link, area: Area, *, by_field: bool, owned: bool) -> None:
        super().__init__(link, area, by_field=by_field, owned=owned)
        self.tail = Position.unpack(Position.pack(sequence=FIRST, line=0))
        """Where the next transaction goes."""
        self.outstanding: deque[Outstanding] = deque()
        self.used = 0
        """Lines of the memory log that are not free."""
        self.writes: list[Write] = []
        """Of the transaction that is being made."""
        self.freed: list[Range] = []
        """Blocks that are not needed behind it."""
        self._reusable: list[Range] = []
        self.published: dict[int, int] = {}
        """Where these publish something, in order, with the length of each."""
        self.kept: dict[int, KeptLine] = {}
        """By line: what may not be in the data yet."""
        self.operations_used = 0
        """Lines of the operation log that are not free."""
        self.look_after = LOOK_AFTER
        self.copied_before = False
        """Whether what is awaited has to be on the mirror, too."""
        self._asked: Posted | None = None
        """A READ of the LPN that is under way."""

    def begin_at(self, tail: Position) -> None:
        """All transactions have been replayed, and the next one goes there: nothing is kept."""
        self.tail, self.used, self.operations_used = tail, 0, 0
        self.outstanding.clear()
        self.writes.clear()
        self.published.clear()
        self.freed.clear()
        self._reusable.clear()
        self.kept.clear()
        self._held.clear()
        self._free = self._end = 0

    # reads ----------------------------------------------------------------------------------------------------------
    @override
    def read(self, address: int, length: int, depth: int = 0) -> Code:
        found = self.known(address, length)
        if found is None:
            found = self.overlaid(address, (yield from self.fetch(address, length, depth)))
        return found

    @override
    def read_all(self, ranges: Sequence[Range], depth: int = 0) -> Code:
        found = [self.known(*each) for each in ranges]
        missing = [each for each, known in zip(ranges, found, strict=True) if known is None]
        fetched = iter((yield from self.fetch_all(missing, depth)))
        return [
            self.overlaid(address, next(fetched)) if known is None else known
            for (address, _), known in zip(ranges, found, strict=True)
        ]

    def fetch(self, address: int, length: int, depth: int) -> Code:
        """A range of the data as the back-end has it, or as a cache has it."""
        return (yield from self.link.read(address, length))

    def fetch_all(self, ranges: Sequence[Range], depth: int) -> Code:
        """Several such ranges."""
        return (yield from self.link.read_all(ranges)) if ranges else []

    def known(self, address: int, length: int) -> bytes | None:
        """A range if all of it is kept here."""
        parts, at, end = [], address, address + length
        while at < end:
            line, start = divmod(at, LINE)
            kept, take = self.kept.get(line), min(LINE - start, end - at)
            mask = ((1 << take) - 1) << start
            if kept is None or kept.mask & mask != mask:
                return None
            parts.append(bytes(kept.content[start : start + take]))
            at += take
        return b"".join(parts)

    def overlaid(self, address: int, data: bytes) -> bytes:
        """The bytes of a range with what is kept here laid over them."""
        found: bytearray | None = None
        for line in range(address // LINE, (address + len(data) - 1) // LINE + 1):
            kept = self.kept.get(line)
            if kept is None:
                continue
            found = found if found is not None else bytearray(data)
            for start, end in runs_of(kept.mask):
                first, last = max(line * LINE + start, address), min(line * LINE + end, address + len(data))
                if first < last:
                    found[first - address : last - address] = kept.content[first - line * LINE : last - line * LINE]
        return data if found is None else bytes(found)

    # writes ---------------------------------------------------------------------------------------------------------
    @override
    def write(self, address: int, data: bytes) -> Code:
        self.writes.append((address, data))
        self.keep_held(address, data)
        for line, start, piece in by_line(address, data):
            kept = self.kept.get(line)
            if kept is None:
                kept = self.kept[line] = KeptLine()
            kept.content[start : start + len(piece)] = piece
            kept.mask |= ((1 << len(piece)) - 1) << start
            kept.sequence = None
        yield from ()

    @override
    def publish(self, address: int, data: bytes) -> Code:
        self.published.pop(address, None)
        self.published[address] = len(data)
        yield from self.write(address, data)

    def commit(
        self, *, awaited: bool, merge: bool = False, operations: int = 0, done: int = 0, more: Iterable[Write] = ()
    ) -> Code:
        """Send the gathered writes as one transaction, those of ``more`` behind them.

        ``operations``: how many lines of the operation log are free once it is replayed; operations before the one of
        number ``done`` are done then. Raises NoRoom where the transaction is larger than the log.
        """
        log, writes = self.area.memory_log, [*self.writes, *more]
        if merge:
            writes = merged(writes, self.published)
        self.published.clear()
        body = transaction(writes)
        lines = lines_of(len(body))
        if lines > log.lines:
            found = f"a transaction of {lines * LINE} B in a log of {log.lines * LINE} B"
            raise InputError(Mistake(found, f"[log={lines * LINE} B] or more, or a smaller batch", field="scheme"))
        yield from self.look_aside()
        yield from self.room(lines)
        yield from self.link.thread.crc32_of(body)
        position, sequence, place = self.tail, self.tail.sequence, log.at(self.tail)
        touched = frozenset(line for at, data in writes for line in range(at // LINE, (at + len(data) - 1) // LINE + 1))
        self.tail = log.behind(self.tail, len(body))
        self.used += lines
        self.outstanding.append(Outstanding(sequence, lines, touched, operations, done, tuple(self.freed)))
        self.freed = []
        self.writes = []
        for line in touched:
            if line in self.kept:
                self.kept[line].sequence = sequence
        if self.copies is not None:
            yield from self.copies.transaction(position, body, writes)
        yield from self.send(place, record(sequence, body), awaited, self.area.copied)
        yield from self.committed(writes)

    def send(self, place: int, data: bytes, awaited: bool, copied: int) -> Code:
        """Put a record into a log; where it is awaited and its copy comes before, wait for that, too.

        ``copied`` is where the back-end says up to where it has copied that log.
        """
        yield from self.link.log(place, data, awaited=awaited)
        if self.copies is not None and awaited and self.copied_before:
            yield from self.copies.settle()
        yield from self.join_mirror()
        if not awaited or not self.copied_before or self.copies is not None:
            return
        sequence, vain, thread = RecordHead.unpack(data).sequence, 0, self.link.thread
        begun = thread.deadline("0 ns")
        while Position.unpack((yield from self.link.read(copied, WORD))).sequence <= sequence:
            thread.count("copies read in vain")
            vain += 1
            if vain >= PATIENT:  # the mirror may be gone, which the back-end's adapter has to find out
                yield from thread.sleep_again(begun)

    def join_mirror(self) -> Code:
        """If the mirror was gone, and is there again: copy all to it."""
        if self.copies is not None and self.copies.alone:
            yield from self.link.settle()
            yield from self.copies.join_again(self.link)

    def committed(self, writes: Sequence[Write]) -> Code:
        """A transaction has been sent."""
        yield from ()

    def room(self, lines: int) -> Code:
        """Wait until the memory log has that many lines free."""
        while self.used + lines > self.area.memory_log.lines:
            yield from self.look_at_lpn()

    def look_aside(self) -> Code:
        """READ the LPN without waiting for it, now and then; what it said is taken the next time."""
        poster = self.link.poster
        if self._asked is not None and self._asked.completion is not None:
            asked, self._asked = self._asked, None
            self.forget((yield from poster.result(asked)))
        reusable, self._reusable = self._reusable, []
        for address, length in reusable:
            yield from super().free(address, length)
        if self._asked is None and len(self.outstanding) >= self.look_after:
            self._asked = yield from poster.read(self.link.qp, self.area.lpn, self.link.key, WORD)

    @override
    def free(self, address: int, length: int) -> Code:
        """Given back once the transaction is replayed that takes it out: until then a failure may need it."""
        yield from ()
        self.freed.append((address, length))

    def look_at_lpn(self) -> Code:
        """READ the LPN, and forget what has been replayed."""
        self.forget((yield from self.link.read(self.area.lpn, WORD)))

    def forget(self, lpn: bytes) -> None:
        """What has been replayed need not be kept."""
        reached = Position.unpack(lpn).sequence
        while self.outstanding and self.outstanding[0].sequence < reached:
            done = self.outstanding.popleft()
            self.used -= done.lines
            self.operations_used -= done.operations
            self._reusable += done.freed
            self.replayed(done)
            for line in done.touched:
                if line in self.kept and self.kept[line].sequence == done.sequence:
                    del self.kept[line]

    def replayed(self, done: Outstanding) -> None:
        """A transaction has been replayed, as this front-end has found out."""
