"""The parts of operations' latency: how long each took on its way, and the means over many operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter

from ..history import Operation
from .results import Hop

_NUMBER = re.compile(r" \d+$")
"""The number of a process: whose processor's time it was does not matter in a mean."""


def way(operation: Operation, marks: Iterable[tuple[str, int]]) -> list[Hop]:
    """The stretches of an operation's time, one behind the other from its invocation to its response.

    ``marks`` says which hops have ended when; what no mark covers at the end is the client's own time.
    """
    hops, start_ps, return_ps = [], operation.invoke_ps, operation.return_ps or 0
    for name, end_ps in sorted(marks, key=itemgetter(1)):
        if start_ps < end_ps <= return_ps:
            hops.append(Hop(name, start_ps, end_ps))
            start_ps = end_ps
    if return_ps > start_ps:
        hops.append(Hop("CPU of client", start_ps, return_ps))
    return hops


class MeanWay:
    """The mean way of operations: of each part the mean time over all of them, also where one has no such part."""

    def __init__(self) -> None:
        self._operations = 0
        self._took_ps: dict[str, int] = {}
        self._ended_ps: dict[str, int] = {}
        """By part: the sum of the instants at which it ended last, from each operation's invocation."""
        self._had: dict[str, int] = {}
        """By part: how many operations had it."""

    def add(self, hops: list[Hop]) -> None:
        """One more operation's way."""
        self._operations += 1
        ended_ps: dict[str, int] = {}
        for hop in hops:
            name = _NUMBER.sub("", hop.name)
            self._took_ps[name] = self._took_ps.get(name, 0) + hop.end_ps - hop.start_ps
            ended_ps[name] = hop.end_ps - hops[0].start_ps
        for name, at_ps in ended_ps.items():
            self._ended_ps[name] = self._ended_ps.get(name, 0) + at_ps
            self._had[name] = self._had.get(name, 0) + 1

    def parts_ps(self) -> dict[str, float]:
        """By part, in the order in which parts end in the mean: the mean time. They add up to the mean latency."""
        order = sorted(self._took_ps, key=lambda name: (self._ended_ps[name] / self._had[name], name))
        return {name: self._took_ps[name] / self._operations for name in order}

    def hops(self) -> list[Hop]:
        """The mean way as stretches from 0."""
        hops, start_ps = [], 0.0
        for name, took_ps in self.parts_ps().items():
            hops.append(Hop(name, round(start_ps), round(start_ps + took_ps)))
            start_ps += took_ps
        return hops
