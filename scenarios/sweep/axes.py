"""The values that a sweep gives to a field: ``FIELD=a,b,c``, ``FIELD=lo..hi*2``, ``FIELD=lo..hi+STEP``.

Values are what a scenario's file could say in that place: numbers, texts with units, names, lists in brackets. A range
may stand among them. Its arithmetic is decimal, so that ``0.1..0.5+0.1`` has the values that one expects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ...sim.errors import InputError, Mistake
from ...sim.units import format_bytes, parse_bytes, parse_duration_ps, parse_rate
from ...sim.yaml_source import describe, parse_yaml

MOST_VALUES = 10_000
"""Values of one field: more are a mistyped range."""

EXAMPLE = "values (workload.keys=50,100) or a range (workload.keys=50..800*2, 50..200+50)"

_NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,3})?"
_UNIT = r"[^\W\d_][\w/]*"
_RANGE = re.compile(
    rf"(?P<lo>{_NUMBER})\s*(?P<lo_unit>{_UNIT})?\s*\.\.\s*(?P<hi>{_NUMBER})\s*(?P<hi_unit>{_UNIT})?"
    rf"(?:\s*(?P<how>[*+])\s*(?P<step>{_NUMBER})\s*(?P<step_unit>{_UNIT})?)?"
)
_LIKE_A_RANGE = re.compile(rf"{_NUMBER}\s*(?:{_UNIT})?\s*\.\.")
_OPENING, _CLOSING = "[{(", "]})"


@dataclass(frozen=True)
class Axis:
    """A field of a scenario, and the values that a sweep gives to it, in their order."""

    field: str
    values: tuple[Any, ...]

    @property
    def place(self) -> str:
        """What messages call it."""
        return f"--over {self.field}"


def parse_axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    """The axes of a command line; raises InputError with all mistakes at once."""
    found: dict[str, Axis] = {}
    wrong: list[Mistake] = []
    for text in texts:
        try:
            axis = parse_axis(text)
        except InputError as error:
            wrong += error.mistakes
            continue
        if axis.field in found:
            wrong.append(Mistake("it a second time", "each field once, with all its values", field=axis.place))
        found[axis.field] = axis
    if wrong:
        raise InputError(wrong)
    return tuple(found.values())


def parse_axis(text: str) -> Axis:
    """The axis that ``FIELD=VALUES`` says; raises InputError."""
    field, equals, listed = text.partition("=")
    field = field.strip()
    if not equals or not field:
        raise InputError(Mistake(f"'{text}'", f"a field and its {EXAMPLE}", field="--over"))
    place = f"--over {field}"
    if field == "seed":
        raise InputError(
            Mistake("the seed", "--seeds N: so many seeds, from the scenario's (or --seed) on", field=place)
        )
    values: list[Any] = []
    for part in _parts(listed):
        if not part:
            raise InputError(Mistake(f"'{listed}'", f"a value between commas: {EXAMPLE}", field=place))
        values += _range(part, place) if _LIKE_A_RANGE.match(part) else [_value(part, place)]
        if len(values) > MOST_VALUES:
            raise InputError(Mistake(f"more than {MOST_VALUES:,} values", "fewer values of one field", field=place))
    seen: set[str] = set()
    for value in values:
        if repr(value) in seen:
            raise InputError(Mistake(f"{describe(value)} twice", "each value once", field=place))
        seen.add(repr(value))
    return Axis(field, tuple(values))


def magnitude(value: Any) -> tuple[float, str] | None:
    """A value's place on a numeric scale, and the scale's unit: bytes, us, Gb/s, or none; None for a name or a list."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value), ""
    for read, scale, unit in ((parse_bytes, 1, "bytes"), (parse_duration_ps, 10**6, "us"), (parse_rate, 10**9, "Gb/s")):
        try:
            return read(value) / scale, unit
        except (ValueError, TypeError):
            continue
    return None


def shown(value: Any) -> str:
    """A value as text: as a scenario's file would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(one)}" for key, one in value.items()) + "}"
    return "nothing" if value is None else str(value)


def _parts(listed: str) -> Iterator[str]:
    """What stands between the commas that are not in brackets or quotes."""
    depth, quote, begun = 0, "", 0
    for at, sign in enumerate(listed):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == "," and depth == 0:
            yield listed[begun:at].strip()
            begun = at + 1
    yield listed[begun:].strip()


def _value(text: str, place: str) -> Any:
    try:
        return parse_yaml(text, place).data
    except InputError as error:
        raise InputError(
            [Mistake(m.found, m.expected, field=place, nearest=m.nearest) for m in error.mistakes]
        ) from None


def _range(text: str, place: str) -> list[Any]:
    """The values of a range, from its first on as long as they do not exceed its last."""
    found = _RANGE.fullmatch(text)
    if found is None or found["how"] is None:
        expected = "a range with its step: lo..hi*FACTOR or lo..hi+STEP, as in 50..800*2"
        raise InputError(Mistake(f"'{text}'", expected, field=place))
    first, last, step = (Decimal(found[name]) for name in ("lo", "hi", "step"))
    unit = found["lo_unit"] or ""
    try:
        last *= _ratio(found["hi_unit"] or "", unit)
        if found["how"] == "+":
            step *= _ratio(found["step_unit"] or "", unit)
        elif found["step_unit"]:
            raise ValueError(f"a factor without a unit, not '{found['step']} {found['step_unit']}'")
    except ValueError as error:
        raise InputError(Mistake(f"'{text}'", str(error), field=place)) from None
    if last < first:
        raise InputError(Mistake(f"the empty range '{text}'", "a last value that is not below the first", field=place))
    grows = step > 1 and first > 0 if found["how"] == "*" else step > 0
    if not grows:
        expected = "a first value above 0 and a factor above 1" if found["how"] == "*" else "a step above 0"
        raise InputError(Mistake(f"'{text}', which never ends", expected, field=place))
    values = []
    value = first
    while value <= last:
        values.append(value)
        value = value * step if found["how"] == "*" else value + step
        if len(values) > MOST_VALUES:
            raise InputError(Mistake(f"more than {MOST_VALUES:,} values", "fewer values of one field", field=place))
    other = any(found[name] not in (None, unit) for name in ("hi_unit", "step_unit"))
    return [_written(value, unit, other) for value in values]


def _ratio(unit: str, to: str) -> Decimal:
    """How many of a unit ``to`` one ``unit`` is. ValueError where both are not of one kind."""
    if unit == to:
        return Decimal(1)
    for read in (parse_bytes, parse_duration_ps, parse_rate):
        try:
            return Decimal(read(f"1 {unit}")) / Decimal(read(f"1 {to}"))
        except ValueError:
            continue
    here, there = (f"'{one}'" if one else "no unit" for one in (unit, to))
    raise ValueError(f"one kind of unit in a range, not {there} and {here}")


def _written(value: Decimal, unit: str, mixed: bool) -> Any:
    """A value of a range as a file would have it; sizes of ``mixed`` units in the largest binary one."""
    value = value.normalize()
    whole = value == value.to_integral_value()
    if not unit:
        return int(value) if whole else float(value)
    text = str(int(value)) if whole else f"{value:f}"
    if mixed:
        with suppress(ValueError):  # a time, or a rate
            return format_bytes(parse_bytes(f"{text} {unit}"))
    return f"{text} {unit}"
