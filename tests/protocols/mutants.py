"""SAW broken on purpose, one step at a time: what a checker that never says no would let pass.

A mutant registers like any scheme, but only while :func:`registered` is active, so that no other test meets it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.models.verbs import CompletionQueue
from rpsim.protocols.efactory.saw import Persist, Saw
from rpsim.protocols.parts.index import ENTRY_BYTES, Location
from rpsim.protocols.scheme import Scheme

Code = Generator[Any, Any, Any]


class FlushDropped(Saw, name="saw-mutant-flush-dropped"):
    """The object is published without being flushed."""

    title = "SAW without the flush of the object"

    class Server(Saw.Server):
        def on_persist(self, thread: Thread, request: Persist) -> Code:
            entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
            yield from thread.flush(entry, ENTRY_BYTES)
            return b"durable"


class PublishedFirst(Saw, name="saw-mutant-published-first"):
    """Both flushes are there, in the wrong order: for a while a durable entry points to an object that is not."""

    title = "SAW with the entry published and flushed before the object"

    class Server(Saw.Server):
        def on_persist(self, thread: Thread, request: Persist) -> Code:
            entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
            yield from thread.flush(entry, ENTRY_BYTES)
            yield from thread.flush(self.log + request.offset, request.length)
            return b"durable"


class _Owing(Saw):
    """A server that owes work for requests that it has answered; it pays before it looks for the next one."""

    class Server(Saw.Server):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self._owed: list[Code] = []

        def start(self) -> None:
            thread = self.node.thread(0, self.node.name)
            poll = thread.poll

            def pay_then_poll(queue: CompletionQueue) -> Code:
                while self._owed:  # the server polls again once it has posted the reply, not sooner
                    yield from self._owed.pop(0)
                return (yield from poll(queue))

            thread.poll = pay_then_poll
            self.system.clock.start(self.listener.serve(thread))


class ReplyFirst(_Owing, name="saw-mutant-reply-first"):
    """The object is published, the reply leaves, and both flushes follow."""

    title = "SAW with the reply sent before the flushes"

    class Server(_Owing.Server):
        def on_persist(self, thread: Thread, request: Persist) -> Code:
            entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
            self._owed += [thread.flush(self.log + request.offset, request.length), thread.flush(entry, ENTRY_BYTES)]
            return b"durable"


class EntryFlushAfterReply(_Owing, name="saw-mutant-entry-flush-after-reply"):
    """The object is durable and published when the reply leaves; only the entry's flush comes after it."""

    title = "SAW with the reply sent before the flush of the index entry"

    class Server(_Owing.Server):
        def on_persist(self, thread: Thread, request: Persist) -> Code:
            yield from thread.flush(self.log + request.offset, request.length)
            entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
            self._owed.append(thread.flush(entry, ENTRY_BYTES))
            return b"durable"


class AllAfterReply(_Owing, name="saw-mutant-all-after-reply"):
    """The reply leaves before anything has been done at all; what is done then is right."""

    title = "SAW with flushes and publication after the reply"

    class Server(_Owing.Server):
        def on_persist(self, thread: Thread, request: Persist) -> Code:
            self._owed.append(super().on_persist(thread, request))
            yield from ()
            return b"durable"


class EntryFlushDropped(Saw, name="saw-mutant-entry-flush-dropped"):
    """The object is durable, the entry that points to it is left in the cache."""

    title = "SAW without the flush of the index entry"

    class Server(Saw.Server):
        def on_persist(self, thread: Thread, request: Persist) -> Code:
            yield from thread.flush(self.log + request.offset, request.length)
            yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
            return b"durable"


class FencesDropped(Saw, name="saw-mutant-fences-dropped"):
    """Every line is written back, and nobody waits for it: clwb without sfence."""

    title = "SAW with clwb and no sfence"

    class Server(Saw.Server):
        def on_persist(self, thread: Thread, request: Persist) -> Code:
            yield from thread.clwb(self.log + request.offset, request.length)
            entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
            yield from thread.clwb(entry, ENTRY_BYTES)
            return b"durable"


class FirstFenceDropped(Saw, name="saw-mutant-first-fence-dropped"):
    """One fence for both flushes: nothing orders the object before the entry that points to it."""

    title = "SAW with one sfence for the object and its entry"

    class Server(Saw.Server):
        def on_persist(self, thread: Thread, request: Persist) -> Code:
            yield from thread.clwb(self.log + request.offset, request.length)
            entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
            yield from thread.flush(entry, ENTRY_BYTES)
            return b"durable"


MUTANTS: Mapping[str, type[Saw]] = {
    mutant.name: mutant
    for mutant in (
        FlushDropped,
        PublishedFirst,
        ReplyFirst,
        EntryFlushAfterReply,
        AllAfterReply,
        EntryFlushDropped,
        FencesDropped,
        FirstFenceDropped,
    )
}
for _name in MUTANTS:
    del Scheme.registry[_name]


@contextmanager
def registered() -> Iterator[None]:
    """While this lasts, scenarios may name the mutants as they name any scheme."""
    added = MUTANTS.keys() - Scheme.registry.keys()
    Scheme.registry.update(MUTANTS)
    try:
        yield
    finally:
        for name in added:
            del Scheme.registry[name]
