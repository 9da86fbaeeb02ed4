"""The runs of a sweep that are not known yet, in processes or on a cluster; what ends it loses no finished run."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....scenarios.sweep.axes import parse_axes
from ....scenarios.sweep.grid import SweepGrid, make_grid, run_digest
from ....scenarios.sweep.point import simulate
from ....sim.errors import InputError, Mistake, WorkersGone
from ....sim.jobs.cluster import workers
from ....sim.jobs.runner import JobRunner, Workers
from ....sim.jobs.spread import Spread, known_answers
from ....validation.crash.swept import explore_point
from ...terminal.output import writable
from ...terminal.progress import bar
from ...terminal.text import plural
from ..run import check_size
from .results import RUNS, check_parquet, finish

PARTIAL, WORKERS = ".partial", "workers"
"""A sweep that is not complete has this behind its folder's name; the workers' files are in there."""
TRIES = 3
"""So often workers may die without a finished run between, before the sweep is given up."""


def main(options: argparse.Namespace) -> int:
    """Run what is not known, write the results; returns the exit status. Raises InputError before anything is run."""
    began, subject = time.monotonic(), options.subject
    axes = parse_axes(options.over)
    shard = parse_shard(options.shard)
    if not axes and options.seeds < 2:
        expected = "a field with its values (--over workload.keys=50,100,200), or several seeds (--seeds 5)"
        raise InputError(Mistake("no --over", expected, field="rpsim sweep"))
    check_parquet(options.parquet)
    out = writable(options.out)
    grid = make_grid(subject, axes, options.overrides, options.seed, options.seeds)
    if options.crash:
        for run in grid.runs[:: len(grid.seeds)]:
            check_size(run.scenario, subject)
    function = explore_point if options.crash else simulate
    digests = [run_digest(function, run) for run in grid.runs]
    about = definition(grid, digests, options.crash, shard)
    name = f"{grid.base.name}-sweep-{'crash-' if options.crash else ''}{grid.digest()}"
    target = out / (name if shard is None else f"{name}-shard-{shard[0]}-of-{shard[1]}")
    own = range(len(digests)) if shard is None else range(shard[0] - 1, len(digests), shard[1])
    partial = target.with_name(target.name + PARTIAL)
    known = _known(out, grid.base.name, {digests[number] for number in own})
    with workers(options.jobs, options.dask) as found:
        answers = _perform(grid, digests, own, function, partial / WORKERS, known, found)
    rows = [{**about["runs"][number], "answer": answers[digests[number]]} for number in own]
    status = finish(target, about, rows, options, began, partial / WORKERS)
    shutil.rmtree(partial, ignore_errors=True)
    return status


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """``2/4`` as (2, 4); raises InputError."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(Mistake(f"'{text}'", "I/N with I from 1 to N, as in 1/4", field="--shard"))
    return int(found[1]), int(found[2])


def definition(grid: SweepGrid, digests: Sequence[str], crash: bool, shard: tuple[int, int] | None) -> dict[str, Any]:
    """What is run, as sweep.json has it: shards of one sweep differ in ``shard`` alone."""
    runs = [{"job": name, **run.fields()} for name, run in zip(digests, grid.runs, strict=True)]
    expect = grid.base.resolved().get("expect", {}) if crash else {}
    return {
        **grid.description(),
        "crash": crash,
        "expect": expect,
        "shard": None if shard is None else list(shard),
        "runs": runs,
    }


def _known(out: Path, name: str, wanted: set[str]) -> dict[str, Any]:
    """The answers that earlier sweeps of the scenario have left, complete or not, whatever they were over."""
    folders = sorted(out.glob(f"{name}-sweep-*"))
    files = [file for folder in folders for file in (folder / RUNS, *sorted((folder / WORKERS).glob("*.jsonl")))]
    found = known_answers(file for file in files if file.is_file())
    return {job: answer for job, answer in found.items() if job in wanted}


def _perform(
    grid: SweepGrid,
    digests: Sequence[str],
    own: Sequence[int],
    function: Any,
    folder: Path,
    known: Mapping[str, Any],
    workers: Workers,
) -> Mapping[str, Any]:
    """The answers of these runs. Raises WorkersGone if workers die again and again."""
    # In the order of digests, as good as drawn: what is done says how long the rest takes, also where runs get longer.
    order = sorted(own, key=lambda number: digests[number])
    spread = Spread(folder, known)
    failures = 0
    try:
        while True:
            rest = [number for number in order if digests[number] not in spread.known]
            done = len(order) - len(rest)
            if not rest:
                return spread.known
            try:
                _complete(spread, grid, digests, rest, function, workers, done)
            except workers.died as error:
                spread.read()
                advanced = sum(digests[number] in spread.known for number in order) > done
                failures = 1 if advanced else failures + 1
                if failures == TRIES:
                    raise WorkersGone(f"{workers.why}; {_kept(spread, digests, own)}") from error
    except (KeyboardInterrupt, SystemExit):
        print(_kept(spread, digests, own), file=sys.stderr)
        raise
    finally:
        spread.close()


def _complete(
    spread: Spread,
    grid: SweepGrid,
    digests: Sequence[str],
    rest: Sequence[int],
    function: Any,
    workers: Workers,
    done: int,
) -> None:
    shares = [0.0] * len(rest)
    what = f"sweep {grid.base.name}"
    with bar(what, done + len(rest), done=done) as shown, JobRunner(workers) as runner:

        def advance(turn: int, share: float) -> None:
            if share > shares[turn]:
                shown.update(share - shares[turn])
                shares[turn] = share

        runs = [grid.runs[number] for number in rest]
        for _ in spread.completed(runner, function, runs, [digests[number] for number in rest], advance):
            pass


def _kept(spread: Spread, digests: Sequence[str], own: Sequence[int]) -> str:
    spread.read()
    count = sum(digests[number] in spread.known for number in own)
    return f"{count:,} of {plural(len(own), 'run')} are kept: the same command goes on from there"
