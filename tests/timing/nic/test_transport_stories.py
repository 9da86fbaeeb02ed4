"""Stories of lost, late and repeated packets, with the instants that the specification's rules give them."""

from __future__ import annotations

import pytest

from rpsim.models.fabric.disturbance import Disturbance, PacketFault
from rpsim.models.nic.lossy import transport
from rpsim.models.verbs import ACK_TIMEOUT_PS, FlushType, QpType, RecvWR, Status
from rpsim.sim.trace import NEVER, Stage

from ...rig import Rig, line
from ...verbs import flushable, post_add, post_atomic_write, post_flush, reconnect, returned, word
from ..hops import Hops

REQUEST, ANSWER = ("client[0]", "server[0]"), ("server[0]", "client[0]")
SMALL_MTU = {"mtu_bytes": 1024}
TIMEOUT = 5
WAIT_PS = ACK_TIMEOUT_PS << TIMEOUT


def lost(path: tuple[str, str], *numbers: int) -> list[PacketFault]:
    """These packets of a path are lost, counted from 1."""
    return [PacketFault(*path, number, lost=True) for number in numbers]


def late(path: tuple[str, str], number: int, delay_ps: int) -> list[PacketFault]:
    return [PacketFault(*path, number, delay_ps=delay_ps)]


def rig_with(*faults: PacketFault, first_psn: int = 0, **changes) -> Rig:
    rig = Rig(disturbance=Disturbance(packets=faults), **changes)
    rig.client.qp.timeout = TIMEOUT
    return rig


def counts(rig: Rig, requester: bool = True, **expected: int) -> None:
    """What the counters of one end of the connection say; those that are not named are zero."""
    end = rig.client if requester else rig.client.peer
    qp = end.qp if requester else end
    counters = qp.end.nic.reliability.counted(qp.end)
    names = [name for name in counters.__slots__ if name != "packets"]
    found = {name: getattr(counters, name) for name in names if getattr(counters, name)}
    assert found == expected


def settle(rig: Rig) -> None:
    """Until everything is placed."""
    rig.run()
    rig.run(rig.clock.now_ps + 10_000_000)


def first_left(rig: Rig, length: int = 64) -> int:
    """When the last bit of a first inline WRITE has left the client's port."""
    hops = Hops(rig.platform)
    sizes = hops.packets(length, rig.platform.nic.headers.write_bytes)
    return hops.post(length) + rig.platform.nic.tx_processing_ps + hops.link(sum(sizes))


def again(rig: Rig, length: int = 64) -> int:
    """From the instant at which the requester goes back until the program has polled the completion."""
    hops = Hops(rig.platform)
    packets = hops.packets(length, rig.platform.nic.headers.write_bytes)
    return rig.platform.nic.tx_processing_ps + hops.received(packets)[-1] + hops.ack() + hops.cqe()


# go-back-N --------------------------------------------------------------------------------------------------------


def test_the_packet_behind_a_lost_one_is_answered_by_a_nak_and_both_are_sent_again():
    rig = rig_with(*lost(REQUEST, 2))
    hops = Hops(rig.platform)
    spacing_ps = 1_000_000
    works = [rig.client.post_write(at=turn * spacing_ps, data=line(turn + 1), line=turn) for turn in range(3)]
    rig.run()
    done = [rig.client.done[made.wr_id].ps for made in works]
    accepted_ps = hops.accepted(64, inline=True)
    assert done[0] == accepted_ps + hops.ack() + hops.cqe()
    told_ps = 2 * spacing_ps + accepted_ps + hops.ack()  # the third finds the second missing
    assert done[1] == told_ps + again(rig)
    assert done[2] > done[1]
    assert rig.memory(0, 3) == line(1) + line(2) + line(3)
    assert [len(rig.chunks(number)) for number in range(3)] == [1, 1, 1]
    counts(rig, retransmitted=2, packet_seq_err=1)
    counts(rig, requester=False, out_of_sequence=1)


