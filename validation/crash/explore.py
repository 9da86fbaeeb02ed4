"""Exploring a scenario's fault, from the run to the report: what the command line calls."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from ...protocols.guarantees import Condition
from ...protocols.registry import scheme
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.results import RunResult
from ...scenarios.schema.faults import conditions_after
from ...scenarios.schema.load import scenario_from_data
from ...scenarios.schema.perturbed import in_words
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.collector import seldom_collecting
from ...sim.errors import InputError, Mistake
from . import executed_report
from .case import CASE_FORMAT, Evidence, Sought, find, tell
from .derived import LeftState
from .executed_case import ExecutedFault
from .explorer import ASKED, Exploration
from .findings import Counterexample, CrashReport
from .shrink import EXPLORING, shrink
from .sidebyside import in_advance, walk
from .slider import slider_data
from .subjects import one_writer

RUN_SHARE = 0.2
"""How much of the progress of a run that is explored the run itself is: a guess for the bar, nothing else."""
LARGE = 5_000
"""After so many states it pays to collect what runs have left: machines know one another, so nothing else does."""

_AGAIN = "; then power {often} at every instant of the recovery, or not"
_NO_MORE = " (no more of them once all conditions are violated)"


@seldom_collecting()
def explore(
    result: RunResult,
    scenario: Scenario,
    variant: Variant,
    *,
    progress: Callable[[float], None] | None = None,
    processes: int = 1,
    also: Collection[Condition] = (),
    examples: Collection[Condition] | None = None,
) -> CrashReport:
    """Walk all crash states of a run, judge them, and shrink the earliest violation of each condition.

    With several ``processes`` schedules are explored side by side; what is found is the same. ``also`` are conditions
    that are asked for beside the usual ones, as far as the fault can be judged by them. The violations of ``examples``
    alone are shrunk (None: of all conditions), which takes longer than the states of a small run; the others have no
    counterexample in the report, and the rest is the same.
    """
    if scenario.crash.fault.executed:
        return executed_report.explore(scenario, variant, progress, also, examples)
    progress = progress or (lambda done: None)
    started = time.perf_counter()
    found, sources = _explored(result, scenario, variant, _asked(scenario, variant, also), processes, progress)
    seconds = time.perf_counter() - started
    counterexamples = []
    shown = sorted(c for c in found.first if examples is None or c in examples)
    for turn, condition in enumerate(shown):
        number, run = sources[condition]
        run = run or run_variant(scenario, variant, number)

        def smaller(share: float, turn: int = turn) -> None:
            progress(EXPLORING + (1 - EXPLORING) * (turn + share) / len(shown))

        left = scenario.from_schedule(number)
        counterexamples.append(tell(shrink(LeftState, left, variant, run, found.first[condition], progress=smaller)))
        smaller(1)
    if found.states > LARGE:
        gc.collect()
    return CrashReport(
        scheme=variant.scheme,
        platform=variant.label,
        fault=str(scenario.crash.fault),
        view=scenario.crash.view,
        instants=found.instants,
        states=found.states,
        recoveries_run=found.recoveries_run,
        verdicts_computed=found.verdicts_computed,
        exhaustive=found.exhaustive,
        over=_over(found, scenario),
        verdicts={condition: found.verdict(condition) for condition in found.violating_states},
        violating_states=found.violating_states,
        counterexamples=counterexamples,
        seconds=seconds,
        one_writer=one_writer(scenario, variant),
    )


def _explored(
    result: RunResult,
    scenario: Scenario,
    variant: Variant,
    conditions: frozenset[Condition],
    processes: int,
    progress: Callable[[float], None],
) -> tuple[Exploration, dict[Condition, tuple[int, RunResult | None]]]:
    """Explore schedule after schedule, until all conditions are violated. Returns what was found, and of each violation
    the schedule that has it, with the run if it is at hand; ``result`` is that of the first schedule.
    """
    schedules, found, explored = scenario.crash.schedules, Exploration(), 0
    sources: dict[Condition, tuple[int, RunResult | None]] = {}
    side_by_side = processes > 1 and schedules > 1
    with in_advance(scenario, variant, conditions, processes) if side_by_side else nullcontext() as elsewhere:
        while explored < schedules and not all(found.loses(condition, acknowledged=True) for condition in conditions):
            schedule, explored = explored, explored + 1

            def advance(done: float, schedule: int = schedule) -> None:
                progress((schedule + done) / schedules * EXPLORING)

            known, run = found.first, result if schedule == 0 else None
            if elsewhere is not None and run is None:
                one = elsewhere(schedule)
                advance(1.0)
            else:
                run = run or run_variant(scenario, variant, schedule)
                one = walk(run, scenario, conditions, advance)
            found = found.joined(one)
            sources |= {c: (schedule, run) for c, violation in found.first.items() if known.get(c) is not violation}
    return found, sources


def _over(found: Exploration, scenario: Scenario) -> str:
    """What the verdicts quantify over, all schedules together."""
    crash, over = scenario.crash, found.over
    if again := crash.fault.again:
        over += _AGAIN.format(often="once more" if again == 1 else f"up to {again} times more")
    if crash.schedules == 1:
        return over
    perturbed = f" ({in_words(crash.perturbed)})" if crash.perturb else ""
    return f"{crash.schedules} schedules{perturbed}{_NO_MORE}; in each, {over}"


def _asked(scenario: Scenario, variant: Variant, also: Collection[Condition]) -> frozenset[Condition]:
    """What is explored: the usual conditions, what the scenario expects and what the scheme claims."""
    expected = {Condition(name) for name in scenario.expect.get(variant.scheme, ())}
    kind = scheme(variant.scheme)
    wanted = {*ASKED, Condition.EXACTLY_ONCE, *expected, *also, *kind.claims}
    if scenario.crash.loss_ps is None and kind.loss_within is None:
        wanted.discard(Condition.BOUNDED_LOSS)
    return frozenset(wanted).intersection(conditions_after(scenario.crash.fault, kind.model))


def slider(report: CrashReport, result: RunResult, scenario: Scenario, variant: Variant) -> dict[str, Any] | None:
    """The crash slider's data: the smallest counterexample's run, or a put and a get of a scheme that has none.

    It draws power failures; None where the fault leaves memory coherent.
    """
    if report.executed:
        return None
    return slider_data(report, result, scenario, variant)


def replay_case(path: Path) -> Counterexample | None:
    """Simulate a saved counterexample again; None when nothing is violated this time.

    Raises InputError for a file that is not a case.
    """
    case = _read_case(path)
    try:
        condition = Condition(case["condition"])
        sought = Sought(condition, case["object"], bool(case.get("acknowledged")))
        instant_ps = int(case.get("instant_ps", 0))
        scenario = scenario_from_data(case["scenario"], str(path))
        model = scheme(str(case.get("scheme"))).model
        if condition not in conditions_after(scenario.crash.fault, model):
            raise ValueError(f"condition '{condition}': {scenario.crash.fault} is not judged by it")
    except (KeyError, ValueError, TypeError) as error:
        found = f"a case without {error}" if isinstance(error, KeyError) else f"a case that cannot be used: {error}"
        raise InputError(Mistake(found, "a case-N.json as rpsim writes it", str(path))) from None
    for variant in scenario.variants():
        if (variant.scheme, variant.label) == (case.get("scheme"), case.get("platform")):
            kind: type[Evidence[Any]] = ExecutedFault if scenario.crash.fault.executed else LeftState
            look = partial(find, kind, scenario, variant, sought, telling=True)
            again = look(since_ps=instant_ps) or look()
            return None if again is None else tell(again)
    found = f"'{case.get('scheme')} on {case.get('platform')}'"
    known = ", ".join(f"{v.scheme} on {v.label}" for v in scenario.variants())
    raise InputError(Mistake(found, f"a variant of its scenario: {known}", str(path), field="platform"))


def differences(path: Path, again: Counterexample) -> list[str]:
    """How a replayed counterexample differs from what its case says, a sentence each: the simulator has changed."""
    case = _read_case(path)
    pairs = [
        (f"{key}: the case says {case.get(key)}, now {again.case[key]}", key) for key in ("instant_ps", "lines_lost")
    ]
    return [text for text, key in pairs if case.get(key) != again.case[key]]


def _read_case(path: Path) -> dict[str, Any]:
    expected = "a case-N.json from a results folder"
    try:
        case = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        wrong = error if isinstance(error, json.JSONDecodeError) else None
        found = "an empty file" if wrong and not wrong.doc.strip() else f"no JSON ({wrong.msg if wrong else error})"
        raise InputError(Mistake(found, expected, str(path), wrong.lineno if wrong else None)) from None
    if not isinstance(case, dict) or case.get("case") != CASE_FORMAT or not isinstance(case.get("scenario"), dict):
        raise InputError(Mistake("JSON that is no case", expected, str(path)))
    for key in ("object", "condition"):
        if not isinstance(case.get(key), str):
            raise InputError(Mistake(f"a case without '{key}'", "a case-N.json as rpsim writes it", str(path)))
    return case
