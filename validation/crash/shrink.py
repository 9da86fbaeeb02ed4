"""Shrinking a violation to a 1-minimal case: operations first, then outages, then the lines that did not make it.

The operations that are left start when they did in the original run (shifted together to time zero), so that those
which met still meet. Every candidate is simulated and explored anew: nothing is assumed to carry over. Where the
violation needs a core to pause and fewer operations are too quick for the pause, it is moved to where the core stores
something, and reads to where the pause begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice, product
from typing import TypeVar

from ...models.durability.views import Content, Cut, LineKey, TornLine
from ...scenarios.arguments import OutageFields
from ...scenarios.build import Draft
from ...scenarios.history import Operation
from ...scenarios.run.experiment import PAUSE_LONGEST_PS, run_variant
from ...scenarios.run.results import RunResult
from ...scenarios.run.workload import Planned, schedule_data
from ...scenarios.schema.fields import exact_duration
from ...scenarios.schema.schema import Outage, Scenario, Variant
from ..oracle import RegisterHistory, RemovableHistory, check, followed
from .explorer import IMAGES_PER_STATE, Explorer, Violation
from .outcomes import Outcome

MOVED_AT_MOST = 4
"""Up to how many operations pauses and reads are moved about: the search tries every place."""

_Item = TypeVar("_Item", Content, Content | TornLine)

_Outage = tuple[str, int, int]
"""(core, from, for how long)"""


AT_RANDOM = ("loss", "delay", "reorder", "repeat")
"""What a scenario's network may do to packets at random."""

LOST_AT_MOST = 3
"""Up to how many lost lines are tried in every combination."""


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
    outages = [*map(_outage, scenario.outages), *result.outages]
    before = [o for o in result.history.operations if o.invoke_ps <= violation.instant_ps]
    few = _offending(result, violation), [o for o in before if o.object == violation.object]
    attempts: list[tuple[_Search, list[Operation]]] = []
    for fewer in _fewer_failures(scenario):
        calm, search = _calm(fewer), _Search(fewer, variant, violation, outages)
        if calm is not None:  # most violations do not need what happens to packets at random; and then little is left
            attempts += [(_Search(calm, variant, violation, outages), chosen) for chosen in few]
        attempts += [*((search, chosen) for chosen in few), (search, before)]
    best = None
    rooms = (None, result.scheme.sizes.updates)  # where a log is cleaned its size matters
    for room, (search, chosen) in product(rooms, attempts):
        search.room = room
        best = search.case([_planned(operation, result) for operation in chosen])
        if best is not None:
            break
    assert best is not None, f"the violation of {violation.condition} does not show again in its own run"
    best = search.fewer_operations(best)
    best = search.fewer_outages(best)
    best = search.from_time_zero(best)
    return fewest_lines(best)


def _fewer_failures(scenario: Scenario) -> Iterator[Scenario]:
    """The same scenario with power failing again more and more often, itself last: the fewer, the less to explore."""
    fault = scenario.crash.fault
    for times in range(fault.again):
        fewer = {"crash.fault": str(fault.nested(times)), "crash.nested": times or None}
        yield Draft.of(scenario).set(fewer).build()
    yield scenario


def _calm(scenario: Scenario) -> Scenario | None:
    """The same scenario with nothing happening to packets at random; None where nothing does."""
    network = scenario.network
    if network is None or not (network.loss or network.delay_ps or network.reorder or network.repeat):
        return None
    return Draft.of(scenario).set({f"network.{field}": None for field in AT_RANDOM}).build()


def _offending(result: RunResult, violation: Violation) -> list[Operation]:
    """The operations that the oracle names and those that wrote what they read, in the order of their invocations."""
    at_ps = violation.instant_ps
    seen = [o for o in result.history.operations if o.invoke_ps <= at_ps and o.object == violation.object]
    until = replace(result.history, operations=[_as_of(operation, at_ps) for operation in seen])
    finding = check(until, at_ps, {violation.object: violation.outcome.value}, [violation.condition])
    named = {operation.number for operation in finding[violation.condition].operations}
    read = {operation.result for operation in seen if operation.number in named and operation.result is not None}
    return [o for o in seen if o.number in named or (o.f in result.history.updates and o.argument in read)]


def _as_of(operation: Operation, at_ps: int) -> Operation:
    if operation.return_ps is None or operation.return_ps <= at_ps:
        return operation
    return replace(operation, return_ps=None, result=None, outcome=None)


def _planned(operation: Operation, result: RunResult) -> Planned:
    stamp = operation.argument if isinstance(operation.argument, int) else None
    is_update = operation.f in result.history.updates
    return Planned(operation.process, operation.f, str(operation.object), is_update, operation.invoke_ps, stamp)


