"""TCP sockets: what a message takes, what a link carries, who waits for whom, and that no byte is lost or overtakes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.kernel.sockets import BURST_BYTES, ConnectionReset, Epoll, connect
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System

from ...rig import Rig, line
from ..hops import PS, ceil_div

US = 10**6


class Net:
    """A client and a server with some connections, each with threads of its own cores."""

    def __init__(self, connections: int = 1, platform=None, **kernel):
        platform = platform or load_platform("optane-adr")
        os = {
            name: kernel.pop(name) for name in ("syscall_ps", "interrupt_ps", "wake_ps", "switch_ps") if name in kernel
        }
        cpu = replace(platform.cpu, os=replace(platform.cpu.os, **os))
        platform = replace(platform, kernel=replace(platform.kernel, **kernel), cpu=cpu)
        self.os = platform.cpu.os
        specs = {role: [NodeSpec(connections, ("dram",))] for role in ("client", "server")}
        self.system = System(platform, specs, 1)
        self.kernel, self.clock = platform.kernel, self.system.clock
        client, server = self.system.nodes["client"][0], self.system.nodes["server"][0]
        self.ends = [connect(client, server, core, core) for core in range(connections)]
        self.clients = [client.thread(core, f"client {core}") for core in range(connections)]
        self.servers = [server.thread(core, f"server {core}") for core in range(connections)]

    def run(self, code):
        before = self.clock.now_ps
        self.clock.run_until(self.clock.start(code))
        return self.clock.now_ps - before


def take(socket, thread, n_bytes):
    data = b""
    while len(data) < n_bytes:
        data += yield from socket.recv(thread, n_bytes - len(data))
    return data


def wire_ps(net, n_bytes):
    f = net.system.platform.fabric
    return ceil_div((n_bytes + net.kernel.frame_bytes) * 8 * PS, f.link_bits_per_s)


def one_way_ps(net, n_bytes=64):
    """From send(2) until a receiver that sleeps in recv(2) has the bytes."""
    k, fabric = net.kernel, net.system.fabric
    out = net.os.syscall_ps + k.send_ps + k.copy_ps_per_byte * n_bytes + k.adapter_ps
    link = fabric.lead_ps + fabric.crossing_ps + wire_ps(net, n_bytes) + fabric.last_ps
    woken = net.os.interrupt_ps + k.receive_ps + net.os.wake_ps + net.os.switch_ps
    into = k.adapter_ps + k.moderation_ps + woken + k.copy_ps_per_byte * n_bytes
    return out + link + into


def test_a_message_takes_the_sum_of_its_parts():
    net, got = Net(), []
    a, b = net.ends[0]

    def server():
        got.append((yield from take(b, net.servers[0], 64)))
        got.append(net.clock.now_ps)

    net.clock.start(server())
    net.clock.start(a.send(net.clients[0], b"x" * 64))
    net.clock.run_until()
    assert got[0] == b"x" * 64
    assert got[1] == pytest.approx(one_way_ps(net), abs=5)


def test_a_round_trip_is_within_what_is_published_for_kernels():
    """Tens of microseconds: 20 to 60 for a request to a store (Luo et al., TCAD 2024, section I)."""
    net = Net()

    def echo():
        data = yield from take(net.ends[0][1], net.servers[0], 64)
        yield from net.ends[0][1].send(net.servers[0], data)

    def client():
        yield from net.ends[0][0].send(net.clients[0], b"x" * 64)
        yield from take(net.ends[0][0], net.clients[0], 64)

    net.clock.start(echo())
    assert 10 * US < net.run(client()) < 60 * US


def stream(net, number, n_bytes, chunk):
    a, b = net.ends[number]
    data = bytes(turn % 251 for turn in range(n_bytes))

    def client():
        for at in range(0, n_bytes, chunk):
            yield from a.send(net.clients[number], data[at : at + chunk])

    def server():
        found = yield from take(b, net.servers[number], n_bytes)
        assert found == data

    return client(), server()


@pytest.mark.long
def test_many_streams_share_the_link():
    """Cores that cost nothing: then frames on the wire are the ceiling."""
    names = ("send", "receive", "segment_work", "syscall", "interrupt", "wake", "switch", "moderation")
    net, size = Net(4, copy_ps_per_byte=0, **{f"{name}_ps": 0 for name in names}), 1 << 20
    processes = [net.clock.start(code) for number in range(4) for code in stream(net, number, size, BURST_BYTES)]
    for process in processes:
        net.clock.run_until(process)
    k = net.kernel
    segments = 4 * 16 * -(-BURST_BYTES // k.segment_bytes)
    wire = (4 * size + segments * k.frame_bytes) * 8 * PS / net.system.platform.fabric.link_bits_per_s
    assert net.clock.now_ps == pytest.approx(wire, rel=0.05)


def test_the_receiving_core_is_a_ceiling():
    """Small messages that nobody waits for: each costs an interrupt, the stack, and a copy."""
    net = Net(moderation_ps=0)
    a, b = net.ends[0]

    def client():
        for _ in range(300):
            yield from a.send(net.clients[0], b"x" * 64)

    net.clock.start(client())
    net.clock.run_until()
    k = net.kernel
    each = net.os.syscall_ps + k.send_ps + 64 * k.copy_ps_per_byte
    softirq = net.os.interrupt_ps + k.receive_ps
    assert b.readable_bytes == 300 * 64
    assert net.clock.now_ps == pytest.approx(300 * max(each, softirq), rel=0.05)


def test_moderation_brings_messages_together():
    seen = {}
    for moderation in (0, 50 * US):
        net = Net(moderation_ps=moderation)
        a, b = net.ends[0]

        def server(net=net, b=b, moderation=moderation):
            wakes, left = 0, 640
            while left:
                left -= len((yield from b.recv(net.servers[0], 640)))
                wakes += 1
            seen[moderation] = wakes

        def client(net=net, a=a):
            for _ in range(10):
                yield from a.send(net.clients[0], b"x" * 64)

        net.clock.start(client())
        net.run(server())
    assert seen[50 * US] < seen[0]


def test_a_sender_waits_for_the_receivers_window():
    net = Net(window_bytes=4096)
    a, b = net.ends[0]
    sender = net.clock.start(a.send(net.clients[0], bytes(10_000)))
    net.clock.run_until()
    assert b.readable_bytes == 4096
    assert sender.is_alive
    net.run(take(b, net.servers[0], 10_000))
    assert not sender.is_alive


def test_epoll_tells_who_can_be_read_and_sleeps_until_somebody_can():
    net, found = Net(3), []
    epoll, server = Epoll(net.kernel), net.servers[0]
    for _, end in net.ends:
        epoll.add(end)

    def code():
        for _ in range(2):
            ready = yield from epoll.wait(server)
            found.append([net.ends.index((end.peer, end)) for end in ready])
            for end in ready:
                yield from end.recv(server, 64)
        found.append(net.clock.now_ps)

    def later():
        yield net.clock.timeout(100 * US)
        yield from net.ends[0][0].send(net.clients[0], b"c")

    net.clock.start(net.ends[2][0].send(net.clients[2], b"a"))
    net.clock.start(later())
    net.run(code())
    assert found[:2] == [[2], [0]]
    assert found[2] > 100 * US
    net.run(net.ends[1][0].send(net.clients[1], b"b"))
    net.run(net.ends[2][0].send(net.clients[2], b"b"))
    net.clock.run_until()
    assert sum(end.readable_bytes > 0 for _, end in net.ends) == 2
    assert net.run(epoll.wait(server)) == net.os.syscall_ps + 2 * net.kernel.epoll_ps


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 5000), min_size=1, max_size=6), min_size=1, max_size=3),
    st.integers(1, 4000),
    st.integers(600, 20_000),
)
def test_no_byte_is_lost_or_overtakes(messages, most, window):
    net = Net(len(messages), window_bytes=window)
    found = [b""] * len(messages)
    sent = [b"".join(bytes([turn + 1]) * size for turn, size in enumerate(sizes)) for sizes in messages]

    def client(number):
        for turn, size in enumerate(messages[number]):
            yield from net.ends[number][0].send(net.clients[number], bytes([turn + 1]) * size)

    def server(number):
        while len(found[number]) < len(sent[number]):
            data = yield from net.ends[number][1].recv(net.servers[number], most)
            assert 1 <= len(data) <= most
            found[number] += data

    processes = [net.clock.start(code(number)) for code in (client, server) for number in range(len(messages))]
    for process in processes:
        net.clock.run_until(process)
    assert found == sent


def test_sockets_and_rdma_share_the_port():
    """A WRITE behind a burst of segments waits for them on the wire."""
    quiet, busy = Rig(), Rig()
    alone = quiet.client.write(line(1)).ps
    client, server = busy.client.node, busy.server.node
    socket, _ = connect(client, server)
    kernel = busy.platform.kernel
    thread = client.thread(0, "tcp")
    busy.clock.run_until(busy.clock.start(socket.send(thread, bytes(BURST_BYTES))))
    start = busy.clock.now_ps
    busy.run(start + kernel.adapter_ps - 300_000)
    began = busy.clock.now_ps
    assert (
        busy.client.write(line(1)).ps - began
        > alone + BURST_BYTES * 8 * PS // busy.platform.fabric.link_bits_per_s // 2
    )


# ends of connections -------------------------------------------------------------------------------------------------
def test_who_waits_for_a_process_that_dies_learns_that_its_connection_is_reset():
    net = Net()
    process = net.system.nodes["server"][0].process("server")
    (ours, theirs), *_ = net.ends
    process.own(theirs)
    seen = []

    def client():
        yield from ours.send(net.clients[0], b"hello")
        try:
            yield from ours.recv(net.clients[0], 10)
        except ConnectionReset:
            seen.append(net.clock.now_ps)
        with pytest.raises(ConnectionReset):
            yield from ours.send(net.clients[0], b"again")

    running = net.clock.start(client())
    net.clock.run_until(10**9)
    assert running.is_alive
    process.end()
    net.clock.run_until(running)
    assert seen[0] > 10**9


MS, S = 10**9, 10**12


def after_a_power_failure(sends_ps, keepalive=None, down_ps=MS, dies_ps=None):
    """When the client learns that its connection is reset: the server's power fails at 10 ms, its process has died at
    ``dies_ps``; None: it waits on.
    """
    net = Net()
    client, server = net.system.nodes["client"][0], net.system.nodes["server"][0]
    ours, theirs = connect(client, server, keepalive=keepalive)
    server.process("server").own(theirs)
    seen = []

    def code():
        yield net.clock.timeout(sends_ps)
        yield from ours.send(net.clients[0], b"hello")
        with pytest.raises(ConnectionReset):
            yield from ours.recv(net.clients[0], 10)
        seen.append(net.clock.now_ps)

    net.clock.start(code())
    if dies_ps is not None:
        net.clock.run_until(dies_ps)
        server.process("server").end()
    net.clock.run_until(10 * MS)
    server.power_off()
    net.clock.run_until(10 * MS + down_ps)
    server.power_on(lambda number, line: bytes(64))
    net.clock.run_until(100 * S)
    return seen[0] if seen else None


def test_a_machine_whose_power_is_back_answers_what_comes_for_an_old_connection_with_a_reset():
    assert S < after_a_power_failure(S) < S + MS


def test_what_was_sent_while_it_had_no_power_comes_again_and_is_answered_with_a_reset():
    """After 200 ms, and 400 ms after that."""
    assert 210 * MS < after_a_power_failure(10 * MS + 100 * US) < 215 * MS
    assert 610 * MS < after_a_power_failure(10 * MS + 100 * US, down_ps=300 * MS) < 615 * MS


def test_who_waits_for_a_reply_of_a_machine_that_lost_power_learns_by_a_probe_or_not_at_all():
    assert after_a_power_failure(5 * MS) is None
    assert 15 * S <= after_a_power_failure(5 * MS, keepalive="15 s") < 15 * S + 10 * MS


def test_who_waits_for_a_process_that_died_just_before_its_machine_lost_power_learns_by_a_probe():
    """The reset had not left yet."""
    assert 15 * S <= after_a_power_failure(5 * MS, keepalive="15 s", dies_ps=10 * MS - 1) < 15 * S + 10 * MS
    assert 9 * MS < after_a_power_failure(5 * MS, keepalive="15 s", dies_ps=9 * MS) < 10 * MS


def test_what_was_sent_before_the_end_still_arrives():
    net = Net()
    (ours, theirs), *_ = net.ends
    got = []

    def server():
        yield from theirs.send(net.servers[0], b"last")
        theirs.close()

    def client():
        got.append((yield from ours.recv(net.clients[0], 10)))
        with pytest.raises(ConnectionReset):
            yield from ours.recv(net.clients[0], 10)

    net.clock.start(server())
    net.clock.run_until(net.clock.start(client()))
    assert got == [b"last"]


def test_epoll_wait_ends_by_its_deadline_and_sees_sockets_that_are_added_meanwhile():
    net = Net()
    epoll, found = Epoll(net.kernel), []

    def server():
        found.append((yield from epoll.wait(net.servers[0], net.servers[0].deadline("1 ms"))))
        found.append(net.clock.now_ps)
        found.append((yield from epoll.wait(net.servers[0])))

    running = net.clock.start(server())
    net.clock.run_until(2 * 10**9)
    assert found[0] == [] and 10**9 <= found[1] < 11 * 10**8
    (ours, theirs), *_ = net.ends
    epoll.add(theirs)
    net.clock.start(ours.send(net.clients[0], b"hello"))
    net.clock.run_until(running)
    assert found[2] == [theirs]
