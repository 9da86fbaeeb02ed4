"""What the runs of a sweep found, summed up over seeds: a group for each point of the grid and variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...sim.intervals import Interval, interval

Row = Mapping[str, Any]
"""A line of ``runs.jsonl``: ``job``, ``over``, ``scheme``, ``platform``, ``seed``, ``answer``."""

LATENCIES = ("p50", "p99", "mean")
RANK = {"violated": 0, "not judged": 1, "undecided": 2, "holds": 3}
"""Verdicts from the worst on."""


@dataclass(frozen=True)
class SeedGroup:
    """The runs of one variant at one point, a run for each seed."""

    over: Mapping[str, Any]
    scheme: str
    platform: str
    rows: tuple[Row, ...]

    @property
    def errors(self) -> list[str]:
        """Why runs were impossible, each reason once."""
        return list(dict.fromkeys(row["answer"]["error"] for row in self.rows if "error" in row["answer"]))

    def figures(self) -> dict[str, Interval]:
        """The mean and its confidence interval over seeds, by figure: see :func:`figures_of`."""
        samples: dict[str, list[float]] = {}
        for row in self.rows:
            for name, value in figures_of(row["answer"]):
                samples.setdefault(name, []).append(value)
        return {name: interval(values) for name, values in samples.items()}

    def verdicts(self) -> dict[str, Counter[str]]:
        """By condition how many seeds came to which verdict."""
        found: dict[str, Counter[str]] = {}
        for row in self.rows:
            for condition, verdict in row["answer"].get("crash", {}).get("verdicts", {}).items():
                found.setdefault(condition, Counter())[verdict] += 1
        return found

    def worst(self) -> dict[str, str]:
        """By condition the worst verdict of all seeds."""
        return {
            condition: min(counts, key=lambda name: RANK.get(name, 0)) for condition, counts in self.verdicts().items()
        }


def figures_of(answer: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The figures of a run that are drawn and listed: names with their units, and values.

    ``throughput_ops_per_s``, ``put_p50_ns``, ..., and of an explored run ``crash_states`` and, by condition, the share
    of the crash states that violate it (``no_lost_ack_violating_share``).
    """
    if "throughput_ops_per_s" in answer:
        yield "throughput_ops_per_s", float(answer["throughput_ops_per_s"])
    for f, latency in answer.get("latency_ns", {}).items():
        for name in LATENCIES:
            if name in latency:
                yield f"{f}_{name}_ns", float(latency[name])
    crash = answer.get("crash")
    if crash:
        yield "crash_states", float(crash["states"])
        for condition in crash["verdicts"]:
            violating = crash["violating_states"].get(condition, 0)
            yield f"{condition}_violating_share", violating / crash["states"] if crash["states"] else 0.0


def grouped(rows: Iterable[Row]) -> list[SeedGroup]:
    """The groups of rows that stand in the order of the grid, where the seeds of a group follow each other."""
    found: list[tuple[Row, list[Row]]] = []
    for row in rows:
        if found and _same(found[-1][0], row):
            found[-1][1].append(row)
        else:
            found.append((row, [row]))
    return [SeedGroup(first["over"], first["scheme"], first["platform"], tuple(own)) for first, own in found]


def _same(one: Row, other: Row) -> bool:
    return all(one[name] == other[name] for name in ("over", "scheme", "platform"))


def names_of(groups: Sequence[SeedGroup]) -> list[str]:
    """The names of all figures of the groups, in the order of their first appearance."""
    return list(dict.fromkeys(name for group in groups for row in group.rows for name, _ in figures_of(row["answer"])))


def records(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One flat dict for each run, with units in the names: for a table, pandas or polars."""
    found = []
    for row in rows:
        answer = row["answer"]
        verdicts = answer.get("crash", {}).get("verdicts", {})
        found.append(
            {
                **row["over"],
                "scheme": row["scheme"],
                "platform": row["platform"],
                "seed": row["seed"],
                **({"operations": answer["operations"]} if "operations" in answer else {}),
                **dict(figures_of(answer)),
                **verdicts,
                **({"error": answer["error"]} if "error" in answer else {}),
            }
        )
    return found
