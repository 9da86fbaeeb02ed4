"""A history: the operations of a run as clients see them, in Jepsen's words (invoke, ok, fail, info), in time order.

It knows nothing of bytes in flight; the oracle sees this and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from typing_extensions import override


@dataclass(frozen=True)
class Torn:
    """A value that no operation wrote: ``note`` describes the bytes in words."""

    note: str

    @override
    def __str__(self) -> str:
        return f"torn ({self.note})"


class Unread(Torn):
    """No value at all: the store said that it cannot read the object. It shows that something is lost, nothing torn."""

    @override
    def __str__(self) -> str:
        return f"no value ({self.note})"


class Removed(int):
    """The stamp of an update that removes: a read of its effect finds nothing, as of every other that removes."""

    @override
    def __str__(self) -> str:
        return "absent"


def written(argument: Value) -> str:
    """The value that an operation writes, behind its name: `` = v3``; nothing for one that reads or removes."""
    return "" if argument is None or isinstance(argument, Removed) else f" = v{argument}"


Value = int | Torn | None
"""A stamp (0 is the loaded value, else the number of the operation that wrote it), a torn value, or absent."""


@dataclass(slots=True)
class Operation:
    """One operation of one client process on one object.

    ``f`` is the operation's name (``put``, ``get``); ``argument`` is the stamp that an update writes, ``result``
    the stamp that a read returned. ``return_ps`` is None while the operation is pending. ``outcome`` is None (pending),
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


@dataclass(frozen=True, slots=True)
class Crash:
    """A crash that clients could have learned of: of the system, a server, a client process, a replica.

    ``node`` is one of ``system``, ``server``, ``client`` (then ``process`` says which) and ``replica`` (a machine of
    several: others stand); where there are several machines ``id`` says which.
    """

    node: str
    at_ps: int
    process: int | None = None
    id: str | None = None


@dataclass
class History:
    """The operations of a run and its crashes; ``updates`` names those ``f`` that write, all others read."""

    updates: frozenset[str]
    operations: list[Operation] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)

    def invoke(self, process: int, f: str, object: Hashable, argument: Value, now_ps: int) -> Operation:
        """Record an invocation; numbers count from 1 in the order of invocation."""
        operation = Operation(len(self.operations) + 1, process, f, object, argument, now_ps)
        self.operations.append(operation)
        return operation

    def complete(self, operation: Operation, outcome: str, now_ps: int, result: Value = None) -> None:
        """Record the response (``ok``, ``fail``) or that it will never be known (``info``)."""
        operation.outcome, operation.return_ps, operation.result = outcome, now_ps, result

    def lines(self, loaded: Iterable[Hashable] = ()) -> Iterator[str]:
        """The history in JSON Lines, as ``rpsim check`` reads it; first a ``loader`` writes stamp 0 to the ``loaded``
        objects.

        At one instant responses come first, then invocations (and what takes no time), then the crash.
        """
        write = "put" if "put" in self.updates else min(self.updates, default="put")
        for name in loaded:
            for kind in ("invoke", "ok"):
                event = {"process": "loader", "type": kind, "f": write, "key": str(name), "value": 0, "time": -1}
                yield json.dumps(event)
        rows: list[tuple[int, int, int, dict[str, object]]] = []
        for time_ps, kind, o in self.events():
            row: dict[str, object] = {"process": o.process, "type": kind, "f": o.f, "key": str(o.object)}
            if kind == "invoke" and o.f in self.updates and not isinstance(o.argument, Removed):
                row["value"] = o.argument
            elif kind == "ok" and o.f not in self.updates:
                row["value"] = str(o.result) if isinstance(o.result, Torn) else o.result
            rows.append((time_ps, _turn(kind, o), o.number, row))
        for crash in self.crashes:
            who: dict[str, object] = {} if crash.process is None else {"process": crash.process}
            who |= {} if crash.id is None else {"id": crash.id}
            rows.append((crash.at_ps, 2, 0, {"type": "crash", "node": crash.node, **who}))
        for time_ps, _, _, row in sorted(rows, key=lambda entry: entry[:3]):
            yield json.dumps({**row, "time": time_ps / 1000})

    def events(self) -> Iterator[tuple[int, str, Operation]]:
        """All (time_ps, 'invoke' | outcome, operation) in time order; at one instant responses come first."""
        rows = [(o.invoke_ps, "invoke", o) for o in self.operations]
        rows += [(o.return_ps, o.outcome or "", o) for o in self.operations if o.return_ps is not None]
        yield from sorted(rows, key=lambda row: (row[0], _turn(*row[1:]), row[2].number))


def _turn(kind: str, operation: Operation) -> int:
    """Responses come before invocations of their instant, but for that of an operation that takes no time."""
    return int(kind == "invoke" or operation.return_ps == operation.invoke_ps)
