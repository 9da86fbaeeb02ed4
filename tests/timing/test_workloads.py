"""Workloads beyond the first three of YCSB: shares, new keys, scans, groups, transactions, injected work, a past."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import groupby, pairwise
from typing import ClassVar

import pytest

from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.registry import schemes
from rpsim.protocols.scheme import Limits, Request, Scheme
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.draws import draw_past
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.workload import initial_values, objects, plan, schedule_data
from rpsim.scenarios.schema.known import SchemeFacts
from rpsim.sim.errors import InputError
from rpsim.sim.streams import Streams
from rpsim.validation.crash.explore import explore


@pytest.fixture
def registry(monkeypatch):
    schemes()
    monkeypatch.setattr(Scheme, "registry", dict(Scheme.registry))


def draft(schemes="saw", clients=4, **workload):
    kind = {"kind": "mix" if "shares" in workload else "ycsb", "keys": 40, "value": "64 B", "operations": 400}
    return Draft.new(
        "x", scenario="x", schemes=schemes, platform="optane-adr", ddio="on",
        roles={"client": {"machines": clients, "processes": 1}}, workload=kind | workload,
    )  # fmt: skip


def planned_of(scheme="saw", clients=4, **workload):
    built = draft(scheme, clients, **workload).build()
    facts = SchemeFacts.of(Scheme.registry[scheme])
    return built.workload, plan(built.workload, clients, Streams(1), facts)


def ran(draft):
    built = draft.build()
    return run_variant(built, built.variants()[0])


def shares(planned):
    counts = Counter(o.f for operations in planned for o in operations)
    return {f: count / counts.total() for f, count in counts.items()}


def refused(**workload):
    scheme, clients = workload.pop("scheme", "saw"), workload.pop("clients", 4)
    with pytest.raises(InputError) as caught:
        draft(scheme, clients, **workload).build()
    return str(caught.value)


def test_any_share_of_reads():
    _, planned = planned_of(reads=0.7, operations=20_000)
    assert shares(planned)["get"] == pytest.approx(0.7, abs=0.02)


def test_operations_in_phases_come_one_kind_after_the_other():
    _, (operations,) = planned_of(clients=1, shares={"put": 0.25, "get": 0.75}, order="phases", operations=40)
    assert [one.f for one in operations] == ["put"] * 10 + ["get"] * 30
    assert "expected kind: mix, with shares of its operations" in refused(mix="a", order="phases")


@pytest.mark.parametrize("mix", ["a", "b", "update-only"])
def test_a_share_draws_what_the_mix_of_that_share_draws(mix):
    share = {"a": 0.5, "b": 0.95, "update-only": 0.0}[mix]
    assert planned_of(mix=mix)[1] == planned_of(reads=share)[1]


def test_load_writes_every_key_once_and_none_is_there_before():
    workload, planned = planned_of(mix="load", keys=50, operations=50, clients=3)
    assert sorted(int(o.object[1:]) for operations in planned for o in operations) == list(range(50))
    assert len(initial_values(workload)) == 0 and len(objects(workload, planned)) == 50


def test_new_keys_are_new_and_all_different():
    workload, planned = planned_of(mix="d", operations=4000)
    written = [o.object for operations in planned for o in operations if o.f == "put"]
    assert len(set(written)) == len(written) and min(int(name[1:]) for name in written) == 40
    assert shares(planned)["put"] == pytest.approx(0.05, abs=0.02)
    assert set(written) <= set(objects(workload, planned)) and len(initial_values(workload)) == 40


def test_the_latest_keys_are_read_most_and_no_key_before_it_is_there():
    _, planned = planned_of(mix="d", operations=4000)
    for operations in planned:
        there = {f"k{number}" for number in range(40)}
        for o in operations:
            there |= {o.object} if o.is_update else set()
            assert o.object in there
    reads = Counter(o.object for operations in planned for o in operations if not o.is_update)
    assert reads["k39"] > 2 * reads["k5"]


def test_a_read_modify_write_reads_the_key_that_it_writes():
    _, planned = planned_of(mix="f", operations=400)
    for operations in planned:
        for before, o in pairwise(operations):
            assert not o.is_update or (before.f, before.object) == ("get", o.object)
    assert shares(planned)["put"] == pytest.approx(1 / 3, abs=0.1)


def test_inserts_are_run_and_read_again():
    result = ran(draft(mix="d", operations=60))
    assert {o.outcome for o in result.history.operations} == {"ok"}
    value = {o.object: o.argument for o in result.history.operations if o.f == "put"}
    found = [(value.get(o.object, 0), o.result) for o in result.history.operations if o.f == "get"]
    assert all(expected == result for expected, result in found)


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "verdict"), [("saw", "holds"), ("client-active", "violated")])
def test_a_power_failure_takes_a_new_key_back_only_where_nobody_flushed_it(scheme, verdict):
    new = draft(scheme, 2, mix="load", keys=4, operations=4)
    built = new.build()
    report = explore(ran(new), built, built.variants()[0], examples=())
    assert report.states > 10 and report.exhaustive and report.verdicts["no_lost_ack"] == verdict


@pytest.fixture
def scanning(registry):
    class Scanning(Saw, name="scanning"):
        scans = True

        class Client(Saw.Client):
            def perform(self, session, request):
                found = []
                for step in request.steps:
                    found.append((yield from super().perform(session, Request((step,)))))
                return tuple(found) if len(found) > 1 else found[0]

    return Scanning


def test_a_scan_is_one_request_of_keys_that_follow_each_other(scanning):
    _, planned = planned_of("scanning", mix="e", keys=30, operations=200, scan_length=5)
    batches = [
        [int(o.object[1:]) for o in same]
        for operations in planned
        for batch, same in groupby(operations, lambda o: o.batch)
        if batch is not None
    ]
    assert all(keys == list(range(keys[0], keys[0] + len(keys))) and keys[-1] < 30 for keys in batches)
    assert {len(keys) for keys in batches} == {1, 2, 3, 4, 5}
    result = ran(draft("scanning", mix="e", keys=10, operations=40, scan_length=5))
    assert all(o.outcome == "ok" and o.result == 0 for o in result.history.operations if o.f == "get")


def test_what_a_scheme_cannot_is_refused_with_what_it_can():
    assert "found mix e for saw (operations: put, get), expected schemes with scans" in refused(mix="e")
    assert "found inserts for line over no-flush (operations: put, get), expected schemes with an insert" in refused(
        scheme="line over no-flush", inserts=0.1, reads=0.9, value="48 B"
    )
    assert "found 'push', expected an operation of saw whose arguments can be drawn: put, get" in refused(
        shares={"push": 1.0}
    )
    assert "found 5 for saw, expected 0: its state does not depend" in refused(mix="a", past=5)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"reads": 0.9, "inserts": 0.2}, "0.2, 1.1 with the other shares, expected shares of 1 in sum at most"),
        ({"mix": "a", "reads": 0.5}, "found mix and reads, expected one of them"),
        ({}, "workload.mix: found nothing, expected the mix of operations: a, b, c"),
        ({"shares": {"put": 0.5}}, "found 0.5 in sum, expected shares of 1 in sum"),
        ({"mix": "a", "loaded": 41}, "workload.loaded: found 41, expected at most the 40 keys"),
        ({"mix": "a", "loaded": 0}, "found no key, expected keys below k0: so many are loaded"),
        ({"mix": "a", "groups": [{"processes": 3}]}, "found groups of 3 processes, expected the 4 client processes"),
        ({"mix": "a", "groups": [{"processes": 4, "first": 39, "keys": 2}]}, "groups[0].keys: found keys up to k40"),
        ({"mix": "a", "groups": [{"proceses": 4}]}, "groups[0].proceses: found the unknown key 'proceses'"),
    ],
)  # fmt: skip
def test_a_wrong_workload(workload, said):
    assert said in refused(**workload)


def test_groups_have_keys_mix_and_beginning_of_their_own():
    groups = [
        {"processes": 1, "reads": 1.0, "keys": 10},
        {"processes": 3, "begin": "10 us", "mix": "update-only", "first": 10, "keys": 5, "operations": 9},
    ]
    _, planned = planned_of(mix="a", groups=groups)
    assert {o.f for o in planned[0]} == {"get"} and len(planned[0]) == 100
    assert all(int(o.object[1:]) < 10 for o in planned[0])
    assert [len(operations) for operations in planned[1:]] == [3, 3, 3]
    assert all(o.f == "put" and 10 <= int(o.object[1:]) < 15 for operations in planned[1:] for o in operations)
    assert [operations[0].not_before_ps for operations in planned] == [0, 10**7, 10**7, 10**7]
    result = ran(draft(mix="a", groups=groups))
    late = [o for o in result.history.operations if o.process]
    assert len(late) == 9 and min(o.invoke_ps for o in late) == 10**7


def test_injected_work_takes_the_servers_time_and_nobody_elses():
    plain, busy = (ran(draft(mix="update-only", clients=1, operations=5, **more)) for more in ({}, {"work": "100 us"}))
    latency = [result.latency_ps["put"].mean() for result in (plain, busy)]
    assert latency[1] - latency[0] == pytest.approx(2 * 10**8, rel=1e-3)  # a put is two requests: room, and persist


def test_a_past_shapes_the_state_of_what_the_run_touches(registry):
    class Aged(Saw, name="aged"):
        seen: ClassVar[list] = []

        def age(self, past):
            Aged.seen = past

    built = draft("aged", 2, mix="a", operations=10, past=20_000).build()
    facts = SchemeFacts.of(Aged)
    planned = plan(built.workload, 2, Streams(1), facts)
    run_variant(built, built.variants()[0])
    past = Aged.seen
    assert past == draw_past(built.workload, 2, Streams(1), planned)
    touched = {o.object for operations in planned for o in operations}
    assert {o.object for o in past} == touched and {o.process for o in past} == {0, 1}
    assert sum(o.f == "put" for o in past) / len(past) == pytest.approx(0.5, abs=0.05)
    fresh = plan(draft("aged", 2, mix="a", operations=10).build().workload, 2, Streams(1), facts)
    assert planned == fresh  # the past changes no draw of the run


def test_limits_are_refused_with_both_numbers(registry):
    class Datagram(Saw, name="datagram"):
        limits = Limits(4056, 2, "a datagram of 4096 B")

    assert refused(scheme="datagram", mix="a", clients=3).endswith(
        "roles.client: found 3 client processes, expected at most 2 of datagram: a datagram of 4096 B"
    )
    said = refused(scheme="datagram", mix="a", clients=2, value="8 KiB")
    assert "workload.value: found '8 KiB', expected at most 4056 B with datagram: a datagram of 4096 B" in said


def test_a_case_of_new_keys_says_what_was_there():
    workload, planned = planned_of(mix="load", keys=4, operations=4, clients=2)
    data = schedule_data(workload, [o for operations in planned for o in operations])
    assert (data["keys"], data["loaded"]) == (4, 0)


FAST = """
import re, sys, time
from pathlib import Path
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
keys, value = int(sys.argv[1]), sys.argv[2]
built = Draft.new("x", scenario="x", schemes=sys.argv[3], platform="optane-adr", ddio="on",
    roles={"client": {"machines": 1, "processes": 2}},
    workload={"kind": "ycsb", "mix": "a", "keys": keys, "value": value, "operations": 8}).build()
run_variant(built, built.variants()[0])
# Not ru_maxrss, which begins with what the process had that started this one.
print(time.process_time(), re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def started(keys, value, scheme):
    run = subprocess.run(
        [sys.executable, "-c", FAST, str(keys), value, scheme], capture_output=True, check=True, text=True
    )
    seconds, kib = run.stdout.split()
    return float(seconds), int(kib)


@pytest.mark.long
def test_many_keys_cost_nothing_until_they_are_touched():
    few, many = started(1_000, "64 B", "saw"), started(300_000, "64 KiB", "saw")
    assert many[1] < few[1] + 100_000  # KiB
    assert many[1] < 600_000
