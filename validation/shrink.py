"""Shrinking a violation to a 1-minimal case: operations first, then the lines that did not make it.

The operations that are left start when they did in the original run (shifted together to time zero), so that those which
met still meet. Every candidate is simulated and explored anew: nothing is assumed to carry over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..models.views import Content, LineKey
from ..scenarios.experiment import run_variant
from ..scenarios.history import Value
from ..scenarios.load import scenario_from_data
from ..scenarios.results import RunResult
from ..scenarios.schema import Scenario, Variant
from ..scenarios.workload import Planned, schedule_data
from .explorer import IMAGES_PER_STATE, Explorer, Violation
from .oracle import RegisterHistory
from .outcomes import Outcome


@dataclass(frozen=True)
class Case:
    """A scenario whose run violates a condition, and the earliest state that does."""

    scenario: Scenario
    variant: Variant
    result: RunResult
    explorer: Explorer
    violation: Violation


def find(scenario: Scenario, variant: Variant, like: Violation) -> Case | None:
    """Run a scenario; the earliest violation of the condition at the same object, if there is one."""
    result = run_variant(scenario, variant)
    explorer = Explorer(result, timed=scenario.crash.view == "timed", conditions=[like.condition], only=[like.object])
    found = explorer.walk(until=lambda now: now.loses(like.condition, acknowledged=like.acknowledged)).first
    violation = found.get(like.condition)
    if violation is None or violation.acknowledged < like.acknowledged:
        return None
    return Case(scenario, variant, result, explorer, violation)


def shrink(scenario: Scenario, variant: Variant, result: RunResult, violation: Violation) -> Case:
    """The smallest case found for a violation of ``scenario``'s run: no operation, and no lost line, can be spared."""
    before = [o for o in result.history.operations if o.invoke_ps <= violation.instant_ps]
    planned = [
        Planned(o.process, o.f, str(o.object), o.f in result.history.updates, o.invoke_ps, _stamp(o.argument))
        for o in before
    ]
    own = [operation for operation in planned if operation.object == violation.object]
    best = None
    for kept in (own, planned):
        best = _with(scenario, variant, kept, violation)
        if best is not None:
            best, kept = _fewer(scenario, variant, kept, best)
            break
    else:
        raise AssertionError(f"the violation of {violation.condition} does not show again in its own run")
    simpler = _with(scenario, variant, [_earlier(o, min(k.not_before_ps for k in kept)) for o in kept], violation)
    best = simpler if simpler is not None else best
    return Case(best.scenario, variant, best.result, best.explorer, _fewest_lines(best))


def _stamp(argument: Value) -> int | None:
    return argument if isinstance(argument, int) else None


def _earlier(operation: Planned, by_ps: int) -> Planned:
    return Planned(
        operation.process,
        operation.f,
        operation.object,
        operation.is_update,
        operation.not_before_ps - by_ps,
    )


def _with(scenario: Scenario, variant: Variant, planned: list[Planned], like: Violation) -> Case | None:
    if not planned:
        return None
    data = scenario.resolved() | {"workload": schedule_data(scenario.workload, planned)}
    return find(scenario_from_data(data, f"{scenario.name} (shrunk)"), variant, like)


def _fewer(scenario: Scenario, variant: Variant, planned: list[Planned], best: Case) -> tuple[Case, list[Planned]]:
    """Delta debugging: leave out ever smaller stretches of operations as long as the violation stays."""
    size = len(planned) // 2
    while size >= 1:
        start, removed = 0, False
        while start < len(planned):
            kept = planned[:start] + planned[start + size :]
            smaller = _with(scenario, variant, kept, best.violation)
            if smaller is not None:
                best, planned, removed = smaller, kept, True
            else:
                start += size
        size = size if removed and size == 1 else size // 2
    return best, planned


def _fewest_lines(case: Case) -> Violation:
    """The violating image at the same instant that lacks the fewest lines."""
    violation, explorer = case.violation, case.explorer
    register = history_until(case.result, violation)

    def violates(value: Value) -> bool:
        return violation.condition in register.judge(value)

    best = violation.outcome
    for turn, outcome in enumerate(explorer.outcomes(violation.object).at(violation.instant_ps)):
        if turn >= IMAGES_PER_STATE:
            break
        if _lost(outcome) < _lost(best) and violates(outcome.value):
            best = outcome
    best = _restored(case, best, violates)
    explanation = register.explain(best.value, violation.condition)
    return Violation(
        violation.condition, violation.instant_ps, violation.object, best, explanation, violation.acknowledged
    )


def _lost(outcome: Outcome) -> int:
    return sum(bool(content.absent or content.torn) for _, content in outcome.image)


def _restored(case: Case, outcome: Outcome, violates: Callable[[Value], bool]) -> Outcome:
    """Put back one line after the other, where lines are independent and the violation stays."""
    views, restart, at_ps = case.explorer.views, case.explorer.restart, case.violation.instant_ps
    image: dict[LineKey, Content] = dict(outcome.image)
    if any(content.cut for content in image.values()):
        return outcome  # tied lines cannot be put back one by one
    value = outcome.value
    for key, content in list(image.items()):
        if not (content.absent or content.torn):
            continue
        whole = next((c for c in views.contents(key, at_ps, {}) if not c.absent and c.torn is None), None)
        if whole is None:
            continue
        trial: Mapping[LineKey, Content] = {**image, key: whole}
        after = restart.read(
            case.violation.object,
            lambda line, trial=trial: trial[line].data if line in trial else views.newest(line, at_ps),  # type: ignore[misc]
        )
        if violates(after):
            image[key], value = whole, after
    return Outcome(value, tuple(image.items()))


def history_until(result: RunResult, violation: Violation) -> RegisterHistory:
    """What clients had seen of the violation's object when the power failed."""
    register = RegisterHistory(violation.object, result.history.updates)
    for at_ps, kind, operation in result.history.events():
        if at_ps > violation.instant_ps or operation.object != violation.object:
            continue
        if kind == "invoke":
            register.invoke(operation)
        else:
            register.complete(operation)
    return register
