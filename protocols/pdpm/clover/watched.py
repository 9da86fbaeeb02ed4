"""A connection to a metadata server whose client finds out that the server is gone while it waits for a reply.

A request that the server's adapter has acknowledged, and whose server is lost before it replies, is never answered, and
nothing that the client has posted fails. How a client notices is open in the paper, and read so: after ``PATIENCE``
without a reply it READs a word of the server's memory, again and again; that READ fails where the server is gone.
"""

from __future__ import annotations

from typing_extensions import override

from ...parts.rpc import Connection
from ..data import WORD, Code

PATIENCE = "10 ms"
"""Longer than a reply takes while all goes well: an assumption."""


class WatchedConnection(Connection):
    """The client's end of a connection, over one that has been made."""

    def __init__(self, made: Connection, address: int, rkey: int) -> None:
        """``address`` and ``rkey``: of a word of the server's memory that may be read."""
        vars(self).update(vars(made))
        self._word = address, rkey

    @override
    def _reply(self) -> Code:
        while True:
            completion = yield from self.thread.poll(self._end.qp.recv_cq, self.thread.deadline(PATIENCE))
            if completion is None:
                yield from self.read(*self._word, WORD)
            elif not self._take(completion):
                return (yield from self.thread.load(self._end.receive, completion.byte_len))
