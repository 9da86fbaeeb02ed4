"""The words of an explanation: operations, values and times as a timeline shows them."""

from __future__ import annotations

from collections.abc import Hashable

from ...scenarios.history import Operation, Value
from .known import ObjectHistory


def microseconds(time_ps: int) -> str:
    return f"{time_ps / 1e6:.3f} us"


def value_text(value: Value) -> str:
    """``v2``, ``absent`` or ``torn (...)``."""
    if value is None:
        return "absent"
    return f"v{value}" if isinstance(value, int) else str(value)


def object_text(object: Hashable) -> str:
    return object.decode("ascii", "backslashreplace") if isinstance(object, bytes) else str(object)


def update_text(update: Operation) -> str:
    """``put k17 = v2``; the operation's number is the stamp, and is told where it is another."""
    number = "" if update.argument == update.number else f" (operation {update.number})"
    return f"{update.f} {object_text(update.object)} = {value_text(update.argument)}{number}"


def read_text(read: Operation) -> str:
    """``get k17 -> v2 (operation 5)``."""
    return f"{read.f} {object_text(read.object)} -> {value_text(read.result)} (operation {read.number})"


def recovered_text(known: ObjectHistory, value: Value) -> str:
    """``get k17 -> v1 after recovery``."""
    return f"{known.probe} {object_text(known.object)} -> {value_text(value)} after recovery"
