"""``rpsim matrix``: schemes or flush primitives x platforms x faults, found beside what is claimed."""

from __future__ import annotations

import argparse
import hashlib
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...protocols.primitives import known_primitives
from ...protocols.shapes import shaped
from ...sim.errors import InputError, Mistake
from ...sim.units import parse_bytes
from ...validation.matrix.configurations import configurations
from ...validation.matrix.rows import PrimitiveRow, RowJob, row, shapes
from ...validation.matrix.timing import QUEUE_PAIRS, SIZES
from ..terminal import matrix as matrix_text
from ..terminal.output import as_json, folder, git_revision, replacing, write_json
from ..terminal.progress import performed

USUAL_SHAPES = ("word", "line", "pair", "log", "other-qp")
"""Judged unless somebody asks; ``page`` takes as long as all of these."""
QUICK_SHAPES = ("word", "pair", "other-qp")


def listed(text: str | None) -> list[str]:
    """What stands between semicolons; where there are none, between commas."""
    separator = ";" if text and ";" in text else ","
    return [part.strip() for part in (text or "").split(separator) if part.strip()]


def main(options: argparse.Namespace) -> int:
    """Judge, measure, print, write; returns 0 when no claim is refuted, else 1."""
    if options.schemes is not None:
        from .matrix_schemes import main as of_schemes

        return of_schemes(options)
    if options.methods:
        from .methods import main as of_methods

        return of_methods(options)
    began = time.monotonic()
    jobs = _jobs(options)
    inputs = {"jobs": [[one.primitive, one.configuration.label, one.shapes, one.sizes, one.seed] for one in jobs]}
    target = folder(options.out, "matrix", inputs | _files(jobs), jobs[0].seed, "matrix")
    rows = performed("matrix", row, jobs, options.jobs)
    cases = {
        (number, shape): f"case-{number + 1}-{shape}.json"
        for number, one in enumerate(rows)
        for shape, finding in one.findings.items()
        if finding.told is not None
    }
    entries = matrix_text.document(rows, cases)
    document = {"seed": jobs[0].seed, "as_claimed": not any(one.refuted for one in rows), "rows": entries}
    write(target, options, document, rows, cases, time.monotonic() - began)
    if options.json:
        print(as_json({**document, "results": target.as_posix()}), end="")
    else:
        print(
            "\n".join([*matrix_text.lines(rows, cases), "", *matrix_text.closing(rows), "", *_footer(options, target)])
        )
    return 0 if document["as_claimed"] else 1


def write(
    target: Path,
    options: argparse.Namespace,
    document: dict[str, Any],
    rows: Sequence[PrimitiveRow],
    cases: matrix_text.Cases,
    seconds: float,
) -> None:
    """The results folder: complete, or not there."""
    with replacing(target) as draft:
        write_json(draft / "matrix.json", document)
        for (number, shape), name in cases.items():
            told = rows[number].findings[shape].told
            assert told is not None
            write_json(draft / name, told.case)
        write_json(draft / "manifest.json", manifest("matrix", document["seed"], seconds))
        if not options.no_report:
            from ..pages.matrix import page

            (draft / "matrix.html").write_text(page(rows, document), encoding="utf-8", newline="\n")


def manifest(command: str, seed: int, seconds: float) -> dict[str, Any]:
    """Where results come from, and how long they took."""
    from ... import __version__

    return {
        "rpsim_version": __version__,
        "git_revision": git_revision(),
        "command": command,
        "seed": seed,
        "wall_time_s": round(seconds, 3),
    }


def _jobs(options: argparse.Namespace) -> list[RowJob]:
    """Everything that is wrong with the options is told at once."""
    mistakes: list[Mistake] = []

    def checked(what: Callable[[], Any]) -> Any:
        try:
            return what()
        except InputError as error:
            mistakes.extend(error.mistakes)
            return []

    names = listed(options.primitives) or list(known_primitives())
    seed = checked(lambda: one_seed(options))
    for name in names:
        checked(lambda name=name: shaped(f"word over {name}"))  # type: ignore[misc]
    where = checked(lambda: configurations(platforms(options)))
    judged = checked(lambda: shapes(listed(options.shapes) or (QUICK_SHAPES if options.quick else USUAL_SHAPES)))
    sizes = checked(lambda: _sizes(listed(options.sizes))) or ((64, 4096) if options.quick else SIZES)
    if mistakes:
        raise InputError(mistakes)
    pairs = (1,) if options.quick else QUEUE_PAIRS
    return [RowJob(name, one, tuple(judged), tuple(sizes), pairs, seed) for name in names for one in where]


def platforms(options: argparse.Namespace) -> list[str]:
    """What ``--platforms`` says: labels have commas in them, so a semicolon stands between two of them."""
    text = options.platforms
    if text is None:
        return ["quick" if options.quick else "usual"]
    return [part.strip() for part in text.split(";") if part.strip()] if ";" in text or "ddio" in text else listed(text)


def seeds(options: argparse.Namespace) -> list[int]:
    """What ``--seed`` says: a number, or several with commas. Raises InputError."""
    texts = listed(options.seed) or ["1"]
    wrong = [text for text in texts if not re.fullmatch(r"\d{1,19}", text)]
    if wrong or len(set(texts)) < len(texts):
        found = f"'{wrong[0]}'" if wrong else f"'{options.seed}': one of them twice"
        raise InputError(Mistake(found, "whole numbers, each once, as in 1 or 1,2,3", field="--seed"))
    return [int(text) for text in texts]


def one_seed(options: argparse.Namespace) -> int:
    """The same where there is one run. Raises InputError."""
    first, *more = seeds(options)
    if more:
        raise InputError(Mistake(f"'{options.seed}'", "one seed; several go with --schemes", field="--seed"))
    return first


def _sizes(texts: Sequence[str]) -> list[int]:
    found = []
    for text in texts:
        try:
            size = parse_bytes(text)
        except ValueError:
            size = 0
        if not 8 <= size <= 1 << 20:
            raise InputError(Mistake(f"'{text}'", "sizes from 8 B to 1 MiB, as in '8 B,4 KiB'", field="--sizes"))
        found.append(size)
    return found


def _files(jobs: Sequence[RowJob]) -> dict[str, Any]:
    """What primitives given as files say: another content is another result."""
    paths = {job.primitive for job in jobs if Path(job.primitive.split("[")[0]).is_file()}
    return {path: hashlib.sha256(Path(path.split("[")[0]).read_bytes()).hexdigest() for path in sorted(paths)}


def _footer(options: argparse.Namespace, target: Path) -> list[str]:
    page = "" if options.no_report else f" (open {target.as_posix()}/matrix.html)"
    return [f"results: {target.as_posix()}{page}"]
