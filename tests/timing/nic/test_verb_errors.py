"""What is not allowed ends with the status that the specification gives it; unreliable transports drop it silently."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rpsim.models.fabric.disturbance import Disturbance
from rpsim.models.verbs import FLUSHES, REMOTE, Access, Opcode, QpType, RecvWR, SendFlags, SendWR, Status

from ...rig import LINE, Rig, line
from ...verbs import (
    GLOBAL,
    PERSISTENT,
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
)


def receive(rig):
    return rig.server.run(rig.server.threads[0].poll(rig.server.received))


def drop_packet(rig, number):
    """Lose the packet of that number (from 0) of those that are sent from now on."""
    nic, came = rig.server.node.nic, []
    take_in = nic.take_in

    def lossy(packet):
        came.append(packet)
        if len(came) != number + 1:
            take_in(packet)

    nic.take_in = lossy


# keys, ranges, permissions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opcode", "missing"),
    [
        (Opcode.IBV_WR_RDMA_WRITE, Access.IBV_ACCESS_REMOTE_WRITE),
        (Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, Access.IBV_ACCESS_REMOTE_WRITE),
        (Opcode.IBV_WR_ATOMIC_WRITE, Access.IBV_ACCESS_REMOTE_WRITE),
        (Opcode.IBV_WR_RDMA_READ, Access.IBV_ACCESS_REMOTE_READ),
        (Opcode.IBV_WR_ATOMIC_CMP_AND_SWP, Access.IBV_ACCESS_REMOTE_ATOMIC),
        (Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD, Access.IBV_ACCESS_REMOTE_ATOMIC),
    ],
)
@pytest.mark.parametrize("why", ["flag", "key", "range", "nothing"])
def test_what_a_region_allows(rig, opcode, missing, why):
    rig.server.post_recv(rig.client)
    flags = REMOTE & ~missing if why == "flag" else REMOTE
    region = rig.server_pd.reg_mr(rig.address(0), LINE, flags)
    key = region.key + 1 if why == "key" else region.key
    at = 1 if why == "range" else 0
    made = post(rig.client, opcode, word(1), rkey=key, line=at, inline=False, length=8)
    status = rig.client.wait(made).status
    assert status is (Status.IBV_WC_SUCCESS if why == "nothing" else Status.IBV_WC_REM_ACCESS_ERR)
    assert rig.client.peer.error is (why != "nothing")


@pytest.mark.parametrize("opcode", [Opcode.IBV_WR_RDMA_READ, Opcode.IBV_WR_RDMA_WRITE])
def test_the_key_of_a_request_for_no_bytes_is_not_looked_at(rig, opcode):
    """IBTA C9-88."""
    made = post(rig.client, opcode, b"", rkey=0, inline=False, length=0)
    assert rig.client.wait(made).status is Status.IBV_WC_SUCCESS


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(("allowed", "asked"), [(GLOBAL, PERSISTENT), (PERSISTENT, GLOBAL), (GLOBAL, 3), (3, 3)])
def test_a_flush_needs_the_flag_of_each_guarantee_that_it_asks_for(rig, level, allowed, asked):
    flags = REMOTE | Access(int(allowed) << 8)
    region = rig.server_pd.reg_mr(rig.address(0), LINE, flags)
    status = rig.client.wait(post_flush(rig.client, region, asked, level=level)).status
    ok = asked & allowed == asked
    assert status is (Status.IBV_WC_SUCCESS if ok else Status.IBV_WC_REM_ACCESS_ERR)


@pytest.mark.parametrize("how", [{"kind": 0}, {"kind": 4}, {"level": 2}, {"line": 64}, {"length": 65 * LINE}])
def test_a_flush_that_asks_for_what_there_is_not(rig, how):
    done = rig.client.wait(post_flush(rig.client, flushable(rig), **how))
    assert done.status is Status.IBV_WC_REM_ACCESS_ERR


def test_the_key_of_a_flush_of_nothing_is_looked_at_all_the_same(rig):
    done = rig.client.wait(post_flush(rig.client, rig.region, length=0))
    assert done.status is Status.IBV_WC_REM_ACCESS_ERR


def test_memory_that_keeps_nothing_is_not_registered_for_persistent_flushes(rig):
    dram = rig.server.node.memory["dram"].allocate(64, "buffer")
    with pytest.raises(ValueError, match="dram"):
        rig.server_pd.reg_mr(dram, 64, REMOTE | FLUSHES)
    rig.server_pd.reg_mr(dram, 64, REMOTE | Access.IBV_ACCESS_FLUSH_GLOBAL)


@pytest.mark.parametrize("posts", [post_add, post_atomic_write])
def test_what_is_eight_bytes_has_to_be_aligned(rig, posts):
    argument = 1 if posts is post_add else word(1)
    done = rig.client.wait(posts(rig.client, argument, offset=4))
    assert done.status is Status.IBV_WC_REM_INV_REQ_ERR
    assert rig.memory(0) == bytes(64)


def test_an_atomic_write_is_eight_bytes(rig):
    assert rig.client.wait(post_atomic_write(rig.client, bytes(16))).status is Status.IBV_WC_REM_INV_REQ_ERR


def test_a_key_that_has_been_taken_back_opens_nothing(rig):
    region = rig.server_pd.reg_mr(rig.address(0), LINE)
    assert rig.client.write(line(1), rkey=region.key).status is Status.IBV_WC_SUCCESS
    rig.server_pd.dereg_mr(region)
    assert rig.client.write(line(2), rkey=region.key).status is Status.IBV_WC_REM_ACCESS_ERR
    rig.run(rig.clock.now_ps + 10_000_000)
    assert rig.memory(0) == line(1)


@pytest.mark.parametrize("reads", [False, True])
def test_a_local_buffer_that_its_key_does_not_open(rig, reads):
    """It fails in its turn: what was posted before it is not disturbed, what is behind it is flushed."""
    pd = rig.client.node.alloc_pd()
    buffer = rig.client.buffer(bytes(LINE))
    region = pd.reg_mr(buffer, LINE, Access(0))
    before = rig.client.post_read(line=3)
    opcode = Opcode.IBV_WR_RDMA_READ if reads else Opcode.IBV_WR_RDMA_WRITE
    bad = post(rig.client, opcode, bytes(128), inline=False, local_address=buffer, lkey=region.key)
    behind = rig.client.post_write(data=line(1))
    rig.run()
    statuses = [rig.client.done[made.wr_id].status for made in (before, bad, behind)]
    assert statuses == [Status.IBV_WC_SUCCESS, Status.IBV_WC_LOC_PROT_ERR, Status.IBV_WC_WR_FLUSH_ERR]
    assert rig.memory(0) == bytes(64)


def test_a_read_needs_a_local_buffer_that_may_be_written(rig):
    buffer = rig.client.buffer(bytes(LINE))
    pd = rig.client.node.alloc_pd()
    readable, writable = pd.reg_mr(buffer, LINE, Access(0)), pd.reg_mr(buffer, LINE)
    for region, status in ((writable, Status.IBV_WC_SUCCESS), (readable, Status.IBV_WC_LOC_PROT_ERR)):
        made = post(rig.client, Opcode.IBV_WR_RDMA_READ, length=8, local_address=buffer, lkey=region.key)
        assert rig.client.wait(made).status is status


# the receive side ----------------------------------------------------------------------------------------------------


def test_a_message_that_does_not_fit_its_receive_request_breaks_both_ends(rig):
    rig.server.post_recv(rig.client, length=32, count=2)
    sent = rig.client.post_send(data=line(1))
    first, second = receive(rig), receive(rig)
    assert (first.status, second.status) == (Status.IBV_WC_LOC_LEN_ERR, Status.IBV_WC_WR_FLUSH_ERR)
    assert rig.client.wait(sent).status is Status.IBV_WC_REM_INV_REQ_ERR
    assert rig.client.peer.error
    assert rig.client.qp.error


VERBS = st.lists(st.sampled_from(["write", "read", "add", "set", "flush", "long read"]), min_size=1, max_size=8)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(VERBS, VERBS, st.sampled_from(["short buffer", "bad key"]), st.sampled_from([512, 2 << 20]), st.booleans())
@example(["write"] * 2 + ["long read"] * 4 + ["write"], ["write"], "short buffer", 512, True)  # loses the NAK
def test_a_refused_request_leaves_those_before_it_alone(before, behind, how, sram_bytes, lossy):
    """The responder answers in the order of requests: what came before the refused one is executed and answered."""
    weather = Disturbance(loss=0.1, repeat=0.1) if lossy else None
    rig = Rig(disturbance=weather, nic={"sram_bytes": sram_bytes, "mtu_bytes": 256})
    client, region = rig.client, flushable(rig, 64)
    client.qp.timeout, client.qp.retry_cnt = 3, 1000
    client.peer.post_recv(RecvWR(1, rig.server.node.memory["dram"].allocate(64, "short"), 64))
    posts = {
        "write": lambda: client.post_write(data=b"w" * 600, line=8),
        "read": lambda: client.post_read(length=64, line=8),
        "long read": lambda: client.post_read(length=2000, line=8),
        "add": lambda: post_add(client, 1),
        "set": lambda: post_atomic_write(client, b"s" * 8, line=1),
        "flush": lambda: post_flush(client, region, length=64 * LINE),
    }
    made = [posts[verb]() for verb in before]
    refused = client.post_send(data=bytes(1024)) if how == "short buffer" else client.post_read(length=64, rkey=99)
    flushed = [posts[verb]() for verb in behind]
    rig.run()
    assert [found.wr_id for found in rig.completions] == [work.wr_id for work in (*made, refused, *flushed)]
    status = Status.IBV_WC_REM_INV_REQ_ERR if how == "short buffer" else Status.IBV_WC_REM_ACCESS_ERR
    found = [completion.status for completion in rig.completions]
    if lossy and found[len(made)] is Status.IBV_WC_RETRY_EXC_ERR:  # the NAK was lost, and a broken responder is silent
        status = Status.IBV_WC_RETRY_EXC_ERR
    assert found == [Status.IBV_WC_SUCCESS] * len(made) + [status] + [Status.IBV_WC_WR_FLUSH_ERR] * len(flushed)
    added = int.from_bytes(rig.memory(0)[:8], "little")
    assert before.count("add") <= added <= before.count("add") + behind.count("add")  # atomics overtake READs


def test_a_receive_buffer_that_its_key_does_not_open(rig):
    buffer = receive_buffer(rig)
    region = rig.server_pd.reg_mr(buffer.local_address, 256, Access(0))
    rig.client.peer.post_recv(RecvWR(1, buffer.local_address, 256, lkey=region.key))
    sent = rig.client.post_send(data=line(1))
    assert receive(rig).status is Status.IBV_WC_LOC_PROT_ERR
    assert rig.client.wait(sent).status is Status.IBV_WC_REM_OP_ERR


def test_an_immediate_brings_its_number_and_no_bytes_to_the_receive_request(rig):
    buffer = receive_buffer(rig)
    rig.client.peer.post_recv(buffer)
    post(rig.client, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, line(1), imm_data=0xBEEF)
    found = receive(rig)
    assert (found.opcode, found.imm_data) == (Opcode.IBV_WC_RECV_RDMA_WITH_IMM, 0xBEEF)
    assert (found.wr_id, found.byte_len) == (buffer.wr_id, 64)
    rig.client.peer.post_recv(buffer)
    rig.client.post_send()
    assert receive(rig).imm_data is None


def test_the_error_state_flushes_receive_requests_too(rig):
    rig.server.post_recv(rig.client)
    rig.client.write(line(1), rkey=99)
    assert receive(rig).status is Status.IBV_WC_WR_FLUSH_ERR
    rig.server.post_recv(rig.client)
    assert receive(rig).status is Status.IBV_WC_WR_FLUSH_ERR


# what a transport has not -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("qp_type", [QpType.IBV_QPT_UC, QpType.IBV_QPT_UD])
def test_a_request_that_its_transport_has_not(rig, qp_type):
    reconnect(rig.client, qp_type)
    refused = [Opcode.IBV_WR_RDMA_READ, Opcode.IBV_WR_FLUSH, Opcode.IBV_WR_ATOMIC_CMP_AND_SWP]
    for opcode in refused + [Opcode.IBV_WR_RDMA_WRITE] * (qp_type is QpType.IBV_QPT_UD):
        with pytest.raises(ValueError, match=f"{opcode}.*{qp_type}"):
            rig.client.qp.check(SendWR(1, opcode, 0, 8))


def test_a_datagram_is_one_packet_and_has_a_destination(rig):
    reconnect(rig.client, QpType.IBV_QPT_UD)
    with pytest.raises(ValueError, match="4097 bytes"):
        rig.client.qp.check(SendWR(1, Opcode.IBV_WR_SEND, 0, 4097, destination=rig.client.peer))
    with pytest.raises(ValueError, match="destination"):
        rig.client.qp.check(SendWR(1, Opcode.IBV_WR_SEND, 0, 8))
    with pytest.raises(ValueError, match="does not connect"):
        rig.client.qp.connect(rig.client.peer)


def test_inline_data_where_there_is_none(rig):
    with pytest.raises(ValueError, match="inline"):
        rig.client.qp.check(SendWR(1, Opcode.IBV_WR_FLUSH, 0, 8, send_flags=SendFlags.IBV_SEND_INLINE))


def test_a_datagram_that_nobody_expects_is_dropped_and_so_is_one_that_does_not_fit(rig):
    reconnect(rig.client, QpType.IBV_QPT_UD)
    small, large = receive_buffer(rig, 40), receive_buffer(rig, 256)
    rig.client.wait(post(rig.client, Opcode.IBV_WR_SEND, line(1), destination=rig.client.peer))
    rig.run()
    rig.client.peer.post_recv(small)
    made = post(rig.client, Opcode.IBV_WR_SEND, line(2), at=rig.clock.now_ps, destination=rig.client.peer)
    assert rig.client.wait(made).status is Status.IBV_WC_SUCCESS
    rig.run()
    assert rig.server.received.pop() is None
    rig.client.peer.receive_queue.clear()
    rig.client.peer.post_recv(large)
    post(rig.client, Opcode.IBV_WR_SEND, line(3), at=rig.clock.now_ps, destination=rig.client.peer)
    assert receive(rig).wr_id == large.wr_id


@pytest.mark.parametrize("lost", range(4))
def test_a_lost_packet_loses_the_message_and_no_other(lost):
    rig = Rig(nic={"mtu_bytes": 1024})
    reconnect(rig.client, QpType.IBV_QPT_UC)
    for _ in range(2):
        rig.client.peer.post_recv(receive_buffer(rig, 4096))
    drop_packet(rig, lost)
    first = post(rig.client, Opcode.IBV_WR_SEND, line(1, 64))
    second = post(rig.client, Opcode.IBV_WR_SEND, line(2, 64))
    for made in (first, second):
        assert rig.client.wait(made).status is Status.IBV_WC_SUCCESS
    received = receive(rig)
    dram = rig.server.node.memory["dram"]
    rig.run(rig.clock.now_ps + 10_000_000)
    assert rig.server.received.pop() is None
    assert received.byte_len == 4096
    (waiting,) = rig.client.peer.receive_queue
    assert waiting.wr_id == received.wr_id + 1
    start = waiting.local_address - 4096 - dram.base
    assert dram.space.read(rig.clock.now_ps, start, 4096) == line(2, 64)


def test_an_unreliable_write_to_nowhere_is_dropped(rig):
    reconnect(rig.client, QpType.IBV_QPT_UC)
    assert rig.client.write(line(1), rkey=99).status is Status.IBV_WC_SUCCESS
    assert rig.client.write(line(2), line=1).status is Status.IBV_WC_SUCCESS
    rig.run(rig.clock.now_ps + 10_000_000)
    assert (rig.memory(0), rig.memory(1)) == (bytes(64), line(2))


# atomics ------------------------------------------------------------------------------------------------------------


def test_compare_and_swap_and_fetch_and_add_count_in_64_bits(rig):
    assert returned(rig.client, post_cas(rig.client, 0, 2**64 - 1)) == 0
    assert returned(rig.client, post_cas(rig.client, 0, 5, at=rig.clock.now_ps)) == 2**64 - 1
    assert returned(rig.client, post_add(rig.client, 3, at=rig.clock.now_ps)) == 2**64 - 1
    rig.run(rig.clock.now_ps + 10_000_000)
    assert rig.memory(0)[:8] == word(2)


def test_an_atomic_knows_nothing_of_the_cpu_and_overwrites_its_store():
    rig = Rig()
    made = post_add(rig.client, 1)
    while not rig.chunks(0):  # until the result is on its way
        rig.clock.step()
    rig.server.store(word(100))
    returned(rig.client, made)
    rig.run(rig.clock.now_ps + 10_000_000)
    assert rig.memory(0)[:8] == word(1)
    assert [chunk.data for chunk in rig.chunks(0)] == [word(1), word(100)]


def test_an_atomic_write_is_never_torn(rig):
    post_atomic_write(rig.client, word(2**64 - 1))
    rig.run()
    now = rig.clock.now_ps
    assert rig.adversarial.contents(0, now) == {bytes(64), b"\xff" * 8 + bytes(56)}
    assert Rig().adversarial.contents(0, now) == {bytes(64)}
