"""ScaleRPC: FaRM's paths, but in a warm-up the server fetches the request from the client.

Source: Duan et al., SC'21, section 3, figure 2g, and 5.1 (one warm-up in 100 calls). In a warm-up the client registers
the request's buffer as it goes (public code) and WRITEs its address alone; the server READs the request.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Deadline, Thread
from ...models.verbs import REMOTE, MemoryRegion, Opcode, SendWR, Status
from ..guarantees import Claims, Condition
from ..layout import U32, U64, Layout
from ..naming import Option
from .calls import CallClient, CallScheme, CallServer
from .ends import CallConnection, CallSession
from .messages import LINE, CallMessage
from .paths import ByWrite

Code = Generator[Any, Any, Any]

WARM_UP = 4
"""The kind of a message whose data say where the request is to be fetched."""


class Address(Layout):
    """Where a client's request lies."""

    address = U64()
    key = U32()
    length = U32()


@dataclass
class WarmSession(CallSession):
    """A client process that has a call fetched now and then."""

    buffer: int = 0
    every: int = field(default=1, kw_only=True)
    turn: int = field(default=0, kw_only=True)
    """How many calls it has had replies to on this connection."""
    shown: MemoryRegion | None = field(default=None, kw_only=True)
    """The buffer, while the server may fetch the request from it."""

    @override
    def send(self, message: CallMessage) -> Code:
        if self.turn % self.every == 0:
            thread, data = self.thread, message.pack()
            yield from thread.store(self.buffer, data)
            if self.shown is None:
                self.shown = yield from thread.reg_mr(self.domain, self.buffer, len(data), access=REMOTE)
            address = Address.pack(address=self.buffer, key=self.shown.key, length=len(data))
            message = replace(message, kind=WARM_UP, data=address)
        yield from super().send(message)

    @override
    def receive(self, number: int, length: int, deadline: Deadline | None) -> Code:
        reply = yield from super().receive(number, length, deadline)
        if reply is not None:
            self.turn += 1
            if self.shown is not None:
                shown, self.shown = self.shown, None
                yield from self.thread.dereg_mr(self.domain, shown)
        return reply


class ScaleRpc(CallScheme, name="scalerpc"):
    """As FaRM; of a hundred calls one is a warm-up, with a READ by the server in it."""

    title = "as farm, but one call in a hundred is fetched by the server's READ"
    section = "section 3, figure 2g"
    requests, replies = ByWrite, ByWrite
    options: ClassVar[dict[str, Option]] = {
        "warmup": Option(100, at_least=1, source="section 5.1: 100", text="of how many calls one is a warm-up"),
    }

    class Client(CallClient):
        scheme: ScaleRpc

        @override
        def open(self, thread: Thread, again: bool) -> WarmSession:
            session = super().open(thread, again)
            buffer = self.node.memory["dram"].allocate(self.server.room, "request", align=LINE)
            return WarmSession(**vars(session), buffer=buffer, every=self.scheme.option("warmup"))

    class Server(CallServer):
        @override
        def begin(self) -> None:
            super().begin()
            memory = self.node.memory["dram"]
            self.fetched = [memory.allocate(self.room, "fetched", align=LINE) for _ in range(self.sizes.threads)]

        @override
        def execute(self, thread: Thread, end: CallConnection, request: CallMessage) -> Code:
            if request.kind == WARM_UP:
                request = yield from self.fetch(thread, end, Address.unpack(request.data))
            return None if request is None else (yield from super().execute(thread, end, request))

        def fetch(self, thread: Thread, end: CallConnection, place: Address) -> Code:
            """READ a request from the client; returns it, None where the client is gone."""
            here = self.fetched[end.number % self.sizes.threads]
            qp = end.requests.other
            if end.lost:
                return None
            end.in_use = True
            work = SendWR(0, Opcode.IBV_WR_RDMA_READ, here, place.length, place.address, place.key)
            yield from thread.post_send(qp, work)
            completion = yield from thread.poll(qp.send_cq)
            end.in_use = False
            self.moved.set()
            if completion.status is not Status.IBV_WC_SUCCESS:
                return None
            return (yield from CallMessage.load(thread, here + place.length))


class ScaleRpcDdio(ScaleRpc, name="scalerpc-ddio"):
    """With DDIO on, what the adapter writes is in the cache, and so is the object that the server makes of it: clflush
    writes it back before the reply.
    """

    title = "as scalerpc, with clflush before the reply, for machines with DDIO"
    section = "section 4.4.2, figure 7b"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: "ddio on, server power; ddio on, server process"}

    class Server(ScaleRpc.Server):
        @override
        def flush(self, thread: Thread, number: int) -> Code:
            yield from thread.clflush(self.table.place(number), self.table.flushed_bytes)
            yield from thread.sfence()
            yield from self.table.mark(thread, number)
