"""Many queue pairs, much memory, small pages: what an experiment of scale has, against closed forms."""

from __future__ import annotations

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.validation.published.experiments.scale import (
    MIB,
    SMALL_PAGE,
    THREADS,
    rate,
    rate_loss_over_memory,
    rate_loss_over_page,
    rate_loss_over_queue_pairs,
)

from ..hops import Hops

PLATFORM = load_platform("optane-adr")
SCALE = 64


def one_by_one_ps(platform=PLATFORM, **setting):
    """How long a WRITE of 16 B takes with one outstanding on each queue pair: nobody waits for anybody."""
    verbs = setting.pop("verbs", 6000)
    return THREADS * 1e12 / rate(platform, queue_pairs=THREADS, window=1, scale=SCALE, verbs=verbs, **setting)


@pytest.mark.long
def test_a_write_is_late_by_the_misses_that_the_share_of_entries_that_fit_leaves(times=3):
    """Pages alone are asked for at random: of n entries that fit beside what else is there, each hits n / all."""
    nic = PLATFORM.nic
    fitting = nic.sram_bytes // SCALE // nic.mtt_bytes
    region = times * fitting * SMALL_PAGE
    little_ps = one_by_one_ps(region=MIB, page=SMALL_PAGE, verbs=400)
    much_ps = one_by_one_ps(region=region, page=SMALL_PAGE, verbs=2 * fitting + 2000)
    hops = Hops(PLATFORM)
    miss_ps = hops.dma_fetch(nic.mtt_bytes, hops.cached_read())
    assert much_ps - little_ps == pytest.approx((1 - 1 / times) * miss_ps, rel=0.1)


@pytest.mark.long
def test_scaling_down_keeps_what_is_lost():
    """The rule: SRAM and entries so many times smaller have the same hit rate, and so the same loss."""
    small, large = (rate_loss_over_memory(PLATFORM, 4096, scale=scale) for scale in (128, 64))
    assert small == pytest.approx(large, rel=0.05)


@pytest.mark.long
def test_pages_that_fit_lose_nothing_and_smaller_ones_no_less():
    huge, middle, small = (rate_loss_over_page(PLATFORM, page, scale=128) for page in (2 * MIB, 65536, SMALL_PAGE))
    assert huge == 1 == pytest.approx(middle, rel=0.02)
    assert small < 0.7


@pytest.mark.long
def test_queue_pairs_that_fit_lose_nothing_and_more_of_them_do():
    nic = PLATFORM.nic
    fitting = nic.sram_bytes // (nic.qp_context_bytes + nic.wqe_bytes)
    assert rate_loss_over_queue_pairs(PLATFORM, fitting * 3 // 4) == pytest.approx(1, rel=0.02)
    assert rate_loss_over_queue_pairs(PLATFORM, fitting * 4) < 0.8
