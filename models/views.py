"""Two views of what a power failure leaves: everything that may be (adversarial), and what this timing left (timed).

A crash state is a cut through the trace's partial order. Memory holds *lines*; what a line may hold depends on where
its device's persistence domain begins:

- Behind the caches (ADR), lines are independent: each holds any version that coherent memory had since the last
  completed flush of it. A version is a prefix, channel by channel, of the pieces that were written to the line.
- Where visible is durable (eADR, a battery), what survives of an ordered channel is a prefix of *all* it carried:
  lines are tied together. A :class:`Cut` remembers what the lines looked at so far have decided.

A DMA write may be there by any subset of its aligned 8-byte words until its line is accepted whole (a platform may
make lines atomic); a store of several words by a prefix of them. Writes of two channels that meet in one line keep
the order that they had in this schedule, and at most one of a line's pieces is torn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

from ..sim.bytespace import LINE_BYTES, lines
from ..sim.trace import NEVER, Chunk, Stage, Trace
from .places import PLACES, Domain, Path, Place, safe_stage

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
class _Option:
    """How much of one channel's pieces a line has."""

    count: int
    torn: Piece | None = None
    words: tuple[tuple[int, int], ...] = ()
    span: tuple[int, int] | None = None

    @property
    def tears(self) -> bool:
        """Whether it leaves a piece of this line torn (a chunk of several lines may be torn elsewhere)."""
        return self.torn is not None and len(self.words) < len(self.torn.words())


class _Remembered:
    """An iterator's items, made once and as far as anybody has asked."""

    def __init__(self, epoch: int, items: Iterator[Content]) -> None:
        self.epoch = epoch
        self._made: list[Content] = []
        self._rest = items

    def __iter__(self) -> Iterator[Content]:
        turn = 0
        while True:
            if turn == len(self._made):
                following = next(self._rest, None)
                if following is None:
                    return
                self._made.append(following)
            yield self._made[turn]
            turn += 1


