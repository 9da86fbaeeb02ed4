"""``rpsim reproduce hardware --without M``: the curves again with one mechanism of the models turned off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....validation.published.curves.mechanisms import Without
from ...terminal.text import paragraph, plural, table


def text(found: Sequence[Without]) -> list[str]:
    """One table: each mechanism, what its curves lose without it, and which they are."""
    rows = []
    for one in found:
        points = sum(len(result.simulated) for result in one.board.results)
        met, left = (sum(claim.met for claim in board.claims()) for board in (one.board, one.without))
        row = [one.mechanism.name, str(len(one.board.results)), str(points), str(met), str(left)]
        rows.append([*row, str(len(one.lost())), str(len(one.won()))])
    lines = ["without one mechanism, on the curves that it may touch"]
    lines += table(["", "curves", "points", "met", "without", "lost", "won"], rows, 1)
    for one in found:
        if not one.board.results:
            continue
        off = ", ".join(f"{path} = {value}" for path, value in one.mechanism.off.items())
        lines += ["", *paragraph(f"{one.mechanism.name}: {one.mechanism.title} ({off})", 2)]
        needed = [f"{name} ({met} of {points} met, {left} without)" for name, points, met, left in one.needed_by()]
        lines += paragraph("needed by " + ", ".join(needed) if needed else "no curve needs it", 4, 2)
        if one.won():
            lines += paragraph(f"{plural(len(one.won()), 'point')} met only without: {', '.join(one.won())}", 4, 2)
    absent = [one.mechanism.name for one in found if not one.board.results]
    if absent:
        lines += ["", *paragraph(f"no curve that was run has {', '.join(absent)}", 2)]
    return lines


def document(found: Sequence[Without]) -> list[dict[str, Any]]:
    """The same as JSON."""
    return [
        {
            "mechanism": one.mechanism.name,
            "title": one.mechanism.title,
            "off": dict(one.mechanism.off),
            "curves": [result.curve.id for result in one.board.results],
            "needed_by": [
                {"curve": name, "points": points, "met": met, "met_without": left}
                for name, points, met, left in one.needed_by()
            ],
            "lost": one.lost(),
            "won": one.won(),
        }
        for one in found
    ]
