"""The work of a trial: small runs whose crashes are explored, or executed, or in which nothing fails; random lives.

Of a scheme with a fault, each ends with the first broken way that the scheme keeps without it: nothing has to be
shrunk, and no other state be looked at.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...protocols.failures import ALL, CLIENT, LOST, POWER, PROCESS
from ...protocols.guarantees import NO_FAULT, Condition, Verdict
from ...protocols.objects import REGISTERS
from ...protocols.scheme import Scheme
from ...scenarios.arguments import RoleFields, YcsbFields
from ...scenarios.build import Draft
from ...scenarios.history import Operation
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.inject import instants
from ...scenarios.schema.faults import IN_RECOVERY, kinds_of
from ...scenarios.schema.known import SchemeFacts
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.units import parse_bytes
from ..crash.executed import breaches, judge_state
from ..crash.strikes import Walk
from ..matrix import structures
from ..matrix.guarantees import every, machines, usual
from ..testing.world import World
from .places import AWAY, Place, usual_place
from .shown import MANNERS, Shown, Telling, manner, manner_of, way

STATES = 4_000
"""At most this many crash states of a run are explored: with some faults the combinations of losses are endless."""
MOST_STATES = 8_000
"""The limit for a scheme without a fault, explored once: only a run seen in full shows which ways it keeps."""
FEWER_STATES = MOST_STATES // 8
"""The same in further schedules, once one was not seen in full: nothing counts as kept there, whatever they show."""
SHORT = 6
"""Runs of so many operations are short."""
RUNS = 2_000
"""At most this many runs with a fault of one of several machines are made."""
FEWER_RUNS = 600
"""The same with each pair of faults that come one after the other."""
AFTER_POWER = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.MONOTONIC, Condition.DURABLE)
AFTER_SERVER = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE)
AFTER_CLIENT = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.LINEARIZABLE)
ALIVE = (Condition.COMMITTED, Condition.LINEARIZABLE)
TXN = "txn"
"""The model, and the operation, of transactions on registers."""
ALLOCATOR = "allocator"
"""The model of heaps."""
RETURNS = "everybody returns"
"""The broken way where a client, a survivor of a fault, or a reader after it, never comes to an end."""
SERVED = "every operation is ok"
"""The broken way where an operation is refused: asked where nothing fails."""

Where = Callable[[type[Scheme]], Place | None]
"""The place in which a scheme is tried, if it is."""
Ask = Callable[[type[Scheme], Collection[str]], Shown]
UNFIT = Shown(frozenset(), exhaustive=False)
"""What a trial shows of a scheme that it does not fit: nothing, so that nothing is kept there."""

_PAUSES = tuple(range(1, 7))
"""Schedules in which cores pause, of which a scheme without a fault is seen in all."""


@dataclass(frozen=True)
class Load:
    """Operations, their mix, keys, the size of a value, clients; the share of the updates that delete; server threads.

    ``batch`` operations are one request, and a server computes for ``work`` beside each. A scheme that deletes nothing,
    whose server has one thread or does not compute, or that takes no batches, is not tried with such a load.
    """

    mix: str
    operations: int
    keys: int
    value: str
    clients: int = 2
    deletes: float = 0.0
    threads: int = 1
    batch: int = 1
    work: str = ""

    def fits(self, scheme: type[Scheme]) -> bool:
        """Whether a scheme can be given this load: one of registers, transactions on them, heaps, or a structure, which
        has room for a value.
        """
        most_bytes = scheme.limits.value_bytes
        if most_bytes is not None and parse_bytes(self.value) > most_bytes:
            return False
        served = any(role.served for role in scheme.role_types.values())
        known = scheme.model in (*REGISTERS, TXN, ALLOCATOR) or scheme.one_writer
        able = known and bool(scheme.removals or not self.deletes)
        return able and (served or (self.threads == 1 and not self.work)) and (scheme.batches or self.batch == 1)

    def scenario(self, scheme: type[Scheme], fault: str, place: Place, seed: int = 1) -> Scenario:
        """A scenario of one variant."""
        clients = structures.processes(scheme, self.clients) if scheme.one_writer else self.clients
        roles: dict[str, RoleFields] = {"client": {"processes": clients}}
        if self.threads > 1:
            roles |= {name: {"threads": self.threads} for name, role in scheme.role_types.items() if role.served}
        workload: YcsbFields = {
            "kind": "ycsb",
            "mix": self.mix,
            "operations": self.operations,
            "keys": self.keys,
            "value": self.value,
            "zipf": 0.0,
            "deletes": self.deletes,
        }
        if self.batch > 1:
            workload["batch"] = self.batch
        if self.work:
            workload["work"] = self.work
        drawn: Any = workload
        if scheme.one_writer:
            drawn = structures.workload(scheme, self.operations, clients)
        elif scheme.model == TXN:
            drawn = self._transactions()
        elif scheme.model == ALLOCATOR:
            drawn = self._allocations()
        return Draft.new(
            f"the trial of {scheme.name}",
            scenario="mutate",
            seed=seed,
            vary={name: [value] for name, value in place.settings(scheme).items()},
            schemes=[scheme.name],
            roles=roles,
            workload=drawn,
            options=structures.options(scheme),
            crash={"fault": fault},
            outages=structures.outages(scheme, fault),
        ).build()

    def _transactions(self) -> dict[str, Any]:
        """As many accesses as transactions: each to two objects of three or more, of a few operations to all three, so
        that two machines take part beside the one that commits.
        """
        steps = 2 if self.operations > 3 else 3
        return {
            "kind": "mix",
            "shares": {TXN: 1.0},
            "steps": steps,
            "step_reads": 0.0 if self.mix == "update-only" else 0.5,
            "operations": -(-self.operations // steps),
            "keys": max(3, self.keys),
            "value": self.value,
            "zipf": 0.0,
        }

    def _allocations(self) -> dict[str, Any]:
        """Objects of a value's length out of one heap, some of which are freed."""
        return {
            "kind": "mix",
            "shares": {"alloc": 0.6, "free": 0.4},
            "operations": self.operations,
            "keys": 1,
            "value": self.value,
            "amount": parse_bytes(self.value),
        }


