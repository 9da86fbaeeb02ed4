"""A sorted list: nodes in the order of their keys, found from its head.

Source: the textbook's; a ninth structure beside those of rNVM (2018), section 6.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from typing_extensions import override

from .layout import U64, Layout, Rest
from .structures.space import Image
from .structures.structure import Algorithm, Operation, Structure

Code = Generator[Any, Any, Any]


class ListNode(Layout):
    """A node; the last one has no other behind it: 0."""

    key = U64()
    behind = U64()
    value = Rest()


def pointer(address: int) -> bytes:
    """An address as it lies in memory."""
    return address.to_bytes(8, "little")


class SortedList(Algorithm):
    """A new node is written first, and then the pointer to it: in the node before it, or in the root."""

    @override
    def perform(self, operation: Operation) -> Code:
        place = self.root
        while address := int.from_bytes((yield from self.space.read(place, 8)), "little"):
            node = ListNode.unpack((yield from self.space.read(address, ListNode.size + self.value_bytes)))
            if node.key >= operation.key:
                break
            place = address + ListNode.offset_of("behind")
        there = address and node.key == operation.key
        if operation.f == "find":
            return node.value if there else None
        assert operation.value is not None
        if there:
            yield from self.space.write(address + ListNode.offset_of("value"), operation.value)
            return None
        new = yield from self.space.allocate(ListNode.size + self.value_bytes)
        yield from self.space.write(new, ListNode.pack(key=operation.key, behind=address, value=operation.value))
        yield from self.space.publish(place, pointer(new))
        return None

    @override
    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        behind = 0
        for key in sorted(entries, reverse=True):
            address = image.allocate(ListNode.size + value_bytes)
            image.put(address, ListNode.pack(key=key, behind=behind, value=entries[key]))
            behind = address
        image.put(root, pointer(behind))


class SortedListStructure(Structure, name="sorted-list"):
    """Keys are objects."""

    title = "sorted list"
    paper = "none: a textbook's"
    section = "none"
    model = "kv"
    operations = ("insert", "find")
    updates = frozenset({"insert"})
    inserts = "insert"
    algorithm = SortedList
