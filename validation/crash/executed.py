"""Faults that leave somebody alive: executed in every way that makes a difference, the survivors' history judged.

Each state is a run of its own (``scenarios.run.inject``, gone through by :mod:`.strikes`): replayed to the instant, the
fault, survivors to their ends, and then a fresh client's read of every object. The history, crashes included, is judged
by the same conditions as any other; an object that could not be read is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...protocols.guarantees import Condition, Verdict
from ...protocols.objects import REGISTERS
from ...protocols.registry import scheme
from ...scenarios.history import History, Unread
from ...scenarios.run.inject import Aftermath, run_with_fault
from ...scenarios.schema.faults import conditions_after
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.collector import seldom_collecting
from ..histories.recorded import judged
from ..oracle import FINDERS, NOT_READ, Flaw, ObjectHistory, assert_implications, verdict_on
from .explorer import ASKED, SEARCHED_IN_VAIN
from .strikes import State, Walk

_AFTER_A_CLIENT = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.LINEARIZABLE)
"""What is asked after a client's crash unless a scenario expects more."""
_LOST = (
    Condition.NO_LOST_ACK, Condition.DURABLE, Condition.LINEARIZABLE, Condition.PERSISTENT, Condition.STRICT,
)  # fmt: skip
"""What an object breaks that cannot be read any more."""
_KILLED = (Condition.PERSISTENT, Condition.STRICT)
"""What asks which process a crash killed, and at which operation: history files follow that, retries included."""
INSTANTS_AT_MOST = 400
"""How many instants of a schedule are executed unless the scenario's ``crash.budget`` says: a choice, some seconds."""
RUNS_AT_MOST = 20_000
"""How many runs of a schedule are made: a choice, some minutes. ``crash.budget`` means these where there are more of
them than instants."""


ObjectFlaw = tuple[Hashable, Flaw]
"""The first object at fault by a condition, and what is wrong with it."""


@dataclass(frozen=True)
class Breach:
    """A condition that the history after a fault violates: at which instant's fault, at which object, and how."""

    condition: Condition
    instant_ps: int
    object: Hashable
    flaw: Flaw
    state: State
    acknowledged: bool
    """Whether the flaw names an update that had returned: the loss of one tells more than that of what was loaded."""
    schedule: int = 0
    """Of the scenario's schedules, counted from its first."""

    @property
    def aftermath(self) -> Aftermath:
        """What became of the run after the fault."""
        return self.state.aftermath

    @property
    def explanation(self) -> str:
        """One sentence: which rule of the condition broke."""
        return self.flaw.explanation


class Shown(NamedTuple):
    """What one run has shown, to be counted."""

    recovered: bool
    finished: bool
    objects: int
    violated: tuple[Condition, ...]


@dataclass
class Executed:
    """What the executed instants of one or more schedules showed."""

    conditions: tuple[Condition, ...]
    instants: int = 0
    looked_at: int = 0
    """How many of the instants were chosen."""
    runs: int = 0
    recoveries: int = 0
    verdicts: int = 0
    unfinished: int = 0
    """Runs in which a survivor or the reader never came to its end."""
    violating: dict[Condition, int] = field(default_factory=dict)
    windows_ps: dict[Condition, tuple[int, int]] = field(default_factory=dict)
    """Of faults that come one after the other: how long after the first one the last one came, at least and at most,
    where the condition is violated.
    """
    first: dict[Condition, Breach] = field(default_factory=dict)
    whole_runs: bool = False
    """Whether nothing failed in them."""
    exhaustive: bool = True
    """Whether no state was left out."""
    images: bool = False
    """Whether memory of machines that come back was chosen."""
    undecided: set[Condition] = field(default_factory=set)
    """The conditions about which a search for an order has given up in some run."""
    missed: tuple[str, ...] = ()
    """The parts that take no part in a run: nobody is hit if they fail."""

    def count(self, shown: Shown) -> None:
        """One more run that has shown this."""
        self.runs += 1
        self.recoveries += shown.recovered
        self.unfinished += not shown.finished
        self.verdicts += shown.objects * len(self.conditions)
        for condition in shown.violated:
            self.violating[condition] = self.violating.get(condition, 0) + 1

    def add(self, aftermath: Aftermath, breaches: Mapping[Condition, Breach], objects: int) -> Shown:
        """One more run and what is wrong with it; returns what is counted of it."""
        shown = Shown(aftermath.recovered_ps is not None, aftermath.finished, objects, tuple(breaches))
        self.count(shown)
        for condition, breach in breaches.items():
            strikes = breach.state.strikes
            if len(strikes) > 1:
                at_ps, until_ps = strikes[-1].at_ps, breach.state.until_ps
                from_ps, to_ps = (one - strikes[0].at_ps for one in (at_ps, at_ps if until_ps is None else until_ps))
                least_ps, most_ps = self.windows_ps.get(condition, (from_ps, to_ps))
                self.windows_ps[condition] = min(least_ps, from_ps), max(most_ps, to_ps)
            known = self.first.get(condition)
            if known is None or (breach.acknowledged and not known.acknowledged):
                self.first[condition] = breach
        return shown

    def verdict(self, condition: Condition, timed: bool) -> Verdict:
        """A sample says "violated" or nothing, and so do the timed view and a run without a fault that has no end."""
        if condition in self.first:
            return Verdict.VIOLATED
        decided = self.exhaustive and not self.missed and not timed and condition not in self.undecided
        return Verdict.HOLDS if decided and not (self.whole_runs and self.unfinished) else Verdict.UNDECIDED

    def over(self, schedules: int) -> str:
        """What the verdicts speak of."""
        open_ = ", ".join(sorted(self.undecided - self.first.keys()))
        vain = f"; {SEARCHED_IN_VAIN}: {open_}" if open_ else ""
        if self.whole_runs:
            whole = f"the runs of {schedules} schedules, each to its end" if schedules > 1 else "a run to its end"
            return whole + vain
        each = "packets leave or are taken in, stores, operations begin or end"
        how_many = "all" if self.looked_at == self.instants else f"{self.looked_at} of {self.instants}"
        text = f"{how_many} instants at which something changes ({each}), each executed in the schedule's timing"
        text += "; of memory that comes back, every image that somebody tells from others" if self.images else ""
        text += "" if self.exhaustive or self.looked_at < self.instants else f"; the first {self.runs} runs of these"
        text += f"; {schedules} schedules" if schedules > 1 else ""
        return text + vain + "".join(f"; {part}: it takes no part, and its fault hits nobody" for part in self.missed)


