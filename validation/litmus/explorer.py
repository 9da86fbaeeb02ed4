"""Every state that a litmus test can reach, once each: is the outcome among them, and by which schedule?"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .cores import State
from .machine import Machine
from .plan import Plan, Table
from .program import Case, Crash, Found, Profile, Test

BUDGET = 300_000
"""How many states of one test on one profile are explored."""


@dataclass(frozen=True)
class Answer:
    """What was found of one case; ``states`` were explored for it (with the other cases of its profile and crash)."""

    test: Test
    case: Case
    found: Found
    states: int
    schedule: tuple[str, ...] = ()
    vacuous: bool = False
    """No execution reaches the end that the case is about: B waits for what never comes, say."""

    @property
    def agrees(self) -> bool:
        """Whether that is what the case expects."""
        return self.found is self.case.expected


def explore(test: Test, budget: int = BUDGET, table: Table | None = None, reduced: bool = True) -> list[Answer]:
    """Answer all cases of a test, in their order.

    ``table`` replaces the rules, ``reduced=False`` makes every interleaving a state of its own: both are for tests.
    """
    together: dict[tuple[object, Crash], list[Case]] = {}
    for case in test.cases:
        together.setdefault((case.profile, case.crash), []).append(case)
    answers = {
        id(case): answer
        for cases in together.values()
        for case, answer in zip(cases, _explore(test, cases, budget, table or Table(), reduced), strict=True)
    }
    return [answers[id(case)] for case in test.cases]


class Reached:
    """The states reached so far, each with the step that led to it first."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        start = machine.start()
        self.origin: dict[State, tuple[State, str] | None] = {start: None}
        self.todo: deque[State] = deque([start])

    def grow(self, state: State) -> None:
        """Everything that may follow on ``state``."""
        for text, after in self.machine.steps(state):
            if after not in self.origin:
                self.origin[after] = (state, text)
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


def _explore(test: Test, cases: Sequence[Case], budget: int, table: Table, reduced: bool) -> list[Answer]:
    crash = cases[0].crash
    persistent = sorted({name for case in cases for name in case.outcome.of("pm")})
    machine = Machine(Plan(test, cases[0].profile, crash, persistent, table), reduced)
    reached = Reached(machine)
    open_cases = list(cases)
    answers: dict[int, Answer] = {}
    ends = False
    while reached.todo and open_cases and len(reached.origin) <= budget:
        state = reached.todo.popleft()
        looks = _looks(machine, state, crash)
        ends = ends or bool(looks)
        for case in list(open_cases):
            values = next((values for values in looks if case.outcome.holds(values)), None)
            if values is not None:
                schedule = [*reached.schedule(state), _ending(crash, case, values)]
                answers[id(case)] = Answer(test, case, Found.ALLOWED, len(reached.origin), tuple(schedule))
                open_cases.remove(case)
        reached.grow(state)
    complete = not reached.todo
    found = Found.FORBIDDEN if complete else Found.UNDECIDED
    for case in open_cases:
        answers[id(case)] = Answer(test, case, found, len(reached.origin), vacuous=complete and not ends)
    return [answers[id(case)] for case in cases]


def all_looks(
    test: Test,
    profile: Profile,
    crash: Crash,
    persistent: Sequence[str],
    budget: int = BUDGET,
    reduced: bool = True,
) -> list[Mapping[str, int]]:
    """All that a test may show on a profile, whatever its cases ask: registers, and memory or the named medium.

    Raises MemoryError when there are more than ``budget`` states.
    """
    machine = Machine(Plan(test, profile, crash, persistent, Table()), reduced)
    reached = Reached(machine)
    found: dict[frozenset[tuple[str, int]], Mapping[str, int]] = {}
    while reached.todo:
        state = reached.todo.popleft()
        for look in _looks(machine, state, crash):
            found.setdefault(frozenset(look.items()), look)
        reached.grow(state)
        if len(reached.origin) > budget:
            raise MemoryError(f"{test.id}: more than {budget} states")
    return list(found.values())


def _looks(machine: Machine, state: State, crash: Crash) -> list[Mapping[str, int]]:
    """The values that an outcome may be about in this state: none, where the state is no end."""
    variables = machine.plan.variables
    if crash is Crash.NONE:
        if not machine.ended(state):
            return []
        memory = {f"mem.{name}": value for name, value in zip(variables, state.memory, strict=True)}
        return [machine.registers(state) | memory]
    if crash is Crash.END_A and not machine.a_finished(state):
        return []
    registers = machine.registers(state)
    return [
        registers | {f"pm.{name}": value for name, value in zip(variables, medium, strict=True)}
        for medium in machine.media(state)
    ]


def _ending(crash: Crash, case: Case, values: Mapping[str, int]) -> str:
    shown = ", ".join(f"{name}={values[name]}" for name in sorted(case.outcome.names))
    return f"the end: {shown}" if crash is Crash.NONE else f"B loses power: {shown}"
