"""The page cache in a front-end's DRAM: between the algorithm's reads and the READs.

Source: rNVM, sections 5.2 and 6.2. A hash map finds the copy of a page of the back-end's memory. No page is ever
written back: what a front-end changes is in its logs, and is put into the cached copy as well. Of a tree only the
levels down to N are cached; N follows the misses.

What is open is read so. A page is whole lines; a read is served if all its pages are there. An entry of the map is a
line, with the page's address and what the policy keeps; to find a page loads its entry, to use it loads its bytes, and
what the policy changes is stored: the front-end's core pays for all of it. N is looked at after every
:data:`PERIOD` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from ...models.cpu import Thread
from ...models.system import Node
from ..structures.space import Range
from .priced import LOCAL_VISIT, spend
from .replacement import Entries, policy_of

Code = Generator[Any, Any, Any]
Fetch = Callable[[Sequence[Range]], Code]
"""Reads several ranges of the back-end's memory."""

LINE, WORD = 64, 8
PERIOD = 1024
"""Reads between two looks at the miss ratio (assumption: the paper says "dynamically")."""
MANY_MISSES, FEW_MISSES = 0.5, 0.25
"""Above the first N gets less by one, below the second more (section 6.2)."""
DEEPEST = 64
"""The N with which a cache begins: all levels."""


class CacheLevel:
    """The depth N down to which nodes of a tree are cached (section 6.2)."""

    def __init__(self) -> None:
        self.n = DEEPEST
        self._deepest = 0
        self._reads = self._misses = 0

    def cached(self, depth: int) -> bool:
        """Whether nodes of this depth are."""
        self._deepest = max(self._deepest, depth)
        return depth <= self.n

    def count(self, missed: bool) -> None:
        """A read of a node that is cached; N changes where it is time."""
        self._reads += 1
        self._misses += missed
        if self._reads == PERIOD:
            ratio = self._misses / self._reads
            if ratio > MANY_MISSES:
                self.n = max(0, min(self.n, self._deepest) - 1)
            elif ratio < FEW_MISSES:
                self.n = min(DEEPEST, self.n + 1)
            self._reads = self._misses = 0


