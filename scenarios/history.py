"""A history: the operations of a run as clients see them, in Jepsen's words (invoke, ok, fail, info), in time order.

It knows nothing of bytes in flight; the oracle sees this and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from ..protocols.objects import LOOKS, OPENING, OPERATIONS, REGISTERS, VALUED, WRITES, Takes


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


class Number(int):
    """A number that an operation takes or returns, and no stamp: an amount, a size, an address."""

    @override
    def __str__(self) -> str:
        return int.__repr__(self)


class Described(str):
    """The words for a value that no operation wrote, in the rows of a history."""


class Stamp(int):
    """A stamp in the rows of a history: the same number in JSON, and a value in words."""

    @override
    def __str__(self) -> str:
        return f"v{int.__repr__(self)}"


Value = int | Torn | tuple[Any, ...] | None
"""A stamp (0 is the loaded value, else the number of the operation that wrote it), a torn value, or absent; of models
other than registers a :class:`Number`, a truth value, a tuple of what a list held, or the steps of a transaction, each
(kind, object, value)."""


def shown(value: Value) -> str:
    """A value in words: ``v3``, ``nothing``, ``torn (...)``, ``[v1, v2]``."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        steps = [step for step in value if isinstance(step, tuple)]
        if steps:  # of a transaction
            return ", ".join(f"{kind} {name} {shown(each)}" for kind, name, each in steps)
        return f"[{', '.join(map(shown, value))}]"
    return str(value) if isinstance(value, Torn | Number) else f"v{int(value)}"


def written(argument: Value) -> str:
    """The argument of an operation, behind its object: `` = v3``; nothing for one that reads or removes."""
    if argument is None or isinstance(argument, Removed):
        return ""
    return f" {shown(argument)}" if isinstance(argument, Number | tuple) else f" = {shown(argument)}"


