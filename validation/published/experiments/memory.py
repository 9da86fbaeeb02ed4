"""Experiments of memory controllers and DIMMs alone: how much a DIMM writes to its medium for the writes it takes."""

from __future__ import annotations

from ....models.memory.imc import MemoryController
from ....models.profiles.platform import Platform
from .experiments import NO_ADAPTER, experiment

LINE = 64
XPLINE = 256
APART_PS = 150_000
"""Between two lines: slower than the medium writes an XPLine, so that nothing waits."""
WARM_BYTES = 1 << 17
LEAST_ROUNDS = 2


@experiment("write-amplification", "ratio", NO_ADAPTER)
def write_amplification(platform: Platform, region: int, *, media: str = "optane") -> float:
    """Bytes that the medium writes over bytes given, over a region (OptaneStudy, infer XPBuffer).

    Round by round the first half of every XPLine of the region, then the second half of every XPLine.
    """
    controller = MemoryController(platform.imc, platform.media[media], 1)
    now_ps = 0

    def write_round() -> None:
        nonlocal now_ps
        for half in (0, XPLINE // 2):
            for xpline in range(0, region, XPLINE):
                for at in (0, LINE):
                    controller.write_line((xpline + half + at) // LINE, now_ps)
                    now_ps += APART_PS

    for _ in range(max(LEAST_ROUNDS, WARM_BYTES // region)):
        write_round()
    before = controller.traffic
    for _ in range(max(LEAST_ROUNDS, WARM_BYTES // region)):
        write_round()
    after = controller.traffic
    return (after.media_written_bytes - before.media_written_bytes) / (after.written_bytes - before.written_bytes)
