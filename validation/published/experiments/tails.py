"""Experiments of latency beside its median: tails of single operations, and loads while other cores load the memory."""

from __future__ import annotations

import random
from collections import deque
from heapq import heapify, heappop, heappush

from ....models.cpu import Thread
from ....models.memory.imc import MemoryController
from ....models.profiles.platform import Platform
from ....models.verbs import Opcode, QueuePair
from ...rigs.pair import Code, Pair
from .cores import LINE, LoadedMachine
from .experiments import NO_ADAPTER, experiment

XPLINE = 256
WARM_UP = 16
LOADS = 512
OVERWRITES, BLOCK_BYTES = 15_000, 1 << 16
"""Writes of one overwrite test to a block of a region, for two blocks at most: enough for a block to move."""
OPERATIONS = 3000
"""Of one latency test: at 2 us each they meet six ticks of 1,000 Hz, two in a thousand."""
STREAMS = 23
"""Beside the core that is timed: all others of a socket of FAST'20's machine, as MLC has them."""
IN_FLIGHT = 10
"""Lines of one stream on their way, as many as a core has fill buffers."""
STREAM_BYTES = 1 << 24
TRAFFIC_BYTES = 4 << 20
"""What the streams move before loads are timed, and then once more: until then buffers fill."""


def quantile(samples: list[int], share: float) -> int:
    """The smallest sample that so many of them do not exceed."""
    ranked = sorted(samples)
    return ranked[min(len(ranked) - 1, max(0, -int(-len(ranked) * share // 1) - 1))]


@experiment("overwrite-tail", "time", NO_ADAPTER)
def overwrite_tail(platform: Platform, region: int, *, share: float = 0.99999, memory: str = "pm") -> float:
    """A high quantile of 256 B written past the caches and fenced, over a region again and again (OptaneStudy)."""
    machine = LoadedMachine(platform, memory)
    thread, base = machine.threads[0], machine.allocate(region)
    took: list[int] = []

    def code() -> Code:
        for number in range(OVERWRITES * min(2, max(1, region // BLOCK_BYTES))):
            start_ps = thread.now_ps
            yield from thread.ntstore(base + number * XPLINE % region, bytes(XPLINE))
            yield from thread.sfence()
            took.append(thread.now_ps - start_ps)

    machine.run(code())
    return float(quantile(took, share))


@experiment("verb-tail", "time")
def verb_tail(platform: Platform, size: int, *, verb: str = "READ", share: float = 0.99, above: float = 0.5) -> float:
    """By how much one quantile of a latency is above another (ib_read_lat, ib_write_lat); ``above`` 0: above nothing.

    A READ is from the post until its completion is polled, a WRITE half of a ping-pong.
    """
    pair = Pair(platform, region_bytes=max(size, 1 << 12))
    took = _reads(pair, size) if verb == "READ" else _ping_pong(pair, size)
    return float(quantile(took, share) - (quantile(took, above) if above else 0))


def _reads(pair: Pair, size: int) -> list[int]:
    took: list[int] = []

    def code() -> Code:
        thread = pair.thread
        for number in range(OPERATIONS + WARM_UP):
            start_ps = thread.now_ps
            yield from thread.post_send(pair.queue_pairs[0], pair.work(Opcode.IBV_WR_RDMA_READ, size, number=number))
            yield from thread.poll(pair.sent)
            took.append(thread.now_ps - start_ps)

    pair.run(code())
    return took[WARM_UP:]


def _ping_pong(pair: Pair, size: int) -> list[int]:
    """Both sides write to each other in turn; each polls its completion, and waits for the last byte of what comes."""
    sides = []
    for node in (pair.client, pair.server):
        memory = node.memory["dram"]
        outbox, inbox = (memory.allocate(max(size, LINE), what, align=LINE) for what in ("outbox", "inbox"))
        sides.append((outbox, inbox, node.alloc_pd().reg_mr(inbox, max(size, LINE)).key))
    took: list[int] = []

    def side(thread: Thread, qp: QueuePair, mine: int) -> Code:
        outbox, inbox, _ = sides[mine]
        _, target, key = sides[1 - mine]
        seen, last = bytes(1), size - 1
        for number in range(1, OPERATIONS + WARM_UP + 1):
            turn = bytes([number % 255 + 1])
            start_ps = thread.now_ps
            if mine:
                yield from thread.spin([(inbox + last, seen)])
            yield from thread.store(outbox + last, turn)
            work = pair.work(Opcode.IBV_WR_RDMA_WRITE, size, number=number)
            work.local_address, work.remote_address, work.rkey = outbox, target, key
            yield from thread.post_send(qp, work)
            yield from thread.poll(qp.send_cq)
            if not mine:
                yield from thread.spin([(inbox + last, seen)])
                took.append((thread.now_ps - start_ps) // 2)
            seen = turn

    pair.clock.start(side(pair.server_thread(), pair.peers[0], 1))
    pair.run(side(pair.thread, pair.queue_pairs[0], 0))
    return took[WARM_UP:]


@experiment("load-under-traffic", "time", NO_ADAPTER)
def load_under_traffic(
    platform: Platform, rate: float, *, traffic: str = "ntstore", pattern: str = "sequential", memory: str = "pm"
) -> float:
    """By how much a dependent load takes longer while others move so many GB/s (MLC, loaded latency).

    Memory alone, without caches: streams write or read line after line, each in a region of its own, at random instants
    that give the rate; each has so many lines on their way as a core has fill buffers, and waits where they are all.
    """
    described = platform.memory[memory]
    media = platform.media[described.device]
    loaded, alone = (
        _Loads(MemoryController(platform.imc, media, described.dimms), pattern) for _ in ("loaded", "alone")
    )
    for _ in range(LOADS):
        alone.load()
    streams = _Streams(loaded.controller, traffic, rate)
    while streams.moved_bytes < 2 * TRAFFIC_BYTES:
        if streams.next_ps < loaded.now_ps:
            streams.go_on()
        else:
            loaded.load(counts=streams.moved_bytes >= TRAFFIC_BYTES)
    return loaded.mean_ps - alone.mean_ps


class _Loads:
    """Loads of one core, each behind the one before."""

    def __init__(self, controller: MemoryController, pattern: str) -> None:
        self.controller = controller
        self.now_ps = 0
        self._random = random.Random(2) if pattern == "random" else None
        self._line = STREAMS * STREAM_BYTES // LINE
        self._took_ps = self._loads = 0

    def load(self, counts: bool = True) -> None:
        """Load the next line."""
        self._line += 1
        line = self._line + (self._random.randrange(1 << 22) if self._random is not None else 0)
        took_ps, not_before_ps = self.controller.read_line(line, self.now_ps, self.now_ps)
        done_ps = max(self.now_ps, not_before_ps) + took_ps
        if counts:
            self._took_ps += done_ps - self.now_ps
            self._loads += 1
        self.now_ps = done_ps

    @property
    def mean_ps(self) -> float:
        """The mean of those that count."""
        return self._took_ps / self._loads


class _Streams:
    """What other cores do meanwhile."""

    def __init__(self, controller: MemoryController, traffic: str, rate: float) -> None:
        self._controller = controller
        self._writes = traffic == "ntstore"
        self._random = random.Random(1)
        self._gap_ps = LINE * STREAMS / rate * 1e3
        self._lines = [
            number * STREAM_BYTES // LINE + self._random.randrange(STREAM_BYTES // LINE // 2)
            for number in range(STREAMS)
        ]
        self._under_way = [deque([0] * IN_FLIGHT) for _ in range(STREAMS)]
        self._due = [(self._gap(), number) for number in range(STREAMS)]
        heapify(self._due)
        self.moved_bytes = 0

    def _gap(self) -> int:
        return 1 + int(self._random.expovariate(1 / self._gap_ps))

    @property
    def next_ps(self) -> int:
        """When the next line goes."""
        return self._due[0][0]

    def go_on(self) -> None:
        """The next line of the stream whose turn it is."""
        now_ps, number = heappop(self._due)
        line, under_way = self._lines[number], self._under_way[number]
        self._lines[number] += 1
        if self._writes:
            done_ps = self._controller.write_line(line, now_ps)[0]
        else:
            took_ps, not_before_ps = self._controller.read_line(line, now_ps, now_ps)
            done_ps = max(now_ps, not_before_ps) + took_ps
        under_way.append(done_ps)
        heappush(self._due, (max(now_ps + self._gap(), under_way.popleft()), number))
        self.moved_bytes += LINE
