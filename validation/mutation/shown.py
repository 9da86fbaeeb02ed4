"""The conditions that an exploration shows to be broken, and how: with the kind of value that is read in each breach.

A scheme that breaks a condition already, with an object that is absent, may break it in another way with a fault in it,
with a value that is torn; or it may break when all updates have returned a condition that it breaks while one is under
way. So the ways that a scheme keeps, and a fault breaks, are written as ``committed: torn``, or ``no_lost_ack: absent,
at rest``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from ...protocols.guarantees import Condition
from ...scenarios.history import Torn, Unread, Value
from ...scenarios.run.results import RunResult
from ..crash.explorer import Exploration, Explorer
from ..oracle import Flaw

MANNERS = ("torn", "unreadable", "absent", "another version")
AT_REST = ", at rest"
"""Marks a breach without an update of the object under way when power failed."""


@dataclass(frozen=True)
class Shown:
    """The ways found broken in a trial (``committed: torn``), and whether these are all."""

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
    return frozenset(
        way(condition, how) + rest for condition in conditions for how in MANNERS for rest in ("", AT_REST)
    )


def way(condition: str, how: str) -> str:
    """One way of breaking a condition, as it is written."""
    return f"{condition}: {how}"


def manner_of(flaw: Flaw) -> str:
    """How a history breaks a condition: with a value that nobody wrote, with an object that could not be read, or with
    another version than it should be; a history does not tell whether that is an absence.
    """
    if not flaw.operations:
        return "unreadable"
    read = {manner(value) for operation in flaw.operations for value in _values(operation.result)}
    return next((how for how in ("torn", "unreadable") if how in read), "another version")


def _values(result: Value | tuple[Any, ...]) -> Iterator[Any]:
    """What an operation has read: a transaction's result is a tuple of its steps, each with its value."""
    if not isinstance(result, tuple):
        yield result
        return
    for part in result:
        yield from _values(part)


class Telling(Explorer):
    """An exploration that notes each way in which it sees conditions broken.

    Of a state in which nothing is left to be broken it looks at two images, as any exploration does: so the states that
    a trial may look at (``trying.MOST_STATES``) reach more instants.
    """

    def __init__(self, result: RunResult, conditions: Iterable[Condition]) -> None:
        super().__init__(result, conditions=conditions)
        self.broken: set[str] = set()

    @override
    def _judge(self, name: Hashable, at_ps: int, found: Exploration, moved: bool) -> None:
        super()._judge(name, at_ps, found, moved)
        one = self._objects[name]
        labels = list(_labels(one.values))
        self.broken.update(labels)
        known = getattr(one.follower, "known", None)  # of registers alone: who has written, and what has returned
        if known is not None and known.writes.keys() <= known.acknowledged_ps.keys():
            self.broken.update(each + AT_REST for each in labels)


def _labels(values: dict[Value, frozenset[Condition]]) -> Iterator[str]:
    for value, violated in values.items():
        for condition in violated:
            yield way(condition, manner(value))
