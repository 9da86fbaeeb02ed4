"""rNVM's mirror broken on purpose, one step at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from rpsim.models.cpu import Thread
from rpsim.protocols.rnvm.area import Area, word_of
from rpsim.protocols.rnvm.backend import BackEnd
from rpsim.protocols.rnvm.mirror import Copies, Mirror, OwnMemory
from rpsim.protocols.rnvm.modes import R, Rcb
from rpsim.protocols.rnvm.records import LINE, Position, Write, merged
from rpsim.protocols.rnvm.spare import Spare

Code = Generator[Any, Any, Any]


class SaysItFirst(R, name="rnvm-r-twin-says-it-first"):
    """An operation returns, and its copy is still at the back-end."""

    title = "the back-end says that it has copied what it copies with the next transaction"

    class Server(BackEnd):
        def begin(self) -> None:
            super().begin()
            self.late: list[tuple[Position, bytes, list[Write]]] = []

        def copy(self, thread: Thread, area: Area, position: Position, body: bytes, writes: list[Write]) -> Code:
            late, self.late = self.late, [(position, body, writes)]
            for each in late:
                yield from super().copy(thread, area, *each)
            yield from thread.store(area.copied, word_of(area.memory_log.behind(position, len(body))))

    role_types: ClassVar = {**R.role_types, "server": Server}


class DataAlone(R, name="rnvm-r-twin-data-alone"):
    """The mirror's data are as old as its LPN: all that came later is in its log."""

    title = "the spare rebuilds from the mirror's data without its log"

    class Spare(Spare):
        def fetch(self, thread: Thread, area: Area) -> Code:
            found = yield from super().fetch(thread, area)
            yield from self.put(thread, area.memory_log.at(Position.unpack(bytes(8))), bytes(16 * LINE))
            return found

    role_types: ClassVar = {**R.role_types, "spare": Spare}


class OneShort(R, name="rnvm-r-twin-one-short"):
    """The last record of the mirror's log is left where it is."""

    title = "the spare does without the log's last transaction"

    class Spare(Spare):
        def fetch(self, thread: Thread, area: Area) -> Code:
            found = yield from super().fetch(thread, area)
            log = area.memory_log
            position = Position.unpack((yield from thread.load(area.lpn, 8)))
            last = None
            while (record := (yield from OwnMemory(thread).record(log, position))) is not None:
                last, position = position, log.behind(position, len(record[1]))
            if last is not None:
                yield from self.put(thread, log.at(last), bytes(LINE))
            return found

    role_types: ClassVar = {**R.role_types, "spare": Spare}


class RoundAndRound(R, name="rnvm-r-twin-round-and-round"):
    """Of a ring that has been written round and round only the last lap is left."""

    title = "the mirror's log is written over, and its data are as at first"

    class Server(BackEnd):
        def begin_copies(self, thread: Thread, area: Area) -> Code:
            yield from super().begin_copies(thread, area)
            if area.number in self.copies:
                self.copies[area.number].__class__ = Forgetful

    role_types: ClassVar = {**R.role_types, "server": Server}


class Forgetful(Copies):
    """Room in the mirror's log is not looked after."""

    def transaction(self, position: Position, body: bytes, writes: list[Write]) -> Code:
        yield from self.operation(self.area.memory_log, position, body)


class LpnFirst(R, name="rnvm-r-twin-mirror-lpn-first"):
    """The back-end is lost between the two: the mirror's data are half of what its LPN says."""

    title = "the mirror's LPN moves before its data do"

    class Server(BackEnd):
        def begin_copies(self, thread: Thread, area: Area) -> Code:
            yield from super().begin_copies(thread, area)
            if area.number in self.copies:
                self.copies[area.number].__class__ = Hasty

    role_types: ClassVar = {**R.role_types, "server": Server}


class Hasty(Copies):
    """It frees the mirror's log before it has written the data."""

    def bring_up_to_date(self, position: Position) -> Code:
        yield from self.settle()
        yield from self.put(self.area.lpn, word_of(position))
        yield from self.settle()
        for address, data in merged(self._changed):
            yield from self.put(address, data)
        yield from self.settle()
        self._used, self._changed = 0, []


class OverTheOld(R, name="rnvm-r-twin-over-the-old"):
    """While all is copied anew the mirror's LPN is that of now, and its data are those of before."""

    title = "the new copy is made where the old one lies"

    class Mirror(Mirror):
        def other(self, offset: int) -> int:
            return offset

    role_types: ClassVar = {**R.role_types, "mirror": Mirror}


class NoBits(R, name="rnvm-r-twin-no-bits"):
    """The spare's allocator gives blocks away that are in use."""

    title = "the allocator's bits are not copied"

    class Server(BackEnd):
        def begin(self) -> None:
            super().begin()
            for heap in self.heaps:
                heap.changed = None

    role_types: ClassVar = {**R.role_types, "server": Server}


class OperationsAlone(Rcb, name="rnvm-rcb-twin-operations-left-out"):
    """What waits for its batch is in the operation log alone."""

    title = "the operation log is not copied"

    class Server(BackEnd):
        def copy_operations(self, thread: Thread, area: Area, copies: Copies) -> Code:
            while True:
                for place in (area.operations_copied,):
                    yield from thread.store(place, word_of(area.operation_log.place(1 << 30, 0)))
                yield from thread.wait(self.moved[area.number])

    role_types: ClassVar = {**Rcb.role_types, "server": Server}
