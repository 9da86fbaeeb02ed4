"""An adapter's arbitration: when the turn of a queue pair comes in the transmit engine, and in the receive engine.

Schedulers of adapters are not published. Here a turn comes earlier or later than as a rule by up to half of
``nic.arbitration``, evenly and drawn for each message (``tails.arbitration``); the processing times are those of the
median. Nothing of one queue pair overtakes anything before it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

AT_ONCE = 1024
"""So many draws are made together."""


class Arbitration:
    """The turns of one adapter, drawn from a stream of its own."""

    def __init__(self, spread_ps: int, stream: Callable[[], np.random.Generator]) -> None:
        self._spread_ps = spread_ps
        self._stream = stream
        self._draws: list[int] = []
        self._last_ps: dict[Hashable, int] = {}

    def turn_ps(self, whose: Hashable, at_ps: int) -> int:
        """When the turn of ``whose`` comes that comes at ``at_ps`` as a rule: never before the last one of theirs."""
        if not self._draws:
            half_ps = self._spread_ps // 2
            self._draws = self._stream().integers(-half_ps, half_ps, AT_ONCE, endpoint=True).tolist()
        turn_ps = self._last_ps[whose] = max(self._last_ps.get(whose, 0), at_ps + self._draws.pop())
        return turn_ps
