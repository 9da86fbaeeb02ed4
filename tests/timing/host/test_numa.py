"""Does what crosses the link between sockets take the time that it takes, and do copies stay coherent?"""

from __future__ import annotations

import dataclasses

import pytest

from rpsim.models.host.interconnect import Interconnect
from rpsim.models.nic.nic import Nic
from rpsim.models.profiles.parameters.sockets import InterconnectParameters
from rpsim.models.profiles.platform import load_platform
from rpsim.models.profiles.vary import varied
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import Opcode
from rpsim.validation.rigs.pair import Pair

LINE = 64
CROSSING_PS = 28_000
OF_A_LINE_PS = 1_731
"""72 B at 41.6 GB/s, rounded up."""
MEMORY = ("dram", "pm", "far_dram", "far_pm")


def machine(cores=2, **settings):
    platform = varied(load_platform("fast20-sockets", **settings), {"interconnect.directory": "none"})
    system = System(platform, {"server": [NodeSpec(cores=cores, memory=MEMORY)]}, seed=1)
    return system, system.nodes["server"][0]


def run(system, code):
    return system.clock.run_until(system.clock.start(code))


def took_ps(thread, *steps):
    """The time of the last of some steps."""
    for step in steps[:-1]:
        yield from step
    start_ps = thread.now_ps
    yield from steps[-1]
    return thread.now_ps - start_ps


def on_socket(node, name):
    """A thread on the first core of a socket: one of fast20-sockets has 24."""
    return node.thread(24 if name == "socket1" else 0, f"thread of {name}")


def both(memory, steps):
    """What the last step takes on the own socket's memory, and on the other one's."""
    found = []
    for name in (memory, f"far_{memory}"):
        system, node = machine()
        thread, at = node.thread(0, "thread"), node.memory[name].allocate(1 << 20, "region", align=1 << 20)
        found.append(run(system, took_ps(thread, *steps(thread, at))))
    return found


# times ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("memory", ["dram", "pm"])
def test_a_load_of_far_memory_takes_a_round_trip_and_its_line_longer(memory):
    near_ps, far_ps = both(memory, lambda thread, at: [thread.load(at + 4096, 8)])
    assert far_ps - near_ps == 2 * CROSSING_PS + OF_A_LINE_PS


def test_a_line_of_far_memory_that_is_cached_is_as_near_as_any():
    near_ps, far_ps = both("pm", lambda thread, at: [thread.load(at, 8), thread.load(at, 8)])
    assert far_ps == near_ps


def test_a_fence_behind_a_flush_waits_for_both_ways():
    """80 B: the announcement and the line with its header."""

    def steps(thread, at):
        return [thread.load(at, 8), thread.store(at, bytes(8)), thread.clwb(at, 8), thread.sfence()]

    near_ps, far_ps = both("dram", steps)
    # Of the way to the queue, 21 ns without its acceptance, the fence waits for what comes after the clwb's own time.
    link_ps = 2 * CROSSING_PS + 80 * 10**12 // (41_600 * 10**6) + 1
    assert far_ps - near_ps == pytest.approx(link_ps, abs=1)


def test_a_fence_behind_a_non_temporal_store_waits_for_ownership_too():
    near_ps, far_ps = both("dram", lambda thread, at: [thread.ntstore(at, bytes(LINE)), thread.sfence()])
    assert 4 * CROSSING_PS < far_ps - near_ps < 4 * CROSSING_PS + 3_000


@pytest.mark.parametrize("n_bytes", [72, 80])
def test_the_link_carries_what_its_rate_says(n_bytes):
    link = Interconnect(InterconnectParameters(8 * 10**12, CROSSING_PS, 8))  # a byte each ps
    many = 1000
    for _ in range(many):
        last_ps = link.fetch_ps(0, 1, 0, 0) if n_bytes == 72 else link.write_ps(1, 0, 0)
    assert last_ps == many * n_bytes + CROSSING_PS * (2 if n_bytes == 72 else 1)
    assert link.sent_bytes[1, 0] == many * n_bytes
    assert link.fetch_ps(1, 0, 0, 0) == LINE + 8 + 2 * CROSSING_PS + (many * 8 if n_bytes == 72 else 0)


