"""The two ends of a durable call's connection: what the server knows of a ring, and what a client writes it with.

A ring outlives its connection. Once a client is gone, the server destroys the queue pairs; what its adapter had
accepted is visible a little later, is taken and executed as ever, and then the ring is at rest: the next client has it,
and goes on with the next number. What lies in a ring that has no connection is no call.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from ...models.cpu import Thread
from ...models.persist.requester import PrimitiveRequester
from ...models.verbs import QueuePair
from .messages import WORD, CallMessage, Disconnected, MessageSlot, Sender, post_write
from .redolog import NONE, LogRing

Code = Generator[Any, Any, Any]


@dataclass
class ConnectedClient:
    """The client of a connection, as the server knows it."""

    name: str
    qp: QueuePair
    """The server's end of the queue pair for requests and replies."""
    log_qp: QueuePair | None
    """The server's end of that by which the log is written; None: there is none."""
    replies: Sender
    count: tuple[int, int, int]
    """Where the number of removed calls lies here, where it lies at the client, and the key of that."""

    @property
    def gone(self) -> bool:
        """Whether a queue pair is in the error state."""
        return self.qp.error or (self.log_qp is not None and self.log_qp.error)


class DurableConnection:
    """The server's end: the ring, the slot for requests beside it, and the client if there is one."""

    def __init__(self, number: int, ring: LogRing, requests: MessageSlot) -> None:
        self.number = number
        self.ring = ring
        self.requests = requests
        self.client: ConnectedClient | None = None
        self.next = 1
        """The call whose entry is taken next."""
        self.seen = [NONE] * ring.slots
        """By slot: the operator that the poller has seen there last."""
        self.held: CallMessage | None = None
        """A read that waits for writes of its connection."""
        self.asked = self.answered = 0
        """How many requests beside the log have been taken, and have been answered."""
        self.finished: set[int] = set()
        self.removed = 0
        """The calls up to this one are executed, and removed from the ring."""

    @property
    def spots(self) -> list[tuple[int, bytes]]:
        """What the poller looks at: the next entry's operator, and the slot for requests."""
        return [(self.ring.operator(self.next), self.seen[self.next % self.ring.slots]), self.requests.spot]

    def tell(self, thread: Thread) -> Code:
        """Tell the client how many calls from the first on have been removed, if there are more than before."""
        before = self.removed
        while self.removed + 1 in self.finished:
            self.removed += 1
            self.finished.discard(self.removed)
        if self.removed > before and self.client is not None and not self.client.gone:
            here, there, key = self.client.count
            yield from thread.store(here, self.removed.to_bytes(WORD, "little"))
            yield from post_write(thread, self.client.qp, here, WORD, there, key)

    def reply(self, thread: Thread, message: CallMessage) -> Code:
        """Answer the request beside the log, unless nobody waits for it any more."""
        self.answered += 1
        if self.client is not None and not self.client.gone:
            yield from self.client.replies.send(thread, message)

    def at_rest(self, thread: Thread) -> Code:
        """Whether all that has come is executed and answered; look once at what the poller would look at."""
        if self.removed + 1 < self.next or self.answered < self.asked:
            return False
        for address, seen in self.spots:
            if (yield from thread.load(address, WORD)) not in (seen, NONE):
                return False
        return True


@dataclass
class DurableSession:
    """A client process's end: what it writes the log with, its reads, and the count of removed calls."""

    thread: Thread
    ring: LogRing
    requester: PrimitiveRequester
    requests: Sender
    replies: MessageSlot
    count: int
    """Where that count lies."""
    written: int
    removed: int

    @property
    def number(self) -> int:
        """The number of the next call."""
        return self.written + 1

    def room(self) -> Code:
        """Until there is a free slot: read how many entries are removed, if need be wait for more."""
        while self.number - self.removed > self.ring.slots:
            seen = self.removed.to_bytes(WORD, "little")
            if (yield from self.thread.spin([(self.count, seen)], queue_pairs=[self.requests.qp])) is None:
                raise Disconnected
            self.removed = int.from_bytes((yield from self.thread.load(self.count, WORD)), "little")

    def call(self, message: CallMessage) -> Code:
        """A request beside the log; returns its reply."""
        yield from self.requests.send(self.thread, message)
        if (yield from self.thread.spin([self.replies.spot], queue_pairs=[self.requests.qp])) is None:
            raise Disconnected
        return (yield from self.replies.take(self.thread))
