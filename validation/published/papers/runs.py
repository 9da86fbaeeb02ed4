"""The runs behind a paper's claims: each scheme at each point once; their measurements are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from typing_extensions import override

from ....protocols.registry import scheme, schemes
from ....protocols.scheme import Scheme
from ....scenarios.build import Draft
from ....sim.jobs.code import digest
from ....sim.jobs.kept import Kept
from ....sim.jobs.runner import JobRunner, Workers
from .language import Term, scheme_of, where
from .measure import NOTHING, explored, measure
from .measures import ALONG, METERED
from .paper import Paper, PaperClaim

Measured = Mapping[str, Any]
"""The measurements of a run, as ``measure.measure`` returns them; of an explored one its verdicts by condition."""
OnStep = Callable[[str], object]

_SCENARIOS = ("roles", "workload", "options")


@dataclass(frozen=True)
class SchemeRun:
    """A scheme at a point: a value of every axis."""

    scheme: str
    at: tuple[tuple[str, str], ...]
    explored: bool = False
    """Its fault is explored, in place of its time being measured."""
    metered: bool = field(default=False, compare=False)
    """Round trips and traffic are counted besides, at the same instants: it stands for the run without a meter too."""

    @override
    def __str__(self) -> str:
        return " ".join([self.scheme, *(value for _, value in self.at), *(["explored"] if self.explored else [])])


def run_of(term: Term, at: Mapping[str, str]) -> SchemeRun:
    """The run that a term is measured in."""
    explored, metered = term.measure == "holds", term.measure in METERED
    return SchemeRun(scheme_of(term, at), tuple(sorted(where(term, at).items())), explored, metered)


def series_of(paper: Paper, term: Term, at: Mapping[str, str]) -> dict[str, SchemeRun]:
    """The runs that a term along an axis is measured in, by the axis' values in their order."""
    assert term.of is not None
    run = run_of(term, at)
    values = paper.axes[term.of].values
    return {value: replace(run, at=tuple(sorted({**dict(run.at), term.of: value}.items()))) for value in values}


def _runs(paper: Paper, term: Term, at: Mapping[str, str]) -> Iterable[SchemeRun]:
    return series_of(paper, term, at).values() if term.measure in ALONG else (run_of(term, at),)


def needed(paper: Paper, claims: Iterable[PaperClaim], *, figures: bool) -> list[SchemeRun]:
    """The runs that claims take, metered where one of their terms needs it; with those of the paper's figures."""
    found: dict[SchemeRun, bool] = {}
    for claim in claims:
        terms = claim.expression.terms if claim.expression is not None else ()
        for point, term in product(claim.points(), terms):
            for run in _runs(paper, term, point) if term.scheme else ():
                found[run] = found.get(run, False) or run.metered
    names = {claim.figure for claim in claims}
    for figure in paper.figures.values() if figures else ():
        if figure.name in names:
            for value in figure.values:
                at = tuple(sorted({**figure.at, figure.x: value}.items()))
                for scheme in figure.schemes:
                    found.setdefault(SchemeRun(scheme, at), False)
    return [replace(run, metered=metered) for run, metered in found.items()]


def scenario(paper: Paper, run: SchemeRun, operations: int | None = None, values: Mapping[str, Any] = NOTHING) -> Draft:
    """The scenario of a run; with at most ``operations`` of them, and ``values`` in place of the paper's file's.

    Of ``values`` only the fields of a scenario (``roles.server.threads: 1``); the others are the platform's.
    """
    name = f"{paper.name}-run"
    draft = Draft.given(paper.scenario, name).with_(scenario=name, title=run.scheme, schemes=[run.scheme])
    at = dict(run.at)
    for name, axis in paper.axes.items():  # in the file's order: of two that set one field the later one counts
        draft = draft.set(axis.values[at[name]])
    draft = _as_it_takes(draft, scheme(run.scheme))
    if run.explored:
        draft = draft.set(paper.explore)
    if operations is not None and not run.explored:
        draft = draft.set(_at_most(operations, draft.data["workload"]))
    return draft.set({field: setting for field, setting in values.items() if _is_scenarios(field)})


def _as_it_takes(draft: Draft, kind: type[Scheme]) -> Draft:
    """Without roles, threads and options that a scheme does not have, and without a past that shapes nothing: a file
    says them for all systems of a paper.
    """
    data, fields = draft.data, dict[str, Any]()
    given, options, types = data.get("roles", {}), data.get("options", {}), kind.role_types
    others = {name for one in schemes().values() for name in (*one.role_types, *one.options)}
    unserved = [name for name, role in types.items() if not role.served]
    roles = {
        name: {key: value for key, value in count.items() if key != "threads" or name not in unserved}
        for name, count in given.items()
        if name in types or name not in others  # which is refused
    }
    if roles != given:
        fields["roles"] = roles
    if not options.keys() <= kind.options.keys():
        kept = {name: value for name, value in options.items() if name in kind.options or name not in others}
        fields["options"] = kept
    if data["workload"].get("past") and not kind.ages():
        fields["workload"] = {name: value for name, value in data["workload"].items() if name != "past"}
    return draft.with_(**fields)


def _at_most(operations: int, workload: Mapping[str, Any]) -> dict[str, int]:
    """A workload's own operations if they are fewer, else so many, a tenth of them as a warm-up."""
    if workload.get("operations", 0) <= operations:
        return {}
    return {"workload.operations": operations, "workload.warmup": operations // 10}


def hardware_of(values: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of the platform among the values that are set otherwise."""
    return {path: str(value) for path, value in values.items() if not _is_scenarios(path)}


def _is_scenarios(path: str) -> bool:
    return path.partition(".")[0] in _SCENARIOS


def perform(
    paper: Paper,
    runs: Iterable[SchemeRun],
    *,
    jobs: int | Workers = 1,
    operations: int | None = None,
    kept: Path | None = None,
    on_step: OnStep | None = None,
    values: Mapping[str, Any] = NOTHING,
) -> dict[SchemeRun, Measured]:
    """The measurements of each run; runs that ``kept`` has already are not run again, and the others are added to it.

    ``values`` are set otherwise: parameters of the platform (``cpu.request``: ``300 ns``), fields of the scenario.
    """
    hardware, asked = hardware_of(values), conditions_of(paper)
    found: dict[SchemeRun, Measured] = {}
    jobs_of: tuple[tuple[bool, bool, Callable[..., object], Callable[..., Any], list[Any]], ...] = (
        (False, False, measure, partial(measure, values=hardware), [hardware]),
        (False, True, measure, partial(measure, values=hardware, metered=True), [hardware, "metered"]),
        (True, False, explored, partial(explored, conditions=asked), list(asked)),
    )
    with JobRunner(jobs) as runner:
        for explores, metered, function, job, inputs in jobs_of:
            order = [run for run in dict.fromkeys(runs) if (run.explored, run.metered) == (explores, metered)]
            drafts = [scenario(paper, run, operations, values) for run in order]
            digests = [
                digest(function, [dict(draft.data), *inputs], scheme(run.scheme).__module__)
                for run, draft in zip(order, drafts, strict=True)
            ]
            for number, measured in Kept(kept).completed(runner, job, drafts, digests):
                found[order[number]] = measured
                if on_step is not None:
                    on_step(str(order[number]))
    return found


def conditions_of(paper: Paper) -> tuple[str, ...]:
    """The conditions that claims of a paper speak of."""
    terms = [term for claim in paper.claims if claim.expression is not None for term in claim.expression.terms]
    return tuple(sorted({str(term.of) for term in terms if term.measure == "holds"}))
