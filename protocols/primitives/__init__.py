"""The flush primitives that rpsim ships: YAML files in this folder, found without a list.

A file has the steps of one published primitive, with its source and the guarantees that it claims. The language is read
by ``models.primitives``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...models.primitives.language import Primitive
from ...models.primitives.reader import read_primitive
from ...sim.errors import InputError, unknown
from ..guarantees import Condition

_SHIPPED: dict[tuple[str, tuple[tuple[str, str], ...]], Primitive] = {}
"""By name and switches: the shipped ones that have been read. Nobody changes one."""


def known_primitives() -> dict[str, Path]:
    """The shipped ones by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def primitive(name: str | Path, switches: Mapping[str, str] | None = None) -> Primitive:
    """The shipped primitive of that name, or the one in that file; ``switches`` choose of its options.

    Raises InputError for a name or a file that there is not, and for everything that is wrong with the file.
    """
    text = str(name)
    key = text, tuple(sorted((switches or {}).items()))
    if key in _SHIPPED:
        return _SHIPPED[key]
    known = known_primitives()
    if text in known:
        return _SHIPPED.setdefault(key, _checked(read_primitive(known[text], switches)))
    if "/" in text or text.endswith((".yaml", ".yml")) or Path(text).exists():
        return _checked(read_primitive(Path(name), switches))
    expected = "a file, or a shipped primitive (rpsim list primitives)"
    raise InputError(unknown(text, known, expected, field="primitive"))


def _checked(found: Primitive) -> Primitive:
    """Its claims are in the vocabulary of guarantees."""
    names = [str(condition) for condition in Condition]
    wrong = [
        unknown(claim, names, "a condition: {}", file=found.file, field="claims")
        for claim in found.claims
        if claim not in names
    ]
    if wrong:
        raise InputError(wrong)
    return found
