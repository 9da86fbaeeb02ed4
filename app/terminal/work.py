"""Running a scenario's variants side by side in processes, and what each brings home (plain data that pickles)."""

from __future__ import annotations

import multiprocessing
import queue as queues
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...sim.errors import InputError, Mistake
from ...sim.parent import end_with_parent
from .text import WIDTH

if TYPE_CHECKING:
    from ...protocols.guarantees import Condition
    from ...scenarios.run.results import RunResult
    from ...scenarios.schema.schema import Scenario
    from ...validation.crash.brute_force import Comparison
    from ...validation.crash.findings import CrashReport

Progress = Callable[[float], None]
"""Called with how much of a job is done, 0 to 1."""

RUN_SHARE = 0.2
"""How much of a job's progress the run is when an exploration follows: a guess for the bar, nothing else."""


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
    """What is explored beside the usual conditions."""
    slider: bool = True
    """Whether the crash slider of a report is prepared."""


@dataclass
class JobOutcome:
    """What one variant brought home."""

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


def perform(job: Job, progress: Progress) -> JobOutcome:
    """Run a job in this process; raises InputError where the scenario turns out to be impossible."""
    from ...scenarios.run.experiment import run_variant
    from ...scenarios.schema.load import load_scenario

    scenario = job.scenario
    if isinstance(scenario, str):
        scenario = load_scenario(scenario, job.overrides, job.seed)
    variant = scenario.variants()[job.index]
    result = run_variant(scenario, variant)
    outcome = _outcome(result)
    if job.crash:
        from ...validation.crash.explore import explore, slider

        progress(RUN_SHARE)
        report = explore(
            result,
            scenario,
            variant,
            progress=lambda done: progress(RUN_SHARE + (1 - RUN_SHARE) * min(done, 1.0)),
            processes=job.processes,
            also=job.also,
        )
        outcome.crash = report
        if job.brute:
            outcome.brute = _by_brute_force(result, report, variant.label)
        if job.slider:
            outcome.slider = slider(report, result, scenario, variant)
    if job.trace:
        from ...scenarios.run.perfetto import trace_events

        outcome.trace = trace_events(result, operations=job.trace, first_pid=1 + job.index * PIDS)
    progress(1.0)
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
    )


def _blank(value: object) -> object:
    return "" if value is None else value if isinstance(value, int) else str(value)


def perform_all(jobs: Sequence[Job], workers: int, description: str) -> list[JobOutcome]:
    """Perform all jobs and return their outcomes in the order of the jobs, whoever finished first."""
    from tqdm import tqdm

    shares = [0.0] * len(jobs)
    form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}"
    with tqdm(total=len(jobs), desc=description, disable=None, leave=False, ncols=WIDTH, bar_format=form) as bar:

        def advance(index: int, done: float) -> None:
            if done > shares[index]:
                bar.update(done - shares[index])
                shares[index] = done

        if min(workers, len(jobs)) <= 1:
            return [perform(job, lambda done, i=i: advance(i, done)) for i, job in enumerate(jobs)]  # type: ignore[misc]
        return _in_processes(jobs, min(workers, len(jobs)), advance)


def _in_processes(jobs: Sequence[Job], workers: int, advance: Callable[[int, float], None]) -> list[JobOutcome]:
    context = multiprocessing.get_context("spawn")
    reports: multiprocessing.Queue[tuple[int, float]] = context.Queue()
    pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(reports,))
    try:
        with _deaf_to_interrupts():  # what is started here inherits it: Ctrl-C is for this process to handle
            futures = [pool.submit(_perform_in_worker, job, i) for i, job in enumerate(jobs)]
        waiting: set[Future[JobOutcome | list[Mistake]]] = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=0.2)
            while True:
                try:
                    advance(*reports.get_nowait())
                except queues.Empty:
                    break
            for future in done:
                answer = future.result()
                if isinstance(answer, list):
                    raise InputError(answer)
        outcomes = [future.result() for future in futures]
        pool.shutdown()
        return [outcome for outcome in outcomes if isinstance(outcome, JobOutcome)]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
            child.join()
        raise
    finally:
        reports.close()
        reports.cancel_join_thread()


_reports: multiprocessing.Queue[tuple[int, float]] | None = None


def _start_worker(reports: multiprocessing.Queue[tuple[int, float]]) -> None:
    global _reports  # noqa: PLW0603 (a worker's only way to keep what its initializer got)
    _reports = reports
    reports.cancel_join_thread()
    end_with_parent()


def _perform_in_worker(job: Job, index: int) -> JobOutcome | list[Mistake]:
    last = 0.0

    def progress(done: float) -> None:
        nonlocal last
        now = time.monotonic()
        if _reports is not None and (done >= 1.0 or now - last > 0.1):
            last = now
            _reports.put((index, done))

    try:
        return perform(job, progress)
    except InputError as error:
        return error.mistakes


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
