"""A persistent queue at one server: an item, then the count that makes it one, each durable before the next step.

Source: an example.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from typing import Any, ClassVar

from ..models.cpu import Thread
from ..models.system import Node
from .guarantees import ALWAYS, Claims, Condition
from .layout import U32, U64, Layout, Rest
from .parts.rpc import Connection, Listener, VerbsError
from .scheme import OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]
EMPTY = b""


class Counts(Layout):
    """How many items were taken out of a queue so far, and how many put in."""

    taken = U64()
    put = U64()


class Enqueue(Layout):
    """Put an item into the queue of that number; the reply comes when it is durable."""

    queue = U32()
    item = Rest()


class Dequeue(Layout):
    """Take the oldest item out: the reply, empty if there is none."""

    queue = U32()


class PersistentQueue(Scheme, name="persistent-queue"):
    """One call each. A queue is a line with its counts, and slots in the order of putting in."""

    title = "a queue in persistent memory, by calls to one server"
    paper = "an example"
    section = "docs/adding.md"
    claims: ClassVar[Claims] = {Condition.DURABLE: ALWAYS, Condition.COMMITTED: ALWAYS, Condition.EXACTLY_ONCE: ALWAYS}
    model = "queue"
    operations = ("enqueue", "dequeue")
    updates = frozenset({"enqueue", "dequeue"})

    class Server(Role, memory=("dram", "pm")):
        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.slot = -(-self.sizes.value_bytes // 64) * 64
            self.each = 64 + self.slot * self.sizes.updates
            self.queues = node.memory["pm"].allocate(
                self.each * len(self.sizes.objects), "queues", item_bytes=self.each
            )

        def begin(self) -> None:
            room = 64 + self.sizes.value_bytes
            handlers = {Enqueue: self.on_enqueue, Dequeue: self.on_dequeue}
            self.listener = Listener(self.node, handlers, message_bytes=room)

        def start(self) -> None:
            thread = self.node.thread(0, self.node.name)
            self.node.process(self.node.name).start(self.listener.serve(thread))
            self.listener.listen()

        def on_enqueue(self, thread: Thread, request: Enqueue) -> Code:
            counts = yield from self.counts(thread, request.queue)
            yield from self.persist(thread, self.item(request.queue, counts.put), request.item)
            yield from self.count(thread, request.queue, taken=counts.taken, put=counts.put + 1)
            return b"durable"

        def on_dequeue(self, thread: Thread, request: Dequeue) -> Code:
            counts = yield from self.counts(thread, request.queue)
            if counts.taken == counts.put:
                return EMPTY
            item = yield from thread.load(self.item(request.queue, counts.taken), self.sizes.value_bytes)
            yield from self.count(thread, request.queue, taken=counts.taken + 1, put=counts.put)
            return item

        def counts(self, thread: Thread, queue: int) -> Code:
            return Counts.unpack((yield from thread.load(self.queues + queue * self.each, Counts.size)))

        def count(self, thread: Thread, queue: int, **counts: int) -> Code:
            yield from self.persist(thread, self.queues + queue * self.each, Counts.pack(**counts))

        def item(self, queue: int, number: int) -> int:
            return self.queues + queue * self.each + 64 + number * self.slot

        def persist(self, thread: Thread, address: int, data: bytes) -> Code:
            yield from thread.store(address, data)
            yield from thread.flush(address, len(data))

    class Client(Role, invokes=True):
        def connect(self, thread: Thread) -> Connection:
            listener: Listener = self.scheme.roles["server"][0].listener
            return listener.accept(thread, self.node, 64)

        def perform(self, session: Connection, request: Request) -> Code:
            step = request.step
            queue = self.sizes.objects.index(step.object)
            try:
                if step.f == "enqueue":
                    return (yield from session.call(Enqueue, queue=queue, item=step.value))
                return (yield from session.call(Dequeue, queue=queue)) or None
            except VerbsError as error:
                raise OutcomeUnknown(str(error)) from error

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """All queues begin empty, as memory does."""

    def probe(self, object: Hashable) -> Request:
        return Request.of("dequeue", object)


class CountsFirst(PersistentQueue, name="counts-first-queue"):
    """Broken: what the count says is there may not be there yet."""

    title = "the same that counts an item before it is durable"

    class Server(PersistentQueue.Server):
        def on_enqueue(self, thread: Thread, request: Enqueue) -> Code:
            counts = yield from self.counts(thread, request.queue)
            yield from self.count(thread, request.queue, taken=counts.taken, put=counts.put + 1)
            yield from self.persist(thread, self.item(request.queue, counts.put), request.item)
            return b"durable"


class Forgetful(PersistentQueue, name="forgetful-queue"):
    """Broken: what a client has taken out may be in the queue again."""

    title = "the same that does not flush what it takes out"

    class Server(PersistentQueue.Server):
        def on_dequeue(self, thread: Thread, request: Dequeue) -> Code:
            counts = yield from self.counts(thread, request.queue)
            if counts.taken == counts.put:
                return EMPTY
            item = yield from thread.load(self.item(request.queue, counts.taken), self.sizes.value_bytes)
            yield from thread.store(
                self.queues + request.queue * self.each, Counts.pack(taken=counts.taken + 1, put=counts.put)
            )
            return item
