"""The redo log of the durable calls: a ring for each connection, in persistent memory.

Source: Duan et al., SC'21, section 4.2 and figure 5. An entry is data and, behind them, an operator of 8 bytes that a
power failure cannot tear; the data are durable before the operator is. An entry whose operator is there stands for a
call that is durable and has not been executed to its end. The paper gives neither sizes nor the operator's fields.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...models.cpu import Thread
from ...models.system import Node
from ..layout import U32, Layout

Code = Generator[Any, Any, Any]

LINE = 64
WORD = 8


class Operator(Layout):
    """What a call is, in one word: written behind the entry's data, zero where the slot is free."""

    number = U32()
    """Of the object that is written, from 1."""
    sequence = U32()
    """Of the call among those of its connection, from 1."""


NONE = bytes(WORD)
"""The operator of a free slot."""


class LogRing:
    """The ring of one connection: a line that is there for what identifies it, then ``slots`` entries in turn.

    Its place and its shape follow from sizes alone, so that whoever starts after a failure finds it.
    """

    def __init__(self, node: Node, slots: int, value_bytes: int) -> None:
        self.slots = slots
        self.value_bytes = value_bytes
        self.entry_bytes = -(-(value_bytes + WORD) // LINE) * LINE
        self.length = LINE + slots * self.entry_bytes
        self.address = node.memory["pm"].allocate(self.length, "log", item_bytes=LINE)

    def data(self, sequence: int) -> int:
        """Where the data of the call of this number lie."""
        return self.address + LINE + sequence % self.slots * self.entry_bytes

    def operator(self, sequence: int) -> int:
        """Where its operator lies: the last word of its entry."""
        return self.data(sequence) + self.entry_bytes - WORD

    def scan(self, thread: Thread) -> Code:
        """The operators that are there, in the order of the calls."""
        found = []
        for slot in range(self.slots):
            operator = Operator.unpack((yield from thread.load(self.operator(slot), WORD)))
            if operator.number:
                found.append(operator)
        return sorted(found, key=lambda operator: operator.sequence)

    def clear(self, thread: Thread, sequence: int) -> Code:
        """Remove an entry, durably: afterwards its slot may be used again."""
        yield from thread.store(self.operator(sequence), NONE)
        yield from thread.flush(self.operator(sequence), WORD)
