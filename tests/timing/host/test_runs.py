"""A run of TLPs does what the TLPs do one by one: on the link, in the staging's credits, in memory, in the trace."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.host.llc import IoWrite, insert
from rpsim.models.host.privatecaches import Caches
from rpsim.models.pcie.link import PcieLink
from rpsim.models.profiles.platform import load_platform
from rpsim.sim.bytespace import ByteSpace, ReadRun
from rpsim.sim.stations import Credits
from rpsim.sim.trace import NEVER, Trace

PLATFORM = load_platform("optane-adr")
RATES = st.sampled_from([PLATFORM.pcie.tlp_bits_per_s, 9_999_999_999, 8 * 10**9])
MPS = st.sampled_from([64, 128, 256, 512])
WRITES = st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 5000), st.integers(0, 5000)), max_size=12)


@pytest.mark.long
@given(RATES, MPS, WRITES, st.sampled_from(["first byte", "aligned"]))
def test_on_the_link(rate, mps, writes, where):
    pcie = replace(PLATFORM.pcie, tlp_bits_per_s=rate, mps_bytes=mps, tlp_cut=where)
    one, other = PcieLink(pcie), PcieLink(pcie)
    now_ps = 0
    for gap_ps, address, length in writes:
        now_ps += gap_ps
        single = [(len(data), *one.write(now_ps, len(data))) for _, data in one.tlps(address, bytes(length))]
        assert other.writes(now_ps, address, length) == single
        assert (one._up.busy_ps, one._up.served) == (other._up.busy_ps, other._up.served)
    assert other.write(now_ps, 64) == one.write(now_ps, 64)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=9), st.integers(0, 500))
def test_in_credits(sizes, more):
    one, other = Credits(4096), Credits(4096)
    releases = [(size, 0, 1000 + 7 * turn) for turn, size in enumerate(sizes)]
    for credits in (one, other):
        credits.take(0, sum(sizes))
    for size, _, at_ps in releases:
        one.give(at_ps, size)
    other.give_all(releases)
    wanted = 4096 - sum(sizes) + more
    assert one.unclaimed == other.unclaimed
    if wanted <= 4096:
        assert one.take(10, wanted) == other.take(10, wanted)


RUNS = st.lists(
    st.tuples(
        st.integers(0, 60), st.integers(0, 40), st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), min_size=1)
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.long
@given(RUNS, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60), st.integers(1, 30)), max_size=6))
def test_in_memory_whatever_comes_between(runs, reads):
    """Runs of several channels and reads, at instants that interleave and coincide."""
    one, other = ByteSpace(1 << 16), ByteSpace(1 << 16)
    seen: tuple[list[bytes], list[bytes]] = ([], [])
    number = 0
    for channel, (start_ps, address, steps) in enumerate(runs):
        at_ps, parts = start_ps, []
        for size, gap_ps in steps:
            at_ps += gap_ps
            parts.append((size, at_ps))
        data = bytes((channel * 50 + turn) % 251 for turn in range(sum(size for size, _ in parts)))
        other.write_run(channel, number, address, data, parts, 0)
        done = 0
        for turn, (size, at_ps) in enumerate(parts):
            one.write_at(at_ps, channel, number + turn, address + done, data[done : done + size])
            done += size
        number += len(parts)
    for turn, (at_ps, address, length) in enumerate(reads):
        for space, found in zip((one, other), seen, strict=True):
            space.read_at(at_ps, turn, address, length, found.append)
    for now_ps in range(0, 700, 13):
        assert one.read(now_ps, 0, 400) == other.read(now_ps, 0, 400)
    assert seen[0] == seen[1]


READ_RUNS = st.lists(
    st.tuples(
        st.integers(0, 300), st.integers(0, 60), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=2)
    ),
    max_size=4,
)


def read_run(number, first_ps, address, pieces, found):
    """A run of reads whose pieces, (how long after the first instant, length), lie one behind the other."""
    placed, done = [], 0
    for after_ps, length in pieces:
        placed.append((first_ps + after_ps, done, length))
        done += length
    last_ps = max(at_ps for at_ps, _, _ in placed)

    def sink(at_ps, offset, data):
        found[offset : offset + len(data)] = data

    found[:] = bytes([255] * done)
    return ReadRun(first_ps, last_ps, number, address, done, lambda: placed, sink), placed


@pytest.mark.long
@given(RUNS, READ_RUNS, st.lists(st.integers(0, 500), max_size=5), st.booleans())
def test_a_run_of_reads_finds_what_each_of_its_pieces_finds(runs, reads, poked, computed):
    """Whatever runs of writes come between, also such as are known only after the memory was caught up with."""
    one, other = ByteSpace(1 << 16), ByteSpace(1 << 16)
    if computed:
        for space in (one, other):
            space.compute(0, 1 << 16, lambda line: bytes([line]) * 64)
    found = [(bytearray(), bytearray()) for _ in reads]
    for number, ((first_ps, address, pieces), (whole, apart)) in enumerate(zip(reads, found, strict=True)):
        run, placed = read_run(number, first_ps, address, pieces, whole)
        one.read_run(run)
        apart[:] = whole
        for at_ps, offset, length in placed:

            def sink(data, apart=apart, offset=offset):
                apart[offset : offset + len(data)] = data

            other.read_at(at_ps, number, address + offset, length, sink)
    writes = sorted((start_ps, channel, address, steps) for channel, (start_ps, address, steps) in enumerate(runs))
    for now_ps in range(0, 900, 7):
        while writes and writes[0][0] <= now_ps:
            _, channel, address, steps = writes.pop(0)
            at_ps, parts = now_ps + 1, []
            for size, gap_ps in steps:
                at_ps += gap_ps
                parts.append((size, at_ps))
            data = bytes(channel * 50 + turn & 0xFF for turn in range(sum(size for size, _ in parts)))
            for space in (one, other):
                space.write_run(channel, 100 * channel, address, data, parts, 0)
        for space in (one, other):
            space.catch_up(now_ps)
            if any(now_ps <= at_ps < now_ps + 7 for at_ps in poked):
                space.poke(20, b"poked")
    assert [bytes(whole) for whole, _ in found] == [bytes(apart) for _, apart in found]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=6))
def test_in_the_trace(sizes):
    one, other = Trace(), Trace()
    data = bytes(turn % 251 for turn in range(sum(sizes)))
    moves = [(size, 10 + turn, 20 + turn) for turn, size in enumerate(sizes)]
    for trace in (one, other):
        trace.channel("a")
        trace.write(0, 0, 0, b"before", "dma", "w", [0, 0, 0, NEVER, NEVER])
    done = 0
    for size, transit_ps, visible_ps in moves:
        reached_ps = [5, transit_ps, visible_ps, NEVER, NEVER]
        one.write(3, 0, 64 + done, data[done : done + size], "dma", "w", reached_ps)
        done += size
    assert other.write_run(3, 0, 64, data, "dma", "w", 5, moves) == 1

    def told(trace):
        return [(c.number, c.device, c.channel, c.position, c.address, c.data, c.reached_ps) for c in trace.chunks]

    assert told(one) == told(other)
    assert [c.number for c in one.channels[0].chunks] == [c.number for c in other.channels[0].chunks]


@pytest.mark.long
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 40), st.lists(st.integers(1, 40), min_size=2, max_size=6))),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3000)), max_size=6),
    st.lists(st.integers(0, 600), max_size=6),
)
def test_on_the_way_to_the_caches(runs, late, asked):
    """Runs whose TLPs end at lines, and writes that come in between; whoever asks finds the same at any instant."""
    llc, private = replace(PLATFORM.llc, size_bytes=4096, slices=1), replace(PLATFORM.private, l2_bytes=0)
    one, other = Caches(llc, private), Caches(llc, private)
    singles, together = deque[IoWrite](), deque[IoWrite]()
    at_ps = 0
    for gap_ps, first, gaps in runs:
        start, parts = first * 64, []
        at_ps += gap_ps
        for turn, gap in enumerate(gaps):
            at_ps += gap
            parts.append((64 * (1 + turn % 2), at_ps))
        at = start
        for size, part_ps in parts:
            singles.append((part_ps, 0, at, at + size))
            at += size
        together.append((parts[0][1], 0, start, at, parts))
    for when_ps, address in late:
        for inbox in (singles, together):
            insert(inbox, (when_ps, 0, address, address + 100))
    for until_ps in (*sorted(asked), NEVER - 1):
        assert other.io_writes(together, until_ps) == one.io_writes(singles, until_ps)
        assert (other.counters, other.llc.tags.state) == (one.counters, one.llc.tags.state)
    assert not singles
    assert not together
