"""Simulated measurements by the hundred: a platform with single parameters set otherwise, in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Self

from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
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
        """As it stands. Raises InputError."""
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
        self._pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) if jobs > 1 else None
        self.runs = 0
        """Simulated measurements so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=error is None, cancel_futures=True)

    def numbers(self, points: Sequence[Conditions], variants: Sequence[Texts]) -> list[list[float | str]]:
        """ps an operation of every point on each variant of the platform, or why a point cannot be measured."""
        tasks = [_Task(self.base, tuple(texts.items()), point) for texts in variants for point in points]
        self.runs += len(tasks)
        if self._pool is None:
            found = [_number(task) for task in tasks]
        else:
            found = list(self._pool.map(_number, tasks, chunksize=max(1, min(16, len(tasks) // 8))))
        size = len(points)
        return [found[at : at + size] for at in range(0, len(found), size)] if size else [[] for _ in variants]

    def measurements(
        self, points: Sequence[Conditions], tell: Callable[[Measurement], object] | None = None
    ) -> list[Measurement]:
        """All iterations of every point; ``tell`` is called with each when it is done, in their order."""
        tasks = [_Task(self.base, (), point) for point in points]
        answers = map(_measured, tasks) if self._pool is None else self._pool.map(_measured, tasks)
        found = []
        for one in answers:
            found.append(one)
            if tell is not None:
                tell(one)
        return found
