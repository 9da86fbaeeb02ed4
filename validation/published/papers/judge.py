"""From what runs measured to a paper's scoreboard."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ....sim.errors import InputError, Mistake, nearest
from ..scoreboard import RESOLVED, Claim, ClaimStatus, Range
from .language import Term, where
from .measure import NOTHING, platform_with
from .measures import ALONG, KNEE
from .paper import SIZE, Paper, PaperClaim
from .runs import Measured, SchemeRun, hardware_of, run_of, series_of

Values = Callable[[Term, Mapping[str, str]], float]

_SPENT = {"cpu": "cpu_ns", "polls": "polling_ns"}
"""The measures of what a role spends by the names that a run has for them."""


def values_of(paper: Paper, measured: Mapping[SchemeRun, Measured], values: Mapping[str, Any] = NOTHING) -> Values:
    """Looks up the value of a term at a point; ``values`` are the settings that differ (``runs.perform``)."""
    crc_ps = platform_with(str(paper.scenario["platform"]), hardware_of(values)).cpu.crc_ps_per_byte

    def value(term: Term, at: Mapping[str, str]) -> float:
        if term.measure == "crc":
            return crc_ps * int(where(term, at)[SIZE]) / 1e6
        if term.measure in ALONG:
            runs = series_of(paper, term, at)
            along = {float(x): float(measured[run]["thr"]) for x, run in runs.items() if run in measured}
            return (slope if term.measure == "slope" else knee)(along)
        return _value(term, measured[run_of(term, at)])

    return value


def _value(term: Term, found: Measured) -> float:
    """The value of a term in the measurements of its run; nothing at all of what did not happen there is 0."""
    of = term.of or ""
    match term.measure:
        case "thr":
            return float(found["rates"].get(of, 0.0) if of else found["thr"])
        case "bw" | "time" as plain:
            return float(found[plain])
        case "whole":
            return float(_in(found, "whole", term))
        case "part":
            return float(found["parts"].get(of, {}).get(term.second, 0.0))
        case "side":
            return float(_in(_in(found["sides"], term.second or "", term), of, term))
        case "cpu" | "polls" | "verbs" as spent:
            return float(_in(found["spent"], of, term)[_SPENT.get(spent, spent)])
        case "joule":
            energy = {role: one["core_nanojoules"] for role, one in found["spent"].items() if "core_nanojoules" in one}
            return float(sum(_in(energy, role, term) for role in ([of] if of else found["spent"]))) / 1e9
        case "cost":
            return float(sum(_in(found["cost"], role, term) for role in ([of] if of else found["spent"])))
        case "rtt" | "rtt50" | "rtt99" as trips:
            return float(_in(found["round_trips"], of, term)["p" + trips[3:] if trips[3:] else "mean"])
        case "hops":
            return float(_in(found["counts"], of, term).get("hops", 0.0))
        case "count":
            return float(_in(found["counts"], term.second or "", term).get(of, 0.0))
        case "tally":
            own = _machines(found, of, term)
            return float(sum(found["tallies"][machine].get(term.second, 0.0) for machine in own))
        case "gauge":
            return float(_in(_in(found["gauges"], of, term), term.second or "", term))
        case "bytes":
            here = _machines(found, of, term)
            if term.second is None:
                return float(sum(n for a, b, n in found["traffic"] if a in here or b in here))
            there = _machines(found, term.second, term)
            return float(sum(n for a, b, n in found["traffic"] if a in here and b in there))
        case "share":
            own = _machines(found, of.partition("[")[0], term)
            ends = {machine: sum(n * ((a, b).count(machine)) for a, b, n in found["traffic"]) for machine in own}
            return float(_in(ends, of, term) / (sum(ends.values()) or 1))
        case "holds":
            return float(found[of])
    return float(_in(found[term.measure], of, term))


def _in(found: Mapping[str, Any], word: str, term: Term) -> Any:
    """What a run has under a word of a term. Raises InputError, with the words that there are, if it has nothing."""
    if word not in found:
        expected = f"one of {', '.join(name for name in found if name)}" if any(found) else "a run that has any"
        what = f"no '{word}'" if word else "nothing"
        raise InputError(Mistake(f"{what} in the run of {term}", expected, nearest=nearest(word, found)))
    return found[word]


def _machines(found: Measured, word: str, term: Term) -> list[str]:
    """The machines of a role, or one machine."""
    every = {name: name for name in found["tallies"]}
    return [name for name in every if name.partition("[")[0] == word] or [_in(every, word, term)]


def slope(along: Mapping[float, float]) -> float:
    """The growth of a throughput from the first value of an axis to the last: logarithm over logarithm."""
    (first, low), *_, (last, high) = sorted(along.items())
    return math.log(high / low) / math.log(last / first)


def knee(along: Mapping[float, float]) -> float:
    """The first value of an axis at which a throughput has ``KNEE`` of its largest value along it."""
    most = max(along.values())
    return next(x for x, throughput in sorted(along.items()) if throughput >= KNEE * most)


def quick(paper: Paper, claims: Iterable[PaperClaim]) -> list[PaperClaim]:
    """The claims over the few values of each axis that the paper's file names for a quick look."""

    def few(axis: str, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(v for v in values if axis not in paper.axes or v in paper.axes[axis].quick) or values[-1:]

    found = []
    for claim in claims:
        found.append(
            replace(claim, over=tuple({a: few(a, values) for a, values in over.items()} for over in claim.over))
        )
    return found


def judge(paper: Paper, claim: PaperClaim, values: Values) -> Claim:
    """A claim with the simulator's number."""
    assert claim.expression is not None
    at_points = [claim.expression(lambda term, at=at: values(term, at)) for at in claim.points()]  # type: ignore[misc]
    return judged(paper, claim, _simulated(claim, [float(value) for value in at_points]))


def judged(paper: Paper, claim: PaperClaim, simulated: float | Range) -> Claim:
    """A claim beside a number that was simulated."""
    return Claim(
        id=claim.id,
        paper=paper.source,
        status=ClaimStatus.PREDICT if claim.counts else claim.status,
        published=claim.published,
        simulated=simulated,
        unit=claim.unit,
        tolerance=claim.tolerance,
        reason=claim.missed,
        gain=claim.gain,
        chosen=claim.chosen,
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
