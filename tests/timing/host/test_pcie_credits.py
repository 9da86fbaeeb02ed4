"""Posted credits and staging: nothing is lost, nothing overtakes, and slow memory reaches the adapter."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpsim.models.pcie.credits import UNIT_BYTES, PostedCredits, count_at_once, matter, units
from rpsim.models.pcie.link import PcieLink, cut
from rpsim.models.profiles.parameters.memory import Controller
from rpsim.models.profiles.platform import load_platform
from rpsim.sim.trace import Stage
from rpsim.validation.naive.arithmetic import ArithmeticSystem
from rpsim.validation.naive.workload import Connection, Request, Workload

from ...rig import Rig, line
from ..workloads import changed

PLATFORM = load_platform("optane-adr")
HEADERS, DATA_BYTES, MPS = 4, 1024, 256


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, MPS), st.integers(0, 300)), max_size=40))
def test_credits_are_never_negative_and_never_more_than_there_are(tlps):
    credits, now_ps, held = PostedCredits(HEADERS, DATA_BYTES, MPS), 0, []
    for gap_ps, n_bytes, hold_ps in tlps:
        now_ps += gap_ps
        held = [entry for entry in held if entry[0] > now_ps]
        need = -(-n_bytes // UNIT_BYTES)
        room = len(held) < HEADERS and sum(n for _, n in held) + need <= DATA_BYTES // UNIT_BYTES
        assert credits.take(now_ps, 1, need) is room
        if room:
            credits.give(now_ps + hold_ps, n_bytes)
            held.append((now_ps + hold_ps, need))
        assert 0 <= credits.headers <= HEADERS and 0 <= credits.data <= DATA_BYTES // UNIT_BYTES


def test_credits_that_would_never_do_are_refused():
    with pytest.raises(ValueError, match="never let a TLP of 256 B go"):
        PostedCredits(1, 128, 256)


@pytest.mark.parametrize("where", ["first byte", "aligned"])
@given(address=st.integers(0, 5000), length=st.integers(1, 5000), mps=st.sampled_from([64, 128, 256, 512]))
def test_what_a_write_needs_is_what_its_tlps_need(where, address, length, mps):
    link = PcieLink(replace(PLATFORM.pcie, mps_bytes=mps, tlp_cut=where))
    tlps = [part for _, part in link.tlps(address, bytes(length))]
    needed = units(address, length, mps, where == "first byte")
    assert needed == (len(tlps), sum(-(-len(part) // UNIT_BYTES) for part in tlps))


@pytest.mark.parametrize(
    ("where", "sizes"), [("first byte", [255, 256, 256, 228, 256, 49]), ("aligned", [227, 256, 256, 256, 256, 49])]
)
def test_where_tlps_end(where, sizes):
    """A write of 1,300 B that begins 995 B before the end of a page: none crosses that end; dwords are whole."""
    assert cut(4096 - 995, 1300, 256, where == "first byte") == sizes


@pytest.mark.long
@given(st.lists(st.integers(1, 256), min_size=300, max_size=300), st.integers(1, 256))
@settings(max_examples=30)
def test_credits_that_do_not_matter_are_never_used_up(mixed, same):
    """The fastest streams that the link carries, of one size and of many."""
    pcie = PLATFORM.pcie
    assert not matter(changed(PLATFORM, llc={"victims_hold": False}))
    for sizes in (mixed, [same] * 300, [1] * 300):
        link, credits = PcieLink(pcie), PostedCredits(pcie.posted_headers, pcie.posted_data_bytes, pcie.mps_bytes)
        for size in sizes:
            start_ps, at_root_ps = link.write(0, size)
            assert credits.take(start_ps, 1, -(-size // UNIT_BYTES))
            credits.give(at_root_ps + pcie.posted_write_ps, size)


@pytest.mark.parametrize("few", [{"posted_headers": 32}, {"posted_data_bytes": 2048}])
def test_few_credits_matter(few):
    assert matter(changed(PLATFORM, pcie=few, llc={"victims_hold": False}))
    assert count_at_once(changed(PLATFORM, pcie=few)) and not count_at_once(PLATFORM)
    assert matter(load_platform("optane-adr", ddio="off"))


# the whole way --------------------------------------------------------------------------------------------------------


def stream(platform, size=4096, count=200, clients=2, seed=1, window=16):
    """Clients that WRITE into disjoint parts of the server's pool; returns the system after the run and GB/s."""
    share = 1 << 18
    connections = tuple(
        Connection(
            client + 1,
            0,
            0,
            0,
            window,
            tuple(Request("WRITE", size, client * share + turn * size % share) for turn in range(count)),
            one_buffer=True,
        )
        for client in range(clients)
    )
    workload = Workload(platform, clients + 1, 1, "pm", connections, (), seed, clients * share)
    system = ArithmeticSystem(workload)
    outcome = system.run()
    last_ps = max(seen.at_ps for seen in outcome.seen)
    assert len(outcome.seen) == clients * count
    return system, outcome, clients * count * size * 1000 / last_ps


