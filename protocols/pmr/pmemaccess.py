"""PMEMAccess: as PMRAccess, but the request goes by WRITE into the client's log in Optane, which is never flushed.

Source: Luo et al., TCAD 2024, section V-C ("clients write logs to PMEM with RDMA directly", DDIO off). Entries are
those of PMRAccess, with its terminator. What the paper leaves open is read so: a connection has one log, with room for
the run, the free one with the lowest number; a log is free again once nothing of its connection can arrive any more,
and the next one goes on at its tail; there is one log more than clients. A GET is written at the tail; recovery replays
the logs by their numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Signal, Thread
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


class ServedLog(Served):
    """A client's connection, and the log that it writes."""

    def __init__(self, number: int, side: Side, granted: Signal) -> None:
        super().__init__(number, side)
        self.log: int | None = None
        """Its number."""
        self.granted = granted
        """Raised when a client that connects has its log."""


@dataclass
class PmemSession(StackSession):
    """A client process with its log."""

    end: ServedLog
    """What the handshake of a connection tells."""
    rkey: int
    off: int = 0
    """Where its next entry goes; 0: it has no log yet."""

    @override
    def call(self, op: int, key: bytes, value: bytes = b"") -> Code:
        yield from self.has_log()
        self.place = RequestPlace(self.off, self.rkey)
        return (yield from super().call(op, key, value))

    def has_log(self) -> Code:
        """Wait for it, as a client does whose connection is being made."""
        if not self.off:
            end = self.end
            yield from self.side.until(self.thread, lambda: end.log is not None, end.granted)
            self.off = end.address

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
        self.free = set(range(self.sizes.clients + 1))
        """The logs that no connection has."""
        self.waiting: deque[ServedLog] = deque()
        """The connections that wait for one."""

    def load(self, entries: Mapping[bytes, bytes]) -> None:
        """A log of what is loaded, before those of the clients."""
        if not self.own_files:
            data = b"".join(pack_head(PUT, key, value) + key + value for key, value in entries.items())
            self.device.space.poke(self.loaded - self.device.base, data)

    @override
    def connection(self, number: int, side: Side) -> ServedLog:
        end = ServedLog(number, side, Signal(self.system.clock))
        self.waiting.append(end)
        self.grant()
        return end

    def grant(self) -> None:
        """Who has waited longest has the free log with the lowest number."""
        while self.free and self.waiting:
            end, log = self.waiting.popleft(), min(self.free)
            self.free.discard(log)
            end.log, end.address = log, self.tails[log]
            end.room = self.logs + (log + 1) * self.log_bytes - end.address
            end.granted.set()

    @override
    def session(self, thread: Thread, side: Side, end: ServedLog) -> StackSession:
        side.qp.watchers.append(end.granted.set)
        return PmemSession(self.scheme, thread, side, None, end, self.rkey)

    @override
    def farewell(self, thread: Thread, end: ServedLog) -> Code:
        yield from super().farewell(thread, end)
        if end.log is None:
            self.waiting.remove(end)
        else:
            self.free.add(end.log)
            end.log = None
        self.grant()

    @override
    def put(self, thread: Thread, end: ServedLog, request: ChunkEntry) -> Code:
        yield from super().put(thread, end, request)
        end.address += request.length
        end.room -= request.length
        assert end.log is not None
        self.tails[end.log] = end.address

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
