"""What recovery and a read may bring back of an object: a tree over the lines that they look at.

Running recovery and the read asks for lines one after the other; which line comes next depends only on what the lines
before held. So the runs form a tree: a node is a line, a branch what it held, a leaf the value that was read. The tree
lasts for the whole exploration; only what no crash state had shown before is run.

Where code compares a range with a checksum, a node is the comparison and its branches are what it may find: every image
that matches, and "no match" once, since code that finds no match does not look at the bytes. If it does look after all,
the comparison is given up and the range's lines are nodes like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from ...models.durability.views import Content, Cut, LineKey
from ...scenarios.history import Value
from .checksums import Check, Decided, Families, Guarded
from .restart import Decide, Source

Contents = Callable[[LineKey, int, Cut], Iterator[Content]]
"""All that a line may hold at an instant under a cut: one of the views."""


@dataclass(slots=True)
class Remains:
    """What a power failure at an instant may have left: all that each line may hold, under a cut; nobody changes it."""

    contents: Contents
    families: Families
    """The same with torn pieces not written out."""
    at_ps: int
    compared: Callable[[Guarded], Families] | None = None
    """The same for a comparison, where what the lines hold hangs on what they are asked for."""

    def images(self, check: Check, cut: Cut) -> Iterator[Decided]:
        """What a comparison may find."""
        families = self.families if self.compared is None else self.compared(check.guarded)
        return check.images(families, self.at_ps, cut)


class RecoveryReader(Protocol):
    """Runs recovery and the read: :class:`.restart.Restart`, or what stands for it."""

    def initial(self, key: LineKey) -> bytes:
        """What a line held at time zero."""

    def read(self, object: Hashable, source: Source, *, decide: Decide | None = None) -> Any:
        """What is read of ``object`` where lines are as ``source`` says."""


@dataclass(slots=True)
class _Node:
    line: LineKey | Check | None = None
    """The line or the comparison that comes next; None at a leaf."""
    value: Any = None
    children: dict[Hashable, _Node] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """A value that may be read, and the image of the lines that were looked at on the way (in that order).

    Nobody changes one. They are made by the million, and to enforce it would double their price.
    """

    value: Value
    image: tuple[tuple[LineKey, Content], ...]
    matched: tuple[Guarded, ...] = ()
    """The checksums that were compared on the way and matched."""

    def reading(self, value: Value) -> Outcome:
        """The same image, of which something else is read."""
        return Outcome(value, self.image, self.matched)


@dataclass(slots=True)
class _Way:
    """What the lines and comparisons held on the way to a node."""

    image: list[tuple[LineKey, Content]]
    verdicts: dict[Guarded, bool]
    cut: Cut


class _LookedAt(Exception):
    """The bytes of a range matter although its checksum did not match."""

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(guarded)
        self.guarded = guarded


class Outcomes:
    """The outcomes of one object; ``looked_at`` collects the lines that they depend on, in the order of finding out.

    ``families`` is the same view as ``contents`` with torn pieces not written out.
    """

    def __init__(
        self,
        object: Hashable,
        restart: RecoveryReader,
        contents: Contents,
        may_change: Callable[[LineKey], bool],
        families: Families | None = None,
    ):
        self.object = object
        self.looked_at: dict[LineKey, None] = {}
        self._restart = restart
        self._contents = contents
        self._families: Families = families if families is not None else contents
        self._may_change = may_change
        self._root: _Node | None = None
        self._plain: set[Guarded] = set()
        """Ranges of which the bytes matter."""

    def at(self, at_ps: int) -> Iterator[Outcome]:
        """Every outcome of a power failure at ``at_ps``, image by image; lines that no write touched are left out.

        Once it turns out that a comparison's bytes matter, outcomes that were met before may come again.
        """
        return self.after(Remains(self._contents, self._families, at_ps))

    def after(self, left: Remains) -> Iterator[Outcome]:
        """The same of whatever a failure may have left: a run depends on the bytes alone that it finds."""
        return self.of(left)

    def of(self, left: Remains) -> Iterator[Outcome]:
        """The outcomes if power does not fail again."""
        while True:
            try:
                if self._root is None:
                    root = _Node()
                    self._run(root, _Way([], {}, {}), left)
                    self._root = root  # not before: a run that is cut short has shown nothing
                yield from self._walk(self._root, left)
            except _LookedAt as found:
                self.give_up(found.guarded)
                continue
            return

    def give_up(self, guarded: Guarded) -> None:
        """The bytes of a range matter: whoever compares it looks at its lines from now on."""
        self._plain.add(guarded)
        self._root = None

    def _walk(self, root: _Node, left: Remains) -> Iterator[Outcome]:
        """Every leaf that the remains lead to, depth first."""
        forks: list[Iterator[tuple[_Node, _Way]]] = []
        node, way = root, _Way([], {}, {})
        contents_of, at_ps = left.contents, left.at_ps
        while True:
            line = node.line
            while line is not None:
                if isinstance(line, Check):
                    forks.append(self._compared(node, line, way, left))
                    break
                contents = contents_of(line, at_ps, way.cut)
                content = next(contents)
                other = next(contents, None)
                if other is not None:
                    forks.append(self._further(node, line, chain((content, other), contents), way, left))
                    break
                way.image.append((line, content))
                way.cut = content.cut
                node = node.children.get(content.data) or self._grown(node, content.data, way, left)
                line = node.line
            else:
                matched = tuple(each for each, matches in way.verdicts.items() if matches) if way.verdicts else ()
                yield Outcome(node.value, tuple(way.image), matched)
            while forks:  # the next branch of the last fork that has one
                branch = next(forks[-1], None)
                if branch is not None:
                    node, way = branch
                    break
                forks.pop()
            else:
                return

    def _further(
        self, node: _Node, line: LineKey, contents: Iterable[Content], way: _Way, left: Remains
    ) -> Iterator[tuple[_Node, _Way]]:
        """The branches of a node that is a line."""
        image, verdicts, children = way.image, way.verdicts, node.children
        for each in contents:
            further = _Way([*image, (line, each)], verdicts, each.cut)
            yield children.get(each.data) or self._grown(node, each.data, further, left), further

    def _compared(self, node: _Node, check: Check, way: _Way, left: Remains) -> Iterator[tuple[_Node, _Way]]:
        """The branches of a node that is a comparison."""
        for found in left.images(check, way.cut):
            name = (True, *(content.data for content in found.contents)) if found.matches else (False,)
            image = [*way.image, *zip(check.keys, found.contents, strict=True)]
            further = _Way(image, way.verdicts | {check.guarded: found.matches}, found.cut)
            yield node.children.get(name) or self._grown(node, name, further, left), further

    def _grown(self, node: _Node, name: Hashable, way: _Way, left: Remains) -> _Node:
        """A branch that nobody has been on, by a run."""
        child = _Node()
        self._run(child, way, left)
        node.children[name] = child
        return child

    def _run(self, node: _Node, way: _Way, left: Remains) -> None:
        """Run recovery and the read on an image; lines that it does not have hold the first they may."""
        known = {key: content.data for key, content in way.image}
        cut, verdicts = way.cut, dict(way.verdicts)
        unread = {key: guarded for guarded, matches in verdicts.items() if not matches for key in guarded.line_keys()}
        met: list[tuple[LineKey | Check, Hashable]] = []
        touched: set[LineKey] = set()
        touch, may_change, initial = touched.add, self._may_change, self._restart.initial

        def source(key: LineKey) -> bytes:
            nonlocal cut
            if unread and key in unread:
                raise _LookedAt(unread[key])
            touch(key)
            data = known.get(key)
            if data is None:
                if not may_change(key):
                    return initial(key)
                self.looked_at[key] = None
                first = next(left.contents(key, left.at_ps, cut))
                cut = first.cut
                data = known[key] = first.data
                met.append((key, data))
            return data

        def decide(guarded: Guarded) -> bool | None:
            """Whether a range has its checksum, as long as nobody has loaded or changed any of it."""
            nonlocal cut
            lines = guarded.line_keys()
            if not touched.isdisjoint(lines) or guarded in self._plain:
                return None
            if guarded in verdicts:
                return verdicts[guarded]
            keys = [key for key in lines if self._may_change(key)]
            if not keys or any(key in known or key in unread for key in lines):
                return None
            self.looked_at.update(dict.fromkeys(keys))
            check = Check(guarded, keys, self._restart.initial)
            first = next(left.images(check, cut))
            cut = first.cut
            verdicts[guarded] = first.matches
            if first.matches:
                known.update(zip(keys, (content.data for content in first.contents), strict=True))
            else:
                unread.update(dict.fromkeys(lines, guarded))
            met.append((check, (first.matches, *(content.data for content in first.contents if first.matches))))
            return first.matches

        value = self._restart.read(self.object, source, decide=decide)
        for line, name in met:
            node.line = line
            node.children[name] = node = _Node()
        node.value = value


class OutcomesElsewhere:
    """The outcomes of an object where lines hold something else: what was run before is not run again."""

    def __init__(self, tree: Outcomes, contents: Contents, families: Families) -> None:
        self._tree = tree
        self._contents = contents
        self._families = families

    def at(self, at_ps: int) -> Iterator[Outcome]:
        """As :meth:`Outcomes.at`."""
        return self._tree.after(Remains(self._contents, self._families, at_ps))
