"""Loads under traffic, and sources of tails: each by its closed form, and nothing of it where it is off."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from rpsim.models.memory.dram import Refresh, Rows, refreshes
from rpsim.models.memory.imc import MemoryController
from rpsim.models.memory.xpbuffer import XpBuffer
from rpsim.models.nic.arbitration import Arbitration
from rpsim.models.pcie.link import PcieLink
from rpsim.models.pcie.replay import replaying_link
from rpsim.models.profiles.parameters.tails import TailParameters
from rpsim.models.profiles.platform import load_platform
from rpsim.sim.streams import Streams
from rpsim.validation.published.experiments.tails import _reads, quantile
from rpsim.validation.rigs.pair import Pair

from ...persisting import outcome, platform_of

PLATFORM = load_platform("optane-adr")
IMC, OPTANE, DRAM, PCIE = PLATFORM.imc, PLATFORM.media["optane"], PLATFORM.media["dram"], PLATFORM.pcie
ROW_LINES = DRAM.row_bytes // 64
ON = TailParameters(refresh=True, arbitration=True, replays=True)


# DRAM -----------------------------------------------------------------------------------------------------------------


def test_a_read_waits_for_the_rest_of_a_refresh():
    refresh = Refresh(every_ps=7_800_000, takes_ps=350_000, phase_ps=1_000)
    waits = {at_ps: refresh.over_ps(at_ps) - at_ps for at_ps in (999, 1_000, 2_000, 350_999, 351_000, 7_801_000)}
    assert waits == {999: 0, 1_000: 350_000, 2_000: 349_000, 350_999: 1, 351_000: 0, 7_801_000: 350_000}


def test_refreshes_make_the_mean_longer_by_their_square_over_twice_the_period():
    waits = [Refresh(7_800_000, 350_000, 123).over_ps(at_ps) - at_ps for at_ps in range(0, 7_800_000, 1_000)]
    assert np.mean(waits) == pytest.approx(350_000**2 / (2 * 7_800_000), rel=0.01)
    assert sum(wait > 0 for wait in waits) / len(waits) == pytest.approx(350 / 7800, rel=0.01)


def test_dimms_are_refreshed_at_instants_of_the_runs_seed():
    def phases(seed):
        return [refreshes(ON, DRAM, Streams(seed), 0)(number).phase_ps for number in range(4)]

    assert phases(1) == phases(1) != phases(2)
    assert len(set(phases(1))) == 4
    assert refreshes(TailParameters(), DRAM, Streams(1), 0)(0) is None
    assert refreshes(ON, OPTANE, Streams(1), 0)(0) is None


@pytest.mark.parametrize(("cycle_ps", "apart_ps"), [(46_250, 46_250), (0, 0)])
def test_a_bank_opens_one_row_after_the_other_and_other_banks_side_by_side(cycle_ps, apart_ps):
    rows = Rows(replace(DRAM, row_cycle_ps=cycle_ps))
    same_bank = ROW_LINES * DRAM.banks
    assert [rows.read(number * same_bank, 0) for number in range(3)] == [(False, turn * apart_ps) for turn in range(3)]
    assert rows.read(ROW_LINES, 0) == (False, 0)
    opening_ps = DRAM.load_ps - DRAM.near_load_ps if cycle_ps else 0
    assert rows.read(ROW_LINES + 1, 0) == (True, opening_ps)  # behind the row that is being opened


def test_loads_that_depend_on_each_other_never_wait_for_a_bank():
    one, other = (MemoryController(IMC, replace(DRAM, row_cycle_ps=cycle_ps), 1) for cycle_ps in (46_250, 0))
    for controller in (one, other):
        now_ps, times = 0, []
        for number in range(50):
            took_ps, _ = controller.read_line(number * 7 * ROW_LINES, now_ps, now_ps)
            times.append(took_ps)
            now_ps += took_ps
        assert set(times) == {DRAM.load_ps}


# loads behind writes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 1, 4])
def test_a_read_waits_for_so_many_writes_of_the_medium_at_most(most):
    controller = MemoryController(IMC, replace(OPTANE, read_behind_writes=most), 1)
    for line in range(64):
        controller.write_line(line, 0)
    unit_ps = -(-256 * 8 * 10**12 // OPTANE.write_bandwidth_bits_per_s)
    took_ps, _ = controller.read_line(1 << 20, 0, 0)
    assert took_ps == OPTANE.load_ps + most * unit_ps


@pytest.mark.parametrize("most", [0, 1, 4, 16])
def test_reads_that_meet_no_write_at_the_medium_wait_for_each_other_alone(most):
    controller = MemoryController(IMC, replace(OPTANE, read_behind_writes=most), 1)
    controller.write_line(0, 0)  # stays in the DIMM's buffer
    unit_ps = -(-256 * 8 * 10**12 // OPTANE.read_bandwidth_bits_per_s)
    waited = [controller.read_line((1 << 20) + 4 * turn, 0, 0)[0] - OPTANE.load_ps for turn in range(5)]
    assert waited == [turn * unit_ps for turn in range(5)]


@pytest.mark.parametrize("most", [2, 4])
def test_reads_that_come_together_wait_once_for_the_writes_and_then_for_each_other(most):
    controller = MemoryController(IMC, replace(OPTANE, read_behind_writes=most), 1)
    for line in range(8):  # two XPLines
        controller.write_line(line, 0)
    read_ps = -(-256 * 8 * 10**12 // OPTANE.read_bandwidth_bits_per_s)
    ready = [at_ps + controller.read_line((1 << 20) + 4 * turn, at_ps, at_ps)[0]
             for turn, at_ps in enumerate((0, 0, 50_000, 150_000))]  # fmt: skip
    assert [after - before for before, after in itertools.pairwise(ready)] == [read_ps] * 3


# wear -----------------------------------------------------------------------------------------------------------------


def moved(counts, blocks, writes):
    controller = replace(OPTANE.controller, wear_counts=counts, wear_writes=100)
    buffer = XpBuffer(replace(OPTANE, controller=controller))
    for number in range(writes):
        xpline = number % blocks * 256
        for line in range(4):
            buffer.write(xpline * 4 + line, number)
    return buffer.migrations


@pytest.mark.parametrize(("counts", "blocks", "moves"), [
    ("each block", 1, 10), ("hottest block", 1, 10), ("each block", 2, 10), ("hottest block", 2, 0),
])  # fmt: skip
def test_blocks_move_that_are_written_so_often_or_that_lead_by_so_much(counts, blocks, moves):
    assert moved(counts, blocks, 1000) == moves


# the adapter ----------------------------------------------------------------------------------------------------------


def test_turns_are_spread_evenly_about_the_usual_one_and_never_pass_each_other():
    arbitration = Arbitration(100_000, lambda: Streams(1).stream("arbitration"))
    alone = [arbitration.turn_ps(number, 10**6) - 10**6 for number in range(1000)]
    assert min(alone) >= -50_000 and max(alone) <= 50_000
    assert abs(np.mean(alone)) < 3_000 and np.std(alone) == pytest.approx(100_000 / 12**0.5, rel=0.05)
    of_one = [arbitration.turn_ps("qp", at_ps) for at_ps in range(0, 10**6, 1_000)]
    assert all(one <= other for one, other in itertools.pairwise(of_one))


@pytest.mark.parametrize("tail", ["refresh", "arbitration"])
def test_the_99_percent_of_a_quiet_machine_are_above_its_median_only_where_something_makes_them_so(tail, monkeypatch):
    monkeypatch.setattr("rpsim.validation.published.experiments.tails.OPERATIONS", 400)
    quiet, spread, again = (
        _reads(Pair(load_platform("optane-adr", **settings), region_bytes=4096), 64)
        for settings in ({}, {tail: "on"}, {tail: "on"})
    )
    assert quantile(quiet, 0.99) == quantile(quiet, 0.5)
    assert quantile(spread, 0.99) > quantile(spread, 0.5) + 50_000
    assert spread == again
    assert quantile(spread, 0.5) == pytest.approx(quantile(quiet, 0.5), rel=0.02)


# PCIe -----------------------------------------------------------------------------------------------------------------


class Every:
    """Errors that are equally far apart."""

    def exponential(self, mean):
        return mean - 1


def test_a_damaged_tlp_comes_a_replay_later_and_so_do_those_behind_it():
    parameters = replace(PCIE, error_every_bytes=700, replay_ps=500_000)
    plain, link = PcieLink(PCIE), replaying_link(parameters, Every())
    expected = [plain.write(0, 256)[1] for _ in range(3)]
    found = [link.write(0, 256)[1] for _ in range(3)]
    assert found[:2] == expected[:2]  # 560 bytes with their headers
    again_ps = plain.write_ps(256)
    assert found[2] == pytest.approx(expected[2] + again_ps + 500_000, abs=2)
    assert link.errors.replays == 1


def test_as_many_replays_as_bytes_call_for():
    link = replaying_link(replace(PCIE, error_every_bytes=1 << 16, replay_ps=1000), np.random.default_rng(1))
    for number in range(4000):
        link.write(number * 10**6, 232)
    assert link.errors.replays == pytest.approx(4000 * 256 / (1 << 16), rel=0.5)
    assert link.writes(10**10, 128, 1000)[-1][2] >= PcieLink(PCIE).writes(10**10, 128, 1000)[-1][2]


# verdicts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["read-after-write", "write-imm-cpu-flush", "ibta-flush-persistent", "no-flush"])
@pytest.mark.parametrize("ddio", [False, True])
def test_tails_are_times_and_prove_nothing(name, ddio):
    platform = platform_of("adr", ddio=ddio)
    quiet, world = outcome(name, platform)
    spread, other = outcome(name, replace(platform, tails=ON))
    assert quiet == spread
    assert world.now_ps != other.now_ps
