"""A client thread's way to the metadata server that serves, whichever that is by now.

Source: Tsai et al., ATC'20, section 5.4: backups. What the paper leaves open is read so. A client begins with the first
server; one that keeps a copy alone says so. A client that finds its connection broken goes to the server behind, the
last one's successor being the first, and says which buffers are in its hands. Where it has come to all in vain it waits
for twice as long each time. With one server only it waits until that is there again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....models.cpu import Thread
from ....models.system import Node
from ...layout import Layout
from ...parts.rpc import Connection, VerbsError
from ...scheme import OutcomeUnknown
from ..data import Code
from .header import Version
from .library import Library
from .messages import NOT_HERE, RegisterHeld, pack_pointers
from .metadata import MetadataServer


class Servers:
    """Calls of one thread."""

    def __init__(
        self, thread: Thread, node: Node, servers: Sequence[MetadataServer], library: Library, epoch: str
    ) -> None:
        """``epoch``: for so long a server that begins again waits for its clients."""
        self._thread = thread
        self._epoch = epoch
        self._node = node
        self._servers = servers
        self._library = library
        self._number = 0
        self._connection: Connection | None = self._connect()
        library.contact = library.contact or thread.deadline(epoch)

    def _connect(self) -> Connection:
        connection = self._servers[self._number].accept(self._thread, self._node)
        connection.expect_notices()
        return connection

    def call(self, kind: type[Layout], new: Version | None = None, **fields: Any) -> Code:
        """Call the server that serves; returns its reply. It may be called more than once for that.

        Raises OutcomeUnknown instead of calling it with a ``new`` version whose buffers the machine has forgotten.
        """
        left, since = 0, self._thread.deadline("0 ns")
        while True:
            if left and left % len(self._servers) == 0:
                yield from self._thread.sleep_again(since)
            try:
                if self._connection is None and not (yield from self._come_to_another()):
                    left += self._leave()
                    continue
                if new is not None and not self._library.holds(new):
                    raise OutcomeUnknown("its buffers may be others' by now")
                reply = yield from self._connection.call(kind, **fields)  # type: ignore[union-attr]
            except VerbsError as error:
                if not error.disconnected:
                    raise
                left += self._leave()
                continue
            if reply != NOT_HERE:
                self._library.contact = self._thread.deadline(self._epoch)
                return reply
            left += self._leave()

    def _leave(self) -> int:
        """Go to the next server, which is one more that has been left."""
        self._connection = None
        self._number = (self._number + 1) % len(self._servers)
        return 1

    def _come_to_another(self) -> Code:
        if len(self._servers) == 1:
            yield from self._servers[0].listener.until_listening(self._thread)
        self._connection = self._connect()
        self._thread.count("metadata servers changed")
        if not self._library.in_contact():
            self._library.forget_buffers()
        reply = yield from self._connection.call(RegisterHeld, held=pack_pointers(self._library.held()))
        return reply != NOT_HERE
