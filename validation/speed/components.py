"""The cost of each component: the time of a WRITE by component, and the time that each feature adds to it.

The first is a profile (its own cost included, so shares count and not seconds); the second is measured in turn with the
plain WRITE, round by round, and is a ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median

from ...models.profiles.platform import Platform, load_platform
from ..published.experiments.verbs import saturated
from ..rigs.pair import Pair
from .bench import profile_of, where_time_goes
from .operations import PLATFORM, WINDOW

COMPONENTS = {
    "nic": "adapter",
    "verbs": "adapter",
    "primitives": "adapter",
    "persist": "adapter",
    "fabric": "fabric",
    "pcie": "PCIe",
    "host": "caches and root complex",
    "memory": "memory controllers and media",
    "cpu": "cores",
    "durability": "ordering rules",
    "profiles": "profile",
    "system": "profile",
}
"""The component of each wing of models/."""

FEATURES: dict[str, tuple[Callable[[Platform], Platform], dict[str, object]]] = {
    "into traced persistent memory": (lambda platform: platform, {"memory": "pm"}),
    "DDIO off": (lambda platform: replace(platform, llc=replace(platform.llc, ddio=False)), {}),
    "MTU 256 B": (lambda platform: replace(platform, nic=replace(platform.nic, mtu_bytes=256)), {}),
    "write pending queue of 256 B": (lambda platform: replace(platform, imc=replace(platform.imc, wpq_bytes=256)), {}),
    "512 queue pairs": (lambda platform: platform, {"queue_pairs": 512}),
    "region of 64 MiB": (lambda platform: platform, {"region_bytes": 1 << 26}),
}
"""By feature: the platform that has it, and the other settings of the WRITEs."""

ROUNDS = 5


def of_component(size_bytes: int, count: int = 2_000) -> dict[str, float]:
    """The share of a WRITE's time that each component has, the largest first."""
    return by_component(where_time_goes(size_bytes, count))


def with_everything(size_bytes: int, count: int = 2_000) -> dict[str, float]:
    """As :func:`of_component`, of WRITEs that keep all components busy: traced, into Optane, with DDIO off."""
    platform = load_platform(PLATFORM)
    pair = Pair(replace(platform, llc=replace(platform.llc, ddio=False)), memory="pm")
    return by_component(profile_of(lambda: saturated(pair, "WRITE", size_bytes, WINDOW, count), count))


def by_component(profile: Iterable[tuple[str, str, float, float]]) -> dict[str, float]:
    """A profile's shares, added up by component, the largest first."""
    shares: dict[str, float] = {}
    for file, _, _, share in profile:
        name = component(file)
        shares[name] = shares.get(name, 0.0) + share
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def component(file: str) -> str:
    """The component that a file (``models/nic/nic.py``, or a package's name) belongs to."""
    if file.startswith("sim/"):
        return "clock, stations, bytes, trace" if "clock" not in file else "clock and SimPy"
    if file in ("simpy", "built in") or not file.startswith("models/"):
        return "clock and SimPy" if file == "simpy" else "Python and the program"
    wing = file.removeprefix("models/").removesuffix(".py").partition("/")[0]
    return COMPONENTS.get(wing, "other models")


def of_feature(size_bytes: int, count: int = 2_000) -> dict[str, float]:
    """How many times as long a WRITE takes to simulate with a feature as without; medians of ratios taken in turn."""
    platform = load_platform(PLATFORM)
    found: dict[str, list[float]] = {name: [] for name in FEATURES}
    for _ in range(ROUNDS):
        plain_s = _seconds(platform, size_bytes, count, {})
        for name, (change, setting) in FEATURES.items():
            found[name].append(_seconds(change(platform), size_bytes, count, setting) / plain_s)
    return {name: median(ratios) for name, ratios in found.items()}


def _seconds(platform: Platform, size_bytes: int, count: int, setting: dict[str, object]) -> float:
    pair = Pair(platform, **setting)  # type: ignore[arg-type]  # keywords of a table
    began = time.perf_counter()
    saturated(pair, "WRITE", size_bytes, WINDOW, count)
    return time.perf_counter() - began
