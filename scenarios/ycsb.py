"""YCSB's core workloads on a closed loop: which mix of operations, and which keys.

Source: Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC'10, section 4 and table 2 (workloads
A to E; Zipfian requests with the constant 0.99 of YCSB's generator); workload F and the greatest length of a scan
(100, uniform) from YCSB's own files ``workloads/workloadf`` and ``workloads/workloade``.

Two deliberate differences from YCSB's own client. Ranks are drawn from the exact Zipfian distribution by its
inverse, where YCSB uses the approximation of Gray et al., SIGMOD'94. And popular keys are spread over the key
space by a random permutation, where YCSB hashes ranks: no two ranks collide, so the popularity of the n-th most
popular key is exactly the closed form.

Beyond :data:`STORED_KEYS` keys nothing is tabulated: ranks come from rejection-inversion (Hörmann and Derflinger, ACM
TOMACS 6(3), 1996), which draws from the same distribution, exactly, and the permutation is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..sim.permutation import Permutation


class Shares(NamedTuple):
    """The shares of the kinds of operations; all others are reads."""

    updates: float = 0.0
    inserts: float = 0.0
    scans: float = 0.0
    modifies: float = 0.0
    """Read-modify-writes: a read, then an update of the same key."""


MIXES: dict[str, Shares] = {
    "a": Shares(updates=0.5),
    "b": Shares(updates=0.05),
    "c": Shares(),
    "d": Shares(inserts=0.05),
    "e": Shares(inserts=0.05, scans=0.95),
    "f": Shares(modifies=0.5),
    "update-only": Shares(updates=1.0),
    "load": Shares(inserts=1.0),
}
"""The core workloads by letter, ``update-only``, and YCSB's loading phase, in which each operation writes a new key."""
LATEST = "d"
"""The mix whose reads go to the newest keys."""
LONGEST_SCAN = 100

UPDATE, READ = "put", "get"
"""The operations of these workloads. A scan is one request of several reads, of keys that follow each other; each of
its reads is judged alone, unless objects follow the model ``txn``: then a request is a transaction, and a scan is one.
"""
SCAN, MODIFY = "scan", "modify"
"""What a scan by single reads, and a read-modify-write, are called where they are timed: from the first request's
invocation to the last one's return."""
DELETE = "delete"
"""The operations that some updates become if a workload says so: YCSB's core workloads delete nothing."""

Ranks = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def zipf_probabilities(keys: int, exponent: float) -> npt.NDArray[np.float64]:
    """The probability of each rank, most popular first: proportional to ``1 / rank**exponent``; 0 is uniform."""
    weights: npt.NDArray[np.float64] = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    weights /= weights.sum()
    return weights


STORED_KEYS = 1 << 17
"""Up to so many keys tables are made, one entry a key."""


class ZipfianKeys:
    """Draws keys ``0..keys-1`` whose popularity is Zipfian; ``key_of(rank)`` is the key with that rank."""

    def __init__(self, keys: int, exponent: float, permutation: np.random.Generator) -> None:
        self._ranks: Callable[[np.random.Generator, int], Ranks]
        self.key_of: Callable[[int], int]
        if keys <= STORED_KEYS:
            order: Ranks = permutation.permutation(keys).astype(np.int64)
            cumulative = np.cumsum(zipf_probabilities(keys, exponent))
            below = cumulative[:-1]  # rounding may leave the sum beside 1; the last rank takes the rest
            self._ranks = lambda random, count: np.searchsorted(below, random.random(count), side="right")
            self.key_of = lambda rank: int(order[rank])
        else:
            self._ranks = ZipfianRanks(keys, exponent).draw
            self.key_of = Permutation(keys, int(permutation.integers(1 << 62)))

    def draw_ranks(self, random: np.random.Generator, count: int) -> Ranks:
        """``count`` ranks, 0 the most popular, independent of each other."""
        return self._ranks(random, count)

    def draw(self, random: np.random.Generator, count: int) -> list[int]:
        """``count`` keys, independent of each other."""
        ranks, places = np.unique(self._ranks(random, count), return_inverse=True)
        keys = [self.key_of(rank) for rank in ranks.tolist()]
        return [keys[place] for place in places.tolist()]


class ZipfianRanks:
    """Draws ranks ``0..n-1`` with probabilities proportional to ``(rank + 1)**-exponent``, without a table.

    Source: Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
    ACM TOMACS 6(3), 1996.
    """

    def __init__(self, n: int, exponent: float) -> None:
        self._n, self._q = n, exponent
        self._first = float(self._integral(np.array(1.5))) - 1.0
        self._last = float(self._integral(np.array(n + 0.5)))
        self._sure = 2.0 - float(self._inverse(self._integral(np.array(2.5)) - 2.0**-exponent))

    def draw(self, random: np.random.Generator, count: int) -> Ranks:
        """``count`` ranks, independent of each other."""
        found = np.empty(0, dtype=np.int64)
        while len(found) < count:
            u = self._last + random.random(count - len(found)) * (self._first - self._last)
            x = self._inverse(u)
            k = np.clip(np.rint(x), 1, self._n)
            taken = (k - x <= self._sure) | (u >= self._integral(k + 0.5) - k**-self._q)
            found = np.concatenate((found, k[taken].astype(np.int64) - 1))
        return found

    def _integral(self, x: Reals) -> Reals:
        """Of ``x**-q``, from 1 on."""
        logs: Reals = np.log(x)
        t = (1.0 - self._q) * logs
        return logs * np.where(np.abs(t) > 1e-8, np.expm1(t) / np.where(t == 0, 1, t), 1.0 + t / 2)

    def _inverse(self, u: Reals) -> Reals:
        t = np.maximum(u * (1.0 - self._q), -1.0)
        scale = np.where(np.abs(t) > 1e-8, np.log1p(t) / np.where(t == 0, 1, t), 1.0 - t / 2)
        return np.exp(u * scale)


def draw_kinds(shares: Shares, random: np.random.Generator, count: int) -> Ranks:
    """The kind of each of ``count`` operations, drawn on its own: its place in :class:`Shares`, or their number for a
    read.
    """
    return np.searchsorted(np.cumsum(shares), random.random(count), side="right").astype(np.int64)


def take_turns(shares: Shares, count: int) -> Ranks:
    """The kinds of ``count`` updates and reads in a fixed turn, an update first: with as many of both they alternate,
    with 19 times as many updates a read comes behind every 19 of them.
    """
    share = Fraction(str(round(shares.updates, 9)))
    turns = [-(-turn * share.numerator // share.denominator) for turn in range(count + 1)]
    update, read = Shares._fields.index("updates"), len(Shares._fields)
    return np.array([update if after > before else read for before, after in pairwise(turns)], dtype=np.int64)
