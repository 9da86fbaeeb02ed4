"""Each verb on an idle system takes the sum of its hops; limits, fences and NAKs hold back what they have to."""

from __future__ import annotations

import errno
import itertools

import pytest

from rpsim.models.verbs import Opcode, QpType, Status

from ...rig import Rig, line
from ...verbs import (
    GLOBAL,
    flushable,
    post,
    post_add,
    post_atomic_write,
    post_cas,
    post_flush,
    receive_buffer,
    reconnect,
    returned,
    word,
    work,
)
from ..hops import Hops


@pytest.fixture
def hops(rig):
    return Hops(rig.platform)


def request(hops, n_bytes, inline_bytes=0):
    """From the post until the responder has processed a request of one packet."""
    return hops.post(inline_bytes) + hops.nic.tx_processing_ps + hops.received([n_bytes])[0]


# one verb, its hops -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opcode", "first"),
    [(Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, "write_bytes"), (Opcode.IBV_WR_SEND_WITH_IMM, "send_bytes")],
)
def test_an_immediate_lengthens_the_packet_by_four_bytes(rig, hops, opcode, first):
    rig.server.post_recv(rig.client)
    sent = post(rig.client, opcode, line(1), imm_data=7)
    received = rig.server.receive()
    accepted = hops.accepted(64, inline=True, first_bytes=getattr(hops.headers, first) + 4)
    assert received.ps == accepted + hops.nic.recv_processing_ps + hops.cqe()
    assert rig.client.wait(sent).ps == accepted + hops.ack() + hops.cqe()


@pytest.mark.parametrize("swaps", [True, False])
def test_an_atomic_reads_over_pcie_and_answers_with_the_old_value(rig, hops, swaps):
    done = rig.client.wait(post_cas(rig.client, 0 if swaps else 1, 5))
    latency = rig.platform.pcie.dma_read_ps + rig.platform.media["optane"].dma_read_extra_ps
    executed = request(hops, hops.headers.middle_bytes + 28) + hops.dma_fetch(8, latency) + hops.nic.atomic_occupancy_ps
    assert done.ps == executed + hops.received([hops.headers.read_response_bytes + 8])[0] + hops.cqe(behind_bytes=8)
    if swaps:
        write = hops.pcie(8 + hops.pcie_link.tlp_header_write_bytes) + hops.pcie_link.posted_write_ps
        assert rig.story()[0] == ("nic", executed)
        assert dict(rig.story())["llc"] == executed + write
    else:
        assert not rig.chunks(0)


def test_an_atomic_write_is_answered_as_soon_as_it_is_posted(rig, hops):
    done = rig.client.wait(post_atomic_write(rig.client, word(9)))
    posted = request(hops, hops.headers.write_bytes + 8, inline_bytes=8)
    answer = hops.nic.ack_generation_ps + hops.received([hops.headers.read_response_bytes])[0]
    assert done.ps == posted + answer + hops.cqe()
    assert rig.story()[0] == ("nic", posted)


def test_a_flush_asks_the_root_complex_and_writes_back(rig, hops):
    region = flushable(rig)
    flush_bytes = hops.headers.read_request_bytes + 4
    answer = hops.received([hops.headers.read_response_bytes])[0] + hops.cqe()
    asked = request(hops, flush_bytes) + hops.dma_fetch(0, hops.cached_read())
    visible = rig.client.wait(post_flush(rig.client, region, GLOBAL))
    assert visible.ps == asked + answer
    rig.client.write(line(1), rkey=region.key)
    rig.run()
    start = rig.clock.now_ps
    persistent = rig.client.wait(post_flush(rig.client, region, at=start))
    assert persistent.ps - start == asked + rig.platform.media["optane"].clwb_to_wpq_ps + answer
    assert dict(rig.story())["wpq"] < persistent.ps
    start = rig.clock.now_ps
    again = rig.client.wait(post_flush(rig.client, region, at=start))  # nothing is left to write back
    assert again.ps - start == asked + answer


def test_a_flush_of_nothing_does_nothing(rig, hops):
    done = rig.client.wait(post_flush(rig.client, flushable(rig), length=0))
    asked = request(hops, hops.headers.read_request_bytes + 4) + hops.nic.ack_generation_ps
    assert done.status is Status.IBV_WC_SUCCESS
    assert done.ps == asked + hops.received([hops.headers.read_response_bytes])[0] + hops.cqe()


def test_an_unreliable_write_completes_when_it_has_left(rig, hops):
    reconnect(rig.client, QpType.IBV_QPT_UC)
    done = rig.client.write(line(1))
    left = hops.post(64) + hops.nic.tx_processing_ps + hops.link(hops.headers.write_bytes + 64)
    assert done.ps == left + hops.cqe()
    rig.run(10_000_000)
    assert rig.memory(0) == line(1)


