"""A vector operation: a batch of operations sorted by key, whose segments go down a tree together.

Source: Ma et al., rNVM, 2018, section 6.2 and algorithm 1. The operations of a batch have the results, and the effect,
that they have one after the other: those of one key stay in their order, and different keys do not see each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .structure import Operation

FINDS = ("find", "r")
"""Operations that only read; of the others one without a value removes, and one with a value writes it."""


class KeyOutcome(NamedTuple):
    """What a batch does to one key."""

    written: bool
    """Whether any of its operations writes; else the key stays as it is."""
    value: bytes | None
    """The value in the end; None: the key is absent then."""
    time: int
    """The place in the batch of the first operation that writes, of which the order of inserts is made."""


class Addition(NamedTuple):
    """A key that a batch adds to a tree, its value, and its place in the order of inserts."""

    key: int
    value: bytes
    time: int


class Vector:
    """The operations of a batch by key: ``keys`` are the distinct ones in order, ``results`` fill as keys are resolved.

    A segment is a range of indices of ``keys``.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.results: list[bytes | None] = [None] * len(operations)
        self._operations = operations
        self._by_key: dict[int, list[int]] = {}
        for index, operation in enumerate(operations):
            self._by_key.setdefault(operation.key, []).append(index)
        self.keys = sorted(self._by_key)

    def __len__(self) -> int:
        return len(self.keys)

    def asks(self, at: int) -> bool:
        """Whether the first operation on key number ``at`` asks for what is stored."""
        return self._operations[self._by_key[self.keys[at]][0]].f in FINDS

    def writes(self, at: int) -> bool:
        """Whether any operation on key number ``at`` writes."""
        return any(self._operations[index].f not in FINDS for index in self._by_key[self.keys[at]])

    def resolve(self, at: int, stored: bytes | None) -> KeyOutcome:
        """Give the operations on key number ``at`` their results, where ``stored`` is what the tree holds."""
        value, time = stored, None
        for index in self._by_key[self.keys[at]]:
            operation = self._operations[index]
            if operation.f in FINDS:
                self.results[index] = value
            else:
                value, time = operation.value, index if time is None else time
        return KeyOutcome(time is not None, value, time or 0)

    def added(self, begin: int, end: int) -> list[Addition]:
        """Resolve the keys of a segment, none of which the tree holds; what is to be added to it, by key."""
        found = ((self.keys[at], self.resolve(at, None)) for at in range(begin, end))
        return [Addition(key, one.value, one.time) for key, one in found if one.written and one.value is not None]
