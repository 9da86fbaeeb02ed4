"""The slot and the network: serialisation, cut-through, fair shares, and stations asked in order whatever the load."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.fabric.fabric import Fabric
from rpsim.models.pcie.link import PcieLink
from rpsim.models.profiles.platform import load_platform
from rpsim.sim.clock import Clock
from rpsim.sim.errors import InputError

from ...rig import LINE, Rig, line
from ..hops import Hops

PLATFORM = load_platform("optane-adr")
BYTE_PS = 80  # 100 Gb/s


def arrivals(packets, **changes):
    """Send (source, instant, bytes) to ``server``; returns [(instant of the last bit there, source, bytes)]."""
    clock, found = Clock(), []
    fabric = Fabric(clock, replace(PLATFORM.fabric, **changes), ["a", "b", "server"])
    for source, at, n_bytes in packets:

        def deliver(tail_ps, source=source, n_bytes=n_bytes):
            found.append((tail_ps, source, n_bytes))

        clock.call_at(at, fabric.send, source, "server", at, n_bytes, deliver)
    clock.run_until()
    return found


def test_a_switch_is_cut_through():
    """A packet is serialised once, however many links it takes."""
    fixed = 2 * PLATFORM.fabric.propagation_ps + PLATFORM.fabric.switch_ps
    assert arrivals([("a", 0, 4096)]) == [(4096 * BYTE_PS + fixed, "a", 4096)]
    assert arrivals([("a", 0, 1)]) == [(BYTE_PS + fixed, "a", 1)]


def test_packets_of_one_port_follow_each_other():
    tails = [ps for ps, _, _ in arrivals([("a", 0, 1000), ("a", 0, 1000), ("a", 0, 10)])]
    assert [later - earlier for earlier, later in pairwise(tails)] == [1000 * BYTE_PS, 10 * BYTE_PS]


def test_two_senders_share_the_output_of_the_switch():
    packets = [(source, 0, 4096) for _ in range(50) for source in "ab"]
    found = arrivals(packets)
    last = found[-1][0]
    fixed = 2 * PLATFORM.fabric.propagation_ps + PLATFORM.fabric.switch_ps
    assert last == 100 * 4096 * BYTE_PS + fixed  # the output is never idle, and never faster than a link
    half = [source for ps, source, _ in found if ps <= last // 2]
    assert abs(half.count("a") - half.count("b")) <= 1


def test_a_packet_that_comes_first_to_the_switch_goes_first():
    found = arrivals([("a", 0, 4096), ("b", 1, 64)])
    assert [source for _, source, _ in found] == ["a", "b"]
    assert found[1][0] - found[0][0] == 64 * BYTE_PS


@pytest.mark.long
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 10**6), st.integers(1, 4200)), max_size=40))
def test_what_arrives_is_in_order_and_no_faster_than_the_link(packets):
    found = arrivals(packets)
    assert len(found) == len(packets)
    for (earlier, _, _), (later, _, n_bytes) in pairwise(found):
        assert later - earlier >= n_bytes * BYTE_PS


def test_a_route_is_the_shortest_path():
    fabric = Fabric(Clock(), PLATFORM.fabric, ["a", "b"])
    path = nx.shortest_path(fabric.graph, "a", "b")
    assert fabric.route("a", "b") == tuple(pairwise(path)) == (("a", "switch"), ("switch", "b"))


@pytest.mark.parametrize(("switches", "phy_ps"), [(0, 0), (0, 7_000), (1, 7_000), (2, 0), (5, 110_000)])
def test_every_switch_and_every_link_on_the_way_takes_its_time(switches, phy_ps):
    rig = Rig(fabric={"switches": switches, "phy_ps": phy_ps})
    fabric = PLATFORM.fabric
    more_ps = (switches + 1) * (fabric.propagation_ps + phy_ps) + switches * fabric.switch_ps
    usual_ps = 2 * fabric.propagation_ps + fabric.switch_ps
    assert rig.client.write(line(1)).ps == Hops(PLATFORM).write(64, inline=True) + 2 * (more_ps - usual_ps)
    read = rig.client.read(4096, line=64)
    assert read.data == bytes(4096)


def test_a_cable_has_two_ends():
    with pytest.raises(InputError, match="3 machines on a cable"):
        Rig(clients=2, fabric={"switches": 0})


# PCIe -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["first byte", "aligned"])
@given(address=st.integers(0, 10_000), length=st.integers(0, 2000), mps=st.sampled_from([64, 128, 256, 512]))
def test_tlps_carry_every_byte_once_within_their_boundaries(where, address, length, mps):
    data = bytes(at % 251 for at in range(length))
    link = PcieLink(replace(PLATFORM.pcie, mps_bytes=mps, tlp_cut=where))
    bound, at = 4096 if where == "first byte" else mps, address
    for start, part in link.tlps(address, data):
        assert start == at and 0 < len(part) <= mps
        assert start // bound == (start + len(part) - 1) // bound
        at += len(part)
    assert at == address + len(data)
    assert b"".join(part for _, part in link.tlps(address, data)) == data


def test_both_directions_are_apart_and_reads_queue_behind_writes():
    link = PcieLink(replace(PLATFORM.pcie, tlp_bits_per_s=8 * 10**9))  # a byte takes 1 ns
    head = PLATFORM.pcie
    assert link.write(0, 256) == (0, (256 + head.tlp_header_write_bytes) * 1000)
    behind_ps = (256 + head.tlp_header_write_bytes + head.tlp_header_read_bytes) * 1000
    assert link.read_request(0, 8) == behind_ps
    assert link.read_completion(0, 8) == (8 + head.tlp_header_completion_bytes) * 1000


def test_a_long_read_takes_a_request_for_each_mrrs_and_a_completion_for_each_mps():
    link = PcieLink(replace(PLATFORM.pcie, tlp_bits_per_s=8 * 10**9))
    assert link.read_request(0, 1025) == 3 * PLATFORM.pcie.tlp_header_read_bytes * 1000
    assert link.read_completion(0, 1025) == (1025 + 5 * PLATFORM.pcie.tlp_header_completion_bytes) * 1000


# the whole way -----------------------------------------------------------------------------------------------------


def test_two_clients_share_the_servers_link():
    """Each of two machines gets half of what one gets alone."""

    def rate(clients):
        rig = Rig(clients=clients, nic={"post_wqe_ps": 1, "rx_processing_ps": 1}, pcie={"tlp_bits_per_s": 10**12})
        for _ in range(40):
            for client in rig.clients:
                client.post_write(at=0, data=line(1, 64))
        rig.run()
        done = sorted(found.ps for found in rig.completions)
        return len(done) * 4096 * 8 * 10**12 / (done[-1] - done[0])

    link = PLATFORM.fabric.link_bits_per_s
    headers = 4096 / (4096 + PLATFORM.nic.headers.write_bytes)
    assert rate(2) == pytest.approx(link * headers, rel=0.05)
    alone = rate(1)
    assert alone <= link * headers * 1.05


VERBS = st.tuples(
    st.sampled_from(["write", "read", "send"]),
    st.integers(0, 3_000_000),
    st.integers(0, 60),
    st.sampled_from([1, 8, 64, 200, 256, 600, 4096, 8192]),
)


@pytest.mark.long
@settings(max_examples=25)
@given(
    st.lists(st.lists(VERBS, max_size=8), min_size=1, max_size=4),
    st.sampled_from(["on", "off"]),
    st.sampled_from([{}, {"staging_bytes": 8192}, {"blueflame": False}, {"mtu_bytes": 1024, "outstanding_reads": 2}]),
    st.lists(
        st.tuples(st.sampled_from(["flush", "store", "load", "ntstore", "clflush"]), st.integers(0, 60)), max_size=9
    ),
)
def test_no_workload_asks_a_station_out_of_order(programs, ddio, nic, local):
    """Random verbs from several machines while the server's cores work on the same lines: everything completes."""
    rig = Rig(ddio=ddio, clients=2, connections=2, nic=nic, pcie={"tlp_bits_per_s": 40 * 10**9})
    posted = 0
    for client, program in zip(rig.clients, programs, strict=False):
        rig.server.post_recv(client, length=8192, count=len(program))
        for verb, at, number, size in program:
            post = {"write": client.post_write, "read": client.post_read, "send": client.post_send}[verb]
            post(at, **({"length": size} if verb == "read" else {"data": bytes(size)}), line=number)
            posted += 1

    def busy(thread, turn):
        for what, number in local[turn::2]:
            address = rig.address(number)
            extra = bytes([1]) * LINE if what.endswith("store") else 4 * LINE
            yield from getattr(thread, what)(address, extra)
        yield from thread.sfence()

    for turn, thread in enumerate(rig.server.threads):
        rig.clock.start(busy(thread, turn))
    rig.run()
    assert len(rig.completions) == posted
    assert {done.status for done in rig.completions} <= {"success"}
