"""A hash index whose entries have an offset for each of two pools, and a mark that says which pool is the working one.

Source: Du et al., ICPP'21, section 4.2 and figure 4. The newest version of a key is at the offset that the mark does
not name, if there is one there: what cleaning, or a PUT during its second stage, has put into the new pool.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ..layout import U64, Bytes, Layout
from .index import HashIndex, Location

Code = Generator[Any, Any, Any]


class PoolEntry(Layout):
    """An index entry: an offset for each pool, and a mark that names the working pool."""

    key = Bytes(32)
    pool_0 = U64()
    pool_1 = U64()
    mark = U64()


POOLS = PoolEntry.offset_of("pool_0"), PoolEntry.offset_of("pool_1")


@dataclass(frozen=True)
class Pointers:
    """What an entry says: where a version lies in each pool, and which pool is the working one."""

    pools: tuple[Location | None, Location | None]
    mark: int

    @property
    def working(self) -> Location | None:
        """What a client reads that has not been told of any cleaning."""
        return self.pools[self.mark]

    @property
    def newest(self) -> Location | None:
        """The head of the version list."""
        return self.pools[1 - self.mark] or self.pools[self.mark]

    @property
    def offset(self) -> int:
        """The head's offset; 0 for none."""
        return self.newest.offset if self.newest is not None else 0


class PoolIndex(HashIndex):
    """An index whose entries have two offsets; ``pool_bytes`` says which pool an offset is in."""

    Entry: ClassVar[type[Layout]] = PoolEntry
    pool_bytes = 0

    @classmethod
    @override
    def says(cls, entry: bytes) -> tuple[bytes, Pointers | None]:
        found = PoolEntry.unpack(entry)
        pools = Location.unpack(found.pool_0), Location.unpack(found.pool_1)
        return found.key, Pointers(pools, found.mark) if any(pools) else None

    @staticmethod
    @override
    def entry(key: bytes, word: Any) -> bytes:
        return PoolEntry.pack(key=key, pool_0=word.pack(), pool_1=0, mark=0)

    def pool_of(self, offset: int) -> int:
        """The pool that an offset is in."""
        return offset // self.pool_bytes

    @override
    def link(self, thread: Thread, key: bytes, found: tuple[int | None, Any], location: Any) -> Code:
        """Point the key at its newest version. What the other pool has is older then, and no longer its head."""
        entry, old = found
        pool = self.pool_of(location.offset)
        if entry is None:
            raise MemoryError("index: the neighbourhood of a new key is full")
        if old is None:
            yield from thread.store(entry, PoolEntry.pack(key=key, pool_0=0, pool_1=0, mark=pool))
        yield from self.set(thread, entry, pool, location)
        if old is not None and pool == old.mark and old.pools[1 - pool] is not None:
            yield from self.set(thread, entry, 1 - pool, None)
        return entry

    @staticmethod
    def set(thread: Thread, entry: int, pool: int, location: Location | None) -> Code:
        """Set one of an entry's offsets, by one 8-byte store."""
        word = 0 if location is None else location.pack()
        yield from thread.store(entry + POOLS[pool], word.to_bytes(8, "little"))
