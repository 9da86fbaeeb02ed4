"""A client thread's way to the metadata server that serves, whichever that is by now.

Source: Tsai et al., ATC'20, section 5.4: backups. What the paper leaves open is read so. A client begins with the first
server; one that keeps a copy alone says so. A client that finds its connection broken goes to the server behind, the
last one's successor being the first, and says which buffers are in its hands. Where it has come to all in vain it waits
for twice as long each time. With one server only it waits until that is there again. Where all are lost for good an
operation that needs one is given up; others go on.
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
        self._left = 0
        """How many servers have been left since one has replied."""
        self._since = thread.deadline("0 ns")
        """When the first of them was called."""
        library.contact = library.contact or thread.deadline(epoch)

    def _connect(self) -> Connection:
        connection = self._servers[self._number].accept(self._thread, self._node)
        connection.expect_notices()
        return connection

    def call(self, kind: type[Layout], **fields: Any) -> Code:
        """Call the server that serves; returns its reply. It may be called more than once for that.

        Raises OutcomeUnknown as :meth:`reach` does.
        """
        reply = None
        while reply is None:
            yield from self.reach()
            reply = yield from self.ask(kind, **fields)
        return reply

    def reach(self) -> Code:
        """Have a connection to the server that serves, as far as anybody knows.

        Raises OutcomeUnknown where all are lost for good, which is known to all.
        """
        while self._connection is None:
            if all(one.scheme.is_gone(one) for one in self._servers):
                raise OutcomeUnknown("all metadata servers are lost")
            if self._left % len(self._servers) == 0:
                yield from self._thread.sleep_again(self._since)
            try:
                if not (yield from self._come_to_another()):
                    self._leave()
            except VerbsError as error:
                self._leave_if_gone(error)

    def ask(self, kind: type[Layout], **fields: Any) -> Code:
        """Call the server that has been reached, once; None where another one has to be reached first."""
        assert self._connection is not None
        if not self._left:
            self._since = self._thread.deadline("0 ns")
        try:
            reply = yield from self._connection.call(kind, **fields)
        except VerbsError as error:
            self._leave_if_gone(error)
            return None
        if reply == NOT_HERE:
            self._leave()
            return None
        self._library.contact = self._thread.deadline(self._epoch)
        self._left = 0
        return reply

    def _leave_if_gone(self, error: VerbsError) -> None:
        if not error.disconnected:
            raise error
        self._leave()

    def _leave(self) -> None:
        """Go to the next server."""
        self._connection = None
        self._number = (self._number + 1) % len(self._servers)
        self._left += 1

    def _come_to_another(self) -> Code:
        if len(self._servers) == 1:
            yield from self._servers[0].listener.until_listening(self._thread)
        self._connection = self._connect()
        self._thread.count("metadata servers changed")
        if not self._library.in_contact():
            self._library.forget_buffers()
        reply = yield from self._connection.call(RegisterHeld, held=pack_pointers(self._library.held()))
        return reply != NOT_HERE
