"""Experiments of cores and memory: idle loads, persist latency over size, bandwidth over access size and threads."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from itertools import cycle
from typing import Any

from ....models.cpu import Thread
from ....models.profiles.platform import Platform
from ....models.system import NodeSpec, System
from .experiments import NO_ADAPTER, experiment

Code = Generator[Any, Any, Any]

LINE = 64
PAGE_BYTES = 4096
TOTAL_BYTES = 1 << 20
"""Of a bandwidth test, by all threads together."""
TOTAL_OF_DIMM_BYTES = 1 << 19
"""Of one that writes to DIMMs with a buffer, for each of them: threads that take DIMMs in turn gather at the slowest
one, and until they have it goes faster than in the seconds that benchmarks take."""
APART_BYTES = 1 << 20
"""Where each thread of a bandwidth test begins: its own region, as OptaneStudy's tests have them."""


class LoadedMachine:
    """One machine with so many threads, each on a core of its own."""

    def __init__(self, platform: Platform, memory: str = "pm", threads: int = 1) -> None:
        devices = tuple(dict.fromkeys(("dram", memory)))
        self.system = System(platform, {"server": [NodeSpec(cores=threads, memory=devices)]}, seed=1)
        self.clock = self.system.clock
        self.node = self.system.nodes["server"][0]
        self.device = self.node.memory[memory]
        described = platform.memory[memory]
        self.media, self.dimms = platform.media[described.device], described.dimms
        self.threads = [self.node.thread(core, f"thread {core}") for core in range(threads)]

    def run(self, code: Code) -> Any:
        """Run code to its end; returns its value."""
        return self.clock.run_until(self.clock.start(code))

    def allocate(self, size: int) -> int:
        """The first bytes of the device, so many, from the beginning of an interleaved stripe."""
        return self.device.allocate(size, "region", align=APART_BYTES)


@experiment("load-latency", "time", NO_ADAPTER)
def load_latency(platform: Platform, pattern: str, *, memory: str = "pm", loads: int = 200) -> float:
    """An idle load of 8 bytes that misses all caches, dependent on the one before."""
    machine = LoadedMachine(platform, memory)
    thread, base = machine.threads[0], machine.allocate(1 << 28)
    stride = LINE if pattern == "sequential" else 7 * 4096 + 64

    def code() -> Code:
        start_ps = thread.now_ps
        for number in range(loads):
            yield from thread.load(base + number * stride, 8)
        return (thread.now_ps - start_ps) / loads

    return float(machine.run(code()))


def _store_flush(thread: Thread, address: int, data: bytes) -> Code:
    yield from _clwb(thread, address, len(data))
    yield from thread.sfence()


def _ntstore(thread: Thread, address: int, data: bytes) -> Code:
    yield from thread.ntstore(address, data)
    yield from thread.sfence()


PERSISTS: dict[str, Callable[[Thread, int, bytes], Code]] = {"clwb": _store_flush, "ntstore": _ntstore}


@experiment("persist-idle", "time", NO_ADAPTER)
def persist_idle(platform: Platform, instruction: str, *, memory: str = "pm") -> float:
    """One 64 B store, flush and fence of a line that the cache has, on an idle machine."""
    machine = LoadedMachine(platform, memory)
    thread, base = machine.threads[0], machine.allocate(1 << 20)

    def code() -> Code:
        yield from thread.load(base, LINE)
        start_ps = thread.now_ps
        yield from PERSISTS[instruction](thread, base, bytes(LINE))
        return thread.now_ps - start_ps

    return float(machine.run(code()))


@experiment("persist-latency", "time", NO_ADAPTER)
def persist_latency(
    platform: Platform,
    size: int,
    *,
    instruction: str = "ntstore",
    memory: str = "pm",
    cached: bool = True,
    rounds: int = 48,
) -> float:
    """Mean time to persist so many bytes, one piece behind the other (OptaneStudy, flush instructions).

    That study loads a piece before it flushes it (``cached``); who appends to a log does not.
    """
    machine = LoadedMachine(platform, memory)
    thread, base = machine.threads[0], machine.allocate(1 << 24)
    data = bytes(size)

    def code() -> Code:
        took_ps = 0
        for number in range(rounds):
            address = base + number * size
            if cached and instruction == "clwb":
                yield from thread.load(address, size)
            start_ps = thread.now_ps
            yield from PERSISTS[instruction](thread, address, data)
            took_ps += thread.now_ps - start_ps
        return took_ps / rounds

    return float(machine.run(code()))


