"""The mutation score: each seeded fault is given to the judge, who finds it (*killed*) or does not (*survives*).

A fault is found when a condition that the scheme keeps without it is violated with it, when the code fails, or when a
life, or a run with a fault in it, does not come to an end. That the oracle contradicts itself finds no fault, it is
one. What survives needs a reason: ``reasons.yaml`` has those that somebody has looked into.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

from ...protocols.guarantees import Verdict
from ...protocols.scheme import Scheme
from ...protocols.scheme import scheme as scheme_named
from ...sim.yaml_source import read_yaml
from ..oracle import Inconsistent
from .mutants import planted, seeded
from .operators import Change
from .trials import Trial, Verdicts, trials

REASONS = Path(__file__).parent / "reasons.yaml"
SECONDS = 10
"""Of the processor; after so long a trial is broken off."""

Sound = Mapping[str, frozenset[str]]
"""By trial: the conditions that a scheme keeps without any fault."""


@dataclass(frozen=True)
class Fate:
    """What became of one seeded fault."""

    scheme: str
    """The scheme that was tried; of what several share, the one that it was found with, else the last."""
    module: str
    line: int
    kind: str
    operator: str
    fault: str
    killed_by: str
    """The trial and the condition, or what the code did; empty if it survives."""
    reason: str = ""
    """Why it survives, if somebody knows."""


@dataclass(frozen=True)
class _Task:
    """A fault, by its module and its number there, and the schemes that have it."""

    module: str
    number: int
    schemes: tuple[str, ...]


def score(
    schemes: Sequence[type[Scheme]],
    *,
    shared: bool = False,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Fate]:
    """The fate of every seeded fault of ``schemes``, once each; of the modules that they share if asked for.

    ``jobs`` processes share the work. Raises :class:`Inconsistent` if the oracle contradicts itself.
    """
    tasks = _tasks(schemes, shared)
    if jobs == 1 or len(tasks) < 2:
        sound = {known.name: keeps(known) for known in schemes}
        yield from _told((_fate(task, sound) for task in tasks), len(tasks), progress)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from _told(_spread(pool, schemes, tasks), len(tasks), progress)


def _spread(pool: Executor, schemes: Sequence[type[Scheme]], tasks: Sequence[_Task]) -> Iterator[Fate]:
    names = [(known.name, trial) for known in schemes for trial in trials()]
    kept = list(pool.map(_keeps_in, *zip(*names, strict=True)))
    sound = {known.name: {t: k for (n, t), k in zip(names, kept, strict=True) if n == known.name} for known in schemes}
    yield from pool.map(_fate, tasks, [sound] * len(tasks))


def _told(fates: Iterator[Fate], total: int, progress: Callable[[int, int], None] | None) -> Iterator[Fate]:
    for number, fate in enumerate(fates):
        if progress is not None:
            progress(number + 1, total)
        yield fate


def _tasks(schemes: Sequence[type[Scheme]], shared: bool) -> list[_Task]:
    """Every fault once, with all schemes that have it, those of a scheme's own module first."""
    owners: dict[tuple[str, int], list[str]] = {}
    for known in schemes:
        for module, number, _ in seeded(known, shared):
            owners.setdefault((module.__name__, number), []).append(known.name)
    return [_Task(module, number, tuple(names)) for (module, number), names in owners.items()]


def keeps(scheme: type[Scheme]) -> Sound:
    """What a scheme keeps, trial by trial."""
    return {name: _kept(trial, scheme) for name, trial in trials().items()}


def _keeps_in(name: str, trial: str) -> frozenset[str]:
    return _kept(trials()[trial], scheme_named(name))


def _kept(trial: Trial, scheme: type[Scheme]) -> frozenset[str]:
    found = trial.ask(scheme, frozenset())
    return frozenset(condition for condition, verdict in found.items() if verdict is Verdict.HOLDS)


def _fate(task: _Task, sound: Mapping[str, Sound]) -> Fate:
    """Try a fault with each scheme that has it, until one finds it."""
    fate = None
    for name in task.schemes:
        known = scheme_named(name)
        module, change = _faults(name)[task.module, task.number]
        with planted(known, module, change) as mutant:
            killed_by = killed(mutant, sound[name])
        short = module.__name__.rpartition(".")[2]
        fate = Fate(name, short, change.line, change.kind, change.operator, change.name, killed_by)
        if killed_by:
            return fate
    assert fate is not None, "a fault of no scheme"
    return replace(fate, reason=_reasons().get(f"{fate.module} {fate.fault}", ""))


@cache
def _faults(name: str) -> Mapping[tuple[str, int], tuple[ModuleType, Change]]:
    """All faults of a scheme by module and number: to find them takes longer than most are tried for."""
    rows = seeded(scheme_named(name), shared=True)
    return {(module.__name__, number): (module, change) for module, number, change in rows}


def killed(mutant: type[Scheme], sound: Sound) -> str:
    """The trial that finds the fault in ``mutant``, and how; empty if none does."""
    for name, trial in trials().items():
        try:
            found = _ended(trial, mutant, sound[name])
        except _TooLong:
            if trial.endless:
                return f"{name}: does not come to an end"
            continue
        except Inconsistent:
            raise
        except Exception as error:
            if isinstance(error, AssertionError) and _is_ours(error):
                raise  # the judge's own: it says nothing about the code that it judges
            what = f"{type(error).__name__}: {error}".splitlines()[0].partition("<")[0]  # objects are told by address
            return f"{name}: {what.rstrip(' :')}"
        for condition, verdict in found.items():
            if verdict is Verdict.VIOLATED and condition in sound[name]:
                return f"{name}: {condition} violated"
    return ""


def _is_ours(error: Exception) -> bool:
    """Whether the innermost frame of an error is the judge's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(Path(__file__).parents[1])


class _TooLong(BaseException):
    """Nothing may take it for a failure of its own."""


def _ended(trial: Trial, scheme: type[Scheme], kept: frozenset[str]) -> Verdicts:
    """A trial of what a scheme ought to keep; nothing to ask for is nothing found, unless the code fails."""
    with _alarm():
        return trial.ask(scheme, kept or frozenset({"committed"}))


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
