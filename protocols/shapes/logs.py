"""An entry and the word that commits it: handed to the primitive together, or one after the other."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from typing_extensions import override

from ...sim.bytespace import round_up
from ..layout import WORD
from .shape import Shape, ShapeClient, ShapeSession

Code = Generator[Any, Any, Any]


class Log(Shape, name="log"):
    """An entry and the word that says how many there are, in one message sequence with one run of the steps."""

    shape, title = "log", "log entry and commit word together"

    @override
    def room(self) -> int:
        self.entry = round_up(self.sizes.value_bytes)
        self.tail = len(self.numbers)
        """The entry that comes next, on which clients agree outside of the protocol."""
        return 64 * len(self.numbers) + self.entry * (len(self.numbers) + self.sizes.updates + 1)

    @override
    def messages(self) -> tuple[int, ...]:
        return self.sizes.value_bytes, WORD

    def word(self, number: int) -> int:
        """Where an object's commit word lies."""
        return self.base + 64 * number

    def entry_at(self, index: int) -> int:
        """Where an entry lies."""
        return self.base + 64 * len(self.numbers) + self.entry * index

    @override
    def image(self, number: int, value: bytes) -> Iterable[tuple[int, bytes]]:
        yield self.entry_at(number), value
        yield self.word(number), (number + 1).to_bytes(WORD, "little")

    def append(self, number: int, value: bytes) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
        """The two updates of an object's next version."""
        index, self.tail = self.tail, self.tail + 1
        return (self.entry_at(index), value), (self.word(number), (index + 1).to_bytes(WORD, "little"))

    class Client(ShapeClient):
        scheme: Log

        @override
        def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
            entry, commit = self.scheme.append(number, value)
            yield from session.requesters[0].persist([entry, commit])

        @override
        def get(self, session: ShapeSession, number: int) -> Code:
            scheme = self.scheme
            word = yield from self.read(session, scheme.word(number), WORD)
            entry = scheme.entry_at(int.from_bytes(word, "little") - 1)
            if not 0 <= entry - scheme.base <= scheme.length - scheme.entry:
                return None
            return (yield from self.read(session, entry, self.sizes.value_bytes))


class PairShape(Log, name="pair"):
    """An entry first, and when the primitive says that it is durable, the word that points at it."""

    shape, title = "pair", "two objects, the second points at the first"

    class Client(Log.Client):
        @override
        def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
            entry, commit = self.scheme.append(number, value)
            yield from session.requesters[0].persist([entry])
            yield from session.requesters[0].persist([commit])
