"""A paper that there is not, with every measure and every status: is each measured, judged and counted as it says?"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rpsim.app.main import main
from rpsim.models.profiles.parameters.cost import PartCost
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.run.cost import cost
from rpsim.sim.errors import InputError
from rpsim.validation.published.papers import paper as papers
from rpsim.validation.published.papers.judge import judge, knee, slope, values_of
from rpsim.validation.published.papers.language import Expression
from rpsim.validation.published.papers.measures import MEASURES
from rpsim.validation.published.papers.paper import read_paper
from rpsim.validation.published.papers.runs import SchemeRun, needed, perform
from rpsim.validation.published.scoreboard import COUNTED, UNGRADED, ClaimStatus, summarise

from ..answers import result_of

FILE = Path(__file__).parent / "toy.yaml"
PLATFORM = Path(__file__).parent / "toy-platform.yaml"
SPECS = {
    "client": [NodeSpec()],
    "data": [NodeSpec(memory=("dram", "pm")), NodeSpec(memory=("dram", "pm"), core_type="arm-a72")],
}
PAPER = read_paper(FILE)
OWN = {name: Scheme.registry.pop(name) for name, kind in [*Scheme.registry.items()] if "toy_scheme" in kind.__module__}
"""The toy's own scheme: other tests look at all that are listed."""
GRADED = [claim for claim in PAPER.claims if claim.expression is not None]
pytestmark = pytest.mark.xdist_group("toy paper")


@pytest.fixture(scope="module", autouse=True)
def own_schemes():
    Scheme.registry.update(OWN)
    yield
    for name in OWN:
        del Scheme.registry[name]


@pytest.fixture(scope="module")
def values(own_schemes):
    return values_of(PAPER, perform(PAPER, needed(PAPER, GRADED, figures=True)))


def test_the_toy_has_every_measure_and_every_status():
    terms = [term for claim in GRADED for term in claim.expression.terms]
    assert {term.measure for term in terms} == set(MEASURES)
    assert {claim.status for claim in PAPER.claims} == set(ClaimStatus)
    assert {claim.status for claim in PAPER.claims if claim.expression is None} == set(UNGRADED)


@pytest.mark.long
@pytest.mark.parametrize("claim", GRADED, ids=lambda claim: claim.id)
def test_a_claim_comes_out_as_recorded_and_not_if_its_measure_is_wrong(claim, values):
    assert judge(PAPER, claim, values).met is claim.recorded()
    for measure in {term.measure for term in claim.expression.terms}:
        outcomes = set()
        for saw, others in ((-1e9, -1e9), (1e9, 1e9), (-1e9, 1e9), (1e9, -1e9)):

            def wrong(term, at, measure=measure, saw=saw, others=others):
                return values(term, at) if term.measure != measure else saw if term.scheme == "saw" else others

            outcomes.add(judge(PAPER, claim, wrong).met)
        assert (not claim.recorded()) in outcomes, measure


@pytest.mark.long
def test_what_does_not_count_is_counted_apart(values):
    found = [judge(PAPER, claim, values) for claim in GRADED]
    summary = summarise(found, ungraded=[claim.status for claim in PAPER.claims if claim.expression is None])
    given = Counter(claim.status for claim in PAPER.claims)
    assert summary.predicted == given[ClaimStatus.PREDICT]  # the chosen one is not there, the either-or that counts is
    assert summary.predicted_met == summary.predicted - 1
    assert (summary.chosen, summary.chosen_met, summary.shapes, summary.fitted, summary.inputs) == (1, 1, 1, 1, 1)
    others = {str(status): 1 for status in ClaimStatus if status not in COUNTED and status != ClaimStatus.EITHER_OR}
    assert summary.others == others
    (row,) = [claim.row() for claim in found if claim.chosen]
    assert (row["id"], row["reading"]) == ("T-chosen", "chosen by")


