"""Stories of the ordering rules: atomics, ATOMIC WRITE, FLUSH, ACK and fence; what each forces and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.durability.rules import Switches
from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import Opcode

from ..rig import ANYWHERE, ELSEWHERE, IIO, LINE, LLC, MEDIA, NIC, PCIE, WPQ, Rig, line
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
