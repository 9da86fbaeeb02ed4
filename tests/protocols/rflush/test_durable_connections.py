"""Connections of durable calls: a ring whose client is gone, one who comes back, what lies in a ring that has none."""

from __future__ import annotations

from typing import Any

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.rflush.redolog import NONE, Operator
from rpsim.scenarios.run.experiment import AssembledVariant
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

from ...small import comes, get, only_variant, put, scenario
from .durable_twins import TWINS, registered

FAMILY = ("wflush-rpc", "sflush-rpc", "w-rflush-rpc", "s-rflush-rpc")


@pytest.fixture(autouse=True)
def _twins_are_known():
    with registered():
        yield


def assembled(name: str, work: Any, *, observer: bool = True, **more: Any) -> AssembledVariant:
    made = scenario(name, work, vary={"platform": ["rflush-testbed"], "ddio": ["off"], "domain": ["adr"]}, **more)
    return AssembledVariant(made, only_variant(made), observer=observer)


def broken(of: AssembledVariant, *at_ps: int) -> None:
    """The connections that there are break at these instants, and nobody dies; then to the run's end."""
    for instant_ps in at_ps:
        of.system.clock.run_until(of.system.clock.until(instant_ps))
        for end in of.at_work.roles["server"][0].connections.all:
            if end.client is not None and not end.client.gone:
                for qp in end.client.pairs:
                    qp.peer.fail()
                    qp.fail()
    of.system.clock.run_until(of.finished)


def operators(of: AssembledVariant) -> list[bytes]:
    server = of.at_work.roles["server"][0]
    pm = server.node.memory["pm"]
    return [
        pm.space.read(of.system.clock.now_ps, ring.operator(slot) - pm.base, 8)
        for ring in server.rings
        for slot in range(ring.slots)
    ]


@pytest.mark.parametrize("name", FAMILY)
def test_each_new_client_finds_a_ring_however_many_have_died(name):
    """There are two rings, of four slots: each client leaves one in the middle of a turn, to the one after the next."""
    of = assembled(name, [put(0, "k0"), put(0, "k0")])
    of.system.clock.run_until(of.finished)
    of.process_of(0, 0).end()
    for process in range(1, 7):
        assert comes(of, process, 3) == [4 * process + 1]
        of.process_of(1, process).end()
    assert set(operators(of)) == {NONE}
    numbers = [end.next for end in of.at_work.roles["server"][0].connections.all]
    assert sum(numbers) - len(numbers) == 2 + 6 * 3


@pytest.mark.parametrize("call", [put, get])
def test_who_dies_in_the_middle_of_a_call_leaves_a_ring_that_comes_to_rest(call):
    """The adapter had taken the entry in, or had not: either way it is executed once, or never. A read is answered."""
    for at_ps in range(500_000, 4_000_000, 250_000):
        of = assembled("wflush-rpc", {"kind": "schedule", "operations": [call(0, "k0")] * 3, "work": "20 us"})
        of.system.clock.run_until(of.system.clock.until(at_ps))
        of.process_of(0, 0).end()
        of.system.clock.run_until(of.system.clock.until(at_ps + 300_000_000))
        server = of.at_work.roles["server"][0]
        assert len(server.connections.free) == 2 and {end.client for end in server.connections.all} == {None}
        begun = len(of.history.operations)
        assert comes(of, 1, 2) == [begun + 2] and comes(of, 2, 1) == [begun + 4]
        assert set(operators(of)) == {NONE}


def test_a_client_that_comes_back_has_another_ring_and_its_old_one_comes_to_rest():
    """His queue pair breaks, and the server does not learn of it: the connection manager tells, when he connects."""
    of = assembled("wflush-rpc", [*[put(0, "k0")] * 3, *(put(0, "k0", at_ns=30_000 * turn) for turn in range(1, 8))])
    server, theirs = of.at_work.roles["server"][0], []
    for turn in range(1, 7):
        of.system.clock.run_until(of.system.clock.until(30_000_000 * turn - 10_000_000))
        (end,) = [end for end in server.connections.all if end.client is not None]
        theirs.append(end.number)
        end.client.log_qp.peer.fail()
    of.system.clock.run_until(of.finished)
    assert theirs == [0, 1, 0, 1, 0, 1]
    outcomes = [o.outcome for o in of.history.operations]
    assert outcomes[:3] == ["ok"] * 3 and outcomes[3:] == ["info"] * 6 + ["ok"]
    assert comes(of, 1, 0) == [10]


def test_who_finds_no_ring_waits_until_one_has_come_to_rest():
    """Two connections break while the first one's call is executed, for 200 us: no ring is free until then."""
    work = [put(0, "k0"), put(0, "k0", at_ns=20_000), put(0, "k0", at_ns=30_000), get(0, "k0", at_ns=31_000)]
    of = assembled("wflush-rpc", {"kind": "schedule", "operations": work, "work": "200 us"})
    server = of.at_work.roles["server"][0]
    for at_ps in (15_000_000, 25_000_000):
        of.system.clock.run_until(of.system.clock.until(at_ps))
        for end in server.connections.all:
            if end.client is not None and not end.client.gone:
                end.client.log_qp.peer.fail()
    of.system.clock.run_until(of.finished)
    assert [o.outcome for o in of.history.operations] == ["ok", "info", "info", "ok"]
    second, third, read = of.history.operations[1:]
    assert second.return_ps < 25_000_000 and third.return_ps > 200_000_000 and read.result == 1


