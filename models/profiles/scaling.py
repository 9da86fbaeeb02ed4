"""A platform for a smaller data set: each part that is large because data is large, made smaller by the same factor.

The rule: hit rates depend on how much data there is for each byte of a cache, so an experiment on ``1/n`` of the data
meets the same ones when the caches that data competes for have ``1/n`` of their size: the shared and private caches,
the reach of the translation buffers, the adapter's SRAM, and the address table of DIMMs. Latencies, rates, the sizes of
queues and buffers, values and clients stay. The rule does not keep the share of the most popular keys under Zipf (it
grows as keys get fewer), hence how often clients meet on one key, nor any effect of the absolute number of
operations.
"""

from __future__ import annotations

from dataclasses import replace

from .platform import Platform


def scaled(platform: Platform, factor: int) -> Platform:
    """``platform`` with caches a ``factor``-th of their size, each a set of its ways at least."""
    if factor == 1:
        return platform
    llc, private, tlb, nic = platform.llc, platform.private, platform.tlb, platform.nic

    def smaller(size_bytes: int, ways: int) -> int:
        return max(size_bytes // factor, llc.line_bytes * ways) if size_bytes else 0

    media = {
        name: replace(medium, controller=replace(medium.controller, ait_bytes=medium.controller.ait_bytes // factor))
        for name, medium in platform.media.items()
    }
    return replace(
        platform,
        llc=replace(llc, size_bytes=smaller(llc.size_bytes, llc.ways)),
        private=replace(
            private,
            l1_bytes=smaller(private.l1_bytes, private.l1_ways),
            l2_bytes=smaller(private.l2_bytes, private.l2_ways),
        ),
        tlb=replace(tlb, entries=-(-tlb.entries // factor)),
        nic=replace(
            nic,
            sram_bytes=max(nic.sram_bytes // factor, nic.qp_context_bytes),
            caches={name: replace(one, entries=max(one.entries // factor, 1)) for name, one in nic.caches.items()},
        ),
        media=media,
    )
