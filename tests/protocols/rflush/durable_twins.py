"""The durable calls broken on purpose, one step at a time: what a checker that never says no would let pass."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.protocols.rflush.connections import DurableConnection
from rpsim.protocols.rflush.durable import DurableRpc, DurableServer, WFlushRpc
from rpsim.protocols.rflush.messages import CallMessage
from rpsim.protocols.rflush.redolog import NONE, LoggedRequest, LogRing, Operator
from rpsim.protocols.rflush.removals import LoggedCall, Removals
from rpsim.protocols.scheme import Scheme

Code = Generator[Any, Any, Any]


class ExecutedBeforeDurable(WFlushRpc, name="wflush-rpc-twin-executed-before-durable"):
    """Whoever sees an operator executes the call."""

    title = "the server does not flush the operator before it executes"

    class Server(DurableServer):
        def make_durable(self, thread: Thread, operator: int) -> Code:
            yield from ()


class RemovedBeforeDurable(WFlushRpc, name="wflush-rpc-twin-removed-before-durable"):
    """The entry goes while the object is in the cache."""

    title = "an entry is removed before the object is durable"

    class Server(DurableServer):
        def execute(
            self, end: DurableConnection, call: LoggedCall, request: LoggedRequest, turn: int, thread: Thread
        ) -> Code:
            yield from self.redo(thread, request)
            yield from end.ring.clear(thread, call.sequence)
            yield from self.table.flush(thread, request.object)
            end.finished.add(call.sequence)
            yield from end.tell(thread)


class RemovalUnflushed(WFlushRpc, name="wflush-rpc-twin-removal-unflushed"):
    """The slot is free for the next call while the old operator may still come back over its data."""

    title = "an entry's removal is not durable when its slot is used again"

    class Server(DurableServer):
        def execute(
            self, end: DurableConnection, call: LoggedCall, request: LoggedRequest, turn: int, thread: Thread
        ) -> Code:
            yield from self.redo(thread, request)
            yield from self.table.flush(thread, request.object)
            yield from thread.store(end.ring.operator(call.sequence), NONE)
            end.finished.add(call.sequence)
            yield from end.tell(thread)


class RemovedInAnyOrder(WFlushRpc, name="wflush-rpc-twin-removed-in-any-order"):
    """If power fails again, an older call may be left of two, and undo the newer one."""

    title = "recovery flushes all removals together"

    class Server(DurableServer):
        def recover_ring(self, thread: Thread, ring: LogRing) -> Code:
            operators = yield from ring.scan(thread)
            for operator in operators:
                yield from self.execute_again(thread, ring, operator)
            for operator in operators:
                yield from thread.store(ring.operator(operator.sequence), NONE)
            for operator in operators:
                yield from thread.flush(ring.operator(operator.sequence), 8)


class RecoveredBySlot(WFlushRpc, name="wflush-rpc-twin-recovered-by-slot"):
    """Slots are used in turn: the first one may have the latest call."""

    title = "recovery executes the entries as they lie"

    class Server(DurableServer):
        def recover_ring(self, thread: Thread, ring: LogRing) -> Code:
            operators = yield from ring.scan(thread)
            for operator in sorted(operators, key=lambda one: one.sequence % ring.slots):
                yield from self.execute_again(thread, ring, operator)
            for operator in operators:
                yield from ring.clear(thread, operator.sequence)


class NotRecovered(WFlushRpc, name="wflush-rpc-twin-not-recovered"):
    """What was acknowledged and not executed is lost."""

    title = "recovery leaves the log alone"

    class Server(DurableServer):
        def recover_ring(self, thread: Thread, ring: LogRing) -> Code:
            yield from ()


class ReadsAhead(WFlushRpc, name="wflush-rpc-twin-reads-ahead"):
    """A read is answered at once, whatever the log still has of that object."""

    title = "a read overtakes the writes before it"

    class Server(DurableServer):
        def poll(self, thread: Thread) -> Code:
            hand_over = self.dispatcher.hand_over

            def ahead(thread: Thread, name: Any, job: Any) -> Code:
                is_read = isinstance(job.args[1], CallMessage)
                return hand_over(thread, (name, "read") if is_read else name, job)

            self.dispatcher.hand_over = ahead
            return super().poll(thread)


class OutOfOrder(WFlushRpc, name="wflush-rpc-twin-out-of-order"):
    """Two workers may execute two calls on one object in either order."""

    title = "calls on one object are executed in parallel"

    class Server(DurableServer):
        def poll(self, thread: Thread) -> Code:
            hand_over = self.dispatcher.hand_over
            self.dispatcher.hand_over = lambda thread, name, job: hand_over(thread, object(), job)
            return super().poll(thread)


class BatchCutShort(WFlushRpc, name="wflush-rpc-twin-batch-cut-short"):
    """The rest of a batch is lost, although its entry was durable."""

    title = "recovery executes the first request of a call only"

    class Server(DurableServer):
        def execute_again(self, thread: Thread, ring: LogRing, operator: Operator) -> Code:
            requests = yield from ring.requests(thread, operator)
            yield from self.redo(thread, requests[0])
            yield from self.table.flush(thread, requests[0].object)


class RemovalsAsExecuted(Removals):
    """Whatever is executed may go."""

    def may_go(self, call: LoggedCall) -> bool:
        return not call.left


class RemovedAsExecuted(WFlushRpc, name="wflush-rpc-twin-removed-as-executed"):
    """An older batch that waits for another object is left, and undoes a newer call."""

    title = "an entry is removed as soon as its call is executed"

    class Server(DurableServer):
        def begin(self) -> None:
            super().begin()
            self.removals = RemovalsAsExecuted()


class RecoveredByNumber(WFlushRpc, name="wflush-rpc-twin-recovered-by-number"):
    """A client that has come back twice may have the first ring again, and older calls in the second one."""

    title = "recovery goes through the logs as they lie"

    class Server(DurableServer):
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            for ring in self.rings:
                yield from self.recover_ring(thread, ring)


class TakenAsFound(WFlushRpc, name="wflush-rpc-twin-taken-as-found"):
    """The polling thread may find a client's latest ring before the one that it had until then."""

    title = "the calls of a later ring go before those of an earlier one"

    class Server(DurableServer):
        def take_rest(self, thread: Thread, end: DurableConnection) -> Code:
            yield from ()


