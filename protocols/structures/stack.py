"""The stack of rNVM: a list of nodes, all work at its head.

Source: rNVM, section 6.1. A push writes a node, and then the head; a pop reads the head's node, and writes the head. In
a batch a pop annuls the last push before it, if one is left: neither touches memory, nor do the pushes before that one
wait any less. The front-end holds the head, as it alone changes it. The paper gives no layout.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ..layout import U64, Layout, Rest
from .source import RNVM
from .space import Image, Space
from .structure import Algorithm, Operation, Structure

Code = Generator[Any, Any, Any]


class StackHead(Layout):
    """The root: the address of the node that was pushed last, 0 if there is none."""

    first = U64()


class StackNode(Layout):
    """An item, and the address of the one below it, 0 if there is none."""

    below = U64()
    item = Rest()


class ListStack(Algorithm):
    """``push`` and ``pop``; see the module."""

    root_bytes: ClassVar[int] = StackHead.size

    def __init__(self, space: Space, root: int, value_bytes: int) -> None:
        super().__init__(space, root, value_bytes)
        self.node_bytes = StackNode.size + value_bytes

    @override
    def perform(self, operation: Operation) -> Code:
        (result,) = yield from self.perform_all((operation,))
        return result

    @override
    def perform_all(self, operations: Sequence[Operation]) -> Code:
        results: list[bytes | None] = []
        pushed: list[bytes] = []
        """What was pushed in this batch and not popped, the newest last."""
        popped: list[int] = []
        """The nodes that were there before, and are not any more."""
        top: int | None = None
        """The newest node that was there before; None: not asked for so far."""
        for operation in operations:
            if operation.f == "push":
                assert operation.value is not None
                pushed.append(operation.value)
                results.append(None)
            elif pushed:
                results.append(pushed.pop())
            else:
                top = (yield from self._first()) if top is None else top
                if not top:
                    results.append(None)
                    continue
                node = StackNode.unpack((yield from self.space.read(top, self.node_bytes)))
                popped.append(top)
                results.append(node.item)
                top = node.below
        if pushed or popped:
            first = (yield from self._first()) if top is None else top
            for item in pushed:
                address = yield from self.space.allocate(self.node_bytes)
                yield from self.space.write(address, StackNode.pack(below=first, item=item))
                first = address
            yield from self.space.publish(self.root, StackHead.pack(first=first))
        for address in popped:  # not before the head has left them: a block is used again at once
            yield from self.space.free(address, self.node_bytes)
        return results

    @override
    def take(self, waiting: list[Operation], operation: Operation) -> Code:
        if waiting:
            return waiting.pop().value
        return (yield from self.perform(operation))

    def _first(self) -> Code:
        return StackHead.unpack((yield from self.space.read_held(self.root, StackHead.size))).first

    @override
    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        first = 0
        for item in entries.values():
            address = image.allocate(StackNode.size + value_bytes)
            image.put(address, StackNode.pack(below=first, item=item))
            first = address
        image.put(root, StackHead.pack(first=first))


class StackStructure(Structure, name="stack"):
    """A structure with one front-end: a pop takes out, so nobody else only reads."""

    title = "stack, a list with its head"
    paper = RNVM
    section = "section 6.1"
    model = "stack"
    operations = ("push", "pop")
    updates = frozenset({"push", "pop"})
    algorithm = ListStack
