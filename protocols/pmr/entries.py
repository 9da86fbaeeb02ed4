"""Requests, byte for byte: what a client writes into a chunk of the region, or into the server's DRAM.

Source: Luo et al., TCAD 2024, section IV-C, figure 4b: operation 1 B, key length 3 B, value length 4 B, key, value, and
a terminator of one NUL byte behind the last one, which the next one overwrites. There is no checksum. The operations'
numbers are not given; a GET and a CHUNKALLOC are written at the tail as a PUT is, and have no place in a recovery.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar, NamedTuple

from ...models.cpu import Thread
from ..layout import U32, Layout

Code = Generator[Any, Any, Any]

NUL = b"\0"
PUT, GET, CHUNKALLOC = 1, 2, 3
"""Operations; 0 is the terminator."""
KEY_BITS = 8
"""Where in its word a key's length begins, behind the operation."""


class EntryHead(Layout):
    """What comes before a request's key and value."""

    operation = U32()
    """The operation in the first byte, the key's length in the three others."""
    value_length = U32()


class ChunkEntry(NamedTuple):
    """A request as it has been read; ``length`` is that of its bytes without the terminator."""

    op: int
    key: bytes
    value: bytes
    length: int
    sequence: int = 0
    """Its place among all updates, where entries have one."""
    number: int = 0
    """That of the request on its connection, where entries have one."""


class ChunkEntries:
    """How requests are written and read; a subclass may put more before the key."""

    head_bytes: ClassVar[int] = EntryHead.size
    before_bytes: ClassVar[int] = 0
    """What a chunk has before its first entry."""

    def length(self, key_bytes: int, value_bytes: int) -> int:
        """The bytes of a request, without the terminator."""
        return self.head_bytes + key_bytes + value_bytes

    def write(self, thread: Thread, request: ChunkEntry, generation: int = 0) -> Code:
        """The bytes of a request and its terminator; ``generation`` is the chunk's."""
        yield from ()
        return pack_head(request.op, request.key, request.value) + request.key + request.value + NUL

    def image(self, thread: Thread, entries: Sequence[ChunkEntry], generation: int = 0) -> Code:
        """The bytes of a chunk with these updates, as they were found in one of that generation."""
        yield from ()
        return b"".join(pack_head(one.op, one.key, one.value) + one.key + one.value for one in entries) + NUL

    def read(self, thread: Thread, address: int, room: int, ahead: int, generation: int = 0) -> Code:
        """The request at an address, of at most ``room`` bytes with its terminator; None where there is none.

        So many bytes ``ahead`` are loaded at first, the others once its head is known.
        """
        ahead = min(max(ahead, EntryHead.size), room)
        if ahead < EntryHead.size:
            return None
        data = yield from thread.load(address, ahead)
        op, key_length, value_length = unpack_head(data)
        length = self.length(key_length, value_length)
        if op not in (PUT, GET, CHUNKALLOC) or length > room:
            return None
        if length > len(data):
            data += yield from thread.load(address + len(data), length - len(data))
        key = data[EntryHead.size : EntryHead.size + key_length]
        return ChunkEntry(op, key, data[EntryHead.size + key_length : length], length)

    def scan(self, thread: Thread, address: int, start: int, room: int, generation: int = 0) -> Code:
        """The updates of a chunk from an offset on, up to the first terminator, or to what is no update."""
        found: list[ChunkEntry] = []
        at = start
        while True:
            entry = yield from self.read(thread, address + at, room - at, EntryHead.size, generation)
            if entry is None or entry.op != PUT:
                return found
            found.append(entry)
            at += entry.length


def pack_head(op: int, key: bytes, value: bytes) -> bytes:
    """The head of a request."""
    return EntryHead.pack(operation=op | len(key) << KEY_BITS, value_length=len(value))


def unpack_head(data: bytes) -> tuple[int, int, int]:
    """Operation, length of the key, length of the value."""
    head = EntryHead.unpack(data)
    return head.operation & 0xFF, head.operation >> KEY_BITS, head.value_length
