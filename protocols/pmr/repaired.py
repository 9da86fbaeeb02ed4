"""PMRAccess repaired: what it takes for its claims to hold, in the same messages and chunks.

No paper's: the control beside ``pmraccess``. Entries have checksums and places (:mod:`.checked`). Under the key's lock
the server's thread stores the next place into the entry, waits for a write barrier of the region (a read of it, or of
PMRSTS, as the drive's PMRCAP says), and only then has the store execute the update, so that no reader sees what may
still be lost. A read of the region comes behind a fence, since it leaves write-combining buffers as they are; one of
PMRSTS is uncached, and empties them. A chunk's new generation is stored and waited for before a client has the chunk.
Recovery keeps of each key the update with the last place. PCIe keeps no order between the region and the flag in DRAM:
a request whose bytes have not all come yet is waited for, by its checksum and its number on the connection.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.pcie.peers import READ_IS_BARRIER
from ..guarantees import ALWAYS, Claims, Condition
from ..parts.locks import Locks
from .checked import WORD, CheckedEntries
from .cuckoo import Cuckoo
from .entries import ChunkEntries, ChunkEntry
from .messaging import ConnectionBroken
from .pmraccess import ChunkServer, PmrStack, ServedChunk
from .store import Store

Code = Generator[Any, Any, Any]


class RepairedServer(ChunkServer):
    """The server of the repaired stack."""

    @override
    def begin(self) -> None:
        super().begin()
        self.locks = Locks(self.system.clock, self.sizes.clients + 1)
        self.sequence = 0
        """That of the last update."""

    @override
    def parse(self, thread: Thread, end: ServedChunk) -> Code:
        while (request := (yield from super().parse(thread, end))) is None or request.number != end.requests + 1:
            thread.count("requests read in vain")
            if end.side.gone:
                raise ConnectionBroken
        end.requests += 1
        return request

    @override
    def put(self, thread: Thread, end: ServedChunk, request: ChunkEntry) -> Code:
        yield from self.locks.under(thread, request.key, self.execute_in_order(thread, end, request))
        self.passes(end, request)

    def execute_in_order(self, thread: Thread, end: ServedChunk, request: ChunkEntry) -> Code:
        """The update gets its place, lasts, and is executed."""
        self.sequence += 1
        yield from self.mark(thread, end.address, self.sequence)
        yield from self.barrier(thread, end.address)
        yield from self.store.put(thread, request.key, request.value)

    def mark(self, thread: Thread, address: int, sequence: int) -> Code:
        """Store the place of the entry at an address."""
        place = CheckedEntries.place_of_sequence(address)
        yield from thread.store(place, sequence.to_bytes(WORD, "little"))

    def barrier(self, thread: Thread, address: int) -> Code:
        """All that the region had taken in before lasts when it returns, and what this core has stored there."""
        if self.node.system.platform.peers[self.area.device.kind].pmrwbm & READ_IS_BARRIER:
            yield from thread.sfence()
            yield from thread.load(address, WORD)
        else:
            yield from thread.read_pmrsts(address)

    @override
    def prepare(self, thread: Thread, number: int) -> Code:
        address = self.area.address(number)
        generation = 1 + (yield from self.generation_at(thread, address))
        yield from thread.store(address, generation.to_bytes(WORD, "little"))
        yield from self.barrier(thread, address)
        return generation

    @override
    def generation_at(self, thread: Thread, address: int) -> Code:
        return int.from_bytes((yield from thread.load(address, WORD)), "little")

    @override
    def newer(self, one: ChunkEntry, other: ChunkEntry) -> bool:
        return one.sequence > other.sequence

    @override
    def executed(self, entry: ChunkEntry) -> bool:
        """An update that the server had not come to has no place: nobody has seen it."""
        return entry.sequence > 0

    @override
    def replay(self, thread: Thread, entry: ChunkEntry) -> Code:
        self.sequence = max(self.sequence, entry.sequence)
        yield from super().replay(thread, entry)


class PmrAccessRepaired(PmrStack, name="pmraccess-repaired"):
    """The repaired stack over LibCuckoo."""

    title = "pmraccess with checksums, places and a write barrier before the update is seen; over LibCuckoo"
    section = "section IV, and what it leaves out"
    claims: ClassVar[Claims] = {
        Condition.NO_LOST_ACK: ALWAYS, Condition.COMMITTED: ALWAYS, Condition.DURABLE: ALWAYS,
    }  # fmt: skip
    entries: ClassVar[ChunkEntries] = CheckedEntries()
    Backend: ClassVar[type[Store]] = Cuckoo

    class Server(RepairedServer, software=Cuckoo.software):
        """The server."""
