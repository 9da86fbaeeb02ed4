"""Statistics of a run: exact percentiles, throughput over time, a confidence interval.

Percentiles are values that occurred (nearest rank), so they are integers and the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

import numpy as np
import numpy.typing as npt

from .units import PS_PER_S

Times = npt.NDArray[np.int64]

_BATCHES = 20
_T_95 = 2.093  # Student's t, two-sided 95 %, 19 degrees of freedom


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """A set of latencies in short: mean and percentiles, in picoseconds."""

    count: int
    mean_ps: float
    p50_ps: int
    p99_ps: int
    p999_ps: int
    max_ps: int


def percentile_ps(latency_ps: Times, percent: float) -> int:
    """The smallest latency that ``percent`` of all do not exceed. ValueError where there are none."""
    if not len(latency_ps):
        raise ValueError("no operation, no percentile")
    # The rank by integers: 99.9 % of 1000 is the 999th, but 99.9 / 100 * 1000 is a little more as a float.
    rank = int((Decimal(str(percent)) * len(latency_ps) / 100).to_integral_value(ROUND_CEILING))
    index = max(rank, 1) - 1
    return int(np.partition(latency_ps, index)[index])


def summarise(latency_ps: Times) -> LatencySummary:
    """Count, mean and percentiles. ValueError where there are none."""
    p50, p99, p999 = (percentile_ps(latency_ps, percent) for percent in (50, 99, 99.9))
    # Summed as Python integers: an int64 overflows after a hundred days of summed picoseconds.
    mean_ps = sum(latency_ps.tolist()) / len(latency_ps)
    return LatencySummary(len(latency_ps), mean_ps, p50, p99, p999, int(latency_ps.max()))


def throughput_over_time(
    completed_ps: Times | Sequence[int], bucket_ps: int, start_ps: int = 0, end_ps: int | None = None
) -> tuple[Times, npt.NDArray[np.float64]]:
    """Begin of each bucket, and the operations a second that completed in it, from ``start_ps`` to before ``end_ps``.

    The last bucket is counted by its true width. Without ``end_ps`` the buckets reach past the last completion.
    """
    if bucket_ps < 1:
        raise ValueError(f"a bucket is at least 1 ps wide, not {bucket_ps}")
    completed = np.asarray(completed_ps, dtype=np.int64)
    if end_ps is None:
        last = int(completed.max()) if len(completed) else start_ps - 1
        end_ps = start_ps + -(-(last + 1 - start_ps) // bucket_ps) * bucket_ps
    begins = np.arange(start_ps, end_ps, bucket_ps, dtype=np.int64)
    inside = completed[(completed >= start_ps) & (completed < end_ps)]
    counts = np.bincount((inside - start_ps) // bucket_ps, minlength=len(begins))
    widths = np.minimum(begins + bucket_ps, end_ps) - begins
    return begins, counts * (PS_PER_S / widths)


def mean_and_half_width_ps(values_ps: Times) -> tuple[float, float]:
    """The mean of a stationary, correlated series and half its 95 % confidence interval, by 20 batch means.

    Source: Law and Kelton, Simulation Modeling and Analysis, chapter 9. ValueError for fewer than 20 values.
    """
    size = len(values_ps) // _BATCHES
    if size < 1:
        raise ValueError(f"batch means need at least {_BATCHES} values, not {len(values_ps)}")
    means = values_ps[-size * _BATCHES :].reshape(_BATCHES, size).mean(axis=1)
    return float(means.mean()), float(_T_95 * means.std(ddof=1) / np.sqrt(_BATCHES))
