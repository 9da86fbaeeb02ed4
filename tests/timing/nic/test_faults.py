"""An adapter without power and a queue pair that is gone: what leaves, what is accepted, what completes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import ACK_TIMEOUT_PS, REMOTE, Access, Status

from ...rig import Rig, line
from ...verbs import post_add
from ..hops import Hops

SMALL_MTU = {"mtu_bytes": 1024}


def packets(rig):
    """When the packets of a first WRITE of 4 KB have left the client's port, and when they are accepted."""
    hops = Hops(rig.platform)
    sizes = hops.packets(4096, rig.platform.nic.headers.write_bytes)
    ready = hops.post() + hops.dma_fetch(4096, hops.cached_read()) + rig.platform.nic.tx_processing_ps
    left = [ready + hops.link(sum(sizes[: turn + 1])) for turn in range(len(sizes))]
    return left, [ready + ps for ps in hops.received(sizes)]


@pytest.mark.parametrize("how", ["power", "queue pair"])
@pytest.mark.parametrize("sent", range(5))
def test_a_message_is_cut_between_packets(how, sent):
    """The packets whose last bit has left are placed, the others never come, and nothing completes."""
    rig = Rig(nic=SMALL_MTU)
    rig.client.post_write(at=0, data=line(1, 64))
    left_ps, _ = packets(rig)
    at_ps = left_ps[sent] - 1 if sent < 4 else left_ps[3]
    end = rig.client.node.nic.power_off if how == "power" else rig.client.qp.destroy
    rig.clock.call_at(at_ps, end)
    rig.run()
    rig.run(rig.clock.now_ps + 10**9)
    assert rig.memory(0, 64) == line(1, 64)[: sent * 1024] + bytes(4096 - sent * 1024)
    assert rig.completions == []


@pytest.mark.parametrize("how", ["power", "queue pair"])
def test_a_responder_that_is_gone_accepts_nothing_and_the_requester_gives_up(how):
    rig = Rig(nic=SMALL_MTU)
    rig.client.qp.timeout, rig.client.qp.retry_cnt = 5, 2
    first = rig.client.post_write(at=0, data=line(1, 64))
    second = rig.client.post_write(at=0, data=line(2), line=70)
    left_ps, accepted_ps = packets(rig)
    end = rig.server.node.nic.power_off if how == "power" else rig.client.peer.destroy
    rig.clock.call_at(accepted_ps[1], end)  # two of four are in: hardware comes before what code does at its instant
    rig.run()
    assert rig.memory(0, 64) == line(1, 64)[:2048] + bytes(2048)
    assert rig.memory(70) == bytes(64)
    done = {found.wr_id: found for found in rig.completions}
    assert done[first.wr_id].status is Status.IBV_WC_RETRY_EXC_ERR
    assert done[second.wr_id].status is Status.IBV_WC_WR_FLUSH_ERR
    assert rig.client.qp.error
    hops = Hops(rig.platform)
    assert done[first.wr_id].ps == left_ps[3] + 3 * 2**5 * ACK_TIMEOUT_PS + hops.cqe()


def test_an_acknowledgement_that_has_not_left_is_lost_and_what_it_acknowledged_is_placed():
    rig = Rig()
    rig.client.qp.timeout = 1
    rig.client.post_write(at=0, data=line(1))
    accepted_ps = Hops(rig.platform).accepted(64, inline=True)
    rig.clock.call_at(accepted_ps + 1, rig.client.peer.destroy)
    rig.run()
    assert rig.memory(0) == line(1)
    assert [done.status for done in rig.completions] == [Status.IBV_WC_RETRY_EXC_ERR]


# what follows a queue pair that is gone ------------------------------------------------------------------------------


def placed(rig, at_ps, lines):
    """What lines hold when all that a queue pair had accepted is placed, which is destroyed at an instant."""
    seen = []

    def end():
        rig.client.peer.destroy()
        rig.client.peer.placed().callbacks.append(lambda _: seen.append(rig.memory(0, lines)))

    rig.client.qp.timeout = 1
    rig.clock.call_at(at_ps, end)
    rig.run(10**9)
    return seen


