"""Machines of several fail while others live on: what comes back, what arrives, who is told what.

The scheme is that of docs/examples/two_copies.py: nobody runs code on its two memory nodes.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import partial
from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.app.terminal.timeline import heading, timeline
from rpsim.models.durability.views import Views
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.registry import schemes
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.history import Crash, History, Removed
from rpsim.scenarios.run import waiting
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.inject import run_with_fault
from rpsim.validation.crash import executed_case, strikes
from rpsim.validation.crash.executed import Executed, execute, judge, judge_state
from rpsim.validation.crash.explore import differences, explore, replay_case
from rpsim.validation.crash.strikes import Walk
from rpsim.validation.histories import recorded
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history
from rpsim.validation.oracle.conditions import removals
from rpsim.validation.oracle.search.general import Search

from ..answers import result_of
from ..small import get, only_variant, put, scenario, ycsb

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "two_copies.py"
COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
WORK = (put(0, "k0"), get(0, "k0"))


@pytest.fixture(scope="module", autouse=True)
def example():
    """The example's module, as if its file lay in ``protocols/``, and some twins that lack something."""
    before = set(schemes()) | set(Scheme.registry)
    name = "rpsim.protocols.two_copies"
    spec = importlib.util.spec_from_file_location(name, EXAMPLE)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _more(module)
    yield module
    del sys.modules[name]
    for added in set(Scheme.registry) - before:
        del Scheme.registry[added]


def _more(module):
    class Unflushed(module.TwoCopies, name="two-copies-unflushed"):
        """Broken: a WRITE's completion is taken for durable."""

        class Client(module.TwoCopies.Client):
            def flush(self, poster, way, address, key):
                yield from ()
                return []

    class AtOnce(module.TwoCopies, name="two-copies-at-once"):
        """It writes both copies at the same time."""

        class Client(module.TwoCopies.Client):
            def put(self, session, number, value):
                posted, record = [], module.packed(number, 1, value)
                for data in self.nodes:
                    way = self.way(session, data)
                    posted.append((yield from session.poster.write(way, data.address(number), data.key, record)))
                yield from session.poster.all(posted)

    class Stubborn(module.TwoCopies, name="two-copies-stubborn"):
        """Broken: it reads the first copy until that is whole."""

        class Client(module.TwoCopies.Client):
            def get(self, session, number):
                while (found := (yield from self.read(session, self.nodes[0], number))) is None:
                    pass
                return found.value


def failing(scheme, fault, work=WORK, *, value="8 B", machines=2, clients=1, platform="optane-adr", **crash):
    roles = {"data": {"machines": machines}, "client": {"machines": clients}}
    crash = {"fault": fault, "down": "1 ms", **crash}
    return scenario(scheme, list(work), platform, ddio="off", value=value, roles=roles, crash=crash)


def report(made, examples=None):
    variant = only_variant(made)
    return explore(run_variant(made, variant), made, variant, examples=examples)


def violated(made):
    found = report(made, examples=())
    assert found.exhaustive and found.executed
    return {condition for condition, verdict in found.verdicts.items() if verdict is Verdict.VIOLATED}


def states(made):
    walk = Walk(made, only_variant(made))
    return walk, list(walk.states(walk.instants))


@pytest.mark.long
@pytest.mark.parametrize("fault", ["data[0] power", "data[1] power", "data[0] lost", "data[1] lost"])
def test_two_copies_keep_what_they_have_acknowledged(fault):
    assert violated(failing("two-copies", fault)) == set()


@pytest.mark.long
def test_a_copy_less_than_acknowledged_is_lost_with_its_machine():
    assert violated(failing("two-copies-hasty", "data[0] lost")) == {LOST, DURABLE}
    assert violated(failing("two-copies-hasty", "data[1] lost")) == set()


