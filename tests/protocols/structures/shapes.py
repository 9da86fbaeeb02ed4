"""What a tree's bytes say, read without counting: its shape, its entries in order, and whether it is a tree at all."""

from collections.abc import Iterable, Mapping
from typing import Any

from rpsim.protocols.layout import WORD, number_in
from rpsim.protocols.scheme import OperationFailed
from rpsim.protocols.structures.binary import BinaryTree, TreeNode
from rpsim.protocols.structures.bpt import Bpt
from rpsim.protocols.structures.bst import Bst
from rpsim.protocols.structures.btree import ENTRIES, LINK, BTree, NodeEntry, NodeHead, chunks
from rpsim.protocols.structures.mv_bpt import MvBpt
from rpsim.protocols.structures.mv_bst import MvBst
from rpsim.protocols.structures.structure import Algorithm, Operation

from .memory import Memory, run

Shape = tuple[int, Any, Any] | None
"""Of a binary tree: the key, and what is left and right of it."""


class SmallBpt(Bpt):
    """Nodes of three entries: every few inserts split one."""

    capacity, node_bytes = 3, ENTRIES + 3 * NodeEntry.size


class SmallMvBpt(MvBpt):
    """Pages of four entries."""

    capacity, node_bytes = 4, ENTRIES + 4 * NodeEntry.size


BINARY: list[type[BinaryTree]] = [Bst, MvBst]
SMALL: list[type[BTree]] = [SmallBpt, SmallMvBpt]
TREES: list[type[Algorithm]] = [*BINARY, *SMALL, Bpt, MvBpt]


class Tree:
    """A tree in a memory; each operation is performed by a new algorithm, which knows nothing but the bytes."""

    def __init__(self, kind: type[Algorithm], value_bytes: int = 8, by_field: bool = False) -> None:
        self.kind, self.value_bytes = kind, value_bytes
        self.memory = Memory(by_field)
        self.root = self.memory.root(kind.root_bytes)

    def algorithm(self) -> Algorithm:
        return self.kind(self.memory, self.root, self.value_bytes)

    def value(self, number: int) -> bytes:
        """A value that tells which write it is of."""
        return number.to_bytes(8, "little") * (self.value_bytes // 8)

    def insert(self, key: int, number: int = 1) -> None:
        run(self.algorithm().perform(Operation("insert", key, self.value(number))))

    def find(self, key: int) -> bytes | None:
        found: bytes | None = run(self.algorithm().perform(Operation("find", key)))
        return found

    def load(self, entries: Mapping[int, bytes]) -> None:
        self.kind.load(self.memory.image, self.root, entries, self.value_bytes)

    def found(self, keys: Iterable[int]) -> dict[int, bytes]:
        """What finds of these keys return, each alone; a key that is not found, or whose find fails, is left out."""
        answers = {}
        for key in keys:
            try:
                value = self.find(key)
            except OperationFailed:
                continue
            if value is not None:
                answers[key] = value
        return answers

    def at(self, memory: Memory) -> "Tree":
        """The same tree in another memory."""
        twin = Tree(self.kind, self.value_bytes)
        twin.memory, twin.root = memory, self.root
        return twin

    def binary(self) -> Shape:
        """The shape of a binary tree; AssertionError where it is none."""
        return self._below(self._word(self.root), 0, 1 << 64)

    def _below(self, address: int, low: int, high: int) -> Shape:
        if not address:
            return None
        node = TreeNode.unpack(self.memory.peek(address, TreeNode.size))
        assert low <= node.key < high
        return node.key, self._below(node.left, low, node.key), self._below(node.right, node.key + 1, high)

    def levels(self) -> list[list[list[int]]]:
        """The keys of the nodes of a B+tree, level by level from the leaves; AssertionError where it is none."""
        found: list[list[list[int]]] = []
        root = self._word(self.root)
        row = [(root, 0, 1 << 64)] if root else []
        leaves = []
        while row:
            nodes, below, leaves = [], [], [address for address, *_ in row]
            for address, low, high in row:
                keys, children = self._node(address)
                assert keys == sorted(set(keys)) and all(low <= key < high for key in keys)
                bounds = [low, *keys, high]
                below += [(child, bounds[n], bounds[n + 1]) for n, child in enumerate(children)]
                nodes.append(keys)
            found.insert(0, nodes)
            row = below
        if issubclass(self.kind, BTree) and self.kind.linked and leaves:
            links = [self._word(address + LINK) for address in leaves]
            assert links == [*leaves[1:], 0]
        return found

    def _node(self, address: int) -> tuple[list[int], list[int]]:
        assert issubclass(self.kind, BTree)
        head = NodeHead.unpack(self.memory.peek(address, NodeHead.size))
        assert head.count <= self.kind.capacity
        entries = [
            NodeEntry.unpack(one) for one in chunks(self.memory.peek(address + ENTRIES, head.count * NodeEntry.size))
        ]
        words = [self._word(address + LINK), *(number_in(entry.word) for entry in entries)]
        return [entry.key for entry in entries], words if head.level else []

    def _word(self, address: int) -> int:
        return number_in(self.memory.peek(address, WORD))

    def keys(self) -> list[int]:
        """All keys in order, by a walk of the whole tree."""
        if issubclass(self.kind, BTree):
            levels = self.levels()
            return [key for leaf in levels[0] for key in leaf] if levels else []
        keys: list[int] = []

        def walk(shape: Shape) -> None:
            if shape is not None:
                walk(shape[1])
                keys.append(shape[0])
                walk(shape[2])

        walk(self.binary())
        return keys
