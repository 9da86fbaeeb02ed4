"""The runs behind a paper's claims: each scheme at each point once, in several processes, resumed where they stopped.

What a run measured is kept in a file, under a hash of its scenario and of the code: whoever changes a model runs again.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from typing_extensions import override

from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
from ....scenarios.build import Draft
from ....scenarios.run.experiment import run_variant
from .language import Term, where
from .paper import Paper, PaperClaim

Measured = Mapping[str, Any]
"""What a run measured: ``thr``, and ``lat``, ``med``, ``p99`` by operation (``""``: all), latencies in us."""
Tell = Callable[[str], None]
NOTHING: Mapping[str, str] = MappingProxyType({})

_US = 1e6
_SCENARIOS = ("roles", "workload")
_FLOORS = ("sim", "models", "protocols", "scenarios")


@dataclass(frozen=True)
class SchemeRun:
    """A scheme at a point: a value of every axis."""

    scheme: str
    at: tuple[tuple[str, str], ...]

    @override
    def __str__(self) -> str:
        return " ".join([self.scheme, *(value for _, value in self.at)])


def run_of(term: Term, at: Mapping[str, str]) -> SchemeRun:
    """The run that a term is measured in."""
    return SchemeRun(term.scheme, tuple(sorted(where(term, at).items())))


def needed(paper: Paper, claims: Iterable[PaperClaim], *, figures: bool) -> list[SchemeRun]:
    """The runs that claims take; with those of the paper's figures."""
    found = {
        run_of(term, at): None
        for claim in claims
        for at in claim.points()
        for term in claim.expression.terms
        if term.scheme
    }
    names = {claim.figure for claim in claims}
    for figure in paper.figures.values() if figures else ():
        if figure.name in names:
            for value in paper.axes[figure.x].values:
                at = tuple(sorted({**figure.at, figure.x: value}.items()))
                found.update(dict.fromkeys(SchemeRun(scheme, at) for scheme in figure.schemes))
    return list(found)


def scenario(paper: Paper, run: SchemeRun, operations: int | None = None, values: Mapping[str, Any] = NOTHING) -> Draft:
    """The scenario of a run; ``operations`` and ``values`` in place of those that the paper's file has.

    Of ``values`` those that are fields of a scenario (``roles.server.threads: 1``); the others are the platform's.
    """
    name = f"{paper.name}-run"
    draft = Draft.given(paper.scenario, name).with_(scenario=name, title=str(run), schemes=[run.scheme])
    for axis, value in run.at:
        draft = draft.set(paper.axes[axis].values[value])
    if operations is not None:
        draft = draft.set({"workload.operations": operations, "workload.warmup": operations // 10})
    return draft.set({field: setting for field, setting in values.items() if _is_scenarios(field)})


def hardware_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Of what is set otherwise, the parameters of the platform."""
    return {path: str(value) for path, value in values.items() if not _is_scenarios(path)}


def platform_with(name: str, hardware: Mapping[str, str], **settings: str) -> Platform:
    """A platform with some parameters set otherwise."""
    return varied(load_platform(name, **settings), hardware)


def _is_scenarios(path: str) -> bool:
    return path.partition(".")[0] in _SCENARIOS


def perform(
    paper: Paper,
    runs: Iterable[SchemeRun],
    *,
    jobs: int = 1,
    operations: int | None = None,
    kept: Path | None = None,
    tell: Tell | None = None,
    values: Mapping[str, Any] = NOTHING,
) -> dict[SchemeRun, Measured]:
    """What each run measures; those that ``kept`` has already are not run again, and the others are added to it.

    ``values`` are set otherwise: parameters of the platform (``cpu.request``: ``300 ns``), fields of the scenario.
    """
    todo = {run: scenario(paper, run, operations, values) for run in runs}
    hardware = hardware_of(values)
    names = {run: _name(draft.data, hardware) for run, draft in todo.items()}
    before = _read(kept)
    found = {run: before[names[run]] for run in todo if names[run] in before}
    for run in found:
        if tell is not None:
            tell(str(run))

    def done(run: SchemeRun, measured: Measured) -> None:
        found[run] = measured
        if kept is not None:
            with kept.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps({"run": names[run], **measured}) + "\n")
        if tell is not None:
            tell(str(run))

    rest = [run for run in todo if run not in found]
    if jobs == 1 or len(rest) < 2:
        for run in rest:
            done(run, measure(todo[run], hardware))
        return found
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(measure, todo[run], hardware): run for run in rest}
        try:
            for future in as_completed(waiting):
                done(waiting[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():  # what is under way is measured again
                worker.terminate()
            raise
    return found


def measure(draft: Draft, values: Mapping[str, str] = NOTHING) -> dict[str, Any]:
    """Run a scenario of one variant, on its platform with ``values`` set otherwise; what it measured."""
    made = draft.build()
    (variant,) = made.variants()
    platform = platform_with(variant.platform, values, **variant.settings)
    result = run_variant(made, variant, platform=platform)
    latencies = {f: values for f, values in result.latency_ps.items() if len(values)}
    latencies[""] = np.concatenate(list(latencies.values()))
    return {
        "thr": result.throughput_ops_per_s,
        "lat": {f: float(np.mean(values)) / _US for f, values in latencies.items()},
        "med": {f: float(np.median(values)) / _US for f, values in latencies.items()},
        "p99": {f: float(np.percentile(values, 99)) / _US for f, values in latencies.items()},
        "operations": result.operations,
    }


def _read(kept: Path | None) -> dict[str, Measured]:
    if kept is None or not kept.exists():
        return {}
    found = {}
    for line in kept.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:  # the last one, of whoever was stopped while writing it
            continue
        found[row.pop("run")] = row
    return found


def _name(data: Mapping[str, Any], values: Mapping[str, str]) -> str:
    text = json.dumps([dict(data), dict(values)], sort_keys=True) + fingerprint()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def fingerprint() -> str:
    """A hash of all code and numbers that a run depends on."""
    home, total = Path(__file__).parents[3], hashlib.sha256()
    for floor in _FLOORS:
        for path in sorted((home / floor).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                total.update(path.read_bytes())
    return total.hexdigest()[:16]
