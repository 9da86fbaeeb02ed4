"""A bank of two machines: a transfer writes a new statement into two accounts, wherever they lie, or into none.

Source: an example; a redo record before the writes, as in Mohan et al., "ARIES" (TODS 17(1), 1992), section 1.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from ..models.cpu import Thread
from ..models.system import Node
from ..models.verbs import FLUSHES, REMOTE, QueuePair
from .guarantees import ALWAYS, Claims, Condition
from .layout import U32, Block, Layout, Rest
from .parts.onesided import Door, Poster, VerbsError
from .parts.rpc import Connection, Listener
from .scheme import OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]
READ, WRITE = 0, 1


class Step(Layout):
    """One step of a transaction: the account, by number, and its new statement."""

    kind = U32()
    account = U32()
    statement = Block(8)


class Transaction(Layout):
    """Some steps; the reply has what those that read have found."""

    steps = Rest()


class Redo(Layout):
    """The writes of the last transaction: what is not that of its checksum was never begun, or is complete."""

    crc = U32()
    count = U32()
    steps = Block(48)


class Link(NamedTuple):
    """The office's way to the branch's memory."""

    poster: Poster
    qp: QueuePair


class Accounts(Role, memory=("dram", "pm")):
    """A machine with accounts, a line each: those with even numbers at the office, the others at the branch."""

    def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.size = 64 * (1 + len(self.sizes.objects) // 2)
        self.accounts = self.pm.allocate(self.size, "accounts", item_bytes=64)

    def at(self, account: int) -> int:
        return self.accounts + 64 * (account // 2)


class Bank(Scheme, name="bank"):
    """One call to the office, which does one transaction after the other; the branch runs no code."""

    title = "transfers between two machines, with a redo record at one of them"
    paper = "an example"
    section = "docs/adding.md"
    claims: ClassVar[Claims] = {Condition.DURABLE: ALWAYS, Condition.NO_LOST_ACK: ALWAYS}
    faults: ClassVar = {"office": ("power",), "branch": (), "all": ("power",)}
    model = "txn"
    operations = ("txn",)
    updates = frozenset({"txn"})

    class Branch(Accounts, passive=True):
        def begin(self) -> None:
            self.door = Door(self.node)
            self.key = self.door.register(self.accounts, self.size, REMOTE | FLUSHES).key

    class Office(Accounts):
        scheme: Bank

        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.redo = self.pm.allocate(64, "redo record")

        def begin(self) -> None:
            self.branch: Bank.Branch = self.scheme.roles["branch"][0]
            self.listener = Listener(self.node, {Transaction: self.on_transaction})

        def start(self) -> None:
            thread = self.node.thread(0, self.node.name)
            self.link = self.connected(thread)
            self.node.process(self.node.name).start(self.listener.serve(thread))
            self.listener.listen()

        def connected(self, thread: Thread) -> Link:
            poster = Poster(thread, self.node, 64)
            return Link(poster, poster.connect(self.branch.door))

        def on_transaction(self, thread: Thread, request: Transaction) -> Code:
            steps = unpacked(request.steps)
            found = []
            for step in steps:
                found.append((yield from self.read(thread, step.account)) if step.kind == READ else bytes(8))
            writes = [step for step in steps if step.kind == WRITE]
            if writes:
                yield from self.commit(thread, writes)
            return b"".join(found)

        def read(self, thread: Thread, account: int) -> Code:
            if account % 2 == 0:
                return (yield from thread.load(self.at(account), 8))
            poster, qp = self.link
            return (yield from poster.result((yield from poster.read(qp, self.branch.at(account), self.branch.key, 8))))

        def commit(self, thread: Thread, writes: Sequence[Step]) -> Code:
            """Once the record is durable the transaction will be, whatever fails then."""
            yield from self.record(thread, writes)
            yield from self.write(thread, self.link, writes)

        def record(self, thread: Thread, writes: Sequence[Step]) -> Code:
            steps = b"".join(map(packed, writes)).ljust(48, b"\0")
            body = len(writes).to_bytes(4, "little") + steps
            yield from thread.store(self.redo, Redo.pack(crc=zlib.crc32(body), count=len(writes), steps=steps))
            yield from thread.flush(self.redo, Redo.size)

        def write(self, thread: Thread, link: Link, writes: Sequence[Step]) -> Code:
            for step in writes:
                if step.account % 2 == 0:
                    yield from thread.store(self.at(step.account), step.statement)
                    yield from thread.flush(self.at(step.account), 8)
                else:
                    poster, where, key = link.poster, self.branch.at(step.account), self.branch.key
                    written = yield from poster.write(link.qp, where, key, step.statement)
                    yield from poster.all([written, (yield from poster.flush(link.qp, where, key, 8))])

        # after a failure of the office, or of both -------------------------------------------------------------
        def recover(self, thread: Thread) -> Code:
            redo = Redo.unpack((yield from thread.load(self.redo, Redo.size)))
            if redo.count and (yield from thread.crc32_matches(self.redo + 4, Redo.size - 4, redo.crc)):
                yield from self.write(thread, self.connected(thread), unpacked(redo.steps)[: redo.count])

    class Client(Role, invokes=True):
        def connect(self, thread: Thread) -> Connection:
            listener: Listener = self.scheme.roles["office"][0].listener
            return listener.accept(thread, self.node, 64)

        def perform(self, session: Connection, request: Request) -> Code:
            names, steps = self.sizes.objects, b""
            for kind, name, value, *_ in request.steps:
                statement = bytes(8) if value is None else value
                steps += Step.pack(kind=READ if kind == "r" else WRITE, account=names.index(name), statement=statement)
            try:
                found = yield from session.call(Transaction, steps=steps)
            except VerbsError as error:
                raise OutcomeUnknown(str(error)) from error
            return tuple(found[8 * turn : 8 * turn + 8] for turn in range(len(request.steps)))

    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        for number, statement in enumerate(objects.values()):
            machine = self.roles["branch" if number % 2 else "office"][0]
            machine.pm.space.poke(machine.at(number) - machine.pm.base, statement)

    def probe(self, object: Hashable) -> Request:
        return Request.reading(object)


def packed(step: Step) -> bytes:
    """A step's bytes."""
    return Step.pack(kind=step.kind, account=step.account, statement=step.statement)


def unpacked(data: bytes) -> list[Step]:
    """Steps, one behind the other."""
    return [Step.unpack(data[at : at + Step.size]) for at in range(0, len(data), Step.size)]


class Hasty(Bank, name="hasty-bank"):
    """Broken: nothing says what a transfer that was cut short had meant to write."""

    title = "the same without a redo record"

    class Office(Bank.Office):
        def record(self, thread: Thread, writes: Sequence[Step]) -> Code:
            yield from thread.compute()


class Late(Bank, name="late-bank"):
    """Broken: the record may be lost when the first account has been written."""

    title = "the same that flushes the record after the accounts"

    class Office(Bank.Office):
        def commit(self, thread: Thread, writes: Sequence[Step]) -> Code:
            yield from self.write(thread, self.link, writes)
            yield from self.record(thread, writes)
