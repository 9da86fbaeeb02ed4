"""The last-level cache: where inbound writes may allocate, and what leaves it."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from rpsim.models.host.cacheset import LINE_BITS
from rpsim.models.host.privatecaches import Caches, Level
from rpsim.models.profiles.parameters.caches import PrivateCacheParameters
from rpsim.models.profiles.platform import load_platform

PLATFORM = load_platform("optane-adr")


@pytest.fixture
def caches():
    """Eleven lines in one set, two of them for I/O too; no private caches."""
    return Caches(replace(PLATFORM.llc, size_bytes=11 * 64, ways=11, io_ways=2, policy="lru"), PrivateCacheParameters())


def io_write(caches, line, device=0):
    """One line is written; the dirty line that this evicts, if any."""
    traffic = caches.io_writes(deque([(7, device, line * 64, (line + 1) * 64)]), 7)
    assert all(at_ps == 7 and not reads for at_ps, _, reads in traffic) and len(traffic) <= 1
    return traffic[0][1] if traffic else None


def store(caches, line):
    """A core stores; where the line was, and the dirty line that had to go."""
    return touch(caches, line, True)


def touch(caches, line, dirty=False):
    level = caches.access(0, line, dirty)
    evicted, caches.evicted = caches.evicted, []
    return level, evicted


def test_inbound_writes_take_effect_as_far_as_somebody_asks(caches):
    inbox = deque([(10, 0, 0, 128), (20, 0, 128, 256), (30, 0, 256, 320)])
    assert caches.io_writes(inbox, 9) == []
    assert caches.io_writes(inbox, 20) == [(20, 0, False), (20, 1, False)]
    assert list(inbox) == [(30, 0, 256, 320)] and 3 in caches and 4 not in caches


def test_inbound_writes_that_miss_have_the_io_ways_only(caches):
    assert [io_write(caches, number) for number in range(4)] == [None, None, 0, 1]
    assert 0 not in caches and 3 in caches
    assert caches.counters.leaked == 2 and caches.counters.io_misses == 4


def test_a_line_used_again_is_not_the_one_that_goes(caches):
    io_write(caches, 0)
    io_write(caches, 1)
    io_write(caches, 0)
    assert io_write(caches, 2) == 1


def test_an_inbound_write_updates_a_core_line_in_its_place(caches):
    touch(caches, 9)
    io_write(caches, 0)
    io_write(caches, 1)
    assert io_write(caches, 9) is None
    assert 0 in caches and 1 in caches
    assert caches.counters.io_hits == 1
    assert caches.flush(9, keep=False) is True


def test_the_io_ways_are_not_reserved_for_io(caches):
    assert [touch(caches, number)[0] for number in range(11)] == [Level.MEMORY] * 11
    assert [touch(caches, number)[0] for number in range(11)] == [Level.LLC] * 11
    assert io_write(caches, 20) is None  # one of the cores' clean lines in the I/O ways goes
    assert sum(number in caches for number in range(11)) == 10 and {9, 10} & {n for n in range(11) if n not in caches}


def test_a_core_reads_an_io_line_and_it_stays_dirty(caches):
    io_write(caches, 0)
    assert touch(caches, 0) == (Level.LLC, [])
    assert caches.flush(0, keep=True) is True


def test_a_clean_line_leaves_in_silence_and_a_dirty_one_does_not(caches):
    for number in range(11):
        assert touch(caches, number, dirty=number == 1) == (Level.MEMORY, [])
    assert touch(caches, 100) == (Level.MEMORY, [])  # line 0 was clean
    assert touch(caches, 101) == (Level.MEMORY, [1])


@pytest.mark.parametrize("keep", [True, False])
def test_a_written_back_line_is_clean_and_stays_only_if_kept(caches, keep):
    store(caches, 5)
    assert caches.flush(5, keep) is True
    assert (5 in caches) is keep
    assert caches.flush(5, keep) is False


def test_a_line_that_is_not_there_has_nothing_to_write_back(caches):
    assert caches.flush(5, keep=True) is False
    assert 5 not in caches


def test_devices_do_not_share_lines(caches):
    io_write(caches, 5)
    assert 1 << LINE_BITS | 5 not in caches


def test_a_part_of_a_line_that_nobody_has_is_filled_from_memory(caches):
    assert caches.io_writes(deque([(7, 0, 8, 16)]), 7) == [(7, 0, True)]
    assert caches.io_writes(deque([(8, 0, 16, 24)]), 8) == []  # it is there now
    assert caches.counters.io_fills == 1
    # From the middle of line 1 to the middle of line 3: the line between is whole.
    assert caches.io_writes(deque([(9, 0, 96, 224)]), 9) == [(9, 1, True), (9, 0, False), (9, 3, True), (9, 1, False)]


def test_all_lines_are_flushed_at_once(caches):
    store(caches, 3)
    touch(caches, 4)
    io_write(caches, 5)
    assert sorted(caches.flush_all()) == [3, 5]
    assert all(number not in caches for number in (3, 4, 5))
    assert caches.flush_all() == []