class _Search:
    """Tries smaller scenarios for one violation."""

    def __init__(self, scenario: Scenario, variant: Variant, like: Violation, outages: list[_Outage]) -> None:
        self.scenario = scenario
        self.variant = variant
        self.like = like
        self.outages = [outage for outage in outages if outage[1] <= like.instant_ps]
        self.room: int | None = None

    def case(self, planned: list[Planned]) -> Case | None:
        """The violation with just these operations, pauses moved about if it takes that."""
        if not planned:
            return None
        found = self._try(planned, self.outages)
        if found is not None or not self.outages or len(planned) > MOVED_AT_MOST:
            return found
        quiet = run_variant(self._scenario(planned, []), self.variant, watched=True)
        for core, at_ps in quiet.may_pause:
            for moved in (planned, [o if o.is_update else replace(o, not_before_ps=at_ps) for o in planned]):
                found = self._try(moved, [(core, at_ps, PAUSE_LONGEST_PS)])
                if found is not None:
                    return found
        return None

    def _scenario(self, planned: list[Planned], outages: list[_Outage]) -> Scenario:
        listed: list[OutageFields] = [
            {"core": core, "at": exact_duration(at), "for": exact_duration(length)} for core, at, length in outages
        ]
        workload = schedule_data(self.scenario.workload, planned, self.room)
        draft = Draft.of(self.scenario, f"{self.scenario.name} (shrunk)")
        return draft.with_(workload=workload, outages=listed).build()

    def _try(self, planned: list[Planned], outages: list[_Outage]) -> Case | None:
        return find(self._scenario(planned, outages), self.variant, self.like)

    def fewer_operations(self, best: Case) -> Case:
        """Delta debugging: leave out ever smaller stretches of operations as long as the violation stays."""
        planned = _operations(best)
        size = max(1, len(planned) // 2)
        while size >= 1:
            start, removed = 0, False
            while start < len(planned):
                smaller = self.case(planned[:start] + planned[start + size :])
                if smaller is not None:
                    best, planned, removed = smaller, _operations(smaller), True
                else:
                    start += size
            size = size if removed and size == 1 else size // 2
        return best

    def fewer_outages(self, best: Case) -> Case:
        """Leave out the pauses that it does not take."""
        outages = [_outage(outage) for outage in best.scenario.outages]
        for outage in list(outages):
            kept = [other for other in outages if other != outage]
            smaller = self._try(_operations(best), kept)
            if smaller is not None:
                best, outages = smaller, kept
        return best

    def from_time_zero(self, best: Case) -> Case:
        """Let the first operation begin at time zero, and number what is written from one."""
        planned = _operations(best)
        first_ps = min(operation.not_before_ps for operation in planned)
        outages = [(core, at - first_ps, length) for core, at, length in map(_outage, best.scenario.outages)]
        if any(at_ps < 0 for _, at_ps, _ in outages):
            return best
        shifted = [replace(o, not_before_ps=o.not_before_ps - first_ps, stamp=None) for o in planned]
        return self._try(shifted, outages) or best


def _operations(case: Case) -> list[Planned]:
    """The operations of a shrunk case, in the order of their invocations."""
    return [_planned(operation, case.result) for operation in case.result.history.operations]


def _outage(outage: Outage) -> _Outage:
    return outage.core, outage.at_ps, outage.for_ps


def fewest_lines(case: Case) -> Case:
    """The same case with a violating image that lacks as few lines as any does (tried up to ``LOST_AT_MOST``)."""
    violation, explorer, views = case.violation, case.explorer, case.explorer.views
    register = history_until(case.result, violation)
    looked_at = [key for key, _ in violation.outcome.image]
    for size in range(min(LOST_AT_MOST, _lost(violation.outcome) - 1) + 1):
        for chosen in combinations(looked_at, size):
            contents = partial(_whole_but, views.contents, frozenset(chosen))
            families = partial(_whole_but, views.families, frozenset(chosen))
            outcomes = explorer.outcomes(violation.object, contents, families)
            for outcome in islice(outcomes.at(violation.instant_ps), IMAGES_PER_STATE):
                if _lost(outcome) <= size and violation.condition in register.judge(outcome.value):
                    why = register.explain(outcome.value, violation.condition)
                    return replace(case, violation=replace(violation, outcome=outcome, explanation=why))
    return case


def _whole_but(
    view: Callable[[LineKey, int, Cut], Iterator[_Item]], chosen: frozenset[LineKey], key: LineKey, at_ps: int, cut: Cut
) -> Iterator[_Item]:
    """What a line may hold, with nothing missing unless it is ``chosen`` or the cut leaves no choice."""
    whole = False
    for item in view(key, at_ps, cut):
        if key in chosen or (isinstance(item, Content) and not (item.absent or item.torn)):
            whole = True
            yield item
    if not whole:
        yield from view(key, at_ps, cut)


def _lost(outcome: Outcome) -> int:
    return sum(bool(content.absent or content.torn) for _, content in outcome.image)


def history_until(result: RunResult, violation: Violation) -> RegisterHistory | RemovableHistory:
    """What clients had seen of the violation's object when the power failed."""
    register = followed(violation.object, result.history)
    for at_ps, kind, operation in result.history.events():
        if at_ps > violation.instant_ps or operation.object != violation.object:
            continue
        if kind == "invoke":
            register.invoke(operation)
        else:
            register.complete(operation)
    return register
