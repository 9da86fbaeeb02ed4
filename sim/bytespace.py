"""Bytes that become visible in time order, without an event each.

A write is put into a sorted inbox with the instant at which it becomes visible; the first reader catches the inbox up
to the instant of its read. Bytes that nobody reads may stay stale without harm. At one instant, writes apply in the
order of their channel and number (the tie rule); the order of the calls does not matter.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from .onlooker import Onlooker

PAGE_BYTES = 4096
LINE_BYTES = 64
READS = 1 << 62
"""The channel of reads: behind those of all writes."""
ROOM = 512
"""How many writes may wait for a reader. Beyond that, writes are applied up to the last instant that was read."""


class WriteRun:
    """Writes to consecutive addresses by one channel, in order: how long each one is, and when it is visible."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[int, int]]) -> None:
        self.parts = parts


class ReadRun:
    """A read of a range whose pieces are read at instants of their own: where no write meets it, one read of all.

    The pieces are read behind ``first_ps`` (the first of them maybe then) and until ``last_ps``. ``pieces`` returns the
    (instant, offset in the range, length) of each, ``sink`` takes an instant, an offset, and the bytes read there then.
    """

    __slots__ = ("address", "cut", "first_ps", "last_ps", "length", "number", "pieces", "sink")

    def __init__(
        self,
        first_ps: int,
        last_ps: int,
        number: int,
        address: int,
        length: int,
        pieces: Callable[[], Iterable[tuple[int, int, int]]],
        sink: Callable[[int, int, bytes], None],
    ) -> None:
        self.first_ps = first_ps
        self.last_ps = last_ps
        self.number = number
        self.address = address
        self.length = length
        self.pieces = pieces
        self.sink = sink
        self.cut = False
        """A write has met it: its pieces are reads of their own."""

    # A piece as long as the run is in the inbox under the same numbers once that is cut: the run comes behind it.
    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True


class Watch(NamedTuple):
    """A range that somebody watches, and the call that tells when something written to it is visible."""

    start: int
    end: int
    on_visible: Callable[[int], None]


_watch = partial(tuple.__new__, Watch)
"""As Watch, of a tuple; costs no Python call."""


