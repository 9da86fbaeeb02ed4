"""The time of work on this machine, and that of SimPy alone in the same process: the unit of all ratios."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import simpy

from ...sim.clock import Clock


@dataclass(frozen=True)
class Pace:
    """A number of pieces of work, and the seconds that they took."""

    done: int
    seconds: float

    @property
    def per_second(self) -> float:
        """The number of pieces a second."""
        return self.done / self.seconds


def timed(done: int, work: Callable[[], object]) -> Pace:
    """The pace of work that does so many of something."""
    began = time.perf_counter()
    work()
    return Pace(done, time.perf_counter() - began)


def raw_timeouts(count: int) -> Pace:
    """The pace of a process that only waits: the cost of SimPy alone."""
    clock = Clock()

    def code() -> Generator[simpy.Event, Any, None]:
        for _ in range(count):
            yield clock.timeout(1)

    done = clock.start(code())
    return timed(count, lambda: clock.run_until(done))
