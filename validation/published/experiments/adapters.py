"""Experiments of an adapter under load: connections, pages, atomics and what is beside them; what software pays.

Threads keep a window of requests under way; a rate is what completes between the first quarter and the last tenth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ....models.cpu import Thread
from ....models.profiles.platform import Platform
from ....models.system import Node, NodeSpec, System
from ....models.verbs import REMOTE, Opcode, QueuePair, SendFlags, SendWR
from ....sim.units import parse_bytes
from .cores import steady
from .experiments import experiment
from .scale import rate

Code = Generator[Any, Any, Any]
Draw = Callable[[np.random.Generator], tuple[QueuePair, int]]
"""Picks a queue pair, and an address at its other end."""

LINE = 64
REGION_BYTES = 1 << 20
THREADS = 8
VERBS = {
    "WRITE": Opcode.IBV_WR_RDMA_WRITE,
    "READ": Opcode.IBV_WR_RDMA_READ,
    "CAS": Opcode.IBV_WR_ATOMIC_CMP_AND_SWP,
    "FETCH_ADD": Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD,
}


class Load:
    """Machines, one of them the ``server``, with a region each, and threads that send requests to one another's."""

    def __init__(self, platform: Platform, clients: int = 1, cores: int = THREADS) -> None:
        specs = {"server": [NodeSpec(cores=cores)], "client": [NodeSpec(cores=cores)] * clients}
        self.system = System(platform, specs, seed=1)
        self.server, self.clients = self.system.nodes["server"][0], self.system.nodes["client"]
        nodes = [self.server, *self.clients]
        self._domains = {node.name: node.alloc_pd() for node in nodes}
        self.region = {node.name: node.memory["dram"].allocate(REGION_BYTES, "region", align=4096) for node in nodes}
        self._keys = {
            node.name: self._domains[node.name].reg_mr(self.region[node.name], REGION_BYTES, REMOTE).key
            for node in nodes
        }
        self._codes: list[Code] = []

    def connect(self, ours: Node, theirs: Node, our_queue: Any, their_queue: Any) -> tuple[QueuePair, QueuePair]:
        """A queue pair's two ends, with the queues of the completions of each."""
        end = self._domains[ours.name].create_qp(our_queue, ours.create_cq())
        other = self._domains[theirs.name].create_qp(their_queue, theirs.create_cq())
        end.connect(other)
        return end, other

    def stream(
        self, thread: Thread, queue: Any, target: Node, draw: Draw, verb: str, size: int, window: int, verbs: int
    ) -> list[int]:
        """Let ``thread`` send so many requests to ``target``; the list gets the instants of their completions."""
        done: list[int] = []
        source = self._region_of(thread)
        flags = SendFlags.IBV_SEND_SIGNALED
        if verb == "WRITE":
            flags |= SendFlags.IBV_SEND_INLINE
        key, seed = self._keys[target.name], len(self._codes)

        def code() -> Code:
            random = np.random.default_rng(seed)
            for turn in range(verbs + window):
                if turn >= window:
                    yield from thread.poll(queue)
                    done.append(thread.now_ps)
                if turn < verbs:
                    queue_pair, at = draw(random)
                    work = SendWR(turn, VERBS[verb], source, size, self.region[target.name] + at, key, flags)
                    yield from thread.post_send(queue_pair, work)

        self._codes.append(code())
        return done

    def _region_of(self, thread: Thread) -> int:
        return next(self.region[name] for name in self.region if thread.name.startswith(name))

    def thread(self, node: Node, core: int) -> Thread:
        """A thread of a machine."""
        return node.thread(core, f"{node.name} {core}")

    def run(self, streams: Sequence[list[int]]) -> float:
        """Run until all have sent theirs; returns the completions a second of these streams."""
        clock = self.system.clock
        for process in [clock.start(code) for code in self._codes]:
            clock.run_until(process)
        return steady(sorted(instant for stream in streams for instant in stream), 1)


