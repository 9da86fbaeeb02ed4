"""The faults of a network that carries packets: it loses some, holds some up, lets some overtake, repeats some.

Random fates are drawn from a stream for each path (source to destination), so that one path's traffic does not change
another's fates. Chosen ones name a packet by its number on its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class PacketFault:
    """The fault of one packet: the one of that number (from 1) on the way from ``source`` to ``destination``."""

    source: str
    destination: str
    number: int
    lost: bool = False
    delay_ps: int = 0
    """The packet is held up so long; others are not."""
    repeated_after_ps: int | None = None
    """The packet comes once more, so much later."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A network's ill will: probabilities for each packet, and chosen packets. The default disturbs nothing."""

    loss: float = 0.0
    """The probability that a packet is lost."""
    delay_ps: int = 0
    """How long a packet may be held up: uniformly up to this, in the order of its path."""
    reorder: float = 0.0
    """The probability that a packet is held up by itself, so that others overtake it."""
    repeat: float = 0.0
    """The probability that a packet comes twice."""
    packets: tuple[PacketFault, ...] = ()


class DisturbedPath:
    """The packets from one port to another, and what happens to each; ``random`` gives the path's stream."""

    __slots__ = ("_chosen", "_disturbance", "_free_ps", "_random", "lost", "packets")

    def __init__(
        self, disturbance: Disturbance, chosen: Mapping[int, PacketFault], random: Callable[[], np.random.Generator]
    ) -> None:
        self._disturbance = disturbance
        self._chosen = chosen
        self._random = random
        self._free_ps = 0
        self.packets = 0
        """How many have been sent."""
        self.lost = 0

    def fate(self, now_ps: int) -> tuple[int, ...]:
        """How much later than usual the next packet comes, for each time that it does; nothing where it is lost."""
        self.packets += 1
        chosen = self._chosen.get(self.packets)
        if chosen is not None:
            if chosen.lost:
                self.lost += 1
                return ()
            again_ps = chosen.repeated_after_ps
            return (chosen.delay_ps,) if again_ps is None else (chosen.delay_ps, chosen.delay_ps + again_ps)
        drawn = self._disturbance
        if drawn.loss and self._random().random() < drawn.loss:
            self.lost += 1
            return ()
        late_ps = 0
        if drawn.reorder and self._random().random() < drawn.reorder:
            late_ps = self._up_to(drawn.delay_ps)
        elif drawn.delay_ps:
            self._free_ps = max(self._free_ps, now_ps + self._up_to(drawn.delay_ps))
            late_ps = self._free_ps - now_ps
        if drawn.repeat and self._random().random() < drawn.repeat:
            return late_ps, late_ps + self._up_to(drawn.delay_ps)
        return (late_ps,)

    def _up_to(self, most_ps: int) -> int:
        return int(self._random().integers(0, most_ps, endpoint=True))


class Weather:
    """The paths of a system's fabric under a disturbance; ``stream`` gives the stream of a name."""

    def __init__(self, disturbance: Disturbance, stream: Callable[[str], np.random.Generator]) -> None:
        self._disturbance = disturbance
        self._stream = stream
        self._paths: dict[tuple[str, str], DisturbedPath] = {}

    def path(self, source: str, destination: str) -> DisturbedPath:
        """The path from one node's port to another's."""
        found = self._paths.get((source, destination))
        if found is None:
            ends = source, destination
            chosen = {one.number: one for one in self._disturbance.packets if (one.source, one.destination) == ends}
            name = f"packets from {source} to {destination}"
            found = self._paths[ends] = DisturbedPath(self._disturbance, chosen, lambda: self._stream(name))
        return found

    @property
    def lost(self) -> int:
        """Packets that were lost so far, on any path."""
        return sum(path.lost for path in self._paths.values())
