"""Experiments of the shared cache under inbound writes: which share of a ring's lines is still there ("leaky DMA").

The forwarder of ddio-bench (Farshin et al., ATC'20): an adapter writes packets into the buffers of a receive ring, one
behind the other, a core changes each packet's first line, and the buffer goes back into the ring. Tags alone: no time.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import replace

from ....models.host.cacheset import line_key
from ....models.host.privatecaches import Caches
from ....models.profiles.parameters.caches import LlcParameters
from ....models.profiles.platform import Platform
from ....sim.bytespace import LINE_BYTES
from .experiments import NO_ADAPTER, experiment

TAGS_ONLY = (*NO_ADAPTER, "imc", "media", "cpu")

POOL_BUFFERS = 65_536
"""The pool that buffers come from: those of a ring lie anywhere in it after a while."""
BUFFER_LINES = 37
"""DPDK: a buffer's header 64 B, its descriptor 128 B, room 128 + 2048 B: 37 lines, odd, so that it spreads."""
HEADER_LINES, DATA_LINE = 3, 5
"""Lines of a buffer: how many the core writes beside the packet, and the line at which the packet begins."""
WARM_ROUNDS, ROUNDS = 4, 2
PACKET_BYTES = 1024


@experiment("ring-hit-rate", "ratio", TAGS_ONLY)
def ring_hit_rate(
    platform: Platform, descriptors: int, *, ways: int = 2, slices: int = 0, packet: int = PACKET_BYTES
) -> float:
    """Share of inbound lines that a cache of the socket still has, over the size of the ring.

    ``ways`` is how many inbound writes may allocate in, ``slices`` how many the processor has (0: the platform's).
    """
    caches = Caches(_with_slices(platform, slices, ways), platform.private)
    places = random.Random(descriptors).sample(range(POOL_BUFFERS), descriptors)
    hits = lines = 0
    for turn in range(WARM_ROUNDS + ROUNDS):
        for place in places:
            first = place * BUFFER_LINES + DATA_LINE
            last = first + packet // LINE_BYTES
            if turn >= WARM_ROUNDS:
                hits += sum(line_key(0, line) in caches for line in range(first, last))
                lines += last - first
            caches.io_writes(deque([(0, 0, first * LINE_BYTES, last * LINE_BYTES)]), 0)
            for line in (first, *range(first - DATA_LINE, first - DATA_LINE + HEADER_LINES)):
                caches.access(0, line_key(0, line), True)
            caches.evicted.clear()
    return hits / lines


@experiment("ring-hit-rate-over-ways", "ratio", TAGS_ONLY)
def ring_hit_rate_over_ways(platform: Platform, ways: int, *, descriptors: int = 4096, slices: int = 0) -> float:
    """The same over the ways that inbound writes may allocate in (IIO_LLC_WAYS)."""
    return ring_hit_rate(platform, descriptors, ways=ways, slices=slices)


def _with_slices(platform: Platform, slices: int, ways: int) -> LlcParameters:
    llc = platform.llc
    slices = slices or llc.slices
    return replace(llc, size_bytes=llc.size_bytes // llc.slices * slices, slices=slices, io_ways=ways)