class PageCache:
    """Copies of pages of ``page_bytes`` in a node's DRAM, reached by one thread."""

    def __init__(self, thread: Thread, node: Node, capacity: int, policy: str = "hybrid", page_bytes: int = LINE):
        """``capacity`` is in pages; a cache of none is always passed by."""
        self._thread, self._node = thread, node
        self.page_bytes = -(-page_bytes // LINE) * LINE
        self.policy = policy_of(policy, capacity)
        self.level = CacheLevel()
        dram = node.memory["dram"]
        if capacity:
            self._entries = dram.allocate((capacity + 1) * LINE, "cache entries", align=LINE)
            self._pages = dram.allocate(capacity * self.page_bytes, "cached pages", align=LINE)
            self._device = dram

    def read(self, address: int, length: int, depth: int, fetch: Fetch) -> Code:
        """The bytes of a range: out of the cache, or by ``fetch`` and then in the cache as well."""
        return (yield from self.read_all([(address, length)], depth, fetch))[0]

    def read_all(self, ranges: Sequence[Range], depth: int, fetch: Fetch) -> Code:
        """The bytes of several ranges: what is missing is fetched together."""
        if not self.policy.capacity or not self.level.cached(depth):
            return (yield from fetch(ranges))
        found: list[bytes | None] = []
        for address, length in ranges:
            hit = all(page in self.policy.slots for page in self._covering(address, length))
            self.level.count(not hit)
            self._thread.count("cache hits" if hit else "cache misses")
            found.append((yield from self._load(address, length)) if hit else (yield from self._look(address)))
        missing = [each for each, data in zip(ranges, found, strict=True) if data is None]
        if missing:
            size = self.page_bytes
            whole = [(pages[0], len(pages) * size) for pages in (self._covering(*each) for each in missing)]
            fetched = yield from fetch(whole)
            for (start, _), data in zip(whole, fetched, strict=True):
                yield from self._insert(start, data)
            parts = iter([
                data[address - start : address - start + length]
                for (address, length), (start, _), data in zip(missing, whole, fetched, strict=True)
            ])  # fmt: skip
            found = [next(parts) if data is None else data for data in found]
        return found

    def patch(self, writes: Iterable[tuple[int, bytes]]) -> Code:
        """Put what has been written into the copies of pages that are there."""
        for address, data in writes:
            for page in self._covering(address, len(data)):
                slot = self.policy.slots.get(page)
                if slot is not None:
                    low, high = max(page, address), min(page + self.page_bytes, address + len(data))
                    yield from self._thread.load(self._entries + slot * LINE, WORD)
                    place = self._pages + slot * self.page_bytes + low - page
                    yield from self._thread.store(place, data[low - address : high - address])

    def clear(self) -> None:
        """Forget all pages."""
        self.policy.clear()

    def warm(self, accesses: Iterable[tuple[int, int, int]], content: Callable[[int, int], bytes]) -> None:
        """Before time zero: as after these reads (address, length, depth), without costs.

        ``content(address, length)`` has the back-end's bytes.
        """
        if not self.policy.capacity:
            return
        slots = self.policy.slots
        for address, length, depth in accesses:
            if not self.level.cached(depth):
                continue
            pages = self._covering(address, length)
            self.level.count(any(page not in slots for page in pages))
            for page in pages:
                slot = slots.get(page)
                if slot is None:
                    self.policy.admit(page)
                else:
                    self.policy.hit(slot)
        base = self._device.base
        for page, slot in slots.items():
            self._device.space.poke(self._pages + slot * self.page_bytes - base, content(page, self.page_bytes))

    def fill(self, start: int, length: int, content: Callable[[int, int], bytes]) -> None:
        """Before time zero: all pages of a range are there, as far as there is room, without costs."""
        first = start // self.page_bytes * self.page_bytes
        pages = range(first, start + length, self.page_bytes)[: self.policy.capacity]
        for page in pages:
            self.policy.admit(page)
        if pages:
            held = content(first, len(pages) * self.page_bytes)
            self._device.space.poke(self._pages - self._device.base, held)

    def _covering(self, address: int, length: int) -> range:
        """The pages that a range lies in, by their addresses."""
        size = self.page_bytes
        return range(address // size * size, address + length, size)

    def _look(self, address: int) -> Code:
        """Look for a page that is not there: the map's line says so."""
        slot = address // self.page_bytes % self.policy.capacity
        yield from self._thread.load(self._entries + slot * LINE, WORD)

    def _load(self, address: int, length: int) -> Code:
        yield from spend(self._thread, self._node, LOCAL_VISIT)
        parts = []
        for page in self._covering(address, length):
            slot = self.policy.slots[page]
            yield from self._thread.load(self._entries + slot * LINE, WORD)
            low, high = max(page, address), min(page + self.page_bytes, address + length)
            place = self._pages + slot * self.page_bytes + low - page
            parts.append((yield from self._thread.load(place, high - low)))
            yield from self._touch(self.policy.hit(slot))
        return b"".join(parts)

    def _insert(self, start: int, data: bytes) -> Code:
        for offset in range(0, len(data), self.page_bytes):
            page = start + offset
            slot = self.policy.slots.get(page)
            entries = None
            if slot is None:
                slot, entries = self.policy.admit(page)
            place = self._pages + slot * self.page_bytes
            yield from self._thread.store(place, data[offset : offset + self.page_bytes])
            if entries is not None:
                yield from self._touch(entries)

    def _touch(self, entries: Entries) -> Code:
        """Load and store what the policy looks at and changes.

        The entries of a sample do not depend on each other: a core has as many loads of them under way as it can, and
        goes on when the last one is there.
        """
        if entries.loads:
            yield from self._thread.load_all([self._entries + slot * LINE for slot in entries.loads], WORD)
        for slot in entries.stores:
            yield from self._thread.store(self._entries + slot * LINE + WORD, bytes(WORD))
