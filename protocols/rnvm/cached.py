"""Front-ends with a cache: the spaces of the modes RC and RCB.

Source: rNVM, sections 5.1, 5.2 and 6.2. Reads look into what the front-end has written and the back-end may not have
replayed, then into the cache, then at the back-end. What is written is put into cached pages when its transaction has
been sent: until then it lies over them. A page comes into the cache with what the back-end may not have replayed.

A run begins with a cache that is warm, as after long operation: filled by finds of keys that are there, drawn alike,
through the same policy, without time; so much that four times its pages have been read. One with room for all data has
all of them.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from ...models.cpu import Thread
from ...sim.units import parse_share
from ..naming import Option
from ..structures.space import Range, Space
from ..structures.structure import Algorithm, StructureOperation
from .area import Area
from .batches import BatchFrontEnd, BatchSpace
from .caches import PageCache
from .frontend import FrontEnd, FrontEndSession
from .link import Link
from .records import Write
from .replacement import POLICIES
from .spaces import LoggedSpace, RemoteSpace

if TYPE_CHECKING:
    from .backend import BackEnd

Code = Generator[Any, Any, Any]

CACHE = Option(
    "10%", quantity="share", source="section 10.1 and table 3: 6 GB for 60 GB of NVM",
    text="the size of the front-end's cache, as a share of the data that are there at first",
)  # fmt: skip
POLICY = Option(
    "hybrid", choices=tuple(POLICIES), source="section 5.2: of 32 random pages the least recently used goes",
    text="which page goes when the cache is full",
)  # fmt: skip
ROUNDS = 4
"""A warm cache has seen so many reads for each of its pages."""


class CachedSpace(LoggedSpace):
    """A logged space with a cache before the back-end."""

    cache: PageCache

    @override
    def fetch(self, address: int, length: int, depth: int) -> Code:
        return (yield from self.cache.read(address, length, depth, self._pages))

    @override
    def fetch_all(self, ranges: Sequence[Range], depth: int) -> Code:
        return (yield from self.cache.read_all(ranges, depth, self._pages)) if ranges else []

    def _pages(self, ranges: Sequence[Range]) -> Code:
        """Pages from the back-end, with what it may not have replayed."""
        if len(ranges) == 1:
            found = [(yield from self.link.read(*ranges[0]))]
        else:
            found = yield from self.link.read_all(ranges)
        return [self.overlaid(address, data) for (address, _), data in zip(ranges, found, strict=True)]

    @override
    def committed(self, writes: Sequence[Write]) -> Code:
        yield from self.cache.patch(writes)


class CachedBatchSpace(CachedSpace, BatchSpace):
    """The same with an operation log."""


class CachedFrontEnd(FrontEnd):
    """A front-end whose spaces have a cache each."""

    _warming = False
    """Whether the run has not begun: what connects now has a warm cache."""

    @override
    def connect(self, thread: Thread) -> FrontEndSession:
        self._warming = True
        session = super().connect(thread)
        self._warming = False
        return session

    @override
    def space(self, link: Link, area: Area, writes: bool) -> RemoteSpace:
        return self.with_cache(CachedSpace(link, area, by_field=False, owned=writes))

    def with_cache(self, space: CachedSpace) -> CachedSpace:
        """The space with its cache, warm where the run has not begun; one that only reads has none."""
        algorithm, number = self.scheme.algorithm, space.area.number
        page_bytes = -(-algorithm.page_bytes // 64) * 64
        capacity = 0
        if space.owned:
            data = max(self.server.loaded_bytes[number], page_bytes)
            share = parse_share(str(self.mode.option("cache")))
            capacity = -(-data * share // (1_000_000 * page_bytes))
        thread, policy = space.link.thread, str(self.mode.option("policy"))
        space.cache = PageCache(thread, self.node, capacity, policy, page_bytes)
        if self._warming and self.server.loaded_keys[number]:
            peek = Peek(self.server)
            code = algorithm(peek, space.area.root, self.sizes.value_bytes)
            if capacity * page_bytes >= data:
                space.cache.fill(space.area.data, data, peek.content)
                return space
            space.cache.warm(self.usual_reads(peek, code, number, ROUNDS * capacity), peek.content)
        return space

    def usual_reads(self, peek: Peek, code: Algorithm, number: int, count: int) -> Iterator[tuple[int, int, int]]:
        """The reads of finds of keys that are there, drawn alike, ``count`` of them or a few more."""
        keys = self.server.loaded_keys[number]
        draw = random.Random(number)
        f = next((f for f in self.scheme.operations if f not in self.scheme.updates), None)
        done = 0
        while done < count:
            key = keys[draw.randrange(len(keys))]
            if f is None:
                operation = StructureOperation("txn", steps=(StructureOperation("r", key),))
            else:
                operation = StructureOperation(f, key)
            for _ in code.perform(operation):
                raise AssertionError("a read at time zero takes no time")
            if not peek.reads:
                return
            done += len(peek.reads)
            yield from peek.reads
            peek.reads.clear()


class CachedBatchFrontEnd(CachedFrontEnd, BatchFrontEnd):
    """The same with batches."""

    @override
    def space(self, link: Link, area: Area, writes: bool) -> RemoteSpace:
        return self.with_cache(CachedBatchSpace(link, area, by_field=False, owned=writes))


class Peek(Space):
    """The back-end's memory before time zero: what is read takes no time, and is noted."""

    def __init__(self, server: BackEnd) -> None:
        self._pm = server.pm
        self.reads: list[tuple[int, int, int]] = []
        """Address, length, depth."""

    def content(self, address: int, length: int) -> bytes:
        """The bytes of a range."""
        return self._pm.space.read(0, address - self._pm.base, length)

    @override
    def read(self, address: int, length: int, depth: int = 0) -> Code:
        yield from ()
        self.reads.append((address, length, depth))
        return self.content(address, length)

    @override
    def write(self, address: int, data: bytes) -> Code:
        yield from ()
        raise AssertionError("a find writes nothing")

    @override
    def allocate(self, length: int) -> Code:
        yield from ()
        raise AssertionError("a find allocates nothing")

    @override
    def free(self, address: int, length: int) -> Code:
        yield from ()
        raise AssertionError("a find frees nothing")
