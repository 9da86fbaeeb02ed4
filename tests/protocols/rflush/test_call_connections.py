"""Connections of calls: a client that is gone or comes again leaves its connection to the next, with nothing in it."""

from __future__ import annotations

from typing import Any

import pytest

from rpsim.protocols.rflush.messages import MessageSlot
from rpsim.scenarios.run.experiment import AssembledVariant

from ...small import comes, get, only_variant, put, scenario

TOLD = [
    "farm", "darpc", "herd-rpc[reply=datagram]", "l5", "rfp", "octopus-rpc", "scalerpc[warmup=2]",
    "octopus-rpc over wflush",
]  # fmt: skip
US = 1_000_000


def assembled(name: str, work: Any, **more: Any) -> AssembledVariant:
    made = scenario(name, work, vary={"platform": ["rflush-testbed"], "ddio": ["off"], "domain": ["adr"]}, **more)
    return AssembledVariant(made, only_variant(made), observer=True)


def connections(of: AssembledVariant) -> Any:
    return of.at_work.roles["server"][0].connections


@pytest.mark.parametrize("name", [*TOLD, "fasst", "lite"])
def test_each_new_client_finds_a_connection_however_many_have_died(name):
    """There are two connections; of datagrams nobody tells the server that their client is gone."""
    of = assembled(name, [put(0, "k0"), put(0, "k0")])
    of.system.clock.run_until(of.finished)
    of.process_of(0, 0).end()
    for process in range(1, 7):
        assert comes(of, process, 3) == [4 * process + 1]
        of.process_of(1, process).end()
    assert len(connections(of)) == (7 if name == "fasst" else 2)


@pytest.mark.long
@pytest.mark.parametrize("name", TOLD)
def test_nothing_of_who_dies_in_the_middle_of_a_call_comes_to_the_next(name):
    """The adapter had taken the request in, or had not, or had the flag still to come: the next two go on as ever."""
    for at_ps in range(0, 6 * US, US // 4):
        of = assembled(name, [put(0, "k0")] * 4)
        of.system.clock.run_until(of.system.clock.until(at_ps + 1))
        of.process_of(0, 0).end()
        for process in (1, 2, 3):
            found = comes(of, process, 1)
            assert found == [len(of.history.operations) - 1], (at_ps, process)
            of.process_of(1, process).end()


@pytest.mark.parametrize("name", ["farm", "l5"])
def test_in_a_slot_that_is_not_emptied_the_first_call_of_the_next_client_is_not_seen(name, monkeypatch):
    """Its number is that of the first call of the client before."""

    def kept(slot, thread):
        yield from ()

    def of_two(answered: bool) -> list[list[Any]]:
        of = assembled(name, [put(0, "k0")])
        of.system.clock.run_until(of.finished)
        of.process_of(0, 0).end()
        found = []
        for process in (1, 2):
            found.append(comes(of, process, 0, answered=process == 1 or answered))
            of.process_of(1, process).end()
        return found

    assert of_two(True) == [[1], [1]]
    monkeypatch.setattr(MessageSlot, "clear", kept)
    assert of_two(False) == [[1], [None]]


@pytest.mark.parametrize("name", TOLD)
def test_a_client_that_opens_another_connection_leaves_the_old_one(name):
    """Its calls take longer than its patience; it has the reply to the last one."""
    of = assembled(name, {"kind": "schedule", "operations": [put(0, "k0"), get(0, "k0")], "work": "200 us"})
    clock, server = of.system.clock, of.at_work.roles["server"][0]
    for turn in range(1, 7):
        clock.run_until(clock.until(turn * 50 * US))
        of.start_again(0)
    clock.run_until(of.running[0] | clock.until(20_000 * US))
    assert [(o.outcome, o.result) for o in of.history.operations] == [("ok", None), ("ok", 1)]
    assert len(server.connections) == 2 and not server.left


@pytest.mark.parametrize("repeats", ["answered", "executed"])
def test_what_is_known_of_a_clients_calls_holds_on_its_next_connection(repeats):
    """A client's queue pair breaks while its append is executed, and it sends that again on another one."""
    work = [{"process": 0, "f": f, "object": "k0"} for f in ("append", "append", "read")]
    given = {"kind": "schedule", "operations": work, "work": "200 us"}
    of = assembled(f"farm[resend=300 us, model=append, repeats={repeats}]", given)
    of.system.clock.run_until(of.system.clock.until(100 * US))
    (end,) = [end for end in connections(of) if end.client is not None]
    end.pairs[0].peer.fail()
    of.system.clock.run_until(of.finished)
    assert [o.outcome for o in of.history.operations] == ["ok"] * 3
    assert of.history.operations[2].result == ((1, 2) if repeats == "answered" else (1, 1, 2))
