"""What the RPCs of the RDMA Flush paper are driven with: fixed turns of writes and reads, YCSB's D, E and F."""

from __future__ import annotations

from collections import Counter

import pytest

from rpsim.protocols.registry import schemes
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.workload import plan
from rpsim.scenarios.schema.known import SchemeFacts
from rpsim.sim.errors import InputError
from rpsim.sim.streams import Streams
from rpsim.validation.crash.explore import explore


def draft(scheme="farm", clients=1, **workload):
    kind = {"kind": "ycsb", "keys": 40, "value": "64 B", "operations": 40}
    return Draft.new(
        "x", scenario="x", schemes=scheme, platform="rflush-testbed",
        roles={"client": {"machines": 1, "processes": clients}}, workload=kind | workload,
    )  # fmt: skip


def planned_of(scheme="farm", clients=1, **workload):
    schemes()
    return plan(draft(scheme, clients, **workload).build().workload, clients, Streams(1),
                SchemeFacts.of(Scheme.registry[scheme]))  # fmt: skip


def ran(*args, **workload):
    built = draft(*args, **workload).build()
    return run_variant(built, built.variants()[0], recorded=False)


def refused(**workload):
    with pytest.raises(InputError) as caught:
        draft(**workload).build()
    return str(caught.value)


# turns ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("share", "turn"),
    [(0.5, "wr"), (0.95, "w" + 19 * "r"), (0.05, 19 * "w" + "r"), (0.0, "w"), (1.0, "r"), (0.25, "wwwr")],
)
def test_updates_and_reads_take_turns_an_update_first(share, turn):
    (operations,) = planned_of(reads=share, order="alternating", operations=100)
    assert "".join("w" if o.is_update else "r" for o in operations) == (turn * 100)[:100]


def test_every_process_begins_with_an_update_and_the_keys_are_those_of_a_drawn_mix():
    turns, drawn = (planned_of(clients=3, mix="a", order=order, operations=90) for order in ("alternating", "drawn"))
    assert [operations[0].f for operations in turns] == ["put"] * 3
    assert [[o.object for o in operations] for operations in turns] == [[o.object for o in each] for each in drawn]
    assert turns != drawn


def test_rotating_processes_take_the_keys_in_turn_whatever_the_seed():
    kind = {"mix": "a", "order": "rotating", "keys": 3, "operations": 9}
    operations = planned_of(clients=2, **kind)
    assert [[(o.f, o.object) for o in each] for each in operations] == [
        [("put", "k0"), ("get", "k1"), ("put", "k2"), ("get", "k0"), ("put", "k1")],
        [("put", "k1"), ("get", "k2"), ("put", "k0"), ("get", "k1")],
    ]
    facts = SchemeFacts.of(Scheme.registry["farm"])
    assert plan(draft(clients=2, **kind).build().workload, 2, Streams(7), facts) == operations
    owned = planned_of(clients=2, **kind | {"keys": 4, "own": True})
    assert [{o.object for o in each} for each in owned] == [{"k0", "k2"}, {"k1", "k3"}]
    assert "found rotating with inserts" in refused(mix="d", order="rotating")


def test_a_workload_with_a_seed_is_the_same_in_every_run():
    facts = SchemeFacts.of(Scheme.registry["farm"])
    own, other = (
        draft(clients=2, mix="d", operations=40, keys=20, **seed).build().workload for seed in ({"seed": 5}, {})
    )
    assert plan(own, 2, Streams(1), facts) == plan(own, 2, Streams(2), facts) == plan(other, 2, Streams(5), facts)
    assert plan(other, 2, Streams(1), facts) != plan(other, 2, Streams(2), facts)
    assert "workload.seed" in refused(mix="a", seed=0)


