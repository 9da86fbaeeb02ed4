"""The naive model of a whole workload."""

from __future__ import annotations

import gc
from functools import partial

import simpy

from ...models.durability.places import Domain
from ...models.memory.devices import AddressSpace, MemoryDevice
from ...models.verbs import Span
from ...sim.streams import Streams
from .adapter import Adapter, Message
from .cpu import Core, Thread
from .engine import Process, Simulation
from .host import Host
from .network import Network
from .workload import Connection, Outcome, Program, Seen, Workload, execute

DEVICES = ("dram", "pm")


class Machine:
    """A node: memory, adapter, cores, and a thread on the last core that polls for receive completions."""

    def __init__(self, sim: Simulation, workload: Workload, node: int, network: Network, streams: Streams) -> None:
        platform = workload.platform
        devices = []
        for index, name in enumerate(DEVICES):
            profile = platform.memory[name]
            size_bytes = platform.media[profile.device].capacity_bytes * profile.dimms
            domain = Domain(profile.domain)
            number = node * len(DEVICES) + index
            devices.append(MemoryDevice(number, index, name, profile.device, domain, profile.dimms, size_bytes))
        self.memory = AddressSpace(devices)
        self.host = Host(sim, platform, self.memory, streams)
        arbiter = streams.stream(f"DMA read order of node[{node}]")
        self.adapter = Adapter(sim, platform, node, self.host, network, arbiter)
        private = workload.platform.private
        buffers = private.fill_buffers, private.prefetch_lines
        self.cores = [Core(sim, core, *buffers) for core in range(workload.cores + 1)]
        self.received = simpy.Store(sim)
        self.pool = self.memory[workload.memory].allocate(workload.pool_bytes, "pool", align=4096)
        self.host.poke(self.pool, workload.content(node).randbytes(workload.pool_bytes))


class NaiveSystem:
    """All machines of a workload; ``run`` lets everything happen."""

    def __init__(self, workload: Workload) -> None:
        self.sim = Simulation()
        self.workload = workload
        self.seen: list[Seen] = []
        network = Network(self.sim, workload.platform, workload.nodes)
        streams = Streams(workload.seed)
        self.machines = [Machine(self.sim, workload, node, network, streams) for node in range(workload.nodes)]
        self._ranges: list[tuple[str, int, int, int]] = []
        self._queue_pairs = [0] * workload.nodes
        self._threads = 0
        for number, connection in enumerate(workload.connections):
            self._connect(number, connection)
        for number, program in enumerate(workload.programs):
            self.sim.process(
                self._program(number, program, self._thread(program.node, program.core, f"program {number}"))
            )
        for node in range(workload.nodes):
            self.sim.process(self._receive(node, self._thread(node, workload.cores, f"receiver of node {node}")))

    def run(self) -> Outcome:
        """Until nothing is left to do; Python's cyclic garbage collector is off meanwhile, as in the other model."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            self.sim.run()
        finally:
            if collecting:
                gc.enable()
        memory = {f"pool of node {node}": self._bytes(node) for node in range(self.workload.nodes)}
        for name, node, address, length in self._ranges:
            memory[name] = self.machines[node].host.peek(address, length)
        return Outcome(sorted(self.seen, key=lambda seen: (seen.at_ps, seen.who)), memory)

    def _bytes(self, node: int) -> bytes:
        return self.machines[node].host.peek(self.machines[node].pool, self.workload.pool_bytes)

    def _thread(self, node: int, core: int, name: str) -> Thread:
        machine = self.machines[node]
        self._threads += 1
        number = (node * (self.workload.cores + 1) + core) * 1000 + self._threads
        return Thread(self.sim, self.workload.platform, machine.host, machine.cores[core], name, number)

    def _allocate(self, name: str, node: int, length: int) -> int:
        address = self.machines[node].memory["dram"].allocate(max(64, length), name)
        self._ranges.append((name, node, address, length))
        return address

    def _next_number(self, node: int) -> int:
        self._queue_pairs[node] += 1
        return self._queue_pairs[node]

    def _connect(self, number: int, connection: Connection) -> None:
        requester, responder = self.machines[connection.requester], self.machines[connection.responder]
        sent = simpy.Store(self.sim)
        own = self._next_number(connection.requester)
        pair = requester.adapter.pair(own, sent, simpy.Store(self.sim))
        other = self._next_number(connection.responder)
        pair.peer = responder.adapter.pair(other, simpy.Store(self.sim), responder.received)
        pair.peer.peer = pair
        messages = []
        for turn, request in enumerate(connection.requests):
            name = f"connection {number} request {turn}"
            if not (connection.one_buffer and turn):
                local = self._allocate(f"local buffer of {name}", connection.requester, request.length)
            if request.verb != "READ":
                requester.host.poke(local, self.workload.content(number, turn).randbytes(request.length))
            if request.verb == "SEND":
                buffer = self._allocate(f"receive buffer of {name}", connection.responder, request.length)
                pair.peer.receives.append(buffer)
            remote = responder.pool + request.offset
            messages.append(Message(request, turn, local, remote, Span(f"{name}: {request}")))
        thread = self._thread(connection.requester, connection.core, f"connection {number}")

        def see(message: Message) -> None:
            reads = message.request.verb == "READ"
            data = requester.host.peek(message.local, message.request.length) if reads else b""
            self._see(message.span, data)

        def code() -> Process:
            yield from thread._wait(self.sim.timeout(connection.start_ps))
            outstanding = 0
            for message in messages:
                if outstanding == connection.window:
                    see((yield from thread.poll(sent)))
                    outstanding -= 1
                yield from thread.post(requester.adapter, pair, message)
                outstanding += message.request.signalled
            for _ in range(outstanding):
                see((yield from thread.poll(sent)))

        self.sim.process(code())

    def _see(self, span: Span, data: bytes, what: str = "") -> None:
        self.seen.append(Seen(span.label + what, self.sim.now_ps, data, tuple(span.marks)))

    def _receive(self, node: int, thread: Thread) -> Process:
        for _ in range(self.workload.receives(node)):
            message, address = yield from thread.poll(self.machines[node].received)
            data = thread.host.peek(address, message.request.length)
            self._see(message.span, data, ", received")

    def _program(self, number: int, program: Program, thread: Thread) -> Process:
        yield from thread._wait(self.sim.timeout(program.start_ps))
        pool = self.machines[program.node].pool
        for turn, instruction in enumerate(program.instructions):
            span = Span(f"program {number} instruction {turn}: {instruction}")
            where = pool + instruction.offset
            span.mark("issue", self.sim.now_ps)
            content = self.workload.content(number, turn, -1)
            data = yield from execute(thread, instruction, where, partial(content.randbytes, instruction.length))
            span.mark("done", self.sim.now_ps)
            self._see(span, data)


def naive(workload: Workload) -> Outcome:
    """Drive the naive model with a workload."""
    return NaiveSystem(workload.comparable()).run()
