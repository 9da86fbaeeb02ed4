"""What going over a region shows: rings against the ways of inbound writes, regions against a DIMM's buffers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.validation.published.experiments.chasing import chase_read, chase_write
from rpsim.validation.published.experiments.rings import ring_hit_rate, ring_hit_rate_over_ways

OPTANE = load_platform("fast20")
MEDIA, CPU = OPTANE.media["optane"], OPTANE.cpu
ONE_DIMM = load_platform("fast20", dimms="1")


@pytest.mark.long
def test_a_ring_within_the_ways_of_inbound_writes_stays_in_the_cache():
    small, large = (ring_hit_rate(OPTANE, descriptors, slices=2) for descriptors in (64, 1024))
    assert small > 0.95 and large < 0.6
    assert ring_hit_rate_over_ways(OPTANE, 11, descriptors=1024, slices=2) > 0.9


@pytest.mark.long
def test_chasing_pointers_finds_the_xpbuffer_and_then_the_medium():
    """Closed form: within the buffer every load is near; far beyond it nearly none is."""
    buffer_bytes = MEDIA.controller.buffer_bytes
    assert chase_read(ONE_DIMM, buffer_bytes // 2) == MEDIA.near_load_ps
    assert chase_read(ONE_DIMM, 32 * buffer_bytes) == pytest.approx(MEDIA.load_ps, rel=0.05)


@pytest.mark.long
def test_chasing_pointers_finds_the_cache_of_the_translation_table():
    """Closed form: of four pages the cache has one, so three loads of four wait for the translation as well."""
    controller = replace(MEDIA.controller, ait_bytes=1 << 18)
    platform = replace(ONE_DIMM, media={**ONE_DIMM.media, "optane": replace(MEDIA, controller=controller)})
    expected_ps = MEDIA.load_ps + 0.75 * controller.ait_miss_ps
    assert chase_read(platform, 1 << 20) == pytest.approx(expected_ps, rel=0.05)


@pytest.mark.long
def test_writes_that_nobody_fences_go_as_fast_as_fill_buffers_come_back():
    per_line_ps = (CPU.ntstore_ps + CPU.ntstore_hold_ps) / OPTANE.private.fill_buffers
    assert chase_write(OPTANE, 1 << 16) == pytest.approx(per_line_ps, rel=0.02)
