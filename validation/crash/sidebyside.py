"""Schedules explored side by side, each in a process of its own, as if one after the other.

What a schedule shows depends on no other schedule: only whether it is looked at at all does. So some are explored in
advance, and what the walk in order would not have come to is thrown away: the answer is that of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...protocols.guarantees import Condition
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.results import RunResult
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.jobs.runner import Processes
from .explorer import IMAGES_PER_STATE, Exploration, Explorer

Conditions = frozenset[Condition]
Walk = Callable[[int], Exploration]
"""What the schedule of that number shows."""


def walk(
    run: RunResult, scenario: Scenario, conditions: Conditions, progress: Callable[[float], None] | None = None
) -> Exploration:
    """Explore one run as its scenario says."""
    crash = scenario.crash
    most = crash.images or IMAGES_PER_STATE
    explorer = Explorer(run, timed=crash.view == "timed", conditions=conditions, most=most)
    sample = None if crash.instants == "all" else crash.instants
    return explorer.walk(budget=crash.budget, sample=sample, progress=progress)


@contextmanager
def in_advance(scenario: Scenario, variant: Variant, conditions: Conditions, processes: int) -> Iterator[Walk]:
    """Explores all schedules but the first in up to so many processes; what nobody asks for is given up at the end."""
    further = range(1, scenario.crash.schedules)
    with Processes(min(processes, len(further))) as pool:
        found = {number: pool.submit(_in_worker, scenario, variant, conditions, number) for number in further}
        yield lambda number: found[number].result()


def _in_worker(scenario: Scenario, variant: Variant, conditions: Conditions, number: int) -> Exploration:
    return walk(run_variant(scenario, variant, number), scenario, conditions)