@pytest.mark.long
def test_the_command_ends_with_1_when_the_record_is_another(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "claims"
    folder.mkdir()
    monkeypatch.setattr(papers, "FOLDER", folder)
    words = ["reproduce", "toy", "--jobs", "1", "--out", str(tmp_path / "results")]
    shutil.copy(FILE, folder / "toy.yaml")
    assert main([*words, "--pages", str(tmp_path / "pages")]) == 0
    out = capsys.readouterr().out
    assert "Every claim comes out as the paper's file has recorded it." in out
    assert "1 by which a reading was chosen, 1 met; 1 contradicted," in " ".join(out.split())
    assert "met (predict, a reading was chosen by it)" in out and "T-lost  a figure that is lost (lost)" in out
    page = (tmp_path / "pages/toy.md").read_text(encoding="utf-8")
    assert "## Not compared" in page and "| T-duplicate | none | T-thr again | duplicate | T-thr |" in page
    report = next((tmp_path / "results").glob("*/report.html")).read_text(encoding="utf-8")
    assert "client processes" in report  # the axis' own title
    text = FILE.read_text(encoding="utf-8").replace("[T-missed, T-contradicted]", "[T-contradicted, T-slope]")
    (folder / "toy.yaml").write_text(text, encoding="utf-8")
    assert main([*words, "--json"]) == 1
    answer = result_of(capsys.readouterr().out)
    assert answer["changed"] == ["T-slope", "T-missed"] and not answer["as_recorded"]
    assert [row["id"] for row in answer["not_compared"]] == [one.id for one in PAPER.claims if one.expression is None]


# runs and their measurements --------------------------------------------------------------------------------------


def test_a_run_is_metered_where_a_term_needs_it_and_stands_for_the_other_run():
    runs = {run: run.metered for run in needed(PAPER, GRADED, figures=True)}
    at = PAPER.claims[0].at
    saw = SchemeRun("saw", tuple(sorted(at.items())))
    assert runs[saw] and not runs[replace(saw, at=tuple(sorted({**at, "clients": "2"}.items())))]
    (thr,) = (claim for claim in GRADED if claim.id == "T-thr")
    assert not any(run.metered for run in needed(PAPER, [thr], figures=False))


def looked_up(text, measured):
    (term,) = Expression(text).terms
    return values_of(PAPER, {SchemeRun("a", ()): measured})(term, {})


TRAFFIC = {
    "tallies": {name: {} for name in ("client[0]", "data[0]", "data[1]")},
    "traffic": [
        ["client[0]", "data[0]", 30.0],
        ["client[0]", "data[1]", 10.0],
        ["data[1]", "client[0]", 15.0],
        ["data[0]", "data[1]", 5.0],
    ],
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("bytes[a, client]", 55),
        ("bytes[a, data]", 60),
        ("bytes[a, data[0]]", 35),
        ("bytes[a, client, data]", 40),
        ("bytes[a, data, client]", 15),
        ("bytes[a, data[0], data[1]]", 5),
        ("share[a, data[0]]", 35 / 65),
        ("share[a, data[1]]", 30 / 65),
    ],
)
def test_bytes_by_hand(text, value):
    assert looked_up(text, TRAFFIC) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("bytes[a, data[2]]", "no 'data[2]' in the run of bytes[a, data[2]]"),
        ("share[a, data]", "no 'data' in the run of share[a, data], expected one of data[0], data[1]"),
        ("gauge[a, data[0], free]", "no 'free'"),
        ("cost[a]", "no 'client' in the run of cost[a], expected one of data"),
        ("joule[a, client]", "no 'client'"),
        ("rtt[a, get]", "no 'get' in the run of rtt[a, get], expected one of put"),
    ],
)
def test_what_a_run_does_not_have_is_refused(text, complaint):
    measured = {
        **TRAFFIC,
        "gauges": {name: {} for name in TRAFFIC["tallies"]},
        "cost": {"data": 1},
        "spent": {"client": {}, "data": {}},
        "round_trips": {"": {"mean": 1.0}, "put": {"mean": 1.0}},
    }
    with pytest.raises(InputError) as caught:
        looked_up(text, measured)
    assert complaint in str(caught.value)


