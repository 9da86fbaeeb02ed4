"""Objects that were never written, and objects of zeros: a byte of an object's own tells one from the other."""

from __future__ import annotations

from functools import partial

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.rflush.baselines import Farm
from rpsim.protocols.rflush.batches import pack_values, room_for_values, unpack_values
from rpsim.protocols.scheme import Scheme
from rpsim.validation.crash.explorer import Explorer

from ...small import get, put, run

COMMITTED, LOST = Condition.COMMITTED, Condition.NO_LOST_ACK
INSERTED = {"kind": "schedule", "operations": [put(0, "k1"), put(0, "k1"), get(0, "k1")], "loaded": 1}
"""k0 has a value before the run, k1 has none."""


class MarkedFirst(Farm, name="farm-twin-marked-first"):
    """The mark is durable while the value is in the cache."""

    title = "an object is marked before its value is durable"

    class Server(Farm.Server):
        def flush(self, thread, number):
            yield from self.table.mark(thread, number)
            yield from super().flush(thread, number)


del Scheme.registry[MarkedFirst.name]


@pytest.fixture(autouse=True)
def _twin_is_known():
    Scheme.registry[MarkedFirst.name] = MarkedFirst
    yield
    del Scheme.registry[MarkedFirst.name]


inserting = partial(run, work=INSERTED, keys=2, vary={"platform": ["rflush-testbed"], "ddio": ["off"]})


def refuted(name, value="8 B", **more):
    found = Explorer(inserting(name, value=value, **more), conditions={COMMITTED, LOST}).walk()
    assert found.exhaustive
    return set(found.first)


@pytest.mark.parametrize("name", ["farm", "darpc", "scalerpc-ddio", "wflush-rpc", "s-rflush-rpc", "octopus-rpc"])
def test_an_object_is_there_from_its_first_write_on(name):
    operations = [get(0, "k1"), put(0, "k1"), get(0, "k1", at_ns=100_000), get(0, "k0")]
    found = inserting(name, work=INSERTED | {"operations": operations}).history.operations
    assert [one.result for one in found if one.f == "get"] == [None, 2, 0]


@pytest.mark.parametrize("name", ["farm", "wflush-rpc"])
def test_an_object_that_is_inserted_is_whole_or_absent(name):
    first = INSERTED | {"operations": [put(0, "k1")]}
    assert refuted(name, "72 B", work=first) == set()


def test_a_mark_before_the_value_shows_an_object_that_is_torn():
    first = INSERTED | {"operations": [put(0, "k1")]}
    assert refuted(MarkedFirst.name, "16 B", work=first) == {COMMITTED}


def test_zeros_that_recovery_takes_for_a_value_are_a_torn_object_and_not_an_absent_one():
    """Of one WRITE the operator may come without the data: recovery executes zeros."""
    first = INSERTED | {"operations": [put(0, "k1")]}
    assert refuted("wflush-rpc[operator=together]", work=first) == {COMMITTED}


@pytest.mark.parametrize("count", [1, 3])
def test_values_that_are_not_there_and_values_of_zeros_are_told_apart(count):
    values = [bytes(8), b"", b"8 bytes."][:count]
    data = pack_values(values, 8)
    assert unpack_values(data, count, 8) == [bytes(8), None, b"8 bytes."][:count]
    assert len(data) <= room_for_values(count, 8) == (8 if count == 1 else 27)
    assert unpack_values(pack_values([b""], 8), 1, 8) == [None]
