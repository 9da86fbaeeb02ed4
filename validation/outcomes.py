"""What recovery and a read may bring back of an object: a tree over the lines that they look at.

Running recovery and the read asks for lines one after the other; which line comes next depends only on what the lines
before held. So the runs form a tree: a node is a line, a branch what it held, a leaf the value that was read. The tree
lasts for the whole exploration; only what no crash state had shown before is run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from ..models.views import Content, Cut, LineKey
from ..scenarios.history import Value
from .restart import Restart

Contents = Callable[[LineKey, int, Cut], Iterator[Content]]
"""All that a line may hold at an instant under a cut: one of the views."""


@dataclass(slots=True)
class _Node:
    line: LineKey | None = None
    """The line that is looked at next; None at a leaf."""
    value: Value = None
    children: dict[bytes, _Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value that may be read, and the image of the lines that were looked at on the way (in that order)."""

    value: Value
    image: tuple[tuple[LineKey, Content], ...]


class Outcomes:
    """The outcomes of one object; ``looked_at`` collects the lines that they depend on."""

    def __init__(self, object: Hashable, restart: Restart, contents: Contents, may_change: Callable[[LineKey], bool]):
        self.object = object
        self.looked_at: set[LineKey] = set()
        self._restart = restart
        self._contents = contents
        self._may_change = may_change
        self._root: _Node | None = None

    def at(self, at_ps: int) -> Iterator[Outcome]:
        """Every outcome of a power failure at ``at_ps``, image by image; lines that no write touched are left out."""
        if self._root is None:
            self._root = _Node()
            self._run(self._root, (), at_ps)
        yield from self._walk(self._root, (), {}, at_ps)

    def _walk(self, node: _Node, image: tuple[tuple[LineKey, Content], ...], cut: Cut, at_ps: int) -> Iterator[Outcome]:
        if node.line is None:
            yield Outcome(node.value, image)
            return
        for content in self._contents(node.line, at_ps, cut):
            further = (*image, (node.line, content))
            child = node.children.get(content.data)
            if child is None:
                child = node.children[content.data] = _Node()
                self._run(child, further, at_ps)
            yield from self._walk(child, further, content.cut, at_ps)

    def _run(self, node: _Node, image: tuple[tuple[LineKey, Content], ...], at_ps: int) -> None:
        """Run recovery and the read on ``image``; lines that it does not have hold the first they may."""
        known = {key: content.data for key, content in image}
        cut = image[-1][1].cut if image else {}
        met: list[tuple[LineKey, bytes]] = []

        def source(key: LineKey) -> bytes:
            nonlocal cut
            if not self._may_change(key):
                return self._restart.initial(key)
            if key not in known:
                self.looked_at.add(key)
                first = next(self._contents(key, at_ps, cut))
                cut = first.cut
                known[key] = first.data
                met.append((key, first.data))
            return known[key]

        value = self._restart.read(self.object, source)
        for key, data in met:
            node.line = key
            node.children[data] = node = _Node()
        node.value = value
