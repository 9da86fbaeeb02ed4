"""Entries that recovery can tell: a checksum over each and its chunk's generation, and its place among all updates.

No paper's: what ``pmraccess`` lacks. A chunk begins with its generation, which the server stores whenever a client gets
it. An entry's head has, behind the plain one, a word for its place, which is 0 until the server has executed the
update, a CRC32 over generation, plain head, number, key and value, and the request's number on its connection: without
it a request that lies where a later one belongs, which has not come yet, would be taken for that. Entries take whole
words, so that a place is one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ..layout import U32, U64, Layout
from .entries import CHUNKALLOC, GET, NUL, PUT, ChunkEntries, ChunkEntry, EntryHead, pack_head, unpack_head

Code = Generator[Any, Any, Any]
WORD = 8


class CheckedHead(Layout):
    """What comes before an entry's key and value."""

    operation = U32()
    """As in the plain head."""
    value_length = U32()
    sequence = U64()
    """The update's place, from 1, stored by the server; 0: it was not executed."""
    checksum = U32()
    """CRC32 of key and value, combined with that of plain head, generation and number by exclusive or: so either is
    found by itself, and key and value are one range."""
    number = U32()
    """The request's on its connection, from 1."""


class CheckedEntries(ChunkEntries):
    """How such entries are written and read."""

    head_bytes: ClassVar[int] = CheckedHead.size
    before_bytes: ClassVar[int] = WORD

    @override
    def length(self, key_bytes: int, value_bytes: int) -> int:
        return -(-super().length(key_bytes, value_bytes) // WORD) * WORD

    @override
    def write(self, thread: Thread, request: ChunkEntry, generation: int = 0) -> Code:
        return (yield from self._pack(thread, request, generation)) + NUL

    def _pack(self, thread: Thread, entry: ChunkEntry, generation: int) -> Code:
        plain = pack_head(entry.op, entry.key, entry.value)
        body = yield from thread.crc32_of(entry.key + entry.value)
        head = yield from thread.crc32_of(covered(plain, generation, entry.number))
        more = CheckedHead.pack(
            operation=0, value_length=0, sequence=entry.sequence, checksum=body ^ head, number=entry.number
        )
        data = plain + more[EntryHead.size :] + entry.key + entry.value
        return data.ljust(self.length(len(entry.key), len(entry.value)), b"\0")

    @override
    def image(self, thread: Thread, entries: Sequence[ChunkEntry], generation: int = 0) -> Code:
        data = generation.to_bytes(WORD, "little")
        for entry in entries:
            data += yield from self._pack(thread, entry, generation)
        return data + NUL

    @override
    def read(self, thread: Thread, address: int, room: int, ahead: int, generation: int = 0) -> Code:
        ahead = min(max(ahead, CheckedHead.size), room)
        if ahead < CheckedHead.size:
            return None
        data = yield from thread.load(address, ahead)
        op, key_length, value_length = unpack_head(data)
        end = CheckedHead.size + key_length + value_length
        if op not in (PUT, GET, CHUNKALLOC) or end > room:
            return None
        head = CheckedHead.unpack(data)
        plain = yield from thread.crc32_of(covered(data[: EntryHead.size], generation, head.number))
        expected = head.checksum ^ plain
        if ahead > CheckedHead.size:
            if end > len(data):
                data += yield from thread.load(address + len(data), end - len(data))
            if (yield from thread.crc32_of(data[CheckedHead.size : end])) != expected:
                return None
        else:
            if not (yield from self.matches(thread, address + CheckedHead.size, key_length + value_length, expected)):
                return None
            data += yield from thread.load(address + len(data), end - len(data))
        key_end = CheckedHead.size + key_length
        length = self.length(key_length, value_length)
        return ChunkEntry(op, data[CheckedHead.size : key_end], data[key_end:end], length, head.sequence, head.number)

    def matches(self, thread: Thread, address: int, length: int, expected: int) -> Code:
        """Whether key and value have their checksum."""
        return (yield from thread.crc32_matches(address, length, expected))

    @staticmethod
    def place_of_sequence(address: int) -> int:
        """Where the place of the entry at an address is."""
        return address + CheckedHead.offset_of("sequence")


def covered(plain: bytes, generation: int, number: int) -> bytes:
    """What the checksum of a head is over."""
    return plain + generation.to_bytes(WORD, "little") + number.to_bytes(4, "little")
