"""From what runs measured to a paper's scoreboard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..scoreboard import RESOLVED, Claim, ClaimStatus, Range
from .language import Term, where
from .measure import NOTHING, platform_with
from .paper import Paper, PaperClaim
from .runs import Measured, SchemeRun, hardware_of, run_of

Values = Callable[[Term, Mapping[str, str]], float]


def values_of(paper: Paper, measured: Mapping[SchemeRun, Measured], values: Mapping[str, Any] = NOTHING) -> Values:
    """Looks up the value of a term at a point; ``values`` are the settings that differ (``runs.perform``)."""
    crc_ps = platform_with(str(paper.scenario["platform"]), hardware_of(values)).cpu.crc_ps_per_byte

    def value(term: Term, at: Mapping[str, str]) -> float:
        if term.measure == "crc":
            return crc_ps * int(where(term, at)["size"]) / 1e6
        found = measured[run_of(term, at)]
        return float(found["thr"] if term.measure == "thr" else found[term.measure][term.operation or ""])

    return value


def quick(paper: Paper, claims: Iterable[PaperClaim]) -> list[PaperClaim]:
    """The claims over the few values of each axis that the paper's file names for a quick look."""
    found = []
    for claim in claims:
        over = {axis: tuple(v for v in values if v in paper.axes[axis].quick) for axis, values in claim.over.items()}
        found.append(replace(claim, over={axis: over[axis] or claim.over[axis][-1:] for axis in over}))
    return found


def judge(paper: Paper, claim: PaperClaim, values: Values) -> Claim:
    """A claim with the simulator's number."""
    at_points = [claim.expression(lambda term, at=at: values(term, at)) for at in claim.points()]  # type: ignore[misc]
    return Claim(
        id=claim.id,
        paper=paper.source,
        status=ClaimStatus.PREDICT if claim.counts else claim.status,
        published=claim.published,
        simulated=_simulated(claim, [float(value) for value in at_points]),
        unit=claim.unit,
        tolerance=claim.tolerance,
        reason=claim.missed,
        gain=claim.gain,
    )


def _simulated(claim: PaperClaim, found: list[float]) -> float | Range:
    match claim.kind:
        case "check":
            return sum(found) / len(found)
        case "trend":
            steps = [later >= earlier * (1 - RESOLVED) for earlier, later in pairwise(found)]
            steps += [found[-1] > found[0], found[0] >= claim.least]
            return sum(steps) / len(steps)
    return found[0] if len(found) == 1 and not isinstance(claim.published, Range) else Range(min(found), max(found))