def asked(scenario: Scenario, variant: Variant, also: Collection[Condition] = ()) -> tuple[Condition, ...]:
    """What an executed fault is judged by: the usual conditions, what is expected, what is claimed, as far as apt.

    ``also`` is asked for as well where the server fails.
    """
    fault = scenario.crash.fault
    alive = fault.client or fault.nothing
    kind = scheme(variant.scheme)
    usual = {*_AFTER_A_CLIENT} if alive else {*ASKED, *also, *kind.claims}
    wanted = usual | {Condition.EXACTLY_ONCE} | set(map(Condition, scenario.expect.get(variant.scheme, ())))
    if scenario.crash.loss_ps is None and kind.loss_within is None:
        wanted.discard(Condition.BOUNDED_LOSS)
    return tuple(c for c in conditions_after(fault, kind.model) if c in wanted)


def judge(
    history: History,
    loaded: Collection[Hashable],
    conditions: Sequence[Condition],
    loss_ps: int | None = None,
    unread: Mapping[Hashable, Unread] | None = None,
    undecided: set[Condition] | None = None,
) -> dict[Condition, ObjectFlaw]:
    """The first object at fault by each condition that the history violates; ``loaded`` had values before time zero.

    Of ``no_lost_ack`` the crash is the one that was executed, be it a client's: the fault that the loss is blamed on.
    ``unread`` are the objects that the last read, by a fresh client, did not return. The conditions about which a
    search gives up are added to ``undecided``.
    """
    undecided = set() if undecided is None else undecided
    in_vain: set[Condition] = set()
    registers = history.model in REGISTERS and not history.promised
    plain = [c for c in conditions if registers and c in FINDERS and c not in _KILLED]
    others = frozenset(conditions) - frozenset(plain)
    found = judged(history, loaded, others, loss_ps, in_vain) if others else {}
    for name, why in (unread or {}).items():
        for condition in others.intersection(_LOST):
            found.setdefault(condition, (name, Flaw((), f"{name} -> {why}: whatever it held is lost")))
    found |= _judge_registers(history, loaded, plain, unread or {}, in_vain) if plain else {}
    undecided |= in_vain - found.keys()
    return found


