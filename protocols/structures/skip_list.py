"""The skip list of rNVM: sorted lists above each other, of which each has about half the nodes of the one below.

Source: rNVM, sections 6.2 and 9.1, figure 6; the search is that of Pugh, "Skip Lists: A Probabilistic Alternative to
Balanced Trees", CACM 33(6), 1990, figures 1 and 4, with p = 1/2. A comparison reads the address of the next node on a
level, and then that node's key. An insert writes the whole new node, and then the pointers to it from the bottom up:
whatever of these is there, each list is sorted and is a part of the one below.

Deliberate differences. A node's height is drawn by a hash of its key, not at random: so an insert that is executed
again makes the same node. A key that is there gets its new value in its node, in place; the paper does not say. Another
node in its place would have to be linked on all levels at once. So the order of writes protects readers of values of
one word alone; those of longer ones look at the sequence number.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ...sim.bytespace import LINE_BYTES, round_up
from ..layout import U64, WORD, Layout
from .records import Words, padded, show, values_as_words, words_of
from .source import RNVM
from .space import Image, LoadedNode, Range, Space
from .structure import Algorithm, Operation, Structure

Code = Generator[Any, Any, Any]

LEVELS = 32
"""The most levels: enough for 2**32 keys (Pugh, "Determining MaxLevel")."""
_MASK = (1 << 64) - 1
_SALT, _FACTOR = 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD
"""Any number that keys are not made by, and a constant of MurmurHash3's finalizer (Appleby, public domain)."""


class SkipHead(Layout):
    """The root's first word, behind which it has the address of the first node on each level, 0 where there is none.

    More levels are counted before they are linked, so the search begins on the highest that has nodes.
    """

    levels = U64()


class Tower(Layout):
    """The fields at the front of a node: the key, behind which are the value in whole words, and a pointer a level."""

    key = U64()


def height_of(key: int) -> int:
    """On how many levels a key's node is: one more each time with a probability of 1/2."""
    mixed = (key ^ _SALT) * _FACTOR & _MASK
    mixed = (mixed ^ mixed >> 33) * _FACTOR & _MASK
    mixed ^= mixed >> 33
    return min((mixed & -mixed).bit_length() or LEVELS, LEVELS)


def heights_of(keys: Words) -> npt.NDArray[np.int64]:
    """:func:`height_of` of many keys."""
    mixed = (keys ^ np.uint64(_SALT)) * np.uint64(_FACTOR)
    mixed = (mixed ^ mixed >> np.uint64(33)) * np.uint64(_FACTOR)
    mixed ^= mixed >> np.uint64(33)
    lowest = mixed & (~mixed + np.uint64(1))
    exact = np.frexp(lowest.astype(np.float64))[1].astype(np.int64)  # of a power of two: its number of bits
    return np.where((mixed == 0) | (exact > LEVELS), LEVELS, exact)


class SkipPath(NamedTuple):
    """Where a key is, or would be."""

    node: LoadedNode | None
    """Its node; None where it is not there."""
    before: list[int]
    """By level, from the bottom: the address of the pointer to the first node that is not before the key."""
    behind: list[int]
    """By level: that pointer."""


