"""Experiments that look for a DIMM's buffers as LENS does (Wang et al., MICRO'20): pointer chasing over a region.

Round by round a core writes every line of a region past the caches, in random order, and fences once; then it reads
them, each address out of the line before. Of large regions so many lines are visited as show what all of them would,
and caches are emptied in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

from ....models.cpu import Thread
from ....models.profiles.platform import Platform
from .cores import LINE, Code, LoadedMachine
from .experiments import NO_ADAPTER, experiment

VISITED = 4096
"""Lines of one round, at most; and as many rounds as make that many in small regions."""
PAGE = 4096
"""The unit of the AIT's cache: in a large region every page has been written long before."""


@experiment("chase-write", "time", NO_ADAPTER)
def chase_write(platform: Platform, region: int, *, memory: str = "pm") -> float:
    """Time of one line of a region written by non-temporal stores in random order, one fence at the end."""
    return _chase(platform, region, memory, _writes)


@experiment("chase-read", "time", NO_ADAPTER)
def chase_read(platform: Platform, region: int, *, memory: str = "pm") -> float:
    """Time of one dependent load of a region that was written past the caches before, random order."""
    return _chase(platform, region, memory, _reads)


Part = Callable[[Thread, list[int]], Code]


def _writes(thread: Thread, addresses: list[int]) -> Generator[Any, Any, None]:
    for address in addresses:
        yield from thread.ntstore(address, bytes(LINE))
    yield from thread.sfence()


def _reads(thread: Thread, addresses: list[int]) -> Generator[Any, Any, None]:
    for address in addresses:
        yield from thread.load(address, LINE)


def _chase(platform: Platform, region: int, memory: str, timed: Part) -> float:
    machine = LoadedMachine(platform, memory)
    thread, base = machine.threads[0], machine.allocate(region)
    lines = region // LINE
    order = random.Random(region)
    rounds = max(2, VISITED // lines)

    def code() -> Code:
        if lines > VISITED:  # the AIT's cache has as much as it has room for
            for page in range(base, base + region, PAGE):
                yield from thread.load(page, 8)
        took_ps = visited = 0
        for number in range(rounds):
            for part in (_writes, _reads):  # of a large region other lines are read than those written last
                yield from thread.wbinvd()
                addresses = [base + line * LINE for line in order.sample(range(lines), min(lines, VISITED))]
                start_ps = thread.now_ps
                yield from part(thread, addresses)
                if part is timed and number:
                    took_ps += thread.now_ps - start_ps
                    visited += len(addresses)
        return took_ps / visited

    return float(machine.run(code()))