def power_of(scheme: type[Scheme], *, again: bool = False) -> str | None:
    """The power failure that ends all machines beside clients, or the client's machine where that has what is read.

    None if the scheme says that it may not suffer it, or has no machine beside clients.

    ``again``: and once more in recovery.
    """
    hosted, several = scheme.role_types[CLIENT].hosts, machines(scheme) > 1
    if (several and POWER not in kinds_of(ALL, SchemeFacts.of(scheme))) or scheme.role_types.keys() == {CLIENT}:
        return None
    fault = f"{CLIENT}[0] {POWER}" if hosted else f"{ALL} {POWER}" if several else usual(scheme)
    if again and not any(role.recovers() for name, role in scheme.role_types.items() if hosted == (name == CLIENT)):
        return None  # it has no recovery in which power might fail
    return f"{fault} {IN_RECOVERY}" if again else fault


def client_power_of(scheme: type[Scheme]) -> str | None:
    """The power failure of a client's machine; None where that has what is read (:func:`power_of` is it there)."""
    return None if scheme.role_types[CLIENT].hosts else f"{CLIENT}[0] {POWER}"


def process_of(scheme: type[Scheme]) -> str | None:
    """The end of the process of a machine beside clients: the first whose role may suffer that."""
    facts = SchemeFacts.of(scheme)
    able = (name for name in scheme.role_types if name != CLIENT and PROCESS in kinds_of(name, facts))
    return next((f"{name}[0] {PROCESS}" for name in able), None)