def _anywhere(queue_pairs: Sequence[QueuePair], places: int = REGION_BYTES // LINE) -> Draw:
    """Any of these queue pairs, any line of the region."""
    return lambda random: (queue_pairs[int(random.integers(len(queue_pairs)))], int(random.integers(places)) * LINE)


def _in_turn(targets: Sequence[tuple[QueuePair, int]]) -> Draw:
    """One queue pair after the other, each to its place."""
    turns = itertools.cycle(targets)
    return lambda random: next(turns)


@experiment("rate-all-to-all", "per_s")
def rate_all_to_all(
    platform: Platform, queue_pairs: int, *, verb: str = "READ", size: int = 32, window: int = 16, verbs: int = 8000
) -> float:
    """What one adapter sends, of two with so many queue pairs, while it executes as many for the other.

    As ``rc-swarm`` of rdma_bench: eight threads a machine, each with its own queue pairs, any of them each time.
    """
    load = Load(platform)
    ours, theirs = load.clients[0], load.server
    queues = [(ours.create_cq(), theirs.create_cq()) for _ in range(THREADS)]
    ends = [load.connect(ours, theirs, *queues[number % THREADS]) for number in range(queue_pairs)]
    streams = []
    for number in range(THREADS):
        own = ends[number::THREADS]
        for side, (node, target) in enumerate(((ours, theirs), (theirs, ours))):
            draw, queue = _anywhere([end[side] for end in own]), queues[number][side]
            thread = load.thread(node, number)
            streams.append(load.stream(thread, queue, target, draw, verb, size, window, verbs // (2 * THREADS)))
    return load.run(streams) / 2


@experiment("rate-loss-over-region", "ratio")
def rate_loss_over_region(
    platform: Platform, region: str, *, fits: str = "64 KiB/4 KiB", size: int = 8, scale: int = 64, verbs: int = 8000
) -> float:
    """The rate of small WRITEs to any place of a region (``16 MiB/4 KiB``: size and page) over one that fits.

    Regions and pages are ``scale`` times smaller where the pages stay larger than 4 KiB: their number is what counts.
    """

    def of(which: str) -> float:
        region_bytes, page_bytes = (parse_bytes(part) for part in which.split("/"))
        smaller = max(1, min(scale, page_bytes // 4096))
        return rate(
            platform, queue_pairs=THREADS, size=size, region=region_bytes // smaller, page=page_bytes // smaller,
            verbs=verbs,
        )  # fmt: skip

    return of(region) / of(fits)


@experiment("rate-over-clients", "per_s")
def rate_over_clients(
    platform: Platform,
    clients: int,
    *,
    verb: str = "FETCH_ADD",
    words: str = "shared",
    queue_pairs: int = 8,
    window: int = 128,
    verbs: int = 4000,
) -> float:
    """Requests of 8 B a second to one server, of clients with a thread each: to one word, or a word a queue pair."""
    load = Load(platform, clients, cores=1)
    streams = []
    for index, client in enumerate(load.clients):
        queue, there = client.create_cq(), load.server.create_cq()
        ends = [load.connect(client, load.server, queue, there)[0] for _ in range(queue_pairs)]
        places = [0 if words == "shared" else (index * queue_pairs + number) * LINE for number in range(queue_pairs)]
        draw = _in_turn(list(zip(ends, places, strict=True)))
        thread = load.thread(client, 0)
        streams.append(load.stream(thread, queue, load.server, draw, verb, 8, window, verbs // clients))
    return load.run(streams)


@experiment("rate-over-window", "per_s")
def rate_over_window(
    platform: Platform, window: int, *, verb: str = "CAS", words: str = "own", threads: int = 24, verbs: int = 8000
) -> float:
    """Requests of 8 B a second of so many threads with a queue pair each, over those that each has under way."""
    load = Load(platform, cores=threads)
    client, server = load.clients[0], load.server
    streams = []
    for number in range(threads):
        queue = client.create_cq()
        end = load.connect(client, server, queue, server.create_cq())[0]
        place = 0 if words == "shared" else number * LINE
        thread = load.thread(client, number)
        streams.append(load.stream(thread, queue, server, _in_turn([(end, place)]), verb, 8, window, verbs // threads))
    return load.run(streams)


@experiment("rate-loss-beside-atomics", "ratio")
def rate_loss_beside_atomics(
    platform: Platform, attackers: int, *, verb: str = "READ", threads: int = 8, window: int = 16, verbs: int = 6000
) -> float:
    """The rate of a client's small requests beside as many queue pairs of CAS to one word, over that without."""

    def of(others: int) -> float:
        load = Load(platform, clients=2, cores=threads)
        victim, attacker = load.clients
        measured = []
        for client, count, kind in ((victim, threads, verb), (attacker, others, "CAS")):
            for number in range(count):
                queue = client.create_cq()
                end = load.connect(client, load.server, queue, load.server.create_cq())[0]
                draw = _anywhere([end]) if kind != "CAS" else _in_turn([(end, 0)])
                thread = load.thread(client, number)
                done = load.stream(thread, queue, load.server, draw, kind, 8, window, verbs // threads)
                if kind != "CAS":
                    measured.append(done)
        return load.run(measured)

    return of(attackers) / of(0)


@experiment("registration-per-page", "time")
def registration_per_page(platform: Platform, what: str, *, region: int = 1 << 30) -> float:
    """``ibv_reg_mr`` (``register``) or ``ibv_dereg_mr`` (``deregister``) of a large region, for each page of 4 KiB."""
    took = _registration(platform, region)
    return took[what] / (region // 4096)


@experiment("registration", "time")
def registration(platform: Platform, size: int) -> float:
    """``ibv_reg_mr`` and ``ibv_dereg_mr`` of a buffer, one after the other."""
    return float(sum(_registration(platform, size).values()))


def _registration(platform: Platform, size: int) -> dict[str, int]:
    node = System(platform, {"server": [NodeSpec()]}, seed=1).nodes["server"][0]
    clock, thread, domain = node.system.clock, node.thread(0, "server"), node.alloc_pd()
    address = node.memory["dram"].allocate(size, "region", align=4096)
    instants: list[int] = []

    def code() -> Code:
        instants.append(thread.now_ps)
        region = yield from thread.reg_mr(domain, address, size)
        instants.append(thread.now_ps)
        yield from thread.dereg_mr(domain, region)
        instants.append(thread.now_ps)

    clock.run_until(clock.start(code()))
    return {"register": instants[1] - instants[0], "deregister": instants[2] - instants[1]}
