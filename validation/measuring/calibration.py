"""The calibration: a platform's times and rates fitted to measurements, some of which are held out to see how it did.

An error is a share: simulated over measured, less one, of the median latency where one operation is under way and of
the time from one operation to the next where more are. All measurements weigh the same. Errors beyond ROUGH count by
their size and no longer by its square (pseudo-Huber: Charbonnier et al., ICIP 1994), so that what the models get wrong
in one place does not bend parameters that other measurements determine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...models.platform import Platform
from ...sim.errors import InputError, Mistake
from ...sim.units import format_bytes
from .conditions import Conditions, Measurement, series_names
from .identify import Certainty, Choice, certainties, choose, undetermined
from .knobs import CANDIDATES, FURTHER, Knob, candidates
from .runner import Runner
from .solver import Vector, least_squares, root_mean_square, slopes

STEP = 0.02
"""Of an unknown, for its slopes: above the rounding to picoseconds, below most kinks."""
ROUGH = 0.05
HELD_OUT = 0.25
LARGEST_BYTES = 64 << 10
LEAST_FREE = 2
"""Measurements beyond the number of unknowns."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A measurement, and what the platform has there before the fit and after."""

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
    """A knob and what was found for it."""

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
    """What a calibration found; without ``fitted`` it is a comparison."""

    platform: Platform
    points: tuple[Point, ...]
    fitted: tuple[Fitted, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    """Parameters that were not fitted, and why."""
    together: tuple[tuple[str, ...], ...] = ()
    """Groups that the measurements do not tell apart."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Measurements that were left out, and why."""
    rounds: int = 0
    runs: int = 0

    def texts(self) -> dict[str, str]:
        """The fitted parameters as a profile states them."""
        return {path: text for one in self.fitted for path, text in one.knob.rounded(one.slower).items()}

    def of(self, held_out: bool) -> list[Point]:
        """The points that were fitted to, or those that were not."""
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
    """Those that are compared, as the platform would be asked, and those that are left out, with the reason."""
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
            kept.append(replace(one, conditions=_asked(about, platform)))
    return kept, skipped


def _asked(about: Conditions, platform: Platform) -> Conditions:
    """Without what the platform leaves no choice about: a report of ``inline`` beyond its limit is its own choice."""
    inline = about.inline
    if inline and about.size_bytes > platform.nic.inline_max_bytes:
        inline = None
    return replace(about, inline=inline)


def held_out(measurements: Sequence[Measurement], share: float) -> list[bool]:
    """Which are held out: of each series, by size, inner points at equal distances, so that none is extrapolated."""
    chosen = [False] * len(measurements)
    if share <= 0:
        return chosen
    every = max(2, round(1 / share))
    by_series: dict[str, list[int]] = {}
    for index, name in enumerate(series_names([one.conditions for one in measurements])):
        by_series.setdefault(name, []).append(index)
    for indexes in by_series.values():
        indexes.sort(key=lambda index: measurements[index].conditions.size_bytes)
        for index in indexes[every // 2 : -1 : every]:
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
    tell: Tell | None = None,
) -> Calibration:
    """Fit ``knobs`` (None: those that the measurements determine) to all measurements but those that are held out.

    Raises InputError where there are fewer measurements than it takes.
    """
    platform = runner.base.platform()
    kept, skipped = prepare(measurements, platform, largest_bytes)
    kept, before = _measurable(kept, skipped, runner)
    out = held_out(kept, share)
    inner = [index for index, held in enumerate(out) if not held]
    points = [kept[index].conditions for index in inner]
    measured = np.array([_ps(kept[index]) for index in inner])
    at_base = np.array([before[index] for index in inner]) / measured - 1
    choice = (
        Choice(tuple(knobs), ()) if knobs is not None else _chosen(platform, runner, points, measured, at_base, tell)
    )
    turned = choice.knobs
    if len(inner) < len(turned) + LEAST_FREE or not turned:
        expected = f"at least {max(1, len(turned)) + LEAST_FREE} measurements to fit {max(1, len(turned))} parameters"
        what = f"{len(inner)} to fit to" if turned else f"{len(inner)}, with which no parameter can be told"
        raise InputError(Mistake(f"{what} ({sum(out)} held out)", expected, field="MEASUREMENTS"))

    def residuals(places: Sequence[Vector]) -> list[Vector]:
        variants = [_texts(turned, place) for place in places]
        found = runner.numbers(points, variants)
        return [soft(np.array([_as_number(one) for one in row]) / measured - 1) for row in found]

    low, high = (np.array([getattr(knob, end) for knob in turned]) for end in ("low", "high"))
    start = np.clip(np.ones(len(turned)), low, high)
    solution = least_squares(
        residuals,
        start,
        low,
        high,
        STEP * start,
        lambda number, error: tell and tell(f"round {number}: rms {error:.2%}"),
    )
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


def _chosen(
    platform: Platform,
    runner: Runner,
    points: Sequence[Conditions],
    measured: Vector,
    at_base: Vector,
    tell: Tell | None,
) -> Choice:
    """The knobs that these measurements determine, by the slopes at the platform as it stands."""
    first = candidates(platform, CANDIDATES)
    known = [*first, *candidates(platform, FURTHER)]
    if tell:
        tell(f"which of {len(known)} parameters the measurements determine")
    if not points:
        return Choice((), ())

    def residuals(places: Sequence[Vector]) -> list[Vector]:
        found = runner.numbers(points, [_texts(known, place) for place in places])
        return [np.array([_as_number(one) for one in row]) / measured - 1 for row in found]

    ones = np.ones(len(known))
    matrix = slopes(residuals, ones, at_base, STEP * ones, np.full(len(known), np.inf))
    return choose(known, matrix, max(1, len(points) // 3), len(first))


def _texts(knobs: Sequence[Knob], place: Vector) -> Mapping[str, str]:
    return {path: text for knob, x in zip(knobs, place, strict=True) for path, text in knob.texts(float(x)).items()}


def _measurable(
    kept: Sequence[Measurement], skipped: list[tuple[str, str]], runner: Runner
) -> tuple[list[Measurement], list[float]]:
    """Those that the platform can be asked, and what it answers as it stands; the others go to ``skipped``."""
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
