"""A state that a power failure of a run may leave, as evidence: who is to blame, which operations and lines it takes.

The run itself has no fault in it: what the failure may leave, and what recovery makes of that, is derived from its
trace (:mod:`.explorer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice
from math import comb
from typing import Any, ClassVar, Self, TypeVar

from typing_extensions import override

from ...models.durability.views import Content, Cut, LineKey, TornLine
from ...protocols.guarantees import Condition
from ...protocols.objects import TRANSACTIONAL
from ...scenarios.build import Draft
from ...scenarios.history import Operation, Value
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.results import RunResult
from ...scenarios.schema.schema import Scenario, Variant
from ..oracle import check
from . import story
from .case import Case, Evidence, Sought
from .explorer import IMAGES_PER_STATE, Explorer, Violation
from .findings import LineFate, TimelineRow
from .outcomes import Outcome
from .subjects import by_object, concerned, events, follow, follower

IMAGES_PER_TRIAL = 512
"""After how many images of the object a smaller run is taken not to show the violation at an instant."""

_Item = TypeVar("_Item", Content, Content | TornLine)

AT_RANDOM = ("loss", "delay", "reorder", "repeat")
"""What a scenario's network may do to packets at random."""

LOST_AT_MOST = 3
"""Up to how many lost lines are tried in every combination."""
TRIED_AT_MOST = 200
"""Up to how many combinations of so many lines."""


@dataclass(frozen=True)
class LeftState(Evidence[Violation]):
    """The earliest state that violates the condition, of a run that was explored."""

    result: RunResult
    explorer: Explorer
    violation: Violation
    pauses_move: ClassVar[bool] = True
    may_hurry: ClassVar[bool] = True

    @property
    @override
    def recovered(self) -> Value:
        return self.violation.outcome.value

    @classmethod
    @override
    def find(
        cls, scenario: Scenario, variant: Variant, sought: Sought, *, telling: bool = False, since_ps: int = 0
    ) -> Self | None:
        result, (condition, name, acknowledged) = run_variant(scenario, variant), sought
        timed = scenario.crash.view == "timed"
        torn = telling or not since_ps or condition is Condition.COMMITTED  # others are broken by whole lines as well
        most = IMAGES_PER_STATE if telling else IMAGES_PER_TRIAL
        explorer = Explorer(
            result, timed=timed, conditions=[condition], only=[name], since_ps=since_ps, torn=torn, most=most
        )
        found = explorer.walk(until=lambda now: now.loses(condition, acknowledged=acknowledged)).first
        violation = found.get(condition)
        if violation is None or violation.acknowledged < acknowledged:
            return None
        state = cls(result, explorer, violation)
        return state.with_fewest_lines() if telling else state

    @classmethod
    @override
    def attempts(
        cls, scenario: Scenario, result: RunResult, violation: Violation
    ) -> Iterator[tuple[Scenario, list[Operation]]]:
        before = [o for o in result.history.operations if o.invoke_ps <= violation.instant_ps]
        few = _offending(result, violation), [o for o in before if _is_part(violation, o)]
        for fewer in _fewer_failures(scenario):
            calm = _calm(fewer)  # most violations do not need what happens to packets at random; then little is left
            yield from ((each, chosen) for each in (calm, fewer) if each is not None for chosen in few)
            yield fewer, before
            if len(before) < len(result.history.operations) and result.history.model in TRANSACTIONAL:
                yield fewer, list(result.history.operations)  # later transactions tie objects together

    @override
    def fates(self, case: Case) -> list[LineFate]:
        return story.fates(self)

    @override
    def timeline(self, case: Case, lost: Sequence[LineFate]) -> list[TimelineRow]:
        return story.timeline(case.scenario, self, lost)

    def with_fewest_lines(self) -> Self:
        """A violating state of that instant that lacks as few lines as any does (tried up to ``LOST_AT_MOST``).

        Of many lines only those are tried that this state lacks; if it takes more of them, none can be spared.
        """
        lacks = {key for key, content in self.violation.outcome.image if content.is_less}
        looked_at = [key for key, _ in self.violation.outcome.image]
        for size in range(min(LOST_AT_MOST, len(lacks) - 1) + 1):
            some = (
                looked_at if comb(len(looked_at), size) <= TRIED_AT_MOST else [key for key in looked_at if key in lacks]
            )
            for chosen in islice(combinations(some, size), TRIED_AT_MOST):
                found = self._lacking(frozenset(chosen))
                if found is not None:
                    return found
        best = self
        for key in [key for key in looked_at if key in lacks]:
            if len(lacks) > LOST_AT_MOST + 1:
                found = self._lacking(frozenset(lacks - {key}))
                if found is not None:
                    best, lacks = found, lacks - {key}
        return best

    def _lacking(self, chosen: frozenset[LineKey]) -> Self | None:
        """A violating state of that instant that lacks no other lines than these; None if there is none."""
        violation, explorer, views = self.violation, self.explorer, self.explorer.views
        register: Any = history_until(self.result, violation)
        contents = partial(_whole_but, views.contents, chosen)
        families = partial(_whole_but, views.families, chosen)
        outcomes = explorer.outcomes(violation.subject, contents, families)
        for outcome in islice(outcomes.at(violation.instant_ps), IMAGES_PER_STATE):
            if _lost(outcome) <= len(chosen) and violation.condition in register.judge(outcome.value):
                why = register.explain(outcome.value, violation.condition)
                return replace(self, violation=replace(violation, outcome=outcome, explanation=why))
        return None


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
    seen = [o for o in result.history.operations if o.invoke_ps <= at_ps and _is_part(violation, o)]
    if violation.subject.from_scratch:
        flaw = history_until(result, violation).flaw(violation.outcome.value, violation.condition)
        blamed = {operation.number for operation in flaw.operations} if flaw is not None else set()
        return [o for o in seen if o.number in blamed]
    until = replace(result.history, operations=[_as_of(operation, at_ps) for operation in seen])
    finding = check(until, at_ps, {violation.object: violation.outcome.value}, [violation.condition])
    named = {operation.number for operation in finding[violation.condition].operations}
    read = {operation.result for operation in seen if operation.number in named and operation.result is not None}
    return [o for o in seen if o.number in named or (o.f in result.history.updates and o.argument in read)]


def _as_of(operation: Operation, at_ps: int) -> Operation:
    if operation.return_ps is None or operation.return_ps <= at_ps:
        return operation
    return replace(operation, return_ps=None, result=None, outcome=None)


def _whole_but(
    view: Callable[[LineKey, int, Cut], Iterator[_Item]], chosen: frozenset[LineKey], key: LineKey, at_ps: int, cut: Cut
) -> Iterator[_Item]:
    """What a line may hold, with nothing missing unless it is ``chosen`` or the cut leaves no choice."""
    whole = False
    for item in view(key, at_ps, cut):
        if key in chosen or (isinstance(item, Content) and not item.is_less):
            whole = True
            yield item
    if not whole:
        yield from view(key, at_ps, cut)


def _lost(outcome: Outcome) -> int:
    return sum(content.is_less for _, content in outcome.image)


def _is_part(violation: Violation, operation: Operation) -> bool:
    """Whether an operation is one of what the violation's subject is judged by."""
    return bool(concerned(by_object([violation.subject]), operation))


def history_until(result: RunResult, violation: Violation) -> Any:
    """What clients had seen of the violation's subject when the power failed."""
    register = follower(violation.subject, result)
    for at_ps, kind, operation in events(result, violation.subject.conditions):
        if at_ps <= violation.instant_ps and _is_part(violation, operation):
            follow(register, kind, operation, at_ps)
    return register
