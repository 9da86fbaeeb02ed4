"""A run in which machines and processes fail at stated instants: availability, repair, re-sending.

Nothing is judged here. A machine that comes back finds in its memory what this timing had left there, one of the many
contents that exploration (``crash.fault``) tries.
"""

from __future__ import annotations

from typing import Any

from ...models.profiles.platform import Platform
from ..schema.failures import DrawnFailures, Failure
from ..schema.schema import Scenario, Variant
from .experiment import AssembledVariant, run_variant
from .inject import Strike, run_struck
from .leftover import MemoryLeft
from .results import RunResult
from .series import FailureEvent, FailureSeries
from .series import fields as repaired_fields

INTERVALS = 20
"""Into so many equal parts the time of a run is divided to show how much was done in each."""


def performed(
    scenario: Scenario,
    variant: Variant,
    platform: Platform | None = None,
    *,
    recorded: bool = True,
    metered: bool = False,
) -> RunResult:
    """Run one scheme on one platform, with the failures of the scenario; without any as :func:`.run_variant` does."""
    if not scenario.failures:
        return run_variant(scenario, variant, platform=platform, recorded=recorded, metered=metered)
    experiment = AssembledVariant(scenario, variant, platform=platform, metered=metered)
    if isinstance(scenario.failures, DrawnFailures):
        alone = scenario.model_copy(update={"failures": ()})
        series = FailureSeries(experiment, scenario.failures)
        result = series.run_series()
        undisturbed = run_variant(alone, variant, platform=platform, recorded=False)
        result.over_time = {
            "failures": [_drawn_event(scenario.failures, event) for event in series.events],
            "repaired": repaired_fields(series, result, undisturbed),
        }
        return result
    left = MemoryLeft(experiment.loaded)
    strikes = [
        Strike(one.at_ps, one.fault.parts, memory=left.behind(one.at_ps, one.fault.parts), down_ps=one.down_ps)
        for one in sorted(scenario.failures, key=lambda one: one.at_ps)
    ]
    result = run_struck(experiment, strikes)
    result.over_time = {
        "failures": [_event(one, result) for one in sorted(scenario.failures, key=lambda one: one.at_ps)],
        "intervals": _intervals(result),
        "waiting": sum(o.return_ps is None for o in result.history.operations),
    }
    return result


def _drawn_event(drawn: DrawnFailures, event: FailureEvent) -> dict[str, Any]:
    back_us = None if event.back_ps is None else event.back_ps / 1e6
    return {"at_us": event.at_ps / 1e6, "fault": str(drawn.of), "back_us": back_us, "after_the_end": False}


def _event(failure: Failure, result: RunResult) -> dict[str, Any]:
    """A failure in the results; it struck nobody who still had something to do if all had returned before."""
    back_ps = failure.at_ps + failure.down_ps if failure.comes_back else None
    return {
        "at_us": failure.at_ps / 1e6,
        "fault": str(failure.fault),
        "back_us": None if back_ps is None else back_ps / 1e6,
        "after_the_end": failure.at_ps > result.elapsed_ps and not _open(result),
    }


def _open(result: RunResult) -> bool:
    return any(o.return_ps is None for o in result.history.operations)


def _intervals(result: RunResult) -> list[dict[str, Any]]:
    """What returned in each interval, by its outcome; the last ends with the last return."""
    finished = [(o.return_ps, o.outcome) for o in result.history.operations if o.return_ps is not None]
    end_ps = max((at_ps for at_ps, _ in finished), default=0)
    step_ps = max(1, -(-(end_ps + 1) // INTERVALS))
    rows = [
        {"from_us": turn * step_ps / 1e6, "to_us": (turn + 1) * step_ps / 1e6, "ok": 0, "fail": 0, "info": 0}
        for turn in range(INTERVALS if finished else 0)
    ]
    for at_ps, outcome in finished:
        rows[at_ps // step_ps][str(outcome)] += 1
    return rows
