"""The adapter's units and queues in closed form: message rates, lists, locks of atomics, multi-packet receive."""

from __future__ import annotations

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import Opcode, RecvWR, SendFlags, SendWR
from rpsim.models.verbs.wqe import size_bytes

from ...rig import Rig, line
from ..hops import Hops

WRITE, SEND, READ = Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_SEND, Opcode.IBV_WR_RDMA_READ
FAA = Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD
INLINE = SendFlags.IBV_SEND_INLINE
FAST = {"post_wqe_ps": 1_000, "post_next_wqe_ps": 1_000, "post_line_ps": 0}


# processing units ------------------------------------------------------------------------------------------


def apart(rig, count, clients=1):
    """The mean distance of acceptances in the middle of a train."""
    for client in rig.clients[:clients]:
        for number in range(count):
            client.post_write(data=bytes([1 + number]) * 8, line=number)
    rig.run()
    times = sorted(chunk.reached_ps[0] for chunk in rig.trace.chunks)
    first, last = len(times) // 4, 3 * len(times) // 4
    return (times[last] - times[first]) / (last - first)


def test_one_queue_pair_sends_no_faster_than_its_unit():
    rig = Rig(nic={**FAST, "tx_occupancy_ps": 200_000, "processing_units": 4})
    assert apart(rig, 40) == pytest.approx(200_000, rel=0.01)


def test_queue_pairs_of_different_units_add_up():
    rig = Rig(connections=4, nic={**FAST, "tx_occupancy_ps": 200_000, "processing_units": 4})
    assert apart(rig, 40, clients=4) == pytest.approx(50_000, rel=0.05)


def test_queue_pairs_of_one_unit_share_it():
    rig = Rig(connections=4, nic={**FAST, "tx_occupancy_ps": 200_000, "processing_units": 1})
    assert apart(rig, 40, clients=4) == pytest.approx(200_000, rel=0.05)


def test_the_receiver_is_as_fast_as_its_units():
    fast = {**FAST, "tx_occupancy_ps": 1_000, "rx_occupancy_ps": 300_000}
    assert apart(Rig(nic={**fast, "processing_units": 2}), 40) == pytest.approx(300_000, rel=0.01)
    both = Rig(connections=2, nic={**fast, "processing_units": 2})
    assert apart(both, 40, clients=2) == pytest.approx(150_000, rel=0.05)


def test_occupancy_is_no_latency():
    slow = Rig(nic={"tx_occupancy_ps": 900_000, "rx_occupancy_ps": 900_000})
    assert slow.client.write(line(1)).ps == Rig().client.write(line(1)).ps


# posted lists ----------------------------------------------------------------------------------------------


def works(rig, count, length=8, inline=True, opcode=WRITE):
    return [
        rig.client.work(opcode, bytes([1 + number]) * length, line=number, inline=inline) for number in range(count)
    ]


def post_list(rig, listed):
    rig.clock.start(rig.client.thread.post_list(rig.client.qp, listed))
    rig.run()
    return [rig.client.done[work.wr_id] for work in listed]


def test_a_list_has_one_doorbell_and_is_fetched():
    rig = Rig()
    hops, nic = Hops(rig.platform), rig.platform.nic
    listed = works(rig, 4)
    done = post_list(rig, listed)
    posted = 4 * rig.platform.cpu.load_ps + nic.post_wqe_ps + 3 * nic.post_next_wqe_ps
    fetched = posted + nic.doorbell_ps + hops.dma_fetch(4 * 64, hops.cached_read())
    sent = fetched + nic.tx_processing_ps
    first = sent + hops.received([hops.headers.write_bytes + 8])[0] + hops.ack() + hops.cqe()
    assert done[0].ps == first
    assert [rig.memory(number)[:8] for number in range(4)] == [bytes([1 + number]) * 8 for number in range(4)]
    counters = rig.client.node.nic.counters()
    assert (counters["doorbells"], counters["posted"], counters["wqe_fetches"]) == (1, 4, 1)
    assert counters["posted WRITE"] == 4


