"""Does cleaning move what is live, drop what is not, and let no reader and no power failure notice?

Du et al., ICPP'21, section 4.4. In the paper's order of persisting metadata eFactory is refuted on ADR already (see
``test_efactory_mutants``); where a failure during cleaning is the question, the metadata is flushed first.
"""

from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.efactory.cleaning import COMPRESSING, MERGING, NORMAL, EFactoryCleaning, EFactoryWhileCleaning
from rpsim.protocols.efactory.efactory import HEADER_BYTES, EFactory, Put
from rpsim.protocols.guarantees import Condition
from rpsim.protocols.parts.index import ENTRY_BYTES, Location
from rpsim.protocols.parts.kv import Region
from rpsim.protocols.parts.pools import Pointers, PoolEntry, PoolIndex
from rpsim.scenarios.values import encode_value
from rpsim.validation.crash.explorer import Explorer

from ...small import PLATFORMS, run, ycsb
from ..stores import Posts, Shop, finish

everywhere = pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
ASKED = (Condition.COMMITTED, Condition.MONOTONIC)


class Stages:
    """Every stage that a store enters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[int] = []
        enter = EFactoryCleaning.Server.enter

        def spy(store, thread, stage, working):
            self.seen.append(stage)
            return (yield from enter(store, thread, stage, working))

        monkeypatch.setattr(EFactoryCleaning.Server, "enter", spy)


def test_an_entry_says_where_a_version_lies_in_each_pool():
    assert PoolEntry.size == 56 <= ENTRY_BYTES
    key, said = PoolIndex.says(PoolEntry.pack(key=b"k", pool_0=Location(64, 80).pack(), pool_1=0, mark=0))
    assert (key, said) == (b"k", Pointers((Location(64, 80), None), 0))
    assert said.working == said.newest == Location(64, 80)
    moved = Pointers((Location(64, 80), Location(640, 80)), 0)
    assert (moved.working, moved.newest, moved.offset) == (Location(64, 80), Location(640, 80), 640)
    assert PoolIndex.says(bytes(ENTRY_BYTES))[1] is None


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 5))
def test_whatever_is_put_is_found_across_cleanings(seed, keys):
    shop, rng = Shop(EFactoryCleaning, keys=keys, updates=60, value_bytes=24), random.Random(seed)
    last = {f"k{number}": 0 for number in range(keys)}
    pools = set()
    for stamp in range(1, 60):
        name = rng.choice(sorted(last))
        shop.put(name, stamp, client=rng.randrange(2))
        last[name] = stamp
        pools.add(shop.server.working)
        other = rng.choice(sorted(last))
        assert shop.get(other, client=rng.randrange(2)) == last[other]
    assert pools == {0, 1}


def test_what_is_live_is_copied_and_the_old_pool_is_free(monkeypatch):
    shop, stages = Shop(EFactoryCleaning, keys=3, updates=12, value_bytes=64), Stages(monkeypatch)
    for stamp in range(1, 12):
        shop.put(f"k{stamp % 2}", stamp)
    shop.system.clock.run_until()
    assert stages.seen[:3] == [COMPRESSING, MERGING, NORMAL]
    store = shop.server
    assert store.stage == NORMAL and store.tails[1 - store.working] == (1 - store.working) * store.pool_bytes + 64
    assert [shop.get(f"k{number}") for number in range(3)] == [10, 11, 0]


def test_clients_are_told_and_read_by_call_as_long_as_it_cleans(monkeypatch):
    shop, posts = Shop(EFactoryWhileCleaning, keys=2, updates=4), Posts(monkeypatch)
    stage = []
    real = EFactoryCleaning.Client.ask_and_read

    def noted(client, session, key):
        stage.append(client.server.stage)
        return (yield from real(client, session, key))

    monkeypatch.setattr(EFactoryCleaning.Client, "ask_and_read", noted)
    shop.system.clock.run_until(shop.system.clock.until(2_500_000))
    assert shop.server.stage != NORMAL
    assert "client READ" in posts.of(shop.get, "k0") and len(stage) == 1
    shop.system.clock.run_until()
    assert posts.of(shop.get, "k0") == ["client READ", "client READ"] and len(stage) == 1


def test_a_version_whose_value_never_comes_is_waited_for_and_then_dropped(monkeypatch):
    monkeypatch.setattr(EFactory, "chosen", {"timeout": "40 us"})
    shop = Shop(EFactoryCleaning, keys=2, updates=10, value_bytes=16)
    shop.put("k0", 1)
    finish(shop.system, shop.sessions[1].connection.call(Put, key=b"k0", vlen=16, crc=7))  # its writer dies
    for stamp in range(2, 9):
        shop.put("k1", stamp)
    shop.system.clock.run_until()
    assert shop.server.working == 1
    assert (shop.get("k0"), shop.get("k1")) == (1, 8)


def test_a_version_that_comes_late_is_not_dropped_for_an_older_one_that_was_moved_meanwhile():
    """Both came during stage 1; in stage 2 the older one is whole first."""
    shop = Shop(EFactoryCleaning, keys=1, updates=20, value_bytes=16)
    store, second = shop.server, shop.sessions[1].connection
    thread = shop.system.nodes["server"][0].thread(2, "cleaner by hand")
    finish(shop.system, store.enter(thread, COMPRESSING, 0))
    late = finish(shop.system, store.compress(thread))
    shop.put("k0", 1)
    value = encode_value(2, 16)
    reply = finish(shop.system, second.call(Put, key=b"k0", vlen=16, crc=zlib.crc32(value)))
    merging = shop.system.clock.start(store.merge(thread, late))
    shop.system.clock.run_until(shop.system.clock.until(shop.system.clock.now_ps + 20_000_000))
    assert not merging.triggered  # the older one is moved, the newer one waited for
    place = store.log + Region.unpack(reply).offset + HEADER_BYTES
    finish(shop.system, second.write(place, shop.sessions[1].log_key, value))
    shop.system.clock.run_until(merging)
    assert store.stage == NORMAL and shop.get("k0") == 2


# a power failure in the middle -----------------------------------------------------------------------------------


def metadata_first(self, thread, key, found, location, header):
    yield from thread.store(self.log + location.offset, header)
    yield from thread.flush(self.log + location.offset, HEADER_BYTES)
    entry = yield from self.index.link(thread, key, found, location)
    yield from thread.flush(entry, ENTRY_BYTES)


def refuted(platform="optane-adr", ddio="on", schedules=(0, 1), operations=45):
    found = set()
    for schedule in schedules:
        result = run(
            "efactory-cleaning", ycsb(operations), platform, ddio, processes=4, keys=3, value="16 B", schedule=schedule
        )
        walk = Explorer(result, conditions=ASKED).walk()
        assert walk.exhaustive
        found |= walk.first.keys()
    return found


@pytest.mark.long
@everywhere
def test_no_power_failure_takes_back_what_was_read_while_the_store_cleans(monkeypatch, platform, ddio):
    monkeypatch.setattr(EFactory.Server, "publish", metadata_first)
    stages = Stages(monkeypatch)
    assert refuted(platform, ddio) == set()
    assert {COMPRESSING, MERGING, NORMAL} <= set(stages.seen)


def _points_before_the_copy_is_durable(self, thread, key, source, place):
    data = yield from thread.load(self.log + source.offset, source.length)
    yield from thread.store(self.log + place.offset, data)
    yield from self.lock(thread)
    entry, pointers = yield from self.index.look_up(thread, key)
    if pointers is not None and pointers.offset == source.offset:
        yield from self.index.set(thread, entry, self.index.pool_of(place.offset), place)
        yield from thread.flush(entry, ENTRY_BYTES)
    self._moved.append(place)
    yield from self.unlock(thread)
    yield from thread.flush(self.log + place.offset, place.length)


def _marks_before_it_drops(self, thread, old, new):
    for slot in range(self.index.slots):
        address = self.index.address_of(slot)
        yield from self.lock(thread)
        _, pointers = self.index.says((yield from thread.load(address, PoolEntry.size)))
        if pointers is not None:
            kept = yield from self.newest_in(thread, new, pointers.offset)
            yield from self.index.set(thread, address, new, kept)
            yield from thread.store(address + PoolEntry.offset_of("mark"), new.to_bytes(8, "little"))
            yield from self.index.set(thread, address, old, None)
            yield from thread.flush(address, ENTRY_BYTES)
        yield from self.unlock(thread)
    self.order, self._moved = [*self._moved, *self.order], []
    self.tails[old] = old * self.pool_bytes + 64
    yield from self.enter(thread, NORMAL, new)


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "broken"), [("move", _points_before_the_copy_is_durable), ("finish", _marks_before_it_drops)]
)
def test_a_cleaner_with_two_steps_swapped_is_refuted(monkeypatch, step, broken):
    monkeypatch.setattr(EFactory.Server, "publish", metadata_first)
    monkeypatch.setattr(EFactoryCleaning.Server, step, broken)
    assert any(refuted(schedules=[schedule], operations=90) for schedule in range(6))
