"""The raw persisting paths of Luo et al., TCAD 2024 (PMRDirect), section V-B: latency of one client, bandwidth of many.

========== ====================================================================================================
PMRDirect  one WRITE into the drive's region, peer to peer; done when its completion is polled
PMEMDirect one WRITE into Optane, DDIO off; done when its completion is polled
PMRSync    WRITE into the DRAM; a server thread sees it, copies it to the region by MMIO stores, answers by WRITE
SSDSync    WRITE into the DRAM; a server thread sees it, writes a block with O_DSYNC, answers by WRITE
========== ====================================================================================================

Nothing is sent inline: the paper does not mention it, and verbs do so only with a flag. With one client the server's
thread spins on the request in memory; with many it waits for the immediate of the WRITE, since a hundred threads that
spin would be simulated load by load.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from typing import Any

from ....models.cpu import Thread
from ....models.profiles.platform import Platform
from ....models.storage.files import File, Open
from ....models.system import NodeSpec, System
from ....models.verbs import Opcode, RecvWR, SendFlags, SendWR
from .experiments import experiment

Code = Generator[Any, Any, Any]

BLOCK_BYTES = 4096
FILE_BLOCKS = 1024
"""Of each client, preallocated and written block after block."""
SLOT_BYTES = 8192
"""Of a client in each memory: payload at its beginning, a flag in its last line."""
FLAG_AT = SLOT_BYTES - 64
DIRECT = {"PMRDirect": "pmr", "PMEMDirect": "pm"}
WARM_ROUNDS = 2
ROUNDS = 40
"""Of each client at saturation."""
SSD_ROUNDS = 600
"""As many as fill the drive's write cache, so that the rate at which it drains shows."""


class Paths:
    """A server with DRAM, Optane, region and drive, and a machine with so many client threads."""

    def __init__(self, platform: Platform, clients: int) -> None:
        memory = ("dram", "pm", "pmr", "ssd")
        specs = {"server": [NodeSpec(cores=clients, memory=memory)], "client": [NodeSpec(cores=clients)]}
        self.system = System(platform, specs, seed=1)
        self.clock = self.system.clock
        self.server, self.client = self.system.nodes["server"][0], self.system.nodes["client"][0]
        self.bases = {name: self.server.memory[name].allocate(SLOT_BYTES * clients, name, 4096) for name in memory[:3]}
        self._pds = self.client.alloc_pd(), self.server.alloc_pd()
        self.keys = {name: self._pds[1].reg_mr(at, SLOT_BYTES * clients).key for name, at in self.bases.items()}
        self._answers = self.client.memory["dram"].allocate(SLOT_BYTES * clients, "answers", 4096)
        self._answers_key = self._pds[0].reg_mr(self._answers, SLOT_BYTES * clients).key
        self.peers = [_Client(self, number) for number in range(clients)]

    def file(self, number: int) -> File:
        """The client's file on the drive, preallocated."""
        return self.server.kernel.file_system("ssd").create(f"log {number}", FILE_BLOCKS * BLOCK_BYTES, Open.O_DSYNC)

    def connect(self, number: int) -> tuple[Any, Any, int, int]:
        """(queue pair of the client, of the server, address and key of the client's answer flag)."""
        ours = self._pds[0].create_qp(self.client.create_cq(), self.client.create_cq())
        theirs = self._pds[1].create_qp(self.server.create_cq(), self.server.create_cq())
        ours.connect(theirs)
        return ours, theirs, self._answers + number * SLOT_BYTES, self._answers_key


