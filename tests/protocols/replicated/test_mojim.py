"""Mojim: costs, what one failure and two leave, and what its twins lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.protocols.failures import LOST as LOST_FOR_GOOD
from rpsim.protocols.failures import POWER, Failing
from rpsim.protocols.registry import scheme
from rpsim.protocols.replicated.mojim.machine import MojimMachine
from rpsim.protocols.replicated.mojim.words import LogPosition, Stance, Update
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.failing import performed
from rpsim.scenarios.run.inject import Strike, run_with_fault, run_with_faults
from rpsim.scenarios.run.results import RunResult
from rpsim.scenarios.schema.load import load_scenario
from rpsim.validation.crash.executed_report import explore
from rpsim.validation.crash.images import Choices, Image
from rpsim.validation.testing.checks import crash_report, scenario_of

from ...small import only_variant, scenario
from ..several import ALL, COMMITTED, LOST, ran, violated, waiting
from . import twins

PLATFORMS = [("optane-adr", "on"), ("optane-adr", "off"), ("optane-eadr", "on"), ("optane-eadr", "off")]
WINDOW = "mirror[0] lost then primary[0] power"
assert twins


def test_an_msync_is_two_round_trips_to_the_mirror_and_one_with_the_mark_among_the_entries():
    cost = {}
    for name in ("mojim", "mojim[mark=with the entries]", "mojim[mode=unreplicated]"):
        result = ran(name, mix="update-only")
        cost[name] = {one.depth for one in result.took["put"]}, result.spent["primary"]["verbs"]
    assert cost["mojim"][1] == cost["mojim[mark=with the entries]"][1] == cost["mojim[mode=unreplicated]"][1] + 2
    latency = [min(ran(name, mix="update-only").latency_ps["put"]) for name in cost]
    assert latency[0] > latency[1] > latency[2]


def test_the_mirrors_cpu_does_nothing_for_an_msync():
    assert ran("mojim", mix="update-only").spent["mirror"]["cpu_ns"] == 0


def test_the_log_comes_round_and_the_mirror_and_its_backups_follow():
    result = ran("mojim[log=8, apply=4, backups=2]", mix="a", operations=60, clients=3, keys=3, value="100 B")
    assert all(operation.outcome == "ok" for operation in result.history.operations)
    primary, mirror = (result.scheme.roles[name][0] for name in ("primary", "mirror"))
    assert primary.tail > 2 * mirror.slots
    now_ps = result.system.clock.now_ps
    images = [
        machine.pm.space.read(now_ps, machine.object_at(0) - machine.pm.base, 3 * machine.value_bytes)
        for machine in (primary, mirror)
    ]
    assert sum(a != b for a, b in zip(*images, strict=True)) < 3 * 100  # what is in the log and not applied


def test_the_mirror_is_asked_at_the_latest_when_the_log_is_full():
    """The log may be shorter than the number of entries behind which it is asked."""
    result = ran("mojim[log=8, apply=32]", mix="update-only", operations=20)
    assert all(operation.outcome == "ok" for operation in result.history.operations)
    assert result.scheme.roles["primary"][0].tail == 20


def test_there_are_as_many_backups_as_the_option_says():
    assert [len(ran(name).system.nodes["backup"]) for name in ("mojim", "mojim[backups=2]")] == [0, 2]


def test_a_gmsync_is_one_mark_for_all_its_ranges():
    one = ran("mojim", mix="update-only", operations=12, keys=4, batch=4)
    assert one.scheme.roles["primary"][0].msyncs == 3 and one.scheme.roles["primary"][0].tail == 12


# one machine fails ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fault", ["primary[0] power", "primary[0] lost", "mirror[0] power", "mirror[0] lost"])
@pytest.mark.parametrize("mode", ["sync", "syncflush"])
def test_any_one_machine_may_fail(mode, fault):
    assert violated(f"mojim[mode={mode}]", fault) == set()


@pytest.mark.parametrize("mode", ["async", "unreplicated"])
def test_without_a_mirror_that_is_waited_for_a_lost_primary_takes_updates_along(mode):
    assert LOST in violated(f"mojim[mode={mode}]", "primary[0] lost")
    assert violated(f"mojim[mode={mode}]", "mirror[0] lost") == set()


# all fail -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_when_both_fail_the_log_lasts_as_the_primitive_has_it(platform, ddio):
    assert LOST in violated("mojim", "all power", platform=platform, ddio=ddio)
    wflush = violated("mojim over wflush", "all power", platform=platform, ddio=ddio)
    assert wflush == (ALL if (platform, ddio) == ("optane-adr", "on") else set())
    assert violated("mojim over write-imm-cpu-flush", "all power", platform=platform, ddio=ddio) == set()


def test_a_mark_that_goes_along_may_last_without_its_entries():
    over, large = "write-imm-cpu-flush", {"value": "64 B", "operations": 1}
    assert violated(f"mojim over {over}", "all power", **large) == set()
    together = violated(f"mojim[mark=with the entries] over {over}", "all power", **large)
    assert COMMITTED in together


@pytest.mark.parametrize("name", ["mojim over wflush", "mojim[mode=syncflush] over wflush"])
def test_power_may_fail_again_in_recovery(name):
    assert violated(name, "all power in recovery", ddio="off") == set()


AWAY = {"fault": "primary[0] power", "down": "5 ms"}


@pytest.mark.parametrize("again_us", [5012, 5015, 5018, 5030])
def test_a_machine_that_fails_again_while_it_joins_joins_later(again_us):
    made = scenario_of(scheme("mojim"), clients=1, fault="no fault", workload={"operations": 12, "keys": 2})
    made = Draft.of(made).with_(failures=[{"at": at, **AWAY} for at in ("10 us", f"{again_us} us")]).build()
    (variant,) = made.variants()
    roles = performed(made, variant).scheme.roles
    assert [roles[name][0].stance for name in ("primary", "mirror")] == [Stance.MIRROR, Stance.PRIMARY]


@pytest.mark.long
@pytest.mark.parametrize(
    "name, fault, operations",
    [
        ("mojim", "primary[0] power then mirror[0] power", 1),
        ("mojim", "mirror[0] power then primary[0] power", 1),
        ("mojim[apply=1, backups=1, heartbeat=10 us]", "primary[0] power then mirror[0] power", 2),
    ],
)
def test_two_that_are_away_at_once_find_each_other_again(name, fault, operations):
    """Also where the mirror fails while it takes over, or while the primary joins it."""
    states, stuck = waiting(name, fault, operations=operations)
    assert states > 100 and not stuck


@pytest.mark.parametrize(
    "third, stances",
    [
        ({}, [Stance.PRIMARY, Stance.MIRROR]),
        ({"at": "5.5 ms", "fault": "primary[0] lost"}, [None, Stance.ALONE]),
        *(({"at": at, **AWAY}, [Stance.PRIMARY, Stance.MIRROR]) for at in ("6025 us", "6030 us", "6035 us")),
    ],
)
def test_a_mirror_that_is_not_in_step_takes_over_only_where_nobody_else_is_left(third, stances):
    """Both are away, and the one that decides fails again before it has asked: what the mirror has may be older."""
    made = scenario_of(scheme("mojim"), clients=1, fault="no fault", workload={"operations": 12, "keys": 2})
    first = {"at": "10 us", "fault": "mirror[0] power", "down": "5 ms"}
    failures = [first, {"at": "20 us", "fault": "primary[0] power", "down": "6 ms"}, *([third] if third else [])]
    made = Draft.of(made).with_(failures=failures).build()
    (variant,) = made.variants()
    result = performed(made, variant)
    assert all(operation.outcome for operation in result.history.operations)
    for name, stance in zip(("primary", "mirror"), stances, strict=True):
        assert stance is None or result.scheme.roles[name][0].stance is stance


def test_of_two_that_come_back_the_one_that_went_on_alone_counts():
    """It has said so in its persistent memory, which its new beginning leaves as it is."""
    made = scenario_of(scheme("mojim"), clients=1, fault="no fault", workload={"operations": 12, "keys": 2})
    failures = [
        {"at": "10 us", "fault": "mirror[0] power", "down": "1 s"},
        {"at": "100 ms", "fault": "primary[0] power", "down": "1 s"},
    ]
    made = Draft.of(made).with_(failures=failures).build()
    (variant,) = made.variants()
    roles = performed(made, variant).scheme.roles
    assert [roles[name][0].epoch for name in ("primary", "mirror")] == [2, 2]


def test_an_msync_that_fails_late_does_not_undo_what_has_been_joined_meanwhile():
    """The adapter gives up after half a second; by then the mirror is back and has the image."""
    made = scenario_of(scheme("mojim"), clients=1, fault="no fault", workload={"mix": "update-only", "operations": 12})
    made = Draft.of(made).with_(failures=[{"at": "10 us", "fault": "mirror[0] power", "down": "5 ms"}]).build()
    (variant,) = made.variants()
    roles = performed(made, variant).scheme.roles
    assert [roles[name][0].stance for name in ("primary", "mirror")] == [Stance.PRIMARY, Stance.MIRROR]
    assert roles["primary"][0].link is not None


def test_a_machine_that_is_lost_while_it_is_away_is_not_switched_on():
    made = scenario_of(scheme("mojim"), clients=1, fault="no fault", workload={"operations": 12, "keys": 2})
    failures = [{"at": "10 us", **AWAY}, {"at": "3 ms", "fault": "primary[0] lost"}]
    made = Draft.of(made).with_(failures=failures).build()
    (variant,) = made.variants()
    result = performed(made, variant)
    primary, mirror = (result.scheme.roles[name][0] for name in ("primary", "mirror"))
    assert primary.node.off and mirror.stance is Stance.ALONE
    assert all(operation.outcome for operation in result.history.operations)


@pytest.mark.parametrize("lost", ["mirror", "primary"])
@pytest.mark.parametrize("back", ["50 us", "500 us"])
def test_who_is_back_alone_serves_once_the_other_one_is_lost(lost, back):
    """Both have failed, and one of them is lost while it is away: before or after the other one is back."""
    standing = "primary" if lost == "mirror" else "mirror"
    failures = [fail("5 us", standing, back), fail("5.1 us", lost, "1 ms"), fail("300 us", lost)]
    made = scenario("mojim", [put("0 ns"), put("0 ns")], failures=failures)
    result = performed(made, only_variant(made))
    assert result.scheme.roles[standing][0].stance is Stance.ALONE
    assert [operation.outcome for operation in result.history.operations][1:] == ["ok"]


# a machine joins ------------------------------------------------------------------------------------------------------
def fail(at: str, machine: str, down: str = "") -> dict[str, str]:
    """A machine's power fails at an instant, and is back after ``down``; without that the machine is lost."""
    return {"at": at, "fault": f"{machine}[0] {'power' if down else 'lost'}", **({"down": down} if down else {})}


