"""Verbs on an idle system take the sum of their hops; what they may not overtake they wait for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rpsim.models.verbs import Access, Opcode, Status

from ...rig import LINE, Rig, line
from ..hops import Hops, ceil_div


@pytest.fixture
def hops(rig):
    return Hops(rig.platform)


# one verb, its hops -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ddio", ["on", "off"])
def test_an_inline_write_of_a_line_takes_the_sum_of_its_hops(ddio):
    rig = Rig(ddio=ddio)
    done = rig.client.write(line(1))
    assert done.status is Status.IBV_WC_SUCCESS
    assert done.ps == Hops(rig.platform).write(64, inline=True)


def test_a_line_goes_through_its_places_at_the_instants_of_the_closed_form(rig, hops):
    rig.client.post_write(at=0, data=line(1))
    rig.run()
    accepted = hops.accepted(64, inline=True)
    assert rig.story(line=0) == [("nic", accepted), ("pcie", accepted), ("llc", accepted + hops.posted_write(64))]


def test_with_ddio_off_it_drains_to_the_medium(hops):
    rig = Rig(ddio="off")
    rig.client.post_write(at=0, data=line(1))
    rig.run()
    visible = hops.accepted(64, inline=True) + hops.posted_write(64)
    p = rig.platform
    queued = visible + p.llc.iio_wc_drain_ps
    optane = p.media["optane"]
    medium = optane.controller.ingest_ps + ceil_div(256 * 8 * 10**12, optane.write_bandwidth_bits_per_s)
    medium += optane.write_ps
    assert rig.story(line=0)[2:] == [("iio_wc", visible), ("wpq", queued), ("media", queued + medium)]
    assert rig.timed.lost(line=0, crash_ps=queued - 1)
    assert rig.timed.survives(line=0, crash_ps=queued)


@pytest.mark.parametrize("size", [256, 1024, 4096])
def test_a_larger_write_fetches_its_payload(rig, hops, size):
    assert rig.client.write(line(1, size // LINE)).ps == hops.write(size, inline=False)


def test_a_message_beyond_the_mtu_is_cut_into_packets(hops):
    rig = Rig(nic={"mtu_bytes": 1024})
    small = Hops(rig.platform)
    assert len(small.packets(4096, 42)) == 4
    assert rig.client.write(line(1, 64)).ps == small.write(4096, inline=False) != hops.write(4096, inline=False)
    assert rig.memory(0, 64) == line(1, 64)
    accepted = small.post() + small.dma_fetch(4096, small.cached_read()) + rig.platform.nic.tx_processing_ps
    packets = small.received(small.packets(4096, rig.platform.nic.headers.write_bytes))
    assert [rig.story(at)[0][1] for at in (0, 16, 32, 48)] == [accepted + ps for ps in packets]


@pytest.mark.parametrize("size", [8, 64, 256, 4096])
def test_a_read_of_the_device_and_a_read_of_the_cache(rig, hops, size):
    cold = rig.client.read(length=size)
    optane, pcie = rig.platform.media["optane"], rig.platform.pcie
    extra = optane.dma_read_extra_ps
    if size > 256:  # one DIMM reads one XPLine after the other, slower than PCIe takes them
        apart = ceil_div(256 * 8 * 10**12, optane.read_bandwidth_bits_per_s)
        extra += (size // 256 - 1) * (apart - 4 * ceil_div(64 * 8 * 10**12, pcie.tlp_bits_per_s))
    assert cold.ps == hops.read(size, pcie.dma_read_ps + extra)
    rig.server.load(length=size)
    start = rig.clock.now_ps
    assert rig.client.read(length=size).ps - start == hops.read(size, hops.cached_read())


def test_a_read_of_several_packets(rig):
    rig = Rig(nic={"mtu_bytes": 1024})
    rig.server.store(line(3, 64))
    start = rig.clock.now_ps
    hops = Hops(rig.platform)
    done = rig.client.read(length=4096)
    assert done.data == line(3, 64)
    assert done.ps - start == hops.read(4096, hops.cached_read())


def test_a_send_and_its_receive_completion(rig, hops):
    address = rig.server.post_recv(rig.client)
    work = rig.client.post_send(at=0, data=line(1))
    received = rig.server.receive()
    p = rig.platform
    accepted = hops.accepted(64, inline=True, first_bytes=p.nic.headers.send_bytes)
    assert received.ps == accepted + p.nic.recv_processing_ps + hops.cqe()
    dram = rig.server.node.memory["dram"]
    assert dram.space.read(received.ps, address - dram.base, 64) == line(1)
    assert rig.client.wait(work).ps == accepted + hops.ack() + hops.cqe()


def test_without_blueflame_the_wqe_is_fetched(hops):
    rig = Rig(nic={"blueflame": False})
    fetch = hops.dma_fetch(2 * rig.platform.nic.wqe_bytes, hops.cached_read())  # inline, so two lines
    assert rig.client.write(line(1)).ps == hops.write(64, inline=True) + fetch


def test_a_write_of_64_bytes_takes_about_1_4_us(rig):
    """Kalia et al., SoCC'20: 1.4 us median from post to completion."""
    assert rig.client.write(line(1)).ps == pytest.approx(1_400_000, rel=0.02)


