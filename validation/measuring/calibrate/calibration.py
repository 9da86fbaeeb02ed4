"""The calibration: a platform's times and rates fitted to measurements, some of which are held out to see how it did.

An error is a share: simulated over measured, less one, of the median latency where one operation is under way and of
the time from one operation to the next where more are. All measurements weigh the same. Errors beyond ROUGH count by
their size and no longer by its square (pseudo-Huber: Charbonnier et al., ICIP 1994), so that one phenomenon that the
models get wrong does not bend parameters that other measurements determine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NoReturn

import numpy as np

from ....models.profiles.platform import Platform
from ....sim.errors import InputError, Mistake
from ....sim.units import format_bytes
from ..conditions import Conditions, Measurement, series_names
from .identify import FINEST, NOISE, Certainty, Choice, certainties, choose, undetermined
from .knobs import CANDIDATES, FURTHER, Knob, candidates
from .runner import Runner
from .solver import Solution, Vector, least_squares, root_mean_square, slopes

STEP = 0.02
"""Of an unknown, for its slopes: above the rounding to picoseconds, below most kinks."""
ROUGH = 0.05
HELD_OUT = 0.25
LARGEST_BYTES = 64 << 10
LEAST_FREE = 2
"""Measurements beyond the number of unknowns."""

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A measurement, and the platform's number in its place before the fit and after."""

    measurement: Measurement
    series: str
    """The curve that it belongs to."""
    measured_ps: float
    before_ps: float
    after_ps: float
    held_out: bool = False

    @property
    def name(self) -> str:
        """The series and the size."""
        return f"{self.series}, {format_bytes(self.measurement.conditions.size_bytes)}"

    def error(self, after: bool = True) -> float:
        """Simulated over measured, less one."""
        return (self.after_ps if after else self.before_ps) / self.measured_ps - 1


@dataclass(frozen=True)
class Fitted:
    """A knob, and its value after the fit."""

    knob: Knob
    slower: float
    certainty: Certainty

    @property
    def at_bound(self) -> str:
        """``lower`` or ``upper`` if the value stands at a bound of the parameter, else nothing."""
        low, high = (self.knob.low, self.knob.high) if self.knob.kinds[0] == "time" else (self.knob.high, self.knob.low)
        return "lower" if math.isclose(self.slower, low) else "upper" if math.isclose(self.slower, high) else ""

    def interval(self) -> tuple[str, str] | None:
        """The ends of the confidence interval of the sum (or of the one parameter); None where there is none."""
        error = self.certainty.error
        if not math.isfinite(error) or error >= self.slower:
            return None
        ends = [self.knob.together(self.slower + sign * error) for sign in (-1, 1)]
        return (ends[0], ends[1]) if self.knob.kinds[0] == "time" else (ends[1], ends[0])


