"""Reads YAML in which every number states its origin into frozen dataclasses, and keeps the origins.

A value is written ``{value: 150 ns, source: "author, venue, figure", note: "...", range: [100 ns, 250 ns]}``; note
and range may be absent. The name of a dataclass field says the unit: ``doorbell_ps`` is a duration under the key
``doorbell``, ``mps_bytes`` a size under ``mps``, ``link_bits_per_s`` a rate under ``link``; an int without a unit is
a count. Nothing here knows the meaning of a number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ...sim.cursor import Cursor
from ...sim.errors import nearest
from ...sim.units import parse_bytes, parse_duration_ps, parse_rate
from ...sim.yaml_source import describe, dotted
from ..durability.places import Term
from .kinds import KindParameters
from .parameters.counts import CountOrZero

LEAF_KEYS = ("value", "source", "note", "range")
_EXPECTED_LEAF = 'a value with its origin, as in {value: 150 ns, source: "author, venue, figure"}'

# Ending of the field's name, its ending as a YAML key, who reads its text.
_UNITS: tuple[tuple[str, str, Callable[[str], int]], ...] = (
    ("_ps_per_byte", "_per_byte", parse_duration_ps),
    ("_ps", "", parse_duration_ps),
    ("_bits_per_s", "", parse_rate),
    ("_bytes", "", parse_bytes),
)
_TRUTHS = {"on": True, "off": False, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number or word of a profile, and where it comes from."""

    path: str
    """Where it stands in the profile: ``nic.doorbell``."""
    value: int | str | bool
    """The number for the simulator: picoseconds, bytes, bits per second, a count, a word or a truth."""
    text: str
    """The text in the profile: ``150 ns``."""
    source: str
    note: str = ""
    range: tuple[str, str] | None = None
    """Between which values public sources, or reason, place it."""
    file: str = ""
    line: int | None = None

    @property
    def origin(self) -> str:
        """``assumption``, ``fitted`` or ``published``, by the first word of the source."""
        word = self.source.split(maxsplit=1)[0].rstrip(":").lower()
        return word if word in ("assumption", "fitted") else "published"


@dataclass
class Group:
    """A map of groups and values (a value is not read yet), and where it stands."""

    parts: dict[str, Group | Cursor]
    at: Cursor


def group(at: Cursor, skip: Iterable[str] = ()) -> Group:
    """The tree of a YAML map without the keys ``skip``; what holds ``value`` (or ``source``), or is no map, is a
    value.
    """
    parts: dict[str, Group | Cursor] = {}
    for key in [key for key in at.data if key not in skip]:
        part = at[key]
        is_group = isinstance(part.data, dict) and not {"value", "source"} & part.data.keys()
        parts[key] = group(part) if is_group else part
    return Group(parts, at)


def merge(base: Group, changes: Group) -> Group:
    """``base`` with what ``changes`` states put over it, value by value."""
    parts = dict(base.parts)
    for key, part in changes.parts.items():
        old = parts.get(key)
        parts[key] = merge(old, part) if isinstance(old, Group) and isinstance(part, Group) else part
    return Group(parts, changes.at)


def place(part: Group | Cursor) -> Cursor:
    """Where a group or a value stands."""
    return part.at if isinstance(part, Group) else part


def yaml_key(field: str) -> str:
    """The key under which a dataclass field stands in YAML: its name without the unit."""
    for ending, short, _ in _UNITS:
        if field.endswith(ending):
            return field.removesuffix(ending) + short
    return field


