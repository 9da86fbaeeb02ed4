"""Recovery as one opaque whole: it may look at any line for any object, so all objects share one tree of outcomes.

A run is the whole recovery and then a read of every object. An object's outcomes change whenever any line does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from typing_extensions import override

from ...models.durability.contents import Remembered
from ...models.durability.views import LineKey
from ...scenarios.history import Value
from .checksums import Families
from .nested import OutcomesAgain, Recoveries
from .outcomes import Contents, Outcome, Outcomes, Remains
from .restart import Decide, Restart, Source


class _ReadAll:
    """Restarts that read all objects at once: the value is that of each of them."""

    def __init__(self, restart: Restart, names: Sequence[Hashable]) -> None:
        self.initial = restart.initial
        self._restart = restart
        self._names = names

    def read(self, object: Hashable, source: Source, *, decide: Decide | None = None) -> tuple[Value, ...]:
        return self._restart.read_all(self._names, source, decide)


class WholeTree:
    """The outcomes of all objects together; with ``recoveries`` power fails up to ``times`` more, in them."""

    def __init__(
        self,
        names: Sequence[Hashable],
        restart: Restart,
        contents: Contents,
        families: Families,
        may_change: Callable[[LineKey], bool],
        recoveries: Recoveries | None = None,
        times: int = 0,
    ) -> None:
        what, reader = tuple(names), _ReadAll(restart, names)
        self.tree = Outcomes(what, reader, contents, may_change, families)
        if recoveries is not None:
            self.tree = OutcomesAgain(what, reader, recoveries, contents, may_change, families, times=times)
        self._number = {name: turn for turn, name in enumerate(names)}
        self._at_ps = -1
        self._found: Remembered[Outcome] = Remembered(iter(()))

    def of(self, name: Hashable) -> Outcomes:
        """Those of one object."""
        return _Share(self, self._number[name])

    def together(self) -> Outcomes:
        """Those of all of them: the value is a tuple, of a single one its own."""
        return _All(self) if len(self._number) > 1 else _Share(self, 0)

    def at(self, at_ps: int) -> Iterator[Outcome]:
        """As :meth:`Outcomes.at`, each made once however many objects ask."""
        if at_ps != self._at_ps:
            self._at_ps, self._found = at_ps, Remembered(self.tree.at(at_ps))
        return iter(self._found)


class _Share(Outcomes):
    """One object's part."""

    def __init__(self, whole: WholeTree, number: int) -> None:
        self.looked_at = whole.tree.looked_at
        self._whole = whole
        self._own = number

    @override
    def at(self, at_ps: int) -> Iterator[Outcome]:
        return self._own_of(self._whole.at(at_ps))

    @override
    def of(self, left: Remains) -> Iterator[Outcome]:
        return self._own_of(self._whole.tree.of(left))

    def _own_of(self, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        for outcome in outcomes:
            values: Any = outcome.value
            yield outcome.reading(values[self._own])


class _All(Outcomes):
    """All objects' values, as a tuple."""

    def __init__(self, whole: WholeTree) -> None:
        self.looked_at = whole.tree.looked_at
        self._whole = whole

    @override
    def at(self, at_ps: int) -> Iterator[Outcome]:
        return self._whole.at(at_ps)

    @override
    def of(self, left: Remains) -> Iterator[Outcome]:
        return self._whole.tree.of(left)
