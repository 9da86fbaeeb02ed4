"""The costs of a primitive on a configuration: latency by size and hop, throughput, CPU time, bytes, packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...protocols.shapes import shaped
from ...scenarios.build import Draft
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.results import RunResult
from ...sim.units import PS_PER_S, format_bytes
from .configurations import Configuration

SIZES = (8, 64, 512, 4096, 65536)
QUEUE_PAIRS = (1, 8, 64)
THROUGHPUT_BYTES = 64
OPERATIONS = 20
"""Of one queue pair, for a latency; the first few are the warm-up."""
EACH = 8
"""Of each of several queue pairs."""
WARM_UP = 4
OBJECTS = 16
MACHINES = 4
"""Several queue pairs belong to client processes on so many machines."""


@dataclass
class Latency:
    """Of one size, with one operation under way."""

    p50_ns: float
    p99_ns: float
    cpu_ns: float
    """Of the responder, an operation."""
    wire_bytes: float
    """In both directions, an operation, headers included."""
    packets: float
    hops: list[tuple[str, float]] = field(default_factory=list)
    """Where the time of a typical operation goes: (hop, nanoseconds), in order."""


@dataclass
class Costs:
    """All of a primitive on a configuration."""

    latency: dict[int, Latency] = field(default_factory=dict)
    """By the size of an update, in bytes."""
    throughput: dict[int, float] = field(default_factory=dict)
    """By the number of queue pairs: operations of 64 B a second."""


def run(scheme: str, configuration: Configuration, size: int, queue_pairs: int, seed: int = 1) -> RunResult:
    """One measurement: clients that update in place, each on a queue pair of its own."""
    machines = min(MACHINES, queue_pairs)
    operations = OPERATIONS if queue_pairs == 1 else EACH * queue_pairs
    scenario = Draft.new(
        "matrix-timing",
        scenario="matrix-timing",
        seed=seed,
        vary=configuration.vary(),
        schemes=[scheme],
        roles={"client": {"machines": machines, "processes": queue_pairs // machines}},
        workload={
            "kind": "ycsb", "mix": "update-only", "keys": OBJECTS, "value": format_bytes(size), "zipf": 0.0,
            "operations": operations, "warmup": min(WARM_UP * queue_pairs, operations // 3),
        },
    ).build()  # fmt: skip
    return run_variant(scenario, scenario.variants()[0], recorded=False)


def latency(result: RunResult, batching: int = 1, responder: str = "server") -> Latency | None:
    """Of a run with one queue pair, each of whose operations hands over ``batching`` updates; None where nothing
    completed. The CPU time is that of all machines of the role ``responder``.
    """
    times = result.latency_ps["put"]
    done = batching * sum(o.outcome == "ok" for o in result.history.operations)
    if not len(times) or not done:
        return None
    pipes = [node.nic.port.pipe for nodes in result.system.nodes.values() for node in nodes]
    carried = sum(pipe.busy_ps * pipe.bits_per_s for pipe in pipes) / (8 * PS_PER_S)
    hops: dict[str, float] = {}
    for hop in result.hops.get("put", ()):
        hops[hop.name] = hops.get(hop.name, 0.0) + (hop.end_ps - hop.start_ps) / 1000
    return Latency(
        p50_ns=round(float(np.percentile(times, 50)) / 1000, 3),
        p99_ns=round(float(np.percentile(times, 99)) / 1000, 3),
        cpu_ns=result.spent[responder]["cpu_ns"] / batching,
        wire_bytes=round(carried / done, 1),
        packets=round(sum(pipe.served for pipe in pipes) / done, 2),
        hops=[(name, round(ns, 3)) for name, ns in hops.items()],
    )


def measure(
    primitive: str,
    configuration: Configuration,
    *,
    sizes: Sequence[int] = SIZES,
    queue_pairs: Sequence[int] = QUEUE_PAIRS,
    seed: int = 1,
) -> Costs:
    """All costs of a primitive (``read-after-write``, ``no-flush by SEND``): updates in place, of each size.

    A primitive that batches gets whole batches: its latencies are those of a batch, all else is for an update.
    """
    batching = shaped(f"word over {primitive}").primitive.batching
    scheme = f"{'batch' if batching > 1 else 'word'} over {primitive}"
    costs = Costs()
    for size in sizes:
        result = run(scheme, configuration, batching * size, 1, seed)
        if getattr(result.scheme, "refused", None):
            return costs
        found = latency(result, batching)
        if found is not None:
            costs.latency[size] = found
    for count in queue_pairs:
        result = run(scheme, configuration, batching * THROUGHPUT_BYTES, count, seed)
        costs.throughput[count] = round(batching * result.throughput_ops_per_s, 1)
    return costs
