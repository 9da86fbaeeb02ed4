"""What a seeded fault is tried with: random lives through many crashes, and explorations of small runs.

A trial says which conditions a scheme keeps. Asked about a fault it stops at the first condition broken that the scheme
keeps without it: nothing has to be shrunk, and no other state be looked at.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...protocols.guarantees import Condition, Verdict
from ...protocols.scheme import Scheme
from ...scenarios.experiment import run_variant
from ...scenarios.inject import instants
from ...scenarios.schema import Scenario, Variant
from ..executed import asked, breaches, chosen
from ..explorer import ASKED, Explorer
from ..oracle import CONDITIONS
from ..testing.checks import scenario_of
from ..testing.world import World

LIVES = 30
"""So many random lives with crashes make one trial."""
STATES = 2_000
"""So many crash states are explored of a run at most: with some faults there is no end to what may be lost."""
_STEPS = 16
_LONGEST_PS = 8_000_000
_GOOD = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.MONOTONIC, Condition.DURABLE)

Verdicts = Mapping[str, Verdict]
Ask = Callable[[type[Scheme], frozenset[str]], Verdicts]


class Trial(NamedTuple):
    """``ask`` gives a scheme's verdicts; of what it ought to keep (if given) the first that is broken ends it.

    ``endless`` says whether not to come to an end is the fault of the code: random lives and runs with a fault in them
    are short, explorations are as long as there is something to lose.
    """

    ask: Ask
    endless: bool = False


def trials() -> dict[str, Trial]:
    """All trials by name, those first that find most for their time."""
    found = {f"lives, ddio {ddio}": Trial(_lives(ddio), endless=True) for ddio in ("on", "off")}
    platforms = (("optane-adr", "on"), ("optane-adr", "off"), ("optane-eadr", "on"))
    for load, (mix, operations, keys, value, clients) in _LOADS.items():
        workload: dict[str, Any] = {"mix": mix, "operations": operations, "keys": keys, "value": value}
        for platform, ddio in platforms:
            name = f"{load}, {platform}, ddio {ddio}"
            found[name] = _exploration("server[0] power", platform, ddio, workload, clients)
    for fault in ("server[0] power in recovery", "server[0] process", "client[0] power"):
        workload = {"mix": "a", "operations": 12, "keys": 2, "value": "128 B"}
        trial = _exploration(fault, "optane-adr", "on", workload, 2)
        found[f"{fault}, optane-adr"] = trial._replace(endless=not fault.endswith("in recovery"))
    return found


_LOADS = {
    "two updates": ("update-only", 2, 1, "16 B", 1),
    "six updates": ("update-only", 6, 2, "128 B", 2),
    "mix a": ("a", 12, 2, "128 B", 2),
}
"""Mix, operations, keys, values and clients of the runs whose power failures are explored."""


def _exploration(fault: str, platform: str, ddio: str, workload: Mapping[str, Any], clients: int) -> Trial:
    def ask(scheme: type[Scheme], kept: frozenset[str]) -> Verdicts:
        scenario = scenario_of(scheme, platform, workload=workload, clients=clients, fault=fault, ddio=ddio)
        (variant,) = scenario.variants()
        look = _executed if scenario.crash.fault.executed else _explored
        return look(scenario, variant, kept)

    return Trial(ask)


def _explored(scenario: Scenario, variant: Variant, kept: frozenset[str]) -> Verdicts:
    conditions = [Condition(name) for name in kept] or sorted({*ASKED, *_GOOD} & CONDITIONS.keys())
    explorer = Explorer(run_variant(scenario, variant), conditions=conditions)
    found = explorer.walk(until=(lambda now: bool(now.first)) if kept else None, budget=STATES)
    return {str(condition): found.verdict(condition) for condition in conditions}


def _executed(scenario: Scenario, variant: Variant, kept: frozenset[str]) -> Verdicts:
    conditions = [Condition(name) for name in kept] or list(asked(scenario, variant))
    found = dict.fromkeys(map(str, conditions), Verdict.HOLDS)
    _, every = instants(scenario, variant, 0)
    for at_ps in chosen(every, scenario):
        _, wrong = breaches(scenario, variant, at_ps, conditions)
        found |= dict.fromkeys(map(str, wrong), Verdict.VIOLATED)
        if wrong and kept:
            break
    return found


def _lives(ddio: str) -> Ask:
    """Random lives of a system with crashes in them: a condition is kept if it is in each of them."""

    def ask(scheme: type[Scheme], kept: frozenset[str]) -> Verdicts:
        found: dict[str, Verdict] = {}
        for seed in range(LIVES):
            for condition, verdict in _life(scheme, ddio, seed):
                if found.get(condition) is not Verdict.VIOLATED:
                    found[condition] = verdict
            if any(found.get(condition) is Verdict.VIOLATED for condition in kept):
                break
        return found

    return ask


def _life(scheme: type[Scheme], ddio: str, seed: int) -> Iterator[tuple[str, Verdict]]:
    draw = random.Random(seed)
    world = World(scheme, "optane-adr", ddio=ddio, seed=seed)
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
    for condition, judgement in world.judge().verdicts.items():
        if condition in _GOOD:
            yield str(condition), judgement.verdict
