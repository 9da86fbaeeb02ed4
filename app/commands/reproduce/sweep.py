"""The parameters that a paper does not determine, each at the ends of its known range, over a few points.

The answer: how many claims are met, and which of them with which value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....sim.jobs.runner import Workers
from ....validation.published.papers.judge import judge, quick, values_of
from ....validation.published.papers.paper import Paper, PaperClaim
from ....validation.published.papers.runs import needed, perform
from ....validation.published.scoreboard import summarise
from ...terminal.paper import AS_IT_IS, Swept
from ...terminal.progress import bar


def sweep(paper: Paper, claims: Sequence[PaperClaim], kept: Path, jobs: Workers, operations: int) -> Swept:
    """The scoreboard's few points as it is, and again with each parameter set otherwise."""
    few = quick(paper, [claim for claim in claims if claim.expression is not None])
    runs = needed(paper, few, figures=False)
    variants: dict[str, Mapping[str, Any]] = {AS_IT_IS: {}}
    variants |= {f"{path} = {value}": {path: value} for path, value in paper.sweep}
    found: Swept = {}
    with bar("sweep", len(runs) * len(variants)) as shown:
        for name, values in variants.items():
            measured = perform(
                paper,
                runs,
                jobs=jobs,
                operations=operations,
                kept=kept,
                on_step=lambda _: shown.update(),
                values=values,
            )
            looked_up = values_of(paper, measured, values)
            found[name] = [(claim, judge(paper, claim, looked_up)) for claim in few]
    return found


def document(swept: Swept) -> list[dict[str, Any]]:
    """The scoreboards of a sweep as JSON."""
    return [
        {
            "parameter": name,
            **summarise([found for _, found in rows]).counts(),
            "claims": [found.row() for _, found in rows],
        }
        for name, rows in swept.items()
    ]
