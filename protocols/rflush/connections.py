"""Connections of durable calls: what the server knows of each ring, who has which, what a client writes one with.

A ring outlives its connection. Once a client is gone, the server destroys the queue pairs; what its adapter had
accepted is visible a little later, is taken and executed as ever, and then the ring is at rest: the next client has it,
and goes on with the next number. Of messages that the primitive's thread has not taken by then nothing comes into it.
What lies in a ring that has no connection is no call.

A client that comes back has another ring before its former one is at rest. So rings are given in the order in which
they come to rest, and the server writes a ring's place in that order into its header before it gives the ring again:
after a failure, as before it, the calls of an earlier ring go first. The paper says nothing of that order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...models.cpu import Signal, Thread
from ...models.persist.requester import PrimitiveRequester
from ...models.persist.service import Service
from ...models.system import Node
from ...models.verbs import REMOTE, QueuePair
from ..parts.onesided import Poster
from ..parts.rpc import Listener
from ..scheme import Sizes
from .batches import room_for_values
from .messages import LINE, WORD, CallMessage, Disconnected, MessageSlot, Sender, post_write, room_for
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
    def pairs(self) -> list[QueuePair]:
        """The server's ends of its queue pairs."""
        return [self.qp] if self.log_qp is None else [self.qp, self.log_qp]

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
        self.turn = 0
        """The number in the ring's header: with :attr:`number` its place in the order in which rings are given."""

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

    def at_rest(self, node: Node) -> bool:
        """Whether the server has told this machine that all calls are removed, or the connection is broken, looked at
        from outside.
        """
        return self.requests.qp.error or int.from_bytes(node.shows(self.count, WORD), "little") >= self.written

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


class Refused(Protocol):
    """A machine whose processes may have found no ring."""

    refused: list[Signal]
    """Of those that wait for one."""


class DurableConnections:
    """All connections of a server: it admits clients, and has the rings of those that are gone come to rest."""

    def __init__(
        self,
        node: Node,
        sizes: Sizes,
        listener: Listener,
        service: Service,
        rings: Sequence[LogRing],
        room: int,
        clients: Sequence[Refused],
    ) -> None:
        """``room`` is that for a request beside a log."""
        self.node, self._sizes, self._listener, self._service = node, sizes, listener, service
        self.all = [
            DurableConnection(turn, ring, MessageSlot(node, room, "request")) for turn, ring in enumerate(rings)
        ]
        self.free = deque(self.all)
        """Those at rest, which have no client, in the order in which clients have them."""
        self._turn = 0
        """The highest number in a header."""
        self._lost = Signal(node.system.clock)
        """Raised when a queue pair of a client gets into the error state."""
        self._moved, self._steps = Signal(node.system.clock), 0
        """Raised when a thread has gone on with what has come; how often that was."""
        self._clients = clients
        self._tell_refused()

    def admit(self, thread: Thread, node: Node) -> DurableSession | None:
        """A connection for ``thread`` on ``node``, in the place of one that it has; None where no ring is at rest."""
        for end in self.all:
            if end.client is not None and end.client.name == thread.name:
                end.client.qp.fail()
        if not self.free:
            return None
        end = self.free.popleft()
        poster = Poster(thread, node, LINE)
        theirs = poster.open()
        ours = self._listener.door.admit(theirs)
        here, there = self.node.memory["dram"], node.memory["dram"]
        room = room_for(room_for_values(self._sizes.batch, self._sizes.value_bytes))
        replies = MessageSlot(node, room, "reply")
        count = there.allocate(LINE, "removed")
        key = poster.domain.reg_mr(replies.address, replies.room, REMOTE).key
        sender = Sender(self.node, ours, replies, key)
        told = here.allocate(LINE, "removed"), count, poster.domain.reg_mr(count, LINE, REMOTE).key
        region = self._listener.register(end.requests.address, end.requests.room)
        requests = Sender(node, theirs, end.requests, region.key, end.asked)
        requester = self._service.connect(thread, node)
        requester.build_updates(end.ring.entry_bytes)
        end.client = ConnectedClient(thread.name, ours, requester.qp.peer, sender, told)
        for qp in end.client.pairs:
            qp.watchers.append(self._lost.set)
        return DurableSession(thread, end.ring, requester, requests, replies, count, end.removed, end.removed)

    def in_turn(self, turns: Sequence[int]) -> Sequence[DurableConnection]:
        """All in the order in which they were given, by what recovery has read in their headers; none has a client yet.

        So they will be given again.
        """
        for end, turn in zip(self.all, turns, strict=True):
            end.turn = turn
        self._turn = max(turns)
        self.free = deque(sorted(self.all, key=_place))
        return list(self.free)

    def before(self, end: DurableConnection) -> Sequence[DurableConnection]:
        """Those that were given before this one, and whose clients are gone, in that order."""
        gone = [one for one in self.all if one.client is not None and one.client.gone and _place(one) < _place(end)]
        return sorted(gone, key=_place)

    def look_after(self) -> Code:
        """Whenever the connection manager has told that a client is gone, have its ring come to rest."""
        while True:
            for end in self.all:
                if end.client is not None and end.client.gone:
                    yield from self._retire(end, end.client)
            if not any(end.client is not None and end.client.gone for end in self.all):
                yield self._lost.changed()

    def _retire(self, end: DurableConnection, client: ConnectedClient) -> Code:
        """Have a ring come to rest: nothing of its client can arrive any more, and what has come is executed."""
        thread = self.node.thread(0, f"{self.node.name} connections")
        for qp in client.pairs:
            qp.destroy()
            yield qp.placed()
        if client.log_qp is not None:
            yield from self._service.leave(client.log_qp)
        while True:
            before = self._steps
            if (yield from end.at_rest(thread)):
                break
            if self._steps == before:
                yield self._moved.changed()
        end.client = None
        self._turn += 1
        end.turn = self._turn
        yield from end.ring.set_turn(thread, end.turn)
        self.free.append(end)
        self._tell_refused()

    def _tell_refused(self) -> None:
        """Processes that have found no ring ask again."""
        for client in self._clients:
            for signal in client.refused:
                signal.set()
            client.refused.clear()

    def step(self) -> None:
        """A thread has gone on with what has come."""
        self._steps += 1
        self._moved.set()


def _place(end: DurableConnection) -> tuple[int, int]:
    """A ring's place in the order in which rings are given."""
    return end.turn, end.number
