"""Every rule of the table, one story each: what its event forces, from which instant on, and what it does not force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.ordering import RULES, Event, Scope, events_that_force
from rpsim.models.places import Place
from rpsim.models.platform import load_platform
from rpsim.models.rules import Switches
from rpsim.models.verbs import Opcode
from rpsim.sim.trace import Stage

from ..rig import LINE, Rig, line
from ..verbs import (
    GLOBAL,
    PERSISTENT,
    flushable,
    post,
    post_add,
    post_atomic_write,
    post_flush,
    receive_buffer,
    reconnect,
    returned,
    word,
)

NIC, PCIE, LLC, IIO, WPQ, MEDIA = (
    Place.NIC,
    Place.PCIE,
    Place.LLC,
    Place.IIO_WC,
    Place.WPQ,
    Place.MEDIA,
)
ANYWHERE = {NIC, PCIE, LLC, WPQ, MEDIA}
ELSEWHERE = 64
"""A line that nobody writes."""


def test_the_stories_here_cover_the_table():
    told = {
        name.removeprefix("test_rule_").split("__")[0].replace("_", "-")
        for name in globals()
        if name.startswith("test_rule_")
    }
    assert {rule.name for rule in RULES} == told


def test_a_completed_write_may_still_be_in_the_nic(rig):
    done = rig.client.write(data=line(1))
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE
    rig.run(done.ps + 10**9)
    assert rig.adversarial.places(line=0, crash_ps=rig.clock.now_ps) == ANYWHERE  # time proves nothing


# READ ------------------------------------------------------------------------------------------------------------


def test_rule_read_pushes_writes(rig):
    rig.client.post_write(data=line(1))
    response = rig.client.read(line=ELSEWHERE)
    assert rig.adversarial.places(line=0, crash_ps=response.ps - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=response.ps) == {LLC, WPQ, MEDIA}


def test_rule_read_pushes_writes__not_those_of_another_queue_pair():
    rig = Rig(connections=2)
    rig.clients[0].write(data=line(1))
    response = rig.clients[1].read(line=ELSEWHERE)
    assert rig.adversarial.places(line=0, crash_ps=response.ps) == ANYWHERE


def test_rule_read_pushes_writes__not_those_behind_it(rig):
    read = rig.client.post_read(line=ELSEWHERE)
    rig.client.post_write(data=line(1))
    done = rig.client.wait(read)
    rig.run()
    assert rig.chunks(0)[0].reached_ps[Stage.VISIBLE] < done.ps  # this timing had it in the cache, and proves nothing
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE


def test_rule_read_pushes_writes__a_read_of_nothing_does_not(rig):
    rig.client.post_write(data=line(1))
    done = rig.client.read(length=0, line=ELSEWHERE)
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE


def test_rule_read_pushes_writes__an_unsignalled_read_by_the_completion_behind_it(rig):
    rig.client.post_write(data=line(1), signalled=False)
    rig.client.post_read(line=ELSEWHERE, signalled=False)
    done = rig.client.write(data=line(2), line=1)
    assert rig.adversarial.places(line=0, crash_ps=done.ps - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=done.ps) == ANYWHERE


def test_rule_appliance_read():
    rig = Rig(ddio="off")
    rig.client.post_write(data=line(1))
    response = rig.client.read(line=ELSEWHERE)
    assert rig.adversarial.places(line=0, crash_ps=response.ps - 1) == {NIC, PCIE, IIO, WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=response.ps) == {WPQ, MEDIA}


def test_rule_appliance_read__not_for_another_queue_pair_nor_for_what_is_behind():
    rig = Rig(ddio="off", connections=2)
    rig.clients[1].write(data=line(1))
    read = rig.clients[0].post_read(at=rig.clock.now_ps, line=ELSEWHERE)
    rig.clients[0].post_write(data=line(2), line=1)
    response = rig.clients[0].wait(read)
    for number in (0, 1):
        assert NIC in rig.adversarial.places(line=number, crash_ps=response.ps)


def test_rule_read_returns_visible():
    rig = Rig(connections=2)
    rig.clients[0].write(data=line(1))
    rig.clients[0].write(data=line(2), line=1)
    rig.run()
    done = rig.clients[1].read(line=0)
    assert done.data == line(1)[:8]
    assert rig.adversarial.places(line=0, crash_ps=done.ps - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=done.ps) == ANYWHERE
    behind = rig.clients[1].read(line=1)  # and what came before it on its queue pair, had nobody looked at it
    assert rig.adversarial.places(line=1, crash_ps=behind.ps) == {LLC, WPQ, MEDIA}


def test_rule_read_returns_visible__with_what_came_before_in_order():
    rig = Rig(connections=2)
    rig.clients[0].write(data=line(1))
    rig.clients[0].write(data=line(2), line=1)
    rig.run()
    done = rig.clients[1].read(line=1)
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {LLC, WPQ, MEDIA}


def test_rule_read_returns_visible__but_not_what_another_write_has_hidden():
    rig = Rig(connections=3)
    rig.clients[0].write(data=line(1), line=1)
    rig.clients[0].write(data=line(2))
    rig.clients[1].write(data=line(3))
    rig.run()
    done = rig.clients[2].read(line=0, length=64)
    assert done.data == line(3)
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {LLC, WPQ, MEDIA}
    for number, chunk in ((0, 0), (1, 0)):
        assert rig.adversarial.places(line=number, crash_ps=done.ps, chunk=chunk) == ANYWHERE


# receive completions ------------------------------------------------------------------------------------------------


def test_rule_receive_publishes(rig):
    rig.server.post_recv(rig.client)
    rig.client.post_write(data=line(1))
    rig.client.post_send()
    rig.client.post_write(data=line(2), line=1)
    received = rig.server.receive()
    assert rig.adversarial.places(line=0, crash_ps=received.ps - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=received.ps) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=received.ps) == ANYWHERE


def test_rule_receive_publishes__nothing_to_the_sender(rig):
    rig.server.post_recv(rig.client)
    rig.client.post_write(data=line(1))
    done = rig.client.send()
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE


def test_rule_receive_publishes__nothing_of_another_queue_pair():
    rig = Rig(connections=2, ddio="off")
    rig.server.post_recv(rig.clients[1])
    rig.clients[0].write(data=line(1))
    rig.clients[1].post_write(data=line(2), line=1)
    rig.clients[1].post_send(at=rig.clock.now_ps)
    received = rig.server.receive()
    assert NIC in rig.adversarial.places(line=0, crash_ps=received.ps)
    assert rig.adversarial.places(line=1, crash_ps=received.ps) == {IIO, WPQ, MEDIA}


def test_rule_receive_publishes__behind_an_immediate(rig):
    rig.server.post_recv(rig.client)
    rig.client.post_write(data=line(1))
    post(rig.client, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, line(2), line=1)
    post_atomic_write(rig.client, word(3), line=2)
    received = rig.server.receive()
    for number in (0, 1):
        assert rig.adversarial.places(line=number, crash_ps=received.ps - 1) == ANYWHERE
        assert rig.adversarial.places(line=number, crash_ps=received.ps) == {LLC, WPQ, MEDIA}


def test_rule_receive_publishes__no_atomic_write(rig):
    rig.server.post_recv(rig.client)
    post_atomic_write(rig.client, word(3), line=2)
    rig.client.post_write(data=line(1))
    rig.client.post_send()
    received = rig.server.receive()
    assert rig.adversarial.places(line=0, crash_ps=received.ps) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=2, crash_ps=received.ps) == ANYWHERE


# atomics ------------------------------------------------------------------------------------------------------------


def test_rule_atomic_publishes(rig):
    rig.client.post_write(data=line(1))
    post_atomic_write(rig.client, word(3), line=2)
    atomic = post_add(rig.client, 1, line=ELSEWHERE)
    rig.client.post_write(data=line(2), line=1)
    done = rig.client.wait(atomic)
    for number in (0, 2):
        assert rig.adversarial.places(line=number, crash_ps=done.ps) == {LLC, WPQ, MEDIA}
    for number in (1, ELSEWHERE):  # neither what is behind it, nor its own result
        assert rig.adversarial.places(line=number, crash_ps=done.ps) == ANYWHERE


def test_rule_atomic_publishes__with_ddio_off_no_further_than_that():
    rig = Rig(ddio="off", connections=2)
    rig.clients[1].write(line(2), line=1)
    rig.client.post_write(data=line(1))
    done = rig.client.wait(post_add(rig.client, 1, at=rig.clock.now_ps, line=ELSEWHERE))
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {IIO, WPQ, MEDIA}
    assert NIC in rig.adversarial.places(line=1, crash_ps=done.ps)


def test_rule_atomic_publishes__to_what_is_executed_behind_it():
    """A WRITE that was held back until an atomic had been executed is in the adapter: the one before both shows."""
    rig = Rig(pcie={"dma_read_ps": 20_000_000})
    rig.client.post_write(data=line(1))
    atomic = post_add(rig.client, 1, line=ELSEWHERE)
    rig.client.post_write(data=line(2), line=1)
    done = rig.client.wait(atomic)
    accepted = rig.chunks(1)[0].reached_ps[0]
    assert accepted < done.ps
    assert rig.adversarial.places(line=0, crash_ps=accepted - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=accepted) == {LLC, WPQ, MEDIA}


def test_rule_atomic_returns_visible():
    rig = Rig(connections=2)
    rig.clients[0].write(word(7), line=0)
    rig.clients[0].write(line(2), line=1)
    rig.run()
    atomic = post_add(rig.clients[1], 1, at=rig.clock.now_ps)
    assert returned(rig.clients[1], atomic) == 7
    done = rig.clients[1].done[atomic.wr_id]
    assert rig.adversarial.places(line=0, crash_ps=done.ps - 1, chunk=0) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=done.ps, chunk=0) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=done.ps, chunk=1) == ANYWHERE
    assert rig.adversarial.places(line=1, crash_ps=done.ps) == ANYWHERE


# ATOMIC WRITE -------------------------------------------------------------------------------------------------------


def test_rule_atomic_write_releases():
    rig = Rig("optane-eadr", whole_lines=True)
    rig.client.post_write(data=line(1))
    made = post_atomic_write(rig.client, word(7), line=1)
    rig.client.post_write(data=line(3), line=2)
    done = rig.client.wait(made)
    rig.run(done.ps + 10**9)
    for number in (0, 1, 2):  # its completion proves nothing of anything
        assert NIC in rig.adversarial.places(line=number, crash_ps=rig.clock.now_ps)
    images = rig.adversarial.images((0, 1, 2), rig.clock.now_ps)
    old = bytes(LINE)
    flag = word(7) + bytes(56)
    assert (old, flag, old) not in images  # it is not there before what it releases,
    assert (line(1), old, line(3)) in images  # but later WRITEs overtake it
    assert (line(1), flag, old) in images
    assert (old, old, line(3)) not in images  # which are behind earlier ones as ever


def test_rule_atomic_write_releases__seen_by_a_core(rig):
    rig.client.post_write(data=line(1))
    done = rig.client.wait(post_atomic_write(rig.client, word(7), line=1))
    rig.run(done.ps + 10_000_000)
    assert rig.adversarial.places(line=0, crash_ps=rig.clock.now_ps) == ANYWHERE
    assert rig.server.load(8, line=1) == word(7)
    assert rig.adversarial.places(line=0, crash_ps=rig.clock.now_ps) == {LLC, WPQ, MEDIA}


def test_rule_atomic_write_releases__not_what_another_queue_pair_wrote():
    rig = Rig("optane-eadr", connections=2, whole_lines=True)
    rig.clients[1].write(line(1))
    done = rig.client.wait(post_atomic_write(rig.client, word(7), at=rig.clock.now_ps, line=1))
    assert (bytes(LINE), word(7) + bytes(56)) in rig.adversarial.images((0, 1), done.ps)


# FLUSH --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ddio", ["on", "off"])
def test_rule_flush_publishes(ddio):
    rig = Rig(ddio=ddio)
    region = flushable(rig)
    rig.client.post_write(data=line(1))
    flush = post_flush(rig.client, region, GLOBAL)
    rig.client.post_write(data=line(2), line=1)
    done = rig.client.wait(flush)
    cache = LLC if ddio == "on" else IIO
    assert NIC in rig.adversarial.places(line=0, crash_ps=done.ps - 1)
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {cache, WPQ, MEDIA}
    assert NIC in rig.adversarial.places(line=1, crash_ps=done.ps)


def test_rule_flush_publishes__not_what_another_queue_pair_wrote():
    rig = Rig(connections=2)
    region = flushable(rig)
    rig.clients[1].write(line(1))
    done = rig.client.wait(post_flush(rig.client, region, GLOBAL | PERSISTENT, at=rig.clock.now_ps))
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE


@pytest.mark.parametrize("ddio", ["on", "off"])
def test_rule_flush_persists(ddio):
    rig = Rig(ddio=ddio)
    region = flushable(rig)
    rig.client.post_write(data=line(1))
    rig.client.post_write(data=line(2), line=1)
    post_add(rig.client, 5, line=2)
    post_atomic_write(rig.client, word(6), line=3)
    flush = post_flush(rig.client, region, length=4 * LINE)
    rig.client.post_write(data=line(4), line=4)
    done = rig.client.wait(flush)
    for number in range(4):
        assert rig.adversarial.places(line=number, crash_ps=done.ps - 1) > {WPQ, MEDIA}
        assert rig.adversarial.places(line=number, crash_ps=done.ps) == {WPQ, MEDIA}
        assert rig.timed.survives(line=number, crash_ps=done.ps)
    assert NIC in rig.adversarial.places(line=4, crash_ps=done.ps)


def test_rule_flush_persists__only_the_range(rig):
    region = flushable(rig)
    rig.client.post_write(data=line(1))
    rig.client.post_write(data=line(2), line=1)
    done = rig.client.wait(post_flush(rig.client, region, line=1))
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE
    assert rig.adversarial.places(line=1, crash_ps=done.ps) == {WPQ, MEDIA}


def test_rule_flush_persists__the_whole_region(rig):
    region = flushable(rig, lines=4)
    for number in (0, 3, 4):
        rig.client.post_write(data=line(1), line=number)
    done = rig.client.wait(post_flush(rig.client, region, line=99, length=8, level=1))
    for number in (0, 3):
        assert rig.adversarial.places(line=number, crash_ps=done.ps) == {WPQ, MEDIA}
    assert rig.adversarial.places(line=4, crash_ps=done.ps) == ANYWHERE


def test_rule_flush_persists__a_part_of_a_long_write(rig):
    region = flushable(rig)
    rig.client.post_write(data=line(1, 4))
    done = rig.client.wait(post_flush(rig.client, region, line=1, length=LINE))
    new = line(1, 4)
    assert rig.adversarial.contents(1, done.ps) == {new[LINE : 2 * LINE]}
    assert bytes(LINE) in rig.adversarial.contents(0, done.ps)


def test_rule_flush_persists__before_an_atomic_write_that_nobody_waited_for(rig):
    """FLUSH and an ATOMIC WRITE behind it commit without a wait between them (librpma, example 07)."""
    region = flushable(rig)
    rig.client.post_write(data=line(1))
    post_flush(rig.client, region)
    post_atomic_write(rig.client, word(7), line=1)
    rig.run()
    accepted = rig.chunks(1)[0].reached_ps[0]
    assert rig.adversarial.places(line=0, crash_ps=accepted - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=accepted) == {WPQ, MEDIA}


@pytest.mark.parametrize("fence", [False, True])
def test_rule_flush_persists__not_before_a_write_that_nobody_waited_for(rig, fence):
    region = flushable(rig)
    rig.client.post_write(data=line(1))
    post_flush(rig.client, region)
    post(rig.client, Opcode.IBV_WR_RDMA_WRITE, line(2), line=1, fence=fence)
    rig.run()
    accepted = rig.chunks(1)[0].reached_ps[0]
    assert rig.adversarial.places(line=0, crash_ps=accepted) == ANYWHERE


def with_switches(**switches):
    return replace(load_platform("optane-adr"), switches=Switches(**switches))


def test_rule_flush_persists__before_a_write_where_flush_orders_writes():
    rig = Rig(with_switches(flush_orders_writes=True))
    region = flushable(rig)
    rig.client.post_write(data=line(1))
    post_flush(rig.client, region)
    rig.client.post_write(data=line(2), line=1)
    rig.run()
    accepted = rig.chunks(1)[0].reached_ps[0]
    assert rig.adversarial.places(line=0, crash_ps=accepted) == {WPQ, MEDIA}


def flushed_send(kind, covers):
    """A SEND into a receive buffer in persistent memory, and a FLUSH behind it."""
    rig = Rig(with_switches(flush_covers_sends=covers))
    region = flushable(rig)
    rig.client.peer.post_recv(replace(receive_buffer(rig, 64), local_address=rig.address(0)))
    rig.client.post_send(data=line(1))
    done = rig.client.wait(post_flush(rig.client, region, kind))
    return rig.adversarial.places(line=0, crash_ps=done.ps)


def test_rule_flush_publishes_sends():
    assert flushed_send(GLOBAL, covers=False) == ANYWHERE
    assert flushed_send(GLOBAL, covers=True) == {LLC, WPQ, MEDIA}


def test_rule_flush_persists_sends():
    assert flushed_send(PERSISTENT, covers=False) == ANYWHERE
    assert flushed_send(PERSISTENT, covers=True) == {WPQ, MEDIA}


# the ACK and the fence ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ddio", ["on", "off"])
def test_rule_ack_behind_no_ddio(ddio):
    rig = Rig(with_switches(ddio_off_ack_durable=True), ddio=ddio)
    done = rig.client.write(line(1))
    found = rig.adversarial.places(line=0, crash_ps=done.ps)
    assert found == ({WPQ, MEDIA} if ddio == "off" else ANYWHERE)
    plain = Rig(ddio=ddio)
    done = plain.client.write(line(1))
    assert NIC in plain.adversarial.places(line=0, crash_ps=done.ps)


@pytest.mark.parametrize("fence", [False, True])
def test_rule_appliance_read__before_a_fenced_write_that_nobody_waited_for(fence):
    """READ and a fenced WRITE commit without a wait between them (librpma, mr.c); without the fence they do not."""
    rig = Rig(ddio="off")
    rig.client.post_write(data=line(1))
    rig.client.post_read(line=ELSEWHERE)
    post(rig.client, Opcode.IBV_WR_RDMA_WRITE, line(2), line=1, fence=fence)
    rig.run()
    accepted = rig.chunks(1)[0].reached_ps[0]
    found = rig.adversarial.places(line=0, crash_ps=accepted)
    assert found == ({WPQ, MEDIA} if fence else {NIC, PCIE, IIO, WPQ, MEDIA})


def test_a_retry_on_a_new_connection_executes_again_and_may_land_before_the_old_one():
    rig = Rig(whole_lines=True)
    rig.client.write(line(1))
    old = rig.client.qp
    reconnect(rig.client)
    assert rig.client.qp is not old
    done = rig.client.write(line(2))
    assert rig.adversarial.contents(0, done.ps) == {bytes(LINE), line(1), line(2)}
    assert len(rig.chunks(0)) == 2


# persistent memory regions ------------------------------------------------------------------------------------------


def pmr_rig(pmrwbm, **how):
    """The server's persistent memory is that of a drive beside its adapter."""
    profile = load_platform("pmr", pmrwbm=pmrwbm)
    return Rig(replace(profile, memory={**profile.memory, "pm": profile.memory["pmr"]}), **how)


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


