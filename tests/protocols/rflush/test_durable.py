"""The durable calls: what survives every power failure, what a caller waits for, and what each broken twin loses.

By the paper an acknowledged call is durable with DDIO off (Duan et al., SC'21, section 4.2): of one connection. With
DDIO on, what the adapter has pushed is in the cache. Recovery's order between connections is nobody's promise.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import fmean

import pytest

import rpsim
from rpsim.app.terminal.expected import surprises
from rpsim.models.cpu.accounting import total
from rpsim.protocols.guarantees import Condition, claimed
from rpsim.protocols.registry import scheme
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.explorer import Explorer

from ...small import get, only_variant, put, run, scenario, ycsb
from .durable_twins import TWINS, registered

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
JUDGED = {COMMITTED, LOST, DURABLE}
PRIMITIVES = Path(rpsim.__file__).parent / "protocols" / "primitives"
FAMILY = ("wflush-rpc", "sflush-rpc", "w-rflush-rpc", "s-rflush-rpc")
OWN_OBJECTS = [{"processes": 1, "first": 0, "keys": 1}, {"processes": 1, "first": 1, "keys": 1}]
PUTS = [put(0, "k0")] * 6
SLOW = {"kind": "schedule", "operations": PUTS, "work": "20 us"}
"""Calls wait in the log, since each takes 20 us."""


@pytest.fixture(autouse=True)
def _twins_are_known():
    with registered():
        yield


def vary(ddio, domain="adr"):
    return {"platform": ["rflush-testbed"], "ddio": [ddio], "domain": [domain]}


small = partial(run, vary=vary("off"))


def refuted(name, work, ddio="off", domain="adr", **more):
    """What is refuted when every crash point of the run has been looked at."""
    found = Explorer(run(name, work, vary=vary(ddio, domain), **more), conditions=JUDGED).walk()
    assert found.exhaustive
    return found.first.keys() & JUDGED


def executed(name, work, fault, **more):
    """What is refuted for a fault that is executed, or none, or one that strikes again."""
    made = scenario(name, work, vary=vary("off"), crash={"fault": fault}, **more)
    report = explore(run(name, work, vary=vary("off"), crash={"fault": fault}, **more), made, only_variant(made))
    assert report.exhaustive
    return {str(condition) for condition, verdict in report.verdicts.items() if verdict == "violated"}


# the happy path ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FAMILY, "wflush-rpc over rflush-write-emulated"])
@pytest.mark.parametrize("value", ["8 B", "1 KiB"])
def test_reads_find_what_was_written_and_the_log_is_empty_at_the_end(name, value):
    work = [put(0, "k0"), put(0, "k0"), get(0, "k0"), put(0, "k0"), get(0, "k0", at_ns=100_000)]
    result = small(name, work, value=value)
    assert [o.result for o in result.history.operations if o.f == "get"] == [2, 4]
    server = result.scheme.roles["server"][0]
    pm = server.node.memory["pm"]
    words = [
        pm.space.read(result.system.clock.now_ps, ring.operator(slot) - pm.base, 8)
        for ring in server.rings
        for slot in range(ring.slots)
    ]
    assert words == [bytes(8)] * 8


def test_a_caller_goes_on_before_its_call_is_executed_until_all_slots_are_taken():
    """Four calls are acknowledged at the flush's round trip; the fifth waits for the first one's slot, 20 us later."""
    took = [o.return_ps - o.invoke_ps for o in small("wflush-rpc", SLOW).history.operations]
    assert max(took[:4]) < 4_000_000 and min(took[4:]) > 10_000_000


def test_two_workers_execute_calls_on_different_objects_side_by_side():
    work = {"kind": "schedule", "operations": [put(0, f"k{turn % 2}") for turn in range(10)], "work": "20 us"}
    one, two = (small("wflush-rpc", work, keys=2, roles={"server": {"threads": n}}) for n in (1, 2))
    assert 1.7 < one.history.operations[-1].return_ps / two.history.operations[-1].return_ps < 2.1


def test_a_ring_lies_where_sizes_alone_put_it():
    server = small("wflush-rpc", PUTS).scheme.roles["server"][0]
    assert len(server.rings) == 2 and {ring.length for ring in server.rings} == {64 + 4 * 64}
    assert server.rings[1].address == server.rings[0].address + server.rings[0].length


@pytest.mark.parametrize(("name", "threads"), [("wflush-rpc", 4), ("farm", 1)])
def test_the_last_connections_are_served_as_soon_as_the_first(name, threads):
    """Twenty callers keep one polling thread busy: it goes on behind the one that it has served last."""
    roles = {"client": {"processes": 20}, "server": {"threads": threads}}
    reads = [[], []]
    for operation in small(name, ycsb(240), roles=roles, keys=200, value="64 B").history.operations:
        if operation.f == "get":
            reads[operation.process // 10].append(operation.return_ps - operation.invoke_ps)
    first, last = map(fmean, reads)
    assert 0.6 < last / first < 1.6


@pytest.mark.parametrize("name", [*FAMILY, "wflush-rpc[operator=together]"])
def test_a_caller_s_core_stores_its_message_as_that_of_another_call_does(name):
    """16 KiB, which a core stores in 0.6 us; FaRM's loads a reply besides, 0.2 us."""
    spent = []
    for each in (name, "farm"):
        client = small(each, PUTS, value="16 KiB").system.nodes["client"][0]
        spent.append(total(thread.account for thread in client.threads).memory_ps)
    assert 0.7 < spent[0] / spent[1] < 1


