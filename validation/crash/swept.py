"""One run of a sweep, explored: what ``rpsim crash`` finds for a scheme on a platform, as plain data."""

from __future__ import annotations

from typing import Any

from ...scenarios.run.failing import performed
from ...scenarios.sweep.grid import SweptRun
from ...scenarios.sweep.point import APART
from ...sim.errors import InputError
from ...sim.jobs.runner import report
from .explore import RUN_SHARE, explore


def explore_point(run: SweptRun) -> dict[str, Any]:
    """The summary of a run and, as ``crash``, its verdicts by condition and what they are over; no wall times.

    Where the scenario turns out to be impossible at this point, its only field is ``error``.
    """
    scenario = run.scenario.model_copy(update={"failures": ()})  # exploration tries crash.fault, at every instant
    try:
        result = performed(scenario, run.variant)
        report(RUN_SHARE)
        found = explore(
            result, scenario, run.variant, progress=lambda done: report(RUN_SHARE + (1 - RUN_SHARE) * min(done, 1.0))
        )
    except InputError as error:
        return {"error": str(error)}
    summary = {name: value for name, value in result.summary().items() if name not in APART}
    crash = {
        "fault": found.fault,
        "view": found.view,
        "states": found.states,
        "exhaustive": found.exhaustive,
        "waiting": found.waiting,
        "over": found.over,
        "one_writer": found.one_writer,
        "verdicts": {str(condition): str(verdict) for condition, verdict in found.verdicts.items()},
        "violating_states": {str(condition): number for condition, number in found.violating_states.items()},
    }
    return {**summary, "crash": crash}
