"""Registers in place: a word, the same on two queue pairs, and values of many lines whose words carry a version."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable
from typing import Any

from typing_extensions import override

from ...models.cpu import Thread
from ...sim.bytespace import round_up
from .shape import Shape, ShapeClient, ShapeServer, ShapeSession, tagged, untagged

Code = Generator[Any, Any, Any]


class WordShape(Shape, name="word"):
    """A value in place: with 8 B nothing can be torn."""

    shape, title = "word", "8 B in place"

    @override
    def room(self) -> int:
        self.each = round_up(self.sizes.value_bytes)
        return self.each * len(self.numbers)

    def place(self, number: int) -> int:
        """Where an object lies."""
        return self.base + number * self.each

    @override
    def image(self, number: int, value: bytes) -> Iterable[tuple[int, bytes]]:
        yield self.place(number), value

    class Client(ShapeClient):
        scheme: WordShape

        @override
        def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
            yield from session.requesters[0].persist([(self.scheme.place(number), value)])

        @override
        def get(self, session: ShapeSession, number: int) -> Code:
            return (yield from self.read(session, self.scheme.place(number), self.sizes.value_bytes))


class OtherQp(WordShape, name="other-qp"):
    """Written on one queue pair, made durable on another: what is covered then?"""

    shape, title, queue_pairs = "other-qp", "8 B on one queue pair, the primitive on another", 2

    class Client(WordShape.Client):
        @override
        def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
            writer, flusher = session.requesters
            places = yield from writer.write([(self.scheme.place(number), value)])
            yield from flusher.flush(places)


class BatchShape(WordShape, name="batch"):
    """A value in as many pieces as one run of the primitive's steps covers, each an update of its own.

    They are handed over one by one and awaited together. All of them together are no atomic update.
    """

    shape, title = "batch", "as many updates as the primitive takes together"

    @override
    def room(self) -> int:
        self.piece = -(-self.sizes.value_bytes // self.primitive.batching)
        self.each = round_up(self.piece) * self.primitive.batching
        return self.each * len(self.numbers)

    @override
    def messages(self) -> tuple[int, ...]:
        return tuple(sorted({len(data) for _, data in self.image(0, bytes(self.sizes.value_bytes))}, reverse=True))

    @override
    def image(self, number: int, value: bytes) -> Iterable[tuple[int, bytes]]:
        step = self.each // self.primitive.batching
        for turn, at in enumerate(range(0, len(value), self.piece)):
            yield self.place(number) + turn * step, value[at : at + self.piece]

    class Client(WordShape.Client):
        scheme: BatchShape

        @override
        def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
            requester, tickets = session.requesters[0], []
            for update in self.scheme.image(number, value):
                tickets.append((yield from requester.post([update])))
            for ticket in tickets:
                yield from requester.wait(ticket)

        @override
        def get(self, session: ShapeSession, number: int) -> Code:
            value = b""
            for place, data in self.scheme.image(number, bytes(self.sizes.value_bytes)):
                value += yield from self.read(session, place, len(data))
            return value


class LineShape(Shape, name="line"):
    """A value in the older of two places, its words marked with a version: what is torn is ignored."""

    shape, title = "line", "64 B, one line"

    @override
    def room(self) -> int:
        self.size = len(tagged(bytes(self.sizes.value_bytes), 0))
        self.each = round_up(self.size)
        self.versions = [1] * len(self.numbers)
        """By object: the version that was written last, on which clients agree outside of the protocol."""
        return 2 * self.each * len(self.numbers)

    @override
    def messages(self) -> tuple[int, ...]:
        return (self.size,)

    def place(self, number: int, version: int) -> int:
        """Where a version of an object lies."""
        return self.base + (2 * number + version % 2) * self.each

    @override
    def image(self, number: int, value: bytes) -> Iterable[tuple[int, bytes]]:
        yield self.place(number, 1), tagged(value, 1)

    class Client(ShapeClient):
        scheme: LineShape

        @override
        def put(self, session: ShapeSession, number: int, value: bytes) -> Code:
            version = self.scheme.versions[number] = self.scheme.versions[number] + 1
            yield from session.requesters[0].persist([(self.scheme.place(number, version), tagged(value, version))])

        @override
        def get(self, session: ShapeSession, number: int) -> Code:
            """The newest version that is whole, as recovery found it or as it was written since."""
            place = self.scheme.place(number, self.scheme.versions[number])
            data = yield from self.read(session, place, self.scheme.size)
            whole = untagged(data, self.sizes.value_bytes)
            return whole[1] if whole is not None else data

    class Server(ShapeServer):
        scheme: LineShape

        @override
        def recovery_units(self) -> Iterable[Hashable]:
            return (*super().recovery_units(), *range(len(self.scheme.numbers)))

        @override
        def units_of(self, object: Hashable) -> Iterable[Hashable]:
            return (*super().recovery_units(), self.scheme.numbers[object])

        @override
        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            if not isinstance(unit, int):
                yield from super().recover_unit(thread, unit)
                return
            firsts = []
            for parity in (0, 1):
                line = yield from thread.load(self.scheme.place(unit, parity), min(64, self.scheme.size))
                firsts.append((untagged(line, len(line)) or (0, b""))[0])
            for parity in sorted((0, 1), key=lambda parity: -firsts[parity]):
                if firsts[parity] % 2 == parity and (yield from self.is_whole(thread, unit, firsts[parity])):
                    self.scheme.versions[unit] = firsts[parity]
                    return

        def is_whole(self, thread: Thread, number: int, version: int) -> Code:
            """Whether all lines of a version are of that version; looks no further than the first that is not."""
            for at in range(64, self.scheme.size, 64):
                place = self.scheme.place(number, version) + at
                line = yield from thread.load(place, min(64, self.scheme.size - at))
                if (untagged(line, len(line)) or (0, b""))[0] != version:
                    return False
            return True


class PageShape(LineShape, name="page"):
    """The same over many lines."""

    shape, title = "page", "4 KiB, 64 lines"