def test_prices_are_of_the_parts_that_a_machine_has(tmp_path):
    """A passive machine has no host; a missing price is no price of 0."""
    priced = load_platform(str(PLATFORM)).cost

    def of(prices, kind):
        return cost(System(replace(load_platform("optane-adr"), cost=prices), SPECS, 1), kind)

    runs, rests = SimpleNamespace(passive=False), SimpleNamespace(passive=True)
    passive = SimpleNamespace(role_types={"client": runs, "data": rests})
    assert of(priced, passive) == {"client": 1100, "data": 2 * 110}
    assert of({part: one for part, one in priced.items() if part != "pm"}, passive) == {"client": 1100}
    card = {**priced, "arm-a72": PartCost(400)}
    active = SimpleNamespace(role_types={"client": runs, "data": runs})
    assert of(card, active) == {"client": 1100, "data": 1110 + 510}
    wrong = PLATFORM.read_text(encoding="utf-8").replace("  pm:", "  pn:")
    (tmp_path / "toy.yaml").write_text(wrong, encoding="utf-8")
    with pytest.raises(InputError, match="unknown part 'pn', expected one of host, adapter, pm"):
        load_platform(str(tmp_path / "toy.yaml"))


# measures along an axis, names, mistakes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("along", "growth", "bend"),
    [({1: 10, 2: 20, 4: 40}, 1.0, 4), ({1: 10, 2: 10, 4: 10}, 0.0, 1), ({1: 10, 4: 40, 16: 40}, 0.5, 4)],
)
def test_slope_and_knee_by_hand(along, growth, bend):
    assert slope(along) == pytest.approx(growth)
    assert knee(along) == bend


def test_a_name_with_options_is_one_word():
    (term,) = Expression("thr[clover[replicas=2, gc=epochs], get, clients=4]").terms
    assert (term.scheme, term.of, term.at) == ("clover[replicas=2, gc=epochs]", "get", (("clients", "4"),))


def test_an_undecided_verdict_meets_neither_a_claim_nor_its_opposite():
    for text in (
        "holds[a, durable]",
        "not holds[a, durable]",
        "holds[a, durable] and 1 < 2",
        "holds[a, durable] or 2 < 1",
    ):
        assert Expression(text)(lambda _: 0.5) == 0.5


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("no_lost_ack]", "no_lost_ac]", "did you mean 'no_lost_ack'?"),
        ("slope[word over no-flush, clients]", "slope[word over no-flush, mix]", "an axis whose values are numbers"),
        ("knee[word over no-flush, clients]", "knee[word over no-flush, client]", "did you mean 'clients'?"),
        ("{$x: [saw, word", "{$y: [saw, word", "'$x'"),
        ("{$x: [saw, word over no-flush]}", "{$x: [swa, word over no-flush]}", "did you mean 'saw'?"),
        ("explore: {", "explores: {", "'explores'"),
        ("reading: chosen by", "reading: chosen", "expected one of chosen by"),
        ("words: a figure that is lost, why: it is lost", "words: a figure", "nothing to compare"),
        ("cpu[saw, server] > 100", "cpu[saw] > 100", "expected cpu[scheme, role, axis=value]"),
        ("y: p90", "y: rtt", "expected one of thr, bw,"),
        ("cost[saw, client]", "cost[saw, clinet]", "did you mean 'client'?"),
        ("share[saw, server[0]]", "share[saw, sever[0]]", "did you mean 'server'?"),
        ("rtt[saw, put]", "rtt[saw, pot]", "did you mean 'put'?"),
        ("platform: tests/shape/toy-platform.yaml", "platform: optane-adr", "a platform that states 'cost'"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(tmp_path, old, new, complaint):
    text = FILE.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "toy.yaml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_paper(tmp_path / "toy.yaml")
    assert any(complaint in str(mistake) and mistake.line for mistake in caught.value.mistakes), str(caught.value)
