"""The binary search tree of rNVM: unbalanced, changed in place."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from typing_extensions import override

from .binary import BinaryTree, GatheredNodes, pointer
from .trees import TreeStructure

Code = Generator[Any, Any, Any]


class Bst(BinaryTree):
    """A new node is written first, and then the pointer of its parent by which it is found.

    A key that is there gets its new value in its node, in place.
    """

    @override
    def _apply(self, gathered: GatheredNodes) -> Code:
        if gathered.planted:
            yield from self._hang(self.root, gathered.planted)
        for visit in gathered.visits:
            if visit.value is not None:
                yield from self.space.write(visit.address + self.VALUE, visit.value)
            if visit.left:
                yield from self._hang(visit.address + self.LEFT, visit.left)
            if visit.right:
                yield from self._hang(visit.address + self.RIGHT, visit.right)

    def _hang(self, place: int, additions: Any) -> Code:
        """Write a tree of what is added, and point to it."""
        yield from self.space.publish(place, pointer((yield from self._build(additions))))


class BstStructure(TreeStructure, name="bst"):
    """Keys are objects; the paper does not say whether it balances the tree; its figures are a random one's."""

    title = "binary search tree, changed in place"
    section = "section 6.2, algorithm 1"
    algorithm = Bst
