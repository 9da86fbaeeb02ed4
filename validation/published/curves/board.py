"""Runs curves: every point an experiment on its platform, in several processes if wanted; the scoreboard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ....sim.jobs.kept import Kept
from ....sim.jobs.runner import JobRunner, Workers
from ..experiments.point import Point, simulate
from ..scoreboard import Bar, Claim, Summary, summarise
from .curves import Curve, X, load_curves

OnStep = Callable[[str], None]
"""Called with a point's name when it is done."""

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class PointTask:
    """A point of a curve to run."""

    curve: Curve
    x: X
    values: tuple[tuple[str, str], ...] = ()
    """Parameters of the platform that are set otherwise: (path, text)."""

    @property
    def point(self) -> Point:
        """The input of the experiment, without any published number."""
        curve = self.curve
        settings, given = tuple(curve.settings.items()), tuple(curve.given.items())
        return Point(curve.platform, settings, curve.experiment, given, curve.unit, self.x, self.values)


@dataclass(frozen=True)
class Result:
    """A curve with the simulator's number at each x."""

    curve: Curve
    simulated: Mapping[X, float]

    def claims(self) -> list[Claim]:
        """The claims of the curve, one for each point."""
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
    """The results of all curves that were run."""

    results: Sequence[Result]

    def claims(self) -> list[Claim]:
        """All points of all curves."""
        return [claim for result in self.results for claim in result.claims()]

    def summary(self, bar: Bar | None = None) -> Summary:
        """In short, against the bar."""
        return summarise(self.claims(), bar)


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
    jobs: int | Workers = 1,
    on_step: OnStep | None = None,
    values: Mapping[str, str] = NOTHING,
    kept: Kept | None = None,
) -> Board:
    """Run all points of the curves; ``values`` are parameters that every platform has otherwise."""
    found = perform(tasks(curves, values), jobs, on_step, kept)
    of_curve: dict[str, dict[X, float]] = {curve.id: {} for curve in curves}
    for task, value in found:
        of_curve[task.curve.id][task.x] = value
    return Board([Result(curve, of_curve[curve.id]) for curve in curves])


def perform(
    todo: Sequence[PointTask], jobs: int | Workers = 1, on_step: OnStep | None = None, kept: Kept | None = None
) -> list[tuple[PointTask, float]]:
    """Run these points, in their order; with several jobs in processes. Points that ``kept`` has are not run again."""
    points = [task.point for task in todo]
    values: dict[int, float] = {}
    with JobRunner(jobs) as runner:
        for index, value in (kept or Kept()).completed(runner, simulate, points, [point.digest for point in points]):
            values[index] = value
            if on_step:
                on_step(f"{todo[index].curve.id} at {todo[index].x}")
    return [(task, values[index]) for index, task in enumerate(todo)]