def one_of_several(scheme: type[Scheme]) -> list[str]:
    """What the first machine of a role beside clients may suffer while another stands: power failures, losses."""
    if machines(scheme) < 2:
        return []
    found = [fault.split() for fault in every(scheme, last=False)]
    return [" ".join(one) for one in found if len(one) == 2 and one[1] in (POWER, LOST) and one[0] != ALL]


def of_power(
    load: Load, place: Place, schedules: Sequence[int] = (0,), *, paused: bool = False, again: bool = False
) -> Ask:
    """Power fails at every instant of a run (``again``: and of the recovery once more), all images.

    ``paused``: a scheme without a fault is seen in schedules in which cores pause too; a fault may have that timing.
    """

    def ask(scheme: type[Scheme], kept: Collection[str]) -> Shown:
        fault = power_of(scheme, again=again)
        if fault is None or not load.fits(scheme) or not place.has(scheme, long=load.operations > SHORT):
            return UNFIT
        scenario, variant = _single(load.scenario(scheme, fault, place))
        broken: set[str] = set()
        exhaustive = True
        for schedule in sorted({*schedules, *_PAUSES}) if paused and not kept else schedules:
            explorer = Telling(run_variant(scenario, variant, schedule), AFTER_POWER)
            explorer.broken = broken
            budget = STATES if kept else MOST_STATES if exhaustive else FEWER_STATES
            found = explorer.walk(until=lambda _: not broken.isdisjoint(kept), budget=budget)
            exhaustive = exhaustive and found.exhaustive
            if not broken.isdisjoint(kept):
                break
        return Shown(frozenset(broken), exhaustive)

    return ask


def of_survivors(fault_of: Callable[[type[Scheme]], str | None], load: Load, conditions: tuple[Condition, ...]) -> Ask:
    """A fault after which no memory comes back, and which some machine survives, at every instant of a run."""

    def ask(scheme: type[Scheme], kept: Collection[str]) -> Shown:
        fault = fault_of(scheme)
        if fault is None or not load.fits(scheme):
            return UNFIT
        scenario, variant = _single(load.scenario(scheme, fault, usual_place(scheme)))
        runs = ((scenario, variant, at_ps, 0) for at_ps in instants(scenario, variant, 0)[1])
        return _executed(runs, conditions, kept)

    return ask


def of_successors(load: Load, conditions: tuple[Condition, ...]) -> Ask:
    """A server's process ends at every instant of a run, and then power fails at every instant, all images.

    Its successor goes on with what recovery has left; the memory is written past the caches, or as its paper presumes.
    """

    def ask(scheme: type[Scheme], kept: Collection[str]) -> Shown:
        first, second = process_of(scheme), power_of(scheme)
        if first is None or second is None or machines(scheme) > 1 or not load.fits(scheme):
            return UNFIT
        place = usual_place(scheme, AWAY)
        if not place.has(scheme):
            return UNFIT
        walk = Walk(*_single(load.scenario(scheme, f"{first} then {second}", place)))
        walk.most = RUNS
        broken: set[str] = set()
        for state in walk.states(walk.instants):
            broken.update(map(str, judge_state(state, conditions)))
            if not broken.isdisjoint(kept):
                return Shown(frozenset(broken))
        return Shown(frozenset(broken), walk.complete)

    return ask


def of_machines(load: Load, conditions: tuple[Condition, ...], where: Where = usual_place) -> Ask:
    """One of several machines fails at every instant of a run, and comes back with every image, or never.

    Power failures and losses are ways of their own (:func:`ways_of_machines`): who keeps nothing when its only server
    is lost may keep all when the power of another machine fails.
    """
    return _of_faults(
        lambda scheme: {one: one.split()[1] for one in one_of_several(scheme)}, load, conditions, RUNS, where
    )


