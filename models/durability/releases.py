"""Release edges in a cut: if a chunk survives that is behind others, those survive as well.

Where visible is durable, an edge ties the lines of several channels together. A cut bounds for each channel how many
chunks from its beginning survive whole (in a loose channel others may survive besides). The edges of a channel demand
more and more of the others, so bounds that agree with every edge one by one agree with all of them together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...sim.trace import Trace
from .contents import Cut


@dataclass(frozen=True, slots=True)
class _Edge:
    """The first n chunks of ``behind`` need the first ``needs[n]`` of ``before``."""

    behind: int
    before: int
    needs: list[int]


class Releases:
    """The edges among the channels ``tied`` (ordered, and durable where they are visible) and loose ones."""

    def __init__(self, trace: Trace, tied: Callable[[int], bool]) -> None:
        self._edges: list[_Edge] = []
        for number, channel in enumerate(trace.channels):
            if not any(chunk.behind for chunk in channel.chunks) or not tied(number):
                continue
            for before in sorted({other for chunk in channel.chunks for other, _ in chunk.behind}):
                needs = [0]
                for chunk in channel.chunks:
                    needs.append(max(needs[-1], dict(chunk.behind).get(before, 0)))
                self._edges.append(_Edge(number, before, needs))
        self.channels = {edge.behind for edge in self._edges} | {edge.before for edge in self._edges}
        """The channels that have an edge."""

    def settle(
        self,
        cut: Cut,
        decided: Mapping[int, tuple[int, int]],
        begun: Mapping[int, int],
        bounds: Callable[[int], tuple[int, int]],
    ) -> Cut | None:
        """``cut`` with the chunks that a line has ``decided``, and the demands of the edges then; None if they rule it
        out.

        ``begun`` counts chunks of a channel that have begun to survive, a torn one included; ``bounds`` gives the least
        and the most of a channel about which nothing has been decided.
        """
        found = {**cut, **decided}
        touched = self.channels & (decided.keys() | begun.keys())
        while touched:
            again: set[int] = set()
            for edge in self._edges:
                if edge.behind not in touched and edge.before not in touched:
                    continue
                least, most = found.get(edge.behind) or bounds(edge.behind)
                low, high = found.get(edge.before) or bounds(edge.before)
                new_low = max(low, edge.needs[max(least, begun.get(edge.behind, 0))])
                new_most = min(most, bisect_right(edge.needs, high) - 1)
                if new_low > high or least > new_most:
                    return None
                if new_low != low:
                    again.add(edge.before)
                if new_most != most:
                    again.add(edge.behind)
                found[edge.behind], found[edge.before] = (least, new_most), (new_low, high)
            touched = again
        return found
