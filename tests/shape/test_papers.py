"""Are a paper's claims read, run and judged as they are written down?"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.sim.errors import InputError
from rpsim.validation.published.papers.judge import judge, quick
from rpsim.validation.published.papers.language import Expression, Term
from rpsim.validation.published.papers.paper import load_paper, papers, read_paper
from rpsim.validation.published.papers.runs import SchemeRun, needed, perform, scenario
from rpsim.validation.published.scoreboard import Bound, Claim, ClaimStatus, Range

# the language --------------------------------------------------------------------------------------------

numbers = st.floats(0.1, 100, allow_nan=False)


@given(numbers, numbers, numbers)
def test_a_formula_is_worth_what_arithmetic_says(a, b, c):
    known = {"a": a, "b": b, "c": c}
    terms = Expression("thr[a] / thr[b] - 2 * max(thr[b], thr[c]) + abs(1 - thr[c])")
    assert terms(lambda term: known[term.scheme]) == a / b - 2 * max(b, c) + abs(1 - c)
    assert Expression("thr[a] < thr[b] <= thr[c]")(lambda term: known[term.scheme]) == (a < b <= c)
    assert Expression("thr[a] < 1 and thr[b] < 1")(lambda term: known[term.scheme]) == (a < 1 and b < 1)


def test_a_term_names_measure_scheme_operation_and_axes():
    (term,) = Expression("lat[efactory-wo-hr, get, clients=1, size=64]").terms
    assert term == Term("lat", "efactory-wo-hr", "get", (("clients", "1"), ("size", "64")))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("thr[a] /", "no formula"),
        ("trh[a]", "the measure 'trh'"),
        ("thr[]", "expected thr"),
        ("thr[a, b, c]", "expected thr"),
        ("__import__('os')", "means nothing here"),
        ("thr[a].real", "means nothing here"),
        ("[thr[a] for x in y]", "means nothing here"),
        ("t7 + 1", "means nothing here"),
    ],
)
def test_what_is_no_formula_is_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        Expression(text)


# the scoreboard ------------------------------------------------------------------------------------------


def claim(published, simulated, tolerance=0.15, **more):
    return Claim("X", "paper", ClaimStatus.PREDICT, published, simulated, "", tolerance, **more)


@pytest.mark.parametrize(
    ("published", "simulated", "met"),
    [
        (1.96, 1.70, True), (1.96, 1.60, False),
        (1.1, 0.99, False),  # near enough, and the other one wins
        (1.0, 0.95, True), (0.95, 1.03, True),
        (Range(1.42, 3.79), Range(1.2, 3.0), True), (Range(1.42, 3.79), Range(1.2, 5.0), False),
        (Range(1.42, 3.79), Range(0.99, 3.0), False),
        (Bound(at_most=0.02), Range(0.01, 0.03), False), (Bound(at_least=1.0), 1.0, True),
    ],
)  # fmt: skip
def test_what_is_near_enough_is_met_if_the_winner_wins(published, simulated, met):
    tolerance = 0.3 if isinstance(published, Range) else 0.15
    assert claim(published, simulated, tolerance, same_side=True).met == met


def test_the_error_of_a_range_is_that_of_its_worse_end():
    assert claim(Range(1.0, 4.0), Range(1.5, 3.0)).error == 0.5


# the file ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", papers())
def test_every_claim_of_a_shipped_paper_names_schemes_axes_and_figures_that_there_are(name):
    paper = load_paper(name)
    assert len({claim.id for claim in paper.claims}) == len(paper.claims)
    for run in needed(paper, paper.claims, figures=True):
        made = scenario(paper, run)
        assert made["schemes"] == [run.scheme]
    assert all(claim.counts for claim in paper.claims if claim.status is ClaimStatus.PREDICT)
    assert (
        0
        < len(needed(paper, quick(paper, paper.claims), figures=False))
        < len(needed(paper, paper.claims, figures=False))
    )


def test_the_example_of_the_docs_is_a_paper():
    paper = read_paper(Path(__file__).parents[2] / "docs/examples/claims.yaml")
    assert [claim.id for claim in paper.claims] == ["X-1", "X-2"]
    assert len(needed(paper, paper.claims, figures=True)) == 6


def test_every_mistake_of_a_file_is_told_with_its_line(tmp_path):
    text = (Path(__file__).parents[2] / "validation/published/claims/efactory.yaml").read_text(encoding="utf-8")
    wrong = text.replace('thr[efactory] / thr[imm]", published: [1.42', 'thr[efactry] / thr[imm]", published: [9.42')
    wrong = wrong.replace("over: size, at: {mix: update-only}, value: \"thr[efactory] / thr[saw]\"",
                          "over: sise, at: {mix: update-olny}, value: \"thr[efactory] / thr[saw]\"")  # fmt: skip
    file = tmp_path / "efactory.yaml"
    file.write_text(wrong, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_paper(file)
    told = "\n".join(str(mistake) for mistake in caught.value.mistakes)
    for part in (
        "'efactry'",
        "did you mean 'efactory'",
        "'sise'",
        "did you mean 'size'",
        "'update-olny'",
        "[low, high]",
    ):
        assert part in told
    assert all(mistake.line for mistake in caught.value.mistakes)


# runs ----------------------------------------------------------------------------------------------------


def test_what_was_measured_is_kept_and_not_run_again(tmp_path, monkeypatch):
    paper = load_paper("efactory")
    run = SchemeRun("saw", (("clients", "1"), ("mix", "update-only"), ("size", "64")))
    kept = tmp_path / "runs.jsonl"
    first = perform(paper, [run], operations=30, kept=kept)
    kept.write_text(kept.read_text() + '{"run": "half', encoding="utf-8")  # whoever was stopped here
    monkeypatch.setattr("rpsim.validation.published.papers.runs.measure", None)  # must not be called
    assert perform(paper, [run], operations=30, kept=kept) == first
    measured = first[run]
    assert measured["thr"] > 0 and measured["med"]["put"] <= measured["p99"]["put"]
    assert measured["lat"]["put"] == measured["lat"][""]
    with pytest.raises(TypeError):
        perform(paper, [run], operations=31, kept=kept)


def test_a_claim_is_judged_over_all_its_points():
    paper = load_paper("efactory")
    by_id = {claim.id: claim for claim in paper.claims}
    speed = {"64": 1.5, "256": 2.0, "1024": 2.5, "2048": 3.0, "4096": 3.5}

    def values(term, at):
        return speed[at["size"]] if term.scheme == "efactory" else 1.0

    found = judge(paper, by_id["EF-01"], values)
    assert (found.simulated, found.met) == (Range(1.5, 3.5), True)
    assert judge(paper, by_id["EF-S08"], values).met  # increasing
    assert not judge(paper, by_id["EF-S08"], lambda term, at: 1 / values(term, at)).met
    assert judge(paper, by_id["EF-08"], values).simulated == 3.5