class SkipList(Algorithm):
    """``insert`` and ``find``; see the module."""

    root_bytes: ClassVar[int] = SkipHead.size + LEVELS * WORD

    def __init__(self, space: Space, root: int, value_bytes: int) -> None:
        super().__init__(space, root, value_bytes)
        if value_bytes <= WORD:
            self.shared_by = "order"
        self.pointers = Tower.size + WORD * words_of(value_bytes)
        """Where a node's pointers begin."""

    @override
    def perform(self, operation: Operation) -> Code:
        return (yield from self._perform(self.space, operation))

    @override
    def perform_all(self, operations: Sequence[Operation]) -> Code:
        """In the order of keys: what one operation has read the next one does not read again."""
        space = SharedReads(self.space)
        results: list[bytes | None] = [None] * len(operations)
        for turn in sorted(range(len(operations)), key=lambda turn: operations[turn].key):
            results[turn] = yield from self._perform(space, operations[turn])
        return results

    def _perform(self, space: Space, operation: Operation) -> Code:
        found = yield from self._search(space, operation.key)
        if operation.f == "find":
            return None if found.node is None else (yield from self._value(found.node))
        assert operation.value is not None
        if found.node is not None:
            yield from space.write(found.node.address + Tower.size, padded(operation.value))
        else:
            yield from self._insert(space, operation.key, operation.value, found)
        return None

    def _value(self, node: LoadedNode) -> Code:
        return (yield from node.load(Tower.size, self.pointers - Tower.size))[: self.value_bytes]

    def _search(self, space: Space, key: int) -> Code:
        """Down from the highest level, on each as far as nodes are before the key: a :class:`SkipPath`."""
        here = yield from space.node(self.root, self.root_bytes)
        pointers = SkipHead.size
        levels = SkipHead.unpack((yield from here.load(0, SkipHead.size))).levels
        before, behind = [0] * levels, [0] * levels
        met: dict[int, LoadedNode] = {}
        reached, address = None, 0
        for level in reversed(range(levels)):
            while True:
                place = pointers + WORD * level
                address = int.from_bytes((yield from here.load(place, WORD)), "little")
                if not address:
                    break
                there = met.get(address)
                if there is None:  # a node is first met on its highest level: so all its pointers are read
                    length = self.pointers + WORD * (level + 1)
                    there = met[address] = yield from space.node(address, length, levels - level)
                reached = Tower.unpack((yield from there.load(0, Tower.size))).key
                if reached >= key:
                    break
                here, pointers = there, self.pointers
            before[level], behind[level] = here.address + place, address
        return SkipPath(met[address] if address and reached == key else None, before, behind)

    def _insert(self, space: Space, key: int, value: bytes, found: SkipPath) -> Code:
        height, levels = height_of(key), len(found.before)
        before = found.before[:height] + [self.root + SkipHead.size + WORD * level for level in range(levels, height)]
        behind = found.behind[:height] + [0] * (height - levels)
        node = words_bytes([key]) + padded(value) + words_bytes(behind)
        address = yield from space.allocate(len(node))
        yield from space.write(address, node)
        if height > levels:
            yield from space.publish(self.root, SkipHead.pack(levels=height))
        for place in before:
            yield from space.publish(place, address.to_bytes(WORD, "little"))

    @override
    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        """Nodes lie in the order in which they were inserted."""
        count, values = len(entries), words_of(value_bytes)
        keys = np.fromiter(entries, np.uint64, count)
        heights = heights_of(keys)
        places = np.fromiter(_places((1 + values + heights).tolist()), np.int64, count + 1)
        address = image.allocate(max(LINE_BYTES, round_up(int(places[-1]) * WORD)))
        addresses = np.uint64(address) + places[:-1].astype(np.uint64) * np.uint64(WORD)

        words = np.zeros(int(places[-1]), np.uint64)
        words[places[:-1]] = keys
        data = values_as_words(entries.values(), value_bytes)
        for word in range(values):
            words[places[:-1] + 1 + word] = data[:, word]
        levels = int(heights.max(initial=0))
        head = [levels] + [0] * LEVELS
        listed = np.argsort(keys, kind="stable")
        for level in range(levels):
            listed = listed[heights[listed] > level]
            words[places[listed[:-1]] + 1 + values + level] = addresses[listed[1:]]
            head[1 + level] = int(addresses[listed[0]])
        show(image, address, words)
        image.put(root, words_bytes(head))


def words_bytes(words: Sequence[int]) -> bytes:
    """Numbers as words."""
    return b"".join([word.to_bytes(WORD, "little") for word in words])


def _places(sizes: Sequence[int]) -> Sequence[int]:
    """Where blocks of these sizes lie, one behind the other, and the end; those of a line or more begin at one."""
    line = LINE_BYTES // WORD
    places = [0]
    end = 0
    for size in sizes:
        start = end if size < line else -(-end // line) * line
        places[-1] = start
        end = start + size
        places.append(end)
    return places


class SharedReads(Space):
    """A space in which a batch reads each word once; what it writes it knows."""

    def __init__(self, space: Space) -> None:
        self.by_field = space.by_field
        self._space = space
        self._words: dict[int, bytes] = {}

    @override
    def read(self, address: int, length: int, depth: int = 0) -> Code:
        words, places = self._words, range(address, address + length, WORD)
        if not all(place in words for place in places):
            data = yield from self._space.read(address, length, depth)
            for place in places:
                words.setdefault(place, data[place - address : place - address + WORD])
        return b"".join([words[place] for place in places])[:length]

    @override
    def read_all(self, ranges: Sequence[Range], depth: int = 0) -> Code:
        found = []
        for address, length in ranges:
            found.append((yield from self.read(address, length, depth)))
        return found

    @override
    def write(self, address: int, data: bytes) -> Code:
        for at in range(0, len(data), WORD):
            self._words[address + at] = data[at : at + WORD]
        yield from self._space.write(address, data)

    @override
    def publish(self, address: int, data: bytes) -> Code:
        self._words[address] = data
        yield from self._space.publish(address, data)

    @override
    def allocate(self, length: int) -> Code:
        return (yield from self._space.allocate(length))

    @override
    def free(self, address: int, length: int) -> Code:
        yield from self._space.free(address, length)


class SkipListStructure(Structure, name="skip-list"):
    """Objects are keys. Readers need no lock (section 9.1)."""

    title = "skip list, linked from the bottom up"
    paper = RNVM
    section = "sections 6.2 and 9.1, figure 6"
    model = "kv"
    operations = ("insert", "find")
    updates = frozenset({"insert"})
    inserts = "insert"
    algorithm = SkipList
