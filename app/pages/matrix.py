"""matrix.html: one file, offline: a heat map of the matrix; a click on a cell shows its counterexample or its hops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...validation.matrix.rows import PrimitiveRow
from ..terminal.timeline import timeline
from .template import render


def page(rows: Sequence[PrimitiveRow], document: Mapping[str, Any]) -> str:
    """The page as text; the same rows give the same page."""
    entries = []
    for row, entry in zip(rows, document["rows"], strict=True):
        shapes = {
            shape: {
                **entry["shapes"][shape],
                "story": timeline(finding.counterexample) if finding.counterexample else [],
            }
            for shape, finding in row.findings.items()
        }
        entries.append({**entry, "shapes": shapes})
    heading = "What each primitive guarantees, and what it costs"
    return render(
        "matrix.html", title="rpsim matrix", kind="rpsim matrix", heading=heading, seed=document["seed"], rows=entries
    )
