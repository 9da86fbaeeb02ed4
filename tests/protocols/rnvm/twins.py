"""rNVM broken on purpose, one step at a time: what a checker that never says no would let pass."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import Any, ClassVar

from rpsim.models.cpu import Thread
from rpsim.protocols.rnvm.area import Area, word_of
from rpsim.protocols.rnvm.backend import BackEnd, PlainBackEnd
from rpsim.protocols.rnvm.batches import BatchFrontEnd, BatchSpace
from rpsim.protocols.rnvm.frontend import FrontEndSession, OpenStructure
from rpsim.protocols.rnvm.modes import Naive, R, Rcb
from rpsim.protocols.rnvm.records import LINE, RecordHead, body_at, head_of, lines_of, writes_of

Code = Generator[Any, Any, Any]


class Unverified(R, name="rnvm-r-twin-unverified"):
    """A head is there, so the body will be."""

    title = "no checksum is verified"

    class Server(BackEnd):
        def is_whole(self, thread: Thread, area: Area, head: RecordHead) -> Code:
            yield from thread.compute()
            return True

        def replay(self, thread: Thread, area: Area, head: RecordHead) -> Code:
            place = area.memory_log.at(self.positions[area.number]) + body_at(head.length)
            try:
                writes = writes_of((yield from thread.load(place, head.length)))
            except ValueError:
                writes = []
            if all(area.root <= at < area.data + area.data_bytes for at, _ in writes):
                for address, data in writes:
                    yield from thread.store(address, data)
                yield from self.flush(thread, writes)
            yield from self.advance(thread, area, area.memory_log.behind(self.positions[area.number], head.length))

    role_types: ClassVar = {**R.role_types, "server": Server}


class AnyLap(R, name="rnvm-r-twin-any-lap"):
    """What the ring has from the lap before is taken for what comes next."""

    title = "a record's number is not compared"

    class Server(BackEnd):
        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            assert isinstance(unit, int)
            area = self.areas[unit]
            yield from self.find_position(thread, area)
            for _ in range(area.memory_log.lines):
                position = self.positions[unit]
                data = yield from thread.load(area.memory_log.at(position), RecordHead.size)
                head = RecordHead.unpack(data)
                if not head.sequence or not (yield from self.is_whole(thread, area, head)):
                    break
                yield from self.replay(thread, area, head)
            yield from self.advance(thread, area, area.memory_log.renumbered(self.positions[unit]))

    role_types: ClassVar = {**R.role_types, "server": Server}


class Unflushed(R, name="rnvm-r-twin-unflushed"):
    """The LPN is durable, and the data are in the cache."""

    title = "the back-end does not flush what it replays"

    class Server(BackEnd):
        def flush(self, thread: Thread, writes: Any) -> Code:
            yield from thread.sfence()

    role_types: ClassVar = {**R.role_types, "server": Server}


class LpnFirst(R, name="rnvm-r-twin-lpn-first"):
    """Power fails between the two: the transaction is neither in the log nor in the data."""

    title = "the LPN moves before the data are durable"

    class Server(BackEnd):
        def replay(self, thread: Thread, area: Area, head: RecordHead) -> Code:
            position = self.positions[area.number]
            place = area.memory_log.at(position)
            yield from self.make_durable(thread, place, lines_of(head.length) * LINE)
            writes = writes_of((yield from thread.load(place + body_at(head.length), head.length)))
            yield from self.advance(thread, area, area.memory_log.behind(position, head.length))
            for address, data in writes:
                yield from thread.store(address, data)
            yield from self.flush(thread, writes)

    role_types: ClassVar = {**R.role_types, "server": Server}


class LogNotDurable(R, name="rnvm-r-twin-log-not-durable"):
    """Half a transaction in the data, and no log to make it whole."""

    title = "the log is not flushed before its entries are stored"

    class Server(BackEnd):
        def make_durable(self, thread: Thread, address: int, length: int) -> Code:
            yield from ()

    role_types: ClassVar = {**R.role_types, "server": Server}


class LpnByItself(Rcb, name="rnvm-rcb-twin-lpn-by-itself"):
    """A front-end that dies between the two leaves operations that are done, and are done again."""

    title = "the operation log's LPN is a WRITE of its own"

    class Client(BatchFrontEnd):
        def commit_batch(self, space: BatchSpace, *, awaited: bool) -> Code:
            lines, space.batch_lines, space.performed = space.batch_lines, 0, 0
            yield from space.commit(awaited=True, merge=True, operations=lines)
            yield from space.link.write(space.area.operations_lpn, word_of(space.operations_tail))

    role_types: ClassVar = {**Rcb.role_types, "client": Client}


class Unfenced(R, name="rnvm-r-twin-unfenced"):
    """What the writer before had sent comes when the new one has looked."""

    title = "the queue pairs of the front-end before are left as they are"

    class Server(BackEnd):
        def retire(self, area: Area) -> Code:
            self.writers.pop(area.number, None)
            yield from ()

    role_types: ClassVar = {**R.role_types, "server": Server}


class UnfencedNaive(Naive, name="naive-twin-unfenced"):
    """What the writer before had sent comes when the new one has looked, here to the data themselves."""

    title = "the queue pairs of the front-end before are left as they are, without a log"

    class Server(PlainBackEnd):
        def retire(self, area: Area) -> Code:
            self.writers.pop(area.number, None)
            yield from ()

    role_types: ClassVar = {**Naive.role_types, "server": Server}


class EarlyReaders(Rcb, name="rnvm-rcb-twin-early-readers"):
    """What returned before the failure is in the operation log alone, where no reader looks."""

    title = "readers come before the operation log has been executed again"

    class Client(BatchFrontEnd):
        def take_structure_over(self, session: FrontEndSession, held: OpenStructure) -> Code:
            self.server.takeovers.pop(held.area.number).end()
            yield from super().take_structure_over(session, held)

    role_types: ClassVar = {**Rcb.role_types, "client": Client}


class OverHoles(R, name="rnvm-r-twin-over-holes"):
    """What comes behind a transaction that is not there was made by one that had seen it."""

    title = "recovery goes on behind a hole in the log"

    class Server(BackEnd):
        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            assert isinstance(unit, int)
            area = self.areas[unit]
            yield from super().recover_unit(thread, unit)
            behind = self.positions[unit]
            for line in range(behind.line, behind.line + 6):
                for sequence in range(1, 4):
                    position = area.memory_log.place(sequence, line)
                    place = area.memory_log.at(position)
                    head = head_of((yield from thread.load(place, RecordHead.size)), sequence)
                    if head is not None and (yield from thread.crc32_matches(
                        place + body_at(head.length), head.length, head.body_crc
                    )):  # fmt: skip
                        self.positions[unit] = position
                        yield from self.replay(thread, area, head)
            yield from self.advance(thread, area, area.memory_log.renumbered(behind))

    role_types: ClassVar = {**R.role_types, "server": Server}