def test_what_the_primitives_thread_is_at_comes_into_no_ring_of_the_next_client():
    """It copies 64 KiB into the log, behind which it stores the operator, while the client dies: the ring has no client
    before that is over, and the message behind is for nobody.
    """
    name = "s-rflush-rpc over rflush-send-emulated[target=memory, operator=behind data]"
    for at_ps in range(12_000_000, 60_000_000, 6_000_000):
        of = assembled(name, [put(0, "k0")], value="64 KiB")
        of.system.clock.run_until(of.system.clock.until(at_ps))
        of.process_of(0, 0).end()
        for process in (1, 2, 3):
            assert comes(of, process, 1) == [len(of.history.operations) - 1], (at_ps, process)
            of.process_of(1, process).end()


@pytest.mark.parametrize("name", ["s-rflush-rpc", "w-rflush-rpc over rflush-write-emulated"])
def test_the_next_client_of_a_ring_has_the_buffers_of_the_one_before(name):
    of = assembled(name, [put(0, "k0")])
    of.system.clock.run_until(of.finished)
    of.process_of(0, 0).end()
    service, regions = of.at_work.roles["server"][0].service, []
    for process in range(1, 5):
        assert comes(of, process, 1) == [2 * process]
        of.process_of(1, process).end()
        regions.append(len(service.regions))
    assert regions[1:] == [regions[1]] * 3


def test_what_lies_in_a_ring_without_a_client_is_no_call():
    of = assembled("wflush-rpc", [put(0, "k0")])
    server = of.at_work.roles["server"][0]
    pm, ring = server.node.memory["pm"], server.rings[1]
    left = Operator.pack(number=1, sequence=1)
    pm.space.poke(ring.operator(1) - pm.base, left)
    of.system.clock.run_until(of.finished)
    of.system.clock.run_until(of.system.clock.until(50_000_000))
    assert left in operators(of) and server.connections.all[1].next == 1


LOST = {Condition.NO_LOST_ACK, Condition.DURABLE}
CAME_BACK_TWICE = [put(0, "k0", at_ns=1_000 * us) for us in (0, 35, 45, 48, 51, 65, 70)] + [get(0, "k1", 200_000)]
"""The ring of before has calls that were acknowledged, and the first one, which is at rest by then, has the latest."""
CAME_BACK_ONCE = [
    *[put(0, "k1")] * 2, {**put(0, "k0"), "batch": 1}, {**put(0, "k1"), "batch": 1}, put(0, "k0", at_ns=12_000),
    put(0, "k0", at_ns=15_000), get(0, "k0", 90_000),
]  # fmt: skip
"""A batch in the former ring waits for k1, while a put of k0 by the new ring is executed."""


@pytest.mark.parametrize(
    ("name", "work", "at_ps", "found"),
    [
        ("wflush-rpc", CAME_BACK_TWICE, (30_000_000, 60_000_000), set()),
        (TWINS["recovered-by-number"].name, CAME_BACK_TWICE, (30_000_000, 60_000_000), LOST),
        ("wflush-rpc", CAME_BACK_ONCE, (11_000_000,), set()),
        (TWINS["removed-as-executed"].name, CAME_BACK_ONCE, (11_000_000,), LOST),
    ],
)
def test_who_comes_back_loses_no_call_whichever_ring_has_it(name, work, at_ps, found):
    slow = {"kind": "schedule", "operations": work, "work": "20 us"}
    threads = 1 if work is CAME_BACK_TWICE else 2
    of = assembled(name, slow, observer=False, keys=2, roles={"server": {"threads": threads}})
    broken(of, *at_ps)
    judged = Explorer(of.result(), conditions=LOST).walk()
    assert judged.exhaustive and judged.first.keys() & LOST == found


@pytest.mark.parametrize(
    ("name", "reads", "verdict"), [("wflush-rpc", 5, "holds"), (TWINS["taken-as-found"].name, 4, "violated")]
)
def test_what_a_former_ring_has_is_taken_before_what_comes_by_the_next_one(name, reads, verdict):
    """The polling thread is away while two puts by the second ring are acknowledged, and a get comes by the first."""
    away = [{"core": "server[0] core 0", "at": "41 us", "for": "40 us"}]
    work = [*(put(0, "k0", at_ns=1_000 * us) for us in (0, 25, 30, 45, 49)), get(0, "k0", at_ns=56_000)]
    of = assembled(name, work, observer=False, outages=away)
    broken(of, 20_000_000, 54_000_000)
    assert [o.outcome for o in of.history.operations] == ["ok", "info", "ok", "ok", "ok", "ok"]
    assert of.history.operations[-1].result == reads
    result = of.result()
    report = check_history(parse_history("\n".join(result.history.lines(result.initial)), "the run"))
    assert report.verdicts["linearizable"].verdict == verdict


def test_of_a_batch_whose_writes_are_durable_only_the_reads_are_tried_again():
    """The connection breaks while the server works for the read, which waits behind the batch's own put."""
    work = [{**put(0, "k0"), "batch": 1}, {**get(0, "k0"), "batch": 1}, {**get(0, "k1"), "batch": 1}]
    of = assembled("wflush-rpc", {"kind": "schedule", "operations": work, "work": "20 us"}, observer=False, keys=2)
    broken(of, 10_000_000)
    assert [(o.f, o.outcome, o.result) for o in of.history.operations] == [
        ("put", "ok", None), ("get", "ok", 1), ("get", "ok", 0)
    ]  # fmt: skip
    assert of.at_work.roles["server"][0].connections.all[1].next == 1
