"""Are a paper's claims read, run and judged as they are written down?"""

from __future__ import annotations

from functools import wraps
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.sim.errors import InputError
from rpsim.validation.published.papers import runs
from rpsim.validation.published.papers.judge import judge, quick
from rpsim.validation.published.papers.language import Expression, Term
from rpsim.validation.published.papers.paper import load_paper, papers, read_paper
from rpsim.validation.published.papers.runs import SchemeRun, needed, perform, scenario
from rpsim.validation.published.scoreboard import Claim, ClaimStatus, Range

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


# gains ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "compares"),
    [
        ("thr[a] / thr[b]", True),
        ("lat[a, size=64] / lat[a, size=4096]", True),
        ("crc[] / lat[a, get]", False),  # a share
        ("1 - thr[a] / thr[b]", False),  # a gain already
        ("thr[a] / thr[b] / 2", False),
        ("thr[a]", False),
    ],
)
def test_a_quotient_of_one_measure_compares_two_systems(text, compares):
    assert Expression(text).compares is compares


def test_the_error_of_a_range_is_that_of_its_worse_end():
    assert Claim("X", "paper", ClaimStatus.PREDICT, Range(1.0, 4.0), Range(1.5, 3.0), "", 0.3).error == 0.5


def test_gains_of_a_shipped_paper_are_judged_as_gains():
    by_id = {claim.id: claim for claim in load_paper("efactory").claims}
    assert by_id["EF-03"].gain and by_id["EF-27"].gain and not by_id["EF-32"].gain and not by_id["EF-29"].gain
    assert not by_id["EF-07"].gain  # a bound
    assert (by_id["EF-03"].tolerance, by_id["EF-08"].tolerance, by_id["EF-10"].tolerance) == (0.3, 0.15, 0.1)
    ahead = judge(load_paper("efactory"), by_id["EF-03"], lambda term, at: 1.14 if term.scheme == "efactory" else 1.0)
    assert not ahead.met and ahead.gain  # 14 % at every size is no 5 to 22 %


# the file ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", papers())
def test_every_claim_of_a_shipped_paper_names_schemes_axes_and_figures_that_there_are(name):
    paper = load_paper(name)
    assert len({claim.id for claim in paper.claims}) == len(paper.claims)
    for run in needed(paper, paper.claims, figures=True):
        made = scenario(paper, run)
        assert made.data["schemes"] == [run.scheme]
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
    wrong = wrong.replace("published: [1.05, 1.22]", "published: [0.95, 1.22]")
    wrong = wrong.replace("quick_differs: [", "quick_differs: [EF-9999, ")
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
        "a range on one side of 1",
        "'EF-9999'",
    ):
        assert part in told
    assert all(mistake.line for mistake in caught.value.mistakes)


# runs ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_what_was_measured_is_kept_and_not_run_again(tmp_path, monkeypatch):
    paper = load_paper("efactory")
    run = SchemeRun("saw", (("clients", "1"), ("mix", "update-only"), ("size", "64")))
    kept = tmp_path / "runs.jsonl"
    first = perform(paper, [run], operations=30, kept=kept)
    kept.write_text(kept.read_text() + '{"job": "half', encoding="utf-8")  # stopped while writing

    @wraps(runs.measure)
    def again(data, values):
        raise AssertionError("it is measured again")

    monkeypatch.setattr(runs, "measure", again)
    assert perform(paper, [run], operations=30, kept=kept) == first
    measured = first[run]
    assert measured["thr"] > 0 and measured["med"]["put"] <= measured["p99"]["put"]
    assert measured["lat"]["put"] == measured["lat"][""]
    with pytest.raises(AssertionError, match="measured again"):
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


# what Clover's claims look at -----------------------------------------------------------------------------


def judged(id, values):
    """Whether a claim of Clover's is met where its terms have these values."""
    paper = load_paper("clover")
    (claim,) = [claim for claim in paper.claims if claim.id == id]
    return judge(paper, claim, values).met


@pytest.mark.parametrize(
    "scheme, axis, times, met",
    [
        ("clover", "cns", 3, True), ("clover", "cns", 1.4, False), ("clover", "dns", 1.4, False),
        ("pdpm-central", "cns", 1.6, False), ("pdpm-central", "dns", 1.3, False),
        ("pdpm-direct", "cns", 1.6, False), ("pdpm-direct", "dns", 1.3, False),
    ],
)  # fmt: skip
def test_who_gains_from_machines_of_neither_kind_gains_from_one_to_four_of_neither(scheme, axis, times, met):
    """Else Clover's throughput grows three times, that of the others from two machines on not at all."""

    def values(term, at):
        ((changed, count),) = term.at or (("", "4"),)
        grown = times if (term.scheme, changed) == (scheme, axis) else 3 if term.scheme == "clover" else 1
        return 1 / grown if count == "1" else 1.0

    assert judged("CLV-S07", values) is met


@pytest.mark.parametrize(
    "reads, writes, balanced, met",
    [
        ([1000, 1, 1], [10, 10, 10], [0, 15, 15], [True, True]),
        ([470, 510, 20], [10, 10, 10], [0, 15, 15], [False, True]),  # a read entry is on the second node
        ([1000, 1, 1], [10, 10, 14], [0, 17, 17], [False, True]),
        ([1000, 1, 1], [10, 10, 10], [5, 5, 20], [True, False]),  # one of the other two alone has more
    ],
)
def test_every_node_counts_where_loads_are_balanced(reads, writes, balanced, met):
    def values(term, at):
        end = term.second if term.of == "client" else term.of
        moved = reads if term.second == "client" else balanced if "balance=writes" in term.scheme else writes
        return float(sum(moved) if end == "data" else moved[int(end[len("data[")])])

    assert [judged(id, values) for id in ("CLV-lb-rr", "CLV-lb-w")] == met


def test_both_entries_that_are_read_under_the_balanced_load_are_first_on_the_first_node():
    paper = load_paper("clover")
    balanced = needed(paper, [claim for claim in paper.claims if claim.id.startswith("CLV-lb-")], figures=False)
    assert len(balanced) == 3
    for run in balanced:
        data = scenario(paper, run).data
        read = [group.get("first", 0) for group in data["workload"]["groups"] if group["reads"] == 1]
        assert all(group["keys"] == 1 for group in data["workload"]["groups"])
        assert [key % data["roles"]["data"]["machines"] for key in read] == [0, 0]
        assert f"copied={read[1]}" in run.scheme


@pytest.mark.parametrize("direct, met", [((2.3, 9.0), True), ((2.3, 2.6), False), ((4.0, 11.0), False)])
def test_a_read_that_is_steeper_with_size_is_looked_at_over_sizes(direct, met):
    ends = {
        "word over no-flush": (2.2, 3.2), "clover": (2.3, 3.4), "herd": (3.0, 4.2), "herd-bf": (6.0, 7.4),
        "pdpm-central": (5.0, 6.0), "pdpm-direct": direct,
    }  # fmt: skip

    def values(term, at):
        return ends[term.scheme][int({**at, **dict(term.at)}["size"]) > 2000]

    assert judged("CLV-S01", values) is met
