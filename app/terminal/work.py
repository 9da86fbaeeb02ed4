"""A scenario's variants: a job for each, and the job's findings (plain data that pickles)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...sim.collector import seldom_collecting
from ...sim.errors import InputError, Mistake
from ...sim.jobs.runner import Workers, report
from .progress import performed

if TYPE_CHECKING:
    from ...protocols.guarantees import Condition
    from ...scenarios.run.results import RunResult
    from ...scenarios.schema.schema import Scenario, Variant
    from ...validation.crash.brute_force import Comparison
    from ...validation.crash.findings import CrashReport

Progress = Callable[[float], None]
"""Called with how much of a job is done, 0 to 1."""

PIDS = 10_000
"""Processes that a variant may have in a trace."""


@dataclass(frozen=True)
class Job:
    """One variant of a scenario: only plain data, since a system under simulation cannot travel to a worker."""

    scenario: str | Scenario
    """A name or a path, which a worker loads again with the overrides and the seed; or the scenario itself."""
    overrides: tuple[str, ...]
    seed: int | None
    index: int
    crash: bool
    processes: int = 1
    """How many it may use for itself."""
    brute: bool = False
    """Whether it is explored by brute force as well."""
    trace: int = 0
    """How many operations of the run are drawn for Perfetto."""
    also: tuple[Condition, ...] = ()
    """Conditions that are explored beside the usual ones."""
    examples: tuple[Condition, ...] | None = None
    """Conditions whose violations are shrunk to counterexamples; None: all."""
    slider: bool = True
    """Whether the crash slider of a report is prepared."""


@dataclass
class JobOutcome:
    """The result of one variant."""

    scheme: str
    platform: str
    summary: dict[str, Any]
    """The fields of ``rpsim run --json``."""
    operations: list[tuple[object, ...]]
    """Rows of operations.csv without scheme and platform."""
    latency_ps: dict[str, list[int]]
    completed_ps: dict[str, list[int]]
    measured_from_ps: int
    elapsed_ps: int
    hops: dict[str, list[tuple[str, int, int]]]
    crash: CrashReport | None = None
    slider: dict[str, Any] | None = None
    brute: Comparison | None = None
    trace: list[dict[str, Any]] = field(default_factory=list)
    """Events for Perfetto: of the run, numbered from the variant's first process on."""
    histories: dict[str, str] = field(default_factory=dict)
    """By name: the histories of the scheme's parts, as JSON Lines."""

    @property
    def crash_report(self) -> CrashReport:
        """What the exploration of its crashes found. AssertionError for a job that has not explored any."""
        assert self.crash is not None
        return self.crash


def perform(job: Job, progress: Progress = report) -> JobOutcome:
    """Run a job in this process. Raises InputError where the scenario turns out to be impossible.

    Any error says in a note which variant it was.
    """
    from ...scenarios.schema.load import explored, load_scenario

    scenario = job.scenario
    if isinstance(scenario, str):
        scenario = load_scenario(scenario, job.overrides, job.seed)
    if job.crash:
        scenario = explored(scenario)
    variant = scenario.variants()[job.index]
    try:
        with seldom_collecting() if job.crash else nullcontext():  # at whose end nothing is left but the outcome
            return _performed(job, scenario, variant, progress)
    except Exception as error:  # of an InputError nobody shows the note
        error.add_note(f"in {variant.scheme} on {variant.label}, {scenario.crash.fault}, seed {scenario.seed}")
        raise


def _performed(job: Job, scenario: Scenario, variant: Variant, progress: Progress) -> JobOutcome:
    from ...scenarios.run.failing import performed

    if job.crash:  # exploration tries crash.fault, at every instant
        scenario = scenario.model_copy(update={"failures": ()})
    result = performed(scenario, variant, recorded=job.crash or bool(job.trace), metered=not job.crash)
    outcome = _outcome(result)
    if job.crash:
        from ...validation.crash.explore import RUN_SHARE, explore, slider

        progress(RUN_SHARE)
        found = explore(
            result,
            scenario,
            variant,
            progress=lambda done: progress(RUN_SHARE + (1 - RUN_SHARE) * min(done, 1.0)),
            processes=job.processes,
            also=job.also,
            examples=job.examples,
        )
        outcome.crash = found
        if job.brute:
            outcome.brute = _by_brute_force(result, found, variant.label)
        if job.slider:
            outcome.slider = slider(found, result, scenario, variant)
    if job.trace:
        from ...scenarios.run.perfetto import trace_events

        outcome.trace = trace_events(result, operations=job.trace, first_pid=1 + job.index * PIDS)
    return outcome


def _by_brute_force(result: RunResult, report: CrashReport, platform: str) -> Comparison:
    from ...validation.crash.brute_force import TooMuch, compare

    try:
        return compare(result, report.verdicts)
    except TooMuch as error:
        found = f"{result.scheme_name} on {platform}: {error}"
        expected = "a run of a few operations on a few keys, best with vary.line_atomicity=[whole]"
        raise InputError(Mistake(found, expected, field="--brute-force")) from None


def _outcome(result: RunResult) -> JobOutcome:
    rows: list[tuple[object, ...]] = [
        (
            o.number, o.process, o.f, str(o.object), o.invoke_ps, _blank(o.return_ps),
            "" if o.return_ps is None else f"{(o.return_ps - o.invoke_ps) / 1000:.3f}",
            o.outcome or "pending", _blank(o.result),
        )
        for o in result.history.operations
    ]  # fmt: skip
    return JobOutcome(
        scheme=result.scheme_name,
        platform=result.platform_label,
        summary=result.summary(),
        operations=rows,
        latency_ps={f: [int(value) for value in values] for f, values in sorted(result.latency_ps.items())},
        completed_ps={f: [int(value) for value in values] for f, values in sorted(result.completed_ps.items())},
        measured_from_ps=result.measured_from_ps,
        elapsed_ps=result.elapsed_ps,
        hops={f: [(hop.name, hop.start_ps, hop.end_ps) for hop in hops] for f, hops in sorted(result.hops.items())},
        histories={
            name: "".join(json.dumps(row) + "\n" for row in rows) for name, rows in result.scheme.histories.items()
        },
    )


def _blank(value: object) -> object:
    return "" if value is None else value if isinstance(value, int) else str(value)


def perform_all(jobs: Sequence[Job], workers: int | Workers, description: str) -> list[JobOutcome]:
    """Perform all jobs and return their outcomes in the order of the jobs, whichever ended first."""
    return performed(description, perform, jobs, workers)
