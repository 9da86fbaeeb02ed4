"""``rpsim matrix primitives``: flush primitives x platforms, findings beside claims, and their costs."""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ....protocols.naming.names import parse_name
from ....protocols.primitives import known_primitives, primitive
from ....protocols.shapes import shaped
from ....sim.errors import InputError, Mistake
from ....sim.jobs.cluster import workers
from ....sim.units import parse_bytes
from ....validation.matrix.configurations import configurations
from ....validation.matrix.rows import PrimitiveRow, RowJob, row, shapes
from ....validation.matrix.timing import QUEUE_PAIRS, SIZES
from ...terminal import matrix as matrix_text
from ...terminal.envelope import envelope
from ...terminal.output import folder, footer, manifest, replacing, write_json
from ...terminal.progress import performed
from .arguments import listed, named, platforms

PAGE = "matrix.html"
USUAL_SHAPES = ("word", "line", "pair", "log", "other-qp")
"""The shapes that are judged by default; ``page`` takes as long as all of these."""
QUICK_SHAPES = ("word", "pair", "other-qp")


def main(options: argparse.Namespace) -> int:
    """Judge, measure, print, write; returns 0 when no claim is refuted, else 1."""
    began = time.monotonic()
    jobs = _jobs(options)
    each = [[one.primitive, one.configuration.label, one.shapes, one.sizes, one.seed] for one in jobs]
    inputs = {"jobs": each, **_files(jobs)}
    target = folder(options.out, "matrix", inputs, jobs[0].seed, "matrix")
    with workers(options.jobs, options.dask) as found:
        rows = performed("matrix", row, jobs, found)
    cases = {
        (number, shape): f"case-{number + 1}-{shape}.json"
        for number, one in enumerate(rows)
        for shape, finding in one.findings.items()
        if finding.counterexample is not None
    }
    entries = matrix_text.document(rows, cases)
    document = {"seed": jobs[0].seed, "as_claimed": not any(one.refuted for one in rows), "rows": entries}
    write(target, options, document, rows, cases, time.monotonic() - began)
    if options.json:
        print(envelope(options, {**document, "results": target.as_posix()}, options.seed, inputs), end="")
    else:
        end = footer(target, "" if options.no_report else PAGE)
        print("\n".join([*matrix_text.lines(rows, cases), "", *matrix_text.closing(rows), "", *end]))
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
            counterexample = rows[number].findings[shape].counterexample
            assert counterexample is not None
            write_json(draft / name, counterexample.case)
        write_json(draft / "manifest.json", manifest("matrix", seconds, seed=document["seed"]))
        if not options.no_report:
            from ...pages.matrix import page

            (draft / PAGE).write_text(page(rows, document), encoding="utf-8", newline="\n")


def _jobs(options: argparse.Namespace) -> list[RowJob]:
    """A job for each primitive and platform. Raises InputError with every mistake in the options."""
    mistakes: list[Mistake] = []

    def checked(what: Callable[[], Any]) -> Any:
        try:
            return what()
        except InputError as error:
            mistakes.extend(error.mistakes)
            return []

    names = named(options) or list(known_primitives())
    for name in names:
        checked(lambda name=name: _known(name))  # type: ignore[misc]
    where = checked(lambda: configurations(platforms(options.platforms, "quick" if options.quick else "usual")))
    judged = checked(lambda: shapes(listed(options.shapes) or (QUICK_SHAPES if options.quick else USUAL_SHAPES)))
    sizes = checked(lambda: _sizes(listed(options.sizes))) or ((64, 4096) if options.quick else SIZES)
    if mistakes:
        raise InputError(mistakes)
    pairs = (1,) if options.quick else QUEUE_PAIRS
    return [RowJob(name, one, tuple(judged), tuple(sizes), pairs, options.seed) for name in names for one in where]


def _known(name: str) -> None:
    """Raises InputError for a name that stands for no primitive, or for one that shapes do not go over."""
    part = parse_name(name).system
    primitive(part.word, part.options)
    shaped(f"word over {name}")


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
    """The hashes of primitives given as files: another content is another result."""
    paths = {job.primitive for job in jobs if Path(job.primitive.split("[")[0]).is_file()}
    return {path: hashlib.sha256(Path(path.split("[")[0]).read_bytes()).hexdigest() for path in sorted(paths)}
