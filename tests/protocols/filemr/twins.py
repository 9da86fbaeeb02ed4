"""FileMR broken on purpose, one step at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.protocols.filemr.filemr import FileMr, FileSession

Code = Generator[Any, Any, Any]


class TellsFirst(FileMr, name="filemr-tells-first"):
    """The file has grown when the adapter knows it; the inode's word is stored, and flushed by nobody."""

    over = "ibta-flush-persistent"

    class Server(FileMr.Server):
        def note(self, thread: Thread, count: int) -> Code:
            yield from thread.store(self.inode, count.to_bytes(8, "little"))


class UnflushedFile(FileMr, name="filemr-unflushed"):
    """The record is written, and the primitive's steps are left out."""

    over = "ibta-flush-persistent"

    class Client(FileMr.Client):
        def connect(self, thread: Thread) -> FileSession:
            session = super().connect(thread)
            session.requester.persist = session.requester.write  # type: ignore[method-assign]
            return session
