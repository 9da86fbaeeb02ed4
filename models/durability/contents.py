"""The contents that a line of memory may have: pieces of writes, all of them, some, or some words of one.

:mod:`.survivors` says which of it a power failure may leave; here are the parts that it speaks of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Generic, TypeVar

from ...sim.trace import NEVER, Chunk

LineKey = tuple[int, int]
"""(device number, line number within the device)."""

WORD_BYTES = 8


@dataclass(slots=True, eq=False)
class Piece:
    """The part of a chunk that lies in one line."""

    chunk: Chunk
    line: int
    start: int
    data: bytes
    tied: bool
    """Whether the survivors of its channel are a prefix of all that the channel carried."""
    enters_ps: int
    """From when on it may survive."""
    must_ps: int
    """From when on it certainly survives."""
    timed_ps: int
    """From when on it survived in this timing."""
    group: int
    """The group whose survivors in one line are a prefix: its channel, or the chunk alone (below 0) if that is
    loose.
    """

    _words: tuple[tuple[int, int], ...] = field(default=(), init=False, repr=False)

    def words(self) -> tuple[tuple[int, int], ...]:
        """The aligned 8-byte words that it touches, as ranges within the line."""
        if not self._words:
            end = self.start + len(self.data)
            starts = range(self.start // WORD_BYTES * WORD_BYTES, end, WORD_BYTES)
            self._words = tuple((max(self.start, at), min(end, at + WORD_BYTES)) for at in starts)
        return self._words

    def apply(self, content: bytearray, words: Iterable[tuple[int, int]] | None = None) -> None:
        """Write it (or just these words of it) into a line."""
        for start, end in words if words is not None else ((self.start, self.start + len(self.data)),):
            content[start:end] = self.data[start - self.start : end - self.start]


# The tuples below are made by the million, and no code changes them: to enforce that would double their price.
Cut = Mapping[int, tuple[int, int]]
"""By channel: how many of its chunks survive, at least and at most, as far as it has been decided."""


@dataclass(slots=True)
class Content:
    """One thing that a line may hold: the bytes, the cut that goes with it, and what did not make it."""

    data: bytes
    cut: Cut
    absent: tuple[Piece, ...]
    torn: Piece | None = None

    @property
    def is_less(self) -> bool:
        """Whether the bytes would be others if all had made it: what is not there may be what was there before."""
        data = bytearray(self.data)
        for piece in (*self.absent, *((self.torn,) if self.torn else ())):
            piece.apply(data)
        return data != self.data


@dataclass(slots=True)
class TornLine:
    """All that a line may hold with one of its pieces torn: any of its words but not none and not all of them."""

    without: Content
    """Where none of the words has made it."""
    words: tuple[tuple[int, int], ...]
    """The words as ranges within the line."""
    there: bytes
    """The line where all of them have made it."""

    def written_out(self) -> Iterator[Content]:
        """One after the other, those with fewest words first."""
        numbers = range(len(self.words))
        for count in range(1, len(self.words)):
            for chosen in combinations(numbers, count):
                yield self.content(sum(1 << number for number in chosen))

    def content(self, chosen: int) -> Content:
        """Where the words whose bits are set in ``chosen`` have made it."""
        data = bytearray(self.without.data)
        for turn, (start, end) in enumerate(self.words):
            if chosen >> turn & 1:
                data[start:end] = self.there[start:end]
        return Content(bytes(data), self.without.cut, self.without.absent, self.without.torn)


@dataclass(slots=True)
class Extent:
    """How much of one group's pieces a line has."""

    count: int
    torn: Piece | None = None
    words: tuple[tuple[int, int], ...] = ()
    span: tuple[int, int] | None = None
    any_words: bool = False
    """Some of its words, but not none and not all of them."""

    @property
    def tears(self) -> bool:
        """Whether it leaves a piece of this line torn (a chunk of several lines may be torn elsewhere)."""
        return self.torn is not None and len(self.words) < len(self.torn.words())


Chosen = Mapping[int, Extent]
"""By group: how much of it a line has."""


def combine(options: list[list[Extent]], tears: int) -> Iterator[tuple[Extent, ...]]:
    """One option of each group, just so many of them torn ones."""
    if not options:
        if not tears:
            yield ()
        return
    for option in options[0]:
        if option.tears <= tears:
            for rest in combine(options[1:], tears - option.tears):
                yield (option, *rest)


_NOTHING: frozenset[Chunk] = frozenset()


def any_unreleased(present: Iterable[Piece], missing: Sequence[Piece], shown: Mapping[int, frozenset[Chunk]]) -> bool:
    """Whether one of a line's pieces is there although one that it is behind is not, or not whole.

    ``shown`` has the chunks that a chunk is behind, beside its release edges, by its number.
    """
    absent = {piece.chunk for piece in missing} if shown else ()
    if absent and any(not shown.get(piece.chunk.number, _NOTHING).isdisjoint(absent) for piece in present):
        return True
    lacking: dict[int, int] = {}
    for piece in missing:
        lacking[piece.chunk.channel] = min(piece.chunk.position, lacking.get(piece.chunk.channel, NEVER))
    return any(lacking.get(channel, NEVER) < count for piece in present for channel, count in piece.chunk.behind)


_T = TypeVar("_T")


class Remembered(Generic[_T]):
    """An iterator's items, made once and only as far as they are needed."""

    def __init__(self, items: Iterator[_T]) -> None:
        self._made: list[_T] = []
        self._rest = items

    def __iter__(self) -> Iterator[_T]:
        turn = 0
        while True:
            if turn == len(self._made):
                following = next(self._rest, None)
                if following is None:
                    return
                self._made.append(following)
            yield self._made[turn]
            turn += 1
