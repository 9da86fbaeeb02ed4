"""Runs curves: every point an experiment on its platform, in several processes if asked for; the scoreboard."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
from ..experiments.experiments import Experiment, experiments
from ..scoreboard import Bar, Claim, Summary, summarise
from .curves import Curve, X, load_curves
from .kept import Kept

Tell = Callable[[str], None]
"""Called with a point's name when it is done."""

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class PointTask:
    """One point to run; plain data that travels to a worker."""

    curve: Curve
    x: X
    values: tuple[tuple[str, str], ...] = ()
    """Parameters of the platform that are set otherwise: (path, text)."""


@dataclass(frozen=True)
class Result:
    """A curve with what the simulator has at each x."""

    curve: Curve
    simulated: Mapping[X, float]

    def claims(self) -> list[Claim]:
        """One claim a point."""
        curve = self.curve
        return [
            Claim(
                id=f"{curve.id}[{x}]",
                paper=curve.source,
                status=curve.role,
                published=curve.points[x],
                simulated=value,
                unit=curve.unit,
                tolerance=curve.tolerance,
                reason=curve.reason(x),
            )
            for x, value in self.simulated.items()
        ]


@dataclass(frozen=True)
class Board:
    """All that was run."""

    results: Sequence[Result]

    def claims(self) -> list[Claim]:
        """All points of all curves."""
        return [claim for result in self.results for claim in result.claims()]

    def summary(self, bar: Bar | None = None) -> Summary:
        """In short, against the bar."""
        return summarise(self.claims(), bar)


@cache
def _known() -> dict[str, Experiment]:
    return experiments()


@cache
def _platform(name: str, settings: tuple[tuple[str, str], ...], values: tuple[tuple[str, str], ...]) -> Platform:
    return varied(load_platform(name, **dict(settings)), dict(values))


def simulate(task: PointTask) -> float:
    """The simulator's number at one point, in the curve's unit."""
    curve = task.curve
    platform = _platform(curve.platform, tuple(curve.settings.items()), task.values)
    return _known()[curve.experiment].run(platform, task.x, curve.unit, dict(curve.given))


def chosen(component: str | None = None, quick: bool = False) -> list[Curve]:
    """The curves to run; quick: of each the points that its file names."""
    curves = load_curves(component)
    if not quick:
        return curves
    return [replace(curve, points={x: curve.points[x] for x in curve.quick}) for curve in curves if curve.quick]


def tasks(curves: Iterable[Curve], values: Mapping[str, str] = NOTHING) -> list[PointTask]:
    """All points of the curves."""
    return [PointTask(curve, x, tuple(values.items())) for curve in curves for x in curve.points]


def run(
    curves: Sequence[Curve],
    jobs: int = 1,
    tell: Tell | None = None,
    values: Mapping[str, str] = NOTHING,
    kept: Kept | None = None,
) -> Board:
    """Run all points of the curves; ``values`` are parameters that every platform has otherwise."""
    found = perform(tasks(curves, values), jobs, tell, kept)
    of_curve: dict[str, dict[X, float]] = {curve.id: {} for curve in curves}
    for task, value in found:
        of_curve[task.curve.id][task.x] = value
    return Board([Result(curve, of_curve[curve.id]) for curve in curves])


def perform(
    todo: Sequence[PointTask], jobs: int = 1, tell: Tell | None = None, kept: Kept | None = None
) -> list[tuple[PointTask, float]]:
    """Run these points, in their order; with several jobs in processes. Those that ``kept`` has are not run again."""
    kept = kept or Kept(None)
    values: dict[int, float] = {}

    def done(index: int, value: float) -> None:
        values[index] = value
        if tell:
            tell(f"{todo[index].curve.id} at {todo[index].x}")

    for index, value in kept.of(todo).items():
        done(index, value)
    rest = [index for index in range(len(todo)) if index not in values]
    if jobs == 1 or len(rest) < 2:
        for index in rest:
            value = simulate(todo[index])
            kept.add(todo[index], value)
            done(index, value)
        return [(task, values[index]) for index, task in enumerate(todo)]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(simulate, todo[index]): index for index in rest}
        try:
            for future in as_completed(waiting):
                kept.add(todo[waiting[future]], future.result())
                done(waiting[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [(task, values[index]) for index, task in enumerate(todo)]
