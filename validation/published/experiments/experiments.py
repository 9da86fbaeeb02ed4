"""The registry of experiments: each is a function from a platform and one value of x to one number.

An experiment drives the models through the verbs and CPU API, or one component alone, as its benchmark drove the
hardware. It knows no published number and no curve; its parameters besides x are keyword arguments, which a curve
gives under ``with``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from ....models.profiles.platform import Platform

Kind = Literal["time", "bytes_per_s", "per_s", "bytes", "ratio"]
Measure = Callable[..., float]

UNITS: dict[str, tuple[Kind, float]] = {
    "ns": ("time", 1e3),
    "us": ("time", 1e6),
    "GB/s": ("bytes_per_s", 1e9),
    "MB/s": ("bytes_per_s", 1e6),
    "Gb/s": ("bytes_per_s", 1e9 / 8),
    "Mop/s": ("per_s", 1e6),
    "KiB": ("bytes", 1024.0),
    "ratio": ("ratio", 1.0),
    "%": ("ratio", 0.01),
}
"""The units of curves: the kind of number of each, and its size (of times: in picoseconds)."""


@dataclass(frozen=True)
class Experiment:
    """How one kind of curve is measured on a platform."""

    name: str
    kind: Kind
    title: str
    measure: Measure
    without: frozenset[str] = frozenset()
    """Groups of parameters (``nic``, ``pcie``) of which nothing takes part in it."""

    def arguments(self) -> list[str]:
        """The keywords that a curve may give."""
        parameters = inspect.signature(self.measure).parameters.values()
        return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]

    def run(self, platform: Platform, x: float | str, unit: str, given: dict[str, Any]) -> float:
        """The simulator's number at ``x``, in ``unit``."""
        return self.measure(platform, x, **given) / UNITS[unit][1]


NO_ADAPTER = ("nic", "pcie", "fabric")
"""The groups of parameters that an experiment of cores and memory does without."""

_KNOWN: dict[str, Experiment] = {}


def experiment(name: str, kind: Kind, without: Collection[str] = ()) -> Callable[[Measure], Measure]:
    """Enter a function into the registry; its docstring's first line is the experiment's title.

    ``without`` are the groups of parameters that it does not hang on.
    """

    def enter(measure: Measure) -> Measure:
        title = (measure.__doc__ or name).strip().splitlines()[0].rstrip(".")
        _KNOWN[name] = Experiment(name, kind, title, measure, frozenset(without))
        return measure

    return enter


def experiments() -> dict[str, Experiment]:
    """All experiments by name: the modules of this package enter theirs when they are imported."""
    package = __package__ or ""
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{found.name}")
    return dict(sorted(_KNOWN.items()))
