"""WAIT and ENABLE: requests that the adapter holds back by itself, and send queues in memory that others may write."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import (
    REMOTE,
    WQE_BYTES,
    CrossChannelQueue,
    FlushType,
    ManagedQueue,
    Opcode,
    RecvWR,
    ScatterRecvWR,
    SendFlags,
    SendWR,
    enable,
    wait,
)
from rpsim.models.verbs.cross_channel import decode, encode

from ...protocols.stores import finish

Code = Generator[Any, Any, Any]
WRITE, SEND, NOP = Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_SEND, Opcode.IBV_WR_NOP
WQES = 8


class ThreeMachines:
    """A client, and a relay whose managed queue pair leads to a third machine; its CPU posts, and then sleeps."""

    def __init__(self) -> None:
        specs = {name: [NodeSpec(1, ("dram", "pm"))] for name in ("client", "relay", "last")}
        self.system = System(load_platform("optane-adr"), specs, seed=1)
        self.client, self.relay, self.last = (self.system.nodes[name][0] for name in specs)
        self.threads = {node.name: node.thread(0, node.name) for node in (self.client, self.relay, self.last)}
        domains = {node.name: node.process(node.name).alloc_pd() for node in (self.client, self.relay, self.last)}
        self.buffers, self.keys = {}, {}
        for node in (self.client, self.relay, self.last):
            at = node.memory["dram"].allocate(4096, "buffer", align=4096)
            self.buffers[node.name] = at
            self.keys[node.name] = domains[node.name].reg_mr(at, 4096, REMOTE).key
        ring = self.relay.memory["dram"].allocate(WQES * WQE_BYTES, "send queue", align=64)
        self.ring = ManagedQueue(ring, WQES)
        self.ring_key = domains["relay[0]"].reg_mr(ring, WQES * WQE_BYTES, REMOTE).key
        self.arrived, self.forwarded = CrossChannelQueue(), self.relay.create_cq()
        unused = self.relay.create_cq()
        self.control = domains["relay[0]"].create_qp(unused, unused, cross_channel=True)
        self.control.connect(domains["relay[0]"].create_qp(unused, unused))
        self.out = domains["relay[0]"].create_qp(self.forwarded, unused, managed=self.ring)
        self.told = self.last.create_cq()
        there = domains["last[0]"].create_qp(self.last.create_cq(), self.told)
        self.out.connect(there)
        there.post_recv(RecvWR(0, self.buffers["last[0]"] + 2048, 64))
        self.sent = self.client.create_cq()
        self.to_relay = domains["client[0]"].create_qp(self.sent, self.client.create_cq())
        self.relay_end = domains["relay[0]"].create_qp(unused, self.arrived, cross_channel=True)
        self.relay_end.connect(self.to_relay)

    def forward(self, local: int = 0, length: int = 64) -> SendWR:
        """A WRITE from the relay's buffer to the last machine's."""
        at = self.buffers["relay[0]"] + local
        return SendWR(7, WRITE, at, length, self.buffers["last[0]"], self.keys["last[0]"])

    def set_up(self, *works: SendWR) -> Code:
        """The relay's CPU: WAIT for a receive, then let the managed queue pair execute these requests."""
        thread = self.threads["relay[0]"]
        for work in works:
            yield from thread.post_send(self.out, work)
        yield from thread.post_send(self.control, wait(self.arrived))
        yield from thread.post_send(self.control, enable(self.out, len(works)))

    def write(self, address: int, key: int, data: bytes) -> Code:
        """The client: WRITE at the relay, and wait for its completion."""
        thread, at = self.threads["client[0]"], self.buffers["client[0]"]
        yield from thread.store(at, data)
        yield from thread.post_send(self.to_relay, SendWR(1, WRITE, at, len(data), address, key))
        yield from thread.poll(self.sent)

    def send(self, data: bytes) -> Code:
        """The client: SEND to the relay."""
        thread, at = self.threads["client[0]"], self.buffers["client[0]"] + 1024
        yield from thread.store(at, data)
        yield from thread.post_send(self.to_relay, SendWR(2, SEND, at, len(data)))
        yield from thread.poll(self.sent)

    def run(self, code: Code) -> Any:
        return finish(self.system, code)

    def there(self, offset: int = 0, length: int = 64) -> bytes:
        """What the last machine's buffer holds in the end."""
        dram = self.last.memory["dram"]
        self.system.clock.run_until(self.system.clock.now_ps + 10**8)
        return dram.space.read(self.system.clock.now_ps, self.buffers["last[0]"] - dram.base + offset, length)


