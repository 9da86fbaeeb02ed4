"""A node of Hotpot as the one that commits: its own record, then the owners of the pages in three phases."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from ...models.cpu import Thread
from ...sim.bytespace import round_up
from ..layout import word_of
from ..parts.onesided import VerbsError
from .messages import NodeWire
from .node import OwnerNode
from .records import (
    Answer,
    DirtyArea,
    MessageKind,
    Outcome,
    OwnRecord,
    PageGroup,
    PageLost,
    State,
    TransactionCall,
    areas_of,
    packed_areas,
)  # fmt: skip

Code = Generator[Any, Any, Any]

TURNS = 12
"""So many times a pause doubles."""


class Work:
    """A transaction that this node commits: what is written where, what is read, and what has been found."""

    def __init__(self, id: int, written: Sequence[int], read: Sequence[int], *, begun: bool = False) -> None:
        self.id = id
        self.written = tuple(written)
        """The pages; what is new in each lies in the dirty page of the same turn."""
        self.read = tuple(read)
        self.found: dict[int, bytes] = {}
        self.known = True
        """Whether all that was to be read has been, and all that was to be written."""
        self.begun = begun
        """Whether an owner may have locked or committed a part of it."""

    def groups(self, nodes: int) -> Mapping[int, PageGroup]:
        """The parts, by home, in the order of these."""
        homes = sorted({page % nodes for page in (*self.written, *self.read)})
        return {
            home: PageGroup(
                tuple(page for page in self.written if page % nodes == home),
                tuple(page for page in self.read if page % nodes == home),
            )
            for home in homes
        }


class HotpotNode(OwnerNode):
    """A machine of Hotpot."""

    @override
    def begin(self) -> None:
        super().begin()
        self.wires: dict[int, NodeWire] = {}
        """By owner."""
        self.last = 0
        """The id of the last transaction."""
        self.unfinished: Work | None = None
        """What this node's own record has after a failure."""

    @override
    def call_again(self, thread: Thread) -> Code:
        yield from self.begin_again(thread)
        self.run_thread(self.applications.serve(thread))

    # a process's call -------------------------------------------------------------------------------------------------
    @override
    def on_transaction(self, thread: Thread, request: TransactionCall) -> Code:
        """Perform a transaction; returns when phase 3 is over."""
        count = request.written + request.read
        pages = areas_of(request.rest, count)
        written, read = pages[: request.written], pages[request.written :]
        self.last += 1
        work = Work(self.last, written, [page for page in read if self.locks_for_reading])
        values = [request.rest[count * DirtyArea.size + turn * self.room.value_bytes :][: self.room.value_bytes]
                  for turn in range(request.written)]  # fmt: skip
        try:
            if not self.locks_for_reading:
                for page in read:
                    work.found[page] = (yield from self.find(thread, page))[: self.room.value_bytes]
            if written:
                yield from self.make_dirty(thread, work, values)
                yield from self.write_own(thread, work)
            if written or work.read:
                yield from self.run(thread, work)
        except PageLost:
            work.known = False
        if written:
            yield from self.delete_own(thread, work)
        found = b"".join([work.found.get(page, b"").ljust(self.room.value_bytes, b"\0") for page in read])
        return Outcome.pack(known=int(work.known), rest=found)

    @property
    def locks_for_reading(self) -> bool:
        """Whether a page that is read is locked, as one that is written."""
        return bool(self.scheme.option("reads") == "locked")

    def find(self, thread: Thread, page: int) -> Code:
        """A whole page: this node's copy, or its owner's."""
        if self.has(page):
            return (yield from self.load_page(thread, page, self.room.page_bytes))
        for pause in self.pauses():
            answer = yield from self.ask_owner(thread, page)
            if answer.status != State.REFUSED:
                return answer.rest
            yield from thread.sleep_until(thread.deadline(pause))
        raise PageLost(f"page {page} stays locked")

    def ask_owner(self, thread: Thread, page: int) -> Code:
        """Fetch a page from its owner."""
        home = page % self.nodes
        while True:
            try:
                wire = yield from self.wire(thread, self.scheme.owner(home))
                return (
                    yield from wire.call(
                        MessageKind.FETCH,
                        packed_areas([page]),
                        committing=self.number,
                        home=home,
                        id=0,
                        areas=1,
                        written=0,
                    )
                )
            except VerbsError as error:
                self.broken(error)

    def pauses(self) -> Iterator[str]:
        """How long to wait, turn by turn, before what an owner has refused is tried again.

        Assumption: the published code returns to the application, which tries again. Nodes wait differently long, or
        two that are in each other's way could be so for ever.
        """
        for turn in itertools.count():
            yield f"{(2 + self.number) << min(turn, TURNS)} us"

    # this node's own record -------------------------------------------------------------------------------------------
    def make_dirty(self, thread: Thread, work: Work, values: Sequence[bytes]) -> Code:
        """Copy on write: a dirty page for each page that is written, then the stores."""
        for turn, (page, value) in enumerate(zip(work.written, values, strict=True)):
            before = yield from self.find(thread, page)
            yield from thread.store(self.dirty_page(turn, page), before)
            yield from thread.store(self.dirty_page(turn, page), value)

    def dirty_page(self, turn: int, page: int) -> int:
        """Where the dirty page is of a page that is written in this turn."""
        return self.dirty + turn * self.room.page_bytes

    def write_own(self, thread: Thread, work: Work) -> Code:
        """Which dirty pages are to be committed, flushed with these; then the id, flushed."""
        for turn, page in enumerate(work.written):
            yield from self.persist(thread, self.dirty_page(turn, page), self.room.value_bytes)
        at = OwnRecord.offset_of("areas")
        yield from thread.store(self.own + at, word_of(len(work.written)))
        yield from thread.store(self.own + OwnRecord.size, packed_areas(work.written))
        yield from self.persist(thread, self.own + at, OwnRecord.size - at + len(work.written) * DirtyArea.size)
        yield from self.put(thread, self.own, word_of(work.id))

    def mark_own(self, thread: Thread, work: Work) -> Code:
        """All owners have committed: nothing of it is to be committed again."""
        if work.written:
            yield from self.put(thread, self.own + OwnRecord.offset_of("marked"), word_of(work.id))

    def delete_own(self, thread: Thread, work: Work) -> Code:
        """The record is none any more."""
        yield from self.put(thread, self.own + OwnRecord.offset_of("done"), word_of(work.id))

    # three phases -----------------------------------------------------------------------------------------------------
    def run(self, thread: Thread, work: Work) -> Code:
        """Go through the phases until no owner refuses; what breaks is done again with the owners that are left."""
        pauses = self.pauses()
        while True:
            try:
                if (yield from self.attempt(thread, work)):
                    return
            except VerbsError as error:
                self.broken(error)
                continue
            except PageLost:  # meanwhile
                if not work.begun:
                    raise
                continue
            thread.count("retries")
            yield from thread.sleep_until(thread.deadline(next(pauses)))

    def attempt(self, thread: Thread, work: Work) -> Code:
        """All phases; returns False if an owner has refused, and nothing is locked then."""
        groups = self.groups_left(work)
        owners = {home: self.scheme.owner(home) for home in groups}
        remote = [home for home in groups if owners[home] != self.number]
        mine = [home for home in groups if home not in remote]
        before, work.begun = work.begun, True
        if len(remote) > 1:
            done = yield from self.in_three(thread, work, groups, owners)
        else:
            done = yield from self.in_one(thread, work, groups, mine, remote)
        work.begun = done or before
        return done

    def groups_left(self, work: Work) -> Mapping[int, PageGroup]:
        """The parts whose pages a node still owns. Raises PageLost if some are gone, and it has not begun."""
        groups = work.groups(self.nodes)
        left = {home: group for home, group in groups.items() if self.scheme.chain(home)}
        if len(left) < len(groups):
            work.known = False
            if not work.begun:
                raise PageLost(f"all copies of the pages of node{sorted(groups.keys() - left)} are lost")
        return left

    def in_one(
        self, thread: Thread, work: Work, groups: Mapping[int, PageGroup], mine: Sequence[int], remote: Sequence[int]
    ) -> Code:
        """With at most one remote owner: all phases in one message, between locking and committing pages here."""
        if not (yield from self.lock_mine(thread, work, groups, mine)):
            return False
        for home in remote:
            if not (yield from self.ask(thread, work, home, groups[home], MessageKind.ALL)):
                yield from self.revert(thread, work, mine)
                return False
        yield from self.commit_mine(thread, work, groups, mine)
        yield from self.mark_own(thread, work)
        self.unlock_mine(mine)
        return True

    def in_three(self, thread: Thread, work: Work, groups: Mapping[int, PageGroup], owners: Mapping[int, int]) -> Code:
        """Phases 1 and 3 from owner to owner in the order of their numbers, phase 2 of all at once."""
        mine = [home for home in groups if owners[home] == self.number]
        for turn, home in enumerate(groups):
            if home in mine:
                locked = yield from self.lock_mine(thread, work, groups, [home])
            else:
                locked = yield from self.ask(thread, work, home, groups[home], MessageKind.PREPARE)
            if not locked:
                yield from self.revert(thread, work, list(groups)[:turn])
                return False
        posted = []
        for home in groups:
            if home not in mine and groups[home].written:
                wire = yield from self.wire(thread, owners[home])
                yield from wire.post(MessageKind.COMMIT, **self.head(work, home))
                posted.append(wire)
        for wire in posted:
            yield from wire.reply()
        yield from self.commit_mine(thread, work, groups, mine)
        yield from self.mark_own(thread, work)
        for home in groups:
            if home in mine:
                self.unlock_mine([home])
            else:
                yield from self.tell(thread, work, home, MessageKind.END)
        return True

    def revert(self, thread: Thread, work: Work, homes: Sequence[int]) -> Code:
        """Nothing is to be locked any more."""
        for home in homes:
            if self.scheme.owner(home) == self.number:
                self.unlock_mine([home])
            else:
                yield from self.tell(thread, work, home, MessageKind.REVERT)

    # pages of this node -----------------------------------------------------------------------------------------------
    def lock_mine(self, thread: Thread, work: Work, groups: Mapping[int, PageGroup], homes: Sequence[int]) -> Code:
        """Phase 1 here: no redo record, for this node's own one has it. Read what is to be read."""
        for turn, home in enumerate(homes):
            key = self.number, home
            if not (yield from self.lock(thread, key, groups[home].pages)):
                self.unlock_mine(homes[:turn])
                return False
            for page in groups[home].read:
                work.found[page] = yield from self.load_page(thread, page, self.room.value_bytes)
        return True

    def commit_mine(self, thread: Thread, work: Work, groups: Mapping[int, PageGroup], homes: Sequence[int]) -> Code:
        """Phase 2 here: from the dirty pages."""
        for home in homes:
            written = groups[home].written
            if written:
                sources = [self.dirty_page(work.written.index(page), page) for page in written]
                yield from self.apply(thread, home, written, sources)

    def unlock_mine(self, homes: Sequence[int]) -> None:
        """Phase 3 here."""
        for home in homes:
            self.unlock((self.number, home))

    # owners elsewhere -------------------------------------------------------------------------------------------------
    def wire(self, thread: Thread, owner: int) -> Code:
        """The way to an owner; made anew where it has broken, once the owner is there again."""
        wire = self.wires.get(owner)
        if wire is None or wire.thread is not thread:
            node: HotpotNode = self.scheme.roles["node"][owner]
            yield from node.listener.until_listening(thread)
            wire = self.wires[owner] = NodeWire(thread, self.node, self.number, node.inbox)
        return wire

    def broken(self, error: VerbsError) -> None:
        """Ways in the error state are made anew when they are needed. Raises the error where it was a refusal."""
        if not error.disconnected:
            raise error
        self.wires = {owner: wire for owner, wire in self.wires.items() if not wire.qp.error}

    def head(self, work: Work, home: int) -> dict[str, int]:
        """The head of a message that carries nothing."""
        return {"committing": self.number, "home": home, "id": work.id, "areas": 0, "written": 0}

    def ask(self, thread: Thread, work: Work, home: int, group: PageGroup, kind: MessageKind) -> Code:
        """Send a part to its owner, and take what it has read; returns False if it refuses."""
        values = []
        for page in group.written:
            at = self.dirty_page(work.written.index(page), page)
            values.append((yield from thread.load(at, self.room.value_bytes)))
        wire = yield from self.wire(thread, self.scheme.owner(home))
        head = self.head(work, home) | {"areas": len(group.written) + len(group.read), "written": len(group.written)}
        answer: Answer = yield from wire.call(kind, self.room.body(group, values), **head)
        if answer.status == State.REFUSED:
            return False
        size = self.room.value_bytes
        for turn, page in enumerate(group.read):
            if answer.rest:
                work.found[page] = answer.rest[turn * size : (turn + 1) * size]
            elif page not in work.found:
                work.known = False  # it was read and released, and the reply has been lost
        return True

    def tell(self, thread: Thread, work: Work, home: int, kind: MessageKind) -> Code:
        """Send an owner a message that carries nothing."""
        wire = yield from self.wire(thread, self.scheme.owner(home))
        yield from wire.call(kind, **self.head(work, home))

    # after a failure --------------------------------------------------------------------------------------------------
    @override
    def recover_own(self, thread: Thread) -> Code:
        """What the own record has is locked here, and executed again once the others are there.

        Where a page is locked for another transaction, nothing of this one had been committed.
        """
        own = OwnRecord.unpack((yield from thread.load(self.own, OwnRecord.size)))
        self.last = max(own.id, own.done)
        if own.id == own.done:
            return
        count = min(int(own.areas), self.room.areas)
        areas = yield from thread.load(self.own + OwnRecord.size, round_up(max(1, count * DirtyArea.size)))
        pages = [page for page in areas_of(areas, count) if page < len(self.sizes.objects)]
        self.unfinished = Work(own.id, tuple(dict.fromkeys(pages)), (), begun=True)
        if own.marked == own.id:
            return
        for home, group in self.groups_left(self.unfinished).items():
            if self.scheme.owner(home) == self.number and not any(page in self.locks for page in group.written):
                self.locks |= dict.fromkeys(group.written, (self.number, home))

    def begin_again(self, thread: Thread) -> Code:
        """Other owners forget what this node had begun and its own record does not have; that is executed again."""
        work = self.unfinished
        for owner in range(self.nodes):
            while owner != self.number and not self.scheme.is_lost(owner):
                try:
                    wire = yield from self.wire(thread, owner)
                    yield from wire.call(MessageKind.AGAIN, committing=self.number, home=0, areas=0, written=0,
                                         id=0 if work is None else work.id)  # fmt: skip
                    break
                except VerbsError as error:
                    self.broken(error)
        if work is not None:
            yield from self.execute_again(thread, work)
            self.unfinished = None

    def execute_again(self, thread: Thread, work: Work) -> Code:
        """All phases of the transaction in the own record; of one that all have committed the last one."""
        marked = yield from thread.load(self.own + OwnRecord.offset_of("marked"), 8)
        if marked == word_of(work.id):
            yield from self.release(thread, work)
        else:
            yield from self.run(thread, work)
        yield from self.delete_own(thread, work)

    def release(self, thread: Thread, work: Work) -> Code:
        """Phase 3 of all owners."""
        for home in work.groups(self.nodes):
            while self.scheme.chain(home) and self.scheme.owner(home) != self.number:
                try:
                    yield from self.tell(thread, work, home, MessageKind.END)
                    break
                except VerbsError as error:
                    self.broken(error)
