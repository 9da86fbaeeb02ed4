"""The B+tree of rNVM: small nodes, changed in place."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ..layout import WORD, number_in
from .btree import (
    ENTRIES,
    LINK,
    BTree,
    NodeChange,
    NodeContent,
    NodeEntry,
    NodeHead,
    NodeVisit,
    chunks,
    merged,
    split,
)
from .trees import TreeStructure

Code = Generator[Any, Any, Any]


class Bpt(BTree):
    """An insert shifts the entries behind it by one write, and then counts them: in between an entry is out of sight.

    A node that is too full keeps the first part of its entries; its new siblings are written before. An entry may go
    again (TATP deletes rows); a leaf that gets empty stays ("free at empty" is for those that reclaim; Johnson and
    Shasha, PODS'89).
    """

    FAN_OUT: ClassVar[int] = 16
    """Children of a node. Fitted, as the paper does not say it, to the 86.96 us of an insert into the naive B+tree
    (table 3): keys are read one by one, since reading whole nodes would make it faster than the binary tree. In a tree
    of 300,000 keys 16 children take 45.7 reads and 2.3 writes, 12 take 42.2 and 32 take 60.6 reads; a search by halves
    takes 27 to 34, whatever their number."""

    capacity = FAN_OUT - 1
    node_bytes = ENTRIES + NodeEntry.size * capacity
    linked = True
    in_place = True

    @override
    def _search(self, visit: NodeVisit, key: int) -> Code:
        """From the first key on: nodes are small."""
        for index in range(visit.count):
            found = number_in((yield from visit.node.load(ENTRIES + NodeEntry.size * index, WORD)))
            if found >= key:
                return index + (found == key), found == key
        return visit.count, False

    @override
    def _place(self, visit: NodeVisit) -> Code:
        address, changes = visit.node.address, visit.changes
        moving = next((n for n, one in enumerate(changes) if not (one.replaces and one.entry)), len(changes))
        for at, _, entry in changes[:moving]:
            assert entry is not None
            yield from self.space.write(address + ENTRIES + NodeEntry.size * at + WORD, entry[WORD:])
        if moving == len(changes):
            return [(b"", address)]
        first = changes[moving].at
        new = merged((yield from self._entries(visit, first, visit.count)), first, changes[moving:])
        if first + len(new) > self.capacity:
            return (yield from self._split_node(visit, changes[:moving], first, new))
        yield from self._rewrite(visit, first, new)
        yield from self.space.write(address, NodeHead.pack(count=first + len(new), level=visit.level))
        return [(b"", address)]

    def _entries(self, visit: NodeVisit, first: int, end: int) -> Code:
        """The entries of a node from one index up to another."""
        if first == end:
            return []
        return chunks((yield from visit.node.load(ENTRIES + NodeEntry.size * first, NodeEntry.size * (end - first))))

    def _rewrite(self, visit: NodeVisit, first: int, entries: list[bytes]) -> Code:
        """Write the entries of a node from an index on."""
        if entries:
            yield from self.space.write(visit.node.address + ENTRIES + NodeEntry.size * first, b"".join(entries))

    def _split_node(self, visit: NodeVisit, written: Sequence[NodeChange], first: int, new: list[bytes]) -> Code:
        """Write the new siblings of a node, and what it keeps; its entries from ``first`` on are ``new``, of those
        before some are ``written`` by now.
        """
        link = number_in((yield from visit.node.load(LINK, WORD)))
        head = merged((yield from self._entries(visit, 0, first)), 0, written)
        own, *others = split(visit.level, NodeContent(link, head + new), self.capacity)
        placed = yield from self._write_new(visit.level, others, link)
        entries = own[1].entries
        yield from self._rewrite(visit, first, entries[first:])
        own_link = link if visit.level else placed[0][1]
        yield from self.space.write(visit.node.address, self.packed(visit.level, own_link, entries)[:ENTRIES])
        return [(b"", visit.node.address), *placed]


class BptStructure(TreeStructure, name="bpt"):
    """Keys are objects; a client's walk reads nodes key by key where the mode has it so."""

    title = "B+tree, changed in place"
    section = "section 6.2"
    algorithm = Bpt
