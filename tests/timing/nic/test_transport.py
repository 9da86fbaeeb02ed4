"""The reliable transport: the same times where nothing is lost, go-back-N where something is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from rpsim.models.fabric.disturbance import Disturbance
from rpsim.validation.naive.arithmetic import ArithmeticSystem, arithmetic
from rpsim.validation.naive.workload import Outcome, Workload, difference

from ..workloads import changed, workloads

SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def packet_by_packet(workload: Workload) -> Outcome:
    """The arithmetic model with the transport in full, and nothing that disturbs it."""
    return ArithmeticSystem(workload.comparable(), Disturbance()).run()


@pytest.mark.long
@given(workloads())
@settings(max_examples=50, suppress_health_check=SLOW_TO_DRAW)
def test_where_nothing_is_lost_every_time_is_the_same(workload):
    found = difference(workload, arithmetic, packet_by_packet)
    assert found is None, f"\n{found}"


@pytest.mark.long
@given(workloads())
@settings(max_examples=25, suppress_health_check=SLOW_TO_DRAW)
def test_so_it_is_where_the_adapters_tables_do_not_fit_into_its_memory(workload):
    crowded = replace(workload, platform=changed(workload.platform, nic={"sram_bytes": 900}))
    found = difference(crowded, arithmetic, packet_by_packet)
    assert found is None, f"\n{found}"


@pytest.mark.slow
@given(workloads())
@settings(max_examples=2000, suppress_health_check=SLOW_TO_DRAW)
def test_where_nothing_is_lost_every_time_is_the_same_in_thousands(workload):
    found = difference(workload, arithmetic, packet_by_packet)
    assert found is None, f"\n{found}"