def test_only_the_first_packet_behind_a_gap_is_answered():
    rig = rig_with(*lost(REQUEST, 1))
    for turn in range(6):
        rig.client.post_write(at=0, data=line(turn + 1), line=turn)
    rig.run()
    assert [rig.memory(turn) for turn in range(6)] == [line(turn + 1) for turn in range(6)]
    assert rig.client.qp.end.nic.reliability.counted(rig.client.qp.end).packet_seq_err == 1
    assert rig.client.peer.end.nic.reliability.counted(rig.client.peer.end).out_of_sequence > 1


def test_a_message_goes_on_from_the_packet_that_was_lost():
    """Four packets, of which the second is lost: the first is not sent again, and nothing is placed twice."""
    rig = rig_with(*lost(REQUEST, 2), nic=SMALL_MTU)
    rig.client.post_write(at=0, data=line(1, 64))
    rig.run()
    assert rig.memory(0, 64) == line(1, 64)
    assert sum(len(chunk.data) for number in range(0, 64, 4) for chunk in set(rig.chunks(number))) == 4096
    counts(rig, retransmitted=3, packet_seq_err=1)
    counts(rig, requester=False, out_of_sequence=2)


def test_the_last_packet_is_missed_by_the_timer_alone():
    rig = rig_with(*lost(REQUEST, 1))
    made = rig.client.post_write(at=0, data=line(1))
    assert rig.client.wait(made).ps == first_left(rig) + WAIT_PS + again(rig)
    counts(rig, retransmitted=1, local_ack_timeout_err=1)


def test_a_lost_acknowledgement_makes_a_duplicate_that_is_acknowledged_and_not_executed():
    rig = rig_with(*lost(ANSWER, 1))
    made = rig.client.post_write(at=0, data=line(1))
    rig.clock.run_until(first_left(rig) + WAIT_PS - 1)
    arrived_ps = rig.story(0)
    done = rig.client.wait(made)
    assert done.ps == first_left(rig) + WAIT_PS + again(rig)
    assert rig.story(0) == arrived_ps and len(rig.chunks(0)) == 1
    counts(rig, retransmitted=1, local_ack_timeout_err=1)
    counts(rig, requester=False, duplicate_request=1)


def test_an_acknowledgement_acknowledges_all_before_it():
    """The first two are lost, the third comes: all three complete at once, in their order."""
    rig = rig_with(*lost(ANSWER, 1, 2))
    works = [rig.client.post_write(at=turn * 1_000_000, data=line(turn + 1), line=turn) for turn in range(3)]
    rig.run()
    done = [found.wr_id for found in rig.completions]
    assert done == [made.wr_id for made in works]
    third_ps = 2_000_000 + Hops(rig.platform).write(64, inline=True)
    assert rig.client.done[works[0].wr_id].ps == third_ps
    counts(rig)


def test_a_packet_that_comes_late_after_its_repetition_is_a_duplicate():
    rig = rig_with(*late(REQUEST, 1, 20_000_000))
    rig.client.post_write(at=0, data=line(1))
    rig.client.post_write(at=0, data=line(2), line=1)
    rig.client.post_write(at=10_000_000, data=line(3))
    rig.run()
    assert rig.memory(0, 2) == line(3) + line(2)
    assert [len(rig.chunks(number)) for number in (0, 1)] == [2, 1]
    counts(rig, retransmitted=2, packet_seq_err=1)
    counts(rig, requester=False, out_of_sequence=1, duplicate_request=1)


def test_a_packet_that_comes_late_and_is_not_missed_yet_is_placed_late():
    rig = rig_with(*late(REQUEST, 1, 7_000_000))
    made = rig.client.post_write(at=0, data=line(1))
    assert rig.client.wait(made).ps == Hops(rig.platform).write(64, inline=True) + 7_000_000
    assert rig.story(0)[0][1] == Hops(rig.platform).accepted(64, inline=True) + 7_000_000


