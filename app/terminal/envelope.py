"""The one form of every answer that ``--json`` prints, and the schema of all of them."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..options import Command, Field
from .output import as_json

ENVELOPE = (
    Field("command", "string", "the command and the part of it, as in `matrix schemes`"),
    Field("version", "string", "the version of rpsim"),
    Field("seed", "integer|array|null", "the seed of all random choices, or several; null where nothing is random"),
    Field("input_hash", "string", "a hash of all that the result depends on, but for rpsim itself"),
    Field("result", "object", "the fields of the command"),
)


def envelope(
    options: argparse.Namespace, result: Mapping[str, Any], seed: int | list[int] | None = None, inputs: object = None
) -> str:
    """The answer of a command as JSON.

    ``inputs`` is what the result depends on, if that is more than arguments, options, and the contents of files and
    folders that these name: the scenario as it was resolved, say.
    """
    from ... import __version__

    head = {
        "command": options.form,
        "version": __version__,
        "seed": seed,
        "input_hash": input_hash(options.form, options.inputs if inputs is None else inputs),
    }
    return as_json({**head, "result": dict(result)})


def input_hash(form: str, inputs: object) -> str:
    """A hash of plain data in which the contents of files stand for their paths; 16 hexadecimal digits.

    Under ``subject``, the contents of folders stand for theirs as well.
    """
    text = json.dumps([form, _contents(inputs)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _contents(value: object, folders: bool = False) -> object:
    match value:
        case Mapping():
            return {str(key): _contents(one, key == "subject") for key, one in value.items()}
        case list() | tuple():
            return [_contents(one, folders) for one in value]
        case str() if os.path.isfile(value) or (folders and os.path.isdir(value)):
            path = Path(value)
            files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
            each = {one.relative_to(path).as_posix(): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}
            return {"contents": each}
    return value


def schema(forms: Mapping[str, Command]) -> dict[str, Any]:
    """The JSON schema of the answers of all commands, by their whole names."""
    head = _object(ENVELOPE)
    answers = []
    for form, command in forms.items():
        result = _object(command.answer)
        answers.append({"properties": {"command": {"const": form}, "result": result}})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What a command of rpsim prints with --json",
        **head,
        "oneOf": answers,
    }


def _object(fields: tuple[Field, ...]) -> dict[str, Any]:
    properties = {}
    for field in fields:
        kinds = field.kind.rstrip("?").split("|")
        properties[field.name] = {"type": kinds if len(kinds) > 1 else kinds[0], "description": field.text}
    required = [field.name for field in fields if not field.kind.endswith("?")]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
