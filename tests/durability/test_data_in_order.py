"""Whether the bytes of one message become visible in the order of their addresses, as the platform says."""

from __future__ import annotations

from itertools import product

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import DataInOrder, Opcode
from rpsim.sim.errors import InputError
from rpsim.validation.rigs.pair import Pair

from ..rig import LINE, Rig, line

OLD = bytes(LINE)
ORDERS = ["whole message", "128 B", "none"]
WHOLE = DataInOrder.IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG
BLOCKS = DataInOrder.IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES


@pytest.mark.parametrize(
    ("order", "answer"), [("whole message", WHOLE | BLOCKS), ("128 B", BLOCKS), ("none", DataInOrder.NONE)]
)
def test_the_query_answers_as_the_platform_says(order, answer):
    pair = Pair(load_platform("optane-adr", data_in_order=order))
    for op in (Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_SEND, Opcode.IBV_WR_RDMA_READ):
        assert pair.peers[0].query_data_in_order(op) == answer
    with pytest.raises(ValueError, match="cannot be queried"):
        pair.peers[0].query_data_in_order(Opcode.IBV_WR_ATOMIC_CMP_AND_SWP)


def test_a_queue_pair_with_out_of_order_placement_keeps_nothing_in_order_that_arrives():
    pair = Pair(load_platform("optane-adr"))
    qp = pair.server.alloc_pd().create_qp(pair.server.create_cq(), pair.received, out_of_order=True)
    assert qp.query_data_in_order() == DataInOrder.NONE
    assert qp.query_data_in_order(Opcode.IBV_WR_RDMA_READ) == WHOLE | BLOCKS


def test_a_platform_that_keeps_another_order_is_refused():
    with pytest.raises(InputError, match=r"'128 bytes' for the setting data_in_order .*whole message, 128 B, none"):
        load_platform("optane-adr", data_in_order="128 bytes")


def shown(order: str, seed: int, length: int = 4096) -> list[int]:
    """The lines of one WRITE, in the order in which they become visible."""
    rig = Rig("optane-adr", seed=seed, nic={"data_in_order": order})
    seen: list[tuple[int, int]] = []
    pm = rig.server.node.memory["pm"]
    for number in range(length // LINE):
        at = rig.address(number) - pm.base
        pm.space.watch(at, LINE, lambda at_ps, number=number: seen.append((at_ps, number)))
    rig.client.post_write(data=line(1, length // LINE), line=0)
    rig.run()
    assert len(seen) == length // LINE
    return [number for _, number in sorted(seen)]


@pytest.mark.parametrize("seed", [1, 2])
def test_in_a_run_lines_come_in_order_or_in_blocks_or_in_any_order(seed):
    ordered = list(range(64))
    assert shown("whole message", seed) == ordered
    blocks, lines = shown("128 B", seed), shown("none", seed)
    assert sorted(blocks) == sorted(lines) == ordered
    assert blocks != ordered and all(
        second == first + 1 for first, second in zip(blocks[::2], blocks[1::2], strict=True)
    )
    assert any(lines.index(first) > lines.index(first + 1) for first in range(0, 64, 2))
    assert blocks[-1] != 63 and lines[-1] != 63, "the last line is not the last to come"


@pytest.mark.parametrize("order", ORDERS)
def test_what_a_power_failure_leaves_follows_it(order):
    """On eADR visible is durable: of a WRITE of two TLPs the second may be there alone only without order."""
    rig = Rig("optane-eadr", whole_lines=True, nic={"data_in_order": order})
    mps = rig.platform.pcie.mps_bytes
    done = rig.client.wait(rig.client.post_write(data=line(1, 2 * mps // LINE), line=0))
    ends = [0, 2 * mps // LINE - 1]
    found = rig.adversarial.images(ends, done.ps)
    new = [line(1, 2 * mps // LINE)[number * LINE :][:LINE] for number in ends]
    every = set(product((OLD, new[0]), (OLD, new[1])))
    assert found == (every if order != "whole message" else every - {(OLD, new[1])})


@pytest.mark.parametrize("order", ORDERS)
def test_a_receive_completion_publishes_all_of_it_whatever_the_order(order):
    rig = Rig("optane-eadr", nic={"data_in_order": order})
    rig.server.post_recv(rig.client)
    data = line(1, 16)
    rig.client.post_write(data=data, line=0)
    rig.client.post_send()
    received = rig.server.receive()
    assert rig.memory(0, 16) == data
    assert rig.adversarial.images(range(16), received.ps) == {
        tuple(data[at : at + LINE] for at in range(0, 1024, LINE))
    }


@pytest.mark.long
@pytest.mark.parametrize("ddio", ["on", "off"])
def test_credits_of_a_tlp_come_back_once_when_its_pieces_are_taken(ddio):
    """Many WRITEs on a root port with little room: with pieces they take no credit twice, and lose none."""
    counts = {}
    for order in ORDERS:
        pair = Pair(load_platform("optane-adr", data_in_order=order, ddio=ddio), memory="pm")
        credits = pair.server.nic.responder.drain.credits

        def code(pair=pair):
            for number in range(40):
                yield from pair.thread.post_send(
                    pair.queue_pairs[0], pair.work(Opcode.IBV_WR_RDMA_WRITE, 4096, at=number * 4096)
                )
            for _ in range(40):
                yield from pair.thread.poll(pair.sent)

        pair.run(code())
        if credits is not None:
            pair.clock.run_until(pair.clock.now_ps + 10**9)
            pair.server.host.catch_up(pair.clock.now_ps)
            credits.take(pair.clock.now_ps, 1 << 20, 0)  # counts what has come back, and takes nothing
            counts[order] = credits.headers, credits.data
    assert len(set(counts.values())) <= 1
    assert (ddio == "off") is bool(counts)
