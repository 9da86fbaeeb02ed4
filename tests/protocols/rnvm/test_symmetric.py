"""Symmetric modes: the structure in the host's own memory, durable by its flushes alone."""

from __future__ import annotations

import pytest
from typing_extensions import override

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.naming import Mode
from rpsim.protocols.registry import scheme
from rpsim.protocols.rnvm.modes import Symmetric
from rpsim.protocols.rnvm.symmetric import LocalSpace, SymmetricFrontEnd
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import scenario_from_data
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.testing.checks import scenario_of

from ...small import run
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


@pytest.fixture
def unflushed():
    class Twin(Symmetric, name="symmetric-unflushed"):
        title = "the same without flushes"
        role_types = {**Symmetric.role_types, "client": UnflushedFrontEnd}  # noqa: RUF012

    yield Twin.name
    del Mode.registry[Twin.name]


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
