"""Documents of measurements: the JSON that ``validation/verbs_bench`` and ``rpsim measure`` write, read and written.

One document is ``{"format": "rpsim-measurements-1", "origin", "program", "plan", "machine", "responder", "source",
"results": [...]}``; a result has the conditions of its measurement and the numbers, or ``skipped`` and why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...sim.cursor import Cursor
from ...sim.json_source import parse_json
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
        """The document as JSON data."""
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
    source = parse_json(text, file, "a document of measurements")
    at = Cursor.over(source, "a document of measurements: an object with format and results")
    at["format"].choice((FORMAT,), f"'{FORMAT}'")
    document = Document(
        origin=at["origin"].choice(ORIGINS),
        measurements=tuple(found for one in at["results"].items("a list of results") for found in _result(one)),
        program=at.get("program", {}).map("an object"),
        machine=at.get("machine", {}).map("an object"),
        plan=at["plan"].text("a text") if at["plan"].data else "",
        source=at["source"].text("a text") if at["source"].data else "",
    )
    at.finish(MOST_MISTAKES)
    return document


def _result(at: Cursor) -> list[Measurement]:
    """The measurement at a place; none where something is wrong with it."""
    if not at.is_map("a result: an object with id, verb, size_bytes"):
        return []
    at.keys(_KEYS)
    for key in ("id", "verb", "size_bytes"):
        if key not in at:
            at[key].wrong(f"the result's {key}")
    values: dict[str, Any] = {"id": at.get("id", "").text("a text")}
    for key, words in {"verb": tuple(known.VERBS), **_WORDS}.items():
        values |= {key: at[key].choice(words)} if key in at else {}
    for key, least in _COUNTS.items():
        values |= {key: at[key].whole(least)} if key in at else {}
    values |= {"inline": at["inline"].truth()} if "inline" in at else {}
    skipped, failed = (at.get(key, "").text("why, in words") for key in ("skipped", "failed"))
    latency_ns = _latencies(at["latency_ns"]) if "latency_ns" in at else {}
    rates = [_number(at[key], "a number from 0") if key in at else None for key in _RATES]
    pairs = at.get("histogram", [])
    if not isinstance(pairs.data, list) or not all(map(_is_pair, pairs.data)):
        pairs.wrong("a list of [upper edge in ns, count]")
    if not at["latency_ns"].data and not any((*rates, skipped, failed)):
        at.wrong("latency_ns, operations_per_s, bytes_per_s, or skipped", "nothing measured")
    if at.sound() and not known.legal(values["verb"], values.get("transport", "rc")):
        at["verb"].wrong("a verb of that transport", f"{values['verb']} over {values['transport']}")
    if not at.sound():
        return []
    histogram = tuple((float(edge), count) for edge, count in pairs.data)
    about, (operations, in_bytes) = Conditions(**values), rates
    return [Measurement(about, latency_ns, histogram, operations, in_bytes, skipped or failed, at.source.file)]


def _latencies(at: Cursor) -> dict[str, float]:
    given = at.fields(f"an object with {', '.join(known.STATISTICS)}", least=1)
    if given:
        at.keys(known.STATISTICS)
    return {key: _number(value, "a number of ns from 0") for key, value in given.items() if key in known.STATISTICS}


def _number(at: Cursor, expected: str) -> Any:
    """The number as the document has it: a float, or an integer."""
    if not _is_number(at.data):
        at.wrong(expected)
    return at.data


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and _is_number(pair[0]) and isinstance(pair[1], int)


def merged(documents: Iterable[Document]) -> tuple[Measurement, ...]:
    """The measurements of several documents, without the skipped ones; one that occurs twice alike is taken once."""
    found: dict[object, Measurement] = {}
    for document in documents:
        for one in document.measurements:
            if not one.skipped and one.per_operation_ns is not None:
                found.setdefault((one.conditions, one.per_operation_ns), one)
    return tuple(found.values())
