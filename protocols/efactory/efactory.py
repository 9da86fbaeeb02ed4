"""eFactory: the client writes, nobody waits for durability; a background thread verifies, flushes and flags.

Source: Du et al., "Fast and Consistent Remote Direct Access to Non-volatile Memory", ICPP'21, sections 4.1 to 4.3. Its
log cleaning (section 4.4) is not here: the log only grows, and the fields of an object that serve cleaning alone stay
zero. The paper says that the version list is for recovery, not how recovery goes: it is the reading of this file. So is
DELETE, of which the paper says no more than that cleaning drops what was deleted: a PUT of no value. Its version, a
header alone, is a tombstone, whole and durable as soon as its metadata is, so that a DELETE that returned stays done.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Deadline, Signal, Thread
from ...models.system import System
from ..guarantees import ALWAYS, NO_FAULT, SERVER_CRASH, Claims, Condition
from ..layout import U32, U64, Bytes, Layout, Rest
from ..naming import Option
from ..parts.index import ENTRY_BYTES, Entry, Location
from ..parts.kv import CLIENT_CRC, KvClient, KvScheme, KvServer, Region, Session, key_bytes
from ..parts.rpc import Listener
from ..scheme import Sizes

Code = Generator[Any, Any, Any]

HEADER_BYTES = 64
SET = (1).to_bytes(4, "little")
CLEAR = bytes(4)


class Version(Layout):
    """An object in the log, one version of its key: a line of metadata, then the value on lines of its own.

    ``valid`` is last, so that a header of which a power failure left the beginning is not taken for a whole one.
    """

    key = Bytes(32)
    crc = U32()
    vlen = U32()
    previous = U64()
    """PrePTR: the offset in the log of the version before this one; 0 for the first."""
    next = U64()
    """NextPTR, and the bit Trans: for log cleaning."""
    durable = U32()
    """The durability flag: the value was verified and is durable."""
    valid = U32()
    """Cleared when the value has not come within the time-out."""
    value = Rest()
    """None in a tombstone."""


class Put(Layout):
    """Make room for a value, and this version the newest of its key; of length 0: a DELETE."""

    key = Bytes(32)
    vlen = U32()
    crc = U32()


class Get(Layout):
    """Where is the newest version that is intact? The reply is a :class:`Region`, of length 0 if there is none."""

    key = Bytes(32)


@dataclass(frozen=True)
class Unverified:
    """A version that the background thread has not seen whole yet."""

    offset: int
    length: int
    deadline: Deadline


def new_header(key: bytes, vlen: int, crc: int, previous: int, durable: int = 0) -> bytes:
    """The metadata of a new version."""
    return Version.pack(key=key, crc=crc, vlen=vlen, previous=previous, next=0, durable=durable, valid=1, value=b"")


def is_tombstone(location: Location) -> bool:
    """Whether a version is a header alone."""
    return location.length == HEADER_BYTES


class EFactory(KvScheme, name="efactory"):
    """One call and one WRITE a PUT; two READs a GET, and if the durability flag is clear a call and one more READ."""

    title = "write, then verify and flush in the background; readers look at a durability flag"
    paper = "Du et al., ICPP'21"
    section = "sections 4.1 to 4.3"
    claims: ClassVar[Claims] = {
        Condition.COMMITTED: ALWAYS,
        Condition.MONOTONIC: SERVER_CRASH,
        Condition.LINEARIZABLE: NO_FAULT,
    }
    Object = Version
    operations = ("put", "get", "delete")
    updates = frozenset({"put", "delete"})
    removals = frozenset({"delete"})

    options: ClassVar[dict[str, Option]] = {
        "timeout": Option(
            "10 s", quantity="time", source="public code of Forca (reference [2]); the paper gives none",
            text="how long after the server received a PUT its value may still come",
        ),
        "client-crc": CLIENT_CRC,
        "batch": Option(
            16, at_least=1, source="section 6.1: a batch of packets, which the others have not; assumption: how many",
            text="how many requests the request thread takes at a time",
        ),
    }  # fmt: skip

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.timeout: str = self.option("timeout")
        self.client_pays_crc: bool = self.option("client-crc")
        super().__init__(system, sizes)

    @override
    def loaded_object(self, key: bytes, value: bytes) -> bytes:
        return new_header(key, len(value), zlib.crc32(value), 0, durable=1) + value

    class Client(KvClient):
        scheme: EFactory

        @override
        def put(self, session: Session, key: bytes, value: bytes) -> Code:
            connection = session.connection
            crc = (yield from connection.thread.crc32_of(value)) if self.scheme.client_pays_crc else zlib.crc32(value)
            reply = yield from connection.call(Put, key=key, vlen=len(value), crc=crc)
            value_at = self.server.log + Region.unpack(reply).offset + HEADER_BYTES
            yield from connection.write(value_at, session.log_key, value)

        @override
        def delete(self, session: Session, key: bytes) -> Code:
            """A PUT without its WRITE: there is nothing to wait for but the metadata."""
            yield from session.connection.call(Put, key=key, vlen=0, crc=0)

        @override
        def get(self, session: Session, key: bytes) -> Code:
            """The hybrid read (section 4.3.3): READ and believe the flag, else have the server find a whole one."""
            location = yield from self.read_entry(session, key)
            if location is None:
                return None
            version = Version.unpack((yield from self.read_object(session, location)))
            return version.value or None if version.durable else (yield from self.ask_and_read(session, key))

        def ask_and_read(self, session: Session, key: bytes) -> Code:
            """The server says where the newest intact version lies, the client READs it."""
            region = Region.unpack((yield from session.connection.call(Get, key=key)))
            if not region.length:
                return None
            data = yield from self.read_object(session, Location(region.offset, region.length))
            return Version.unpack(data).value

    class Server(KvServer, cores=2):
        scheme: EFactory

        @override
        def open_listener(self) -> Listener:
            return Listener(self.node, self.handlers(), threads=self.sizes.threads, batch=self.scheme.option("batch"))

        @override
        def begin(self) -> None:
            super().begin()
            self._arrivals = Signal(self.system.clock)
            self._unverified: list[Unverified] = []  # volatile, in the order of the log

        @override
        def start(self) -> None:
            super().start()
            verifier = self.node.thread(self.sizes.threads, f"{self.node.name} verifier")
            self.node.process(self.node.name).start(self.verify_in_background(verifier))

        @override
        def handlers(self) -> Mapping[type[Layout], Any]:
            return {Put: self.on_put, Get: self.on_get}

        def on_put(self, thread: Thread, request: Put) -> Code:
            return self.alone(thread, request.key, self.link_new(thread, request))

        def link_new(self, thread: Thread, request: Put) -> Code:
            """Section 4.3.1, steps 2 to 4: fill in the metadata, update the index, persist all of it, reply."""
            deadline = thread.deadline(self.scheme.timeout)
            found = yield from self.index.look_up(thread, request.key)
            previous = found[1].offset if found[1] is not None else 0
            location = self.allocate(HEADER_BYTES + request.vlen)
            header = new_header(request.key, request.vlen, request.crc, previous)
            yield from self.publish(thread, request.key, found, location, header)
            self._unverified.append(Unverified(location.offset, location.length, deadline))
            yield from thread.notify(self._arrivals)
            return Region.pack(offset=location.offset, length=location.length)

        def publish(
            self,
            thread: Thread,
            key: bytes,
            found: tuple[int | None, Location | None],
            location: Location,
            header: bytes,
        ) -> Code:
            """In the paper's order: metadata, index entry, and only then are both persisted."""
            yield from thread.store(self.log + location.offset, header)
            entry = yield from self.index.link(thread, key, found, location)
            yield from thread.flush(self.log + location.offset, HEADER_BYTES)
            yield from thread.flush(entry, ENTRY_BYTES)

        def on_get(self, thread: Thread, request: Get) -> Code:
            """Section 4.3.3, steps 6 to 8."""
            _, head = yield from self.index.look_up(thread, request.key)
            intact, _ = yield from self.newest_intact(thread, request.key, head)
            found = intact if intact is not None and not is_tombstone(intact) else Location(0, 0)
            return Region.pack(offset=found.offset, length=found.length)

        # versions -----------------------------------------------------------------------------------------------
        def load_header(self, thread: Thread, offset: int) -> Code:
            """A version's metadata."""
            return Version.unpack((yield from thread.load(self.log + offset, HEADER_BYTES)))

        def newest_intact(self, thread: Thread, key: bytes, head: Location | None) -> Code:
            """Walk a version list until one is durable or can be made so: (its location or None, those passed over)."""
            passed: list[int] = []
            offset = head.offset if head is not None else 0
            while offset:
                version = yield from self.load_header(thread, offset)
                if version.key != key:
                    break  # no metadata of this key: the list ends here
                if version.durable or (version.valid and (yield from self.make_durable(thread, offset, version))):
                    return Location(offset, HEADER_BYTES + version.vlen), passed
                passed.append(offset)
                offset = version.previous
            return None, passed

        def make_durable(self, thread: Thread, offset: int, version: Version) -> Code:
            """Verify a value; if it is whole, flush it and then set the flag, durably. Returns whether it is whole."""
            value_at = self.log + offset + HEADER_BYTES
            if not (yield from thread.crc32_matches(value_at, version.vlen, version.crc)):
                return False
            yield from thread.flush(value_at, version.vlen)  # nothing of a tombstone, whose metadata was flushed before
            yield from self.mark(thread, offset, "durable", SET)
            return True

        def mark(self, thread: Thread, offset: int, field: str, value: bytes) -> Code:
            """Set or clear one of a version's marks, durably."""
            at = self.log + offset + Version.offset_of(field)
            yield from thread.store(at, value)
            yield from thread.flush(at, len(value))

        # the background thread ------------------------------------------------------------------------------------
        def verify_in_background(self, thread: Thread) -> Code:
            """Section 4.3.2: object by object in the order of the log; what is not whole yet is looked at again."""
            while True:
                yield from thread.wait(self._arrivals)
                looking = thread.looking()
                while self._unverified:
                    for unverified in tuple(self._unverified):
                        if (yield from self.settle(thread, unverified)):
                            self._unverified.remove(unverified)
                    left = [(self.log + unverified.offset, unverified.length) for unverified in self._unverified]
                    deadlines = [unverified.deadline for unverified in self._unverified]
                    yield from looking.again(left, self._arrivals, deadlines)

        def settle(self, thread: Thread, unverified: Unverified) -> Code:
            """Whether a version needs no more looking at: it is durable, or it has timed out and is invalid."""
            version = yield from self.load_header(thread, unverified.offset)
            if version.durable or (yield from self.make_durable(thread, unverified.offset, version)):
                return True
            if unverified.deadline.passed:
                yield from self.mark(thread, unverified.offset, "valid", CLEAR)
                return True
            return False

        # after a failure, on the surviving bytes ------------------------------------------------------------------
        @override
        def units_of(self, object: Hashable) -> Iterable[Hashable]:
            key = key_bytes(object)
            slot = self.index.slot_of_loaded(key)
            return self.index.slots_of(key) if slot is None else (slot,)

        @override
        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            """One index entry: point it at its newest intact version; returns where the log ended for it, 0 if free.

            Every version whose room a client was told has a durable entry, so the last of them ends the log.
            """
            assert isinstance(unit, int)
            address = self.index.address_of(unit)
            entry = Entry.unpack((yield from thread.load(address, Entry.size)))
            head = Location.unpack(entry.location)
            if head is None:
                return 0
            intact, passed = yield from self.newest_intact(thread, entry.key, head)
            if intact is not None and intact != head:
                yield from self.index.point(thread, address, intact)
                yield from thread.flush(address, ENTRY_BYTES)
            for offset in passed:
                yield from self.mark(thread, offset, "valid", CLEAR)
            return head.offset + head.length
