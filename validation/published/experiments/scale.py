"""Experiments of an adapter's scale: a rate with many queue pairs, much memory, small pages, many regions.

All of them need more than the adapter's SRAM holds: contexts of queue pairs, entries of regions and pages. A missing
entry is read over PCIe. *Scaled*: SRAM and all demands on it are so many times smaller than the numbers say, so
that caches are warm after a few thousand requests. Which share of entries fits stays the same, and so does the hit rate
of accesses that go anywhere, which is that share.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from ....models.profiles.platform import Platform
from ....models.system import NodeSpec, System
from ....models.verbs import REMOTE, Opcode, SendFlags, SendWR
from .cores import steady
from .experiments import experiment

Code = Generator[Any, Any, Any]

MIB = 1 << 20
SMALL_PAGE, HUGE_PAGE = 4096, 2 * MIB
THREADS = 8
"""Cores that post: one alone is slower than the adapter, and no miss would show."""
VERBS = {"WRITE": Opcode.IBV_WR_RDMA_WRITE, "READ": Opcode.IBV_WR_RDMA_READ}


def rate(
    platform: Platform,
    *,
    queue_pairs: int,
    verb: str = "WRITE",
    size: int = 16,
    window: int = 8,
    regions: int = 1,
    region: int = MIB,
    page: int = HUGE_PAGE,
    verbs: int = 8000,
    scale: int = 1,
) -> float:
    """Verbs a second, each to a random place of a random region by a random queue pair of its thread.

    ``window``: outstanding for each thread. ``scale``: SRAM is so many times smaller; nothing else is.
    """
    nic = replace(platform.nic, sram_bytes=platform.nic.sram_bytes // scale)
    specs = {"server": [NodeSpec(memory=("dram",))], "client": [NodeSpec(cores=THREADS)]}
    system = System(replace(platform, nic=nic), specs, seed=1)
    server, client = system.nodes["server"][0], system.nodes["client"][0]
    server_pd, client_pd = server.alloc_pd(), client.alloc_pd()
    targets = []
    for _ in range(regions):
        target = server.memory["dram"].allocate(region, "target", align=page)
        targets.append((target, server_pd.reg_mr(target, region, REMOTE, page_bytes=page).key))
    source = client.memory["dram"].allocate(max(size, 64), "source")
    cqs, unused = [client.create_cq() for _ in range(THREADS)], server.create_cq()
    ours = []
    for number in range(max(queue_pairs, THREADS)):
        queue_pair = client_pd.create_qp(cqs[number % THREADS], client.create_cq())
        queue_pair.connect(server_pd.create_qp(unused, unused))
        ours.append(queue_pair)
    flags = SendFlags.IBV_SEND_SIGNALED
    if verb == "WRITE" and size <= nic.inline_max_bytes:
        flags |= SendFlags.IBV_SEND_INLINE
    places, done = region // max(size, 64), list[int]()

    def code(number: int) -> Code:
        thread, draw = client.thread(number, f"client {number}"), np.random.default_rng(number)
        own = ours[number::THREADS]
        for turn in range(verbs // THREADS):
            if turn >= window:
                yield from thread.poll(cqs[number])
                done.append(thread.now_ps)
            target, key = targets[int(draw.integers(regions))]
            at = target + int(draw.integers(places)) * max(size, 64)
            work = SendWR(turn, VERBS[verb], source, size, at, key, flags)
            yield from thread.post_send(own[int(draw.integers(len(own)))], work)
        for _ in range(window):
            yield from thread.poll(cqs[number])
            done.append(thread.now_ps)

    for process in [system.clock.start(code(number)) for number in range(THREADS)]:
        system.clock.run_until(process)
    return steady(sorted(done), 1)


@experiment("rate-loss-over-queue-pairs", "ratio")
def rate_loss_over_queue_pairs(
    platform: Platform, queue_pairs: int, *, few: int = 128, verb: str = "READ", size: int = 16, scale: int = 16
) -> float:
    """The rate with so many queue pairs over the rate with few, scaled."""
    many, small = (
        rate(platform, queue_pairs=number // scale, verb=verb, size=size, scale=scale) for number in (queue_pairs, few)
    )
    return many / small


@experiment("rate-loss-over-memory", "ratio")
def rate_loss_over_memory(
    platform: Platform, mebibytes: int, *, few: int = 64, page: int = SMALL_PAGE, verb: str = "WRITE", scale: int = 64
) -> float:
    """The rate over so much registered memory over the rate over little, scaled."""
    much, little = (
        rate(platform, queue_pairs=THREADS, verb=verb, region=size * MIB // scale, page=page, scale=scale)
        for size in (mebibytes, few)
    )
    return much / little


@experiment("rate-loss-over-page", "ratio")
def rate_loss_over_page(
    platform: Platform, page: int, *, mebibytes: int = 8192, verb: str = "WRITE", scale: int = 64
) -> float:
    """The rate over memory in pages of this size over the rate over the same in huge pages, scaled."""
    region = mebibytes * MIB // scale
    these, huge = (
        rate(platform, queue_pairs=THREADS, verb=verb, region=region, page=one, scale=scale)
        for one in (page, HUGE_PAGE)
    )
    return these / huge


@experiment("rate-loss-over-regions", "ratio")
def rate_loss_over_regions(
    platform: Platform,
    regions: int,
    *,
    few: int = 1024,
    region: int = 65536,
    size: int = 512,
    verb: str = "WRITE",
    scale: int = 16,
) -> float:
    """The rate over so many registered regions over the rate over few, scaled."""
    many, small = (
        rate(
            platform, queue_pairs=24, verb=verb, size=size, regions=number // scale, region=region, page=SMALL_PAGE,
            scale=scale,
        )
        for number in (regions, few)
    )  # fmt: skip
    return many / small
