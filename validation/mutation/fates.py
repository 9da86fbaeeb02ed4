"""The fate of one seeded fault: it is tried until a verdict finds it; code that fails by itself is counted apart.

Only a verdict finds a fault: something that the scheme keeps without it is broken with it. Code that raises an error
of its own, or does not come to an end, is *broken*: any run shows that without a judge, so it does not count.
An error of the judge itself says nothing about the code: the fault is *undecided*.
"""

from __future__ import annotations

import resource
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from ...protocols.guarantees import NO_FAULT
from ...protocols.registry import scheme as scheme_named
from ...protocols.scheme import Scheme
from ...scenarios.run.experiment import run_variant
from ..oracle import Inconsistent
from .mutants import planted, seeded, watched
from .operators import Change
from .places import ADR
from .trials import trials
from .trying import Load

SECONDS = 10
"""Processor seconds after which a trial is broken off; of those that are left only the dear ones are begun then. A run
that is to come to its end gets twice what it takes without a fault, where that is more."""
RUN_SECONDS = 2
"""Processor seconds after which the small run without any crash is broken off."""
MOST_BYTES = 4 << 30
"""As much memory as a trial may map: a choice, several times what any takes of a scheme without a fault."""
ALONE = "without any crash"
_JUDGE = __name__.partition(".mutation.")[0]
"""The package of all that judges."""
_ALONE = Load("a", 16, 2, "64 B")
"""What is done in it."""
_SHORT = (ALONE, "nothing fails", "lives", "a server's process", "a client's power", "a client's process")
"""Runs that come to an end unless their code does not."""


class FaultOutcome(StrEnum):
    """The possible fates of a fault."""

    FOUND = "found"
    SURVIVES = "survives"
    BROKEN = "broken"
    UNDECIDED = "undecided"


class Try(NamedTuple):
    """A scheme, a trial that reaches the fault, and the conditions that the scheme keeps there without it."""

    scheme: str
    trial: str
    kept: frozenset[str]
    seconds: float = 0.0
    """What it took of a processor without the fault."""

    @property
    def most_seconds(self) -> float:
        """When it is broken off."""
        return max(SECONDS, 2 * self.seconds) if self.trial.startswith(_SHORT) else SECONDS


@dataclass(frozen=True)
class FaultTask:
    """A fault, by its module and its number there, and what to try it with, in this order."""

    module: str
    number: int
    owner: str
    """A scheme whose code the module is part of."""
    tries: tuple[Try, ...]