@pytest.mark.parametrize("path", [REQUEST, ANSWER])
@pytest.mark.parametrize("verb", ["write", "read", "add", "send"])
def test_a_packet_that_comes_twice_counts_once(path, verb):
    rig = rig_with(PacketFault(*path, 1, repeated_after_ps=3_000_000))
    rig.server.post_recv(rig.client)
    if verb == "add":
        assert returned(rig.client, post_add(rig.client, 5)) == 0
        assert returned(rig.client, post_add(rig.client, 5)) == 5
    else:
        done = getattr(rig.client, verb)(line(1) if verb == "write" else 8 if verb == "read" else word(1))
        assert done.status is Status.IBV_WC_SUCCESS
        assert rig.client.write(line(1)).status is Status.IBV_WC_SUCCESS
    rig.run()
    counts(rig)


def test_packet_numbers_wrap_around(monkeypatch):
    monkeypatch.setattr(transport, "FIRST_PSN", 2**24 - 3)
    rig = rig_with(*lost(REQUEST, 2, 5, 9), *lost(ANSWER, 3), nic=SMALL_MTU)
    for turn in range(3):
        rig.client.post_write(at=0, data=line(turn + 1, 64), line=64 * turn)
    rig.run()
    assert [rig.memory(64 * turn, 64) for turn in range(3)] == [line(turn + 1, 64) for turn in range(3)]
    assert all(done.status is Status.IBV_WC_SUCCESS for done in rig.completions) and len(rig.completions) == 3


# retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retry_cnt", [0, 1, 7])
def test_a_network_that_loses_everything_breaks_the_connection_after_the_stated_time(retry_cnt):
    rig = Rig(disturbance=Disturbance(loss=1.0))
    rig.client.qp.timeout, rig.client.qp.retry_cnt = TIMEOUT, retry_cnt
    first = rig.client.post_write(at=0, data=line(1))
    second = rig.client.post_write(at=50_000_000, data=line(2), line=1)
    rig.run()
    hops = Hops(rig.platform)
    resend_ps = first_left(rig) - hops.post(64)
    done = rig.client.done[first.wr_id]
    assert done.status is Status.IBV_WC_RETRY_EXC_ERR
    assert done.ps == first_left(rig) + (retry_cnt + 1) * WAIT_PS + retry_cnt * resend_ps + hops.cqe()
    assert rig.client.done[second.wr_id].status is Status.IBV_WC_WR_FLUSH_ERR
    assert rig.client.qp.error and not rig.client.peer.error
    assert rig.memory(0, 2) == bytes(128)


def test_whatever_is_new_gives_all_retries_back():
    """Each of twelve packets is lost twice, and only two retries in a row are allowed."""
    rig = rig_with(*lost(REQUEST, *(number for number in range(1, 40) if number % 3)))
    rig.client.qp.retry_cnt = 2
    for turn in range(12):
        rig.client.write(line(turn + 1), line=turn)
    assert {done.status for done in rig.completions} == {Status.IBV_WC_SUCCESS}
    rig.client.qp.retry_cnt = 1
    assert rig.client.write(line(1)).status is Status.IBV_WC_RETRY_EXC_ERR


def test_a_timeout_of_zero_waits_for_ever():
    rig = rig_with(*lost(REQUEST, 1))
    rig.client.qp.timeout = 0
    rig.client.post_write(at=0, data=line(1))
    rig.run()
    assert rig.completions == []


@pytest.mark.parametrize("faults", [lost(ANSWER, 1), lost(REQUEST, 2), late(ANSWER, 1, 700 * 10**6)])
def test_an_rnr_nak_that_is_lost_or_late_and_a_repetition_that_is_lost(faults):
    rig = rig_with(*faults)
    made = rig.client.post_send(at=0, data=word(7))
    rig.client.post_write(at=100_000, data=line(1))
    rig.clock.run_until(50_000_000)
    rig.server.post_recv(rig.client)
    assert rig.client.wait(made).status is Status.IBV_WC_SUCCESS
    rig.run()
    assert rig.memory(0) == line(1) and len(rig.chunks(0)) == 1
    assert [done.status for done in rig.completions] == [Status.IBV_WC_SUCCESS] * 2


def test_rnr_retries_run_out():
    rig = rig_with()
    reconnect(rig.client, rnr_retry=2)
    made = rig.client.post_send(at=0, data=word(7))
    assert rig.client.wait(made).status is Status.IBV_WC_RNR_RETRY_EXC_ERR
    counts(rig, retransmitted=2, rnr_nak_retry_err=2)


