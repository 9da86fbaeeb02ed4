"""HyperLoop: adapters alone carry an operation, what the primitive makes of it, and what its twins lose."""

from __future__ import annotations

from pathlib import Path

import pytest

import rpsim
from rpsim.protocols.registry import scheme
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.failing import performed
from rpsim.sim.errors import InputError

from ..several import LOST, ran, violated
from . import twins

PLATFORMS = [("optane-adr", "on"), ("optane-adr", "off"), ("optane-eadr", "on"), ("optane-eadr", "off")]
FLUSH = "over ibta-flush-persistent"
PRIMITIVES = Path(rpsim.__file__).parent / "protocols" / "primitives"
SMALL = "[replicas=2, posted=4]"
assert twins


def with_cores_away(name, operations=8, away="20 ms"):
    made = Draft.new(
        "away", scenario="away", schemes=[name], vary={"platform": ["optane-adr"], "ddio": ["off"]},
        workload={"kind": "ycsb", "mix": "update-only", "keys": 4, "value": "64 B", "operations": operations},
        outages=[{"core": f"replica[{number}] core 0", "at": "0 ps", "for": away} for number in range(3)],
    ).build()  # fmt: skip
    (variant,) = made.variants()
    return run_variant(made, variant)


@pytest.mark.parametrize("over", ["", FLUSH])
def test_a_chain_of_adapters_goes_on_while_no_replica_has_a_core(over):
    away = with_cores_away(f"hyperloop[posted=32, apply=16] {over}".strip())
    assert max(away.latency_ps["put"]) < 10**8
    assert away.spent["replica"]["cpu_ns"] == 0


def test_and_stands_still_when_its_work_requests_are_used_up():
    away = with_cores_away("hyperloop[posted=4, apply=64]")
    slow = [took > 10**10 for took in away.latency_ps["put"]]
    assert slow.count(True) == 1 and slow.index(True) == 4
    cpus = with_cores_away("chain of 3 over write-imm-cpu-flush")
    assert cpus.latency_ps["put"][0] > 10**10


def test_an_operation_is_one_message_more_than_there_are_replicas():
    """A message to each replica, and the last one's answer; before each message a WRITE and a flush."""
    for replicas in (2, 3, 4):
        result = ran(f"hyperloop[replicas={replicas}, apply=64] {FLUSH}", mix="update-only", operations=12)
        assert result.spent["head"]["verbs"] == 4  # WRITE, FLUSH, message, and the reply to the client
        chain = [replica.node.nic.port.pipe.served for replica in result.scheme.roles["replica"]]
        acknowledgements = 3  # of what comes from the machine before
        assert chain[:-1] == [12 * (3 + acknowledgements)] * (replicas - 1)
        assert chain[-1] == 12 * (1 + acknowledgements)


def test_latency_grows_by_a_hop_for_each_replica():
    p50 = [sorted(ran(f"hyperloop[replicas={n}, apply=64]", mix="update-only").latency_ps["put"])[6] for n in (2, 3, 4)]
    assert p50[1] - p50[0] == pytest.approx(p50[2] - p50[1], rel=0.02)


@pytest.mark.parametrize("primitive", ["gflush", "no-flush", "read-after-write", "ibta-flush-persistent", "rdfence"])
def test_all_replicas_hold_the_same_through_many_rounds_of_the_log(primitive):
    name = f"hyperloop[log=8, apply=4, posted=4] over {primitive}"
    result = ran(name, mix="a", operations=60, clients=3, keys=3, value="100 B")
    assert all(operation.outcome == "ok" for operation in result.history.operations)
    now_ps, replicas = result.system.clock.now_ps, result.scheme.roles["replica"]
    assert len({one.pm.space.read(now_ps, one.base - one.pm.base, one.length) for one in replicas}) == 1
    assert result.scheme.roles["head"][0].applied > 8


def test_a_lock_that_one_replica_has_kept_is_taken_at_all_before_an_entry_is_applied():
    name = f"{twins.ReleaseLost.name}[replicas=3, log=8, apply=2, posted=4]"
    chain = ran(name, mix="update-only", operations=8, keys=1).scheme.roles["head"][0].locals
    assert len(chain.copied) > 4 and all(taken == {0, 1, 2} for taken in chain.copied)


def test_an_entry_that_is_applied_is_three_operations_and_all_of_them_move_the_head_by_one():
    head = ran("hyperloop[apply=6]", mix="update-only", operations=7).scheme.roles["head"][0]
    assert (head.applied, head.locals.operation, head.writes.operation) == (6, 3 * 6, 7 + 1)


# what survives --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_a_read_of_no_bytes_makes_nothing_durable(platform, ddio):
    assert LOST in violated(f"hyperloop{SMALL}", "all power", platform=platform, ddio=ddio)


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_over_a_flush_that_persists_nothing_is_lost(platform, ddio):
    assert violated(f"hyperloop{SMALL} {FLUSH}", "all power", platform=platform, ddio=ddio) == set()


def slow(folder: Path, of: str = "ibta-flush-persistent") -> str:
    """A primitive whose adapter takes 20 us before it begins to flush."""
    first, *rest = (PRIMITIVES / f"{of}.yaml").read_text(encoding="utf-8").split("- {id: ask,")
    step = "- {id: slow, at: responder nic, do: compute, takes: 20 us, note: a slow engine}\n"
    path = folder / "slow.yaml"
    text = "- {id: ask,".join([first + step, *rest]).replace(f"name: {of}", "name: slow")
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("primitive", ["ibta-flush-persistent", "rdfence", "rcommit"])
def test_an_acknowledgement_comes_behind_the_flush_of_each_replica(primitive, tmp_path):
    """However slow it is: no fence waits for it, but the WAIT does."""
    name = f"hyperloop[replicas=3, apply=64] over {slow(tmp_path, primitive)}"
    assert min(ran(name, mix="update-only").latency_ps["put"]) > 3 * 20 * 10**6


