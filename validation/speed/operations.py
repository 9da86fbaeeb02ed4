"""The operations of programs, and their cost in the simulator: verbs of each kind, operations of stores.

Seconds are seconds of this machine, hence *raw timeouts an operation*: how many rounds of a SimPy process that only
waits take as long, measured in turn with it. Calls and bytecodes an operation (:mod:`.counting`) are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from ...models.profiles.platform import load_platform
from ...models.verbs import Opcode, RecvWR, SendFlags, SendWR, Span
from ...scenarios.build import Draft
from ...scenarios.run.experiment import AssembledVariant
from ..rigs.pair import Pair
from .counting import Counts, counts
from .spinning import idle, messages
from .timing import raw_timeouts, timed

PLATFORM = "optane-adr"
RPC_PLATFORM = "rflush-testbed"
WINDOW = 64
"""Requests that a client keeps outstanding, each signalled and polled (perftest's ib_write_bw keeps 128)."""
ROUNDS = 5

Code = Generator[Any, Any, None]
Work = Callable[[], object]


@dataclass(frozen=True)
class Operation:
    """One row of the benchmark: ``prepare`` sets a number of operations up, and returns the work to measure."""

    name: str
    prepare: Callable[[int], Work]
    timed: int
    """How many operations a round measures; fewer take too little time to be measured."""
    counted: int
    """How many operations are counted: rare events (a split, a wrap of a ring) are averaged over them."""
    aim: float | None = None
    """Raw timeouts that an operation takes at most (docs/limits.md, "Speed")."""


@dataclass(frozen=True)
class OperationFigures:
    """The cost of an operation: medians of its rounds, and exact counts."""

    per_second: float
    timeouts: float
    counts: Counts


def requests(
    pair: Pair, opcode: Opcode, length: int, count: int, *, inline: bool = False, span: bool = False, first: int = 0
) -> Code:
    """The client's code that has ``WINDOW`` requests outstanding, one behind the other in the server's region.

    An atomic is a CAS of the region's first word, which counts up, and each of them swaps. ``first`` is the number of
    the first request, ``span`` gives each a span of its own, as an operation of a store has.
    """
    thread, qp, target, outstanding = pair.thread, pair.queue_pairs[0], pair.target, 0
    flags = SendFlags.IBV_SEND_SIGNALED | (SendFlags.IBV_SEND_INLINE if inline else SendFlags.NONE)
    swaps = opcode is Opcode.IBV_WR_ATOMIC_CMP_AND_SWP
    places = 1 if swaps else pair.region_bytes // length
    for number in range(first, first + count):
        if outstanding == WINDOW:
            yield from thread.poll(pair.sent)
            outstanding -= 1
        if span:
            thread.span = Span("WRITE")
        work = SendWR(number, opcode, pair.source, length, target + number % places * length, pair.rkey, flags)
        if swaps:
            work.compare_add, work.swap = number, number + 1
        yield from thread.post_send(qp, work)
        outstanding += 1
    for _ in range(outstanding):
        yield from thread.poll(pair.sent)


def verb(opcode: Opcode, length: int, *, inline: bool = False, span: bool = False) -> Callable[[int], Work]:
    """Requests of one kind to a server's DRAM, after some that warm the queue pair up."""

    def prepare(count: int) -> Work:
        pair = Pair(load_platform(PLATFORM))
        pair.run(requests(pair, opcode, length, 2 * WINDOW, inline=inline, span=span))
        code = requests(pair, opcode, length, count, inline=inline, span=span, first=2 * WINDOW)
        return lambda: pair.run(code)

    return prepare


def send(length: int) -> Callable[[int], Work]:
    """SENDs that a thread of the server receives: it polls, and posts the receive request again."""

    def prepare(count: int) -> Work:
        pair = Pair(load_platform(PLATFORM))
        pair.post_recv(2 * WINDOW, length)
        receiver, peer = pair.server_thread(), pair.peers[0]
        buffer = peer.receive_queue[0].local_address

        def receive(count: int) -> Code:
            for number in range(count):
                yield from receiver.poll(pair.received)
                receiver.post_recv(peer, RecvWR(number, buffer, length))

        def work(count: int) -> None:
            received = pair.clock.start(receive(count))
            pair.run(requests(pair, Opcode.IBV_WR_SEND, length, count, inline=True))
            pair.clock.run_until(received)

        work(2 * WINDOW)
        return lambda: work(count)

    return prepare


def store(scheme: str) -> Callable[[int], Work]:
    """YCSB A on a store of 200 values of 256 B, from 16 clients on two machines: the quickstart's workload, traced."""

    def prepare(count: int) -> Work:
        scenario = Draft.new(
            "bench",
            scenario="bench",
            vary={"platform": [PLATFORM]},
            schemes=[scheme],
            roles={"client": {"machines": 2, "processes": 8}},
            workload={"kind": "ycsb", "mix": "a", "keys": 200, "value": "256 B", "operations": count, "zipf": 0.99},
        ).build()
        (variant,) = scenario.variants()
        experiment = AssembledVariant(scenario, variant)
        return lambda: experiment.system.clock.run_until(experiment.finished)

    return prepare


def rpc(scheme: str, value: str) -> Callable[[int], Work]:
    """Calls of one client on the RDMA Flush paper's machines, writes and reads in turn, as `rpsim run` has them."""

    def prepare(count: int) -> Work:
        scenario = Draft.new(
            "bench",
            scenario="bench",
            platform=RPC_PLATFORM,
            schemes=[scheme],
            roles={"server": {"threads": 4}},
            workload={
                "kind": "ycsb", "reads": 0.5, "order": "alternating", "keys": 1000, "value": value, "operations": count,
            },
        ).build()  # fmt: skip
        (variant,) = scenario.variants()
        experiment = AssembledVariant(scenario, variant, metered=True)
        experiment.system.record_nothing()
        return lambda: experiment.system.clock.run_until(experiment.finished)

    return prepare


_WRITE, _READ = Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_RDMA_READ

VERBS: dict[str, Operation] = {
    "write_64_inline": Operation("WRITE 64 B, inline", verb(_WRITE, 64, inline=True), 6_000, 160, 12),
    "write_64_fetched": Operation("WRITE 64 B, fetched", verb(_WRITE, 64), 3_000, 160),
    "write_64_span": Operation("WRITE 64 B with a span", verb(_WRITE, 64, inline=True, span=True), 3_000, 160),
    "write_4096": Operation("WRITE 4 KiB", verb(_WRITE, 4096), 1_500, 160, 70),
    "write_65536": Operation("WRITE 64 KiB", verb(_WRITE, 65536), 200, 16),
    "read_64": Operation("READ 64 B", verb(_READ, 64), 1_500, 160, 40),
    "read_1024": Operation("READ 1 KiB", verb(_READ, 1024), 1_000, 160, 60),
    "read_65536": Operation("READ 64 KiB", verb(_READ, 65536), 200, 16),
    "send_64": Operation("SEND 64 B, received", send(64), 3_000, 160, 30),
    "spin_64_pairs": Operation("64 spinning pairs", messages(64, 64, 64), 1_024, 256),
    "messaging_put": Operation("PUT 256 B by messages", messages(16, 1, 256), 1_024, 160),
    "cas": Operation("CAS", verb(Opcode.IBV_WR_ATOMIC_CMP_AND_SWP, 8), 1_500, 160),
}
"""By the names that JSON and tests/smoke/ceilings.json have."""

STORES: dict[str, Operation] = {
    "saw": Operation("saw", store("saw"), 320, 96, 366),
    "efactory": Operation("efactory", store("efactory"), 320, 96, 455),
    "client-active": Operation("client-active", store("client-active"), 320, 96, 286),
}
"""Operations of stores. The aims are twice as many a second as before the adapter was composed of parts: 1,640, 1,320
and 2,100 on a machine that makes 1.2 million raw timeouts a second."""


RPCS: dict[str, Operation] = {
    "farm_64": Operation("farm, 64 B", rpc("farm", "64 B"), 320, 64, 800),
    "farm_4096": Operation("farm, 4 KiB", rpc("farm", "4 KiB"), 120, 24, 2_400),
    "farm_65536": Operation("farm, 64 KiB", rpc("farm", "64 KiB"), 12, 4, 30_000),
    "wflush-rpc_64": Operation("wflush-rpc, 64 B", rpc("wflush-rpc", "64 B"), 320, 64, 800),
    "wflush-rpc_4096": Operation("wflush-rpc, 4 KiB", rpc("wflush-rpc", "4 KiB"), 120, 24, 2_400),
    "wflush-rpc_65536": Operation("wflush-rpc, 64 KiB", rpc("wflush-rpc", "64 KiB"), 12, 4, 30_000),
    "idle_polling": Operation("1 us of idle polling", idle, 200_000, 100_000),
}
"""Remote procedure calls, and threads that spin in vain. The aims are 1,500, 500 and 40 calls a second at 64 B, 4 KiB
and 64 KiB on a machine that makes 1.2 million raw timeouts a second."""


def count(operation: Operation) -> Counts:
    """The exact calls and bytecodes of one of these operations."""
    return counts(operation.prepare(operation.counted)).each(operation.counted)


def measure_all(effort: float, on_step: Callable[[str], None]) -> tuple[dict[str, OperationFigures], ...]:
    """The figures of all verbs, of all stores, and of all calls; ``effort`` 1.0 takes a minute."""

    def figures(rows: Mapping[str, Operation]) -> Iterator[tuple[str, OperationFigures]]:
        for key, operation in rows.items():
            on_step(operation.name)
            yield key, measure(operation, effort)

    return dict(figures(VERBS)), dict(figures(STORES)), dict(figures(RPCS))


def measure(operation: Operation, effort: float) -> OperationFigures:
    """The cost of one of these operations here; ``effort`` 1.0 takes some two seconds."""
    paces, ratios = [], []
    for _ in range(ROUNDS):
        done = max(min(WINDOW, operation.timed), int(operation.timed * effort))
        work = operation.prepare(done)
        raw = raw_timeouts(max(1000, int(100_000 * effort))).per_second
        paces.append(timed(done, work).per_second)
        ratios.append(raw / paces[-1])
    return OperationFigures(median(paces), median(ratios), count(operation))
