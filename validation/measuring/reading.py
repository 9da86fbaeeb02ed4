"""A file of measurements, whichever kind it is: JSON of the benchmark or of ``rpsim measure``, or perftest's output."""

from __future__ import annotations

from pathlib import Path

from ...sim.errors import InputError, Mistake
from ...sim.yaml_source import printable
from .documents import Document, parse_document, read_bytes
from .perftest import looks_like_perftest, parse_perftest

KINDS = "measurements as JSON (rpsim-measurements-1), or the output of perftest"


def read_measurements(path: Path) -> Document:
    """The measurements in a file. Raises InputError with every mistake at once."""
    raw, file = read_bytes(path, KINDS), printable(str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(Mistake(f"a binary file (byte {error.start})", KINDS, file, line)) from None
    if text.lstrip().startswith(("{", "[")):
        return parse_document(text, file)
    if not looks_like_perftest(text):
        first = next((line.strip() for line in text.splitlines() if line.strip()), "")
        raise InputError(Mistake(f"'{first[:40]}'" if first else "an empty file", KINDS, file, 1))
    return parse_perftest(text, file)