def test_a_datagram_carries_its_own_header_and_lies_behind_forty_bytes(rig, hops):
    reconnect(rig.client, QpType.IBV_QPT_UD)
    buffer = receive_buffer(rig)
    rig.client.peer.post_recv(buffer)
    post(rig.client, Opcode.IBV_WR_SEND_WITH_IMM, line(3), destination=rig.client.peer, imm_data=11)
    completion = rig.server.run(rig.server.threads[0].poll(rig.server.received))
    accepted = hops.accepted(64, inline=True, first_bytes=hops.headers.send_bytes + 8 + 4)
    accepted += hops.nic.post_line_ps  # the address vector in its work request
    data = hops.pcie(64 + hops.pcie_link.tlp_header_write_bytes)
    assert rig.clock.now_ps == max(accepted + hops.nic.recv_processing_ps, accepted + data) + hops.cqe()
    assert (completion.byte_len, completion.imm_data, completion.src_qp) == (104, 11, rig.client.qp.number)
    dram = rig.server.node.memory["dram"]
    assert dram.space.read(rig.clock.now_ps, buffer.local_address + 40 - dram.base, 64) == line(3)


# limits, fences ---------------------------------------------------------------------------------------------------


def test_requests_that_are_answered_share_one_limit():
    rig = Rig()
    reconnect(rig.client, max_rd_atomic=1)
    region = flushable(rig)
    made = [
        rig.client.post_read(),
        post_add(rig.client, 1, line=1),
        post_flush(rig.client, region),
        post_atomic_write(rig.client, word(1), line=2),
    ]
    most = 0
    while made[-1].wr_id not in rig.client.done:
        rig.clock.step()
        most = max(most, rig.client.qp.end.reads_under_way)
    assert most == 1
    times = [rig.client.done[entry.wr_id].ps for entry in made]
    assert times == sorted(times)
    assert times[1] - times[0] > 1_000_000  # a round trip each


def test_the_limit_is_at_most_the_adapters(rig):
    pd = rig.client.node.alloc_pd()
    assert pd.create_qp(rig.client.cq, rig.client.cq, max_rd_atomic=99).max_rd_atomic == 16
    assert pd.create_qp(rig.client.cq, rig.client.cq).max_rd_atomic == 16


@pytest.mark.parametrize(
    ("first", "waits"), [("READ", True), ("ATOMIC", True), ("ATOMIC WRITE", True), ("FLUSH", False)]
)
def test_a_fence_waits_for_everything_that_is_answered_but_flush(first, waits):
    accepted = {}
    for fence in (False, True):
        rig = (
            Rig(pcie={"dma_read_ps": 20_000_000})
            if first != "ATOMIC WRITE"
            else Rig(nic={"ack_generation_ps": 10**7, "ack_processing_ps": 10**7})
        )
        region = flushable(rig)
        earlier = {
            "READ": lambda rig=rig: rig.client.post_read(line=5),
            "ATOMIC": lambda rig=rig: post_add(rig.client, 1, line=5),
            "ATOMIC WRITE": lambda rig=rig: post_atomic_write(rig.client, word(1), line=5),
            "FLUSH": lambda rig=rig, region=region: post_flush(rig.client, region, line=5),
        }[first]()
        post(rig.client, Opcode.IBV_WR_RDMA_WRITE, line(1), fence=fence)
        done = rig.client.wait(earlier)
        rig.run()
        accepted[fence] = rig.story()[0][1] > done.ps - Hops(rig.platform).cqe(8)
    assert accepted == {False: first == "ATOMIC" and accepted[False], True: waits}


def test_a_send_queue_that_is_full_takes_no_more():
    rig = Rig()
    reconnect(rig.client, max_send_wr=2)

    def code():
        for _ in range(3):
            yield from rig.client.thread.post_send(rig.client.qp, work(rig.client, Opcode.IBV_WR_RDMA_WRITE, line(1)))

    with pytest.raises(OSError, match="2 work requests") as caught:
        rig.server.run(code())
    assert caught.value.errno == errno.ENOMEM
    rig.run()
    assert rig.client.write(line(2)).status is Status.IBV_WC_SUCCESS  # their completions have been polled


def test_unsignalled_requests_give_their_places_back_with_a_later_completion():
    rig = Rig()
    reconnect(rig.client, max_send_wr=3)
    for turn in range(4):
        for _ in range(2):
            rig.client.post_write(data=line(1), signalled=False)
        rig.run()
        assert rig.client.qp.posted == 2
        rig.client.write(line(turn))
        assert rig.client.qp.posted == 0
    for _ in range(3):
        rig.client.post_write(data=line(1), signalled=False)
    rig.run()
    with pytest.raises(OSError, match="full"):  # nothing will ever tell that they are done
        rig.server.run(rig.client.thread.post_send(rig.client.qp, work(rig.client, Opcode.IBV_WR_RDMA_WRITE, line(1))))


# execution at the responder ----------------------------------------------------------------------------------------


def test_a_write_behind_a_read_is_accepted_before_the_read_looks_at_memory():
    rig = Rig(pcie={"dma_read_ps": 20_000_000})
    read = rig.client.post_read(length=8)
    rig.client.post_write(data=line(7), line=1)
    done = rig.client.wait(read)
    assert rig.story(line=1)[0][1] < done.ps - 10_000_000
    racing = Rig(pcie={"dma_read_ps": 20_000_000})
    read = racing.client.post_read(length=8)
    racing.client.post_write(data=line(7))
    assert racing.client.wait(read).data == line(7)[:8]  # it may even return what was posted behind it


