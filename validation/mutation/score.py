"""The mutation score: each seeded fault is given to the judge, who finds it or does not.

First every scheme is tried without a fault: which conditions does it keep, and which of its statements does each trial
execute? A fault is then tried only where it is reached and a condition is kept: elsewhere it cannot be found. A fault
that is not found needs a reason: ``reasons.yaml`` has the reasons known so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...protocols.registry import scheme as scheme_named
from ...protocols.scheme import Scheme
from ...sim.jobs.code import digest
from ...sim.yaml_source import read_yaml
from .fates import FateVerdict, FaultOutcome, FaultTask, Try, fate_of, faults, shown_of
from .mutants import seeded
from .shown import Shown
from .trials import Trial, kept, trials
from .work import Work

REASONS = Path(__file__).parent / "reasons.yaml"
MOST_SCHEMES = 3
"""A shared module's faults are tried with this many of its schemes: the ones that keep most, one of a family."""


@dataclass(frozen=True)
class Fate:
    """The fate of one seeded fault."""

    module: str
    line: int
    schemes: tuple[str, ...]
    """The schemes whose own file it is in; none for a file that several share."""
    kind: str
    operator: str
    fault: str
    outcome: FaultOutcome
    how: str
    """The trial and the condition that it found broken, or the code's own failure; empty if the fault survives."""
    scheme: str
    """The scheme with which it was found."""
    reached: bool
    """Whether any trial executes the code that it is in."""
    reason: str = ""
    """Why it survives, as far as known; of a fault that does not survive, the reason on record."""
    cpu_s: float = 0.0
    """How long it was tried, in seconds of a processor."""

    @property
    def explained(self) -> bool:
        """Whether there is nothing left to explain."""
        return self.outcome in (FaultOutcome.FOUND, FaultOutcome.BROKEN) or (
            self.outcome is FaultOutcome.SURVIVES and self.reason != ""
        )


@dataclass(frozen=True)
class Baseline:
    """A scheme without a fault: by trial the conditions that it keeps, and what was executed."""

    keeps: Mapping[str, frozenset[str]]
    reached: Mapping[str, Mapping[str, frozenset[int]]]
    """By trial and module: what ``watched`` notes."""
    seconds: Mapping[str, float]
    """By trial: what it took of a processor."""

    @property
    def promises(self) -> int:
        """The number of conditions that it keeps, over all trials."""
        return sum(map(len, self.keeps.values()))


def score(schemes: Sequence[type[Scheme]], work: Work, *, shared: bool = False, quick: bool = False) -> list[Fate]:
    """The fate of every seeded fault of ``schemes``, once each; if ``shared``, of shared modules too.

    ``quick`` takes one fault of each kind in each module, and leaves out the dear trials.
    """
    chosen = [trial for trial in trials() if not (quick and trial.dear)]
    pairs = [(known.name, trial.name) for known in schemes for trial in chosen]
    planted = _planted(schemes, shared, quick)
    work.expect(len(pairs) + len(planted))
    shown = work.do(pairs, [digest(shown_of, pair, *_modules([pair[0]])) for pair in pairs], shown_of)
    known = {one.name: _known(one, shown, chosen) for one in schemes}
    tasks = [_task(module, number, names, known, chosen) for (module, number), names in planted.items()]
    digests = [digest(fate_of, list(_parts(task)), *_modules(_names(task))) for task in tasks]
    verdicts = work.do(tasks, digests, fate_of)
    return [_fate(task, verdicts[task], known) for task in tasks]


# schemes without a fault -----------------------------------------------------------------------------------------
def _known(known: type[Scheme], shown: Mapping[tuple[str, str], Any], chosen: Sequence[Trial]) -> Baseline:
    rows = {trial.name: shown[known.name, trial.name] for trial in chosen}
    keeps = kept({name: Shown(frozenset(row["broken"]), row["exhaustive"]) for name, row in rows.items()})
    reached = {
        name: {module: frozenset(lines) for module, lines in row["reached"].items()} for name, row in rows.items()
    }
    return Baseline(keeps, reached, {name: row["cpu_s"] for name, row in rows.items()})


