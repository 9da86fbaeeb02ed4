"""Simulated measurements by the hundred: a platform with single parameters set otherwise, in several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Self

from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
from ....sim.jobs.runner import JobRunner
from ..conditions import Conditions, Measurement
from ..simulated import Unmeasurable, measure, per_operation_ps

Texts = Mapping[str, str]
"""Parameters that are set otherwise, as profiles have them."""


@dataclass(frozen=True)
class Base:
    """A platform by its name or path, with its settings."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()

    def platform(self) -> Platform:
        """The platform with its settings. Raises InputError."""
        return _loaded(self)


@lru_cache(maxsize=8)
def _loaded(base: Base) -> Platform:
    return load_platform(base.name, **dict(base.settings))


@lru_cache(maxsize=64)
def _varied(base: Base, texts: tuple[tuple[str, str], ...]) -> Platform:
    return varied(_loaded(base), dict(texts))


@dataclass(frozen=True)
class _Task:
    base: Base
    texts: tuple[tuple[str, str], ...]
    conditions: Conditions


def _number(task: _Task) -> float | str:
    """ps an operation, or why there is no such number."""
    try:
        return per_operation_ps(_varied(task.base, task.texts), task.conditions)
    except Unmeasurable as error:
        return str(error)


def _measured(task: _Task) -> Measurement:
    return measure(_varied(task.base, task.texts), task.conditions)


class Runner:
    """Runs simulated measurements on one platform; use it as a context, since it may keep processes."""

    def __init__(self, base: Base, jobs: int = 1) -> None:
        self.base = base
        self._jobs = JobRunner(jobs)
        self.runs = 0
        """Simulated measurements so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._jobs.__exit__(kind, error, trace)

    def numbers(self, points: Sequence[Conditions], variants: Sequence[Texts]) -> list[list[float | str]]:
        """ps an operation of every point on each variant of the platform, or why a point cannot be measured."""
        tasks = [_Task(self.base, tuple(texts.items()), point) for texts in variants for point in points]
        self.runs += len(tasks)
        found = list(self._jobs.in_order(_number, tasks))
        size = len(points)
        return [found[at : at + size] for at in range(0, len(found), size)] if size else [[] for _ in variants]

    def measurements(
        self, points: Sequence[Conditions], on_step: Callable[[Measurement], object] | None = None
    ) -> list[Measurement]:
        """All iterations of every point; ``on_step`` is called with each measurement, in order."""
        tasks = [_Task(self.base, (), point) for point in points]
        found = []
        for one in self._jobs.in_order(_measured, tasks):
            found.append(one)
            if on_step is not None:
                on_step(one)
        return found