def test_reads_of_far_memory_stop_at_the_link():
    """Ten fill buffers of each of 16 cores want 73 GB/s."""
    slow = varied(load_platform("fast20-sockets"), {"interconnect.link": "10 GB/s"})
    system = System(slow, {"server": [NodeSpec(cores=16, memory=MEMORY)]}, seed=1)
    node = system.nodes["server"][0]
    base, each = node.memory["far_dram"].allocate(1 << 24, "region"), 1 << 13

    def code(number):
        yield from node.thread(number, f"thread {number}").prefetch(base + number * each, each)

    running = [system.clock.start(code(number)) for number in range(16)]
    for done in running:
        system.clock.run_until(done)
    assert 16 * each * 1e12 / system.clock.now_ps == pytest.approx(10e9 * 64 / 72, rel=0.1)


def test_far_non_temporal_stores_hold_their_buffers_for_two_round_trips():
    """Ten buffers, each for its issue, ``cpu.ntstore_hold`` (137 ns) and the ways: one line each 25.9 ns."""
    system, node = machine()
    thread, at = node.thread(0, "thread"), node.memory["far_dram"].allocate(1 << 16, "region")
    held_ps = run(system, took_ps(thread, thread.ntstore(at, bytes(1 << 16))))
    assert held_ps / (1 << 10) == pytest.approx((10_000 + 137_000 + 4 * CROSSING_PS) / 10, rel=0.02)


# coherence ------------------------------------------------------------------------------------------------------------
def lines_of(node, socket):
    return set(node.sockets[socket].caches.llc.tags.state) | set(node.sockets[socket].caches._holders)


def test_a_line_is_read_by_both_sockets_and_stored_to_by_one():
    system, node = machine(cores=25)
    one, other = on_socket(node, "socket0"), on_socket(node, "socket1")
    at = node.memory["pm"].allocate(LINE, "line")
    for thread in (one, other):
        run(system, thread.load(at, 8))
    assert len(lines_of(node, "socket0")) == len(lines_of(node, "socket1")) == 1
    from_cache_ps = run(system, took_ps(other, other.store(at, b"12345678")))
    assert lines_of(node, "socket0") == set()
    assert from_cache_ps
    assert run(system, one.load(at, 8)) == b"12345678"


def test_a_dirty_line_is_written_back_by_a_flush_of_the_other_socket():
    system, node = machine(cores=25)
    one, other = on_socket(node, "socket0"), on_socket(node, "socket1")
    at = node.memory["pm"].allocate(LINE, "line")
    run(system, other.store(at, bytes(8)))
    written = node.host.home.traffic(node.memory["pm"].number).written_bytes
    run(system, one.clwb(at, 8))
    run(system, one.sfence())
    assert node.host.home.traffic(node.memory["pm"].number).written_bytes == written + LINE
    assert lines_of(node, "socket1") == set()  # clwb of Cascade Lake drops it


def test_a_dirty_line_of_the_other_socket_comes_from_its_cache():
    system, node = machine(cores=25)
    one, other = on_socket(node, "socket0"), on_socket(node, "socket1")
    at = node.memory["pm"].allocate(LINE, "line")
    run(system, other.store(at, bytes(8)))
    cached_ps = run(system, took_ps(one, one.load(at, 8)))
    assert cached_ps == 27_300 + 2 * CROSSING_PS + OF_A_LINE_PS  # the shared cache there, and the link


def test_wbinvd_is_for_all_sockets():
    system, node = machine(cores=25)
    one, other = on_socket(node, "socket0"), on_socket(node, "socket1")
    at = node.memory["far_pm"].allocate(LINE, "line")
    run(system, other.store(at, bytes(8)))
    run(system, one.wbinvd())
    assert node.host.home.traffic(node.memory["far_pm"].number).written_bytes == LINE


@pytest.mark.parametrize(("directory", "written"), [("none", 0), ("memory", LINE)])
def test_a_directory_in_memory_is_written_when_a_far_core_reads_a_line_first(directory, written):
    platform = varied(load_platform("fast20-sockets"), {"interconnect.directory": directory})
    system = System(platform, {"server": [NodeSpec(memory=MEMORY)]}, seed=1)
    node = system.nodes["server"][0]
    thread, at = node.thread(0, "thread"), node.memory["far_pm"].allocate(LINE, "line")
    for _ in range(2):
        run(system, thread.load(at, 8))
        run(system, thread.wbinvd())
    assert node.host.home.traffic(node.memory["far_pm"].number).written_bytes == written


