"""The speed of the simulator and of the checker on this machine, as ``rpsim bench`` measures it.

Machines differ, so the figures are ratios whose two halves were measured in turn in one run: *raw timeouts per verb*
(a SimPy process that does nothing but ``yield timeout(1)``, over simulated WRITEs a second), traced over untraced, the
arithmetic model over the naive one. Each figure is the median of its rounds, each ratio the median of its rounds'
ratios.
"""

from __future__ import annotations

import cProfile
import pstats
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from ...models.profiles.platform import load_platform
from ...models.system import System
from ...models.verbs import Opcode
from ...protocols.guarantees import Condition
from ...scenarios.history import History
from ...sim.jobs.runner import Processes
from ..oracle import check
from ..rigs.pair import Pair
from . import naive
from .operations import PLATFORM, ROUNDS, WINDOW, OperationFigures, measure_all, requests
from .pace import executed_faults, log_states, opaque_states, unit_states
from .timing import Pace, raw_timeouts, timed

Amount = TypeVar("Amount", int, float)
Measured = TypeVar("Measured")

SIZES = (64, 4096)


@dataclass(frozen=True)
class SizeFigures:
    """WRITEs of one size: a second untraced and traced, and the ratios of design interest."""

    verbs_per_second: float
    verbs_per_second_traced: float
    timeouts_per_verb: float
    traced_over_untraced: float
    arithmetic_over_naive: float
    events_per_verb: float


@dataclass(frozen=True)
class Figures:
    """All figures of one run of the benchmark."""

    raw_timeouts_per_second: float
    sizes: dict[int, SizeFigures]
    verbs: dict[str, OperationFigures]
    stores: dict[str, OperationFigures]
    mebibytes_per_million_traced_verbs: float
    crash_states_per_second: float
    crash_states_per_second_opaque: float
    crash_states_per_second_redo_log: float
    executed_faults_per_second: float
    timeouts_per_executed_fault: float
    oracle_operations_per_second: float
    help_milliseconds: float


def writes(size_bytes: int, count: int, traced: bool) -> Pace:
    """One client WRITEs to one server, ``WINDOW`` outstanding.

    Traced: into persistent memory; untraced: into DRAM, which keeps nothing.
    """
    system, code = write_workload(size_bytes, count, traced)
    done = system.clock.start(code)
    return timed(count, lambda: system.clock.run_until(done))


def events(size_bytes: int, count: int) -> int:
    """How many events these WRITEs take, untraced."""
    system, code = write_workload(size_bytes, count, traced=False)
    done, steps = system.clock.start(code), 0
    while not done.processed:
        system.clock.step()
        steps += 1
    return steps


def write_workload(size_bytes: int, count: int, traced: bool) -> tuple[System, Generator[Any, Any, None]]:
    """The system and the client's code of :func:`writes`."""
    platform = load_platform(PLATFORM)
    pair = Pair(platform, memory="pm" if traced else "dram")
    inline = size_bytes <= platform.nic.inline_max_bytes
    return pair.system, requests(pair, Opcode.IBV_WR_RDMA_WRITE, size_bytes, count, inline=inline)


def long_history(
    operations: int, processes: int = 16, objects: int = 1, seed: int = 1
) -> tuple[History, dict[Hashable, int]]:
    """Clients in closed loops on registers, linearizable by construction; and what each object holds at the end."""
    rng = random.Random(seed)
    history = History(frozenset({"put"}))
    contents: dict[Hashable, int] = dict.fromkeys(range(objects), 0)
    free = [0] * processes
    plan = []
    for _ in range(operations):
        process = min(range(processes), key=free.__getitem__)
        begin = free[process] + rng.randrange(1, 100)
        act = begin + rng.randrange(1, 500)
        free[process] = act + rng.randrange(1, 500)
        plan.append((begin, act, free[process], process))
    acts = []
    for begin, act, end, process in sorted(plan):
        f = "put" if rng.random() < 0.5 else "get"
        operation = history.invoke(process, f, rng.randrange(objects), None, begin)
        operation.argument = operation.number if f == "put" else None
        acts.append((act, end, operation))
    for _, end, operation in sorted(acts, key=lambda row: row[0]):
        if operation.f == "put":
            contents[operation.object] = operation.number
        history.complete(operation, "ok", end, None if operation.f == "put" else contents[operation.object])
    return history, contents


def oracle(operations: int) -> Pace:
    """The oracle on one object's history of so many operations, durable linearizability."""
    history, contents = long_history(operations)
    end_ps = max(operation.return_ps or 0 for operation in history.operations)
    return timed(operations, lambda: check(history, end_ps, contents, [Condition.DURABLE]))


