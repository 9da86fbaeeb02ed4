"""Documents of measurements against their schema; `make verbs-vm` ends with `python tests/measurements.py FILE`."""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = Path(__file__).resolve().parents[1] / "validation" / "verbs_bench" / "measurements.schema.json"


def complaints(document: Any) -> list[str]:
    """What the schema finds wrong, each with its place."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def outcomes(document: Any) -> str:
    """How many results of each verb there are, by what became of them."""
    count: dict[str, Counter[str]] = {"measured": Counter(), "skipped": Counter(), "failed": Counter()}
    for result in document["results"]:
        kind = next((kind for kind in ("skipped", "failed") if kind in result), "measured")
        count[kind][result["verb"]] += 1
    lines = [f"{kind}: " + ", ".join(f"{v} {n}" for v, n in verbs.items()) for kind, verbs in count.items() if verbs]
    return "\n".join(textwrap.fill(line, 80, subsequent_indent="  ") for line in lines)


def main(path: str) -> int:
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    wrong = complaints(document)
    print("\n".join(wrong) if wrong else f"{outcomes(document)}\n{path}: {len(document['results'])} results, valid")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