@pytest.mark.parametrize("how", ["host memory", "relaxed ordering", "peer device"])
def test_all_that_was_accepted_is_placed_wherever_it_goes(how):
    """A region beside the adapter takes writes later than host memory; those in any order come when they like."""
    profile = load_platform("pmr")
    beside = {**profile.memory, "pm": profile.memory["pmr"]}
    for at_ns in range(700, 3000, 100):
        rig = Rig(replace(profile, memory=beside if how == "peer device" else profile.memory))
        relaxed = Access.IBV_ACCESS_RELAXED_ORDERING if how == "relaxed ordering" else Access(0)
        region = rig.server_pd.reg_mr(rig.address(0), 64 * 40, REMOTE | relaxed)
        rig.client.post_write(data=line(1, 32), rkey=region.key)
        rig.client.post_write(data=line(2), line=32, rkey=region.key)
        assert placed(rig, at_ns * 1000, 33) == [rig.memory(0, 33)]


def test_an_atomic_under_execution_ends_with_its_queue_pair():
    """Whenever that is destroyed, the word has its result when all is placed, or never."""
    seen = set()
    for at_ns in range(500, 2500, 100):
        rig = Rig()
        post_add(rig.client, 5)
        word = placed(rig, at_ns * 1000, 1)[0]
        assert rig.memory(0) == word
        seen.add(word[0])
    assert seen == {0, 5}


def test_an_atomic_under_execution_ends_with_the_power():
    for at_ns in range(500, 2500, 100):
        rig = Rig()
        post_add(rig.client, 5)
        rig.clock.call_at(at_ns * 1000, rig.server.node.nic.power_off)
        rig.run(10**9)
        assert all(chunk.reached_ps[0] <= at_ns * 1000 for chunk in rig.trace.chunks)


def test_an_atomic_that_ends_with_its_queue_pair_lets_others_go_on():
    rig = Rig(connections=2)
    rig.client.qp.timeout = 1
    post_add(rig.clients[0], 5)
    post_add(rig.clients[1], 7)
    rig.clock.call_at(1_000_000, rig.clients[0].peer.destroy)
    rig.run(10**9)
    assert rig.memory(0)[:8] == (7).to_bytes(8, "little")


@pytest.mark.parametrize("off_ps", [0, 1])
def test_a_read_response_is_cut(off_ps):
    """A READ whose response has not left altogether never succeeds."""
    rig = Rig(nic=SMALL_MTU)
    rig.client.qp.timeout = 1
    rig.server.store(line(3, 64))
    start_ps, hops = rig.clock.now_ps, Hops(rig.platform)
    rig.client.post_read(at=start_ps, length=4096)
    headers = rig.platform.nic.headers
    sizes = [1024 + headers.read_response_bytes, *[1024 + headers.middle_bytes] * 2, 1024 + headers.read_response_bytes]
    ready_ps = start_ps + hops.read_request() + hops.read_fetch(4096, hops.cached_read())
    rig.clock.call_at(ready_ps + hops.link(sum(sizes)) - off_ps, rig.server.node.nic.power_off)
    rig.run()
    expected = Status.IBV_WC_RETRY_EXC_ERR if off_ps else Status.IBV_WC_SUCCESS
    assert [done.status for done in rig.completions] == [expected]


def test_no_completion_appears_without_power():
    rig = Rig()
    rig.client.post_write(at=0, data=line(1))
    hops = Hops(rig.platform)
    shown_ps = hops.accepted(64, inline=True) + hops.ack() + hops.cqe() - rig.platform.nic.poll_ps
    rig.clock.call_at(shown_ps - 1, rig.client.node.nic.power_off)
    rig.run()
    assert rig.completions == []
    assert rig.memory(0) == line(1)


def test_what_is_posted_to_a_queue_pair_that_is_gone_goes_nowhere():
    rig = Rig(connections=2)
    rig.clients[0].qp.destroy()
    rig.clients[0].post_write(at=0, data=line(1))
    assert rig.clients[1].write(line(2), line=1).status is Status.IBV_WC_SUCCESS
    rig.run()
    assert (rig.memory(0), rig.memory(1)) == (bytes(64), line(2))
    assert len(rig.completions) == 1


