"""Caches of their own for the host's tables: what shares no room, what one miss costs, how many are under way; and what
atomics do to others: closed forms, and the switches that turn each of them off.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.nic.sram import SramEntry
from rpsim.models.profiles.parameters.adapter import TableCache
from rpsim.models.profiles.platform import load_platform
from rpsim.validation.published.experiments.adapters import rate_loss_beside_atomics, rate_over_window
from rpsim.validation.published.experiments.scale import rate

from ...rig import Rig, line
from ..hops import Hops

PLATFORM = load_platform("optane-adr")
NIC = PLATFORM.nic


def with_nic(**values):
    return replace(PLATFORM, nic=replace(NIC, **values))


def two_queue_pairs(**nic):
    """A rig whose adapters have two queue pairs each, and a region of 64 pages at the server."""
    rig = Rig(nic={"page_bytes": 4096, **nic})
    for side, queue in ((rig.server, rig.server.sent), (rig.client, rig.client.cq)):
        side.node.alloc_pd().create_qp(queue, queue)
    return rig


def test_a_kind_with_a_cache_of_its_own_shares_no_room():
    """One context is all that fits; regions and work requests still find all of nic.sram."""
    rig = two_queue_pairs(caches={"contexts": TableCache(1, 1)})
    tables = rig.server.node.nic.sram
    assert tables.crowded and tables.rooms[SramEntry.QP].crowded
    assert not tables.shared.crowded
    assert tables.shared.demand_bytes == two_queue_pairs().server.node.nic.sram.demand_bytes - 2 * NIC.qp_context_bytes
    rig.client.write(line(1))
    counters = rig.server.node.nic.counters()
    assert counters["sram_misses queue pair context"] == 1
    assert counters["sram_misses page"] == counters["sram_misses region"] == 0


def test_what_one_step_lacks_of_two_caches_is_read_one_after_the_other():
    """The responder's context says where the region's translations are: two reads, of an entry each."""
    rig = two_queue_pairs(caches={"contexts": TableCache(1, 1), "translations": TableCache(1, 1)})
    hops = Hops(rig.platform)
    context = hops.dma_fetch(NIC.qp_context_bytes, hops.cached_read())
    translation = hops.dma_fetch(NIC.mtt_bytes, hops.cached_read())
    assert rig.client.write(line(1)).ps == hops.write(64, inline=True) + 2 * context + translation
    start = rig.clock.now_ps
    assert rig.client.write(line(2)).ps - start == hops.write(64, inline=True)


def test_caches_that_hold_everything_cost_nothing():
    roomy = dict.fromkeys(("contexts", "protection", "translations", "work_requests"), TableCache(1 << 20, 1))
    assert two_queue_pairs(caches=roomy).client.write(line(1)).ps == two_queue_pairs().client.write(line(1)).ps


@pytest.mark.parametrize("under_way", [1, 3])
def test_reads_under_way_bound_the_rate_where_every_translation_is_missing(under_way):
    """One entry for 1,024 pages: a WRITE is a miss, and so many of them are back in a read's round trip."""
    platform = with_nic(caches={"translations": TableCache(1, under_way)})
    found = rate(platform, queue_pairs=8, region=4 << 20, page=4096, verbs=1200)
    hops = Hops(platform)
    assert found == pytest.approx(under_way * 1e12 / hops.dma_fetch(NIC.mtt_bytes, hops.cached_read()), rel=0.05)


# atomics --------------------------------------------------------------------------------------------------------------


def test_an_operand_that_is_read_sooner_lets_more_atomics_through_one_lock():
    """Each is sooner by what the shorter read saves, until the result before it has to be visible."""
    usual, sooner = (
        1e12 / rate_over_window(platform, 8, words="shared", threads=4, verbs=600)
        for platform in (PLATFORM, with_nic(atomic_operand_ps=PLATFORM.pcie.dma_read_ps - 100_000))
    )
    assert 50_000 <= usual - sooner <= 100_000


@pytest.mark.long
def test_off_atomics_hold_up_nobody_and_on_they_take_the_rate_of_reads():
    """Eight queue pairs of CAS to one word; each unit takes a READ and an atomic in turn, which waits for the lock."""
    assert rate_loss_beside_atomics(PLATFORM, 8, verbs=1600) == pytest.approx(1, abs=0.1)
    assert rate_loss_beside_atomics(with_nic(atomic_stall=True), 8, verbs=1600) < 0.3


def test_atomics_that_never_meet_stall_nobody():
    one = rate_over_window(PLATFORM, 4, threads=4, verbs=400)
    assert rate_over_window(with_nic(atomic_stall=True), 4, threads=4, verbs=400) == one
