"""Forca: the server verifies and flushes what a reader is about to read.

Source: Huang et al., "Forca: Fast and Atomic Remote Direct Access to Persistent Memory", ICCD'18, and its public code,
as compared by Du et al., ICPP'21, sections 5.3.4, 6.1 and 7.2. Readings: a version's metadata is durable before the
index names it; every GET verifies and flushes (figure 2 of Du et al.: a checksum's share of 35 % leaves 8.2 us for the
rest, more than a call and a READ take); after a failure nothing is verified, since every read verifies.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node, System
from ..guarantees import ALWAYS, NO_FAULT, Claims, Condition
from ..layout import U32, U64, Bytes, Layout, Rest
from ..naming import Option
from ..parts.index import ENTRY_BYTES, Entry, Location
from ..parts.kv import CLIENT_CRC, KvClient, KvScheme, KvServer, Region, Session
from ..scheme import Limits, Sizes

Code = Generator[Any, Any, Any]

META_BYTES = 64


class Meta(Layout):
    """The metadata of one version, a level of its own between index and data."""

    key = Bytes(32)
    previous = U64()
    """Where the metadata of the version before lies; 0 for the first."""
    data = U64()
    """Where in the log the value lies."""
    length = U32()
    crc = U32()


def metadata(key: bytes, previous: int, data: int, length: int, crc: int) -> bytes:
    """The bytes of a version's metadata."""
    packed = Meta.pack(key=key, previous=previous, data=data, length=length, crc=crc)
    return packed.ljust(META_BYTES, b"\0")


class Data(Layout):
    """What lies in the log: the value alone."""

    value = Rest()


class Put(Layout):
    """Make room for a value, and this version the newest of its key."""

    key = Bytes(32)
    length = U32()
    crc = U32()


class Get(Layout):
    """Where is the newest version that is whole? The reply is a :class:`Region`, of length 0 if there is none."""

    key = Bytes(32)


class Forca(KvScheme, name="forca"):
    """One call and one WRITE a PUT; one call, with the value's checksum and flush in it, and one READ a GET."""

    title = "publish, then write; the server verifies and flushes a value before it tells a reader where it is"
    paper = "Du et al., ICPP'21"
    section = "sections 5.3.4, 6.1 and 7.2"
    claims: ClassVar[Claims] = {Condition.COMMITTED: ALWAYS, Condition.LINEARIZABLE: NO_FAULT}
    limits = Limits()  # its index points to metadata
    Object = Data

    options: ClassVar[dict[str, Option]] = {"client-crc": CLIENT_CRC}

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.client_pays_crc: bool = self.option("client-crc")
        super().__init__(system, sizes)

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        server: Forca.Server = self.roles["server"][0]
        names, first = self.sizes.objects, server.tail
        start = server.meta + META_BYTES - server.pm.base
        super().load(objects)

        def line_of(line: int) -> bytes:
            number = line - start // META_BYTES
            value = objects[names[number]]
            data = first + number * server.object_bytes
            return metadata(server.keys[number], 0, data, len(value), zlib.crc32(value))

        server.pm.space.compute(start, len(objects) * META_BYTES, line_of)
        server.meta_tail += len(objects) * META_BYTES

    @override
    def loaded_object(self, key: bytes, value: bytes) -> bytes:
        return value

    @override
    def loaded_entry(self, location: Location) -> Location:
        number = (location.offset - 64) // self.server.object_bytes
        return Location(META_BYTES * (1 + number), META_BYTES)

    class Client(KvClient):
        scheme: Forca

        @override
        def put(self, session: Session, key: bytes, value: bytes) -> Code:
            connection = session.connection
            crc = (yield from connection.thread.crc32_of(value)) if self.scheme.client_pays_crc else zlib.crc32(value)
            region = Region.unpack((yield from connection.call(Put, key=key, length=len(value), crc=crc)))
            yield from connection.write(self.server.log + region.offset, session.log_key, value)

        @override
        def get(self, session: Session, key: bytes) -> Code:
            region = Region.unpack((yield from session.connection.call(Get, key=key)))
            if not region.length:
                return None
            return (yield from self.read_object(session, Location(region.offset, region.length)))

    class Server(KvServer):
        def __init__(self, scheme: Forca, node: Node, number: int) -> None:
            versions = len(scheme.sizes.objects) + scheme.sizes.updates
            self.meta_bytes = META_BYTES * (versions + 1)
            self.meta = node.memory["pm"].allocate(self.meta_bytes, "metadata", item_bytes=META_BYTES)
            super().__init__(scheme, node, number)

        @override
        def begin(self) -> None:
            super().begin()
            self.meta_tail = META_BYTES  # offset 0 is none

        @override
        def handlers(self) -> Mapping[type[Layout], Any]:
            return {Put: self.on_put, Get: self.on_get}

        def on_put(self, thread: Thread, request: Put) -> Code:
            return (yield from self.alone(thread, request.key, self.link_new(thread, request)))

        def link_new(self, thread: Thread, request: Put) -> Code:
            """Metadata and room, linked to the version before; all metadata is durable before the reply."""
            found = yield from self.index.look_up(thread, request.key)
            previous = found[1].offset if found[1] is not None else 0
            data = self.allocate(request.length)
            meta = Location(self.meta_tail, META_BYTES)
            self.meta_tail += META_BYTES
            block = metadata(request.key, previous, data.offset, request.length, request.crc)
            yield from thread.store(self.meta + meta.offset, block)
            yield from thread.flush(self.meta + meta.offset, META_BYTES)
            entry = yield from self.index.link(thread, request.key, found, meta)
            yield from thread.flush(entry, ENTRY_BYTES)
            return Region.pack(offset=data.offset, length=data.length)

        def on_get(self, thread: Thread, request: Get) -> Code:
            """The newest version that is whole, flushed before anybody is told where it is."""
            _, newest = yield from self.index.look_up(thread, request.key)
            at = newest.offset if newest is not None else 0
            while at:
                meta = Meta.unpack((yield from thread.load(self.meta + at, META_BYTES)))
                if (yield from self.persist(thread, meta)):
                    return Region.pack(offset=meta.data, length=meta.length)
                at = meta.previous
            return Region.pack(offset=0, length=0)

        def persist(self, thread: Thread, meta: Meta) -> Code:
            """Verify a value, and flush it if it is whole. Returns whether it is."""
            if not (yield from thread.crc32_matches(self.log + meta.data, meta.length, meta.crc)):
                return False
            yield from thread.flush(self.log + meta.data, meta.length)
            return True

        # after a failure, on the surviving bytes ------------------------------------------------------------------
        @override
        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            """One index entry: returns where metadata and log ended for it."""
            assert isinstance(unit, int)
            entry = Entry.unpack((yield from thread.load(self.index.address_of(unit), Entry.size)))
            newest = Location.unpack(entry.location)
            if newest is None:
                return 0, 0
            meta = Meta.unpack((yield from thread.load(self.meta + newest.offset, META_BYTES)))
            return newest.offset + META_BYTES, meta.data + meta.length

        @override
        def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
            self.meta_tail = max((end for end, _ in results), default=0) or META_BYTES
            yield from super().finish_recovery(thread, [end for _, end in results])
