"""Every way that a fault with survivors may come: instants, packets on their way, what memory holds that comes back.

A *state* is a run with all of them decided. The instants of a fault are those of the run without it; of a fault that
follows another, those of each run with the first. At an instant packets on their way to several machines arrive or
not: of each queue pair's those that left first. A machine's memory is any image that the rules allow
(:mod:`.images`): depth first over what is chosen when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from ...protocols.failures import CLIENT, POWER, PROCESS, Failing
from ...scenarios.run.inject import Aftermath, LastArriving, Strike, changes, run_with_faults, takes_part
from ...scenarios.run.results import RunResult
from ...scenarios.schema.faults import Fault
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.collector import collect_young
from ...sim.trace import NEVER
from .images import Choices, Image, views_of
from .repeats import KnownRuns, Looks

ARRIVALS_AT_MOST = 64
"""How many choices of the packets that arrive are tried at an instant: some five queue pairs with two packets each."""


@dataclass(frozen=True)
class FaultInTurn:
    """One of the faults that a scenario has one after the other."""

    parts: tuple[Failing, ...]
    in_recovery: bool = False
    """Whether it comes between the return of the machines that the one before struck, and the end of their recovery."""
    hosted: bool = False
    """Whether clients' machine comes back as others do (``Role.hosts``)."""

    @property
    def returning(self) -> list[Failing]:
        """The machines that come back, with what is left in their memory."""
        return [part for part in self.parts if part.kind == POWER and (self.hosted or not part.client)]


def faults_in_turn(fault: Fault, scenario: Scenario, result: RunResult) -> list[FaultInTurn]:
    """The faults that a scenario's ``fault`` consists of, in their order."""
    found = [FaultInTurn(_parts(fault, scenario, result), hosted=fault.hosted)]
    if fault.then is not None:
        lost = {part.at for part in fault.parts if part.kind != POWER}
        later = [part for part in _parts(fault.then, scenario, result) if part.at not in lost]
        found.append(FaultInTurn(tuple(later), hosted=fault.hosted))
    return found + [FaultInTurn(found[-1].parts, in_recovery=True, hosted=fault.hosted)] * fault.again


def _parts(fault: Fault, scenario: Scenario, result: RunResult) -> tuple[Failing, ...]:
    if not fault.everyone:
        return fault.parts
    counts = {role: len(nodes) for role, nodes in result.system.nodes.items()}
    counts[CLIENT] = scenario.role(CLIENT).machines  # and not the observer's
    return tuple(Failing(role, index, POWER) for role, count in counts.items() for index in range(count))


@dataclass(frozen=True)
class State:
    """A run with the faults in it, and how they came."""

    aftermath: Aftermath
    strikes: tuple[Strike, ...] = ()
    choices: Choices = field(default_factory=lambda: Choices(()))
    before: Aftermath | None = None
    """The run without the last fault."""
    number: int = 0
    """Of the walk's states, counted from its first."""
    until_ps: int | None = None
    """The next instant at which the last fault would leave something else behind; None: there is none in this run."""

    @property
    def images(self) -> list[Image]:
        """Of each strike after which a machine came back: what memory held."""
        return [strike.memory for strike in self.strikes if isinstance(strike.memory, Image)]


class _Over(Exception):
    """No more runs are allowed."""