# the faults ----------------------------------------------------------------------------------------------------------
def _planted(schemes: Sequence[type[Scheme]], shared: bool, quick: bool) -> dict[tuple[str, int], list[str]]:
    """Every fault once, by module and number, with all schemes that have it, those of a scheme's own module first."""
    found: dict[tuple[str, int], list[str]] = {}
    sample: dict[tuple[str, str], tuple[str, int]] = {}
    for known in schemes:
        for module, number, change in seeded(known, shared):
            place = module.__name__, number
            if not quick or sample.setdefault((module.__name__, change.kind), place) == place:
                found.setdefault(place, []).append(known.name)
    return found


def _task(
    module: str, number: int, names: Sequence[str], known: Mapping[str, Baseline], chosen: Sequence[Trial]
) -> FaultTask:
    """With which schemes and in which trials a fault may be found: cheap ones first."""
    _, change = faults(names[0])[module, number]
    open_ = [
        (trial.dear, Try(name, trial.name, known[name].keeps[trial.name], known[name].seconds[trial.name]))
        for name in names
        for trial in chosen
        if known[name].keeps[trial.name] and change.noted in known[name].reached[trial.name].get(module, ())
    ]
    turns = {name: turn for turn, name in enumerate(_with_which({each.scheme for _, each in open_}, module, known))}
    tries: list[Try] = []
    for dear, each in sorted(
        (row for row in open_ if row[1].scheme in turns), key=lambda r: (r[0], turns[r[1].scheme])
    ):
        if not dear or each.trial not in {other.trial for other in tries}:  # dear ones with one scheme
            tries.append(each)
    return FaultTask(module, number, names[0], tuple(tries))


def _with_which(names: set[str], module: str, known: Mapping[str, Baseline]) -> list[str]:
    """The schemes whose own module it is; of a shared module the few that keep most, none derived from another."""
    order = sorted(names, key=lambda name: (-known[name].promises, name))
    own = [name for name in order if scheme_named(name).__module__ == module]
    found: list[str] = []
    for name in order:
        one, family = scheme_named(name), [scheme_named(other) for other in found]
        if not any(issubclass(one, other) or issubclass(other, one) for other in family):
            found.append(name)
    return own or found[:MOST_SCHEMES]


def _names(task: FaultTask) -> set[str]:
    return {task.owner, *(each.scheme for each in task.tries)}


def _modules(names: Iterable[str]) -> list[str]:
    """The modules of these schemes: their imports are followed from there."""
    return [scheme_named(name).__module__ for name in names]


def _parts(task: FaultTask) -> Iterator[object]:
    """The inputs, besides code, on which the fate of a fault depends."""
    _, change = faults(task.owner)[task.module, task.number]
    yield from (task.module, change.operator, change.line, change.name)
    yield [(each.scheme, each.trial, sorted(each.kept)) for each in task.tries]


def _fate(task: FaultTask, row: Mapping[str, Any], known: Mapping[str, Baseline]) -> Fate:
    _, change = faults(task.owner)[task.module, task.number]
    found = FateVerdict(FaultOutcome(row["outcome"]), row["how"], row["scheme"])
    short = task.module.rpartition(".")[2]
    reason = reasons().get(f"{short} {change.name}", "")
    noted = [lines.get(task.module, ()) for one in known.values() for lines in one.reached.values()]
    reached = any(change.noted in lines for lines in noted)
    own = tuple(name for name in known if scheme_named(name).__module__ == task.module)
    what = (change.kind, change.operator, change.name)
    return Fate(
        short, change.line, own, *what, found.outcome, found.how, found.scheme, reached, reason, row.get("cpu_s", 0.0)
    )


def stale(fates: Iterable[Fate]) -> list[Fate]:
    """Fates with a reason for survival on record, though neither they nor another fault of that name survive."""
    known = list(fates)
    surviving = {(fate.module, fate.fault) for fate in known if fate.outcome is FaultOutcome.SURVIVES}
    ended = {
        (fate.module, fate.fault): fate for fate in known if fate.outcome in (FaultOutcome.FOUND, FaultOutcome.BROKEN)
    }
    return [fate for name, fate in ended.items() if fate.reason and name not in surviving]


@cache
def reasons() -> Mapping[str, str]:
    """Why a fault survives, by module and fault."""
    data = read_yaml(REASONS).mapping("a map from faults to reasons")
    return {str(fault): str(reason).strip() for fault, reason in data.items()}
