"""Plans of measurements: one YAML file, run on adapters (validation/verbs_bench) and simulated (``rpsim measure``).

A plan is ``{plan, title, measurements: [...]}``. A measurement has ``id`` and ``verb``, and may have ``transport``,
``sizes``, ``inline``, ``qps``, ``depth``, ``method``, ``memory``, ``region``, ``access``, ``placement``, ``level``,
``iterations``, ``warmup``; most of them may be lists, and then all combinations are measured.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from ...sim.errors import InputError, Mistake, nearest
from ...sim.units import parse_bytes
from ...sim.yaml_source import FieldPath, Source, describe, dotted, read_yaml
from . import conditions as known
from .conditions import Conditions

KEYS = (
    "id", "verb", "transport", "sizes", "inline", "qps", "depth", "method", "memory", "region", "access",
    "placement", "level", "iterations", "warmup",
)  # fmt: skip
LISTS = ("verb", "transport", "memory", "region", "placement", "level", "qps", "depth", "sizes")
"""What may be a list; combinations are made in this order, the last one fastest."""
WORDS = {
    "verb": tuple(known.VERBS), "transport": known.TRANSPORTS, "memory": known.MEMORIES, "method": known.METHODS,
    "access": known.ACCESSES, "placement": known.PLACEMENTS, "level": known.LEVELS, "inline": ("auto", "yes", "no"),
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "transport": "rc", "inline": "auto", "qps": 1, "depth": 1, "method": None, "memory": "dram",
    "region": known.REGION_BYTES, "access": "sequential", "placement": "global", "level": "range",
    "iterations": 1000, "warmup": 100, "sizes": known.WORD_BYTES,
}  # fmt: skip
MOST = 10_000
"""Combinations of one plan."""


@dataclass(frozen=True)
class MeasurementPlan:
    """A plan and the conditions that it asks for, in the order in which they are measured."""

    name: str
    title: str
    points: tuple[Conditions, ...]


def read_plan(path: FilePath) -> MeasurementPlan:
    """The plan in a file. Raises InputError with every mistake at once."""
    source = read_yaml(path)
    data = source.mapping("a map with plan and measurements")
    reader = _Reader(source)
    for key in data.keys() - {"plan", "title", "measurements"}:
        reader.mistake(
            f"the unknown key '{key}'",
            "plan, title or measurements",
            (key,),
            nearest(key, ("plan", "title", "measurements")),
        )
    if not isinstance(data.get("plan"), str):
        reader.mistake(describe(data.get("plan")), "the plan's name", ("plan",))
    if not isinstance(data.get("title", ""), str):
        reader.mistake(describe(data["title"]), "what it measures, in a line", ("title",))
    entries = data.get("measurements")
    if not isinstance(entries, list) or not entries:
        reader.mistake(describe(entries), "a list of measurements", ("measurements",))
        entries = []
    points = [point for index, entry in enumerate(entries) for point in reader.points(entry, ("measurements", index))]
    if not reader.mistakes and len(points) > MOST:
        reader.mistake(f"{len(points):,} combinations", f"at most {MOST:,}", ("measurements",))
    if reader.mistakes:
        raise InputError(reader.mistakes)
    return MeasurementPlan(data["plan"], data.get("title", ""), tuple(points))


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.mistakes: list[Mistake] = []
        self._ids: dict[str, int | None] = {}

    def mistake(self, found: str, expected: str, path: FieldPath, close: str | None = None) -> None:
        self.mistakes.append(Mistake(found, expected, self.source.file, self.source.line(path), dotted(path), close))

    def points(self, data: Any, at: FieldPath) -> list[Conditions]:
        """The combinations of one entry; none where something is wrong with it."""
        before = len(self.mistakes)
        if not isinstance(data, dict):
            self.mistake(describe(data), "a measurement: a map with id, verb, sizes", at)
            return []
        for key in data.keys() - set(KEYS):
            self.mistake(f"the unknown key '{key}'", f"one of {', '.join(KEYS)}", (*at, key), nearest(key, KEYS))
        values = {key: self._values(data, key, at) for key in KEYS if key != "id"}
        name = data.get("id")
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9-]+", name):
            self.mistake(describe(name), "an id of small letters, digits and '-'", (*at, "id"))
        elif name in self._ids:
            first = f" (line {self._ids[name]} has it)" if self._ids[name] else ""
            self.mistake(f"'{name}' a second time", f"an id that no other measurement has{first}", (*at, "id"))
        else:
            self._ids[name] = self.source.line((*at, "id"))
        if len(self.mistakes) > before:
            return []
        self._together(data, values, at)
        if len(self.mistakes) > before:
            return []
        return [
            _conditions(str(name), dict(zip(LISTS, combination, strict=True)), values)
            for combination in itertools.product(*(values[key] for key in LISTS))
        ]

    def _values(self, data: dict[str, Any], key: str, at: FieldPath) -> list[Any]:
        """What ``key`` says, as a list."""
        path = (*at, key)
        if key not in data:
            verbs = data.get("verb")
            small = [verbs] if isinstance(verbs, str) else verbs
            if key in {nearest(other, KEYS) for other in data.keys() - set(KEYS)}:
                return [DEFAULTS.get(key)]  # it is there, misspelt, and told already
            if key == "verb" or (key == "sizes" and not set(small or ()) <= set(known.WORDS)):
                what = f"one of {', '.join(known.VERBS)}" if key == "verb" else "a size, as in 64 B, or a list of sizes"
                self.mistake("nothing", what, path)
            return [DEFAULTS.get(key)]
        found = data[key]
        if not isinstance(found, list):
            return [self._value(key, found, path)]
        if key not in LISTS or not found:
            self.mistake(describe(found), "one value" if found else "one value, or a list of some", path)
            return [None]
        return [self._value(key, item, (*path, index)) for index, item in enumerate(found)]

    def _value(self, key: str, found: Any, path: FieldPath) -> Any:
        if key in WORDS:
            word = {True: "yes", False: "no"}.get(found, found) if isinstance(found, bool) else found
            if word not in WORDS[key]:
                close = nearest(str(found), WORDS[key])
                self.mistake(describe(found), f"one of {', '.join(WORDS[key])}", path, close)
            return word
        if key in ("sizes", "region"):
            return self._size(found, path)
        least = 0 if key == "warmup" else 1
        if isinstance(found, bool) or not isinstance(found, int) or found < least:
            self.mistake(describe(found), f"a whole number from {least}", path)
        return found

    def _size(self, found: Any, path: FieldPath) -> int:
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
        try:
            size = parse_bytes(found) if isinstance(found, str) else 0
        except ValueError:
            size = 0
        if size <= 0:
            self.mistake(describe(found), "a size from 1 B, as in 64 B or 4 KiB", path)
        return max(1, size)

    def _together(self, data: dict[str, Any], values: dict[str, list[Any]], at: FieldPath) -> None:
        """What no single value can tell."""
        verbs, transports = values["verb"], values["transport"]
        for verb, transport in itertools.product(verbs, transports):
            if not known.legal(verb, transport):
                have = [name for name in known.TRANSPORTS if known.legal(verb, name)]
                self.mistake(f"{verb} over {transport}", f"{verb} over {' or '.join(have)}", (*at, "transport"))
        for key in ("placement", "level"):
            if key in data and not all(verb.endswith("FLUSH") for verb in verbs):
                self.mistake(f"{key} of {', '.join(verbs)}", f"{key} of a FLUSH only", (*at, key))
        if values["inline"] == ["yes"] and not set(verbs) <= set(known.INLINE):
            self.mistake("yes", f"auto or no: only {', '.join(known.INLINE)} carry data", (*at, "inline"))
        if max(values["sizes"]) > min(values["region"]):
            self.mistake(
                f"{max(values['sizes'])} B in a region of {min(values['region'])} B", "sizes within the region",
                (*at, "sizes"),
            )  # fmt: skip
        if values["method"] == ["half_round_trip"]:
            single = values["depth"] == [1] and values["qps"] == [1]
            if not single or not set(verbs) <= set(known.ANSWERABLE):
                expected = (
                    f"completion; half_round_trip is for {', '.join(known.ANSWERABLE)}, depth 1 and one queue pair"
                )
                self.mistake("half_round_trip", expected, (*at, "method"))


def _conditions(name: str, one: dict[str, Any], values: dict[str, list[Any]]) -> Conditions:
    verb, transport, depth, qps = one["verb"], one["transport"], one["depth"], one["qps"]
    method = values["method"][0]
    if method is None:
        unanswered = transport != "rc" and depth == qps == 1 and verb in known.ANSWERABLE
        method = "half_round_trip" if unanswered else "completion"
    flushes = verb.endswith("FLUSH")
    return Conditions(
        id=name,
        verb=verb,
        transport=transport,
        size_bytes=known.WORD_BYTES if verb in known.WORDS else one["sizes"],
        inline={"auto": None, "yes": True, "no": False}[values["inline"][0]],
        qps=qps,
        depth=depth,
        method=method,
        memory=one["memory"],
        region_bytes=one["region"],
        access=values["access"][0],
        placement=one["placement"] if flushes else "",
        level=one["level"] if flushes else "",
        iterations=values["iterations"][0],
        warmup=values["warmup"][0],
    )
