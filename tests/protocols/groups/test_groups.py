"""Groups: costs in closed form, what survives over which primitive, and what their twins lose."""

from __future__ import annotations

import numpy as np
import pytest

from rpsim.protocols.registry import scheme, schemes
from rpsim.scenarios.run.inject import instants, run_with_fault
from rpsim.sim.errors import InputError
from rpsim.validation.testing.checks import scenario_of

from ..several import ALL, LOST, ran, violated
from ..strikes import MS, Fails, outcomes, serving, struck
from . import twins

PLATFORMS = [("optane-adr", "on"), ("optane-adr", "off"), ("optane-eadr", "on"), ("optane-eadr", "off")]
SHAPES = ["fan-out", "chain", "quorum"]


def p50_ns(name, **more):
    return float(np.percentile(ran(name, mix="update-only", keys=2, **more).latency_ps["put"], 50)) / 1000


# costs ----------------------------------------------------------------------------------------------------------------
def test_a_fan_out_takes_as_long_as_its_slowest_replica_and_a_chain_as_the_sum_of_its_hops():
    line = p50_ns("line over no-flush")
    wide = [p50_ns(f"fan-out of {n} over no-flush") for n in (2, 3, 6)]
    long = [p50_ns(f"chain of {n} over no-flush") for n in (2, 3, 6)]
    assert line < wide[0] < wide[1] < wide[2] < 3 * line  # a post more each
    hop = long[1] - long[0]
    assert hop > line
    assert (long[2] - long[1]) / 3 == pytest.approx(hop, rel=0.03)


def test_a_quorum_waits_for_a_majority_and_not_for_the_slowest():
    assert (
        p50_ns("quorum of 3 over no-flush") < p50_ns("quorum of 5 over no-flush") < p50_ns("chain of 2 over no-flush")
    )


@pytest.mark.parametrize("name, verbs", [("fan-out of 3", 0), ("chain of 3", 5), ("quorum of 3", 3)])
def test_the_cpus_of_replicas_post_what_the_shape_says(name, verbs):
    """A chain: a WRITE and a message at each hop, and the answer; a quorum: an answer each; a fan-out: nothing."""
    result = ran(f"{name} over no-flush", mix="update-only", keys=2)
    assert result.spent["replica"]["verbs"] == pytest.approx(verbs, abs=0.15)


def test_all_replicas_hold_all_versions_alike():
    for name in SHAPES:
        result = ran(f"{name} over ibta-flush-persistent", mix="a", operations=40, clients=3, keys=4)
        assert all(operation.outcome == "ok" for operation in result.history.operations)
        now_ps, replicas = result.system.clock.now_ps, result.scheme.roles["replica"]
        logs = {one.pm.space.read(now_ps, one.log - one.pm.base, one.layout.length) for one in replicas}
        assert len(logs) == 1 and any(next(iter(logs))), name


# what survives --------------------------------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.parametrize("platform, ddio", PLATFORMS)
@pytest.mark.parametrize("name", ["fan-out of 2", "chain of 2", "quorum"])
def test_when_all_lose_power_the_flush_of_the_followers_cpus_holds_on_every_platform(name, platform, ddio):
    for primitive in ("write-imm-cpu-flush", "send-cpu-copy"):
        assert violated(f"{name} over {primitive}", "all power", platform=platform, ddio=ddio) == set()


@pytest.mark.long
@pytest.mark.parametrize("name", ["fan-out of 2", "chain of 2", "fan-out of 3"])
@pytest.mark.parametrize("ddio, found", [("on", ALL), ("off", set())])
def test_when_all_lose_power_a_read_is_as_good_as_on_one_machine(name, ddio, found):
    assert violated(f"{name} over read-after-write", "all power", ddio=ddio, exhaustive=False) == found
    assert violated("line over read-after-write", "server[0] power", ddio=ddio) == found


@pytest.mark.long
@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_no_flush_loses_acknowledged_updates_when_all_lose_power(platform, ddio):
    assert LOST in violated("fan-out of 2 over no-flush", "all power", platform=platform, ddio=ddio)


def test_a_replicas_cpu_that_has_seen_the_entry_shows_that_it_has_left_the_adapter():
    """Where caches last and DMA goes there, a chain over no-flush loses nothing: each CPU has loaded the entry."""
    assert violated("chain of 2 over no-flush", "all power", platform="optane-eadr", ddio="on") == set()
    assert LOST in violated("chain of 2 over no-flush", "all power", platform="optane-eadr", ddio="off")


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("fault", ["replica[0] lost", "replica[2] lost", "replica[0] power", "client[0] process"])
def test_while_one_fails_at_a_time_no_flush_is_needed(name, fault):
    assert violated(f"{name} over no-flush", fault) == set()


@pytest.mark.long
@pytest.mark.parametrize("name", ["fan-out of 2", "chain of 2"])
def test_what_standing_machines_keep_is_no_persistence(name):
    """A second failure finds what the first has left."""
    fault = "replica[0] lost then replica[1] power"
    assert violated(f"{name} over write-imm-cpu-flush", fault, operations=1) == set()
    assert LOST in violated(f"{name} over no-flush", fault, operations=1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["fan-out of 2", "chain of 2"])
def test_power_may_fail_again_in_recovery(name):
    assert violated(f"{name} over write-imm-cpu-flush", "all power in recovery", operations=1) == set()


