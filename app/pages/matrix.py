"""matrix.html: one file, offline: a heat map of the matrix; a click on a cell shows its counterexample or its hops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ...validation.matrix.rows import PrimitiveRow
from ..terminal.timeline import timeline
from .report import inline, template


def page(rows: Sequence[PrimitiveRow], document: Mapping[str, Any]) -> str:
    """The page as text; the same rows give the same page."""
    from ... import __version__

    entries = []
    for row, entry in zip(rows, document["rows"], strict=True):
        shapes = {
            shape: {**entry["shapes"][shape], "story": timeline(finding.told) if finding.told else []}
            for shape, finding in row.findings.items()
        }
        entries.append({**entry, "shapes": shapes})
    parts = {
        "title": "rpsim matrix",
        "seed": escape(str(document["seed"])),
        "version": escape(__version__),
        "style": template("style.css"),
        "rows": inline(entries),
        "script": template("matrix.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template("matrix.html"))