# every crash point -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FAMILY, "wflush-rpc[slots=1]", "wflush-rpc over wflush-emulated"])
@pytest.mark.parametrize("value", ["8 B", "256 B"])
def test_what_was_acknowledged_survives_with_ddio_off(name, value):
    assert refuted(name, ycsb(6), keys=2, value=value) == set()


@pytest.mark.parametrize("domain", ["adr", "eadr"])
def test_what_was_acknowledged_and_waits_in_the_log_is_executed_by_recovery(domain):
    assert refuted("wflush-rpc", SLOW, domain=domain) == set()


ALONE = [{"core": f"server[0] core {core}", "at": "0 ns", "for": "40 us"} for core in range(2)]
"""The server's cores are away while the calls return, and flush nothing."""


@pytest.mark.parametrize("name", FAMILY)
def test_the_adapter_alone_makes_a_call_durable(name):
    assert refuted(name, PUTS[:2], outages=ALONE) == set()


def undrained(folder: Path) -> str:
    """WFlush, without the step that has the operator leave the adapter."""
    lines = (PRIMITIVES / "wflush.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if "id: drain operator" not in line)
    path = folder / "undrained.yaml"
    text = text.replace("drain operator, ", "").replace("name: wflush", "name: undrained")
    path.write_text(text, encoding="utf-8")
    return f"{path}[operator=behind data]"


def test_an_operator_that_is_not_drained_is_not_pushed_and_its_call_is_lost(tmp_path):
    assert refuted(f"wflush-rpc over {undrained(tmp_path)}", PUTS[:2], outages=ALONE) >= {LOST}


@pytest.mark.parametrize("name", FAMILY)
def test_with_ddio_on_the_data_are_in_the_cache(name):
    assert refuted(name, PUTS[:2], "on", value="64 B") == JUDGED
    assert refuted(name, PUTS[:2], "on", "eadr", value="64 B") == set()


def test_a_primitive_that_flushes_the_cache_may_have_ddio_on():
    assert refuted("wflush-rpc over ibta-flush-persistent", PUTS[:2], "on", value="64 B") == set()


def test_two_connections_that_write_one_object_have_no_order_after_a_failure():
    """An acknowledged call of one is undone by an older one of the other, which recovery executes later."""
    work = {"kind": "schedule", "work": "20 us", "operations": [put(1, "k0"), put(0, "k0", at_ns=8_000)]}
    assert LOST in refuted("wflush-rpc", work, processes=2)
    own = {"kind": "ycsb", "operations": 6, "mix": "update-only", "groups": OWN_OBJECTS}
    assert refuted("wflush-rpc", own, processes=2, keys=2) == set()


@pytest.mark.long
@pytest.mark.parametrize("fault", ["server[0] power in recovery", "server[0] process", "client[0] process"])
def test_a_failure_of_recovery_of_the_process_or_of_a_client_loses_nothing(fault):
    assert executed("wflush-rpc", PUTS[:3], fault) == set()


@pytest.mark.long
def test_what_a_dead_server_s_adapter_had_begun_is_no_call_of_its_successor():
    """An operator of before landed in a ring behind its recovery; the next call of that ring was never executed."""
    work = [put(0, "k0"), put(0, "k1", at_ns=30_000), get(0, "k1", at_ns=60_000)]
    assert executed("sflush-rpc", work, "server[0] process", keys=2, value="4 KiB") == set()


@pytest.mark.parametrize("slots", [1, 4])
def test_a_recovery_that_is_interrupted_twice_loses_nothing(slots):
    work = {"kind": "schedule", "operations": PUTS[:3], "work": "20 us"}
    how = {"vary": vary("off"), "crash": {"fault": "server[0] power", "nested": 2}}
    name = f"wflush-rpc[slots={slots}]"
    made = scenario(name, work, **how)
    report = explore(run(name, work, **how), made, only_variant(made))
    assert report.exhaustive and report.states > 100
    assert set(map(str, report.verdicts.values())) == {"holds"}


@pytest.mark.parametrize(("ddio", "found"), [("off", set()), ("on", JUDGED)])
def test_recovery_as_a_whole_finds_what_it_finds_log_by_log(ddio, found):
    whole = TWINS["recovered-whole"].name
    assert refuted(whole, PUTS[:2], ddio, value="64 B") == refuted("wflush-rpc", PUTS[:2], ddio, value="64 B") == found


# twins -------------------------------------------------------------------------------------------------------------


def test_without_a_flush_acknowledged_calls_are_lost():
    assert refuted("wflush-rpc over no-flush", PUTS[:2], value="64 B") >= {LOST, DURABLE}


def test_an_operator_that_comes_with_its_data_may_be_there_without_them():
    """Of one WRITE the adapter may bring any line first: what recovery takes for a call was never whole."""
    assert refuted("wflush-rpc[operator=together]", PUTS[:2]) == JUDGED


@pytest.mark.parametrize("twin", ["removed-before-durable", "not-recovered"])
def test_a_call_that_is_not_durable_in_one_place_or_the_other_is_lost(twin):
    assert refuted(TWINS[twin].name, SLOW, value="64 B") >= {LOST, DURABLE}


def test_who_executes_what_is_not_durable_loses_it(tmp_path):
    """The adapter does not drain the operator, so that the server alone makes it durable."""
    over = undrained(tmp_path)
    assert refuted(f"{TWINS['executed-before-durable'].name} over {over}", PUTS[:2], value="64 B") >= {LOST, DURABLE}


@pytest.mark.long
def test_a_removal_that_is_not_durable_brings_an_old_call_back():
    assert refuted(TWINS["removal-unflushed"].name, PUTS, value="8 B") == {LOST, DURABLE}


def test_recovery_goes_by_the_order_of_calls_and_not_of_slots():
    assert refuted(TWINS["recovered-by-slot"].name, SLOW) == {LOST, DURABLE}


@pytest.mark.long
def test_removals_that_are_not_in_order_undo_a_call_when_power_fails_again():
    work = {"kind": "schedule", "operations": PUTS[:3], "work": "20 us"}
    again = "server[0] power in recovery"
    assert executed("wflush-rpc", work, again) == set()
    assert executed(TWINS["removed-in-any-order"].name, work, again) == {"durable", "no_lost_ack"}


LATE = {"core": "server[0] core 2", "at": "4 us", "for": "60 us"}
"""The first worker has taken a call, and is away while the second one could overtake it."""


@pytest.mark.parametrize(("twin", "late"), [("reads-ahead", []), ("out-of-order", [LATE])])
def test_calls_on_one_object_keep_their_order(twin, late):
    read = get(0, "k0", at_ns=100_000) if late else get(0, "k0")
    work = {"kind": "schedule", "operations": [put(0, "k0"), put(0, "k0"), put(0, "k0"), read], "work": "20 us"}
    how = {"roles": {"server": {"threads": 2}}, "outages": late}
    assert executed("wflush-rpc", work, "no fault", **how) == set()
    assert executed(TWINS[twin].name, work, "no fault", **how) == {"linearizable"}


# names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("wflush-rpc over rflush-send", "'rflush-send' in 'wflush-rpc over rflush-send'"),
        ("wflush-rpc over wflus", "wflus"),
        ("wflush-rpc[slot=2]", "slot"),
        ("wflush-rpc[operator=first]", "operator=first"),
        ("wflush-rpc[slots=0]", "slots=0"),
    ],
)
def test_a_wrong_name_is_refused_in_one_line(name, found):
    with pytest.raises(InputError) as error:
        scheme(name)
    assert found in str(error.value) and "\n" not in str(error.value)