def test_a_write_behind_an_atomic_waits_for_it_and_one_behind_a_flush_does_not():
    rig = Rig(pcie={"dma_read_ps": 20_000_000})
    region = flushable(rig)
    post_flush(rig.client, region)
    rig.client.post_write(data=line(1), line=1)
    post_add(rig.client, 1, line=2)
    rig.client.post_write(data=line(3), line=3)
    rig.run()
    assert rig.story(line=1)[0][1] < 10_000_000
    assert rig.story(line=3)[0][1] >= rig.story(line=2)[0][1] > 20_000_000


def test_reads_look_at_memory_one_after_the_other():
    """The second is in the cache and would be first: its answer is not older than the first one's."""
    rig = Rig()
    rig.server.load(line=64)
    cold = rig.client.post_read(at=rig.clock.now_ps, length=4096)
    warm = rig.client.post_read(at=rig.clock.now_ps, length=8, line=64)
    assert rig.client.wait(warm).ps >= rig.client.wait(cold).ps


def test_the_atomic_unit_executes_one_after_the_other():
    rig = Rig(connections=4)
    made = [post_add(client, 1) for client in rig.clients for _ in range(4)]
    rig.run()
    clients = {entry.wr_id: client for client in rig.clients for entry in client.posted.values()}
    assert sorted(returned(clients[entry.wr_id], entry) for entry in made) == list(range(16))
    assert rig.memory(0)[:8] == word(16)
    instants = [chunk.reached_ps[0] for chunk in rig.chunks(0)]
    trip = Hops(rig.platform).cached_read()
    assert min(after - before for before, after in itertools.pairwise(instants)) > trip


# receivers that are not ready --------------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", [Opcode.IBV_WR_SEND, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM])
def test_a_receiver_that_is_not_ready_is_asked_again_after_its_timer(rig, opcode):
    first = post(rig.client, opcode, line(1), line=1)
    behind = rig.client.post_write(data=line(2))
    read = rig.client.post_read(line=0)
    timer = rig.platform.nic.rnr_timer_ps
    rig.run(timer // 2)
    assert not rig.client.done
    assert rig.memory(0) == bytes(64)  # what is behind it waits as well
    rig.server.post_recv(rig.client)
    done = [rig.client.wait(entry) for entry in (first, behind, read)]
    assert [entry.status for entry in done] == [Status.IBV_WC_SUCCESS] * 3
    assert timer < done[0].ps < done[1].ps < done[2].ps < timer + 10_000_000
    assert done[2].data == line(2)[:8]
    assert rig.client.qp.end.reads_under_way == 0
    assert len(rig.chunks(0)) == 1


def test_a_long_write_with_an_immediate_is_repeated_from_its_last_packet_on():
    rig = Rig(nic={"mtu_bytes": 1024})
    made = post(rig.client, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, line(1, 64))
    rig.run(rig.platform.nic.rnr_timer_ps // 2)
    assert rig.memory(0, 48) == line(1, 64)[:3072]
    assert rig.memory(48) == bytes(64)
    rig.server.post_recv(rig.client)
    rig.client.wait(made)
    rig.run()
    assert rig.memory(0, 64) == line(1, 64)
    assert len(rig.chunks(0)) == 1


def test_retries_that_are_used_up_break_the_connection():
    rig = Rig()
    reconnect(rig.client, rnr_retry=2)
    first, behind = rig.client.post_send(), rig.client.post_write(data=line(1))
    rig.run()
    assert rig.client.done[first.wr_id].status is Status.IBV_WC_RNR_RETRY_EXC_ERR
    assert rig.client.done[behind.wr_id].status is Status.IBV_WC_WR_FLUSH_ERR
    timer = rig.platform.nic.rnr_timer_ps
    assert 2 * timer < rig.client.done[first.wr_id].ps < 3 * timer
    assert rig.memory(0) == bytes(64)


def test_seven_retries_are_for_ever(rig):
    made = rig.client.post_send()
    rig.run(20 * rig.platform.nic.rnr_timer_ps)
    rig.server.post_recv(rig.client)
    assert rig.client.wait(made).status is Status.IBV_WC_SUCCESS


def test_a_shared_receive_queue_serves_several_connections():
    rig = Rig(connections=2)
    srq = rig.server_pd.create_srq()
    for client in rig.clients:
        client.peer.srq = srq
    buffers = [receive_buffer(rig) for _ in range(3)]
    for buffer in buffers:
        rig.server.threads[0].post_recv(srq, buffer)
    for at, client in enumerate((rig.clients[1], rig.clients[0], rig.clients[1])):
        client.post_send(at=at * 1_000_000)
    got = [rig.server.run(rig.server.threads[0].poll(rig.server.received)) for _ in range(3)]
    assert [entry.wr_id for entry in got] == [buffer.wr_id for buffer in buffers]
    assert [entry.qp for entry in got] == [rig.clients[1].peer, rig.clients[0].peer, rig.clients[1].peer]
    with pytest.raises(ValueError, match="shared"):
        rig.clients[0].peer.post_recv(buffers[0])