def _judge_registers(
    history: History,
    loaded: Collection[Hashable],
    conditions: Sequence[Condition],
    unread: Mapping[Hashable, Unread],
    undecided: set[Condition],
) -> dict[Condition, ObjectFlaw]:
    names = dict.fromkeys([*loaded, *(operation.object for operation in history.operations)])
    crashes_ps = sorted({crash.at_ps for crash in history.crashes})
    known = {name: ObjectHistory(name, history.updates, name in loaded, crashes_ps=[*crashes_ps]) for name in names}
    for _, kind, operation in history.events():
        if kind == "invoke":
            known[operation.object].invoke(operation)
        elif kind != "retry":
            known[operation.object].complete(operation)
    found: dict[Condition, ObjectFlaw] = {}
    for name, one in known.items():
        last = unread.get(name, NOT_READ)
        answers = {condition: verdict_on(condition, one, last) for condition in conditions}
        assert_implications({condition: verdict for condition, (_, verdict) in answers.items()})
        undecided |= {condition for condition, (_, verdict) in answers.items() if verdict is Verdict.UNDECIDED}
        for condition, (flaw, _) in answers.items():
            if flaw is not None:
                found.setdefault(condition, (name, flaw))
    return found


def judge_state(
    state: State, conditions: Sequence[Condition], schedule: int = 0, undecided: set[Condition] | None = None
) -> dict[Condition, Breach]:
    """What is wrong with what the survivors of a state saw; ``undecided`` is as in :func:`judge`."""
    aftermath = state.aftermath
    history, found = aftermath.history, {}
    at_ps = state.strikes[0].at_ps if state.strikes else aftermath.at_ps
    result = aftermath.result
    wrong = judge(history, result.initial, conditions, result.loss_ps, aftermath.unread, undecided)
    for condition, (name, flaw) in wrong.items():
        returned = any(o.f in history.updates and o.outcome == "ok" for o in flaw.operations)
        found[condition] = Breach(condition, at_ps, name, flaw, state, returned, schedule)
    return found


def breaches(
    scenario: Scenario, variant: Variant, at_ps: int, conditions: Sequence[Condition], schedule: int = 0
) -> tuple[Aftermath, dict[Condition, Breach]]:
    """Execute a fault after which no memory comes back at one instant, and judge what the survivors saw."""
    state = State(run_with_fault(scenario, variant, at_ps, schedule))
    return state.aftermath, judge_state(state, conditions, schedule)


def walk_of(
    scenario: Scenario, variant: Variant, schedule: int = 0, progress: Callable[[float], None] | None = None
) -> tuple[Walk, list[int]]:
    """A schedule's states, and the instants of them that the scenario asks for; ``progress`` as in :class:`Walk`."""
    walk = Walk(scenario, variant, schedule, progress)
    few = list(chosen(walk.instants, scenario))
    walk.most = max(scenario.crash.budget or RUNS_AT_MOST, len(few))
    return walk, few


def execute(
    scenario: Scenario, variant: Variant, conditions: Sequence[Condition], progress: Callable[[float], None]
) -> Executed:
    """Execute the scenario's fault at all instants, or at as many as it samples, in each of its schedules."""
    nothing_fails = scenario.crash.fault.nothing
    found = Executed(tuple(conditions), violating=dict.fromkeys(sorted(conditions), 0), whole_runs=nothing_fails)
    with seldom_collecting():
        _execute(scenario, variant, found, progress)
    return found


def _execute(scenario: Scenario, variant: Variant, found: Executed, progress: Callable[[float], None]) -> None:
    conditions, schedules = found.conditions, scenario.crash.schedules
    for schedule in range(schedules):

        def read(share: float, schedule: int = schedule) -> None:
            progress((schedule + share) / schedules)

        walk, few = walk_of(scenario, variant, schedule, read)
        found.instants += len(walk.instants)
        found.looked_at += len(few)
        found.images = found.images or walk.returns
        found.missed = tuple(dict.fromkeys((*found.missed, *map(str, walk.missed))))
        shown: dict[int, Shown] = {}

        def repeats(number: int, shown: dict[int, Shown] = shown) -> None:
            found.count(shown[number])  # the first of each violation is that of the state before

        for state in walk.states(few, repeats):
            wrong = judge_state(state, conditions, schedule, found.undecided)
            shown[state.number] = found.add(state.aftermath, wrong, len(walk.whole.result.initial))
            del state, wrong  # else the run would still be there when what is young is collected
            progress((schedule + (walk.turn + 1) / len(few)) / schedules)
        found.exhaustive = found.exhaustive and walk.complete and len(few) == len(walk.instants)
        if all(condition in found.first for condition in conditions):
            break


def chosen(every: Sequence[int], scenario: Scenario) -> Iterator[int]:
    """All instants, or one drawn from each of so many even stretches of them."""
    crash = scenario.crash
    most = crash.budget or INSTANTS_AT_MOST if crash.instants == "all" else crash.instants
    if most >= len(every):
        yield from every
        return
    random = np.random.default_rng([scenario.seed, len(every)])
    for turn in range(most):
        start, end = len(every) * turn // most, len(every) * (turn + 1) // most
        yield every[int(random.integers(start, end))]
