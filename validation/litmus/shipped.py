"""The shipped litmus tests by name: files of the library, and families that are generated on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ...sim.errors import InputError, Mistake, unknown
from .families.families import commits, covers, devices, sequences, sights, stores, tears, unordered
from .families.primitives import primitives
from .language.format import LIBRARY, read_tests
from .language.program import Test

FAMILIES: Mapping[str, Callable[[], Iterator[Test]]] = {
    "covers": covers,
    "sights": sights,
    "unordered": unordered,
    "sequences": sequences,
    "commits": commits,
    "stores": stores,
    "tears": tears,
    "devices": devices,
    "primitives": primitives,
}
"""By the name of a family: the function that makes its tests."""


def names() -> list[str]:
    """The names that :func:`chosen` accepts beside paths."""
    return [*sorted(path.stem for path in LIBRARY.glob("*.yaml")), *FAMILIES]


def chosen(subjects: Sequence[str]) -> list[Test]:
    """The tests of files, folders and shipped names; all shipped ones if none is named.

    Raises InputError with every mistake of every file, and for a subject that is neither a path nor a name.
    """
    tests: list[Test] = []
    mistakes: list[Mistake] = []
    for subject in subjects or names():
        try:
            tests += _named(subject)
        except InputError as error:
            mistakes += error.mistakes
    if mistakes:
        raise InputError(mistakes)
    return tests


def _named(subject: str) -> list[Test]:
    path = Path(subject)
    if path.suffix or path.exists() or len(path.parts) > 1:
        return read_tests([path])
    if subject in FAMILIES:
        return list(FAMILIES[subject]())
    if subject in names():
        return read_tests([LIBRARY / f"{subject}.yaml"])
    raise InputError(unknown(subject, names(), "a file, a folder, or a name: {}"))
