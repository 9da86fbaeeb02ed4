"""Arguments from Python that no file has: lists and whole numbers, checked as options of the command line are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ..sim.errors import InputError, Mistake

_Value = TypeVar("_Value")


def listed(name: str, values: Iterable[_Value], kind: type | tuple[type, ...], what: str) -> list[_Value]:
    """The values of an argument that is a list; raises InputError for what is none, as a text, or has another in it."""
    expected = f"a list of {what}"
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(Mistake(repr(values), expected, field=f"argument {name}"))
    found = list(values)
    wrong = [Mistake(repr(one), expected, field=f"argument {name}") for one in found if not isinstance(one, kind)]
    if wrong:
        raise InputError(wrong)
    return found


def whole(name: str, value: int, what: str, at_least: int = 1) -> int:
    """A whole number; raises InputError for what is none, or too small."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InputError(Mistake(f"{value!r}", f"{what}, at least {at_least}", field=f"argument {name}"))
    return value
