"""What the two binary search trees share: nodes, the walk of a vector, the shape of a tree of given inserts.

Source: Ma et al., rNVM, 2018, section 6.2, algorithm 1. Two faults of the listing are mended here: where a child exists
it queues the node itself again, and it says nothing of empty segments and of keys that are there already.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ...sim.bytespace import round_up
from ..layout import U64, Layout, Rest
from .loading import LoadedItems
from .space import Image, Space
from .structure import Algorithm, Operation
from .vectors import Addition, Vector

Code = Generator[Any, Any, Any]

POINTER = 8
NOBODY = -1
"""The child of a place in a shape that has none."""


class TreeNode(Layout):
    """A node, which one access reads; a child that is not there has the address 0."""

    key = U64()
    left = U64()
    right = U64()
    value = Rest()


def pointer(address: int) -> bytes:
    """An address as it lies in memory."""
    return address.to_bytes(POINTER, "little")


class TreeShape(NamedTuple):
    """A binary tree over places: the topmost one, and the left and the right child of each."""

    top: int
    left: array[int]
    right: array[int]


def shape_of(times: Sequence[int]) -> TreeShape:
    """The search tree of keys, given in their order by the time at which each is inserted; places are indices.

    That is the Cartesian tree over the times (Vuillemin, Communications of the ACM 23(4), 1980), found in O(n).
    """
    left, right = array("q", [NOBODY]) * len(times), array("q", [NOBODY]) * len(times)
    spine: list[int] = []  # from the root always to the right
    for place, time in enumerate(times):
        below = NOBODY
        while spine and times[spine[-1]] > time:
            below = spine.pop()
        left[place] = below
        if spine:
            right[spine[-1]] = place
        spine.append(place)
    return TreeShape(spine[0] if spine else NOBODY, left, right)


@lru_cache(maxsize=4)
def _loaded_shape(packed: bytes) -> TreeShape:
    """The tree of keys inserted in the order in which they are packed, 8 bytes each; places are those of that order."""
    keys = array("Q", packed)
    by_key = sorted(range(len(keys)), key=keys.__getitem__)
    shape = shape_of(by_key)
    left, right = array("q", [NOBODY]) * len(keys), array("q", [NOBODY]) * len(keys)
    for place, time in enumerate(by_key):
        if (child := shape.left[place]) != NOBODY:
            left[time] = by_key[child]
        if (child := shape.right[place]) != NOBODY:
            right[time] = by_key[child]
    return TreeShape(by_key[shape.top], left, right)


@dataclass(slots=True)
class TreeVisit:
    """A node that a vector came to, and what it does there."""

    address: int
    node: TreeNode
    value: bytes | None = None
    """Its new value; None: it keeps the one that it has."""
    left: Sequence[Addition] = ()
    """What is added where it has no left child."""
    right: Sequence[Addition] = ()


class GatheredNodes(NamedTuple):
    """All that a vector has read, each node behind its parent, and what is added to a tree without nodes."""

    root: int
    visits: Sequence[TreeVisit]
    planted: Sequence[Addition]


class BinaryTree(Algorithm):
    """An unbalanced binary search tree; a subclass says how what a vector changes gets into memory."""

    LEFT: ClassVar[int] = TreeNode.offset_of("left")
    RIGHT: ClassVar[int] = TreeNode.offset_of("right")
    VALUE: ClassVar[int] = TreeNode.offset_of("value")

    def __init__(self, space: Space, root: int, value_bytes: int) -> None:
        super().__init__(space, root, value_bytes)
        self.node_bytes = _node_bytes(value_bytes)

    @override
    def perform(self, operation: Operation) -> Code:
        """The same as a vector of one: it reads one node a level."""
        (result,) = yield from self.perform_all([operation])
        return result

    @override
    def perform_all(self, operations: Sequence[Operation]) -> Code:
        vector = Vector(operations)
        if operations:
            yield from self._apply((yield from self._gather(vector)))
        return vector.results

    @abstractmethod
    def _apply(self, gathered: GatheredNodes) -> Code:
        """Write what a vector changes."""

    def _gather(self, vector: Vector) -> Code:
        """Read level by level all nodes on the vector's ways, each once, the nodes of a level together."""
        root = int.from_bytes((yield from self.space.read(self.root, POINTER)), "little")
        visits: list[TreeVisit] = []
        level = [(root, 0, len(vector))] if root else []
        depth = 0
        while level:
            found = yield from self.space.read_all([(address, self.node_bytes) for address, _, _ in level], depth)
            below = []
            for (address, begin, end), data in zip(level, found, strict=True):
                visit = TreeVisit(address, TreeNode.unpack(data))
                visits.append(visit)
                below += self._split(vector, visit, begin, end)
            level, depth = below, depth + 1
        return GatheredNodes(root, visits, () if root else vector.added(0, len(vector)))

    def _split(self, vector: Vector, visit: TreeVisit, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Split a segment at a node: what happens there, and where the rest goes on."""
        node = visit.node
        middle = beyond = bisect_left(vector.keys, node.key, begin, end)
        if middle < end and vector.keys[middle] == node.key:
            outcome = vector.resolve(middle, node.value[: self.value_bytes])
            visit.value = outcome.value if outcome.written else None
            beyond += 1
        below = []
        if node.left and begin < middle:
            below.append((node.left, begin, middle))
        elif begin < middle:
            visit.left = vector.added(begin, middle)
        if node.right and beyond < end:
            below.append((node.right, beyond, end))
        elif beyond < end:
            visit.right = vector.added(beyond, end)
        return below

    def _build(self, additions: Sequence[Addition]) -> Code:
        """Write a new tree that nothing points to yet, of the shape of inserts one by one; its address, 0 if empty."""
        shape = shape_of([one.time for one in additions])
        addresses = []
        for _ in additions:
            addresses.append((yield from self.space.allocate(self.node_bytes)))
        addresses.append(0)  # of NOBODY
        for place, one in enumerate(additions):
            left, right = addresses[shape.left[place]], addresses[shape.right[place]]
            yield from self._write(addresses[place], one.key, left, right, one.value)
        return addresses[shape.top]

    def _write(self, address: int, key: int, left: int, right: int, value: bytes) -> Code:
        yield from self.space.write(address, _packed(key, left, right, value, self.node_bytes))

    @override
    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        """The very tree that inserting the entries one by one makes, node by node in the order of inserts."""
        keys = array("Q", entries)
        if not keys:
            image.put(root, pointer(0))
            return
        shape = _loaded_shape(keys.tobytes())
        node_bytes = _node_bytes(value_bytes)
        nodes = LoadedItems(image, len(keys), node_bytes)

        def node(number: int) -> bytes:
            left, right = (nodes[n] if n != NOBODY else 0 for n in (shape.left[number], shape.right[number]))
            return _packed(keys[number], left, right, entries[keys[number]], node_bytes)

        nodes.compute(image, node)
        image.put(root, pointer(nodes[shape.top]))


def _node_bytes(value_bytes: int) -> int:
    return TreeNode.size + round_up(value_bytes, POINTER)


def _packed(key: int, left: int, right: int, value: bytes, node_bytes: int) -> bytes:
    return TreeNode.pack(key=key, left=left, right=right, value=value).ljust(node_bytes, b"\0")
