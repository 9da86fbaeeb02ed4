"""DIMMs against published curves: what was fitted or is an input stands apart from what comes out by itself.

Yang et al., FAST'20, artifact NVSL/OptaneStudy, graphs 04, 05 and 09; Wang et al., MICRO'20 (LENS).
"""

from __future__ import annotations

import random

import pytest

from rpsim.models.memory.imc import MemoryController
from rpsim.models.profiles.platform import load_platform

PLATFORM = load_platform("optane-adr")
OPTANE = PLATFORM.media["optane"]
FILL_BUFFERS = 10
"""Lines that a core has on their way to memory; they leave in any order (Intel, Optimization Reference Manual)."""


def dimm() -> MemoryController:
    return MemoryController(PLATFORM.imc, OPTANE, 1)


@pytest.mark.parametrize(
    ("region", "published"),
    [(4096, 1.034), (16384, 1.036), (18432, 1.039), (20480, 1.359), (24576, 1.608), (32768, 1.820), (65536, 2.043)],
)
def test_write_amplification_over_the_region(region, published):
    """Fit set. Rounds of the first half of every XPLine, then of every second half."""
    controller, xplines = dimm(), region // 256
    for _ in range(20):
        for half in (0, 2):
            for xpline in range(xplines):
                for line in (half, half + 1):
                    controller.write_line(4 * xpline + line, 0)
    assert controller.traffic.write_amplification == pytest.approx(published, rel=0.15)


def threads_gb_per_s(threads: int) -> float:
    """Each streams ntstores to a region of its own."""
    draw, controller = random.Random(1), dimm()
    next_line = [thread << 20 for thread in range(threads)]
    pending = []
    for thread in range(threads):
        pending += [(thread, next_line[thread] + ahead) for ahead in range(FILL_BUFFERS)]
        next_line[thread] += FILL_BUFFERS
    queued = []
    for _ in range(12_000):
        at = draw.randrange(len(pending))
        thread, line = pending[at]
        pending[at] = thread, next_line[thread]
        next_line[thread] += 1
        queued.append(controller.write_line(line, 0)[0])
    return 64_000 * 6000 / (queued[-1] - queued[5999])


@pytest.mark.long
@pytest.mark.parametrize(
    ("threads", "published"), [(1, 2.22), (4, 2.20), (8, 1.53), (12, 1.12), (16, 0.94), (20, 0.86), (24, 0.80)]
)
def test_bandwidth_falls_with_too_many_writers(threads, published):
    """Predicted: XPLines of many streams push each other out of the buffer; it begins too early, at four threads."""
    assert threads_gb_per_s(threads) == pytest.approx(published, rel=0.3)


def read_ps(region: int) -> float:
    """A pointer chase by lines of random XPLines of a region, when it has been read before."""
    draw, controller, now = random.Random(1), dimm(), 0
    xplines = region // 256
    for xpline in range(xplines):
        now += controller.read_lines(4 * xpline, 4 * xpline, now)[0]
    start, rounds = now, 2000
    for _ in range(rounds):
        xpline = draw.randrange(xplines)
        now += controller.read_lines(4 * xpline, 4 * xpline, now)[0]
    return (now - start) / rounds


@pytest.mark.long
def test_the_read_curve_has_its_knees_at_16_kib_and_at_16_mib():
    """Fit set: one level up to the XPBuffer, one up to what the address table's cache covers, one beyond."""
    inside, between, beyond = read_ps(16_384), read_ps(1 << 20), read_ps(48 << 20)
    assert inside == OPTANE.near_load_ps
    assert between == pytest.approx(OPTANE.load_ps, rel=0.02)
    assert beyond > between + OPTANE.controller.ait_miss_ps / 2


@pytest.mark.parametrize(("size", "published"), [(64, 0.5547), (128, 1.098)])
def test_small_random_writes(size, published):
    """Predicted from the bandwidth of whole XPLines, GB/s."""
    controller, draw = dimm(), random.Random(1)
    queued = []
    for _ in range(6000 * 64 // size):
        first = 4 * draw.randrange(1 << 24) + draw.choice(range(0, 4, size // 64))
        queued += [controller.write_line(first + line, 0)[0] for line in range(size // 64)]
    half = len(queued) // 2
    assert 64_000 * (len(queued) - half) / (queued[-1] - queued[half - 1]) == pytest.approx(published, rel=0.05)
