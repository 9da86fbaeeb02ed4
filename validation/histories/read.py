"""History files: read into operations and crashes, whatever their format, with every mistake in its line.

The format is recognised by the content: JSON Lines (docs/check.md), EDN as Jepsen stores it, or the log it prints;
where the content leaves it open, by the name of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ...sim.files import decode_text, printable, read_bytes
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
    "recognised",
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
    file, expected = printable(str(path)), "a history: JSON Lines, EDN or a log of Jepsen"
    text = decode_text(read_bytes(path, expected), file, expected)
    return parse_history(text, file)


def parse_history(text: str, file: str) -> HistoryFile:
    """Read the text of a history; ``file`` is what messages call it. Raises InputError."""
    return FORMATS[format_of(text, file)](text, file)


def recognised(text: str) -> str | None:
    """The name of the format that the content of a text shows, or None."""
    head = text[:_HEAD]
    if _EDN.match(head):
        return edn.NAME
    if re.match(r"\s*\{\s*[\"}]", head):
        return jsonlines.NAME
    return textlog.NAME if textlog.MARK.search(head) else None


def format_of(text: str, file: str) -> str:
    """The name of the format of a text that came out of ``file``."""
    if (found := recognised(text)) is not None:
        return found
    return {".edn": edn.NAME, ".log": textlog.NAME}.get(Path(file).suffix.lower(), jsonlines.NAME)