# loads --------------------------------------------------------------------------------------------------------------


def test_rule_load_returns_visible(rig):
    rig.client.write(data=line(1))
    rig.client.write(data=line(2), line=1)
    rig.run()
    assert rig.server.load() == line(1)
    now = rig.clock.now_ps
    assert rig.adversarial.places(line=0, crash_ps=now - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=now) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=now) == ANYWHERE


def test_rule_load_returns_visible__a_store_to_other_cores_only(rig):
    rig.server.store(line(1))
    rig.server.load(core=0)
    assert Place.STORE_BUFFER in rig.adversarial.places(line=0, crash_ps=rig.clock.now_ps)
    rig.server.load(core=1)
    assert rig.adversarial.places(line=0, crash_ps=rig.clock.now_ps) == {LLC, WPQ, MEDIA}


def test_rule_read_returns_visible__though_its_sample_was_due_earlier():
    """Somebody has looked at the memory while a READ of many lines was under way: it returns bytes as new as that."""
    rig = Rig(connections=26, pcie={"tlp_bits_per_s": 10**8})
    read = rig.client.post_read(at=0, length=4096)
    for number, client in enumerate(rig.clients[1:]):  # visible 7 us apart, and none of them proves another
        client.post_write(at=0, data=line(1), line=number)
    rig.clock.call_at(200_000_000, rig.memory, 0)
    done = rig.client.wait(read)
    assert done.ps > 300_000_000
    new = [number for number in range(64) if done.data[number * LINE :][:LINE] == line(1)]
    assert len(new) == 25
    for number in new:
        assert rig.adversarial.places(line=number, crash_ps=done.ps) == {LLC, WPQ, MEDIA}


