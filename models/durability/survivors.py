"""All contents that a line may have after a power failure: how much of each group of its pieces, and which go together.

A group (a channel's pieces in the line, or one piece of a loose channel) survives by a prefix, perhaps with a torn end.
Of the combinations there remain the ones that keep the schedule's order within the line, the release edges, and the
decisions about other lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from ...sim.trace import NEVER, Stage, Trace
from .contents import Chosen, Content, Cut, Extent, Piece, TornLine, any_unreleased, combine
from .places import WAYS, Tearing
from .releases import Releases


class Survivors:
    """The parts of one trace's pieces that may survive.

    ``tied`` has, by tied channel and position, when its chunks enter, and when they and all before them certainly
    survive.
    """

    def __init__(
        self,
        trace: Trace,
        tied: Mapping[int, tuple[list[int], list[int]]],
        *,
        whole_lines: bool,
    ) -> None:
        self._trace = trace
        self._tied = tied
        self._whole_lines = whole_lines
        self._releases = Releases(trace, tied.__contains__)
        self.released = self._releases.channels
        """The channels whose lines release edges tie together."""

    def of_line(
        self, base: bytes, written: list[Piece], at_ps: int, cut: Cut
    ) -> Iterator[tuple[Content | TornLine, Chosen]]:
        """The contents that a line may have and how much of each group that is, perhaps more than once; torn ones last.

        ``base`` is its content before all that was ``written`` to it.
        """
        pieces = [piece for piece in written if piece.enters_ps <= at_ps]
        undecided: dict[int, list[Piece]] = {}
        for piece in pieces:
            undecided.setdefault(piece.group, []).append(piece)
        if not undecided:
            yield Content(base, cut, ()), {}
            return
        groups = list(undecided)
        options = [self._options(undecided[group], at_ps, cut) for group in groups]
        choices: Iterable[tuple[Extent, ...]] = zip(options[0])  # of one group: torn ones come last already
        if len(groups) > 1:
            listed = [list(some) for some in options]
            choices = chain(combine(listed, 0), combine(listed, 1))
        for choice in choices:
            chosen = dict(zip(groups, choice, strict=True))
            content = self._apply(base, pieces, chosen, cut, at_ps)
            torn = next((option for option in choice if option.any_words), None)
            if content is None:
                continue
            if torn is None or torn.torn is None:
                yield content, chosen
                continue
            words = torn.torn.words()
            whole = self._apply(base, pieces, {**chosen, torn.torn.group: replace(torn, words=words)}, cut, at_ps)
            assert whole is not None, "it can be there whole where it can be there torn"
            yield TornLine(content, words, whole.data), chosen

    def bounds(self, channel: int, at_ps: int) -> tuple[int, int]:
        """How many chunks of a channel certainly survive, and may; of one that is not tied that says nothing."""
        if channel not in self._tied:
            return 0, NEVER
        enters, musts = self._tied[channel]
        return bisect_right(musts, at_ps), bisect_right(enters, at_ps)

    def _options(self, pieces: list[Piece], at_ps: int, cut: Cut) -> Iterator[Extent]:
        """How much of one group's pieces (in this line) may survive: a prefix, perhaps with a torn end."""
        channel = pieces[0].chunk.channel
        if pieces[0].group < 0:
            yield from self._loose_options(pieces[0], at_ps, cut)
            return
        if pieces[0].tied:
            low, high = cut.get(channel) or self.bounds(channel, at_ps)
            least = sum(piece.chunk.position < low for piece in pieces)
            most = sum(piece.chunk.position < high for piece in pieces)
        else:
            least = max((turn + 1 for turn, piece in enumerate(pieces) if piece.must_ps <= at_ps), default=0)
            most, low, high = len(pieces), None, None

        def span(count: int) -> tuple[int, int] | None:
            if low is None or high is None:
                return None
            after = pieces[count - 1].chunk.position + 1 if count else low
            before = pieces[count].chunk.position if count < len(pieces) else high
            return max(low, after), min(high, before)

        for count in dict.fromkeys((least, most, *range(most - 1, least, -1))):
            yield Extent(count, span=span(count))
        for count in range(least, len(pieces)):
            piece = pieces[count]
            position = piece.chunk.position
            if low is not None and high is not None and not low <= position <= high:
                continue
            if WAYS[piece.chunk.path].torn is Tearing.NEVER or self._trace.channels[channel].whole:
                continue  # the device writes its unit whole
            exact = None if low is None else (position, position)
            if exact is not None and len(piece.chunk.data) > len(piece.data):  # torn in another line
                yield Extent(count, piece, piece.words(), exact)
            yield from self._torn(count, piece, exact)

    def _loose_options(self, piece: Piece, at_ps: int, cut: Cut) -> Iterator[Extent]:
        """There, not there, or torn; a chunk that is not there whole bounds the chunks behind it."""
        channel, position = piece.chunk.channel, piece.chunk.position
        low, high = cut.get(channel) or (0, NEVER)
        bounded = channel in self.released
        missing = (low, min(high, position)) if bounded else None
        certain = piece.must_ps <= at_ps or position < low
        if not certain:
            yield Extent(0, span=missing)
        yield Extent(1, span=(low, high) if bounded else None)
        if not certain:
            yield from self._torn(0, piece, missing)

    def _torn(self, count: int, piece: Piece, span: tuple[int, int] | None) -> Iterator[Extent]:
        """The words of a piece that may be there without the others."""
        words = piece.words()
        in_order = self._trace.channels[piece.chunk.channel].ordered
        if in_order and WAYS[piece.chunk.path].torn is Tearing.FIRST_WORDS:
            for end in range(1, len(words)):
                yield Extent(count, piece, words[:end], span)
        elif not self._whole_lines and len(words) > 1:
            yield Extent(count, piece, (), span, any_words=True)

    def _apply(self, base: bytes, pieces: list[Piece], chosen: Chosen, cut: Cut, at_ps: int) -> Content | None:
        """The line's content for this choice; None if that cannot be."""
        content = bytearray(base)
        taken = dict.fromkeys(chosen, 0)
        absent: list[Piece] = []
        behind_others: list[Piece] = []
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
            if turn < option.count or not option.tears:
                piece.apply(content)
            else:
                piece.apply(content, option.words)
                torn = piece
        missing = [*absent, torn] if torn is not None else absent
        if behind_others and any_unreleased(behind_others, missing, self._trace.shown):
            return None
        further = self._decide(chosen, behind_others, cut, at_ps)
        return None if further is None else Content(bytes(content), further, tuple(absent), torn)

    def _decide(self, chosen: Chosen, behind_others: list[Piece], cut: Cut, at_ps: int) -> Cut | None:
        """The cut that goes with the choice for each group; None if the release edges rule it out."""
        if not self.released:  # only tied channels have a span, and each is one group
            spans = {group: option.span for group, option in chosen.items() if option.span is not None}
            return {**cut, **spans} if spans else cut
        decided: dict[int, tuple[int, int]] = {}
        for group, option in chosen.items():
            if option.span is not None:
                channel = group if group >= 0 else self._trace.chunks[~group].channel
                low, high = decided.get(channel, option.span)
                decided[channel] = max(low, option.span[0]), min(high, option.span[1])
        begun = {piece.chunk.channel: piece.chunk.position + 1 for piece in behind_others}
        if not decided and not begun:
            return cut
        return self._releases.settle(cut, decided, begun, lambda channel: self.bounds(channel, at_ps))
