"""What a line may hold: the pieces that were written to it, and how much of each group of them is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..sim.trace import NEVER, Chunk
from .releases import Cut

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
    group: int
    """What survives of a group in one line is a prefix: its channel, or the chunk alone (below 0) if that is loose."""

    def words(self) -> list[tuple[int, int]]:
        """The aligned 8-byte words that it touches, as ranges within the line."""
        end = self.start + len(self.data)
        first = self.start // WORD_BYTES * WORD_BYTES
        return [(max(self.start, at), min(end, at + WORD_BYTES)) for at in range(first, end, WORD_BYTES)]

    def apply(self, content: bytearray, words: Iterable[tuple[int, int]] | None = None) -> None:
        """Write it (or just these words of it) into a line."""
        for start, end in words if words is not None else ((self.start, self.start + len(self.data)),):
            content[start:end] = self.data[start - self.start : end - self.start]


@dataclass(frozen=True, slots=True)
class Content:
    """One thing that a line may hold: the bytes, the cut that goes with it, and what did not make it."""

    data: bytes
    cut: Cut
    absent: tuple[Piece, ...]
    torn: Piece | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """How much of one group's pieces a line has."""

    count: int
    torn: Piece | None = None
    words: tuple[tuple[int, int], ...] = ()
    span: tuple[int, int] | None = None

    @property
    def tears(self) -> bool:
        """Whether it leaves a piece of this line torn (a chunk of several lines may be torn elsewhere)."""
        return self.torn is not None and len(self.words) < len(self.torn.words())


def combine(options: list[list[Option]], tears: int) -> Iterator[tuple[Option, ...]]:
    """One option of each group, just so many of them torn ones."""
    if not options:
        if not tears:
            yield ()
        return
    for option in options[0]:
        if option.tears <= tears:
            for rest in combine(options[1:], tears - option.tears):
                yield (option, *rest)


def any_unreleased(present: Iterable[Piece], missing: Iterable[Piece]) -> bool:
    """Whether one of a line's pieces is there although one that it is behind is not, or not whole."""
    lacking: dict[int, int] = {}
    for piece in missing:
        lacking[piece.chunk.channel] = min(piece.chunk.position, lacking.get(piece.chunk.channel, NEVER))
    return any(lacking.get(channel, NEVER) < count for piece in present for channel, count in piece.chunk.behind)
