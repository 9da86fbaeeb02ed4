"""A sorted table: blocks of entries with shared prefixes, an index of the blocks, a footer (doc/table_format.md).

Left out: compression, filters, and the metaindex (an empty block).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .coding import Corruption, LevelEntry, Reader, entry_of, masked_crc, varint

BLOCK = 4096
"""``block_size``: a block is over once it has so many bytes."""
RESTART = 16
"""``block_restart_interval``: so many entries share prefixes."""
TRAILER = 5
"""Behind a block: how it is compressed (0: not), and a checksum."""
FOOTER = 48
MAGIC = 0xDB4775248B80FB57


class BlockHandle(NamedTuple):
    """Where a block lies in its table; ``length`` is without the trailer."""

    offset: int
    length: int

    def pack(self) -> bytes:
        """As a varint each."""
        return varint(self.offset) + varint(self.length)

    @staticmethod
    def read(reader: Reader) -> BlockHandle:
        """The next one."""
        return BlockHandle(reader.varint(), reader.varint())


class _BlockBuilder:
    def __init__(self) -> None:
        self.data = bytearray()
        self._restarts = [0]
        self._since = 0
        self._last = b""

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._since < RESTART:
            for one, other in zip(key, self._last, strict=False):
                if one != other:
                    break
                shared += 1
        else:
            self._restarts.append(len(self.data))
            self._since = 0
        self.data += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        self._since, self._last = self._since + 1, key

    def finish(self) -> bytes:
        words = (*self._restarts, len(self._restarts))
        return bytes(self.data) + b"".join(word.to_bytes(4, "little") for word in words)


def table_of(entries: Iterable[LevelEntry]) -> Iterator[bytes]:
    """The bytes of a table with these entries, block by block."""
    offset, index, block = 0, _BlockBuilder(), _BlockBuilder()
    last = b""

    def whole(data: bytes) -> bytes:
        return data + b"\0" + masked_crc(data + b"\0").to_bytes(4, "little")

    for entry in entries:
        last = entry.internal_key
        block.add(last, entry.value or b"")
        if len(block.data) >= BLOCK:
            data = block.finish()
            index.add(last, BlockHandle(offset, len(data)).pack())
            yield whole(data)
            offset, block = offset + len(data) + TRAILER, _BlockBuilder()
    if block.data:
        data = block.finish()
        index.add(last, BlockHandle(offset, len(data)).pack())
        yield whole(data)
        offset += len(data) + TRAILER
    handles = []
    for data in (_BlockBuilder().finish(), index.finish()):
        handles.append(BlockHandle(offset, len(data)))
        yield whole(data)
        offset += len(data) + TRAILER
    yield b"".join(handle.pack() for handle in handles).ljust(FOOTER - 8, b"\0") + MAGIC.to_bytes(8, "little")


def index_handle(footer: bytes) -> BlockHandle:
    """Where the index block is, of a table's footer. Raises Corruption."""
    if int.from_bytes(footer[FOOTER - 8 :], "little") != MAGIC:
        raise Corruption("a table without its magic number")
    reader = Reader(footer)
    BlockHandle.read(reader)
    return BlockHandle.read(reader)


def verified(data: bytes) -> bytes:
    """A block's bytes without its trailer. Raises Corruption where that has another checksum."""
    if len(data) < TRAILER or masked_crc(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise Corruption("a block with another checksum than its trailer says")
    return data[:-TRAILER]


def pairs_of(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block. Raises Corruption."""
    if len(block) < 4:
        raise Corruption("a block without restarts")
    count = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (count + 1)
    if end < 0:
        raise Corruption(f"{count} restarts in a block of {len(block)} bytes")
    reader, last = Reader(block[:end]), b""
    while not reader.over:
        shared, own, length = reader.varint(), reader.varint(), reader.varint()
        if shared > len(last):
            raise Corruption("a key that shares more than there is")
        last = last[:shared] + reader.take(own)
        yield last, reader.take(length)


class TableIndex:
    """The index of a table, read into memory: the last key of each block, and where the block is."""

    def __init__(self, block: bytes) -> None:
        found = [(entry_of(key, b""), BlockHandle.read(Reader(value))) for key, value in pairs_of(block)]
        self.orders = [entry.order for entry, _ in found]
        self.handles = [handle for _, handle in found]

    def block_of(self, order: tuple[bytes, int]) -> BlockHandle | None:
        """The block in which a version would be that is the first from ``order`` on; None: behind all."""
        at = bisect_left(self.orders, order)
        return self.handles[at] if at < len(self.handles) else None


def entries_in(block: bytes) -> list[LevelEntry]:
    """The entries of a data block. Raises Corruption."""
    return [entry_of(key, value) for key, value in pairs_of(block)]
