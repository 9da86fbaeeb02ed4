"""Do further schedules differ in what they say they perturb, and does what is found in one come back in its case?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rpsim.protocols.guarantees import EXPLORED, Condition
from rpsim.scenarios.run.experiment import run_variant
from rpsim.validation.crash.explore import explore, replay_case
from rpsim.validation.crash.explorer import Explorer

from ..small import get, only_variant, put, scenario, ycsb


def seen(made, schedule):
    result = run_variant(made, only_variant(made), schedule)
    return [(o.invoke_ps, o.return_ps, str(o.result)) for o in result.history.operations], result


@pytest.mark.long
@pytest.mark.parametrize("what", ["pauses", "hardware", "packets"])
def test_each_schedule_is_a_way_of_its_own_and_always_the_same(what):
    """On a platform whose adapters have something to choose: WRITEs of several clients that arrive together."""
    made = scenario("client-active", ycsb(80), processes=6, keys=2, value="4 KiB", crash={"perturb": [what]})
    ways = [seen(made, schedule)[0] for schedule in (0, 1, 2)]
    assert ways[0] != ways[1] != ways[2] != ways[0]
    assert ways[1] == seen(made, 1)[0]


def test_a_schedule_that_is_begun_with_is_the_one_of_that_number_without_its_pauses():
    crash = {"perturb": ["hardware", "packets"]}
    made = scenario("client-active", ycsb(40), processes=6, keys=2, value="256 B", crash=crash)
    assert seen(made.from_schedule(2), 0)[0] == seen(made, 2)[0]
    assert seen(made.from_schedule(1), 1)[0] == seen(made, 2)[0]
    assert made.from_schedule(0) is made


def test_only_pauses_are_perturbed_unless_a_scenario_says_otherwise():
    made = scenario("saw", ycsb(20), processes=4, keys=2)
    assert made.crash.perturbed == ("pauses",)
    assert made.from_schedule(3) is made
    assert "perturb" not in made.resolved()["crash"]


@pytest.mark.parametrize(
    ("schedule", "core", "every"), [(1, "server[0] core 0", 1), (2, "server[0] core 1", 1), (3, "server[0] core 0", 2)]
)
def test_one_core_after_the_other_lags_behind_all_it_stores_whatever_the_seed(schedule, core, every):
    """eFactory's request core stores a header and an entry for each put, its verifier a flag."""
    work = [put(0, "k0", at_ns=n * 200_000) for n in range(4)]
    made = scenario("efactory", work, crash={"perturb": ["lagging"]})
    outages = seen(made, schedule)[1].outages
    stores = 4 * (2 if core.endswith("0") else 1)
    assert {outage[0] for outage in outages} == {core}
    assert [for_ps for _, _, for_ps in outages] == [20_000_000] * (stores // every)
    assert outages == seen(scenario("efactory", work, crash={"perturb": ["lagging"]}, seed=7), schedule)[1].outages


def test_a_read_finds_what_is_not_durable_while_the_core_that_would_flush_it_lags():
    work = [put(0, "k0"), *(get(1, "k0", at_ns=n * 5_000) for n in range(4))]
    made = scenario("saw", work, processes=2, crash={"perturb": ["lagging"]})
    found = [set(Explorer(seen(made, n)[1], conditions=EXPLORED).walk().first) for n in (0, 1)]
    assert found == [set(), {Condition.DURABLE, Condition.MONOTONIC}]


@pytest.mark.parametrize("what", [["lagging"], ["hardware"], ["packets"], ["pauses", "hardware", "packets"]])
def test_what_a_perturbed_schedule_shows_its_case_shows_again(what, tmp_path):
    """The violation is looked for in the second schedule alone: the first is not explored."""
    work = [put(0, "k0"), get(1, "k0", at_ns=3_000), put(2, "k0", at_ns=1_000)]
    crash = {"perturb": what, "schedules": 2}
    made = scenario("client-active", work, processes=3, whole_lines=True, crash=crash).from_schedule(1)
    report = explore(seen(made, 0)[1], made, only_variant(made))
    assert report.over.startswith("2 schedules (") and report.counterexamples
    for number, example in enumerate(report.counterexamples):
        path = tmp_path / f"case-{number}.json"
        path.write_text(json.dumps(example.case), encoding="utf-8")
        again = replay_case(path)
        assert again is not None and again.timeline == example.timeline
        assert what == ["lagging"] or example.case["scenario"]["crash"]["first"] >= 1


@pytest.mark.long
def test_schedules_explored_side_by_side_give_what_one_process_gives():
    made = scenario("saw", ycsb(16), processes=2, keys=2, whole_lines=True, crash={"schedules": 3})
    run, variant = seen(made, 0)[1], only_variant(made)
    alone, together = (explore(run, made, variant, processes=processes) for processes in (1, 2))
    assert replace(together, seconds=0.0) == replace(alone, seconds=0.0)
    assert (
        alone.instants
        > explore(run, scenario("saw", ycsb(16), processes=2, keys=2, whole_lines=True), variant).instants
    )