def test_what_may_not_be_is_refused_however_often_it_is_asked():
    rig = rig_with(*lost(REQUEST, 1))
    made = rig.client.post_write(at=0, data=line(1), rkey=99)
    assert rig.client.wait(made).status is Status.IBV_WC_REM_ACCESS_ERR
    rig = rig_with(*lost(ANSWER, 1))  # a connection in the error state says nothing any more
    made = rig.client.post_write(at=0, data=line(1), rkey=99)
    assert rig.client.wait(made).status is Status.IBV_WC_RETRY_EXC_ERR


# duplicates -------------------------------------------------------------------------------------------------------


def test_an_atomic_is_executed_once_and_answered_from_what_was_saved():
    rig = rig_with(*lost(ANSWER, 1, 2))
    made = post_add(rig.client, 5)
    rig.clock.run_until(60_000_000)
    rig.server.store(word(1000))
    assert returned(rig.client, made) == 0
    rig.run()
    assert rig.server.load(8) == word(1000)
    counts(rig, retransmitted=2, local_ack_timeout_err=2)
    counts(rig, requester=False, duplicate_request=2)


def test_saved_results_are_as_many_as_reads_may_be_outstanding():
    rig = rig_with(nic={"outstanding_reads": 2})
    for turn in range(5):
        assert returned(rig.client, post_add(rig.client, 1)) == turn
    assert len(rig.client.peer.end.nic.reliability.kept(rig.client.peer.end).answers) == 2


def test_a_read_is_executed_again():
    rig = rig_with(*lost(ANSWER, 1))
    made = rig.client.post_read(at=0)
    rig.clock.run_until(60_000_000)
    rig.server.store(word(42))
    assert rig.client.wait(made).data == word(42)


@pytest.mark.parametrize("numbers", [(1,), (2,), (3,), (4,), (2, 4), (1, 2, 3, 4)])
def test_a_read_of_several_packets_comes_whole_whichever_is_lost(numbers):
    rig = rig_with(*lost(ANSWER, *numbers), nic=SMALL_MTU)
    rig.server.store(line(3, 64))
    read = rig.client.post_read(at=rig.clock.now_ps, length=4096)
    behind = rig.client.post_write(at=rig.clock.now_ps, data=line(9), line=100)
    assert rig.client.wait(read).data == line(3, 64)
    assert rig.client.wait(behind).status is Status.IBV_WC_SUCCESS
    assert len(rig.chunks(100)) == 1
    rig.run()
    assert len(rig.completions) == 2


@pytest.mark.parametrize(("retry", "again", "old_lines"), [("missing packet", 2, 32), ("whole", 4, 0)])
def test_a_read_goes_on_from_the_packet_that_is_missing(retry, again, old_lines):
    """Two of four are lost: the first two stay as they were read, the others are as old as the second sending."""
    rig = rig_with(*lost(ANSWER, 3, 4), nic=SMALL_MTU, transport={"read_retry": retry})
    rig.server.store(line(3, 64))
    read = rig.client.post_read(at=rig.clock.now_ps, length=4096)
    rig.clock.run_until(60_000_000)
    rig.server.store(line(4, 64))
    assert rig.client.wait(read).data == line(3, 64)[: old_lines * 64] + line(4, 64)[old_lines * 64 :]
    server = rig.client.peer.end
    assert server.nic.reliability.counted(server).packets == 4 + again
    counts(rig, retransmitted=1, local_ack_timeout_err=1)


@pytest.mark.parametrize("numbers", [(2, 5), (2, 6), (1, 5, 9), (3, 4, 5, 6), (4, 5)])
def test_a_read_that_goes_on_twice_comes_whole(numbers):
    rig = rig_with(*lost(ANSWER, *numbers), nic=SMALL_MTU)
    rig.server.store(line(3, 64))
    read = rig.client.post_read(at=rig.clock.now_ps, length=4096)
    assert rig.client.wait(read).data == line(3, 64)
    rig.run()
    assert len(rig.completions) == 1


