"""A device beside the adapter: when its buffer shows a write, when its region has it, and what waits for that."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from rpsim.models.cacheset import line_key
from rpsim.models.platform import load_platform
from rpsim.models.verbs import Opcode

from ..rig import LINE, Rig, line
from ..verbs import post
from .hops import PS, Hops, ceil_div

SLOW = 10**7
"""A settling time of 10 us: whoever waits for it shows."""


def pmr_rig(pmrwbm=2, settle_ps=None, **how):
    """The server's persistent memory is that of a drive beside its adapter; its other memory is Optane."""
    profile = load_platform("pmr", pmrwbm=pmrwbm)
    drive = profile.peers["haishen5"]
    if settle_ps is not None:
        drive = replace(drive, settle_ps=settle_ps)
    memory = {"pm": profile.memory["pmr"], "dram": profile.memory["pm"]}
    return Rig(replace(profile, memory=memory, peers={"haishen5": drive}), **how)


def drive_of(rig):
    return rig.platform.peers["haishen5"]


def ingress(rig, n_bytes):
    return ceil_div(n_bytes * 8 * PS, drive_of(rig).ingress_bits_per_s)


def read_dram(rig):
    address = rig.server.node.memory["dram"].allocate(64, "elsewhere")
    key = rig.server_pd.reg_mr(address, 64).key
    return rig.client.wait(post(rig.client, Opcode.IBV_WR_RDMA_READ, length=8, remote_address=address, rkey=key))


def test_a_write_goes_peer_to_peer_at_the_instants_of_the_closed_form():
    rig = pmr_rig()
    hops = Hops(rig.platform)
    rig.client.write(line(1))
    story = rig.story(0)
    assert [place for place, _ in story] == ["nic", "pcie", "device_buffer", "pmr"]
    accepted, left, shown, kept = (ps for _, ps in story)
    header = rig.platform.pcie.tlp_header_write_bytes
    assert shown == accepted + hops.pcie(LINE + header) + drive_of(rig).peer_write_ps + ingress(rig, LINE)
    assert left <= shown
    assert kept == shown + drive_of(rig).settle_ps


def test_its_write_completes_as_one_to_host_memory_does():
    """The ACK knows nothing of where the bytes go."""
    done = pmr_rig().client.write(line(1))
    assert done.ps == Rig("pmr").client.write(line(1)).ps


def test_the_device_takes_in_what_its_ingress_does():
    rig = pmr_rig()
    rig.client.write(bytes(4096))
    rig.run()
    shown = [chunk.reached_ps[2] for chunk in rig.trace.chunks]
    assert len(shown) == 16
    apart = (shown[-1] - shown[0]) / 15
    assert apart == pytest.approx(256 * 8 * PS / drive_of(rig).ingress_bits_per_s, rel=1e-6)


@pytest.mark.parametrize(("pmrwbm", "waits"), [(1, True), (2, False), (3, True)])
def test_a_read_of_the_region_waits_for_the_barrier_if_it_is_one(pmrwbm, waits):
    rig = pmr_rig(pmrwbm, settle_ps=SLOW)
    rig.client.post_write(data=line(1))
    done = rig.client.read(LINE)
    assert done.data == line(1)
    kept = dict(rig.story(0))["pmr"]
    assert (done.ps > kept) is waits


def test_a_read_of_host_memory_does_not_wait_for_the_device_nor_the_other_way_round():
    rig = pmr_rig(3, settle_ps=SLOW)
    rig.client.post_write(data=line(1))
    assert read_dram(rig).ps < dict(rig.story(0))["pmr"]
    idle = pmr_rig(1)
    alone = idle.client.read(LINE).ps
    rig = pmr_rig(1)
    rig.server.node.host.last_visible_ps = 10**9
    assert rig.client.read(LINE).ps == alone


def test_a_cores_load_crosses_pcie_once_for_every_eight_bytes():
    rig = pmr_rig()
    before = rig.clock.now_ps
    rig.server.load(length=LINE)
    assert rig.clock.now_ps - before == 8 * drive_of(rig).mmio_read_ps
    again = rig.clock.now_ps
    rig.server.load(length=LINE)
    assert rig.clock.now_ps - again == 8 * drive_of(rig).mmio_read_ps  # nothing is cached


@pytest.mark.parametrize("nt", [False, True])
def test_a_cores_stores_are_posted_and_its_load_finds_them(nt):
    rig = pmr_rig(3, settle_ps=SLOW)
    retired = (rig.server.ntstore if nt else rig.server.store)(line(1))
    [chunk] = rig.chunks(0)
    shown = chunk.reached_ps[2]
    assert shown == retired + drive_of(rig).mmio_write_ps + ingress(rig, LINE)
    assert rig.server.sfence() < shown  # the core's buffers are empty; the write is on its way
    assert rig.server.load(length=8) == line(1)[:8]
    assert rig.clock.now_ps >= shown + SLOW


@pytest.mark.parametrize(("pmrwbm", "waits"), [(1, False), (2, True)])
def test_a_read_of_the_status_register_waits_for_the_barrier_if_it_is_one(pmrwbm, waits):
    rig = pmr_rig(pmrwbm, settle_ps=SLOW)
    start = rig.server.store(line(1))
    rig.server.run(rig.server.threads[0].read_pmrsts(rig.address(0)))
    took = rig.clock.now_ps - start
    assert (took > SLOW) is waits
    assert took >= drive_of(rig).mmio_read_ps


def test_neither_cache_nor_controllers_have_a_part_in_it():
    rig = pmr_rig()
    rig.client.write(line(1))
    rig.run()
    rig.server.load()
    rig.server.store(line(2), line=1)
    host = rig.server.node.host
    assert all(line_key(*rig.key(number)) not in host.caches for number in range(2))
    assert rig.trace.write_backs == {}
    start = rig.clock.now_ps
    rig.server.flush(lines=2)
    cpu = rig.platform.cpu
    assert rig.clock.now_ps - start == 2 * cpu.clwb_ps + cpu.sfence_ps


def test_a_fetch_from_the_region_goes_behind_what_cores_have_posted_to_it():
    rig = pmr_rig()
    rig.server.store(line(7))
    [chunk] = rig.chunks(0)
    host, now = rig.server.node.host, rig.clock.now_ps
    assert host.peer_of(rig.address(0)).read_ready_ps(now) == chunk.reached_ps[2] > now
    assert host.looked_at_ps(now) == now


def test_writes_of_adapter_and_core_arrive_one_after_the_other():
    rig = pmr_rig()
    rig.client.post_write(data=bytes(4096))
    rig.run(1_500_000)
    rig.server.store(line(1), line=70)
    rig.run()
    shown = sorted(chunk.reached_ps[2] for chunk in rig.trace.chunks)
    assert all(second - first >= ingress(rig, LINE) - 1 for first, second in pairwise(shown))
