"""The measurements of a run: a scenario of one variant, simulated, or explored for what a crash may leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
from ....protocols.guarantees import Condition, Verdict
from ....scenarios.build import Draft
from ....scenarios.run.experiment import run_variant
from ....scenarios.run.results import RunResult
from ....sim.stations import Pipe
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
_TRUTH = {Verdict.HOLDS: 1.0, Verdict.VIOLATED: 0.0, Verdict.UNDECIDED: 0.5}


def measure(draft: Draft, values: Mapping[str, str] = NOTHING) -> dict[str, Any]:
    """Run a scenario of one variant, on its platform with ``values`` set otherwise; returns its measurements."""
    made = draft.build()
    (variant,) = made.variants()
    platform = platform_with(variant.platform, values, **variant.settings)
    result = run_variant(made, variant, platform=platform, recorded=False)
    latencies = {f: values for f, values in result.latency_ps.items() if len(values)}
    latencies[""] = np.concatenate(list(latencies.values()))
    took_ps = result.elapsed_ps - result.measured_from_ps
    return {
        "thr": result.throughput_ops_per_s,
        "rates": {f: len(values) * PS_PER_S / took_ps for f, values in latencies.items()},
        "bw": result.throughput_ops_per_s * result.scheme.sizes.value_bytes,
        "time": took_ps / _US,
        **{name: {f: float(of(values)) / _US for f, values in latencies.items()} for name, of in _OF_LATENCIES.items()},
        "parts": _parts(result),
        "spent": result.spent,
        "sent": _sent(result),
        "operations": result.operations,
    }


def explored(draft: Draft, conditions: Sequence[str] = ()) -> dict[str, float]:
    """Explore the fault of a scenario of one variant: by condition 1 where it holds, 0 where it does not.

    0.5 stands for undecided. ``conditions`` are asked for beside the usual ones.
    """
    made = draft.build()
    (variant,) = made.variants()
    report = explore(run_variant(made, variant), made, variant, also=[Condition(name) for name in conditions])
    return {str(condition): _TRUTH[Verdict(verdict)] for condition, verdict in report.verdicts.items()}


def _parts(result: RunResult) -> dict[str, dict[str, float]]:
    """By operation and hop: the time there in us, a mean over the operations that were followed."""
    found: dict[str, dict[str, float]] = {}
    counts: Counter[str] = Counter()
    by_number = {operation.number: operation for operation in result.history.operations}
    for number, hops in result.spans.items():
        operation = by_number[number]
        if operation.invoke_ps < result.measured_from_ps or operation.outcome != "ok":
            continue
        counts[operation.f] += 1
        parts, since_ps = found.setdefault(operation.f, {}), operation.invoke_ps
        for name, end_ps in hops:
            parts[name] = parts.get(name, 0.0) + (end_ps - since_ps) / _US
            since_ps = end_ps
    return {f: {name: us / counts[f] for name, us in parts.items()} for f, parts in found.items()}


def _sent(result: RunResult) -> dict[str, dict[str, float]]:
    """By role and machine: the bytes that it sent, headers included, for each operation of the whole run."""
    done = max(1, len(result.history.operations))
    return {
        role: {node.name: _carried(node.nic.port.pipe) / done for node in nodes}
        for role, nodes in result.system.nodes.items()
    }


def _carried(pipe: Pipe) -> float:
    return pipe.busy_ps * pipe.bits_per_s / (8 * PS_PER_S)


def platform_with(name: str, hardware: Mapping[str, str], **settings: str) -> Platform:
    """A platform with some parameters set otherwise."""
    return varied(load_platform(name, **settings), hardware)
