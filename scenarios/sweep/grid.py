"""The runs of a sweep: every combination of values, every variant of the scenario, every seed, each once.

A run's digest is a hash of its scenario as resolved, of its variant, of the files of the user's own that it reads, and
of the code that it depends on: a run whose digest is known need not be run again.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from ...models.primitives.writer import dump_primitive
from ...models.profiles.platform import load_platform
from ...protocols.registry import scheme
from ...sim.errors import InputError, Mistake
from ...sim.jobs.code import digest
from ...sim.yaml_source import FieldPath, Source
from ..schema.known import KnownNames
from ..schema.load import check, overridden, put_field, read_scenario
from ..schema.mistakes import Origin
from ..schema.schema import Scenario, Variant
from .axes import Axis, shown

MOST_RUNS = 100_000
MOST_MISTAKES = 10
"""Values that are refused: further ones are not listed."""


@dataclass(frozen=True)
class SweptRun:
    """One variant of a scenario with one seed, at one point of the grid: what a worker is sent."""

    scenario: Scenario = field(repr=False)
    variant: Variant
    over: Mapping[str, Any]
    """The values of the point by field."""

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.scenario.seed

    def fields(self) -> dict[str, Any]:
        """What tells it apart from the other runs, as plain data."""
        where = {"scheme": self.variant.scheme, "platform": self.variant.label, "seed": self.seed}
        return {"over": dict(self.over), **where}


@dataclass(frozen=True)
class SweepGrid:
    """All runs of a sweep in their order: points as the axes are given, then variants, then seeds."""

    base: Scenario = field(repr=False)
    """The scenario at the first point."""
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    runs: tuple[SweptRun, ...] = field(repr=False)

    def description(self) -> dict[str, Any]:
        """What the sweep is, as plain data that says nothing of code."""
        return {
            "scenario": self.base.name,
            "title": self.base.title,
            "over": {axis.field: list(axis.values) for axis in self.axes},
            "seeds": list(self.seeds),
        }

    def digest(self) -> str:
        """A short hash of all that is run, whatever the code: it names the sweep's folder."""
        what = [{**run.fields(), "scenario": _resolved(run)} for run in self.runs[:: len(self.seeds)]]
        text = json.dumps([self.description(), what], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def make_grid(
    name_or_path: str, axes: Sequence[Axis], overrides: Sequence[str] = (), seed: int | None = None, seeds: int = 1
) -> SweepGrid:
    """All runs of a sweep of a scenario; raises InputError for a field or a value that is refused, at any point.

    ``overrides`` are those of ``--set``, ``seed`` the first of so many ``seeds`` (None: the scenario's own).
    """
    source = read_scenario(name_or_path)
    _refuse_too_many(axes, 1)
    scenarios = _scenarios(source, axes, overrides, seed)
    _refuse_too_many(axes, seeds * max(len(one.variants()) for _, one in scenarios))
    first = scenarios[0][1].seed
    numbers = tuple(range(first, first + seeds))
    runs = [
        SweptRun(made.model_copy(update={"seed": number}), variant, over)
        for over, made in scenarios
        for variant in made.variants()
        for number in numbers
    ]
    return SweepGrid(scenarios[0][1], tuple(axes), numbers, tuple(runs))


def _refuse_too_many(axes: Sequence[Axis], each: int) -> None:
    count = prod(len(axis.values) for axis in axes) * each
    if count > MOST_RUNS:
        sizes = " x ".join(str(len(axis.values)) for axis in axes)
        found = f"{count:,} runs ({sizes} points, {each} runs at each)" if each > 1 else f"{count:,} points ({sizes})"
        raise InputError(Mistake(found, f"at most {MOST_RUNS:,} runs", field="--over"))


def _scenarios(
    source: Source, axes: Sequence[Axis], overrides: Sequence[str], seed: int | None
) -> list[tuple[dict[str, Any], Scenario]]:
    """The values and the scenario of every point."""
    _refuse_both(axes, overrides)
    known = KnownNames.shipped()
    wrong: dict[Mistake, None] = {}
    found = []
    for values in product(*(axis.values for axis in axes)):
        data, places, mistakes = overridden(source, overrides)
        try:
            if mistakes:
                raise InputError(mistakes)
            _put(axes, values, data, places)
            if seed is not None:
                data["seed"], places["seed",] = seed, "--seed"
            made = check(data, Origin(source, places), known)
        except InputError as error:
            wrong |= dict.fromkeys(error.mistakes)
            if len(wrong) >= MOST_MISTAKES:
                break
            continue
        found.append(({axis.field: value for axis, value in zip(axes, values, strict=True)}, made))
    if wrong:
        raise InputError(list(wrong)[:MOST_MISTAKES])
    return found


def _refuse_both(axes: Sequence[Axis], overrides: Sequence[str]) -> None:
    """A field is swept or set."""
    fixed = {override.partition("=")[0].strip() for override in overrides}
    if both := [axis for axis in axes if axis.field in fixed]:
        expected = "one of the two for a field"
        raise InputError([Mistake(f"it together with --set {a.field}", expected, field=a.place) for a in both])


def _put(axes: Sequence[Axis], values: Sequence[Any], data: dict[str, Any], places: dict[FieldPath, str]) -> None:
    for axis, value in zip(axes, values, strict=True):
        put_field(axis.field, copy.deepcopy(value), axis.place, data, places)


def run_digest(function: Callable[..., object], run: SweptRun) -> str:
    """The name of a run that ``function`` performs: see the module's first lines."""
    kind = scheme(run.variant.scheme)
    mode = getattr(kind, "mode", None)
    modules = [kind.__module__, *([mode.__module__] if mode is not None else [])]
    own = []
    if run.variant.platform.endswith((".yaml", ".yml")):
        own.append(repr(load_platform(run.variant.platform, **run.variant.settings)))
    if kind.over is not None:
        own.append(dump_primitive(kind.primitive))
    return digest(function, [_resolved(run), own], *modules)


def _resolved(run: SweptRun) -> dict[str, Any]:
    """The scenario of a run, its variant in place of all variants, and nothing that no run depends on."""
    unread = {"title", "description", "expect", "schemes", "vary", "platform", "ddio"}
    kept = {name: value for name, value in run.scenario.resolved().items() if name not in unread}
    return {**kept, "variant": [run.variant.scheme, run.variant.platform, dict(run.variant.settings)]}


def label(over: Mapping[str, Any]) -> str:
    """A point in words: ``workload.keys = 50, ddio = on``."""
    return ", ".join(f"{name} = {shown(value)}" for name, value in over.items())
