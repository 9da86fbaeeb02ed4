"""The words of an explanation: operations, values and times as a timeline shows them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ...scenarios.history import Operation, Removed, Value
from .known import RECOVERY, ObjectHistory


class Named(int):
    """A stamp that stands for a value of a history file, whose text it shows."""

    text: str

    def __new__(cls, stamp: int, text: str) -> Named:
        self = super().__new__(cls, stamp)
        self.text = text
        return self


class Moment(int):
    """An instant of a history file, in picoseconds after ``zero_ns``, shown as the file has it."""

    zero_ns: int | float = 0
    timed: bool = True
    """Whether the file had times; else instants are the numbers of events."""


@dataclass(slots=True)
class Recorded(Operation):
    """An operation of a history file; its ``number`` is the line of its invocation."""


def nanoseconds(time_ps: int, zero_ns: int | float = 0) -> str:
    """``38`` or ``38.5``: a time as it stood in a history file that counts from ``zero_ns``."""
    whole, part = divmod(int(time_ps), 1000)
    return f"{zero_ns + whole}" if part == 0 else f"{zero_ns + whole + part / 1000:.3f}".rstrip("0")


def moment_text(time_ps: int, zero_ns: int | float, timed: bool) -> str:
    """``38 ns``, or ``event 38`` of a file without times."""
    text = nanoseconds(time_ps, zero_ns)
    return f"{text} ns" if timed else f"event {text}"


def microseconds(time_ps: int) -> str:
    if isinstance(time_ps, Moment):
        return moment_text(time_ps, time_ps.zero_ns, time_ps.timed)
    return f"{time_ps / 1e6:,.3f} us"


def value_text(value: Value) -> str:
    """``v2``, ``absent`` or ``torn (...)``."""
    if value is None:
        return "absent"
    if isinstance(value, Named):
        return value.text
    if isinstance(value, Removed):
        return str(value)
    return f"v{value}" if isinstance(value, int) else str(value)


def object_text(object: Hashable) -> str:
    return object.decode("ascii", "backslashreplace") if isinstance(object, bytes) else str(object)


def place_text(operation: Operation) -> str:
    """Which operation it is: ``operation 5``, or ``line 5`` of a file."""
    return f"{'line' if isinstance(operation, Recorded) else 'operation'} {operation.number}"


def subject_text(operation: Operation) -> str:
    """``put k17``; an object without a name is not named."""
    return operation.f if operation.object is None else f"{operation.f} {object_text(operation.object)}"


def update_text(update: Operation) -> str:
    """``put k17 = v2``; the operation's number is the stamp, and is told where it is another."""
    known = update.argument == update.number and not isinstance(update, Recorded)
    written = "" if isinstance(update.argument, Removed) else f" = {value_text(update.argument)}"
    return f"{subject_text(update)}{written}{'' if known else f' ({place_text(update)})'}"


def read_text(read: Operation) -> str:
    """``get k17 -> v2 (operation 5)``."""
    where = "after recovery" if read.process == RECOVERY else f"({place_text(read)})"
    return f"{subject_text(read)} -> {value_text(read.result)} {where}"


def recovered_text(known: ObjectHistory, value: Value) -> str:
    """``get k17 -> v1 after recovery``."""
    return f"{known.probe} {object_text(known.object)} -> {value_text(value)} after recovery"
