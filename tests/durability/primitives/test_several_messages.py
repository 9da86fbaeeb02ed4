"""Primitives whose responder sends several messages: which of them is the end, and what becomes of the others."""

from __future__ import annotations

import pytest

from rpsim.models.primitives.language import Primitive
from rpsim.models.verbs import Opcode

from ...persisting import World, platform_of, written
from ...rig import line

FLUSHED = "- {id: flush, at: responder cpu, do: flush}\n- {id: fence, at: responder cpu, do: fence}\n"
LATE = "- {id: late, at: responder cpu, do: reply}\n"
MESSAGE = "- {id: ask, at: wire, do: send, verb: SEND}\n- {id: receive, at: responder cpu, do: receive}\n"
BEFORE = {
    "a reply of the same steps": MESSAGE + "- {id: early, at: responder cpu, do: reply}\n",
    "a reply to another message": "- {id: hello, at: wire, do: send, verb: SEND}\n"
    "- {id: greeted, at: responder cpu, do: receive}\n- {id: early, at: responder cpu, do: reply}\n" + MESSAGE,
    "a message of the adapter": "- {at: wire, do: acknowledge, after: update}\n"
    "- {id: early, at: wire, do: notify, after: update}\n" + MESSAGE,
}
"""What comes before the flush: in each case a message, ``early``."""


def several(before: str, end: str) -> Primitive:
    return written(f"steps:\n{BEFORE[before]}{FLUSHED}{LATE}complete: {end}\n")


@pytest.mark.parametrize("before", BEFORE)
def test_only_the_message_that_is_the_end_ends_it(before):
    took = {}
    for end in ("early", "late"):
        world = World(several(before, end), platform_of())
        for number in range(4):
            began = world.now_ps
            world.persist((number, line(number + 1)))
            took[end] = world.now_ps - began
            assert end == "early" or world.durable([(world.address(number), 64)], line(number + 1)), number
    assert took["early"] < took["late"]


def test_an_immediate_says_whose_a_message_is():
    alone = written(f"steps:\n{MESSAGE}{FLUSHED}{LATE}complete: late\n")
    for what, expected in ((several("a reply of the same steps", "late"), [0, 1]), (alone, [None])):
        plan = World(what).service.plan
        assert [plan.immediate(step) for step in plan.tells] == expected


def test_messages_that_are_not_the_end_are_received_all_the_same():
    """More than a requester has receive buffers: each is given back."""
    read = "- {id: read, at: wire, do: send, verb: READ, address: last byte, length: 1 B}\n"
    world = World(written(f"steps:\n{MESSAGE}{FLUSHED}{LATE}{read}complete: read\n"))
    taken, take = [], world.requester.take
    world.requester.take = lambda completion: (taken.append(completion.opcode), take(completion))
    for number in range(150):
        world.persist((number % 64, line(1)))
    assert taken.count(Opcode.IBV_WR_RDMA_READ) == 150
    assert taken.count(Opcode.IBV_WC_RECV) > 140


def test_a_poll_of_the_update_waits_for_it_where_a_message_is_the_end():
    told = "- {at: wire, do: acknowledge, after: update}\n- {id: told, at: wire, do: notify, after: update}\n"
    reads = "".join(f"- {{id: read {number}, at: wire, do: send, verb: READ}}\n" for number in range(3))
    steps = told + reads + "- {id: came, at: requester cpu, do: poll, of: update}\ncomplete: told\n"
    world = World(written("steps:\n" + steps))
    took = []
    for number in range(4):
        began, thread = world.now_ps, world.requester.thread
        thread.span.marks.clear()
        world.persist((number, line(1)))
        took += [at_ps - began for hop, at_ps in thread.span.marks if hop == "requester cpu: came"]
    assert len(took) == 4 and min(took) > 0.9 * max(took)
