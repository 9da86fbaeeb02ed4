"""Requests to many machines: waiting for all, for some, for the first; what is dropped; errors as the spec has them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from rpsim.models.cpu import Deadline
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import FLUSHES, REMOTE, QpType, RecvWR, SendFlags, SendWR, Status
from rpsim.models.verbs.opcodes import Opcode
from rpsim.protocols.parts.onesided import Door, Poster, VerbsError

from .stores import finish

Code = Generator[Any, Any, Any]
LENGTH = 4096


class Many:
    """A client and passive machines, each with a region of persistent memory."""

    def __init__(self, machines: int = 3, slots: int = 4, slot_bytes: int = LENGTH) -> None:
        specs = {"client": [NodeSpec()], "data": [NodeSpec(1, ("dram", "pm")) for _ in range(machines)]}
        self.system = System(load_platform("optane-adr"), specs, seed=1)
        self.clock = self.system.clock
        (client,), self.nodes = self.system.nodes["client"], self.system.nodes["data"]
        self.thread = client.thread(0, "client")
        self.poster = Poster(self.thread, client, slot_bytes, slots)
        self.doors = [Door(node) for node in self.nodes]
        self.qps = [self.poster.connect(door) for door in self.doors]
        memory = [node.memory["pm"] for node in self.nodes]
        self.at = [pm.allocate(LENGTH, "region", align=LENGTH) for pm in memory]
        self.keys = [
            door.register(at, LENGTH, REMOTE | FLUSHES).key for door, at in zip(self.doors, self.at, strict=True)
        ]

    def peek(self, number: int, offset: int, length: int) -> bytes:
        pm = self.nodes[number].memory["pm"]
        return pm.space.read(self.clock.now_ps, self.at[number] - pm.base + offset, length)

    def run(self, code: Code) -> Any:
        return finish(self.system, code)

    def write_all(self, data: bytes) -> Code:
        posted = []
        for qp, at, key in zip(self.qps, self.at, self.keys, strict=True):
            posted.append((yield from self.poster.write(qp, at, key, data)))
        return posted


def test_requests_to_several_machines_are_under_way_together():
    one, many = Many(1), Many(3)

    def reads(world: Many) -> Code:
        posted = yield from world.write_all(b"x" * 64)
        yield from world.poster.all(posted)
        began_ps = world.clock.now_ps
        posted = []
        for qp, at, key in zip(world.qps, world.at, world.keys, strict=True):
            posted.append((yield from world.poster.read(qp, at, key, 64)))
        found = yield from world.poster.all(posted)
        return found, world.clock.now_ps - began_ps

    (alone, alone_ps), (found, together_ps) = one.run(reads(one)), many.run(reads(many))
    assert alone == [b"x" * 64] and found == [b"x" * 64] * 3
    assert together_ps < 1.6 * alone_ps


def test_every_verb_does_what_its_name_says():
    world = Many(1)
    (qp,), (at,), (key,), poster = world.qps, world.at, world.keys, world.poster

    def code() -> Code:
        yield from poster.result((yield from poster.write(qp, at, key, (5).to_bytes(8, "little"))))
        added = yield from poster.result((yield from poster.fetch_and_add(qp, at, key, 3)))
        failed = yield from poster.result((yield from poster.compare_and_swap(qp, at, key, 1, 99)))
        swapped = yield from poster.result((yield from poster.compare_and_swap(qp, at, key, 8, 99, fence=True)))
        yield from poster.result((yield from poster.atomic_write(qp, at + 8, key, b"releases")))
        flushed = yield from poster.result((yield from poster.flush(qp, at, key, 16)))
        return added, failed, swapped, flushed

    assert world.run(code()) == (5, 8, 8, None)
    assert world.peek(0, 0, 16) == (99).to_bytes(8, "little") + b"releases"
    trace = world.system.trace
    assert trace.chunks and all(chunk.flushed_ps for chunk in trace.chunks)


def test_datagrams_name_their_destination():
    world = Many(2)
    ends = [
        door.domain.create_qp(door.node.create_cq(), door.node.create_cq(), QpType.IBV_QPT_UD) for door in world.doors
    ]
    for end, node in zip(ends, world.nodes, strict=True):
        end.post_recv(RecvWR(7, node.memory["dram"].allocate(256, "buffer"), 256))
    receivers = [node.thread(0, node.name) for node in world.nodes]
    qp = world.poster.open(qp_type=QpType.IBV_QPT_UD)

    def code() -> Code:
        posted = []
        for number, end in enumerate(ends):
            posted.append((yield from world.poster.send(qp, b"to %d" % number, destination=end)))
        yield from world.poster.all(posted)
        found = []
        for end, receiver in zip(ends, receivers, strict=True):
            found.append((yield from receiver.poll(end.recv_cq)))
        return found

    assert [completion.byte_len for completion in world.run(code())] == [44, 44]


def test_the_first_of_several_goes_on_and_the_others_are_dropped_when_they_come():
    """The second machine is cut off from the first instant: a majority answers, and its completion comes never."""
    world = Many(3)
    world.nodes[1].power_off()

    def code() -> Code:
        posted = yield from world.write_all(b"y" * 8)
        first = yield from world.poster.first(posted)
        two = yield from world.poster.wait(posted, 2)
        none = yield from world.poster.first([posted[1]], Deadline(world.clock, world.clock.now_ps + 10**6))
        world.poster.drop(posted)
        return posted, first, two, none, world.clock.now_ps

    posted, first, two, none, now_ps = world.run(code())
    assert first is posted[0] and two == [posted[0], posted[2]] and none is None
    assert now_ps < 10**7
    world.run(_late(world))
    assert world.poster._under_way == {}


def _late(world: Many) -> Code:
    """Once the adapter has given up, its error is taken, dropped, and belongs to no other request."""
    yield world.clock.until(10**13)
    posted = yield from world.poster.write(world.qps[0], world.at[0], world.keys[0], b"z" * 8)
    yield from world.poster.result(posted)


def test_a_buffer_is_used_again_only_when_its_request_is_complete():
    world = Many(2, slots=1)

    def code() -> Code:
        yield from world.poster.result(
            (yield from world.poster.write(world.qps[0], world.at[0], world.keys[0], b"a" * 512))
        )
        late = yield from world.poster.read(world.qps[0], world.at[0], world.keys[0], 512)
        world.poster.drop([late])
        assert late.completion is None
        posted = yield from world.poster.write(world.qps[1], world.at[1], world.keys[1], b"b" * 512)
        assert late.completion is not None, "the READ's bytes would have landed in the WRITE's"
        yield from world.poster.result(posted)

    world.run(code())
    assert world.peek(1, 0, 512) == b"b" * 512


def test_an_error_comes_with_its_request_and_flushes_what_is_behind_it_on_that_queue_pair_only():
    world = Many(2)

    def code() -> Code:
        poster, statuses = world.poster, []
        wrong = yield from poster.write(world.qps[0], world.at[0], world.keys[0] + 1, b"x")
        behind = yield from poster.write(world.qps[0], world.at[0], world.keys[0], b"y")
        other = yield from poster.write(world.qps[1], world.at[1], world.keys[1], b"z")
        yield from poster.wait([wrong, behind, other])
        for request in (wrong, behind, other):
            statuses.append((request.succeeded, request.completion.status))
        with pytest.raises(VerbsError, match="remote access error") as caught:
            yield from poster.all([wrong, behind, other])
        return statuses, caught.value.disconnected

    statuses, disconnected = world.run(code())
    assert statuses == [
        (False, Status.IBV_WC_REM_ACCESS_ERR),
        (False, Status.IBV_WC_WR_FLUSH_ERR),
        (True, Status.IBV_WC_SUCCESS),
    ]
    assert not disconnected and len(world.poster._free) == 4


def test_unsignalled_requests_are_complete_with_the_next_signalled_one_of_their_queue_pair():
    world = Many(2)

    def code() -> Code:
        poster = world.poster
        quiet = yield from poster.write(world.qps[0], world.at[0], world.keys[0], b"q" * 512, signaled=False)
        other = yield from poster.write(world.qps[1], world.at[1], world.keys[1], b"o" * 512)
        yield from poster.result(other)
        assert quiet.completion is None
        yield from poster.result((yield from poster.write(world.qps[0], world.at[0] + 512, world.keys[0], b"s")))
        assert quiet.succeeded
        poster.drop([quiet])

    world.run(code())
    assert world.peek(0, 0, 512) == b"q" * 512 and len(world.poster._free) == 4


def test_a_request_that_nobody_waits_for_fails_those_behind_it():
    world = Many(2)

    def code() -> Code:
        poster = world.poster
        source = world.poster.node.memory["dram"].allocate(64, "own buffer")
        lost = SendWR(0, Opcode.IBV_WR_RDMA_WRITE, source, 8, world.at[0], world.keys[0] + 1, SendFlags.NONE)
        yield from poster.post(world.qps[0], lost)
        behind = yield from poster.write(world.qps[0], world.at[0], world.keys[0], b"y")
        other = yield from poster.write(world.qps[1], world.at[1], world.keys[1], b"z")
        yield from poster.result(other)
        with pytest.raises(VerbsError, match="remote access error"):
            yield from poster.result(behind)

    world.run(code())


def test_what_does_not_fit_and_what_cannot_come_is_refused():
    world = Many(1, slot_bytes=64)
    with pytest.raises(ValueError, match="65 bytes in a buffer of 64"):
        world.run(world.poster.read(world.qps[0], world.at[0], world.keys[0], 65))
    with pytest.raises(ValueError, match="2 of 0 requests"):
        world.run(world.poster.wait([], 2))


def test_an_error_keeps_its_completion_through_every_process_that_it_passes():
    """SimPy makes an exception anew from its arguments for each process that waits for the one which failed."""
    world = Many(1)
    clock = world.clock

    def refused() -> Code:
        posted = yield from world.poster.write(world.qps[0], world.at[0], 0xBAD, b"x")
        yield from world.poster.all([posted])

    def waits(code: Code) -> Code:
        yield clock.start(code)

    with pytest.raises(VerbsError, match="remote access error") as caught:
        world.run(waits(waits(refused())))
    assert caught.value.completion.status is Status.IBV_WC_REM_ACCESS_ERR and not caught.value.disconnected
