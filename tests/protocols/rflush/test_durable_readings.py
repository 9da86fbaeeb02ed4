"""What the paper leaves open of durable calls, each way: RFlush by the CPU, the public code, lists, promises."""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.registry import scheme
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

from ...small import get, put, run

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
JUDGED = {COMMITTED, LOST, DURABLE}
FAMILY = ("wflush-rpc", "sflush-rpc", "w-rflush-rpc", "s-rflush-rpc")
BY_CPU = (
    "w-rflush-rpc over rflush-write-emulated",
    "w-rflush-rpc over rflush-write-emulated[operator=behind data]",
    "s-rflush-rpc over rflush-send-emulated[target=memory]",
    "s-rflush-rpc over rflush-send-emulated[target=memory, operator=behind data]",
)
PUTS = [put(0, "k0")] * 2
ALONE = [{"core": f"server[0] core {core}", "at": "0 ns", "for": "40 us"} for core in (0, 2)]
"""Neither the poller nor the worker flushes anything while the calls return."""


def vary(ddio="off", domain="adr"):
    return {"platform": ["rflush-testbed"], "ddio": [ddio], "domain": [domain]}


def refuted(name, work=PUTS, ddio="off", domain="adr", conditions=JUDGED, **more):
    found = Explorer(run(name, work, vary=vary(ddio, domain), **more), conditions=conditions).walk()
    assert found.exhaustive
    return found.first.keys() & conditions


@pytest.mark.parametrize("name", BY_CPU)
@pytest.mark.parametrize("ddio", ["off", "on"])
def test_what_the_cpu_flushes_and_then_commits_is_durable_with_ddio_on_too(name, ddio):
    assert refuted(name, ddio=ddio, value="72 B", outages=ALONE) == set()


@pytest.mark.parametrize(
    "name",
    [
        "w-rflush-rpc[operator=together] over rflush-write-emulated",
        "w-rflush-rpc over rflush-write-emulated[flush=nothing]",
        "s-rflush-rpc over rflush-send-emulated[target=memory, flush=nothing]",
    ],
)
def test_the_cpu_s_flush_and_the_order_of_the_operator_are_what_does_it(name):
    assert refuted(name, ddio="on", value="72 B", outages=ALONE) >= {LOST}


@pytest.mark.parametrize("name", FAMILY)
def test_the_public_code_loses_what_it_has_acknowledged(name):
    """Without a flush that reaches memory, and with data and operator in one WRITE."""
    public = scheme(f"{name}[as=public code]")
    assert public.option("operator") == "together" and public.option("flush") == "one line"
    assert public.option("slots") == (1 if "rflush" in name else 4)
    assert refuted(f"{name}[as=public code]", value="72 B", outages=ALONE) >= {LOST, COMMITTED}


def test_a_choice_goes_before_the_preset_and_so_does_a_primitive():
    assert scheme("wflush-rpc[as=public code, slots=2]").option("slots") == 2
    assert scheme("wflush-rpc[as=public code] over rcommit").primitive.name == "rcommit"
    assert scheme("wflush-rpc[as=public code]").primitive.name == "wflush-emulated"


@pytest.mark.parametrize("name", FAMILY)
def test_recovery_may_execute_a_call_a_second_time_and_a_list_shows_it(name):
    work = [{**one, "f": "append"} for one in PUTS]
    conditions = {COMMITTED, LOST, Condition.EXACTLY_ONCE}
    assert refuted(f"{name}[model=append]", work, conditions=conditions) == {Condition.EXACTLY_ONCE}


def test_calls_append_in_their_order_and_a_list_is_read_behind_them():
    work = [{**put(0, "k0"), "f": "append"}] * 3 + [{**get(0, "k0"), "f": "read"}]
    assert run("wflush-rpc[model=append]", work, vary=vary()).history.operations[-1].result == (1, 2, 3)


def test_a_call_that_says_when_it_is_executed_is_judged_as_a_promise():
    """The poller is away, and then finds another connection's read first: that returns the old value."""
    late = [{"core": "server[0] core 0", "at": "0 ns", "for": "40 us"}]
    work, found = [put(1, "k0"), get(0, "k0", at_ns=10_000)], {}
    for name in ("wflush-rpc", "wflush-rpc[applied=said]"):
        result = run(name, work, vary=vary(), processes=2, outages=late)
        write, read = result.history.operations
        assert write.return_ps < read.invoke_ps and read.result == 0
        report = check_history(parse_history("\n".join(result.history.lines(result.initial)), "the run"))
        found[name] = write.applied_ps is not None, str(report.verdicts["linearizable"].verdict)
    assert found == {"wflush-rpc": (False, "violated"), "wflush-rpc[applied=said]": (True, "holds")}


def test_what_is_promised_and_lost_is_lost_all_the_same():
    assert refuted("wflush-rpc[applied=said]", value="64 B") == set()
    assert LOST in refuted("wflush-rpc[applied=said]", ddio="on", value="64 B")


def test_a_log_of_two_slots_is_used_again_and_again():
    result = run("wflush-rpc[slots=2]", [put(0, "k0")] * 64, vary=vary())
    server = result.scheme.roles["server"][0]
    pm = server.node.memory["pm"]
    result.system.clock.run_until(result.system.clock.until(result.system.clock.now_ps + 50_000_000))
    operators = {
        pm.space.read(result.system.clock.now_ps, ring.operator(slot) - pm.base, 8)
        for ring in server.rings
        for slot in range(2)
    }
    assert operators == {bytes(8)} and server.connections.all[0].removed == 64


def test_who_executes_what_it_has_only_seen_tears_what_nobody_can_repair():
    assert refuted("wflush-rpc over wflush-emulated", value="128 B") == set()
    assert refuted("wflush-rpc[executed=seen] over wflush-emulated", value="128 B") == JUDGED


def test_a_removal_that_is_only_stored_brings_an_old_call_back():
    assert refuted("wflush-rpc[removal=stored]", [put(0, "k0")] * 6, value="8 B") == {LOST, DURABLE}
