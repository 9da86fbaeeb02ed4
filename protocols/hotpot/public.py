"""Hotpot's public code: what it does and does not do when machines fail, unmended.

Source: WukLab/Hotpot at 20f8d315, folder hotpot. Against the paper's design:

- The redo data that a record points at are in DRAM, in receive buffers of a slab (net.c:454, 2688), under the comment
  that RDMA already writes to NVM (xact.c:1016-1018).
- Nothing replays: TO_REPLAY is set and printed (dsnvm-xact.h:23-55). recovery.c makes a copy the owner, no more.
- The node that commits flushes neither its own record nor its dirty pages (xact.c:2864-3366, 3449-3742). A page that it
  owns itself is not copied: the dirty page takes its place by a pointer, which alone is flushed (xact.c:2512-2672).
- A holder of copies gets the page as it was before, since the merge of what is new is compiled out (xact.c:413), and
  gets it at each commit, since who has fetched nothing is in no list of those to update (xact.c:561-760).
- With one remote owner, some changes of state are not flushed (xact.c:1566, 1652), and an owner with a smaller number
  commits before the node locks pages of its own (xact.c:3168-3180). If one of these is in another transaction, all is
  done again.
- A page that is read is not locked; only a fetch waits for who commits it (on.c:454).

What else is open is read as in Hotpot, but for this. A call that breaks ends its transaction; the node reverts what it
can reach, which undoes nothing that is committed. Locks of a node that failed stay. The copies before time zero hold
zeros, which is what was before the first commit of the loaded pages. Applications do not see copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..layout import word_of
from ..naming import Option
from ..parts.onesided import VerbsError
from .commit import TURNS, HotpotNode, Work
from .node import Key
from .pages import SharedPages
from .records import MessageKind, OwnRecord, PageGroup, PageLost, RedoRecord, State, packed_areas

Code = Generator[Any, Any, Any]


class PublicNode(HotpotNode):
    """A machine that runs the public code."""

    def __init__(self, scheme: SharedPages, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        rows, each = self.scheme.rows, self.room.page_bytes
        self.frames = self.pm.allocate(rows * each, "other pages", item_bytes=each, align=4096)
        """A second place for each page of its own."""
        self.pointers = self.pm.allocate(rows * 8, "pointers", item_bytes=8)
        """Of each page of its own: in which of the two it is."""

    @override
    def begin(self) -> None:
        super().begin()
        self.promoted = set[int]()
        """The pages that are in their second place."""

    # pages of its own -------------------------------------------------------------------------------------------------
    def frame(self, page: int, second: bool) -> int:
        """One of a page's two places."""
        return self.frames + page // self.nodes * self.room.page_bytes if second else super().place(page)

    @override
    def place(self, page: int) -> int:
        return self.frame(page, page in self.promoted)

    @override
    def has(self, page: int) -> bool:
        """Copies made for replication are not what applications see."""
        return self.scheme.owner(page % self.nodes) == self.number

    @override
    def dirty_page(self, turn: int, page: int) -> int:
        if page % self.nodes != self.number:
            return super().dirty_page(turn, page)
        return self.frame(page, page not in self.promoted)

    @override
    def commit_mine(self, thread: Thread, work: Work, groups: Mapping[int, PageGroup], homes: Sequence[int]) -> Code:
        """The dirty page becomes the page: its pointer is flushed."""
        for home in homes:
            if home != self.number or not groups[home].written:  # another's pages that it has taken over
                yield from super().commit_mine(thread, work, groups, [home])
                continue
            yield from self.send_copies(thread, home, groups[home].written, ())
            for page in groups[home].written:
                self.promoted ^= {page}
                yield from self.put(thread, self.pointers + page // self.nodes * 8, word_of(page in self.promoted))

    # what is not flushed, and copies of the page before ---------------------------------------------------------------
    @override
    def write_own(self, thread: Thread, work: Work) -> Code:
        at = OwnRecord.offset_of("areas")
        yield from thread.store(self.own + at, word_of(len(work.written)))
        yield from thread.store(self.own + OwnRecord.size, packed_areas(work.written))
        yield from thread.store(self.own, word_of(work.id))

    @override
    def mark_own(self, thread: Thread, work: Work) -> Code:
        yield from ()

    @override
    def delete_own(self, thread: Thread, work: Work) -> Code:
        yield from thread.store(self.own + OwnRecord.offset_of("done"), word_of(work.id))

    @override
    def note(self, thread: Thread, key: Key, state: State) -> Code:
        held = self.held[key]
        if not held.single or state not in (State.PREPARED, State.COMMITTED):
            yield from super().note(thread, key, state)
            return
        held.state = state
        if held.group.written:
            yield from thread.store(self.record(key) + RedoRecord.offset_of("state"), word_of(state))

    @override
    def new_in_copies(self, thread: Thread, pages: Sequence[int], sources: Sequence[int]) -> Code:
        data = packed_areas(pages)
        for page in pages:
            data += yield from self.load_page(thread, page, self.room.page_bytes)
        return data

    # refusals and failures --------------------------------------------------------------------------------------------
    @override
    def known(self, thread: Thread, key: Key, id: int) -> Code:
        """A record of before is not looked for; the locks that it has left count."""
        yield from ()
        return State.REFUSED if key in self.held else None

    @override
    def blocked(self, thread: Thread, page: int, key: Key | None = None) -> Code:
        """Whether a page is in another transaction, whoever that is."""
        yield from ()
        return self.locks.get(page, key) != key

    @override
    def in_one(
        self, thread: Thread, work: Work, groups: Mapping[int, PageGroup], mine: Sequence[int], remote: Sequence[int]
    ) -> Code:
        """An owner with a smaller number commits first."""
        front = [home for home in remote if self.scheme.owner(home) < self.number]
        for home in front:
            if not (yield from self.ask(thread, work, home, groups[home], MessageKind.ALL)):
                return False
        behind = [home for home in remote if home not in front]
        return (yield from super().in_one(thread, work, groups, mine, behind))

    @override
    def run(self, thread: Thread, work: Work) -> Code:
        """What breaks is reverted as far as it can be."""
        try:
            for pause in self.pauses():
                if (yield from self.attempt(thread, work)):
                    return
                thread.count("retries")
                yield from thread.sleep_until(thread.deadline(pause))
        except VerbsError as error:
            self.broken(error)
            yield from self.revert(thread, work, self.reachable(work))
            raise PageLost(str(error)) from error
        except PageLost:
            yield from self.revert(thread, work, self.reachable(work))
            raise
        raise PageLost("a page stays locked")

    @override
    def pauses(self) -> Iterator[str]:
        """The application gives up at last (assumption: after so many turns)."""
        return itertools.islice(super().pauses(), TURNS)

    def reachable(self, work: Work) -> list[int]:
        """The parts of a transaction whose owners still have a way from here."""
        owners = {home: self.scheme.owner(home) for home in self.groups_left(work)}
        return [home for home, owner in owners.items() if owner == self.number or owner in self.wires]

    # after a failure --------------------------------------------------------------------------------------------------
    @override
    def recover(self, thread: Thread) -> Code:
        """Where the pages are: no record is read."""
        for row in range(self.scheme.rows):
            if (yield from thread.load(self.pointers + row * 8, 8)) != word_of(0):
                self.promoted.add(row * self.nodes + self.number)


class HotpotPublic(SharedPages, name="hotpot-public"):
    """The three phases of Hotpot with redo data in DRAM, copies of old pages, and no replay."""

    title = "Hotpot's public code: redo data in DRAM, nothing replays, copies get the page before"
    section = "public code WukLab/Hotpot at 20f8d315"
    options: ClassVar[dict[str, Option]] = {
        "reads": Option("copies", choices=("locked", "copies"), source="public code: on.c:454, xact.c:842-1085",
                        text="whether pages that are read are locked as well"),
    }  # fmt: skip
    redo_in = "dram"
    Node = PublicNode

    @override
    def loaded(self, value: bytes, owned: bool) -> bytes:
        return value if owned else bytes(len(value))