def test_a_list_of_one_is_a_post():
    alone, listed = Rig(), Rig()
    assert post_list(listed, works(listed, 1))[0].ps == alone.client.write(bytes([1]) * 8).ps
    assert listed.client.node.nic.counters()["wqe_fetches"] == 0


def test_a_list_that_does_not_fit_posts_nothing():
    rig = Rig()
    qp = rig.client.node.alloc_pd().create_qp(rig.client.cq, rig.client.receive_cq, max_send_wr=3)
    with pytest.raises(OSError, match="send queue of 3"):
        rig.server.run(rig.client.thread.post_list(qp, works(rig, 4)))
    assert qp.posted == 0
    with pytest.raises(ValueError, match="a list of no work requests"):
        rig.server.run(rig.client.thread.post_list(qp, []))


def test_a_list_on_a_broken_queue_pair_is_flushed():
    rig = Rig()
    rig.client.qp.fail()
    assert {done.status for done in post_list(rig, works(rig, 3))} == {"work request flushed"}


@pytest.mark.parametrize(("length", "inline", "lines"), [(28, True, 1), (29, True, 2), (92, True, 2), (93, True, 3)])
def test_inline_data_beyond_28_bytes_makes_a_work_request_longer(rig, length, inline, lines):
    work = rig.client.work(WRITE, bytes(length), inline=inline)
    assert size_bytes(rig.platform.nic, rig.client.qp.qp_type, work) == lines * 64


# atomics ---------------------------------------------------------------------------------------------------


def atomics(units, words, occupancy_ps=20_000):
    """Two clients add to words of the server at once; when each has its answer."""
    rig = Rig(clients=2, nic={"atomic_units": units, "atomic_occupancy_ps": occupancy_ps})
    for client, word in zip(rig.clients, words, strict=True):
        work = SendWR(
            rig.next_number(),
            FAA,
            client.buffer(bytes(8)),
            8,
            rig.address(0, 8 * word),
            rig.region.key,
            compare_add=1,
        )
        client.posted[work.wr_id] = work
        client.post(work)
    rig.run()
    first, second = (next(iter(client.done.values())).ps for client in rig.clients)
    return second - first, rig


@pytest.mark.parametrize(("name", "wait"), [("clover-testbed", False), ("rnvm-testbed", True), ("optane-adr", False)])
def test_atomics_of_connectx_4_and_later_wait_only_on_the_same_address(name, wait):
    """ConnectX-3 has one lock; later adapters have one by the low bits of the operand's address."""
    units = load_platform(name).nic.atomic_units
    (_, near), (_, same), (_, far) = (atomics(units, words) for words in ([0, 1], [0, 0], [0, 512]))
    conflicts = [rig.server.node.nic.responder._atomic_unit.conflicts for rig in (near, same, far)]
    assert conflicts == [1 if wait else 0, 1, 1]


def test_atomics_on_one_word_wait_for_each_other():
    apart_ps, rig = atomics(4096, [0, 0])
    hops = Hops(rig.platform)
    latency = rig.platform.pcie.dma_read_ps
    # The second finds the word in the cache, or on its way there.
    assert apart_ps >= hops.dma_fetch(8, latency - rig.platform.llc.dma_read_hit_saving_ps)
    assert rig.memory(0)[:8] == (2).to_bytes(8, "little")


def test_atomics_on_two_words_wait_only_where_there_is_one_lock():
    locked, _ = atomics(1, [0, 1])
    free, rig = atomics(4096, [0, 1])
    assert free < 100_000
    assert locked > 450_000
    assert rig.memory(0)[:16] == (1).to_bytes(8, "little") * 2


def test_the_arithmetic_is_shared_by_all_locks():
    apart_ps, _ = atomics(4096, [0, 1], occupancy_ps=2_000_000)
    assert apart_ps == pytest.approx(2_000_000, rel=0.05)


# multi-packet receive --------------------------------------------------------------------------------------


