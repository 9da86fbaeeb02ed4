"""``rpsim design``: which primitives of a few steps are durable on a platform, and not dominated?"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ...sim.errors import InputError, Mistake
from ..options import JOBS, OUT, RESULTS, SEED, Command, Field, Option

if TYPE_CHECKING:
    from ...validation.matrix.configurations import Configuration
    from ...validation.matrix.design import Candidate, CandidateTrial, DesignSearch

STEPS = 6
"""How many steps a primitive has at most, unless ``--steps`` says otherwise."""

COMMAND = Command(
    "search the step language: primitives that are durable on a platform",
    options=(
        Option("--platform", "a platform, or a label such as 'adr, ddio on'", "P"),
        Option("--steps", f"at most so many steps (default: {STEPS})", "N", STEPS, least=1),
        SEED,
        OUT,
        JOBS,
    ),
    answer=(
        Field("seed", "integer", "the seed of all random choices"),
        Field("platform", "string", "the platform with its settings"),
        Field("steps", "integer", "how many steps a primitive has at most"),
        Field("tried", "integer", "how many primitives were tried"),
        Field("left_out", "integer", "how many were not, since others are as good with fewer steps"),
        Field("survivors", "integer", "how many outlived the first, quick trial"),
        Field("durable", "integer", "how many are durable"),
        Field("front", "array", "the durable ones that no other one beats"),
        Field("rediscovered", "array", "the shipped primitives among the durable ones"),
        Field("reached", "object", "by wish: the cheapest that does it, in ns"),
        RESULTS,
    ),
)

ROUND = 256
"""The number of candidates tried before longer ones are compared with the primitives found durable so far."""


def main(options: argparse.Namespace) -> int:
    """Search, print, write the front as primitive files; returns 0 if something is durable, else 1."""
    import tempfile

    from ..terminal.design import document, lines
    from ..terminal.envelope import envelope
    from ..terminal.output import folder, manifest, replacing, write_json

    began = time.monotonic()
    configuration = _configuration(options)
    inputs = {"platform": configuration.label, "steps": options.steps}
    target = folder(options.out, "design", inputs, options.seed, "design")
    with tempfile.TemporaryDirectory(prefix="rpsim-design-") as scratch:
        search = explore(configuration, options.steps, options.jobs, options.seed, Path(scratch))
    front = search.front
    names = {one: f"{_slug(configuration.label)}-{number}" for number, one in enumerate(front, start=1)}
    answer = {"seed": options.seed, **document(search, names)}
    with replacing(target) as draft:
        for one, name in names.items():
            title = f"durable on {configuration.label}: {one.cost.p50_ns / 1000:.2f} us at 64 B"
            (draft / f"{name}.yaml").write_text(one.candidate.text(name, title), encoding="utf-8", newline="\n")
        write_json(draft / "design.json", answer)
        write_json(draft / "manifest.json", manifest("design", time.monotonic() - began, seed=options.seed))
    if options.json:
        print(envelope(options, {**answer, "results": target.as_posix()}, options.seed), end="")
    else:
        files = " (primitive files that run)" if front else ""
        print("\n".join([*lines(search, names), "", f"results: {target.as_posix()}{files}"]))
    return 0 if front else 1


def _configuration(options: argparse.Namespace) -> Configuration:
    from ...validation.matrix.configurations import configuration

    if options.platform is None:
        expected = "a platform (rpsim list platforms) or a label such as 'adr, ddio on'"
        raise InputError(Mistake("no --platform", expected, field="rpsim design"))
    return configuration(options.platform, "--platform")


def explore(configuration: Configuration, steps: int, jobs: int, seed: int, scratch: Path) -> DesignSearch:
    """The whole search; candidates are written to ``scratch``, which is where their processes read them."""
    from ...sim.jobs.runner import JobRunner
    from ...validation.matrix.design import (
        CandidateTrial,
        DesignSearch,
        FoundPrimitive,
        candidates,
        canonical,
        judged,
        possible,
        published,
        survives,
        wanted,
    )
    from ..terminal.progress import bar

    search = DesignSearch(configuration, steps)
    todo = candidates(steps)
    kept: list[CandidateTrial] = []
    known: dict[object, Candidate] = {}
    alone = JobRunner()
    with bar("design", len(todo)) as shown, JobRunner(jobs) as together:
        while todo:
            length = len(todo[0].steps)
            some = [one for one in todo if len(one.steps) == length][:ROUND]
            todo = todo[len(some) :]
            chosen = wanted(some, [trial.candidate for trial in kept])
            search.left_out += len(some) - len(chosen)
            trials = []
            for number, one in enumerate(chosen):
                file = scratch / f"c{length}-{search.tried + number}.yaml"
                read = possible(one, file)
                if read is not None and canonical(read) not in known:
                    known[canonical(read)] = one
                    file.write_text(one.text(file.stem), encoding="utf-8")
                    trials.append(CandidateTrial(one, configuration, str(file), seed))
            search.tried += len(trials)
            fast = (together if len(trials) > 8 else alone).in_order(survives, trials)
            kept += [trial for trial, fine in zip(trials, fast, strict=True) if fine]
            shown.update(len(candidates(steps)) - len(todo) - shown.n)
        answers = list((together if len(kept) > 4 else alone).in_order(judged, kept))
    search.survivors = len(kept)
    shipped = published()
    search.durable = []
    for trial, answer in zip(kept, answers, strict=True):
        if answer is not None:
            read = possible(trial.candidate, Path(trial.file))
            assert read is not None
            cost, log = answer
            search.durable.append(FoundPrimitive(trial.candidate, cost, tuple(shipped.get(canonical(read), ())), log))
    return search


def _slug(label: str) -> str:
    return "-".join(label.replace(",", "").split())
