"""The answers of ``rpsim.run``, ``rpsim.crash`` and ``rpsim.check``: fields, records for tables, text, a page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from ..protocols.guarantees import Verdict
from ..protocols.registry import scheme
from ..scenarios.schema.schema import Scenario
from ..validation.crash.findings import Counterexample, LineFate
from ..validation.histories.check import Report
from .commands.run import title
from .terminal.check import text as check_text
from .terminal.expected import Surprise, surprises, unanswered
from .terminal.output import OPERATION_COLUMNS, as_json, write_text
from .terminal.summary import closing, costs, grouped, performance, verdicts
from .terminal.timeline import heading, timeline
from .terminal.work import JobOutcome

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_WORST = (Verdict.HOLDS, Verdict.UNDECIDED, Verdict.VIOLATED)


@dataclass(frozen=True)
class VariantRun:
    """The measurements of one scheme on one platform."""

    scheme: str
    platform: str
    """The platform with what varied: ``optane-adr, ddio on``."""
    operations: int
    """The number of operations in the statistics."""
    throughput_ops_per_s: float
    latency_ns: Mapping[str, Mapping[str, float]]
    """By operation: ``p50, p99, p999, mean``."""
    per_operation: Mapping[str, Mapping[str, float]]
    """By role: CPU time and counts of an operation."""
    outcome: JobOutcome = field(repr=False, compare=False)
    """Every operation, and the data that the reports draw."""


@dataclass(frozen=True)
class RunAnswer:
    """The measurements of a scenario's variants; ``print`` shows the tables of ``rpsim run``."""

    scenario: Scenario = field(repr=False)
    runs: tuple[VariantRun, ...]

    def records(self) -> list[dict[str, Any]]:
        """One dict for each scheme, platform and operation, with units in the names: for pandas or polars."""
        return [
            {
                "scheme": run.scheme,
                "platform": run.platform,
                "seed": self.scenario.seed,
                "operation": f,
                "count": len(run.outcome.latency_ps[f]),
                **{f"{name}_ns": value for name, value in latency.items()},
                "throughput_ops_per_s": run.throughput_ops_per_s,
            }
            for run in self.runs
            for f, latency in run.latency_ns.items()
        ]

    def operations(self) -> list[dict[str, Any]]:
        """One dict for each operation of each run, as operations.csv has it: its times are in ps, its latency in ns."""
        return [
            {**named, "latency_ns": float(str(named["latency_ns"])) if named["latency_ns"] else None}
            for run in self.runs
            for row in run.outcome.operations
            for named in [dict(zip(OPERATION_COLUMNS, (run.scheme, run.platform, *row), strict=True))]
        ]

    def figures(self) -> dict[str, Figure]:
        """The report's figures, which show themselves in a notebook: ``latency``, ``throughput``, ``hops of put``."""
        from plotly.graph_objects import Figure

        from .pages import plots

        outcomes = [run.outcome for run in self.runs]
        made = {"latency": plots.latency(outcomes), "throughput": plots.throughput(outcomes)}
        made |= {f"hops of {f}": figure for f, figure in plots.hops(outcomes).items()}
        return {name: Figure(figure) for name, figure in made.items()}

    @override
    def __str__(self) -> str:
        outcomes = [run.outcome for run in self.runs]
        return "\n".join([*title(self.scenario), *performance(outcomes), "", *costs(outcomes)])

    def _repr_html_(self) -> str:
        from .pages import notebook

        return notebook.of_run(self.scenario.name, [run.outcome for run in self.runs])


@dataclass(frozen=True)
class ExploredVariant:
    """The possible effects of crashes of one scheme on one platform."""

    scheme: str
    platform: str
    fault: str
    verdicts: Mapping[str, str]
    """By condition: holds, violated or undecided."""
    violating_states: Mapping[str, int]
    states: int
    """How many crash states were judged."""
    exhaustive: bool
    """Whether these are all states of ``over``; else a sample of them."""
    over: str
    waiting: int
    """In how many states somebody who survives waits for ever."""


