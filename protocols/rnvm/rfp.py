"""Remote fetching (RFP): a call by WRITE into the server's memory, whose reply the client fetches by READ.

Source: Su et al., EuroSys'17, section 3.1; rNVM, section 4.4, takes it for the calls of its allocator, so that the
back-end's code posts nothing. A client has an inbox of :data:`SLOTS` requests, and beside each a place for its reply.
The server's thread looks at the next request of every inbox, serves it, and stores the reply; the number of the call is
its last word, by which the client knows that it is ready. A client that reads it earlier reads it again (RFP's way to
have the server reply after some tries is left out: here the server never posts). A call whose reply nobody needs is
only posted; before its slot is used again, the client makes sure that it has been served. An inbox whose client is gone
goes to another with numbers that the one before can have used for no request (a reading: the papers have no deaths).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator
from typing import Any

from ...models.cpu import Thread
from ...models.system import Node
from ...models.verbs import QueuePair
from ..layout import U32, U64, Layout
from ..parts.onesided import Door, Poster
from ..parts.rounds import Rounds

Code = Generator[Any, Any, Any]
LINE = 64
SLOTS = 32
"""Calls of a client that may be under way (assumption: the papers give no number)."""


class CallRequest(Layout):
    """A request; its last word is visible last, and says that the others are there."""

    f = U32()
    count = U32()
    address = U64()
    number = U64()
    """Of the call, from 1."""


class CallReply(Layout):
    """A reply; its last word is stored last."""

    value = U64()
    number = U64()
    """Of the call that it answers."""


Handler = Callable[[Thread, CallRequest], Code]
"""The server's code for a request; returns a number."""


class Inbox:
    """A client's requests and replies in the server's memory: a line for each slot, first those of the requests."""

    LENGTH = 2 * SLOTS * LINE

    def __init__(self, node: Node) -> None:
        self.address = node.memory["dram"].allocate(self.LENGTH, "inbox", align=LINE)
        self.key = 0
        self.next = 1
        """The call that is served next."""
        self.seen = [bytes(8)] * SLOTS
        """By slot: the number that the server has found there last."""
        self.qp: QueuePair | None = None
        """The client's; None: nobody has had the inbox yet."""

    def request(self, number: int) -> int:
        """The address of a call's request."""
        return self.address + number % SLOTS * LINE

    def reply(self, number: int) -> int:
        """The address of its reply."""
        return self.address + (SLOTS + number % SLOTS) * LINE

    def empty(self) -> None:
        """Its client is gone: what it asked for and was not served is no call of the next one's, which has numbers of
        its own.
        """
        self.qp = None
        self.next += SLOTS

    @property
    def spot(self) -> tuple[int, bytes]:
        """What the server spins on: the number in the next slot, as it has been seen."""
        return self.request(self.next) + CallRequest.offset_of("number"), self.seen[self.next % SLOTS]


class RfpServer:
    """The server's end of all inboxes, which one thread serves."""

    def __init__(self, node: Node, door: Door, handler: Handler, clients: int) -> None:
        """There are inboxes for ``clients``, for as many that come after their death, and for the one that reads what a
        failure has left; the inbox of a client that died long ago is used again.
        """
        self.node = node
        self._handler = handler
        self._inboxes = [Inbox(node) for _ in range(2 * clients + 1)]
        for inbox in self._inboxes:
            inbox.key = door.register(inbox.address, Inbox.LENGTH).key

    def accept(self, poster: Poster, qp: QueuePair) -> RfpCaller:
        """The client's end of a new connection, whose calls are posted on ``qp``.

        Raises MemoryError where more clients live than there are inboxes.
        """
        unused = [inbox for inbox in self._inboxes if inbox.qp is None]
        for inbox in unused or [each for each in self._inboxes if each.qp is not None and each.qp.error]:
            if inbox.qp is not None:
                inbox.empty()
            inbox.qp = qp
            return RfpCaller(poster, qp, inbox)
        raise MemoryError(f"{len(self._inboxes)} clients call {self.node.name} already")

    def release(self, ends: Container[QueuePair | None]) -> None:
        """Nothing comes any more by the queue pairs that end here: another client may have the inbox of theirs."""
        for inbox in self._inboxes:
            if inbox.qp is not None and inbox.qp.peer in ends:
                inbox.empty()

    def serve(self, thread: Thread) -> Code:
        """The thread's code: one request after the other, of all inboxes in turn."""
        rounds = Rounds()
        while True:
            inbox = self._inboxes[(yield from rounds.next(thread, [each.spot for each in self._inboxes]))]
            yield from self.serve_next(thread, inbox)

    def serve_next(self, thread: Thread, inbox: Inbox) -> Code:
        """Serve what has come into the next slot of an inbox."""
        number = inbox.next
        request = CallRequest.unpack((yield from thread.load(inbox.request(number), CallRequest.size)))
        inbox.seen[number % SLOTS] = request.number.to_bytes(8, "little")
        if request.number != number:
            return
        yield from thread.compute()
        value = yield from self._handler(thread, request)
        yield from thread.store(inbox.reply(number), CallReply.pack(value=value, number=number))
        if inbox.next == number:  # else its client is gone meanwhile
            inbox.next += 1


class RfpCaller:
    """A client's end: its calls, numbered from the one that the inbox has next."""

    def __init__(self, poster: Poster, qp: QueuePair, inbox: Inbox) -> None:
        self.thread = poster.thread
        self._poster = poster
        self._qp = qp
        self._inbox = inbox
        self._made = self._served = inbox.next - 1
        """The last call that was made, and the last that is known to have been served."""

    def call(self, f: int, count: int = 0, address: int = 0) -> Code:
        """Make a call; returns the number that is its reply. Raises :class:`VerbsError` where the server is gone."""
        yield from self.post(f, count, address)
        return (yield from self._reply(self._made))

    def post(self, f: int, count: int = 0, address: int = 0) -> Code:
        """Make a call whose reply nobody needs: returns when the request has arrived."""
        number = self._made + 1
        if number - SLOTS > self._served:
            yield from self._reply(number - SLOTS // 2)  # the server keeps the order: those before are served too
        request = CallRequest.pack(f=f, count=count, address=address, number=number)
        self._made = number
        place = self._inbox.request(number)
        posted = yield from self._poster.write(self._qp, place, self._inbox.key, request)
        yield from self._poster.result(posted)

    def _reply(self, number: int) -> Code:
        """READ the reply of a call until it is there."""
        place = self._inbox.reply(number)
        while True:
            posted = yield from self._poster.read(self._qp, place, self._inbox.key, CallReply.size)
            reply = CallReply.unpack((yield from self._poster.result(posted)))
            if reply.number == number:
                self._served = max(self._served, number)
                return reply.value
            self.thread.count("replies read in vain")