def test_the_claim_of_one_connection_is_charged_where_each_object_has_one_writer():
    """With two the loss is shown, and is nobody's broken promise."""
    slow = {"kind": "schedule", "work": "20 us"}
    shared = slow | {"operations": [put(1, "k0"), put(0, "k0", at_ns=8_000)]}
    own = slow | {"operations": [put(1, "k1"), put(0, "k0", at_ns=8_000)]}
    how = {"vary": vary("off"), "crash": {"fault": "server[0] power"}, "processes": 2, "keys": 2}
    claims, found = scheme("wflush-rpc").claims, {}
    for name, work in (("shared", shared), ("own", own)):
        made = scenario("wflush-rpc", work, **how)
        report = explore(run("wflush-rpc", work, **how), made, only_variant(made))
        charged = claimed(claims, LOST, report.platform, report.fault, one_writer=report.one_writer)
        found[name] = str(report.verdicts[LOST]), report.one_writer, charged, surprises(report, {}, claims)
    assert found == {"shared": ("violated", False, False, []), "own": ("holds", True, True, [])}


def test_recovery_that_does_not_flush_loses_what_it_executed_when_power_fails_again():
    work = {"kind": "schedule", "operations": PUTS[:2], "work": "20 us"}
    twin = TWINS["recovered-unflushed"].name
    assert executed(twin, work, "server[0] power in recovery") == {"durable", "no_lost_ack"}


@pytest.mark.long
def test_recovery_that_removes_nothing_executes_old_calls_over_newer_ones():
    work = {"kind": "schedule", "operations": [*PUTS[:2], put(0, "k0", at_ns=60_000)], "work": "10 us"}
    twice = "server[0] process then server[0] power"
    assert executed("wflush-rpc", work, twice) == set()
    assert executed(TWINS["recovered-and-kept"].name, work, twice) == {"durable"}


@pytest.mark.parametrize("name", ["wflush-rpc", "w-rflush-rpc"])
def test_an_append_for_which_there_is_no_room_leaves_the_list_as_it_is(name, monkeypatch):
    """It is durable before it is executed: nobody can be told, and no thread ends of it."""
    monkeypatch.setattr("rpsim.protocols.rflush.lists.EXECUTIONS", 0)
    work = [{"process": 0, "f": f, "object": "k0"} for f in ("append", "append", "read")]
    result = small(f"{name}[model=append]", work)
    assert [one.result for one in result.history.operations if one.f == "read"] == [()]
