"""The figures of a metered run: round trips, counts and parts by operation; traffic and gauges by machine.

Figures by operation are over the operations that latency is measured over; traffic and gauges are over the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...models.cpu import Thread
from ...models.meter import Meter, OperationCounts
from ...models.verbs import Span
from ...sim.statistics import percentile_ps
from ..history import Operation
from .parts import MeanWay, way


class Metered:
    """The figures of one run as they come; the first ``warmup`` operations to end are left out of mean parts."""

    def __init__(self, meter: Meter, warmup: int) -> None:
        self.meter = meter
        self._warmup = warmup
        self._ended = 0
        self._took: dict[int, OperationCounts] = {}
        """By number of the operation."""
        self._parts: dict[str, MeanWay] = {}

    def begins(self, thread: Thread) -> None:
        """An operation begins on ``thread``."""
        self.meter.begins(thread)

    def ended(self, operation: Operation, thread: Thread, span: Span) -> None:
        """An operation has ended on ``thread``; ``span`` has the marks of its way."""
        self._took[operation.number] = self.meter.ended(thread, span)
        self._ended += 1
        if self._ended > self._warmup:
            self._parts.setdefault(operation.f, MeanWay()).add(way(operation, span.marks))

    def took(self, measured: Iterable[Operation]) -> dict[str, list[OperationCounts]]:
        """By operation name: the depth and the counts of each of these operations."""
        by_name: dict[str, list[OperationCounts]] = {}
        for operation in measured:
            if operation.number in self._took:
                by_name.setdefault(operation.f, []).append(self._took[operation.number])
        return by_name

    def fields(self, took: Mapping[str, Sequence[OperationCounts]]) -> dict[str, Any]:
        """The fields of ``rpsim run --json`` that a metered run has beside the others; ``took`` as above."""
        traffic = [
            {
                "from": here, "to": there, "verbs": dict(sorted(one.verbs.items())), "messages": one.messages,
                "payload_bytes": one.payload_bytes,
            }
            for (here, there), one in sorted(self.meter.traffic.items())
        ]  # fmt: skip
        gauges: dict[str, dict[str, dict[str, float]]] = {}
        for (machine, name), gauge in sorted(self.meter.gauges.items()):
            gauges.setdefault(machine, {})[name] = {
                key: round(value, 4) for key, value in gauge.summary()._asdict().items()
            }
        return {
            "round_trips": {f: summary_of([one.depth / 2 for one in own]) for f, own in sorted(took.items())},
            "parts_ns": {
                f: {name: round(ps / 1000, 3) for name, ps in mean.parts_ps().items()}
                for f, mean in sorted(self._parts.items())
            },
            "counts": {f: found for f, own in sorted(took.items()) if (found := _counts(own))},
            "machine_counts": {
                machine: dict(sorted(own.items())) for machine, own in sorted(self.meter.counts.items())
            },
            "gauges": gauges,
            "traffic": traffic,
        }


def _counts(own: Sequence[OperationCounts]) -> dict[str, dict[str, float]]:
    """By name of what was counted: over all operations, also those that counted none of it."""
    names = sorted({name for one in own for name in one.counts})
    return {name: summary_of([float(one.counts[name]) for one in own]) for name in names}


def summary_of(values: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles; ``values`` are halves of whole numbers."""
    halves = np.array([round(2 * value) for value in values], dtype=np.int64)
    found = {name: percentile_ps(halves, percent) / 2 for name, percent in (("p50", 50), ("p99", 99))}
    return {**found, "mean": round(float(halves.sum()) / 2 / len(halves), 4)}
