"""The measurements of a run: a scenario of one variant, simulated, or explored for what a crash may leave."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ....models.meter import OperationCounts
from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
from ....protocols.guarantees import Condition, Verdict
from ....scenarios.build import Draft
from ....scenarios.run.experiment import run_variant
from ....scenarios.run.failing import performed
from ....scenarios.run.metered import summary_of
from ....scenarios.run.results import RunResult
from ....sim.units import PS_PER_S
from ...crash.explore import explore

NOTHING: Mapping[str, str] = MappingProxyType({})
_US = 1e6
_OF_LATENCIES: Mapping[str, Callable[[Any], Any]] = {
    "lat": np.mean,
    "med": np.median,
    "min": np.min,
    **{name: partial(np.percentile, q=q) for name, q in (("p90", 90), ("p99", 99), ("p999", 99.9))},
}
SIDES = ("sender", "network", "receiver")
"""Of an operation's time: software of the client, software of others, and all that is neither."""
_CPU_OF_ROLES = ("CPU of ", "wait for ")
_CPU_OF_PRIMITIVES = ("requester cpu: ", "responder cpu: ")
_TRUTH = {Verdict.HOLDS: 1.0, Verdict.VIOLATED: 0.0, Verdict.UNDECIDED: 0.5}


def measure(draft: Draft, values: Mapping[str, str] = NOTHING, metered: bool = False) -> dict[str, Any]:
    """Run a scenario of one variant, on its platform with ``values`` set otherwise; returns its measurements.

    A ``metered`` run has those that :data:`.measures.METERED` are looked up in besides.
    """
    gc.collect()  # a run is full of cycles: those of the run before would stand beside this one's
    made = draft.build()
    (variant,) = made.variants()
    platform = platform_with(variant.platform, values, **variant.settings)
    result = performed(made, variant, platform, recorded=False, metered=metered)
    latencies = {f: values for f, values in result.latency_ps.items() if len(values)}
    latencies[""] = np.concatenate(list(result.counted.values()))
    took_ps = result.elapsed_ps - result.measured_from_ps
    return {
        "thr": result.throughput_ops_per_s,
        "rates": {f: len(values) * PS_PER_S / took_ps for f, values in latencies.items()},
        "bw": result.throughput_ops_per_s * result.scheme.sizes.value_bytes,
        "time": took_ps / _US,
        **{name: {f: float(of(values)) / _US for f, values in latencies.items()} for name, of in _OF_LATENCIES.items()},
        "spent": result.spent,
        "cost": result.cost,
        "operations": result.operations,
        **_whole(result),
        **(_metered(result) if metered else {}),
    }


def explored(draft: Draft, conditions: Sequence[str] = ()) -> dict[str, float]:
    """Explore the fault of a scenario of one variant: by condition 1 where it holds, 0 where it does not.

    0.5 stands for undecided. ``conditions`` are asked for beside the usual ones.
    """
    made = draft.build()
    (variant,) = made.variants()
    also = [Condition(name) for name in conditions]
    report = explore(run_variant(made, variant), made, variant, also=also, examples=())
    return {str(condition): _TRUTH[Verdict(verdict)] for condition, verdict in report.verdicts.items()}


def _metered(result: RunResult) -> dict[str, Any]:
    """The measurements of a metered run: by operation its parts in us, round trips and counts; by machine the others.

    Traffic and counts outside of operations are for each operation of the whole run.
    """
    took = {**result.took, "": [one for own in result.took.values() for one in own]}
    done, found = max(1, len(result.history.operations)), result.metered
    machines = [node.name for nodes in result.system.nodes.values() for node in nodes]
    parts = {f: {hop: ns / 1000 for hop, ns in own.items()} for f, own in found["parts_ns"].items()}
    clients = [role for role, kind in result.scheme.role_types.items() if kind.invokes]
    return {
        "parts": parts,
        "sides": sides(parts, {f: len(own) for f, own in result.took.items()}, clients),
        "round_trips": {f: summary_of([one.depth / 2 for one in own]) for f, own in took.items() if own},
        "counts": {f: _means(own) for f, own in took.items() if own},
        "tallies": {
            machine: {name: number / done for name, number in found["machine_counts"].get(machine, {}).items()}
            for machine in machines
        },
        "gauges": {
            machine: {name: gauge["mean"] for name, gauge in found["gauges"].get(machine, {}).items()}
            for machine in machines
        },
        "traffic": [[row["from"], row["to"], row["payload_bytes"] / done] for row in found["traffic"]],
    }


def _whole(result: RunResult) -> dict[str, float]:
    """The time of the whole that a run is a sample of, in s; nothing if it is of none."""
    if "pagerank" in result.more:
        return {"whole": float(result.more["pagerank"]["execution_time_s"])}
    many = result.over_time.get("repaired", {}).get("of_rpcs")
    return {} if many is None else {"whole": float(many["time_s"])}


def sides(
    parts: Mapping[str, Mapping[str, float]], operations: Mapping[str, int], clients: Sequence[str]
) -> dict[str, dict[str, float]]:
    """By operation, and over all of them under '': the time at each of ``SIDES``, from the mean time in each hop.

    ``operations`` is how many there are of each, ``clients`` are the roles that invoke them.
    """
    found = {f: dict.fromkeys(SIDES, 0.0) for f in ("", *parts)}
    total = sum(operations.get(f, 0) for f in parts) or 1
    for f, own in parts.items():
        for hop, took in own.items():
            side = side_of(hop, clients)
            found[f][side] += took
            found[""][side] += took * operations.get(f, 0) / total
    return found


def side_of(hop: str, clients: Sequence[str]) -> str:
    """Whether a hop is software of the sender or of a receiver; adapters, links, DMA are the network."""
    if hop.startswith(_CPU_OF_PRIMITIVES):
        return "sender" if hop.startswith(_CPU_OF_PRIMITIVES[0]) else "receiver"
    for words in _CPU_OF_ROLES:
        if hop.startswith(words):
            return "sender" if hop.removeprefix(words) in clients else "receiver"
    return "network"


def _means(took: Sequence[OperationCounts]) -> dict[str, float]:
    """By name of what the scheme counted: the mean over these operations."""
    counts: Counter[str] = sum((one.counts for one in took), Counter())
    return {name: number / len(took) for name, number in counts.items()}


def platform_with(name: str, hardware: Mapping[str, str], **settings: str) -> Platform:
    """A platform with some parameters set otherwise."""
    return varied(load_platform(name, **settings), hardware)