def measure(effort: float, on_step: Callable[[str], None]) -> Figures:
    """All figures; ``effort`` 1.0 takes about two minutes, ``on_step`` is called with the name of each step."""
    raw: list[float] = []
    sizes = {size_bytes: _measure_size(size_bytes, effort, raw, on_step) for size_bytes in SIZES}
    verbs, stores = measure_all(effort, on_step)
    on_step("memory of traced WRITEs")
    memory = memory_of_traced(max(1000, int(50_000 * effort)))
    on_step("crash exploration")
    walks = unit_states, opaque_states, log_states
    units, opaque, log = (_in_fresh_process(states, 6 * effort) for states in walks)
    on_step("executed faults")
    faults = Pace(*_in_fresh_process(executed_faults, 6 * effort)).per_second
    on_step("oracle")
    operations = max(1000, int(100_000 * effort))
    return Figures(
        raw_timeouts_per_second=median(raw),
        sizes=sizes,
        verbs=verbs,
        stores=stores,
        mebibytes_per_million_traced_verbs=memory,
        crash_states_per_second=Pace(*units).per_second,
        crash_states_per_second_opaque=Pace(*opaque).per_second,
        crash_states_per_second_redo_log=Pace(*log).per_second,
        executed_faults_per_second=faults,
        timeouts_per_executed_fault=median(raw) / faults,
        oracle_operations_per_second=median(oracle(operations).per_second for _ in range(3)),
        help_milliseconds=1e3 * median(start() for _ in range(ROUNDS)),
    )


def start() -> float:
    """Seconds that ``rpsim --help`` takes, a process of its own."""
    began = time.perf_counter()
    code = "import sys; from rpsim.app.main import main; main(['--help'])"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return time.perf_counter() - began


def _measure_size(size_bytes: int, effort: float, raw: list[float], on_step: Callable[[str], None]) -> SizeFigures:
    """WRITEs of one size, round by round; each round's raw timeouts a second go to ``raw``."""
    count = max(200, int((20_000 if size_bytes == SIZES[0] else 4_000) * effort))
    rounds = []
    for turn in range(ROUNDS):
        on_step(f"WRITEs of {size_bytes} B, round {turn + 1} of {ROUNDS}")
        raw.append(raw_timeouts(max(1000, int(200_000 * effort))).per_second)
        plain = writes(size_bytes, count, traced=False)
        traced = writes(size_bytes, count, traced=True)
        naive = naive_writes(size_bytes, max(100, count // 10))
        rounds.append((raw[-1], plain.per_second, traced.per_second, naive.per_second))
    return SizeFigures(
        verbs_per_second=median(plain for _, plain, _, _ in rounds),
        verbs_per_second_traced=median(traced for _, _, traced, _ in rounds),
        timeouts_per_verb=median(timeouts / plain for timeouts, plain, _, _ in rounds),
        traced_over_untraced=median(traced / plain for _, plain, traced, _ in rounds),
        arithmetic_over_naive=median(plain / naive for _, plain, _, naive in rounds),
        events_per_verb=events(size_bytes, 1_000) / 1_000,
    )


def naive_writes(size_bytes: int, count: int) -> Pace:
    """The same WRITEs on the naive model, which has a process for each message and an event for each hop."""
    return timed(count, lambda: naive.writes(size_bytes, count, WINDOW, PLATFORM))


def memory_of_traced(count: int) -> float:
    """MiB that a million traced 64 B WRITEs keep, from the growth of a fresh process over ``count`` of them."""
    return _in_fresh_process(_growth_bytes, count) / count * 1e6 / 2**20


def _in_fresh_process(measured: Callable[[Amount], Measured], amount: Amount) -> Measured:
    """Measure in a process of its own: its memory has not grown yet, and CPython has not specialized its code."""
    with Processes(1) as fresh:
        return fresh.submit(measured, amount).result()


def _growth_bytes(count: int) -> int:
    system, code = write_workload(64, count, traced=True)
    before = _resident_bytes()
    system.clock.run_until(system.clock.start(code))
    assert system.trace.chunks, "the trace is what is measured"
    return _resident_bytes() - before


def _resident_bytes() -> int:
    """Memory of the process now (where the system reports it), else its peak so far."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def where_time_goes(size_bytes: int, count: int) -> list[tuple[str, str, float, float]]:
    """A profile of untraced WRITEs: (file, function, calls a verb, share of the time), the largest first."""
    system, code = write_workload(size_bytes, count, traced=False)
    done = system.clock.start(code)
    return profile_of(lambda: system.clock.run_until(done), count)


def profile_of(work: Callable[[], object], count: int) -> list[tuple[str, str, float, float]]:
    """A profile of work that does so many verbs: (file, function, calls a verb, share of the time), largest first."""
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    statistics = pstats.Stats(profile)
    rows = statistics.stats.items()  # type: ignore[attr-defined]  # documented only as what print_stats reads
    total = sum(own for _, (_, _, own, _, _) in rows)
    found = [
        (_short(file), function, calls / count, own / total) for (file, _, function), (_, calls, own, _, _) in rows
    ]
    return sorted(found, key=lambda row: -row[3])


def _short(file: str) -> str:
    """``models/nic/nic.py`` for a file of ours, the package for another's."""
    path = Path(file)
    root = Path(__file__).resolve().parents[2]
    if path.is_absolute() and path.resolve().is_relative_to(root) and "site-packages" not in path.parts:
        return path.resolve().relative_to(root).as_posix()
    return path.parent.name if path.is_absolute() else "built in"
