"""The runs behind a paper's claims: each scheme at each point once; their measurements are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import override

from ....protocols.registry import scheme
from ....scenarios.build import Draft
from ....sim.jobs.code import digest
from ....sim.jobs.kept import Kept
from ....sim.jobs.runner import JobRunner
from .language import Term, where
from .measure import NOTHING, measure
from .paper import Paper, PaperClaim

Measured = Mapping[str, Any]
"""The measurements of a run: ``thr``, and ``lat``, ``med``, ``p99`` by operation (``""``: all), latencies in us."""
Tell = Callable[[str], object]

_SCENARIOS = ("roles", "workload", "options")


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
    """The scenario of a run; ``operations`` and ``values`` replace the ones of the paper's file.

    Of ``values`` only the fields of a scenario (``roles.server.threads: 1``); the others are the platform's.
    """
    name = f"{paper.name}-run"
    draft = Draft.given(paper.scenario, name).with_(scenario=name, title=str(run), schemes=[run.scheme])
    for axis, value in run.at:
        draft = draft.set(paper.axes[axis].values[value])
    if operations is not None:
        draft = draft.set({"workload.operations": operations, "workload.warmup": operations // 10})
    return draft.set({field: setting for field, setting in values.items() if _is_scenarios(field)})


def hardware_of(values: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of the platform among the values that are set otherwise."""
    return {path: str(value) for path, value in values.items() if not _is_scenarios(path)}


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
    """The measurements of each run; runs that ``kept`` has already are not run again, and the others are added to it.

    ``values`` are set otherwise: parameters of the platform (``cpu.request``: ``300 ns``), fields of the scenario.
    """
    todo = {run: scenario(paper, run, operations, values) for run in dict.fromkeys(runs)}
    hardware, order = hardware_of(values), list(todo)
    digests = [
        digest(measure, [dict(draft.data), hardware], scheme(run.scheme).__module__) for run, draft in todo.items()
    ]
    found: dict[SchemeRun, Measured] = {}
    job = partial(measure, values=hardware)
    with JobRunner(jobs) as runner:
        for number, measured in Kept(kept).completed(runner, job, list(todo.values()), digests):
            found[order[number]] = measured
            if tell is not None:
                tell(str(order[number]))
    return found
