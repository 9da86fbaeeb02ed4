"""The results of a sweep: its folder and what is printed, the same for runs and for merged shards."""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....protocols.guarantees import Condition
from ....protocols.registry import scheme
from ....scenarios.sweep.axes import shown
from ....scenarios.sweep.groups import Row, SeedGroup, grouped, records
from ....sim.errors import InputError, Mistake
from ....sim.jobs.spread import Spread
from ...terminal.envelope import envelope
from ...terminal.expected import surprises
from ...terminal.output import footer, manifest, replacing, write_json
from ...terminal.sweep import text

RUNS, DEFINITION = "runs.jsonl", "sweep.json"


@dataclass(frozen=True)
class JudgedRun:
    """The verdicts of one run, as an expectation looks at them."""

    scheme: str
    platform: str
    fault: str
    verdicts: Mapping[Condition, str]
    one_writer: bool
    """Whether each object has one process that writes it."""


def check_parquet(wanted: bool) -> None:
    """Raises InputError if Parquet is wanted and the library for it is not there."""
    if wanted and importlib.util.find_spec("duckdb") is None:
        found = "no package duckdb"
        raise InputError(Mistake(found, "the extra [data]: pip install 'rpsim[data]'", field="--parquet"))


def finish(
    target: Path, about: Mapping[str, Any], rows: Sequence[Row], options: argparse.Namespace, began: float, spare: Path
) -> int:
    """Write the results folder and print; returns the exit status.

    ``rows`` are in the order of the grid. ``spare`` is a folder in which answers are kept while those of an earlier,
    equal sweep are replaced.
    """
    groups = grouped(rows)
    odd = unexpected(rows, about["expect"]) if about["crash"] else []
    summary = document(about, rows, groups, odd)
    if target.exists():
        spread = Spread(spare)
        spread.add({row["job"]: row["answer"] for row in rows if row["job"] not in spread.known})
        spread.close()
    with replacing(target) as draft:
        write_json(draft / DEFINITION, about)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (draft / RUNS).write_text(lines, encoding="utf-8", newline="\n")
        _write_csv(draft / "runs.csv", rows)
        if options.parquet:
            _write_parquet(draft / "runs.csv", draft / "runs.parquet")
        write_json(draft / "summary.json", summary)
        if not options.no_report:
            from ...pages.sweep import page

            (draft / "report.html").write_text(page(about, groups, odd), encoding="utf-8", newline="\n")
        write_json(draft / "manifest.json", manifest("sweep", time.monotonic() - began, scenario=about["scenario"]))
    if options.json:
        inputs = [row["job"] for row in rows]
        print(envelope(options, {**summary, "results": target.as_posix()}, about["seeds"], inputs), end="")
    else:
        page_name = "" if options.no_report else "report.html"
        print("\n".join([*text(about, rows, groups, odd), "", *footer(target, page_name)]))
    return 1 if odd or any(group.errors for group in groups) else 0


def unexpected(rows: Sequence[Row], expect: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Verdicts that are not as the scenario expects or, where it is silent, as the scheme claims; with their runs."""
    claims: dict[str, Any] = {}
    found: list[dict[str, Any]] = []
    for row in rows:
        crash = row["answer"].get("crash")
        if crash is None:
            continue
        name = row["scheme"]
        if name not in claims:
            claims[name] = scheme(name).claims
        verdicts = {Condition(condition): verdict for condition, verdict in crash["verdicts"].items()}
        judged = JudgedRun(name, row["platform"], crash["fault"], verdicts, crash["one_writer"])
        for one in surprises(judged, expect, claims[name]):
            found.append({"over": row["over"], "seed": row["seed"], **vars(one)})
    return found


def document(
    about: Mapping[str, Any], rows: Sequence[Row], groups: Sequence[SeedGroup], odd: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """summary.json: the groups with their figures, and what is not as expected; no wall times."""
    crash = {"as_expected": not odd, "unexpected": list(odd)} if about["crash"] else {}
    return {
        **{name: about[name] for name in ("scenario", "title", "over", "seeds", "shard")},
        "runs": len(rows),
        **crash,
        "points": [_entry(group) for group in groups],
    }


def _entry(group: SeedGroup) -> dict[str, Any]:
    figures = {
        name: {"mean": one.mean, "half_width_95": one.half_width, "samples": one.samples}
        for name, one in group.figures().items()
    }
    return {
        "over": dict(group.over),
        "scheme": group.scheme,
        "platform": group.platform,
        "seeds": len(group.rows),
        "figures": figures,
        **(
            {"verdicts": {name: dict(found) for name, found in verdicts.items()}}
            if (verdicts := group.verdicts())
            else {}
        ),
        **({"errors": errors} if (errors := group.errors) else {}),
    }


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Every run, one a row; a column for each figure that any run has."""
    flat = records(rows)
    columns = list(dict.fromkeys(name for one in flat for name in one))
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        table.writeheader()
        for one in flat:
            table.writerow(
                {name: value if isinstance(value, int | float) else shown(value) for name, value in one.items()}
            )


def _write_parquet(source: Path, target: Path) -> None:
    import duckdb

    read = f"read_csv('{source.as_posix().replace(chr(39), chr(39) * 2)}', header = true)"
    duckdb.execute(
        f"COPY (SELECT * FROM {read}) TO '{target.as_posix().replace(chr(39), chr(39) * 2)}' (FORMAT parquet)"
    )