@pytest.mark.long
def test_the_example_s_scenario_gives_what_it_expects(capsys, tmp_path):
    alone = ["--json", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert main(["crash", str(EXAMPLE.with_name("two-copies.yaml")), *alone]) == 0
    found = {one["scheme"]: one for one in result_of(capsys.readouterr().out)["schemes"]}
    assert {name: one["verdicts"]["committed"] for name, one in found.items()} == {
        "two-copies": "holds", "two-copies-hasty": "holds", "two-copies-trusting": "violated",
    }  # fmt: skip
    assert all(one["exhaustive"] for one in found.values())


@pytest.mark.long
def test_a_counterexample_has_a_column_for_each_machine():
    found = report(failing("two-copies-hasty", "data[0] lost"))
    lines = timeline(next(one for one in found.counterexamples if one.condition is LOST))
    assert lines[0].split() == ["client", "0", "data[0]", "data[1]"]
    second, third = lines[0].index("data[0]"), lines[0].index("data[1]")
    assert any(line[third:].startswith("copies[0]") for line in lines)
    assert any(line[second:].startswith("copies[0]") for line in lines)
    assert any(line.startswith("  -- data[0] is lost for good") for line in lines)
    assert any(line.startswith("  fresh client: get k0") for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.long
def test_a_saved_case_replays(tmp_path):
    found = report(failing("two-copies-unflushed", "data[0] power"))
    example = next(one for one in found.counterexamples if one.condition is LOST)
    assert example.operations == 1
    case = tmp_path / "case-1.json"
    case.write_text(json.dumps(example.case))
    again = replay_case(case)
    assert again is not None and differences(case, again) == []
    assert again.timeline == example.timeline


@pytest.mark.long
def test_memory_that_comes_back_may_lack_what_nothing_had_made_durable():
    assert violated(failing("two-copies-unflushed", "data[0] power")) == {LOST, DURABLE}
    assert violated(failing("two-copies-unflushed", "data[0] lost")) == set()


@pytest.mark.long
def test_a_torn_copy_that_comes_back_is_read_by_who_trusts_it():
    found = report(failing("two-copies-trusting", "data[0] power", value="16 B"))
    assert found.verdicts[COMMITTED] is Verdict.VIOLATED
    example = next(one for one in found.counterexamples if one.condition is COMMITTED)
    assert "torn" in str(example.recovered)
    assert [(fate.node, fate.place) for fate in example.lost] == [("data[0]", "nic")]
    told = [(row.side, row.text) for row in example.timeline]
    assert ("data[0]", "power is back") in told
    assert violated(failing("two-copies", "data[0] power", value="16 B")) == set()


@pytest.mark.long
def test_images_are_those_that_the_rules_allow_each_once():
    """The line of the copy is looked at by the last read: its contents in all states of an instant are the views'."""
    made = failing("two-copies", "data[0] power", value="16 B")
    walk = Walk(made, only_variant(made))
    (pm,) = (device for device in walk.whole.result.system.nodes["data"][0].devices if device.name == "pm")
    loaded = walk.whole.result.loaded
    views = Views(walk.whole.result.system.trace, {pm.number: pm.domain}, lambda key: loaded[key[0]].line(key[1]))
    many = 0
    for at_ps in walk.instants:
        if len([p for p in walk.whole.departures if p.port == "data[0]" and p.end_ps <= at_ps]) > 2:
            break  # the FLUSH is answered, and what is on its way says more than what has been polled
        found = list(walk.states([at_ps]))
        images = [dict(state.images[0].chosen) for state in found]
        (key,) = {key for image in images for key in image}
        seen = [image[key].data for image in images]
        allowed = {content.data for content in views.contents(key, at_ps, {})}
        assert set(seen) == allowed and len(seen) == len(allowed)
        many += len(allowed) > 1
    assert many > 0


@pytest.mark.long
def test_an_answer_that_a_survivor_gets_proves_what_it_says():
    """The FLUSH's response has left, and power fails before anybody has polled it: the data are there."""
    made = failing("two-copies", "data[0] power", [put(0, "k0")])
    walk = Walk(made, only_variant(made))
    read_ps, acknowledged_ps, flushed_ps, *_ = [p.end_ps for p in walk.whole.departures if p.port == "data[0]"]
    assert read_ps < acknowledged_ps < flushed_ps
    (image,) = walk.states([flushed_ps])
    assert image.choices.made == []
    assert image.aftermath.history.operations[0].outcome == "ok"
    assert len(list(walk.states([flushed_ps - 100_000]))) > 1


@pytest.mark.long
def test_survivors_notice_and_finish_and_the_machine_is_there_again():
    made = failing("two-copies", "data[0] power", [put(0, "k0"), get(0, "k0"), put(0, "k0"), get(0, "k0")])
    walk = Walk(made, only_variant(made))
    state = next(iter(walk.states([3_000_000])))
    outcomes = [(o.f, o.outcome) for o in state.aftermath.history.operations]
    assert outcomes[:4] == [("put", "info"), ("get", "ok"), ("put", "ok"), ("get", "ok")]
    assert state.aftermath.history.operations[3].result == 3
    assert state.aftermath.finished
    nodes = state.aftermath.result.system.nodes["data"]
    assert [len(node.former) for node in nodes] == [2, 0]


@pytest.mark.long
def test_one_fault_after_another_at_every_instant_of_what_the_first_sets_off():
    """A put in flight tears the only copy that is left: found only where the second failure meets it."""
    assert violated(failing("two-copies", "data[1] lost then data[0] power")) >= {LOST, DURABLE}
    walk, found = states(failing("two-copies", "data[0] lost then data[1] lost", [get(0, "k0")]))
    pairs = {tuple(strike.at_ps for strike in state.strikes) for state in found}
    assert len(pairs) == len(found)
    assert {first for first, _ in pairs} == set(walk.instants)
    assert all(first <= second for first, second in pairs)
    assert all(judge_state(state, [LOST]) for state in found)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["data[0] lost then data[1] lost", "data[1] lost then data[0] power"])
def test_what_the_second_fault_meets_does_not_hang_on_other_instants_of_the_first(fault):
    """The same instant of the second fault behind another one of the first is another state."""
    made = failing("two-copies", fault, [put(0, "k0")])
    walk, found = states(made)
    alone = [state for at_ps in walk.instants for state in Walk(made, only_variant(made)).states([at_ps])]
    told = [[tuple(strike.at_ps for strike in state.strikes) for state in some] for some in (found, alone)]
    assert told[0] == told[1]


@pytest.mark.long
def test_power_fails_again_at_once():
    assert violated(failing("two-copies", "data[0] power in recovery", [put(0, "k0")])) == set()


@pytest.mark.long
def test_packets_of_a_dead_client_arrive_at_one_machine_and_not_at_the_other():
    """The WRITE to the second machine left last: without a choice it could never be there alone."""
    made = failing("two-copies-at-once", "client[0] power", [put(0, "k0")], clients=2)
    walk, found = states(made)
    arrived = set()
    for state in found:
        devices = state.aftermath.result.system.devices()
        chunks = [c for c in state.aftermath.result.system.trace.chunks if c.writer.startswith("WRITE")]
        arrived.add(frozenset(devices[chunk.device][0].name for chunk in chunks))
    first, second = {"data[0]"}, {"data[1]"}
    assert arrived == {frozenset(), frozenset(first), frozenset(second), frozenset(first | second)}
    assert len(found) > len({state.strikes[0].at_ps for state in found}) == len(walk.instants)


@pytest.mark.long
def test_an_acknowledgement_that_the_last_switch_has_passed_on_arrives_or_not():
    """The WRITEs of two clients have been acknowledged when the machine fails: each client may learn so, or not."""
    made = failing("two-copies-unflushed", "data[1] lost", [put(0, "k0"), put(1, "k0")], clients=2)
    walk = Walk(made, only_variant(made))
    first, second = [packet for packet in walk.whole.departures if packet.port == "data[1]"][-2:]
    lead_ps = walk.whole.result.system.fabric.lead_ps
    at_ps = second.start_ps + lead_ps  # the heads of both are at the switch, which has let them go on
    assert first.to != second.to and first.start_ps < second.start_ps < at_ps < first.end_ps + 2 * lead_ps
    found = [[o.outcome for o in state.aftermath.history.operations[:2]] for state in walk.states([at_ps])]
    assert sorted(found) == [["info", "info"], ["info", "ok"], ["ok", "info"], ["ok", "ok"]]


@pytest.mark.long
def test_who_waits_over_the_network_for_ever_is_known_by_work_done(monkeypatch):
    monkeypatch.setattr(waiting, "VERBS_IN_VAIN", 200)
    found = report(failing("two-copies-stubborn", "data[0] power", [put(0, "k0")]))
    assert found.verdicts[LOST] is Verdict.VIOLATED and found.verdicts[COMMITTED] is Verdict.HOLDS
    assert 0 < found.waiting < found.states
    assert "waits for ever" in str(found.counterexamples[0].recovered)


def test_survivors_are_not_looked_after_while_nobody_does_anything(monkeypatch):
    """An operation comes 30 s later: looked at every 5 ms, the run would have 6000 events for that alone."""
    looks, posted = [], waiting.SurvivorWait._posted
    monkeypatch.setattr(waiting.SurvivorWait, "_posted", lambda wait: looks.append(1) or posted(wait))
    made = failing("two-copies", "data[0] lost", [put(0, "k0"), put(0, "k0", 30 * 10**9)])
    after = run_with_fault(made, only_variant(made), 1)
    assert after.finished and after.settled_ps > 30 * 10**12 and len(looks) < 200


def test_reading_all_objects_and_leaving_out_operations_show_how_far_they_are():
    shares = []
    made = scenario("two-copies", ycsb(4), ddio="off", keys=300, crash={"fault": "no fault"})
    execute(made, only_variant(made), [COMMITTED], shares.append)
    assert len(set(shares)) > 3 and shares == sorted(shares) and shares[-1] == 1
    shares.clear()
    made = failing("two-copies-hasty", "data[0] lost", [put(0, "k0") for _ in range(4)])
    variant = only_variant(made)
    explore(run_variant(made, variant), made, variant, progress=shares.append, examples={LOST})
    assert any(0.8 < share < 1 for share in shares)


@pytest.mark.long
def test_what_is_executed_for_one_condition_is_not_executed_for_another(monkeypatch):
    """Both are violated; each is told as if it were the only one."""
    made = failing("two-copies-hasty", "data[0] lost", [put(0, "k0"), get(0, "k0"), put(0, "k0")])
    runs, run_with_faults = [], strikes.run_with_faults
    monkeypatch.setattr(strikes, "run_with_faults", lambda *a, **k: runs.append(a) or run_with_faults(*a, **k))

    def told(examples):
        runs.clear()
        found = report(made, examples)
        return {one.condition: (one.timeline, one.lost) for one in found.counterexamples}, len(runs)

    nothing, exploring = told(())
    (lost, lost_runs), (durable, durable_runs) = told({LOST}), told({DURABLE})
    both, both_runs = told({LOST, DURABLE})
    assert nothing == {} and both == {**lost, **durable} and len(both) == 2
    assert max(lost_runs, durable_runs) <= both_runs < lost_runs + durable_runs - exploring


def test_a_case_that_would_take_too_many_runs_is_told_before_it_is_the_smallest(monkeypatch):
    made = failing("two-copies-hasty", "data[0] lost", [put(0, "k0"), get(0, "k0"), put(0, "k0")])
    smallest = report(made, {LOST}).counterexamples[0]
    monkeypatch.setattr(executed_case, "TRIED_AT_MOST", 0)
    found = report(made, {LOST}).counterexamples[0]
    assert (smallest.stopped, found.stopped) == (False, True) and found.operations >= smallest.operations
    assert "a small one below, perhaps not the smallest" in " ".join(heading(report(made, {LOST}), found)).replace(
        "\n", " "
    )


def test_a_run_in_which_nothing_fails_is_made_once(monkeypatch):
    runs, run_with_faults = [], strikes.run_with_faults
    monkeypatch.setattr(strikes, "run_with_faults", lambda *a, **k: runs.append(a) or run_with_faults(*a, **k))
    found = report(failing("two-copies", "no fault", [put(0, "k0")], schedules=3))
    assert len(runs) == found.states == 3 and found.exhaustive
    assert set(found.verdicts.values()) == {Verdict.HOLDS}


def test_a_run_without_a_fault_in_which_somebody_waits_for_ever_is_no_holds():
    found = Executed((COMMITTED,), runs=3, unfinished=1, whole_runs=True)
    assert found.verdict(COMMITTED, timed=False) is Verdict.UNDECIDED
    assert found.over(3) == "the runs of 3 schedules, each to its end"


@pytest.mark.parametrize("late", [True, False])
def test_an_update_of_a_killed_process_does_not_surface_behind_a_read_of_the_old_value(late):
    """Strict: it takes effect before the crash or never. Where the process lives on it may be late."""
    history = History(frozenset({"put"}))
    history.invoke(0, "put", "x", 1, 10)
    history.crashes.append(Crash("client", 20, 0 if late else 3))
    for process, at_ps, value in ((1, 30, 0), (2, 50, 1)):
        history.complete(history.invoke(process, "get", "x", None, at_ps), "ok", at_ps + 5, value)
    asked = [Condition.LINEARIZABLE, Condition.PERSISTENT, Condition.STRICT]
    assert set(judge(history, ["x"], asked)) == ({Condition.STRICT} if late else set())


@pytest.mark.parametrize("model", ["register", "queue"])
def test_a_condition_whose_search_gives_up_does_not_hold(monkeypatch, model):
    """A step is not enough to search a history with a removal, or one of a queue that has an item twice."""
    history = History(frozenset({"put", "delete"} if model == "register" else {"enqueue", "dequeue"}), model=model)
    f, again = ("put", Removed(2)) if model == "register" else ("enqueue", 1)
    history.invoke(0, f, "x", 1, 10)
    history.complete(history.invoke(1, "delete" if model == "register" else f, "x", again, 11), "ok", 20)
    history.complete(history.invoke(2, "get" if model == "register" else "dequeue", "x", None, 30), "ok", 40, 1)
    history.crashes.append(Crash("server", 25))

    def verdict():
        found = Executed((DURABLE,))
        assert judge(history, [], [DURABLE], undecided=found.undecided) == {}
        return found.verdict(DURABLE, timed=False)

    assert verdict() is Verdict.HOLDS
    monkeypatch.setattr(removals, "Search", partial(Search, budget=1))
    monkeypatch.setattr(recorded, "check_history", partial(check_history, budget=1))
    assert verdict() is Verdict.UNDECIDED


def test_a_fault_that_hits_nobody_is_no_holds():
    made = failing("two-copies", "client[1] process", [put(0, "k0")], clients=2)
    found = report(made)
    assert set(found.verdicts.values()) == {Verdict.UNDECIDED}
    assert "client[1] process: it takes no part, and its fault hits nobody" in found.over


@pytest.mark.long
def test_the_history_names_the_machine_and_says_whether_others_stand():
    lost = run_with_fault(*_both(failing("two-copies", "data[1] lost")), 3_000_000).history
    assert [(c.node, c.id, c.at_ps) for c in lost.crashes] == [("replica", "data[1]", 3_000_000)]
    lines = list(lost.lines(loaded=["k0"]))
    assert '{"type": "crash", "node": "replica", "id": "data[1]", "time": 3000.0}' in lines
    assert [crash.ends_era for crash in parse_history("\n".join(lines), "run").crashes] == [False]


def _both(made):
    return made, only_variant(made)