class RecoveredUnflushed(WFlushRpc, name="wflush-rpc-twin-recovered-unflushed"):
    """The entry goes durably, and the object is in the cache."""

    title = "recovery does not flush what it executes"

    class Server(DurableServer):
        def execute_again(self, thread: Thread, ring: LogRing, operator: Operator) -> Code:
            for request in (yield from ring.requests(thread, operator)):
                yield from self.redo(thread, request)


class RecoveredAndKept(WFlushRpc, name="wflush-rpc-twin-recovered-and-kept"):
    """What has been executed again stays in the log, beside what comes after it."""

    title = "recovery removes nothing"

    class Server(DurableServer):
        def recover_ring(self, thread: Thread, ring: LogRing) -> Code:
            for operator in (yield from ring.scan(thread)):
                yield from self.execute_again(thread, ring, operator)


class RecoveredWhole(WFlushRpc, name="wflush-rpc-twin-recovered-whole"):
    """No broken one: the explorer sees one recovery where it saw one for each log."""

    title = "recovery as one whole"

    class Server(DurableServer):
        def recover(self, thread: Thread) -> Code:
            for unit in self.recovery_units():
                yield from self.recover_unit(thread, unit)


TWINS: Mapping[str, type[DurableRpc]] = {
    kind.name.removeprefix("wflush-rpc-twin-"): kind
    for kind in (
        ExecutedBeforeDurable, RemovedBeforeDurable, RemovalUnflushed, RemovedInAnyOrder, RecoveredBySlot, NotRecovered,
        ReadsAhead, OutOfOrder, BatchCutShort, RemovedAsExecuted, RecoveredByNumber, TakenAsFound, RecoveredUnflushed,
        RecoveredAndKept, RecoveredWhole,
    )
}  # fmt: skip
for _kind in TWINS.values():
    del Scheme.registry[_kind.name]


@contextmanager
def registered() -> Iterator[None]:
    """While this lasts, scenarios may name the twins as they name any scheme."""
    Scheme.registry.update({kind.name: kind for kind in TWINS.values()})
    try:
        yield
    finally:
        for kind in TWINS.values():
            del Scheme.registry[kind.name]
