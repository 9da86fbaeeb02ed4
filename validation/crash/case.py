"""A counterexample in the making: a scenario whose run violates a condition, small or not, and how it is told.

A fault is judged in one of two ways, and a case has the evidence of either: a state that a power failure of the run may
leave (:class:`.derived.LeftState`), or a run in which the fault was executed and somebody lived on
(:class:`.executed_case.ExecutedFault`). What the two have in common is here and in :mod:`.shrink`; an :class:`Evidence`
says what differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

from ...protocols.guarantees import Condition
from ...scenarios.calls import given_by
from ...scenarios.history import History, Operation, Value
from ...scenarios.run.draws import Planned
from ...scenarios.run.perfetto import trace_events
from ...scenarios.run.results import RunResult
from ...scenarios.schema.schema import Scenario, Variant
from .findings import Counterexample, LineFate, TimelineRow, marks_of
from .subjects import label

CASE_FORMAT = 1


class Sought(NamedTuple):
    """What another run has to show for it to be the same violation."""

    condition: Condition
    object: Hashable
    acknowledged: bool
    """Of ``no_lost_ack``: that an update of the history had returned."""


class Violated(Protocol):
    """A violation of a condition: at which instant's fault, at which object."""

    @property
    def condition(self) -> Condition: ...
    @property
    def instant_ps(self) -> int: ...
    @property
    def object(self) -> Hashable: ...
    @property
    def acknowledged(self) -> bool: ...
    @property
    def explanation(self) -> str:
        """One sentence: which rule of the condition broke."""


V = TypeVar("V", bound=Violated)


class Evidence(ABC, Generic[V]):
    """How a violation shows in the run of a scenario; the kind of the fault decides of which class it is."""

    pauses_move: ClassVar[bool]
    """Whether pauses of cores may be moved or left out (those behind the instant are); else all stay as they were."""
    may_hurry: ClassVar[bool] = False
    """Whether it takes less to look for it at late instants alone."""
    result: RunResult
    """The run that is told."""
    violation: V

    @property
    @abstractmethod
    def recovered(self) -> Value:
        """What was read of the object in the end."""

    @classmethod
    @abstractmethod
    def find(
        cls, scenario: Scenario, variant: Variant, sought: Sought, *, telling: bool = False, since_ps: int = 0
    ) -> Self | None:
        """Run a scenario; the earliest evidence of the violation, if ``telling`` the one that tells most.

        Instants before ``since_ps`` are left out. Who is not ``telling`` may give up where there are many images, and
        where instants are left out look at the likeliest alone.
        """

    @classmethod
    @abstractmethod
    def attempts(
        cls, scenario: Scenario, result: RunResult, violation: V
    ) -> Iterator[tuple[Scenario, list[Operation]]]:
        """Operations of a run that may be enough for its violation, and scenarios to try them in, simpler ones first.

        Few operations come before many; all of them in the scenario itself are the last.
        """

    @abstractmethod
    def fates(self, case: Case) -> list[LineFate]:
        """What did not make it."""

    @abstractmethod
    def timeline(self, case: Case, lost: Sequence[LineFate]) -> list[TimelineRow]:
        """Who did what when, with the fault and what did not make it."""


@dataclass(frozen=True)
class Case:
    """A scenario whose run violates a condition, and the evidence."""

    scenario: Scenario
    variant: Variant
    evidence: Evidence[Any]
    shrunk: bool = True
    """Whether smaller ones were tried; else it is told as it was found."""
    stopped: bool = False
    """Whether not all smaller ones were tried, since it would have taken too long."""

    @property
    def violation(self) -> Violated:
        """What it is a case of."""
        violation: Violated = self.evidence.violation
        return violation

    @property
    def history(self) -> History:
        """What clients saw in the run."""
        return self.evidence.result.history

    def performed(self) -> list[Operation]:
        """The operations of the workload, as :func:`performed` has them."""
        return performed(self.scenario, self.history)


def performed(scenario: Scenario, history: History) -> list[Operation]:
    """The operations of a scenario's workload, as they were invoked; a fresh client's reads are left out."""
    clients = scenario.role("client")
    processes = clients.machines * clients.processes
    return [operation for operation in history.operations if operation.process < processes]


def find(
    kind: type[Evidence[Any]],
    scenario: Scenario,
    variant: Variant,
    sought: Sought,
    *,
    telling: bool = False,
    since_ps: int = 0,
) -> Case | None:
    """The case that a scenario is if its run shows the violation; ``kind`` is that of its fault."""
    evidence = kind.find(scenario, variant, sought, telling=telling, since_ps=since_ps)
    return None if evidence is None else Case(scenario, variant, evidence)


def planned(operation: Operation, history: History) -> Planned:
    """An operation of a run, to be performed again at its instant."""
    given, stamp = given_by(operation.f, operation.argument)
    given = None if operation.f == "free" else given  # the addresses of blocks are another run's
    object = "" if operation.object is None or operation.f == "txn" else str(operation.object)
    is_update, batch = operation.f in history.updates, operation.batch
    return Planned(operation.process, operation.f, object, is_update, operation.invoke_ps, stamp, given, batch)


def tell(case: Case) -> Counterexample:
    """The counterexample that a case is."""
    violation, evidence = case.violation, case.evidence
    lost = tuple(evidence.fates(case))
    rows = tuple(evidence.timeline(case, lost))
    return Counterexample(
        condition=violation.condition,
        instant_ps=violation.instant_ps,
        operations=len(case.performed()),
        object=violation.object,
        lost=lost,
        recovered=evidence.recovered,
        explanation=violation.explanation,
        timeline=rows,
        trace=trace_events(evidence.result, marks=marks_of(rows)),
        shrunk=case.shrunk,
        stopped=case.stopped,
        case={
            "case": CASE_FORMAT,
            "scheme": case.variant.scheme,
            "platform": case.variant.label,
            "condition": str(violation.condition),
            "object": label(violation.object),
            "instant_ps": violation.instant_ps,
            "acknowledged": violation.acknowledged,
            "lines_lost": [f"{fate.node} {fate.device} {fate.label}" for fate in lost],
            "scenario": case.scenario.resolved(),
        },
    )
