"""Persist buffers: epochs on their way together, drained in order, as many as there are entries; and busy engines."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from rpsim.models.primitives.language import Primitive
from rpsim.models.verbs import Opcode, SendFlags, SendWR
from rpsim.protocols.primitives import primitive
from rpsim.sim.errors import InputError
from rpsim.sim.trace import Stage

from ...persisting import World, outcome, platform_of, written
from ...rig import line

SLOW = "- {id: slow, at: responder nic, do: compute, takes: 20 us}\n"
FENCE = (
    "steps:\n- {id: fence, at: wire, do: send, packet: FENCE, holds: [WRITE, READ]}\n"
    "- {id: buffer, at: responder nic, do: buffer, entries: ENTRIES}\n"
    "- {id: accept, at: wire, do: acknowledge, after: buffer}\n"
    "- {id: drain, at: responder nic, do: drain, after: buffer}\n"
)
DRAIN_PS = 20_000_000


def slow_fence(entries: int) -> Primitive:
    """A fence whose epoch takes 20 us to drain, whatever it holds."""
    return written(FENCE.replace("ENTRIES", str(entries)) + SLOW + "complete: fence\n")


def ends(world: World, count: int) -> list[int]:
    """When each of so many updates, posted at once, has its primitive's end at the requester."""
    found = []

    def code():
        tickets = []
        for number in range(count):
            tickets.append((yield from world.requester.post([(world.address(number), line(number + 1))])))
        for ticket in tickets:
            yield from world.requester.wait(ticket)
            found.append(world.now_ps)

    world.run(code())
    return found


def shown(world: World) -> list[int]:
    """When each write to the pool became visible in this timing."""
    world.settle()
    device, _ = world.server.memory.locate(world.pool)
    return [chunk.reached_ps[Stage.VISIBLE] for chunk in world.system.trace.chunks if chunk.device == device.number]


# a bounded number of entries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [1, 2, 4])
def test_the_fence_behind_a_full_buffer_waits_until_the_oldest_epoch_is_drained(entries):
    """With n entries n fences are answered at once, each further one when the epoch n before it is over: each epoch
    takes 20 us once the one before it is over.
    """
    found = ends(World(slow_fence(entries)), 6)
    roomy = ends(World(slow_fence(64)), 6)
    [first] = ends(World(slow_fence(entries)), 1)
    assert found[:entries] == roomy[:entries]
    for number in range(entries, 6):
        behind = number - entries + 1
        assert found[number] - first == pytest.approx(behind * DRAIN_PS, abs=100_000)


def test_with_room_for_all_nobody_waits():
    found = ends(World(slow_fence(64)), 6)
    assert found[-1] - found[0] < DRAIN_PS / 10


def test_without_a_buffer_each_waits_for_the_one_before():
    one = slow_fence(64)
    dropped = FENCE.replace("- {id: buffer, at: responder nic, do: buffer, entries: ENTRIES}\n", "")
    plain = written(dropped.replace("buffer", "fence") + SLOW + "complete: fence\n")
    waits, passes = ends(World(plain), 3), ends(World(one), 3)
    assert waits[2] - waits[0] == pytest.approx(2 * DRAIN_PS, rel=0.05)
    assert passes[2] - passes[0] < DRAIN_PS / 10


# in order -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [1, 64])
def test_an_epoch_goes_on_to_memory_when_the_one_before_it_is_over(entries):
    world = World(slow_fence(entries))
    ends(world, 4)
    instants = shown(world)
    assert len(instants) == 4
    for before, behind in pairwise(instants):
        assert behind - before == pytest.approx(DRAIN_PS, rel=0.05)


def test_a_fence_that_waits_its_turn_holds_later_writes_already():
    """Three epochs without a buffer: the third is not taken in when the first is over, but when the second is."""
    dropped = FENCE.replace("- {id: buffer, at: responder nic, do: buffer, entries: ENTRIES}\n", "")
    world = World(written(dropped.replace("buffer", "fence") + SLOW + "complete: fence\n"))
    ends(world, 4)
    for before, behind in pairwise(shown(world)):
        assert behind - before == pytest.approx(DRAIN_PS, rel=0.05)


def test_what_is_accepted_behind_an_epoch_is_acknowledged_long_before_it_is_in_memory():
    world = World(slow_fence(64))
    found = ends(world, 4)
    assert found[3] < DRAIN_PS < shown(world)[3]


@pytest.mark.parametrize("name", ["rofence", "rdma-pwrite"])
@pytest.mark.parametrize("buffers", ["one", "few", "many"])
def test_the_second_of_two_epochs_is_never_there_without_the_first(name, buffers):
    assert not broken(World(name, choices={"buffers": buffers}))


