"""Which parameters measurements determine, how sharply, and which they cannot separate.

All of it comes out of the slopes: how much each measurement changes (as a share of itself) when a parameter does (as a
share of itself). Sources: Belsley, Kuh, Welsch, Regression Diagnostics, Wiley 1980, chapter 3; Golub, Van Loan, Matrix
Computations, section 5.4 (subset selection by QR with column pivoting).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....sim.intervals import student
from .knobs import Knob
from .solver import CUT, Vector

NOISE = 0.03
"""How well simulated and measured agree where parameters are right, as a share; parameters are chosen by it."""
FINEST = 2e-3
"""The best agreement that is believed: perftest prints a microsecond in two decimals."""
LOOSE = 0.3
"""A parameter that would be known no better than to this share of itself is not fitted on its own."""
STRICTER = 2
"""A further parameter has to be separated so many times as sharply as the first ones."""
ALIKE = 0.95
"""From this correlation of two errors on, the report names the pair."""
STILL = 2e-3
"""A parameter that moves no measurement by this share, when it doubles, is not fitted."""
PARTNER = 0.2
"""Share of an undetermined direction from which on a parameter is named in it."""


@dataclass(frozen=True)
class Choice:
    """The knobs to turn, and the knobs left alone, with the reason for each."""

    knobs: tuple[Knob, ...]
    left: tuple[tuple[str, str], ...]


def choose(knobs: Sequence[Knob], slopes: Vector, most: int, first: int = 0, noise: float = NOISE) -> Choice:
    """Choose, of the knobs, the ones that measurements with these slopes determine; at most ``most`` of them.

    One after the other: the knob that changes the measurements most, apart from the changes of knobs chosen already;
    the first ``first`` of them before all others. ``noise`` is how well measurements and simulation agree, as a share.
    """
    rest = slopes.copy()
    chosen: list[int] = []
    moving = np.abs(slopes).max(axis=0) >= STILL
    least = noise / LOOSE
    for tier, limit in ((range(first), least), (range(first, len(knobs)), STRICTER * least)):
        alive = [index for index in tier if moving[index]]
        while alive and len(chosen) < most:
            sizes = np.linalg.norm(rest[:, alive], axis=0)
            if sizes.max() < limit:
                break
            best = alive.pop(int(np.argmax(sizes)))
            chosen.append(best)
            unit = rest[:, best] / sizes.max()
            rest = rest - np.outer(unit, unit @ rest)
    left = [
        (knob.name, _why(index, knobs, slopes, chosen) if moving[index] else "no measurement moves with it")
        for index, knob in enumerate(knobs)
        if index not in chosen
    ]
    return Choice(tuple(knobs[index] for index in sorted(chosen)), tuple(left))


def _why(index: int, knobs: Sequence[Knob], slopes: Vector, chosen: Sequence[int]) -> str:
    """The reason why a knob is left: the chosen knobs that have the same effect, in words."""
    if not chosen:
        return "the measurements hardly move with it"
    shares, *_ = np.linalg.lstsq(slopes[:, chosen], slopes[:, index], rcond=CUT)
    sizes = np.abs(shares) * np.linalg.norm(slopes[:, chosen], axis=0)
    named = [knobs[chosen[at]].paths[0] for at in np.argsort(-sizes)[:2] if sizes[at] > PARTNER * sizes.max()]
    return f"not told apart from {' and '.join(named)}"


@dataclass(frozen=True)
class Certainty:
    """How well one unknown is known."""

    error: float
    """Half of the confidence interval, in the unit of the unknown; infinite where nothing determines it."""
    apart: float
    """The share of its slopes that no other unknown has: 1 is separate from all, 0 from none."""
    like: str
    """The other knob that its error is most correlated with, if that is more than ALIKE."""
    series: tuple[tuple[str, float], ...]
    """The series that determine it, and the share of each, largest first."""


def certainties(knobs: Sequence[Knob], slopes: Vector, residuals: Vector, series: Sequence[str]) -> list[Certainty]:
    """The certainty of every knob, from the slopes at the solution and the residuals there."""
    count, unknowns = slopes.shape
    _, sizes, directions = np.linalg.svd(slopes, full_matrices=False)
    kept = sizes > CUT * sizes.max() if len(sizes) and sizes.max() > 0 else np.zeros_like(sizes, dtype=bool)
    free = count - int(kept.sum())
    variance = float(residuals @ residuals) / free if free > 0 else math.inf
    scaled = directions[kept] / sizes[kept, None]
    covariance = scaled.T @ scaled
    lost = np.square(directions[~kept]).sum(axis=0) if (~kept).any() else np.zeros(unknowns)
    spread = np.sqrt(np.maximum(np.diag(covariance), 0))
    still = np.linalg.norm(slopes, axis=0) == 0
    found = []
    for index in range(unknowns):
        alone = _apart(slopes, index)
        norm = float(np.linalg.norm(slopes[:, index]))
        undetermined = lost[index] > PARTNER**2 or norm == 0
        error = math.inf if undetermined or free <= 0 else student(free) * math.sqrt(variance) * float(spread[index])
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = np.nan_to_num(covariance[index] / (spread[index] * spread))
        # A knob that no measurement moves with is like no other: its correlation is rounding alone.
        correlation[still | still[index]] = correlation[index] = 0
        other = int(np.argmax(np.abs(correlation)))
        like = knobs[other].name if unknowns > 1 and abs(correlation[other]) > ALIKE else ""
        apart = float(np.linalg.norm(alone)) / norm if norm else 0.0
        found.append(Certainty(error, apart, like, _shares(alone, series)))
    return found


def _apart(slopes: Vector, index: int) -> Vector:
    """A column less its projection on all others."""
    others = np.delete(slopes, index, axis=1)
    if not others.shape[1]:
        return slopes[:, index]
    shares, *_ = np.linalg.lstsq(others, slopes[:, index], rcond=CUT)
    alone: Vector = slopes[:, index] - others @ shares
    return alone


def _shares(column: Vector, series: Sequence[str]) -> tuple[tuple[str, float], ...]:
    total = float(column @ column)
    sums: dict[str, float] = {}
    for value, name in zip(column, series, strict=True):
        sums[name] = sums.get(name, 0.0) + float(value) ** 2
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    return tuple((name, share / total) for name, share in ordered) if total else ()


def undetermined(knobs: Sequence[Knob], slopes: Vector) -> list[tuple[str, ...]]:
    """Groups of knobs that may change together without any measurement doing so."""
    if not slopes.size:
        return []
    _, sizes, directions = np.linalg.svd(slopes, full_matrices=True)
    sizes = np.concatenate([sizes, np.zeros(len(directions) - len(sizes))])
    weak = directions[sizes <= CUT * max(float(sizes.max()), 1e-300)]
    return [tuple(knob.name for knob, part in zip(knobs, one, strict=True) if abs(part) > PARTNER) for one in weak]
