"""Messaging by spinning, as benchmarks have it: clients WRITE into slots of a server, whose threads spin on bytes.

A reply is a WRITE into the client's slot, on which the client spins. Every WRITE is unsignalled and inline where it
fits, so neither side ever polls a completion.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from ...models.cpu import Thread
from ...models.profiles.platform import load_platform
from ...models.system import NodeSpec, System
from ...models.verbs import Opcode, QueuePair, SendFlags, SendWR
from ...sim.units import PS_PER_US

PLATFORM = "optane-adr"
REPLY_BYTES = 8
Code = Generator[Any, Any, None]


class Box:
    """Room for a message at its receiver, and the sender's copy; the last byte is the message's turn."""

    def __init__(self, sender: Any, receiver: Any, qp: QueuePair, length: int) -> None:
        self.length = length
        self.address = receiver.memory["dram"].allocate(length, "box", align=64)
        self.source = sender.memory["dram"].allocate(length, "message", align=64)
        self.rkey = receiver.alloc_pd().reg_mr(self.address, length).key
        self.qp = qp
        self.sent = self.taken = 0

    @property
    def last(self) -> tuple[int, bytes]:
        """The last byte as the receiver has seen it."""
        return self.address + self.length - 1, bytes([self.taken % 256])

    def send(self, thread: Thread) -> Code:
        """WRITE the next message."""
        self.sent += 1
        yield from thread.store(self.source, bytes(self.length - 1) + bytes([self.sent % 256]))
        inline = self.length <= self.qp.max_inline_data
        flags = SendFlags.IBV_SEND_INLINE if inline else SendFlags.NONE
        work = SendWR(self.sent, Opcode.IBV_WR_RDMA_WRITE, self.source, self.length, self.address, self.rkey, flags)
        yield from thread.post_send(self.qp, work)

    def take(self, thread: Thread) -> Code:
        """Load the message whose last byte has come."""
        self.taken += 1
        yield from thread.load(self.address, self.length)


class Spinners:
    """``pairs`` clients, each on a machine's core of its own, and a server with ``threads`` that share their slots."""

    def __init__(self, pairs: int, threads: int, message_bytes: int) -> None:
        specs = {"server": [NodeSpec(threads)], "client": [NodeSpec(pairs)]}
        self.system = System(load_platform(PLATFORM), specs, seed=1)
        self.clock = self.system.clock
        (server,), (client,) = self.system.nodes["server"], self.system.nodes["client"]
        self.clients = [client.thread(core, f"client {core}") for core in range(pairs)]
        self.servers = [server.thread(core, f"server {core}") for core in range(threads)]
        self.requests: list[Box] = []
        self.replies: list[Box] = []
        here, there = client.alloc_pd(), server.alloc_pd()
        for _ in range(pairs):
            ours = here.create_qp(client.create_cq(), client.create_cq())
            theirs = there.create_qp(server.create_cq(), server.create_cq())
            ours.connect(theirs)
            self.requests.append(Box(client, server, ours, message_bytes))
            self.replies.append(Box(server, client, theirs, REPLY_BYTES))
        self.table = server.memory["dram"].allocate(pairs * message_bytes, "table", align=64)
        for number, thread in enumerate(self.servers):
            self.clock.start(self.serve(thread, range(number, pairs, threads)))

    def serve(self, thread: Thread, own: Sequence[int]) -> Code:
        """A server thread: copy each message into its table, and reply."""
        while True:
            turn = yield from thread.spin([self.requests[number].last for number in own])
            request, reply = self.requests[own[turn]], self.replies[own[turn]]
            yield from request.take(thread)
            yield from thread.memcpy(self.table + own[turn] * request.length, request.address, request.length)
            yield from reply.send(thread)

    def ask(self, number: int, count: int) -> Code:
        """A client: so many messages, each with its reply."""
        thread, request, reply = self.clients[number], self.requests[number], self.replies[number]
        for _ in range(count):
            yield from request.send(thread)
            yield from thread.spin([reply.last])
            yield from reply.take(thread)

    def exchange(self, count: int) -> None:
        """``count`` messages in all, dealt out among the clients, and their replies."""
        share, rest = divmod(count, len(self.clients))
        asking = [self.clock.start(self.ask(n, share + (n < rest))) for n in range(len(self.clients))]
        self.clock.run_until(self.clock.all_of(asking))


def messages(pairs: int, threads: int, message_bytes: int) -> Callable[[int], Callable[[], object]]:
    """A row of the benchmark: its preparation, which warms all connections up."""

    def prepare(count: int) -> Callable[[], object]:
        spinners = Spinners(pairs, threads, message_bytes)
        spinners.exchange(2 * pairs)
        return lambda: spinners.exchange(count)

    return prepare


def idle(count: int) -> Callable[[], object]:
    """A row of the benchmark: ``count`` microseconds in which a server's thread spins on 16 slots and nothing comes."""
    spinners = Spinners(16, 1, 64)
    spinners.exchange(32)
    until_ps = spinners.clock.now_ps + count * PS_PER_US
    return lambda: spinners.clock.run_until(until_ps)
