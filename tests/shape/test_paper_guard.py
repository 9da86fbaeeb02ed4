"""Do a paper's predicted claims still come out near what was published? Small runs, one point of each claim.

``rpsim reproduce PAPER`` judges the claims themselves. These runs are too short for that, and are held to less: within
a factor of two of what is printed, and the system that is ahead is ahead, but for claims that are recorded as missed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rpsim.validation.published.papers.judge import judge, quick, values_of
from rpsim.validation.published.papers.paper import PaperClaim, load_paper, papers
from rpsim.validation.published.papers.runs import Measured, SchemeRun, needed, perform
from rpsim.validation.published.scoreboard import Bound, Claim, Range

OPERATIONS = {"rflush": 6}
"""Of the runs, by paper; objects of 64 KiB take their time."""
MOST_OPERATIONS = 150
WHOLE = {"rnvm"}
"""Papers of which the runs are as long as the claims': a batch of 1024 that is cut short does nothing."""
SLOW = {("rflush", "RF-16"), ("rflush", "RF-17")}
"""A network that is full of small packets has many events."""
QUICK = {
    "clover": ("CLV-lat-",),
    "pmr": ("PMR-raw-", "PMR-lc-lat-", "PMR-msg-lat", "PMR-T1-PMRAccess"),
    "rnvm": ("RNVM-T2-", "RNVM-T3-rNVM-Naive-Queue", "RNVM-T3-rNVM-R-", "RNVM-T3-Symmetric-SmallBank"),
}
"""Of a paper with many runs, or with structures of 300,000 keys: the beginnings of the names of claims whose runs take
a moment."""


def is_slow(name: str, id: str) -> bool:
    """Whether a claim is left to ``make slow``."""
    return (name, id) in SLOW or (name in QUICK and not id.startswith(QUICK[name]))


PREDICTED = [
    pytest.param(name, claim.id, marks=[pytest.mark.slow] if is_slow(name, claim.id) else [])
    for name in papers()
    for claim in load_paper(name).claims
    if claim.counts
]
EVEN = 0.05
"""How far from one, as a logarithm, a quotient of so short runs has to be to say who is ahead."""


@pytest.fixture(scope="module")
def judged():
    """Judges a claim at its last quick point; runs that claims share are run once."""
    measured: dict[str, dict[SchemeRun, Measured]] = {}

    def judged_claim(name: str, id: str) -> tuple[PaperClaim, Claim]:
        paper = load_paper(name)
        (claim,) = quick(paper, [claim for claim in paper.claims if claim.id == id])
        claim = replace(claim, over=({axis: values[-1:] for axis, values in claim.over[-1].items()},))
        known = measured.setdefault(name, {})
        operations = None if name in WHOLE else OPERATIONS.get(name, MOST_OPERATIONS)
        # A metered run stands for the other one, not the other way round.
        runs = [run for run in needed(paper, [claim], figures=False) if run.metered or run not in known]
        known |= perform(paper, runs, operations=operations, jobs=1)
        return claim, judge(paper, claim, values_of(paper, known))

    return judged_claim


def ends(number: float | Range) -> tuple[float, float]:
    return (number.low, number.high) if isinstance(number, Range) else (number, number)


@pytest.mark.long
@pytest.mark.xdist_group("paper-guard")
@pytest.mark.parametrize(("paper", "claim"), PREDICTED)
def test_a_predicted_claim_is_near_what_was_published(judged, paper, claim):
    recorded, found = judged(paper, claim)
    simulated = ends(found.simulated)[0]
    if isinstance(found.published, Bound):
        assert found.published.met_by(simulated) or not recorded.recorded()
        return
    low, high = ends(found.published)
    if recorded.recorded():
        assert simulated > 0
        assert low / 2 <= simulated <= high * 2
    if found.gain and not found.reason:
        ahead = [math.copysign(1, math.log(end)) if abs(math.log(end)) > EVEN else 0 for end in (low, high, simulated)]
        assert ahead[2] in (0, *ahead[:2]) or 0 in ahead[:2], found


def test_there_are_claims_to_guard():
    assert len(PREDICTED) >= 37
