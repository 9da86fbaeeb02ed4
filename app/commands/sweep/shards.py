"""``rpsim sweep merge``: the shards of one sweep as if it had been run at once."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....sim.errors import InputError, Mistake
from ....sim.files import nearest_file, printable
from ....sim.jobs.spread import known_answers
from ...terminal.output import writable
from ...terminal.text import plural
from .results import DEFINITION, RUNS, check_parquet, finish
from .work import PARTIAL, WORKERS

SHARD = "-shard-"
EXPECTED = "the results folder of a shard, as rpsim sweep --shard writes it"


def main(options: argparse.Namespace) -> int:
    """Merge, write, print; returns the exit status. Raises InputError unless these are all shards of one sweep."""
    began = time.monotonic()
    check_parquet(options.parquet)
    out = writable(options.out)
    places = [Path(folder) for folder in options.subject]
    found = [_definition(place) for place in places]
    about = {**found[0], "shard": None}
    for place, one in zip(places, found, strict=True):
        if different := [name for name in about if one.get(name) != about[name] and name != "shard"]:
            what = "code" if different == ["runs"] else ", ".join(different)
            expected = f"a shard of the same sweep as {places[0]}"
            raise InputError(Mistake(f"another sweep (it differs in {what})", expected, printable(str(place))))
    answers = known_answers(place / RUNS for place in places)
    missing = [number for number, run in enumerate(about["runs"]) if run["job"] not in answers]
    if missing:
        raise InputError(_incomplete(found, len(missing)))
    rows = [{**run, "answer": answers[run["job"]]} for run in about["runs"]]
    target = out / places[0].resolve().name.partition(SHARD)[0]
    partial = target.with_name(target.name + PARTIAL)
    status = finish(target, about, rows, options, began, partial / WORKERS)
    shutil.rmtree(partial, ignore_errors=True)
    return status


def _definition(place: Path) -> dict[str, Any]:
    file, name = place / DEFINITION, printable(str(place))
    if not place.is_dir():
        found = "a file" if place.exists() else "no such folder"
        raise InputError(Mistake(found, EXPECTED, name, nearest=nearest_file(place)))
    if not file.is_file() or not (place / RUNS).is_file():
        unfinished = (place / WORKERS).is_dir()
        found = "a sweep that is not complete" if unfinished else f"a folder without {DEFINITION}"
        raise InputError(Mistake(found, "it run to its end, by the same command" if unfinished else EXPECTED, name))
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(about["runs"], list) or not {"scenario", "over", "shard", "crash", "expect"} <= about.keys():
            raise TypeError
        return dict(about)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            Mistake("something else", f"what {DEFINITION} of a sweep says", printable(str(file)))
        ) from None


def _incomplete(found: Sequence[dict[str, Any]], missing: int) -> Mistake:
    shards = [tuple(one["shard"]) for one in found if one["shard"]]
    count = max((n for _, n in shards), default=1)
    absent = [f"{i}/{count}" for i in range(1, count + 1) if (i, count) not in shards]
    what = f"{len(set(shards))} of {count} shards ({plural(missing, 'run')} missing)"
    return Mistake(what, f"also {', '.join(absent)}" if absent else "all runs", field="rpsim sweep merge")