def test_a_read_in_pieces_proves_what_each_of_them_showed():
    """Line 40 is written before line 0, which came before the gap and has line 1 behind it, that nobody has seen."""
    rig = rig_with(*lost(ANSWER, 5, 6), nic=SMALL_MTU, connections=2)  # behind two acknowledgements
    reader, writer = rig.clients
    reader.qp.timeout = TIMEOUT
    writer.write(line(1), line=40)
    writer.write(line(1), line=0)
    read = reader.post_read(at=rig.clock.now_ps, length=4096)
    rig.clock.run_until(60_000_000)
    writer.write(line(2), line=1)
    assert reader.wait(read).data[:128] == line(1) + bytes(64)
    visible = {number: rig.chunks(number)[-1].forced_ps[Stage.VISIBLE] < NEVER for number in (40, 0, 1)}
    assert visible == {40: True, 0: True, 1: False}


def test_a_write_behind_a_read_whose_response_is_lost_completes_behind_it():
    rig = rig_with(*lost(ANSWER, 1))
    read = rig.client.post_read(at=0)
    write = rig.client.post_write(at=0, data=line(1), line=5)
    rig.run()
    assert [done.wr_id for done in rig.completions] == [read.wr_id, write.wr_id]
    counts(rig, retransmitted=2, implied_nak_seq_err=1)


def test_a_flush_is_answered_again_and_not_executed(monkeypatch):
    rig = rig_with(*lost(ANSWER, 2))
    region, calls = flushable(rig), []
    persist = type(rig.server.node.host).persist_line
    monkeypatch.setattr(
        type(rig.server.node.host),
        "persist_line",
        lambda self, *given, **more: calls.append(given) or persist(self, *given, **more),
    )
    rig.client.write(line(1))
    made = post_flush(rig.client, region, FlushType.IBV_FLUSH_PERSISTENT)
    assert rig.client.wait(made).status is Status.IBV_WC_SUCCESS
    assert len(calls) == 1
    assert rig.adversarial.durable(0, line(1), rig.clock.now_ps)
    counts(rig, requester=False, duplicate_request=1)


def test_an_atomic_write_is_executed_once():
    rig = rig_with(*lost(ANSWER, 1))
    made = post_atomic_write(rig.client, word(1))
    assert rig.client.wait(made).status is Status.IBV_WC_SUCCESS
    assert len(rig.chunks(0)) == 1


@pytest.mark.parametrize("destroyed", [False, True])
def test_a_packet_of_the_old_queue_pair_lands_behind_those_of_the_new_one_unless_the_old_is_destroyed(destroyed):
    rig = rig_with(*late(REQUEST, 1, 500_000_000))
    rig.client.qp.retry_cnt = 0
    assert rig.client.write(line(1)).status is Status.IBV_WC_RETRY_EXC_ERR
    if destroyed:
        rig.client.peer.destroy()
    reconnect(rig.client)
    assert rig.client.write(line(2)).status is Status.IBV_WC_SUCCESS
    assert rig.memory(0) == line(2)
    rig.run()
    assert rig.memory(0) == line(2 if destroyed else 1)


# what is acknowledged ---------------------------------------------------------------------------------------------


def test_one_acknowledgement_for_several_unsignalled_requests():
    rig = Rig(transport={"ack_interval": 4})
    works = [rig.client.post_write(data=line(turn + 1, 4), line=4 * turn, signalled=turn == 9) for turn in range(10)]
    assert rig.client.wait(works[9]).status is Status.IBV_WC_SUCCESS
    rig.run()
    assert rig.memory(0, 40) == b"".join(line(turn + 1, 4) for turn in range(10))
    answers = rig.client.peer.end.nic.reliability.counted(rig.client.peer.end).packets
    assert answers == 3  # the fourth, the eighth, and the last, which asks for it
    counts(rig)


