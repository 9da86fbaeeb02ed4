"""The last-level cache: where inbound writes may allocate, and what leaves it."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from rpsim.models.llc import Llc
from rpsim.models.platform import load_platform

PLATFORM = load_platform("optane-adr")


@pytest.fixture
def llc():
    """Eleven lines: two for I/O, nine for cores."""
    return Llc(replace(PLATFORM.llc, size_bytes=11 * 64, ways=11, io_ways=2))


def io_write(llc, key):
    """One line is written; the dirty line that this evicts, if any."""
    evicted = llc.io_writes(deque([(7, *key, key[1])]), 7)
    assert all(at_ps == 7 for _, at_ps in evicted) and len(evicted) <= 1
    return evicted[0][0] if evicted else None


def test_inbound_writes_take_effect_as_far_as_somebody_asks(llc):
    inbox = deque([(10, 0, 0, 1), (20, 0, 2, 3), (30, 0, 4, 4)])
    assert llc.io_writes(inbox, 9) == []
    assert llc.io_writes(inbox, 20) == [((0, 0), 20), ((0, 1), 20)]
    assert list(inbox) == [(30, 0, 4, 4)] and (0, 3) in llc and (0, 4) not in llc


def test_inbound_writes_that_miss_have_the_io_ways_only(llc):
    assert [io_write(llc, (0, number)) for number in range(4)] == [None, None, (0, 0), (0, 1)]
    assert (0, 0) not in llc and (0, 3) in llc


def test_a_line_used_again_is_not_the_one_that_goes(llc):
    io_write(llc, (0, 0))
    io_write(llc, (0, 1))
    io_write(llc, (0, 0))
    assert io_write(llc, (0, 2)) == (0, 1)


def test_an_inbound_write_updates_a_core_line_in_its_place(llc):
    llc.core_access((0, 9), dirty=False)
    io_write(llc, (0, 0))
    io_write(llc, (0, 1))
    assert io_write(llc, (0, 9)) is None
    assert (0, 0) in llc and (0, 1) in llc
    assert llc.write_back((0, 9), keep=False) is True


def test_a_core_takes_an_io_line_over_and_keeps_it_dirty(llc):
    io_write(llc, (0, 0))
    assert llc.core_access((0, 0), dirty=False) == (True, None)
    assert [io_write(llc, (0, number)) for number in (1, 2)] == [None, None]
    assert llc.write_back((0, 0), keep=True) is True


def test_a_clean_line_leaves_in_silence_and_a_dirty_one_does_not(llc):
    for number in range(9):
        assert llc.core_access((0, number), dirty=number == 1) == (False, None)
    assert llc.core_access((0, 100), dirty=False) == (False, None)  # line 0 was clean
    assert llc.core_access((0, 101), dirty=False) == (False, (0, 1))


@pytest.mark.parametrize("keep", [True, False])
def test_a_written_back_line_is_clean_and_stays_only_if_kept(llc, keep):
    llc.core_access((0, 5), dirty=True)
    assert llc.write_back((0, 5), keep) is True
    assert ((0, 5) in llc) is keep
    assert llc.write_back((0, 5), keep) is False


def test_a_line_that_is_not_there_has_nothing_to_write_back(llc):
    assert llc.write_back((0, 5), keep=True) is False
    assert (0, 5) not in llc


def test_an_invalidated_line_is_gone(llc):
    llc.core_access((0, 5), dirty=True)
    io_write(llc, (0, 6))
    llc.invalidate((0, 5))
    llc.invalidate((0, 6))
    assert (0, 5) not in llc and (0, 6) not in llc


def test_devices_do_not_share_lines(llc):
    io_write(llc, (0, 5))
    assert (1, 5) not in llc
