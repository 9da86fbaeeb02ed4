"""Address translation of a core: the pages that its second-level translation buffer maps, and the loads of a miss.

A run begins with programs that have set up their memory, so the buffer is warm: a page is missed only once there are
more than the buffer maps. A walk loads the last level's entry, through the caches as any load; those above it are in
the paging-structure caches (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3, section 4.10.3).
"""

from __future__ import annotations

from ...sim.bytespace import LINE_BYTES
from ..profiles.parameters import caches
from .cacheset import LINE_BITS, Key, line_key

PAGE_TABLES = 1 << 20
"""The number of the device of page tables in keys of lines; no memory device has it."""
ENTRIES_A_LINE = 8


class Tlb:
    """The translation buffer of one core: pages, least recently used first."""

    __slots__ = ("_entries", "_pages", "last", "page_lines")

    def __init__(self, parameters: caches.TlbParameters) -> None:
        self._entries = parameters.entries
        self.page_lines = parameters.page_bytes // LINE_BYTES
        """The number of lines in a page."""
        self._pages: dict[int, None] = {}
        self.last = -1
        """The page that was used last."""

    def misses(self, device: int, offset: int, length: int) -> list[Key]:
        """The lines of the page tables that have to be loaded before a range can be touched."""
        base = device << LINE_BITS
        first = (base | offset // LINE_BYTES) // self.page_lines
        last = (base | (offset + max(1, length) - 1) // LINE_BYTES) // self.page_lines
        if first == last == self.last:
            return []
        pages, missed = self._pages, []
        for page in range(first, last + 1):
            if page in pages:
                del pages[page]
            elif len(pages) >= self._entries:
                del pages[next(iter(pages))]
                missed.append(line_key(PAGE_TABLES, page // ENTRIES_A_LINE))
            pages[page] = None
        self.last = last
        return missed