class ByteSpace:
    """A sparse space of ``size_bytes`` bytes, zero where nothing was written."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.caught_up_ps = 0
        """The latest instant of a read: earlier states are gone."""
        self._pages: dict[int, bytearray] = {}
        self._inbox: deque[tuple[int, int, int, int, Any, Any]] = deque()
        """Writes, each with a callback for when it is applied, or found to be a run; reads (a length instead of data),
        each with its sink. A run of reads stands where its last piece is due."""
        self._reads: list[ReadRun] = []
        """Runs of reads in the inbox that nothing has met so far."""
        self._room = ROOM
        self._source: Callable[[int], bytes | None] | None = None
        self.onlooker: Onlooker | None = None
        self._known: set[int] = set()
        self._copied: dict[int, int] = {}
        """Lines that have been copied before anybody touched them: of which line each has what the source says."""
        self._computed: list[tuple[int, int, Callable[[int], bytes]]] = []
        self._watches: dict[int, list[Watch]] = {}
        """By line: the watches of ranges that touch it."""
        self.kept = False
        """Whether what is there must not be set without time: a failure has left it."""

    def write_at(
        self,
        visible_ps: int,
        channel: int,
        number: int,
        address: int,
        data: bytes,
        seen: Callable[[], None] | WriteRun | None = None,
        now_ps: int = 0,
    ) -> None:
        """Let ``data`` appear at ``address`` at the instant ``visible_ps``; ``seen`` is called when it is applied.

        ``(channel, number)`` orders writes of one instant and must be unique. No read may ask any more for a time
        before ``now_ps``.
        """
        if address < 0 or address + len(data) > self.size_bytes:
            raise IndexError(f"write of {len(data)} bytes at {address:#x} is outside of {self.size_bytes} bytes")
        inbox = self._inbox
        entry = (visible_ps, channel, number, address, data, seen)
        if not inbox or entry > inbox[-1]:  # almost always
            inbox.append(entry)
        else:
            insort(inbox, entry)
        if self._watches:
            self._tell_of(visible_ps, address, len(data), seen)
        if len(inbox) > self._room:
            self.catch_up(now_ps)
            self._room = max(ROOM, 2 * len(inbox))

    def write_run(
        self, channel: int, number: int, address: int, data: bytes, parts: list[tuple[int, int]], now_ps: int
    ) -> None:
        """The same as :meth:`write_at` of one part after the other, numbered from ``number`` on.

        Each of ``parts`` is (how many bytes, when they are visible), later than the one before.
        """
        run = WriteRun(parts) if len(parts) > 1 else None
        self.write_at(parts[0][1], channel, number, address, data, run, now_ps)

    def read_at(self, at_ps: int, number: int, address: int, length: int, sink: Callable[[bytes], None]) -> None:
        """Give ``sink`` the bytes that are visible at ``at_ps``, not before now, at the next catching up behind that
        instant.

        ``number`` orders the reads of one instant and must be unique.
        """
        insort(self._inbox, (at_ps, READS, number, address, length, sink))

    def read_run(self, run: ReadRun) -> None:
        """Read the pieces of a run, of which there are several: the same as :meth:`read_at` of each."""
        if self._source is not None and not self._computed:  # which line is touched first may be a choice
            self._cut(run, 0)
            return
        self._reads.append(run)
        entry = (run.last_ps, READS, run.number, run.address, run.length, run)
        if not self._inbox or entry > self._inbox[-1]:
            self._inbox.append(entry)
        else:
            insort(self._inbox, entry)

    def _cut(self, run: ReadRun, now_ps: int) -> None:
        """The pieces of a run are reads of their own; those before ``now_ps`` find the bytes as they stand."""
        run.cut = True
        for at_ps, offset, length in run.pieces():
            if at_ps < now_ps:
                run.sink(at_ps, offset, self.peek(run.address + offset, length))
            else:
                self.read_at(at_ps, run.number, run.address + offset, length, partial(run.sink, at_ps, offset))

    def _meet(self, now_ps: int, address: int, length: int, last_ps: int) -> None:
        """A write becomes visible now, or a run of writes until ``last_ps``: cut the runs of reads that it meets."""
        for run in self._reads[:]:
            if run.first_ps < last_ps and run.address < address + length and address < run.address + run.length:
                self._reads.remove(run)
                self._cut(run, now_ps)

    def watch(self, address: int, length: int, on_visible: Callable[[int], None]) -> Watch:
        """Call ``on_visible`` with the instant of visibility of every later write to this range.

        Returns what :meth:`unwatch` takes.
        """
        watch = _watch((address, address + length, on_visible))
        for line in lines(address, length):
            self._watches.setdefault(line, []).append(watch)
        return watch

    def unwatch(self, watch: Watch) -> None:
        """End a watch; one that has ended stays ended."""
        for line in lines(watch.start, watch.end - watch.start):
            there = self._watches.get(line, [])
            if watch in there:
                there.remove(watch)
                if not there:
                    del self._watches[line]

    def tell(self, visible_ps: int, address: int, length: int) -> None:
        """Something that was written to this range is visible from ``visible_ps`` on: whoever watches it learns so."""
        watches = self._watches
        if not watches or not length:
            return
        end, touched = address + length, lines(address, length)
        watched: Iterable[int] = touched if len(touched) <= len(watches) else list(watches)
        for line in watched:
            for watch in tuple(watches.get(line, ())):
                # Of the lines that both touch, the first is where the watch is called: once.
                if watch.start < end and address < watch.end and line == max(touched[0], watch.start // LINE_BYTES):
                    watch.on_visible(visible_ps)

    def _tell_of(self, visible_ps: int, address: int, length: int, seen: Callable[[], None] | WriteRun | None) -> None:
        if not isinstance(seen, WriteRun):
            self.tell(visible_ps, address, length)
            return
        for size, at_ps in seen.parts:
            self.tell(at_ps, address, size)
            address += size

    def coming_ps(self, address: int, length: int) -> list[int]:
        """The instants at which writes to this range become visible that are not applied yet."""
        found = []
        for visible_ps, channel, _, start, data, seen in self._inbox:
            if channel == READS:
                continue
            at = start
            for size, at_ps in seen.parts if isinstance(seen, WriteRun) else ((len(data), visible_ps),):
                if at < address + length and address < at + size:
                    found.append(at_ps)
                at += size
        return found

    def catch_up(self, now_ps: int) -> None:
        """Apply every write that is visible at ``now_ps``, and serve every read until then."""
        caught_up_ps = self.caught_up_ps
        self.caught_up_ps = now_ps if now_ps > caught_up_ps else caught_up_ps
        inbox, pages, reads = self._inbox, self._pages if self._source is None else {}, self._reads
        while inbox and inbox[0][0] <= now_ps:
            at_ps, channel, number, address, data, seen = inbox.popleft()
            if channel == READS:
                if seen.__class__ is ReadRun:
                    if not seen.cut:
                        reads.remove(seen)
                        seen.sink(at_ps, 0, self.peek(address, data))
                    continue
                offset = address % PAGE_BYTES
                if self._source is None and offset + data <= PAGE_BYTES and 0 <= address <= self.size_bytes - data:
                    page = pages.get(address // PAGE_BYTES)  # ``peek`` written out, almost always
                    seen(bytes(page[offset : offset + data]) if page is not None else bytes(data))
                else:
                    seen(self.peek(address, data))
                continue
            if reads:
                last_ps = seen.parts[-1][1] if seen.__class__ is WriteRun else at_ps
                self._meet(at_ps, address, len(data), last_ps)
            if seen is None:
                page, offset = pages.get(address // PAGE_BYTES), address % PAGE_BYTES
                if page is not None and offset + len(data) <= PAGE_BYTES:  # ``_set`` written out, almost always
                    page[offset : offset + len(data)] = data
                else:
                    self._set(address, data)
            elif seen.__class__ is WriteRun:
                self._apply(now_ps, channel, number, address, data, seen.parts)
            else:
                self._set(address, data)
                seen()

    def _apply(
        self, now_ps: int, channel: int, number: int, address: int, data: bytes, parts: list[tuple[int, int]]
    ) -> None:
        """Apply a run that is first in the inbox: its writes that are visible by now and come before the next entry."""
        inbox = self._inbox
        until_ps = min(now_ps, inbox[0][0] - 1) if inbox else now_ps
        if parts[-1][1] <= until_ps:
            self._set(address, data)
            return
        taken, size = 1, parts[0][0]
        while parts[taken][1] <= until_ps:
            size += parts[taken][0]
            taken += 1
        self._set(address, data[:size])
        rest = parts[taken:]
        run = WriteRun(rest) if len(rest) > 1 else None
        insort(inbox, (rest[0][1], channel, number + taken, address + size, data[size:], run))

    def read(self, now_ps: int, address: int, length: int) -> bytes:
        """The bytes that are visible at ``now_ps``."""
        caught_up_ps = self.caught_up_ps
        self.caught_up_ps = now_ps if now_ps > caught_up_ps else caught_up_ps
        if self._inbox and self._inbox[0][0] <= now_ps:
            self.catch_up(now_ps)
        offset = address % PAGE_BYTES
        if offset + length <= PAGE_BYTES and self._source is None and 0 <= address <= self.size_bytes - length:
            page = self._pages.get(address // PAGE_BYTES)  # ``peek`` written out, almost always
            return bytes(page[offset : offset + length]) if page is not None else bytes(length)
        return self.peek(address, length)

    def poke(self, address: int, data: bytes) -> None:
        """Set bytes now, without time: initial contents, restored images. Raises RuntimeError where they are kept."""
        if self.kept:
            raise RuntimeError(f"{len(data)} bytes are set at {address:#x}, in memory as a failure has left it")
        if self._reads:
            self._meet(self.caught_up_ps + 1, address, len(data), self.caught_up_ps + 1)
        self._set(address, data)

    def copy(self, now_ps: int, address: int, source: int, length: int) -> None:
        """Set a range to what another one shows at ``now_ps``, without time.

        Where bytes come from a source, a whole line is copied without asking what it holds, if nobody has asked before:
        who asks for the copy first asks for it.
        """
        self.catch_up(now_ps)
        shift, apart = (source - address) // LINE_BYTES, (source - address) % LINE_BYTES
        if self._source is None or self._computed or apart or abs(source - address) < length:
            self.poke(address, self.peek(source, length))
            return
        known, copied = self._known, self._copied
        if self.onlooker is not None:
            self.onlooker.copied()
        for line in lines(address, length):
            start = max(address, line * LINE_BYTES)
            end = min(address + length, (line + 1) * LINE_BYTES)
            if end - start < LINE_BYTES or line + shift in known:
                self.poke(start, self.peek(start + source - address, end - start))
            else:
                known.discard(line)
                copied[line] = copied.get(line + shift, line + shift)

    def _set(self, address: int, data: bytes) -> None:
        if address < 0 or address + len(data) > self.size_bytes:
            raise IndexError(f"write of {len(data)} bytes at {address:#x} is outside of {self.size_bytes} bytes")
        if self._source is not None:
            self._cover(address, len(data))
        pages = self._pages
        offset, size = address % PAGE_BYTES, len(data)
        if 0 < size <= PAGE_BYTES - offset:  # almost always
            page = pages.get(address // PAGE_BYTES)
            if page is None:
                page = pages[address // PAGE_BYTES] = bytearray(PAGE_BYTES)
            page[offset : offset + size] = data
            return
        done = 0
        while done < len(data):
            number, offset = divmod(address + done, PAGE_BYTES)
            take = min(PAGE_BYTES - offset, len(data) - done)
            page = pages.get(number)
            if page is None:
                page = pages[number] = bytearray(PAGE_BYTES)
            page[offset : offset + take] = data[done : done + take]
            done += take

    def peek(self, address: int, length: int) -> bytes:
        """The bytes as they stand, inbox left alone."""
        if address < 0 or address + length > self.size_bytes:
            raise IndexError(f"read of {length} bytes at {address:#x} is outside of {self.size_bytes} bytes")
        if self._source is not None:
            self._fetch(address, length)
            if self.onlooker is not None:
                self.onlooker.looked(address, length)
        offset = address % PAGE_BYTES
        if offset + length <= PAGE_BYTES:
            page = self._pages.get(address // PAGE_BYTES)
            return bytes(page[offset : offset + length]) if page is not None else bytes(length)
        found, done = [], 0
        while done < length:
            number, offset = divmod(address + done, PAGE_BYTES)
            take, page = min(PAGE_BYTES - offset, length - done), self._pages.get(number)
            found.append(page[offset : offset + take] if page is not None else bytes(take))
            done += take
        return b"".join(found)

    def touch(self, numbers: Iterable[int]) -> None:
        """As if these lines were read, one after the other: which of them is asked for first may be a choice."""
        source, known, copied, pages = self._source, self._known, self._copied, self._pages
        if source is None:
            return
        for line in numbers:
            if line in known:
                continue
            known.add(line)
            content = source(copied.pop(line, line) if copied else line)
            if content is not None:
                start = line * LINE_BYTES
                if start + LINE_BYTES > self.size_bytes:
                    content = content[: self.size_bytes - start]
                page = pages.get(start // PAGE_BYTES)
                if page is None:
                    page = pages[start // PAGE_BYTES] = bytearray(PAGE_BYTES)
                offset = start % PAGE_BYTES
                page[offset : offset + len(content)] = content

    def restore(self, source: Callable[[int], bytes], onlooker: Onlooker | None = None) -> None:
        """Forget everything; from now on each line is what ``source(line)`` says when it is first touched, and
        ``onlooker`` is told what is looked at.
        """
        self._pages.clear()
        self._inbox.clear()
        self._reads.clear()
        self._known.clear()
        self._copied.clear()
        self._computed.clear()
        self._source, self.onlooker = source, onlooker

    def compute(self, address: int, length: int, source: Callable[[int], bytes]) -> None:
        """Let each line of a range be what ``source(line)`` says when it is first touched: contents that are computed
        and not stored.

        ValueError where the range does not consist of whole lines.
        """
        if address % LINE_BYTES or length % LINE_BYTES:
            raise ValueError(f"{length} bytes at {address:#x} are no whole lines")
        self._computed.append((address // LINE_BYTES, (address + length) // LINE_BYTES, source))
        self._source = self._of_range

    def _of_range(self, line: int) -> bytes | None:
        for first, end, source in self._computed:
            if first <= line < end:
                return source(line)
        return None

    def snapshot(self) -> Snapshot:
        """The bytes that the space holds now; computed contents are left to be computed."""
        pages = {number: bytes(page) for number, page in sorted(self._pages.items())}
        return Snapshot(pages, self._of_range if self._computed else None, frozenset(self._known))

    def is_touched(self, address: int, length: int) -> bool:
        """Whether any line of a range has been read or written since the source was given."""
        touched = lines(address, length)
        return not self._known.isdisjoint(touched) or not self._copied.keys().isdisjoint(touched)

    def _cover(self, address: int, length: int) -> None:
        """Make the lines of a range that is about to be written: of those that it covers whole nobody needs to know
        what they held.
        """
        first, end = -(-address // LINE_BYTES), (address + length) // LINE_BYTES
        if first >= end:
            self._fetch(address, length)
            return
        self.touch(line for line in lines(address, length) if not first <= line < end)
        self._known.update(range(first, end))
        for line in self._copied.keys() & range(first, end) if self._copied else ():
            del self._copied[line]

    def _fetch(self, address: int, length: int) -> None:
        """Make the lines of a range that are touched for the first time: their source says their bytes."""
        if length:
            first, last = address // LINE_BYTES, (address + length - 1) // LINE_BYTES
            if first != last or first not in self._known:
                self.touch(range(first, last + 1))


class Snapshot(dict[int, bytes]):
    """The pages of a byte space that held anything, by page number, and what is computed beside them."""

    def __init__(
        self, pages: dict[int, bytes], source: Callable[[int], bytes | None] | None, known: frozenset[int]
    ) -> None:
        super().__init__(pages)
        self._source = source
        self._known = known

    def line(self, number: int) -> bytes:
        """The bytes of a line; zeros if none were written."""
        if self._source is not None and number not in self._known:
            content = self._source(number)
            if content is not None:
                return content
        page = self.get(number * LINE_BYTES // PAGE_BYTES)
        if page is None:
            return bytes(LINE_BYTES)
        start = number * LINE_BYTES % PAGE_BYTES
        return page[start : start + LINE_BYTES]


def round_up(length: int, unit: int = LINE_BYTES) -> int:
    """The least multiple of ``unit`` that is no less than ``length``: so many bytes in whole lines, pages, words."""
    return -(-length // unit) * unit


def lines(address: int, length: int) -> range:
    """The numbers of the 64-byte lines that a range touches."""
    return range(address // LINE_BYTES, (address + length - 1) // LINE_BYTES + 1) if length else range(0)
