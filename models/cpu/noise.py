"""Disturbances that take a core from its threads now and then: timer ticks, stray interrupts and kernel threads.

Off by default (``cpu.os.noise``). Ticks are periodic with a phase of their own on each core; the others come at random,
exponentially spread in time and in length. All is drawn from the core's own stream, ``noise of server[0] core 0``.
"""

from __future__ import annotations

import numpy as np

from ...sim.clock import Clock
from ..profiles.parameters.cpu import OperatingSystem
from .core import Core


class Noise:
    """The disturbances of one core, from time zero on."""

    def __init__(self, clock: Clock, core: Core, system: OperatingSystem, random: np.random.Generator) -> None:
        self._clock = clock
        self._core = core
        self._system = system
        self._random = random
        clock.call_at(clock.now_ps + int(random.integers(system.tick_every_ps)), self._tick)
        clock.call_at(clock.now_ps + self._drawn(system.stray_every_ps), self._stray)

    def _drawn(self, mean_ps: int) -> int:
        return 1 + int(self._random.exponential(mean_ps))

    def _tick(self) -> None:
        self._core.interrupt(self._clock, self._system.tick_ps)
        self._clock.call_at(self._clock.now_ps + self._system.tick_every_ps, self._tick)

    def _stray(self) -> None:
        self._core.interrupt(self._clock, self._drawn(self._system.stray_ps))
        self._clock.call_at(self._clock.now_ps + self._drawn(self._system.stray_every_ps), self._stray)
