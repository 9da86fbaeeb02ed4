"""Two views of a crash state: every content that may be there (adversarial), and the one of this timing (timed).

A crash state is a cut through the trace's partial order. Memory holds *lines*; their possible contents depend on
where a device's persistence domain begins:

- Behind the caches (ADR), lines are independent: each holds any version that coherent memory had since the last
  completed flush of it. A version is a prefix, channel by channel, of the pieces that were written to the line.
- Where visible is durable (eADR, a battery), the survivors of an ordered channel are a prefix of *all* it carried:
  lines are tied together. A :class:`Cut` remembers the decisions of the lines looked at so far. A chunk that survives
  behind a release edge (``models.durability.releases``) brings along the chunks that it is behind.
- Of a loose channel any pieces may be there, except that bytes it certainly showed before a later one was written are.

A DMA write may be there by any subset of its aligned 8-byte words until its line is accepted whole (a platform may
make lines atomic); a store of several words by a prefix of them. Writes of two channels that meet in one line keep
the order that they had in this schedule, and at most one of a line's pieces is torn.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

from ...sim.bytespace import LINE_BYTES, lines
from ...sim.trace import NEVER, Chunk, Stage, Trace
from .contents import Chosen, Content, Cut, LineKey, Piece, Remembered, TornLine
from .places import PLACES, Domain, Place, safe_stage
from .survivors import Survivors

__all__ = ["Content", "Cut", "LineKey", "Piece", "TornLine", "Views"]


@dataclass(slots=True)
class _Way:
    """The pieces of one tied channel in one line, and where in the channel they are."""

    channel: int
    positions: list[int]
    enters_ps: list[int]


_Items = Remembered[tuple[Content | TornLine, Chosen]]


@dataclass(slots=True)
class _Line:
    """A line that was written to, and its possible contents, remembered from one change to the next."""

    written: list[Piece]
    """All that is ever written to it."""
    behind_ps: list[int]
    """Of each of these, from when on it or one behind it may have entered."""
    pieces: list[Piece]
    """The pieces of ``written`` that are not in ``base`` and may have entered."""
    base: bytes
    """Its content that is certain, under all later writes: the first ``folded`` of ``written`` included."""
    changes: list[int]
    """The instants at which its possible contents change by themselves (and not by decisions about other lines)."""
    untied: bool
    """Its possible contents do not depend on decisions about other lines."""
    ways: list[_Way] | None
    """If only tied channels write to it, each in order, and no release edge ties these to one another."""
    folded: int = 0
    epoch: int = -1
    from_ps: int = 0
    until_ps: int = 0
    """The remembered contents hold between these instants, the second not included."""
    only: Content | None = None
    """If all that came is certainly there."""
    known: dict[tuple[tuple[int, int, int], ...], _Items] = field(default_factory=dict)
    """By how many pieces of each way must be there, may be there, and may be there torn."""
    written_out: Remembered[Content] | None = None


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
        over: bool = True,
    ) -> None:
        """``over``: the run has come to its end. Else the adversarial view is right, and the timed one is not."""
        self._trace = trace
        self._write_backs = trace.write_backs if over else {}
        self._moved_on: dict[LineKey, tuple[Sequence[int], Sequence[int], Sequence[int]]] = {}
        """Of a line's write-backs, by the instant whose bytes they showed: that instant, and when the first from there
        on came where.
        """
        self._initial = initial
        self._lines: dict[LineKey, _Line] = {}
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
        self._survivors = Survivors(trace, self._prefixes(), whole_lines=whole_lines)

    def _prefixes(self) -> dict[int, tuple[list[int], list[int]]]:
        """By tied channel and position: when its chunks enter, and when they and all before them certainly survive.

        A chunk that certainly survives proves it of all before it, hence the minimum over those behind.
        """
        musts: dict[int, dict[int, int]] = {}
        kept: dict[tuple[int, int], int] = {}
        for pieces in self.pieces.values():
            for piece in pieces:
                if piece.tied:
                    own = musts.setdefault(piece.chunk.channel, {})
                    if piece.chunk.kept_ps:
                        kept[piece.chunk.channel, piece.chunk.position] = piece.enters_ps
                    own[piece.chunk.position] = min(piece.must_ps, own.get(piece.chunk.position, NEVER))
        found = {}
        for channel, own in musts.items():
            chunks = self._trace.channels[channel].chunks
            behind, least = NEVER, []
            for position in range(len(chunks) - 1, -1, -1):
                behind = min(behind, own.get(position, NEVER))
                least.append(behind)
            enters = [kept.get((channel, chunk.position), chunk.reached_ps[Stage.ACCEPTED]) for chunk in chunks]
            found[channel] = (enters, least[::-1])
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
        if self._trace.persisted:
            must_ps = min(must_ps, self._trace.persisted.get((chunk.number, line), NEVER))
        if safe >= Stage.QUEUED:
            timed_ps = min(timed_ps, self._moved_on_ps((chunk.device, line), chunk.reached_ps[Stage.VISIBLE], safe))
        channel = self._trace.channels[chunk.channel]
        return Piece(
            chunk=chunk,
            line=line,
            start=start - line * LINE_BYTES,
            data=chunk.data[start - chunk.address : end - chunk.address],
            tied=(safe <= Stage.VISIBLE and channel.ordered) or channel.versions,
            enters_ps=_enters_ps(chunk, safe),
            must_ps=must_ps,
            timed_ps=timed_ps,
            group=~chunk.number if channel.loose else chunk.channel,
        )

    def _moved_on_ps(self, key: LineKey, visible_ps: int, safe: Stage) -> int:
        """When the first write-back that showed all bytes visible at an instant had come to a stage."""
        known = self._moved_on.get(key)
        if known is None:
            rows = sorted(self._write_backs.get(key, ()))
            seen, queued, stored = zip(*rows, strict=True) if rows else ((), (), ())
            known = self._moved_on[key] = seen, _least_behind(queued), _least_behind(stored)
        turn = bisect_left(known[0], visible_ps)
        return NEVER if turn == len(known[0]) else known[1 if safe is Stage.QUEUED else 2][turn]

    def changes(self) -> list[tuple[int, LineKey]]:
        """The instants at which the possible contents of a line change, in time order, with the line."""
        found = set()
        for key, pieces in self.pieces.items():
            for piece in pieces:
                found.add((piece.enters_ps, key))
                if piece.must_ps < NEVER:
                    found.add((piece.must_ps, key))
        return sorted(found)

    def over(self, initial: Callable[[LineKey], bytes]) -> Views:
        """The same writes over lines that held something else at first."""
        other = copy(self)
        other._initial, other._lines = initial, {}
        return other

    # timed ------------------------------------------------------------------------------------------------
    def timed_changes(self) -> list[tuple[int, LineKey]]:
        """The instants at which the content of a line changes in this timing, in time order, with the line."""
        return sorted({(p.timed_ps, key) for key, pieces in self.pieces.items() for p in pieces if p.timed_ps < NEVER})

    def timed(self, key: LineKey, at_ps: int) -> Content:
        """The line's content after a power failure at ``at_ps`` in just this timing."""
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
        if chunk.kept_ps > at_ps:
            return {PLACES[chunk.path][Stage.ACCEPTED]}
        forced = max((stage for stage in Stage if chunk.forced_ps[stage] <= at_ps), default=Stage.ACCEPTED)
        if chunk.flushed_ps and all(ps <= at_ps for ps in chunk.flushed_ps.values()):
            touched = lines(chunk.address, len(chunk.data))
            forced = max(forced, Stage.QUEUED if len(chunk.flushed_ps) == len(touched) else forced)
        return set(PLACES[chunk.path][forced:])

    def newest(self, key: LineKey, at_ps: int) -> bytes:
        """The line's content if everything that was on its way has made it."""
        return _with_all(self._initial(key), [p for p in self.pieces.get(key, ()) if p.enters_ps <= at_ps])

    def contents(self, key: LineKey, at_ps: int, cut: Cut) -> Iterator[Content]:
        """All that the line may hold at a power failure at ``at_ps``, each once.

        First what survives if nothing unforced moved, then if everything did, then the rest, torn ones last.
        """
        line = self._lines.get(key)
        if line is None or not line.from_ps <= at_ps < line.until_ps:
            line = self._line(key, at_ps)
        if line is None:
            return iter((Content(self._initial(key), cut, ()),))
        if line.only is not None:  # whatever has been decided about other lines
            return iter((_with(line.only, cut) if cut else line.only,))
        if not line.untied:
            return _written_out(self._families(line, at_ps, cut))
        if line.written_out is None:
            line.written_out = Remembered(_written_out(self._families(line, at_ps, {})))
        return (_with(content, cut) for content in line.written_out) if cut else iter(line.written_out)

    def families(self, key: LineKey, at_ps: int, cut: Cut) -> Iterator[Content | TornLine]:
        """As :meth:`contents`, perhaps more than once, with torn pieces not written out."""
        line = self._lines.get(key)
        if line is None or not line.from_ps <= at_ps < line.until_ps:
            line = self._line(key, at_ps)
        if line is None or line.only is not None:
            return self.contents(key, at_ps, cut)
        return self._families(line, at_ps, cut)

    def _line(self, key: LineKey, at_ps: int) -> _Line | None:
        """The line as it is at an instant, with its remembered contents; None if it is never written to."""
        line = self._lines.get(key)
        if line is None:
            pieces = self.pieces.get(key)
            if pieces is None:
                return None
            enters_ps = [piece.enters_ps for piece in pieces]
            changes = sorted({*enters_ps, *(piece.must_ps for piece in pieces)})
            released = self._survivors.released
            if released:
                released = released.intersection(piece.chunk.channel for piece in pieces)
            tied = [piece.tied for piece in pieces]
            untied = not released and not any(tied)
            ways = _ways(pieces) if not released and all(tied) else None
            behind_ps = _least_behind(enters_ps)
            line = self._lines[key] = _Line(pieces, behind_ps, pieces, self._initial(key), changes, untied, ways)
        epoch = bisect_right(line.changes, at_ps)
        line.from_ps = line.changes[epoch - 1] if epoch else 0
        line.until_ps = line.changes[epoch] if epoch < len(line.changes) else NEVER + 1
        if epoch != line.epoch:
            if epoch < line.epoch:
                line.folded, line.base = 0, self._initial(key)
                line.ways = None if line.ways is None else _ways(line.written)
            line.pieces = line.written[line.folded : bisect_right(line.behind_ps, at_ps)]
            self._fold(line, at_ps)
            line.epoch, line.written_out = epoch, None
            line.known.clear()
            entered = [piece for piece in line.pieces if piece.enters_ps <= at_ps]
            settled = not entered or max([piece.must_ps for piece in entered]) <= at_ps
            line.only = Content(_with_all(line.base, entered), {}, ()) if settled else None
        return line

    def _fold(self, line: _Line, at_ps: int) -> None:
        """Put the pieces that are certainly there, and under all uncertain ones, into the line's base: they are
        settled.

        Pieces behind other writes stay out: they prove that those are there.
        """
        shown, count = self._trace.shown, 0
        for piece in line.pieces:
            certain = piece.enters_ps <= at_ps and piece.must_ps <= at_ps
            if not certain or piece.chunk.behind or piece.chunk.number in shown:
                break
            count += 1
        if count:
            folded, line.pieces = line.pieces[:count], line.pieces[count:]
            line.folded += count
            line.base = _with_all(line.base, folded)
            if line.ways is not None:  # new ones: an iterator of another instant may still go through the old ones
                line.ways = [_without(way, folded) for way in line.ways]

    def _families(self, line: _Line, at_ps: int, cut: Cut) -> Iterator[Content | TornLine]:
        if line.ways is not None:
            return self._tied_families(line, line.ways, at_ps, cut)
        if not line.untied:
            return (item for item, _ in self._survivors.of_line(line.base, line.pieces, at_ps, cut))
        known = line.known.get(())
        if known is None:
            known = line.known[()] = Remembered(self._survivors.of_line(line.base, line.pieces, at_ps, {}))
        return (_with(item, cut) if cut else item for item, _ in known)

    def _tied_families(self, line: _Line, ways: list[_Way], at_ps: int, cut: Cut) -> Iterator[Content | TornLine]:
        """Which bytes there are depends only on how many pieces must and may be there; where the cut is, on more."""
        there, entered = [], []
        for way in ways:
            count = bisect_right(way.enters_ps, at_ps)
            if count:
                low, high = cut.get(way.channel) or self._survivors.bounds(way.channel, at_ps)
                entered.append((way, count, low, high))
                least, most = bisect_left(way.positions, low, 0, count), bisect_left(way.positions, high, 0, count)
                there.append((least, most, bisect_right(way.positions, high, 0, count)))
        name = tuple(there)
        known = line.known.get(name)
        if known is None:
            known = line.known[name] = Remembered(self._survivors.of_line(line.base, line.pieces, at_ps, cut))
        return self._decided(known, entered, cut)

    def _decided(
        self, known: _Items, entered: list[tuple[_Way, int, int, int]], cut: Cut
    ) -> Iterator[Content | TornLine]:
        for item, chosen in known:
            decided: dict[int, tuple[int, int]] = {}
            for way, count, low, high in entered:
                option = chosen[way.channel]
                if option.torn is not None:
                    decided[way.channel] = option.torn.chunk.position, option.torn.chunk.position
                else:
                    after = way.positions[option.count - 1] + 1 if option.count else low
                    before = way.positions[option.count] if option.count < count else high
                    decided[way.channel] = max(low, after), min(high, before)
            yield _with(item, {**cut, **decided} if cut else decided)


