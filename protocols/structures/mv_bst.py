"""The multi-version binary search tree of rNVM: nodes never change, and a version is a root."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from typing_extensions import override

from .binary import BinaryTree, GatheredNodes, pointer
from .trees import TreeStructure

Code = Generator[Any, Any, Any]


class MvBst(BinaryTree):
    """Path copying: each node on the way to a change is copied once a vector, then the root is switched.

    Source: Ma et al., rNVM, 2018, section 9.1, figure 5. Nodes of old versions stay: the paper frees none.
    """

    shared_by = "order"

    @override
    def _apply(self, gathered: GatheredNodes) -> Code:
        copies: dict[int, int] = {0: 0}
        for visit in reversed(gathered.visits):  # children before their parents
            node, value = visit.node, visit.value
            left = copies.get(node.left, node.left)
            right = copies.get(node.right, node.right)
            if visit.left:
                left = yield from self._build(visit.left)
            if visit.right:
                right = yield from self._build(visit.right)
            if value is None:
                if (left, right) == (node.left, node.right):
                    continue
                value = node.value[: self.value_bytes]
            copy = copies[visit.address] = yield from self.space.allocate(self.node_bytes)
            yield from self._write(copy, node.key, left, right, value)
        root = copies.get(gathered.root, gathered.root)
        if gathered.planted:
            root = yield from self._build(gathered.planted)
        if root != gathered.root:
            yield from self.space.publish(self.root, pointer(root))


class MvBstStructure(TreeStructure, name="mv-bst"):
    """Keys are objects; readers take a root, and walk a version that nobody changes."""

    title = "multi-version binary search tree, by path copying"
    section = "section 9.1, figure 5"
    algorithm = MvBst
