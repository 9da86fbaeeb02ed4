"""Documents of measurements: the JSON that ``validation/verbs_bench`` and ``rpsim measure`` write, read and written.

One document is ``{"format": "rpsim-measurements-1", "origin", "program", "plan", "machine", "responder", "source",
"results": [...]}``; a result has the conditions of its measurement and what came of it, or ``skipped`` and why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...sim.errors import InputError, Mistake, nearest
from ...sim.yaml_source import FieldPath, describe, dotted, parse_yaml
from . import conditions as known
from .conditions import Conditions, Measurement

FORMAT = "rpsim-measurements-1"
ORIGINS = ("native", "simulated", "perftest")
MOST_MISTAKES = 20

_WORDS = {
    "transport": known.TRANSPORTS, "method": known.METHODS, "memory": known.MEMORIES, "access": known.ACCESSES,
    "placement": known.PLACEMENTS, "level": known.LEVELS,
}  # fmt: skip
_COUNTS = {
    "size_bytes": 1, "qps": 1, "depth": 1, "region_bytes": 1, "iterations": 1, "warmup": 0, "mtu_bytes": 1,
    "signal_every": 1,
}  # fmt: skip
_RATES = ("operations_per_s", "bytes_per_s")
_KEYS = ("id", "verb", "inline", *_WORDS, *_COUNTS, "latency_ns", "histogram", *_RATES, "skipped", "failed")


@dataclass(frozen=True)
class Document:
    """Measurements and where they come from."""

    origin: str
    measurements: tuple[Measurement, ...]
    program: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    plan: str = ""
    source: str = ""

    def as_data(self) -> dict[str, Any]:
        """What is written as JSON."""
        head = {"format": FORMAT, "origin": self.origin, "program": dict(self.program)}
        head |= {"plan": self.plan} if self.plan else {}
        head |= {"machine": dict(self.machine)} | ({"source": self.source} if self.source else {})
        return head | {"results": [as_result(one) for one in self.measurements]}


def as_result(one: Measurement) -> dict[str, Any]:
    """One measurement as JSON has it."""
    about = one.conditions
    data: dict[str, Any] = {key: getattr(about, key) for key in ("id", "verb", "transport", "size_bytes")}
    data |= {} if about.inline is None else {"inline": about.inline}
    data |= {key: getattr(about, key) for key in ("qps", "depth", "method", "memory", "region_bytes", "access")}
    data |= {key: getattr(about, key) for key in ("placement", "level") if getattr(about, key)}
    data |= {"iterations": about.iterations, "warmup": about.warmup}
    data |= {"mtu_bytes": about.mtu_bytes} if about.mtu_bytes else {}
    data |= {"signal_every": about.signal_every} if about.signal_every > 1 else {}
    if one.skipped:
        return data | {"skipped": one.skipped}
    data |= {"latency_ns": dict(one.latency_ns)} if one.latency_ns else {}
    data |= {"histogram": [list(pair) for pair in one.histogram]} if one.histogram else {}
    return data | {key: getattr(one, key) for key in _RATES if getattr(one, key) is not None}


def parse_document(text: str, file: str) -> Document:
    """A document of measurements; ``file`` is what messages call it. Raises InputError with every mistake at once."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        found = "the end of the file" if error.pos >= len(text.rstrip()) else f"{error.msg.lower()}"
        raise InputError(Mistake(found, "JSON", file, error.lineno)) from None
    except RecursionError:
        raise InputError(Mistake("lists nested too deeply", "a document of measurements", file)) from None
    reader = _Reader(text, file)
    document = reader.document(data)
    if reader.mistakes:
        raise InputError(reader.located())
    assert document is not None
    return document


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.mistakes: list[tuple[FieldPath, str, str, str | None]] = []

    def wrong(self, found: str, expected: str, path: FieldPath, close: str | None = None) -> None:
        self.mistakes.append((path, found, expected, close))

    def located(self) -> list[Mistake]:
        """The mistakes with their lines: the text is read again for them, as YAML, which JSON is."""
        try:
            source = parse_yaml(self.text, self.file)
        except InputError:
            source = None
        shown = self.mistakes[:MOST_MISTAKES]
        return [
            Mistake(found, expected, self.file, source.line(path) if source else None, dotted(path) or None, close)
            for path, found, expected, close in shown
        ]

    def document(self, data: Any) -> Document | None:
        if not isinstance(data, dict):
            self.wrong(describe(data), "a document of measurements: an object with format and results", ())
            return None
        if data.get("format") != FORMAT:
            self.wrong(describe(data.get("format")), f"'{FORMAT}'", ("format",))
        if data.get("origin") not in ORIGINS:
            self.wrong(describe(data.get("origin")), f"one of {', '.join(ORIGINS)}", ("origin",))
        maps = {key: data.get(key, {}) for key in ("program", "machine")}
        for key, value in maps.items():
            if not isinstance(value, dict):
                self.wrong(describe(value), "an object", (key,))
        words = {key: data.get(key) or "" for key in ("plan", "source")}
        for key, value in words.items():
            if not isinstance(value, str):
                self.wrong(describe(value), "a text", (key,))
        results = data.get("results")
        if not isinstance(results, list):
            self.wrong(describe(results), "a list of results", ("results",))
            results = []
        found = [self.result(one, ("results", index)) for index, one in enumerate(results)]
        if self.mistakes:
            return None
        measurements = tuple(one for one in found if one is not None)
        return Document(data["origin"], measurements, maps["program"], maps["machine"], words["plan"], words["source"])

    def result(self, data: Any, at: FieldPath) -> Measurement | None:
        before = len(self.mistakes)
        if not isinstance(data, dict):
            self.wrong(describe(data), "a result: an object with id, verb, size_bytes", at)
            return None
        for key in data.keys() - set(_KEYS):
            self.wrong(f"the unknown key '{key}'", f"one of {', '.join(_KEYS)}", (*at, key), nearest(key, _KEYS))
        values: dict[str, Any] = {}
        for key in ("id", "verb", "size_bytes"):
            if key not in data:
                self.wrong("nothing", f"the result's {key}", (*at, key))
        if "id" in data and not isinstance(data["id"], str):
            self.wrong(describe(data["id"]), "a text", (*at, "id"))
        for key, words in {"verb": tuple(known.VERBS), **_WORDS}.items():
            if key in data and data[key] not in words:
                close = nearest(str(data[key]), words)
                self.wrong(describe(data[key]), f"one of {', '.join(words)}", (*at, key), close)
        for key, least in _COUNTS.items():
            value = data.get(key, least)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                self.wrong(describe(value), f"a whole number from {least}", (*at, key))
        if not isinstance(data.get("inline", False), bool):
            self.wrong(describe(data["inline"]), "true or false", (*at, "inline"))
        for key in ("skipped", "failed"):
            if not isinstance(data.get(key, ""), str):
                self.wrong(describe(data[key]), "why, in words", (*at, key))
        self._numbers(data, at)
        if len(self.mistakes) > before:
            return None
        values = {key: data[key] for key in ("id", "verb", "inline", *_WORDS, *_COUNTS) if key in data}
        if not known.legal(values["verb"], values.get("transport", "rc")):
            self.wrong(f"{values['verb']} over {values['transport']}", "a verb of that transport", (*at, "verb"))
            return None
        return Measurement(
            Conditions(**values),
            data.get("latency_ns", {}),
            tuple((float(edge), count) for edge, count in data.get("histogram", [])),
            data.get("operations_per_s"),
            data.get("bytes_per_s"),
            data.get("skipped", "") or data.get("failed", ""),
            self.file,
        )

    def _numbers(self, data: Mapping[str, Any], at: FieldPath) -> None:
        """Latencies, histogram, rates: at least one of them, unless the result was skipped."""
        latency = data.get("latency_ns", {})
        if not isinstance(latency, dict) or ("latency_ns" in data and not latency):
            self.wrong(describe(latency), f"an object with {', '.join(known.STATISTICS)}", (*at, "latency_ns"))
            latency = {}
        for key, value in latency.items():
            if key not in known.STATISTICS:
                close = nearest(key, known.STATISTICS)
                path = (*at, "latency_ns", key)
                self.wrong(f"the unknown key '{key}'", f"one of {', '.join(known.STATISTICS)}", path, close)
            elif not _is_number(value):
                self.wrong(describe(value), "a number of ns from 0", (*at, "latency_ns", key))
        for key in _RATES:
            if key in data and not _is_number(data[key]):
                self.wrong(describe(data[key]), "a number from 0", (*at, key))
        pairs = data.get("histogram", [])
        if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
            self.wrong(describe(pairs), "a list of [upper edge in ns, count]", (*at, "histogram"))
        if not latency and not any(data.get(key) for key in (*_RATES, "skipped", "failed")):
            self.wrong("nothing measured", "latency_ns, operations_per_s, bytes_per_s, or skipped", at)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and _is_number(pair[0]) and isinstance(pair[1], int)


def merged(documents: Iterable[Document]) -> tuple[Measurement, ...]:
    """The measurements of several documents, what was skipped left out, and what two of them say alike taken once."""
    found: dict[object, Measurement] = {}
    for document in documents:
        for one in document.measurements:
            if not one.skipped and one.per_operation_ns is not None:
                found.setdefault((one.conditions, one.per_operation_ns), one)
    return tuple(found.values())
