"""Write with immediate (IMM): the WRITE itself tells the server, which persists and publishes.

Source: Yang, Izraelevitz and Swanson, "Orion", FAST'19, as compared by Du et al., ICPP'21, sections 3 and 5.3.2. The
immediate names the region; key and length stand in the object. That the server answers once the object is durable is a
reading: without an answer a client would never know.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ..guarantees import ALWAYS, SERVER_CRASH, Claims, Condition
from ..parts.index import ENTRY_BYTES, Location
from ..parts.kv import KvClient, KvScheme, KvServer, Object, Session
from ..parts.rpc import Listener

Code = Generator[Any, Any, Any]

UNIT_BYTES = 64
"""What the 32 bits of the immediate count in: objects begin on lines of their own."""


class Imm(KvScheme, name="imm"):
    """Two round trips a PUT; a GET needs no check, because nothing is published before it is durable."""

    title = "write with immediate: its receive completion has the server flush the object, then publish it"
    paper = "Du et al., ICPP'21"
    section = "sections 3 and 5.3.2"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: SERVER_CRASH, Condition.COMMITTED: ALWAYS}

    class Client(KvClient):
        @override
        def put(self, session: Session, key: bytes, value: bytes) -> Code:
            data = Object.pack(key=key, length=len(value), value=value)
            region = yield from self.ask_for_room(session, key, len(data))
            place = self.server.log + region.offset
            yield from session.connection.write_with_imm(place, session.log_key, data, region.offset // UNIT_BYTES)

    class Server(KvServer):
        @override
        def open_listener(self) -> Listener:
            return Listener(self.node, self.handlers(), on_immediate=self.on_immediate, threads=self.sizes.threads)

        def on_immediate(self, thread: Thread, immediate: int) -> Code:
            offset = immediate * UNIT_BYTES
            written = Object.unpack((yield from thread.load(self.log + offset, Object.size)))
            location = Location(offset, Object.size + written.length)
            yield from thread.flush(self.log + offset, location.length)
            entry = yield from self.alone(thread, written.key, self.index.publish(thread, written.key, location))
            yield from thread.flush(entry, ENTRY_BYTES)
            return b"durable"
