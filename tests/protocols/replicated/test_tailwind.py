"""Tailwind: costs a put and a segment, what its checksums find, and what its twins lose."""

from __future__ import annotations

import pytest

from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.failing import performed

from ..several import COMMITTED, LOST, aftermaths, ran, violated, waiting
from . import twins

PLATFORMS = [("optane-adr", "on"), ("optane-adr", "off"), ("optane-eadr", "on"), ("optane-eadr", "off")]
assert twins


def test_a_put_is_a_write_to_each_backup_and_a_segment_two_calls():
    """Of 24 puts in segments of 8, three open one and three close one."""
    result = ran("tailwind[segment=8]", mix="update-only", operations=24, keys=8)
    calls, writes = 6, 18
    assert result.spent["backup"]["verbs"] * 24 == 3 * calls
    assert result.spent["primary"]["verbs"] * 24 == 3 * (calls + writes) + 24


def test_backups_cpus_are_idle_between_a_segments_ends():
    busy = [
        ran("tailwind[segment=100]", mix="update-only", operations=operations).spent["backup"]["cpu_ns"] * operations
        for operations in (10, 50)
    ]
    assert busy[0] == pytest.approx(busy[1], rel=1e-3)


def test_what_was_put_is_read_through_many_segments():
    result = ran("tailwind[segment=4]", mix="a", operations=60, clients=3, keys=5, value="100 B")
    assert all(operation.outcome == "ok" for operation in result.history.operations)


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_when_all_fail_acknowledged_records_may_be_lost_and_none_is_half_there(platform, ddio):
    found = violated("tailwind[backups=1]", "all power", platform=platform, ddio=ddio, operations=3)
    assert LOST in found and COMMITTED not in found


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_over_a_flush_it_is_as_the_flush(platform, ddio):
    found = violated("tailwind[backups=1] over wflush", "all power", platform=platform, ddio=ddio, operations=3)
    assert bool(found) == ((platform, ddio) == ("optane-adr", "on"))
    assert COMMITTED not in found


@pytest.mark.parametrize("fault", ["primary[0] power", "primary[0] process", "backup[0] power", "backup[1] lost"])
def test_any_one_machine_may_fail(fault):
    assert violated("tailwind", fault, operations=3) == set()


@pytest.mark.parametrize("fault", ["primary[0] power", "backup[0] power", "backup[0] lost"])
def test_also_at_a_segments_ends(fault):
    assert violated("tailwind[backups=2, segment=2]", fault, operations=3) == set()


def test_a_backup_may_fail_again_while_it_is_given_the_open_segment():
    found = violated("tailwind", "backup[0] power in recovery", clients=2, keys=2, mix="update-only", operations=2)
    assert found == set()


@pytest.mark.parametrize("fault", ["primary[0] power then backup[0] power", "backup[0] power then primary[0] power"])
def test_both_may_be_away_at_once(fault):
    """The primary waits for a backup that is away while it recovers, or that fails under it, and asks again."""
    states, stuck = waiting("tailwind", fault, operations=1)
    assert states > 100 and not stuck
    assert violated("tailwind", fault, operations=1) == set()


def test_who_asks_a_dead_backup_for_ever_is_given_up_before_long():
    """By the work requests that it posts, although none of them leaves the adapter."""
    ends = aftermaths(twins.Stubborn.name, "backup[0] power", operations=1)
    stuck = [end for end in ends if not end.finished]
    assert stuck and all(end.settled_ps < 2 * 10**12 for end in stuck)


def test_power_may_fail_again_in_recovery():
    name = "tailwind[backups=1] over write-imm-cpu-flush"
    assert violated(name, "all power in recovery", operations=2) == set()


def test_a_put_is_refused_when_primaries_that_began_again_have_used_up_the_log():
    """Each leaves the rest of a segment; what was put before stays, and can be read."""
    restarts = 6
    times = [f"{2000 * turn} ms" for turn in range(restarts + 1)]
    made = Draft.new(
        "full", scenario="full", schemes=["tailwind[backups=1]"], vary={"platform": ["optane-adr"], "ddio": ["off"]},
        roles={"client": {"machines": 1}},
        workload={
            "kind": "schedule", "keys": 1, "value": "8 B",
            "operations": [{"process": 0, "f": f, "object": "k0", "at": at} for at in times for f in ("get", "put")],
        },
        failures=[
            {"at": f"{2000 * turn + 1000} ms", "fault": "primary[0] power", "down": "5 ms"} for turn in range(restarts)
        ],
        crash={"fault": "no fault"},
    ).build()  # fmt: skip
    (variant,) = made.variants()
    operations = performed(made, variant).history.operations
    gets, puts = operations[::2], operations[1::2]
    ended = [put.outcome for put in puts]
    held = ended.count("ok")
    assert 4 < held < len(puts) and ended == ["ok"] * held + ["fail"] * (len(puts) - held)
    values = [put.argument for put in puts[:held]]
    assert [get.result for get in gets[1:]] == [*values, *values[-1:] * (len(gets) - 1 - held)]


@pytest.mark.parametrize(
    "twin, fault, more",
    [
        (twins.NoChecksum, "all power", {"operations": 3, "ddio": "on"}),
        (twins.ClosesUnflushed, "all power", {"operations": 2, "segment": 2}),
    ],
)
def test_a_twin_without_a_step_is_caught(twin, fault, more):
    segment = more.pop("segment", 100)
    options, over = f"[backups=1, segment={segment}]", "over write-imm-cpu-flush"
    assert violated(f"tailwind{options} {over}", fault, **more) == set()
    assert violated(f"{twin.name}{options} {over}", fault, **more)


@pytest.mark.long
def test_one_replica_is_none_when_it_is_lost():
    fault = "backup[0] lost then primary[0] power"
    assert violated("tailwind[backups=2]", fault, operations=2, exhaustive=False) == set()
    assert LOST in violated(f"{twins.OneReplica.name}[backups=2]", fault, operations=3, exhaustive=False)
