"""The adapter's SRAM: what it holds against closed forms, and what a miss costs whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpsim.models.nic.sram import Sram, SramEntry
from rpsim.models.verbs import Opcode, QpType, RecvWR, Status
from rpsim.validation.naive.arithmetic import arithmetic

from ...rig import Rig, line
from ...verbs import reconnect
from ..hops import Hops
from ..workloads import changed, workloads


def sram(capacity_bytes, seed=1):
    return Sram(capacity_bytes, lambda: np.random.default_rng(seed))


# tags -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fits", [10, 50, 90])
def test_uniform_accesses_hit_as_often_as_entries_fit(fits):
    """Of n equal entries asked for at random, c are here whatever the victim's choice: the hit rate is c / n."""
    held, random = sram(fits * 375), np.random.default_rng(2)
    for name in random.integers(100, size=20_000).tolist():
        held.look(SramEntry.QP, name, 375)
    assert held.hits[SramEntry.QP] / 20_000 == pytest.approx(fits / 100, abs=0.02)


def test_a_round_robin_that_does_not_fit_still_hits_sometimes():
    """Random victims: between none (as the least recently used would) and the share that fits."""
    held = sram(80 * 375)
    for turn in range(20_000):
        held.look(SramEntry.QP, turn % 100, 375)
    assert 0.5 < held.hits[SramEntry.QP] / 20_000 < 0.8


STEPS = st.lists(st.tuples(st.sampled_from(list(SramEntry)), st.integers(0, 30), st.booleans()), max_size=200)
SIZES = {SramEntry.QP: 375, SramEntry.MPT: 64, SramEntry.MTT: 8, SramEntry.WQE: 64, SramEntry.EXTENT: 24}


@given(STEPS, st.integers(375, 4000))
def test_it_never_holds_more_than_it_has_room_for(steps, capacity_bytes):
    held, here = sram(capacity_bytes), set()
    for entry, name, drop in steps:
        if drop:
            held.drop(entry, name)
            here.discard((entry, name))
        else:
            missing = held.look(entry, name, SIZES[entry])
            assert missing in (0, SIZES[entry])
            assert not (missing == 0 and (entry, name) not in here), "what was never put there is not there"
            here.add((entry, name))
        assert 0 <= held.used_bytes <= capacity_bytes
        assert held.used_bytes == sum(SIZES[kind] for kind, _ in held._keys)


def test_the_same_seed_evicts_the_same():
    def misses(seed):
        held = sram(10 * 375, seed)
        return [held.look(SramEntry.QP, turn % 20, 375) for turn in range(500)]

    assert misses(1) == misses(1) != misses(2)


# what exists, and whether it fits ---------------------------------------------------------------------------


def test_queue_pairs_and_pages_take_room_and_give_it_back(rig):
    nic, pd = rig.server.node.nic, rig.server_pd
    before = nic.sram.demand_bytes
    region = pd.reg_mr(rig.address(0), 4096 * 64, page_bytes=4096)
    assert nic.sram.demand_bytes - before == 64 + 64 * 8
    pd.dereg_mr(region)
    qp = pd.create_qp(rig.server.sent, rig.server.received, max_send_wr=16)
    assert nic.sram.demand_bytes - before == 375 + 16 * 64
    qp.destroy()
    assert nic.sram.demand_bytes == before


@pytest.mark.parametrize("page_bytes", [1024, 6000])
def test_pages_that_no_processor_has_are_refused(rig, page_bytes):
    with pytest.raises(ValueError, match=f"pages of {page_bytes} bytes"):
        rig.server_pd.reg_mr(rig.address(0), 4096, page_bytes=page_bytes)


def test_what_fits_costs_nothing():
    assert Rig(nic={"sram_bytes": 1 << 30}).client.write(line(1)).ps == Rig().client.write(line(1)).ps


def test_misses_of_a_write_are_one_read_at_each_adapter_and_step(rig):
    """Room for one context and one region's entries: the first WRITE misses at both ends, the second hits."""
    hops = Hops(rig.platform)
    small = Rig(nic={"sram_bytes": 600})
    extra_pd = small.server.node.alloc_pd()
    extra_pd.create_qp(small.server.sent, small.server.received)
    client_pd = small.client.node.alloc_pd()
    client_pd.create_qp(small.client.cq, small.client.receive_cq)
    client, server = small.client.node.nic, small.server.node.nic
    assert client.sram.crowded and server.sram.crowded
    first = small.client.write(line(1)).ps
    at_client = hops.dma_fetch(375, hops.cached_read())
    at_server = hops.dma_fetch(375 + 64 + 8, hops.cached_read())
    assert first == hops.write(64, inline=True) + at_client + at_server
    start = small.clock.now_ps
    assert small.client.write(line(2)).ps - start == hops.write(64, inline=True)
    assert client.counters()["sram_misses queue pair context"] == 1
    assert client.counters()["sram_hits queue pair context"] == 3
    assert server.counters()["sram_misses page"] == server.counters()["sram_hits page"] == 1
    assert small.memory(0) == line(2)


