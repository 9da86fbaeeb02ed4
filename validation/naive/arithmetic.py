"""The arithmetic model (``models``), driven with the workloads of the naive one."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from ...models.cpu import Thread
from ...models.fabric.disturbance import Disturbance
from ...models.memory.devices import MemoryDevice
from ...models.system import NodeSpec, System
from ...models.verbs import CompletionQueue, Opcode, QueuePair, RecvWR, SendFlags, SendWR, Span
from ...sim.trace import NEVER
from .model import DEVICES
from .workload import Connection, Outcome, Program, Seen, Workload, execute

Code = Generator[Any, Any, None]
OPCODES = {"WRITE": Opcode.IBV_WR_RDMA_WRITE, "READ": Opcode.IBV_WR_RDMA_READ, "SEND": Opcode.IBV_WR_SEND}


class ArithmeticSystem:
    """A system of ``models`` that is ready to run a workload."""

    def __init__(self, workload: Workload, disturbance: Disturbance | None = None, spans_every: int = 1) -> None:
        """``spans_every`` 2 gives every second request of a connection a span, which then reports its hops."""
        self.workload = workload
        self._spans_every = spans_every
        specs = {"node": [NodeSpec(workload.cores + 1, DEVICES) for _ in range(workload.nodes)]}
        self.system = System(workload.platform, specs, workload.seed, disturbance=disturbance)
        self.nodes, self.clock = self.system.nodes["node"], self.system.clock
        self.seen: list[Seen] = []
        self._ranges: list[tuple[str, int, int, int]] = []
        self._received: list[CompletionQueue] = []
        self._spans: dict[tuple[int, int], Span] = {}
        self._buffers: dict[tuple[int, int], tuple[int, int]] = {}
        self.pairs: list[QueuePair] = []
        """The requesters' ends of the connections."""
        self.pools, self.domains, self.keys = [], [], []
        for index, node in enumerate(self.nodes):
            self.pools.append(node.memory[workload.memory].allocate(workload.pool_bytes, "pool", align=4096))
            self._poke(index, self.pools[-1], workload.content(index).randbytes(workload.pool_bytes))
            self.domains.append(node.alloc_pd())
            self.keys.append(self.domains[-1].reg_mr(self.pools[-1], workload.pool_bytes).key)
            self._received.append(node.create_cq())
        for number, connection in enumerate(workload.connections):
            self._connect(number, connection)
        for number, program in enumerate(workload.programs):
            self.clock.start(self._program(number, program))
        for index in range(workload.nodes):
            self.clock.start(self._receive(index))

    def run(self) -> Outcome:
        """Until nothing is left to do."""
        self.clock.run_until()
        return self.outcome()

    def receive_buffer(self, number: int, turn: int) -> tuple[MemoryDevice, int]:
        """Where the SEND of a connection's request goes: the device, and the offset in it."""
        return self.nodes[self.workload.connections[number].responder].memory.locate(self._buffers[number, turn][0])

    def outcome(self) -> Outcome:
        """The completions seen so far, and all memory as it is when everything has arrived."""
        size = self.workload.pool_bytes
        memory = {f"pool of node {index}": self._bytes(index, pool, size) for index, pool in enumerate(self.pools)}
        memory |= {name: self._bytes(index, address, length) for name, index, address, length in self._ranges}
        return Outcome(sorted(self.seen, key=lambda seen: (seen.at_ps, seen.who)), memory)

    def _poke(self, index: int, address: int, data: bytes) -> None:
        device, offset = self.nodes[index].memory.locate(address)
        device.space.poke(offset, data)

    def _bytes(self, index: int, address: int, length: int, at_ps: int = NEVER) -> bytes:
        device, offset = self.nodes[index].memory.locate(address)
        return device.space.read(at_ps, offset, length)

    def _allocate(self, name: str, index: int, length: int) -> int:
        address = self.nodes[index].memory["dram"].allocate(max(64, length), name)
        self._ranges.append((name, index, address, length))
        return address

    def _connect(self, number: int, connection: Connection) -> None:
        requester, responder = self.nodes[connection.requester], self.nodes[connection.responder]
        sent = requester.create_cq()
        pair = self.domains[connection.requester].create_qp(sent, requester.create_cq())
        pair.connect(
            self.domains[connection.responder].create_qp(responder.create_cq(), self._received[connection.responder])
        )
        assert pair.peer is not None
        self.pairs.append(pair)
        works = []
        for turn, request in enumerate(connection.requests):
            name = f"connection {number} request {turn}"
            if not (connection.one_buffer and turn):
                local = self._allocate(f"local buffer of {name}", connection.requester, request.length)
            if request.verb != "READ":
                content = self.workload.content(number, turn).randbytes(request.length)
                self._poke(connection.requester, local, content)
            identity = number * 1_000_000 + turn
            if request.verb == "SEND":
                buffer = self._allocate(f"receive buffer of {name}", connection.responder, request.length)
                self._buffers[number, turn] = buffer, request.length
                pair.peer.post_recv(RecvWR(identity, buffer, request.length))
            flags = SendFlags.IBV_SEND_SIGNALED if request.signalled else SendFlags.NONE
            if request.inline and request.verb != "READ":
                flags |= SendFlags.IBV_SEND_INLINE
            remote = self.pools[connection.responder] + request.offset
            key = self.keys[connection.responder]
            works.append(SendWR(identity, OPCODES[request.verb], local, request.length, remote, key, flags))
            self._spans[number, turn] = Span(f"{name}: {request}")
        thread = requester.thread(connection.core, f"connection {number}")

        def see(wr_id: int) -> None:
            work = works[wr_id % 1_000_000]
            reads = work.opcode is Opcode.IBV_WR_RDMA_READ
            now_ps = self.clock.now_ps
            data = self._bytes(connection.requester, work.local_address, work.length, now_ps) if reads else b""
            self._see(self._spans[number, wr_id % 1_000_000], data)

        def code() -> Code:
            yield self.clock.until(connection.start_ps)
            outstanding = 0
            for turn, work in enumerate(works):
                if outstanding == connection.window:
                    thread.span = None
                    see((yield from thread.poll(sent)).wr_id)
                    outstanding -= 1
                thread.span = self._spans[number, turn] if turn % self._spans_every == 0 else None
                yield from thread.post_send(pair, work)
                outstanding += connection.requests[turn].signalled
            thread.span = None
            for _ in range(outstanding):
                see((yield from thread.poll(sent)).wr_id)

        self.clock.start(code())

    def _see(self, span: Span, data: bytes, what: str = "") -> None:
        self.seen.append(Seen(span.label + what, self.clock.now_ps, data, tuple(span.marks)))

    def _receive(self, index: int) -> Code:
        thread = self.nodes[index].thread(self.workload.cores, f"receiver of node {index}")
        for _ in range(self.workload.receives(index)):
            completion = yield from thread.poll(self._received[index])
            at = divmod(completion.wr_id, 1_000_000)
            self._see(self._spans[at], self._bytes(index, *self._buffers[at], self.clock.now_ps), ", received")

    def _program(self, number: int, program: Program) -> Code:
        thread: Thread = self.nodes[program.node].thread(program.core, f"program {number}")
        yield self.clock.until(program.start_ps)
        for turn, instruction in enumerate(program.instructions):
            span = Span(f"program {number} instruction {turn}: {instruction}")
            where = self.pools[program.node] + instruction.offset
            span.mark("issue", self.clock.now_ps)
            content = self.workload.content(number, turn, -1)
            data = yield from execute(thread, instruction, where, partial(content.randbytes, instruction.length))
            span.mark("done", self.clock.now_ps)
            self._see(span, data)


def arithmetic(workload: Workload) -> Outcome:
    """Drive the arithmetic model with a workload; every second request has a span."""
    return ArithmeticSystem(workload.comparable(), spans_every=2).run()
