"""A responder executes the requests of a queue pair in the order of the table, and answers in that of their arrival."""

from __future__ import annotations

import itertools
import random

import pytest

from rpsim.models.durability.rules import RequestKind, Switches, executed_before
from rpsim.models.nic.executing.order import ExecutionOrder
from rpsim.models.nic.responses import Responses
from rpsim.models.verbs import RECEIVE_COMPLETIONS, Opcode, SendWR, Status
from rpsim.sim.clock import Clock

from ...rig import Rig, line
from ...verbs import flushable, post, post_add, post_atomic_write, post_cas, post_flush, receive_buffer, reconnect, word

SWITCHES = [Switches(), Switches(flush_orders_writes=True, reads_in_order=False, writes_wait_for_atomics=False)]


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize(("first", "second"), list(itertools.product(RequestKind, RequestKind)))
def test_a_request_waits_for_what_the_table_puts_before_it_and_for_nothing_else(first, second, switches):
    order, started = ExecutionOrder(switches), []
    order.arrive(first, 0, lambda since, running: started.append((first, since(), running)))
    order.arrive(second, 1, lambda since, running: started.append((second, since(), running)))
    waits = executed_before(first, second, False, switches)
    assert len(started) == (1 if waits else 2)
    order.end(started[0][2], 7)
    assert [at_ps for _, at_ps, _ in started] == [0, 7 if waits else 1]


@pytest.mark.parametrize("switches", SWITCHES)
def test_everything_is_executed_once_whatever_ends_when(switches):
    choose = random.Random(1)
    for _ in range(200):
        order, running, done, now = ExecutionOrder(switches), {}, [], 0
        kinds = [choose.choice(list(RequestKind)) for _ in range(12)]

        def start(number, done=done, running=running, kinds=kinds):
            def begin(_, entry):
                before = [n for n in range(number) if executed_before(kinds[n], kinds[number], False, switches)]
                assert set(before) <= set(done)
                running[number] = entry

            return begin

        waiting = list(range(12))
        while waiting or running:
            now += 1
            if waiting and (not running or choose.random() < 0.5):
                order.arrive(kinds[waiting[0]], now, start(waiting.pop(0)))
            else:
                number = choose.choice(sorted(running))
                done.append(number)
                order.end(running.pop(number), now)
        assert sorted(done) == list(range(12))
        assert order.idle(now)


def test_responses_leave_in_the_order_of_their_requests():
    clock = Clock()
    responses, left = Responses(clock), []
    slow, quick, last, never = (SendWR(number, Opcode.IBV_WR_RDMA_READ, 0, 8) for number in range(4))
    for work in (slow, never, quick):
        responses.expect(work)
    responses.ready(quick, 5, lambda at_ps: left.append((2, at_ps)))
    responses.ready(last, 6, lambda at_ps: left.append((3, at_ps)))
    responses.ready(slow, 20, lambda at_ps: left.append((1, at_ps)))
    clock.run_until(None)
    assert left == [(1, 20)]
    responses.forget(never)
    clock.run_until(None)
    assert left == [(1, 20), (2, 20), (3, 20)]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_any_mixture_of_verbs_completes_in_order(seed):
    """Several queue pairs, little staging, small packets, late receivers: nothing is lost, doubled or stuck."""
    choose = random.Random(seed)
    nic = {"mtu_bytes": 1024, "staging_bytes": 4096, "rnr_timer_ps": 3_000_000}
    rig = Rig(nic=nic, connections=3, clients=2, pcie={"tlp_bits_per_s": 2 * 10**10}, seed=seed)
    region = flushable(rig, lines=512)
    for client in rig.clients:
        reconnect(client, out_of_order=choose.random() < 0.3, max_rd_atomic=choose.choice([1, 2, 16]))
    posted = {client: [] for client in rig.clients}
    needed = {client: 0 for client in rig.clients}
    adds = 0
    for client in rig.clients:
        at = 0
        for _ in range(25):
            at += choose.randrange(1_500_000)
            where = {"line": choose.randrange(32), "at": at, "fence": choose.random() < 0.2}
            size = choose.choice([8, 64, 1024, 4096])
            match choose.randrange(9):
                case 0 | 1:
                    made = post(client, Opcode.IBV_WR_RDMA_WRITE, line(1, 64)[:size], **where)
                case 2:
                    made = post(client, Opcode.IBV_WR_RDMA_READ, length=size, **where)
                case 3:
                    made = post_add(client, 1, **{**where, "line": 400})
                    adds += 1
                case 4:
                    made = post_cas(client, 0, 1, **where)
                case 5:
                    made = post_flush(client, region, choose.choice([1, 2, 3]), level=choose.randrange(2), **where)
                case 6:
                    made = post_atomic_write(client, word(3), **where)
                case 7:
                    made = post(client, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, line(1, 64)[:size], **where)
                    needed[client] += 1
                case _:
                    made = post(client, Opcode.IBV_WR_SEND, line(1, 64)[:size], **where)
                    needed[client] += 1
            posted[client].append(made.wr_id)
        for _ in range(needed[client]):
            rig.clock.call_at(choose.randrange(40_000_000), client.peer.post_recv, receive_buffer(rig, 4096))
    rig.run()
    for client in rig.clients:
        assert [done.wr_id for done in rig.completions if done.wr_id in set(posted[client])] == posted[client]
        assert (client.qp.posted, client.qp.end.reads_under_way, client.qp.end.fencing) == (0, 0, 0)
        assert not client.qp.end.unseen
    assert {done.status for done in rig.completions} == {Status.IBV_WC_SUCCESS}
    rig.run(rig.clock.now_ps + 100_000_000)
    assert rig.memory(400)[:8] == word(adds)
    received = []
    while (completion := rig.server.received.pop()) is not None:
        received.append(completion)
    assert len(received) == sum(needed.values())
    assert all(completion.opcode in RECEIVE_COMPLETIONS for completion in received)