@pytest.mark.parametrize(
    "name, fault",
    [
        ("fan-out over ibta-flush-persistent", "replica[0] lost"),  # its adapter is at work on the flush
        ("fan-out over write-imm-cpu-flush", "replica[0] lost"),  # its CPU has the message, and does not answer
        ("chain over write-imm-cpu-flush", "replica[1] lost"),
        ("quorum over send-cpu-copy", "replica[2] lost"),
        ("mojim over write-imm-cpu-flush", "mirror[0] lost"),
        ("tailwind over write-imm-cpu-flush", "backup[0] lost"),
        ("hyperloop[posted=4]", "replica[1] lost"),
    ],
)
def test_no_survivor_waits_for_ever_for_a_machine_that_is_lost(name, fault):
    """At any instant: "holds" of a run in which nobody goes on would say nothing."""
    made = scenario_of(
        scheme(name), "optane-adr", clients=1, fault=fault, ddio="on", workload={"operations": 2, "keys": 1}
    )
    (variant,) = made.variants()
    _, every = instants(made, variant)
    assert [at_ps for at_ps in every if not run_with_fault(made, variant, at_ps).finished] == []


PUTS = [{"process": 0, "f": "put", "object": "k0"}, {"process": 0, "f": "put", "object": "k1", "at": "4 s"}]
AWAY_TOGETHER = [Fails(MS // 10, "replica", 0, down_ps=5 * MS), Fails(2 * MS, "replica", 1, down_ps=5 * MS)]
LATE = 20 * MS
"""How long a replica is away that others wait for."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "fails, there",
    [
        (AWAY_TOGETHER, [True, True, True]),
        ([AWAY_TOGETHER[0], Fails(5_101 * MS // 1000, "replica", 1, "lost")], [True, False, True]),
        ([*AWAY_TOGETHER, Fails(6 * MS, "replica", 1, "lost")], [True, False, True]),
        ([Fails(MS // 10, "replica", 2, down_ps=5 * MS), Fails(MS, "replica", 0, down_ps=LATE)], [True, True, True]),
        (
            [*AWAY_TOGETHER, Fails(3 * MS, "replica", 2, down_ps=LATE), Fails(10 * MS, "replica", 0, "lost")],
            [False, True, True],
        ),
    ],
    ids=["away", "lost", "away, then lost", "the recoverer away", "the recoverer lost"],
)
def test_recovery_waits_for_replicas_that_are_away_and_goes_on_without_those_that_are_lost(shape, fails, there):
    after = struck(f"{shape} of 3 over write-imm-cpu-flush", fails, PUTS)
    assert after.finished and not after.unread
    assert serving(after, "replica") == there
    assert outcomes(after) == [("put", "ok"), ("put", "ok")]
    assert [one.result for one in after.history.operations if one.process == 1] == [1, 2]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("shape", SHAPES)
def test_an_update_goes_through_when_a_replica_has_been_away_meanwhile(shape, number):
    after = struck(f"{shape} of 3 over write-imm-cpu-flush", [Fails(MS, "replica", number, down_ps=LATE)], PUTS)
    assert after.finished and outcomes(after) == [("put", "ok"), ("put", "ok")]


def test_a_replica_does_not_look_for_ever_for_an_entry_that_recovery_has_cleared():
    """Its client died while the replica was away: nobody writes it again, and others have to get past it."""
    fails = [Fails(3 * MS // 1000, "replica", 1, down_ps=LATE), Fails(MS, "client", 0, "process")]
    puts = [{**PUTS[0]}, {"process": 1, "f": "put", "object": "k1", "at": "2 ms"}]
    after = struck("chain of 3 over wflush", fails, puts)
    assert after.finished and outcomes(after, 1) == [("put", "ok")]


def test_all_have_recovered_when_the_one_has_that_waited_for_the_last():
    after = struck("fan-out of 3 over write-imm-cpu-flush", AWAY_TOGETHER, PUTS)
    assert after.recovered_ps > after.back_ps == 7 * MS


def test_a_recovery_that_an_error_ends_has_not_finished():
    after = struck(f"{twins.Impatient.name} over write-imm-cpu-flush", AWAY_TOGETHER, PUTS)
    assert not after.finished and after.recovered_ps is None
    assert outcomes(after) == [("put", "ok"), ("put", None)]


# twins ----------------------------------------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.parametrize(
    "twin, whole, fault",
    [
        (twins.NotAwaited, "fan-out", "all power"),
        (twins.OneCopy, "fan-out", "replica[0] lost"),
        (twins.AnswersFirst, "chain", "all power"),
        (twins.NoAnswers, "quorum", "all power"),
    ],
)
def test_a_twin_without_a_step_loses_what_the_whole_group_keeps(twin, whole, fault):
    over = "ibta-flush-persistent"
    assert violated(f"{whole} over {over}", fault) == set()
    assert violated(f"{twin.name} over {over}", fault, schedules=2, exhaustive=False)


# names ----------------------------------------------------------------------------------------------------------------
def test_a_group_is_a_part_that_lists_of_schemes_leave_out():
    assert not set(SHAPES) & set(schemes())
    assert scheme("chain of 2 over wflush").name == "chain of 2 over wflush"


@pytest.mark.parametrize(
    "name, told",
    [
        ("quorum of 2 over wflush", "at least 3"),
        ("chain of 12 over wflush", "at most 9"),
        ("chain", "a primitive"),
        ("chain over no-flush by SEND", "a primitive that copies what comes by SEND"),
        ("chain over wflus", "wflush"),
    ],
)
def test_what_is_no_group_is_refused(name, told):
    with pytest.raises(InputError, match=told):
        scheme(name)
