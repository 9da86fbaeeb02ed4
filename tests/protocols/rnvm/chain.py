"""The plainest structure, for tests of modes: a list of nodes, found from its head."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, ClassVar

from rpsim.protocols.layout import U64, Layout
from rpsim.protocols.structures.space import Image
from rpsim.protocols.structures.structure import Algorithm, Operation, Structure

Code = Generator[Any, Any, Any]


class NodeHead(Layout):
    """What stands before a node's value."""

    key = U64()
    next = U64()


class ChainAlgorithm(Algorithm):
    """A new key goes to the head; the value of one that is there is replaced."""

    def perform(self, operation: Operation) -> Code:
        head = yield from self.space.read(self.root, 8)
        at = int.from_bytes(head, "little")
        while at:
            node = yield from self.space.read(at, NodeHead.size + self.value_bytes)
            found = NodeHead.unpack(node)
            if found.key == operation.key:
                if operation.f == "find":
                    return node[NodeHead.size :]
                assert operation.value is not None
                yield from self.space.write(at + NodeHead.size, operation.value)
                return None
            at = found.next
        if operation.f == "insert":
            assert operation.value is not None
            at = yield from self.space.allocate(NodeHead.size + self.value_bytes)
            start = NodeHead.pack(key=operation.key, next=int.from_bytes(head, "little"))
            yield from self.space.write(at, start + operation.value)
            yield from self.space.publish(self.root, at.to_bytes(8, "little"))
        return None

    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        before = 0
        for key, value in entries.items():
            at = image.allocate(NodeHead.size + value_bytes)
            image.put(at, NodeHead.pack(key=key, next=before) + value)
            before = at
        image.put(root, before.to_bytes(8, "little"))


class Chain(Structure, name="test-chain"):
    """A list as a map."""

    title = "a list"
    paper = "none: for tests"
    section = "none"
    model = "kv"
    operations = ("insert", "find")
    updates = frozenset({"insert"})
    inserts = "insert"
    claims: ClassVar = {}
    algorithm = ChainAlgorithm