def one_after_another(scheme: type[Scheme]) -> dict[str, str]:
    """Pairs of what machines beside clients may suffer, of which the second is a power failure: the faults, with what
    is between the two. Roles have the order in which the scheme names them.
    """
    found = [fault.split() for fault in one_of_several(scheme)]
    order = list(dict.fromkeys(machine for machine, _ in found))
    pairs = {}
    for (first, kind), (second, then) in itertools.product(found, found):
        turn = order.index(second) - order.index(first)
        if then == POWER and (turn or kind == POWER):
            pairs[f"{first} {kind} then {second} {then}"] = f"{kind}, {BETWEEN[(turn > 0) - (turn < 0)]}"
    return pairs


def of_pairs(load: Load, conditions: tuple[Condition, ...], where: Where = usual_place) -> Ask:
    """One of several machines fails at every instant of a run, and then, at every later one, it or another does.

    What is found with each kind of pair is a way of its own (:func:`ways_of_pairs`).
    """
    return _of_faults(one_after_another, load, conditions, FEWER_RUNS, where)


def _of_faults(
    faults_of: Callable[[type[Scheme]], dict[str, str]],
    load: Load,
    conditions: tuple[Condition, ...],
    most: int,
    where: Where,
) -> Ask:
    """Faults of one of several machines, each with the way in which it breaks what it does.

    Of a fault that takes too many runs, a scheme without a fault keeps nothing.
    """

    def ask(scheme: type[Scheme], kept: Collection[str]) -> Shown:
        faults, place = faults_of(scheme), where(scheme)
        if not faults or place is None or not load.fits(scheme):
            return UNFIT
        broken: set[str] = set()
        for fault, how in faults.items():
            walk = Walk(*_single(load.scenario(scheme, fault, place)))
            walk.most = most
            for state in walk.states(walk.instants, lambda _: None):  # nothing new comes of a repeated one
                for condition, breach in judge_state(state, conditions).items():
                    broken.add(way(condition, f"{how}, {manner_of(breach.flaw)}"))
                if not state.aftermath.finished:
                    broken.add(way(RETURNS, how))
                if not broken.isdisjoint(kept):
                    return Shown(frozenset(broken))
            if not kept and not walk.complete:
                broken |= _ways_after([how], conditions)
        return Shown(frozenset(broken))

    return ask


BETWEEN = {0: "then its power again", 1: "then power of a later role", -1: "then power of an earlier role"}
"""What is between two failures, by whether the second role is named behind the first one."""


def ways_of_pairs(conditions: Iterable[Condition]) -> frozenset[str]:
    """All ways in which :func:`of_pairs` finds conditions broken: ``durable: power, then its power again, torn``."""
    return _ways_after((f"{kind}, {between}" for kind in (POWER, LOST) for between in BETWEEN.values()), conditions)


def ways_of_machines(conditions: Iterable[Condition]) -> frozenset[str]:
    """All ways in which :func:`of_machines` finds these conditions broken: ``durable: lost, torn``."""
    return _ways_after((POWER, LOST), conditions)


def _ways_after(faults: Iterable[str], conditions: Iterable[Condition]) -> frozenset[str]:
    """All ways of breaking these conditions after such faults, and the way in which somebody never returns."""
    hows = list(faults)
    manners = [f"{how}, {with_what}" for how in hows for with_what in MANNERS]
    found = {way(condition, how) for condition in conditions for how in manners}
    return frozenset(found | {way(RETURNS, how) for how in hows})


def of_nobody(loads: Sequence[Load], seeds: int) -> Ask:
    """Runs in which nothing fails, to their ends and then a reader's, some with the server's cores away now and then.

    A scheme that deletes nothing is given the same loads without deletes.
    """

    def runs(scheme: type[Scheme]) -> Iterator[tuple[Scenario, Variant, int, int]]:
        for seed in range(seeds):
            for load in loads:
                one = load if scheme.removals else replace(load, deletes=0.0)
                if one.fits(scheme):
                    made = one.scenario(scheme, NO_FAULT, usual_place(scheme), seed + 1)
                    yield *_single(made), 0, seed if seed % 2 else 0

    return lambda scheme, kept: _executed(runs(scheme), ALIVE, kept)


