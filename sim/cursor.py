"""A cursor: a place of a document (file, line, path) that reads its children as types and gathers mistakes.

    at = Cursor.over(read_yaml(path), "a map with plan and sizes")
    at.keys(("plan", "sizes"))                             # anything else is an unknown key, with the nearest name
    name = at["plan"].text("the plan's name")
    sizes = [size.whole(1) for size in at["sizes"].items("a list of sizes")]
    at.finish()                                            # raises InputError with all mistakes

Every reading method returns a value of its type. Where the document has something else, the method notes a mistake and
returns a stand-in, so that the reader goes on to the next mistake; ``sound`` says whether that happened at or below a
place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import InputError, Mistake, nearest
from .units import LONGEST, TooLongError
from .yaml_source import FieldPath, Source, describe, dotted

T = TypeVar("T")


class Gathered(list[Mistake]):
    """The mistakes of one document, or of several that are read as one, in the order in which they were found."""

    def __init__(self) -> None:
        super().__init__()
        self._places: set[FieldPath] = set()

    def note(self, path: FieldPath, mistake: Mistake) -> None:
        """A mistake at a path."""
        self.append(mistake)
        self._places.update(path[:length] for length in range(len(path) + 1))

    def within(self, path: FieldPath) -> bool:
        """Whether there is a mistake at the path or below."""
        return path in self._places

    def finish(self, most: int | None = None) -> None:
        """Raise InputError with the mistakes (the first ``most``) in the order of their lines, if there are any."""
        files = list(dict.fromkeys(one.file for one in self))
        if self:
            raise InputError(sorted(self, key=lambda one: (files.index(one.file), one.line or 0))[:most])


@dataclass(frozen=True, slots=True, eq=False)
class Cursor:
    """A place of a document."""

    data: Any
    """The data at this place; None where there is none."""
    source: Source
    path: FieldPath
    mistakes: Gathered
    written: FieldPath | None = None
    """Where the file has it, if not at ``path``."""

    @classmethod
    def over(cls, source: Source, expected: str, mistakes: Gathered | None = None) -> Cursor:
        """The root of a document, which has to be a map. Raises InputError that names ``expected`` otherwise."""
        return cls(source.mapping(expected), source, (), Gathered() if mistakes is None else mistakes)

    @property
    def line(self) -> int | None:
        """The line, from 1, or that of the nearest place above that has one."""
        return self.source.line(self.path if self.written is None else self.written)

    def sound(self) -> bool:
        """Whether there is no mistake at this place or below."""
        return not self.mistakes.within(self.path)

    def finish(self, most: int | None = None) -> None:
        """Raise InputError with all mistakes (or the first ``most``), if there are any."""
        self.mistakes.finish(most)

    # mistakes ---------------------------------------------------------------------------------------------------
    def wrong(self, expected: str, found: str | None = None, close: str | None = None) -> None:
        """Note a mistake here; ``found`` is the data in words if it is not given, ``close`` the nearest known name."""
        found = describe(self.data) if found is None else found
        path = self.path
        self.mistakes.note(path, Mistake(found, expected, self.source.file, self.line, dotted(path) or None, close))

    def adopt(self, error: InputError) -> None:
        """Note the mistakes of something that is named here: at this place, or in the file that they name."""
        for one in error.mistakes:
            if one.file is None:
                self.wrong(one.expected, one.found, one.nearest)
            else:
                self.mistakes.note(self.path, one)

    # children -----------------------------------------------------------------------------------------------------
    def __contains__(self, key: str) -> bool:
        return isinstance(self.data, dict) and key in self.data

    def __getitem__(self, key: str | int) -> Cursor:
        return self.get(key)

    def get(self, key: str | int, default: Any = None) -> Cursor:
        """The child under a key or at a position, or in its place ``default``."""
        data = default
        if isinstance(self.data, dict):
            data = self.data.get(key, default)
        elif isinstance(self.data, list) and isinstance(key, int) and key < len(self.data):
            data = self.data[key]
        return self._child(key, data)

    def _child(self, key: str | int, data: Any) -> Cursor:
        written = None if self.written is None else (*self.written, key)
        return Cursor(data, self.source, (*self.path, key), self.mistakes, written)

    def keys(self, known: Iterable[str], needed: Sequence[str] = (), what: str = "") -> set[str]:
        """Note the keys that are not ``known``, and the keys of ``needed`` that ``what`` lacks.

        Returns the known keys that unknown ones are likely to mean: they are not noted as absent.
        """
        known = list(known)
        misspelt = set()
        for key in self.data:
            if key not in known:
                close = nearest(key, known)
                misspelt |= {close} if close else set()
                self[key].wrong(f"one of {', '.join(known)}", f"the unknown key '{key}'", close)
        for key in needed:
            if key not in self.data and key not in misspelt:
                self.wrong(f"{what} with {', '.join(needed)}", f"no {key}")
        return misspelt

    def is_map(self, expected: str) -> bool:
        """Whether this is a map; a mistake is noted if it is none."""
        if not isinstance(self.data, dict):
            self.wrong(expected)
        return isinstance(self.data, dict)

    def map(self, expected: str) -> dict[str, Any]:
        """A map as it stands; stand-in: an empty one."""
        return self.data if self.is_map(expected) else {}

    def fields(self, expected: str, least: int = 0) -> dict[str, Cursor]:
        """The children of a map of at least so many, by key."""
        if not isinstance(self.data, dict) or len(self.data) < least:
            self.wrong(expected)
            return {}
        return {key: self._child(key, data) for key, data in self.data.items()}

    def items(self, expected: str, least: int = 0, most: int | None = None) -> list[Cursor]:
        """The children of a list of at least and at most so many."""
        data = self.data
        if not isinstance(data, list) or len(data) < least or (most is not None and len(data) > most):
            self.wrong(expected)
            return []
        return [self._child(number, one) for number, one in enumerate(data)]

    def listed(self, expected: str) -> list[Cursor]:
        """The children of a list of one at least, or this place itself where one text stands for a list of it."""
        return [self] if isinstance(self.data, str) else self.items(expected, least=1)

    # values -------------------------------------------------------------------------------------------------------
    def text(self, expected: str, blank: bool = True) -> str:
        """Text, or only text that is not ``blank``; stand-in: nothing."""
        if isinstance(self.data, str) and (blank or self.data.strip()):
            return self.data
        self.wrong(expected)
        return ""

    def word(self, expected: str) -> str:
        """Text or a number, as text; stand-in: nothing."""
        if isinstance(self.data, str | int | float) and not isinstance(self.data, bool):
            return str(self.data)
        self.wrong(expected)
        return ""

    def choice(self, known: Iterable[T], expected: str = "one of {}", found: str | None = None) -> T:
        """One of the known values, whose names stand for ``{}`` in ``expected``; stand-in: the first."""
        known = list(known)
        if self.data in known and not isinstance(self.data, bool):
            return known[known.index(self.data)]
        names = [str(one) for one in known]
        self.wrong(expected.format(", ".join(names)), found, nearest(str(self.data), names))
        return known[0]

    def whole(self, least: int = 0, most: int | None = None) -> int:
        """A whole number between two ends; stand-in: the lower one."""
        data = self.data
        if isinstance(data, int) and not isinstance(data, bool) and least <= data and (most is None or data <= most):
            return data
        self.wrong(f"a whole number from {least}" + ("" if most is None else f" to {most}"))
        return least

    def number(self, expected: str = "a number") -> float:
        """A number as a float; stand-in: 1."""
        if isinstance(self.data, int | float) and not isinstance(self.data, bool):
            return float(self.data)
        self.wrong(expected)
        return 1.0

    def truth(self, expected: str = "true or false") -> bool:
        """True or false; stand-in: false."""
        if not isinstance(self.data, bool):
            self.wrong(expected)
        return self.data is True

    def parsed(self, parse: Callable[[str], int], expected: str) -> int:
        """The value of a text by ``parse``, which raises ValueError for a bad one; stand-in: 0."""
        try:
            if isinstance(self.data, str):
                return parse(self.data)
        except TooLongError:
            expected = LONGEST
        except ValueError:
            pass
        self.wrong(expected)
        return 0
