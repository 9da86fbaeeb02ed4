"""A device beside the adapter: when its buffer shows a write, when its region has it, and what waits for that."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.host.cacheset import line_key
from rpsim.models.pcie.peers import PeerDevice
from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import Opcode
from rpsim.sim.errors import InputError

from ...disk import DIRECT, Disk, first_line
from ...rig import LINE, Rig, line
from ...verbs import post
from ..hops import PS, Hops, ceil_div

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


def late_rig(seed):
    rig = pmr_rig()
    late = replace(rig.platform, pcie=replace(rig.platform.pcie, peer_late_ps=2_000_000))
    return Rig(late, seed=seed)


def test_where_writes_to_the_device_may_be_late_one_to_host_memory_overtakes_them_and_no_other_does():
    """PCIe keeps no order between the two; a READ of the device is behind them all the same."""
    lead_ps = []
    for seed in range(8):
        rig = late_rig(seed)
        dram = rig.server.node.memory["dram"].allocate(64, "flag")
        key = rig.server_pd.reg_mr(dram, 64).key
        rig.client.post_write(data=line(1))
        rig.client.post_write(data=line(2), line=1)
        post(rig.client, Opcode.IBV_WR_RDMA_WRITE, length=8, remote_address=dram, rkey=key)
        assert rig.client.read(2 * LINE).data == line(1) + line(2)
        region = rig.server.node.memory["pm"].number
        first, second = (chunk.reached_ps[2] for chunk in rig.trace.chunks if chunk.device == region)
        flag = next(chunk.reached_ps[2] for chunk in rig.trace.chunks if chunk.device != region)
        assert first < second
        lead_ps.append(first - flag)
    assert min(lead_ps) < 0 and 500_000 < max(lead_ps) < 2_000_000
    rig = pmr_rig()
    rig.client.post_write(data=line(1))
    assert rig.client.read(LINE).ps < max(late_read_ps(seed) for seed in range(4))


def late_read_ps(seed):
    rig = late_rig(seed)
    rig.client.post_write(data=line(1))
    return rig.client.read(LINE).ps


@pytest.mark.parametrize(("pmrwbm", "look"), [(1, PeerDevice.read_ready_ps), (2, PeerDevice.status_read_ps)])
def test_a_barrier_does_not_wait_for_what_is_late_before_it_is_there(pmrwbm, look):
    drive = replace(load_platform("pmr", pmrwbm=pmrwbm).peers["haishen5"], settle_ps=SLOW)
    idle, device = PeerDevice(drive), PeerDevice(drive)
    prompt_ps = PeerDevice(drive).dma_write(0, LINE)[0]
    shown_ps, kept_ps = device.dma_write(0, LINE, late_ps=SLOW)
    assert (shown_ps, kept_ps) == (prompt_ps + SLOW, prompt_ps + 2 * SLOW)
    assert look(device, shown_ps - drive.mmio_read_ps) == look(idle, shown_ps - drive.mmio_read_ps)
    assert look(device, shown_ps) == look(idle, shown_ps) + kept_ps - shown_ps - (pmrwbm == 2) * drive.mmio_read_ps // 2


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


# elasticity buffer, controller memory buffer, write combining --------------------------------------------------------


def elastic(buffer_bytes, **how):
    drive = load_platform("pmr").peers["haishen5"]
    slow = drive.ingress_bits_per_s // 4
    return PeerDevice(replace(drive, buffer_bytes=buffer_bytes, sustained_bits_per_s=slow, **how))


def test_a_burst_goes_into_the_elasticity_buffer_and_then_the_region_is_the_ceiling():
    device = elastic(64 * 256)
    p = device.parameters
    shown = [device.dma_write(0, 256)[0] for _ in range(400)]
    fast, slow = 256 * 8 * PS / p.ingress_bits_per_s, 256 * 8 * PS / p.sustained_bits_per_s
    assert (shown[40] - shown[0]) / 40 == pytest.approx(fast, rel=0.01)
    assert (shown[-1] - shown[200]) / 199 == pytest.approx(slow, rel=0.01)


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 256)), min_size=1, max_size=60), st.integers(0, 2000))
def test_an_elasticity_buffer_never_holds_more_than_its_size(writes, size):
    device, now, held = elastic(size), 0, []
    for wait, n_bytes in writes:
        now += wait
        shown, kept = device.dma_write(now, n_bytes)
        held.append((shown, kept - device.parameters.settle_ps, n_bytes))
        assert sum(n for into, out, n in held if into <= shown < out) <= max(size, 256)
    assert [kept for _, kept, _ in held] == sorted(kept for _, kept, _ in held)


@pytest.mark.parametrize("bypass", [True, False])
def test_reads_pass_the_elasticity_buffer_only_where_rbb_says_so(bypass):
    device = elastic(1 << 20, read_bypass=bypass, pmrwbm=2)
    for _ in range(100):
        shown, kept = device.dma_write(0, 256)
    assert device.read_ready_ps(shown) == (shown if bypass else kept)
    assert device.status_read_ps(shown) > kept - shown  # the barrier waits in any case


def test_long_posted_stores_go_as_fast_as_the_device_takes_them_in():
    device = PeerDevice(load_platform("pmr").peers["haishen5"])
    p = device.parameters
    line_ps = LINE * 8 * PS / p.ingress_bits_per_s
    assert device.stores_ps(p.wc_buffers, 1000, 0) == p.wc_buffers * 1000
    assert device.stores_ps(64, 1000, 0) == pytest.approx((64 - p.wc_buffers) * line_ps, rel=0.01)
    for _ in range(64):
        device.store(0, LINE)
    assert device.stores_ps(1, 1000, 0) == pytest.approx((64 + 1 - p.wc_buffers) * line_ps, rel=0.01)


CMB = """
platform: mine
title: a drive with a controller memory buffer
extends: pmr
peers:
  cmb:
    capacity: {{value: 2 MiB, source: "a test"}}
    ingress: {{value: 20 Gb/s, source: "a test"}}
    peer_write: {{value: 250 ns, source: "a test"}}
    peer_read: {{value: 750 ns, source: "a test"}}
    settle: {{value: 100 ns, source: "a test"}}
    mmio_read: {{value: 700 ns, source: "a test"}}
    mmio_width: {{value: 8 B, source: "a test"}}
    mmio_write: {{value: 150 ns, source: "a test"}}
    {more}
