"""Operations in batches: an operation returns when it is in the operation log, its effects come with those of others.

Source: rNVM, sections 3.3 and 5.3. An operation is a record in the operation log; the front-end performs a batch of
them together, sorted and merged as the structure's vector operation does, and sends one transaction. That also sets
the operation log's LPN behind the last of them: so an operation is done exactly once, whatever fails between.

What the paper leaves open is read so. An operation whose result somebody waits for is performed at once, with those
before it that its result depends on, unless the ones that wait already say it; its writes wait for the batch's
transaction. The operation's record
is posted and not awaited unless the option ``oplog`` says otherwise: the published speed is less than a round trip.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

from typing_extensions import override

from ...sim.errors import InputError, Mistake
from ..objects import REMOVES, TAKES_OUT
from ..scheme import OperationFailed, OutcomeUnknown, Request
from ..structures.space import NoRoom
from ..structures.structure import Operation
from .area import Area, word_of
from .frontend import FrontEnd, FrontEndSession, OpenStructure
from .link import Link
from .records import LINE, Logged, Position, lines_of, operation_bytes, operation_of, record
from .spaces import LoggedSpace, Outstanding, RemoteSpace

Code = Generator[Any, Any, Any]


class BatchSpace(LoggedSpace):
    """A logged space with an operation log before it."""

    operations_tail: Position
    """Where the next operation's record goes."""

    def __init__(self, link: Link, area: Area, *, by_field: bool, owned: bool) -> None:
        super().__init__(link, area, by_field=by_field, owned=owned)
        self.operations_tail = self.tail
        self.waiting: list[Operation] = []
        """Operations that are in the operation log, and have not been performed."""
        self.performed = 0
        """How many have been performed since the last transaction."""
        self.batch_lines = 0
        """How many lines of the operation log those of this batch have."""
        self.renumber = False
        """The operation log's LPN has to be set before the next record: what is left behind it is not to be found."""
        self.unfinished: deque[tuple[int, Operation]] = deque()
        """Operations with their numbers, as long as this process does not know that they are done."""
        self.look_after = 1

    @override
    def replayed(self, done: Outstanding) -> None:
        while self.unfinished and self.unfinished[0][0] < done.done:
            self.unfinished.popleft()


