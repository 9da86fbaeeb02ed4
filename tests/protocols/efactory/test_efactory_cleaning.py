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
from rpsim.protocols.registry import scheme
from rpsim.protocols.scheme import Request
from rpsim.scenarios.values import decode_value, encode_value
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.testing.world import World

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


@pytest.mark.parametrize("cleanings", [7, 8, 20])
def test_a_client_that_does_nothing_holds_up_no_cleaning(monkeypatch, cleanings):
    """It has receive requests for so many notices; what it finds then is as new as what the others find."""
    stages = Stages(monkeypatch)
    shop = Shop(scheme("efactory-cleaning[room=0.02]"), keys=1, updates=300, value_bytes=16)
    stamp = 0
    while stages.seen.count(NORMAL) < cleanings:
        stamp += 1
        shop.put("k0", stamp)
        assert shop.system.clock.now_ps < 10**10
    shop.system.clock.run_until(shop.system.clock.until(shop.system.clock.now_ps + 20_000_000))
    idle = shop.sessions[1].connection
    assert shop.get("k0", client=1) == stamp and idle.notice == shop.server.stage == NORMAL


def test_a_read_that_comes_after_its_pool_was_used_again_is_made_again(monkeypatch):
    """A packet may be lost and be repeated some hundred times as long as a cleaning takes."""
    read_object = EFactoryCleaning.Client.read_object

    def found():
        shop = Shop(scheme("efactory-cleaning[room=0.02]"), keys=3, updates=120, value_bytes=16)
        late = [shop.sessions[1]]

        def held_up(client, session, location):
            if session in late:
                late.remove(session)
                yield shop.system.clock.timeout(2_000_000_000)
            return (yield from read_object(client, session, location))

        monkeypatch.setattr(EFactoryCleaning.Client, "read_object", held_up)
        answer = []

        def program():
            answer.append((yield from shop.client.perform(shop.sessions[1], Request.of("get", "k0"))))

        getting = shop.system.clock.start(program())
        for stamp in range(1, 100):
            shop.put(f"k{1 + stamp % 2}", stamp)
        shop.system.clock.run_until(getting)
        return decode_value(answer[0], 16)

    assert found() == 0
    monkeypatch.setattr(EFactoryCleaning.Client, "get", EFactory.Client.get)
    assert found() != 0


def values_after_a_late_write() -> tuple[list[int], list[int]]:
    """A client's WRITE comes within its time-out, long after its version was superseded; the other client puts on.

    Returns what was put last, object by object, and what is found.
    """
    shop, last = Shop(EFactoryCleaning, keys=2, updates=20, value_bytes=16), [0, 0]
    clock, slow = shop.system.clock, shop.sessions[1]
    value = encode_value(999, 16)
    reply = finish(shop.system, slow.connection.call(Put, key=b"k0", vlen=16, crc=zlib.crc32(value)))
    thread, offset = shop.system.nodes["server"][0].thread(2, "looks it up"), Region.unpack(reply).offset
    for stamp in range(1, 100):
        number = stamp % 2
        putting = clock.start(
            shop.client.perform(shop.sessions[0], Request.of("put", f"k{number}", encode_value(stamp, 16)))
        )
        last[number] = stamp
        clock.run_until(clock.any_of([putting, clock.until(clock.now_ps + 100_000_000)]))
        if not putting.triggered:
            break  # there is no room until the old pool is free
        live = [finish(shop.system, shop.server.index.look_up(thread, key))[1].offset for key in (b"k0", b"k1")]
        if stamp > 2 and offset in live:
            break  # its place is another object's
    finish(shop.system, slow.connection.write(shop.server.log + offset + HEADER_BYTES, slow.log_key, value))
    clock.run_until(putting)
    assert clock.now_ps < 10**12
    return last, [shop.get(f"k{number}") for number in range(2)]


def test_a_pool_is_not_free_before_every_value_that_may_still_come_has_come(monkeypatch):
    last, found = values_after_a_late_write()
    assert found == last
    monkeypatch.setattr(EFactoryCleaning.Server, "until_settled", lambda store, thread, pool: iter(()))
    last, found = values_after_a_late_write()
    assert 999 in found and 999 not in last


def test_a_dead_writer_s_version_costs_few_rounds_until_its_time_out(monkeypatch):
    """The paper's time-out is 10 s: some hundred million rounds, were all of them executed."""
    shop, rounds = Shop(EFactoryCleaning, keys=2, updates=10, value_bytes=16), []
    real = EFactoryCleaning.Server.newest_in_index

    def counted(store, thread, key, new):
        rounds.append(thread.now_ps)
        return (yield from real(store, thread, key, new))

    monkeypatch.setattr(EFactoryCleaning.Server, "newest_in_index", counted)
    shop.put("k0", 1)
    finish(shop.system, shop.sessions[1].connection.call(Put, key=b"k0", vlen=16, crc=7))  # its writer dies
    for stamp in range(2, 9):
        shop.put("k1", stamp)
    shop.system.clock.run_until()
    assert shop.system.clock.now_ps > 10**13
    assert shop.server.working == 1 and shop.server.stage == NORMAL
    assert len(rounds) < 5_000
    assert (shop.get("k0"), shop.get("k1")) == (1, 8)