@dataclass
class FateVerdict:
    """The outcome, and how it came about: the trial, and what was broken or which error there was."""

    outcome: FaultOutcome = FaultOutcome.SURVIVES
    how: str = ""
    scheme: str = ""
    notes: dict[FaultOutcome, tuple[str, str]] = field(default_factory=dict)

    def note(self, outcome: FaultOutcome, scheme: str, how: str) -> None:
        """Record an outcome that is no verdict, if it is the first."""
        self.notes.setdefault(outcome, (scheme, how))

    @property
    def alone(self) -> bool:
        """Whether the code fails in a run without any crash."""
        return self.notes.get(FaultOutcome.BROKEN, ("", ""))[1].startswith(ALONE)

    def row(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return {"outcome": str(self.outcome), "how": self.how, "scheme": self.scheme}

    def ended(self) -> FateVerdict:
        """No verdict has found it."""
        for outcome in (FaultOutcome.UNDECIDED, FaultOutcome.BROKEN):
            if outcome in self.notes:
                scheme, how = self.notes[outcome]
                return FateVerdict(outcome, how, scheme)
        return self


def shown_of(pair: tuple[str, str]) -> dict[str, Any]:
    """A scheme without a fault in a trial: broken conditions, executed statements, seconds of a processor."""
    (name, wanted), began = pair, time.process_time()
    (trial,) = (each for each in trials() if each.name == wanted)
    with watched(scheme_named(name)) as (same, reached):
        found = trial.ask(same, ())
    lines = {module: sorted(lines) for module, lines in reached.items()}
    return {"broken": sorted(found.broken), "exhaustive": found.exhaustive, "reached": lines} | spent(began)


def fate_of(task: FaultTask) -> dict[str, Any]:
    """The fate of a fault as plain data, with the seconds of a processor."""
    began = time.process_time()
    return fate(task).row() | spent(began)


def spent(began: float) -> dict[str, float]:
    """The seconds of a processor since then."""
    return {"cpu_s": round(time.process_time() - began, 3)}


def fate(task: FaultTask) -> FateVerdict:
    """Try a fault until something finds it."""
    found = FateVerdict()
    for name in dict.fromkeys(each.scheme for each in task.tries):
        module, change = faults(task.owner)[task.module, task.number]
        with planted(scheme_named(name), module, change) as mutant:
            if judged(mutant, [each for each in task.tries if each.scheme == name], found):
                return found
        if found.alone:
            break
    return found.ended()


def judged(mutant: type[Scheme], tries: Sequence[Try], found: FateVerdict) -> bool:
    """Whether one of the tries finds the fault in ``mutant``; ``found`` records how, or the error."""
    known = {trial.name: trial for trial in trials()}
    late = False
    with guarded(found, mutant.name, ALONE, RUN_SECONDS):
        run_alone(mutant)
    if found.alone:
        return False
    for each in tries:
        if late and not known[each.trial].dear:
            continue
        began = time.process_time()
        with guarded(found, mutant.name, each.trial, each.most_seconds):
            broken = sorted(known[each.trial].ask(mutant, each.kept).broken & each.kept)
            if broken:
                found.outcome, found.how, found.scheme = FaultOutcome.FOUND, f"{each.trial}: {broken[0]}", mutant.name
                return True
        if time.process_time() - began >= 0.9 * each.most_seconds:
            late = True
    return False


def run_alone(scheme: type[Scheme]) -> None:
    """A small run in which nothing fails."""
    scenario = _ALONE.scenario(scheme, NO_FAULT, ADR)
    (variant,) = scenario.variants()
    run_variant(scenario, variant)


@cache
def faults(name: str) -> dict[tuple[str, int], tuple[ModuleType, Change]]:
    """All faults of a scheme by module and number: to find them takes longer than most are tried for."""
    rows = seeded(scheme_named(name), shared=True)
    return {(module.__name__, number): (module, change) for module, number, change in rows}


@contextmanager
def guarded(found: FateVerdict, scheme: str, trial: str, seconds: float = SECONDS) -> Iterator[None]:
    """A trial that may fail: who failed, the code or its judge?"""
    try:
        with _alarm(seconds), _little_memory():
            yield
    except _TooLong:
        if trial.startswith(_SHORT):  # explorations are as long as there is something to lose
            found.note(FaultOutcome.BROKEN, scheme, f"{trial}: does not come to an end")
    except Exception as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0].partition("<")[0]  # objects print their address
        ours = _is_ours(error) and not isinstance(error, MemoryError)
        outcome = FaultOutcome.UNDECIDED if ours else FaultOutcome.BROKEN
        found.note(outcome, scheme, f"{trial}: {what.rstrip(' :')}")


def _is_ours(error: Exception) -> bool:
    """Whether the judge contradicts itself, or the innermost frame of an error is the judge's own code."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, Inconsistent) or (bool(modules) and modules[-1].startswith(f"{_JUDGE}."))


class _TooLong(BaseException):
    """Nothing may take it for a failure of its own."""


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Code with a fault in it may wait for ever."""

    def late(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _little_memory() -> Iterator[None]:
    """Code with a fault in it may take a length from bytes that are none: then it gets a MemoryError, and the machine
    stays.
    """
    before = resource.getrlimit(resource.RLIMIT_AS)
    known = [limit for limit in before if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([MOST_BYTES, *known]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