@pytest.mark.long
def test_the_default_throttles_nothing_that_the_cache_takes():
    endless = changed(PLATFORM, pcie={"posted_headers": 10**6, "posted_data_bytes": 10**8})
    assert stream(PLATFORM)[2] == stream(endless)[2]


@pytest.mark.long
@pytest.mark.parametrize("per_dimm", [100_000_000, 300_000_000])
def test_slow_memory_is_what_the_wire_gets_with_ddio_off(per_dimm):
    """As many bytes a second as six DIMMs write, once credits and staging are full."""
    bare = {"write_bandwidth_bits_per_s": per_dimm * 8, "controller": Controller(buffer_bytes=0)}
    platform = changed(load_platform("optane-adr", ddio="off"), media=bare)
    assert stream(platform)[2] == pytest.approx(6 * per_dimm / 1e9, rel=0.15)


@pytest.mark.long
def test_credits_bound_what_is_under_way():
    """Little's law: as many bytes a second as data credits stand for, over how long each is held."""
    slot = {"posted_data_bytes": 1024, "posted_write_ps": 2_000_000}
    platform = changed(PLATFORM, pcie=slot, nic={"staging_bytes": 8192})
    tlp_ps = PcieLink(platform.pcie).write_ps(256)
    assert stream(platform)[2] == pytest.approx(1024 * 1000 / (2_000_000 + tlp_ps), rel=0.1)


ORDERS = ["arrival", "round-robin", "random"]


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ddio", ["on", "off"])
@given(
    credits=st.sampled_from([(192, 8192), (2, 8192), (8, 512)]),
    size=st.sampled_from([64, 300, 5000]),
    seed=st.integers(0, 3),
)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_byte_arrives_once_and_each_queue_pair_keeps_its_order(order, ddio, credits, size, seed):
    """Whatever the arbiter does: a slow slot, small staging, several queue pairs."""
    headers, data_bytes = credits
    platform = changed(
        load_platform("optane-adr", ddio=ddio),
        nic={"staging_bytes": 8192},
        pcie={
            "staging_order": order,
            "posted_headers": headers,
            "posted_data_bytes": data_bytes,
            "tlp_bits_per_s": 9_999_999_999,
        },
    )
    system, outcome, _ = stream(platform, size=size, count=12, clients=3, seed=seed)
    plain = stream(PLATFORM, size=size, count=12, clients=3, seed=seed)[1]
    assert outcome.memory == plain.memory
    trace = system.system.trace
    for channel in trace.channels:
        visible = [chunk.reached_ps[Stage.VISIBLE] for chunk in channel.chunks if chunk.path.startswith("dma")]
        assert visible == sorted(visible)
        for chunk in channel.chunks:
            assert chunk.reached_ps[: Stage.QUEUED] == sorted(chunk.reached_ps[: Stage.QUEUED])
    responder = system.nodes[0].nic.responder
    assert responder.staging.unclaimed == 8192
    assert not responder.drain._last and not responder.drain._queues


def sequence(order, seed=1):
    """In which order the packets of three queue pairs reach memory, a letter each."""
    rig = Rig(clients=3, seed=seed, pcie={"staging_order": order, "tlp_bits_per_s": 2 * 10**9})
    for turn, client in enumerate(rig.clients):
        for number in range(4):
            client.post_write(at=turn, data=line(turn + 1, 8), line=64 * (4 * turn + number))
    rig.run()
    chunks = sorted(rig.system.trace.chunks, key=lambda chunk: chunk.reached_ps[Stage.VISIBLE])
    return "".join(key for key, _ in groupby("abc"[chunk.data[0] - 1] for chunk in chunks))


def test_round_robin_takes_turns_and_a_drawn_order_depends_on_the_seed():
    assert sequence("round-robin") == "abc" * 4
    drawn = {sequence("random", seed) for seed in range(6)}
    assert len(drawn) > 2
    assert sequence("random", 3) == sequence("random", 3)


@pytest.mark.parametrize("order", ORDERS)
def test_a_read_is_behind_the_writes_that_wait_in_staging(order):
    rig = Rig(
        ddio="off",
        clients=2,
        pcie={"staging_order": order, "posted_headers": 1, "posted_write_ps": 3_000_000, "posted_data_bytes": 256},
    )
    for number in range(8):
        rig.clients[1].post_write(at=0, data=line(9, 8), line=64 + 8 * number)
    rig.client.post_write(at=0, data=line(1, 8), line=0)
    rig.client.post_read(at=0, length=512, line=0)
    rig.run()
    (read,) = [done.data for done in rig.completions if done.data]
    assert read == line(1, 8)