def put(at: str, object: str = "k0") -> dict[str, Any]:
    """A put at an instant."""
    return {"process": 0, "f": "put", "object": object, "at": at}


def survived(
    name: str, puts: Sequence[dict[str, Any]], failures: Sequence[dict[str, str]], keys: int = 1, value: str = "8 B"
) -> tuple[RunResult, bool]:
    """A run with failures, and whether a client reads at its end, at 5 s, the last value of each acknowledged put."""
    gets = [{"process": 0, "f": "get", "object": f"k{key}", "at": "5 s"} for key in range(keys)]
    made = scenario(name, [*puts, *gets], keys=keys, value=value, failures=list(failures))
    result = performed(made, only_variant(made))
    history = result.history.operations
    acknowledged = {one.object: one.argument for one in history if one.f == "put" and one.outcome == "ok"}
    read = {one.object: one.result for one in history if one.f == "get" and one.object in acknowledged}
    return result, acknowledged == read


def stances(result: RunResult) -> list[Stance]:
    """What the primary and the mirror are in the end."""
    return [result.scheme.roles[name][0].stance for name in ("primary", "mirror")]


@pytest.mark.parametrize("mode", ["sync", "syncflush"])
@pytest.mark.parametrize(
    "failures, before, joins_us",
    [
        ([fail("100 us", "mirror", "4.9 ms"), fail("9 ms", "primary")], [], 5003),
        ([fail("100 us", "primary", "1 s"), fail("1.1 s", "mirror")], [put("200 us")], 1_000_103),
    ],
)
def test_no_msync_slips_past_the_copy_for_a_machine_that_joins(mode, failures, before, joins_us):
    """Msyncs come while objects are copied, to the mirror or to the old primary; then the machine that copied is lost:
    each that has been acknowledged is there.
    """
    puts = [put("0 us"), *before, *(put(f"{joins_us + 2 * n} us", f"k{n}") for n in range(8))]
    result, all_there = survived(f"mojim[mode={mode}]", puts, failures, 16)
    assert all_there and sum(one.outcome == "ok" for one in result.history.operations) >= 24
    assert not survived(f"{twins.CopiesBesideMsyncs.name}[mode={mode}]", puts, failures, 16)[1]


