"""Every state that a litmus test can reach, once each: is the outcome among them, and by which schedule?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial

from ..language.program import CrashMoment, LitmusCase, LitmusProfile, OutcomeFinding, Test
from .cores import State
from .machine import AbstractMachine, Move
from .plan import LitmusPlan, Table
from .reduction import Reduction

BUDGET = 300_000
"""How many states of one test on one profile are explored."""
SHORTEST = 20_000
"""Up to so many states the shortest schedule is looked for; beyond, any schedule is reported."""


@dataclass(frozen=True)
class CaseAnswer:
    """The finding on one case; ``states`` were explored for it (with the other cases of its profile and crash)."""

    test: Test
    case: LitmusCase
    found: OutcomeFinding
    states: int
    make_schedule: Callable[[], Sequence[str]] = tuple
    """Makes the schedule when it is wanted."""
    vacuous: bool = False
    """No execution reaches the end that the case is about: B waits for what never comes, say."""

    @cached_property
    def schedule(self) -> tuple[str, ...]:
        """One of the shortest executions that show an outcome that is allowed, in words (or any, if there are many)."""
        return tuple(self.make_schedule())

    @property
    def agrees(self) -> bool:
        """Whether the finding is the one that the case expects; one that says nothing is not."""
        return self.found is self.case.expected and not self.vacuous


class Reduce(Enum):
    """Which interleavings are left out because others show the same."""

    NOTHING = "none"
    BY_ITSELF = "what shuts out nothing happens by itself"
    ALL = "partial orders as well"


def explore(
    test: Test, budget: int = BUDGET, table: Table | None = None, reduce: Reduce = Reduce.ALL
) -> list[CaseAnswer]:
    """Answer all cases of a test, in their order.

    ``table`` replaces the rules (for tests of them); ``reduce`` changes how many states are visited, and no answer.
    """
    together: dict[tuple[object, CrashMoment], list[LitmusCase]] = {}
    for case in test.cases:
        together.setdefault((case.profile, case.crash), []).append(case)
    answers = {
        id(case): answer
        for cases in together.values()
        for case, answer in zip(cases, _explore(test, cases, budget, table or Table(), reduce), strict=True)
    }
    return [answers[id(case)] for case in test.cases]


class Reached:
    """The states reached so far, each with the step that led to it first."""

    def __init__(self, plan: LitmusPlan, how: Reduce) -> None:
        self.machine = machine = AbstractMachine(plan, how is not Reduce.NOTHING)
        self.reduction = Reduction(machine) if how is Reduce.ALL else None
        start = machine.start()
        self.origin: dict[State, tuple[State, str] | None] = {start: None}
        self.todo: deque[State] = deque([start])

    def grow(self, state: State) -> None:
        """Everything that may follow on ``state``."""
        moves: Iterable[Move] = self.machine.moves(state)
        if self.reduction is not None and state.stop >= 0:
            moves = list(moves)
            enough = self.reduction.enough(state, {move.action for move in moves})
            if enough is not None:
                moves = [move for move in moves if move.action in enough]
        for move in moves:
            after = self.machine.settle(move.state)
            if after not in self.origin:
                self.origin[after] = (state, move.text)
                self.todo.append(after)

    def schedule(self, state: State) -> list[str]:
        """The steps that led to ``state``, with what happens by itself between them."""
        steps = []
        at = state
        while (origin := self.origin[at]) is not None:
            at, text = origin
            steps.append(text)
        log: list[str] = []
        at = self.machine.start(log)
        for text in reversed(steps):
            at = self.machine.take(at, text, log)
        return log

    def ended_schedule(self, state: State, ending: str) -> list[str]:
        """The schedule, and ``ending``: the values that are seen in the end."""
        return [*self.schedule(state), ending]


def _explore(test: Test, cases: Sequence[LitmusCase], budget: int, table: Table, reduce: Reduce) -> list[CaseAnswer]:
    crash = cases[0].crash
    persistent = sorted({name for case in cases for name in case.outcome.of("pm")})
    plan = LitmusPlan(test, cases[0].profile, crash, persistent, table)
    reached = Reached(plan, reduce)
    machine = reached.machine
    open_cases = list(cases)
    answers: dict[int, CaseAnswer] = {}
    ends = False
    while reached.todo and open_cases and len(reached.origin) <= budget:
        state = reached.todo.popleft()
        looks = _looks(machine, state, crash)
        ends = ends or bool(looks)
        for case in list(open_cases):
            values = next((values for values in looks if case.outcome.holds(values)), None)
            if values is not None:
                known = partial(reached.ended_schedule, state, _ending(crash, case, values))
                make = partial(_shortest, plan, case, known)
                answers[id(case)] = CaseAnswer(test, case, OutcomeFinding.ALLOWED, len(reached.origin), make)
                open_cases.remove(case)
        reached.grow(state)
    complete = not reached.todo
    found = OutcomeFinding.FORBIDDEN if complete else OutcomeFinding.UNDECIDED
    for case in open_cases:
        answers[id(case)] = CaseAnswer(test, case, found, len(reached.origin), vacuous=complete and not ends)
    return [answers[id(case)] for case in cases]


def _shortest(plan: LitmusPlan, case: LitmusCase, known: Callable[[], Sequence[str]]) -> Sequence[str]:
    """A shortest schedule, if there are few states; else the one that is known."""
    reached = Reached(plan, Reduce.BY_ITSELF)
    while reached.todo and len(reached.origin) <= SHORTEST:
        state = reached.todo.popleft()
        for values in _looks(reached.machine, state, case.crash):
            if case.outcome.holds(values):
                return reached.ended_schedule(state, _ending(case.crash, case, values))
        reached.grow(state)
    return known()


def all_looks(
    test: Test,
    profile: LitmusProfile,
    crash: CrashMoment,
    persistent: Sequence[str],
    budget: int = BUDGET,
    reduce: Reduce = Reduce.ALL,
) -> list[Mapping[str, int]]:
    """All that a test may show on a profile, for any outcome: registers, and memory or the named medium.

    Raises MemoryError when there are more than ``budget`` states.
    """
    reached = Reached(LitmusPlan(test, profile, crash, persistent, Table()), reduce)
    machine = reached.machine
    found: dict[frozenset[tuple[str, int]], Mapping[str, int]] = {}
    while reached.todo:
        state = reached.todo.popleft()
        for look in _looks(machine, state, crash):
            found.setdefault(frozenset(look.items()), look)
        reached.grow(state)
        if len(reached.origin) > budget:
            raise MemoryError(f"{test.id}: more than {budget} states")
    return list(found.values())


def _looks(machine: AbstractMachine, state: State, crash: CrashMoment) -> list[Mapping[str, int]]:
    """The values that an outcome may be about in this state: none, where the state is no end."""
    variables = machine.plan.variables
    if crash in (CrashMoment.NONE, CrashMoment.A):
        if not machine.ended(state):
            return []
        memory = {f"mem.{name}": value for name, value in zip(variables, state.memory, strict=True)}
        return [machine.registers(state) | memory]
    if crash is CrashMoment.END_A and not machine.a_finished(state):
        return []
    registers = machine.registers(state)
    return [
        registers | {f"pm.{name}": value for name, value in zip(variables, medium, strict=True)}
        for medium in machine.media(state)
    ]


def _ending(crash: CrashMoment, case: LitmusCase, values: Mapping[str, int]) -> str:
    shown = ", ".join(f"{name}={values[name]}" for name in sorted(case.outcome.names))
    return f"the end: {shown}" if crash in (CrashMoment.NONE, CrashMoment.A) else f"B loses power: {shown}"
