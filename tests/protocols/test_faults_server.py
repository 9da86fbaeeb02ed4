"""The server's process dies and another takes over: memory keeps everything, clients connect again and go on."""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.inject import instants, run_with_fault
from rpsim.validation.crash.executed import judge
from rpsim.validation.crash.explore import explore
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

from ..small import get, only_variant, put, scenario, ycsb
from .fault_mutants import registered

COMMITTED, MONOTONIC = Condition.COMMITTED, Condition.MONOTONIC
LOST, DURABLE = Condition.NO_LOST_ACK, Condition.DURABLE


def restarted(scheme, work, platform="optane-adr", **more):
    return scenario(scheme, work, platform, crash={"fault": "server[0] process"}, **more)


def violated(made):
    variant = only_variant(made)
    report = explore(run_variant(made, variant), made, variant, examples=())
    assert report.exhaustive
    return {condition for condition, verdict in report.verdicts.items() if verdict is Verdict.VIOLATED}


@pytest.mark.parametrize("scheme", ["client-active", "saw", "efactory"])
def test_a_put_that_the_crash_cuts_off_is_unknown_and_its_client_goes_on(scheme):
    made = restarted(scheme, [put(0, "k0"), get(0, "k0"), put(0, "k0"), get(0, "k0")])
    after = run_with_fault(made, only_variant(made), 3_500_000)
    outcomes = [(o.f, o.outcome) for o in after.history.operations if o.process == 0]
    assert outcomes == [("put", "info"), ("get", "ok"), ("put", "ok"), ("get", "ok")]
    assert after.history.operations[3].result == 3
    assert after.finished and after.recovered_ps is not None
    assert [(c.node, c.at_ps) for c in after.history.crashes] == [("server", 3_500_000)]


def test_a_get_that_the_crash_cuts_off_is_tried_again_as_the_same_operation():
    made = restarted("saw", [get(0, "k0")])
    after = run_with_fault(made, only_variant(made), 2_000_000)
    (got, _) = after.history.operations
    assert (got.outcome, got.result) == ("ok", 0)
    assert got.invoke_ps < 2_000_000 < after.recovered_ps < got.return_ps


@pytest.mark.long
def test_nobody_is_ever_told_that_an_operation_failed():
    made = restarted("efactory", ycsb(12), processes=2, keys=2)
    variant = only_variant(made)
    _, every = instants(made, variant)
    runs = [run_with_fault(made, variant, at_ps) for at_ps in every]
    assert {o.outcome for after in runs for o in after.history.operations} <= {"ok", "info"}
    assert all(after.finished for after in runs)


@pytest.mark.long
def test_on_adr_with_ddio_on_a_process_loses_nothing_that_power_would():
    """An acknowledged value of eFactory is in coherent memory, where recovery finds and flushes it."""
    work = [put(0, "k0"), put(0, "k0", at_ns=10_000)]
    away = {"core": "server[0] core 1", "at": "0 ns", "for": "1 ms"}  # the background thread verifies nothing
    assert violated(restarted("efactory", work, outages=[away])) == set()
    power = scenario("efactory", work, crash={"fault": "server[0] power"}, outages=[away])
    assert LOST in violated(power)


@pytest.mark.long
def test_a_successor_that_does_not_recover_writes_over_what_is_there():
    with registered():
        assert violated(restarted("saw", ycsb(8), processes=2, keys=2)) == set()
        assert violated(restarted("saw-mutant-forgetful", ycsb(12), processes=2, keys=2)) >= {COMMITTED, DURABLE}


@pytest.mark.long
def test_a_put_that_is_repeated_on_a_new_connection_may_take_effect_twice():
    """Others have read it before the crash; after it another put is read, and then the first one executes again."""
    work = [put(0, "k0"), put(1, "k0", at_ns=9000), get(1, "k0")]
    work += [get(process, "k0", at_ns=1500 + 500 * process) for process in range(2, 8)]
    away = {"core": "client[0] core 0", "at": "9 us", "for": "60 us"}  # its client is late to connect again
    with registered():
        found = violated(restarted("saw-mutant-put-twice", work, processes=8, outages=[away]))
    assert DURABLE in found
    assert violated(restarted("saw", work, processes=8, outages=[away])) == set()


def test_the_history_says_the_same_to_the_checker_of_files():
    made = restarted("client-active", [put(0, "k0"), put(1, "k0", at_ns=9000), get(1, "k0")], processes=2)
    variant = only_variant(made)
    conditions = (COMMITTED, MONOTONIC, LOST, DURABLE)
    _, every = instants(made, variant)
    seen = set()
    for at_ps in every:
        history = run_with_fault(made, variant, at_ps).history
        wrong = judge(history, ["k0"], conditions).keys()
        report = check_history(parse_history("\n".join(history.lines(loaded=["k0"])), "run"), conditions=conditions)
        assert {c for c, found in report.verdicts.items() if found.verdict is Verdict.VIOLATED} == set(wrong)
        seen.add(frozenset(wrong))
    assert len(seen) > 1  # at some instants it is right, at others wrong
