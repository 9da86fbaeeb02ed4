"""Plans of measurements: one YAML file, run on adapters (validation/verbs_bench) and simulated (``rpsim measure``).

A plan is ``{plan, title, measurements: [...]}``. A measurement has ``id`` and ``verb``, and may have ``transport``,
``sizes``, ``inline``, ``qps``, ``depth``, ``method``, ``memory``, ``region``, ``access``, ``placement``, ``level``,
``iterations``, ``warmup``; most of them may be lists, and then all combinations are measured.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from ...sim.cursor import Cursor
from ...sim.units import parse_bytes
from ...sim.yaml_source import describe, read_yaml
from . import conditions as known
from .conditions import Conditions

KEYS = (
    "id", "verb", "transport", "sizes", "inline", "qps", "depth", "method", "memory", "region", "access",
    "placement", "level", "iterations", "warmup",
)  # fmt: skip
LISTS = ("verb", "transport", "memory", "region", "placement", "level", "qps", "depth", "sizes")
"""Keys that may have a list; combinations are made in this order, the last one fastest."""
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
    """A plan and the conditions that it stands for, in the order in which they are measured."""

    name: str
    title: str
    points: tuple[Conditions, ...]


def read_plan(path: FilePath) -> MeasurementPlan:
    """The plan in a file. Raises InputError with every mistake at once."""
    at = Cursor.over(read_yaml(path), "a map with plan and measurements")
    at.keys(("plan", "title", "measurements"))
    name, title = at["plan"].text("the plan's name"), at.get("title", "").text("what it measures, in a line")
    ids: dict[str, int | None] = {}
    entries = at["measurements"].items("a list of measurements", least=1)
    points = [point for entry in entries for point in _points(entry, ids)]
    if at.sound() and len(points) > MOST:
        at["measurements"].wrong(f"at most {MOST:,}", f"{len(points):,} combinations")
    at.finish()
    return MeasurementPlan(name, title, tuple(points))


def _points(at: Cursor, ids: dict[str, int | None]) -> list[Conditions]:
    """The combinations of one entry; none where something is wrong with it."""
    if not at.is_map("a measurement: a map with id, verb, sizes"):
        return []
    misspelt = at.keys(KEYS)
    values = {key: _values(at[key]) if key in at else [DEFAULTS.get(key)] for key in KEYS if key != "id"}
    absent = {"verb", "sizes"} - at.data.keys() - misspelt
    if "verb" in absent:
        at["verb"].wrong(f"one of {', '.join(known.VERBS)}")
    if "sizes" in absent and not set(values["verb"]) - {None} <= set(known.WORDS):
        at["sizes"].wrong("a size, as in 64 B, or a list of sizes")
    name = at["id"].data
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9-]+", name):
        at["id"].wrong("an id of small letters, digits and '-'")
    elif name in ids:
        first = f" (line {ids[name]} has it)" if ids[name] else ""
        at["id"].wrong(f"an id that no other measurement has{first}", f"'{name}' a second time")
    else:
        ids[name] = at["id"].line
    if at.sound():
        _together(at, values)
    if not at.sound():
        return []
    return [
        _conditions(name, dict(zip(LISTS, combination, strict=True)), values)
        for combination in itertools.product(*(values[key] for key in LISTS))
    ]


def _values(at: Cursor) -> list[Any]:
    """The values of a key, as a list."""
    key = at.path[-1]
    if not isinstance(at.data, list):
        return [_value(key, at)]
    if key not in LISTS and at.data:
        at.wrong("one value")
        return [None]
    return [_value(key, one) for one in at.items("one value, or a list of some", least=1)] or [None]


def _value(key: str | int, at: Cursor) -> Any:
    if key in WORDS:
        word = at.data if not isinstance(at.data, bool) else "yes" if at.data else "no"
        return replace(at, data=word).choice(WORDS[str(key)], found=describe(at.data))
    if key in ("sizes", "region"):
        expected = "a size from 1 B, as in 64 B or 4 KiB"
        whole = isinstance(at.data, int) and not isinstance(at.data, bool)
        size = at.data if whole else at.parsed(parse_bytes, expected)
        if size < 1 and at.sound():
            at.wrong(expected)
        return max(1, size)
    return at.whole(0 if key == "warmup" else 1)


def _together(at: Cursor, values: dict[str, list[Any]]) -> None:
    """Report mistakes that only several values together make."""
    verbs, transports = values["verb"], values["transport"]
    for verb, transport in itertools.product(verbs, transports):
        if not known.legal(verb, transport):
            have = [name for name in known.TRANSPORTS if known.legal(verb, name)]
            at["transport"].wrong(f"{verb} over {' or '.join(have)}", f"{verb} over {transport}")
    for key in ("placement", "level"):
        if key in at and not all(verb.endswith("FLUSH") for verb in verbs):
            at[key].wrong(f"{key} of a FLUSH only", f"{key} of {', '.join(verbs)}")
    if values["inline"] == ["yes"] and not set(verbs) <= set(known.INLINE):
        at["inline"].wrong(f"auto or no: only {', '.join(known.INLINE)} carry data", "yes")
    if max(values["sizes"]) > min(values["region"]):
        found = f"{max(values['sizes'])} B in a region of {min(values['region'])} B"
        at["sizes"].wrong("sizes within the region", found)
    if values["method"] == ["half_round_trip"]:
        single = values["depth"] == [1] and values["qps"] == [1]
        if not single or not set(verbs) <= set(known.ANSWERABLE):
            expected = f"completion; half_round_trip is for {', '.join(known.ANSWERABLE)}, depth 1 and one queue pair"
            at["method"].wrong(expected, "half_round_trip")


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
