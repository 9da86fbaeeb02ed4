"""Caches against what is known of them: closed forms of hit rates, a plain reference, and limits that always hold."""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.host.cacheset import Tags, line_key
from rpsim.models.host.privatecaches import Caches, Level
from rpsim.models.host.tlb import Tlb as Translation
from rpsim.models.profiles.parameters.caches import PrivateCacheParameters, TlbParameters
from rpsim.models.profiles.platform import load_platform

ADR, EADR = load_platform("optane-adr"), load_platform("optane-eadr")
POLICIES = ["lru", "random", "unpredictable"]


def hit_rate(tags, keys):
    """Of reads of these lines, each put in where it misses."""
    hits = 0
    for key in keys:
        if key in tags.state:
            tags.use(key)
            hits += 1
        else:
            tags.put(key, 0)
    return hits / len(keys)


# known streams --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "expected"), [(0, 1.0), (1, 0.0)])
def test_a_cycle_over_one_line_more_than_fits_never_hits_where_the_last_used_stays(more, expected):
    tags = Tags(16, 16)
    lines = list(range(16 + more))
    hit_rate(tags, lines)
    assert hit_rate(tags, lines * 20) == expected


def test_a_cycle_with_random_replacement_hits_as_often_as_the_closed_form_says():
    """Of n lines in turn each has to survive, in one of c places, the misses until its turn: h=(1-1/c)^((n-1)(1-h))."""
    ways, lines = 64, 96
    tags = Tags(ways, ways, policy="random", seed=lambda: 12345)
    hit_rate(tags, list(range(lines)) * 5)
    found, expected = hit_rate(tags, list(range(lines)) * 400), 0.5
    for _ in range(200):
        expected = (1 - 1 / ways) ** ((lines - 1) * (1 - expected))
    assert found == pytest.approx(expected, abs=0.02)


