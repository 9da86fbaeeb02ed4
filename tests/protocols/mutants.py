"""SAW broken on purpose, one step at a time: what a checker that never says no would let pass.

A mutant registers like any scheme, but only while :func:`registered` is active, so that no other test meets it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.models.verbs import CompletionQueue
from rpsim.protocols.index import ENTRY_BYTES, Location
from rpsim.protocols.saw import Persist, Saw
from rpsim.protocols.scheme import Scheme

Code = Generator[Any, Any, Any]


class FlushDropped(Saw, name="saw-mutant-flush-dropped"):
    """The object is published without being flushed."""

    title = "SAW without the flush of the object"

    def on_persist(self, thread: Thread, request: Persist) -> Code:
        entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
        yield from thread.flush(entry, ENTRY_BYTES)
        return b"durable"


class PublishedFirst(Saw, name="saw-mutant-published-first"):
    """Both flushes are there, in the wrong order: for a while a durable entry points to an object that is not."""

    title = "SAW with the entry published and flushed before the object"

    def on_persist(self, thread: Thread, request: Persist) -> Code:
        entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
        yield from thread.flush(entry, ENTRY_BYTES)
        yield from thread.flush(self.log + request.offset, request.length)
        return b"durable"


class ReplyFirst(Saw, name="saw-mutant-reply-first"):
    """The reply leaves before anything is flushed or published; the work is done before the next request."""

    title = "SAW with the reply sent before the flush"
    _owed: tuple[Persist, ...] = ()

    def start(self) -> None:
        thread = self.node.thread(0, self.node.name)
        poll = thread.poll

        def pay_then_poll(queue: CompletionQueue) -> Code:
            owed, self._owed = self._owed, ()
            for request in owed:  # the server polls again when the reply has been posted, not sooner
                yield from super(ReplyFirst, self).on_persist(thread, request)
            return (yield from poll(queue))

        thread.poll = pay_then_poll
        self.system.clock.start(self.server.serve(thread))

    def on_persist(self, thread: Thread, request: Persist) -> Code:
        yield from ()
        self._owed = (*self._owed, request)
        return b"durable"


class EntryFlushDropped(Saw, name="saw-mutant-entry-flush-dropped"):
    """The object is durable, the entry that points to it is left in the cache."""

    title = "SAW without the flush of the index entry"

    def on_persist(self, thread: Thread, request: Persist) -> Code:
        yield from thread.flush(self.log + request.offset, request.length)
        yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
        return b"durable"


class FencesDropped(Saw, name="saw-mutant-fences-dropped"):
    """Every line is written back, and nobody waits for it: clwb without sfence."""

    title = "SAW with clwb and no sfence"

    def on_persist(self, thread: Thread, request: Persist) -> Code:
        yield from thread.clwb(self.log + request.offset, request.length)
        entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
        yield from thread.clwb(entry, ENTRY_BYTES)
        return b"durable"


class FirstFenceDropped(Saw, name="saw-mutant-first-fence-dropped"):
    """One fence for both flushes: nothing orders the object before the entry that points to it."""

    title = "SAW with one sfence for the object and its entry"

    def on_persist(self, thread: Thread, request: Persist) -> Code:
        yield from thread.clwb(self.log + request.offset, request.length)
        entry = yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
        yield from thread.flush(entry, ENTRY_BYTES)
        return b"durable"


MUTANTS: Mapping[str, type[Saw]] = {
    mutant.name: mutant
    for mutant in (FlushDropped, PublishedFirst, ReplyFirst, EntryFlushDropped, FencesDropped, FirstFenceDropped)
}
for _name in MUTANTS:
    del Scheme.registry[_name]


@contextmanager
def registered() -> Iterator[None]:
    """While this lasts, scenarios may name the mutants as they name any scheme."""
    Scheme.registry.update(MUTANTS)
    try:
        yield
    finally:
        for name in MUTANTS:
            del Scheme.registry[name]
