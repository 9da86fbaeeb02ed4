"""A space: memory as a structure's algorithm sees it, by ranges that are read, written, allocated and freed.

Addresses are those of the machine that holds the bytes. What a read costs (a load, an RDMA READ, a look into a cache)
and when a write lasts is the mode's business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any

Code = Generator[Any, Any, Any]
Range = tuple[int, int]
"""An address, and a length in bytes."""


class Space(ABC):
    """What an algorithm does to memory; each method is a generator of the thread that runs the algorithm."""

    by_field: bool = False
    """Whether each field of a :class:`LoadedNode` is read by itself (rNVM's naive mode: every load a READ)."""

    @abstractmethod
    def read(self, address: int, length: int, depth: int = 0) -> Code:
        """The bytes of a range, own writes included; ``depth`` is that of a tree's node, 0 for the root."""

    def read_all(self, ranges: Sequence[Range], depth: int = 0) -> Code:
        """The bytes of several ranges that do not depend on each other; a mode may read them together."""
        found = []
        for address, length in ranges:
            found.append((yield from self.read(address, length, depth)))
        return found

    def read_held(self, address: int, length: int) -> Code:
        """The bytes of a range that nobody else changes while this front-end has the structure: head and tail of a
        queue, a table's size. A mode may READ it once and keep it with its own writes (rNVM, section 6.1).
        """
        return (yield from self.read(address, length))

    @abstractmethod
    def write(self, address: int, data: bytes) -> Code:
        """Write a range; writes take effect in the order in which they are made."""

    def write_all(self, writes: Sequence[tuple[int, bytes]]) -> Code:
        """Write several ranges of which readers may see any first; a mode may have them on their way together."""
        for address, data in writes:
            yield from self.write(address, data)

    def publish(self, address: int, data: bytes) -> Code:
        """Write 8 bytes at once by which readers find what was written before: a root, or a pointer of a list."""
        yield from self.write(address, data)

    @abstractmethod
    def allocate(self, length: int) -> Code:
        """The address of a new block; it begins at a multiple of 8 bytes, and of 64 where it is a line or more.

        Raises :class:`NoRoom` where there is none.
        """

    @abstractmethod
    def free(self, address: int, length: int) -> Code:
        """Give back a block of that length."""

    def node(self, address: int, length: int, depth: int = 0) -> Code:
        """A node whose fields are looked at one by one: read as a whole, or field by field as the mode has it."""
        data = None if self.by_field else (yield from self.read(address, length, depth))
        return LoadedNode(self, address, data, depth)


class NoRoom(Exception):
    """No block of that length is free."""


class LoadedNode:
    """A node of which an algorithm reads some fields; see :meth:`Space.node`."""

    def __init__(self, space: Space, address: int, data: bytes | None, depth: int) -> None:
        self.address = address
        self._space, self._data, self._depth = space, data, depth

    def load(self, offset: int, length: int) -> Code:
        """The bytes of a field."""
        if self._data is None:
            return (yield from self._space.read(self.address + offset, length, self._depth))
        return self._data[offset : offset + length]


Node = LoadedNode


class Image(ABC):
    """A structure's memory before time zero: what loading fills, without events."""

    @abstractmethod
    def allocate(self, length: int) -> int:
        """The address of a block, one behind the other, each at a multiple of 64 bytes."""

    @abstractmethod
    def put(self, address: int, data: bytes) -> None:
        """Bytes at an address, of any length."""

    @abstractmethod
    def compute(self, address: int, length: int, source: Callable[[int], bytes]) -> None:
        """Whole lines, each computed when it is first touched: ``source(n)`` is the range's line number n."""