def _read(thread: Thread, address: int, size: int) -> Code:
    """Loads that do not depend on each other: the thread does not wait for their values."""
    yield from thread.prefetch(address, size)


def _nt(thread: Thread, address: int, size: int) -> Code:
    yield from thread.ntstore(address, bytes(size))


def _clwb(thread: Thread, address: int, size: int) -> Code:
    """Each line is flushed right behind its store."""
    for at in range(address, address + size, LINE):
        yield from thread.store(at, bytes(LINE))
        yield from thread.clwb(at, LINE)


def _clwb_after(thread: Thread, address: int, size: int) -> Code:
    """All lines are stored, then all are flushed."""
    for at in range(address, address + size, LINE):
        yield from thread.store(at, bytes(LINE))
    yield from thread.clwb(address, size)


def _store(thread: Thread, address: int, size: int) -> Code:
    """A line at a time, as instructions do."""
    for at in range(address, address + size, LINE):
        yield from thread.store(at, bytes(LINE))


ACCESSES: dict[str, Callable[[Thread, int, int], Code]] = {
    "read": _read,
    "store": _store,
    "ntstore": _nt,
    "clwb": _clwb,
    "clwb-after": _clwb_after,
}


def _total_bytes(machine: LoadedMachine, access: str) -> int:
    """The bytes that a bandwidth test moves, so that its rate is steady."""
    if access == "read" or not machine.media.controller.buffer_bytes:
        return TOTAL_BYTES
    return TOTAL_OF_DIMM_BYTES * machine.dimms


@experiment("bandwidth-over-threads", "bytes_per_s", NO_ADAPTER)
def bandwidth_over_threads(
    platform: Platform,
    threads: int,
    *,
    access: str = "ntstore",
    size: int = 256,
    memory: str = "pm",
    pattern: str = "sequential",
    fence: int = 0,
    total: int | None = None,
) -> float:
    """Bytes a second of so many threads, each on its own region (OptaneStudy, bandwidth over threads).

    Threads do not start together: each begins somewhere else in its region. ``fence``: after so many bytes of each
    thread, 0 for none.
    """
    machine = LoadedMachine(platform, memory, threads)
    return _bandwidth(machine, access, size, _places(machine, size, access, pattern, total), fence)


@experiment("write-efficiency-over-threads", "ratio", NO_ADAPTER)
def write_efficiency_over_threads(platform: Platform, threads: int, *, size: int = 256, memory: str = "pm") -> float:
    """Bytes given over bytes that the medium writes, of sequential ntstores (OptaneStudy, effective write ratio)."""
    machine = LoadedMachine(platform, memory, threads)
    _bandwidth(machine, "ntstore", size, _places(machine, size, "ntstore", "sequential", None))
    return 1 / machine.node.host.home.traffic(machine.device.number).write_amplification


