"""DMA reads that are outstanding together, from another socket, and through a switch."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.pcie.link import PcieLink
from rpsim.models.pcie.rootport import SharedLink, SwitchedLink
from rpsim.models.profiles.platform import load_platform

from ...rig import Rig, line

PLATFORM = load_platform("optane-adr")
KEY = 1 << 41
X8 = {"generation": 3, "lanes": 8, "tlp_bits_per_s": 0}


def rate(size, **pcie):
    """Gb/s of payload that one adapter reads from DRAM that no cache has, as fast as it can."""
    rig, count = Rig(pcie=X8 | pcie), 1500
    node = rig.server.node
    start = node.memory["dram"].allocate(count * 512, "buffer", align=4096)
    ends = []

    def ask():
        for number in range(count):
            node.nic.slot.dma.read(KEY + number, start + 512 * number, size, lambda *_: ends.append(rig.clock.now_ps))

    rig.clock.call_at(0, ask)
    rig.run()
    assert len(ends) == count and ends == sorted(ends)
    assert node.nic.slot.dma._tags == rig.platform.pcie.read_tags
    return count * size * 8 * 1000 / ends[-1]


@pytest.mark.parametrize("size", [64, 128, 256, 512])
@pytest.mark.parametrize("tags", [1, 8, 32])
def test_reads_get_what_their_tags_let_under_way_until_the_link_is_full(size, tags):
    pcie = replace(PLATFORM.pcie, **X8)
    link = PcieLink(pcie)
    trip_ps = link.read_request(0, size) + pcie.dma_read_ps + link.read_completion(0, size)
    full = PcieLink(pcie).read_completion(0, size)
    most = size * 8 * 1000 / max(trip_ps / tags, full)
    assert rate(size, read_tags=tags) == pytest.approx(most, rel=0.02)


def test_another_socket_costs_small_reads_most():
    """Neugebauer et al., SIGCOMM'18: 64 B reads lose about 20 percent, of 128 to 256 B 5 to 7, larger ones none.

    A prediction of the latency alone (100 ns): with as many reads outstanding as just fill the link at 128 B.
    """
    tags = 30

    def loss(size):
        return 1 - rate(size, read_tags=tags, numa_ps=100_000) / rate(size, read_tags=tags)

    assert 0.12 < loss(64) < 0.25
    assert 0.0 <= loss(128) < 0.15
    assert loss(512) < 0.01


def test_a_read_and_a_write_cross_the_sockets():
    here, there = Rig(), Rig(pcie={"numa_ps": 100_000})
    for rig in (here, there):
        rig.client.write(line(1))
        rig.run()
    (near,), (far,) = here.chunks(0), there.chunks(0)
    assert far.reached_ps[2] - near.reached_ps[2] == 50_000
    reads = []
    for rig in (here, there):
        began = rig.clock.now_ps
        reads.append(rig.client.read(64).ps - began)
    assert reads[1] - reads[0] == 100_000 + 50_000  # and its data crosses at the client


# behind a switch ------------------------------------------------------------------------------------------------------


def test_a_switch_adds_its_hop_and_another_link():
    plain, switched = Rig(), Rig(pcie={"switch_ps": 110_000})
    header = PLATFORM.pcie

    def on_link(n_bytes):
        return -(-n_bytes * 8 * 10**12 // header.tlp_bits_per_s)

    for rig in (plain, switched):
        rig.client.write(line(1))
        rig.run()
    (before,), (after,) = plain.chunks(0), switched.chunks(0)
    write_ps = 110_000 + on_link(header.tlp_header_write_bytes + 64)
    assert after.reached_ps[2] - before.reached_ps[2] == write_ps


WRITES = st.lists(st.tuples(st.integers(0, 300_000), st.booleans(), st.integers(1, 256)), min_size=1, max_size=40)


@pytest.mark.long
@given(WRITES)
def test_devices_behind_one_switch_share_its_link(writes):
    """An adapter and a drive: each keeps its order, nothing is lost, and upstream carries one TLP after the other."""
    pcie = replace(PLATFORM.pcie, switch_ps=100_000)
    upstream = SharedLink(pcie)
    devices = SwitchedLink(pcie, upstream), SwitchedLink(pcie, upstream)
    now_ps, ends = 0, []
    for gap_ps, drive, n_bytes in writes:
        now_ps += gap_ps
        start_ps, at_root_ps = devices[drive].write(now_ps, n_bytes)
        alone = PcieLink(pcie)
        assert at_root_ps >= start_ps + 2 * alone.write_ps(n_bytes) + pcie.switch_ps - 2
        ends.append((at_root_ps, n_bytes))
    assert ends == sorted(ends, key=lambda end: end[0])
    for (earlier_ps, _), (later_ps, n_bytes) in pairwise(ends):
        assert later_ps - earlier_ps >= PcieLink(pcie).write_ps(n_bytes) - 1
    assert upstream._up.served == len(writes)