def test_a_forward_waits_for_the_message_and_needs_no_cpu():
    world = ThreeMachines()
    world.relay_end.post_recv(RecvWR(0, world.buffers["relay[0]"] + 512, 64))
    world.run(world.set_up(world.forward()))
    world.run(world.write(world.buffers["relay[0]"], world.keys["relay[0]"], b"x" * 64))
    assert world.there() == bytes(64)  # nothing has waited for a WRITE
    busy_ps = world.threads["relay[0]"].account.verbs_ps
    world.run(world.send(b"go"))
    assert world.there() == b"x" * 64
    assert world.threads["relay[0]"].account.verbs_ps == busy_ps
    assert world.arrived.produced == 1


@pytest.mark.parametrize("waits", [True, False])
def test_a_request_behind_a_wait_sends_what_the_message_has_brought(waits):
    """Its payload is read once the WAIT is over; of one without a WAIT before it when the doorbell comes."""
    world = ThreeMachines()
    world.relay_end.post_recv(RecvWR(0, world.buffers["relay[0]"], 64))
    domain, unused = world.relay.process("relay[0]").alloc_pd(), world.relay.create_cq()
    plain = domain.create_qp(unused, unused, cross_channel=True)
    plain.connect(world.last.process("last[0]").alloc_pd().create_qp(world.last.create_cq(), world.last.create_cq()))

    def set_up() -> Code:
        if waits:
            yield from world.threads["relay[0]"].post_send(plain, wait(world.arrived))
        yield from world.threads["relay[0]"].post_send(plain, world.forward())

    world.run(set_up())
    world.run(world.send(b"x" * 64))
    assert world.there() == (b"x" * 64 if waits else bytes(64))


def test_what_is_not_enabled_stays_in_memory():
    world = ThreeMachines()
    world.run(world.threads["relay[0]"].post_send(world.out, world.forward()))
    assert world.there() == bytes(64) and world.relay.nic.counters()["wqe_fetches"] == 0
    world.run(world.threads["relay[0]"].post_send(world.control, enable(world.out)))
    world.there()
    assert world.relay.nic.counters()["wqe_fetches"] == 1


def test_an_enable_may_come_before_the_request():
    world = ThreeMachines()

    def code() -> Code:
        thread = world.threads["relay[0]"]
        yield from thread.store(world.buffers["relay[0]"], b"y" * 64)
        yield from thread.post_send(world.control, enable(world.out, 2))
        yield from thread.post_send(world.out, world.forward())

    world.run(code())
    assert world.there() == b"y" * 64


def test_a_request_that_is_not_enabled_outlasts_a_repetition_of_those_before_it():
    """The second SEND finds no receive request, and is sent again; the third is enabled behind that."""
    world = ThreeMachines()
    thread, there = world.threads["relay[0]"], world.out.peer

    def sends(count: int) -> Code:
        for number in range(count):
            work = SendWR(number, SEND, world.buffers["relay[0]"], 8)
            yield from thread.post_send(world.out, work)

    world.run(sends(3))
    world.run(thread.post_send(world.control, enable(world.out, 2)))
    world.system.clock.run_until(world.system.clock.now_ps + 10**10)
    for _ in range(2):
        there.post_recv(RecvWR(0, world.buffers["last[0]"] + 2048, 64))
    world.run(thread.post_send(world.control, enable(world.out)))
    world.system.clock.run_until(world.system.clock.now_ps + 10**10)
    assert [world.forwarded.pop().wr_id for _ in range(3)] == [0, 1, 2]


def test_the_adapter_obeys_the_bytes_of_a_send_queue_that_another_has_written():
    """The client fills in address and length of a posted request from afar, before it is enabled."""
    world = ThreeMachines()
    world.relay_end.post_recv(RecvWR(0, world.buffers["relay[0]"] + 512, 64))
    world.run(world.set_up(world.forward()))
    filled = world.forward(local=128, length=16)
    world.run(world.write(world.buffers["relay[0]"] + 128, world.keys["relay[0]"], b"z" * 64))
    world.run(world.write(world.ring.place(0), world.ring_key, encode(filled)))
    world.run(world.send(b"go"))
    assert world.there() == b"z" * 16 + bytes(48)


