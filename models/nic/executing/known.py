"""What is certain where a step of a primitive begins: what was drained, is visible, was written back, is proved.

Each is passed on from step to step; who adds to it makes a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..inbound import Proof

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...durability.ordering import Covered
    from ...memory.devices import MemoryDevice
    from ..lanes import Counts

Channels = dict[int, int]
"""By channel of the trace: how many of its chunks."""
Accepted = dict[int, tuple[Channels, Channels]]
"""By destination: channels of its lanes, and of its ATOMIC WRITEs."""


@dataclass(frozen=True, slots=True)
class Written:
    """A line that has been written back, and in this timing when it is queued, and stored."""

    device: MemoryDevice
    queued_ps: int
    stored_ps: int


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """Where one step begins."""

    proofs: tuple[Proof, ...] = ()
    """What the steps before it prove, to whoever learns of them."""
    drained: Accepted | None = None
    """What is on PCIe for certain, and what comes next there is behind."""
    behind: Channels | None = None
    """What the root complex has certainly seen: it is visible."""
    written: tuple[Written, ...] = ()
    covered: tuple[Covered, ...] = ()
    """What of the updates was certainly in the lines that have been written back."""
    back_ps: int = 0
    """How long the root complex's answer takes to the link."""

    def proved(self, *proofs: Proof) -> KnownFacts:
        """And this."""
        return replace(self, proofs=(*self.proofs, *proofs)) if proofs else self

    def drains(self, found: Iterable[Mapping[int, tuple[Counts, Counts]]]) -> KnownFacts:
        """And what queue pairs had accepted."""
        drained: Accepted = {}
        _add(drained, self.drained)
        for one in found:
            _add(drained, {number: (dict(lanes), dict(flags)) for number, (lanes, flags) in one.items()})
        return replace(self, drained=drained)

    def lanes(self, destination: int) -> tuple[Channels, Channels]:
        """What was drained of what goes to a destination."""
        return (self.drained or {}).get(destination, ({}, {}))

    def sees(self, *channels: Channels) -> KnownFacts:
        """And these are visible."""
        behind = dict(self.behind or {})
        for one in channels:
            _raise(behind, one)
        return replace(self, behind=behind)


NOTHING = KnownFacts()


def together(before: Sequence[KnownFacts]) -> KnownFacts:
    """What is certain where a step begins that waits for several."""
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
