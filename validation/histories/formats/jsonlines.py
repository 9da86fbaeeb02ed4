"""JSON Lines: an object a line, in Jepsen's words (docs/check.md)."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ....sim.yaml_source import describe
from ..entries import HistoryFile
from ..events import Enough, Events

NAME = "json lines"


class _Wrong(ValueError):
    """A line that cannot be read, with what was found."""


def read(text: str, file: str) -> HistoryFile:
    """The history that ``text`` is; raises InputError with all that is wrong."""
    events = Events(file, NAME)
    try:
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                _line(events, number, line)
    except Enough:
        pass
    return events.finish()


def _line(events: Events, number: int, line: str) -> None:
    try:
        data = _DECODE.decode(line)
    except (ValueError, RecursionError) as error:
        expected = 'a JSON object, as in {"process": 0, "type": "invoke", ...}'
        events.unreadable(number, _malformed(line, error), expected)
        return
    if isinstance(data, dict):
        events.event(number, data)
    else:
        events.unreadable(number, describe(data), "a JSON object: one event a line")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for turn, name in enumerate(names) if name in names[:turn])
        raise _Wrong(f"the field {describe(twice)} twice")
    return data


def _constant(name: str) -> NoReturn:
    raise _Wrong(f"{name}, which is no JSON")


def _malformed(line: str, error: Exception) -> str:
    if isinstance(error, _Wrong):
        return str(error)
    if isinstance(error, RecursionError):
        return "lists in lists without end"
    column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
    return f"{describe(line.strip())}, which is no JSON{column}"


_DECODE = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
"""Made once: making it takes longer than a line."""
