"""Does the schema of measurements accept what is right, and nothing that is not?"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ..measurements import SCHEMA, complaints, main

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "measurements.json"
"""Some results of `make verbs-vm`: measured, and skipped."""


@pytest.fixture
def document() -> dict[str, Any]:
    return json.loads(EXAMPLE.read_text(encoding="utf-8"))


def perftest() -> dict[str, Any]:
    """The least that a document may say: what can be read from ib_write_lat."""
    result = {"id": "a", "verb": "WRITE", "transport": "rc", "size_bytes": 8, "method": "half_round_trip"}
    return {
        "format": "rpsim-measurements-1",
        "origin": "perftest",
        "program": {"name": "ib_write_lat", "version": "unknown"},
        "machine": {},
        "results": [{**result, "latency_ns": {"p50": 900}}],
    }


def test_a_native_document_is_valid(document: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert complaints(document) == []
    assert main(str(EXAMPLE)) == 0
    printed = capsys.readouterr().out
    assert "measured: WRITE " in printed
    assert "skipped: WRITE+FLUSH 1" in printed


def test_perftest_may_say_less() -> None:
    assert complaints(perftest()) == []


def at(document: Any, path: list[Any]) -> Any:
    for step in path:
        document = document[step]
    return document


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["format"], "rpsim-measurements-2", "$.format: 'rpsim-measurements-1' was expected"),
        (["origin"], "guessed", "$.origin: 'guessed' is not one of"),
        (["results", 0, "verb"], "PUT", "$.results[0].verb: 'PUT' is not one of"),
        (["results", 0, "size_bytes"], 0, "$.results[0].size_bytes: 0 is less than the minimum of 1"),
        (["results", 0, "placement"], "global", "$.results[0]: False schema does not allow 'global'"),
        (["results", 0, "skipped"], "too slow", "$.results[0]: "),  # measured and skipped at once
        (["results", 0, "latency_ns", "p50"], -1, "$.results[0].latency_ns.p50: -1 is less than the minimum of 0"),
        (["results", 0, "latency_ns", "p95"], 1, "$.results[0].latency_ns: Additional properties are not allowed"),
        (["results", 0, "histogram"], [[64]], "$.results[0].histogram[0]: [64] is too short"),
        (["machine", "caches"], "large", "$.machine.caches: 'large' is not of type 'array'"),
    ],
)
def test_a_document_that_is_wrong_is_reported(document: dict, path: list[Any], value: Any, said: str) -> None:
    at(document, path[:-1])[path[-1]] = value
    assert any(line.startswith(said) for line in complaints(document)), complaints(document)


@pytest.mark.parametrize(
    "path",
    [
        ["format"],
        ["machine"],
        ["responder"],
        ["machine", "firmware"],
        ["results", 0, "id"],
        ["results", 0, "inline"],
        ["results", 0, "mtu_bytes"],
        ["results", 0, "latency_ns"],
        ["results", 0, "latency_ns", "p999"],
        ["results", 0, "histogram"],
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_a_native_document_that_lacks_something_is_reported(document: dict, path: list[Any]) -> None:
    lacking = copy.deepcopy(document)
    del at(lacking, path[:-1])[path[-1]]
    assert complaints(lacking)


def test_a_flush_says_of_what_kind_it_is(document: dict[str, Any]) -> None:
    flush = next(result for result in document["results"] if result["verb"] == "WRITE+FLUSH")
    del flush["level"]
    assert any("'level' is a required property" in line for line in complaints(document))


def test_every_verb_of_the_schema_is_one_of_the_program() -> None:
    verbs = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]["result"]["properties"]["verb"]["enum"]
    source = (SCHEMA.parent / "measurement.c").read_text(encoding="utf-8")
    assert all(f'= "{verb}",' in source for verb in verbs)
    assert source.count("[VERB_") == len(verbs)
