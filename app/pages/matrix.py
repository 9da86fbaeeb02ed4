"""matrix.html: one file, offline: a heat map of the matrix; a click on a cell shows its counterexample or its hops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...protocols.guarantees import MEANINGS, Condition
from ...protocols.shapes import SHAPES
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
    judged = dict.fromkeys(name for row in rows for finding in row.findings.values() for name in finding.verdicts)
    return render(
        "matrix.html",
        title="rpsim matrix",
        kind="rpsim matrix",
        heading="What each primitive guarantees, and what it costs",
        seed=document["seed"],
        rows=entries,
        shapes={shape: SHAPES[shape].title for row in rows for shape in row.findings},
        meanings={name: MEANINGS[Condition(name)] for name in judged},
    )
