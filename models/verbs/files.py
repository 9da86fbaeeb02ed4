"""Files as memory regions: a region whose addresses are offsets in a file, translated extent by extent.

Source: Yang, Izraelevitz, Swanson, NSDI'20 (FileMR; abstract): a client addresses a file by offsets, and the adapter
translates ranges instead of pages. How large the entry of a range is, and what a change of the file's extents costs,
is not in it: see ``nic.extent_entry`` and :meth:`models.cpu.thread.Thread.append_extent`.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from typing_extensions import override

from .work import MemoryRegion

Range = tuple[int, int]
"""Address and length."""


class MappedExtent(NamedTuple):
    """A piece of a file that lies in memory in one piece: one translation entry."""

    offset: int
    """Where in the file it begins."""
    address: int
    length: int
    number: int
    """Of this entry in its region: another mapping of the same bytes is another entry."""


@dataclass(frozen=True)
class FileRegion(MemoryRegion):
    """A registered file: ``address`` is 0, and addresses of requests are offsets in the file.

    A change of its extents makes another object with the same key, which is the registered one from then on.
    """

    extents: tuple[MappedExtent, ...] = ()
    """In the order of their offsets, without holes."""
    numbered: int = 0
    """How many entries the region has had so far."""

    @override
    def pages(self, address: int, length: int) -> Sequence[int]:
        """The numbers of the entries that translate a range."""
        return [extent.number for extent, _, _ in self._touched(address, length)]

    def places(self, address: int, length: int) -> list[Range]:
        """Where a range of the file lies in memory: a piece for each extent that it touches."""
        touched = self._touched(address, length)
        return [(extent.address + start - extent.offset, end - start) for extent, start, end in touched]

    def _touched(self, address: int, length: int) -> Iterator[tuple[MappedExtent, int, int]]:
        """The extents of a range, and from where to where each of them has it; of no bytes: where they would be."""
        first = max(0, bisect_right(self.extents, address, key=lambda extent: extent.offset) - 1)
        for extent in self.extents[first:]:
            if extent.offset >= address + max(1, length):
                return
            yield extent, max(address, extent.offset), min(address + length, extent.offset + extent.length)

    def appended(self, ranges: Iterable[Range]) -> FileRegion:
        """The file with further extents at its end."""
        extents, length, number = list(self.extents), self.length, self.numbered
        for address, size in ranges:
            extents.append(MappedExtent(length, address, size, number))
            length, number = length + size, number + 1
        return replace(self, extents=tuple(extents), length=length, numbered=number)

    def remapped(self, offset: int, address: int, length: int) -> FileRegion:
        """The file with a range of it elsewhere in memory, as one entry; an extent that loses a part is another one."""
        numbers = itertools.count(self.numbered)
        moved = MappedExtent(offset, address, length, next(numbers))
        found = [*self._cut(0, offset, numbers), moved, *self._cut(offset + length, self.length, numbers)]
        return replace(self, extents=tuple(found), numbered=next(numbers))

    def _cut(self, start: int, end: int, numbers: Iterator[int]) -> Iterator[MappedExtent]:
        """What the extents have from one offset to another."""
        for extent in self.extents:
            first, last = max(start, extent.offset), min(end, extent.offset + extent.length)
            if last - first == extent.length:
                yield extent
            elif first < last:
                yield MappedExtent(first, extent.address + first - extent.offset, last - first, next(numbers))
