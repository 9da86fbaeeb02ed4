"""Forca as its public code has it: verified once, and three levels of metadata between the index and a value.

Source: github.com/huanghaixin008/Forca, commit d6f7c35, the code that Du et al., ICPP'21, cite as [2]: object.h (the
three levels), db.cpp (what a put makes durable, and in which order), object.cpp (a version's state is looked at before
its checksum). Readings: each level's item has cache lines of its own, where the code packs them; a value lies in one
region, since every put writes a whole one; the garbage collector, the timeout of a version whose value never comes, and
the cuckoo hashing of the index are left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Hashable, Mapping
from typing import Any

from typing_extensions import override

from ...models.cpu import Thread
from ...models.memory.devices import MemoryDevice
from ...models.system import Node
from ...sim.bytespace import LINE_BYTES
from ..layout import U32, U64, Bytes, Layout
from ..parts.index import ENTRY_BYTES, Entry, Location
from ..parts.kv import KvScheme, KvServer, Region
from .forca import Forca, Get, Put

Code = Generator[Any, Any, Any]

OBJECT_BYTES = 3 * LINE_BYTES
IN_PROGRESS, VALID = 0, 1


class Named(Layout):
    """``object``: what the index points to, one for each key."""

    used = U32()
    size_bytes = U32()
    key = Bytes(128)
    log_tail = U64()
    """Where the newest version's :class:`MetaBlock` lies."""


class MetaBlock(Layout):
    """``metablock``: one version."""

    peer = U64()
    """Where the version before lies; 0 for the first."""
    timestamp = U64()
    """Of its timeout, which is left out: 0."""
    crc = U32()
    valid = U32()
    """VALID once the value was verified and flushed."""
    data = U64()
    """Where its :class:`DataBlock` lies."""


class DataBlock(Layout):
    """``datablock``: where in the log the bytes of a version lie."""

    offset = U32()
    length = U32()
    region = U64()
    next = U64()
    """Of a version in several pieces."""


class Pool:
    """Items of one size, handed out one after the other; offset 0 is none."""

    def __init__(self, device: MemoryDevice, name: str, item_bytes: int, count: int) -> None:
        self.item_bytes = item_bytes
        self._device = device
        self.base = device.allocate(item_bytes * (count + 1), name, item_bytes=item_bytes)
        self.tail = item_bytes

    def take(self) -> int:
        """The offset of a fresh item."""
        offset, self.tail = self.tail, self.tail + self.item_bytes
        return offset

    def load(self, count: int, item: Callable[[int], bytes]) -> None:
        """The first ``count`` items as they are before the run, each computed when it is first touched."""
        start, size = self.base - self._device.base + self.tail, self.item_bytes

        def line_of(line: int) -> bytes:
            number, within = divmod(line * LINE_BYTES - start, size)
            return item(number).ljust(size, b"\0")[within : within + LINE_BYTES]

        self._device.space.compute(start, count * size, line_of)
        self.tail += count * size