@experiment("bandwidth-over-shared-dimms", "bytes_per_s", NO_ADAPTER)
def bandwidth_over_shared_dimms(
    platform: Platform, size: int, *, each: int, threads: int = 6, access: str = "ntstore", memory: str = "pm"
) -> float:
    """Bytes a second of threads of which each keeps to so many of the DIMMs (OptaneStudy, allocation over DIMMs).

    Random places of pages that are a DIMM's each: thread ``i`` has every ``dimms / each``-th page from the ``i``-th on.
    """
    machine = LoadedMachine(platform, memory, threads)
    groups, pages = machine.dimms // each, APART_BYTES // PAGE_BYTES
    count = max(16, _total_bytes(machine, access) // size // threads)

    def places(number: int) -> Iterator[int]:
        base, draw = machine.allocate(groups * APART_BYTES), random.Random(number)
        first = base + (number - base // PAGE_BYTES) % groups * PAGE_BYTES
        for _ in range(count):
            page = first + draw.randrange(pages) * groups * PAGE_BYTES
            yield page + draw.randrange(max(1, PAGE_BYTES // size)) * size

    return _bandwidth(machine, access, size, [places(number) for number in range(threads)])


def _places(machine: LoadedMachine, size: int, access: str, pattern: str, total: int | None) -> list[Iterator[int]]:
    """Where each thread goes, one access after the other: through its own region, or about it."""
    threads = len(machine.threads)
    each = max(16, (_total_bytes(machine, access) if total is None else total) // size // threads)
    places = (APART_BYTES + each * size) // size
    start = random.Random(threads)

    def of_thread(number: int, base: int, first: int) -> Iterator[int]:
        for turn in range(each):
            at = first + turn if pattern == "sequential" else (turn * 7919 + number * 104729) % places
            yield base + at * size

    bases = [machine.allocate(places * size) for _ in range(threads)]
    return [of_thread(number, base, start.randrange(APART_BYTES // size)) for number, base in enumerate(bases)]


def _bandwidth(
    machine: LoadedMachine, access: str | list[str], size: int, places: list[Iterator[int]], fence: int = 0
) -> float:
    """The bandwidth, in bytes a second, of threads whose addresses come from ``places``; a list is a cycle."""
    kinds = [ACCESSES[kind] for kind in ([access] if isinstance(access, str) else access)]
    progress: list[int] = []

    def code(thread: Thread, where: Iterator[int]) -> Code:
        unfenced = 0
        for touch, address in zip(cycle(kinds), where, strict=False):
            yield from touch(thread, address, size)
            unfenced += size
            if fence and unfenced >= fence:
                yield from thread.sfence()
                unfenced = 0
            progress.append(thread.now_ps)

    running = [machine.clock.start(code(thread, where)) for thread, where in zip(machine.threads, places, strict=True)]
    for done in running:
        machine.clock.run_until(done)
    return steady(sorted(progress), size)


@experiment("far-share-over-mix", "ratio", NO_ADAPTER)
def far_share_over_mix(
    platform: Platform, mix: str, *, threads: int = 1, size: int = 256, memory: str = "pm", far: str = "far_pm"
) -> float:
    """Bandwidth of the other socket's memory over the own one's, so many reads to so many ntstores (FAST'20, 5.4)."""
    reads, writes = (int(part) for part in mix.split(":"))
    turn = ["read"] * reads + ["ntstore"] * writes

    def measured(name: str) -> float:
        """Regions that have been gone through before, each piece as its place in the turn before was."""
        machine = LoadedMachine(platform, name, threads)
        each = TOTAL_BYTES // threads
        regions = [machine.allocate(each) for _ in machine.threads]
        for kinds in ([*turn[1:], turn[0]], turn):
            places = [iter(range(base, base + each, size)) for base in regions]
            rate = _bandwidth(machine, kinds, size, places)
            machine.run(machine.threads[0].wbinvd())
        return rate

    return measured(far) / measured(memory)


def steady(instants_ps: list[int], size: int) -> float:
    """Bytes a second between the first quarter and the last tenth: neither empty buffers nor stragglers count."""
    first, last = len(instants_ps) // 4, len(instants_ps) * 9 // 10
    return (last - first) * size * 1e12 / max(1, instants_ps[last] - instants_ps[first])


@experiment("bandwidth-over-size", "bytes_per_s", NO_ADAPTER)
def bandwidth_over_size(
    platform: Platform,
    size: int,
    *,
    access: str = "ntstore",
    threads: int = 4,
    memory: str = "pm",
    pattern: str = "random",
) -> float:
    """Bytes a second over the size of an access, random places (OptaneStudy, bandwidth over access size)."""
    machine = LoadedMachine(platform, memory, threads)
    total = max(_total_bytes(machine, access), size * threads * 24)
    return _bandwidth(machine, access, size, _places(machine, size, access, pattern, total))


@experiment("bandwidth-over-fences", "bytes_per_s", NO_ADAPTER)
def bandwidth_over_fences(platform: Platform, interval: int, *, access: str = "ntstore", memory: str = "pm") -> float:
    """Bytes a second of one thread that fences after so many bytes (OptaneStudy, sfence interval)."""
    total = max(1 << 17, interval * 16)
    return bandwidth_over_threads(platform, 1, access=access, size=interval, memory=memory, fence=interval, total=total)
