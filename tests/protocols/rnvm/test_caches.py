"""Caches of pages: which page goes, what a hit costs, and that a cache changes no bytes."""

from __future__ import annotations

import random
from collections import OrderedDict

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.protocols.rnvm.caches import FEW_MISSES, PERIOD, CacheLevel, PageCache
from rpsim.protocols.rnvm.replacement import POLICIES, SAMPLE, Lru, miss_ratio, policy_of, zipf_accesses


# policies -----------------------------------------------------------------------------------------------------------
def test_least_recently_used_is_what_an_ordered_dictionary_says():
    lru, model, draw = Lru(7), OrderedDict(), random.Random(3)
    for _ in range(2000):
        page = draw.randrange(12)
        slot = lru.slots.get(page)
        assert (slot is not None) is (page in model)
        if slot is None:
            lru.admit(page)
            if len(model) == 7:
                model.popitem(last=False)
            model[page] = None
        else:
            lru.hit(slot)
            model.move_to_end(page)
        assert set(lru.slots) == set(model)


@pytest.mark.parametrize("policy", POLICIES)
def test_pages_and_slots_are_one_to_one(policy):
    cache, draw = policy_of(policy, 50), random.Random(4)
    for _ in range(3000):
        page = draw.randrange(120)
        slot = cache.slots.get(page)
        if slot is None:
            slot, _ = cache.admit(page)
        else:
            cache.hit(slot)
        assert cache.pages[slot] == page
    assert sorted(cache.slots.values()) == list(range(50))


def test_where_all_pages_are_used_alike_every_policy_misses_as_often():
    """Closed form: of n pages c are there, so a share of 1 - c / n misses."""
    for policy in POLICIES:
        found = miss_ratio(policy_of(policy, 200), zipf_accesses(800, 0.0, 30_000), 5_000)
        assert found == pytest.approx(0.75, abs=0.01)


def test_a_sample_of_all_pages_is_least_recently_used_and_of_one_random():
    lru, hybrid, any_page = (
        miss_ratio(policy_of(name, 200), zipf_accesses(2000, 1.0, 30_000), 10_000)
        for name in ("lru", "hybrid", "random")
    )
    assert hybrid == pytest.approx(lru, abs=0.015) and any_page > hybrid + 0.02


def test_what_a_hit_changes():
    lru, hybrid, any_page = (policy_of(name, 8) for name in ("lru", "hybrid", "random"))
    for cache in (lru, hybrid, any_page):
        for page in range(8):
            cache.admit(page)
    assert set(lru.hit(3).stores) == {3, 2, 4, 7, 8}  # itself, its neighbours, the one in front, the list's head
    assert lru.hit(3).stores == () and hybrid.hit(3).stores == (3,) and any_page.hit(3).stores == ()
    _, entries = hybrid.admit(9)
    assert len(entries.loads) == SAMPLE


def test_nothing_is_left_to_count():
    with pytest.raises(ValueError, match="no access behind the first 100"):
        miss_ratio(policy_of("lru", 10), range(100), 100)


# levels of a tree ---------------------------------------------------------------------------------------------------
def test_the_level_follows_the_misses():
    level = CacheLevel()
    assert level.cached(20)
    for _ in range(PERIOD):
        level.count(True)
    assert level.n == 19 and not level.cached(20) and level.cached(19)
    for turn in range(PERIOD):
        level.count(turn < PERIOD * 0.3)
    assert level.n == 19
    for turn in range(PERIOD):
        level.count(turn < PERIOD * (FEW_MISSES - 0.01))
    assert level.n == 20


# on a core ----------------------------------------------------------------------------------------------------------
class Remote:
    """Memory elsewhere."""

    def __init__(self, length):
        self.memory = bytearray(random.Random(5).randbytes(length))
        self.fetched = 0

    def fetch(self, ranges):
        yield from ()
        self.fetched += len(ranges)
        return [bytes(self.memory[address : address + length]) for address, length in ranges]


@pytest.fixture(scope="module")
def platform():
    return load_platform("rnvm-testbed")


def rig(platform, capacity, policy="hybrid", page_bytes=64):
    system = System(platform, {"client": [NodeSpec()]}, seed=1)
    node = system.nodes["client"][0]
    thread = node.thread(0, "client")
    return system, thread, PageCache(thread, node, capacity, policy, page_bytes)


