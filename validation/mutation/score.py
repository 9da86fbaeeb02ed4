"""The mutation score: each seeded fault is given to the judge, who finds it (*killed*) or does not (*survives*).

A fault is found when a condition that the scheme keeps without it is violated with it, when the code fails, or when it
does not come to an end. What survives needs a reason: ``reasons.yaml`` has those that somebody has looked into.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...protocols.guarantees import Condition, Verdict
from ...protocols.scheme import Scheme
from ...sim.yaml_source import read_yaml
from ..testing.checks import crash_report
from ..testing.world import World
from .mutants import planted, seeded

REASONS = Path(__file__).parent / "reasons.yaml"
SECONDS = 10
"""Of the processor; a trial that takes longer does not come to an end."""
LIVES = 30
"""So many random lives with crashes make one trial."""
_STEPS = 16
_LONGEST_PS = 8_000_000

Verdicts = Mapping[str, Verdict]
Trial = Callable[[type[Scheme]], Verdicts]
_GOOD = frozenset({Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.MONOTONIC, Condition.DURABLE})


@dataclass(frozen=True)
class Fate:
    """What became of one seeded fault."""

    scheme: str
    module: str
    line: int
    operator: str
    fault: str
    killed_by: str
    """The trial and the condition, or what the code did; empty if it survives."""
    reason: str = ""
    """Why it survives, if somebody knows."""


def score(
    scheme: type[Scheme], *, shared: bool = False, progress: Callable[[int, int], None] | None = None
) -> Iterator[Fate]:
    """The fate of every seeded fault of ``scheme``; of the modules that it shares with others if asked for."""
    sound = {name: _verdicts(trial, scheme) for name, trial in trials().items()}
    faults = list(seeded(scheme, shared))
    for number, (module, change) in enumerate(faults):
        if progress is not None:
            progress(number, len(faults))
        with planted(scheme, module, change) as mutant:
            killed_by = _killed_by(mutant, sound)
        short = module.__name__.rpartition(".")[2]
        reason = "" if killed_by else _reasons().get(f"{short} {change.name}", "")
        yield Fate(scheme.name, short, change.line, change.operator, change.name, killed_by, reason)


def trials() -> dict[str, Trial]:
    """What a fault is tried with, the quickest first."""
    found: dict[str, Trial] = {}
    for ddio in ("on", "off"):
        found[f"lives, ddio {ddio}"] = lambda scheme, ddio=ddio: _lives(scheme, ddio)  # type: ignore[misc]
    for platform, ddio in (("optane-adr", "on"), ("optane-adr", "off"), ("optane-eadr", "on")):
        for mix in ("update-only", "a"):
            found[f"{platform}, ddio {ddio}, mix {mix}"] = _exploration(platform, ddio, mix, "server[0] power")
    for fault in ("server[0] power in recovery", "server[0] process", "client[0] power"):
        found[f"{fault}, optane-adr"] = _exploration("optane-adr", "on", "a", fault)
    return found


def _exploration(platform: str, ddio: str, mix: str, fault: str) -> Trial:
    operations = 6 if mix == "update-only" else 12
    workload: dict[str, Any] = {"mix": mix, "operations": operations, "value": "128 B"}

    def trial(scheme: type[Scheme]) -> Verdicts:
        report = crash_report(scheme, platform, workload=workload, fault=fault, ddio=ddio)
        return {str(condition): verdict for condition, verdict in report.verdicts.items()}

    return trial


def _lives(scheme: type[Scheme], ddio: str) -> Verdicts:
    """Random lives of a system with crashes in them, all judged: a condition is kept if it is in each of them."""
    found: dict[str, Verdict] = {}
    for seed in range(LIVES):
        draw = random.Random(seed)
        world = World(scheme, "optane-adr", ddio=ddio, seed=seed)
        for _ in range(_STEPS):
            step, idle = draw.random(), world.idle()
            if step < 0.55 and idle:
                world.invoke(draw.choice(idle), draw.choice(scheme.operations), draw.choice(list(world.names)))
            elif step < 0.9:
                world.run(draw.randrange(1, _LONGEST_PS))
            else:
                world.crash(draw.randrange)
        world.read_all()
        for condition, judgement in world.judge().verdicts.items():
            if condition in _GOOD and found.get(str(condition)) is not Verdict.VIOLATED:
                found[str(condition)] = judgement.verdict
    return found


def _killed_by(mutant: type[Scheme], sound: Mapping[str, Verdicts]) -> str:
    for name, trial in trials().items():
        try:
            found = _verdicts(trial, mutant)
        except _TooLong:
            return f"{name}: does not come to an end"
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}".splitlines()[0]
        for condition, verdict in found.items():
            if verdict is Verdict.VIOLATED and sound[name].get(condition) is Verdict.HOLDS:
                return f"{name}: {condition} violated"
    return ""


class _TooLong(BaseException):
    """Nothing may take it for a failure of its own."""


def _verdicts(trial: Trial, scheme: type[Scheme]) -> Verdicts:
    with _alarm():
        return trial(scheme)


@contextmanager
def _alarm() -> Iterator[None]:
    """Code with a fault in it may wait for ever."""

    def late(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@cache
def _reasons() -> Mapping[str, str]:
    data = read_yaml(REASONS).mapping("a map from faults to reasons")
    return {str(fault): str(reason) for fault, reason in data.items()}
