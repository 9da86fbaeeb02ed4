"""The pages whose numbers take minutes to come by: platforms, schemes, papers.

docs/measured keeps the numbers as they were when they were last renewed, and the pages are made from them and from the
code when the site is built. Who renews them: hardware.json, tests/words/test_platform_pages.py; schemes/NAME.json,
tests/words/test_scheme_pages.py (both slow, with RPSIM_RENEW=1); papers/NAME.json, ``rpsim.app.site.keep``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...protocols.registry import schemes as known_schemes
from ...validation.published.curves.board import Board, Result, chosen
from ...validation.published.papers.judge import judged, quick
from ...validation.published.papers.paper import Paper, load_paper, papers
from ...validation.published.scoreboard import Range, summarise
from ..pages import composed, paper
from ..pages import platforms as pages_of
from ..pages import schemes as pages_of_schemes
from ..pages.schemes import Found
from ..terminal.paper import Row, Swept

KEPT = Path(__file__).resolve().parents[2] / "docs" / "measured"
FILE = KEPT / "hardware.json"


def platforms() -> dict[str, str]:
    """The page of each platform, and the one that lists them."""
    return {f"platforms/{name}": text for name, text in pages_of.pages(board()).items()}


def board() -> Board:
    """The scoreboard as it was kept; a curve or a point that is new is not on it yet."""
    kept: Mapping[str, Mapping[str, float]] = json.loads(FILE.read_text(encoding="utf-8"))
    return Board(
        [
            Result(curve, {x: kept[curve.id][str(x)] for x in curve.points if str(x) in kept.get(curve.id, {})})
            for curve in chosen()
        ]
    )


def text(found: Board) -> str:
    """The file that keeps a scoreboard: by curve and point the simulated number, a line for each curve."""
    return _lines(
        {one.curve.id: {str(x): float(f"{value:.4g}") for x, value in one.simulated.items()} for one in found.results}
    )


def schemes() -> dict[str, str]:
    """The pages of schemes, of what they are put together of, and the one that lists them."""
    known = known_schemes()
    made = {"README": pages_of_schemes.contents(known.values()), **composed.pages()}
    made |= {name: pages_of_schemes.page(kind, survivals(name)) for name, kind in known.items()}
    return {f"schemes/{name}.md": page for name, page in made.items()}


def of_scheme(name: str) -> Path:
    """The file that keeps what exploring a scheme's crashes has found."""
    return KEPT / "schemes" / f"{name}.json"


def survivals(name: str) -> list[Found]:
    """What exploring a scheme's crashes has found; nothing of a scheme that is new."""
    path = of_scheme(name)
    return [Found(**one) for one in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []


def text_of_survivals(found: Iterable[Found]) -> str:
    """The file that keeps it: a line for each fault and platform."""
    return "[" + ",".join(f"\n{json.dumps(asdict(one), ensure_ascii=False)}" for one in found) + "\n]\n"


def reproductions() -> dict[str, str]:
    """The scoreboard of each paper of which one is kept."""
    return {f"reproduction/{name}.md": scoreboard(load_paper(name)) for name in papers() if of_paper(name).is_file()}


def of_paper(name: str) -> Path:
    """The file that keeps what a paper's claims come to."""
    return KEPT / "papers" / f"{name}.json"


def scoreboard(one: Paper) -> str:
    """A paper's page, from what its claims came to."""
    rows, swept = results(one)
    ungraded = [claim.status for claim in one.claims if claim.expression is None]
    return paper.markdown(one, rows, summarise([found for _, found in rows], ungraded=ungraded), swept)


def results(one: Paper) -> tuple[list[Row], Swept]:
    """What a paper's claims came to as they are, and with each parameter of its sweep; a new claim is not there yet."""
    kept: Mapping[str, Mapping[str, Any]] = json.loads(of_paper(one.name).read_text(encoding="utf-8"))
    graded = [claim for claim in one.claims if claim.expression is not None]
    few = quick(one, graded)

    def rows(claims: Sequence[Any], found: Mapping[str, Any]) -> list[Row]:
        return [(claim, judged(one, claim, _number(found[claim.id]))) for claim in claims if claim.id in found]

    return rows(graded, kept["claims"]), {name: rows(few, found) for name, found in kept["sweep"].items()}


def _number(kept: float | list[float]) -> float | Range:
    return Range(*kept) if isinstance(kept, list) else kept


def text_of_results(summary: Mapping[str, Any]) -> str:
    """The file that keeps a paper's results: from ``summary.json`` of ``rpsim reproduce PAPER --sweep``."""
    swept = {one["parameter"]: _simulated(one["claims"]) for one in summary["sweep"]}
    found: dict[str, Mapping[str, Any]] = {"claims": _simulated(summary["claims"]), "sweep": swept}
    parts = [f"{json.dumps(name)}: {_lines(part).rstrip()}" for name, part in found.items()]
    return "{" + ", ".join(parts) + "}\n"


def _simulated(claims: Iterable[Mapping[str, Any]]) -> dict[str, float | list[float]]:
    """By claim what was simulated: a number, or the two ends of a range, ``1.5 to 2``."""
    ends = {one["id"]: [float(end) for end in str(one["simulated"]).split(" to ")] for one in claims}
    return {name: one[0] if len(one) == 1 else one for name, one in ends.items()}


def _lines(rows: Mapping[str, Any]) -> str:
    """JSON with a line for each name."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in rows.items()) + "\n}\n"
