"""The queue of rNVM: a list of nodes that is extended at its tail and taken from at its head.

Source: rNVM, section 6.1. The last node is there in advance and empty. An enqueue fills it, with the address of the
next empty one, and then moves the tail there: two ranges, no read. A dequeue reads the head's node, and moves the head.
The front-end holds head and tail, as it alone changes them. The paper gives no layout.

In a batch the paper has enqueues annulled by dequeues. First in, first out allows that only once nothing is left from
before the batch: until then a dequeue takes what is in memory, and enqueues wait as before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ..layout import U64, Layout, Rest
from .source import RNVM
from .space import Image, Space
from .structure import Algorithm, Operation, Structure

Code = Generator[Any, Any, Any]


class QueueEnds(Layout):
    """The root: the addresses of the oldest node and of the empty one behind the newest; equal if nothing is queued."""

    head = U64()
    tail = U64()


class QueueNode(Layout):
    """An item, and the address of the node behind it."""

    behind = U64()
    item = Rest()


class ListQueue(Algorithm):
    """``enqueue`` and ``dequeue``; see the module."""

    root_bytes: ClassVar[int] = QueueEnds.size

    def __init__(self, space: Space, root: int, value_bytes: int) -> None:
        super().__init__(space, root, value_bytes)
        self.node_bytes = QueueNode.size + value_bytes

    @override
    def perform(self, operation: Operation) -> Code:
        (result,) = yield from self.perform_all((operation,))
        return result

    @override
    def perform_all(self, operations: Sequence[Operation]) -> Code:
        ends = QueueEnds.unpack((yield from self.space.read_held(self.root, QueueEnds.size)))
        results: list[bytes | None] = []
        added: deque[bytes] = deque()
        """What was enqueued in this batch and not dequeued."""
        taken: list[int] = []
        """The nodes that were there before, and are not any more."""
        head = ends.head
        for operation in operations:
            if operation.f == "enqueue":
                assert operation.value is not None
                added.append(operation.value)
                results.append(None)
            elif head != ends.tail:
                node = QueueNode.unpack((yield from self.space.read(head, self.node_bytes)))
                taken.append(head)
                results.append(node.item)
                head = node.behind
            else:
                results.append(added.popleft() if added else None)
        if added:
            yield from self._append(ends.tail, added)
        if taken:
            yield from self.space.publish(self.root, head.to_bytes(8, "little"))
        for address in taken:  # not before the head has left them: a block is used again at once
            yield from self.space.free(address, self.node_bytes)
        return results

    @override
    def take(self, waiting: list[Operation], operation: Operation) -> Code:
        ends = QueueEnds.unpack((yield from self.space.read_held(self.root, QueueEnds.size)))
        if waiting and ends.head == ends.tail:
            return waiting.pop(0).value
        return (yield from self.perform(operation))

    def _append(self, empty: int, items: Sequence[bytes] | deque[bytes]) -> Code:
        """Fill the empty node and new ones behind it, then have the tail point to the last, which is empty."""
        for item in items:
            behind = yield from self.space.allocate(self.node_bytes)
            yield from self.space.write(empty, QueueNode.pack(behind=behind, item=item))
            empty = behind
        yield from self.space.publish(self.root + QueueEnds.offset_of("tail"), empty.to_bytes(8, "little"))

    @override
    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        node_bytes = QueueNode.size + value_bytes
        head = empty = image.allocate(node_bytes)
        for item in entries.values():
            behind = image.allocate(node_bytes)
            image.put(empty, QueueNode.pack(behind=behind, item=item))
            empty = behind
        image.put(root, QueueEnds.pack(head=head, tail=empty))


class QueueStructure(Structure, name="queue"):
    """A structure with one front-end: a dequeue takes out, so nobody else only reads."""

    title = "queue, a list with head and tail"
    paper = RNVM
    section = "section 6.1"
    model = "queue"
    operations = ("enqueue", "dequeue")
    updates = frozenset({"enqueue", "dequeue"})
    algorithm = ListQueue
