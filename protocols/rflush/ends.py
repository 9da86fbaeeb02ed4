"""The ends of the connections of calls that are executed before they are answered: the client's, and the server's."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from ...models.cpu import Deadline, Thread
from ...models.verbs import ProtectionDomain, QueuePair
from ..parts.lossy import Answered
from ..parts.rpc import Listener
from .messages import CallMessage
from .paths import MessagePath

Code = Generator[Any, Any, Any]


@dataclass
class CallSession:
    """A client process: where its requests go, and where their replies come from."""

    thread: Thread
    domain: ProtectionDomain
    requests: MessagePath
    replies: MessagePath
    listener: Listener
    """That of the server's process that it is connected to."""
    calls: int = 0
    broken: bool = field(default=False, kw_only=True)

    def send(self, message: CallMessage) -> Code:
        """Send a request."""
        yield from self.requests.send(self.thread, message)

    def receive(self, number: int, length: int, deadline: Deadline | None) -> Code:
        """The reply to the call of that number, which has at most ``length`` bytes of data, as
        :meth:`MessagePath.receive`.
        """
        return self.replies.receive(self.thread, number, length, deadline)


@dataclass
class CallProcess:
    """A client process: its thread, and its session, if the server has had a connection for it."""

    thread: Thread
    session: CallSession | None


class CallConnection:
    """The server's end of one connection, as long as one client has it."""

    def __init__(self, number: int, requests: MessagePath) -> None:
        self.number = number
        self.requests = requests
        """Of all clients that have a connection of this number, one after the other."""
        self.replies: MessagePath | None = None
        self.client: str | None = None
        """The name of the client's thread."""
        self.pairs: list[QueuePair] = []
        """The server's ends of its queue pairs."""
        self.answered: Answered[CallMessage] = Answered()
        self.in_use = False
        """Whether a thread takes a request from it, or waits for its queue pair."""
        self.executing = False
        """Whether a thread is at a request that came on it."""

    @property
    def lost(self) -> bool:
        """Whether the client is gone, or has another connection."""
        return any(qp.error for qp in self.pairs)

    def close(self) -> None:
        """Have nothing more come on it."""
        for qp in self.pairs:
            qp.fail()
