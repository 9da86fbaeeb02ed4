"""The server-active store (RPC): the object travels in the request, and the server copies, persists and publishes it.

Source: Du et al., ICPP'21, sections 2.2 and 3, and figure 1. The paper measures its PUT alone; its GET is here that of
the other stores, two READs, since nothing is published before it is durable.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ..guarantees import ALWAYS, SERVER_CRASH, Claims, Condition
from ..layout import Bytes, Layout, Rest
from ..parts.index import ENTRY_BYTES
from ..parts.kv import KvClient, KvScheme, KvServer, Object, Session
from ..parts.rpc import MESSAGE_BYTES, Listener

Code = Generator[Any, Any, Any]


class Put(Layout):
    """A request with the data in it."""

    key = Bytes(32)
    value = Rest()


class RpcStore(KvScheme, name="rpc"):
    """One round trip a PUT, with a copy by the server's processor on its way."""

    title = "RPC: the value in the request, copied, flushed and published by the server"
    paper = "Du et al., ICPP'21"
    section = "sections 2.2 and 3, figure 1"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: SERVER_CRASH, Condition.COMMITTED: ALWAYS}

    class Client(KvClient):
        @override
        def put(self, session: Session, key: bytes, value: bytes) -> Code:
            yield from session.connection.call(Put, key=key, value=value)

    class Server(KvServer):
        @override
        def open_listener(self) -> Listener:
            longest = 1 + Put.size + self.sizes.value_bytes
            return Listener(
                self.node, self.handlers(), message_bytes=max(MESSAGE_BYTES, longest), threads=self.sizes.threads
            )

        @override
        def handlers(self) -> Mapping[type[Layout], Any]:
            return {Put: self.on_put}

        def on_put(self, thread: Thread, request: Put) -> Code:
            """The value was loaded from the volatile receive buffer; storing it is the rest of the copy."""
            location = self.allocate(Object.size + len(request.value))
            data = Object.pack(key=request.key, length=len(request.value), value=request.value)
            yield from thread.store(self.log + location.offset, data)
            yield from thread.flush(self.log + location.offset, location.length)
            entry = yield from self.alone(thread, request.key, self.index.publish(thread, request.key, location))
            yield from thread.flush(entry, ENTRY_BYTES)
            return b"durable"