def test_what_fits_again_overtakes_nothing_that_still_waits():
    """A WRITE waits for its entries when another queue pair goes and all the rest fits: others stay behind it."""
    for at_ns in range(700, 2700, 100):
        rig = Rig(nic={"sram_bytes": 1000}, pcie={"dma_read_ps": 2_000_000})
        others = [rig.server.node.alloc_pd().create_qp(rig.server.sent, rig.server.received) for _ in range(2)]
        assert rig.server.node.nic.sram.crowded
        for number in range(4):
            rig.client.post_write(data=line(number + 1))
        for other in others:
            rig.clock.call_at(at_ns * 1000, other.destroy)
        rig.run()
        assert not rig.server.node.nic.sram.crowded
        assert rig.memory(0) == line(4)
        assert [done.status for done in rig.completions] == [Status.IBV_WC_SUCCESS] * 4


def held(nic, kind):
    return sorted(name for entry, name in nic.sram.shared._keys if entry is kind)


def test_what_is_gone_takes_no_room():
    """Of three queue pairs and two regions some go, and then what is here is of the others."""
    rig = Rig(nic={"sram_bytes": 1500, "page_bytes": 4096}, connections=3)
    nic = rig.server.node.nic
    regions = [rig.server_pd.reg_mr(rig.address(0), 32 * 4096) for _ in range(2)]
    for region in regions:
        for client in rig.clients:
            client.read(rkey=region.key)
    assert nic.sram.crowded
    assert {key for key, _ in held(nic, SramEntry.MTT)} == {region.key for region in regions}
    rig.server_pd.dereg_mr(regions[0])
    assert held(nic, SramEntry.MPT) == [regions[1].key]
    assert {key for key, _ in held(nic, SramEntry.MTT)} == {regions[1].key}
    rig.clients[0].peer.destroy()
    assert rig.clients[0].peer.number not in held(nic, SramEntry.QP)
    rig.clients[0].post_write(data=line(1))  # to a queue pair that is no more
    rig.run(rig.clock.now_ps + 10**7)
    assert rig.clients[0].peer.number not in held(nic, SramEntry.QP)


@pytest.mark.parametrize("how", ["UC", "UD", "flushed", "destroyed", "repeated"])
def test_a_work_request_that_is_over_takes_no_room(how):
    """Whatever became of it: without an answer, flushed, gone with its queue pair, or answered after an RNR NAK."""
    rig = Rig(nic={"sram_bytes": 500, "rnr_timer_ps": 10_000_000})
    client = rig.client
    if how in ("UC", "UD"):
        reconnect(client, QpType[f"IBV_QPT_{how}"])
        client.node.alloc_pd().create_qp(client.cq, client.receive_cq)
        work = client.work(Opcode.IBV_WR_SEND, line(1))
        work.destination = client.peer
        client.wait(client.post(work))
    else:
        for _ in range(2):
            client.node.alloc_pd().create_qp(client.cq, client.receive_cq)
        client.post_send()
        end = {"flushed": client.qp.fail, "destroyed": client.qp.destroy}.get(how)
        rig.clock.call_at(1_000_000 if end else 2_000_000, end or (lambda: rig.server.post_recv(client)))
        rig.run(10**9)
    nic = client.node.nic
    assert nic.sram.crowded
    assert held(nic, SramEntry.WQE) == []
    assert nic.counters()["sram_misses work request"] == 0


def test_each_message_of_a_multi_packet_buffer_has_pages_of_its_own():
    """Strides of one page: the adapter looks each message's page up, and not the first one's for all of them."""
    rig = Rig(nic={"sram_bytes": 900})
    server, client = rig.server, rig.client
    server.node.alloc_pd().create_qp(server.sent, server.received)
    address = server.node.memory["dram"].allocate(4 * 4096, "buffer", align=4096)
    region = rig.server_pd.reg_mr(address, 4 * 4096, page_bytes=4096)
    client.peer.post_recv(RecvWR(1, address, 4 * 4096, lkey=region.key, stride_bytes=4096))
    for count in range(1, 5):
        client.send(line(count))
        assert server.node.nic.counters()["sram_misses page"] == count


def test_a_datagram_s_page_is_that_behind_its_header():
    """The header of 40 B ends with the buffer's first page, and the payload is in the second one."""
    rig = Rig(nic={"sram_bytes": 900})
    server, client = rig.server, rig.client
    reconnect(client, QpType.IBV_QPT_UD)
    address = server.node.memory["dram"].allocate(2 * 4096, "buffer", align=4096)
    region = rig.server_pd.reg_mr(address, 2 * 4096, page_bytes=4096)
    client.peer.post_recv(RecvWR(1, address + 4096 - 40, 1024, lkey=region.key))
    work = client.work(Opcode.IBV_WR_SEND, bytes(8))
    work.destination = client.peer
    client.wait(client.post(work))
    rig.run()
    assert server.node.nic.sram.crowded
    assert server.node.nic.counters()["sram_misses page"] == 2


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(workloads(), st.sampled_from([400, 900, 2000]))
def test_an_adapter_that_misses_loses_nothing(workload, sram_bytes):
    """Every request of every queue pair completes, in order, on an adapter that hardly holds anything."""
    small = replace(workload, platform=changed(workload.platform, nic={"sram_bytes": sram_bytes, "page_bytes": 4096}))
    roomy, tight = arithmetic(workload), arithmetic(small)
    assert sorted(seen.who for seen in tight.seen) == sorted(seen.who for seen in roomy.seen)
    for number in range(len(workload.connections)):
        mine = [
            seen.who
            for seen in tight.seen
            if seen.who.startswith(f"connection {number} ") and "received" not in seen.who
        ]
        numbers = [int(who.split()[3].rstrip(":")) for who in mine]
        assert numbers == sorted(numbers)
