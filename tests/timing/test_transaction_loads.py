"""SmallBank and TATP as their sources say; structures with one writer get one, and readers go on until it ends."""

from __future__ import annotations

from collections import Counter

import pytest

from rpsim.protocols.objects import LOOKS, owner, verbs
from rpsim.protocols.parts.tables import CALL_FORWARDING, SMALLBANK, SPECIAL_FACILITY, TATP
from rpsim.scenarios.build import Draft
from rpsim.scenarios.keyspace import LoadedRows
from rpsim.scenarios.run.experiment import AssembledVariant, run_variant
from rpsim.scenarios.run.workload import initial_values, own_objects, plan, schedule_data
from rpsim.scenarios.schema.known import KnownNames, RoleFacts, SchemeFacts
from rpsim.scenarios.transactions import BENCHMARKS
from rpsim.sim.errors import InputError
from rpsim.sim.streams import Streams

ROLES = {"server": RoleFacts(), "client": RoleFacts(many=True, invokes=True)}


def facts(*operations, updates, model, **more):
    return SchemeFacts(ROLES, operations, frozenset(updates), model=model, **more)


KNOWN = KnownNames(
    {
        "bank": facts("txn", updates=["txn"], model="accounts", one_writer=True),
        "tree": facts("insert", "find", updates=["insert"], model="kv", inserts="insert", one_writer=True),
        "stack": facts("push", "pop", updates=["push", "pop"], model="stack", one_writer=True),
        "store": facts("put", "get", updates=["put"], model="kv"),
    },
    {"optane-adr": {"ddio": ("on", "off")}},
)


def built(scheme, processes=1, **workload):
    draft = Draft.new("x", scenario="x", schemes=scheme, platform="optane-adr", workload={"value": "8 B", **workload})
    return draft.with_(roles={"client": {"processes": processes}}).build(known=KNOWN).workload


def planned(scheme, processes=1, **workload):
    load = built(scheme, processes, **workload)
    return load, plan(load, processes, Streams(1), KNOWN.schemes[scheme])


def refused(scheme, processes=1, **workload):
    with pytest.raises(InputError) as caught:
        built(scheme, processes, **workload)
    return str(caught.value)


# the benchmarks --------------------------------------------------------------------------------------------------


def test_smallbank_reads_and_writes_as_many_rows_as_its_five_programs():
    _, (operations,) = planned("bank", kind="transactions", benchmark="smallbank", customers=1000, operations=5000)
    steps = [step for one in operations for step in one.argument]
    reads = sum(step[0] in LOOKS for step in steps)
    assert reads / 5000 == pytest.approx(1.8, abs=0.05)
    assert (len(steps) - reads) / 5000 == pytest.approx(1.6, abs=0.05)
    names = Counter(one.part_of[0] for one in operations)
    assert names.keys() == BENCHMARKS["smallbank"].shares("writes").keys()
    assert all(count == pytest.approx(1000, abs=120) for count in names.values())


def test_tatp_writes_as_its_standard_says():
    _, (operations,) = planned("bank", kind="transactions", benchmark="tatp", customers=1000, operations=5000)
    names = Counter(one.part_of[0] for one in operations)
    assert names["update-location"] == pytest.approx(3500, abs=150)
    assert names["insert-call-forwarding"] == pytest.approx(500, abs=100)
    # a special facility is there for 2.5 of 4 types
    changing = [one for one in operations if one.part_of[0] == "update-subscriber-data"]
    assert sum(one.is_update for one in changing) / len(changing) == pytest.approx(0.625, abs=0.07)


def test_shares_are_one_in_every_mix():
    for benchmark in BENCHMARKS.values():
        for mix in ("writes", "standard"):
            assert sum(benchmark.shares(mix).values()) == pytest.approx(1)


def test_rows_are_found_by_their_numbers():
    for tables in (SMALLBANK, TATP):
        rows = {tables.row(number) for number in range(3 * tables.each)}
        assert len(rows) == 3 * tables.each
    assert TATP.row(TATP.number(2, CALL_FORWARDING, 5)) == (CALL_FORWARDING, 2 * 12 + 5)


