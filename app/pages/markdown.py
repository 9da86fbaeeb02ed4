"""Tables and paragraphs of pages in Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 120


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; a vertical bar in a cell is text."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines]


def wrapped(text: str, width: int = WIDTH) -> list[str]:
    """The lines of a paragraph, or of an item of a list; names and paths stay whole."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent)
