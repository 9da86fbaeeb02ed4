"""The front-end's allocator: objects out of slabs that the back-end gives, and what it asks the back-end for them.

Source: rNVM, section 5.4. Slabs are in three lists (full, partial, empty). An object comes from the hole that fits it
best among the partial slabs, else from an empty slab, else from one that the back-end is asked for; what is longer than
a slab comes from the back-end directly. Where more than a threshold of slabs are empty, one is handed back.

What is open there is read so. A slab holds objects of any lengths, as "best fit" has a meaning only then. The threshold
is the option ``surplus``; it is looked at by each free that empties a slab. The lists are in the front-end's DRAM: an
allocation loads and changes its slab's descriptor, and one that moves the slab to another list those of two neighbours;
what the code computes beside takes as long as the platform says of ``malloc`` and ``free``, where it does. After the
front-end's death nobody knows what is free inside its slabs: it leaks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Generator
from typing import Any

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..structures.space import NoRoom
from .bitmap import Bitmap
from .priced import spend
from .rfp import RfpCaller

Code = Generator[Any, Any, Any]
LINE, WORD = 64, 8
ALLOCATE, FREE = 1, 2
"""What the back-end is called for."""
DESCRIPTORS = 1 << 12
"""Lines of descriptors of a front-end; slabs beyond share them in turn."""


class BlockSource(ABC):
    """What gives blocks and takes them back."""

    @abstractmethod
    def allocate(self, length: int) -> Code:
        """The address of a block that is durably taken. Raises :class:`NoRoom`."""

    @abstractmethod
    def free(self, address: int, length: int) -> Code:
        """Give back a block of that length."""


class RemoteBlocks(BlockSource):
    """Each allocation and each free is a call to the back-end; the reply of a free is not awaited.

    Source: rNVM, section 4.4; that the reply is not awaited follows from table 1, where a free takes half a call.
    """

    def __init__(self, caller: RfpCaller, heap: Bitmap, number: int = 0) -> None:
        """``heap`` says where it is and how large its blocks are; the back-end knows it by its ``number``."""
        self._caller = caller
        self.heap = heap
        self._number = number

    def _f(self, what: int) -> int:
        return what | self._number << 8

    @override
    def allocate(self, length: int) -> Code:
        address = yield from self._caller.call(self._f(ALLOCATE), self.heap.blocks_of(length))
        if not address:
            raise NoRoom(f"{length} bytes at the back-end")
        return address

    @override
    def free(self, address: int, length: int) -> Code:
        yield from self._caller.post(self._f(FREE), self.heap.blocks_of(length), address)


class LocalBlocks(BlockSource):
    """The same on the machine that holds the bits, without a call; ``software`` names what its code costs beside.

    PMDK's allocator is priced so (``pmem_alloc``, ``pmem_free``): its changes are those of a bitmap.
    """

    def __init__(self, thread: Thread, heap: Bitmap, software: tuple[str, str] | None = None) -> None:
        self._thread = thread
        self._heap = heap
        self._software = software

    @override
    def allocate(self, length: int) -> Code:
        if self._software is not None:
            yield from self._thread.software(self._software[0])
        address = yield from self._heap.allocate(self._thread, self._heap.blocks_of(length))
        if address is None:
            raise NoRoom(f"{length} bytes")
        return address

    @override
    def free(self, address: int, length: int) -> Code:
        if self._software is not None:
            yield from self._thread.software(self._software[1])
        yield from self._heap.free(self._thread, address, self._heap.blocks_of(length))


class Slab:
    """A slab, as its front-end knows it."""

    __slots__ = ("address", "descriptor", "free", "holes")

    def __init__(self, address: int, length: int, descriptor: int) -> None:
        self.address = address
        self.descriptor = descriptor
        self.holes = [(address, length)]
        """Its free ranges by address, with their lengths; no two of them touch."""
        self.free = length


class Slabs(BlockSource):
    """One front-end's slabs of one heap."""

    def __init__(self, thread: Thread, node: Node, source: BlockSource, slab_bytes: int, surplus: int) -> None:
        self._thread = thread
        self._source = source
        self.slab_bytes = slab_bytes
        self.surplus = surplus
        """So many slabs may be empty."""
        self._node = node
        self._descriptors = node.memory["dram"].allocate(DESCRIPTORS * LINE, "slabs", align=LINE)
        self._count = 0
        self._slabs: dict[int, Slab] = {}
        """By the address of each of its lines: an object's slab is found by the object's line."""
        self._holes: list[tuple[int, int]] = []
        """Of the partial slabs: length and address, shortest first."""
        self.empty: list[Slab] = []

    @staticmethod
    def taken_by(length: int) -> tuple[int, int]:
        """How many bytes an object takes, and the unit at whose multiples it begins: a word, from a line on a line."""
        unit = LINE if length >= LINE else WORD
        return max(1, -(-length // unit)) * unit, unit

    @override
    def allocate(self, length: int) -> Code:
        if length > self.slab_bytes:
            return (yield from self._source.allocate(length))
        yield from spend(self._thread, self._node, "malloc")
        size, unit = self.taken_by(length)
        found = self._best(size, unit)
        if found is None:
            slab = self.empty.pop() if self.empty else (yield from self._fetch())
            hole = slab.holes[0]
            yield from self._moved(slab)
        else:
            slab, hole = found
        start = -(-hole[0] // unit) * unit
        yield from self._thread.load(slab.descriptor, LINE)
        self._change(slab, hole, [(hole[0], start - hole[0]), (start + size, hole[0] + hole[1] - start - size)])
        slab.free -= size
        yield from self._thread.store(slab.descriptor, slab.free.to_bytes(WORD, "little"))
        if not slab.free:
            yield from self._moved(slab)
        return start

    @override
    def free(self, address: int, length: int) -> Code:
        """Raises KeyError for an address in none of its slabs (and shorter than one)."""
        if length > self.slab_bytes:
            yield from self._source.free(address, length)
            return
        yield from spend(self._thread, self._node, "free")
        slab, (size, _) = self._slabs[address // LINE], self.taken_by(length)
        yield from self._thread.load(slab.descriptor, LINE)
        if not slab.free:
            yield from self._moved(slab)
        start, end = address, address + size
        touching = [hole for hole in slab.holes if hole[0] + hole[1] == start or hole[0] == end]
        start = min([start, *(hole[0] for hole in touching)])
        end = max([end, *(hole[0] + hole[1] for hole in touching)])
        for hole in touching[1:]:
            self._change(slab, hole, [])
        self._change(slab, touching[0] if touching else None, [(start, end - start)])
        slab.free += size
        yield from self._thread.store(slab.descriptor, slab.free.to_bytes(WORD, "little"))
        if slab.free == self.slab_bytes:
            self._holes.remove((self.slab_bytes, slab.address))
            yield from self._moved(slab)
            self.empty.append(slab)
            if len(self.empty) > self.surplus:
                yield from self._hand_back(self.empty.pop(0))

    def owns(self, address: int) -> bool:
        """Whether an address is in one of its slabs."""
        return address // LINE in self._slabs

    def _best(self, size: int, unit: int) -> tuple[Slab, tuple[int, int]] | None:
        """The hole that fits best, with its slab; one that is long enough may lie so that its first line is cut."""
        for turn in range(bisect_left(self._holes, (size, 0)), len(self._holes)):
            length, start = self._holes[turn]
            if -(-start // unit) * unit + size <= start + length:
                return self._slabs[start // LINE], (start, length)
        return None

    def _change(self, slab: Slab, hole: tuple[int, int] | None, parts: list[tuple[int, int]]) -> None:
        """A hole of a slab becomes these, those of no length left out."""
        if hole is not None:
            slab.holes.remove(hole)
            at = bisect_left(self._holes, (hole[1], hole[0]))
            if at < len(self._holes) and self._holes[at] == (hole[1], hole[0]):  # not that of an empty slab
                del self._holes[at]
        for start, length in parts:
            if length:
                insort(slab.holes, (start, length))
                insort(self._holes, (length, start))

    def _fetch(self) -> Code:
        """A slab from the back-end."""
        address = yield from self._source.allocate(self.slab_bytes)
        slab = Slab(address, self.slab_bytes, self._descriptors + self._count % DESCRIPTORS * LINE)
        self._count += 1
        for line in range(address // LINE, (address + self.slab_bytes) // LINE):
            self._slabs[line] = slab
        self._thread.count("slabs fetched")
        return slab

    def _hand_back(self, slab: Slab) -> Code:
        for line in range(slab.address // LINE, (slab.address + self.slab_bytes) // LINE):
            del self._slabs[line]
        self._thread.count("slabs handed back")
        yield from self._source.free(slab.address, self.slab_bytes)

    def _moved(self, slab: Slab) -> Code:
        """The slab goes to another list: the links of its neighbours there are changed."""
        for step in (-1, 1):
            place = (slab.descriptor - self._descriptors) // LINE + step
            yield from self._thread.store(self._descriptors + place % DESCRIPTORS * LINE + WORD, bytes(WORD))