def test_a_mark_that_outlived_the_one_before_it_counts_for_no_later_msync(monkeypatch):
    """The mirror has the mark of msync 2, and an entry, from before a failure that took the mark of msync 1. After that
    msync 1 is another one.
    """
    load = MojimMachine.load

    def load_and_leave(machine, values):
        load(machine, values)
        entry = Update.pack(number=0, position=1, value=(99).to_bytes(8, "little"))
        machine._load(machine.slot_at(1), entry)
        machine._load(machine.mark_at(2), LogPosition.pack(msync=2, entries=1))

    monkeypatch.setattr(MojimMachine, "load", load_and_leave)
    failures = [{"at": "1 us", "fault": "primary[0] + mirror[0] power", "down": "1 ms"}, fail("3 s", "primary")]
    result, all_there = survived("mojim", [put("1 s"), put("2 s")], failures)
    assert all_there and result.scheme.roles["mirror"][0].stance is Stance.ALONE


def test_a_copy_waits_for_an_msync_that_stores():
    """Else it has a part of the new value, and the other part never comes."""
    failures = [fail("100 us", "mirror", "4.9 ms"), fail("9 ms", "primary")]
    assert survived("mojim", [put("4999 us")], failures, value="4 KB")[1]
    assert not survived(twins.CopiesAtOnce.name, [put("4999 us")], failures, value="4 KB")[1]


