"""The results of a run: its history, its timing and the system that it ran on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...models.meter import OperationCounts
from ...models.system import System
from ...protocols.objects import TRANSACTION
from ...protocols.scheme import Scheme
from ...sim.bytespace import Snapshot
from ...sim.statistics import summarise
from ..history import History
from ..schema.faults import USUAL, Fault


@dataclass(frozen=True)
class Hop:
    """A stretch of an operation's way, named after the place where the time goes (``doorbell``, ``wire``, ...)."""

    name: str
    start_ps: int
    end_ps: int


@dataclass
class RunResult:
    """One scheme run once on one platform."""

    scheme_name: str
    platform_label: str
    """The platform with what varied: ``optane-adr, ddio on``."""
    seed: int
    history: History
    initial: Mapping[Hashable, bytes]
    """The values loaded before time zero, by object."""
    loaded: Mapping[int, Snapshot]
    """The contents of the traced memory devices at time zero: pages by device number and page number."""
    system: System
    """Nodes, trace of persistence and byte spaces as the run left them."""
    scheme: Scheme
    measured_from_ps: int
    """End of the warm-up: operations invoked before it are not in the statistics."""
    elapsed_ps: int
    latency_ps: dict[str, npt.NDArray[np.int64]]
    """By operation name, in order of completion, warm-up left out."""
    completed_ps: dict[str, npt.NDArray[np.int64]]
    """When each of ``latency_ps`` completed."""
    hops: dict[str, list[Hop]]
    """By operation name: the mean way of the operations whose hops were kept, from 0."""
    loss_ps: int | None = None
    """The time of ``bounded_loss``, if the scenario or the scheme has one."""
    spans: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    """By number, of every so manieth operation: the hops of its way, and when each of them ended."""
    spent: dict[str, dict[str, float]] = field(default_factory=dict)
    """By role: CPU time and counts for each operation (``scenarios.run.cputime``)."""
    took: dict[str, list[OperationCounts]] = field(default_factory=dict)
    """By operation name, of a metered run: the depth and the counts of each operation of ``latency_ps``."""
    metered: dict[str, Any] = field(default_factory=dict)
    """Further fields of the summary, of a metered run (``scenarios.run.metered``)."""
    cost: dict[str, int] = field(default_factory=dict)
    """By role the price of its machines, where the platform has prices of their parts (``scenarios.run.cost``)."""
    fault: Fault = USUAL
    """The scenario's fault: it says which machines lose power."""
    over_time: dict[str, Any] = field(default_factory=dict)
    """Of a run with failures: these, and how much returned with which outcome in each interval of its time."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further fields of the summary, of a workload that computes something (``scenarios.run.ranking``)."""
    outages: list[tuple[str, int, int]] = field(default_factory=list)
    """The pauses of cores (core, from, for how long) that were drawn for it, if it ran on a disturbed schedule."""
    may_pause: list[tuple[str, int]] = field(default_factory=list)
    """Where servers' cores might have paused (core, at), if it was watched."""

    @property
    def counted(self) -> Mapping[str, npt.NDArray[np.int64]]:
        """Of ``latency_ps`` those that are operations of their own: a benchmark's transaction is there as ``txn`` and
        by its own name.
        """
        whole = self.latency_ps.get(TRANSACTION)
        return self.latency_ps if whole is None else {TRANSACTION: whole}

    @property
    def operations(self) -> int:
        return sum(len(values) for values in self.counted.values())

    @property
    def throughput_ops_per_s(self) -> float:
        measured_ps = self.elapsed_ps - self.measured_from_ps
        return self.operations * 1e12 / measured_ps if measured_ps > 0 else 0.0

    def summary(self) -> dict[str, object]:
        """The fields of ``rpsim run --json`` for this run."""
        network = self.system.network_counters()
        return {
            "scheme": self.scheme_name,
            "platform": self.platform_label,
            "operations": self.operations,
            "per_operation": self.spent,
            "throughput_ops_per_s": round(self.throughput_ops_per_s, 1),
            "latency_ns": {f: _latency_ns(values) for f, values in sorted(self.latency_ps.items()) if len(values)},
            **self.metered,
            **({"cost": self.cost} if self.cost else {}),
            **({} if network is None else {"network": network}),
            **self.over_time,
            **self.more,
        }


def _latency_ns(values: npt.NDArray[np.int64]) -> dict[str, float]:
    latency = summarise(values)
    exact = {"p50": latency.p50_ps, "p99": latency.p99_ps, "p999": latency.p999_ps, "mean": latency.mean_ps}
    return {name: round(ps / 1000, 3) for name, ps in exact.items()}
