"""YCSB's core workloads on a closed loop: which mix of updates and reads, and which keys.

Source: Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC'10, section 4 and table 2 (workloads
A, B, C; Zipfian requests with the constant 0.99 of YCSB's generator).

Two deliberate differences from YCSB's own client. Ranks are drawn from the exact Zipfian distribution by its
inverse, where YCSB uses the approximation of Gray et al., SIGMOD'94. And popular keys are spread over the key
space by a random permutation, where YCSB hashes ranks: no two ranks collide, so the popularity of the n-th most
popular key is exactly the closed form.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MIXES: dict[str, float] = {"a": 0.5, "b": 0.05, "c": 0.0, "update-only": 1.0}
"""The share of updates by mix; all other operations are reads."""

UPDATE, READ = "put", "get"
"""The operations that a scheme needs for these workloads."""

Ranks = npt.NDArray[np.int64]


def zipf_probabilities(keys: int, exponent: float) -> npt.NDArray[np.float64]:
    """The probability of each rank, most popular first: proportional to ``1 / rank**exponent``; 0 is uniform."""
    weights: npt.NDArray[np.float64] = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    weights /= weights.sum()
    return weights


class ZipfianKeys:
    """Draws keys ``0..keys-1`` whose popularity is Zipfian; ``order[rank]`` is the key with that rank."""

    def __init__(self, keys: int, exponent: float, permutation: np.random.Generator) -> None:
        self.order: Ranks = permutation.permutation(keys).astype(np.int64)
        cumulative = np.cumsum(zipf_probabilities(keys, exponent))
        # Rounding may leave the sum beside 1; the last rank takes what is missing.
        self._below = cumulative[:-1]

    def draw(self, random: np.random.Generator, count: int) -> Ranks:
        """``count`` keys, independent of each other."""
        return self.order[np.searchsorted(self._below, random.random(count), side="right")]


def draw_updates(mix: str, random: np.random.Generator, count: int) -> npt.NDArray[np.bool_]:
    """Which of ``count`` operations are updates: each on its own with the mix's share."""
    return random.random(count) < MIXES[mix]
