"""A point of a curve as a job: one experiment on one platform at one x."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
from ....sim.jobs.code import digest
from .experiments import Experiment, experiments

Texts = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Point:
    """All that the number at a point depends on, but for code; plain data that travels to a worker."""

    platform: str
    settings: Texts
    experiment: str
    given: tuple[tuple[str, Any], ...]
    """The keyword arguments of the experiment."""
    unit: str
    x: float | str
    values: Texts = ()
    """Parameters of the platform that are set otherwise: (path, text)."""

    @property
    def digest(self) -> str:
        """A hash of the point, of its experiment's code, and of the models with their profiles."""
        return digest(simulate, asdict(self), _known()[self.experiment].measure.__module__)


def simulate(point: Point) -> float:
    """The simulator's number at a point, in the point's unit."""
    platform = _platform(point.platform, point.settings, point.values)
    return _known()[point.experiment].run(platform, point.x, point.unit, dict(point.given))


@cache
def _known() -> dict[str, Experiment]:
    return experiments()


@cache
def _platform(name: str, settings: Texts, values: Texts) -> Platform:
    return varied(load_platform(name, **dict(settings)), dict(values))
