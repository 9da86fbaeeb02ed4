"""The scoreboard: what counts as met, what counts at all, and when the bar is reached."""

from __future__ import annotations

import pytest

from rpsim.validation.published.scoreboard import NOT_ANALYSED, Bar, Bound, Claim, ClaimStatus, summarise


def claim(published, simulated, status=ClaimStatus.PREDICT, tolerance=0.25, reason=""):
    return Claim("c", "a paper", status, published, simulated, "us", tolerance, reason)


@pytest.mark.parametrize(
    ("published", "simulated", "met"),
    [(1.0, 1.25, True), (1.0, 1.26, False), (1.0, 0.75, True), (1.0, 0.74, False), (2.0, 2.0, True)],
)
def test_a_number_is_met_within_its_tolerance(published, simulated, met):
    assert claim(published, simulated).met is met


@pytest.mark.parametrize(
    ("bound", "value", "met"),
    [
        (Bound(at_least=2), 2, True),
        (Bound(at_least=2), 1.9, False),
        (Bound(at_most=2), 2.1, False),
        (Bound(at_least=1, at_most=2), 1.5, True),
    ],
)
def test_a_direction_is_met_or_not(bound, value, met):
    found = claim(bound, value, ClaimStatus.SHAPE)
    assert (found.met, found.error) == (met, None)


def test_a_missed_claim_has_a_reason_or_says_that_nobody_looked():
    assert claim(1.0, 3.0).row()["reason"] == NOT_ANALYSED
    assert claim(1.0, 3.0, reason="no queue in the model").row()["reason"] == "no queue in the model"
    assert claim(1.0, 1.0, reason="no queue in the model").row()["reason"] == ""


def test_only_predictions_count():
    claims = [claim(1.0, 1.0)] * 9 + [claim(1.0, 2.0)]
    others = [claim(1.0, 9.0, status) for status in (ClaimStatus.FIT, ClaimStatus.INPUT)] + [
        claim(Bound(at_least=5), 1.0, ClaimStatus.SHAPE)
    ]
    summary = summarise(claims + others)
    assert (summary.predicted, summary.predicted_met, summary.met) == (10, 9, True)
    assert (summary.fitted, summary.fitted_met, summary.shapes_met, summary.inputs) == (1, 0, 0, 1)


def test_the_bar_is_a_share_and_a_median():
    assert not summarise([claim(1.0, 1.0)] * 8 + [claim(1.0, 2.0)] * 2).met
    assert not summarise([claim(1.0, 1.2)] * 10).met
    assert summarise([claim(1.0, 1.2)] * 10, Bar(0.9, 0.25)).met
    assert not summarise([claim(1.0, 1.2)] * 10, Bar(0.9, 0.19)).met
