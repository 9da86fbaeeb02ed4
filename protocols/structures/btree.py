"""What the two B+trees share: nodes of sorted entries, the walk of a vector, splits, and the way up to the root.

A node is 8 bytes of head, a link, and entries of 16 bytes each: a key and a word. In an inner node the link leads to
the keys below the first entry's, and each word to those from its key on. In a leaf a word is the value, or the address
of its record where values are longer than a word.

Source: Ma et al., rNVM, 2018, section 6.2. It gives neither fan-out nor the size of an entry.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ..layout import U32, U64, WORD, Block, Layout, number_in, word_of
from ..scheme import OperationFailed
from .bulk import grown, places_of
from .loading import LoadedItems
from .space import Image, Node, Space
from .structure import Algorithm, Operation
from .vectors import Vector

Code = Generator[Any, Any, Any]


class NodeHead(Layout):
    """The first word of a node."""

    count = U32()
    level = U32()
    """0 in leaves; the root's is the highest."""


class NodeEntry(Layout):
    """A key with what it leads to."""

    key = U64()
    word = Block(WORD)


LINK = NodeHead.size
ENTRIES = LINK + WORD


def chunks(data: bytes) -> list[bytes]:
    """The entries that lie one behind the other in ``data``."""
    return [data[at : at + NodeEntry.size] for at in range(0, len(data), NodeEntry.size)]


class NodeChange(NamedTuple):
    """What happens in a node in front of the entry at index ``at``, or to that entry."""

    at: int
    replaces: bool
    """Whether it is to that entry: the word is a new one for its key, or it goes."""
    entry: bytes | None
    """The whole entry; of one that is replaced only the word counts. None: none."""


class NodeContent(NamedTuple):
    """What a node holds."""

    link: int
    entries: list[bytes]


@dataclass(slots=True, eq=False)
class NodeVisit:
    """A node that a vector came to with a segment, and what is to happen there."""

    node: Node
    count: int
    level: int
    begin: int
    end: int
    parent: NodeVisit | None
    position: int
    """Which child of its parent it is, from 0."""
    link: int | None = None
    """The new link, where it changes."""
    changes: list[NodeChange] = field(default_factory=list)
    """In the order of entries."""


Placed = list[tuple[bytes, int]]
"""The nodes that stand in the place of one: the first key of each (not of the first one), and its address."""


