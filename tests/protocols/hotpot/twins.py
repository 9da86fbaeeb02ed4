"""Hotpot broken on purpose, one step at a time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.protocols.hotpot.commit import HotpotNode, Work
from rpsim.protocols.hotpot.hotpot import Hotpot
from rpsim.protocols.hotpot.node import HeldLocks, Key
from rpsim.protocols.hotpot.records import DirtyArea, NodeMessage, RedoRecord, State, packed_areas
from rpsim.protocols.layout import word_of
from rpsim.protocols.scheme import Role

Code = Generator[Any, Any, Any]


class DataFlushed(Hotpot, name="hotpot-twin-data-flushed"):
    """Whole, and more: the owner flushes the redo data before the record that points at them."""

    title = "the owner flushes what it has received"

    class Node(HotpotNode):
        def write_record(self, thread: Thread, key: Key, held: HeldLocks) -> Code:
            yield from self.flush_data(thread, held)
            yield from super().write_record(thread, key, held)

        def flush_data(self, thread: Thread, held: HeldLocks) -> Code:
            assert held.buffer is not None
            start = self.inbox.address(held.buffer) + self.room.data_at(0)
            yield from self.persist(thread, start, len(held.group.written) * self.room.each)


class IdWithRecord(Hotpot, name="hotpot-twin-id-with-record"):
    """The id may last before what it makes count; all else lasts, the data included."""

    title = "the id is flushed with its record"

    class Node(DataFlushed.Node):
        def write_record(self, thread: Thread, key: Key, held: HeldLocks) -> Code:
            yield from self.flush_data(thread, held)
            record, pages, at = self.record(key), held.group.written, RedoRecord.offset_of("state")
            head = RedoRecord.pack(id=0, done=0, state=State.NEW, buffer=held.buffer, areas=len(pages), unused=b"")
            yield from thread.store(record, word_of(held.id))
            yield from thread.store(record + at, head[at:])
            yield from thread.store(record + RedoRecord.size, packed_areas(pages))
            yield from self.persist(thread, record, RedoRecord.size + len(pages) * DirtyArea.size)


class NoLockWait(Hotpot, name="hotpot-twin-no-lock-wait"):
    """Nobody waits for who is there first."""

    title = "no owner refuses a page that is locked"

    class Node(HotpotNode):
        def lock(self, thread: Thread, key: Key, pages: Sequence[int]) -> Code:
            yield from ()
            self.locks |= dict.fromkeys(pages, key)
            return True


class FlushedLate(Hotpot, name="hotpot-twin-flushed-late"):
    """What was acknowledged lasts with the next message."""

    title = "a page is flushed after the reply"

    class Node(HotpotNode):
        def begin(self) -> None:
            super().begin()
            self.late: list[int] = []

        def write_page(self, thread: Thread, page: int, source: int) -> Code:
            yield from thread.memcpy(self.place(page), source, self.room.value_bytes)
            self.late.append(page)

        def on_message(self, thread: Thread, head: NodeMessage, areas: bytes, buffer: int) -> Code:
            late, self.late = self.late, []
            for page in late:
                yield from self.persist(thread, self.place(page), self.room.value_bytes)
            return (yield from super().on_message(thread, head, areas, buffer))


class StateNotFlushed(Hotpot, name="hotpot-twin-state-not-flushed"):
    """A record that was released may count again, and be committed over what others have committed since."""

    title = "an owner's state is stored and not flushed"

    class Node(HotpotNode):
        def note(self, thread: Thread, key: Key, state: State) -> Code:
            held = self.held[key]
            held.state = state
            if held.group.written:
                yield from thread.store(self.record(key) + RedoRecord.offset_of("state"), word_of(state))

        def end(self, thread: Thread, key: Key) -> Code:
            held = self.held.get(key)
            if held is None:
                return
            if held.group.written:
                yield from thread.store(self.record(key) + RedoRecord.offset_of("done"), word_of(held.id))
                self.released[key] = held.id
            self.forget(key)


class NotReplayed(Hotpot, name="hotpot-twin-not-replayed"):
    """Records are written, and nobody reads them."""

    title = "recovery leaves replay out"

    class Node(HotpotNode):
        def recover(self, thread: Thread) -> Code:
            yield from Role.recover(self, thread)


class NotMarked(Hotpot, name="hotpot-twin-not-marked"):
    """The committing node executes again what all owners have released."""

    title = "the own record does not say that all have committed"

    class Node(HotpotNode):
        def mark_own(self, thread: Thread, work: Work) -> Code:
            yield from ()


class OwnRecordLast(Hotpot, name="hotpot-twin-own-record-last"):
    """The own record comes when the owners have the transaction."""

    title = "the committing node writes its record when the owners have committed"

    class Node(HotpotNode):
        def write_own(self, thread: Thread, work: Work) -> Code:
            yield from ()

        def mark_own(self, thread: Thread, work: Work) -> Code:
            yield from super().write_own(thread, work)
            yield from super().mark_own(thread, work)
