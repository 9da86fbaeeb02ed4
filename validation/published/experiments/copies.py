"""Experiments of one core that waits for memory: what it has just persisted, read or written again; copies."""

from __future__ import annotations

import random
from collections.abc import Callable

from ....models.cpu import Thread
from ....models.profiles.platform import Platform
from .cores import LINE, PERSISTS, Code, LoadedMachine
from .experiments import NO_ADAPTER, experiment

WORKING_SET_BYTES = 4096
"""Of the loop that measures reads after persists."""


@experiment("read-after-persist", "time", NO_ADAPTER)
def read_after_persist(
    platform: Platform, distance: int, *, instruction: str = "ntstore", memory: str = "pm", passes: int = 3
) -> float:
    """One line persisted, and one loaded that was persisted so many lines before (Xiang et al., algorithm 1).

    Over 4 KiB again and again; the mean of an iteration after the first pass.
    """
    machine = LoadedMachine(platform, memory)
    thread, base = machine.threads[0], machine.allocate(WORKING_SET_BYTES)
    lines = WORKING_SET_BYTES // LINE

    def code() -> Code:
        start_ps = 0
        for number in range(passes * lines):
            if number == lines:
                start_ps = thread.now_ps
            yield from PERSISTS[instruction](thread, base + number % lines * LINE, bytes(LINE))
            yield from thread.load(base + (number - distance) % lines * LINE, 8)
        return (thread.now_ps - start_ps) / ((passes - 1) * lines)

    return float(machine.run(code()))


@experiment("persist-again", "time", NO_ADAPTER)
def persist_again(
    platform: Platform, pattern: str, *, instruction: str = "clwb", memory: str = "pm", rounds: int = 64
) -> float:
    """One line persisted, and then the next, any other, or the same one again (FlatStore, figure 1)."""
    machine = LoadedMachine(platform, memory)
    thread, base = machine.threads[0], machine.allocate(1 << 24)
    draw = random.Random(1)
    places: dict[str, Callable[[int], int]] = {
        "sequential": lambda number: number,
        "random": lambda number: draw.randrange((1 << 24) // LINE),
        "in-place": lambda number: 0,
    }

    def code() -> Code:
        start_ps = 0
        for number in range(rounds + 8):
            if number == 8:
                start_ps = thread.now_ps
            yield from PERSISTS[instruction](thread, base + places[pattern](number) * LINE, bytes(LINE))
        return (thread.now_ps - start_ps) / rounds

    return float(machine.run(code()))


def _read(thread: Thread, far: int, near: int, size: int) -> Code:
    yield from thread.memcpy(near, far, size)


def _write(thread: Thread, far: int, near: int, size: int) -> Code:
    data = yield from thread.load(near, size)
    yield from thread.ntstore(far, data)


COPIES: dict[str, Callable[[Thread, int, int, int], Code]] = {"read": _read, "write": _write}


@experiment("copy", "time", NO_ADAPTER)
def copy(platform: Platform, size: int, *, way: str = "read", memory: str = "pm", rounds: int = 4) -> float:
    """So many bytes copied by one core between memory and a buffer in DRAM that it uses again and again.

    ``read``: from memory that no cache has, by loads and stores; ``write``: to it, by non-temporal stores.
    """
    machine = LoadedMachine(platform, memory)
    thread, far = machine.threads[0], machine.allocate(1 << 24)
    near = machine.node.memory["dram"].allocate(size, "buffer", align=LINE)

    def code() -> Code:
        yield from COPIES[way](thread, far, near, size)
        start_ps = thread.now_ps
        for number in range(1, rounds + 1):
            yield from COPIES[way](thread, far + number * size, near, size)
        return (thread.now_ps - start_ps) / rounds

    return float(machine.run(code()))
