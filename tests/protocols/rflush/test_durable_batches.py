"""Batches of durable calls: one entry and one acknowledgement for several requests, each of which is executed."""

from __future__ import annotations

import itertools

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.rflush.batches import pack_numbers, unpack_numbers
from rpsim.protocols.rflush.redolog import LogRing, Operator
from rpsim.scenarios.run.inject import run_with_fault
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

from ...small import get, only_variant, put, run, scenario
from .durable_twins import TWINS, registered

FAMILY = ("wflush-rpc", "sflush-rpc", "w-rflush-rpc", "s-rflush-rpc")
ALL = {Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE}


@pytest.fixture(autouse=True)
def _twins_are_known():
    with registered():
        yield


def vary(ddio="off", domain="adr"):
    return {"platform": ["rflush-testbed"], "ddio": [ddio], "domain": [domain]}


def batch(number, *operations):
    return [{**one, "batch": number} for one in operations]


THREE = batch(1, put(0, "k0"), put(0, "k1"), put(0, "k2"))
TWO = batch(2, put(0, "k2"), put(0, "k0"))
MIXED = batch(3, get(0, "k0"), put(0, "k1"), get(0, "k2"), get(0, "k3"))
READS = [get(0, f"k{number}", at_ns=100_000) for number in range(4)]


def refuted(name, work, **more):
    found = Explorer(run(name, work, vary=vary(), **more), conditions=ALL).walk()
    assert found.exhaustive
    return found.first.keys() & ALL


@pytest.mark.parametrize("name", [*FAMILY, *(f"{one}[batching=off]" for one in FAMILY), "wflush-rpc over rcommit"])
@pytest.mark.parametrize("value", ["8 B", "200 B"])
def test_every_request_of_a_batch_is_executed_once_and_answered_together(name, value):
    result = run(name, [*THREE, *TWO, *MIXED, *READS], vary=vary(), keys=4, value=value)
    history = result.history
    for _, same in itertools.groupby(history.operations[:9], key=lambda o: o.batch):
        assert len({(o.invoke_ps, o.return_ps) for o in same}) == 1
    found = {(o.object, o.batch): o.result for o in history.operations if o.f == "get"}
    assert found == {
        ("k0", 3): 5, ("k2", 3): 4, ("k3", 3): 0,
        ("k0", None): 5, ("k1", None): 7, ("k2", None): 4, ("k3", None): 0,
    }  # fmt: skip
    report = check_history(parse_history("\n".join(history.lines(result.initial)), "the run"))
    assert report.verdicts["linearizable"].verdict == "holds"


def test_a_batch_is_one_write_one_flush_and_one_acknowledgement():
    work = {"kind": "ycsb", "mix": "update-only", "operations": 32, "keys": 8, "batch": 8}
    one, each = (run(name, work, vary=vary(), keys=8) for name in ("wflush-rpc", "wflush-rpc[batching=off]"))
    posted = [result.system.nodes["client"][0].nic.doorbells for result in (one, each)]
    assert posted == [2 * 32 / 8, 2 * 32]
    took = [max(result.latency_ps["put"]) for result in (one, each)]
    assert 4 * took[0] < took[1]


@pytest.mark.parametrize("name", [*FAMILY, "wflush-rpc[slots=1]"])
def test_an_acknowledged_batch_survives_whole(name):
    assert refuted(name, [*THREE, *TWO], keys=3, value="72 B") == set()


def test_what_a_batch_is_without_its_order_and_without_its_rest():
    assert refuted("wflush-rpc[operator=together]", [*THREE, *TWO], keys=3, value="72 B") == ALL
    assert refuted("wflush-rpc over no-flush", [*THREE, *TWO], keys=3, value="72 B") >= {Condition.NO_LOST_ACK}
    assert refuted(TWINS["batch-cut-short"].name, THREE, keys=3) == {Condition.NO_LOST_ACK, Condition.DURABLE}


@pytest.mark.parametrize("how", ["on", "off"])
def test_of_a_batch_the_history_says_of_each_write_when_it_was_executed(how):
    result = run(f"wflush-rpc[applied=said, batching={how}]", MIXED, vary=vary(), keys=4)
    assert [o.object for o in result.history.operations if o.applied_ps is not None] == ["k1"]
    last = run(f"wflush-rpc[applied=said, batching={how}]", batch(1, get(0, "k0"), *THREE), vary=vary(), keys=4)
    applied = [o.applied_ps for o in last.history.operations]
    assert applied[0] is None and None not in applied[1:] and applied[1:] == sorted(applied[1:])