def test_rotating_transactions_begin_one_key_further_each():
    txns = {"kind": "mix", "shares": {"txn": 1.0}, "steps": 2, "step_reads": 0.0, "keys": 3, "operations": 4}
    workload = Draft.new("x", scenario="x", schemes="hotpot", platform="optane-adr", roles={"client": {"processes": 2}},
                         workload=txns | {"value": "16 B", "order": "rotating"}).build().workload  # fmt: skip
    facts = SchemeFacts.of(Scheme.registry["hotpot"])
    made = [[[key for _, key in o.argument] for o in each] for each in plan(workload, 2, Streams(5), facts)]
    assert made == [[["k0", "k1"], ["k1", "k2"]], [["k1", "k2"], ["k2", "k0"]]]


def test_turns_of_what_is_more_than_reads_and_updates_are_refused():
    expected = "found alternating with inserts, scans, read-modify-writes or shares of other operations, expected reads"
    assert expected in refused(mix="d", order="alternating")
    assert "workload.order" in refused(reads=0.5, modifies=0.5, order="alternating")
    misspelt = refused(mix="a", order="alternatin")
    assert "an order of the operations: drawn, alternating, rotating, phases; did you mean 'alternating'" in misspelt


# YCSB's D, E and F ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", ["farm", "wflush-rpc"])
@pytest.mark.parametrize(("mix", "rpcs"), [("d", 1.0), ("e", 0.95 * 5.5 + 0.05), ("f", 1.5)])
def test_so_many_rpcs_an_operation(scheme, mix, rpcs):
    (operations,) = planned_of(scheme, mix=mix, keys=50_000, operations=6_000, scan_length=10)
    assert len(operations) / 6_000 == pytest.approx(rpcs, rel=0.03)
    assert {o.batch for o in operations} == {None}


@pytest.mark.parametrize("scheme", ["darpc", "rfp", "fasst", "s-rflush-rpc"])
@pytest.mark.parametrize("mix", ["d", "e", "f"])
def test_all_that_is_read_is_what_was_written_last(scheme, mix):
    result = ran(scheme, mix=mix, scan_length=4, operations=12)
    value = {}
    for o in result.history.operations:
        assert o.outcome == "ok" and (o.f == "put" or o.result == value.get(o.object, 0))
        value |= {o.object: o.argument} if o.f == "put" else {}


def test_a_scan_and_a_read_modify_write_are_timed_as_one():
    result = ran(mix="f", operations=30)
    parts = [o for o in result.history.operations if o.part_of is not None]
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    assert [(read.f, write.f) for read, write in pairs] == [("get", "put")] * len(pairs)
    assert sorted(result.latency_ps["modify"]) == sorted(write.return_ps - read.invoke_ps for read, write in pairs)
    assert len(result.latency_ps["get"]) + len(result.latency_ps["modify"]) == result.operations == 30
    scans = ran(mix="e", operations=20, scan_length=6)
    lengths = Counter(o.part_of for o in scans.history.operations if o.part_of is not None)
    assert len(scans.latency_ps["scan"]) == len(lengths) and sum(lengths.values()) > len(lengths)
    assert scans.operations == 20


@pytest.mark.parametrize("scheme", ["farm", "wflush-rpc"])
def test_an_object_that_was_never_written_is_absent(scheme):
    built = draft(scheme, mix="load", keys=2, value="8 B", operations=2).build()
    variant = built.variants()[0]
    report = explore(run_variant(built, variant), built, variant)
    assert report.states > 2 and report.verdicts["no_lost_ack"] == "holds" == report.verdicts["committed"]


def test_processing_without_a_unit_is_refused():
    assert "workload.work: found 100, expected a time with its unit" in refused(mix="a", work=100)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("scheme", ["farm", "darpc", "l5", "rfp", "scalerpc", "wflush-rpc", "s-rflush-rpc"])
def test_the_server_works_for_every_call_so_long_as_the_workload_says(scheme, threads):
    heavy = draft(scheme, reads=0.5, order="alternating", work="100 us", operations=24)
    built = heavy.with_(roles={"server": {"threads": threads}}).build()
    result = run_variant(built, built.variants()[0], recorded=False)
    assert result.spent["server"]["cpu_ns"] >= 100_000