def test_consecutive_lines_fill_all_sets_alike():
    llc = ADR.llc
    tags = Tags(llc.size_bytes // 64, llc.ways, llc.slices)
    assert tags.sets == 24 * 2048
    counts: dict[int, int] = {}
    first = line_key(3, 1 << 20)
    for key in range(first, first + 2 * tags.sets):
        counts[tags.set_of(key)] = counts.get(tags.set_of(key), 0) + 1
    assert len(counts) == tags.sets and set(counts.values()) == {2}
    assert len({tags.set_of(first + step) % llc.slices for step in range(24)}) >= 16


def test_pages_anywhere_overload_two_sets_in_five_at_almost_full_size():
    """Song et al., OSDI'26 (Sepia): with 38 MB in a cache of 39 MB 39 % of the sets have more lines than ways."""
    llc = EADR.llc
    tags = Tags(llc.size_bytes // 64, llc.ways, llc.slices, scattered_page_lines=64)
    counts: dict[int, int] = {}
    for page in range((38 << 20) // 4096):  # the lines of a page go to sets side by side, one each
        where = tags.set_of(line_key(0, page * 64)) // 64
        counts[where] = counts.get(where, 0) + 1
    groups = tags.sets // 64
    over = sum(count > llc.ways for count in counts.values()) / groups
    mean = (38 << 20) / 4096 / groups
    poisson = 1 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(llc.ways + 1))
    assert over == pytest.approx(poisson, abs=0.05)
    assert over == pytest.approx(0.39, abs=0.05)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_ring_leaks_from_the_size_of_the_io_ways_on(policy):
    """Rings of up to ways x sets x 64 B stay; larger ones leave for memory, all of them where the last used stays."""
    llc = replace(ADR.llc, size_bytes=11 * 256 * 64, slices=4, policy=policy)
    io_bytes = 2 * 256 * 64

    def leaked(ring_bytes):
        caches = Caches(llc, PrivateCacheParameters(), lambda: 7)
        for turn in range(6):
            caches.io_writes(deque([(turn, 0, 0, ring_bytes)]), turn)
        return caches.counters.leaked / (6 * ring_bytes / 64 - io_bytes / 64)

    assert leaked(io_bytes // 2) == leaked(io_bytes) == 0
    assert (leaked(2 * io_bytes) == 1) if policy == "lru" else (0.8 < leaked(2 * io_bytes) <= 1)


@pytest.mark.parametrize(("policy", "in_order"), [("lru", True), ("random", False), ("unpredictable", False)])
def test_sequential_writes_leave_the_cache_in_another_order(policy, in_order):
    """DDIO turns sequential writes into random ones (Wei et al., ATC'21), unless the least recently used line goes."""
    llc = replace(ADR.llc, size_bytes=11 * 1024 * 64, slices=4, policy=policy)
    caches = Caches(llc, PrivateCacheParameters(), lambda: 99)
    gone = [key for _, key, reads in caches.io_writes(deque([(0, 0, 0, 1 << 20)]), 0) if not reads]
    together = sum(other == one + 1 for one, other in pairwise(gone)) / len(gone)
    assert len(gone) == (1 << 14) - 2048
    assert (together > 0.99) if in_order else (together < 0.6)


# private caches -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_what_does_not_fit_the_first_level_is_in_the_second_and_then_in_the_last():
    caches = Caches(ADR.llc, ADR.private)
    for size, level in ((16 << 10, Level.L1), (512 << 10, Level.L2), (4 << 20, Level.LLC)):
        lines = range(line_key(0, 1 << 24), line_key(0, (1 << 24) + size // 64))
        for key in lines:
            caches.access(0, key, False)
        assert {caches.access(0, key, False) for key in lines} == {level}


def test_a_line_that_another_core_has_written_comes_from_there_and_stays_dirty():
    caches = Caches(ADR.llc, ADR.private)
    caches.access(0, 5, True)
    assert caches.access(1, 5, False) is Level.LLC
    assert caches.access(0, 5, False) is Level.L1
    assert caches.access(1, 5, True) is Level.L1
    assert caches.access(0, 5, False) is Level.LLC
    assert caches.flush(5, keep=False) is True and 5 not in caches


def test_an_inbound_write_takes_a_line_out_of_private_caches():
    caches = Caches(ADR.llc, ADR.private)
    caches.access(0, 5, True)
    assert caches.io_writes(deque([(1, 0, 5 * 64 + 8, 5 * 64 + 16)]), 1) == []  # the rest comes from the core: no fill
    assert caches.access(0, 5, False) is Level.LLC


def test_translation_misses_once_there_are_more_pages_than_entries():
    tlb = Translation(TlbParameters(entries=4, page_bytes=4096))
    assert [len(tlb.misses(0, page * 4096, 64)) for page in range(4)] == [0] * 4  # warm
    assert [len(tlb.misses(0, page * 4096, 64)) for page in range(4)] == [0] * 4
    assert [len(tlb.misses(0, page * 4096, 64)) for page in range(5)] == [0, 0, 0, 0, 1]
    assert len(tlb.misses(0, 0, 64)) == 1  # used least recently


# limits ---------------------------------------------------------------------------------------------------------------

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["load", "store", "io", "part", "clwb", "clflush"]), st.integers(0, 1), st.integers(0, 60)
    ),
    max_size=120,
)


@pytest.mark.long
@given(OPERATIONS, st.sampled_from(POLICIES), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_no_dirty_line_disappears_and_no_set_has_more_lines_than_ways(operations, policy, private, seed):
    llc = replace(ADR.llc, size_bytes=64 * 24, ways=4, io_ways=2, slices=2, policy=policy)
    own = (
        PrivateCacheParameters(l1_bytes=128, l1_ways=1, l2_bytes=256, l2_ways=2)
        if private
        else PrivateCacheParameters()
    )
    caches = Caches(llc, own, lambda: seed)
    dirty: set[int] = set()

    def left(keys):
        for key in keys:
            assert key in dirty, "what goes to memory was dirty"
            dirty.discard(key)

    for name, core, line in operations:
        if name in ("io", "part"):
            end = line * 64 + (64 if name == "io" else 8)
            traffic = caches.io_writes(deque([(0, 0, line * 64, end)]), 0)
            left(key for _, key, reads in traffic if not reads)
            dirty.add(line)
        elif name in ("clwb", "clflush"):
            assert caches.flush(line, name == "clwb") is (line in dirty)
            dirty.discard(line)
        else:
            caches.access(core, line, name == "store")
            left(caches.evicted)
            caches.evicted = []
            dirty |= {line} if name == "store" else set()
        assert all(key in caches for key in dirty), "a dirty line is somewhere, or was written back"
        per_set: dict[int, int] = {}
        for key in caches.llc.tags.state:
            where = caches.llc.tags.set_of(key)
            per_set[where] = per_set.get(where, 0) + 1
        assert max(per_set.values(), default=0) <= 4
    assert sorted(caches.flush_all()) == sorted(dirty)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=200))
def test_least_recent_use_is_that_of_a_plain_list(operations):
    """A set-associative cache of one slice against a list a set, the last used at its end."""
    tags = Tags(12, 3)
    plain: dict[int, list[list[int]]] = {}
    for dirty, key in operations:
        lines = plain.setdefault(tags.set_of(key), [])
        found = next((line for line in lines if line[0] == key), None)
        assert (key in tags.state) is (found is not None)
        if found is not None:
            tags.use(key, dirty)
            lines.remove(found)
            lines.append([key, found[1] | dirty])
            continue
        gone = tags.put(key, int(dirty))
        assert list(gone) == (lines.pop(0) if len(lines) == 3 else [-1, 0])
        lines.append([key, int(dirty)])


@given(st.integers(0, 300), st.integers(1, 40), st.booleans(), st.sampled_from(POLICIES))
def test_a_row_of_writes_is_as_good_as_each_of_them_alone(start, count, together, policy):
    """The short way through a WRITE of many lines against the long way, line by line."""
    llc = replace(ADR.llc, size_bytes=64 * 44, slices=2, policy=policy)
    one, other = (Caches(llc, PrivateCacheParameters(), lambda: 5) for _ in range(2))
    order = random.Random(start)
    writes = [(turn, 0, 8 * (start + order.randrange(200)), 0) for turn in range(count)]
    writes = [(at, device, low, low + order.choice([8, 64, 256])) for at, device, low, _ in writes]
    row = [(at, 0, 4096 + 256 * at, 4352 + 256 * at) for at in range(count, 2 * count)]
    found = one.io_writes(deque([*writes, *row]), 1000)
    plain = [traffic for write in (*writes, *row) for traffic in other.io_writes(deque([write]), 1000)]
    assert found == plain and one.llc.tags.state == other.llc.tags.state