memory:
  cmb:
    device: {{value: cmb, source: "a test"}}
    domain: {{value: {domain}, source: "a test"}}
    dimms: {{value: 1, source: "a test"}}
"""


def test_a_controller_memory_buffer_is_a_peer_that_survives_nothing(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(CMB.format(domain="none", more=""))
    profile = load_platform(str(path))
    rig = Rig(replace(profile, memory={**profile.memory, "pm": profile.memory["cmb"]}))
    rig.client.write(line(1))
    rig.run()
    assert rig.server.load() == line(1)
    assert rig.trace.chunks == []


@pytest.mark.parametrize(
    ("domain", "more", "field"),
    [
        ("pmr", "", "memory.cmb.domain"),
        ("none", "buffer: {value: 4 KiB, source: a test}", "peers.cmb.buffer"),
    ],
)
def test_a_memory_that_cannot_be_is_refused(tmp_path, domain, more, field):
    path = tmp_path / "mine.yaml"
    path.write_text(CMB.format(domain=domain, more=more))
    with pytest.raises(InputError) as refused:
        load_platform(str(path))
    assert [mistake.field for mistake in refused.value.mistakes] == [field]


def test_a_region_that_capacitors_cannot_save_is_refused(tmp_path):
    text = "platform: mine\ntitle: a drive\nextends: pmr\npeers:\n  haishen5:\n"
    for hold_up in ("1 ms", "10 ms"):
        save = f'    save: {{value: 1 GB/s, source: a test}}\n    hold_up: {{value: {hold_up}, source: "a test"}}\n'
        (tmp_path / "mine.yaml").write_text(text + save)
        if hold_up == "10 ms":
            assert load_platform(str(tmp_path / "mine.yaml")).peers["haishen5"].hold_up_ps == 10**10
            continue
        with pytest.raises(InputError) as refused:
            load_platform(str(tmp_path / "mine.yaml"))
        assert [mistake.field for mistake in refused.value.mistakes] == ["peers.haishen5.hold_up"]


def test_a_chunk_of_the_region_goes_to_flash_inside_the_drive():
    """What PMRAccess does with a full chunk: nothing crosses PCIe but the command."""
    took = {}
    for device in ("pmr", "dram"):
        disk = Disk()
        chunk = disk.buffer(bytes(range(256)) * 256, device)
        file = disk.files.create("log", 1 << 20, DIRECT)
        took[device] = disk.run(file.pwrite(disk.thread, chunk, 0, 1 << 16))
        assert disk.run(disk.files.open("log").fdatasync(disk.thread)) == disk.os.syscall_ps
        assert disk.images(first_line(file)) == {(bytes(range(64)),)}
    p = disk.drive.parameters
    apart = took["dram"] - took["pmr"]
    assert apart == pytest.approx((1 << 16) * 8 * PS / p.link_bits_per_s + p.dma_read_ps, rel=0.01)