def test_a_power_failure_between_a_retransmission_and_its_acknowledgement():
    """What was lost is not there, what was accepted twice is there once; the trace knows when it came."""
    rig = rig_with(*lost(REQUEST, 1))
    made = rig.client.post_write(at=0, data=line(1))
    back_ps = first_left(rig) + WAIT_PS
    rig.client.wait(made)
    accepted_ps = rig.story(0)[0][1]
    assert back_ps < accepted_ps < back_ps + again(rig)
    assert rig.timed.lost(0, accepted_ps - 1)


# unreliable transports --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 4])
def test_an_unreliable_connection_loses_the_rest_of_the_message(number):
    rig = rig_with(*lost(REQUEST, number), nic=SMALL_MTU)
    reconnect(rig.client, QpType.IBV_QPT_UC)
    rig.client.post_write(at=0, data=line(1, 64))
    rig.client.post_write(at=0, data=line(2), line=64)
    settle(rig)
    kept = (number - 1) * 1024
    assert rig.memory(0, 64) == line(1, 64)[:kept] + bytes(4096 - kept)
    assert rig.memory(64) == line(2)
    assert [done.status for done in rig.completions] == [Status.IBV_WC_SUCCESS] * 2


def test_the_middle_of_another_message_does_not_continue_a_broken_one():
    """The tail of one message and the head of the next are lost: their pieces would fit together."""
    rig = rig_with(*lost(REQUEST, 2, 3, 4), nic=SMALL_MTU)
    reconnect(rig.client, QpType.IBV_QPT_UC)
    rig.client.post_write(at=0, data=line(1, 48))
    rig.client.post_write(at=0, data=line(2, 48))
    settle(rig)
    assert rig.memory(0, 48) == line(1, 48)[:1024] + bytes(2048)


def test_a_receive_request_of_a_broken_message_takes_the_next_one():
    rig = rig_with(*lost(REQUEST, 2), nic=SMALL_MTU)
    reconnect(rig.client, QpType.IBV_QPT_UC)
    buffers = [rig.server.node.memory["dram"].allocate(2048, "buffer") for _ in range(2)]
    for number, buffer in enumerate(buffers):
        rig.client.peer.post_recv(RecvWR(number, buffer, 2048))
    rig.client.post_send(at=0, data=line(1, 32))
    rig.client.post_send(at=0, data=line(2, 32))
    found = rig.server.receive()
    assert found.wr_id == 0
    memory = rig.server.node.memory["dram"]
    assert memory.space.read(NEVER, buffers[0] - memory.base, 2048) == line(2, 32)


# switches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("switches", [1, 2, 4])
def test_store_and_forward_serialises_a_packet_once_a_link(switches):
    fast = Rig(fabric={"switches": switches}).client.write(line(1)).ps
    rig = Rig(fabric={"switches": switches, "forwarding": "store_and_forward"})
    hops, headers = Hops(rig.platform), rig.platform.nic.headers
    more_ps = switches * (hops.link(headers.write_bytes + 64) + hops.link(headers.ack_bytes))
    assert rig.client.write(line(1)).ps == fast + more_ps


def test_a_full_output_drops_what_comes_and_the_transport_repairs_it():
    """Four clients send 32 KB each to one: a queue of as much loses nothing, a small one does."""

    def crowd(**fabric):
        rig = Rig(clients=4, fabric=fabric, disturbance=Disturbance())
        for number, client in enumerate(rig.clients):
            client.qp.timeout = TIMEOUT
            for turn in range(8):
                client.post_write(at=0, data=line(number + 1, 64), line=64 * (8 * number + turn))
        rig.run()
        assert all(done.status is Status.IBV_WC_SUCCESS for done in rig.completions)
        for number in range(4):
            assert rig.memory(64 * 8 * number, 64 * 8) == line(number + 1, 64) * 8
        return rig

    assert crowd().system.fabric.weather.lost == 0
    assert crowd(buffer_bytes=160 * 1024).system.fabric.weather.lost == 0
    tight = crowd(buffer_bytes=8 * 1024)
    assert tight.system.fabric.weather.lost > 0
    total = [client.node.nic.reliability.total() for client in tight.clients]
    assert sum(one.retransmitted for one in total) >= tight.system.fabric.weather.lost
