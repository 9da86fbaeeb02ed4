"""Experiments of WRITEs into a server's memory: what its DIMMs take, and what they write for it, with DDIO on and off.

Cores of one machine post WRITEs, each over a queue pair of its own, ``window`` under way for each, until much more has
come than staging and caches hold. *Scaled*: the shared cache has so many times fewer slices, so that its I/O ways are
full after a short run, and the adapter's staging is smaller; a line leaves either later than the DIMM's buffers
remember all the same.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....models.memory.imc import Traffic
from ....models.profiles.platform import Platform
from ....models.system import NodeSpec, System
from ....models.verbs import REMOTE, Opcode, SendFlags, SendWR
from ....sim.bytespace import LINE_BYTES
from .experiments import experiment

Code = Generator[Any, Any, Any]

PAGE_BYTES = 4096
MIB = 1 << 20
REGION_BYTES = 96 * MIB
LEAST_ROUNDS = 4
"""Windows of each client: the first ones fill what lies before the memory."""
BYTES = 5 * MIB // 2
"""Into each memory, in all; less for small ones, of which there are at most MOST_WRITES."""
MOST_WRITES = 12_000
UNDER_WAY_BYTES = MIB // 4
"""At least two WRITEs of a client are under way, further ones only up to this."""
SCALE = 24
"""The I/O ways of a cache of 33 MiB hold a quarter of a MiB then."""
STAGING_SCALE = 16


@dataclass(frozen=True)
class Written:
    """What such a run gives."""

    per_s: float
    """WRITEs acknowledged a second, between the second fifth of the run and its end."""
    traffic: Traffic
    """The memory's at the end, without that of the run's first two fifths."""
    lines: int
    """Lines of the memory that WRITEs touched in that time, each as often as it was touched."""


def written(
    platform: Platform,
    size: int,
    *,
    clients: int = 1,
    window: int = 16,
    align: int = 0,
    pattern: str = "sequential",
    memory: str = "pm",
    scale: int = SCALE,
) -> Written:
    """WRITEs of ``size`` by each of the ``clients``; ``sequential``: one behind the other, in a part of its own.

    ``random``: to anywhere, at multiples of ``align`` (0: of the size, or of a page if it is larger).
    """
    llc, window = platform.llc, min(window, max(2, UNDER_WAY_BYTES // size))
    slices = max(1, llc.slices // scale)
    llc = replace(llc, size_bytes=llc.size_bytes // llc.slices * slices, slices=slices)
    devices = tuple(dict.fromkeys(("dram", memory)))
    specs = {"server": [NodeSpec(memory=devices)], "client": [NodeSpec(cores=clients)]}
    nic = replace(platform.nic, staging_bytes=max(platform.nic.staging_bytes // STAGING_SCALE, platform.nic.mtu_bytes))
    system = System(replace(platform, llc=llc, nic=nic), specs, seed=1)
    server, client = system.nodes["server"][0], system.nodes["client"][0]
    device, clock = server.memory[memory], system.clock
    target = device.allocate(REGION_BYTES, "target", align=PAGE_BYTES)
    server_pd, client_pd = server.alloc_pd(), client.alloc_pd()
    rkey = server_pd.reg_mr(target, REGION_BYTES, REMOTE).key
    source = client.memory["dram"].allocate(max(size, LINE_BYTES), "source", align=PAGE_BYTES)
    flags = SendFlags.IBV_SEND_SIGNALED
    if size <= platform.nic.inline_max_bytes:
        flags |= SendFlags.IBV_SEND_INLINE
    each = max(LEAST_ROUNDS * window, min(MOST_WRITES, BYTES // size) // clients)
    own, align = REGION_BYTES // clients // PAGE_BYTES * PAGE_BYTES, align or min(size, PAGE_BYTES)
    unused = server.create_cq()
    instants: list[int] = []
    middle: list[Traffic] = []
    touched: list[int] = []

    def traffic() -> Traffic:
        server.host.catch_up(clock.now_ps)
        return server.host.home.traffic(device.number)

    def code(number: int) -> Code:
        thread, cq = client.thread(number, f"client {number}"), client.create_cq()
        queue_pair = client_pd.create_qp(cq, client.create_cq())
        queue_pair.connect(server_pd.create_qp(unused, unused))
        draw = np.random.default_rng(number)
        for turn in range(each + window):
            if turn >= window:
                yield from thread.poll(cq)
                instants.append(clock.now_ps)
                if len(instants) == each * clients * 2 // 5:
                    middle.append(traffic())
                    touched.append(len(instants))
            if turn >= each:
                continue
            if pattern == "random":
                at = int(draw.integers((REGION_BYTES - size) // align + 1)) * align
            else:
                at = number * own + turn * size % (own - size + 1)
            work = SendWR(turn, Opcode.IBV_WR_RDMA_WRITE, source, size, target + at, rkey, flags)
            yield from thread.post_send(queue_pair, work)

    for process in [clock.start(code(number)) for number in range(clients)]:
        clock.run_until(process)
    clock.run_until()
    begin = each * clients * 2 // 5
    per_s = (len(instants) - 1 - begin) * 1e12 / (instants[-1] - instants[begin])
    end, before = traffic(), middle[0]
    names = [name for name in Traffic.__slots__]
    counted = Traffic(*(getattr(end, name) - getattr(before, name) for name in names))
    return Written(per_s, counted, len(instants) - touched[0])


@experiment("inbound-bandwidth", "bytes_per_s")
def inbound_bandwidth(
    platform: Platform, size: int, *, clients: int = 1, window: int = 16, pattern: str = "sequential", align: int = 0
) -> float:
    """Payload bytes a second that WRITEs bring into persistent memory, over their size."""
    return written(platform, size, clients=clients, window=window, pattern=pattern, align=align).per_s * size


@experiment("inbound-bandwidth-over-clients", "bytes_per_s")
def inbound_bandwidth_over_clients(
    platform: Platform, clients: int, *, size: int = 2048, window: int = 8, pattern: str = "random", align: int = 256
) -> float:
    """Payload bytes a second that WRITEs bring into persistent memory, over clients that write at once."""
    return written(platform, size, clients=clients, window=window, pattern=pattern, align=align).per_s * size


@experiment("inbound-bandwidth-over-alignment", "bytes_per_s")
def inbound_bandwidth_over_alignment(
    platform: Platform, align: int, *, size: int = 2048, clients: int = 16, window: int = 8
) -> float:
    """Payload bytes a second of WRITEs to random places, over the multiples at which they begin."""
    return written(platform, size, clients=clients, window=window, pattern="random", align=align).per_s * size


@experiment("inbound-rate-over-size", "per_s")
def inbound_rate_over_size(platform: Platform, size: int, *, align: int = 1, clients: int = 20) -> float:
    """Small WRITEs a second into persistent memory, to random places."""
    return written(platform, size, clients=clients, window=8, pattern="random", align=align).per_s


@experiment("inbound-amplification", "ratio")
def inbound_amplification(
    platform: Platform, size: int, *, clients: int = 1, window: int = 16, pattern: str = "sequential", align: int = 0
) -> float:
    """Bytes that the medium writes over bytes that WRITEs bring into persistent memory."""
    return written(
        platform, size, clients=clients, window=window, pattern=pattern, align=align
    ).traffic.write_amplification


@experiment("inbound-reads", "ratio")
def inbound_reads(platform: Platform, size: int, *, align: int = 1) -> float:
    """Lines that memory reads because WRITEs bring only parts of them, over the lines that it writes."""
    traffic = written(platform, size, clients=4, window=4, pattern="random", align=align).traffic
    return traffic.read_bytes / traffic.written_bytes
