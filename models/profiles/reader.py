"""Reads YAML in which every number states its origin into frozen dataclasses, and keeps the origins.

A value is written ``{value: 150 ns, source: "author, venue, figure", note: "...", range: [100 ns, 250 ns]}``; note
and range may be absent. The name of a dataclass field says the unit: ``doorbell_ps`` is a duration under the key
``doorbell``, ``mps_bytes`` a size under ``mps``, ``link_bits_per_s`` a rate under ``link``; an int without a unit is
a count. Nothing here knows what the numbers mean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ...sim.errors import Mistake, nearest
from ...sim.units import parse_bytes, parse_duration_ps, parse_rate
from ...sim.yaml_source import FieldPath, Source, describe, dotted
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
    """What the simulator uses: picoseconds, bytes, bits per second, a count, a word or a truth."""
    text: str
    """What the profile says: ``150 ns``."""
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


@dataclass(frozen=True)
class Leaf:
    """A value as it stands in a file, not read yet."""

    data: Any
    origin: Source
    path: FieldPath
    written: FieldPath | None = None
    """Where the file has it, if not at ``path``."""

    def line(self, key: str = "") -> int | None:
        """The line of the value, or of ``key`` inside."""
        place = self.path if self.written is None else self.written
        return self.origin.line((*place, key) if key else place)

    def mistake(self, found: str, expected: str, key: str = "", close: str | None = None) -> Mistake:
        """What is wrong here, or at ``key`` inside; ``close`` is the nearest known name."""
        path = (*self.path, key) if key else self.path
        return Mistake(found, expected, self.origin.file, self.line(key), dotted(path), close)


@dataclass
class Group:
    """A map of groups and values, and where it stands."""

    parts: dict[str, Group | Leaf]
    origin: Source
    path: FieldPath

    def mistake(self, found: str, expected: str, key: str = "", close: str | None = None) -> Mistake:
        """What is wrong here, or at ``key`` inside; ``close`` is the nearest known name."""
        path = (*self.path, key) if key else self.path
        return Mistake(found, expected, self.origin.file, self.origin.line(path), dotted(path), close)


def group(data: Mapping[str, Any], origin: Source, path: FieldPath = ()) -> Group:
    """The tree of a YAML map; what holds ``value`` (or ``source``), or is no map, is a leaf."""
    parts: dict[str, Group | Leaf] = {}
    for key, part in data.items():
        here = (*path, key)
        is_group = isinstance(part, dict) and not {"value", "source"} & part.keys()
        parts[key] = group(part, origin, here) if is_group else Leaf(part, origin, here)
    return Group(parts, origin, path)


def merge(base: Group, changes: Group) -> Group:
    """``base`` with what ``changes`` states put over it, value by value."""
    parts = dict(base.parts)
    for key, part in changes.parts.items():
        old = parts.get(key)
        parts[key] = merge(old, part) if isinstance(old, Group) and isinstance(part, Group) else part
    return Group(parts, changes.origin, changes.path)


def yaml_key(field: str) -> str:
    """The key under which a dataclass field stands in YAML: its name without the unit."""
    for ending, short, _ in _UNITS:
        if field.endswith(ending):
            return field.removesuffix(ending) + short
    return field


class ProfileReader:
    """Turns trees into dataclasses; collects every parameter and every mistake on the way."""

    def __init__(self) -> None:
        self.parameters: list[Parameter] = []
        self.mistakes: list[Mistake] = []

    def read(self, kind: type[Any], tree: Group, skip: Iterable[str] = ()) -> dict[str, Any]:
        """The values of all fields of the dataclass ``kind`` but ``skip``; incomplete where there are mistakes.

        A field that has a default may be absent.
        """
        hints = get_type_hints(kind)
        fields = [field for field in dataclasses.fields(kind) if field.name not in skip]
        names = [field.name for field in fields]
        absent = (dataclasses.MISSING, dataclasses.MISSING)
        optional = {field.name for field in fields if (field.default, field.default_factory) != absent}
        known = {yaml_key(name): name for name in names}
        for key, part in tree.parts.items():
            if key not in known:
                found, expected = f"the unknown key '{key}'", f"one of {', '.join(known)}"
                self.mistakes.append(part.mistake(found, expected, close=nearest(key, known)))
        values: dict[str, Any] = {}
        for key, name in known.items():
            if key in tree.parts:
                values[name] = self._read_part(hints[name], name, tree.parts[key])
            elif name not in optional:
                self.mistakes.append(tree.mistake("nothing", f"{_wanted(hints[name], name)} under '{key}'", key))
        return values

    def _read_part(self, hint: Any, name: str, part: Group | Leaf) -> Any:
        is_map = get_origin(hint) is not None and issubclass(_runtime_type(hint), Mapping)
        if is_map or dataclasses.is_dataclass(hint):
            if isinstance(part, Leaf):
                self.mistakes.append(part.mistake(describe(part.data), "a map of values"))
                return None
            if not is_map:
                return self._build(hint, part)
            item = get_args(hint)[1]
            return {key: self._read_part(item, key, inner) for key, inner in part.parts.items()}
        if isinstance(part, Group):
            self.mistakes.append(part.mistake(describe(part.parts), _EXPECTED_LEAF))
            return None
        return self._read_leaf(hint, name, part)

    def _build(self, kind: Any, tree: Group) -> Any:
        before = len(self.mistakes)
        if kind is KindParameters:
            kind, tree = self._kind(tree)
            if kind is None:
                return None
        values = self.read(kind, tree)
        return kind(**values) if len(self.mistakes) == before else None

    def _kind(self, tree: Group) -> tuple[type[KindParameters] | None, Group]:
        """The class of parameters that ``kind`` names, and the values beside it."""
        known, leaf = KindParameters.kinds, tree.parts.get("kind")
        expected = f"one of {', '.join(known)}" if known else "no kind: models/host/ has none of its own"
        if not isinstance(leaf, Leaf):
            self.mistakes.append(tree.mistake("nothing", f"{expected} under 'kind'", "kind"))
            return None, tree
        word = self._read_leaf(str, "kind", leaf)
        if word is None:
            return None, tree
        if word not in known:
            self.mistakes.append(leaf.mistake(f"the unknown kind '{word}'", expected, "value", nearest(word, known)))
            return None, tree
        rest = {key: part for key, part in tree.parts.items() if key != "kind"}
        return known[word], Group(rest, tree.origin, tree.path)

    def _read_leaf(self, hint: Any, name: str, leaf: Leaf) -> Any:
        data = leaf.data
        if not isinstance(data, dict):
            self.mistakes.append(leaf.mistake(f"{describe(data)} without a source", _EXPECTED_LEAF))
            return None
        for key in [key for key in data if key not in LEAF_KEYS]:
            found, expected = f"the unknown key '{key}'", f"one of {', '.join(LEAF_KEYS)}"
            self.mistakes.append(leaf.mistake(found, expected, key, nearest(key, LEAF_KEYS)))
        source, note, bounds = data.get("source"), data.get("note", ""), data.get("range")
        if not isinstance(source, str) or not source.strip():
            found = describe(source) if "source" in data else "no source"
            self.mistakes.append(leaf.mistake(found, "where the value comes from, in words, under 'source'", "source"))
            return None
        try:
            value = convert(hint, name, data.get("value"))
            bounds_text = self._read_range(hint, name, value, bounds)
        except ValueError as error:
            found, _, expected = str(error).partition(": ")
            self.mistakes.append(leaf.mistake(found, expected, "value"))
            return None
        self.parameters.append(
            Parameter(
                dotted(leaf.path),
                value,
                _text(data["value"]),
                source.strip(),
                str(note),
                bounds_text,
                leaf.origin.file,
                leaf.line(),
            )
        )
        return value

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
    """What the text or number ``data`` means for a field; ValueError("found: expected") if it means nothing."""
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
