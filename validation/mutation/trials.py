"""What a seeded fault is tried with: explorations of small runs, and random lives through many crashes.

A trial says what is broken. Asked about a fault, it ends with the first thing broken that the scheme keeps without it:
nothing has to be shrunk, and no other state be looked at.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...protocols.guarantees import Condition, Verdict
from ...protocols.scheme import Scheme
from ...scenarios.experiment import run_variant
from ...scenarios.inject import instants
from ...scenarios.schema import Scenario, Variant
from ..executed import breaches
from ..testing.checks import scenario_of
from ..testing.world import World
from .shown import Shown, Telling, manner, way, ways

LIVES = 20
"""So many random lives with crashes make one trial."""
STATES = 4_000
"""So many crash states are explored of a run at most: with some faults there is no end to what may be lost."""
MOST_STATES = 8_000
"""Of a scheme without a fault, which is explored once: only a run that is seen in full says what is kept in it."""
_STEPS = 16
_LONGEST_PS = 8_000_000
_POWER = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.MONOTONIC, Condition.DURABLE)
_SERVER = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE)
_CLIENT = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.LINEARIZABLE)
RETURNS = "everybody returns"
"""What is broken where a survivor of a fault, or a reader after it, never comes to an end."""

Ask = Callable[[type[Scheme], Collection[str]], Shown]


@dataclass(frozen=True)
class Trial:
    """``ask`` says what a scheme breaks; of what it ought to keep (if given) the first that is broken ends it.

    ``all_ways`` are those in which something can be broken. ``place`` is a platform with its switches, or a fault that
    somebody survives. ``dear`` ones come last.
    """

    name: str
    ask: Ask
    all_ways: frozenset[str]
    place: str
    dear: bool = False


@dataclass(frozen=True)
class _Load:
    """Operations, their mix, keys, the size of a value, and clients."""

    mix: str
    operations: int
    keys: int
    value: str
    clients: int = 2

    @property
    def workload(self) -> dict[str, Any]:
        return {"mix": self.mix, "operations": self.operations, "keys": self.keys, "value": self.value}


_LOADS = {
    "two updates": _Load("update-only", 2, 1, "16 B", clients=1),
    "six updates": _Load("update-only", 6, 2, "32 B"),
    "mix a": _Load("a", 12, 2, "72 B"),
    "sixteen updates": _Load("update-only", 16, 2, "16 B", clients=3),
    "forty of mix a": _Load("a", 40, 2, "16 B", clients=3),
}
"""Values are of few words, and one of more than a line: of 32 words some torn image has the CRC32 of the whole."""
_PAUSES = tuple(range(1, 7))
"""Schedules in which cores pause, of which a scheme without a fault is seen in all, one with a fault in the first."""


@cache
def trials() -> tuple[Trial, ...]:
    """All trials, those first that find most for their time."""
    adr, away, eadr = (("optane-adr", "on"), ("optane-adr", "off"), ("optane-eadr", "on"))
    two, six, mixed, sixteen, forty = _LOADS.items()
    found = [_of_power(*two, *adr)]
    found += [_of_power(*load, *place) for load in (six, mixed) for place in (adr, eadr, away)]
    found += [_of_power(*sixteen, *place) for place in (adr, eadr)]
    found += [_of_power(*mixed, *adr, schedules=(1, 2)), _of_power(*forty, *eadr, schedules=(0, 1, 2))]
    found += [_lives(*adr), _lives(*eadr)]
    found.append(_of_power("three updates", _Load("update-only", 3, 1, "16 B"), *adr, again=True))
    for fault, conditions in (("client[0] power", _CLIENT), ("server[0] process", _SERVER)):
        found.append(_of_survivors(fault, _Load("a", 12, 2, "32 B"), conditions))
    return tuple(found)


def _of_power(
    name: str, load: _Load, platform: str, ddio: str, schedules: tuple[int, ...] = (0,), again: bool = False
) -> Trial:
    fault = "server[0] power in recovery" if again else "server[0] power"

    def ask(scheme: type[Scheme], kept: Collection[str]) -> Shown:
        scenario, variant = _scenario(scheme, fault, load, platform, ddio)
        broken: set[str] = set()
        exhaustive = True
        for schedule in schedules if kept or not any(schedules) else sorted({*schedules, *_PAUSES}):
            explorer = Telling(run_variant(scenario, variant, schedule), _POWER)
            explorer.broken = broken
            found = explorer.walk(until=lambda _: not broken.isdisjoint(kept), budget=STATES if kept else MOST_STATES)
            exhaustive = exhaustive and found.exhaustive
            if not broken.isdisjoint(kept):
                break
        return Shown(frozenset(broken), exhaustive)

    place = f"{platform}, ddio {ddio}"
    what = f"{name}, cores pausing" if schedules != (0,) else f"{name}, power fails in recovery" if again else name
    return Trial(f"{what}, {place}", ask, ways(_POWER), place, dear=again)


def _of_survivors(fault: str, load: _Load, conditions: tuple[Condition, ...]) -> Trial:
    """A fault that somebody survives, at every instant of a run."""

    def ask(scheme: type[Scheme], kept: Collection[str]) -> Shown:
        scenario, variant = _scenario(scheme, fault, load, "optane-adr", "on")
        broken: set[str] = set()
        failure: Exception | None = None
        for at_ps in instants(scenario, variant, 0)[1]:
            try:
                aftermath, wrong = breaches(scenario, variant, at_ps, conditions)
            except Exception as error:  # at this instant; at another one there may be a verdict
                failure = failure or error
                continue
            broken.update(map(str, wrong), () if aftermath.finished else (RETURNS,))
            if not broken.isdisjoint(kept):
                break
        if failure is not None and broken.isdisjoint(kept):
            raise failure
        return Shown(frozenset(broken))

    everything = frozenset({*map(str, conditions), RETURNS})
    return Trial(f"{fault}, optane-adr, ddio on", ask, everything, fault, dear=True)


def _scenario(scheme: type[Scheme], fault: str, load: _Load, platform: str, ddio: str) -> tuple[Scenario, Variant]:
    scenario = scenario_of(scheme, platform, workload=load.workload, clients=load.clients, fault=fault, ddio=ddio)
    (variant,) = scenario.variants()
    return scenario, variant


def _lives(platform: str, ddio: str) -> Trial:
    """Random lives of a system with crashes in them: a condition is kept if it is in each of them."""

    def ask(scheme: type[Scheme], kept: Collection[str]) -> Shown:
        broken: set[str] = set()
        for seed in range(LIVES):
            broken.update(_life(scheme, platform, ddio, seed))
            if not broken.isdisjoint(kept):
                break
        return Shown(frozenset(broken))

    place = f"{platform}, ddio {ddio}"
    return Trial(f"lives, {place}", ask, ways(_POWER), place)


def _life(scheme: type[Scheme], platform: str, ddio: str, seed: int) -> Iterator[str]:
    draw = random.Random(seed)
    world = World(scheme, platform, ddio=ddio, seed=seed, updates=_STEPS)
    removing = seed % 2 == 1  # a history with removals is judged by fewer conditions
    operations = [f for f in scheme.operations if removing or f not in scheme.removals]
    for _ in range(_STEPS):
        step, idle = draw.random(), world.idle()
        if step < 0.55 and idle:
            world.invoke(draw.choice(idle), draw.choice(operations), draw.choice(list(world.names)))
        elif step < 0.9:
            world.run(draw.randrange(1, _LONGEST_PS))
        else:
            world.crash(draw.randrange)
    world.read_all()
    wrong = [c for c, judgement in world.judge().verdicts.items() if judgement.verdict is Verdict.VIOLATED]
    if wrong:
        reads = [o for o in world.history.operations if o.outcome == "ok" and o.f not in scheme.updates]
        manners = {manner(o.result) for o in reads}
        how = next((each for each in ("torn", "unreadable", "absent") if each in manners), "another version")
        yield from (way(str(condition), how) for condition in wrong if condition in _POWER)


Sound = Mapping[str, frozenset[str]]
"""By trial: the ways of breaking conditions that a scheme does not show without any fault."""


def kept(shown: Mapping[str, Shown]) -> Sound:
    """What a scheme keeps in each trial, by what was shown of it in all of them.

    A fault takes time, or saves some, and so meets other instants: what the scheme itself breaks in any trial at the
    same place it does not keep in this one. Where a trial could not look at all that there is, it keeps nothing.
    """
    found: dict[str, frozenset[str]] = {}
    asked = [trial for trial in trials() if trial.name in shown]
    for trial in asked:
        there = [shown[other.name].broken for other in asked if other.place == trial.place]
        found[trial.name] = trial.all_ways.difference(*there) if shown[trial.name].exhaustive else frozenset()
    return found
