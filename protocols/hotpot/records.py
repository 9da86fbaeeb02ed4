"""What Hotpot's nodes send each other and keep in persistent memory: messages, records, a transaction's pages.

A record counts as soon as its id is there and is not the one that was released last; so eight bytes say whether there
is one. What it says of pages lies in lines of their own behind the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ...sim.bytespace import round_up
from ..layout import U32, U64, Block, Layout, Rest
from ..scheme import Sizes

MOST_AREAS = 32
"""So many pages a transaction may have (assumption; the published code has 1024, dsnvm-xact.h:18)."""


class PageLost(Exception):
    """No owner of a page is left."""


class MessageKind(IntEnum):
    """What a message to an owner asks for."""

    PREPARE = 0
    ALL = 1
    """All three phases."""
    COMMIT = 2
    END = 3
    REVERT = 4
    FETCH = 5
    """A page, for a node that has no copy."""
    AGAIN = 6
    """The committing node has begun again: whatever it holds is void, but for this transaction."""


class State(IntEnum):
    """How far an owner is with a transaction; also the status of a reply."""

    NEW = 0
    """The record is there, pages are not yet locked (phase 1 middle, in the published code)."""
    PREPARED = 1
    COMMITTING = 2
    COMMITTED = 3
    RELEASED = 4
    REFUSED = 5
    """A page is in another transaction."""


class NodeMessage(Layout):
    """The head of a message to an owner: a line. What is written follows, each value from a line on, then the areas."""

    number = U32()
    """Of the message, from 1: one that comes again is not executed again."""
    kind = U32()
    committing = U32()
    """The node that commits."""
    home = U32()
    """Whose pages these are: the node that owned them at first."""
    id = U64()
    """Of the transaction."""
    areas = U32()
    written = U32()
    """So many of the areas, the first ones, are written; the others are read."""
    unused = Block(32)


class Answer(Layout):
    """An owner's reply; behind it, what has been read."""

    number = U32()
    status = U32()
    rest = Rest()


class DirtyArea(Layout):
    """A page of a transaction; an object begins with its page."""

    page = U32()
    unused = U32()


class RedoRecord(Layout):
    """An owner's record of a transaction; behind it its written areas, in lines of their own."""

    id = U64()
    done = U64()
    """The transaction that was released last."""
    state = U64()
    buffer = U64()
    """The number of the receive buffer that has the data."""
    areas = U64()
    unused = Block(24)


class OwnRecord(Layout):
    """The committing node's record; behind it its written areas, in lines of their own. Their data are dirty pages."""

    id = U64()
    done = U64()
    marked = U64()
    """The transaction that all owners have committed."""
    areas = U64()
    unused = Block(32)


class TransactionCall(Layout):
    """A process's call: objects to be written, with their values, and objects to be read."""

    written = U32()
    read = U32()
    rest = Rest()
    """The areas, then the values."""


class Outcome(Layout):
    """The reply to it."""

    known = U32()
    """1; 0: nobody can say, a page has no owner any more, or one that has forgotten what it had read."""
    rest = Rest()


class CopyUpdate(Layout):
    """An owner's message to a holder of copies: areas, then what each of them is now."""

    count = U32()
    rest = Rest()


class PageAsk(Layout):
    """How far is this transaction of a node that is lost? Who has not begun to commit it forgets it."""

    committing = U32()
    unused = U32()
    id = U64()


def areas_of(data: bytes, count: int) -> list[int]:
    """The pages that areas name."""
    return [DirtyArea.unpack(data[at * DirtyArea.size :]).page for at in range(count)]


def packed_areas(pages: Iterable[int]) -> bytes:
    """Areas for these pages."""
    return b"".join([DirtyArea.pack(page=page, unused=0) for page in pages])


class PageGroup(NamedTuple):
    """The part of a transaction that is one owner's."""

    written: tuple[int, ...]
    read: tuple[int, ...]

    @property
    def pages(self) -> tuple[int, ...]:
        """All pages, each once."""
        return tuple(dict.fromkeys((*self.written, *self.read)))


class Room:
    """How large messages and records are."""

    def __init__(self, sizes: Sizes, page_bytes: int) -> None:
        self.page_bytes = page_bytes = round_up(page_bytes)
        self.value_bytes = sizes.value_bytes
        self.each = round_up(sizes.value_bytes)
        """A value in a message."""
        self.areas = min(len(sizes.objects), MOST_AREAS)
        self.tail = round_up(self.areas * DirtyArea.size)
        """Areas in a record."""
        self.record = RedoRecord.size + self.tail
        self.message = round_up(self.data_at(self.areas) + 2 * self.areas * DirtyArea.size)
        self.answer = Answer.size + max(self.areas * self.value_bytes, page_bytes)
        self.call = TransactionCall.size + 2 * self.areas * (DirtyArea.size + self.value_bytes)
        self.copy = CopyUpdate.size + self.areas * (DirtyArea.size + max(page_bytes, self.value_bytes))

    def data_at(self, turn: int) -> int:
        """Where a value lies in a message; behind the last one are the areas."""
        return NodeMessage.size + turn * self.each

    def body(self, group: PageGroup, values: Sequence[bytes]) -> bytes:
        """A message behind its head."""
        data = b"".join([value.ljust(self.each, b"\0") for value in values])
        return data + packed_areas((*group.written, *group.read))
