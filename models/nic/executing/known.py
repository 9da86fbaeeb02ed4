"""The certain facts where a step of a primitive begins: drained, visible and written-back chunks, and proofs.

The facts are passed on from step to step; a step that adds to them makes a new object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..inbound import Proof

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ....sim.trace import ChannelPrefixes
    from ...durability.ordering import Covered
    from ...memory.devices import MemoryDevice

Channels = dict[int, int]
"""By channel of the trace: a number of its first chunks."""
Accepted = dict[int, tuple[Channels, Channels]]
"""By destination: channels of its lanes, and of its ATOMIC WRITEs."""


@dataclass(frozen=True, slots=True)
class Written:
    """A line that has been written back, and when it is queued and stored in this timing."""

    device: MemoryDevice
    queued_ps: int
    stored_ps: int


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """The certain facts where one step begins."""

    proofs: tuple[Proof, ...] = ()
    """Proofs by the steps before it; they hold once their effect is observed."""
    drained: Accepted | None = None
    """Chunks that are on PCIe for certain: the next requests there are behind them."""
    behind: Channels | None = None
    """Chunks that the root complex has certainly seen: they are visible."""
    written: tuple[Written, ...] = ()
    covered: tuple[Covered, ...] = ()
    """The updates that were certainly in the lines that have been written back."""
    back_ps: int = 0
    """How long the root complex's answer takes to the link."""

    def proved(self, *proofs: Proof) -> KnownFacts:
        """These facts and further proofs."""
        return replace(self, proofs=(*self.proofs, *proofs)) if proofs else self

    def drains(self, found: Iterable[Mapping[int, tuple[ChannelPrefixes, ChannelPrefixes]]]) -> KnownFacts:
        """These facts, and that everything that queue pairs had accepted was drained."""
        drained: Accepted = {}
        _add(drained, self.drained)
        for one in found:
            _add(drained, {number: (dict(lanes), dict(flags)) for number, (lanes, flags) in one.items()})
        return replace(self, drained=drained)

    def lanes(self, destination: int) -> tuple[Channels, Channels]:
        """The drained chunks of one destination: of lanes, and of ATOMIC WRITEs."""
        return (self.drained or {}).get(destination, ({}, {}))

    def sees(self, *channels: Channels) -> KnownFacts:
        """These facts, and that further chunks are visible."""
        behind = dict(self.behind or {})
        for one in channels:
            _raise(behind, one)
        return replace(self, behind=behind)


NOTHING = KnownFacts()


def together(before: Sequence[KnownFacts]) -> KnownFacts:
    """The certain facts where a step begins that waits for several."""
    if len(before) == 1:
        return before[0]
    if not before:
        return NOTHING
    drained: Accepted = {}
    behind: Channels = {}
    for one in before:
        _add(drained, one.drained)
        _raise(behind, one.behind or {})
    return KnownFacts(
        tuple(dict.fromkeys(proof for one in before for proof in one.proofs)),
        drained,
        behind,
        tuple(line for one in before for line in one.written),
        tuple(piece for one in before for piece in one.covered),
        max(one.back_ps for one in before),
    )


def _add(mine: Accepted, more: Accepted | None) -> None:
    for number, (lanes, flags) in (more or {}).items():
        own = mine.setdefault(number, ({}, {}))
        _raise(own[0], lanes)
        _raise(own[1], flags)


def _raise(mine: Channels, more: Channels) -> None:
    for channel, count in more.items():
        mine[channel] = max(count, mine.get(channel, 0))
