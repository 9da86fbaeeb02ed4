"""Octopus's call, by WRITE with immediate, and its write past the server's CPU, over any flush primitive.

Source: Duan et al., SC'21, section 3, figure 2h, and 4.4.1, figure 7a: a client asks by a call for the address of the
data, WRITEs them there itself, and has them flushed by WFlush. ``octopus-rpc`` is the call alone, as the paper measures
it; ``octopus-rpc over wflush`` is the other, of which nothing was measured.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ...models.persist.service import Service
from ...models.primitives.messages import TRAILER_BYTES
from ...models.system import Node
from ...sim.errors import InputError, Mistake
from ..guarantees import Claims, Condition
from ..layout import U64, Layout
from ..scheme import ANY_PRIMITIVE
from .calls import CallClient, CallScheme, CallServer
from .ends import CallConnection, CallSession
from .messages import DONE, LINE, CallMessage, Disconnected
from .paths import ByImmediate

Code = Generator[Any, Any, Any]

ADDRESS = 6
"""The kind of a request for the address of an object."""


class OctopusRpc(CallScheme, name="octopus-rpc"):
    """WRITE with immediate, which identifies itself; its completion; WRITE with immediate back."""

    title = "WRITE with immediate, executed and flushed by the server, the same as the reply"
    section = "section 3, figure 2h"
    requests, replies = ByImmediate, ByImmediate


class ObjectAddress(Layout):
    """Where an object lies."""

    address = U64()


@dataclass
class WritingSession(CallSession):
    """A client process that writes objects itself."""

    requester: PrimitiveRequester = field(kw_only=True)


class WritingClient(CallClient):
    """A machine whose processes write objects where the server says that they lie."""

    server: AddressServer

    @override
    def open(self, thread: Thread, again: bool) -> WritingSession:
        session = super().open(thread, again)
        return WritingSession(**vars(session), requester=self.server.service.connect(thread, self.node))

    @override
    def write(self, session: CallSession, number: int, value: bytes) -> Code:
        assert isinstance(session, WritingSession)
        reply = yield from self.call(session, CallMessage(ADDRESS, number), ObjectAddress.size)
        try:
            yield from session.requester.persist([(ObjectAddress.unpack(reply.data).address, value)])
        except PrimitiveFailed as error:
            raise Disconnected from error


class AddressServer(CallServer, cores=2):
    """The server that says where objects lie; a core more is for the thread of a primitive that needs one."""

    def __init__(self, scheme: CallScheme, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.table.marked = False  # clients write objects, and no marks

    @override
    def begin(self) -> None:
        super().begin()
        room = -(-(self.sizes.value_bytes + TRAILER_BYTES) // LINE) * LINE
        self.service = Service(self.scheme.primitive, self.node, slots=4, slot_bytes=room)
        self.service.register(self.table.place(0), self.table.length)

    @override
    def start(self) -> None:
        super().start()
        if self.service.needs_thread:
            name = self.node.name
            thread = self.node.thread(self.sizes.threads, f"{name} primitive")
            self.node.process(name).start(self.service.serve(thread))

    @override
    def execute(self, thread: Thread, end: CallConnection, request: CallMessage) -> Code:
        if request.kind == ADDRESS:
            return CallMessage(DONE, request.object, ObjectAddress.pack(address=self.table.place(request.object)))
        return (yield from super().execute(thread, end, request))


class OctopusOver(OctopusRpc):
    """A write is a call for the object's address, a WRITE of the object in place, and a primitive behind it."""

    title = "a call by WRITE with immediate for an address, the object written there past the server's CPU"
    section = "section 4.4.1, figure 7a"
    over = ANY_PRIMITIVE
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: "ddio off, server power; ddio off, server process"}

    Client = WritingClient
    Server = AddressServer

    @override
    @classmethod
    def composed(cls) -> None:
        super().composed()
        for option in ("flush", "model", "as"):  # the server stores nothing
            if option in cls.chosen:
                raise InputError(
                    Mistake(f"'{option}' in '{cls.name}'", "no such option where clients write objects", field="scheme")
                )
        found = cls.primitive
        if found.follows[0] == "SEND" and not any(step.do == "copy" for step in found.steps):
            expected = "a primitive that brings an update to where it belongs: a WRITE, or a SEND that is copied there"
            raise InputError(Mistake(f"'{found.name}' in '{cls.name}'", expected, field="scheme"))


OctopusRpc.over_primitive = OctopusOver
