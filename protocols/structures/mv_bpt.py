"""The multi-version B+tree of rNVM: an append-only tree, whose pages never change."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ..layout import WORD, number_in
from .btree import ENTRIES, BTree, NodeContent, NodeEntry, NodeVisit, chunks, merged
from .trees import TreeStructure

Code = Generator[Any, Any, Any]


class MvBpt(BTree):
    """Each page on the way to a change is copied whole, once a vector; the root is switched when all copies are there.

    Source: Ma et al., rNVM, 2018, section 9.1, after the append-only B-trees that it cites (CouchDB; Hedenfalk's of
    ldapd), in pages of 4 KiB. Leaves have no links, since a copy of one would need a copy of its neighbour; pages of
    old versions stay: the paper frees none.
    """

    PAGE_BYTES: ClassVar[int] = 4096
    """``PAGESIZE`` in ldapd's btree.c (OpenBSD)."""

    capacity = (PAGE_BYTES - ENTRIES) // NodeEntry.size
    node_bytes = PAGE_BYTES
    page_bytes = PAGE_BYTES
    shared_by = "order"
    linked = False
    in_place = False

    @override
    def _place(self, visit: NodeVisit) -> Code:
        data = yield from visit.node.load(0, self.node_bytes)
        link = number_in(data[ENTRIES - WORD : ENTRIES]) if visit.link is None else visit.link
        entries = chunks(data[ENTRIES : ENTRIES + NodeEntry.size * visit.count])
        content = NodeContent(link, merged(entries, 0, visit.changes))
        return (yield from self._add(visit.level, content))

    @override
    @classmethod
    def packed(cls, level: int, link: int, entries: Sequence[bytes]) -> bytes:
        return super().packed(level, link, entries).ljust(cls.node_bytes, b"\0")


class MvBptStructure(TreeStructure, name="mv-bpt"):
    """Keys are objects; readers take a root, and walk a version that nobody changes."""

    title = "multi-version B+tree, by copies of pages"
    section = "section 9.1"
    algorithm = MvBpt
