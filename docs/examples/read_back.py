"""Read-back: the client reads the last byte of what it wrote, then asks the server to publish it.

Source: rpmemd(1) of PMDK, appliance persistency method: a READ behind the WRITEs is all that makes them durable.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, ClassVar

from ..models.cpu import Thread
from .guarantees import Claims, Condition
from .layout import U32, U64, Bytes, Layout
from .parts.index import ENTRY_BYTES, Location
from .parts.kv import KvClient, KvScheme, KvServer, Session

Code = Generator[Any, Any, Any]


class Publish(Layout):
    """Point the key at an object that the client holds to be durable."""

    key = Bytes(32)
    offset = U64()
    length = U32()


class ReadBack(KvScheme, name="read-back"):
    """As SAW, but a READ of the client takes the place of the server's flush of the object."""

    title = "read back: the client's READ pushes the object, the server flushes the index entry"
    paper = "rpmemd(1)"
    section = "APM"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: "ddio off"}

    class Client(KvClient):
        def put(self, session: Session, key: bytes, value: bytes) -> Code:
            region = yield from self.write_object(session, key, value)
            last = self.server.log + region.offset + region.length - 1
            yield from session.connection.read(last, session.log_key, 1)
            yield from session.connection.call(Publish, key=key, offset=region.offset, length=region.length)

    class Server(KvServer):
        def handlers(self) -> Mapping[type[Layout], Any]:
            return {**super().handlers(), Publish: self.on_publish}

        def on_publish(self, thread: Thread, request: Publish) -> Code:
            entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
            yield from thread.flush(entry, ENTRY_BYTES)
            return b"published"
