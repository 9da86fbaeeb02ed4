"""A client dies, also in the middle of a message: what lands, who goes on, which stores survive it.

Why they do: ``client-active`` has published before its WRITE, so that readers follow the entry to bytes that never
come; ``saw`` publishes when its client says that the WRITE is complete, which a dead one does not; eFactory has
published too, but a get looks at the flag, and the server at the checksum.
"""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.inject import instants, run_with_fault
from rpsim.validation.crash.explore import explore
from rpsim.validation.testing import crash_report

from ..small import get, only_variant, put, scenario, ycsb
from .fault_mutants import registered

COMMITTED, LOST, LINEARIZABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.LINEARIZABLE
ALL = {COMMITTED, LOST, LINEARIZABLE}
VALUE, MTU = 4096, 1024


def killed(scheme, work, fault="client[0] power", machines=2, value="4 KiB", **more):
    roles = {"client": {"machines": machines, "processes": more.pop("processes", 1)}}
    crash = {"fault": fault, **more.pop("crash", {})}
    return scenario(scheme, work, "optane-adr-roce", value=value, crash=crash, roles=roles, **more)


def violated(made, examples=False):
    variant = only_variant(made)
    report = explore(run_variant(made, variant), made, variant, examples=None if examples else ())
    assert report.exhaustive and report.executed
    return {condition for condition, verdict in report.verdicts.items() if verdict is Verdict.VIOLATED}, report


def arrived_bytes(aftermath):
    chunks = aftermath.result.system.trace.chunks
    return sum(len(chunk.data) for chunk in chunks if chunk.writer.startswith("WRITE"))


def test_at_every_instant_a_prefix_of_whole_packets_has_landed():
    made = killed("client-active", [put(0, "k0")])
    variant = only_variant(made)
    _, every = instants(made, variant)
    landed = [arrived_bytes(run_with_fault(made, variant, at_ps)) for at_ps in every]
    whole = 40 + VALUE  # key and length lie before the value
    assert landed == sorted(landed)
    assert sorted(set(landed)) == [0, MTU, 2 * MTU, 3 * MTU, 4 * MTU, whole]


def test_the_replay_is_the_run_up_to_the_fault_and_the_others_run_on_to_their_ends():
    made = killed("saw", ycsb(12), machines=3, keys=2)
    variant = only_variant(made)
    before, every = instants(made, variant)
    at_ps = every[len(every) // 2]
    after = run_with_fault(made, variant, at_ps)

    def seen(history):
        return [(kind, time_ps, o.number) for time_ps, kind, o in history.events() if time_ps <= at_ps]

    assert seen(after.history) == seen(before.history)
    assert after.finished
    survivors = [o for o in after.history.operations if o.process in (1, 2)]
    assert len(survivors) == 8
    assert all(o.outcome == "ok" for o in survivors)
    assert [(c.node, c.process, c.at_ps) for c in after.history.crashes] == [("client", 0, at_ps)]


def test_what_the_dead_client_had_under_way_stays_open():
    made = killed("saw", [put(0, "k0"), get(0, "k0"), get(1, "k0", at_ns=20_000)])
    variant = only_variant(made)
    after = run_with_fault(made, variant, 3_000_000)
    first, *others = [o for o in after.history.operations if o.process < 2]
    assert (first.f, first.outcome, first.return_ps) == ("put", None, None)
    assert [(o.process, o.f) for o in others] == [(1, "get")]


def test_a_machine_dies_with_all_of_its_processes_and_a_process_alone():
    work = [put(process, f"k{process}") for process in range(4)]
    shared = {"machines": 2, "processes": 2, "keys": 4}
    machine = run_with_fault(*_both(killed("saw", work, "client[1] power", **shared)), 1_000_000)
    process = run_with_fault(*_both(killed("saw", work, "client[1] process", **shared)), 1_000_000)
    assert {c.process for c in machine.history.crashes} == {2, 3}
    assert {c.process for c in process.history.crashes} == {1}
    assert [o.process for o in process.history.operations if o.f == "put" and o.outcome == "ok"] == [0, 2, 3]


def _both(made):
    return made, only_variant(made)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["client[0] power", "client[0] process"])
def test_which_stores_survive_it(fault):
    found = {scheme: violated(killed(scheme, [put(0, "k0")], fault))[0] for scheme in ("client-active", "saw")}
    assert found == {"client-active": ALL, "saw": set()}
    assert violated(killed("efactory", [put(0, "k0"), get(1, "k0", at_ns=8000)], fault))[0] == set()


@pytest.mark.long
@pytest.mark.parametrize("mutant", ["efactory-mutant-no-fallback", "saw-mutant-published-at-once"])
def test_a_store_that_lacks_what_saves_it_is_refuted(mutant):
    with registered():
        assert violated(killed(mutant, [put(0, "k0")]))[0] == ALL


@pytest.mark.long
def test_the_counterexample_says_which_bytes_had_arrived():
    _, report = violated(killed("client-active", ycsb(8), machines=2, keys=1), examples=True)
    example = next(c for c in report.counterexamples if c.condition is COMMITTED)
    assert example.operations == 1
    (fate,) = example.lost
    assert fate.writer.startswith("WRITE, put k0 = v1 by client 0")
    assert fate.reason == "bytes 0 to 1023 of 4136 arrive; client[0] loses power before the rest has left"
    assert str(example.recovered) == "torn (words 0-122 of v1, words 123-511 zeros)"


@pytest.mark.long
def test_an_acknowledged_value_that_the_dead_client_s_successor_hides_is_lost():
    _, report = violated(killed("client-active", [put(1, "k0"), put(0, "k0", at_ns=20_000)]), examples=True)
    example = next(c for c in report.counterexamples if c.condition is LOST)
    assert example.operations == 2
    assert "but put k0 = v1 had returned at" in example.explanation


@pytest.mark.long
def test_a_sample_of_the_instants_is_spread_evenly_and_never_says_holds():
    made = killed("saw", ycsb(12), machines=3, keys=2, crash={"instants": 5})
    variant = only_variant(made)
    report = explore(run_variant(made, variant), made, variant)
    assert (report.states, report.exhaustive) == (5, False)
    assert report.over.startswith(f"5 of {report.instants} instants")
    assert set(report.verdicts.values()) == {Verdict.UNDECIDED}


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["saw", "client-active"])
def test_monotonic_and_durable_are_judged_if_asked_for(scheme):
    """No id of a process is used again: then durable linearizability is linearizability."""
    asked = crash_report(
        Scheme.registry[scheme], "optane-adr", conditions=["monotonic", "durable"], fault="client[0] process",
        examples=False, workload={"mix": "a", "operations": 6}, ddio="on",
    ).verdicts  # fmt: skip
    assert set(asked) == {*ALL, Condition.MONOTONIC, Condition.DURABLE}
    assert asked[Condition.DURABLE] is asked[LINEARIZABLE]
    assert asked[LINEARIZABLE] is (Verdict.HOLDS if scheme == "saw" else Verdict.VIOLATED)