@pytest.mark.parametrize("away", ["mirror", "primary"])
@pytest.mark.parametrize("over", ["write-imm-cpu-flush", "send-cpu-copy"])
def test_a_machine_joins_over_a_primitive_that_needs_its_cpu(over, away):
    other = {"mirror": "primary", "primary": "mirror"}[away]
    failures = [fail("100 us", away, "4.9 ms"), fail("3 s", other)]
    result, all_there = survived(f"mojim over {over}", [put("0 us"), put("200 us"), put("2 s")], failures)
    assert all_there and result.scheme.roles[away][0].stance is Stance.ALONE


@pytest.mark.parametrize("again", ["400 us", "1.05 ms", "1.4 ms"])
def test_a_mirror_that_fails_twice_within_a_heartbeat_joins(again):
    """The copy for its first life goes to its second: that asks as well, and nobody has missed it."""
    failures = [fail(at, "mirror", "200 us") for at in ("100 us", again)]
    result, all_there = survived("mojim[log=8, apply=4]", [put("0 us"), *[put("5 ms")] * 20], failures)
    assert all_there and stances(result) == [Stance.PRIMARY, Stance.MIRROR]
    assert result.scheme.roles["mirror"][0].in_step and result.scheme.roles["mirror"][0].joining.listening


ASKED = [
    ("mojim[apply=1, log=8]", [put("0 us")] * 6, "16 us"),  # the mirror's power fails while it is asked to apply
    ("mojim[apply=8, log=8]", [put("0 us")] * 20, "48 us"),  # and while an msync waits for that
    ("mojim[apply=4, log=8]", [put("0 us")] * 6 + [put("6 ms")] * 6, "100 us"),  # it has been asked before that
]


@pytest.mark.parametrize("name, puts, at", ASKED)
def test_a_mirror_that_was_asked_for_room_before_it_failed_keeps_its_new_link(name, puts, at):
    """What went wrong over the old link, or is found out over half a second later, says nothing of the new one."""
    result, all_there = survived(name, [*puts, *[put("2 s", "k1")] * 12], [fail(at, "mirror", "5 ms")], 2)
    assert all_there and stances(result) == [Stance.PRIMARY, Stance.MIRROR]
    primary, mirror = (result.scheme.roles[role][0] for role in ("primary", "mirror"))
    assert primary.link is not None and primary.msyncs - mirror.msyncs <= 8
    assert survived(name, [*puts, *[put("2 s", "k1")] * 12], [fail(at, "mirror", "5 ms"), fail("3 s", "primary")], 2)[1]


# without a mirror -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fault", ["primary[0] power", "all power", "all power in recovery"])
def test_unreplicated_the_primary_comes_back_with_its_own_image(fault):
    assert violated("mojim[mode=unreplicated]", fault, operations=4, keys=2) == set()


def test_unreplicated_nobody_takes_over_and_nobody_joins():
    failures = [fail("10 ms", "mirror", "5 ms"), fail("30 ms", "primary", "5 ms")]
    result, all_there = survived("mojim[mode=unreplicated]", [put("0 us"), put("2 s")], failures)
    assert all_there and stances(result) == [Stance.PRIMARY, Stance.MIRROR]
    assert [result.scheme.roles[name][0].listener.listening for name in ("primary", "mirror")] == [True, False]


# the window -----------------------------------------------------------------------------------------------------------
@pytest.mark.long
def test_sync_loses_updates_in_the_window_and_syncflush_none():
    assert violated("mojim[mode=syncflush]", WINDOW, operations=1) == set()
    assert LOST in violated("mojim", WINDOW, operations=1)