class _Client:
    """One client thread and the server thread that serves it."""

    def __init__(self, paths: Paths, number: int) -> None:
        self.paths = paths
        self.number = number
        self.qp, self.peer, self.answer, self.answer_key = paths.connect(number)
        self.thread = paths.client.thread(number, f"client {number}")
        self.served = paths.server.thread(number, f"server {number}")
        self.source = paths.client.memory["dram"].allocate(SLOT_BYTES, "source", 4096)
        self.reply = paths.server.memory["dram"].allocate(64, "reply", 64)

    def slot(self, memory: str) -> int:
        """Where the client's bytes go in a memory of the server."""
        return self.paths.bases[memory] + self.number * SLOT_BYTES

    def direct(self, memory: str, size: int) -> Code:
        """One WRITE, and its completion."""
        yield from self.thread.post_send(self.qp, self._work(Opcode.IBV_WR_RDMA_WRITE, memory, 0, size))
        yield from self.thread.poll(self.qp.send_cq)

    def _work(self, opcode: Opcode, memory: str, at: int, size: int, *, signalled: bool = True) -> SendWR:
        flags = SendFlags.IBV_SEND_SIGNALED if signalled else SendFlags.NONE
        key = self.paths.keys[memory]
        return SendWR(0, opcode, self.source + at, size, self.slot(memory) + at, key, flags)

    # by way of a server thread -----------------------------------------------------------------------------
    def spinning(self, size: int, number: int) -> Code:
        """The client of a synchronous path: payload, flag, then it spins on its own flag."""
        yield from self.thread.store(self.source + FLAG_AT, number.to_bytes(8, "little"))
        payload = self._work(Opcode.IBV_WR_RDMA_WRITE, "dram", 0, size, signalled=False)
        yield from self.thread.post_send(self.qp, payload)
        yield from self.thread.post_send(self.qp, self._work(Opcode.IBV_WR_RDMA_WRITE, "dram", FLAG_AT, 8))
        yield from self.thread.poll(self.qp.send_cq)
        yield from _spin(self.thread, self.answer, number)

    def serving(self, keep: Callable[[Thread], Code], number: int) -> Code:
        """The server's side of the same path."""
        thread = self.served
        yield from _spin(thread, self.slot("dram") + FLAG_AT, number)
        yield from keep(thread)
        yield from self.answering(number)

    def answering(self, number: int, opcode: Opcode = Opcode.IBV_WR_RDMA_WRITE) -> Code:
        """The server's answer: its flag into the client's memory."""
        yield from self.served.store(self.reply, number.to_bytes(8, "little"))
        flags = SendFlags.IBV_SEND_SIGNALED | SendFlags.IBV_SEND_INLINE
        work = SendWR(number, opcode, self.reply, 8, self.answer, self.answer_key, flags)
        yield from self.served.post_send(self.peer, work)
        yield from self.served.poll(self.peer.send_cq)

    def asks_among_many(self, size: int) -> Code:
        """One request of a client among many: each side sees the other's message as an immediate."""
        self.qp.post_recv(RecvWR(0, self.source, 0))
        yield from self.thread.post_send(self.qp, self._work(Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, "dram", 0, size))
        yield from self.thread.poll(self.qp.send_cq)
        yield from self.thread.poll(self.qp.recv_cq)

    def serves_many(self, keep: Callable[[Thread], Code], rounds: int) -> Code:
        """The server's side of the same path."""
        for number in range(rounds):
            self.peer.post_recv(RecvWR(0, self.reply, 0))
            yield from self.served.poll(self.peer.recv_cq)
            yield from keep(self.served)
            yield from self.answering(number, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM)

    def keeper(self, path: str, size: int) -> Callable[[Thread], Code]:
        """The server's handling of a request on this path."""
        if path == "PMRSync":
            return lambda thread: thread.memcpy(self.slot("pmr"), self.slot("dram"), size)
        file, blocks = self.paths.file(self.number), itertools.cycle(range(FILE_BLOCKS))
        return lambda thread: file.pwrite(thread, bytes(BLOCK_BYTES), next(blocks) * BLOCK_BYTES)


def _spin(thread: Thread, address: int, number: int) -> Code:
    """Look at a word until it holds the number."""
    while True:
        found = yield from thread.load(address, 8)
        if int.from_bytes(found, "little") >= number:
            return


@experiment("raw-path-latency", "time")
def raw_path_latency(platform: Platform, size: int, *, path: str) -> float:
    """One client's raw persisting path: from the post until the client knows that it is done."""
    paths = Paths(platform, 1)
    (client,) = paths.peers
    thread = client.thread
    keep = None if path in DIRECT else client.keeper(path, size)

    def code() -> Code:
        took_ps = 0
        for number in range(1, WARM_ROUNDS + 2):
            yield from thread.store(client.source, bytes(size))
            start_ps = thread.now_ps
            if keep is None:
                yield from client.direct(DIRECT[path], size)
            else:
                paths.clock.start(client.serving(keep, number))
                yield from client.spinning(size, number)
            took_ps = thread.now_ps - start_ps
        return took_ps

    return float(paths.clock.run_until(paths.clock.start(code())))


@experiment("raw-path-latency-ratio", "ratio")
def raw_path_latency_ratio(platform: Platform, size: int, *, path: str, over: str, over_size: int = 0) -> float:
    """One raw path's latency over another's, or over its own at another size."""
    mine = raw_path_latency(platform, size, path=path)
    return mine / raw_path_latency(platform, over_size or size, path=over)


@experiment("raw-path-bandwidth", "bytes_per_s")
def raw_path_bandwidth(platform: Platform, size: int, *, path: str, clients: int = 32) -> float:
    """Payload bytes a second of many clients, each with one request under way."""
    paths = Paths(platform, clients)
    done_ps: list[int] = []
    rounds = ROUNDS if path != "SSDSync" else SSD_ROUNDS

    def code(client: _Client) -> Code:
        for _ in range(rounds):
            if path in DIRECT:
                yield from client.direct(DIRECT[path], size)
            else:
                yield from client.asks_among_many(size)
            done_ps.append(client.thread.now_ps)

    for client in paths.peers:
        if path not in DIRECT:
            paths.clock.start(client.serves_many(client.keeper(path, size), rounds))
    running = [paths.clock.start(code(client)) for client in paths.peers]
    for one in running:
        paths.clock.run_until(one)
    done_ps.sort()
    first, last = len(done_ps) // 4, len(done_ps) * 9 // 10
    return (last - first) * size * 1e12 / (done_ps[last] - done_ps[first])


@experiment("raw-path-bandwidth-ratio", "ratio")
def raw_path_bandwidth_ratio(
    platform: Platform,
    size: int,
    *,
    path: str,
    over: str,
    clients: int = 32,
    over_clients: int = 32,
    over_size: int = 0,
) -> float:
    """One raw path's bandwidth over another's, or over its own at another size."""
    mine = raw_path_bandwidth(platform, size, path=path, clients=clients)
    return mine / raw_path_bandwidth(platform, over_size or size, path=over, clients=over_clients)
