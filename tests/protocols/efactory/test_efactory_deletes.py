"""DELETE in eFactory: is what was deleted gone, through cleaning and power failures, and does it stay gone?

Du et al., ICPP'21, say only that cleaning drops deleted objects; a tombstone is this project's reading. Where a power
failure is the question the metadata is flushed first, since the paper's order is refuted on ADR already.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.efactory.cleaning import COMPRESSING, MERGING, EFactoryCleaning, EFactoryWhileCleaning
from rpsim.protocols.efactory.efactory import HEADER_BYTES, EFactory
from rpsim.protocols.efactory.rpc_reads import EFactoryRpcReads
from rpsim.protocols.guarantees import EXPLORED, Condition
from rpsim.protocols.parts.index import ENTRY_BYTES, Location
from rpsim.protocols.parts.pools import PoolIndex
from rpsim.scenarios.run.workload import plan
from rpsim.scenarios.schema.known import SchemeFacts
from rpsim.sim.errors import InputError
from rpsim.sim.streams import Streams
from rpsim.validation.crash.explorer import Explorer

from ...small import get, put, run, scenario, ycsb
from ..stores import Posts, Shop, finish

FAMILY = [EFactory, EFactoryRpcReads, EFactoryCleaning, EFactoryWhileCleaning]


def delete(process, key, at_ns=0):
    return {**put(process, key, at_ns), "f": "delete"}


def remove(shop, name, client=0):
    shop.perform("delete", name, client=client)


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 1 << 30))
@pytest.mark.parametrize("kind", FAMILY)
def test_what_is_deleted_is_gone_until_it_is_put_again_whatever_is_cleaned(kind, seed):
    shop, rng = Shop(kind, keys=3, updates=30, value_bytes=24), random.Random(seed)
    last = {f"k{number}": 0 for number in range(3)}
    for stamp in range(1, 30):
        name, client = rng.choice(sorted(last)), rng.randrange(2)
        if rng.random() < 0.4:
            remove(shop, name, client)
            last[name] = None
        else:
            shop.put(name, stamp, client=client)
            last[name] = stamp
        other = rng.choice(sorted(last))
        assert shop.get(other, client=rng.randrange(2)) == last[other]
    assert shop.get("nobody") is None


def test_a_delete_is_a_call_and_nothing_else(monkeypatch):
    shop, posts = Shop(EFactory), Posts(monkeypatch)
    assert posts.of(remove, shop, "k0") == ["client SEND", "server[0] SEND"]
    assert shop.get("k0") is None and shop.get("k1") == 0


def test_cleaning_copies_no_tombstone_and_frees_the_entry():
    shop = Shop(EFactoryCleaning, keys=2, updates=12, value_bytes=64)
    remove(shop, "k0")
    for stamp in range(1, 11):
        shop.put("k1", stamp)
    shop.system.clock.run_until()
    store = shop.server
    assert store.working == 1 and (shop.get("k0"), shop.get("k1")) == (None, 10)
    assert finish(shop.system, shop.client.read_entry(shop.sessions[0], b"k0")) is None
    slot = store.index.slot_of_loaded(b"k0")
    shop.put("k0", 11)
    thread = shop.system.nodes["server"][0].thread(0, "looks it up")
    entry, _ = finish(shop.system, store.index.look_up(thread, b"k0"))
    assert entry == store.index.address_of(slot) and shop.get("k0") == 11


def test_what_lies_beneath_a_tombstone_is_at_no_instant_the_newest_again(monkeypatch):
    """Of an object that was deleted during stage 2 the old offset goes first, then that of the tombstone."""
    shop, newest = Shop(EFactoryCleaning, keys=1, updates=20, value_bytes=16), []
    thread = shop.system.nodes["server"][0].thread(2, "cleaner by hand")
    finish(shop.system, shop.server.enter(thread, MERGING, 0))
    remove(shop, "k0")
    real = PoolIndex.set

    def watched(thread, entry, pool, location):
        yield from real(thread, entry, pool, location)
        _, pointers = yield from shop.server.index.look_up(thread, b"k0")
        newest.append(pointers and pointers.newest)

    monkeypatch.setattr(PoolIndex, "set", staticmethod(watched))
    finish(shop.system, shop.server.finish(thread, 0, 1))
    assert len(newest) == 2 and all(where is None or where.length == HEADER_BYTES for where in newest)
    assert shop.get("k0") is None


# power failures --------------------------------------------------------------------------------------------------


def metadata_first(self, thread, key, found, location, header):
    yield from thread.store(self.log + location.offset, header)
    yield from thread.flush(self.log + location.offset, HEADER_BYTES)
    entry = yield from self.index.link(thread, key, found, location)
    yield from thread.flush(entry, ENTRY_BYTES)


WORK = [
    put(0, "k0"), delete(0, "k0"), get(0, "k0"), delete(0, "k0"), put(0, "k0"),
    get(1, "k0"), delete(1, "k1"), get(1, "k1"), put(1, "k1"), delete(1, "k1"),
]  # fmt: skip


def refuted(kind, platform="optane-adr", ddio="on"):
    result = run(kind.name, WORK, platform, ddio, processes=2, keys=2, value="16 B")
    found = Explorer(result, conditions=EXPLORED).walk()
    assert found.exhaustive and all(o.outcome == "ok" for o in result.history.operations)
    return found.first


@pytest.mark.parametrize("kind", [EFactory, EFactoryCleaning, EFactoryWhileCleaning])
@pytest.mark.parametrize(("platform", "ddio"), [("optane-adr", "on"), ("optane-eadr", "off")])
def test_no_power_failure_brings_back_what_was_deleted(monkeypatch, kind, platform, ddio):
    monkeypatch.setattr(kind.Server, "publish", metadata_first)
    monkeypatch.setattr(EFactory.Server, "publish", metadata_first)
    assert refuted(kind, platform, ddio).keys() <= {Condition.NO_LOST_ACK, Condition.DURABLE}


def _entry_unflushed(self, thread, key, found, location, header):
    yield from thread.store(self.log + location.offset, header)
    yield from thread.flush(self.log + location.offset, HEADER_BYTES)
    entry = yield from self.index.link(thread, key, found, location)
    if location.length > HEADER_BYTES:
        yield from thread.flush(entry, ENTRY_BYTES)


def test_a_tombstone_whose_entry_is_not_flushed_is_undone(monkeypatch):
    monkeypatch.setattr(EFactory.Server, "publish", _entry_unflushed)
    result = run("efactory", [delete(0, "k0"), get(0, "k0")], value="16 B")
    first = Explorer(result, conditions=EXPLORED).walk().first
    assert {Condition.NO_LOST_ACK, Condition.DURABLE, Condition.MONOTONIC} <= first.keys()
    assert "get k0 -> v0 after recovery, but delete k0 had returned" in first[Condition.NO_LOST_ACK].explanation


def overlooking(self, thread, pool, offset):
    while offset:
        version = yield from self.load_header(thread, offset)
        if self.index.pool_of(offset) == pool:
            return Location(offset, HEADER_BYTES + version.vlen)
        offset = version.previous
    return None


@pytest.mark.parametrize("overlooked", [False, True])
def test_a_cleaner_that_overlooks_a_tombstone_brings_back_the_copy_beneath_it(monkeypatch, overlooked):
    if overlooked:
        monkeypatch.setattr(EFactoryCleaning.Server, "newest_in", overlooking)
    shop = Shop(EFactoryCleaning, keys=1, updates=20, value_bytes=16)
    thread = shop.system.nodes["server"][0].thread(2, "cleaner by hand")
    finish(shop.system, shop.server.enter(thread, COMPRESSING, 0))
    late = finish(shop.system, shop.server.compress(thread))  # k0 is in the new pool, too
    remove(shop, "k0")
    finish(shop.system, shop.server.merge(thread, late))
    assert shop.get("k0") == (0 if overlooked else None)


# who has it --------------------------------------------------------------------------------------------------------


def test_some_updates_of_a_workload_delete_and_no_other_draw_changes():
    without, some = (scenario("efactory", {**ycsb(60), "deletes": share}, keys=4) for share in (0.0, 0.5))
    plans = [plan(s.workload, 2, Streams(1), SchemeFacts.of(EFactory)) for s in (without, some)]
    kinds = [[(o.object, o.is_update) for process in each for o in process] for each in plans]
    assert kinds[0] == kinds[1] and {o.f for process in plans[1] for o in process} == {"put", "get", "delete"}
    assert "deletes" not in without.resolved()["workload"] and some.resolved()["workload"]["deletes"] == 0.5


@pytest.mark.parametrize("work", [[delete(0, "k0")], {**ycsb(4), "deletes": 0.5}])
def test_a_store_whose_paper_has_none_refuses_in_a_line(work):
    with pytest.raises(InputError) as caught:
        scenario("saw", work)
    (mistake,) = caught.value.mistakes
    assert "\n" not in str(mistake) and "saw" in str(mistake)
