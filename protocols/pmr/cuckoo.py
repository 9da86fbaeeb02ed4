"""LibCuckoo: a concurrent cuckoo hash table in a server's DRAM.

Source: Li et al., EuroSys 2014, and the library's documentation (github.com/efficient/libcuckoo). A key's place is one
of two buckets of four; a byte of its hash, its tag, stands beside it and says the other bucket. An insert that finds
both full looks by breadth first for the shortest way to a free place, and moves each key on it by one, from the end.
Threads lock stripes of buckets. Where no way is found the table becomes twice as large: who doubles it takes every
lock, so that everybody waits, and each bucket's keys stay where they are or go as far up as the table was long.

What the library has and this has not: iterators, shrinking, moving buckets in the background after a doubling.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ...models.cpu import Thread
from ...models.memory.devices import MemoryDevice
from ...models.system import Node
from .loading import LoadedTable, places_of
from .store import Store, StoreSizes
from .stripes import Stripes
from .table import LINE, SLOTS, Bucket, CuckooTable, alternative, hashed, tag_of

Code = Generator[Any, Any, Any]

LEAST_POWER = 2
"""A table has four buckets at least."""
MOST_STRIPES = 1 << 16
"""Locks of the library (``kMaxNumLocks``)."""
LONGEST_WAY = 5
"""A way to a free place has so many buckets at most (``MAX_BFS_PATH_LEN``)."""
LOADED_SHARE = 0.9
"""A table that is loaded has been doubled as soon as so much of it was taken (assumption; the library goes on until
no way is found, which happens beyond 0.95)."""


class WayStep(NamedTuple):
    """A bucket on the way to a free place."""

    bucket: int
    before: WayStep | None
    """The bucket that a key would come from; None for one of those that are full."""
    slot: int
    """In which slot of that one the key is."""
    depth: int


class Cuckoo(Store):
    """The table; see the module. Volatile: a new process begins with an empty one."""

    software: ClassVar[tuple[str, ...]] = ("libcuckoo", "libcuckoo_rehash")

    def __init__(self, node: Node, sizes: StoreSizes, power: int = LEAST_POWER) -> None:
        """``power``: a table has ``2**power`` buckets as long as that is enough."""
        super().__init__(node, sizes)
        self.taken = 0
        """How many keys it has."""
        self.doublings = 0
        self.moves = 0
        """How many keys have been moved to make room for others."""
        self._power = power
        self._dram: MemoryDevice = node.memory["dram"]

    # the table ------------------------------------------------------------------------------------------------
    def _new(self, power: int) -> tuple[CuckooTable, Stripes]:
        """An empty table and its locks: zeros, as memory is that a process gets."""
        bucket = Bucket(self.sizes.key_bytes, self.sizes.value_bytes)
        address = self._dram.allocate(bucket.table_bytes(power), "hash table", item_bytes=bucket.length)
        count = min(1 << power, MOST_STRIPES)
        locks = self._dram.allocate(Stripes.length(count), "locks", item_bytes=LINE)
        return CuckooTable(address, power, bucket), Stripes(self.node.system.clock, locks, count)

    @override
    def begin(self) -> None:
        self.table, self._stripes = self._new(self._power)
        self.taken = self.doublings = self.moves = 0

    @override
    def load(self, entries: Mapping[bytes, bytes]) -> None:
        keys = b"".join([self.padded(key) for key in entries])
        power, places = self._power, None
        while len(entries) > LOADED_SHARE * SLOTS * (1 << power):
            power += 1
        while (places := places_of(keys, self.sizes.key_bytes, power)) is None:
            power += 1
        self.table, self._stripes = self._new(power)
        self.taken = len(entries)
        self._compute(self.table, LoadedTable(self.table, keys, places, entries).bucket)

    def _compute(self, table: CuckooTable, bucket: Callable[[int], bytes]) -> None:
        """The lines of a table are made when somebody looks at them, of what ``bucket`` says of each bucket."""
        first = (table.address - self._dram.base) // LINE
        self._dram.space.compute(first * LINE, table.length, lambda number: table.line(number - first, bucket))

    # operations -----------------------------------------------------------------------------------------------
    @override
    def get(self, thread: Thread, key: bytes) -> Code:
        found = yield from self._locked(thread, self.padded(key))
        value = None
        if found.bucket is not None:
            value = yield from self.table.read_value(thread, found.bucket, found.slot)
        yield from self._unlock(thread, found)
        return value

    @override
    def put(self, thread: Thread, key: bytes, value: bytes) -> Code:
        key = self.padded(key, value)
        while True:
            found: Found = yield from self._locked(thread, key)
            table = self.table
            if found.bucket is not None:
                yield from table.write_value(thread, found.bucket, found.slot, value)
            elif found.free is not None:
                yield from table.write(thread, *found.free, found.tag, key, value)
                self.taken += 1
            yield from self._unlock(thread, found)
            if found.bucket is not None or found.free is not None:
                return
            if not (yield from self._make_room(thread, table, found)):
                yield from self._double(thread, table)

    @override
    def remove(self, thread: Thread, key: bytes) -> Code:
        found = yield from self._locked(thread, self.padded(key))
        if found.bucket is not None:
            yield from self.table.clear(thread, found.bucket, found.slot)
            self.taken -= 1
        yield from self._unlock(thread, found)

    def _locked(self, thread: Thread, key: bytes) -> Code:
        """Lock both buckets of a key and look for it there; returns a :class:`Found`."""
        yield from thread.software("libcuckoo")
        number = hashed(key)
        tag = tag_of(number)
        while True:
            table, stripes = self.table, self._stripes
            first = number & table.mask
            second = alternative(table.mask, first, tag)
            yield from stripes.take(thread, first, second)
            if table is self.table:
                break
            yield from stripes.give(thread, first, second)  # the table has been doubled meanwhile
        found = Found(tag, first, second, stripes)
        for bucket in dict.fromkeys((first, second)):
            tags, marks = yield from table.read_tags(thread, bucket)
            for slot in range(SLOTS):
                if not marks[slot]:
                    found.free = found.free or (bucket, slot)
                elif tags[slot] == tag and (yield from thread.load(table.key(bucket, slot), len(key))) == key:
                    found.bucket, found.slot = bucket, slot
                    return found
        return found

    def _unlock(self, thread: Thread, found: Found) -> Code:
        yield from found.stripes.give(thread, found.first, found.second)

    # making room ----------------------------------------------------------------------------------------------
    def _make_room(self, thread: Thread, table: CuckooTable, found: Found) -> Code:
        """Free a place in one of two full buckets; returns False where there is no way to a free place.

        Others may have been on the way meanwhile: then nothing has been moved, and the put looks again.
        """
        way = yield from self._way(thread, table, found)
        if way is None:
            return table is not self.table
        step, free = way
        while step.before is not None:
            source = step.before.bucket
            if not (yield from self._move(thread, table, (source, step.slot), (step.bucket, free))):
                break
            self.moves += 1
            step, free = step.before, step.slot
        return True

    def _way(self, thread: Thread, table: CuckooTable, found: Found) -> Code:
        """The shortest way to a bucket with a free place, by breadth first, one bucket locked at a time.

        Returns its last step and the free slot there; None if there is none, or the table is not the one any more.
        """
        stripes = found.stripes
        reached = deque(WayStep(bucket, None, 0, 1) for bucket in dict.fromkeys((found.first, found.second)))
        while reached:
            step = reached.popleft()
            yield from stripes.take(thread, step.bucket, step.bucket)
            tags, marks = yield from table.read_tags(thread, step.bucket)
            yield from stripes.give(thread, step.bucket, step.bucket)
            if table is not self.table:
                return None
            for slot in range(SLOTS):
                if not marks[slot]:
                    return step, slot
                if step.depth < LONGEST_WAY:
                    other = alternative(table.mask, step.bucket, tags[slot])
                    reached.append(WayStep(other, step, slot, step.depth + 1))
        return None

    def _move(self, thread: Thread, table: CuckooTable, source: tuple[int, int], to: tuple[int, int]) -> Code:
        """Move a key from one bucket and slot to another; returns whether both were still as they had been."""
        stripes, (bucket, slot), size = self._stripes, source, self.sizes.key_bytes
        if table is not self.table:
            return False
        yield from stripes.take(thread, bucket, to[0])
        fine = table is self.table
        if fine:
            tags, marks = yield from table.read_tags(thread, bucket)
            _, there = yield from table.read_tags(thread, to[0])
            fine = marks[slot] and not there[to[1]] and alternative(table.mask, bucket, tags[slot]) == to[0]
        if fine:
            key = yield from thread.load(table.key(bucket, slot), size)
            value = yield from table.read_value(thread, bucket, slot)
            yield from table.write(thread, *to, tags[slot], key, value)
            yield from table.clear(thread, bucket, slot)
        yield from stripes.give(thread, bucket, to[0])
        return fine

    def _double(self, thread: Thread, full: CuckooTable) -> Code:
        """Make the table twice as large, unless another thread has meanwhile: everybody waits."""
        stripes = self._stripes
        yield from stripes.take_all(thread)
        if self.table is full:
            yield from thread.touch(full.address, full.length)
            yield from thread.software("libcuckoo_rehash", self.taken)
            table, locks = self._new(full.power + 1)
            yield from thread.touch(table.address, table.length, store=True)
            space, base = self._dram.space, self._dram.base
            self._compute(table, table.doubled(full, lambda address, length: space.peek(address - base, length)))
            self.table, self._stripes = table, locks
            self.doublings += 1
        yield from stripes.give_all(thread)


class Found:
    """A key's two buckets, locked, and what is in them."""

    def __init__(self, tag: int, first: int, second: int, stripes: Stripes) -> None:
        self.tag = tag
        self.first = first
        self.second = second
        self.stripes = stripes
        self.bucket: int | None = None
        """Of the two, the one that has the key."""
        self.slot = 0
        self.free: tuple[int, int] | None = None
        """A bucket, and a slot of it that is not taken."""
