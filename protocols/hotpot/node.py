"""A node of Hotpot as an owner of pages: redo records, locks, the three phases, recovery."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from ...models.cpu import Thread
from ...sim.bytespace import round_up
from ..layout import Layout, word_of
from .holder import HolderNode
from .messages import SLOTS, Calls, NodeInbox
from .records import (
    DirtyArea,
    MessageKind,
    NodeMessage,
    PageAsk,
    PageGroup,
    RedoRecord,
    State,
    TransactionCall,
    areas_of,
    packed_areas,
)

Code = Generator[Any, Any, Any]
Key = tuple[int, int]
"""A transaction's part at an owner: the node that commits, and the home of the pages."""

CALLS, OWNING, ASIDE = range(3)
"""A node's threads by their cores: for applications' transactions, for messages to the owner, for copies."""


class HeldLocks:
    """A transaction's part as its owner knows it."""

    def __init__(self, id: int, group: PageGroup, state: int, buffer: int | None) -> None:
        self.id = id
        self.group = group
        self.state = state
        self.buffer = buffer
        """The receive buffer with its data; None where nothing is written."""
        self.single = False
        """Whether all phases come in one message."""
        self.in_commit = False
        """Whether a thread is at its commit: whoever else would settle it has to wait."""


class OwnerNode(HolderNode):
    """A machine with a redo record for whoever commits to its pages."""

    @override
    def begin(self) -> None:
        super().begin()
        self.inbox = NodeInbox(self.node, self.buffers, self.room)
        self.applications = Calls(self.node, {TransactionCall: self.on_transaction}, self.room.call)
        self.held: dict[Key, HeldLocks] = {}
        self.released: dict[Key, int] = {}
        """By part: the transaction that was released last."""
        self.locks: dict[int, Key] = {}
        """By page: who has locked it."""
        self.begins_again = False

    @override
    def handlers(self) -> Mapping[type[Layout], Callable[[Thread, Any], Code]]:
        return {**super().handlers(), PageAsk: self.on_ask}

    @override
    def start(self) -> None:
        name = self.node.name
        calls, owning = self.node.thread(CALLS, name), self.node.thread(OWNING, f"{name} owner")
        self.run_thread(self.copies.serve(self.node.thread(ASIDE, f"{name} copies")))
        if self.begins_again:
            self.run_thread(self.own_again(owning))
            self.run_thread(self.call_again(calls))
        else:
            self.run_thread(self.inbox.serve(owning, self.on_message))
            self.run_thread(self.applications.serve(calls))
        self.listener.listen()

    def run_thread(self, code: Code) -> None:
        """Have a thread run this."""
        self.node.process(self.node.name).start(code)

    def own_again(self, thread: Thread) -> Code:
        """Finish what was being committed when this node failed, then handle messages."""
        for key, held in list(self.held.items()):
            if held.state == State.COMMITTING:
                yield from self.commit(thread, key)
        self.run_thread(self.inbox.serve(thread, self.on_message))

    def call_again(self, thread: Thread) -> Code:
        """Perform applications' transactions, after what was left undone when this node failed."""
        raise NotImplementedError

    def on_transaction(self, thread: Thread, request: TransactionCall) -> Code:
        """Perform a transaction; returns when it is committed."""
        raise NotImplementedError

    def record(self, key: Key) -> int:
        """Where the redo record of a part is."""
        return self.redo + (key[0] * self.nodes + key[1]) * self.room.record

    # messages to the owner --------------------------------------------------------------------------------------------
    def on_message(self, thread: Thread, head: NodeMessage, areas: bytes, buffer: int) -> Code:
        """Handle a message; returns the status, what has been read, whether the buffer is kept."""
        key = head.committing, head.home
        pages = areas_of(areas, head.areas)
        match head.kind:
            case MessageKind.FETCH:
                return (yield from self.fetch(thread, pages[0]))
            case MessageKind.AGAIN:
                for other in [one for one in self.held if one[0] == head.committing]:
                    if self.held[other].id != head.id or not self.held[other].group.written:
                        yield from self.drop(thread, other)
                return State.NEW, b"", False
            case MessageKind.PREPARE | MessageKind.ALL:
                group = PageGroup(tuple(pages[: head.written]), tuple(pages[head.written :]))
                held = HeldLocks(head.id, group, State.NEW, buffer if group.written else None)
                held.single = head.kind == MessageKind.ALL
                status = yield from self.prepare(thread, key, held)
                found = yield from self.read(thread, group.read, status)
                if head.kind == MessageKind.ALL and status != State.REFUSED:
                    yield from self.commit(thread, key)
                    yield from self.end(thread, key)
                return status, found, self.inbox_keeps(key, buffer)
        held_now = self.held.get(key)
        if held_now is None or held_now.id != head.id:
            return State.RELEASED, b"", False
        if head.kind == MessageKind.COMMIT:
            yield from self.commit(thread, key)
        elif head.kind == MessageKind.END:
            yield from self.end(thread, key)
        else:
            yield from self.drop(thread, key)
        return State.COMMITTED, b"", False

    def inbox_keeps(self, key: Key, buffer: int) -> bool:
        """Whether a transaction's data are in this buffer."""
        held = self.held.get(key)
        return held is not None and held.buffer == buffer

    def fetch(self, thread: Thread, page: int) -> Code:
        """A whole page, unless it is in a transaction."""
        if (yield from self.blocked(thread, page)):
            return State.REFUSED, b"", False
        return State.NEW, (yield from self.load_page(thread, page, self.room.page_bytes)), False

    def read(self, thread: Thread, pages: Iterable[int], status: int) -> Code:
        """What pages hold that have been locked."""
        found = b""
        if status in (State.PREPARED, State.COMMITTING):
            for page in pages:
                found += yield from self.load_page(thread, page, self.room.value_bytes)
        return found

    # phase 1 ----------------------------------------------------------------------------------------------------------
    def prepare(self, thread: Thread, key: Key, held: HeldLocks) -> Code:
        """Make the redo record, lock the pages; returns how far this owner is, or that it refuses."""
        known = yield from self.known(thread, key, held.id)
        if known is not None:
            return known
        if held.group.written:
            yield from self.write_record(thread, key, held)
        if not (yield from self.lock(thread, key, held.group.pages)):
            if held.group.written:
                yield from self.void_record(thread, key)
            return State.REFUSED
        self.held[key] = held
        yield from self.note(thread, key, State.PREPARED)
        return State.PREPARED

    def known(self, thread: Thread, key: Key, id: int) -> Code:
        """How far this owner is with a transaction that it has a record of; None: with that one it has not begun.

        What is left of another transaction of the node that commits is dropped: that has gone on.
        """
        before = self.held.get(key)
        if before is not None and before.id == id:
            if self.scheme.option("again") == "known":
                return before.state
            if before.buffer is not None:
                self.inbox.give_back(before.buffer)
            return None  # locked as it is, it is prepared once more
        if before is not None:
            yield from self.drop(thread, key)
        return State.RELEASED if self.released.get(key) == id else None

    def write_record(self, thread: Thread, key: Key, held: HeldLocks) -> Code:
        """All of the record but its id, flushed; then the id, flushed."""
        record, pages = self.record(key), held.group.written
        head = RedoRecord.pack(id=0, done=0, state=State.NEW, buffer=held.buffer, areas=len(pages), unused=b"")
        at = RedoRecord.offset_of("state")
        yield from thread.store(record + at, head[at:])
        yield from thread.store(record + RedoRecord.size, packed_areas(pages))
        yield from self.persist(thread, record + at, RedoRecord.size - at + len(pages) * DirtyArea.size)
        yield from self.put(thread, record, word_of(held.id))

    def void_record(self, thread: Thread, key: Key) -> Code:
        """The record is none any more, and its transaction was not released."""
        record = self.record(key)
        yield from self.put(thread, record, (yield from thread.load(record + RedoRecord.offset_of("done"), 8)))

    def lock(self, thread: Thread, key: Key, pages: Sequence[int]) -> Code:
        """Lock all pages, or none; returns whether they are."""
        for page in pages:
            if (yield from self.blocked(thread, page, key)):
                return False
        if any(self.locks.get(page, key) != key for page in pages):  # meanwhile
            return False
        self.locks |= dict.fromkeys(pages, key)
        return True

    def blocked(self, thread: Thread, page: int, key: Key | None = None) -> Code:
        """Whether a page is in another transaction; one of a node that is lost is settled."""
        holder = self.locks.get(page)
        if holder is None or holder == key:
            return False
        if not self.scheme.is_lost(holder[0]):
            return True
        yield from self.settle(thread, holder)
        return self.locks.get(page) == holder

    def unlock(self, key: Key) -> None:
        """Free the pages of a part."""
        for page in [one for one, holder in self.locks.items() if holder == key]:
            del self.locks[page]

    def note(self, thread: Thread, key: Key, state: State) -> Code:
        """This owner is so far, which its record says, flushed."""
        held = self.held[key]
        held.state = state
        if held.group.written:
            yield from self.put(thread, self.record(key) + RedoRecord.offset_of("state"), word_of(state))

    # phase 2 ----------------------------------------------------------------------------------------------------------
    def commit(self, thread: Thread, key: Key) -> Code:
        """New data to the holders of copies, then from the receive buffer to the pages."""
        held = self.held.get(key)
        if held is None or held.state == State.COMMITTED or held.in_commit:
            return
        held.in_commit = True
        yield from self.note(thread, key, State.COMMITTING)
        if held.buffer is not None:
            start = self.inbox.address(held.buffer)
            sources = [start + self.room.data_at(turn) for turn in range(len(held.group.written))]
            yield from self.apply(thread, key[1], held.group.written, sources)
        yield from self.note(thread, key, State.COMMITTED)
        held.in_commit = False

    def apply(self, thread: Thread, home: int, pages: Sequence[int], sources: Sequence[int]) -> Code:
        """What lies at ``sources`` is new in these pages: in all copies, then here."""
        yield from self.send_copies(thread, home, pages, sources)
        for page, source in zip(pages, sources, strict=True):
            yield from self.write_page(thread, page, source)

    def write_page(self, thread: Thread, page: int, source: int) -> Code:
        """From the log to the page, flushed."""
        yield from thread.memcpy(self.place(page), source, self.room.value_bytes)
        yield from self.persist(thread, self.place(page), self.room.value_bytes)

    # phase 3 ----------------------------------------------------------------------------------------------------------
    def end(self, thread: Thread, key: Key) -> Code:
        """The record is none any more, then the pages are free."""
        held = self.held.get(key)
        if held is None:
            return
        if held.group.written:
            yield from self.put(thread, self.record(key) + RedoRecord.offset_of("done"), word_of(held.id))
            self.released[key] = held.id
        self.forget(key)

    def drop(self, thread: Thread, key: Key) -> Code:
        """Nothing of a part is to be committed."""
        held = self.held[key]
        if held.group.written:
            yield from self.void_record(thread, key)
        self.forget(key)

    def forget(self, key: Key) -> None:
        """Free the pages and the buffer of a part."""
        held = self.held.pop(key, None)
        self.unlock(key)
        if held is not None and held.buffer is not None:
            self.inbox.give_back(held.buffer)

    # of a node that is lost -------------------------------------------------------------------------------------------
    def settle(self, thread: Thread, key: Key) -> Code:
        """A transaction of a lost node is committed if some owner had begun to, else dropped.

        One that another thread is committing stays as it is: its pages are free once that thread has ended.
        """
        held = self.held.get(key)
        if held is None:
            self.unlock(key)
            return
        if held.in_commit:
            return
        begun = held.state in (State.COMMITTING, State.COMMITTED)
        for other in range(self.nodes):
            if other not in (self.number, key[0]) and not begun:
                question = {"committing": key[0], "id": held.id, "unused": 0}
                found = yield from self.aside(thread, other, PageAsk, question)
                begun = found is not None and int.from_bytes(found, "little") >= State.COMMITTING
        if self.held.get(key) is not held or held.in_commit:
            return
        if begun:
            yield from self.commit(thread, key)
            yield from self.end(thread, key)
        else:
            yield from self.drop(thread, key)

    def on_ask(self, thread: Thread, request: PageAsk) -> Code:
        """How far this owner is with a transaction of a lost node; what it has not begun to commit is dropped."""
        mine = [key for key, held in self.held.items() if key[0] == request.committing and held.id == request.id]
        states = [int(self.held[key].state) for key in mine]
        if any(key[0] == request.committing and id == request.id for key, id in self.released.items()):
            states.append(State.RELEASED)
        if max(states, default=0) < State.COMMITTING:
            for key in mine:
                yield from self.drop(thread, key)
        return word_of(max(states, default=0))

    # after a failure: what the records say ----------------------------------------------------------------------------
    @override
    def recover(self, thread: Thread) -> Code:
        """Lock the pages of all transactions of which there is a record; :meth:`serve_owner` goes on with them."""
        self.begins_again = True
        found: list[tuple[Key, HeldLocks]] = []
        for committing in range(self.nodes):
            for home in range(self.nodes):
                key = committing, home
                record = RedoRecord.unpack((yield from thread.load(self.record(key), RedoRecord.size)))
                if record.id in (0, record.done):
                    self.released[key] = record.done
                else:
                    found.append((key, (yield from self.held_by(thread, key, record))))
        for key, held in found:
            if held.state != State.NEW:
                yield from self.hold_again(thread, key, held)
        yield from self.recover_own(thread)
        for key, held in found:
            if held.state == State.NEW:
                yield from self.hold_again(thread, key, held)

    def recover_own(self, thread: Thread) -> Code:
        """What this node was committing itself."""
        raise NotImplementedError

    def hold_again(self, thread: Thread, key: Key, held: HeldLocks) -> Code:
        """Lock what a record has; one that had not locked its pages may have been about to be refused."""
        pages = held.group.pages
        if any(page in self.locks or not self.has(page) for page in pages):
            yield from self.void_record(thread, key)
            return
        self.locks |= dict.fromkeys(pages, key)
        self.held[key] = held
        if held.buffer is not None:
            self.inbox.kept.add(held.buffer)
        if held.state == State.NEW:
            yield from self.note(thread, key, State.PREPARED)

    def held_by(self, thread: Thread, key: Key, record: RedoRecord) -> Code:
        """What a record says."""
        count = min(int(record.areas), self.room.areas)
        areas = yield from thread.load(self.record(key) + RedoRecord.size, round_up(max(1, count * DirtyArea.size)))
        known = range(key[1], len(self.sizes.objects), self.nodes)
        pages = [page for page in areas_of(areas, count) if page in known]
        buffer = int(record.buffer) % (self.nodes * SLOTS)
        return HeldLocks(int(record.id), PageGroup(tuple(dict.fromkeys(pages)), ()), int(record.state), buffer)
