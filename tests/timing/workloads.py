"""Random workloads for both models, and how to make a platform small and slow enough that everything waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from rpsim.models.profiles.parameters.memory import Controller
from rpsim.models.profiles.platform import Platform, load_platform
from rpsim.validation.naive.workload import POOL_BYTES, Connection, Instruction, Program, Request, Workload

SIZES = (0, 1, 8, 64, 100, 220, 300, 1024, 4096, 5000, 16384)
HOT_LINES = 16
"""Half of all requests, and all instructions, meet in the first lines of the pool."""


def changed(platform: Platform, **changes: dict[str, Any]) -> Platform:
    """A platform with other parameters: ``changed(platform, nic={"mtu_bytes": 1024})``; ``media`` for every kind."""
    media = changes.pop("media", {})
    kinds = {kind: replace(values, **media) for kind, values in platform.media.items()}
    parts = {part: replace(getattr(platform, part), **values) for part, values in changes.items()}
    return replace(platform, media=kinds, **parts)


TINY = {"l1_bytes": 64 * 8, "l1_ways": 2, "l2_bytes": 64 * 16, "l2_ways": 4, "fill_buffers": 2}
"""Private caches out of which lines fall."""


def controllers() -> st.SearchStrategy[Controller]:
    """On-DIMM controllers whose buffers are small enough to be always full."""
    return st.builds(
        Controller,
        buffer_bytes=st.sampled_from([0, 256, 1024, 16_384]),
        read_buffer_bytes=st.sampled_from([0, 512]),
        eviction=st.sampled_from(["random", "lru", "fifo"]),
        full_lines=st.sampled_from(["at_once", "evicted", "periodic"]),
        full_line_period_ps=st.just(300_007),
        lsq_bytes=st.sampled_from([64, 256, 4096]),
        lsq_combines=st.booleans(),
        ingest_ps=st.sampled_from([0, 21_800, 70_001]),
        fence_drains=st.booleans(),
        read_after_persist_ps=st.sampled_from([0, 900_001]),
        settle_ps=st.just(2_000_003),
        ait_bytes=st.sampled_from([0, 4096]),
        ait_miss_ps=st.just(100_000),
        wear_writes=st.sampled_from([0, 5]),
        wear_pause_ps=st.just(3_000_000),
        wear_counts=st.sampled_from(["each block", "hottest block"]),
    )


@st.composite
def platforms(draw: st.DrawFn, nodes: int) -> Platform:
    """Small staging, few WPQ entries, slow media, a slow slot, tiny caches, small packets: or none of it."""
    base = load_platform(
        draw(st.sampled_from(["optane-adr", "optane-eadr"])),
        ddio=draw(st.sampled_from(["on", "off"])),
        refresh=draw(st.booleans()),
    )
    one = st.sampled_from
    return changed(
        base,
        nic={
            "blueflame": draw(st.booleans()),
            "mtu_bytes": draw(one([4096, 1024, 256])),
            "staging_bytes": draw(one([262_144, 8192, 4096])),
            "outstanding_reads": draw(one([16, 2, 1])),
            "tx_processing_ps": base.nic.tx_processing_ps + draw(one([0, 1, 40_009])),
            "gather_bytes": draw(one([4096, 1024, 256])),
            "processing_units": draw(one([8, 1, 2])),
            "tx_occupancy_ps": draw(one([base.nic.tx_occupancy_ps, 0, 700_003])),
            "rx_occupancy_ps": draw(one([base.nic.rx_occupancy_ps, 1, 400_001])),
            "rx_read_occupancy_ps": draw(one([base.nic.rx_read_occupancy_ps, 500_001])),
            "rx_packet_occupancy_ps": draw(one([base.nic.rx_packet_occupancy_ps, 150_000])),
        },
        pcie={
            "tlp_bits_per_s": draw(one([base.pcie.tlp_bits_per_s, 9_999_999_999])),
            "posted_write_ps": base.pcie.posted_write_ps + draw(one([0, 7, 1_000_003])),
            "tlp_cut": draw(one(["first byte", "aligned"])),
            "read_tags": draw(one([base.pcie.read_tags, 5, 1])),
            "numa_ps": draw(one([0, 100_001])),
            "posted_headers": draw(one([base.pcie.posted_headers, 32, 3, 1])),
            "posted_data_bytes": draw(one([base.pcie.posted_data_bytes, 2048, 256])),
        },
        fabric={
            "link_bits_per_s": draw(one([base.fabric.link_bits_per_s, 6_999_999_937])),
            "switches": draw(one([1, 1, 2, 3] if nodes > 2 else [1, 0, 2])),
            "phy_ps": draw(one([0, 7])),
        },
        llc={
            "size_bytes": draw(one([base.llc.size_bytes, 64 * 200, 64 * 33])),
            "policy": draw(one(["lru", "random", "unpredictable"])),
            "non_allocating_hit": draw(one(["invalidate", "update"])),
            "scattered_page_bytes": draw(one([0, 4096])),
            "victims_hold": draw(st.booleans()),
        },
        private=draw(one([{}, TINY, {"fill_buffers": 1}, {"l1_bytes": 0, "l2_bytes": 0}]))
        | {"read_for_ownership": draw(one(["waited", "shared"])), "prefetch_lines": draw(one([0, 16, 3]))},
        tlb={"entries": draw(one([1536, 2, 0])), "page_bytes": 4096},
        imc={
            "wpq_bytes": draw(one([base.imc.wpq_bytes, 128, 64])),
            "partial_ntstore": draw(one(["read", "free"])),
            "interleave_bytes": draw(one([base.imc.interleave_bytes, 64])),
            "port_order": draw(one(["kept", "drawn"])),
        },
        media={
            "write_bandwidth_bits_per_s": draw(one([17_600_000_000, 2_512_345_679, 400_000_000])),
            "write_delay_ps": draw(one([0, 0, 200_003])),
            "write_delay_per": draw(one(["line", "write", "flush", "flushed line", "medium"])),
            **draw(one([{}, {"controller": draw(controllers())}])),
        },
    )


STARTS = st.one_of(st.just(0), st.integers(0, 3_000_000))
"""Often all at once: that is where the tie rule decides."""


@st.composite
def requests(draw: st.DrawFn, inline_most: int) -> Request:
    """Any verb of any size."""
    verb, length = draw(st.sampled_from(["WRITE", "READ", "SEND"])), draw(st.sampled_from(SIZES))
    hot = draw(st.booleans())
    offset = 64 * draw(st.integers(0, HOT_LINES - 1)) if hot else draw(st.integers(0, POOL_BYTES - length))
    inline = verb != "READ" and length <= inline_most and draw(st.booleans())
    return Request(verb, length, min(offset, POOL_BYTES - length), inline, draw(st.booleans()) or draw(st.booleans()))


INSTRUCTIONS = st.builds(
    Instruction,
    st.sampled_from(["load", "prefetch", "store", "ntstore", "clwb", "clflushopt", "clflush", "sfence", "compute"]),
    st.builds(lambda line, within: 64 * line + within, st.integers(0, HOT_LINES - 1), st.sampled_from([0, 0, 13])),
    st.sampled_from([8, 64, 200, 1000]),
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Machines that talk to each other through several queue pairs, and threads that touch the same lines."""
    nodes = draw(st.integers(2, 4))
    platform = draw(platforms(nodes))
    threads = [0] * nodes

    def core(node: int) -> int:
        threads[node] += 1
        return threads[node] - 1

    connections = []
    for _ in range(draw(st.integers(1, 5))):
        requester = draw(st.integers(0, nodes - 1))
        # Most often machine 0 is the server of all others.
        responder = draw(st.integers(0, nodes - 1)) if draw(st.booleans()) else 0
        responder = (requester + 1) % nodes if responder == requester else responder
        works = draw(st.lists(requests(platform.nic.inline_max_bytes), min_size=1, max_size=6))
        start_ps, window = draw(STARTS), draw(st.integers(1, 6))
        connections.append(Connection(requester, responder, core(requester), start_ps, window, tuple(works)))
    programs = []
    for _ in range(draw(st.integers(0, 2))):
        node = draw(st.sampled_from([0, 0, nodes - 1]))
        instructions = draw(st.lists(INSTRUCTIONS, min_size=1, max_size=12))
        programs.append(Program(node, core(node), draw(STARTS), tuple(instructions)))
    memory, seed = draw(st.sampled_from(["pm", "dram"])), draw(st.integers(0, 2**20))
    return Workload(platform, nodes, max(threads), memory, tuple(connections), tuple(programs), seed)
