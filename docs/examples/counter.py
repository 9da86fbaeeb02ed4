"""A counter that nobody locks: clients add to it by FETCH_ADD, and make it durable by FLUSH.

Source: an example. FETCH AND ADD and FLUSH: InfiniBand Architecture, 9.4.5 and annex A19.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from typing import Any, ClassVar, NamedTuple

from ..models.cpu import Thread
from ..models.system import Node
from ..models.verbs import FLUSHES, REMOTE, QueuePair
from .guarantees import ALWAYS, Claims, Condition
from .parts.onesided import Door, Poster, VerbsError
from .scheme import OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]


class Session(NamedTuple):
    """A client process: what it posts with, and its queue pair."""

    poster: Poster
    qp: QueuePair


class FlushedCounter(Scheme, name="flushed-counter"):
    """Two round trips: the number that was there, then its flush. Nobody runs code at the server but to start it."""

    title = "a counter by FETCH AND ADD, flushed before the client goes on"
    paper = "an example"
    section = "docs/adding.md"
    claims: ClassVar[Claims] = {Condition.DURABLE: ALWAYS, Condition.NO_LOST_ACK: ALWAYS}
    model = "counter"
    operations = ("fetch_add", "read")
    updates = frozenset({"fetch_add"})

    class Server(Role, memory=("dram", "pm")):
        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.size = 64 * len(self.sizes.objects)
            self.counters = node.memory["pm"].allocate(self.size, "counters", item_bytes=64)

        def begin(self) -> None:
            self.door = Door(self.node)
            self.key = self.door.register(self.counters, self.size, REMOTE | FLUSHES).key

    class Client(Role, invokes=True):
        scheme: FlushedCounter

        def connect(self, thread: Thread) -> Session:
            poster = Poster(thread, self.node, 64)
            return Session(poster, poster.connect(self.scheme.roles["server"][0].door))

        def perform(self, session: Session, request: Request) -> Code:
            server = self.scheme.roles["server"][0]
            address = server.counters + 64 * self.sizes.objects.index(request.step.object)
            try:
                if request.step.f == "read":
                    return (yield from self.scheme.read(session, address, server.key))
                return (yield from self.scheme.add(session, address, server.key, request.step.number or 1))
            except VerbsError as error:
                raise OutcomeUnknown(str(error)) from error

    def add(self, session: Session, address: int, key: int, amount: int) -> Code:
        """Add, and return what was there once it is durable."""
        poster, qp = session
        before = yield from poster.result((yield from poster.fetch_and_add(qp, address, key, amount)))
        yield from poster.result((yield from poster.flush(qp, address, key, 8)))
        return before

    def read(self, session: Session, address: int, key: int) -> Code:
        """Another client may not have flushed yet what is read: flush it, since it must not be taken back."""
        return self.add(session, address, key, 0)

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """All counters begin at 0, as memory does."""

    def probe(self, object: Hashable) -> Request:
        return Request.of("read", object)


class HastyCounter(FlushedCounter, name="hasty-counter"):
    """Broken: nothing is flushed."""

    title = "the same that flushes nothing"

    def add(self, session: Session, address: int, key: int, amount: int) -> Code:
        poster, qp = session
        return (yield from poster.result((yield from poster.fetch_and_add(qp, address, key, amount))))


class LookingCounter(FlushedCounter, name="looking-counter"):
    """Broken: a read shows what the client that added it has not made durable yet."""

    title = "the same whose reads flush nothing"

    def read(self, session: Session, address: int, key: int) -> Code:
        poster, qp = session
        data = yield from poster.result((yield from poster.read(qp, address, key, 8)))
        return int.from_bytes(data, "little")