def _least_behind(instants: Sequence[int]) -> list[int]:
    """Of each: the least of itself and those behind it."""
    return list(accumulate(reversed(instants), min))[::-1]


def _without(way: _Way, folded: list[Piece]) -> _Way:
    """The rest of a way whose first pieces are in the line's base."""
    own = sum(piece.chunk.channel == way.channel for piece in folded)
    return _Way(way.channel, way.positions[own:], way.enters_ps[own:]) if own else way


def _ways(pieces: list[Piece]) -> list[_Way] | None:
    """The channels of a line that only tied channels write to; None where one does not keep its order."""
    ways: dict[int, _Way] = {}
    for piece in pieces:
        way = ways.setdefault(piece.chunk.channel, _Way(piece.chunk.channel, [], []))
        way.positions.append(piece.chunk.position)
        way.enters_ps.append(piece.enters_ps)
    in_order = all(w.positions == sorted(w.positions) and w.enters_ps == sorted(w.enters_ps) for w in ways.values())
    return list(ways.values()) if in_order else None


_Item = TypeVar("_Item", Content, Content | TornLine)


def _with(item: _Item, cut: Cut) -> _Item:
    """The same content under another cut."""
    if isinstance(item, TornLine):
        return TornLine(_with(item.without, cut), item.words, item.there)
    return Content(item.data, cut, item.absent, item.torn)


def _written_out(items: Iterable[Content | TornLine]) -> Iterator[Content]:
    """Each content once, torn ones written out."""
    seen: set[tuple[bytes, frozenset[tuple[int, tuple[int, int]]]]] = set()
    for item in items:
        for content in (item,) if isinstance(item, Content) else item.written_out():
            identity = content.data, frozenset(content.cut.items())
            if identity not in seen:
                seen.add(identity)
                yield content


def _with_all(base: bytes, pieces: Sequence[Piece]) -> bytes:
    """A line with all of these pieces written to it."""
    if not pieces:
        return base
    content = bytearray(base)
    for piece in pieces:
        piece.apply(content)
    return bytes(content)


def _enters_ps(chunk: Chunk, safe: Stage) -> int:
    """From when on a chunk may survive: it is accepted, and not kept in a place that does not."""
    accepted_ps = chunk.reached_ps[Stage.ACCEPTED]
    return accepted_ps if safe is Stage.ACCEPTED else max(accepted_ps, chunk.kept_ps)


def _coherent_order(piece: Piece) -> tuple[int, int, int]:
    """The order in which a line's pieces became visible in this schedule."""
    chunk = piece.chunk
    return chunk.reached_ps[Stage.VISIBLE], chunk.channel, chunk.number
