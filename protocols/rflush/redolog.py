"""The redo log of the durable calls: a ring for each connection, in persistent memory.

Source: Duan et al., SC'21, sections 4.2 and 4.3, figures 5 and 6. An entry is data and, behind them, an operator of 8
bytes that a power failure cannot tear; the data are durable before the operator is. An entry whose operator is there
stands for a call that is durable and has not been executed to its end. A call may have several requests (a batch): then
the data are those of all, and one operator stands for them. The paper gives neither sizes nor the operator's fields.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from ...models.cpu import Thread
from ...models.system import Node
from ..layout import U32, Layout
from .batches import NUMBER_BYTES, pack_writes, room_for_writes, unpack_numbers

Code = Generator[Any, Any, Any]

LINE = 64
WORD = 8
BATCH = 1 << 31
"""In an operator's number: it is no object's, but says how many requests the call has."""


class Operator(Layout):
    """What a call is, in one word: written behind the entry's data, zero where the slot is free."""

    number = U32()
    """Of the object that is written, from 1; of a batch how many requests it has, and the top bit."""
    sequence = U32()
    """Of the call among those of its connection, from 1."""


NONE = bytes(WORD)
"""The operator of a free slot."""


class LoggedRequest(NamedTuple):
    """One request of a call: the object that it writes, by its number from 0, and where its data lie."""

    object: int
    source: int


class LogRing:
    """The ring of one connection: a line that says whose turn it is, then ``slots`` entries in turn.

    The first word of that line, the header, is the ring's turn: a ring that is given to a client later than another one
    has a higher number there, once one of the two has had a client before. The paper says that a header has
    "connection information", and no more.

    Its place and its shape follow from sizes alone, so that whoever starts after a failure finds it. An entry has room
    for a call of ``batch`` requests: their values, where there are several the objects' numbers, and the operator.
    """

    def __init__(self, node: Node, slots: int, value_bytes: int, batch: int = 1) -> None:
        self.slots = slots
        self.value_bytes = value_bytes
        self.entry_bytes = -(-(room_for_writes(batch, value_bytes) + WORD) // LINE) * LINE
        self.length = LINE + slots * self.entry_bytes
        self.address = node.memory["pm"].allocate(self.length, "log", item_bytes=LINE)

    def data(self, sequence: int) -> int:
        """Where the data of the call of this number lie."""
        return self.address + LINE + sequence % self.slots * self.entry_bytes

    def operator(self, sequence: int) -> int:
        """Where its operator lies: the last word of its entry."""
        return self.data(sequence) + self.entry_bytes - WORD

    def turn(self, thread: Thread) -> Code:
        """The number in the header, 0 where the ring has had one client at most."""
        return int.from_bytes((yield from thread.load(self.address, WORD)), "little")

    def set_turn(self, thread: Thread, turn: int) -> Code:
        """Have that number in the header, durably."""
        yield from thread.store(self.address, turn.to_bytes(WORD, "little"))
        yield from thread.flush(self.address, WORD)

    @staticmethod
    def call(sequence: int, requests: Sequence[tuple[int, bytes]]) -> tuple[bytes, bytes]:
        """The data and the operator of a call: each request is an object's number, from 0, and the value for it."""
        number = requests[0][0] + 1 if len(requests) == 1 else BATCH | len(requests)
        return pack_writes(requests), Operator.pack(number=number, sequence=sequence)

    def requests(self, thread: Thread, operator: Operator) -> Code:
        """The requests of the call that an operator stands for."""
        start = self.data(operator.sequence)
        if operator.number < BATCH:
            return [LoggedRequest(operator.number - 1, start)]
        count = operator.number - BATCH
        numbers = yield from thread.load(start + count * self.value_bytes, count * NUMBER_BYTES)
        places = (start + turn * self.value_bytes for turn in range(count))
        return list(map(LoggedRequest, unpack_numbers(numbers), places))

    def scan(self, thread: Thread) -> Code:
        """The operators that are there, in the order of the calls."""
        found = []
        for slot in range(self.slots):
            operator = Operator.unpack((yield from thread.load(self.operator(slot), WORD)))
            if operator.number:
                found.append(operator)
        return sorted(found, key=lambda operator: operator.sequence)

    def empty(self, node: Node) -> bool:
        """Whether no slot has an operator, looked at from outside."""
        return all(node.shows(self.operator(slot), WORD) == NONE for slot in range(self.slots))

    def clear(self, thread: Thread, sequence: int, durably: bool = True) -> Code:
        """Remove an entry: once that is durable, its slot may be used again."""
        yield from thread.store(self.operator(sequence), NONE)
        if durably:
            yield from thread.flush(self.operator(sequence), WORD)