class BatchFrontEnd(FrontEnd):
    """A front-end that collects operations."""

    @override
    def space(self, link: Link, area: Area, writes: bool) -> RemoteSpace:
        return BatchSpace(link, area, by_field=self.mode.option("reads") == "field", owned=writes)

    def batch(self) -> int:
        """How many operations one transaction has."""
        return int(self.mode.option("batch"))

    @override
    def execute(self, held: OpenStructure, operation: Operation) -> Code:
        """Log an operation that changes something; perform it with its batch, or at once where it has a result."""
        space = held.space
        assert isinstance(space, BatchSpace)
        if held.writer is None:
            return (yield from super().execute(held, operation))
        if operation.f not in self.scheme.updates or not self.changes(operation):
            return (yield from self.look(held, space, operation))
        yield from self.append(held, space, operation)
        found = None
        if self.has_result(operation):
            waited = len(space.waiting)
            found = yield from self.algorithm(held).take(space.waiting, operation)
            space.performed += waited - len(space.waiting) + 1
        else:
            space.waiting.append(operation)
        if len(space.waiting) + space.performed >= self.batch():
            yield from self.send_batch(held, space)
        return found

    @staticmethod
    def changes(operation: Operation) -> bool:
        """Whether it writes anything: a transaction may only read."""
        return operation.f != "txn" or any(step.f != "r" for step in operation.steps)

    @staticmethod
    def has_result(operation: Operation) -> bool:
        """Whether somebody waits for what it finds."""
        return operation.f in TAKES_OUT or any(step.f == "r" for step in operation.steps)

    def look(self, held: OpenStructure, space: BatchSpace, operation: Operation) -> Code:
        """Perform an operation that only reads: of a key that waits the last value, else in the structure."""
        if operation.f != "txn":
            for each in reversed(space.waiting):
                if each.key == operation.key:
                    yield from space.link.thread.compute()
                    return None if each.f in REMOVES else each.value
        elif space.waiting:
            yield from self.perform_waiting(held, space)
        return (yield from self.algorithm(held).perform(operation))

    def perform_waiting(self, held: OpenStructure, space: BatchSpace) -> Code:
        """Perform what waits."""
        waiting, space.waiting = space.waiting, []
        yield from self.algorithm(held).perform_all(waiting)
        space.performed += len(waiting)

    def send_batch(self, held: OpenStructure, space: BatchSpace) -> Code:
        """Perform what waits, and send the batch's transaction."""
        yield from self.perform_waiting(held, space)
        yield from self.commit_batch(space, awaited=False)

    def commit_batch(self, space: BatchSpace, *, awaited: bool) -> Code:
        """One transaction with all that has been performed; it moves the operation log's LPN behind it."""
        lpn = (space.area.operations_lpn, word_of(space.operations_tail))
        lines, space.batch_lines, space.performed = space.batch_lines, 0, 0
        yield from space.commit(
            awaited=awaited, merge=True, operations=lines, done=space.operations_tail.sequence, more=[lpn]
        )

    def append(self, held: OpenStructure, space: BatchSpace, operation: Operation) -> Code:
        """Put an operation into the operation log; returns when the mode says that it is there."""
        if space.renumber:
            space.renumber = False
            yield from self.commit_batch(space, awaited=True)
        log = space.area.operation_log
        body = operation_bytes(operation, self.scheme.words())
        lines = lines_of(len(body))
        if lines > log.lines:
            found = f"an operation of {lines * LINE} B in a log of {log.lines * LINE} B"
            raise InputError(Mistake(found, f"[log={lines * LINE} B] or more", field="scheme"))
        if space.operations_used + lines > log.lines:
            yield from self.make_room(held, space, lines)
        yield from space.link.thread.crc32_of(body)
        position = space.operations_tail
        place, sequence = log.at(position), position.sequence
        space.operations_tail = log.behind(space.operations_tail, len(body))
        space.operations_used += lines
        space.batch_lines += lines
        if space.copies is not None:
            yield from space.copies.operation(log, position, body)
        awaited = self.mode.option("oplog") != "posted"
        yield from space.send(place, record(sequence, body), awaited, space.area.operations_copied)
        space.unfinished.append((sequence, operation))

    def make_room(self, held: OpenStructure, space: BatchSpace, lines: int) -> Code:
        """Wait until the operation log has that many lines free: what is in it has to be performed, and replayed."""
        if space.batch_lines:
            yield from self.send_batch(held, space)
        while space.operations_used + lines > space.area.operation_log.lines and space.outstanding:
            yield from space.look_at_lpn()

    @override
    def perform(self, session: FrontEndSession, request: Request) -> Code:
        """Where a batch finds no room, what is logged of it is executed again: nobody can say what comes of it."""
        try:
            return (yield from super().perform(session, request))
        except OperationFailed as error:
            number, operation = self.scheme.operation(request)
            logged = any(operation == each for _, each in session.unfinished.get(number, ()))
            if logged and isinstance(error.__cause__, NoRoom):
                raise OutcomeUnknown(str(error)) from error
            raise

    @override
    def lose(self, session: FrontEndSession, number: int) -> None:
        held = session.held.get(number)
        if held is not None and isinstance(held.space, BatchSpace):
            session.unfinished[number] = list(held.space.unfinished)
        super().lose(session, number)

    # taking over ----------------------------------------------------------------------------------------------------
    @override
    def take_structure_over(self, session: FrontEndSession, held: OpenStructure) -> Code:
        """Execute again, in order, what the operation log has behind its LPN; what is done is in the same transaction
        as the LPN that says so. Then what this process had asked for itself, and what never came into the log.
        """
        space, before = held.space, session.unfinished.pop(held.area.number, [])
        assert isinstance(space, BatchSpace)
        tail, lpn = yield from self.positions(held)
        space.begin_at(tail)
        found: list[Logged] = []
        log, position = held.area.operation_log, lpn
        while (each := (yield from space.link.record(log, position))) is not None:
            position = log.behind(position, each[0].length)
            found.append(Logged(operation_of(each[1], self.scheme.words()), position))
        space.operations_tail = log.renumbered(position)
        space.renumber = True
        if found:
            space.waiting = [each.operation for each in found]
            yield from self.perform_waiting(held, space)
            yield from self.commit_batch(space, awaited=True)
            space.renumber = False
        for sequence, operation in before:
            if sequence >= position.sequence:
                yield from self.append(held, space, operation)
                space.waiting.append(operation)