def run(system, code):
    found = []

    def outer():
        found.append((yield from code))

    system.clock.start(outer())
    system.clock.run()
    return found[0]


@pytest.mark.parametrize("page_bytes", [64, 256])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_cache_changes_no_byte(platform, policy, page_bytes):
    system, _, cache = rig(platform, 12, policy, page_bytes)
    remote, draw = Remote(1 << 13), random.Random(6)

    def code():
        for _ in range(300):
            ranges = [(draw.randrange(8000), draw.choice([8, 24, 70, 150])) for _ in range(draw.choice([1, 1, 3]))]
            found = yield from cache.read_all(ranges, draw.randrange(4), remote.fetch)
            assert found == [bytes(remote.memory[at : at + length]) for at, length in ranges]
            at, data = draw.randrange(8000), draw.randbytes(draw.choice([8, 60]))
            remote.memory[at : at + len(data)] = data
            yield from cache.patch([(at, data)])

    run(system, code())


def test_without_patches_old_bytes_are_read(platform):
    system, _, cache = rig(platform, 4)
    remote = Remote(256)

    def code():
        before = yield from cache.read(0, 8, 0, remote.fetch)
        remote.memory[0:8] = bytes(8)
        assert (yield from cache.read(0, 8, 0, remote.fetch)) == before
        cache.clear()
        return (yield from cache.read(0, 8, 0, remote.fetch))

    assert run(system, code()) == bytes(8)


def test_deep_nodes_and_a_cache_of_nothing_are_passed_by(platform):
    system, _, cache = rig(platform, 4)
    remote = Remote(256)
    cache.level.n = 2

    def code(one):
        for _ in range(3):
            yield from one.read(0, 8, 3, remote.fetch)

    run(system, code(cache))
    assert remote.fetched == 3
    system, _, none = rig(platform, 0)
    run(system, code(none))
    assert remote.fetched == 6


def test_a_hit_is_paid_for_and_a_list_costs_more_than_a_stamp(platform):
    spent = {}
    for policy in POLICIES:
        system, thread, cache = rig(platform, 64, policy)
        remote, draw = Remote(64 * 64), random.Random(7)
        pages = [draw.randrange(64) for _ in range(200)]

        def code(cache=cache, remote=remote, pages=pages, system=system):
            for page in range(64):
                yield from cache.read(64 * page, 64, 0, remote.fetch)
            before = system.clock.now_ps
            for page in pages:
                yield from cache.read(64 * page, 64, 0, remote.fetch)
            return system.clock.now_ps - before

        spent[policy] = run(system, code())
        assert remote.fetched == 64 and thread.account.memory_ps > 0
    assert 0 < spent["random"] < spent["hybrid"] < spent["lru"]


def test_warm_is_as_after_the_same_reads(platform):
    remote, draw = Remote(1 << 13), random.Random(8)
    reads = [(64 * min(draw.randrange(128), draw.randrange(128)), 64, 0) for _ in range(1500)]
    system, _, natural = rig(platform, 24)

    def code():
        for address, length, depth in reads:
            yield from natural.read(address, length, depth, remote.fetch)

    run(system, code())
    system, _, warm = rig(platform, 24)
    warm.warm(reads, lambda address, length: bytes(remote.memory[address : address + length]))
    assert warm.policy.slots == natural.policy.slots and warm.level.n == natural.level.n
    before = remote.fetched

    def look():
        for page, _ in list(warm.policy.slots.items()):
            assert (yield from warm.read(page, 64, 0, remote.fetch)) == bytes(remote.memory[page : page + 64])

    run(system, look())
    assert remote.fetched == before


@pytest.mark.parametrize(("capacity", "page_bytes"), [(40, 64), (9, 256), (5, 64)])
def test_a_full_cache_has_the_pages_of_its_range(platform, capacity, page_bytes):
    remote = Remote(1 << 13)
    system, _, cache = rig(platform, capacity, page_bytes=page_bytes)
    cache.fill(1024, 2048, lambda address, length: bytes(remote.memory[address : address + length]))
    there = min(2048, capacity * page_bytes)

    def look():
        for at in range(1024, 1024 + there, 64):
            assert (yield from cache.read(at, 64, 0, remote.fetch)) == bytes(remote.memory[at : at + 64])

    run(system, look())
    assert remote.fetched == 0 and len(cache.policy.slots) == there // page_bytes
