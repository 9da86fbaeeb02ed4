"""Two views of what a power failure leaves: everything that may be (adversarial), and what this timing left (timed).

A crash state is a cut through the trace's partial order. Memory holds *lines*; what a line may hold depends on where
its device's persistence domain begins:

- Behind the caches (ADR), lines are independent: each holds any version that coherent memory had since the last
  completed flush of it. A version is a prefix, channel by channel, of the pieces that were written to the line.
- Where visible is durable (eADR, a battery), what survives of an ordered channel is a prefix of *all* it carried:
  lines are tied together. A :class:`Cut` remembers what the lines looked at so far have decided. What survives behind
  a release edge (``models.releases``) brings along what it is behind.
- Of a loose channel any pieces may be there, except that what it certainly showed before a later one was written is.

A DMA write may be there by any subset of its aligned 8-byte words until its line is accepted whole (a platform may
make lines atomic); a store of several words by a prefix of them. Writes of two channels that meet in one line keep
the order that they had in this schedule, and at most one of a line's pieces is torn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, combinations

from ..sim.bytespace import LINE_BYTES, lines
from ..sim.trace import NEVER, Chunk, Stage, Trace
from .linecontent import Content, LineKey, Option, Piece, any_unreleased, combine
from .places import PLACES, Domain, Path, Place, safe_stage
from .releases import Cut, Releases

__all__ = ["Content", "Cut", "LineKey", "Piece", "Views"]


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
        self._releases = Releases(trace, self._tied.__contains__)

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
        channel = self._trace.channels[chunk.channel]
        return Piece(
            chunk=chunk,
            line=line,
            start=start - line * LINE_BYTES,
            data=chunk.data[start - chunk.address : end - chunk.address],
            tied=safe <= Stage.VISIBLE and channel.ordered,
            enters_ps=chunk.reached_ps[Stage.ACCEPTED],
            must_ps=must_ps,
            timed_ps=timed_ps,
            group=~chunk.number if channel.loose else chunk.channel,
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
        elif cut or any(piece.tied or piece.chunk.channel in self._releases.channels for piece in pieces):
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
            undecided.setdefault(piece.group, []).append(piece)
        if not undecided:
            yield Content(self._initial(key), cut, ())
            return
        groups = list(undecided)
        options = [self._options(undecided[group], at_ps, cut) for group in groups]
        choices: Iterable[tuple[Option, ...]] = zip(options[0])  # of one group: torn ones come last already
        if len(groups) > 1:
            listed = [list(some) for some in options]
            choices = chain(combine(listed, 0), combine(listed, 1))
        seen: set[tuple[bytes, tuple[tuple[int, tuple[int, int]], ...]]] = set()
        for chosen in choices:
            content = self._apply(key, pieces, dict(zip(groups, chosen, strict=True)), cut, at_ps)
            if content is None:
                continue
            identity = (content.data, tuple(sorted(content.cut.items())))
            if identity not in seen:
                seen.add(identity)
                yield content

    def _options(self, pieces: list[Piece], at_ps: int, cut: Cut) -> Iterator[Option]:
        """How much of one group's pieces (in this line) may survive: a prefix, perhaps with a torn end."""
        channel = pieces[0].chunk.channel
        if pieces[0].group < 0:
            yield from self._loose_options(pieces[0], at_ps, cut)
            return
        if pieces[0].tied:
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
            yield Option(count, span=span(count))
        for count in range(least, len(pieces)):
            piece = pieces[count]
            position = piece.chunk.position
            if low is not None and high is not None and not low <= position <= high:
                continue
            exact = None if low is None else (position, position)
            whole = [tuple(piece.words())] if exact is not None and len(piece.chunk.data) > len(piece.data) else []
            for words in [*whole, *self._torn(piece)]:
                yield Option(count, piece, words, exact)

    def _loose_options(self, piece: Piece, at_ps: int, cut: Cut) -> Iterator[Option]:
        """There, not there, or torn; a chunk that is not there whole bounds what may be behind it."""
        channel, position = piece.chunk.channel, piece.chunk.position
        low, high = cut.get(channel) or (0, NEVER)
        bounded = channel in self._releases.channels
        missing = (low, min(high, position)) if bounded else None
        certain = piece.must_ps <= at_ps or position < low
        if not certain:
            yield Option(0, span=missing)
        yield Option(1, span=(low, high) if bounded else None)
        if not certain:
            for words in self._torn(piece):
                yield Option(0, piece, words, missing)

    @staticmethod
    def _must(pieces: list[Piece], at_ps: int) -> int:
        return max((turn + 1 for turn, piece in enumerate(pieces) if piece.must_ps <= at_ps), default=0)

    def _torn(self, piece: Piece) -> Iterator[tuple[tuple[int, int], ...]]:
        """The words of a piece that may be there without the others."""
        words = piece.words()
        posted = piece.chunk.path == Path.MMIO and self._trace.channels[piece.chunk.channel].ordered
        if piece.chunk.path == Path.STORE or posted:  # a core's stores to one line persist in their order
            yield from (tuple(words[:count]) for count in range(1, len(words)))
        elif not self._whole_lines:
            for count in range(1, len(words)):
                yield from combinations(words, count)

    def _bounds(self, channel: int, at_ps: int) -> tuple[int, int]:
        """How many chunks of a tied channel certainly survive, and may."""
        if channel not in self._tied:
            return 0, NEVER
        enters, musts = self._tied[channel]
        return bisect_right(musts, at_ps), bisect_right(enters, at_ps)

    def _apply(
        self, key: LineKey, pieces: list[Piece], chosen: Mapping[int, Option], cut: Cut, at_ps: int
    ) -> Content | None:
        content = bytearray(self._initial(key))
        taken = dict.fromkeys(chosen, 0)
        absent: list[Piece] = []
        behind_others: list[Piece] = []
        begun: dict[int, int] = {}
        torn = None
        for piece in pieces:
            option = chosen[piece.group]
            turn = taken[piece.group]
            taken[piece.group] = turn + 1
            if turn >= option.count and piece is not option.torn:
                absent.append(piece)
                continue
            behind = [*absent, torn] if torn is not None else absent
            if any(other.chunk.forced_ps[Stage.VISIBLE] <= piece.enters_ps for other in behind):
                return None  # it was written when the other was certainly in the line already, whole
            if piece.chunk.behind:
                behind_others.append(piece)
                begun[piece.chunk.channel] = piece.chunk.position + 1
            if turn < option.count or not option.tears:
                piece.apply(content)
            else:
                piece.apply(content, option.words)
                torn = piece
        if behind_others and any_unreleased(behind_others, [*absent, torn] if torn is not None else absent):
            return None
        further = self._decide(chosen, begun, cut, at_ps)
        return None if further is None else Content(bytes(content), further, tuple(absent), torn)

    def _decide(self, chosen: Mapping[int, Option], begun: Mapping[int, int], cut: Cut, at_ps: int) -> Cut | None:
        """The cut that goes with what was chosen of each group; None if the release edges rule it out."""
        decided: dict[int, tuple[int, int]] = {}
        for group, option in chosen.items():
            if option.span is not None:
                channel = group if group >= 0 else self._trace.chunks[~group].channel
                low, high = decided.get(channel, option.span)
                decided[channel] = max(low, option.span[0]), min(high, option.span[1])
        if self._releases.channels and (decided or begun):
            return self._releases.settle(cut, decided, begun, lambda channel: self._bounds(channel, at_ps))
        return {**cut, **decided} if decided else cut


def _coherent_order(piece: Piece) -> tuple[int, int, int]:
    """The order in which a line's pieces became visible in this schedule."""
    chunk = piece.chunk
    return chunk.reached_ps[Stage.VISIBLE], chunk.channel, chunk.number
