"""Which of all that some lines may hold together has a given CRC32: decided exactly, without writing it all out.

A checksum that guards n words has to tell 2 to the n torn images apart, and a verdict must not rest on having looked
at some of them. CRC32 is linear over GF(2) up to a constant: what a word's arrival does to it is the same number
whatever the other words hold. So "which of the words must be there for the checksum to match" is a system of linear
equations with 32 rows; its solutions are all the images that match, most often one, and none is left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import NamedTuple

from ...models.durability.views import Content, Cut, LineKey, TornLine
from ...sim.bytespace import LINE_BYTES, lines

Families = Callable[[LineKey, int, Cut], Iterator[Content | TornLine]]
"""All that a line may hold at an instant under a cut, torn pieces not written out."""

SYSTEMS_AT_MOST = 1024
"""Up to how many systems of equations are solved for one comparison; else all images are gone through."""

_ONES = 0xFFFFFFFF


class Guarded(NamedTuple):
    """A range of a device that code compares with a CRC32."""

    device: int
    offset: int
    length: int
    expected: int

    def line_keys(self) -> list[LineKey]:
        """Its lines."""
        return [(self.device, line) for line in lines(self.offset, self.length)]

    def part(self, key: LineKey) -> slice:
        """What of a line belongs to it."""
        start = key[1] * LINE_BYTES
        return slice(max(0, self.offset - start), min(LINE_BYTES, self.offset + self.length - start))

    def matches(self, image: Iterable[tuple[LineKey, bytes]]) -> bool:
        """Whether an image of all its lines, in their order, has the checksum."""
        return zlib.crc32(b"".join(data[self.part(key)] for key, data in image)) == self.expected


@dataclass(slots=True)
class Decided:
    """An image of the lines that may change, whether the checksum matches, and the cut that goes with it."""

    matches: bool
    contents: tuple[Content, ...]
    cut: Cut


class Check:
    """A checksum that is compared: ``keys`` are its lines that may change, ``fixed`` shows the others."""

    def __init__(self, guarded: Guarded, keys: Sequence[LineKey], fixed: Callable[[LineKey], bytes]) -> None:
        self.guarded = guarded
        self.keys = tuple(keys)
        end = guarded.offset + guarded.length
        turns = {key: turn for turn, key in enumerate(self.keys)}
        self._parts: list[tuple[int, slice, bytes]] = []
        """Of each of its lines, in order: which of ``keys`` it is (-1: none), what of it belongs to the range, and what
        that part holds if it cannot change."""
        self._own: list[tuple[slice, int]] = [(slice(0), 0)] * len(self.keys)
        """Of each of ``keys``: what of the line belongs to the range, and how many bytes of the range are behind it."""
        for key in guarded.line_keys():
            turn, part = turns.get(key, -1), guarded.part(key)
            if turn < 0:
                self._parts.append((-1, part, fixed(key)[part]))
            else:
                self._parts.append((turn, part, b""))
                self._own[turn] = part, end - (key[1] * LINE_BYTES + part.stop)

    def images(self, families: Families, at_ps: int, cut: Cut) -> Iterator[Decided]:
        """For every cut that the lines may decide: all the images that match, and one that does not, if there is one.

        The first is what the lines hold if nothing unforced moved. Of those that do not match there may be more.
        """
        for alternatives, final in self._by_cut(families, self.keys, at_ps, cut):
            chosen = [_Line(items) for items in alternatives]
            first = tuple(line.first for line in chosen)
            matches = self._matches(first)
            yield Decided(matches, first, final)
            if all(line.single for line in chosen):
                continue
            cubes = [line.cubes() for line in chosen]
            if prod(map(len, cubes)) > SYSTEMS_AT_MOST:
                for image in islice(_all_of(chosen), 1, None):
                    yield Decided(self._matches(image), image, final)
                continue
            if matches:
                other = next((image for image in _all_of(chosen) if not self._matches(image)), None)
                if other is not None:
                    yield Decided(False, other, final)
            seen = {tuple(content.data for content in first)} if matches else set()
            for image in self._solutions(cubes):
                data = tuple(content.data for content in image)
                if data not in seen:
                    seen.add(data)
                    yield Decided(True, image, final)

    def others(self, families: Families, at_ps: int, cut: Cut, decided: Cut) -> Iterator[tuple[Content, ...]]:
        """All images that do not match and decide this about other lines, each once."""
        seen: set[tuple[bytes, ...]] = set()
        for alternatives, final in self._by_cut(families, self.keys, at_ps, cut):
            if final != decided:
                continue
            for image in _all_of([_Line(items) for items in alternatives]):
                data = tuple(content.data for content in image)
                if data not in seen and not self._matches(image):
                    seen.add(data)
                    yield image

    def _by_cut(
        self, families: Families, keys: Sequence[LineKey], at_ps: int, cut: Cut
    ) -> Iterator[tuple[list[list[Content | TornLine]], Cut]]:
        """What each line may hold, so that any of one goes with any of another: apart by the cuts that they decide."""
        if not keys:
            yield [], cut
            return
        groups: dict[tuple[tuple[int, tuple[int, int]], ...], tuple[Cut, list[Content | TornLine]]] = {}
        for item in families(keys[0], at_ps, cut):
            own = item.without.cut if isinstance(item, TornLine) else item.cut
            name = tuple(sorted(own.items())) if own else ()
            group = groups.get(name)
            if group is None:
                groups[name] = own, [item]
            else:
                group[1].append(item)
        for own, items in groups.values():
            for others, final in self._by_cut(families, keys[1:], at_ps, own):
                yield [items, *others], final

    def _matches(self, contents: Sequence[Content]) -> bool:
        return self._sum([content.data for content in contents]) == self.guarded.expected

    def _sum(self, image: Sequence[bytes]) -> int:
        """The checksum of the range where ``keys`` hold this."""
        return zlib.crc32(b"".join([image[turn][part] if turn >= 0 else rest for turn, part, rest in self._parts]))

    def _effects(self, turn: int, deltas: Iterable[bytes]) -> Iterator[int]:
        """What it does to the checksum to flip these bits of a line."""
        part, behind = self._own[turn]
        rest = bytes(behind)
        return (zlib.crc32(delta[part] + rest, _ONES) ^ _ONES for delta in deltas)

    def _solutions(self, cubes: Sequence[Sequence[_Cube]]) -> Iterator[tuple[Content, ...]]:
        """All images that match: a system of equations for each choice of one cube a line."""
        for some in product(*cubes):
            found = self._sum([cube.base for cube in some])
            effects = [effect for turn, cube in enumerate(some) for effect in self._effects(turn, cube.deltas)]
            for bits in solutions(effects, found ^ self.guarded.expected):
                contents, rest = [], bits
                for cube in some:
                    content = cube.content(rest & ((1 << len(cube.deltas)) - 1))
                    rest >>= len(cube.deltas)
                    if content is None:
                        break
                    contents.append(content)
                else:
                    yield tuple(contents)


class _Cube:
    """What a line may hold that is any sum of ``base`` and some ``deltas``, but for corners that it may not."""

    def __init__(self, item: Content | TornLine, whole: Mapping[bytes, Content]) -> None:
        self._item = item
        self._whole = whole
        self._words: list[int] = []
        """The torn piece's words that change anything, by their numbers."""
        self._idle = 0
        """One that changes nothing, as a bit."""
        self.deltas: list[bytes] = []
        if isinstance(item, Content):
            self.base = item.data
            return
        self.base = item.without.data
        for turn, (start, end) in enumerate(item.words):
            delta = int.from_bytes(self.base[start:end]) ^ int.from_bytes(item.there[start:end])
            if delta:
                self._words.append(turn)
                self.deltas.append(bytes(start) + delta.to_bytes(end - start) + bytes(LINE_BYTES - end))
            else:
                self._idle = 1 << turn

    @property
    def corners(self) -> tuple[bytes, bytes]:
        """What the line holds with none and with all of the words."""
        return (self.base, self._item.there) if isinstance(self._item, TornLine) else (self.base, self.base)

    def content(self, bits: int) -> Content | None:
        """The content with these deltas; None where the piece would not be torn, and nothing else gives these bytes."""
        if isinstance(self._item, Content):
            return self._item
        chosen = sum(1 << word for turn, word in enumerate(self._words) if bits >> turn & 1)
        none_or_all = bits in (0, (1 << len(self._words)) - 1)
        if none_or_all:
            data = self._item.content(chosen).data
            if data in self._whole:
                return self._whole[data]
            if not self._idle:
                return None
            chosen |= self._idle if bits == 0 else 0
        return self._item.content(chosen)


