"""Erda: readers verify a checksum, and fall back to the version before; nothing is ever flushed but the index.

Source: Liu et al., "Write-Optimized and Consistent RDMA-based NVM Systems", arXiv 1906.08173, as compared by Du et al.,
ICPP'21, sections 5.3.3 and 7.2. Readings: an object begins with a line that names key, length and checksum; the two
offsets count in lines; a read that finds neither version whole fails; after a failure the server turns an entry back to
the older version where the newer one is broken, and gives up an entry of which neither is whole: its reads fail.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import System
from ..guarantees import ALWAYS, Claims, Condition
from ..layout import U32, Bytes, Layout, Rest
from ..naming import Option
from ..parts.index import ENTRY_BYTES, Bits, Entry, HashIndex, Location
from ..parts.kv import CLIENT_CRC, Allocate, KvClient, KvScheme, KvServer, Region, Session
from ..scheme import Limits, OperationFailed, Sizes

Code = Generator[Any, Any, Any]

_BITS = 31
_UNIT_BYTES = 64


class Checked(Layout):
    """An object in the log: checksum and length in one aligned word, which no power failure tears."""

    crc = U32()
    length = U32()
    key = Bytes(32)
    padding = Bytes(24)
    value = Rest()


def packed(key: bytes, value: bytes) -> bytes:
    """An object's bytes."""
    return Checked.pack(crc=zlib.crc32(value), length=len(value), key=key, padding=b"", value=value)


@dataclass(frozen=True)
class Versions:
    """The 8-byte atomic region of a bucket: a tag of one bit and the offsets of the two newest versions.

    Offsets in the log, 0 for none; the tag says which of the two fields is the newest. With the tag and no offset the
    bucket was given up: there were versions, and none is left.
    """

    newest: int
    older: int = 0
    tag: int = 0

    bits: ClassVar[Bits] = (("an offset, in lines", _BITS), ("another, in lines", _BITS), ("tag", 1), ("zero", 1))

    def pack(self) -> int:
        """The 8-byte word."""
        fields = self.newest // _UNIT_BYTES, self.older // _UNIT_BYTES
        return self.tag << 2 * _BITS | fields[1 - self.tag] << _BITS | fields[self.tag]

    @staticmethod
    def unpack(word: int) -> Versions | None:
        """The versions in a word; None for a free entry."""
        mask = (1 << _BITS) - 1
        fields = (word & mask) * _UNIT_BYTES, (word >> _BITS & mask) * _UNIT_BYTES
        tag = word >> 2 * _BITS & 1
        return Versions(fields[tag], fields[1 - tag], tag) if word else None

    def followed_by(self, offset: int) -> Versions:
        """With a newer version, in the place of the older one; where none is left, it is both."""
        return Versions(offset, self.newest or offset, 1 - self.tag)

    def turned_back(self) -> Versions:
        """With the tag flipped: the older one counts as the newest, and the next one takes the other's place."""
        return Versions(self.older, self.newest, 1 - self.tag)


GIVEN_UP = Versions(0, 0, 1)


class Buckets(HashIndex):
    """The index: what an entry says is which versions there are."""

    @classmethod
    @override
    def says(cls, entry: bytes) -> tuple[bytes, Versions | None]:
        found = Entry.unpack(entry)
        return found.key, Versions.unpack(found.location)