def broken(world: World) -> bool:
    """Whether some crash state has the second update without the first."""
    first, second = (world.run(world.requester.post([(world.address(n), line(n + 1))])) for n in (0, 2))
    world.run(world.requester.wait(second))
    world.settle()
    places = [*first.places, *second.places]
    left = {image for at in range(0, 8_000_000, 50_000) for image in world.images(places, at)}
    assert (line(1), line(3)) in left
    return (bytes(64), line(3)) in left


def test_twins_that_keep_no_order_are_caught():
    """A buffer whose epochs are over at once; PWRITEs without a buffer; a fence that drains and writes nothing back."""
    hasty = written(FENCE.replace("ENTRIES", "8").rpartition("- {id: drain")[0] + "complete: fence\n")
    assert broken(World(hasty))
    assert broken(World("rdma-pwrite"))
    fence = primitive("rofence", {"buffers": "few"})
    drained = replace(fence, steps=tuple(s for s in fence.steps if s.id in ("rofence", "buffer", "accept", "drain")))
    assert broken(World(drained))


def test_a_read_behind_buffered_writes_sees_them():
    """READs are not buffered: one behind two epochs comes when the first of them is over, and behind the second."""
    world = World(slow_fence(8))
    ends(world, 2)
    before = world.now_ps
    local = world.client.memory["dram"].allocate(64, "here")
    region = world.service.regions[0]
    work = SendWR(99, Opcode.IBV_WR_RDMA_READ, local, 64, world.address(1), region.key, SendFlags.IBV_SEND_SIGNALED)

    def code():
        yield from world.requester.thread.post_send(world.requester.qp, work)
        yield from world.requester.thread.poll(world.requester.qp.send_cq)

    world.run(code())
    assert world.now_ps - before > DRAIN_PS
    assert world.client.memory["dram"].space.read(world.now_ps, local - world.client.memory["dram"].base, 64) == line(2)


@pytest.mark.parametrize("buffers", ["one", "few"])
@pytest.mark.parametrize("domain", ["adr", "eadr", "media", "wsp"])
def test_a_pwrite_with_buffers_is_durable_at_its_end(domain, buffers):
    certain, _ = outcome("rdma-pwrite", platform_of(domain), choices={"buffers": buffers})
    assert certain


def test_a_queue_pair_that_is_destroyed_still_places_what_the_buffer_has():
    world = World(slow_fence(8))
    ends(world, 3)
    world.run(world.service.fence())
    assert len([ps for ps in shown(world) if ps < world.now_ps]) == 3


def test_a_full_buffer_of_pwrites_holds_up_the_next():
    """Each is answered when it is durable; with one entry no two are on their way, so each takes a whole turn."""
    one, many = (World("rdma-pwrite", choices={"buffers": word}) for word in ("one", "many"))
    alone = World("rdma-pwrite", choices={"buffers": "one"})
    [first] = ends(alone, 1)
    ordered, buffered = ends(one, 8), ends(many, 8)
    assert ordered[0] == buffered[0] == first
    steps = {b - a for a, b in pairwise(ordered[1:])}
    assert max(steps) - min(steps) < 100_000
    assert buffered[-1] - ordered[-1] < min(steps)


# engines --------------------------------------------------------------------------------------------------------------


ENGINE = (
    "steps:\n- {id: packet, at: wire, do: send, packet: MINE}\n"
    "- {id: engine, at: responder nic, do: compute, takes: 1 us, OCCUPIES}\n"
    "- {id: answer, at: wire, do: acknowledge, after: engine}\ncomplete: packet\n"
)


@pytest.mark.parametrize(("occupies", "gap_ps"), [("occupies: 3 us", 3_000_000), ("occupies: 9 us", 9_000_000)])
def test_a_busy_engine_holds_up_the_next_packet_whoever_sends_it(occupies, gap_ps):
    """Queue pairs share it: of four packets that come together each waits for those before it."""
    world = World(written(ENGINE.replace("OCCUPIES", occupies)), connections=4)
    found = []

    def code(number):
        yield from world.requesters[number].persist([(world.address(number), line(1))])
        found.append(world.now_ps)

    for number in range(4):
        world.clock.start(code(number))
    world.settle()
    assert [b - a for a, b in pairwise(found)] == [gap_ps] * 3


def test_an_engine_that_is_not_busy_serves_all_at_once():
    world = World(written(ENGINE.replace(", OCCUPIES", "")), connections=2)
    found = []

    def code(number):
        yield from world.requesters[number].persist([(world.address(number), line(1))])
        found.append(world.now_ps)

    for number in range(2):
        world.clock.start(code(number))
    world.settle()
    assert found[1] - found[0] < 500_000


# mistakes -------------------------------------------------------------------------------------------------------------


def test_mistakes_in_a_buffer_are_told():
    with pytest.raises(InputError, match="a whole number from 1 to 1024"):
        slow_fence(0)
    twice = FENCE.replace("ENTRIES", "2") + "- {id: again, at: responder nic, do: buffer}\ncomplete: fence\n"
    with pytest.raises(InputError, match="a second entry of the buffer for 'fence'"):
        written(twice)
