"""A way to the memory of a back-end, or of a mirror: what is read there, and how logs get there."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...models.cpu import Thread
from ...models.persist.requester import Ticket
from ...models.system import Node
from ...models.verbs import QueuePair
from ..parts.onesided import Posted, Poster
from ..structures.space import Range
from .records import LINE, RecordHead, body_at, head_of, lines_of

if TYPE_CHECKING:
    from ...models.persist.service import Service
    from ..parts.rpc import Listener
    from .area import Ring
    from .records import Position

Code = Generator[Any, Any, Any]

IN_FLIGHT = 16
"""How many READs an adapter has outstanding (max_rd_atomic of ConnectX adapters)."""
SLOTS = 32
"""Requests under way."""
SIGNALLED_EVERY = 8
"""Of WRITEs that nobody waits for."""


class Linked(Protocol):
    """A machine whose memory a link leads to."""

    key: int
    listener: Listener
    service: Service | None


class Link:
    """A queue pair to the back-end's memory, and one more where logs go by a primitive."""

    def __init__(self, thread: Thread, node: Node, server: Linked, most_bytes: int, before: Link | None = None) -> None:
        """``most_bytes``: the largest request; ``before``: a link that is not used any more, of which buffers go on."""
        self.thread = thread
        self.node = node
        self.key = server.key
        buffers = None if before is None else before.poster.buffers
        self.poster: Poster = Poster(thread, node, most_bytes, SLOTS, buffers=buffers)
        self.qp = self.poster.connect(server.listener.door)
        self.requester = None if server.service is None else server.service.connect(thread, node)
        self._unawaited = 0
        self._tickets: deque[Ticket] = deque()

    def ends(self) -> list[QueuePair]:
        """The back-end's ends of the queue pairs."""
        own = [self.qp] if self.requester is None else [self.qp, self.requester.qp]
        return [qp.peer for qp in own if qp.peer is not None]

    @property
    def broken(self) -> bool:
        """Whether a queue pair is in the error state."""
        return self.qp.error or (self.requester is not None and self.requester.qp.error)

    def read(self, address: int, length: int) -> Code:
        """READ a range."""
        posted = yield from self.poster.read(self.qp, address, self.key, length)
        return (yield from self.poster.result(posted))

    def read_all(self, ranges: Sequence[Range]) -> Code:
        """READ several ranges, as many together as the adapter has outstanding."""
        found = []
        for first in range(0, len(ranges), IN_FLIGHT):
            posted = []
            for address, length in ranges[first : first + IN_FLIGHT]:
                posted.append((yield from self.poster.read(self.qp, address, self.key, length)))
            found += yield from self.poster.all(posted)
        return found

    def write(self, address: int, data: bytes) -> Code:
        """WRITE a range; returns at the completion."""
        posted = yield from self.poster.write(self.qp, address, self.key, data)
        yield from self.poster.result(posted)

    def write_all(self, writes: Sequence[tuple[int, bytes]]) -> Code:
        """WRITE several ranges, on their way together."""
        posted = []
        for address, data in writes:
            posted.append((yield from self.poster.write(self.qp, address, self.key, data)))
        yield from self.poster.all(posted)

    def log(self, address: int, data: bytes, *, awaited: bool) -> Code:
        """Put a record into a log: by the primitive, if there is one; ``awaited``: until its end, or the completion."""
        if self.requester is not None:
            self._tickets.append((yield from self.requester.post([(address, data)])))
            while self._tickets and (awaited or len(self._tickets) > SLOTS):
                yield from self.requester.wait(self._tickets.popleft())
        elif awaited:
            yield from self.write(address, data)
        else:
            self._unawaited += 1
            signaled = self._unawaited % SIGNALLED_EVERY == 0
            posted = yield from self.poster.write(self.qp, address, self.key, data, signaled=signaled)
            self.poster.drop([posted])

    def settle(self) -> Code:
        """Wait for the ends of what a primitive has put into logs; a READ comes behind all that WRITEs have."""
        while self._tickets:
            assert self.requester is not None
            yield from self.requester.wait(self._tickets.popleft())

    def begin_log(self, address: int, data: bytes) -> Code:
        """Put something there as :meth:`log` does; what :meth:`end_log` waits for."""
        if self.requester is not None:
            return (yield from self.requester.post([(address, data)]))
        return (yield from self.poster.write(self.qp, address, self.key, data))

    def end_log(self, begun: Posted | Ticket) -> Code:
        """Wait for the end, or the completion, of what was begun."""
        if isinstance(begun, Posted):
            yield from self.poster.result(begun)
        else:
            assert self.requester is not None
            yield from self.requester.wait(begun)

    def record(self, ring: Ring, position: Position) -> Code:
        """READ the record at a position of a log; returns its head and its body, or None if it is not whole."""
        place = ring.at(position)
        data = yield from self.read(place, LINE)
        head = head_of(data, position.sequence)
        if head is None:
            return None
        if lines_of(head.length) == 1:
            body = data[RecordHead.size : RecordHead.size + head.length]
            matches = (yield from self.thread.crc32_of(body)) == head.body_crc
            return (head, body) if matches else None
        whole = yield from self.poster.read_checked(
            self.qp, place, self.key, LINE + head.length, LINE,
            lambda first: None if (found := head_of(first, position.sequence)) is None else found.body_crc,
        )  # fmt: skip
        return None if whole is None else (head, whole[body_at(head.length) :])