def test_a_version_that_waits_is_left_as_soon_as_a_newer_one_has_come():
    """Long after the cleaner has ceased to go round in full."""
    shop = Shop(EFactoryCleaning, keys=1, updates=20, value_bytes=16)
    store, clock = shop.server, shop.system.clock
    thread = shop.system.nodes["server"][0].thread(2, "cleaner by hand")
    shop.put("k0", 1)
    finish(shop.system, shop.sessions[1].connection.call(Put, key=b"k0", vlen=16, crc=7))
    finish(shop.system, store.enter(thread, COMPRESSING, 0))
    late = finish(shop.system, store.compress(thread))
    assert len(late) == 1
    merged = []
    until_settled = store.until_settled

    def noted(by, pool):
        merged.append(by.now_ps)
        return (yield from until_settled(by, pool))

    store.until_settled = noted
    clock.start(store.merge(thread, late))
    clock.run_until(clock.until(clock.now_ps + 10**9))
    assert not merged
    shop.put("k0", 2)
    clock.run_until(clock.until(clock.now_ps + 20_000_000))
    assert merged and shop.get("k0") == 2


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


@pytest.mark.long
def test_a_cleaner_that_points_at_a_copy_before_it_is_durable_is_refuted(monkeypatch):
    monkeypatch.setattr(EFactory.Server, "publish", metadata_first)
    monkeypatch.setattr(EFactoryCleaning.Server, "move", _points_before_the_copy_is_durable)
    assert any(refuted(schedules=[schedule], operations=90) for schedule in range(6))


class Cleaned:
    """A store in small pools, with one client, that is cleaned again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stages = Stages(monkeypatch)
        self.world = World(scheme("efactory-cleaning[room=0.005]"), "optane-eadr", keys=4, clients=1, updates=600)

    @property
    def server(self) -> EFactoryCleaning.Server:
        return self.world._at_work.server

    def put_until(self, reached):
        """Put to one object until this is so, looked at every 100 ns."""
        for _ in range(60):
            self.world.invoke(0, "put", "k1")
            for _ in range(60):
                if reached():
                    return
                self.world.run(100_000)
            self.world.finish()
        raise AssertionError("no such cleaning")

    def wrong(self):
        """What is broken of what has been asked, after a read of all objects."""
        self.world.read_all()
        verdicts = self.world.judge().verdicts
        return {str(condition) for condition, judged in verdicts.items() if judged.verdict == "violated"}


@pytest.mark.parametrize("moved", [2, 3])
def test_a_version_that_was_moved_before_a_failure_is_moved_by_the_next_cleaning_too(monkeypatch, moved):
    def wrong():
        store = Cleaned(monkeypatch)
        store.put_until(lambda: len(store.server._moved) == moved)
        assert store.stages.seen[-1] == COMPRESSING
        store.world.crash(lambda n: 0)
        store.put_until(lambda: store.stages.seen.count(NORMAL) == 2)
        return store.wrong()

    assert wrong() == set()
    finish_recovery = EFactoryCleaning.Server.finish_recovery

    def forgets(store, thread, results):
        yield from finish_recovery(store, thread, results)
        store._moved = []

    monkeypatch.setattr(EFactoryCleaning.Server, "finish_recovery", forgets)
    assert "durable" in wrong()


@pytest.mark.parametrize("flipped", [1, 2, 3])
def test_a_failure_between_the_entries_that_cleaning_ends_with_takes_no_later_put_back(monkeypatch, flipped):
    def wrong():
        store = Cleaned(monkeypatch)
        store.put_until(lambda: store.server.stage == MERGING and marks(store.server).count(1) == flipped)
        store.world.crash(lambda n: 0)
        store.world.invoke(0, "put", "k1")
        store.world.run(50_000_000)
        assert store.stages.seen[-1] == NORMAL
        return store.wrong()

    assert wrong() == set()

    def leaves(store, thread, address, pointers):
        yield from ()
        return pointers

    monkeypatch.setattr(EFactoryCleaning.Server, "set_mark", leaves)
    if flipped == 3:  # that of the object that is put to as well
        assert "durable" in wrong()


def marks(server: EFactoryCleaning.Server) -> list[int]:
    """The working pool, as each entry says that points somewhere."""
    server.pm.space.catch_up(server.system.clock.now_ps)
    lines = (server.index.address_of(slot) - server.pm.base for slot in range(server.index.slots))
    said = (PoolIndex.says(server.pm.space.peek(line, PoolEntry.size))[1] for line in lines)
    return [pointers.mark for pointers in said if pointers is not None]


def test_what_lies_between_live_versions_is_room_for_others():
    server = Shop(EFactoryCleaning, keys=2, updates=8, value_bytes=24).server
    assert server.object_bytes == 128
    live = [Location(64, 128), Location(320, 100), Location(448, 128)]
    assert list(server.gaps_between(live, 64, 1024)) == [192, 576, 704, 832]
    assert list(server.gaps_between([], 64, 191)) == []
    assert list(server.gaps_between([Location(128, 64)], 64, 320)) == [192]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_a_cleaning_that_fails_again_and_again_finds_room_and_loses_nothing(monkeypatch, seed):
    """Failures at any time, in recovery and in cleaning; the metadata are persisted first."""
    monkeypatch.setattr(EFactory.Server, "publish", metadata_first)
    rng = random.Random(seed)
    world = World(
        scheme("efactory-cleaning[room=0.005]"), ("optane-adr", "optane-eadr")[seed % 2],
        keys=rng.choice([1, 3, 8]), clients=rng.choice([1, 3, 6]), updates=600,
    )  # fmt: skip
    for _ in range(120):
        step, idle = rng.random(), world.idle()
        if step < 0.7 and idle:
            world.invoke(rng.choice(idle), rng.choice(["put"] * 5 + ["get"]), rng.choice(list(world.names)))
        elif step < 0.95:
            world.run(rng.randrange(1, 8_000_000))
        else:
            world.crash(rng.randrange)
    world.read_all()
    verdicts = world.judge(ASKED).verdicts
    assert {str(judged.verdict) for judged in verdicts.values()} == {"holds"}
