"""``rpsim design``: which primitives of a few steps are durable on a platform, and not dominated?"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from ...sim.errors import InputError, Mistake
from ...sim.jobs.runner import JobRunner
from ...validation.matrix.configurations import Configuration, configurations
from ...validation.matrix.design import (
    Candidate,
    CandidateTrial,
    DesignSearch,
    FoundPrimitive,
    candidates,
    canonical,
    judged,
    possible,
    published,
    reached,
    survives,
    wanted,
)
from ..terminal.output import as_json, folder, replacing, write_json
from ..terminal.progress import bar
from ..terminal.text import count, paragraph, table
from .matrix import manifest

ROUND = 256
"""So many candidates are tried before the longer ones are held against what is durable by now."""


def main(options: argparse.Namespace) -> int:
    """Search, print, write the front as primitive files; returns 0 if something is durable, else 1."""
    began = time.monotonic()
    configuration = _configuration(options)
    seed = options.seed or 1
    inputs = {"platform": configuration.label, "steps": options.steps}
    target = folder(options.out, "design", inputs, seed, "design")
    with tempfile.TemporaryDirectory(prefix="rpsim-design-") as scratch:
        search = explore(configuration, options.steps, options.jobs, seed, Path(scratch))
    front = search.front
    names = {one: f"{_slug(configuration.label)}-{number}" for number, one in enumerate(front, start=1)}
    document = {"seed": seed, **_document(search, names)}
    with replacing(target) as draft:
        for one, name in names.items():
            title = f"durable on {configuration.label}: {one.cost.p50_ns / 1000:.2f} us at 64 B"
            (draft / f"{name}.yaml").write_text(one.candidate.text(name, title), encoding="utf-8", newline="\n")
        write_json(draft / "design.json", document)
        write_json(draft / "manifest.json", manifest("design", seed, time.monotonic() - began))
    if options.json:
        print(as_json({**document, "results": target.as_posix()}), end="")
    else:
        print("\n".join([*lines(search, names), "", f"results: {target.as_posix()} (primitive files that run)"]))
    return 0 if front else 1


def _configuration(options: argparse.Namespace) -> Configuration:
    if options.platform is None:
        expected = "a platform (rpsim list platforms) or a label such as 'adr, ddio on'"
        raise InputError(Mistake("no --platform", expected, field="rpsim design"))
    try:
        return configurations([options.platform])[0]
    except InputError as error:
        raise InputError(
            [Mistake(m.found, m.expected, m.file, m.line, "--platform", m.nearest) for m in error.mistakes]
        ) from None


def explore(configuration: Configuration, steps: int, jobs: int, seed: int, scratch: Path) -> DesignSearch:
    """The whole search; candidates are written to ``scratch``, which is where their processes read them."""
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


def lines(search: DesignSearch, names: dict[FoundPrimitive, str]) -> list[str]:
    """The front, what was rediscovered, and what nothing reaches."""
    durable = search.durable or []
    out = [f"primitives of at most {search.steps} steps on {search.configuration.label}"]
    told = (
        f"{count(search.tried)} tried; {count(search.left_out)} left out, being a durable one with more steps; "
        f"{count(search.survivors)} survive one update; {count(len(durable))} are durable"
    )
    out += [*paragraph(told, 2), ""]
    if not durable:
        return [*out, f"nothing of at most {search.steps} steps is durable here"]
    body = [
        [name, f"{one.cost.p50_ns / 1000:.2f}", f"{one.cost.cpu_ns:.0f}", f"{one.cost.packets:g}"]
        for one, name in names.items()
    ]
    out += [*table(["not dominated", "p50 us", "CPU ns", "packets"], body), ""]
    for one, name in names.items():
        steps = [step.removeprefix("at: ").replace(", do: ", ": ", 1) for step in one.candidate.steps]
        known = f" (published: {', '.join(one.published)})" if one.published else ""
        out += paragraph(f"{name}: {one.candidate.follows}; {'; '.join(steps) or 'nothing more'}{known}", 2, 2)
    again = sorted({name for one in durable for name in one.published})
    out += ["", *paragraph(f"published ones among the durable: {', '.join(again) or 'none'}", 0, 2), ""]
    out += [f"what is within reach of {search.steps} steps"]
    for what, quickest in reached(durable).items():
        out.append(f"  {what}: " + (f"{quickest.cost.p50_ns / 1000:.2f} us" if quickest else "nothing"))
    return out


def _document(search: DesignSearch, names: dict[FoundPrimitive, str]) -> dict[str, Any]:
    def entry(one: FoundPrimitive) -> dict[str, Any]:
        return {
            "follows": one.candidate.follows,
            "steps": list(one.candidate.steps),
            "published": list(one.published),
            "latency_p50_ns": one.cost.p50_ns,
            "responder_cpu_ns": one.cost.cpu_ns,
            "packets": one.cost.packets,
        }

    durable = search.durable or []
    return {
        "platform": search.configuration.label,
        "steps": search.steps,
        "tried": search.tried,
        "left_out": search.left_out,
        "survivors": search.survivors,
        "durable": len(durable),
        "front": [{"name": name, "file": f"{name}.yaml", **entry(one)} for one, name in names.items()],
        "rediscovered": sorted({name for one in durable for name in one.published}),
        "reached": {what: one.cost.p50_ns if one else None for what, one in reached(durable).items()},
    }