def test_over_a_flush_whose_engine_is_slow_nothing_is_lost_unless_a_fence_stands_for_the_wait(tmp_path):
    over, more = f"{SMALL} over {slow(tmp_path)}", {"operations": 1, "mix": "update-only"}
    assert violated(f"hyperloop{over}", "all power", **more) == set()
    assert LOST in violated(f"{twins.FencedFlush.name}{over}", "all power", **more)


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_an_adapter_that_asks_the_host_is_as_good_as_on_one_machine(platform, ddio):
    asks = "gflush[adapter=asks the host]"
    alone = violated(f"line over {asks}", "server[0] power", platform=platform, ddio=ddio)
    assert (LOST in alone) == (
        LOST in violated(f"hyperloop{SMALL} over {asks}", "all power", platform=platform, ddio=ddio)
    )


@pytest.mark.parametrize("fault", ["head[0] process", "replica[1] lost", "replica[0] lost"])
def test_one_machine_may_fail(fault):
    assert violated("hyperloop[posted=4]", fault) == set()


@pytest.mark.long
@pytest.mark.parametrize("fault", ["head[0] power", "replica[2] power"])
def test_one_machine_may_be_away(fault):
    assert violated("hyperloop[posted=4]", fault) == set()


@pytest.mark.long
def test_a_replica_may_fail_again_while_the_chain_is_closed_over_it():
    assert violated("hyperloop", "replica[0] power in recovery", operations=1, mix="update-only") == set()


@pytest.mark.long
def test_nothing_is_lost_while_entries_are_applied():
    name = f"hyperloop[replicas=2, posted=4, log=4, apply=1] {FLUSH}"
    assert violated(name, "all power") == set()
    assert violated("hyperloop[posted=4, apply=1]", "replica[1] lost", operations=3) == set()


def test_a_read_behind_a_copy_within_a_replica_pushes_it():
    """Its completion is polled by nobody, but a WAIT goes on by it: then what the READ proves is known."""
    name = "hyperloop[replicas=2, log=4, apply=2, posted=4] over read-after-write"
    more = {"platform": "optane-adr", "ddio": "off", "keys": 1, "mix": "update-only", "operations": 4}
    assert violated(name, "all power", **more) == set()


def with_an_entry_held(name, again, at="2.5 s"):
    """Two puts and a get of the second one's object. The head fails under the first put, whose entry is held for two
    seconds in the first replica's adapter; the fault ``again`` comes ``at`` an instant before the get.
    """
    put, get = {"process": 0, "f": "put"}, {"process": 0, "f": "get", "object": "k1"}
    made = Draft.new(
        "late", scenario="late", schemes=[f"{name}{SMALL} over read-after-write"],
        vary={"platform": ["optane-adr"], "ddio": ["off"]}, roles={"client": {"machines": 1}},
        workload={
            "kind": "schedule", "keys": 2, "value": "8 B",
            "operations": [{**put, "object": "k0"}, {**put, "object": "k1", "at": "1 s"}, {**get, "at": "3 s"}],
        },
        held=[{"machine": "replica[0]", "queue_pair": 5, "for": "2 s"}],
        failures=[{"at": "20 us", "fault": "head[0] power", "down": "5 ms"}, {"at": at, "fault": again}],
        crash={"fault": "no fault"},
    ).build()  # fmt: skip
    (variant,) = made.variants()
    operations = performed(made, variant).history.operations
    assert operations[1].outcome == operations[2].outcome == "ok"
    return operations


@pytest.mark.parametrize("again", ["head[0] process", "replica[1] lost"])
def test_what_a_chain_of_before_has_under_way_is_there_before_the_logs_are_read(again):
    """Else it overwrites the entry of a put that has been acknowledged meanwhile, and the logs are read once more."""
    fenced = with_an_entry_held("hyperloop", again)
    assert fenced[2].result == fenced[1].argument and fenced[0].return_ps > 2 * 10**12
    unfenced = with_an_entry_held(twins.Unfenced.name, again)
    assert unfenced[2].result != unfenced[1].argument and unfenced[1].return_ps < 2 * 10**12


@pytest.mark.parametrize("fault", ["replica[0] power", "replica[0] lost", "replica[1] power"])
def test_a_replica_may_fail_while_the_chains_of_before_are_ended(fault):
    """The head waits for the first replica then, and finds out that it is gone."""
    operations = with_an_entry_held("hyperloop", fault, at="1 s")
    assert operations[2].result == operations[1].argument
    assert ("replica[0]" in fault) == (operations[0].return_ps < 2 * 10**12)


def test_recovery_writes_entries_on_both_sides_of_the_log_s_end():
    name = "hyperloop[log=4, apply=3, posted=4]"
    assert violated(name, "head[0] process", mix="update-only", operations=8, keys=3) == set()


# twins ----------------------------------------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.parametrize(
    "twin, operations",
    [(twins.NoGroupFlush, 2), (twins.HeadFirst, 3), (twins.CopiesUnflushed, 2)],
)
def test_a_twin_without_a_step_is_caught(twin, operations):
    name, more = f"{twin.name}[replicas=2, posted=4, log=4, apply=1] {FLUSH}", {"operations": operations}
    assert violated(name, "all power", **more)


# names ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "primitive", ["write-imm-cpu-flush", "send-cpu-copy", "wflush by SEND", "write-send-cpu-flush"]
)
def test_a_primitive_with_a_cpu_in_it_has_no_place_in_a_chain_of_adapters(primitive):
    with pytest.raises(InputError, match=r"adapters do alone|option of hyperloop"):
        scheme(f"hyperloop over {primitive}")