# fences and flushes -------------------------------------------------------------------------------------------------


def test_rule_fence_drains_stores(rig):
    rig.server.store(line(1))
    rig.server.store(line(2), line=1, core=1)
    retired = rig.clock.now_ps
    assert rig.adversarial.places(line=0, crash_ps=retired) == {Place.STORE_BUFFER, LLC, WPQ, MEDIA}
    end = rig.server.sfence(core=0)
    assert rig.adversarial.places(line=0, crash_ps=end - 1) == {Place.STORE_BUFFER, LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=end) == {LLC, WPQ, MEDIA}
    assert Place.STORE_BUFFER in rig.adversarial.places(line=1, crash_ps=end)


def test_rule_fence_drains_wc(rig):
    rig.server.ntstore(line(1))
    rig.server.ntstore(line(2), line=1, core=1)
    before = rig.clock.now_ps
    assert rig.adversarial.places(line=0, crash_ps=before) == {Place.WC_BUFFER, WPQ, MEDIA}
    end = rig.server.sfence(core=0)
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=end) == {Place.WC_BUFFER, WPQ, MEDIA}


def test_rule_fence_completes_flushes(rig):
    rig.server.store(line(1))
    rig.server.store(line(2), line=1)
    issued = rig.server.clwb(line=0)
    assert Place.STORE_BUFFER in rig.adversarial.places(line=0, crash_ps=issued)
    end = rig.server.sfence()
    assert rig.adversarial.places(line=0, crash_ps=end - 1) == {Place.STORE_BUFFER, LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=end) == {LLC, WPQ, MEDIA}  # not flushed