def test_a_call_is_forwarded_only_by_a_facility_that_is_there():
    rows = LoadedRows(TATP, 500, b"12345678")
    there = {TATP.row(int(name[1:])) for name in rows}
    facilities = {row.key for row in there if row.table == SPECIAL_FACILITY}
    assert len(facilities) / 500 == pytest.approx(2.5, abs=0.2)
    assert all(row.key // 3 in facilities for row in there if row.table == CALL_FORWARDING)
    assert all((f"k{number}" in rows) == (TATP.row(number) in there) for number in range(100))


def test_a_schedule_of_drawn_transactions_is_the_same():
    load, drawn = planned("bank", kind="transactions", benchmark="tatp", customers=2, operations=40)
    data = schedule_data(load, drawn[0])
    again = built("bank", **data)
    (listed,) = plan(again, 1, Streams(1), KNOWN.schemes["bank"])
    assert [one.argument for one in listed] == [one.argument for one in drawn[0]]
    assert set(initial_values(again, "txn")) == set(initial_values(load, "txn"))


# one writer ------------------------------------------------------------------------------------------------------


def test_inserts_and_finds_take_the_place_of_puts_and_gets():
    _, (operations,) = planned("tree", kind="ycsb", reads=0.5, inserts=0.5, keys=10, operations=100)
    assert {one.f for one in operations} == {"insert", "find"}
    new = [one.object for one in operations if one.f == "insert"]
    assert len(set(new)) == len(new) and min(int(name[1:]) for name in new) == 10
    assert verbs(["push", "pop"]) == ("push", "pop") and verbs(["alloc", "free"]) is None


def test_what_stands_for_a_read_of_a_stack_takes_out():
    _, (operations,) = planned("stack", kind="ycsb", mix="a", keys=1, operations=50)
    assert {one.f for one in operations} == {"push", "pop"} and all(one.is_update for one in operations)


@pytest.mark.parametrize("scheme", ["tree", "stack"])
def test_objects_of_ones_own_are_nobody_elses(scheme):
    load, drawn = planned(scheme, 3, kind="ycsb", mix="a", keys=10, operations=300, own=True)
    assert own_objects(load) == 1
    for process, operations in enumerate(drawn):
        assert {owner(int(one.object[1:]), 1, 3) for one in operations} == {process}
    _, drawn = planned("tree", 3, kind="ycsb", inserts=1.0, keys=10, operations=30, own=True)
    assert all(owner(int(one.object[1:]), 1, 3) == process for process, some in enumerate(drawn) for one in some)


def test_customers_of_ones_own_are_nobody_elses():
    load = {"kind": "transactions", "benchmark": "smallbank", "customers": 8, "operations": 60, "own": True}
    made, drawn = planned("bank", 3, **load)
    for process, operations in enumerate(drawn):
        names = [step[1] for one in operations for step in one.argument]
        assert {owner(int(name[1:]), own_objects(made), 3) for name in names} == {process}


WRITERS = [
    ("tree", {"kind": "ycsb", "mix": "a", "keys": 8, "operations": 8}, "2 processes that write for tree, whose"),
    ("stack", {"kind": "ycsb", "mix": "c", "keys": 8, "operations": 8}, "2 processes that write for stack, each of"),
    ("stack", {"kind": "mix", "shares": {"push": 1.0}, "keys": 8, "operations": 8}, "for stack, each of whose objects"),
    ("bank", {"kind": "transactions", "benchmark": "tatp", "customers": 8, "operations": 8}, "for bank, whose"),
]  # fmt: skip


@pytest.mark.parametrize(("scheme", "load", "expected"), WRITERS)
def test_two_writers_of_one_structure_are_refused(scheme, load, expected):
    assert expected in refused(scheme, 2, **load)
    built(scheme, 1, **load)
    built(scheme, 2, own=True, **load)


def test_a_writer_and_readers_are_let_through():
    groups = [{"processes": 1, "inserts": 1.0}, {"processes": 2, "reads": 1.0, "until": "others"}]
    built("tree", 3, kind="ycsb", keys=8, operations=9, groups=groups)
    groups[1] = {"processes": 2, "reads": 0.5}
    assert "3 processes that write for tree" in refused("tree", 3, kind="ycsb", keys=8, operations=9, groups=groups)
    groups[1] = {"processes": 2, "reads": 0.5, "until": "others"}
    message = refused("store", 3, kind="ycsb", keys=8, operations=9, groups=[{"processes": 1, "reads": 1.0}, groups[1]])
    assert "workload.groups[1].until: found until others, and updates (store)" in message


@pytest.mark.parametrize(
    ("scheme", "load", "expected"),
    [
        (
            "stack",
            {"kind": "mix", "shares": {"find": 1.0}, "keys": 1},
            "found 'find', expected an operation",
        ),
        ("store", {"kind": "transactions", "benchmark": "tatp", "customers": 1}, "'transactions' for store"),
        ("bank", {"kind": "transactions", "benchmark": "tapt", "customers": 1}, "did you mean 'tatp'?"),
        ("bank", {"kind": "transactions", "benchmark": "smallbank", "customers": 1}, "at least 2"),
        (
            "bank",
            {"kind": "transactions", "benchmark": "tatp", "customers": 1, "shares": {"update-locations": 1.0}},
            "did you mean 'update-location'?",
        ),
    ],
)
def test_what_does_not_go_is_refused_in_one_line(scheme, load, expected):
    message = refused(scheme, 1, operations=8, **load)
    assert expected in message and "\n" not in message


# in a run --------------------------------------------------------------------------------------------------------


def test_readers_go_on_until_the_writer_has_ended():
    groups = [
        {"processes": 1, "mix": "update-only", "operations": 30},
        {"processes": 2, "reads": 1.0, "operations": 4, "until": "others"},
    ]
    scenario = Draft.new(
        "x",
        scenario="x",
        platform="optane-adr",
        schemes=["saw"],
        roles={"client": {"machines": 3}},
        workload={"kind": "ycsb", "keys": 4, "value": "64 B", "operations": 34, "groups": groups},
    ).build()
    (variant,) = scenario.variants()
    assert AssembledVariant(scenario, variant).repeating == {1, 2}
    operations = run_variant(scenario, variant).history.operations
    ended = max(one.return_ps for one in operations if one.process == 0)
    reads = [one for one in operations if one.process]
    assert len(reads) > 8 and all(one.invoke_ps < ended for one in reads)
    assert all(one.outcome == "ok" for one in operations)


def test_a_transaction_counts_once_beside_its_name():
    draft = Draft.new("x", scenario="x", schemes="smallbank on naive", platform="rnvm-testbed")
    made = draft.with_(workload={
        "kind": "transactions", "benchmark": "smallbank", "customers": 20, "value": "8 B", "operations": 40,
    }).build()  # fmt: skip
    result = run_variant(made, made.variants()[0])
    assert result.operations == 40 and sum(map(len, result.latency_ps.values())) == 80
    assert result.throughput_ops_per_s == pytest.approx(40 * 1e12 / result.elapsed_ps)
