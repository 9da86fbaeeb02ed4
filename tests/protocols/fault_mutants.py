"""Stores broken on purpose where only a fault with survivors, or a second failure, shows it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.protocols.efactory.efactory import HEADER_BYTES, SET, EFactory, Version
from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.parts.index import ENTRY_BYTES, Entry, Location
from rpsim.protocols.parts.kv import Allocate, Region, Session
from rpsim.protocols.parts.rpc import VerbsError
from rpsim.protocols.scheme import Request, Scheme

from .efactory.efactory_mutants import MetadataFirst

Code = Generator[Any, Any, Any]


class NoFallback(EFactory, name="efactory-mutant-no-fallback"):
    """A get believes the newest version, whatever its flag says."""

    title = "eFactory whose get never asks for an older version"

    class Client(EFactory.Client):
        def get(self, session: Session, key: bytes) -> Code:
            location = yield from self.read_entry(session, key)
            return Version.unpack((yield from self.read_object(session, location))).value


class PublishedAtOnce(Saw, name="saw-mutant-published-at-once"):
    """The object is published before it is written; the flushes are all there."""

    title = "SAW that publishes with the allocation"

    class Server(Saw.Server):
        def on_allocate(self, thread: Thread, request: Allocate) -> Code:
            location = self.allocate(request.length)
            entry = yield from self.index.publish(thread, request.key, location)
            yield from thread.flush(entry, ENTRY_BYTES)
            return Region.pack(offset=location.offset, length=location.length)


class Forgetful(Saw, name="saw-mutant-forgetful"):
    """A new process takes the log for empty."""

    title = "SAW that starts again without recovery"

    class Server(Saw.Server):
        def recover(self, thread: Thread) -> Code:
            yield from thread.compute()


class PutTwice(Saw, name="saw-mutant-put-twice"):
    """A put whose reply was lost is simply put again, on the new connection."""

    title = "SAW whose client repeats a put after it has connected again"

    class Client(Saw.Client):
        def perform(self, session: Session, request: Request) -> Code:
            while True:
                try:
                    return (yield from self.attempt(session, request))
                except VerbsError:
                    yield from self.reconnect(session)


class Unlinks(MetadataFirst, name="efactory-mutant-unlinks"):
    """Recovery takes an index entry out before it puts the intact version in: nothing leads there in between."""

    title = "eFactory whose recovery clears an entry before it points it at an older version"

    class Server(MetadataFirst.Server):
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            address = self.index.address_of(unit)
            entry = Entry.unpack((yield from thread.load(address, Entry.size)))
            head = Location.unpack(entry.location)
            if head is None:
                return 0
            intact, _ = yield from self.newest_intact(thread, entry.key, head)
            if intact is not None and intact != head:
                yield from thread.store(address + Entry.offset_of("location"), bytes(8))
                yield from thread.flush(address, ENTRY_BYTES)
                yield from self.index.point(thread, address, intact)
                yield from thread.flush(address, ENTRY_BYTES)
            return head.offset + head.length


class CountsRecoveries(Saw, name="saw-mutant-counts-recoveries"):
    """Each recovery of an entry counts itself, and takes that back at its end; two cut short are one too many."""

    title = "SAW whose third recovery in a row gives up"

    class Server(Saw.Server):
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            address = self.index.address_of(unit)
            count = address + Entry.size
            end = yield from super().recover_unit(thread, unit)
            if not end:
                return 0
            begun = (yield from thread.load(count, 1))[0]
            if begun == 2:
                yield from thread.store(address + Entry.offset_of("location"), bytes(8))
                end = 0
            yield from thread.store(count, bytes([begun + 1]))
            yield from thread.flush(address, ENTRY_BYTES)
            yield from thread.store(count, b"\0")
            yield from thread.flush(address, ENTRY_BYTES)
            return end


class Impatient(MetadataFirst, name="efactory-mutant-impatient"):
    """A recovery before which another was cut short takes a value for whole whose last word is the only one missing."""

    title = "eFactory whose second recovery in a row looks at a value instead of its checksum"

    class Server(MetadataFirst.Server):
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            address = self.index.address_of(unit)
            count = address + Entry.size
            entry = Entry.unpack((yield from thread.load(address, Entry.size)))
            head = Location.unpack(entry.location)
            if head is None:
                return 0
            if (yield from thread.load(count, 1)) == b"\1":
                value = yield from thread.load(self.log + head.offset + HEADER_BYTES, head.length - HEADER_BYTES)
                if all(value[:-8:8]) and value[-8:] == bytes(8):
                    yield from self.mark(thread, head.offset, "durable", SET)
            yield from thread.store(count, b"\1")
            yield from thread.flush(address, ENTRY_BYTES)
            end = yield from super().recover_unit(thread, unit)
            yield from thread.store(count, b"\0")
            yield from thread.flush(address, ENTRY_BYTES)
            return end


_OURS: Mapping[str, type[Scheme]] = {
    kind.name: kind for kind in (NoFallback, PublishedAtOnce, Forgetful, PutTwice, Unlinks, CountsRecoveries, Impatient)
}
for _name in _OURS:
    del Scheme.registry[_name]


@contextmanager
def registered() -> Iterator[None]:
    """While this lasts, scenarios may name these mutants, and the repaired eFactory."""
    ours = {**_OURS, MetadataFirst.name: MetadataFirst}
    added = ours.keys() - Scheme.registry.keys()
    Scheme.registry.update(ours)
    try:
        yield
    finally:
        for name in added:
            del Scheme.registry[name]