def test_rule_fence_completes_flushes__not_a_store_behind_them(rig):
    rig.server.store(line(1))
    rig.server.clwb()
    rig.server.store(line(2))
    end = rig.server.sfence()
    assert rig.adversarial.places(line=0, crash_ps=end, chunk=0) == {WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=end, chunk=1) == {LLC, WPQ, MEDIA}


def test_rule_fence_completes_flushes__not_another_cores_store(rig):
    rig.server.store(line(1), core=1)
    end = rig.server.flush(core=0)
    assert Place.STORE_BUFFER in rig.adversarial.places(line=0, crash_ps=end)
    rig.server.load(core=0)
    end = rig.server.flush(core=0)
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}


def test_rule_fence_completes_flushes__not_a_dma_write_that_nothing_had_forced(rig):
    """This timing had it in the cache, and wrote it back; another one may have it in the NIC still."""
    rig.client.write(data=line(1))
    rig.run()
    end = rig.server.flush()
    assert rig.timed.survives(line=0, crash_ps=end)
    assert rig.adversarial.places(line=0, crash_ps=end) == ANYWHERE
    rig.server.load()
    end = rig.server.flush()
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}


def test_rule_fence_completes_flushes__not_what_was_seen_only_after_their_issue(rig):
    rig.client.write(data=line(1))
    rig.run()
    rig.server.clwb()
    rig.server.load()
    end = rig.server.sfence()
    assert rig.adversarial.places(line=0, crash_ps=end) == {LLC, WPQ, MEDIA}


