"""Write pending queues take lines at their rate until they are full, then at the medium's."""

from __future__ import annotations

from dataclasses import replace

from rpsim.models.imc import MemoryController
from rpsim.models.platform import load_platform

PLATFORM = load_platform("optane-adr")
IMC, OPTANE = PLATFORM.imc, PLATFORM.media["optane"]
LINE_MEDIUM_PS = 64 * 8 * 10**12 / OPTANE.write_bandwidth_bits_per_s
PLACES = IMC.wpq_bytes // 64


def test_a_line_is_queued_then_stored():
    queued, stored = MemoryController(IMC, OPTANE, 1).write_line(0, 1000)
    assert queued == 1000 + IMC.wpq_accept_ps
    assert stored == queued + -(-LINE_MEDIUM_PS // 1) + OPTANE.write_ps


def test_a_burst_is_taken_at_the_queues_rate_until_it_is_full_and_then_at_the_mediums():
    controller = MemoryController(IMC, OPTANE, 1)
    queued = [controller.write_line(number, 0)[0] for number in range(100)]
    assert queued[:PLACES] == [(turn + 1) * IMC.wpq_accept_ps for turn in range(PLACES)]
    apart = (queued[-1] - queued[PLACES]) / (len(queued) - 1 - PLACES)
    assert abs(apart - LINE_MEDIUM_PS) < 1
    # A line waits for the departure of the one that is a queue's length before it.
    first_departure = IMC.wpq_accept_ps + LINE_MEDIUM_PS
    assert abs(queued[PLACES] - first_departure) <= 1


def test_dimms_work_side_by_side():
    controller = MemoryController(IMC, OPTANE, 2)
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
    controller = MemoryController(replace(IMC, wpq_bytes=64), OPTANE, 1)
    first, second = (controller.write_line(number, 0) for number in range(2))
    assert second[0] == first[1] - OPTANE.write_ps
