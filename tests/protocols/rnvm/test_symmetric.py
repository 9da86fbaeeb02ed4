"""Symmetric modes: the structure in the host's own memory, durable by its flushes alone."""

from __future__ import annotations

import pytest
from typing_extensions import override

from rpsim.app.main import main
from rpsim.protocols.guarantees import Condition
from rpsim.protocols.naming import Mode
from rpsim.protocols.registry import scheme
from rpsim.protocols.rnvm.frontend import FrontEnd
from rpsim.protocols.rnvm.modes import Symmetric, SymmetricB
from rpsim.protocols.rnvm.symmetric import LocalSpace, SymmetricBatchFrontEnd, SymmetricFrontEnd
from rpsim.scenarios.run.experiment import AssembledVariant, run_variant
from rpsim.scenarios.run.inject import Strike, run_struck
from rpsim.scenarios.schema.load import scenario_from_data
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.matrix.guarantees import every
from rpsim.validation.testing.checks import scenario_of

from ...small import only_variant, run, scenario
from .chain import Chain
from .test_modes import expected, find, insert, vary

CHAIN = Chain.name
LOST, COMMITTED = Condition.NO_LOST_ACK, Condition.COMMITTED
SMALL = [insert("k0"), insert("k1"), insert("k0"), find("k1")]
FAULT = "client[0] power"


class Unflushed(LocalSpace):
    """Broken: stores what it changes, and flushes nothing."""

    @override
    def write(self, address, data):
        self.keep_held(address, data)
        self.writes.append((address, data))
        yield from self.link.thread.store(address, data)


class UnflushedFrontEnd(SymmetricFrontEnd):
    kind = Unflushed


class ForgetfulFrontEnd(SymmetricBatchFrontEnd):
    """Broken: with the connection to the log goes what waits here."""

    holding = FrontEnd.holding
    settle = SymmetricFrontEnd.settle


class UnsettledFrontEnd(SymmetricBatchFrontEnd):
    """Broken: who takes a structure over leaves the batch of a living process where it is."""

    settle = SymmetricFrontEnd.settle


def twin(base, front_end):
    class Twin(base, name=f"{base.name}-{front_end.__name__.lower()}"):
        title = "a broken twin"
        role_types = {**base.role_types, "client": front_end}  # noqa: RUF012

    yield Twin.name
    del Mode.registry[Twin.name]


@pytest.fixture
def unflushed():
    yield from twin(Symmetric, UnflushedFrontEnd)


@pytest.fixture
def forgetful():
    yield from twin(SymmetricB, ForgetfulFrontEnd)


@pytest.fixture
def unsettled():
    yield from twin(SymmetricB, UnsettledFrontEnd)


def violated(name, fault, work=SMALL, domain="adr", **more):
    """What the command finds violated, by a walk of all states."""
    more = {"vary": vary(domain), "keys": 2, "crash": {"fault": fault}} | more
    made = scenario(name, work, **more)
    report = explore(run(name, work, **more), made, only_variant(made))
    assert report.exhaustive
    return {condition for condition, verdict in report.verdicts.items() if verdict == "violated"}


def refuted(name, work=SMALL, domain="adr", **more):
    made = run(name, work, vary=vary(domain), keys=2, crash={"fault": FAULT}, **more)
    walked = Explorer(made, conditions={LOST, COMMITTED}).walk()
    assert walked.exhaustive and walked.states > 2
    return set(walked.first)


@pytest.mark.parametrize("mode", ["symmetric", "symmetric-b", "symmetric-b[batch=3]", "symmetric[allocator=rpc]"])
def test_every_find_is_that_of_a_dictionary(mode):
    work = [insert(f"k{turn % 3}") if turn % 2 else find(f"k{turn % 5}") for turn in range(40)]
    history = run(f"{CHAIN} on {mode}", work, keys=5, vary=vary(), crash={"fault": FAULT}).history
    assert [one.result for one in history.operations if one.f == "find"] == expected(work)


@pytest.mark.parametrize("domain", ["adr", "eadr", "wsp"])
def test_what_the_host_flushed_is_there_after_its_power_failure(domain):
    assert refuted(f"{CHAIN} on symmetric", domain=domain) == set()


def test_without_flushes_it_is_lost(unflushed):
    assert LOST in refuted(f"{CHAIN} on {unflushed}")


def test_a_batch_that_waits_goes_with_its_host():
    assert refuted(f"{CHAIN} on symmetric-b[batch=9]") == {LOST}
    assert refuted(f"{CHAIN} on symmetric-b[batch=1]") == set()


@pytest.mark.long
@pytest.mark.parametrize("fault", ["no fault", "client[0] process", FAULT, f"{FAULT} then server[0] process"])
def test_every_fault_is_explored_and_leaves_what_the_host_has_stored(fault):
    assert violated(f"{CHAIN} on symmetric", fault) == set()
    if fault != "no fault":
        assert LOST in violated(f"{CHAIN} on symmetric-b[batch=9]", fault)


