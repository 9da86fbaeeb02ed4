"""Short names and families of schemes, several maps of points, readings, sides: what a paper's file may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.scenarios.build import Draft
from rpsim.sim.errors import InputError
from rpsim.validation.published.papers.judge import judge, quick
from rpsim.validation.published.papers.language import Expression
from rpsim.validation.published.papers.measure import measure, side_of, sides
from rpsim.validation.published.papers.paper import load_paper, read_paper
from rpsim.validation.published.papers.runs import needed, scenario

PAPER = """
paper: p
title: t
source: s
tolerances: {range: 0.3, value: 0.15}
scenario: {platform: rflush-testbed, workload: {kind: ycsb, mix: a, keys: 8, value: 64 B, operations: 60, warmup: 6}}
explore: {workload.operations: 4, workload.warmup: 0}
quick_operations: 20
readings: [{of: slots, taken: 4, beside: "8", why: as many}]
sweep: {}
systems: {slow: "farm[flush=one line]", quick: wflush-rpc}
families: {both: [slow, quick], one: [rfp]}
axes:
  size: {quick: [64], values: {64: {workload.value: 64 B}, 128: {workload.value: 128 B, workload.operations: 30}}}
  more: {values: {no: {}, "yes": {workload.operations: 90}}}
at: {}
figures:
  "1": {title: f, y: thr, x: size, values: [128], schemes: both}
claims:
  - id: A
    figure: "1"
    status: predict
    words: w
    over: [{size: [64], $x: both, $y: one}, {size: [128], $x: [slow], $y: [darpc]}]
    value: "thr[$x] / thr[$y]"
    published: 2
  - {id: B, figure: none, status: shape, words: w, check: "holds[quick, no_lost_ack] and thr[slow, more=yes] > 0"}
"""
FARM = "farm[flush=one line]"


def paper(tmp_path: Path, *changes: tuple[str, str]):
    text = PAPER
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "p.yaml"
    file.write_text(text, encoding="utf-8")
    return read_paper(file)


def test_a_claim_over_several_maps_is_made_at_the_points_of_each(tmp_path):
    claim, _ = paper(tmp_path).claims
    points = [(at["size"], at["$x"], at["$y"]) for at in claim.points()]
    assert points == [("64", FARM, "rfp"), ("64", "wflush-rpc", "rfp"), ("128", FARM, "darpc")]
    asked = []

    def values(term, at):
        asked.append((term.scheme, at["size"]))
        return 2.0 if at.get(term.scheme) in (FARM, "wflush-rpc") else 1.0

    assert judge(paper(tmp_path), claim, values).met
    assert len(asked) == 6


def test_a_short_name_is_the_scheme_everywhere(tmp_path):
    found = paper(tmp_path)
    runs = needed(found, found.claims, figures=True)
    assert {run.scheme for run in runs} == {FARM, "wflush-rpc", "rfp", "darpc"}
    assert found.label(FARM) == "slow"
    assert found.label("rfp") == "rfp"
    assert found.figures["1"].schemes == (FARM, "wflush-rpc")
    drawn = [run for run in runs if dict(run.at)["size"] == "128" and run.scheme == "wflush-rpc"]
    assert drawn, "a figure's own values"


def test_of_two_axes_that_set_a_field_the_later_one_counts_and_an_exploration_is_small_anyway(tmp_path):
    found = paper(tmp_path)
    by_name = {str(run): run for run in needed(found, found.claims, figures=True)}
    (more,) = [run for name, run in by_name.items() if name.startswith(f"{FARM} yes")]
    assert scenario(found, more).data["workload"]["operations"] == 90
    (explored,) = [run for run in by_name.values() if run.explored]
    assert scenario(found, explored).data["workload"]["operations"] == 4
    large = next(run for run in by_name.values() if dict(run.at)["size"] == "128")
    assert scenario(found, large).data["workload"]["operations"] == 30
    assert scenario(found, large, 20).data["workload"]["operations"] == 20
    assert scenario(found, large, 50).data["workload"]["operations"] == 30  # at most so many


def test_a_quick_look_leaves_each_map_a_point(tmp_path):
    found = paper(tmp_path)
    claim, _ = quick(found, found.claims)
    assert [at["size"] for at in claim.points()] == ["64", "64", "128"]
    assert found.quick_operations == 20
    assert load_paper("efactory").quick_operations == 1000


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("$x: both", "$x: boht", "did you mean 'both'"),
        ('{slow: "farm', '{slow: "frm', "did you mean"),
        ("thr[$x] / thr[$y]", "thr[$x] / thr[$z]", "'$z'"),
        ("taken: 4, ", "", "taken"),
        ("quick_operations: 20", "quick_operations: 0", "from 1"),
        ("values: [128]", "values: [129]", "'129'"),
        ("schemes: both", "schemes: bath", "did you mean 'both'"),
    ],
)
def test_what_is_wrong_in_a_file_is_told(tmp_path, old, new, told):
    with pytest.raises(InputError) as caught:
        paper(tmp_path, (old, new))
    assert told in "\n".join(str(mistake) for mistake in caught.value.mistakes)


def test_a_short_name_may_be_that_of_nothing_else():
    (term,) = Expression("lat[wflush, get]", {"wflush": "wflush-rpc"}).terms
    assert (term.scheme, term.of) == ("wflush-rpc", "get")


# sides -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hop", "side"),
    [
        ("CPU of client", "sender"),
        ("wait for client", "sender"),
        ("requester cpu: look up", "sender"),
        ("CPU of server", "receiver"),
        ("wait for server", "receiver"),
        ("responder cpu: flush", "receiver"),
        ("wire and switch", "network"),
        ("responder nic: look up", "network"),
        ("DMA and polling", "network"),
    ],
)
def test_whose_time_a_hop_is(hop, side):
    assert side_of(hop, ["client"]) == side


def test_sides_of_all_operations_are_weighted_by_how_many_there_are():
    found = sides(
        {"get": {"CPU of client": 1.0}, "put": {"CPU of client": 3.0, "x": 4.0}}, {"get": 3, "put": 1}, ["client"]
    )
    assert found[""] == {"sender": 1.5, "network": 1.0, "receiver": 0.0}
    assert found["put"] == {"sender": 3.0, "network": 4.0, "receiver": 0.0}


@pytest.mark.parametrize("name", ["farm", "darpc", "wflush-rpc"])
def test_a_read_by_memory_or_by_message_spends_as_long_at_the_server(name):
    """Who spins on memory finds out whose WRITE it was, as who takes a completion does: 10 us of work show there."""
    draft = Draft.given(
        {
            "scenario": "sides",
            "platform": "rflush-testbed",
            "schemes": [name],
            "workload": {"kind": "ycsb", "mix": "c", "keys": 8, "value": "64 B", "operations": 12, "warmup": 2},
        },
        "sides",
    )
    (few, more) = (measure(draft.set({"workload.work": work}), metered=True) for work in ("1 us", "11 us"))
    assert more["sides"]["get"]["receiver"] - few["sides"]["get"]["receiver"] == pytest.approx(10, abs=0.2)
    assert sum(more["sides"]["get"].values()) == pytest.approx(more["lat"]["get"], rel=0.001)
