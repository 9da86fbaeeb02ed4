"""The last-level cache: which lines it holds, which of them are dirty, and what DDIO may do to it.

An inbound write updates a line that is there, in whatever way it is; one that is not is allocated in the I/O ways only
(Farshin et al., ATC'20; Song et al., OSDI'26). When those are full one of their lines is evicted, whether it has been
read or not: "leaky DMA". The I/O ways are not reserved: cores allocate in all ways. The cache is a victim cache of the
cores' second levels: a line is here or in private caches, never in both (``models.host.privatecaches``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from operator import itemgetter

from ...sim.bytespace import LINE_BYTES
from ...sim.trace import NEVER
from ..profiles.parameters import caches
from .cacheset import LINE_BITS, Key, Tags

Parts = list[tuple[int, int]]
"""The TLPs of one write, one behind the other: how many bytes, and when they are visible."""
IoWrite = tuple[int, int, int, int] | tuple[int, int, int, int, Parts]
"""An inbound write: when it is visible, its device's number, and from which byte of it to before which. A run of TLPs
has its parts besides; the first of the instants is theirs too."""
Traffic = tuple[int, Key, bool]
"""The traffic that it causes at memory: when, which line, and whether it is read (else it is written, whole)."""

_WITHIN = LINE_BYTES - 1
_SHIFT = LINE_BYTES.bit_length() - 1


@dataclass(slots=True)
class CacheCounters:
    """Counters of a host's caches, in lines."""

    io_hits: int = 0
    """Inbound writes to a line that was in the shared cache."""
    io_misses: int = 0
    """Inbound writes that allocated a line."""
    io_passed: int = 0
    """Inbound writes that went past the caches: DDIO off."""
    io_fills: int = 0
    """Lines read from memory because an inbound write brought only a part of them."""
    leaked: int = 0
    """Dirty lines that had to go because an inbound write allocated."""
    dma_read_hits: int = 0
    dma_read_misses: int = 0
    l1_hits: int = 0
    l2_hits: int = 0
    llc_hits: int = 0
    """Accesses of cores that hit here or in another core's private caches."""
    core_misses: int = 0
    evicted: int = 0
    """Dirty lines that had to go because a core's line came in."""
    flushed: int = 0
    """Dirty lines that a flush has written back."""
    walks: int = 0
    """Page walks."""


class Llc:
    """Presence and dirtiness of lines; the coherent bytes themselves are in the byte spaces."""

    def __init__(
        self, parameters: caches.LlcParameters, counters: CacheCounters, seed: Callable[[], int] = lambda: 1
    ) -> None:
        lines = parameters.size_bytes // LINE_BYTES
        ways = min(parameters.ways, lines)
        self._first_io_way = ways - min(parameters.io_ways, ways)
        scattered = parameters.scattered_page_bytes // LINE_BYTES
        self.tags = Tags(lines, ways, parameters.slices, parameters.policy, scattered, seed, self._first_io_way)
        self._counters = counters

    def __contains__(self, key: Key) -> bool:
        return key in self.tags.state

    def io_writes(
        self,
        inbox: deque[IoWrite],
        until_ps: int,
        held: Container[Key] = (),
        snoop: Callable[[Key], object] | None = None,
    ) -> list[Traffic]:
        """Inbound writes with DDIO on, all until an instant; returns their traffic at memory, in order of time.

        They are in order of time, and are taken out of ``inbox``. Private caches have the lines that are ``held``;
        ``snoop`` takes one of them out of there.
        """
        tags, counters, way, traffic = self.tags, self._counters, self._first_io_way, list[Traffic]()
        touched = missing = 0
        row: list[IoWrite] = []
        begins: list[tuple[Key, int]] = []
        whole = (0, 0)

        def instant(key: Key) -> int:
            """When the write to this line came."""
            if not begins:
                begins.extend(_begins(row))
            return begins[bisect_right(begins, (key, NEVER)) - 1][1]

        def missed(key: Key) -> None:
            """Allocate a line that is not here; it is first read from memory if the write covers only a part of it and
            no private cache has it."""
            if key in held:
                assert snoop is not None
                snoop(key)
            elif not whole[0] <= key < whole[1]:
                counters.io_fills += 1
                traffic.append((instant(key), key, True))
            gone, dirty = tags.put(key, 1, way)
            if dirty:
                counters.leaked += 1
                traffic.append((instant(key), gone, False))

        while inbox and inbox[0][0] <= until_ps:
            write = inbox.popleft() if len(inbox[0]) == 4 else _arrived(inbox, until_ps)
            row, begins = [write], []
            device, start, end = write[1], write[2], write[3]
            while inbox and inbox[0][2] == end and not end & _WITHIN and inbox[0][1] == device:
                if inbox[0][0] > until_ps:  # the packets of one WRITE follow each other: one check for all of them
                    break
                write = inbox.popleft() if len(inbox[0]) == 4 else _arrived(inbox, until_ps)
                row.append(write)
                end = write[3]
            base = device << LINE_BITS
            first, last = base | start >> _SHIFT, base | (end - 1) >> _SHIFT
            whole = first + (start & _WITHIN > 0), last + (end & _WITHIN == 0)
            touched += last + 1 - first
            missing += tags.write_all(first, last, whole, held, missed)
        counters.io_hits += touched - missing
        counters.io_misses += missing
        return traffic

    def put(self, key: Key, dirty: int) -> Key | None:
        """A line comes from a core, into any way; returns the dirty one that had to go, if any."""
        gone, was_dirty = self.tags.put(key, dirty)
        if not was_dirty:
            return None
        self._counters.evicted += 1
        return gone


def _arrived(inbox: deque[IoWrite], until_ps: int) -> IoWrite:
    """Take the first write out, a run as far as it is visible by then: the rest of it stays the first."""
    write = inbox.popleft()
    if len(write) == 5 and write[4][-1][1] > until_ps:
        write, rest = cut(write, until_ps)
        inbox.appendleft(rest)
    return write


def insert(inbox: deque[IoWrite], write: IoWrite) -> None:
    """A write comes in that is visible before some that are there: a run that it falls into is cut there."""
    turn = bisect_right(inbox, write[0], key=itemgetter(0))
    if turn:
        before = inbox[turn - 1]
        if len(before) == 5 and before[4][-1][1] > write[0]:
            inbox[turn - 1], rest = cut(before, write[0])
            inbox.insert(turn, rest)
    inbox.insert(turn, write)


def cut(write: tuple[int, int, int, int, Parts], until_ps: int) -> tuple[IoWrite, IoWrite]:
    """A run in two: its parts until an instant, the first of them at least, and those after it, the last at least."""
    at_ps, device, start, end, parts = write
    turn = min(max(1, bisect_right(parts, until_ps, key=itemgetter(1))), len(parts) - 1)
    middle = start + sum(size for size, _ in parts[:turn])
    return (at_ps, device, start, middle, parts[:turn]), (parts[turn][1], device, middle, end, parts[turn:])


def _begins(row: list[IoWrite]) -> Iterator[tuple[Key, int]]:
    """The first line of each TLP of a row of writes, and when it came."""
    for write in row:
        base, at = write[1] << LINE_BITS, write[2]
        for size, at_ps in write[4] if len(write) == 5 else ((0, write[0]),):
            yield base | at >> _SHIFT, at_ps
            at += size