# order on one queue pair ----------------------------------------------------------------------------------------


def test_completions_of_a_queue_pair_come_in_the_order_of_its_posts(rig):
    rig.server.post_recv(rig.client, length=64, count=8)
    works = []
    for at in range(4):  # the READs answer late, the large WRITEs fetch long: nobody overtakes
        works.append(rig.client.post_write(at=at, data=line(at, 64), line=64 * at))
        works.append(rig.client.post_read(at=at, length=4096, line=64 * at))
        works.append(rig.client.post_write(at=at, data=line(at), line=64 * at))
        works.append(rig.client.post_send(at=at))
        works.append(rig.client.post_read(at=at, length=8, line=64 * at))
    rig.run()
    assert [done.wr_id for done in rig.completions] == [work.wr_id for work in works]
    assert all(done.status is Status.IBV_WC_SUCCESS for done in rig.completions)


def test_an_acknowledgement_does_not_overtake_the_read_response_before_it(rig):
    read = rig.client.post_read(at=0, length=4096)
    write = rig.client.post_write(at=0, data=line(1))
    assert rig.client.wait(write).ps > rig.client.wait(read).ps


def test_a_read_waits_behind_the_posted_writes_before_it(hops):
    rig = Rig(pcie={"posted_write_ps": 5_000_000})
    rig.client.post_write(at=0, data=line(1), line=9)
    read = rig.client.post_read(at=0, length=8, line=64)
    done = rig.client.wait(read)
    visible = dict(rig.story(line=9))["llc"]
    p = rig.platform
    rest = p.pcie.dma_read_ps + p.media["optane"].dma_read_extra_ps
    after = rest - rest // 2 + hops.pcie(p.pcie.tlp_header_completion_bytes + 8)
    response = hops.received([p.nic.headers.read_response_bytes + 8])[0]
    assert done.ps == visible + after + response + Hops(rig.platform).cqe(behind_bytes=8)


def test_with_ddio_off_a_read_waits_until_the_writes_before_it_are_queued():
    rig = Rig(ddio="off", llc={"iio_wc_drain_ps": 5_000_000})
    rig.client.post_write(at=0, data=line(1), line=9)
    done = rig.client.wait(rig.client.post_read(at=0, length=8, line=64))
    assert done.ps > dict(rig.story(line=9))["wpq"] > 5_000_000
    assert Rig(ddio="on", llc={"iio_wc_drain_ps": 5_000_000}).client.read().ps < 5_000_000


def test_a_read_returns_the_write_before_it(rig):
    rig.client.post_write(at=0, data=line(7, 64))
    assert rig.client.wait(rig.client.post_read(at=0, length=4096)).data == line(7, 64)


@pytest.mark.parametrize("limit", [1, 4])
def test_no_more_than_so_many_reads_are_under_way(limit):
    rig = Rig(nic={"outstanding_reads": limit})
    reads = [rig.client.post_read(at=0, line=at) for at in range(limit + 1)]
    behind = rig.client.post_write(at=0, data=line(1), line=100)
    most = 0
    while behind.wr_id not in rig.client.done:
        rig.clock.step()
        most = max(most, rig.client.qp.end.reads_under_way)
    assert most == limit
    unlimited = Rig()
    free = unlimited.client.wait([unlimited.client.post_read(at=0, line=at) for at in range(limit + 1)][-1])
    first, last = rig.client.done[reads[0].wr_id], rig.client.done[reads[-1].wr_id]
    hops = Hops(rig.platform)
    # The last one leaves when the first has come back to the adapter, a CQE before its poll.
    back_ps = first.ps - hops.cqe(behind_bytes=8)
    optane = rig.platform.media["optane"]
    extra = optane.dma_read_extra_ps - (optane.load_ps - optane.near_load_ps if limit == 1 else 0)  # of one XPLine
    assert last.ps == back_ps + hops.read(8, rig.platform.pcie.dma_read_ps + extra) - hops.post() > free.ps
    assert rig.client.done[behind.wr_id].ps > back_ps + hops.write(64, inline=True) - hops.post(64)


# payloads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inline", [True, False])
def test_a_payload_overwritten_between_post_and_fetch(rig, inline):
    work = rig.client.post_write(at=0, data=line(1), inline=inline)
    device = rig.client.node.memory["dram"]
    posted_ps = Hops(rig.platform).post(64 if inline else 0) - rig.platform.nic.doorbell_ps
    rig.clock.call_at(posted_ps + 1, device.space.poke, work.local_address - device.base, line(2))
    rig.run()
    assert rig.memory(0) == (line(1) if inline else line(2))