@dataclass(frozen=True)
class Calibration:
    """The result of a calibration; without ``fitted`` it is a comparison."""

    platform: Platform
    points: tuple[Point, ...]
    fitted: tuple[Fitted, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    """Parameters that were not fitted, and why."""
    together: tuple[tuple[str, ...], ...] = ()
    """Groups of parameters that the measurements do not separate."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Measurements that were left out, and why."""
    rounds: int = 0
    runs: int = 0

    def texts(self) -> dict[str, str]:
        """The fitted parameters as a profile states them."""
        return {path: text for one in self.fitted for path, text in one.knob.rounded(one.slower).items()}

    def alike(self) -> list[str]:
        """Which parameters' errors go together, in words; each pair once."""
        pairs = {frozenset((one.knob.name, one.certainty.like)) for one in self.fitted if one.certainty.like}
        return [
            f"{' and '.join(sorted(pair))} are nearly alike to these measurements" for pair in sorted(pairs, key=sorted)
        ]

    def of(self, held_out: bool) -> list[Point]:
        """The held-out points, or the points that were fitted to."""
        return [point for point in self.points if point.held_out is held_out]

    def series(self) -> dict[str, list[Point]]:
        """Points by series, in the order of the measurements."""
        found: dict[str, list[Point]] = {}
        for point in self.points:
            found.setdefault(point.series, []).append(point)
        return found


def soft(errors: Vector) -> Vector:
    """Residuals whose squares are the errors' where they are small, and grow as these do where they are large."""
    size = np.sqrt(2 * ROUGH**2 * (np.sqrt(1 + np.square(errors / ROUGH)) - 1))
    found: Vector = np.copysign(size, errors)
    return found


def rms(points: Sequence[Point], after: bool = True) -> float:
    """Root of the mean square of the errors."""
    return root_mean_square(np.array([point.error(after) for point in points]))


def prepare(
    measurements: Sequence[Measurement], platform: Platform, largest_bytes: int = LARGEST_BYTES
) -> tuple[list[Measurement], list[tuple[str, str]]]:
    """The measurements to compare, in the platform's conditions, and the measurements left out, with the reason."""
    kept, skipped = [], []
    for one in measurements:
        about = one.conditions
        if one.skipped:
            skipped.append((about.name, one.skipped))
        elif about.size_bytes > largest_bytes:
            skipped.append((about.name, f"above {largest_bytes} B"))
        elif one.per_operation_ns is None:
            skipped.append((about.name, "neither a latency at depth 1 nor a rate"))
        else:
            kept.append(replace(one, conditions=_free(about, platform)))
    return kept, skipped


def _free(about: Conditions, platform: Platform) -> Conditions:
    """The conditions without settings that the platform dictates: above its limit, ``inline`` is no choice."""
    inline = about.inline
    if inline and about.size_bytes > platform.nic.inline_max_bytes:
        inline = None
    return replace(about, inline=inline)


def held_out(measurements: Sequence[Measurement], share: float) -> list[bool]:
    """Which are held out: of each series, by size, inner points at equal distances, so that none is extrapolated.

    Each series begins one further, so that they are not all of the same size.
    """
    chosen = [False] * len(measurements)
    if share <= 0:
        return chosen
    every = max(2, round(1 / share))
    by_series: dict[str, list[int]] = {}
    for index, name in enumerate(series_names([one.conditions for one in measurements])):
        by_series.setdefault(name, []).append(index)
    for number, indexes in enumerate(by_series.values()):
        indexes.sort(key=lambda index: measurements[index].conditions.size_bytes)
        first = 1 + number % max(1, min(every, len(indexes) - 2))
        for index in indexes[first:-1:every]:
            chosen[index] = True
    return chosen


def compare(measurements: Sequence[Measurement], runner: Runner, largest_bytes: int = LARGEST_BYTES) -> Calibration:
    """The measurements beside the platform as it stands. Raises InputError where nothing is left to compare."""
    platform = runner.base.platform()
    kept, skipped = prepare(measurements, platform, largest_bytes)
    kept, numbers = _measurable(kept, skipped, runner)
    names = series_names([one.conditions for one in kept])
    points = tuple(
        Point(one, name, _ps(one), number, number) for one, name, number in zip(kept, names, numbers, strict=True)
    )
    return Calibration(platform, points, skipped=tuple(skipped), runs=runner.runs)


def calibrate(
    measurements: Sequence[Measurement],
    runner: Runner,
    *,
    knobs: Sequence[Knob] | None = None,
    share: float = HELD_OUT,
    largest_bytes: int = LARGEST_BYTES,
    on_step: OnStep | None = None,
) -> Calibration:
    """Fit ``knobs`` (None: the ones that the measurements determine) to all measurements but the held-out ones.

    Raises InputError where there are fewer measurements than it takes.
    """
    platform = runner.base.platform()
    kept, skipped = prepare(measurements, platform, largest_bytes)
    kept, before = _measurable(kept, skipped, runner)
    out = held_out(kept, share)
    inner = [index for index, held in enumerate(out) if not held]
    search = _Search(runner, [kept[index] for index in inner], np.array([before[index] for index in inner]), on_step)
    if len(inner) <= LEAST_FREE:
        search.refuse(1, sum(out))
    if knobs is None:
        choice, solution = search.choose(platform, sum(out))
    else:
        choice = Choice(tuple(knobs), ())
        solution = search.fit(choice.knobs, sum(out))
    turned = choice.knobs
    names = series_names([one.conditions for one in kept])
    known = certainties(turned, solution.slopes, solution.residuals, [names[index] for index in inner])
    fitted = tuple(Fitted(knob, float(x), one) for knob, x, one in zip(turned, solution.x, known, strict=True))
    rounded = {path: text for one in fitted for path, text in one.knob.rounded(one.slower).items()}
    (after,) = runner.numbers([one.conditions for one in kept], [rounded])
    rows = zip(kept, names, before, after, out, strict=True)
    return Calibration(
        platform,
        tuple(Point(one, name, _ps(one), was, _as_number(now), held) for one, name, was, now, held in rows),
        fitted,
        choice.left,
        tuple(undetermined(turned, solution.slopes)),
        tuple(skipped),
        solution.rounds,
        runner.runs,
    )


class _Search:
    """The measurements that are fitted to, and the simulator beside them."""

    def __init__(
        self, runner: Runner, measurements: Sequence[Measurement], before: Vector, on_step: OnStep | None = None
    ) -> None:
        self.runner = runner
        self.points = [one.conditions for one in measurements]
        self.measured = np.array([_ps(one) for one in measurements])
        self.before = before / self.measured - 1
        self.on_step = on_step or (lambda step: None)

    def refuse(self, unknowns: int, out: int) -> NoReturn:
        """Say that there are too few measurements."""
        expected = f"at least {unknowns + LEAST_FREE} to fit {unknowns} of the platform's parameters"
        found = f"{len(self.points)} measurements to fit to ({out} held out)"
        raise InputError(Mistake(found, expected, field="MEASUREMENTS"))

    def errors(self, knobs: Sequence[Knob], places: Sequence[Vector]) -> list[Vector]:
        """Simulated over measured, less one, of all points at several places."""
        found = self.runner.numbers(self.points, [_texts(knobs, place) for place in places])
        return [np.array([_as_number(one) for one in row]) / self.measured - 1 for row in found]

    def fit(self, knobs: Sequence[Knob], out: int, start: Mapping[str, float] = MappingProxyType({})) -> Solution:
        """Least squares over these knobs; ``start`` is where some of them are known to be, by name."""
        if len(self.points) < len(knobs) + LEAST_FREE:
            self.refuse(len(knobs), out)
        low, high = (np.array([getattr(knob, end) for knob in knobs]) for end in ("low", "high"))
        begin = np.clip(np.array([start.get(knob.name, 1.0) for knob in knobs]), low, high)
        return least_squares(
            lambda places: [soft(row) for row in self.errors(knobs, places)],
            begin,
            low,
            high,
            STEP * begin,
            lambda number, error: self.on_step(f"round {number}: rms {error:.2%}"),
        )

    def choose(self, platform: Platform, out: int) -> tuple[Choice, Solution]:
        """Fit the knobs that the measurements determine; the better the models agree with them, the more knobs these
        are.
        """
        first = candidates(platform, CANDIDATES)
        known = [*first, *candidates(platform, FURTHER)]
        self.on_step(f"which of {len(known)} parameters the measurements determine")
        ones = np.ones(len(known))
        matrix = slopes(
            lambda places: self.errors(known, places), ones, self.before, STEP * ones, np.full(len(known), np.inf)
        )
        most, noise = max(1, len(self.points) // 3), NOISE
        choice = choose(known, matrix, most, len(first), noise)
        if not choice.knobs:
            self.refuse(1, out)
        solution = self.fit(choice.knobs, out)
        while noise > FINEST and solution.rms < noise / 2:
            noise = max(FINEST, solution.rms)
            finer = choose(known, matrix, most, len(first), noise)
            if finer.knobs != choice.knobs:
                found = {knob.name: float(x) for knob, x in zip(choice.knobs, solution.x, strict=True)}
                choice, solution = finer, self.fit(finer.knobs, out, found)
        return choice, solution


def _texts(knobs: Sequence[Knob], place: Vector) -> Mapping[str, str]:
    return {path: text for knob, x in zip(knobs, place, strict=True) for path, text in knob.texts(float(x)).items()}


def _measurable(
    kept: Sequence[Measurement], skipped: list[tuple[str, str]], runner: Runner
) -> tuple[list[Measurement], list[float]]:
    """The measurements that the platform can make, and its numbers as it stands; the others go to ``skipped``."""
    (found,) = runner.numbers([one.conditions for one in kept], [{}])
    pairs = []
    for one, number in zip(kept, found, strict=True):
        if isinstance(number, str):
            skipped.append((one.conditions.name, number))
        else:
            pairs.append((one, number))
    if not pairs:
        why = f": {skipped[0][0]}: {skipped[0][1]}" if skipped else ""
        raise InputError(Mistake(f"no measurement that can be compared{why}", "some", field="MEASUREMENTS"))
    return [one for one, _ in pairs], [number for _, number in pairs]


def _as_number(found: float | str) -> float:
    assert not isinstance(found, str)
    return found


def _ps(one: Measurement) -> float:
    number = one.per_operation_ns
    assert number is not None
    return number * 1000