@pytest.mark.long
@pytest.mark.parametrize("name", ["bst on symmetric", "queue on symmetric-b"])
def test_the_matrix_has_a_verdict_on_each_of_its_faults(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for fault in ("client[0] process", "server[0] power in recovery"):
        how = ["--platforms", "rnvm-testbed", "--faults", fault, "--quick", "--jobs", "1"]
        assert main(["matrix", "schemes", name, *how]) == 0
    assert "undecided" not in capsys.readouterr().out


def test_the_power_of_the_host_is_among_its_faults():
    assert FAULT in every(scheme(f"{CHAIN} on symmetric")) and FAULT not in every(scheme(f"{CHAIN} on rnvm-r"))


@pytest.mark.long
@pytest.mark.parametrize("fault", [FAULT, f"{FAULT} then server[0] process"])
def test_what_the_host_does_not_flush_is_lost_with_its_power(unflushed, fault):
    assert LOST in violated(f"{CHAIN} on {unflushed}", fault)


def found_behind_the_end_of_the_log(mode):
    """What a host reads that went on inserting while the process died to which it sends its log."""
    work = [insert(f"k{turn}") for turn in range(4)] + [{**find(f"k{turn}"), "at": "200 us"} for turn in range(4)]
    work = {"kind": "schedule", "loaded": 0, "operations": work}
    made = scenario(f"{CHAIN} on {mode}", work, keys=4, vary=vary(), crash={"fault": "server[0] process"})
    experiment = AssembledVariant(made, only_variant(made), 0, watched=True)
    history = run_struck(experiment, [Strike(100_000_000, made.crash.fault.parts)]).history
    assert all(one.outcome == "ok" for one in history.operations)
    return [one.result for one in history.operations if one.f == "find"]


@pytest.mark.parametrize("mode", ["symmetric", "symmetric-b[batch=9]", "symmetric-b[batch=3]"])
def test_a_host_loses_nothing_with_the_machine_of_its_log(mode):
    assert found_behind_the_end_of_the_log(mode) == [1, 2, 3, 4]


def test_a_host_that_drops_what_waits_with_the_connection_has_lost_it(forgetful):
    assert found_behind_the_end_of_the_log(f"{forgetful}[batch=9]") == [None] * 4


def test_the_log_goes_on_when_its_machine_listens_again():
    work = [insert("k0"), {**insert("k1"), "at": "200 us"}]
    made = scenario(f"{CHAIN} on symmetric", work, keys=2, vary=vary(), crash={"fault": "server[0] process"})

    def lines(*strikes):
        result = run_struck(AssembledVariant(made, only_variant(made), 0, watched=True), strikes)
        result.system.clock.run_until(result.system.clock.now_ps + 10**9)
        keeper = result.scheme.roles["server"][0]
        start = keeper.rings[0].address - keeper.pm.base
        return [keeper.pm.space.read(result.system.clock.now_ps, start + 64 * line, 64) for line in range(8)]

    assert lines(Strike(100_000_000, made.crash.fault.parts)) == lines()
    assert sum(map(any, lines())) == 2


@pytest.mark.long
@pytest.mark.parametrize("fault", ["server[0] process", "server[0] power"])
def test_who_takes_a_structure_over_from_a_living_process_has_its_batch(unsettled, fault):
    work = [insert(f"k{turn % 2}") for turn in range(7)]
    assert violated(f"{CHAIN} on symmetric-b[batch=3]", fault, work) == set()
    assert LOST in violated(f"{CHAIN} on {unsettled}[batch=3]", fault, work)


@pytest.mark.long
def test_a_queue_that_is_torn_ends_the_read_that_empties_it():
    """A batch is stored while its process dies: what a fresh client takes out then begins again and again."""
    work = [{"process": 0, "f": f, "object": "k0"} for f in ["enqueue"] * 3 + ["dequeue"] * 2 + ["enqueue"] * 3]
    assert LOST in violated("queue on symmetric-b[batch=4]", "client[0] process", work, value="16 B", keys=1)


@pytest.mark.parametrize("mode", ["symmetric", "symmetric-b[batch=4]"])
def test_what_a_host_takes_out_is_free_for_what_it_puts_in(mode):
    def slabs(pairs):
        work = [{"process": 0, "f": f, "object": "k0"} for _ in range(pairs) for f in ("enqueue", "dequeue")]
        made = run(f"queue on {mode}", work, value="56 B", vary=vary(), crash={"fault": FAULT})
        (area,), pm = made.scheme.roles["client"][0].areas, made.system.nodes["client"][0].memory["pm"]
        bits = pm.space.read(made.system.clock.now_ps, area.bits - pm.base, 64)
        return int.from_bytes(bits, "little").bit_count()

    assert slabs(20) == slabs(80) <= 2


def test_the_log_is_sent_and_never_awaited():
    """An update that is awaited takes twice as long; the record is there all the same."""
    made = run(f"{CHAIN} on symmetric", SMALL, keys=2, vary=vary(), crash={"fault": FAULT})
    last = [one.return_ps - one.invoke_ps for one in made.history.operations if one.f == "insert"][-1]
    awaited = run(f"{CHAIN} on rnvm-r", SMALL, keys=2, vary=vary()).history.operations[2]
    assert last < (awaited.return_ps - awaited.invoke_ps) / 2
    keeper = made.scheme.roles["server"][0]
    first = keeper.pm.space.read(made.system.clock.now_ps, keeper.rings[0].address - keeper.pm.base, 64)
    assert any(first)


def test_the_structure_has_one_machine():
    with pytest.raises(InputError, match="one: the structure is in its own memory"):
        workload = {"kind": "schedule", "keys": 2, "value": "8 B", "operations": SMALL, "loaded": 1}
        made = scenario_of(scheme(f"{CHAIN} on symmetric"), workload=workload, clients=2, ddio="on", fault=FAULT)
        draft = made.resolved()
        draft["roles"]["client"] |= {"machines": 2, "processes": 1}
        made = scenario_from_data(draft, "test")
        run_variant(made, made.variants()[0])
