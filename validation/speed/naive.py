"""The benchmark's workload for the naive model: one client that keeps WRITEs outstanding."""

from __future__ import annotations

from ...models.profiles.platform import load_platform
from ..naive.model import NaiveSystem
from ..naive.workload import Connection, Request, Workload

REGION_BYTES = 1 << 20


def write_workload(size_bytes: int, count: int, window: int, platform: str) -> Workload:
    """``count`` signalled WRITEs of ``size_bytes`` to DRAM, ``window`` outstanding, one after the other in 1 MiB."""
    profile = load_platform(platform)
    inline, places = size_bytes <= profile.nic.inline_max_bytes, REGION_BYTES // size_bytes
    requests = tuple(Request("WRITE", size_bytes, at % places * size_bytes, inline) for at in range(count))
    client = Connection(1, 0, core=0, start_ps=0, window=window, requests=requests, one_buffer=True)
    return Workload(profile, 2, 1, "dram", (client,), pool_bytes=REGION_BYTES)


def writes(size_bytes: int, count: int, window: int, platform: str) -> int:
    """Simulate these WRITEs on the naive model; returns how many have completed."""
    return len(NaiveSystem(write_workload(size_bytes, count, window, platform)).run().seen)
