"""What an exploration shows to be broken, and how: not only which conditions, but what is read in their breach.

A scheme that breaks a condition already, with an object that is absent, may break it in another way with a fault in it,
with a value that is torn. So what a scheme keeps, and a fault breaks, is told as ``committed: torn``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...protocols.guarantees import Condition
from ...scenarios.history import Torn, Unread, Value
from ...scenarios.results import RunResult
from ..explorer import Exploration, Explorer

MANNERS = ("torn", "unreadable", "absent", "another version")


@dataclass(frozen=True)
class Shown:
    """What was found broken in a trial (``committed: torn``), and whether that is all that there is."""

    broken: frozenset[str]
    exhaustive: bool = True


def manner(value: Value) -> str:
    """How a value breaks a condition."""
    if isinstance(value, Unread):
        return "unreadable"
    if isinstance(value, Torn):
        return "torn"
    return "absent" if value is None else "another version"


def ways(conditions: Iterable[Condition]) -> frozenset[str]:
    """All ways of breaking these conditions."""
    return frozenset(way(condition, how) for condition in conditions for how in MANNERS)


def way(condition: str, how: str) -> str:
    """One of them, as it is told."""
    return f"{condition}: {how}"


class Telling(Explorer):
    """An exploration that notes every way in which conditions are broken, and looks at every image for that."""

    def __init__(self, result: RunResult, conditions: Iterable[Condition]) -> None:
        super().__init__(result, conditions=conditions)
        self.broken: set[str] = set()

    def _judge(self, name: Hashable, at_ps: int, found: Exploration, moved: bool) -> None:
        super()._judge(name, at_ps, found, moved)
        self.broken.update(_told(self._objects[name].values))

    def _decided(self, found: Exploration, violated: set[Condition], one: Any) -> bool:
        return False


def _told(values: dict[Value, frozenset[Condition]]) -> Iterator[str]:
    for value, violated in values.items():
        for condition in violated:
            yield way(condition, manner(value))