class ProfileReader:
    """Turns trees into dataclasses; collects every parameter, and notes every mistake where it is."""

    def __init__(self, choices: Mapping[str, Iterable[tuple[Any, Cursor]]] | None = None) -> None:
        self.parameters: list[Parameter] = []
        self._choices = choices or {}
        """By a parameter's path: other values that it may be given later, and where each is named."""

    def read(self, kind: type[Any], tree: Group, skip: Iterable[str] = ()) -> dict[str, Any]:
        """The values of all fields of the dataclass ``kind`` but ``skip``; incomplete where there are mistakes.

        A field that has a default may be absent.
        """
        hints = get_type_hints(kind)
        known = {yaml_key(field.name): field for field in dataclasses.fields(kind) if field.name not in skip}
        for key, part in tree.parts.items():
            if key not in known:
                place(part).wrong(f"one of {', '.join(known)}", f"the unknown key '{key}'", nearest(key, known))
        values: dict[str, Any] = {}
        for key, field in known.items():
            if key in tree.parts:
                values[field.name] = self._read_part(hints[field.name], field.name, tree.parts[key])
            elif field.default is field.default_factory is dataclasses.MISSING:
                tree.at[key].wrong(f"{_wanted(hints[field.name], field.name)} under '{key}'", "nothing")
        return values

    def _read_part(self, hint: Any, name: str, part: Group | Cursor) -> Any:
        is_map = get_origin(hint) is not None and issubclass(_runtime_type(hint), Mapping)
        if is_map or dataclasses.is_dataclass(hint):
            if not isinstance(part, Group):
                return part.wrong("a map of values")
            if is_map:
                return {key: self._read_part(get_args(hint)[1], key, inner) for key, inner in part.parts.items()}
            return self._build(hint, part)
        if isinstance(part, Group):
            return part.at.wrong(_EXPECTED_LEAF, describe(part.parts))
        return self._read_leaf(hint, name, part)

    def _build(self, kind: Any, tree: Group) -> Any:
        at = tree.at
        if kind is KindParameters:
            kind, tree = self._kind(tree)
        values = {} if kind is None else self.read(kind, tree)
        return kind(**values) if at.sound() else None

    def _kind(self, tree: Group) -> tuple[type[KindParameters] | None, Group]:
        """The class of parameters that ``kind`` names, and the values beside it."""
        known, named = KindParameters.kinds, tree.parts.get("kind")
        expected = f"one of {', '.join(known)}" if known else "no kind: models/host/ has none of its own"
        if not isinstance(named, Cursor):
            tree.at["kind"].wrong(f"{expected} under 'kind'", "nothing")
            return None, tree
        word = self._read_leaf(str, "kind", named)
        if word not in known:
            if word is not None:
                named["value"].wrong(expected, f"the unknown kind '{word}'", nearest(word, known))
            return None, tree
        rest = {key: part for key, part in tree.parts.items() if key != "kind"}
        return known[word], Group(rest, tree.at)

    def _read_leaf(self, hint: Any, name: str, at: Cursor) -> Any:
        if not isinstance(at.data, dict):
            return at.wrong(_EXPECTED_LEAF, f"{describe(at.data)} without a source")
        at.keys(LEAF_KEYS)
        source, value, note = at["source"].data, at["value"].data, at.get("note", "").data
        if not isinstance(source, str) or not source.strip():
            found = None if "source" in at else "no source"
            return at["source"].wrong("where the value comes from, in words, under 'source'", found)
        try:
            read = convert(hint, name, value)
            bounds = self._read_range(hint, name, read, at.data.get("range"))
        except ValueError as error:
            found, _, expected = str(error).partition(": ")
            return at["value"].wrong(expected, found)
        self._check_choices(hint, name, at)
        text, note = _text(value), str(note)
        self.parameters.append(
            Parameter(dotted(at.path), read, text, source.strip(), note, bounds, at.source.file, at.line)
        )
        return read

    def _check_choices(self, hint: Any, name: str, at: Cursor) -> None:
        for value, named in self._choices.get(dotted(at.path), ()):
            try:
                convert(hint, name, value)
            except ValueError as error:
                found, _, expected = str(error).partition(": ")
                words = expected.removeprefix("one of ").split(", ")
                named.wrong(f"{expected}, as {dotted(at.path)} takes it", found, nearest(str(value), words))

    @staticmethod
    def _read_range(hint: Any, name: str, value: Any, bounds: Any) -> tuple[str, str] | None:
        if bounds is None:
            return None
        if not isinstance(bounds, list) or len(bounds) != 2:
            raise ValueError(f"the range {describe(bounds)}: a list of the lowest and the highest value")
        low, high = (convert(hint, name, bound) for bound in bounds)
        if not low <= value <= high:
            raise ValueError(f"a value outside its range: one from {bounds[0]} to {bounds[1]}")
        return _text(bounds[0]), _text(bounds[1])


def convert(hint: Any, name: str, data: Any) -> int | str | bool:
    """The value of the text or number ``data`` for a field; ValueError("found: expected") if it has none."""
    if hint is bool:
        truth = data if isinstance(data, bool) else _TRUTHS.get(str(data))
        if truth is None:
            raise ValueError(f"{describe(data)}: true or false")
        return truth
    if get_origin(hint) is Literal:
        words = get_args(hint)
        if data not in words:
            raise ValueError(f"{describe(data)}: one of {', '.join(words)}")
        return str(data)
    if isinstance(hint, type) and issubclass(hint, Term):
        if data not in list(hint):
            raise ValueError(f"{describe(data)}: one of {', '.join(hint)}")
        return hint(data)
    if hint is str:
        if not isinstance(data, str):
            raise ValueError(f"{describe(data)}: a word")
        return data
    for ending, _, parse in _UNITS:
        if name.endswith(ending):
            return _with_unit(parse, data)
    least = 0 if hint is CountOrZero else 1
    if isinstance(data, bool) or not isinstance(data, int) or data < least:
        raise ValueError(f"{describe(data)}: a whole number from {least}")
    return data


def _with_unit(parse: Callable[[str], int], data: Any) -> int:
    try:
        return parse(data if isinstance(data, str) else describe(data))
    except ValueError as error:
        complaint = str(error)
        _, _, expected = complaint.partition(": ")
        raise ValueError(f"{describe(data)}: {expected or complaint}") from None


def _text(data: Any) -> str:
    return str(data).lower() if isinstance(data, bool) else str(data)


def _runtime_type(hint: Any) -> type[Any]:
    origin: type[Any] = get_origin(hint)
    return origin if isinstance(origin, type) else object


def _wanted(hint: Any, name: str) -> str:
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if isinstance(hint, type) and issubclass(hint, Term):
        return f"one of {', '.join(hint)}"
    for ending, what in (("_ps_per_byte", "a duration"), ("_ps", "a duration"), ("_bits_per_s", "a rate")):
        if name.endswith(ending):
            return what
    return {int: "a size" if name.endswith("_bytes") else "a whole number", bool: "true or false", str: "a word"}.get(
        hint, "a map of values"
    )
