"""What a command prints with ``--json``, held against the schema of it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema

from rpsim.app.commands import forms
from rpsim.app.terminal.envelope import schema


def answer_of(text: str) -> dict[str, Any]:
    """The whole document, which is as ``rpsim list commands --schema`` says."""
    document = json.loads(text)
    head, results = _schemas()
    jsonschema.validate(document, head)
    jsonschema.validate(document["result"], results[document["command"]])
    return dict(document)


def result_of(text: str) -> Any:
    """The answer itself."""
    return answer_of(text)["result"]


@cache
def _schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of what all answers have, and that of each command's result: errors are about one command then."""
    whole = schema(forms())
    each = [one["properties"] for one in whole.pop("oneOf")]
    return whole, {one["command"]["const"]: one["result"] for one in each}
