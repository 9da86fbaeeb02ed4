"""Least squares with bounds, for residuals that are dear to compute and nearly linear: Gauss-Newton, cut to the box.

The residuals come from a simulator: times are sums and maxima of its parameters, so that they are linear but for kinks.
Slopes are differences of two runs; after two rounds they are corrected instead (Broyden, Math. Comp. 19, 1965), until
that helps no more. There is no move along directions that the residuals do not separate: a singular value decomposition
cut at ``CUT`` gives the shortest of all steps (Hansen, Rank-Deficient and Discrete Ill-Posed Problems, SIAM 1998).

``scipy.optimize.least_squares`` with the same slopes and tolerances takes more runs of the simulator:
docs/architecture.md ("Defence of the design") has the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Residuals = Callable[[Sequence[Vector]], Sequence[Vector]]
"""The residuals at several points, which may be computed side by side."""
Progress = Callable[[int, float], None]
"""Called with the number of a round and the root of the mean square of its residuals."""

CUT = 1e-3
"""Singular values below this share of the largest count as none."""
MOST_ROUNDS = 15
EXACT_ROUNDS = 2
"""Rounds whose slopes are always taken anew."""
SHORTER = (0.5, 0.2, 0.05)
"""The fractions to try of a step that did not help."""
SMALL_STEP, SMALL_GAIN = 1e-4, 1e-2


@dataclass(frozen=True)
class Solution:
    """Where the sum of squares is least, the residuals there and their slopes."""

    x: Vector
    residuals: Vector
    slopes: Vector
    rounds: int

    @property
    def rms(self) -> float:
        """Root of the mean square of the residuals."""
        return root_mean_square(self.residuals)


def root_mean_square(values: Vector) -> float:
    """The root of the mean square; 0 for no values."""
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0


def slopes(residuals: Residuals, x: Vector, at_x: Vector, step: Vector, high: Vector) -> Vector:
    """How the residuals change with each unknown: a column for each. A step that would leave the box goes back."""
    steps = np.where(x + step > high, -step, step)
    moved = residuals([x + unit for unit in np.diag(steps)])
    return np.column_stack([(one - at_x) / size for one, size in zip(moved, steps, strict=True)])


def shortest_step(matrix: Vector, residuals: Vector) -> Vector:
    """The least-squares step, and of all such the shortest."""
    found, *_ = np.linalg.lstsq(matrix, -residuals, rcond=CUT)
    return np.asarray(found, dtype=np.float64)


def least_squares(
    residuals: Residuals,
    start: Vector,
    low: Vector,
    high: Vector,
    step: Vector,
    progress: Progress | None = None,
) -> Solution:
    """Minimize the sum of squares within ``low`` and ``high``; ``step`` is how far slopes are taken.

    Raises ValueError where the box is empty or the start outside.
    """
    if not (np.all(low < high) and np.all(low <= start) and np.all(start <= high)):
        raise ValueError("the start is not within its bounds, or a lower bound is not below its upper one")
    x, rounds, exact = start.astype(np.float64), 0, True
    (at_x,) = residuals([x])
    matrix = slopes(residuals, x, at_x, step, high)
    while rounds < MOST_ROUNDS:
        rounds += 1
        downhill = matrix.T @ at_x
        free = ~(((x <= low) & (downhill > 0)) | ((x >= high) & (downhill < 0)))
        if not free.any():
            break
        move = np.zeros_like(x)
        move[free] = shortest_step(matrix[:, free], at_x)
        better = _better(residuals, x, at_x, move, low, high)
        if better is None:
            if exact:
                break
            matrix, exact = slopes(residuals, x, at_x, step, high), True
            continue
        moved, at_moved = better
        gain = 1 - float(at_moved @ at_moved) / max(float(at_x @ at_x), 1e-30)
        went, change = moved - x, at_moved - at_x
        x, at_x = moved, at_moved
        if progress is not None:
            progress(rounds, root_mean_square(at_x))
        done = float(np.abs(went).max()) < SMALL_STEP * float(np.abs(x).max()) or gain < SMALL_GAIN
        if done and exact:
            break
        if done or rounds < EXACT_ROUNDS:
            matrix, exact = slopes(residuals, x, at_x, step, high), True
        else:
            matrix = matrix + np.outer(change - matrix @ went, went) / float(went @ went)
            exact = False
    if not exact or rounds > 1:
        matrix = slopes(residuals, x, at_x, step, high)
    return Solution(x, at_x, matrix, rounds)


def _better(
    residuals: Residuals, x: Vector, at_x: Vector, move: Vector, low: Vector, high: Vector
) -> tuple[Vector, Vector] | None:
    """The end of the step, or of a shorter one, if the sum of squares is less there."""
    least = float(at_x @ at_x)
    for shares in ((1.0,), SHORTER):
        ends = [np.clip(x + share * move, low, high) for share in shares]
        found = list(zip(ends, residuals(ends), strict=True))
        end, there = min(found, key=lambda one: float(one[1] @ one[1]))
        if float(there @ there) < least and not np.array_equal(end, x):
            return end, there
    return None