def received(rig, sizes, buffers):
    """SENDs of these sizes into these striding buffers: (buffer, offset, data) of each."""
    at = {}
    for number, (length, stride) in enumerate(buffers):
        at[number] = rig.server.node.memory["dram"].allocate(length, "strides", align=4096)
        rig.client.peer.post_recv(RecvWR(number, at[number], length, stride_bytes=stride))
    for number, size in enumerate(sizes):
        rig.client.post_send(data=bytes([number + 1]) * size)
    rig.run(rig.clock.now_ps + 50_000_000)
    found = []
    while (completion := rig.server.received.pop()) is not None:
        offset = completion.byte_offset
        address = at[completion.wr_id] + offset
        space = rig.server.node.memory["dram"]
        data = space.space.read(rig.clock.now_ps, address - space.base, completion.byte_len)
        found.append((completion.wr_id, offset, data))
    return found


def test_messages_share_a_buffer_stride_by_stride():
    sizes = [64, 100, 8, 200, 64]
    found = received(Rig(), sizes, [(256, 64), (512, 64)])
    # 1 + 2 + 1 strides fill the first buffer; the fourth message takes 4 of the second, the last one more.
    assert [(buffer, offset) for buffer, offset, _ in found] == [(0, 0), (0, 64), (0, 192), (1, 0), (1, 256)]
    assert [data for _, _, data in found] == [bytes([number + 1]) * size for number, size in enumerate(sizes)]


def test_a_buffer_without_room_for_a_message_is_given_up():
    found = received(Rig(), [150, 150, 64], [(256, 64), (256, 64)])
    assert [(buffer, offset) for buffer, offset, _ in found] == [(0, 0), (1, 0), (1, 192)]


def test_a_shared_receive_queue_strides_too():
    rig = Rig(clients=2)
    srq = rig.server_pd.create_srq()
    address = rig.server.node.memory["dram"].allocate(256, "strides", align=4096)
    srq.post_recv(RecvWR(7, address, 256, stride_bytes=64))
    for client in rig.clients:
        client.peer.srq = srq
        client.post_send(data=b"\5" * 64)
    rig.run(rig.clock.now_ps + 50_000_000)
    offsets = {rig.server.received.pop().byte_offset for _ in range(2)}
    assert offsets == {0, 64}


# payloads fetched piece by piece ---------------------------------------------------------------------------


def fetch_of_first(rig, length, part):
    hops, link = Hops(rig.platform), rig.platform.pcie
    whole = hops.dma_fetch(length, hops.cached_read())
    return (
        whole
        - hops.pcie(length + length // link.mps_bytes * link.tlp_header_completion_bytes)
        + hops.pcie(part + part // link.mps_bytes * link.tlp_header_completion_bytes)
    )


def test_a_packet_leaves_when_its_part_of_the_payload_is_in():
    """PCIe is faster than the link: after the first part the link is busy to the end."""
    rig = Rig()
    hops, length = Hops(rig.platform), 1 << 16
    rig.client.post_write(data=bytes(length))
    rig.run()
    start = hops.post() + fetch_of_first(rig, length, 4096) + rig.platform.nic.tx_processing_ps
    last = max(chunk.reached_ps[0] for chunk in rig.trace.chunks)
    assert last == start + hops.received(hops.packets(length, hops.headers.write_bytes))[-1]


def test_a_slow_slot_holds_the_packets_back():
    rig = Rig(pcie={"tlp_bits_per_s": 20 * 10**9})
    hops, length = Hops(rig.platform), 1 << 16
    rig.client.post_write(data=bytes(length))
    rig.run()
    last_part = hops.post() + hops.dma_fetch(length, hops.cached_read()) + rig.platform.nic.tx_processing_ps
    last = max(chunk.reached_ps[0] for chunk in rig.trace.chunks)
    assert last == last_part + hops.received([hops.headers.middle_bytes + 4096])[-1]


@pytest.mark.parametrize("mtu", [256, 1024, 4096])
def test_the_mtu_hardly_matters_to_a_long_message(mtu):
    """Packets of the smallest MTU at line rate: only their headers count (as perftest shows on ConnectX-4)."""
    rig, base = Rig(nic={"mtu_bytes": mtu}), Rig()
    assert rig.client.write(bytes(1 << 15)).ps == pytest.approx(base.client.write(bytes(1 << 15)).ps, rel=0.12)