class BTree(Algorithm):
    """A B+tree; a subclass says how many entries a node has, and how a changed node gets into memory."""

    capacity: ClassVar[int]
    """Entries of a node: one fewer than it has children."""
    node_bytes: ClassVar[int]
    linked: ClassVar[bool]
    """Whether a leaf's link leads to the next leaf."""
    in_place: ClassVar[bool]
    """Whether a record is overwritten when its key gets a new value."""

    def __init__(self, space: Space, root: int, value_bytes: int) -> None:
        super().__init__(space, root, value_bytes)
        self.inline = value_bytes <= WORD

    @override
    def perform(self, operation: Operation) -> Code:
        """The same as a vector of one, except that its nodes are searched field by field where the space has it so."""
        (result,) = yield from self.perform_all([operation])
        return result

    @override
    def perform_all(self, operations: Sequence[Operation]) -> Code:
        vector = Vector(operations)
        if not operations:
            return vector.results
        root = number_in((yield from self.space.read(self.root, WORD)))
        levels = (yield from self._descend(vector, root)) if root else []
        gone: list[int] = []
        if levels:
            gone = yield from self._change_leaves(vector, levels[-1], len(levels))
            placed = yield from self._ascend(levels)
        else:
            placed = yield from self._plant(vector)
        if placed[0][1] != root or len(placed) > 1:
            yield from self.space.publish(self.root, word_of((yield from self._crown(placed, max(1, len(levels))))))
        for record in gone:  # not before its leaf has left it: a block is used again at once
            yield from self.space.free(record, self.value_bytes)
        return vector.results

    # down ----------------------------------------------------------------------------------------------------
    def _descend(self, vector: Vector, root: int) -> Code:
        """The visits of each level, each node read once, the nodes of a level together.

        Raises OperationFailed where a failure has left bytes that are no tree; nothing is written then.
        """
        levels: list[list[NodeVisit]] = []
        below: list[tuple[int, int, int, NodeVisit | None, int]] = [(root, 0, len(vector), None, 0)]
        while below:
            nodes = yield from self._nodes([address for address, *_ in below], len(levels), len(vector) == 1)
            visits = []
            for node, (_, begin, end, parent, position) in zip(nodes, below, strict=True):
                head = NodeHead.unpack((yield from node.load(0, NodeHead.size)))
                if head.count > self.capacity or (parent is not None and head.level != parent.level - 1):
                    raise OperationFailed(f"the tree is torn: no node of its level at {node.address:#x}")
                visits.append(NodeVisit(node, head.count, head.level, begin, end, parent, position))
            below = []
            for visit in visits:
                if visit.level:
                    below += yield from self._split(vector, visit)
            levels.append(visits)
        return levels

    def _nodes(self, addresses: Sequence[int], depth: int, alone: bool) -> Code:
        if alone:
            return [(yield from self.space.node(addresses[0], self.node_bytes, depth))]
        found = yield from self.space.read_all([(address, self.node_bytes) for address in addresses], depth)
        return [Node(self.space, address, data, depth) for address, data in zip(addresses, found, strict=True)]

    def _split(self, vector: Vector, visit: NodeVisit) -> Code:
        """Split a segment at the keys of an inner node: the children that its pieces go on to."""
        below = []
        begin = visit.begin
        while begin < visit.end:
            position, _ = yield from self._search(visit, vector.keys[begin])
            end = visit.end
            if position < visit.count and begin + 1 < end:
                bound = number_in((yield from visit.node.load(ENTRIES + NodeEntry.size * position, WORD)))
                end = bisect_left(vector.keys, bound, begin + 1, end)
            child = number_in((yield from visit.node.load(ENTRIES + NodeEntry.size * position - WORD, WORD)))
            if not child:
                raise OperationFailed(f"the tree is torn: no child {position} in the node at {visit.node.address:#x}")
            below.append((child, begin, end, visit, position))
            begin = end
        return below

    def _search(self, visit: NodeVisit, key: int) -> Code:
        """How many entries have keys up to ``key``, and whether it is among them; reads key by key, by halves."""
        low, high = 0, visit.count
        while low < high:
            middle = (low + high) // 2
            found = number_in((yield from visit.node.load(ENTRIES + NodeEntry.size * middle, WORD)))
            if found == key:
                return middle + 1, True
            if found < key:
                low = middle + 1
            else:
                high = middle
        return low, False

    # in the leaves -------------------------------------------------------------------------------------------
    def _change_leaves(self, vector: Vector, leaves: Sequence[NodeVisit], depth: int) -> Code:
        """Resolve the keys of a vector, and note what changes in each leaf; records are read together.

        Returns the records of deleted entries, unless old versions of the tree keep them.
        """
        found, gone = [], list[int]()
        for visit in leaves:
            for at in range(visit.begin, visit.end):
                position, there = yield from self._search(visit, vector.keys[at])
                word = None
                if there and (vector.asks(at) or not self.inline):
                    word = yield from visit.node.load(ENTRIES + NodeEntry.size * position - WORD, WORD)
                found.append((at, visit, position, there, word))
        values = {at: word[: self.value_bytes] for at, *_, word in found if word is not None}
        if not self.inline:
            asked = {at: number_in(word) for at, *_, word in found if word is not None and vector.asks(at)}
            ranges = [(address, self.value_bytes) for address in asked.values()]
            values = dict(zip(asked, (yield from self.space.read_all(ranges, depth)), strict=True))
        for at, visit, position, there, word in found:
            outcome = vector.resolve(at, values.get(at, b"") if there else None)
            if not outcome.written or (outcome.value is None and not there):
                continue
            if outcome.value is not None and word is not None and not self.inline and self.in_place:
                yield from self.space.write(number_in(word), outcome.value)
                continue
            entry = None if outcome.value is None else (yield from self._entry(vector.keys[at], outcome.value))
            visit.changes.append(NodeChange(position - there, there, entry))
            if outcome.value is None and word is not None and not self.inline and self.in_place:
                gone.append(number_in(word))
        return gone

    def _entry(self, key: int, value: bytes) -> Code:
        """A leaf's entry for a value, which is written to a record of its own if it is longer than a word."""
        word = value
        if not self.inline:
            record = yield from self.space.allocate(self.value_bytes)
            yield from self.space.write(record, value)
            word = word_of(record)
        return NodeEntry.pack(key=key, word=word)

    def _plant(self, vector: Vector) -> Code:
        """The leaves of a tree that had none."""
        entries = []
        for key, value, _ in vector.added(0, len(vector)):
            entries.append((yield from self._entry(key, value)))
        return (yield from self._add(0, NodeContent(0, entries))) if entries else [(b"", 0)]

    # up ------------------------------------------------------------------------------------------------------
    def _ascend(self, levels: Sequence[Sequence[NodeVisit]]) -> Code:
        """Place the changed nodes of all levels from the leaves up; what stands in the root's place then."""
        placed: Placed = []
        for visits in reversed(levels):
            for visit in visits:
                placed = [(b"", visit.node.address)]
                if visit.changes or visit.link is not None:
                    placed = yield from self._place(visit)
                if visit.parent is not None:
                    _pass_up(visit.parent, visit.position, placed, visit.node.address)
        return placed

    @abstractmethod
    def _place(self, visit: NodeVisit) -> Code:
        """Write a node with its changes; what stands in its place then (:data:`Placed`)."""

    def _crown(self, placed: Placed, level: int) -> Code:
        """Add levels on top until one node is left; its address."""
        while len(placed) > 1:
            entries = [key + word_of(address) for key, address in placed[1:]]
            placed = yield from self._add(level, NodeContent(placed[0][1], entries))
            level += 1
        return placed[0][1]

    def _add(self, level: int, content: NodeContent) -> Code:
        """Write new nodes for a content, however long."""
        return (yield from self._write_new(level, split(level, content, self.capacity)))

    def _write_new(self, level: int, pieces: Sequence[tuple[bytes, NodeContent]], link: int = 0) -> Code:
        """Write new nodes, the last first; ``link`` is that of the last one, if they are leaves."""
        placed: Placed = []
        for key, (inner_link, entries) in reversed(pieces):
            address = yield from self.space.allocate(self.node_bytes)
            yield from self.space.write(address, self.packed(level, inner_link if level else link, entries))
            placed.append((key, address))
            link = address if self.linked else 0
        return placed[::-1]

    @classmethod
    def packed(cls, level: int, link: int, entries: Sequence[bytes]) -> bytes:
        """A node's bytes, as far as they have a meaning."""
        return NodeHead.pack(count=len(entries), level=level) + word_of(link) + b"".join(entries)

    # before time zero ----------------------------------------------------------------------------------------
    @override
    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        """The very tree that inserting the entries one by one makes; the nodes of a level lie in the order of keys."""
        keys = array("Q", entries)
        levels = grown(keys.tobytes(), cls.capacity) if keys else ()
        word: Callable[[int], bytes] = entries.__getitem__
        if value_bytes > WORD and keys:
            places = places_of(keys.tobytes())
            records = LoadedItems(image, len(keys), value_bytes)
            records.compute(image, lambda number: entries[keys[number]])
            word = lambda key: word_of(records[places[key]])  # noqa: E731
        below: LoadedItems | None = None
        for level, nodes in enumerate(levels):
            below = cls._load_level(image, level, nodes, word, below)
        image.put(root, word_of(below[0] if below is not None else 0))

    @classmethod
    def _load_level(
        cls,
        image: Image,
        level: int,
        nodes: Sequence[array[int]],
        word: Callable[[int], bytes],
        below: LoadedItems | None,
    ) -> LoadedItems:
        """Put the nodes of a level into an image, given their keys; the children of a node are the next ones below."""
        items = LoadedItems(image, len(nodes), cls.node_bytes)
        first = [0, *accumulate(len(keys) + 1 for keys in nodes)]  # of each node's children below

        def node(number: int) -> bytes:
            keys = nodes[number]
            if below is None:
                link = items[number + 1] if cls.linked and number + 1 < len(nodes) else 0
                return cls.packed(0, link, [NodeEntry.pack(key=key, word=word(key)) for key in keys])
            children = enumerate(keys, first[number] + 1)
            entries = [NodeEntry.pack(key=key, word=word_of(below[child])) for child, key in children]
            return cls.packed(level, below[first[number]], entries)

        items.compute(image, node)
        return items