@dataclass(frozen=True)
class CrashCase:
    """A counterexample: without any one operation, or any one lost line, it would be none."""

    scheme: str
    platform: str
    condition: str
    instant_ps: int
    operations: int
    lines_lost: tuple[LineFate, ...]
    explanation: str
    example: Counterexample = field(repr=False, compare=False)
    head: tuple[str, ...] = field(repr=False, compare=False)

    def timeline(self) -> str:
        """The actions of each side, the losses and the answers of recovery: a picture in text of 80 columns."""
        return "\n".join([*self.head, "", *timeline(self.example)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that ``rpsim replay`` takes; raises InputError if it cannot be written."""
        write_text(os.fspath(path), as_json(self.example.case), "path")


@dataclass(frozen=True)
class CrashAnswer:
    """The findings for power failures at every instant; ``print`` shows the tables of ``rpsim crash``."""

    scenario: Scenario = field(repr=False)
    explorations: tuple[ExploredVariant, ...]
    cases: tuple[CrashCase, ...]
    """The smallest counterexample of each condition and manner."""
    unexpected: tuple[Surprise, ...]
    """Verdicts that neither the scenario's ``expect`` nor, where it is silent, the scheme's claims foresee."""
    undisturbed: RunAnswer = field(repr=False)
    """The runs that were explored."""

    @property
    def verdicts(self) -> dict[str, dict[str, str]]:
        """By scheme and condition the worst verdict of all platforms: violated, undecided, holds."""
        worst: dict[str, dict[str, str]] = {}
        for one in self.explorations:
            own = worst.setdefault(one.scheme, {})
            for condition, verdict in one.verdicts.items():
                own[condition] = str(max(own.get(condition, Verdict.HOLDS), verdict, key=_rank))
        return worst

    def records(self) -> list[dict[str, Any]]:
        """One dict for each scheme, platform and condition: for pandas or polars."""
        return [
            {
                "scheme": one.scheme,
                "platform": one.platform,
                "fault": one.fault,
                "seed": self.scenario.seed,
                "condition": condition,
                "verdict": verdict,
                "violating_states": one.violating_states.get(condition, 0),
                "states": one.states,
                "exhaustive": one.exhaustive,
            }
            for one in self.explorations
            for condition, verdict in one.verdicts.items()
        ]

    @override
    def __str__(self) -> str:
        outcomes = [run.outcome for run in self.undisturbed.runs]
        lines = [*title(self.scenario), *verdicts(outcomes, self.unexpected), ""]
        for case in self.cases:
            lines += [case.timeline(), ""]
        judged = sum(len(one.verdicts) for one in self.explorations)
        reports = [outcome.crash for outcome in outcomes if outcome.crash is not None]
        left = [unanswered(one, self.scenario.expect, scheme(one.scheme).claims) for one in reports]
        return "\n".join([*lines, *closing(self.unexpected, judged, left)])

    def _repr_html_(self) -> str:
        from .pages import notebook

        outcomes = [run.outcome for run in self.undisturbed.runs]
        return notebook.of_crash(self.scenario.name, outcomes, [vars(one) for one in self.unexpected])


@dataclass(frozen=True)
class CheckAnswer:
    """The oracle's verdicts on a history; ``print`` shows what ``rpsim check`` prints."""

    model: str
    operations: int
    objects: int
    verdicts: Mapping[str, str]
    """By condition: holds, violated or undecided."""
    explanations: Mapping[str, str]
    """Of each condition that does not hold: the operation that breaks it and how, or why it is undecided."""
    not_judged: Mapping[str, str]
    """Conditions that do not apply, and why."""
    report: Report = field(repr=False, compare=False)

    @property
    def holds(self) -> bool:
        """Whether every condition holds."""
        return all(verdict == Verdict.HOLDS for verdict in self.verdicts.values())

    def records(self) -> list[dict[str, Any]]:
        """One dict for each condition: for pandas or polars."""
        return [
            {"condition": str(condition), "verdict": str(one.verdict), "steps": one.steps, "seconds": one.seconds}
            for condition, one in self.report.verdicts.items()
        ]

    @override
    def __str__(self) -> str:
        return "\n".join(check_text(self.report))

    def _repr_html_(self) -> str:
        from .pages import history, notebook

        return notebook.frame(history.page(self.report), notebook.TALL)


def _rank(verdict: str) -> int:
    return _WORST.index(Verdict(verdict))


def run_answer(scenario: Scenario, outcomes: Sequence[JobOutcome]) -> RunAnswer:
    """The answer of ``rpsim.run`` from the outcomes of all variants."""
    runs = []
    for outcome in outcomes:
        made = outcome.summary
        rate = made["throughput_ops_per_s"]
        measured = made["operations"], rate, made["latency_ns"], made["per_operation"]
        runs.append(VariantRun(outcome.scheme, outcome.platform, *measured, outcome))
    return RunAnswer(scenario, tuple(runs))


def _explored(outcome: JobOutcome) -> ExploredVariant:
    found = outcome.crash_report
    return ExploredVariant(
        scheme=found.scheme,
        platform=found.platform,
        fault=found.fault,
        verdicts={str(condition): str(verdict) for condition, verdict in found.verdicts.items()},
        violating_states={str(condition): number for condition, number in found.violating_states.items()},
        states=found.states,
        exhaustive=found.exhaustive,
        over=found.over,
        waiting=found.waiting,
    )


def _case(outcome: JobOutcome, number: int) -> CrashCase:
    found = outcome.crash_report
    example = found.counterexamples[number]
    return CrashCase(
        scheme=found.scheme,
        platform=found.platform,
        condition=str(example.condition),
        instant_ps=example.instant_ps,
        operations=example.operations,
        lines_lost=example.lost,
        explanation=example.explanation,
        example=example,
        head=tuple(heading(found, example)),
    )


def crash_answer(scenario: Scenario, outcomes: Sequence[JobOutcome]) -> CrashAnswer:
    """The answer of ``rpsim.crash`` from the outcomes of all variants, each with its exploration."""
    odd: list[Surprise] = []
    for outcome in outcomes:
        odd += surprises(outcome.crash_report, scenario.expect, scheme(outcome.scheme).claims)
    return CrashAnswer(
        scenario=scenario,
        explorations=tuple(map(_explored, outcomes)),
        cases=tuple(_case(outcomes[found[0][0]], found[0][1]) for found in grouped(outcomes).values()),
        unexpected=tuple(odd),
        undisturbed=run_answer(scenario, outcomes),
    )


def check_answer(report: Report) -> CheckAnswer:
    """The answer of ``rpsim.check`` from the oracle's report."""
    return CheckAnswer(
        model=report.model.name,
        operations=len(report.history.entries),
        objects=report.objects,
        verdicts={str(condition): str(one.verdict) for condition, one in report.verdicts.items()},
        explanations={
            str(condition): one.witness.explanation if one.witness else one.undecided
            for condition, one in report.verdicts.items()
            if one.verdict is not Verdict.HOLDS
        },
        not_judged={str(condition): why for condition, why in report.not_judged.items()},
        report=report,
    )
