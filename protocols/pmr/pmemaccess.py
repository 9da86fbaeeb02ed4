"""PMEMAccess: as PMRAccess, but the request goes by WRITE into the client's log in Optane, which is never flushed.

Source: Luo et al., TCAD 2024, section V-C ("clients write logs to PMEM with RDMA directly", DDIO off). Entries are
those of PMRAccess, with its terminator. What the paper leaves open is read so: a client has one log, with room for the
run, and its place follows from the client's number; a GET is written at its tail; recovery replays the logs by their
numbers.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..guarantees import Claims, Condition
from .chunklog import DRIVE
from .cuckoo import Cuckoo
from .entries import PUT, ChunkEntry, pack_head
from .messaging import RequestPlace, Side
from .stack import MOST_KEY_BYTES, Served, Stack, StackServer, StackSession
from .store import Encoded, Store

Code = Generator[Any, Any, Any]
LINE = 64


@dataclass
class PmemSession(StackSession):
    """A client process with its log."""

    end: Served
    rkey: int
    off: int

    @override
    def call(self, op: int, key: bytes, value: bytes = b"") -> Code:
        self.place = RequestPlace(self.off, self.rkey)
        return (yield from super().call(op, key, value))

    @override
    def put(self, key: bytes, value: bytes) -> Code:
        yield from super().put(key, value)
        self.off += self.scheme.entries.length(len(key), len(value))


class PmemServer(StackServer, memory=("dram", "pm")):
    """The server with Optane."""

    def __init__(self, scheme: Stack, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.own_files = DRIVE in type(self.store).memory
        entries, clients = self.scheme.entries, self.sizes.clients + 1
        longest = entries.length(MOST_KEY_BYTES, self.sizes.value_bytes)
        loaded = 0 if self.own_files else len(self.sizes.objects)
        self.device = node.memory["pm"]
        self.loaded_bytes = -(-(loaded * longest + 1) // LINE) * LINE
        self.loaded = self.device.allocate(self.loaded_bytes, "loaded log")
        self.log_bytes = -(-(self.sizes.updates + 2) * longest // LINE) * LINE
        self.logs = self.device.allocate(self.log_bytes * clients, "logs", item_bytes=self.log_bytes)

    @override
    def begin(self) -> None:
        super().begin()
        self.rkey = self.listener.register(self.logs, self.log_bytes * (self.sizes.clients + 1)).key
        self.tails = [self.logs + number * self.log_bytes for number in range(self.sizes.clients + 1)]
        """By log: where its next entry goes, as far as the server knows."""

    def load(self, entries: Mapping[bytes, bytes]) -> None:
        """A log of what is loaded, before those of the clients."""
        if not self.own_files:
            data = b"".join(pack_head(PUT, key, value) + key + value for key, value in entries.items())
            self.device.space.poke(self.loaded - self.device.base, data)

    @override
    def connection(self, number: int, side: Side) -> Served:
        end = Served(number, side)
        log = number % (self.sizes.clients + 1)
        end.address = self.tails[log]
        end.room = self.logs + (log + 1) * self.log_bytes - end.address
        return end

    @override
    def session(self, thread: Thread, side: Side, end: Served) -> StackSession:
        return PmemSession(self.scheme, thread, side, None, end, self.rkey, end.address)

    @override
    def put(self, thread: Thread, end: Served, request: ChunkEntry) -> Code:
        yield from super().put(thread, end, request)
        end.address += request.length
        end.room -= request.length
        self.tails[end.number % (self.sizes.clients + 1)] = end.address

    @override
    def recover(self, thread: Thread) -> Code:
        yield from super().recover(thread)
        yield from self.replay(thread, self.loaded, self.loaded_bytes)
        for number in range(self.sizes.clients + 1):
            start = self.logs + number * self.log_bytes
            self.tails[number] += yield from self.replay(thread, start, self.log_bytes)

    def replay(self, thread: Thread, address: int, room: int) -> Code:
        """Execute the entries of a log, up to the first terminator; returns how many bytes they are."""
        found = yield from self.scheme.entries.scan(thread, address, 0, room)
        for entry in found:
            if self.store.fits(entry.key, entry.value):
                yield from self.store.put(thread, entry.key, entry.value)
        return sum(entry.length for entry in found)


class PmemStack(Stack):
    """A stack whose log is in Optane."""

    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: "ddio off"}

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        super().load(objects)
        self.server.load(Encoded(objects))


class PmemAccess(PmemStack, name="pmemaccess"):
    """The paper's name for what FlatStore does, over LibCuckoo."""

    title = "requests by WRITE into the client's log in Optane, answered once they are executed; over LibCuckoo"
    Backend: ClassVar[type[Store]] = Cuckoo

    class Server(PmemServer, software=Cuckoo.software):
        """The server."""