def split(level: int, content: NodeContent, capacity: int) -> list[tuple[bytes, NodeContent]]:
    """The least number of nodes that have room for a content, evenly filled, each with the key that leads to it.

    In a leaf that is the key of its first entry; in an inner node it is taken out of the entries.
    """
    link, entries = content
    lifted = 1 if level else 0
    pieces = max(1, -(-(len(entries) + lifted) // (capacity + lifted)))
    each, rest = divmod(len(entries) - lifted * (pieces - 1), pieces)
    found, key, at = [], b"", 0
    for piece in range(pieces):
        if piece:
            key = entries[at][:WORD]
            link = number_in(entries[at][WORD:])
            at += lifted
        size = each + (piece < rest)
        found.append((key, NodeContent(link if level else 0, entries[at : at + size])))
        at += size
    return found


def merged(old: Sequence[bytes], first: int, changes: Sequence[NodeChange]) -> list[bytes]:
    """The entries from index ``first`` on, which were ``old``, after changes at ``first`` or later."""
    new: list[bytes] = []
    done = 0
    for at, replaces, entry in changes:
        new += old[done : at - first]
        done = at - first
        if entry is not None:
            new.append(old[done][:WORD] + entry[WORD:] if replaces else entry)
        done += replaces
    return [*new, *old[done:]]


def _pass_up(parent: NodeVisit, position: int, placed: Placed, before: int) -> None:
    """Note in an inner node what stands in the place of a child."""
    address = placed[0][1]
    if address != before and position:
        parent.changes.append(NodeChange(position - 1, True, NodeEntry.pack(key=0, word=word_of(address))))
    elif address != before:
        parent.link = address
    for key, sibling in placed[1:]:
        parent.changes.append(NodeChange(position, False, key + word_of(sibling)))