def test_rule_clflush_completes(rig):
    rig.server.store(line(1, 2))
    rig.client.write(data=line(3), line=9)
    rig.run()
    end = rig.server.clflush(line=0)
    assert rig.adversarial.places(line=0, crash_ps=end - 1) == {Place.STORE_BUFFER, LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}
    assert Place.STORE_BUFFER in rig.adversarial.places(line=1, crash_ps=end)
    end = rig.server.clflush(line=9)
    assert rig.adversarial.places(line=9, crash_ps=end) == ANYWHERE


def test_rule_doorbell_drains_stores(rig):
    rig.server.store(line(1))
    rig.server.store(line(2), line=1, core=1)
    end = rig.server.post_send(rig.client, core=0)
    assert Place.STORE_BUFFER in rig.adversarial.places(line=0, crash_ps=end - 1)
    assert rig.adversarial.places(line=0, crash_ps=end) == {LLC, WPQ, MEDIA}
    assert Place.STORE_BUFFER in rig.adversarial.places(line=1, crash_ps=end)


# durable or not, after the last thing that the requester waits for --------------------------------------------------

WRITE = "WRITE"
READ = "WRITE; READ"
SEND = "WRITE; SEND; reply"
FLUSH = "WRITE; SEND; CPU flush; reply"
OTHER = "WRITE q1; READ q2"
COLUMNS = [("optane-adr", "off"), ("optane-adr", "on"), ("optane-eadr", "on"), ("optane-eadr", "off")]
DURABLE = {WRITE: "NNNN", READ: "YNYY", SEND: "NNYN", FLUSH: "YYYY", OTHER: "NNNN"}
CASES = [
    pytest.param(sequence, *column, verdict == "Y", id=f"{sequence} on {column[0]}, ddio {column[1]}: {verdict}")
    for sequence, verdicts in DURABLE.items()
    for column, verdict in zip(COLUMNS, verdicts, strict=True)
]


