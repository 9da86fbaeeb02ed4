"""How much sooner a sweep is done on several cores: the same runs in one process, and shared by two."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ...scenarios.sweep.axes import Axis
from ...scenarios.sweep.grid import make_grid
from ...scenarios.sweep.point import simulate
from ...sim.jobs.runner import JobRunner
from ...sim.jobs.spread import Spread

SCENARIO = "quickstart"
OVERRIDES = ("schemes=[saw]", "platform=optane-adr", "ddio=on", "workload.operations=1500")
"""A run takes about a second of processor time. Shorter runs would measure the start of processes; fewer and longer
ones the last run of all, for which the other process waits."""
VALUES = ("64 B", "256 B", "1 KiB", "4 KiB")
RUNS, QUICK_RUNS = 32, 8
PROCESSES = 2


@dataclass(frozen=True)
class SweepFigures:
    """The same runs by one process and by two, their start included."""

    runs: int
    seconds: dict[int, float]
    """Wall time by the number of processes."""
    processor_seconds: dict[int, float]
    """Time on a processor, of all processes together."""

    @property
    def ratio(self) -> float:
        """How many times as fast two processes are."""
        return self.seconds[1] / self.seconds[PROCESSES]

    @property
    def overhead(self) -> float:
        """How much more processor time two processes take, as a share."""
        return self.processor_seconds[PROCESSES] / self.processor_seconds[1] - 1


def measure(effort: float, on_step: Callable[[str], object] = lambda _: None) -> SweepFigures:
    """Measure; ``effort`` below 1 takes fewer runs. ``on_step`` is called after each of the two sweeps."""
    seeds = (RUNS if effort >= 1 else QUICK_RUNS) // len(VALUES)
    grid = make_grid(SCENARIO, [Axis("workload.value", VALUES)], OVERRIDES, seeds=seeds)
    names = [str(number) for number in range(len(grid.runs))]
    simulate(grid.runs[0])  # what is imported and read once is no part of it
    seconds, processor_seconds = {}, {}
    for processes in (1, PROCESSES):
        with TemporaryDirectory(prefix="rpsim-") as folder:
            began, busy = time.perf_counter(), _processor_seconds()
            with JobRunner(processes) as runner:
                spread = Spread(Path(folder))
                found = sum(1 for _ in spread.completed(runner, simulate, grid.runs, names))
                spread.close()
            assert found == len(grid.runs)
            seconds[processes] = time.perf_counter() - began
            processor_seconds[processes] = _processor_seconds() - busy
        on_step(f"sweep, {processes} processes")
    return SweepFigures(len(grid.runs), seconds, processor_seconds)


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system
