"""Until when are durable calls explored? When the last one returns, calls are in the log that wait to be executed."""

from __future__ import annotations

import json

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.rflush.connections import DurableConnection
from rpsim.protocols.rflush.durable import DurableClient, DurableServer
from rpsim.protocols.scheme import Role
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import load_scenario
from rpsim.validation.crash.brute_force import compare
from rpsim.validation.crash.explore import differences, explore, replay_case
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.crash.subjects import REST_WITHIN_PS

from ...small import get, only_variant, put, run, scenario

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
JUDGED = (COMMITTED, LOST, DURABLE)
STORED = "wflush-rpc[removal=stored]"
HARDWARE = {"platform": ["rflush-testbed"], "ddio": ["off"], "domain": ["adr"]}
WORK = {"kind": "schedule", "work": "20 us"}
LATE = {**WORK, "operations": [put(0, "k0")] * 2 + [get(0, "k0", at_ns=150_000)]}
"""Both calls are removed while nothing is under way, and long before the last operation."""


def nothing(*_given):
    yield from ()


def shipped(scheme_name):
    """A scheme in the set-up of the shipped scenario, on the hardware on which its calls are durable."""
    settings = [f"schemes=[{json.dumps(scheme_name)}]", "expect={}", "vary.ddio=[off]", "vary.domain=[adr]"]
    made = load_scenario("durable-rpc", settings)
    return made, only_variant(made)


def returned_ps(history):
    return max(o.return_ps for o in history.operations)


def assert_replayed(example, folder):
    path = folder / "case-1.json"
    path.write_text(json.dumps(example.case), encoding="utf-8")
    again = replay_case(path)
    assert (again.condition, again.instant_ps) == (example.condition, example.instant_ps)
    assert differences(path, again) == []


@pytest.mark.parametrize("name", ["wflush-rpc", STORED])
def test_a_shipped_run_is_explored_until_its_last_call_is_removed(name):
    made, variant = shipped(name)
    result = run_variant(made, variant)
    server = result.scheme.roles["server"][0]
    assert not server.at_rest() and not any(end.removed for end in server.connections.all)
    explorer = Explorer(result)
    assert server.at_rest() and [end.removed for end in server.connections.all] == [2, 2, 0]
    found = explorer.walk()
    assert found.exhaustive and "until every machine was at rest" in found.over
    assert max(at_ps for at_ps, _, _ in explorer.instants()) > returned_ps(result.history)


@pytest.mark.parametrize("name", ["wflush-rpc", STORED])
def test_brute_force_finds_the_same_behind_the_last_return(name):
    compared = compare(run(name, [put(0, "k0")] * 2, vary=HARDWARE, value="8 B"), JUDGED)
    assert compared.agree and compared.brute.keys() == ({LOST, DURABLE} if name == STORED else set())


@pytest.mark.long
def test_a_violation_behind_the_last_return_is_found_shrunk_and_replayed(tmp_path):
    """The removal of an older call may be lost, and that of a newer one made it: recovery brings the old value back."""
    made, variant = shipped(STORED)
    result = run_variant(made, variant)
    report = explore(result, made, variant, examples=(LOST,))
    assert {str(c) for c, verdict in report.verdicts.items() if verdict == "violated"} >= {"no_lost_ack", "durable"}
    (example,) = report.counterexamples
    assert example.operations == 2 and example.instant_ps > returned_ps(result.history)
    assert_replayed(example, tmp_path)


@pytest.mark.long
def test_a_violation_behind_the_return_of_its_own_operations_is_shrunk(tmp_path):
    """The read at the end is none of it, and need not be there for the run to get so far."""
    made = scenario(STORED, LATE, vary=HARDWARE, value="64 B")
    report = explore(run(STORED, LATE, vary=HARDWARE, value="64 B"), made, only_variant(made), examples=(LOST,))
    (example,) = report.counterexamples
    assert example.operations == 2
    assert_replayed(example, tmp_path)


@pytest.mark.long
def test_of_a_scheme_that_does_not_say_when_it_is_at_rest_such_a_violation_keeps_a_later_operation(
    tmp_path, monkeypatch
):
    """Else its run would end before."""
    for role in (DurableClient, DurableServer):
        monkeypatch.setattr(role, "at_rest", Role.at_rest)
    made = scenario(STORED, LATE, vary=HARDWARE, value="64 B")
    report = explore(run(STORED, LATE, vary=HARDWARE, value="64 B"), made, only_variant(made), examples=(LOST,))
    assert report.over.startswith("all instants of the schedule and all images")
    (example,) = report.counterexamples
    assert example.operations == 3
    assert_replayed(example, tmp_path)


def test_what_never_comes_to_rest_is_given_up_after_a_time_and_nothing_holds(monkeypatch):
    """A server that does not tell how many calls it has removed."""
    monkeypatch.setattr(DurableConnection, "tell", nothing)
    result = run("wflush-rpc", [put(0, "k0")], vary=HARDWARE)
    found = Explorer(result).walk()
    assert {found.verdict(condition) for condition in (LOST, DURABLE)} == {"undecided"}
    assert found.over.startswith("all instants of the schedule until 10 ms after the last return")
    assert result.system.clock.now_ps == returned_ps(result.history) + REST_WITHIN_PS
    assert not Explorer(result).walk().exhaustive
    assert result.system.clock.now_ps == returned_ps(result.history) + REST_WITHIN_PS


@pytest.mark.parametrize("name", ["farm", "client-active"])
def test_the_run_of_any_other_scheme_ends_as_it_did(name):
    result = run(name, [put(0, "k0")])
    at_ps = result.system.clock.now_ps
    found = Explorer(result).walk()
    assert result.system.clock.now_ps == at_ps and "at rest" not in found.over