class Erda(KvScheme, name="erda"):
    """One call and one WRITE a PUT; two READs and a checksum a GET, and one READ more where the newest is not whole."""

    title = "publish, then write, never flush; readers verify a checksum and know one older version"
    paper = "Du et al., ICPP'21"
    section = "sections 5.3.3 and 7.2"
    claims: ClassVar[Claims] = {Condition.COMMITTED: ALWAYS}
    limits = Limits()  # its index has offsets only
    Object = Checked
    Index = Buckets

    options: ClassVar[dict[str, Option]] = {"client-crc": CLIENT_CRC}

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.client_pays_crc: bool = self.option("client-crc")
        super().__init__(system, sizes)

    @override
    def loaded_object(self, key: bytes, value: bytes) -> bytes:
        return packed(key, value)

    @override
    def loaded_entry(self, location: Location) -> Versions:
        return Versions(location.offset)

    class Client(KvClient):
        scheme: Erda

        @override
        def put(self, session: Session, key: bytes, value: bytes) -> Code:
            if self.scheme.client_pays_crc:
                yield from session.connection.thread.crc32_of(value)
            data = packed(key, value)
            region = yield from self.ask_for_room(session, key, len(data))
            yield from session.connection.write(self.server.log + region.offset, session.log_key, data)

        @override
        def get(self, session: Session, key: bytes) -> Code:
            """READ the bucket and the newest version; if that is not whole, the one before."""
            versions = yield from self.read_entry(session, key)
            if versions is None:
                return None
            for offset in filter(None, (versions.newest, versions.older)):
                value = yield from self.read_whole(session, key, offset)
                if value is not None:
                    return value
            if versions != GIVEN_UP and not versions.older:
                return None  # its first version has not come yet
            raise OperationFailed("neither version of the object is whole")

        def read_whole(self, session: Session, key: bytes, offset: int) -> Code:
            """READ an object, as many bytes as it may have; its value, None if it is not that of its checksum."""
            longest = Checked.size + self.sizes.value_bytes
            found = Checked.unpack((yield from self.read_object(session, Location(offset, longest))))
            value = found.value[: found.length]
            crc = yield from session.connection.thread.crc32_of(value)
            # A header whose first word is not there yet has length 0, and 0 is the checksum of nothing.
            return value if found.key == key and 0 < found.length == len(value) and found.crc == crc else None

    class Server(KvServer):
        @override
        def handlers(self) -> Mapping[type[Layout], Any]:
            return {Allocate: self.on_allocate}

        @override
        def on_allocate(self, thread: Thread, request: Allocate) -> Code:
            """The entry names the new version, durably, before a byte of it has come."""
            return (yield from self.alone(thread, request.key, self.name_new(thread, request)))

        def name_new(self, thread: Thread, request: Allocate) -> Code:
            """Room in the log, and the entry says so: the newest before is the older one now."""
            location = self.allocate(request.length)
            found = yield from self.index.look_up(thread, request.key)
            old = found[1]
            versions = Versions(location.offset) if old is None else old.followed_by(location.offset)
            entry = yield from self.index.link(thread, request.key, found, versions)
            yield from thread.flush(entry, ENTRY_BYTES)
            return Region.pack(offset=location.offset, length=location.length)

        # after a failure, on the surviving bytes ------------------------------------------------------------------
        @override
        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            """One bucket: turned back where only the older version is whole, given up where none is.

            Returns where the log ended for it.
            """
            assert isinstance(unit, int)
            address = self.index.address_of(unit)
            key, versions = self.index.says((yield from thread.load(address, Entry.size)))
            if versions is None or versions == GIVEN_UP:
                return 0
            if not (yield from self.is_whole(thread, key, versions.newest)):
                older = bool(versions.older) and (yield from self.is_whole(thread, key, versions.older))
                left = versions.turned_back() if older else GIVEN_UP
                yield from self.index.point(thread, address, left)
                yield from thread.flush(address, ENTRY_BYTES)
            return max(versions.newest, versions.older) + Checked.size + self.sizes.value_bytes

        def is_whole(self, thread: Thread, key: bytes, offset: int) -> Code:
            """Whether an object is that of its checksum."""
            head = Checked.unpack((yield from thread.load(self.log + offset, Checked.size)))
            if head.key != key or not 0 < head.length <= self.sizes.value_bytes:
                return False
            return (yield from thread.crc32_matches(self.log + offset + Checked.size, head.length, head.crc))
