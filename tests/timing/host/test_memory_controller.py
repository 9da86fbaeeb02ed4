"""Write pending queues and DIMMs take lines at their rate until they are full, then at the medium's."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.memory.imc import MemoryController
from rpsim.models.profiles.parameters.memory import Controller
from rpsim.models.profiles.platform import load_platform

PLATFORM = load_platform("optane-adr")
IMC, OPTANE, DRAM = PLATFORM.imc, PLATFORM.media["optane"], PLATFORM.media["dram"]
PLAIN = replace(OPTANE, controller=Controller())
"""An Optane DIMM whose medium takes line by line."""
PS_PER_S = 10**12


SETTLED = replace(OPTANE, controller=replace(OPTANE.controller, read_after_persist_ps=0))
"""DIMMs that read at once what has just been persisted."""


def busy_ps(n_bytes: int, bits_per_s: int) -> int:
    return -(-n_bytes * 8 * PS_PER_S // bits_per_s)


LINE_PS = busy_ps(64, OPTANE.write_bandwidth_bits_per_s)
XPLINE_PS = busy_ps(256, OPTANE.write_bandwidth_bits_per_s)
PLACES = IMC.wpq_bytes // 64


# a plain DIMM ---------------------------------------------------------------------------------------------------------


def test_a_line_is_queued_then_stored():
    queued, stored = MemoryController(IMC, PLAIN, 1).write_line(0, 1000)
    assert queued == 1000 + IMC.wpq_accept_ps
    assert stored == queued + LINE_PS + PLAIN.write_ps


def test_a_burst_is_taken_at_the_queues_rate_until_it_is_full_and_then_at_the_mediums():
    controller = MemoryController(IMC, PLAIN, 1)
    queued = [controller.write_line(number, 0)[0] for number in range(100)]
    assert queued[:PLACES] == [(turn + 1) * IMC.wpq_accept_ps for turn in range(PLACES)]
    assert [later - one for one, later in zip(queued[PLACES:], queued[PLACES + 1 :], strict=False)] == [LINE_PS] * (
        99 - PLACES
    )
    # A line waits for the departure of the one that is a queue's length before it.
    assert queued[PLACES] == IMC.wpq_accept_ps + LINE_PS
    assert controller.traffic.wpq_waited_ps == sum(
        one - (turn + 1) * IMC.wpq_accept_ps for turn, one in enumerate(queued)
    )


def test_dimms_work_side_by_side():
    controller = MemoryController(IMC, PLAIN, 2)
    per_dimm = IMC.interleave_bytes // 64
    alone = [controller.write_line(number, 0)[0] for number in range(20)]
    other = [controller.write_line(per_dimm + number, 0)[0] for number in range(20)]
    assert other == alone
    again = controller.write_line(2 * per_dimm, 0)[0]  # back at the first DIMM, behind what waits there
    assert again > alone[-1]


def test_writes_of_one_dimm_keep_the_order_in_which_they_were_sent():
    controller = MemoryController(IMC, OPTANE, 1)
    first = controller.write_line(0, 10_000)
    second = controller.write_line(1, 5_000)
    assert second[0] == first[0] + IMC.wpq_accept_ps and second[1] > first[1]


def test_a_queue_of_one_line():
    controller = MemoryController(replace(IMC, wpq_bytes=64), PLAIN, 1)
    first, second = (controller.write_line(number, 0) for number in range(2))
    assert second[0] == first[1] - PLAIN.write_ps


def test_dram_rows_and_fine_interleaving():
    controller = MemoryController(IMC, DRAM, 1)
    assert controller.read_lines(0, 0, 0) == (DRAM.load_ps, 0)
    assert controller.read_lines(1, 1, 10**6) == (DRAM.near_load_ps, 0)
    other = DRAM.banks * DRAM.row_bytes // 64  # another row of the same bank
    assert controller.read_lines(other, other, 2 * 10**6) == (DRAM.load_ps, 0)
    assert controller.read_lines(2, 2, 3 * 10**6) == (DRAM.load_ps, 0)  # its row was closed for the other
    spread = MemoryController(IMC, DRAM, 6)
    for line in range(64):
        spread.write_line(line, 0)
    assert len(spread.dimms) == 6


@pytest.mark.parametrize(
    ("per", "waits"),
    [
        ("line", [1, 2, 3, 4, 5]),
        ("write", [1, 1, 1, 2, 2]),
        ("flush", [0, 0, 0, 1, 1]),
        ("flushed line", [0, 0, 0, 1, 2]),
        ("medium", [0, 0, 0, 0, 0]),
    ],
)
def test_emulated_slow_memory_delays_lines_or_runs_of_them_or_what_is_flushed(per, waits):
    """rNVM adds 200 ns to writes of DRAM; three lines that follow each other, then a flush of two others."""
    delay = 200_000
    slow = MemoryController(IMC, replace(DRAM, write_delay_ps=delay, write_delay_per=per), 1)
    fast = MemoryController(IMC, DRAM, 1)
    lines = [(0, False), (1, False), (2, False), (9, True), (10, True)]
    late = [slow.write_line(line, 0, flush)[0] - fast.write_line(line, 0, flush)[0] for line, flush in lines]
    assert late == [delay * times for times in waits]
    (queued_ps, stored_ps), (soon_ps, before_ps) = (one.write_line(20, 10**9) for one in (slow, fast))
    assert stored_ps - queued_ps - (before_ps - soon_ps) == (delay if per == "medium" else 0)


# Optane: closed forms -------------------------------------------------------------------------------------------------


def gb_per_s(controller: MemoryController, numbers: list[int]) -> float:
    """Bandwidth in the second half of a stream that never lets the queue run empty."""
    queued = [controller.write_line(number, 0)[0] for number in numbers]
    half = len(queued) // 2
    return 64_000 * (len(queued) - half) / (queued[-1] - queued[half - 1])


def test_sequential_writes_go_at_the_mediums_bandwidth_and_are_written_once():
    controller = MemoryController(IMC, OPTANE, 1)
    assert gb_per_s(controller, list(range(8000))) == pytest.approx(2.2, rel=0.01)
    assert controller.traffic.write_amplification == 1
    assert controller.traffic.media_read_bytes == 0


def test_random_lines_go_at_a_quarter_of_it_and_are_written_four_times():
    controller = MemoryController(IMC, OPTANE, 1)
    assert gb_per_s(controller, [number * 4 * 997 for number in range(4000)]) == pytest.approx(2.2 / 4, rel=0.02)
    traffic = controller.traffic
    assert traffic.write_amplification == pytest.approx(4, rel=0.02)
    assert traffic.media_read_bytes == traffic.media_written_bytes  # the rest of each XPLine


def test_reads_go_at_the_mediums_bandwidth_by_xplines():
    controller = MemoryController(IMC, OPTANE, 1)
    ready = [controller.read_lines(4 * number, 4 * number + 3, 0)[0] for number in range(1000)]
    assert 256_000 * 999 / (ready[-1] - ready[0]) == pytest.approx(6.5, rel=0.01)
    assert ready[0] == OPTANE.load_ps
    single = MemoryController(IMC, OPTANE, 1)
    ready = [single.read_lines(4 * number, 4 * number, 0)[0] for number in range(1000)]
    assert 64_000 * 999 / (ready[-1] - ready[0]) == pytest.approx(6.5 / 4, rel=0.01)
    assert single.traffic.read_amplification == 4


def test_what_reads_take_of_the_medium_writes_miss():
    controller = MemoryController(IMC, OPTANE, 1)
    queued = []
    for xpline in range(4000):
        controller.read_lines(10**6 + 4 * xpline, 10**6 + 4 * xpline, queued[-1] if queued else 0)
        queued += [controller.write_line(4 * xpline + part, 0)[0] for part in range(4)]
    both_ps = XPLINE_PS + busy_ps(256, OPTANE.read_bandwidth_bits_per_s)
    assert (queued[-1] - queued[8000 - 1]) / 2000 == pytest.approx(both_ps, rel=0.01)


def test_a_burst_goes_into_the_dimm_at_its_own_rate_until_its_buffers_are_full():
    controller = MemoryController(IMC, OPTANE, 1)
    queued = [controller.write_line(number, 0)[0] for number in range(64)]
    apart = {later - one for one, later in zip(queued[PLACES + 1 :], queued[PLACES + 2 :], strict=False)}
    assert apart == {OPTANE.controller.ingest_ps}


def test_rewriting_a_line_that_is_being_written_waits_for_it():
    controller = MemoryController(IMC, OPTANE, 1)
    for part in range(4):
        stored = controller.write_line(part, 0)[1]
    rewritten = [controller.write_line(part, 0)[1] for part in range(4)][-1]
    assert rewritten == stored + XPLINE_PS + OPTANE.write_ps
    other = MemoryController(IMC, OPTANE, 1)
    lasts = [other.write_line(part, 0)[1] for part in range(8)]
    assert lasts[-1] == stored + XPLINE_PS < rewritten


def test_a_read_after_persist_waits_for_the_write_in_flight():
    controller = MemoryController(IMC, SETTLED, 1)
    stored = max(controller.write_line(part, 0)[1] for part in range(4))
    soon, late = 150_000, stored + 1
    assert controller.read_lines(0, 0, soon) == (OPTANE.near_load_ps, stored)
    assert max(late, controller.read_lines(0, 0, late)[1]) == late


def test_a_read_is_served_from_the_write_pending_queue_while_the_line_is_there():
    controller = MemoryController(IMC, OPTANE, 1)
    came_ps = controller.write_line(0, 0)[0] + OPTANE.controller.ingest_ps
    waits_ps = OPTANE.controller.read_after_persist_ps
    assert controller.read_lines(0, 0, came_ps) == (OPTANE.near_load_ps, came_ps + waits_ps)
    assert controller.read_lines(0, 0, came_ps + 7) == (OPTANE.near_load_ps, came_ps + waits_ps)
    controller = MemoryController(IMC, SETTLED, 1)
    queued, _ = controller.write_line(0, 0)
    assert controller.read_lines(0, 0, queued) == (IMC.wpq_hit_ps, queued)
    assert controller.read_lines(0, 0, queued + OPTANE.controller.ingest_ps) == (OPTANE.near_load_ps, 0)


def test_a_block_that_is_written_too_often_moves():
    wearing = replace(OPTANE, controller=replace(OPTANE.controller, wear_writes=100))
    controller = MemoryController(IMC, wearing, 1)
    queued = [controller.write_line(number % 4, 0)[0] for number in range(4 * 250)]
    apart = [later - one for one, later in itertools.pairwise(queued)]
    pauses = [gap for gap in apart if gap > wearing.controller.wear_pause_ps]
    assert controller.traffic.migrations == len(pauses) == 2


def test_a_separate_read_buffer_gives_each_line_once():
    parts = replace(OPTANE.controller, read_buffer_bytes=16_384)
    controller = MemoryController(IMC, replace(OPTANE, controller=parts), 1)
    took = [controller.read_lines(line, line, 10**7 * turn)[0] for turn, line in enumerate([0, 1, 2, 3, 1])]
    assert took == [OPTANE.load_ps, *[OPTANE.near_load_ps] * 3, OPTANE.load_ps]


def test_the_address_tables_cache_has_so_many_pages():
    small = replace(OPTANE.controller, ait_bytes=4 * 4096)
    controller = MemoryController(IMC, replace(OPTANE, controller=small), 1)
    took = [controller.read_lines(64 * page + 4 * turn, 64 * page + 4 * turn, 10**7 * turn)[0] for turn, page in
            enumerate([0, 1, 2, 3, 0, 4, 1])]  # fmt: skip
    miss = OPTANE.load_ps + small.ait_miss_ps
    assert took == [OPTANE.load_ps] * 5 + [miss, miss]


# limits ---------------------------------------------------------------------------------------------------------------

CONTROLLERS = st.builds(
    Controller,
    buffer_bytes=st.sampled_from([256, 1024, 16_384]),
    read_buffer_bytes=st.sampled_from([0, 512]),
    eviction=st.sampled_from(["random", "lru", "fifo"]),
    full_lines=st.sampled_from(["at_once", "evicted", "periodic"]),
    full_line_period_ps=st.just(300_000),
    lsq_bytes=st.sampled_from([64, 4096]),
    ingest_ps=st.just(21_800),
)
STREAM = st.lists(st.tuples(st.sampled_from("wwwr"), st.integers(0, 200), st.integers(0, 100_000)), max_size=300)


@pytest.mark.long
@given(CONTROLLERS, STREAM, st.sampled_from([64, 256, 512]))
def test_the_queue_is_bounded_in_order_and_loses_nothing(parts, stream, wpq):
    controller = MemoryController(replace(IMC, wpq_bytes=wpq), replace(OPTANE, controller=parts), 1)
    now, stays, stored = 0, [], 0
    for kind, line, apart in stream:
        now += apart
        if kind == "r":
            took, _ = controller.read_lines(line, line, now)
            assert took >= IMC.wpq_hit_ps
            continue
        queued, stored = controller.write_line(line, now)
        left = controller.dimms[0].left_ps(line)
        assert now + IMC.wpq_accept_ps <= queued < left < stored
        assert not stays or (queued > stays[-1][0] and left >= stays[-1][1])
        stays.append((queued, left))
        assert sum(until > queued for _, until in stays) <= wpq // 64
    assert controller.stored_ps(0) >= stored
    writes = sum(kind == "w" for kind, _, _ in stream)
    assert controller.traffic.written_bytes == 64 * writes


@given(CONTROLLERS, st.lists(st.integers(0, 60), max_size=200))
def test_every_line_written_reaches_the_medium_or_is_in_the_buffer(parts, written):
    """Bytes written of an XPLine since it was last written to the medium are held; nothing else is dirty."""
    controller = MemoryController(IMC, replace(OPTANE, controller=parts), 1)
    for line in written:
        controller.write_line(line, 0)
    if not written:
        return
    buffer = controller.dimms[0].buffer
    assert len(buffer._held) <= parts.buffer_bytes // 256
    dirty = {xpline for xpline, mask in buffer._held.items() if mask & 15}
    on_medium = controller.traffic.media_written_bytes // 256
    assert on_medium + len(dirty) >= len({line // 4 for line in written})
    assert on_medium <= len(written)


@pytest.mark.long
@given(st.integers(1, 40), st.integers(1, 4))
def test_amplification_is_one_for_whole_xplines_and_more_for_parts(xplines, lines):
    controller = MemoryController(IMC, OPTANE, 1)
    for turn in range(3 * 64 + xplines):
        for part in range(lines):
            controller.write_line(4 * turn + part, 0)
    buffered = 0 if lines == 4 else 64  # XPLines that nothing has pushed out yet
    written = controller.traffic
    assert written.media_written_bytes == 256 * (3 * 64 + xplines - buffered)
    if lines == 4:
        assert written.write_amplification == 1
    else:
        assert written.media_written_bytes >= 64 * lines * (3 * 64 + xplines - buffered)
