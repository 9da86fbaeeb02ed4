"""Confidence intervals of independent samples: Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

LEVEL = 0.95


def student(free: int, level: float = LEVEL) -> float:
    """Student's two-sided quantile of ``free`` degrees of freedom.

    The expansion of Abramowitz, Stegun, 26.7.5, exact for 1 and 2.
    """
    p = (1 + level) / 2
    if free == 1:
        return math.tan(math.pi * (p - 0.5))
    if free == 2:
        return (2 * p - 1) * math.sqrt(1 / (2 * p * (1 - p)))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / float(free) ** power for power, term in enumerate(terms, start=1))


@dataclass(frozen=True)
class Interval:
    """The mean of independent samples and half its confidence interval at ``LEVEL``."""

    mean: float
    half_width: float | None
    """None for a single sample: it says nothing of its own spread."""
    samples: int


def interval(values: Sequence[float]) -> Interval:
    """The mean of independent samples with its interval. ValueError (StatisticsError) where there are none."""
    n = len(values)
    if n < 2:
        return Interval(fmean(values), None, n)
    return Interval(fmean(values), student(n - 1) * stdev(values) / math.sqrt(n), n)
