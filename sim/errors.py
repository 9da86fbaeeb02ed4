"""The one kind of error that a user's input may cause, and the one that lost workers do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from typing_extensions import override


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong with an input, and where.

    ``file`` and ``field`` are what the user wrote (a path, a dotted field name); ``line`` counts from 1 and is
    None where the input has no lines (a command line flag, a binary file).
    """

    found: str
    expected: str
    file: str | None = None
    line: int | None = None
    field: str | None = None
    nearest: str | None = None

    @override
    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        where = f"{place}: " if place else ""
        name = f"{self.field}: " if self.field else ""
        hint = f"; did you mean '{self.nearest}'?" if self.nearest else ""
        return f"{where}{name}found {self.found}, expected {self.expected}{hint}"


class InputError(Exception):
    """Bad input: carries every mistake that was found, printed one a line; the command line exits with 2."""

    def __init__(self, mistakes: Mistake | Iterable[Mistake]) -> None:
        self.mistakes = [mistakes] if isinstance(mistakes, Mistake) else list(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))

    @override
    def __reduce__(self) -> tuple[type[InputError], tuple[list[Mistake]]]:
        return InputError, (self.mistakes,)  # it travels from worker processes


class WorkersGone(Exception):
    """The workers of a command have died, or the cluster they are on: nothing is wrong with input or code."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` is most likely a misspelling of, or None."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


MOST_LISTED = 12
"""Up to so many known names stand in a message whole."""


def listed(name: str, known: Iterable[str], command: str = "") -> str:
    """The known names; of many that a ``command`` prints, the few that are most like ``name``, and that command."""
    known = list(known)
    if len(known) <= MOST_LISTED or not command:
        return ", ".join(known)
    like = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or known[:3]
    return f"{', '.join(like)} or another of {len(known)} ({command})"


def unknown(
    name: str, known: Iterable[str], expected: str = "one of {}", *, file: str | None = None, field: str | None = None
) -> Mistake:
    """The mistake of a name that is none of the known ones, whose list stands for ``{}`` in ``expected``."""
    known = list(known)
    return Mistake(f"'{name}'", expected.format(", ".join(known)), file, None, field, nearest(name, known))
