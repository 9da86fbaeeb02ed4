"""The language for editors and people: a JSON schema, and the reference for people, made from the words."""

from __future__ import annotations

from typing import Any

from .reader import FIELDS, STEP_FIELDS, wanted
from .vocabulary import ACTIONS, FOLLOWS, MEMORIES, STATUSES, TRANSPORTS, Action, ActionParameter, Kind, StepPlace

_TEXT = {"type": "string", "minLength": 1}
_DURATION = {"type": "string", "pattern": r"^\s*\d[\d_]*(\.\d*)?\s*(ps|ns|us|µs|ms|s)\s*$"}
_SIZE = {"type": "string", "pattern": r"^\s*\d[\d_]*\s*(B|[kKMGT]i?B)\s*$"}


def schema() -> dict[str, Any]:
    """The JSON schema of a primitive's file (draft 2020-12), by which an editor completes and underlines.

    It knows every word; in which order steps make sense is the reader's business (``models.primitives.plan``).
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a flush primitive of rpsim",
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "title", "source", "status"],
        "properties": {name: {**_field(name), "description": text} for name, text in FIELDS.items()},
    }


def _field(name: str) -> dict[str, Any]:
    match name:
        case "status":
            return {"enum": list(STATUSES)}
        case "transport":
            return _list_of(list(TRANSPORTS))
        case "follows":
            return _list_of(list(FOLLOWS))
        case "memory":
            return {"enum": list(MEMORIES)}
        case "header":
            return _SIZE
        case "batching":
            return {"type": "integer", "minimum": 1, "maximum": 1024}
        case "claims":
            return {"type": "object", "additionalProperties": _TEXT}
        case "options":
            return {"type": "object", "additionalProperties": _option()}
        case "steps":
            steps = [_step(action) for place in StepPlace for action in ACTIONS[place].values()]
            return {"type": "array", "items": {"oneOf": steps}}
    return _TEXT


def _list_of(words: list[str]) -> dict[str, Any]:
    return {"oneOf": [{"enum": words}, {"type": "array", "minItems": 1, "items": {"enum": words}}]}


def _option() -> dict[str, Any]:
    choice = {
        "type": "object",
        "additionalProperties": False,
        "required": ["source"],
        "properties": {"source": _TEXT, "set": {"type": "object"}, "drop": {"type": "array", "items": _TEXT}},
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["text", "default", "choices"],
        "properties": {
            "text": _TEXT,
            "default": _TEXT,
            "choices": {"type": "object", "minProperties": 2, "additionalProperties": choice},
        },
    }


def _step(action: Action) -> dict[str, Any]:
    found: dict[str, Any] = {
        "title": f"{action.place}: {action.name}",
        "description": action.text,
        "type": "object",
        "additionalProperties": False,
        "required": ["at", "do", *(one.name for one in action.parameters if one.required)],
        "properties": {
            "id": _TEXT,
            "at": {"const": str(action.place)},
            "do": {"const": action.name},
            "after": {"oneOf": [_TEXT, {"type": "array", "minItems": 1, "items": _TEXT}]},
            "note": {"type": "string"},
            **{one.name: {**_value(one), "description": one.text} for one in action.parameters},
        },
    }
    if action.name == "send":
        found["oneOf"] = [{"required": ["verb"]}, {"required": ["packet"]}]
    return found


def _value(parameter: ActionParameter) -> dict[str, Any]:
    match parameter.kind:
        case Kind.WORD:
            return {"enum": list(parameter.words)}
        case Kind.WORDS:
            return _list_of(list(parameter.words))
        case Kind.DURATION:
            return _DURATION
        case Kind.SIZE:
            return _SIZE
        case Kind.TRUTH:
            return {"type": "boolean"}
        case Kind.COUNT:
            return {"type": "integer", "minimum": 1, "maximum": 1024}
    return _TEXT


def reference() -> str:
    """The reference, in Markdown for the documentation site: fields of a file, then every action."""
    lines = ["| field | is |", "|---|---|"]
    lines += [f"| `{name}` | {text} |" for name, text in FIELDS.items()]
    lines += ["", f"A step has `at` and `do`, and may have {_words(STEP_FIELDS[:1] + STEP_FIELDS[3:])}.", ""]
    for place in StepPlace:
        lines += [f"### {place}", "", "| do | what | its end proves |", "|---|---|---|"]
        lines += [
            f"| `{action.name}` | {_description(action)} | {action.proves} |" for action in ACTIONS[place].values()
        ]
        lines.append("")
    return "\n".join(lines)


def _words(names: tuple[str, ...]) -> str:
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} and {last}"


def _description(action: Action) -> str:
    parameters = [f"`{one.name}`: {one.text}, {_kind(one)}" for one in action.parameters]
    return "<br>".join([action.text, *parameters])


def _kind(parameter: ActionParameter) -> str:
    what = wanted(parameter)
    if parameter.default is None:
        return f"{what} (needed)" if parameter.required else what
    default = str(parameter.default).lower() if isinstance(parameter.default, bool) else parameter.default
    return f"{what} (default {default})"
