"""Tables and paragraphs for a terminal of 80 columns."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

WIDTH = 80


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, indent: int = 2, labels: int = 1
) -> list[str]:
    """Lines of a table: the first ``left`` columns flush left, the others flush right, two blanks between.

    A table that is wider than the terminal becomes several, each with the first ``labels`` columns.
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [cell.ljust(widths[i]) if i < left else cell.rjust(widths[i]) for i, cell in enumerate(row)]
        return (" " * indent + "  ".join(cells)).rstrip()

    made = [line(head), *(line(row) for row in rows)]
    if max(map(len, made)) <= WIDTH or len(head) < labels + 3:
        return made
    half = labels + (len(head) - labels + 1) // 2
    first = table(head[:half], [row[:half] for row in rows], left, indent, labels)
    rest = [[*row[:labels], *row[half:]] for row in rows]
    return [*first, "", *table([*head[:labels], *head[half:]], rest, labels + max(0, left - half), indent, labels)]


def paragraph(text: str, indent: int = 0, hang: int = 0) -> list[str]:
    """Text wrapped to 80 columns; ``hang`` more blanks in front of every line but the first."""
    first, rest = " " * indent, " " * (indent + hang)
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False) or [""]


def microseconds(ps: float) -> str:
    """A time in microseconds: ``2.010`` for 2,010,000 ps."""
    return f"{ps / 1_000_000:,.3f}"


def thousands(per_s: float) -> str:
    """A rate in thousands a second: ``2,426.8``; of a rate below a thousand three digits that say something."""
    thousand = per_s / 1000
    digits = 2 - math.floor(math.log10(thousand)) if 0 < thousand < 1 else 1
    return f"{thousand:,.{digits}f}"


def count(number: int) -> str:
    """A whole number with separators: ``9,731``."""
    return f"{number:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 crash state``, ``9,731 crash states``."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
