"""Files that users name: their bytes and text, or one clear mistake."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .errors import InputError, Mistake, nearest


def read_bytes(path: Path, expected: str, most_bytes: int | None = None) -> bytes:
    """A file's bytes, of a file of more than ``most_bytes`` one more than these. Raises InputError: no file, a folder,
    no right to read; ``expected`` is what its mistake says was.
    """
    file = printable(str(path))
    try:
        if path.is_dir():
            raise InputError(Mistake("a directory", expected, file))
        with path.open("rb") as stream:
            return stream.read(-1 if most_bytes is None else most_bytes + 1)
    except FileNotFoundError:
        raise InputError(Mistake("no such file", expected, file, nearest=nearest_file(path))) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(Mistake(f"a file that cannot be read ({reason.lower()})", expected, file)) from None


def decode_text(raw: bytes, file: str, expected: str, most_bytes: int | None = None) -> str:
    """The text of bytes that have to be UTF-8; ``file`` is what messages call them.

    Raises InputError for more than ``most_bytes`` and for what is no UTF-8.
    """
    if most_bytes is not None and len(raw) > most_bytes:
        raise InputError(Mistake(f"more than {most_bytes >> 20} MiB", expected, file))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        found = f"a binary file (byte {error.start} is 0x{raw[error.start]:02x})"
        raise InputError(Mistake(found, expected, file, line)) from None


def printable(name: str) -> str:
    """A file name as it is, unless it holds what would upset a terminal."""
    return name if name.isprintable() else ascii(name)


def nearest_file(path: Path) -> str | None:
    """The file in the same folder whose name ``path`` is most likely a misspelling of, or None."""
    try:
        stems = {Path(entry.name).stem: entry.name for entry in os.scandir(path.parent) if entry.is_file()}
    except (OSError, ValueError):
        return None
    stem = nearest(path.stem, stems)  # without the ending, which would make all YAML files alike
    return str(path.parent / stems[stem]) if stem else None


def keep_inputs(target: Path, inputs: Iterable[str | Path], option: str) -> None:
    """Raise InputError where the file that an option would have written is one that the command reads."""
    for one in inputs:
        if os.path.exists(target) and os.path.exists(one) and os.path.samefile(target, one):
            found = f"{target}, which the command reads"
            raise InputError(Mistake(found, "a file to write that is not its input", field=option))