def test_the_history_says_too_when_recovery_has_executed_a_call():
    work = {
        "kind": "schedule",
        "work": "20 us",
        "operations": [put(0, "k0"), put(0, "k0"), get(0, "k0", at_ns=100_000)],
    }
    made = scenario("wflush-rpc[applied=said]", work, vary=vary(), crash={"fault": "server[0] process"})
    history = run_with_fault(made, only_variant(made), 7_000_000).result.history
    first, second = history.operations[:2]
    assert second.return_ps < 7_000_000 < first.applied_ps < second.applied_ps < 20_000_000


WAITS = [put(0, "k1")] * 2 + [*batch(1, put(0, "k0"), put(0, "k1")), put(0, "k0", at_ns=15_000), get(0, "k1", 52_000)]
"""The batch is executed on k0 and waits for k1, while the next put of k0 is acknowledged and executed."""


@pytest.mark.parametrize(
    ("name", "found"),
    [("wflush-rpc", set()), (TWINS["removed-as-executed"].name, {Condition.NO_LOST_ACK, Condition.DURABLE})],
)
def test_a_batch_that_waits_for_one_object_undoes_no_newer_call_on_another(name, found):
    work = {"kind": "schedule", "operations": WAITS, "work": "20 us"}
    assert refuted(name, work, keys=2, roles={"server": {"threads": 2}}) == found


def test_entries_that_have_waited_are_removed_in_turn_and_every_slot_is_free_at_the_end():
    """Three calls wait for the first batch: two batches that meet it in an object, and one that meets these."""
    work = [
        put(0, "k1"), put(0, "k1"), *batch(1, put(0, "k0"), put(0, "k1")), *batch(2, put(0, "k0"), put(0, "k2")),
        *batch(3, put(0, "k2"), put(0, "k0"), put(0, "k2")), get(0, "k1", at_ns=200_000),
    ]  # fmt: skip
    result = run(
        "wflush-rpc[slots=8]", {"kind": "schedule", "operations": work, "work": "20 us"},
        vary=vary(), keys=3, roles={"server": {"threads": 3}},
    )  # fmt: skip
    server = result.scheme.roles["server"][0]
    end, pm = server.connections.all[0], server.node.memory["pm"]
    words = {pm.space.read(result.system.clock.now_ps, end.ring.operator(slot) - pm.base, 8) for slot in range(8)}
    assert words == {bytes(8)} and end.removed == 5


def test_a_ring_has_room_for_the_largest_batch_and_an_entry_says_what_it_has():
    ring = run("wflush-rpc", [*THREE, *TWO], vary=vary(), keys=3, value="72 B").scheme.roles["server"][0].rings[0]
    assert ring.entry_bytes == 256 and ring.length == 64 + 4 * 256
    data, operator = LogRing.call(7, [(2, b"two"), (0, b"nil")])
    assert data == b"twonil" + pack_numbers([2, 0]) and unpack_numbers(data[6:]) == [2, 0]
    assert Operator.unpack(operator).sequence == 7
    assert LogRing.call(7, [(2, b"two")]) == (b"two", Operator.pack(number=3, sequence=7))


@pytest.mark.parametrize(
    ("name", "work", "said"),
    [
        ("fasst", {"kind": "ycsb", "mix": "a", "operations": 8, "batch": 4}, "workload.batch"),
        ("farm", THREE, "workload.operations[0].batch"),
        ("efactory", {"kind": "ycsb", "mix": "a", "operations": 8, "batch": 4}, "takes one operation at a time"),
        ("wflush-rpc", {"kind": "ycsb", "mix": "f", "operations": 8, "batch": 4}, "read-modify-writes"),
        ("wflush-rpc", {"kind": "ycsb", "mix": "a", "operations": 8, "batch": 0}, "workload.batch"),
        ("wflush-rpc[batching=of]", THREE, "did you mean 'off'"),
    ],
)
def test_batches_where_there_are_none_are_refused(name, work, said):
    with pytest.raises(InputError) as error:
        scenario(name, work, vary=vary(), keys=3)
    assert said in str(error.value)
