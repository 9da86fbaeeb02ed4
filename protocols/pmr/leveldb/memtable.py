"""The memtable: a skip list in DRAM, ordered by key, the newest version of each first (db/skiplist.h).

A node's bytes are its height, its pointers, the lengths and the bytes of key and value; a search loads each node that
it compares with.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from ....models.cpu import Thread
from .coding import TAG_BYTES, LevelEntry, entry_of

Code = Generator[Any, Any, Any]

HIGHEST = 12
"""Levels of a list (``kMaxHeight``)."""
BRANCHING = 4
"""One node in so many of a level is in the next one, too (``kBranching``)."""
WORD = 8
HEAD = 8
"""Height, the length of the key and that of the value: two bytes, two, four."""


class SkipNode:
    """A node: where it lies, and what its bytes say."""

    __slots__ = ("address", "entry", "head_bytes", "next")

    def __init__(self, address: int, entry: LevelEntry, height: int) -> None:
        self.address = address
        self.entry = entry
        self.next: list[SkipNode | None] = [None] * height
        self.head_bytes = HEAD + height * WORD + len(entry.key) + TAG_BYTES
        """The bytes in front of the value, which a comparison loads."""

    def pack(self) -> bytes:
        """The node's bytes."""
        key, value = self.entry.internal_key, self.entry.value or b""
        head = len(self.next).to_bytes(2, "little") + len(key).to_bytes(2, "little") + len(value).to_bytes(4, "little")
        pointers = b"".join((0 if to is None else to.address).to_bytes(WORD, "little") for to in self.next)
        return head + pointers + key + value


class Memtable:
    """A list whose nodes lie in an ``arena``; ``draw`` says how high a node is."""

    def __init__(self, arena: int, draw: np.random.Generator) -> None:
        self._draw = draw
        self.arena = arena
        self.used_bytes = 0
        self.count = 0
        self._head = SkipNode(self.arena, LevelEntry(b"", 0, None), HIGHEST)
        self._height = 1
        self.used_bytes += -(-self._head.head_bytes // WORD) * WORD

    def add(self, thread: Thread, entry: LevelEntry) -> Code:
        """Insert a version of a key."""
        before, _ = yield from self._search(thread, entry.order)
        height = 1
        while height < HIGHEST and not self._draw.integers(BRANCHING):
            height += 1
        self._height = max(self._height, height)
        node = SkipNode(self.arena + self.used_bytes, entry, height)
        for level in range(height):
            node.next[level] = before[level].next[level]
        packed = node.pack()
        self.used_bytes += -(-len(packed) // WORD) * WORD
        yield from thread.store(node.address, packed)
        for level in range(height):
            at = before[level].address + HEAD + level * WORD
            yield from thread.store(at, node.address.to_bytes(WORD, "little"))
            before[level].next[level] = node
        self.count += 1

    def get(self, thread: Thread, key: bytes, sequence: int) -> Code:
        """The newest version of a key, at most of this sequence number; None where there is none."""
        _, found = yield from self._search(thread, (key, -sequence))
        if found is None or found.entry.key != key:
            return None
        if found.entry.value:
            yield from thread.load(found.address + found.head_bytes, len(found.entry.value))
        return found.entry

    def _search(self, thread: Thread, order: tuple[bytes, int]) -> Code:
        """The node before a place on each level, and the first one behind it."""
        before: list[SkipNode] = [self._head] * HIGHEST
        node, compared, following = self._head, 0, None
        loaded: SkipNode | None = None
        for level in reversed(range(self._height)):
            following = node.next[level]
            while following is not None:
                if following is not loaded:
                    data = yield from thread.load(following.address, following.head_bytes)
                    compared, loaded = compared + 1, following
                    key = data[HEAD + len(following.next) * WORD :]
                    assert entry_of(key, b"").key == following.entry.key, "a node's bytes are not what was stored"
                if following.entry.order >= order:
                    break
                node = following
                following = node.next[level]
            before[level] = node
        yield from thread.software("leveldb_compare", compared)
        return before, following

    def entries(self) -> Iterator[LevelEntry]:
        """All entries, in order."""
        node = self._head.next[0]
        while node is not None:
            yield node.entry
            node = node.next[0]
