"""HERD and pDPM-Central: round trips, what survives, and what a twin of the coordinator loses."""

from __future__ import annotations

import pytest

from rpsim.protocols.pdpm.central import LOST as LOST_NODES
from rpsim.protocols.pdpm.central import Central, Coordinator
from rpsim.protocols.rflush.messages import DONE, REFUSED
from rpsim.scenarios.run.inject import run_with_fault

from ...small import get, put
from .nodes import COMMITTED, DURABLE, LOST, ran, small, violated, waiting


class SwitchUnflushed(Central, name="pdpm-central-twin-switch-unflushed"):
    """An entry's location is where the coordinator's caches are."""

    title = "the switch of a location is not flushed"

    class Coordinator(Coordinator):
        def switch(self, thread, number, word):
            before = int.from_bytes((yield from thread.load(self.location(number), 8)), "little")
            yield from thread.store(self.location(number), word.to_bytes(8, "little"))
            return before


class FreedAtOnce(Central, name="pdpm-central-twin-freed-at-once"):
    """A space is used again while a reader is in it, and while the entry still points there."""

    title = "the old space is free before the location is switched"

    class Coordinator(Coordinator):
        def put(self, thread, links, number, value):
            before = int.from_bytes((yield from thread.load(self.location(number), 8)), "little")
            self.free = [type(free)() for free in self.free]
            self.give_back(before)
            return (yield from super().put(thread, links, number, value))


def trips(result, f):
    return {one.depth / 2 for one in result.took[f]}


@pytest.mark.parametrize("f, mix", [("get", "c"), ("put", "update-only")])
@pytest.mark.parametrize(
    "name, found",
    [
        ("herd", 1),
        ("herd-bf", 1),
        ("pdpm-central", 2),
        ("pdpm-central[replicas=2]", 2),
        ("pdpm-central[durable=commit]", 2),
    ],
)
def test_round_trips_are_those_of_table_1(name, found, f, mix):
    assert trips(ran(name, mix, machines=1), f) == {found}


def test_slower_cores_a_hop_further_take_longer():
    latency = {name: ran(name, "c", machines=1).latency_ps["get"].mean() for name in ("herd", "herd-bf")}
    assert latency["herd-bf"] > 1.3 * latency["herd"]


def test_what_nobody_flushes_is_lost():
    assert LOST in violated("herd", "server[0] power", domain="adr")
    assert violated("herd", "server[0] process", operations=4) == set()


@pytest.mark.parametrize("ddio", ["on", "off"])
@pytest.mark.parametrize("domain", ["adr", "eadr"])
def test_a_location_may_outlive_the_value_that_it_points_to(domain, ddio):
    assert {COMMITTED, LOST} <= violated("pdpm-central", "all power", domain=domain, ddio=ddio)
    assert violated("pdpm-central[durable=commit]", "all power", domain=domain, ddio=ddio) == set()


@pytest.mark.parametrize("fault", ["all power", "coordinator[0] power", "coordinator[0] process"])
def test_under_the_papers_premise_nothing_is_lost(fault):
    assert violated("pdpm-central", fault, "a", operations=6) == set()


def test_the_coordinators_power_alone_loses_nothing_on_adr():
    assert violated("pdpm-central", "coordinator[0] power", "a", operations=6, domain="adr") == set()


def test_without_the_coordinator_nothing_can_be_read_and_whoever_tries_may_come_again():
    assert violated("pdpm-central", "coordinator[0] lost", operations=4) == {LOST, DURABLE}
    assert waiting("pdpm-central", "coordinator[0] lost", "a", operations=4) == 0


@pytest.mark.parametrize("twin", [SwitchUnflushed, FreedAtOnce])
def test_a_twin_of_the_coordinator_is_caught(twin):
    work = [put(0, "k0"), put(0, "k0"), put(1, "k0"), get(1, "k0")]
    assert DURABLE in violated(
        f"{twin.name}[durable=commit]", "all power", work, keys=1, nodes=1, domain="adr", value="64 B"
    )
    assert violated("pdpm-central[durable=commit]", "all power", work, keys=1, nodes=1, domain="adr") == set()


@pytest.mark.long
def test_a_node_that_is_lost_has_a_copy_elsewhere():
    assert LOST in violated("pdpm-central", "data[0] lost", operations=4)
    assert violated("pdpm-central[replicas=2]", "data[0] lost", operations=4) == set()


@pytest.mark.parametrize("copies, keys, kinds", [(2, 4, {DONE}), (1, 12, {DONE, REFUSED})])
def test_puts_go_on_where_a_node_is_lost_and_say_so_where_there_is_no_room_left(copies, keys, kinds, monkeypatch):
    """With one copy all keys have to go to the node that is left, which has room for some of them."""
    found, execute = set(), Coordinator.execute

    def noting(self, *request):
        reply = yield from execute(self, *request)
        found.add(reply.kind)
        return reply

    monkeypatch.setattr(Coordinator, "execute", noting)
    work = [put(0, f"k{turn % keys}", 20_000 * turn) for turn in range(2 * keys)]
    name = f"pdpm-central[replicas={copies}]"
    made = small(name, work, keys=keys, machines=1, crash={"fault": "data[0] lost"})
    (variant,) = made.variants()
    after = run_with_fault(made, variant, 1_000_000)
    puts = [one.outcome for one in after.history.operations if one.f == "put"]
    assert (set(puts) == {"ok"}) == (copies == 2)
    assert found - {LOST_NODES} == kinds and (LOST_NODES in found) == (copies == 1)