class ForcaPublic(Forca, name="forca-public"):
    """A version is verified and flushed for its first reader alone; a look-up goes through three levels."""

    title = "Forca that remembers which versions it has verified and flushed"
    section = "reference [2]: the public code"

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """Every object has one version, verified: it has been there, and read, for long."""
        server: ForcaPublic.Server = self.roles["server"][0]
        names, first = self.sizes.objects, server.tail
        KvScheme.load(self, objects)

        def named(number: int) -> bytes:
            tail = (1 + number) * server.metas.item_bytes
            return Named.pack(used=1, size_bytes=self.sizes.value_bytes, key=server.keys[number], log_tail=tail)

        def version(number: int) -> bytes:
            crc, data = zlib.crc32(objects[names[number]]), (1 + number) * server.blocks.item_bytes
            return MetaBlock.pack(peer=0, timestamp=0, crc=crc, valid=VALID, data=data)

        def block(number: int) -> bytes:
            region, length = first + number * server.object_bytes, len(objects[names[number]])
            return DataBlock.pack(offset=0, length=length, region=region, next=0)

        server.objects.load(len(objects), named)
        server.metas.load(len(objects), version)
        server.blocks.load(len(objects), block)

    @override
    def loaded_entry(self, location: Location) -> Location:
        number = (location.offset - LINE_BYTES) // self.server.object_bytes
        return Location((1 + number) * OBJECT_BYTES, Named.size)

    class Server(Forca.Server):
        def __init__(self, scheme: ForcaPublic, node: Node, number: int) -> None:
            pm, versions = node.memory["pm"], len(scheme.sizes.objects) + scheme.sizes.updates
            self.objects = Pool(pm, "objects", OBJECT_BYTES, versions)
            self.metas = Pool(pm, "metablocks", LINE_BYTES, versions)
            self.blocks = Pool(pm, "datablocks", LINE_BYTES, versions)
            KvServer.__init__(self, scheme, node, number)

        @override
        def begin(self) -> None:
            KvServer.begin(self)
            for pool in (self.objects, self.metas, self.blocks):
                pool.tail = pool.item_bytes

        @override
        def link_new(self, thread: Thread, request: Put) -> Code:
            """``DB::lazyWrite``: data block, version, then the object's ``logtail``, each durable before the next."""
            found = yield from self.index.look_up(thread, request.key)
            if found[1] is None:
                at, previous = (yield from self.create(thread, request, found)), 0
            else:
                at = self.objects.base + found[1].offset
                named = Named.unpack((yield from thread.load(at, Named.size)))
                previous = named.log_tail
            data = self.allocate(request.length)
            meta, block = self.metas.take(), self.blocks.take()
            place = DataBlock.pack(offset=0, length=request.length, region=data.offset, next=0)
            yield from self.write(thread, self.blocks.base + block, place)
            version = MetaBlock.pack(peer=previous, timestamp=0, crc=request.crc, valid=IN_PROGRESS, data=block)
            yield from self.write(thread, self.metas.base + meta, version)
            yield from thread.store(at + Named.offset_of("log_tail"), meta.to_bytes(8, "little"))
            yield from thread.flush(at, Named.size)
            return Region.pack(offset=data.offset, length=data.length)

        def create(self, thread: Thread, request: Put, found: tuple[int | None, Any]) -> Code:
            """``DB::create``: an object without a version, durable before the index names it. Returns its address."""
            offset = self.objects.take()
            at = self.objects.base + offset
            yield from self.write(
                thread, at, Named.pack(used=1, size_bytes=request.length, key=request.key, log_tail=0)
            )
            entry = yield from self.index.link(thread, request.key, found, Location(offset, Named.size))
            yield from thread.flush(entry, ENTRY_BYTES)
            return at

        @staticmethod
        def write(thread: Thread, at: int, content: bytes) -> Code:
            """Store and flush."""
            yield from thread.store(at, content)
            yield from thread.flush(at, len(content))

        @override
        def on_get(self, thread: Thread, request: Get) -> Code:
            """``DB::lazyRead``: the newest version that is whole, flushed before anybody is told where it is."""
            _, where = yield from self.index.look_up(thread, request.key)
            at = 0
            if where is not None:
                at = Named.unpack((yield from thread.load(self.objects.base + where.offset, Named.size))).log_tail
            while at:
                meta = MetaBlock.unpack((yield from thread.load(self.metas.base + at, MetaBlock.size)))
                block = DataBlock.unpack((yield from thread.load(self.blocks.base + meta.data, DataBlock.size)))
                if meta.valid == VALID or (yield from self.verify(thread, at, meta, block)):
                    return Region.pack(offset=block.region, length=block.length)
                at = meta.peer
            return Region.pack(offset=0, length=0)

        def verify(self, thread: Thread, at: int, meta: MetaBlock, block: DataBlock) -> Code:
            """``ObjectOps::validCheck``: verify a value; if whole, flush it, then what says so. Returns whether."""
            value = self.log + block.region
            if not (yield from thread.crc32_matches(value, block.length, meta.crc)):
                return False
            yield from thread.flush(value, block.length)
            yield from thread.store(self.metas.base + at + MetaBlock.offset_of("valid"), VALID.to_bytes(4, "little"))
            yield from thread.flush(self.metas.base + at, MetaBlock.size)
            return True

        # after a failure, on the surviving bytes ------------------------------------------------------------------
        @override
        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            """One index entry: returns where each pool and the log ended for it."""
            assert isinstance(unit, int)
            entry = Entry.unpack((yield from thread.load(self.index.address_of(unit), Entry.size)))
            where = Location.unpack(entry.location)
            if where is None:
                return 0, 0, 0, 0
            named = Named.unpack((yield from thread.load(self.objects.base + where.offset, Named.size)))
            end, at = where.offset + OBJECT_BYTES, named.log_tail
            if not at:
                return end, 0, 0, 0
            meta = MetaBlock.unpack((yield from thread.load(self.metas.base + at, MetaBlock.size)))
            block = DataBlock.unpack((yield from thread.load(self.blocks.base + meta.data, DataBlock.size)))
            return end, at + LINE_BYTES, meta.data + LINE_BYTES, block.region + block.length

        @override
        def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
            ends = [max(column) for column in zip((0, 0, 0, 0), *results, strict=True)]
            for pool, end in zip((self.objects, self.metas, self.blocks), ends, strict=False):
                pool.tail = end or pool.item_bytes
            yield from KvServer.finish_recovery(self, thread, [ends[3]])
