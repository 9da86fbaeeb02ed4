"""Exploring a fault that leaves somebody alive, from its instants to the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from ...protocols.guarantees import Condition
from ...scenarios.schema.schema import Scenario, Variant
from .case import tell
from .executed import asked, execute
from .executed_case import ExecutedFault, ExecutedOnce
from .findings import CrashReport
from .shrink import EXPLORING, shrink
from .subjects import one_writer


def explore(
    scenario: Scenario,
    variant: Variant,
    progress: Callable[[float], None] | None = None,
    also: Collection[Condition] = (),
    examples: Collection[Condition] | None = None,
) -> CrashReport:
    """Execute, judge, and shrink the earliest violation of each condition, or of ``examples`` alone."""
    advance: Callable[[float], None] = progress or (lambda done: None)
    started = time.perf_counter()
    conditions = asked(scenario, variant, also)
    found = execute(scenario, variant, conditions, lambda done: advance(done * EXPLORING))
    seconds = time.perf_counter() - started
    counterexamples = []
    shown = sorted(c for c in found.first if examples is None or c in examples)
    look = ExecutedOnce(shown)
    for turn, condition in enumerate(shown):
        breach = found.first[condition]

        def smaller(share: float, turn: int = turn) -> None:
            advance(EXPLORING + (1 - EXPLORING) * (turn + share) / len(shown))

        seen = breach.aftermath.result, breach, look, smaller, look.enough
        counterexamples.append(tell(shrink(ExecutedFault, scenario.from_schedule(breach.schedule), variant, *seen)))
        smaller(1)
    timed = scenario.crash.view == "timed"
    return CrashReport(
        scheme=variant.scheme,
        platform=variant.label,
        fault=str(scenario.crash.fault),
        view="executed",
        instants=found.instants,
        states=found.runs,
        recoveries_run=found.recoveries,
        verdicts_computed=found.verdicts,
        exhaustive=found.exhaustive,
        over=found.over(scenario.crash.schedules),
        verdicts={condition: found.verdict(condition, timed) for condition in sorted(conditions)},
        violating_states=found.violating,
        windows_ps=found.windows_ps,
        counterexamples=counterexamples,
        seconds=seconds,
        one_writer=one_writer(scenario, variant),
        executed=True,
        waiting=found.unfinished,
    )
