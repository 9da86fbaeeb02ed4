"""MongoDB on Octopus and on Hotpot: what a command costs, and what is left when mongod or a store's machine fails."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.cpu import Thread
from rpsim.protocols.mongodb import mongod as server
from rpsim.protocols.mongodb.mongod import DONE, UPDATE, Mongod, MongoMessage, message
from rpsim.protocols.mongodb.stores import HotpotMongodb, OctopusMongodb
from rpsim.sim.units import ns

from ..several import LOST, ran, violated, waiting

BOTH = ["octopus-mongodb", "hotpot-mongodb"]


class Hasty(Mongod):
    """A mongod that answers an update first, and has the store do it then."""

    def serve(self, thread: Thread, socket: Any) -> Generator[Any, Any, None]:
        session = self.store.connect(thread)
        while True:
            asked = yield from server.receive(thread, socket)
            if asked.what == UPDATE:
                yield from socket.send(thread, message(DONE, asked.number))
                yield from thread.work(ns(75_000))
            what, document = yield from self.execute(session, asked)
            if asked.what != UPDATE:
                yield from socket.send(thread, message(what, asked.number, document))


class HastyOctopus(OctopusMongodb, name="octopus-mongodb-twin-hasty"):
    title = "mongod answers before Octopus has the document"
    Mongod = Hasty


class HastyHotpot(HotpotMongodb, name="hotpot-mongodb-twin-hasty"):
    title = "mongod answers before Hotpot has the document"
    Mongod = Hasty


@given(st.integers(0, 3), st.integers(0, 2**32 - 1), st.binary(max_size=300))
def test_a_message_says_its_length_and_holds_its_document(what, number, document):
    data = message(what, number, document, request=7)
    read = MongoMessage.unpack(data)
    assert (read.length, read.what, read.number, read.document) == (len(data), what, number, document)


@pytest.mark.parametrize("name", BOTH)
def test_a_command_takes_mongods_own_time_and_its_client_no_verb(name):
    result = ran(name, mix="update-only", operations=8)
    alone = ran(f"{name}[mongod=1 us]", mix="update-only", operations=8)
    assert all(operation.outcome == "ok" for operation in result.history.operations)
    assert result.spent["mongod"]["cpu_ns"] >= 75_000 and result.spent["client"].get("verbs", 0) == 0
    saved_ps = min(result.latency_ps["put"]) - min(alone.latency_ps["put"])
    assert saved_ps == pytest.approx(74_000_000, rel=0.02)


def test_mongod_does_at_octopus_what_a_client_of_it_does():
    behind, direct = (ran(name, mix="update-only", operations=8) for name in ("octopus-mongodb", "octopus"))
    assert behind.spent["mongod"]["verbs"] == direct.spent["client"]["verbs"]


@pytest.mark.parametrize("name", BOTH)
def test_several_clients_have_a_thread_of_mongod_each(name):
    result = ran(name, clients=3, mix="a", operations=30, keys=3, value="100 B")
    assert all(operation.outcome == "ok" for operation in result.history.operations)
    assert result.scheme.roles["mongod"][0].connections >= 3


@pytest.mark.parametrize("name", BOTH)
def test_a_new_mongod_goes_on_where_the_one_before_died(name):
    states, stuck = waiting(name, "mongod[0] process", operations=2)
    assert states > 5 and not stuck
    assert violated(name, "mongod[0] process", operations=2) == set()


@pytest.mark.parametrize("name", BOTH)
def test_a_mongod_that_answers_first_loses_what_it_has_not_done(name):
    assert LOST in violated(f"{name}-twin-hasty", "mongod[0] process", operations=2)


def test_what_octopus_does_not_flush_is_lost_behind_mongod_too():
    assert LOST in violated("octopus-mongodb", "server[0] power")


@pytest.mark.parametrize("machine", ["client[0] process", "node[0] lost"])
def test_nobody_waits_for_ever(machine):
    states, stuck = waiting("hotpot-mongodb", machine, operations=2)
    assert states >= 5 and not stuck