def run_sequence(rig, sequence, size):
    """Returns the instant after the last wait."""
    first, second = rig.clients
    data = line(1, size // LINE)
    if sequence == WRITE:
        return first.write(data).ps
    if sequence == OTHER:
        first.write(data)
        return second.read(line=ELSEWHERE).ps
    if sequence == READ:
        first.post_write(data=data)
        return first.read(line=ELSEWHERE).ps
    rig.server.post_recv(first)
    first.post_write(data=data)
    first.post_send()
    rig.server.receive()
    if sequence == FLUSH:
        rig.server.flush(lines=size // LINE)
    return rig.server.reply(first)


@pytest.mark.parametrize(("sequence", "platform", "ddio", "durable"), CASES)
@pytest.mark.parametrize("size", [64, 4096])
def test_durable_after_the_last_wait(sequence, platform, ddio, durable, size):
    rig = Rig(platform, ddio=ddio, connections=2, whole_lines=True)
    crash_ps = run_sequence(rig, sequence, size)
    new = line(1, size // LINE)
    for number in range(size // LINE):
        contents = rig.adversarial.contents(line=number, crash_ps=crash_ps)
        assert new[number * LINE :][:LINE] in contents
        assert (len(contents) == 1) is durable


@pytest.mark.parametrize("ddio", ["on", "off"])
@pytest.mark.parametrize(
    ("domain", "sequence", "durable"),
    [("wsp", WRITE, True), ("media", FLUSH, False), ("none", FLUSH, False)],
)
def test_other_domains(ddio, domain, sequence, durable):
    rig = Rig(ddio=ddio, domain=domain, connections=2, whole_lines=True)
    crash_ps = run_sequence(rig, sequence, 64)
    assert rig.adversarial.durable(0, line(1), crash_ps) is durable
    assert bytes(64) in rig.adversarial.contents(0, crash_ps) or durable


# the table itself ---------------------------------------------------------------------------------------------------


def test_every_event_has_a_rule_and_every_rule_a_source():
    assert {rule.event for rule in RULES} == set(Event)
    assert all(len(rule.source) > 10 for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_what_would_have_forced_a_write_in_words():
    assert events_that_force(Scope.FLUSH_TARGET) == (
        "FLUSH response (global visibility) or FLUSH response (persistence)"
    )
    assert events_that_force(Scope.RETURNED) == "READ completion, atomic result or load"
