"""Do a paper's predicted claims still come out near what was published? Small runs, one point of each claim.

``rpsim reproduce PAPER`` judges the claims themselves. These runs are too short for that, and are held to less: within
a factor of two of what is printed, and the system that is ahead is ahead, but for claims that are recorded as missed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rpsim.validation.published.papers.judge import judge, quick, values_of
from rpsim.validation.published.papers.paper import load_paper, papers
from rpsim.validation.published.papers.runs import needed, perform
from rpsim.validation.published.scoreboard import Bound, Claim, Range

OPERATIONS = 150
PREDICTED = [(name, claim.id) for name in papers() for claim in load_paper(name).claims if claim.counts]
EVEN = 0.05
"""How far from one, as a logarithm, a quotient of so short runs has to be to say who is ahead."""


@pytest.fixture(scope="module")
def judged():
    """Every predicted claim at its last quick point."""
    found: dict[tuple[str, str], Claim] = {}
    for name in papers():
        paper = load_paper(name)
        claims = [claim for claim in quick(paper, paper.claims) if claim.counts]
        claims = [replace(claim, over=({a: values[-1:] for a, values in claim.over[-1].items()},)) for claim in claims]
        values = values_of(paper, perform(paper, needed(paper, claims, figures=False), operations=OPERATIONS, jobs=1))
        found |= {(name, claim.id): judge(paper, claim, values) for claim in claims}
    return found


def ends(number: float | Range) -> tuple[float, float]:
    return (number.low, number.high) if isinstance(number, Range) else (number, number)


@pytest.mark.xdist_group("paper-guard")
@pytest.mark.parametrize(("paper", "claim"), PREDICTED)
def test_a_predicted_claim_is_near_what_was_published(judged, paper, claim):
    found = judged[paper, claim]
    simulated = ends(found.simulated)[0]
    if isinstance(found.published, Bound):
        assert found.published.met_by(simulated)
        return
    low, high = ends(found.published)
    assert low / 2 <= simulated <= high * 2
    if found.gain and not found.reason:
        ahead = [math.copysign(1, math.log(end)) if abs(math.log(end)) > EVEN else 0 for end in (low, high, simulated)]
        assert ahead[2] in (0, *ahead[:2]) or 0 in ahead[:2], found


def test_there_are_claims_to_guard():
    assert len(PREDICTED) >= 28
