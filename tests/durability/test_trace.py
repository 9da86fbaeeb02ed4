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


# release edges -------------------------------------------------------------------------------------------------


def released(trace):
    """Two chunks in order, two in any order, one behind the first of each, and one more behind all."""
    ordered, loose, release = trace.channel("a"), trace.channel("b", loose=True), trace.channel("r")
    firsts = [write(trace, ordered, 0, b"x", 1), write(trace, loose, 64, b"x", 1)]
    reached = [2, 2, 3, NEVER, NEVER]
    seen = trace.write(0, release, 128, b"x", PATH, "w", list(reached), ((ordered, 1), (loose, 1)))
    later = [write(trace, ordered, 192, b"x", 4), write(trace, loose, 256, b"x", 4)]
    last = trace.write(0, release, 320, b"x", PATH, "w", list(reached), ((ordered, 2), (loose, 2)))
    return firsts, seen, later, last


def test_who_sees_a_release_knows_that_all_before_it_is_visible(trace):
    firsts, seen, later, last = released(trace)
    trace.force_observed([seen], 7, "load")
    assert [visible(chunk) for chunk in (*firsts, seen)] == [7, 7, 7]
    assert [chunk.forced_by for chunk in (*firsts, seen)] == ["atomic-write-releases"] * 2 + ["load"]
    assert [visible(chunk) for chunk in (*later, last)] == [NEVER] * 3


@pytest.mark.parametrize("stage", [Stage.VISIBLE, Stage.QUEUED])
def test_a_forced_release_makes_what_it_is_behind_visible_and_no_more(trace, stage):
    firsts, seen, later, last = released(trace)
    trace.force_channel(seen.channel, 1, stage, 9, "event")
    assert seen.forced_ps[stage] == 9
    assert [chunk.forced_ps[:4] for chunk in firsts] == [[9, 9, 9, NEVER]] * 2
    assert [visible(chunk) for chunk in (*later, last)] == [NEVER] * 3
    trace.force_chunk(last, stage, 12, "event")
    assert [visible(chunk) for chunk in (*firsts, *later, last)] == [9, 9, 12, 12, 12]


def test_a_release_on_its_way_proves_nothing(trace):
    firsts, seen, _, _ = released(trace)
    trace.force_channel(seen.channel, 1, Stage.TRANSIT, 9, "event")
    assert [visible(chunk) for chunk in (*firsts, seen)] == [NEVER] * 3


def test_a_chunk_that_is_flushed_alone_proves_only_that_those_before_it_are_visible(trace):
    channel = trace.channel("a")
    before, flushed, after = (write(trace, channel, 64 * turn, b"x", 1) for turn in range(3))
    trace.force_chunk(flushed, Stage.QUEUED, 5, "flush")
    assert [chunk.forced_ps[Stage.QUEUED] for chunk in (before, flushed, after)] == [NEVER, 5, NEVER]
    assert [visible(chunk) for chunk in (before, flushed, after)] == [5, 5, NEVER]


def test_what_is_loose_is_proved_alone(trace):
    loose = trace.channel("b", loose=True)
    first, second = write(trace, loose, 0, b"x", 1), write(trace, loose, 64, b"x", 1)
    trace.force_observed([second], 5, "load")
    assert [visible(first), visible(second)] == [NEVER, 5]


# barriers ------------------------------------------------------------------------------------------------------


def test_a_barrier_keeps_what_the_device_certainly_held_when_it_was_issued(trace):
    trace.uncached.add(0)
    channel = trace.channel("a")
    early, late, never = (write(trace, channel, 64 * turn, b"x", 1) for turn in range(3))
    early.force(Stage.VISIBLE, 10, "read")
    late.force(Stage.VISIBLE, 20, "read")
    trace.barrier(0, 10, 30, "barrier")
    assert [chunk.forced_ps[Stage.QUEUED] for chunk in (early, late, never)] == [30, NEVER, NEVER]
    trace.barrier(1, 50, 60, "barrier")
    trace.barrier(0, 20, 70, "barrier")
    assert [chunk.forced_ps[Stage.QUEUED] for chunk in (early, late, never)] == [30, 70, NEVER]


def test_no_flush_of_a_core_reaches_an_uncached_device(trace):
    trace.uncached.add(0)
    core = trace.channel("core")
    own, seen = write(trace, core, 0, b"x", 1), write(trace, trace.channel("qp"), 8, b"x", 1)
    trace.force_observed([seen], 5, "load")
    assert flushed(trace, [own, seen], core) == [None, None]
    trace.uncached.clear()
    assert flushed(trace, [own, seen], core) == [50, 50]


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


def test_what_the_adapter_flushed_stays_flushed_from_the_earliest_instant_on(trace):
    core = trace.channel("core")
    chunk = write(trace, core, 0, b"x", 1)
    chunk.flush(0, 40)
    chunk.flush(0, 60)
    assert flushed(trace, [chunk], core, at_ps=50) == [40]