def _executed(
    runs: Iterable[tuple[Scenario, Variant, int, int]], conditions: tuple[Condition, ...], kept: Collection[str]
) -> Shown:
    """The broken ways in runs with a fault at an instant, each in a schedule."""
    broken: set[str] = set()
    failure: Exception | None = None
    for scenario, variant, at_ps, schedule in runs:
        try:
            aftermath, wrong = breaches(scenario, variant, at_ps, conditions, schedule)
        except Exception as error:  # in this run; in another one there may be a verdict
            failure = failure or error
            continue
        broken.update(map(str, wrong), () if aftermath.finished else (RETURNS,))
        if any(map(_is_refused, aftermath.result.history.operations)):
            broken.add(SERVED)
        if not broken.isdisjoint(kept):
            break
    if failure is not None and broken.isdisjoint(kept):
        raise failure
    return Shown(frozenset(broken))


def _is_refused(operation: Operation) -> bool:
    """Whether an operation ends with ``fail`` or ``info``, or a client's allocation, which has a length, with nothing:
    heaps have room for all. A reader takes out what is left, until nothing is.
    """
    nothing = operation.f == "alloc" and operation.argument is not None and operation.result is None
    return nothing or operation.outcome in ("fail", "info")


def _single(scenario: Scenario) -> tuple[Scenario, Variant]:
    (variant,) = scenario.variants()
    return scenario, variant


@dataclass(frozen=True)
class Life:
    """Random lives of a system: so many steps, each an operation, or time that goes on, or a crash.

    No more than ``updates``: the stores are formatted for so many, and one that is cleaned is cleaned the sooner.
    """

    steps: int = 16
    updates: int = 16
    operations: float = 0.55
    crashes: float = 0.1
    writing: float | None = None
    """The share of operations that write; None: each of a scheme's is as likely as any other."""


LONGEST_PS = 8_000_000


def of_lives(place: Place, lives: int, life: Life) -> Ask:
    """Random lives of a system with crashes in them: a condition is kept if it holds in each of them."""

    def ask(scheme: type[Scheme], kept: Collection[str]) -> Shown:
        broken: set[str] = set()
        if scheme.model not in REGISTERS or not place.has(scheme, long=True):
            return UNFIT
        for seed in range(lives):
            broken.update(_lived(scheme, place, seed, life))
            if not broken.isdisjoint(kept):
                break
        return Shown(frozenset(broken))

    return ask


def _lived(scheme: type[Scheme], place: Place, seed: int, life: Life) -> Iterator[str]:
    draw = random.Random(seed)
    chosen: dict[str, Any] = place.settings(scheme)
    world = World(scheme, seed=seed, updates=life.updates, **chosen)
    removing = seed % 2 == 1  # a history with removals is judged by fewer conditions
    operations = [f for f in scheme.operations if removing or f not in scheme.removals]
    reads = [f for f in operations if f not in scheme.updates]
    writes = [f for f in operations if f in scheme.updates]
    left = life.updates
    for _ in range(life.steps):
        step, idle = draw.random(), world.idle()
        if step < life.operations and idle:
            client = draw.choice(idle)
            some = operations if life.writing is None else writes if draw.random() < life.writing else reads
            f = draw.choice(some if left else reads)
            left -= f in scheme.updates
            world.invoke(client, f, draw.choice(list(world.names)))
        elif step < 1 - life.crashes:
            world.run(draw.randrange(1, LONGEST_PS))
        else:
            world.crash(draw.randrange)
    world.read_all()
    wrong = [c for c, judgement in world.judge().verdicts.items() if judgement.verdict is Verdict.VIOLATED]
    if wrong:
        seen = [o for o in world.history.operations if o.outcome == "ok" and o.f not in scheme.updates]
        manners = {manner(o.result) for o in seen}
        how = next((each for each in ("torn", "unreadable", "absent") if each in manners), "another version")
        yield from (way(str(condition), how) for condition in wrong if condition in AFTER_POWER)
