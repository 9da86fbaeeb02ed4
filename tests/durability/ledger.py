"""Stores of rows for tests of transactions: one server, a redo record, objects that hold a value and a number."""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from rpsim.models.cpu import Thread
from rpsim.models.system import Node
from rpsim.protocols.guarantees import ALWAYS, Claims, Condition
from rpsim.protocols.layout import U32, U64, Block, Layout, Rest
from rpsim.protocols.objects import OPENING
from rpsim.protocols.parts.rpc import Connection, Listener, VerbsError
from rpsim.protocols.scheme import OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]
KINDS = ("r", "w", "out", "in", "gone")
ZERO = 1 << 32
"""What is added to a number that may be negative."""


class Step(Layout):
    """A step of a transaction; a row after it."""

    kind = U32()
    row = U32()
    number = U64()
    value = Block(8)


class Entry(Layout):
    """A row in memory, a line each: whether it is there, its number, its value."""

    there = U64()
    number = U64()
    value = Block(8)


class Redo(Layout):
    """The writes of the last transaction, complete where the checksum is theirs."""

    crc = U32()
    count = U32()
    steps = Block(6 * Step.size)


class Transaction(Layout):
    """All steps of a transaction."""

    steps = Rest()


class Ledger(Scheme, name="ledger"):
    """A transaction is one call; its writes are in the redo record before any of them is made."""

    title = "a ledger for tests"
    paper = "a test"
    section = "none"
    claims: ClassVar[Claims] = {Condition.DURABLE: ALWAYS}
    model = "accounts"
    operations = ("txn",)
    updates = frozenset({"txn"})

    class Server(Role, memory=("dram", "pm")):
        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.pm = node.memory["pm"]
            self.rows = self.pm.allocate(64 * len(self.sizes.objects), "rows", item_bytes=64)
            self.redo = self.pm.allocate(-(-Redo.size // 64) * 64, "redo record")

        def begin(self) -> None:
            self.listener = Listener(self.node, {Transaction: self.on_transaction}, message_bytes=512)

        def start(self) -> None:
            self.node.process(self.node.name).start(self.listener.serve(self.node.thread(0, self.node.name)))
            self.listener.listen()

        def on_transaction(self, thread: Thread, request: Transaction) -> Code:
            found, writes, taken = [], [], 0
            for step in steps_in(request.steps):
                row = Entry.unpack((yield from thread.load(self.rows + 64 * step.row, Entry.size)))
                if step.kind == KINDS.index("r"):
                    found.append(Entry.pack(there=row.there, number=row.number, value=row.value))
                    continue
                held = row.number if row.there else ZERO
                number = {"w": held + step.number - ZERO, "out": ZERO, "in": held + taken}.get(KINDS[step.kind], 0)
                taken += held - ZERO if KINDS[step.kind] == "out" else 0
                writes.append(Step.pack(kind=step.kind, row=step.row, number=number, value=step.value))
                found.append(bytes(Entry.size))
            if writes:
                yield from self.commit(thread, writes)
            return b"".join(found)

        def commit(self, thread: Thread, writes: Sequence[bytes]) -> Code:
            steps = b"".join(writes).ljust(6 * Step.size, b"\0")
            body = len(writes).to_bytes(4, "little") + steps
            yield from thread.store(self.redo, Redo.pack(crc=zlib.crc32(body), count=len(writes), steps=steps))
            yield from thread.flush(self.redo, Redo.size)
            yield from self.write(thread, writes)

        def write(self, thread: Thread, writes: Sequence[bytes]) -> Code:
            for step in map(Step.unpack, writes):
                there = int(step.kind != KINDS.index("gone"))
                row = Entry.pack(there=there, number=step.number, value=step.value)
                yield from thread.store(self.rows + 64 * step.row, row)
                yield from thread.flush(self.rows + 64 * step.row, len(row))

        def recover(self, thread: Thread) -> Code:
            redo = Redo.unpack((yield from thread.load(self.redo, Redo.size)))
            if redo.count and (yield from thread.crc32_matches(self.redo + 4, Redo.size - 4, redo.crc)):
                pieces = [redo.steps[at : at + Step.size] for at in range(0, redo.count * Step.size, Step.size)]
                yield from self.write(thread, pieces)

    class Client(Role, invokes=True):
        def connect(self, thread: Thread) -> Connection:
            listener: Listener = self.scheme.roles["server"][0].listener
            return listener.accept(thread, self.node, 1024)

        def perform(self, session: Connection, request: Request) -> Code:
            names = self.sizes.objects
            steps = b"".join(
                Step.pack(
                    kind=KINDS.index("gone" if f == "w" and value is None else f),
                    row=names.index(name),
                    number=ZERO + (number or 0),
                    value=value or bytes(8),
                )
                for f, name, value, _, number in request.steps
            )
            try:
                found = yield from session.call(Transaction, steps=steps)
            except VerbsError as error:
                raise OutcomeUnknown(str(error)) from error
            rows = [Entry.unpack(found[at : at + Entry.size]) for at in range(0, len(found), Entry.size)]
            return tuple(self.found(row) if row.there else None for row in rows)

        def found(self, row: Entry) -> Any:
            return row.value, row.number - ZERO

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        server = self.roles["server"][0]
        for name, value in objects.items():
            row = Entry.pack(there=1, number=ZERO + OPENING, value=value)
            server.pm.space.poke(server.rows + 64 * self.sizes.objects.index(name) - server.pm.base, row)

    def probe(self, object: Hashable) -> Request:
        return Request.reading(object)


def steps_in(data: bytes) -> list[Step]:
    """Steps, one behind the other."""
    return [Step.unpack(data[at : at + Step.size]) for at in range(0, len(data), Step.size)]


class Plain(Ledger, name="plain-ledger"):
    """The same whose rows are values alone."""

    model = "txn"

    class Client(Ledger.Client):
        def found(self, row: Entry) -> Any:
            return row.value


class Hasty(Ledger, name="hasty-ledger"):
    """Broken: no redo record, so that a transaction may be there by half."""

    class Server(Ledger.Server):
        def commit(self, thread: Thread, writes: Sequence[bytes]) -> Code:
            yield from self.write(thread, writes)


class Forger(Ledger, name="forger"):
    """Broken: recovery adds what the record says to what is there, so that money appears."""

    class Server(Ledger.Server):
        def recover(self, thread: Thread) -> Code:
            redo = Redo.unpack((yield from thread.load(self.redo, Redo.size)))
            yield from super().recover(thread)
            if redo.count:
                step = Step.unpack(redo.steps)
                row = Entry.pack(there=1, number=step.number + 1, value=step.value)
                yield from thread.store(self.rows + 64 * step.row, row)
                yield from thread.flush(self.rows + 64 * step.row, len(row))