def test_a_line_that_comes_home_is_written_again_when_it_leaves_again():
    system = System(load_platform("fast20-sockets"), {"server": [NodeSpec(memory=MEMORY)]}, seed=1)
    node = system.nodes["server"][0]
    thread, at = node.thread(0, "thread"), node.memory["far_pm"].allocate(LINE, "line")
    for step in (thread.load(at, 8), thread.ntstore(at, bytes(LINE)), thread.load(at, 8)):
        run(system, step)
    assert node.host.home.traffic(node.memory["far_pm"].number).written_bytes == 3 * LINE


# an adapter -----------------------------------------------------------------------------------------------------------
def pair(adapter):
    return Pair(
        varied(load_platform("fast20-sockets", adapter=adapter), {"interconnect.directory": "none"}), memory="pm"
    )


def latency_ps(pair, *work):
    """The latency of the last of some requests."""

    def code():
        for wr in work:
            start_ps = pair.thread.now_ps
            yield from pair.thread.post_send(pair.queue_pairs[0], wr)
            yield from pair.thread.poll(pair.sent)
        return pair.thread.now_ps - start_ps

    return pair.run(code())


@pytest.mark.parametrize("plain", [True, False], ids=["the plain way", "the general code"])
def test_a_read_of_far_memory_crosses_the_link_at_both_ends(plain, monkeypatch):
    """There for the data, and here before the data shows, which the completion comes behind."""
    monkeypatch.setattr(Nic, "takes_plain_way", plain)
    near_ps, far_ps = (
        latency_ps(one, *(one.work(Opcode.IBV_WR_RDMA_READ, LINE, at=at) for at in (0, 1 << 16)))
        for one in (pair("socket0"), pair("socket1"))
    )
    expected_ps = 4 * CROSSING_PS + OF_A_LINE_PS
    assert expected_ps - 20_000 < far_ps - near_ps <= expected_ps


def test_a_write_to_far_memory_is_visible_a_round_trip_later():
    found = []
    for adapter in ("socket0", "socket1"):
        one = pair(adapter)
        latency_ps(one, one.work(Opcode.IBV_WR_RDMA_WRITE, LINE))
        found.append(one.server.host.last_visible_ps)
    assert found[1] - found[0] == 2 * CROSSING_PS


def test_an_inbound_line_of_far_memory_is_in_the_cache_of_the_adapters_socket():
    for adapter, other in (("socket0", "socket1"), ("socket1", "socket0")):
        one = pair(adapter)
        latency_ps(one, one.work(Opcode.IBV_WR_RDMA_WRITE, LINE), one.work(Opcode.IBV_WR_RDMA_READ, LINE))
        one.server.host.catch_up(one.clock.now_ps)
        assert (len(lines_of(one.server, adapter)), len(lines_of(one.server, other))) == (1, 0)


def test_an_inbound_line_takes_the_place_of_a_copy_elsewhere():
    one = pair("socket1")
    thread = one.server_thread()  # on socket0
    one.run(thread.store(one.target, bytes(8)))
    assert len(lines_of(one.server, "socket0")) == 1
    latency_ps(one, one.work(Opcode.IBV_WR_RDMA_WRITE, 8))
    one.server.host.catch_up(one.server.host.last_visible_ps)
    assert (len(lines_of(one.server, "socket0")), len(lines_of(one.server, "socket1"))) == (0, 1)


# one socket -----------------------------------------------------------------------------------------------------------
def test_a_machine_whose_sockets_are_not_named_is_what_it_was():
    system = System(load_platform("fast20"), {"server": [NodeSpec()]}, seed=1)
    node = system.nodes["server"][0]
    assert list(node.sockets) == [""]
    assert type(node.host).__name__ == "HostMemory"
    assert node.cores[0].host is node.host


def test_cores_fill_their_socket_and_then_the_next():
    platform = load_platform("fast20-sockets", cores="socket1")
    small = dataclasses.replace(
        platform, sockets={name: dataclasses.replace(one, cores=2) for name, one in platform.sockets.items()}
    )
    node = System(small, {"server": [NodeSpec(cores=5)]}, seed=1).nodes["server"][0]
    assert [core.host.index for core in node.cores] == [1, 1, 0, 0, 1]