class Walk:
    """All states of a scenario's fault in one schedule."""

    def __init__(
        self,
        scenario: Scenario,
        variant: Variant,
        schedule: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """``progress``: where nothing fails, which share of the objects has been read at the end of the only run."""
        self.scenario = scenario
        self.variant = variant
        self.schedule = schedule
        self._nothing = scenario.crash.fault.nothing
        self.whole = run_with_faults(scenario, variant, (), schedule, reads=self._nothing, progress=progress)
        """The run without a fault."""
        self.faults = faults_in_turn(scenario.crash.fault, scenario, self.whole.result)
        self.runs = 0
        self.complete = True
        """Whether no state was left out, of the instants that were asked for."""
        self._repeats: Callable[[int], None] | None = None
        """Who is told of a state that is as one before."""
        self.most: int | None = None
        """How many runs it may take."""
        self.turn = 0
        """Of the instants that were asked for, the one that it has come to."""
        self.instants = self._instants(0, State(self.whole))
        """Of the first fault."""

    @property
    def returns(self) -> bool:
        """Whether a machine comes back, with memory that may hold more than one thing."""
        return any(fault.returning for fault in self.faults)

    @property
    def missed(self) -> list[Failing]:
        """The parts of the first fault that take no part in the run: failing, they hit nobody."""
        return [part for part in self.faults[0].parts if not takes_part(self.whole, self.scenario, part)]

    def states(self, instants: Iterable[int], repeats: Callable[[int], None] | None = None) -> Iterator[State]:
        """The states in which the first fault comes at one of these instants, in their order.

        One whose run is known to be the same as that of a state before, whatever else memory holds (:mod:`.repeats`),
        is not executed where ``repeats`` is given: that is called with the number of the one before.
        """
        self._repeats = repeats
        if self._nothing:
            self.runs += 1
            yield State(self.whole, (Strike(self.whole.settled_ps, ()),))
            return
        try:
            yield from self._states(0, State(self.whole), instants, set())
        except _Over:
            self.complete = False

    def _instants(self, turn: int, before: State) -> list[int]:
        """When a fault makes a difference in a run with those before it."""
        fault, run = self.faults[turn], before.aftermath
        if not fault.parts:
            return [run.settled_ps]
        struck = {part.at for part in before.strikes[-1].parts} if before.strikes else set()
        again = fault.in_recovery or not struck.isdisjoint(part.at for part in fault.parts)
        from_ps = run.back_ps if again else run.at_ps if before.strikes else 0
        until_ps = run.recovered_ps if fault.in_recovery and run.recovered_ps is not None else run.settled_ps
        found = changes(run, self.scenario, fault.parts, from_ps)
        if fault.returning:
            found |= {at_ps for at_ps in self._memory_changes(run, fault) if at_ps >= from_ps}
        return sorted(at_ps for at_ps in found if at_ps <= until_ps)

    def _states(self, turn: int, before: State, instants: Iterable[int], seen: set[Hashable]) -> Iterator[State]:
        """The states in which the fault of that turn comes at one of these instants, behind those ``before`` it.

        ``seen`` has what was tried of it in this run, so that what leaves the same behind is not executed again.
        """
        fault, last = self.faults[turn], turn + 1 == len(self.faults)
        instants = list(instants)
        for number, at_ps in enumerate(instants):
            if not turn:
                self.turn = number
            fixed = [choice.turn for choice in before.choices.made if choice.at_ps <= at_ps]
            if (at_ps, *fixed) in seen:
                continue
            seen.add((at_ps, *fixed))
            arrivals: list[LastArriving] = [{}]  # all arrive; and more, once a run has shown what is on its way
            known = False
            for last_ps in arrivals:
                later: set[Hashable] = set()  # what was tried of the next fault
                for state in self._images(before, Strike(at_ps, fault.parts, last_ps), fixed):
                    if not known:
                        arrivals += self._arrivals(before, state, fixed, seen)
                        known = True
                    if last:
                        yield replace(state, until_ps=next(iter(instants[number + 1 :]), None)) if turn else state
                    else:
                        yield from self._states(turn + 1, state, self._instants(turn + 1, state), later)
                    del state

    def _images(self, before: State, strike: Strike, fixed: list[int]) -> Iterator[State]:
        """The runs with one more strike, by what is chosen of memory."""
        prescribed: list[int] | None = fixed
        repeats = self._repeats if len(self.faults) == 1 and self.returns else None
        known = KnownRuns()
        collect_young(1)  # with what was known of the strike before
        while prescribed is not None:
            if self.most is not None and self.runs >= self.most:
                raise _Over
            self.runs += 1
            same = None if repeats is None else known.same(prescribed)
            if repeats is not None and same is not None:
                number, choices = same
                repeats(number)
            else:
                collect_young()
                choices = Choices(prescribed)
                yield self._run(before, strike, choices, None if repeats is None else known)
            prescribed = choices.next(len(fixed))

    def _run(self, before: State, strike: Strike, choices: Choices, known: KnownRuns | None) -> State:
        strikes, images = list[Strike](), list[Image]()
        looks = None if known is None else Looks()
        for one in (*before.strikes, strike):
            returning = replace(self.faults[0], parts=one.parts).returning
            if returning:
                images.append(Image(returning, self.whole.result.loaded, tuple(images), choices, looks))
            image = images[-1] if returning else None
            compared = None if image is None else image.compare
            strikes.append(replace(one, memory=image, compared=compared, onlooker=None if looks is None else looks.of))
        run = before.aftermath
        aftermath = run_with_faults(self.scenario, self.variant, strikes, self.schedule, departures=run.departures)
        if known is not None and looks is not None:
            known.add(images[0], looks, self.runs)
        return State(aftermath, tuple(strikes), choices, run, self.runs)

    def _memory_changes(self, run: Aftermath, fault: FaultInTurn) -> set[int]:
        """The instants of a run at which it changes what memory may hold of the machines that come back."""
        system = run.result.system
        nodes = [system.nodes[part.role][part.index] for part in fault.returning]
        return {at_ps for at_ps, _ in views_of(system, nodes, lambda _: b"").changes()}

    def _arrivals(self, before: State, state: State, fixed: list[int], seen: set[Hashable]) -> Iterator[LastArriving]:
        """Some of the packets on their way to several machines do not arrive: of each queue pair's the last ones.

        A choice after which the same packets have come, at an instant between the same other changes, is left out.
        """
        strike = state.strikes[-1]
        away = {part.place for part in strike.parts if part.kind != PROCESS}
        on_their_way = state.aftermath.on_their_way
        paths = [
            (machine, number, to, ends)
            for machine, by_path in on_their_way.items()
            for (to, number), ends in by_path.items()
            if to not in away
        ]
        left = [p for p in before.aftermath.departures if p.port in away and p.end_ps <= strike.at_ps]
        others = changes(before.aftermath, self.scenario, strike.parts, packets=False)
        fault = replace(self.faults[0], parts=strike.parts)
        if fault.returning:
            others |= self._memory_changes(before.aftermath, fault)
        passed = sum(at_ps <= strike.at_ps for at_ps in others)
        seen.add((passed, frozenset(left), *fixed))
        if len({to for _, _, to, _ in paths}) < 2:
            return
        cuts = [[None, *(end_ps - 1 for end_ps in reversed(ends))] for *_, ends in paths]
        for count, chosen in enumerate(product(*cuts)):
            if count > ARRIVALS_AT_MOST:
                self.complete = False
                return
            last_ps: dict[str, dict[int, int]] = {}
            for (machine, number, _, _), until_ps in zip(paths, chosen, strict=True):
                if until_ps is not None:
                    last_ps.setdefault(machine, {})[number] = until_ps
            came = frozenset(p for p in left if p.end_ps <= last_ps.get(p.port, {}).get(p.queue_pair, NEVER))
            if (passed, came, *fixed) not in seen:
                seen.add((passed, came, *fixed))
                yield last_ps
