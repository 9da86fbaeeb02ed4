"""Right answers: none is written down; each is what the simulator or the oracle finds on the lab's own files.

An observation is a map of a lab's file: ``scenario`` (a file of the lab), ``set`` (fields of it), ``crash: true`` if
the power fails, and ``take``, one of

    verdict CONDITION     holds, violated or undecided
    lost CONDITION        where the lost lines of the smallest counterexample may have been, as in llc; else nothing
    p50_ns OPERATION      the median latency (also mean_ns, p99_ns)
    kops                  thousands of operations a second
    hop_ns OPERATION HOP  how long that hop of a typical operation takes
    longest OPERATION     the hop that takes longest
    core_ns ROLE          processor time of an operation at a role
    reached PLACE         when, in microseconds, the first line of the crash slider was in that place
    certain               when, in microseconds, it first survived for certain

or ``history`` and ``condition``: the oracle's verdict; or ``md1``, with the observations ``load`` and ``limit`` in
kops: the mean wait at an M/D/1 queue, in microseconds; or ``measured`` (a file of measurements), ``id`` and ``take``.
``minus`` and ``over`` name fields of a second observation, which is subtracted, or divided by.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...sim.errors import InputError, Mistake
from ..terminal.work import Job, JobOutcome, perform
from .definition import STARTER
from .task import LabTask

Answer = str | float
OF_SLIDER = ("reached", "certain")
"""Words of ``take`` that need the crash slider's data."""


def observe(task: LabTask, what: Mapping[str, Any]) -> Answer:
    """The value of an observation. Raises InputError for one that makes no sense."""
    if "history" in what:
        return _verdict(task.material(str(what["history"])), str(what["condition"]))
    if "md1" in what:
        load, limit = (float(observe(task, what["md1"][part])) for part in ("load", "limit"))
        return wait_md1(load / limit, 1000 / limit)
    if "measured" in what:
        return _measured(task.material(str(what["measured"])), str(what["id"]), what["take"])
    if "over" in what or "minus" in what:
        rest = {key: value for key, value in what.items() if key not in ("over", "minus", "times")}
        first = observe(task, rest)
        second = observe(task, {**rest, **(what.get("over") or what["minus"])})
        assert isinstance(first, float) and isinstance(second, float)
        return float(what.get("times", 1)) * (first / second if "over" in what else first - second)
    settings = {key: _placed(task, value) for key, value in what.get("set", {}).items()}
    overrides = tuple(f"{key}={_written(value)}" for key, value in settings.items())
    scenario = task.material(str(what["scenario"]))
    take = str(what["take"])
    slider = take.partition(" ")[0] in OF_SLIDER
    return taken(performed(str(scenario), overrides, bool(what.get("crash", False)), slider), take)


def wait_md1(busy: float, service_us: float) -> float:
    """The mean wait, in microseconds, of Poisson arrivals at a server of constant service time."""
    return busy / (2 * (1 - busy)) * service_us


def _measured(file: Path, series: str, take: str) -> float:
    """A latency in nanoseconds of a file of measurements, or the quotient of two (``p99 / p50``)."""
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    latency = next(one["latency_ns"] for one in results if one["id"] == series)
    first, _, second = take.partition(" / ")
    return float(latency[first]) / (float(latency[second]) if second else 1.0)


def _placed(task: LabTask, value: Any) -> Any:
    """A setting in which ``{starter}`` stands for the folder of the starter."""
    if isinstance(value, list):
        return [_placed(task, one) for one in value]
    return value.replace("{starter}", str(task.lab.place / STARTER)) if isinstance(value, str) else value


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@lru_cache(maxsize=64)
def performed(scenario: str, overrides: tuple[str, ...], crash: bool = False, slider: bool = False) -> JobOutcome:
    """The outcome of a scenario's first variant; a lab asks several questions of one run."""
    return perform(Job(scenario, overrides, None, 0, crash, slider=slider), lambda done: None)


@lru_cache(maxsize=64)
def _verdict(history: Path, condition: str) -> str:
    from ...validation.histories.check import check_history
    from ...validation.histories.read import read_history

    report = check_history(read_history(history), None, [condition])
    return next(str(one.verdict) for name, one in report.verdicts.items() if str(name) == condition)


def taken(outcome: JobOutcome, take: str) -> Answer:
    """What ``take`` names of an outcome."""
    word, *names = take.split()
    if word in ("verdict", "lost"):
        found = outcome.crash_report
        if word == "verdict":
            return next(str(verdict) for name, verdict in found.verdicts.items() if str(name) == names[0])
        example = next((one for one in found.counterexamples if str(one.condition) == names[0]), None)
        return "nothing" if example is None else " and ".join(sorted({fate.place for fate in example.lost}))
    if word in OF_SLIDER:
        assert outcome.slider is not None
        if word == "reached":
            return float(next(ps for place, ps in outcome.slider["lines"][0]["places"] if place == names[0])) / 1e6
        return float(next(one["ps"] for one in outcome.slider["steps"] if one["lines"][0]["survives"] == "yes")) / 1e6
    if word == "kops":
        return float(outcome.summary["throughput_ops_per_s"]) / 1000
    if word in ("p50_ns", "p99_ns", "mean_ns"):
        return float(outcome.summary["latency_ns"][names[0]][word.removesuffix("_ns")])
    if word == "core_ns":
        return float(outcome.summary["per_operation"][names[0]]["cpu_ns"])
    if word in ("hop_ns", "longest"):
        spent: dict[str, float] = defaultdict(float)
        for name, start_ps, end_ps in outcome.hops[names[0]]:
            spent[name] += (end_ps - start_ps) / 1000
        if word == "longest":
            return max(spent, key=lambda name: spent[name])
        return spent[" ".join(names[1:])]
    raise InputError(Mistake(f"'{take}'", "what observations take (docs/teaching.md)", field="take"))
