"""Power fails again during recovery; and one machine of several loses power."""

from __future__ import annotations

import gc

import pytest

from rpsim.models.host.hostmemory import HostMemory
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.crash.standing import StandingViews

from ..small import get, only_variant, put, scenario, ycsb
from .fault_mutants import CountsRecoveries, registered
from .stores import finish

ONCE, AGAIN = "server[0] power", "server[0] power in recovery"


def found(scheme, fault, work, platform="optane-eadr", nested=None, examples=False, **more):
    crash = {"fault": fault} | ({"nested": nested} if nested else {})
    made = scenario(scheme, work, platform, whole_lines=True, crash=crash, **more)
    variant = only_variant(made)
    report = explore(run_variant(made, variant), made, variant, examples=None if examples else ())
    assert report.exhaustive
    return {c for c, verdict in report.verdicts.items() if verdict is Verdict.VIOLATED}, report


def test_a_recovery_that_writes_nothing_meets_what_the_first_failure_left():
    (_, once), (_, again) = (found("saw", fault, ycsb(8), keys=2) for fault in (ONCE, AGAIN))
    assert once.verdicts == again.verdicts
    assert once.states == again.states


@pytest.mark.parametrize("platform", ["optane-adr", "optane-eadr"])
def test_the_repaired_efactory_recovers_from_its_own_half_done_recovery(platform):
    work = [put(0, "k0"), get(0, "k0"), put(0, "k0")]
    with registered():
        (once, first), (again, second) = (
            found("efactory-metadata-first", fault, work, platform) for fault in (ONCE, AGAIN)
        )
    assert once == again
    assert Condition.COMMITTED not in again
    assert second.states > first.states


@pytest.mark.long
@pytest.mark.parametrize("platform", ["optane-adr", "optane-eadr"])
def test_a_recovery_that_cannot_be_resumed_is_refuted_by_the_second_failure_alone(platform):
    work = [put(0, "k0"), put(0, "k0", at_ns=20_000)]
    with registered():
        once, _ = found("efactory-mutant-unlinks", ONCE, work, platform)
        again, report = found("efactory-mutant-unlinks", AGAIN, work, platform, examples=True)
    assert Condition.COMMITTED not in once
    assert Condition.COMMITTED in again
    example = next(c for c in report.counterexamples if c.condition is Condition.COMMITTED)
    assert example.recovered is None
    texts = [row.text for row in example.timeline]
    assert any(text.startswith("recovery runs, and power fails again") for text in texts)


@pytest.mark.long
@pytest.mark.parametrize("platform", ["optane-adr", "optane-eadr"])
def test_a_recovery_that_stands_one_failure_and_not_two_takes_both_to_refute(platform):
    """And its story tells of both."""
    with registered():
        once, _ = found("saw-mutant-counts-recoveries", ONCE, [put(0, "k0")], platform, nested=1)
        again, report = found("saw-mutant-counts-recoveries", ONCE, [put(0, "k0")], platform, nested=2, examples=True)
        thrice, _ = found("saw-mutant-counts-recoveries", ONCE, [put(0, "k0")], platform, nested=3)
    assert Condition.COMMITTED not in once
    assert Condition.COMMITTED in again & thrice
    assert report.fault == AGAIN
    example = next(c for c in report.counterexamples if c.condition is Condition.COMMITTED)
    texts = [row.text for row in example.timeline]
    assert sum(text.startswith("recovery runs, and power fails again") for text in texts) == 2


@pytest.mark.long
@pytest.mark.parametrize("platform", ["optane-adr", "optane-eadr"])
def test_recovery_as_one_whole_is_cut_short_as_well(platform):
    class Whole(CountsRecoveries, name="saw-mutant-counts-as-a-whole"):
        class Server(CountsRecoveries.Server):
            def recover(self, thread):
                yield from super().recover(thread)

    try:
        with registered():
            once, _ = found(Whole.name, ONCE, [put(0, "k0")], platform, nested=1)
            again, _ = found(Whole.name, ONCE, [put(0, "k0")], platform, nested=2)
    finally:
        del Scheme.registry[Whole.name]
    assert Condition.COMMITTED not in once
    assert Condition.COMMITTED in again


def test_a_machine_that_keeps_its_power_keeps_all_that_it_had_taken_in():
    system = System(load_platform("optane-adr"), {"server": [NodeSpec(1, ("dram", "pm"))] * 2}, seed=1)
    lost, kept = system.nodes["server"]
    for node in (lost, kept):
        pm = node.memory["pm"]
        finish(system, node.thread(0, node.name).store(pm.allocate(64, "x"), b"new line" * 8))
    devices = {node.memory["pm"].number: node.memory["pm"].domain for node in (lost, kept)}
    standing = {kept.memory["pm"].number}
    views = StandingViews(system.trace, devices, lambda key: bytes(64), standing)
    at_ps = system.clock.now_ps
    images = {number: {c.data for c in views.contents((number, 1), at_ps, {})} for number in devices}
    assert images[kept.memory["pm"].number] == {b"new line" * 8}
    assert bytes(64) in images[lost.memory["pm"].number]
    assert len(images[lost.memory["pm"].number]) > 1


def test_a_violation_that_one_failure_shows_is_told_with_one():
    """It takes failures in recovery only where fewer do not show it."""
    (_, once), (_, again) = (
        found("client-active", ONCE, [put(0, "k0")], nested=nested, examples=True) for nested in (None, 2)
    )
    assert Condition.NO_LOST_ACK in {example.condition for example in again.counterexamples}
    assert [example.case for example in again.counterexamples] == [example.case for example in once.counterexamples]


@pytest.mark.long
def test_of_a_recovery_that_was_cut_short_only_what_it_wrote_is_kept():
    made = scenario("efactory", [put(0, "k0"), put(0, "k0")], "optane-eadr", crash={"fault": AGAIN})
    explorer = Explorer(run_variant(made, only_variant(made)))
    gc.collect()
    hosts = _hosts()
    explorer.walk()
    gc.collect()
    assert _hosts() - hosts <= 3 < len(explorer._recoveries.made)  # the reads of the walk have machines as well


def _hosts():
    return sum(isinstance(thing, HostMemory) for thing in gc.get_objects())
