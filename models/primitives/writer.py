"""A primitive back as YAML: text that reads as the same primitive, for what programs have made up."""

from __future__ import annotations

import json
from typing import Any

from .language import Primitive, Step, Value
from .reader import default_after
from .vocabulary import MEMORIES, ActionParameter, Kind


def dump_primitive(primitive: Primitive) -> str:
    """YAML that :func:`~.reader.parse_primitive` reads as ``primitive``, its switches as they have been chosen.

    Options that have been chosen are left out: their steps are as chosen.
    """
    lines = [f"{name}: {_quoted(getattr(primitive, name))}" for name in ("name", "title", "source", "status")]
    lines.append(f"transport: {_quoted(list(primitive.transport))}")
    lines.append(f"follows: {_quoted(list(primitive.follows))}")
    if primitive.memory != MEMORIES[0]:
        lines.append(f"memory: {_quoted(primitive.memory)}")
    if primitive.packet:
        lines.append(f"packet: {_quoted(primitive.packet)}")
    if primitive.header_bytes:
        lines.append(f"header: {_quoted(f'{primitive.header_bytes} B')}")
    if primitive.batching != 1:
        lines.append(f"batching: {primitive.batching}")
    if primitive.steps:
        lines.append("steps:")
        lines += [f"- {_flow(_step(step, primitive.steps[:number]))}" for number, step in enumerate(primitive.steps)]
    lines.append(f"complete: {_quoted(primitive.complete)}")
    if primitive.claims:
        lines.append("claims:")
        lines += [f"  {name}: {_quoted(where)}" for name, where in primitive.claims.items()]
    return "\n".join(lines) + "\n"


def _step(step: Step, before: tuple[Step, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"id": step.id, "at": str(step.place), "do": step.do}
    for parameter in step.action.parameters:
        value = step.parameters.get(parameter.name)
        if value is not None:
            found[parameter.name] = _text(parameter, value)
    if step.after != default_after(step, list(before)):
        found["after"] = list(step.after)
    if step.note:
        found["note"] = step.note
    return found


def _text(parameter: ActionParameter, value: Value) -> Any:
    if parameter.kind is Kind.DURATION:
        return f"{value} ps"
    if parameter.kind is Kind.SIZE:
        return f"{value} B"
    return list(value) if isinstance(value, tuple) else value


def _flow(step: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_quoted(value)}" for key, value in step.items()) + "}"


def _quoted(value: Any) -> str:
    """JSON is YAML; words that need no quotes go without."""
    if isinstance(value, list):
        return "[" + ", ".join(_quoted(item) for item in value) + "]"
    if isinstance(value, str) and value.replace(" ", "").replace("-", "").replace("_", "").isalpha():
        return value if value not in ("true", "false", "null") else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)
