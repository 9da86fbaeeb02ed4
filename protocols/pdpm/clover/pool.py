"""Where things lie in a data node's memory: a place for each key's shortcut, then buffers of one size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ....sim.bytespace import LINE_BYTES
from ..data import WORD, DataNode, DataPlace, DataRegion
from .header import ChainCursor, Pointer, Version, header, pack_shortcut

if TYPE_CHECKING:
    from ...scheme import Sizes

SMALLEST_BYTES, LARGEST_BYTES = 128, 32768
"""Buffers are of powers of two, nine classes, as in the public code."""


def class_of(length: int) -> int:
    """The size of the smallest buffer that has room for so many bytes."""
    size = SMALLEST_BYTES
    while size < length:
        size *= 2
    return size


def padded(copies: Version, count: int) -> Version:
    """A version that has fewer copies than pointers: the first pointer stands for the others."""
    return copies + copies[:1] * (count - len(copies))


class Pool:
    """The buffers of a run, whose values have one size: so they are of one class."""

    def __init__(self, sizes: Sizes, nodes: int, copies: int, spare: float, batch: int, only: int = -1) -> None:
        """``only``: the one key that has copies, -1 for all of them. ``spare``: the share of buffers beyond those that
        are loaded; each client process has ``batch`` of each node in its hands, and as many that it has not retired.
        """
        self.nodes, self.copies, self.keys = nodes, copies, len(sizes.objects)
        self.header_bytes = WORD * copies
        self.version_bytes = self.header_bytes + sizes.value_bytes
        self.buffer_bytes = class_of(self.version_bytes)
        self.row = -(-self.keys // nodes)
        self._only = only
        self.loaded = self.row * copies
        """So many buffers of a node may be taken before time zero, and it has so many in all:"""
        self.buffers = self.loaded + int(spare * self.loaded) + 2 * batch * (sizes.clients + 1)

    def regions(self) -> Sequence[DataRegion]:
        """What a data node has."""
        return [
            DataRegion("shortcuts", self.header_bytes, self.row),
            DataRegion("buffers", self.buffer_bytes, self.buffers),
        ]

    def first_version(self, key: int) -> Version:
        """Where a key's version of time zero is: its first copy on node ``key`` modulo their number."""
        copies = tuple(
            Pointer((key + copy) % self.nodes, copy * self.row + key // self.nodes, 0)
            for copy in range(self.copies_of(key))
        )
        return padded(copies, self.copies)

    def copies_of(self, key: int) -> int:
        """How many copies of a key's versions there are."""
        return self.copies if self._only in (-1, key) else 1

    def first_key(self, node: int, buffer: int) -> tuple[int, int]:
        """The key whose version of time zero is in a buffer, if there is one, and which copy it is."""
        copy, turn = divmod(buffer, self.row)
        return turn * self.nodes + (node - copy) % self.nodes, copy


class Geometry:
    """The same with the addresses of a system's data nodes."""

    def __init__(self, pool: Pool, nodes: Sequence[DataNode]) -> None:
        self.pool = pool
        self._buffers = [data.starts["buffers"] for data in nodes]
        self._shortcuts = [data.starts["shortcuts"] for data in nodes]

    def buffer(self, pointer: Pointer) -> DataPlace:
        """A buffer."""
        return DataPlace(pointer.node, self._buffers[pointer.node] + pointer.buffer * self.pool.buffer_bytes)

    def shortcut(self, key: int) -> DataPlace:
        """A key's shortcut, which stays where it is."""
        node = key % self.pool.nodes
        return DataPlace(node, self._shortcuts[node] + key // self.pool.nodes * self.pool.header_bytes)


class FirstImage:
    """What data nodes hold at time zero: computed when it is looked at."""

    def __init__(self, pool: Pool, there: int, value_of: Callable[[int], bytes]) -> None:
        """``there``: how many keys are loaded, from the first on."""
        self.pool = pool
        self._there = there
        self._value_of = value_of
        self.newest: dict[int, Version] = {}
        """By key, where that is not the first version."""
        self.written: dict[tuple[int, int], tuple[int, Version, int, Version | None]] = {}
        """By node and buffer, what has been written there since: key, version, which copy of it, what follows."""

    def version_of(self, key: int) -> Version:
        """The newest version of a key."""
        return self.newest.get(key) or self.pool.first_version(key)

    def append(self, key: int, old: Version, new: Version) -> None:
        """A version has been linked behind another."""
        for copy, pointer in enumerate(old):
            self.written[pointer.node, pointer.buffer] = key, old, copy, new
        for copy, pointer in enumerate(new):
            self.written[pointer.node, pointer.buffer] = key, new, copy, None
        self.newest[key] = new

    def lay(self, nodes: Sequence[DataNode]) -> None:
        """Let the nodes' memory hold it."""
        for data in nodes:
            for label, computed in self._parts(data).items():
                start = data.starts[label] - data.pm.base
                region = next(one for one in self.pool.regions() if one.label == label)
                data.pm.space.compute(start, region.length, computed)

    def _parts(self, data: DataNode) -> Mapping[str, Callable[[int], bytes]]:
        return {"shortcuts": partial(self._shortcut_line, data), "buffers": partial(self._buffer_line, data)}

    def _shortcut_line(self, data: DataNode, line: int) -> bytes:
        each, start = self.pool.header_bytes, line * LINE_BYTES - (data.starts["shortcuts"] - data.pm.base)
        first, found = start // each, b""
        for turn in range(first, (start + LINE_BYTES - 1) // each + 1):
            key = turn * self.pool.nodes + data.number
            cursor = ChainCursor(self.version_of(key), 0) if key < self._there else None
            found += pack_shortcut(cursor, self.pool.copies)
        return found[start - first * each :][:LINE_BYTES]

    def _buffer_line(self, data: DataNode, line: int) -> bytes:
        at = line * LINE_BYTES - (data.starts["buffers"] - data.pm.base)
        buffer, offset = divmod(at, self.pool.buffer_bytes)
        return self._content(data.number, buffer)[offset : offset + LINE_BYTES].ljust(LINE_BYTES, b"\0")

    def _content(self, node: int, buffer: int) -> bytes:
        written = self.written.get((node, buffer))
        if written is None:
            key, copy = self.pool.first_key(node, buffer)
            if copy >= self.pool.copies or key >= self._there:
                return b""
            written = key, self.pool.first_version(key), copy, None
        key, version, copy, following = written
        return header(version, copy, following) + self._value_of(key)
