"""The trace by itself: channels, edges, who has been seen, what a flush covers."""

from __future__ import annotations

import pytest

from rpsim.sim.trace import NEVER, Stage, Trace

PATH = "dma, ddio on"


@pytest.fixture
def trace():
    return Trace()


def write(trace, channel, address, data, visible_ps, accepted_ps=0):
    return trace.write(0, channel, address, data, PATH, "w", [accepted_ps, accepted_ps, visible_ps, NEVER, NEVER])


def visible(chunk):
    return chunk.forced_ps[Stage.VISIBLE]


def test_forcing_a_channel_forces_its_beginning_and_nothing_behind(trace):
    channel, other = trace.channel("a"), trace.channel("b")
    chunks = [write(trace, channel, 64 * turn, b"x", turn) for turn in range(4)]
    apart = write(trace, other, 512, b"x", 0)
    trace.force_channel(channel, 2, Stage.VISIBLE, 10, "rule")
    assert [visible(chunk) for chunk in chunks] == [10, 10, NEVER, NEVER]
    assert [chunk.forced_by for chunk in chunks] == ["rule", "rule", "", ""]
    assert visible(apart) == NEVER
    trace.force_channel(channel, 4, Stage.VISIBLE, 20, "later")
    assert [visible(chunk) for chunk in chunks] == [10, 10, 20, 20]


def test_a_stage_implies_those_before_it(trace):
    chunk = write(trace, trace.channel("a"), 0, b"x", 1)
    chunk.force(Stage.QUEUED, 10, "rule")
    assert chunk.forced_ps == [10, 10, 10, 10, NEVER]
    chunk.force(Stage.VISIBLE, 5, "earlier")
    assert chunk.forced_ps == [5, 5, 5, 10, NEVER]
    chunk.force(Stage.STORED, 20, "later")
    assert chunk.forced_ps == [5, 5, 5, 10, 20]


def test_forcing_one_stage_leaves_the_others_to_be_forced(trace):
    channel = trace.channel("a")
    chunk = write(trace, channel, 0, b"x", 1)
    trace.force_channel(channel, 1, Stage.VISIBLE, 5, "read")
    trace.force_channel(channel, 1, Stage.QUEUED, 9, "appliance")
    assert (visible(chunk), chunk.forced_ps[Stage.QUEUED]) == (5, 9)


# observation ---------------------------------------------------------------------------------------------------


def test_a_read_observes_what_is_visible_and_overlaps(trace):
    channel = trace.channel("a")
    here = write(trace, channel, 0, b"x" * 8, 10)
    write(trace, channel, 8, b"y" * 8, 10)
    later = write(trace, channel, 0, b"z" * 8, 20)
    assert trace.observed(0, 0, 8, 9) == []
    assert trace.observed(0, 0, 8, 10) == [here]
    assert trace.observed(1, 0, 8, 10) == []
    assert trace.observed(0, 0, 8, 20) == [later]


def test_bytes_that_were_overwritten_prove_nothing(trace):
    """Somebody else's write hides the first one: whoever reads cannot tell whether that has arrived."""
    first, second = trace.channel("a"), trace.channel("b")
    hidden = write(trace, first, 0, b"x" * 16, 10)
    over = write(trace, second, 0, b"y" * 8, 20)
    assert trace.observed(0, 0, 8, 30) == [over]
    assert set(trace.observed(0, 0, 16, 30)) == {hidden, over}
    write(trace, second, 8, b"z" * 8, 40)
    assert hidden not in trace.observed(0, 0, 64, 50)


def test_a_forced_chunk_still_hides_what_is_below(trace):
    first, second = trace.channel("a"), trace.channel("b")
    hidden = write(trace, first, 0, b"x" * 8, 10)
    over = write(trace, second, 0, b"y" * 8, 20)
    trace.force_observed([over], 25, "load")
    assert trace.observed(0, 0, 64, 30) == []
    assert visible(hidden) == NEVER
    again = write(trace, first, 4, b"w" * 8, 40)
    assert trace.observed(0, 0, 64, 40) == [again]


def test_what_lies_over_two_lines_is_found_once(trace):
    chunk = write(trace, trace.channel("a"), 60, b"x" * 8, 10)
    assert trace.observed(0, 0, 128, 10) == [chunk]


def test_an_observed_chunk_brings_what_came_before_it_in_order(trace):
    ordered, free = trace.channel("a"), trace.channel("nt", ordered=False)
    before, seen, after = (write(trace, ordered, 64 * turn, b"x", 1) for turn in range(3))
    apart, alone = (write(trace, free, 512 + 64 * turn, b"x", 1) for turn in range(2))
    trace.force_observed([seen, alone], 7, "load")
    assert [visible(chunk) for chunk in (before, seen, after, apart, alone)] == [7, 7, NEVER, NEVER, 7]


def test_a_core_that_sees_its_own_store_proves_nothing(trace):
    own, other = trace.channel("core 0"), trace.channel("core 1")
    mine, theirs = write(trace, own, 0, b"x", 1), write(trace, other, 8, b"x", 1)
    trace.force_observed([mine, theirs], 5, "load", reader=own)
    assert (visible(mine), visible(theirs)) == (NEVER, 5)


# flushes ---------------------------------------------------------------------------------------------------------


def flushed(trace, chunks, channel, line=0, issued_ps=10, at_ps=50):
    trace.retire([trace.flush(0, line, channel, issued_ps)], at_ps)
    return [chunk.flushed_ps.get(line) for chunk in chunks]


def test_a_flush_covers_what_was_certainly_in_the_line_when_it_was_issued(trace):
    core, nic = trace.channel("core"), trace.channel("qp")
    certain, late, never = (write(trace, nic, 8 * turn, b"x", 1) for turn in range(3))
    certain.force(Stage.VISIBLE, 10, "load")
    late.force(Stage.VISIBLE, 11, "load")
    assert flushed(trace, [certain, late, never], core) == [50, None, None]


def test_a_flush_covers_the_cores_own_earlier_stores_and_nobody_elses(trace):
    core, other = trace.channel("core"), trace.channel("other")
    own, foreign = write(trace, core, 0, b"x", 1), write(trace, other, 8, b"x", 1)
    flush = trace.flush(0, 0, core, 10)
    later = write(trace, core, 16, b"x", 11)
    trace.retire([flush], 50)
    assert [chunk.flushed_ps.get(0) for chunk in (own, foreign, later)] == [50, None, None]
    assert flushed(trace, [own, foreign, later], core, issued_ps=60, at_ps=70) == [50, None, 70]


def test_a_flush_covers_its_line_of_its_device_only(trace):
    core = trace.channel("core")
    both = write(trace, core, 56, b"x" * 16, 1)
    assert flushed(trace, [both], core, line=0) == [50]
    assert 1 not in both.flushed_ps
    assert flushed(trace, [both], core, line=1, at_ps=60) == [60]
    trace.retire([trace.flush(1, 0, core, 10)], 80)
    assert both.flushed_ps == {0: 50, 1: 60}
