"""What a line of memory may hold: pieces of writes, all of them, some, or some words of one.

:mod:`.views` says which of it a power failure may leave; here are the parts that it speaks of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from ..sim.trace import Chunk

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
    """What survives of its channel is a prefix of all that the channel carried."""
    enters_ps: int
    """From when on it may survive."""
    must_ps: int
    """From when on it certainly survives."""
    timed_ps: int
    """From when on it survived in this timing."""

    def words(self) -> list[tuple[int, int]]:
        """The aligned 8-byte words that it touches, as ranges within the line."""
        end = self.start + len(self.data)
        first = self.start // WORD_BYTES * WORD_BYTES
        return [(max(self.start, at), min(end, at + WORD_BYTES)) for at in range(first, end, WORD_BYTES)]

    def apply(self, content: bytearray, words: Iterable[tuple[int, int]] | None = None) -> None:
        """Write it (or just these words of it) into a line."""
        for start, end in words if words is not None else ((self.start, self.start + len(self.data)),):
            content[start:end] = self.data[start - self.start : end - self.start]


Cut = Mapping[int, tuple[int, int]]
"""By tied channel: how many of its chunks survive, at least and at most, as far as it has been decided."""


@dataclass(frozen=True, slots=True)
class Content:
    """One thing that a line may hold: the bytes, the cut that goes with it, and what did not make it."""

    data: bytes
    cut: Cut
    absent: tuple[Piece, ...]
    torn: Piece | None = None


@dataclass(frozen=True, slots=True)
class Torn:
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


@dataclass(frozen=True, slots=True)
class Option:
    """How much of one channel's pieces a line has."""

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


Chosen = Mapping[int, Option]
"""By channel: how much of it a line has."""

_T = TypeVar("_T")


class Remembered(Generic[_T]):
    """An iterator's items, made once and as far as anybody has asked."""

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