@pytest.mark.parametrize("mode", ["sync", "syncflush"])
def test_an_msync_that_finds_no_mirror_waits_until_the_primary_is_alone(mode):
    """The mirror's power fails, and within the whole flush the primary's: the mirror's image counts then."""
    name, puts = f"mojim[mode={mode}]", [put("0 us"), put("1.3 ms", "k1")]
    failures = [fail("100 us", "mirror", "5 ms"), fail("1.5 ms", "primary", "10 ms")]
    result, all_there = survived(f"{name} over write-imm-cpu-flush", puts, failures, 2)
    assert all_there and result.history.operations[1].outcome == "info"
    twin = f"{twins.ReturnsBeforeItIsAlone.name}[mode={mode}] over write-imm-cpu-flush"
    assert not survived(twin, puts, failures, 2)[1]
    assert survived(f"{name} over write-imm-cpu-flush", puts, failures[:1], 2)[0].history.operations[1].outcome == "ok"


@pytest.mark.long
def test_the_scenario_says_how_long_the_window_is():
    """A heartbeat's period, a look at it, and the flush: behind it nothing is lost any more."""
    made = load_scenario("mojim-window")
    report = explore(made, made.variants()[0], examples=())
    least_ps, most_ps = report.windows_ps[LOST]
    flush_ps = 17.3 * load_platform("optane-adr").llc.size_bytes
    assert least_ps == 0 and most_ps == pytest.approx(10**9 + flush_ps, rel=0.05)
    assert report.exhaustive


def test_the_window_is_a_heartbeat_and_the_flush_of_the_whole_cache():
    """From the mirror's loss until the primary says that it is alone."""
    made = scenario_of(
        scheme("mojim"),
        "optane-adr",
        clients=1,
        fault="mirror[0] lost",
        ddio="on",
        workload={"operations": 2, "keys": 1},
    )
    (variant,) = made.variants()
    at_ps = 8_500_000  # within the second msync
    run = run_with_fault(made, variant, at_ps)
    primary = run.result.scheme.roles["primary"][0]
    llc = run.result.system.platform.llc
    whole_flush_ps = sum(thread.account.flush_ps for thread in primary.node.threads)
    alone_ps = next(
        chunk.reached_ps[0] for chunk in run.result.system.trace.chunks
        if chunk.address == primary.places["standing"] - primary.pm.base and chunk.device == primary.pm.number
    )  # fmt: skip
    assert whole_flush_ps == pytest.approx(17.3 * llc.size_bytes, rel=0.1)
    assert alone_ps - at_ps == pytest.approx(10**9 + whole_flush_ps, rel=0.05)


# twins ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "twin, fault, more",
    [
        (twins.MarkFirst, "all power", {"value": "64 B", "operations": 1}),
        (twins.TrustsThePrimary, "all power", {}),
        (twins.AppliesUnflushed, "all power in recovery", {"ddio": "on"}),
        (twins.SentLate, "primary[0] lost", {}),
    ],
)
def test_a_twin_without_a_step_is_caught(twin, fault, more):
    assert violated("mojim over write-imm-cpu-flush", fault, **more) == set()
    assert violated(f"{twin.name} over write-imm-cpu-flush", fault, **more)


@pytest.mark.long
def test_a_primary_that_does_not_flush_its_cache_never_closes_the_window():
    found = {}
    for name in ("mojim", twins.NoWholeFlush.name):
        report = crash_report(
            scheme(f"{name}[heartbeat=1 us]"), "optane-adr", fault=WINDOW, clients=1, ddio="on", examples=False,
            workload={"operations": 2, "keys": 1, "value": "8 B"},
        )  # fmt: skip
        found[name] = report.violating_states[LOST]
    assert found[twins.NoWholeFlush.name] > found["mojim"] > 0


@pytest.mark.parametrize("name", ["mojim", twins.WaitsForTheLost.name])
def test_a_mirror_that_is_behind_takes_over_when_the_primary_is_lost_before_it_is_back(name):
    """The mirror's power fails, then the primary's while the mirror joins, and then the primary is lost."""
    made = scenario(name, [put("0 ns"), put("0 ns")])
    variant = only_variant(made)
    loaded = run_with_faults(made, variant, (), reads=False).result.loaded
    choices, images, strikes = Choices(()), list[Image](), list[Strike]()
    at_us = {"mirror": 2, "primary": 1_000_003}
    for role, us in at_us.items():
        part = Failing(role, 0, POWER)
        images.append(Image([part], loaded, tuple(images), choices))
        strikes.append(Strike(us * 10**6, (part,), {}, images[-1]))
    strikes.append(Strike(1_500_000 * 10**6, (Failing("primary", 0, LOST_FOR_GOOD),)))
    after = run_with_faults(made, variant, strikes)
    assert after.finished == (name != twins.WaitsForTheLost.name)
