"""Client-active without persistence: the server publishes at once, the client writes, nobody flushes.

Source: Du et al., ICPP'21, section 3 and figure 1 ("CA w/o persistence"); its GET is that of SAW, section 5.3.1.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ..guarantees import Claims
from ..parts.kv import Allocate, KvClient, KvScheme, KvServer, Region, Session

Code = Generator[Any, Any, Any]


class ClientActive(KvScheme, name="client-active"):
    """The reference that shows what persistence costs; its paper claims no guarantee."""

    title = "client-active without persistence: publish, then write, never flush"
    paper = "Du et al., ICPP'21"
    section = "section 3, figure 1"
    claims: ClassVar[Claims] = {}

    class Client(KvClient):
        @override
        def put(self, session: Session, key: bytes, value: bytes) -> Code:
            yield from self.write_object(session, key, value)

    class Server(KvServer):
        @override
        def on_allocate(self, thread: Thread, request: Allocate) -> Code:
            location = self.allocate(request.length)
            yield from self.alone(thread, request.key, self.index.publish(thread, request.key, location))
            return Region.pack(offset=location.offset, length=location.length)
