"""The mutation score: each seeded fault is given to the judge, who finds it or does not.

First every scheme is tried as it is: what does it keep, and which of its statements does each trial execute? A fault is
then tried only where it is reached and something is kept: elsewhere nothing can come of it. What is not found needs a
reason: ``reasons.yaml`` has those that somebody has looked into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from ...protocols.scheme import Scheme
from ...protocols.scheme import scheme as scheme_named
from ...sim.parent import end_with_parent
from ...sim.yaml_source import read_yaml
from .fates import Outcome, Task, Try, Verdict, fate, faults
from .mutants import seeded, watched
from .shown import Shown
from .store import Store, digest
from .trials import Trial, kept, trials

REASONS = Path(__file__).parent / "reasons.yaml"
MOST_SCHEMES = 5
"""With so many of the schemes that share a module its faults are tried: those that keep most, and one of a family."""

Progress = Callable[[int, int], None]
_Job = TypeVar("_Job")


@dataclass(frozen=True)
class Fate:
    """What became of one seeded fault."""

    module: str
    line: int
    schemes: tuple[str, ...]
    """Whose own file it is in; none for what several share."""
    kind: str
    operator: str
    fault: str
    outcome: Outcome
    how: str
    """The trial and what it found broken, or what the code did; empty if it survives."""
    scheme: str
    """The scheme with which it was found."""
    reached: bool
    """Whether any trial executes the code that it is in."""
    reason: str = ""
    """Why it survives, if somebody knows."""

    @property
    def told(self) -> bool:
        """Whether there is nothing left to explain."""
        return self.outcome in (Outcome.FOUND, Outcome.BROKEN) or (
            self.outcome is Outcome.SURVIVES and self.reason != ""
        )


@dataclass(frozen=True)
class Known:
    """A scheme as it is: by trial what it keeps, and which lines of which modules are executed."""

    keeps: Mapping[str, frozenset[str]]
    reached: Mapping[str, Mapping[str, frozenset[int]]]

    @property
    def promises(self) -> int:
        """How much it keeps, all in all."""
        return sum(map(len, self.keeps.values()))


def score(
    schemes: Sequence[type[Scheme]],
    *,
    shared: bool = False,
    quick: bool = False,
    jobs: int = 1,
    file: Path | None = None,
    progress: Progress | None = None,
) -> list[Fate]:
    """The fate of every seeded fault of ``schemes``, once each; of the modules that they share if asked for.

    ``quick`` takes one fault of each kind in each module, and leaves out the dear trials. ``jobs`` processes share the
    work; what is known is read from ``file``, and added to it.
    """
    chosen = [trial for trial in trials() if not (quick and trial.dear)]
    store = Store(file)
    asked = [(known.name, trial.name) for known in schemes for trial in chosen]
    planted = _planted(schemes, shared, quick)
    done, total = 0, len(asked) + len(planted)

    def advance() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    shown = _kept(asked, [digest([name], trial) for name, trial in asked], _shown, store, jobs, advance)
    known = {one.name: _known(one, shown, chosen) for one in schemes}
    tasks = [_task(module, number, names, known, chosen) for (module, number), names in planted.items()]
    digests = [digest(_names(task), *_parts(task)) for task in tasks]
    verdicts = _kept(tasks, digests, _fate, store, jobs, advance)
    return [_told(task, verdicts[task], known) for task in tasks]


# what a scheme is without any fault ------------------------------------------------------------------------------
def _shown(pair: tuple[str, str]) -> dict[str, Any]:
    """A scheme in a trial: what is broken, and the statements that are executed. Plain data."""
    name, wanted = pair
    (trial,) = (each for each in trials() if each.name == wanted)
    with watched(scheme_named(name)) as (same, reached):
        found = trial.ask(same, ())
    lines = {module: sorted(lines) for module, lines in reached.items()}
    return {"broken": sorted(found.broken), "exhaustive": found.exhaustive, "reached": lines}


def _known(known: type[Scheme], shown: Mapping[tuple[str, str], Any], chosen: Sequence[Trial]) -> Known:
    rows = {trial.name: shown[known.name, trial.name] for trial in chosen}
    keeps = kept({name: Shown(frozenset(row["broken"]), row["exhaustive"]) for name, row in rows.items()})
    reached = {
        name: {module: frozenset(lines) for module, lines in row["reached"].items()} for name, row in rows.items()
    }
    return Known(keeps, reached)


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


def _task(module: str, number: int, names: Sequence[str], known: Mapping[str, Known], chosen: Sequence[Trial]) -> Task:
    """With which schemes and in which trials a fault may be found: cheap ones first."""
    _, change = faults(names[0])[module, number]
    tries = []
    for name in names:
        one = known[name]
        for trial in chosen:
            if one.keeps[trial.name] and change.line in one.reached[trial.name].get(module, ()):
                tries.append((trial.dear, Try(name, trial.name, one.keeps[trial.name])))
    first = {name: turn for turn, name in enumerate(_with_which({each.scheme for _, each in tries}, module, known))}
    told = [(dear, first[each.scheme], each) for dear, each in tries if each.scheme in first]
    return Task(module, number, names[0], tuple(each for _, _, each in sorted(told, key=lambda row: row[:2])))


def _with_which(names: set[str], module: str, known: Mapping[str, Known]) -> list[str]:
    """Those whose own module it is; of what is shared a few, those that keep most, none derived from another."""
    order = sorted(names, key=lambda name: (-known[name].promises, name))
    own = [name for name in order if scheme_named(name).__module__ == module]
    found: list[str] = []
    for name in order:
        family = [scheme_named(other) for other in found]
        one = scheme_named(name)
        if not any(issubclass(one, other) or issubclass(other, one) for other in family):
            found.append(name)
    return own or found[:MOST_SCHEMES]


def _names(task: Task) -> set[str]:
    return {task.owner, *(each.scheme for each in task.tries)}


def _parts(task: Task) -> Iterator[object]:
    """What the fate of a fault depends on besides code."""
    _, change = faults(task.owner)[task.module, task.number]
    yield from (task.module, change.operator, change.line, change.name)
    yield [(each.scheme, each.trial, sorted(each.kept)) for each in task.tries]


def _fate(task: Task) -> dict[str, Any]:
    found = fate(task)
    return {"outcome": str(found.outcome), "how": found.how, "scheme": found.scheme}


def _told(task: Task, row: Mapping[str, str], known: Mapping[str, Known]) -> Fate:
    _, change = faults(task.owner)[task.module, task.number]
    found = Verdict(Outcome(row["outcome"]), row["how"], row["scheme"])
    short = task.module.rpartition(".")[2]
    reason = reasons().get(f"{short} {change.name}", "") if found.outcome is Outcome.SURVIVES else ""
    reached = any(change.line in lines.get(task.module, ()) for one in known.values() for lines in one.reached.values())
    own = tuple(name for name in known if scheme_named(name).__module__ == task.module)
    told = (change.kind, change.operator, change.name)
    return Fate(short, change.line, own, *told, found.outcome, found.how, found.scheme, reached, reason)


@cache
def reasons() -> Mapping[str, str]:
    """Why a fault survives, by module and fault."""
    data = read_yaml(REASONS).mapping("a map from faults to reasons")
    return {str(fault): str(reason) for fault, reason in data.items()}


# the work ------------------------------------------------------------------------------------------------------------
def _kept(
    work: Sequence[_Job],
    digests: Iterable[str],
    perform: Callable[[_Job], dict[str, Any]],
    store: Store,
    jobs: int,
    advance: Callable[[], None],
) -> dict[_Job, dict[str, Any]]:
    """What becomes of each piece of work; what the store knows is not done again, and the rest is added to it."""
    names = dict(zip(work, digests, strict=True))
    found = {piece: known for piece, name in names.items() if (known := store.get(name)) is not None}
    for _ in found:
        advance()
    rest = [piece for piece in work if piece not in found]
    for piece, result in _performed(rest, perform, jobs):
        store.add(names[piece], result)
        found[piece] = result
        advance()
    return found


def _performed(
    work: Sequence[_Job], perform: Callable[[_Job], dict[str, Any]], jobs: int
) -> Iterator[tuple[_Job, dict[str, Any]]]:
    if jobs == 1 or len(work) < 2:
        for piece in work:
            yield piece, perform(piece)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        waiting = {pool.submit(perform, piece): piece for piece in work}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