def test_a_payload_fetch_waits_behind_the_posted_writes_of_its_adapter():
    rig = Rig(pcie={"posted_write_ps": 5_000_000})
    rig.server.post_send(rig.client)
    work = rig.client.work(Opcode.IBV_WR_RDMA_WRITE, line(1, 4))
    arrived = []
    rig.client.qp.recv_cq.wait(SimpleNamespace(alive=True, found=lambda _: arrived.append(rig.clock.now_ps)))
    rig.run(rig.clock.now_ps + 1_000_000)  # the SEND's payload is at the root port, and shows 5 us later
    rig.client.post(work)
    rig.run()
    assert rig.story(0)[0][1] > arrived[0] > 5_000_000


def test_inline_data_beyond_the_adapters_limit_is_refused(rig):
    limit = rig.platform.nic.inline_max_bytes
    for length in (limit, limit + 1):
        work = rig.client.work(Opcode.IBV_WR_RDMA_WRITE, bytes(length), inline=True)
        code = rig.client.thread.post_send(rig.client.qp, work)
        if length > limit:
            with pytest.raises(ValueError, match=f"{length} bytes.*{limit}"):
                rig.server.run(code)
        else:
            rig.server.run(code)


# errors -------------------------------------------------------------------------------------------------------------


def test_a_write_outside_of_the_region_breaks_the_connection(rig):
    good = rig.client.post_write(at=0, data=line(1))
    bad = rig.client.post_write(at=0, data=line(2), line=4096)
    behind = rig.client.post_write(at=0, data=line(3), line=1)
    rig.run()
    statuses = [rig.client.done[work.wr_id].status for work in (good, bad, behind)]
    assert statuses == [Status.IBV_WC_SUCCESS, Status.IBV_WC_REM_ACCESS_ERR, Status.IBV_WC_WR_FLUSH_ERR]
    assert (rig.memory(0), rig.memory(1)) == (line(1), bytes(64))
    assert rig.client.qp.error
    assert rig.client.write(line(4)).status is Status.IBV_WC_WR_FLUSH_ERR
    assert rig.memory(0) == line(1)


@pytest.mark.parametrize("reads", [True, False])
def test_a_key_that_opens_nothing(rig, reads):
    done = rig.client.read(rkey=99) if reads else rig.client.write(line(1), rkey=99)
    assert done.status is Status.IBV_WC_REM_ACCESS_ERR
    assert rig.memory(0) == bytes(64)


def test_a_region_that_may_not_be_written(rig):
    closed = rig.server_pd.reg_mr(rig.address(0), 64, Access.IBV_ACCESS_REMOTE_READ)
    assert rig.client.read(rkey=closed.key).status is Status.IBV_WC_SUCCESS
    assert rig.client.write(line(1), rkey=closed.key).status is Status.IBV_WC_REM_ACCESS_ERR


def test_an_unsignalled_write_that_fails_completes_all_the_same(rig):
    done = rig.client.write(line(1), rkey=99, signalled=False)
    assert done.status is Status.IBV_WC_REM_ACCESS_ERR


def test_a_send_that_nobody_expects_ends_with_a_receiver_not_ready_error(rig):
    rig.client.qp.rnr_retry = 0
    first = rig.client.post_send(at=0)
    second = rig.client.post_send(at=0)
    rig.run()
    assert rig.client.done[first.wr_id].status is Status.IBV_WC_RNR_RETRY_EXC_ERR
    assert rig.client.done[second.wr_id].status is Status.IBV_WC_WR_FLUSH_ERR


def test_another_connection_lives_on_after_an_error():
    rig = Rig(connections=2)
    assert rig.clients[0].write(line(1), rkey=99).status is Status.IBV_WC_REM_ACCESS_ERR
    assert rig.clients[1].write(line(1)).status is Status.IBV_WC_SUCCESS


# unsignalled and many -----------------------------------------------------------------------------------------------


def test_unsignalled_writes_complete_silently(rig):
    quiet = rig.client.post_write(at=0, data=line(1), signalled=False)
    loud = rig.client.post_write(at=0, data=line(2), line=1)
    rig.run()
    assert [done.wr_id for done in rig.completions] == [loud.wr_id]
    assert (rig.memory(0), rig.memory(1)) == (line(1), line(2))
    assert quiet.wr_id not in rig.client.done


def test_staging_that_is_full_holds_packets_back_and_keeps_their_order():
    slow = {"tlp_bits_per_s": 10_000_000_000}
    rig = Rig(nic={"staging_bytes": 8192}, pcie=slow, clients=2)
    works = [client.post_write(at=0, data=line(at, 64), line=0) for at in range(1, 8) for client in rig.clients]
    last = [client.post_read(at=0, length=4096) for client in rig.clients]
    rig.run()
    assert len(rig.completions) == len(works) + len(last)
    assert {rig.memory(0, 64)} == {line(7, 64)}
    assert all(client.done[read.wr_id].data == line(7, 64) for client, read in zip(rig.clients, last, strict=True))
    held = max(chunk.reached_ps[1] - chunk.reached_ps[0] for chunk in rig.chunks(0))
    plenty = Rig(pcie=slow, clients=2)
    for at in range(1, 8):
        for client in plenty.clients:
            client.post_write(at=0, data=line(at, 64), line=0)
    plenty.run()
    assert held < max(chunk.reached_ps[1] - chunk.reached_ps[0] for chunk in plenty.chunks(0))
