"""eFactory repaired in one place, and then broken on purpose in others, one step at a time.

In the paper's order the index entry may become durable before the metadata that it points to (see
``test_efactory_mutants``), so that on ADR a store without further faults is refuted already. The mutants start from
the repaired store, which nothing refutes as long as no put is lost that nobody had read: what refutes them is theirs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from rpsim.models.cpu import Thread
from rpsim.protocols.efactory.efactory import HEADER_BYTES, SET, EFactory, Version
from rpsim.protocols.parts.index import ENTRY_BYTES, Entry, Location
from rpsim.protocols.scheme import Scheme

Code = Generator[Any, Any, Any]


class MetadataFirst(EFactory, name="efactory-metadata-first"):
    """Repaired: nothing points to metadata that is not durable yet."""

    title = "eFactory with the metadata flushed before the entry is updated"

    class Server(EFactory.Server):
        def publish(self, thread: Thread, key: bytes, found: Any, location: Location, header: bytes) -> Code:
            yield from thread.store(self.log + location.offset, header)
            yield from thread.flush(self.log + location.offset, HEADER_BYTES)
            entry = yield from self.index.link(thread, key, found, location)
            yield from thread.flush(entry, ENTRY_BYTES)


class CrcIgnored(MetadataFirst, name="efactory-mutant-crc-ignored"):
    """Whatever lies there is taken for the value."""

    title = "eFactory without the comparison of checksums"

    class Server(MetadataFirst.Server):
        def make_durable(self, thread: Thread, offset: int, version: Version) -> Code:
            yield from thread.flush(self.log + offset + HEADER_BYTES, version.vlen)
            yield from self.mark(thread, offset, "durable", SET)
            return True


class FlagFirst(MetadataFirst, name="efactory-mutant-flag-first"):
    """Both flushes are there, in the wrong order: for a while a durable flag promises a value that is not."""

    title = "eFactory with the flag set and flushed before the value"

    class Server(MetadataFirst.Server):
        def make_durable(self, thread: Thread, offset: int, version: Version) -> Code:
            value_at = self.log + offset + HEADER_BYTES
            if (yield from thread.crc32(value_at, version.vlen)) != version.crc:
                return False
            yield from self.mark(thread, offset, "durable", SET)
            yield from thread.flush(value_at, version.vlen)
            return True


class MetadataUnflushed(MetadataFirst, name="efactory-mutant-metadata-unflushed"):
    """The reply leaves with metadata and entry in the cache."""

    title = "eFactory without the flushes of metadata and index entry"

    class Server(MetadataFirst.Server):
        def publish(self, thread: Thread, key: bytes, found: Any, location: Location, header: bytes) -> Code:
            yield from thread.store(self.log + location.offset, header)
            yield from self.index.link(thread, key, found, location)


class NewestTrusted(MetadataFirst, name="efactory-mutant-newest-trusted"):
    """What an index entry points to must be right, thinks recovery, and sets its flag."""

    title = "eFactory whose recovery takes every newest version for intact"

    class Server(MetadataFirst.Server):
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            entry = Entry.unpack((yield from thread.load(self.index.address_of(unit), Entry.size)))
            head = Location.unpack(entry.location)
            if head is None:
                return 0
            yield from self.mark(thread, head.offset, "durable", SET)
            return head.offset + head.length


class HastyTimeout(MetadataFirst, name="efactory-mutant-hasty-timeout"):
    """A write that is under way is given up."""

    title = "eFactory with a time-out shorter than a write takes"
    chosen: ClassVar[dict[str, object]] = {"timeout": "500 ns"}


REPAIRED = MetadataFirst.name
MUTANTS: Mapping[str, type[EFactory]] = {
    mutant.name: mutant for mutant in (CrcIgnored, FlagFirst, MetadataUnflushed, NewestTrusted, HastyTimeout)
}
_OURS = {REPAIRED: MetadataFirst, **MUTANTS}
for _name in _OURS:
    del Scheme.registry[_name]


@contextmanager
def registered() -> Iterator[None]:
    """While this lasts, scenarios may name the repaired store and the mutants as they name any scheme."""
    added = _OURS.keys() - Scheme.registry.keys()
    Scheme.registry.update(_OURS)
    try:
        yield
    finally:
        for name in added:
            del Scheme.registry[name]
