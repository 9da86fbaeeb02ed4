"""The measurements of a run: a scenario of one variant, simulated."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
from ....scenarios.build import Draft
from ....scenarios.run.experiment import run_variant

NOTHING: Mapping[str, str] = MappingProxyType({})
_US = 1e6


def measure(draft: Draft, values: Mapping[str, str] = NOTHING) -> dict[str, Any]:
    """Run a scenario of one variant, on its platform with ``values`` set otherwise; returns its measurements."""
    made = draft.build()
    (variant,) = made.variants()
    platform = platform_with(variant.platform, values, **variant.settings)
    result = run_variant(made, variant, platform=platform, recorded=False)
    latencies = {f: values for f, values in result.latency_ps.items() if len(values)}
    latencies[""] = np.concatenate(list(latencies.values()))
    return {
        "thr": result.throughput_ops_per_s,
        "lat": {f: float(np.mean(values)) / _US for f, values in latencies.items()},
        "med": {f: float(np.median(values)) / _US for f, values in latencies.items()},
        "p99": {f: float(np.percentile(values, 99)) / _US for f, values in latencies.items()},
        "operations": result.operations,
    }


def platform_with(name: str, hardware: Mapping[str, str], **settings: str) -> Platform:
    """A platform with some parameters set otherwise."""
    return varied(load_platform(name, **settings), hardware)
