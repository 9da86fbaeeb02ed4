"""How long work takes on this machine, and what SimPy alone takes in the same process: the unit of all ratios."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import simpy

from ...sim.clock import Clock


@dataclass(frozen=True)
class Pace:
    """What was done in how long."""

    done: int
    seconds: float

    @property
    def per_second(self) -> float:
        """How many a second."""
        return self.done / self.seconds


def timed(done: int, work: Callable[[], object]) -> Pace:
    """The pace of work that does so many of something."""
    began = time.perf_counter()
    work()
    return Pace(done, time.perf_counter() - began)


def raw_timeouts(count: int) -> Pace:
    """A process that only waits: what SimPy alone costs."""
    clock = Clock()

    def code() -> Generator[simpy.Event, Any, None]:
        for _ in range(count):
            yield clock.timeout(1)

    done = clock.start(code())
    return timed(count, lambda: clock.run_until(done))