@dataclass(slots=True)
class Operation:
    """One operation of one client process on one object (of a transaction: on a tuple of objects).

    ``f`` is the operation's name (``put``, ``get``); ``argument`` is the stamp that an update writes or what else it
    takes, ``result`` the stamp that a read returned or what else came back. ``return_ps`` is None while the operation
    is pending. ``outcome`` is None (pending), ``ok``, ``fail`` (certainly not in effect) or ``info`` (unknown).
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
    applied_ps: int | None = None
    """When it took effect, where ``ok`` only promises that it will."""
    batch: int | None = None
    """The number of the first operation with which it was acknowledged together."""
    part_of: tuple[str, int] | None = None
    """Of a scan or a read-modify-write of several requests, and of a benchmark's transaction: what it is, and its
    number in the process."""
    retries: tuple[tuple[int, int], ...] = ()
    """(process, instant) of each time that it was tried again: it is the same operation."""

    @property
    def text(self) -> str:
        """The call in words: ``put k17 = v3``, ``fetch_add k0 1``, ``txn r k0, w k1 = v3``."""
        if self.f != "txn" or not isinstance(self.argument, tuple):
            return f"{self.f}{'' if self.object is None else f' {self.object}'}{written(self.argument)}"
        return f"txn {', '.join(f'{kind} {name}{written(value)}' for kind, name, value in self.argument)}"

    @property
    def found(self) -> str:
        """What it returned, behind its call: `` -> v1``; nothing for what returns nothing."""
        if self.f == "txn" and isinstance(self.result, tuple):
            read = [f"{name} {shown(value)}" for kind, name, value in self.result if kind in LOOKS]
            return f" -> {', '.join(read)}" if read else ""
        return f" -> {shown(self.result)}"


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
    """The operations of a run and its crashes; ``updates`` names those ``f`` that write, all others read; ``model`` is
    the sequential model that the objects follow.
    """

    updates: frozenset[str]
    operations: list[Operation] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)
    model: str = "register"
    promises: frozenset[str] = frozenset()
    """Those ``f`` whose ``ok`` promises an effect that comes later, be it that none has come yet."""
    returned: int = field(default=0, init=False, compare=False)
    """How many operations have been completed and are not tried again."""

    @property
    def promised(self) -> frozenset[str]:
        """The same, and those of which an operation says when it took effect."""
        said = (o.f for o in self.operations if o.applied_ps is not None and o.outcome == "ok")
        return self.promises.union(said)

    def invoke(self, process: int, f: str, object: Hashable, argument: Value, now_ps: int) -> Operation:
        """Record an invocation; numbers count from 1 in the order of invocation."""
        operation = Operation(len(self.operations) + 1, process, f, object, argument, now_ps)
        self.operations.append(operation)
        return operation

    def complete(self, operation: Operation, outcome: str, now_ps: int, result: Value = None) -> None:
        """Record the response (``ok``, ``fail``) or that it will never be known (``info``)."""
        self.returned += operation.return_ps is None
        operation.outcome, operation.return_ps, operation.result = outcome, now_ps, result

    def applied(self, number: int, now_ps: int) -> None:
        """Record that an operation, of which ``ok`` is a promise, has taken effect; the first time counts."""
        operation = self.operations[number - 1]
        if operation.applied_ps is None:
            operation.applied_ps = now_ps

    def retry(self, operation: Operation, process: int, now_ps: int) -> None:
        """Record that an operation of unknown outcome is tried again: it goes on."""
        self.returned -= operation.return_ps is not None
        operation.outcome = operation.return_ps = None
        operation.retries = (*operation.retries, (process, now_ps))

    def returns(self, f: str) -> bool:
        """Whether an operation returns something."""
        signature = OPERATIONS[self.model].get(f)
        return f not in self.updates if signature is None else signature.result not in (Takes.SAME, Takes.NOTHING)

    def lines(self, loaded: Iterable[Hashable] = ()) -> Iterator[str]:
        """The history in JSON Lines, as ``rpsim check`` reads it; see :meth:`rows`."""
        return (json.dumps(row) for _, row in self.rows(loaded))

    def rows(self, loaded: Iterable[Hashable] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
        """The events as ``rpsim check`` reads them, each with its operation's number (0 of a crash and of a loader's);
        first a ``loader`` writes stamp 0 to the ``loaded`` objects, if objects of this model hold values: they are in
        effect at once, also where other writes are promises.

        At one instant responses come first, then invocations (and what takes no time), then the crash.
        """
        promised = self.promised
        for name in loaded if self.model in VALUED else ():
            row = self._loading(name)
            for kind in ("invoke", "ok", *(("applied",) if row["f"] in promised else ())):
                yield 0, {"process": "loader", "type": kind, **row, "time": -1}
        rows: list[tuple[int, int, int, dict[str, Any]]] = []
        for time_ps, kind, o in self.events():
            for row in self._rows(kind, o):
                rows.append((time_ps, _turn(kind, o), o.number, row))
        for crash in self.crashes:
            who: dict[str, object] = {} if crash.process is None else {"process": crash.process}
            who |= {} if crash.id is None else {"id": crash.id}
            rows.append((crash.at_ps, 2, 0, {"type": "crash", "node": crash.node, **who}))
        for time_ps, _, number, row in sorted(rows, key=lambda entry: entry[:3]):
            yield number, {**row, "time": time_ps / 1000}

    def _loading(self, name: Hashable) -> dict[str, Any]:
        if self.model == "accounts":
            return {"f": "txn", "value": [["add", str(name), [Stamp(0), OPENING]]]}
        if self.model == "txn":
            return {"f": "txn", "value": [["w", str(name), Stamp(0)]]}
        known = [f for f in WRITES if f in self.updates] or [min(self.updates, default="put")]
        write = "put" if "put" in known else known[0] if self.model in REGISTERS else "write"
        return {"f": write, "key": str(name), "value": Stamp(0)}

    def _rows(self, kind: str, o: Operation) -> Iterator[dict[str, Any]]:
        """The rows of an event: one, or two where an operation is tried again."""
        process = o.retries[-1][0] if o.retries and kind not in ("invoke", "retry") else o.process
        row: dict[str, Any] = {"process": process, "type": kind, "f": o.f}
        if o.object is not None and o.f != "txn":
            row["key"] = str(o.object)
        if o.applied_ps is not None or o.retries:
            row["id"] = o.number
        if o.batch is not None:
            row["id"] = o.number
            if kind == "invoke":
                row["batch"] = o.batch
        if kind == "retry":
            yield {**row, "type": "info"}
            del row["id"]
            row |= {"process": o.retries[-1][0], "type": "invoke", "retry_of": o.number}
        if row["type"] == "invoke" and o.argument is not None and not isinstance(o.argument, Removed):
            row["value"] = _plain(o.argument)
        elif row["type"] == "invoke" and o.f == "alloc":
            row["value"] = None
        elif kind == "ok" and self.returns(o.f):
            row["value"] = _plain(o.result)
        yield row

    def events(self) -> Iterator[tuple[int, str, Operation]]:
        """All (time_ps, 'invoke' | 'retry' | outcome | 'applied', operation) in time order; at one instant responses
        come first.
        """
        rows = [(o.invoke_ps, "invoke", o) for o in self.operations]
        rows += [(o.return_ps, o.outcome or "", o) for o in self.operations if o.return_ps is not None]
        for o in self.operations:
            if o.applied_ps is not None and o.return_ps is not None and o.outcome == "ok":
                rows.append((max(o.applied_ps, o.return_ps), "applied", o))
            rows += [(at_ps, "retry", o) for _, at_ps in o.retries]
        yield from sorted(rows, key=lambda row: (row[0], _turn(*row[1:]), row[2].number))


def _turn(kind: str, operation: Operation) -> int:
    """Responses come before invocations of their instant, but for that of an operation that takes no time."""
    return int(kind in ("invoke", "retry") or operation.return_ps == operation.invoke_ps)


def _plain(value: Value) -> Any:
    """A value as it stands in JSON."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Torn):
        return Described(value)
    return Stamp(value) if type(value) is int else int(value) if isinstance(value, Number) else value
