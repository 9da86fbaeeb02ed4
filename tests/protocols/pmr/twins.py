"""The repaired stack broken on purpose, one step at a time; and a log whose records are valid at any place."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar

from rpsim.models.cpu import Thread
from rpsim.models.pcie.peers import READ_IS_BARRIER
from rpsim.protocols.pmr.checked import WORD, CheckedEntries
from rpsim.protocols.pmr.chunklog import ChunkFlush
from rpsim.protocols.pmr.entries import ChunkEntries, ChunkEntry
from rpsim.protocols.pmr.pmraccess import ChunkServer, ServedChunk
from rpsim.protocols.pmr.repaired import PmrAccessRepaired, RepairedServer
from rpsim.protocols.pmr.synclog import SyncAccess

Code = Generator[Any, Any, Any]


class NoBarrier(PmrAccessRepaired, name="pmraccess-twin-no-barrier"):
    """Nobody waits for the region."""

    title = "no write barrier"

    class Server(RepairedServer):
        def barrier(self, thread: Thread, address: int) -> Code:
            yield from ()


class NoFence(PmrAccessRepaired, name="pmraccess-twin-no-fence"):
    """The region is read while the core's write-combining buffers may still hold what it has stored."""

    title = "no fence before the write barrier"

    class Server(RepairedServer):
        def barrier(self, thread: Thread, address: int) -> Code:
            if self.node.system.platform.peers[self.area.device.kind].pmrwbm & READ_IS_BARRIER:
                yield from thread.load(address, WORD)
            else:
                yield from thread.read_pmrsts(address)


class _Unchecked(CheckedEntries):
    def matches(self, thread: Thread, address: int, length: int, expected: int) -> Code:
        yield from thread.compute()
        return True


class NoChecksum(PmrAccessRepaired, name="pmraccess-twin-no-checksum"):
    """What has the shape of an entry, and a place, is one."""

    title = "checksums are not compared"
    entries: ClassVar[ChunkEntries] = _Unchecked()


class NoNumber(PmrAccessRepaired, name="pmraccess-twin-no-number"):
    """Whatever has its checksum is the request that the flag speaks of."""

    title = "requests have no numbers"

    class Server(RepairedServer):
        def parse(self, thread: Thread, end: ServedChunk) -> Code:
            while (request := (yield from ChunkServer.parse(self, thread, end))) is None:
                pass
            return request


class SeenEarly(PmrAccessRepaired, name="pmraccess-twin-seen-early"):
    """The store has an update before the region certainly has it."""

    title = "an update is executed before the barrier"

    class Server(RepairedServer):
        def execute_in_order(self, thread: Thread, end: ServedChunk, request: ChunkEntry) -> Code:
            self.sequence += 1
            yield from self.mark(thread, end.address, self.sequence)
            yield from self.store.put(thread, request.key, request.value)
            yield from self.barrier(thread, end.address)


class NoSequence(PmrAccessRepaired, name="pmraccess-twin-no-sequence"):
    """Chunks are replayed by their numbers."""

    title = "updates are replayed as they are found"

    class Server(RepairedServer):
        def newer(self, one: ChunkEntry, other: ChunkEntry) -> bool:
            return True


class _Early(ChunkFlush):
    def submitted(self, thread: Thread, numbers: Sequence[int]) -> Code:
        for number in numbers:
            yield from self._chunks.give_back(thread, number)

    def landed(self, thread: Thread, numbers: Sequence[int]) -> Code:
        yield from self._log.write_state(thread)


class ClearedEarly(PmrAccessRepaired, name="pmraccess-twin-cleared-early"):
    """A chunk is empty as soon as its write is on its way."""

    title = "the bit is cleared when the write is submitted"

    class Server(RepairedServer):
        ChunkFlush: ClassVar[type[ChunkFlush]] = _Early


class NoPlace(SyncAccess, name="syncaccess-twin-no-place"):
    """Any whole record behind the newest one is newer still."""

    title = "a record's checksum is of its entry alone"

    class Server(SyncAccess.role_types["server"]):  # type: ignore[misc]
        @staticmethod
        def seal(crc: int, at: int) -> int:
            return crc
