"""How many crash states a second: fixed little workloads, on 1,000 keys where states are derived, for ``rpsim bench``.

A state is what :class:`.explorer.Exploration` counts: an instant, an object and an image of the lines that its recovery
and read look at; judging it is included, and so is running recovery wherever an image is new. The simulation of the
workload itself is not. Of a fault that is executed a state is a run of its own.
"""

from __future__ import annotations

import time

from ...scenarios.build import Draft
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.results import RunResult
from ..crash.executed import asked, judge_state
from ..crash.explorer import Explorer
from ..crash.strikes import Walk

KEYS = 1000
EACH = 12
"""A round of executed faults takes every so many instants, from another one on each time."""


def unit_states(seconds: float) -> tuple[int, float]:
    """States judged with recovery in units, and the seconds that they took: about ``seconds``, at least one walk."""
    return _states(seconds, 4000, whole=False)


def opaque_states(seconds: float) -> tuple[int, float]:
    """As :func:`unit_states`, with recovery as one opaque whole, which looks at the whole store for every image."""
    return _states(seconds, 20, whole=True)


def log_states(seconds: float) -> tuple[int, float]:
    """As :func:`unit_states`, of the redo log of durable calls: whichever object is read, every ring is recovered."""
    scenario = Draft.new(
        "pace",
        scenario="pace",
        vary={"platform": ["rflush-testbed"]},
        schemes=["wflush-rpc"],
        roles={"client": {"machines": 1, "processes": 2}},
        workload={"kind": "ycsb", "mix": "update-only", "keys": 8, "value": "64 B", "operations": 8, "work": "5 us"},
    ).build()
    (variant,) = scenario.variants()
    return _walked(run_variant(scenario, variant), seconds, whole=False)


def executed_faults(seconds: float) -> tuple[int, float]:
    """Faults executed and judged, of a client process whose machine and server live on, in 40 operations; and the
    seconds that they took: about ``seconds``, at instants all through the run.
    """
    scenario = Draft.new(
        "pace",
        scenario="pace",
        vary={"platform": ["optane-adr"], "ddio": ["on"]},
        schemes=["saw"],
        roles={"client": {"machines": 1, "processes": 2}},
        workload={"kind": "ycsb", "mix": "a", "keys": 4, "value": "64 B", "operations": 40},
        crash={"fault": "client[0] process"},
    ).build()
    (variant,) = scenario.variants()
    walk, conditions = Walk(scenario, variant), asked(scenario, variant)
    done, began = 0, time.perf_counter()
    while not done or time.perf_counter() - began < seconds:
        for state in walk.states(walk.instants[done % EACH :: EACH]):
            judge_state(state, conditions)
            done += 1
    return done, time.perf_counter() - began


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
    return _walked(workload(operations), seconds, whole=whole)


def _walked(run: RunResult, seconds: float, *, whole: bool) -> tuple[int, float]:
    states, began = 0, time.perf_counter()
    while not states or time.perf_counter() - began < seconds:
        states += Explorer(run, whole=whole).walk().states
    return states, time.perf_counter() - began
