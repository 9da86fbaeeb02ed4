"""A history: what clients saw of a run, in Jepsen's words (invoke, ok, fail, info), in time order.

It knows nothing of bytes in flight; the oracle sees this and nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Torn:
    """A value that nobody wrote: what the bytes are instead, in words (``note``)."""

    note: str

    def __str__(self) -> str:
        return f"torn ({self.note})"


Value = int | Torn | None
"""A stamp (0 is the loaded value, else the number of the operation that wrote it), a torn value, or absent."""


@dataclass(slots=True)
class Operation:
    """One operation of one client process on one object.

    ``f`` is the operation's name (``put``, ``get``); ``argument`` is the stamp that an update writes, ``result``
    what a read returned. ``return_ps`` is None while the operation is pending. ``outcome`` is None (pending),
    ``ok``, ``fail`` (certainly not in effect) or ``info`` (unknown).
    """

    number: int
    process: int
    f: str
    object: Hashable
    argument: Value
    invoke_ps: int
    return_ps: int | None = None
    result: Value = None
    outcome: str | None = None


@dataclass
class History:
    """The operations of a run; ``updates`` names those ``f`` that write, all others read."""

    updates: frozenset[str]
    operations: list[Operation] = field(default_factory=list)

    def invoke(self, process: int, f: str, object: Hashable, argument: Value, now_ps: int) -> Operation:
        """Record an invocation; numbers count from 1 in the order of invocation."""
        operation = Operation(len(self.operations) + 1, process, f, object, argument, now_ps)
        self.operations.append(operation)
        return operation

    def complete(self, operation: Operation, outcome: str, now_ps: int, result: Value = None) -> None:
        """Record the response (``ok``, ``fail``) or that it will never be known (``info``)."""
        operation.outcome, operation.return_ps, operation.result = outcome, now_ps, result

    def events(self) -> Iterator[tuple[int, str, Operation]]:
        """All (time_ps, 'invoke' | outcome, operation) in time order; at one instant responses come first."""
        rows = [(o.invoke_ps, 1, o.number, "invoke", o) for o in self.operations]
        rows += [(o.return_ps, 0, o.number, o.outcome or "", o) for o in self.operations if o.return_ps is not None]
        for time_ps, _, _, kind, operation in sorted(rows, key=lambda row: row[:3]):
            yield time_ps, kind, operation
