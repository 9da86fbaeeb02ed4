"""A file of measurements, whichever kind it is: JSON of the benchmark or of ``rpsim measure``, or perftest's output."""

from __future__ import annotations

from pathlib import Path

from ...sim.errors import InputError, Mistake
from ...sim.files import decode_text, printable, read_bytes
from .documents import Document, parse_document
from .perftest import looks_like_perftest, parse_perftest

MAX_BYTES = 64 << 20
KINDS = "measurements as JSON (rpsim-measurements-1), or the output of perftest"


def read_measurements(path: Path) -> Document:
    """The measurements in a file. Raises InputError with every mistake at once."""
    file = printable(str(path))
    text = decode_text(read_bytes(path, KINDS, MAX_BYTES), file, KINDS, MAX_BYTES)
    if text.lstrip().startswith(("{", "[")):
        return parse_document(text, file)
    if not looks_like_perftest(text):
        first = next((line.strip() for line in text.splitlines() if line.strip()), "")
        raise InputError(Mistake(f"'{first[:40]}'" if first else "an empty file", KINDS, file, 1))
    return parse_perftest(text, file)