class _Line:
    """All that one line may hold under one cut."""

    def __init__(self, items: Sequence[Content | TornLine]) -> None:
        head = items[0]
        self._items = items
        self.first = head if isinstance(head, Content) else next(head.written_out())
        self.single = len(items) == 1 and isinstance(head, Content)

    def cubes(self) -> list[_Cube]:
        """The same, as few cubes."""
        whole: dict[bytes, Content] = {}
        for item in self._items:
            if isinstance(item, Content):
                whole.setdefault(item.data, item)
        torn = [_Cube(item, whole) for item in self._items if isinstance(item, TornLine)]
        if not torn and len(whole) == 2:  # there or not: a single delta
            before, after = whole.values()
            return [_Cube(TornLine(before, ((0, LINE_BYTES),), after.data), whole)]
        corners = {corner for cube in torn for corner in cube.corners}
        return [*torn, *(_Cube(content, {}) for data, content in whole.items() if data not in corners)]

    def all(self) -> Iterator[Content]:
        """One after the other."""
        for item in self._items:
            yield from (item,) if isinstance(item, Content) else item.written_out()


def _all_of(chosen: Sequence[_Line]) -> Iterator[tuple[Content, ...]]:
    if not chosen:
        yield ()
        return
    for content in chosen[0].all():
        for others in _all_of(chosen[1:]):
            yield content, *others


def solutions(effects: Sequence[int], target: int) -> Iterator[int]:
    """All sets of ``effects``, as bits, whose exclusive or is ``target``."""
    basis: dict[int, tuple[int, int]] = {}  # by highest bit: a number, and the set whose sum it is
    empty: list[int] = []  # sets whose sum is zero, none a sum of others
    for turn, effect in enumerate(effects):
        rest, chosen = _reduced(effect, 1 << turn, basis)
        if rest:
            basis[rest.bit_length()] = rest, chosen
        else:
            empty.append(chosen)
    rest, chosen = _reduced(target, 0, basis)
    if rest:
        return
    yield chosen
    for turn in range(1, 1 << len(empty)):  # each differs from the one before by one of them (a Gray code)
        chosen ^= empty[(turn & -turn).bit_length() - 1]
        yield chosen


def _reduced(number: int, chosen: int, basis: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    while number and (known := basis.get(number.bit_length())) is not None:
        number, chosen = number ^ known[0], chosen ^ known[1]
    return number, chosen
