"""Batches of calls that are executed before they are answered: one request and one reply for several of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.rflush import lists
from rpsim.protocols.rflush.baselines import DaRpc
from rpsim.protocols.rflush.batches import pack_writes, unpack_writes
from rpsim.protocols.scheme import Scheme
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explorer import Explorer

from ...small import get, put, run

CLAIMED = {Condition.NO_LOST_ACK}
VARY = {"platform": ["rflush-testbed"], "ddio": ["off"], "domain": ["adr"]}


class HastyBatches(DaRpc, name="darpc-unflushed"):
    """Does not flush what it has stored."""

    class Server(DaRpc.Server):
        def flush(self, thread, number):
            return
            yield


@pytest.fixture(scope="module", autouse=True)
def _only_here():
    """Other tests look at all schemes that are listed."""
    Scheme.registry.setdefault("darpc-unflushed", HastyBatches)
    yield
    Scheme.registry.pop("darpc-unflushed")


del Scheme.registry["darpc-unflushed"]


def batch(number, *operations):
    return [{**one, "batch": number} for one in operations]


WORK = [
    *batch(1, put(0, "k0"), put(0, "k1"), put(0, "k2")),
    *batch(2, get(0, "k0"), put(0, "k1"), get(0, "k2"), get(0, "k3")),
]


@pytest.mark.parametrize("value", ["8 B", "200 B"])
def test_requests_of_a_batch_are_answered_together(value):
    result = run("darpc", WORK, vary=VARY, keys=4, value=value)
    first, second = result.history.operations[:3], result.history.operations[3:]
    for same in (first, second):
        assert len({(o.invoke_ps, o.return_ps) for o in same}) == 1
    found = {o.object: o.result for o in second if o.f == "get"}
    assert found == {"k0": 1, "k2": 3, "k3": 0}  # the numbers of the writes; 0: as it was loaded


def step(f, name):
    return {"process": 0, "f": f, "object": name}


LISTS = [*batch(1, step("append", "k0"), step("append", "k1"), step("append", "k0")), step("append", "k1")]


def test_lists_of_a_batch_are_read_to_their_ends():
    work = [*LISTS, *batch(2, step("read", "k0"), step("append", "k1"), step("read", "k1"), step("read", "k2"))]
    result = run("darpc[model=append]", work, vary=VARY, keys=3)
    assert {o.object: o.result for o in result.history.operations if o.f == "read"} == {
        "k0": (1, 3), "k1": (2, 4, 6), "k2": (),
    }  # fmt: skip


def test_an_append_for_which_there_is_no_room_is_not_acknowledged(monkeypatch):
    """The client of a batch did not look at the reply's kind."""
    monkeypatch.setattr("rpsim.protocols.rflush.lists.EXECUTIONS", 0)
    result = run("darpc[model=append]", LISTS, vary=VARY, keys=3)
    assert {o.outcome for o in result.history.operations} == {"info"}


@pytest.mark.parametrize(("name", "refuted"), [("darpc", set()), ("darpc-unflushed", CLAIMED)])
def test_what_a_batch_has_written_survives_if_it_was_flushed(name, refuted):
    found = Explorer(run(name, WORK[:3], vary=VARY, keys=3, value="8 B"), conditions=CLAIMED).walk()
    assert found.exhaustive
    assert found.first.keys() & CLAIMED == refuted


def test_a_batch_for_which_there_is_no_room_is_not_answered_as_done(monkeypatch):
    """The lists have room for no item."""
    monkeypatch.setattr(lists, "EXECUTIONS", 0)
    work = batch(1, *({"process": 0, "f": "append", "object": name} for name in ("k0", "k1")))
    result = run("darpc[model=append]", work, vary=VARY, keys=2)
    assert [o.outcome for o in result.history.operations] == ["info"] * 2


def test_a_system_without_batches_refuses_them():
    with pytest.raises(InputError):
        run("farm", WORK[:3], vary=VARY, keys=3, value="8 B")


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(min_size=24, max_size=24)), min_size=2, max_size=9))
def test_the_writes_of_a_batch_are_read_as_they_were_packed(writes):
    assert unpack_writes(pack_writes(writes), 24) == writes