class Views:
    """Both views over one trace; ``domains`` are those of the devices that lose power, ``initial`` their lines."""

    def __init__(
        self,
        trace: Trace,
        domains: Mapping[int, Domain],
        initial: Callable[[LineKey], bytes],
        *,
        whole_lines: bool = False,
        iio_wc_survives: bool = False,
    ) -> None:
        self._trace = trace
        self._initial = initial
        self._whole_lines = whole_lines
        self._changes: dict[LineKey, list[int]] = {}
        self._known: dict[LineKey, _Remembered] = {}
        self.pieces: dict[LineKey, list[Piece]] = {}
        for chunk in trace.chunks:
            domain = domains.get(chunk.device, Domain.NONE)
            safe = safe_stage(chunk.path, domain, iio_wc_survives)
            if safe is None:
                continue
            for line in lines(chunk.address, len(chunk.data)):
                self.pieces.setdefault((chunk.device, line), []).append(self._piece(chunk, line, safe))
        for pieces in self.pieces.values():
            pieces.sort(key=_coherent_order)
        self._tied = self._prefixes()

    def _prefixes(self) -> dict[int, tuple[list[int], list[int]]]:
        """By tied channel and position: when its chunks enter, and when they and all before them certainly survive.

        A chunk that certainly survives proves it of all before it, hence the minimum over those behind.
        """
        musts: dict[int, dict[int, int]] = {}
        for pieces in self.pieces.values():
            for piece in pieces:
                if piece.tied:
                    own = musts.setdefault(piece.chunk.channel, {})
                    own[piece.chunk.position] = min(piece.must_ps, own.get(piece.chunk.position, NEVER))
        found = {}
        for channel, own in musts.items():
            chunks = self._trace.channels[channel].chunks
            behind, least = NEVER, []
            for position in range(len(chunks) - 1, -1, -1):
                behind = min(behind, own.get(position, NEVER))
                least.append(behind)
            found[channel] = ([chunk.reached_ps[Stage.ACCEPTED] for chunk in chunks], least[::-1])
        for pieces in self.pieces.values():
            for piece in pieces:
                if piece.tied:
                    piece.must_ps = found[piece.chunk.channel][1][piece.chunk.position]
        return found

    def _piece(self, chunk: Chunk, line: int, safe: Stage) -> Piece:
        start = max(chunk.address, line * LINE_BYTES)
        end = min(chunk.address + len(chunk.data), (line + 1) * LINE_BYTES)
        must_ps, timed_ps = chunk.forced_ps[safe], chunk.reached_ps[safe]
        if safe is Stage.ACCEPTED:
            must_ps = timed_ps = chunk.reached_ps[safe]
        if safe <= Stage.QUEUED:
            must_ps = min(must_ps, chunk.flushed_ps.get(line, NEVER))
        if safe >= Stage.QUEUED:
            visible_ps = chunk.reached_ps[Stage.VISIBLE]
            for seen_ps, queued_ps, stored_ps in self._trace.write_backs.get((chunk.device, line), ()):
                if seen_ps >= visible_ps:
                    timed_ps = min(timed_ps, queued_ps if safe is Stage.QUEUED else stored_ps)
        return Piece(
            chunk=chunk,
            line=line,
            start=start - line * LINE_BYTES,
            data=chunk.data[start - chunk.address : end - chunk.address],
            tied=safe <= Stage.VISIBLE and self._trace.channels[chunk.channel].ordered,
            enters_ps=chunk.reached_ps[Stage.ACCEPTED],
            must_ps=must_ps,
            timed_ps=timed_ps,
        )

    def changes(self) -> list[tuple[int, LineKey]]:
        """When what a line may hold changes, in time order."""
        found = set()
        for key, pieces in self.pieces.items():
            for piece in pieces:
                found.add((piece.enters_ps, key))
                if piece.must_ps < NEVER:
                    found.add((piece.must_ps, key))
        return sorted(found)

    # timed ------------------------------------------------------------------------------------------------
    def timed_changes(self) -> list[tuple[int, LineKey]]:
        """When what a line holds in this timing changes, in time order."""
        return sorted({(p.timed_ps, key) for key, pieces in self.pieces.items() for p in pieces if p.timed_ps < NEVER})

    def timed(self, key: LineKey, at_ps: int) -> Content:
        """What the line held when the power failed at ``at_ps`` in just this timing."""
        content, absent = bytearray(self._initial(key)), []
        for piece in self.pieces.get(key, ()):
            if piece.timed_ps <= at_ps:
                piece.apply(content)
            elif piece.enters_ps <= at_ps:
                absent.append(piece)
        return Content(bytes(content), {}, tuple(absent))

    # adversarial --------------------------------------------------------------------------------------------
    def places(self, chunk: Chunk, at_ps: int) -> set[Place]:
        """Where a chunk may be: anywhere from where it was forced to, since a move may also happen early."""
        if chunk.reached_ps[Stage.ACCEPTED] > at_ps:
            return set()
        forced = max((stage for stage in Stage if chunk.forced_ps[stage] <= at_ps), default=Stage.ACCEPTED)
        if chunk.flushed_ps and all(ps <= at_ps for ps in chunk.flushed_ps.values()):
            touched = lines(chunk.address, len(chunk.data))
            forced = max(forced, Stage.QUEUED if len(chunk.flushed_ps) == len(touched) else forced)
        return set(PLACES[chunk.path][forced:])

    def newest(self, key: LineKey, at_ps: int) -> bytes:
        """What the line holds if everything that was on its way has made it."""
        content = bytearray(self._initial(key))
        for piece in self.pieces.get(key, ()):
            if piece.enters_ps <= at_ps:
                piece.apply(content)
        return bytes(content)

    def contents(self, key: LineKey, at_ps: int, cut: Cut) -> Iterator[Content]:
        """All that the line may hold at a power failure at ``at_ps``, each once.

        First what survives if nothing unforced moved, then if everything did, then the rest, torn ones last.
        """
        pieces = self.pieces.get(key)
        if pieces is None:
            yield Content(self._initial(key), cut, ())
        elif cut or any(piece.tied for piece in pieces):
            yield from self._contents(key, at_ps, cut)
        else:  # untied lines change at few instants: remember what they may hold from one to the next
            changes = self._changes.get(key)
            if changes is None:
                changes = self._changes[key] = sorted({p.enters_ps for p in pieces} | {p.must_ps for p in pieces})
            epoch = bisect_right(changes, at_ps)
            known = self._known.get(key)
            if known is None or known.epoch != epoch:
                known = self._known[key] = _Remembered(epoch, self._contents(key, at_ps, cut))
            yield from known

    def _contents(self, key: LineKey, at_ps: int, cut: Cut) -> Iterator[Content]:
        pieces = [piece for piece in self.pieces.get(key, ()) if piece.enters_ps <= at_ps]
        undecided: dict[int, list[Piece]] = {}
        for piece in pieces:
            undecided.setdefault(piece.chunk.channel, []).append(piece)
        if not undecided:
            yield Content(self._initial(key), cut, ())
            return
        channels = list(undecided)
        options = [self._options(undecided[channel], at_ps, cut) for channel in channels]
        choices: Iterable[tuple[_Option, ...]] = zip(options[0])  # of one channel: torn ones come last already
        if len(channels) > 1:
            choices = [choice for choice in product(*options) if sum(option.tears for option in choice) <= 1]
            choices.sort(key=lambda choice: sum(option.tears for option in choice))
        seen: set[tuple[bytes, tuple[tuple[int, int] | None, ...]]] = set()
        for chosen in choices:
            content = self._apply(key, pieces, dict(zip(channels, chosen, strict=True)), cut)
            if content is None:
                continue
            identity = (content.data, tuple(option.span for option in chosen))
            if identity not in seen:
                seen.add(identity)
                yield content

    def _options(self, pieces: list[Piece], at_ps: int, cut: Cut) -> Iterator[_Option]:
        """How much of one channel's pieces (in this line) may survive: a prefix, perhaps with a torn end."""
        channel = pieces[0].chunk.channel
        if not self._trace.channels[channel].ordered:
            least, most, low, high = self._must(pieces, at_ps), len(pieces), None, None
        elif pieces[0].tied:
            low, high = cut.get(channel) or self._bounds(channel, at_ps)
            least = sum(piece.chunk.position < low for piece in pieces)
            most = sum(piece.chunk.position < high for piece in pieces)
        else:
            least, most, low, high = self._must(pieces, at_ps), len(pieces), None, None

        def span(count: int) -> tuple[int, int] | None:
            if low is None or high is None:
                return None
            after = pieces[count - 1].chunk.position + 1 if count else low
            before = pieces[count].chunk.position if count < len(pieces) else high
            return max(low, after), min(high, before)

        for count in dict.fromkeys((least, most, *range(most - 1, least, -1))):
            yield _Option(count, span=span(count))
        for count in range(least, len(pieces)):
            piece = pieces[count]
            position = piece.chunk.position
            if low is not None and high is not None and not low <= position <= high:
                continue
            exact = None if low is None else (position, position)
            whole = [tuple(piece.words())] if exact is not None and len(piece.chunk.data) > len(piece.data) else []
            for words in [*whole, *self._torn(piece)]:
                yield _Option(count, piece, words, exact)

    @staticmethod
    def _must(pieces: list[Piece], at_ps: int) -> int:
        return max((turn + 1 for turn, piece in enumerate(pieces) if piece.must_ps <= at_ps), default=0)

    def _torn(self, piece: Piece) -> Iterator[tuple[tuple[int, int], ...]]:
        """The words of a piece that may be there without the others."""
        words = piece.words()
        if piece.chunk.path == Path.STORE:  # a core's stores to one line persist in their order
            yield from (tuple(words[:count]) for count in range(1, len(words)))
        elif not self._whole_lines:
            for count in range(1, len(words)):
                yield from combinations(words, count)

    def _bounds(self, channel: int, at_ps: int) -> tuple[int, int]:
        """How many chunks of a tied channel certainly survive, and may."""
        enters, musts = self._tied[channel]
        return bisect_right(musts, at_ps), bisect_right(enters, at_ps)

    def _apply(self, key: LineKey, pieces: list[Piece], chosen: Mapping[int, _Option], cut: Cut) -> Content | None:
        content = bytearray(self._initial(key))
        taken = dict.fromkeys(chosen, 0)
        absent: list[Piece] = []
        torn = None
        for piece in pieces:
            option = chosen[piece.chunk.channel]
            turn = taken[piece.chunk.channel]
            taken[piece.chunk.channel] = turn + 1
            if turn >= option.count and piece is not option.torn:
                absent.append(piece)
                continue
            behind = [*absent, torn] if torn is not None else absent
            if any(other.chunk.forced_ps[Stage.VISIBLE] <= piece.enters_ps for other in behind):
                return None  # it was written when the other was certainly in the line already, whole
            if turn < option.count or not option.tears:
                piece.apply(content)
            else:
                piece.apply(content, option.words)
                torn = piece
        decided = {channel: option.span for channel, option in chosen.items() if option.span is not None}
        return Content(bytes(content), {**cut, **decided} if decided else cut, tuple(absent), torn)


def _coherent_order(piece: Piece) -> tuple[int, int, int]:
    """The order in which a line's pieces became visible in this schedule."""
    chunk = piece.chunk
    return chunk.reached_ps[Stage.VISIBLE], chunk.channel, chunk.number
