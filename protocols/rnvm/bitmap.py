"""The back-end's allocator: blocks of one size, and for each a bit in persistent memory that says whether it is taken.

Source: rNVM, section 4.4: "a persistent bitmap to record the usage of NVM", fixed-size management only. Bits are
durable before the reply leaves. So a failure in between leaves a block that is taken and that nobody has: it leaks, and
is never given twice. There is nothing to recover: the bits are all that the allocator knows, but for where it looks
first. What is longer than a block gets blocks that follow each other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from ...models.cpu import Thread
from ...models.memory.devices import MemoryDevice

Code = Generator[Any, Any, Any]
LINE, WORD = 64, 8
BITS = 8 * LINE
"""Bits of a line."""


class Bitmap:
    """A heap of blocks, and the bits of it: whole lines at ``bits``."""

    def __init__(self, bits: int, heap: int, block_bytes: int, blocks: int) -> None:
        self.bits = bits
        self.heap = heap
        self.block_bytes = block_bytes
        self.blocks = blocks
        self._next = 0
        """The block at which the next search begins."""
        self.changed: set[int] | None = None
        """Addresses of words that have changed, durably, where somebody copies them."""

    @staticmethod
    def length(blocks: int) -> int:
        """The bytes of the bits of so many blocks."""
        return -(-blocks // BITS) * LINE

    def blocks_of(self, length: int) -> int:
        """How many blocks an object of this length takes."""
        return -(-length // self.block_bytes)

    def reserve(self, device: MemoryDevice, count: int) -> None:
        """Before time zero: the first ``count`` blocks are taken."""
        taken = ((1 << count) - 1).to_bytes(self.length(max(1, count)), "little")
        device.space.poke(self.bits - device.base, taken)
        self._next = count % self.blocks

    def allocate(self, thread: Thread, count: int = 1) -> Code:
        """The address of ``count`` free blocks in a row, now durably taken; None where there are none."""
        first = yield from self._find(thread, self._next, count)
        if first is None and self._next:
            first = yield from self._find(thread, 0, count)
        if first is None:
            return None
        self._next = (first + count) % self.blocks
        yield from self._mark(thread, first, count, taken=True)
        return self.heap + first * self.block_bytes

    def free(self, thread: Thread, address: int, count: int = 1) -> Code:
        """Give blocks back, durably. Raises ValueError for an address that is no block's."""
        first, rest = divmod(address - self.heap, self.block_bytes)
        if rest or first < 0 or first + count > self.blocks:
            raise ValueError(f"{count} blocks at {address:#x} are not in the heap")
        yield from self._mark(thread, first, count, taken=False)

    def _find(self, thread: Thread, start: int, count: int) -> Code:
        """The first of ``count`` free blocks in a row from ``start`` on; the bits are looked at line by line."""
        run = 0
        """So many free blocks lie right before the line; more than one less than wanted do not matter."""
        for line in range(start // BITS, -(-self.blocks // BITS)):
            taken = int.from_bytes((yield from thread.load(self.bits + line * LINE, LINE)), "little")
            base = line * BITS
            if base < start:
                taken |= (1 << (start - base)) - 1
            room = min(BITS, self.blocks - base)
            free = ~taken & ((1 << room) - 1)
            found = _run(free << run | ((1 << run) - 1), count)
            if found is not None:
                return base - run + found
            behind = _ones_at_end(free, room)
            run = min(count - 1, run + room if behind == room else behind)
        return None

    def _mark(self, thread: Thread, first: int, count: int, *, taken: bool) -> Code:
        """Set or clear bits, word by word, then :meth:`persist` them."""
        start, end = first // (8 * WORD), -(-(first + count) // (8 * WORD))
        for word in range(start, end):
            address = self.bits + word * WORD
            base = word * 8 * WORD
            low, high = max(first - base, 0), min(first + count - base, 8 * WORD)
            mask = (1 << high) - (1 << low)
            value = int.from_bytes((yield from thread.load(address, WORD)), "little")
            value = value | mask if taken else value & ~mask
            yield from thread.store(address, value.to_bytes(WORD, "little"))
        yield from self.persist(thread, self.bits + start * WORD, (end - start) * WORD)
        if self.changed is not None:
            self.changed.update(range(self.bits + start * WORD, self.bits + end * WORD, WORD))

    def words_of(self, address: int, count: int) -> tuple[int, int]:
        """Where the words with the bits of some blocks begin and end."""
        first = (address - self.heap) // self.block_bytes
        return self.bits + first // (8 * WORD) * WORD, self.bits - (-(first + count) // (8 * WORD)) * WORD

    def taken_in(self, bits: bytes) -> Iterator[tuple[int, int]]:
        """The runs of blocks that bits say are taken: address and length."""
        left = int.from_bytes(bits, "little")
        first = 0
        while left:
            skip = (left & -left).bit_length() - 1
            left >>= skip
            count = (~left & left + 1).bit_length() - 1
            yield self.heap + (first + skip) * self.block_bytes, count * self.block_bytes
            first += skip + count
            left >>= count

    def persist(self, thread: Thread, address: int, length: int) -> Code:
        """Flush changed bits."""
        yield from thread.flush(address, length)


def _run(free: int, count: int) -> int | None:
    """The place of the first ``count`` ones in a row."""
    while count > 1 and free:
        step = count // 2
        free &= free >> step
        count -= step
    return (free & -free).bit_length() - 1 if free else None


def _ones_at_end(free: int, room: int) -> int:
    """How many of the highest of ``room`` bits are ones, without a gap."""
    return room - (~free & ((1 << room) - 1)).bit_length()