def test_a_timeout_of_zero_waits_for_ever():
    rig = Rig()
    rig.client.qp.timeout = 0
    rig.client.peer.destroy()
    rig.client.post_write(at=0, data=line(1))
    rig.run()
    assert rig.completions == []
    rig.client.qp.timeout, rig.client.qp.retry_cnt = 14, 7
    assert rig.client.qp.gives_up_after_ps == 8 * 16384 * 4_096_000  # libibverbs' example: half a second, and more


def test_whenever_a_connection_fails_completions_keep_the_order_of_the_posts():
    """Also at the instants at which an answer has come and is not processed yet."""
    seen = set()
    for at_ns in range(0, 3000, 20):
        rig = Rig()
        posted = [rig.client.post_write(at=at, data=line(1)) for at in (0, 30_000, 60_000)]
        rig.clock.call_at(at_ns * 1000, rig.client.qp.fail)
        rig.run()
        assert [done.wr_id for done in rig.completions] == [work.wr_id for work in posted]
        statuses = [done.status for done in rig.completions]
        assert statuses == sorted(statuses, key=[Status.IBV_WC_SUCCESS, Status.IBV_WC_WR_FLUSH_ERR].index)
        seen.add(statuses.count(Status.IBV_WC_SUCCESS))
    assert seen == {0, 1, 2, 3}


def test_packets_on_their_way_arrive_up_to_one_of_a_queue_pair():
    """Of four packets three have left: all of them arrive, unless a fault says which was the last that did."""
    left_ps, _ = packets(Rig(nic=SMALL_MTU))
    at_ps = left_ps[2]
    for kept in range(4):
        rig = Rig(nic=SMALL_MTU)
        rig.client.post_write(at=0, data=line(1, 64))
        seen = {}

        def fail(rig=rig, seen=seen, kept=kept):
            nic = rig.client.node.nic
            seen.update(nic.on_their_way(()))
            nic.power_off(None if kept == 3 else {rig.client.qp.number: left_ps[kept] - 1})

        rig.clock.call_at(at_ps, fail)
        rig.run()
        rig.run(rig.clock.now_ps + 10**9)
        assert seen == {("server[0]", rig.client.qp.number): left_ps[:3]}
        assert rig.memory(0, 64) == line(1, 64)[: kept * 1024] + bytes(4096 - kept * 1024)


def test_what_is_posted_to_a_broken_queue_pair_is_never_on_its_way():
    """Power may fail before its doorbell is there."""
    rig, seen = Rig(), []
    nic = rig.client.node.nic
    rig.client.qp.fail()
    rig.client.post_write(data=line(1))
    for at_ps in range(0, 400_000, 10_000):
        rig.clock.call_at(at_ps, lambda: seen.append((nic.doorbells, nic.on_their_way(()))))
    rig.run()
    assert [found for _, found in seen] == [{}] * 40 and seen[0][0] == 0 and seen[-1][0] == 1


def test_a_machine_that_comes_back_is_cold_and_its_memory_is_as_it_is_given():
    rig = Rig()
    rig.client.qp.timeout, rig.client.qp.retry_cnt = 5, 2
    rig.client.write(data=line(1))
    rig.server.node.memory["dram"].space.poke(64, b"volatile")
    old, number = rig.server.node.memory["pm"], rig.server_pd.create_qp(rig.server.sent, rig.server.received).number
    rig.server.node.power_off()
    asked = []

    def given(device, at):
        asked.append((device, at))
        return line(7)

    rig.server.node.power_on(given)
    new = rig.server.node.memory["pm"]
    assert new.number != old.number and rig.system.devices()[old.number] == (rig.server.node, old)
    address = new.allocate(64, "copy")
    assert new.space.peek(address - new.base, 64) == line(7)
    assert asked == [(old.number, (address - new.base) // 64)]
    assert rig.server.node.memory["dram"].space.peek(64, 8) == bytes(8)
    late = rig.client.post_write(at=rig.clock.now_ps, data=line(2))
    rig.run()
    rig.run(rig.clock.now_ps + 10**10)
    assert {done.wr_id: done.status for done in rig.completions}[late.wr_id] is Status.IBV_WC_RETRY_EXC_ERR
    again = rig.server.node.alloc_pd().create_qp(rig.server.node.create_cq(), rig.server.node.create_cq())
    assert again.number > number
