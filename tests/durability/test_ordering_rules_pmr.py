"""Stories of the ordering rules: a persistent memory region beside the adapter, and its write barriers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.durability.places import Place
from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import Opcode

from ..rig import ELSEWHERE, NIC, Rig, line
from ..verbs import (
    post,
)

# persistent memory regions ------------------------------------------------------------------------------------------


def pmr_rig(pmrwbm, mapping="uc", **how):
    """The server's persistent memory is that of a drive beside its adapter."""
    profile = load_platform("pmr", pmrwbm=pmrwbm)
    peers = {name: replace(peer, mapping=mapping) for name, peer in profile.peers.items()}
    return Rig(replace(profile, memory={**profile.memory, "pm": profile.memory["pmr"]}, peers=peers), **how)


def lasts(rig, crash_ps, number=0):
    return rig.adversarial.places(line=number, crash_ps=crash_ps) <= {Place.PMR}


@pytest.mark.parametrize("pmrwbm", [1, 2])
def test_rule_pmr_read_is_barrier(pmrwbm):
    rig = pmr_rig(pmrwbm)
    rig.client.post_write(data=line(1))
    read = rig.client.post_read(line=ELSEWHERE)
    rig.client.post_write(data=line(2), line=1)
    done = rig.client.wait(read)
    assert not lasts(rig, done.ps - 1)
    assert lasts(rig, done.ps) is (pmrwbm == 1)
    assert NIC not in rig.adversarial.places(line=0, crash_ps=done.ps)
    assert NIC in rig.adversarial.places(line=1, crash_ps=done.ps)


def test_rule_pmr_read_is_barrier__a_read_of_host_memory_is_none():
    rig = pmr_rig(3)
    dram = rig.server.node.memory["dram"].allocate(64, "elsewhere")
    region = rig.server_pd.reg_mr(dram, 64)
    rig.client.post_write(data=line(1))
    done = rig.client.wait(post(rig.client, Opcode.IBV_WR_RDMA_READ, length=8, remote_address=dram, rkey=region.key))
    assert NIC in rig.adversarial.places(line=0, crash_ps=done.ps)


def test_rule_receive_publishes__nothing_of_a_peer_device():
    rig = pmr_rig(3)
    rig.server.post_recv(rig.client)
    rig.client.post_write(data=line(1))
    rig.client.post_send()
    received = rig.server.receive()
    assert NIC in rig.adversarial.places(line=0, crash_ps=received.ps)


@pytest.mark.parametrize("pmrwbm", [1, 2])
def test_rule_pmr_read_empties_buffer(pmrwbm):
    """A read of the region is a barrier for what another queue pair wrote as well, if that was certainly there."""
    rig = pmr_rig(pmrwbm, connections=2)
    rig.clients[0].post_write(data=line(1))
    rig.clients[0].read(line=ELSEWHERE)
    rig.clients[0].write(line(2), line=1)
    done = rig.clients[1].read(line=ELSEWHERE)
    assert lasts(rig, done.ps) is (pmrwbm == 1)
    assert not lasts(rig, done.ps, number=1)


def test_rule_load_pushes_mmio():
    rig = pmr_rig(2)
    rig.server.store(line(1))
    rig.server.store(line(2), line=1, core=1)
    rig.server.sfence()
    assert Place.STORE_BUFFER in rig.adversarial.places(line=0, crash_ps=rig.clock.now_ps)
    rig.server.load(line=ELSEWHERE)
    now = rig.clock.now_ps
    assert Place.STORE_BUFFER not in rig.adversarial.places(line=0, crash_ps=now)
    assert not lasts(rig, now)
    assert Place.STORE_BUFFER in rig.adversarial.places(line=1, crash_ps=now)


@pytest.mark.parametrize("pmrwbm", [1, 2])
def test_rule_pmr_load_is_barrier(pmrwbm):
    rig = pmr_rig(pmrwbm)
    rig.client.post_write(data=line(1))
    rig.client.read(line=ELSEWHERE)
    rig.client.write(line(2), line=1)
    rig.server.store(line(3), line=2)
    rig.server.load(line=ELSEWHERE)
    now = rig.clock.now_ps
    assert [lasts(rig, now, number) for number in range(3)] == [pmrwbm == 1, False, pmrwbm == 1]


@pytest.mark.parametrize("pmrwbm", [1, 2])
def test_a_load_through_a_write_combining_mapping_pushes_what_a_fence_or_an_uncached_read_has_sent(pmrwbm):
    rig = pmr_rig(pmrwbm, mapping="wc")
    server, held = rig.server, Place.STORE_BUFFER

    def still_held(stored):
        now = rig.clock.now_ps
        return [held in rig.adversarial.places(line=number, crash_ps=now) for number in range(stored)]

    server.store(line(1))
    server.load(line=ELSEWHERE)
    server.load(line=0)  # its own store may come to it from the buffer
    assert still_held(1)[0] and not lasts(rig, rig.clock.now_ps)
    server.sfence()
    server.store(line(2), line=1)
    assert still_held(2) == [True, True]
    server.load(line=ELSEWHERE)
    assert still_held(2) == [False, True] and lasts(rig, rig.clock.now_ps) is (pmrwbm == 1)
    server.store(line(3), line=2)
    server.run(server.threads[0].read_pmrsts(rig.address(0)))
    assert still_held(3) == [False, False, False]


def test_write_combining_buffers_are_emptied_in_any_order_between_two_fences():
    """That a later one was seen says nothing of an earlier one, unless a fence was in between."""
    for mapping, fenced, known in (("uc", False, True), ("wc", False, False), ("wc", True, True)):
        rig = pmr_rig(2, mapping=mapping)
        rig.server.store(line(1))
        if fenced:
            rig.server.sfence()
        rig.server.store(line(2), line=1)
        rig.client.read(line=1)
        now = rig.clock.now_ps
        places = [rig.adversarial.places(line=number, crash_ps=now) for number in range(2)]
        assert Place.STORE_BUFFER not in places[1]
        assert (Place.STORE_BUFFER not in places[0]) is known


def test_rule_status_read_pushes_mmio():
    rig = pmr_rig(1)
    rig.server.store(line(1))
    rig.server.run(rig.server.threads[0].read_pmrsts(rig.address(0)))
    now = rig.clock.now_ps
    assert Place.STORE_BUFFER not in rig.adversarial.places(line=0, crash_ps=now)
    assert not lasts(rig, now)


@pytest.mark.parametrize("pmrwbm", [1, 2, 3])
def test_rule_status_read_is_barrier(pmrwbm):
    rig = pmr_rig(pmrwbm)
    rig.client.post_write(data=line(1))
    rig.client.read(line=ELSEWHERE)
    rig.client.write(line(2), line=1)
    rig.server.store(line(3), line=2)
    rig.server.run(rig.server.threads[0].read_pmrsts(rig.address(0)))
    now = rig.clock.now_ps
    barrier, by_read = bool(pmrwbm & 2), bool(pmrwbm & 1)
    assert [lasts(rig, now, number) for number in range(3)] == [barrier or by_read, False, barrier]
