"""How many crash states a second: fixed little workloads on 1,000 keys, for ``rpsim bench``.

A state is what :class:`.explorer.Exploration` counts: an instant, an object and an image of the lines that its recovery
and read look at; judging it is included, and so is running recovery wherever an image is new. The simulation of the
workload itself is not.
"""

from __future__ import annotations

import time

from ...scenarios.build import Draft
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.results import RunResult
from ..crash.explorer import Explorer

KEYS = 1000


def unit_states(seconds: float) -> tuple[int, float]:
    """States judged with recovery in units, and the seconds that they took: about ``seconds``, at least one walk."""
    return _states(seconds, 4000, whole=False)


def opaque_states(seconds: float) -> tuple[int, float]:
    """As :func:`unit_states`, with recovery as one opaque whole, which looks at the whole store for every image."""
    return _states(seconds, 20, whole=True)


def workload(operations: int) -> RunResult:
    """A run to explore: saw, half of the operations puts, from 16 clients."""
    scenario = Draft.new(
        "pace",
        scenario="pace",
        vary={"platform": ["optane-adr"], "ddio": ["on"]},
        schemes=["saw"],
        roles={"client": {"machines": 2, "processes": 8}},
        workload={"kind": "ycsb", "mix": "a", "keys": KEYS, "value": "64 B", "operations": operations},
    ).build()
    (variant,) = scenario.variants()
    return run_variant(scenario, variant)


def _states(seconds: float, operations: int, *, whole: bool) -> tuple[int, float]:
    """Whole walks only: the first states of a walk cost more than later ones, since all images are new to it."""
    run = workload(operations)
    states, began = 0, time.perf_counter()
    while not states or time.perf_counter() - began < seconds:
        states += Explorer(run, whole=whole).walk().states
    return states, time.perf_counter() - began
