"""Send-after-write (SAW): the client writes, then asks the server to persist and publish.

Source: Douglas, "RDMA with PMEM", SDC 2015; as compared by Du et al., ICPP'21, sections 3 and 5.3.1.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ..guarantees import ALWAYS, SERVER_CRASH, Claims, Condition
from ..layout import U32, U64, Bytes, Layout
from ..parts.index import ENTRY_BYTES, Location
from ..parts.kv import KvClient, KvScheme, KvServer, Session

Code = Generator[Any, Any, Any]


class Persist(Layout):
    """The SEND after the WRITE: make the object durable, then point its key at it."""

    key = Bytes(32)
    offset = U64()
    length = U32()


class Saw(KvScheme, name="saw"):
    """Three round trips a PUT; a GET needs no check, because nothing is published before it is durable."""

    title = "send after write: the server flushes the object, then publishes it"
    paper = "Du et al., ICPP'21"
    section = "sections 3 and 5.3.1"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: SERVER_CRASH, Condition.COMMITTED: ALWAYS}

    class Client(KvClient):
        @override
        def put(self, session: Session, key: bytes, value: bytes) -> Code:
            region = yield from self.write_object(session, key, value)
            yield from session.connection.call(Persist, key=key, offset=region.offset, length=region.length)

    class Server(KvServer):
        @override
        def handlers(self) -> Mapping[type[Layout], Any]:
            return {**super().handlers(), Persist: self.on_persist}

        def on_persist(self, thread: Thread, request: Persist) -> Code:
            location = Location(request.offset, request.length)
            yield from thread.flush(self.log + request.offset, request.length)
            entry = yield from self.alone(thread, request.key, self.index.publish(thread, request.key, location))
            yield from thread.flush(entry, ENTRY_BYTES)
            return b"durable"
