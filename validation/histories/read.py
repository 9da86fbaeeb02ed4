"""History files: read into operations and crashes, whatever their format, with every mistake in its line.

The format is told by the content: JSON Lines (docs/check.md), EDN as Jepsen stores it, or the log it prints; where the
content leaves it open, by the name of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ...sim.errors import InputError, Mistake
from ...sim.yaml_source import nearest_file, printable
from .entries import CrashLine, HistoryEntry, HistoryFile, freeze, in_order, show
from .events import MOST_MISTAKES
from .formats import edn, jsonlines, textlog

__all__ = [
    "MOST_MISTAKES",
    "CrashLine",
    "HistoryEntry",
    "HistoryFile",
    "format_of",
    "freeze",
    "in_order",
    "parse_history",
    "read_history",
    "show",
]

FORMATS: Mapping[str, Callable[[str, str], HistoryFile]] = {
    jsonlines.NAME: jsonlines.read,
    edn.NAME: edn.read,
    textlog.NAME: textlog.read,
}
_EDN = re.compile(r"(?:;[^\n]*\n|\s)*(?:[\[(]\s*(?:#[\w.]+\s*)?\{\s*:|#[\w.]+\s*\{|\{\s*:|\[\s*#|\()")
_HEAD = 20_000


def read_history(path: Path) -> HistoryFile:
    """Read a file; raises InputError with file, line, field, found and expected for all that is wrong (20 at most)."""
    file = printable(str(path))
    expected = "a history: JSON Lines, EDN or a log of Jepsen"
    try:
        if path.is_dir():
            raise InputError(Mistake("a directory", expected, file))
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InputError(Mistake("no such file", expected, file, nearest=nearest_file(path))) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(Mistake(f"a file that cannot be read ({reason.lower()})", expected, file)) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(
            Mistake(f"a binary file (byte {error.start} is 0x{raw[error.start]:02x})", expected, file, line)
        ) from None
    return parse_history(text, file)


def parse_history(text: str, file: str) -> HistoryFile:
    """Read the text of a history; ``file`` is what messages call it. Raises InputError."""
    return FORMATS[format_of(text, file)](text, file)


def format_of(text: str, file: str) -> str:
    """The name of the format of a text that came out of ``file``."""
    head = text[:_HEAD]
    if _EDN.match(head):
        return edn.NAME
    if re.match(r"\s*\{\s*[\"}]", head):
        return jsonlines.NAME
    if textlog.MARK.search(head):
        return textlog.NAME
    return {".edn": edn.NAME, ".log": textlog.NAME}.get(Path(file).suffix.lower(), jsonlines.NAME)