def test_a_receive_of_several_buffers_fills_in_posted_requests():
    """One SEND's payload: the data into the buffer, the request's bytes into the send queue."""
    world = ThreeMachines()
    parts = ((world.buffers["relay[0]"], 64), (world.ring.place(0), WQE_BYTES))
    world.relay_end.post_recv(ScatterRecvWR(0, parts[0][0], 128, sg_list=parts))
    world.run(world.set_up(SendWR(7, NOP, 0, 0)))
    world.run(world.send(b"s" * 64 + encode(world.forward(length=32))))
    assert world.there() == b"s" * 32 + bytes(32)


def test_a_request_that_is_turned_into_a_nop_goes_nowhere_and_completes():
    world = ThreeMachines()
    world.run(world.threads["relay[0]"].post_send(world.out, world.forward()))
    world.run(world.write(world.ring.place(0), world.ring_key, encode(SendWR(7, NOP, 0, 0))))

    def code() -> Code:
        thread = world.threads["relay[0]"]
        yield from thread.post_send(world.control, enable(world.out))
        return (yield from thread.poll(world.forwarded))

    completion = world.run(code())
    assert (completion.wr_id, completion.opcode, str(completion.status)) == (7, NOP, "success")
    assert world.there() == bytes(64)


def test_a_code_that_is_none_breaks_the_queue_pair():
    world = ThreeMachines()
    world.run(world.threads["relay[0]"].post_send(world.out, world.forward()))
    world.run(world.write(world.ring.place(0), world.ring_key, b"\xff" * WQE_BYTES))
    world.run(world.threads["relay[0]"].post_send(world.control, enable(world.out)))
    assert world.there() == bytes(64) and world.out.error


def test_each_wait_uses_up_the_completions_that_it_was_for():
    world = ThreeMachines()
    for _ in range(3):
        world.relay_end.post_recv(RecvWR(0, world.buffers["relay[0]"] + 512, 64))

    def code() -> Code:
        thread = world.threads["relay[0]"]
        for number in range(2):
            yield from thread.store(world.buffers["relay[0]"] + 64 * number, bytes([65 + number]) * 64)
            work = world.forward(local=64 * number)
            work.remote_address += 64 * number
            yield from thread.post_send(world.out, work)
        yield from thread.post_send(world.control, wait(world.arrived, 2))
        yield from thread.post_send(world.control, enable(world.out))
        yield from thread.post_send(world.control, wait(world.arrived))
        yield from thread.post_send(world.control, enable(world.out))

    world.run(code())
    seen = []
    for _ in range(3):
        world.run(world.send(b"go"))
        seen.append(world.there(0, 128).rstrip(b"\0"))
    assert seen == [b"", b"A" * 64, b"A" * 64 + b"B" * 64]


def test_only_a_cross_channel_queue_pair_takes_them():
    world = ThreeMachines()
    with pytest.raises(ValueError, match="WAIT"):
        world.run(world.threads["client[0]"].post_send(world.to_relay, wait(world.arrived)))
    with pytest.raises(ValueError, match="not managed"):
        enable(world.to_relay)
    with pytest.raises(ValueError, match="not cross-channel"):
        world.to_relay.post_recv(ScatterRecvWR(0, 0, 64))


@given(
    opcode=st.sampled_from(
        [WRITE, SEND, Opcode.IBV_WR_RDMA_READ, Opcode.IBV_WR_ATOMIC_CMP_AND_SWP, Opcode.IBV_WR_FLUSH]
    ),
    local=st.integers(0, 2**63),
    length=st.integers(0, 2**31),
    remote=st.integers(0, 2**63),
    rkey=st.integers(0, 2**32 - 1),
    flags=st.sampled_from([SendFlags.NONE, SendFlags.IBV_SEND_SIGNALED, SendFlags.IBV_SEND_FENCE]),
    numbers=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
)
def test_a_work_request_is_what_its_bytes_say(opcode, local, length, remote, rkey, flags, numbers):
    work = SendWR(3, opcode, local, length, remote, rkey, flags, imm_data=9)
    if opcode is Opcode.IBV_WR_FLUSH:
        work.flush_type = FlushType.IBV_FLUSH_PERSISTENT
    else:
        work.compare_add, work.swap = numbers
    data = encode(work, 5)
    assert len(data) == WQE_BYTES
    assert decode(data, SendWR(3, NOP, 0, 0)) == work
