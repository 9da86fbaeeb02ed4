"""eFactory with log cleaning: live versions move to a second pool while the server goes on serving.

Source: Du et al., ICPP'21, section 4.4 and figure 7. The paper gives neither threshold nor recovery. Readings: cleaning
begins when less than a fifth of the pool is free; an offset counts over both pools, so that it says by itself what the
transfer flag says; one lock for all entries keeps their two offsets together; the newest version of a key is at the
offset that the mark does not name, if there is one there; what a failure interrupts begins anew at the next PUT; a pool
is free again only when no value may come any more into a version there, newest of its key or not: when each is durable
or has timed out; registering the pools is done beforehand; a tombstone is copied nowhere, and an entry of which nothing
else is left is free again.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Signal, Thread
from ...models.system import Node, System
from ..naming import Option, OptionValue
from ..parts.index import ENTRY_BYTES, Location
from ..parts.kv import Region, Session
from ..parts.pools import Pointers, PoolEntry, PoolIndex
from ..scheme import Sizes
from .efactory import CLEAR, HEADER_BYTES, EFactory, Put, Unverified, Version, is_tombstone, new_header

Code = Generator[Any, Any, Any]

NORMAL, COMPRESSING, MERGING = range(3)


class EFactoryCleaning(EFactory, name="efactory-cleaning"):
    """eFactory with two pools, and a third thread that cleans: compressing, then merging."""

    title = "eFactory with log cleaning: live versions move to a second pool in the background"
    section = "section 4.4, figure 7"
    Index = PoolIndex

    options: ClassVar[dict[str, Option]] = {
        "free-share": Option(
            0.2, at_least=0, at_most=1, source="assumption: the paper gives no number",
            text="cleaning begins when less of the working pool is free",
        ),
        "at-once": Option(
            False, source="figure 11 measures it while it cleans", text="whether cleaning begins with the run"
        ),
        "room": Option(
            0.5, at_least=0, source="assumption: some cleaning in every run",
            text="for which share of a run's updates a pool has room, beside what is loaded",
        ),
    }  # fmt: skip

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.free_share: float = self.option("free-share")
        super().__init__(system, sizes)

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        super().load(objects)
        server: EFactoryCleaning.Server = self.roles["server"][0]
        length = HEADER_BYTES + self.sizes.value_bytes
        server.tails[0] = max(server.tail, server.tails[0])  # placed all together, or one by one
        server.order = [Location(offset, length) for offset in range(64, server.tails[0], server.object_bytes)]

    class Client(EFactory.Client):
        @override
        def connect(self, thread: Thread) -> Session:
            server: EFactoryCleaning.Server = self.scheme.roles["server"][0]
            session = super().connect(thread)
            session.connection.expect_notices()
            session.connection.notice = server.stage
            return session

        @override
        def get(self, session: Session, key: bytes) -> Code:
            """By call and READ while the server cleans, else the hybrid read; again where a notice came meanwhile: a
            READ that was late, since it was repeated, may have found a pool that was used again.
            """
            connection = session.connection
            yield from connection.look_for_notices()
            while True:
                taken = connection.notices
                by_call = connection.notice != NORMAL
                found = yield from (self.ask_and_read(session, key) if by_call else super().get(session, key))
                yield from connection.look_for_notices()
                if connection.notices == taken:
                    return found

        @override
        def read_entry(self, session: Session, key: bytes) -> Code:
            found = yield from super().read_entry(session, key)
            return None if found is None else found.working

    class Server(EFactory.Server, cores=3):
        scheme: EFactoryCleaning
        index: PoolIndex

        def __init__(self, scheme: EFactoryCleaning, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.state = self.pm.allocate(64, "state")

        @override
        def bytes_of_log(self) -> int:
            """Two pools."""
            objects = len(self.sizes.objects) + max(8, int(self.sizes.updates * self.scheme.option("room")) + 1)
            self.pool_bytes = self.index.pool_bytes = 64 + self.object_bytes * objects
            return 2 * self.pool_bytes

        @override
        def begin(self) -> None:
            super().begin()
            self.stage, self.working = NORMAL, 0
            self.interrupted = False
            self.tails = [64, self.pool_bytes + 64]
            self.order: list[Location] = []
            """Versions in the working pool, in the order of its log; volatile, like all the others."""
            self._moved: list[Location] = []
            self.gaps: list[int] = []
            """Where the new pool of a cleaning that a failure interrupted has room in front of its tail, for a version
            each."""
            self._left: int | None = None
            """How many PUTs that cleaning has room for in its first stage; None: as many as the working pool has."""
            self._locked = False
            self._unlocked = Signal(self.system.clock)
            self._wanted = Signal(self.system.clock)
            self._more_room = Signal(self.system.clock)
            self._settled = Signal(self.system.clock)
            self._awaited: int | None = None
            """The pool that the cleaner frees once no version there waits to be verified."""
            self._starved = 0
            """Request threads that wait for room."""

        @override
        def start(self) -> None:
            super().start()
            cleaner = self.node.thread(self.sizes.threads + 1, f"{self.node.name} cleaner")
            self.node.process(self.node.name).start(self.clean(cleaner))
            if self.scheme.option("at-once"):
                self._wanted.set()

        @override
        def allocate(self, length: int) -> Location:
            if self._left is not None and self.stage == COMPRESSING:
                self._left -= 1
            return self.take(self.target, length)

        @override
        def on_put(self, thread: Thread, request: Put) -> Code:
            """As ever, into the pool that the stage has; wait for the next one where there is no room."""
            yield from self.lock_with_room(thread, HEADER_BYTES + request.vlen)
            reply = yield from super().on_put(thread, request)
            region = Region.unpack(reply)
            self.order.append(Location(region.offset, region.length))
            yield from self.unlock(thread)
            if self.interrupted or (self.stage == NORMAL and self.free() < self.scheme.free_share * self.pool_bytes):
                yield from thread.notify(self._wanted)
            return reply

        @override
        def publish(
            self,
            thread: Thread,
            key: bytes,
            found: tuple[int | None, Any],
            location: Location,
            header: bytes,
        ) -> Code:
            """The version before learns of the new one as well: only cleaning asks, and nobody flushes it."""
            yield from super().publish(thread, key, found, location, header)
            if found[1] is not None:
                yield from self.point(thread, found[1].offset, "next", location.offset)

        def point(self, thread: Thread, offset: int, field: str, to: int) -> Code:
            """Set a version's pointer to another one; returns its address."""
            address = self.log + offset + Version.offset_of(field)
            yield from thread.store(address, to.to_bytes(8, "little"))
            return address

        # pools --------------------------------------------------------------------------------------------------
        @property
        def target(self) -> int:
            """The pool that PUTs go to."""
            return 1 - self.working if self.stage == MERGING else self.working

        def take(self, pool: int, length: int) -> Location:
            """Room in a gap, or at a pool's tail. Raises MemoryError when it is full."""
            if self.gaps and pool != self.working:
                return Location(self.gaps.pop(0), length)
            location = Location(self.tails[pool], length)
            if location.offset + length > (pool + 1) * self.pool_bytes:
                raise MemoryError(f"pool {pool}: no room for {length} bytes")
            self.tails[pool] += rounded(length)
            return location

        def free(self) -> int:
            """Bytes that are left in the pool that PUTs go to."""
            if self._left == 0 and self.stage == COMPRESSING:
                return 0
            return (self.target + 1) * self.pool_bytes - self.tails[self.target]

        def lock_with_room(self, thread: Thread, length: int) -> Code:
            """Take the lock when there is room for so many bytes: another request thread may have been quicker."""
            while True:
                while self.free() < length:
                    yield from thread.notify(self._wanted)
                    self._starved += 1
                    yield from thread.wait(self._more_room)
                    self._starved -= 1
                    if self._starved and self.free() >= length:  # the cleaner wakes one of them, who wakes the next
                        yield from thread.notify(self._more_room)
                yield from self.lock(thread)
                if self.free() >= length:
                    return
                yield from self.unlock(thread)

        def lock(self, thread: Thread) -> Code:
            """Keep request threads and cleaner apart while one of them changes where a key points."""
            while self._locked:
                yield from thread.wait(self._unlocked)
            self._locked = True

        def unlock(self, thread: Thread) -> Code:
            """Let the other one go on."""
            self._locked = False
            yield from thread.notify(self._unlocked)

        # the cleaning thread --------------------------------------------------------------------------------------
        def clean(self, thread: Thread) -> Code:
            """Both stages, whenever the working pool runs full; clients read by call meanwhile.

            A client that has made no request in many cleanings has no room for more notices: its last one is that
            cleaning has begun, so it reads by call, and is told the stage behind the reply.
            """
            while True:
                yield from thread.wait(self._wanted)
                if self.stage != NORMAL and not self.interrupted:
                    continue
                self.interrupted = False
                yield from self.enter(thread, COMPRESSING, self.working)
                yield from self.listener.tell_all(thread, COMPRESSING)
                late = yield from self.compress(thread)
                yield from self.merge(thread, late)
                yield from self.listener.tell_all(thread, NORMAL, spare=1)

        def enter(self, thread: Thread, stage: int, working: int) -> Code:
            """A stage begins, and persistent memory knows."""
            self.stage, self.working = stage, working
            yield from thread.store(self.state, (stage << 1 | working).to_bytes(8, "little"))
            yield from thread.flush(self.state, 8)

        def compress(self, thread: Thread) -> Code:
            """Stage 1: from the tail backwards, copy the newest version of each key that is intact.

            Returns the versions that are not intact yet, newest first.
            """
            new = 1 - self.working
            scanned, self.order = self.order, []
            seen: set[bytes] = set()
            late = []
            for location in reversed(scanned):
                version = yield from self.load_header(thread, location.offset)
                if version.key in seen:
                    continue
                seen.add(version.key)
                intact: Location | None = location
                if not (yield from self.is_durable(thread, location.offset, version)):
                    late.append(location)
                    before = Location(version.previous, 0) if version.previous else None
                    intact, _ = yield from self.newest_intact(thread, version.key, before)
                if intact is None or self.index.pool_of(intact.offset) == new:
                    continue
                if is_tombstone(intact):
                    yield from self.drop(thread, version.key, intact)
                else:
                    yield from self.move(thread, version.key, intact, self.take(new, intact.length))
            return late

        def merge(self, thread: Thread, late: list[Location]) -> Code:
            """Stage 2: what came during stage 1 goes into a reservation, and PUTs behind it."""
            old, new = self.working, 1 - self.working
            yield from self.lock(thread)
            todo = [(location, self.take(new, location.length)) for location in (*reversed(self.order), *late)]
            self.order, self._left = [], None
            yield from self.enter(thread, MERGING, old)
            yield from self.unlock(thread)
            yield from thread.notify(self._more_room)
            looking, nothing = thread.looking(), Signal(self.system.clock)
            while todo:
                watched: list[tuple[int, int]] = []
                done: set[bytes] = set()  # of this pass alone: what still waits is newer than what an earlier one moved
                waiting = []
                for location, place in todo:
                    version = yield from self.load_header(thread, location.offset)
                    if version.key in done:
                        continue
                    newest = yield from self.newest_in_index(thread, version.key, new)
                    if newest is not None and (
                        yield from self.is_durable(
                            thread, newest.offset, (yield from self.load_header(thread, newest.offset))
                        )
                    ):
                        done.add(version.key)
                    elif is_tombstone(location):
                        yield from self.drop(thread, version.key, location)
                        done.add(version.key)
                    elif (yield from self.is_durable(thread, location.offset, version)):
                        yield from self.move(thread, version.key, location, place)
                        done.add(version.key)
                    elif version.valid:
                        waiting.append((location, place))
                        both = [location] if newest is None else [location, newest]
                        watched += [(self.log + one.offset, one.length) for one in both]
                        watched.append(self.index.neighbourhood(version.key))
                todo = waiting
                if todo:
                    yield from looking.again(watched, nothing, ())
            yield from self.until_settled(thread, old)
            yield from self.finish(thread, old, new)

        def until_settled(self, thread: Thread, pool: int) -> Code:
            """Wait until no version in a pool waits to be verified: a WRITE to one may be on its way until then."""
            self._awaited = pool
            while any(self.index.pool_of(unverified.offset) == pool for unverified in self._unverified):
                yield from thread.wait(self._settled)
            self._awaited = None

        def is_durable(self, thread: Thread, offset: int, version: Version) -> Code:
            """Whether a version is durable, or can be made so."""
            return version.durable or (version.valid and (yield from self.make_durable(thread, offset, version)))

        def newest_in_index(self, thread: Thread, key: bytes, new: int) -> Code:
            """Where a key's newest version lies, if it is in the new pool already; else None."""
            _, pointers = yield from self.index.look_up(thread, key)
            return pointers.newest if pointers is not None and self.index.pool_of(pointers.offset) == new else None

        def move(self, thread: Thread, key: bytes, source: Location, place: Location) -> Code:
            """Copy a version, durably, and let what points to it point to the copy: the entry, or the next version."""
            version = Version.unpack((yield from thread.load(self.log + source.offset, source.length)))
            header = new_header(key, version.vlen, version.crc, 0, durable=1)
            yield from thread.store(self.log + place.offset, header + version.value)
            yield from thread.flush(self.log + place.offset, place.length)
            yield from self.lock(thread)
            entry, pointers = yield from self.index.look_up(thread, key)
            if pointers is not None and pointers.offset == source.offset:
                yield from self.index.set(thread, entry, self.index.pool_of(place.offset), place)
                yield from thread.flush(entry, ENTRY_BYTES)
            elif newer := (yield from self.load_header(thread, source.offset)).next:
                address = yield from self.point(thread, newer, "previous", place.offset)
                yield from thread.flush(address, 8)
            self._moved.append(place)
            yield from self.unlock(thread)

        def drop(self, thread: Thread, key: bytes, tombstone: Location) -> Code:
            """Leave a tombstone behind; a newer version of its key is the first of its list then."""
            yield from self.lock(thread)
            _, pointers = yield from self.index.look_up(thread, key)
            newer = (yield from self.load_header(thread, tombstone.offset)).next
            if newer and pointers is not None and pointers.offset != tombstone.offset:
                address = yield from self.point(thread, newer, "previous", 0)
                yield from thread.flush(address, 8)
            yield from self.unlock(thread)

        def finish(self, thread: Thread, old: int, new: int) -> Code:
            """Drop the old offsets and then flip the marks, entry by entry; the old pool is free then.

            In this order: an old offset that the mark does not name would count as the newest. For the same reason a
            tombstone goes behind the old offset: what lies beneath it would be there again.
            """
            for slot in range(self.index.slots):
                address = self.index.address_of(slot)
                yield from self.lock(thread)
                _, pointers = self.index.says((yield from thread.load(address, PoolEntry.size)))
                if pointers is not None:
                    kept = yield from self.newest_in(thread, new, pointers.offset)
                    for pool in (old, new) if kept is None else (new, old):
                        yield from self.index.set(thread, address, pool, kept if pool == new else None)
                    yield from thread.store(address + PoolEntry.offset_of("mark"), new.to_bytes(8, "little"))
                    yield from thread.flush(address, ENTRY_BYTES)
                yield from self.unlock(thread)
            self.order, self._moved = [*self._moved, *self.order], []
            self.tails[old], self.gaps = old * self.pool_bytes + 64, []
            yield from self.enter(thread, NORMAL, new)

        def newest_in(self, thread: Thread, pool: int, offset: int) -> Code:
            """The first version of a list that lies in a pool; None if none does, or if the object is deleted."""
            while offset:
                version = yield from self.load_header(thread, offset)
                if not version.vlen:
                    return None
                if self.index.pool_of(offset) == pool:
                    return Location(offset, HEADER_BYTES + version.vlen)
                offset = version.previous
            return None

        @override
        def settle(self, thread: Thread, unverified: Unverified) -> Code:
            """As ever; and the cleaner learns of it if it waits for this pool."""
            settled = yield from super().settle(thread, unverified)
            if settled and self.index.pool_of(unverified.offset) == self._awaited:
                yield from thread.notify(self._settled)
            return settled

        # after a failure, on the surviving bytes ------------------------------------------------------------------
        @classmethod
        @override
        def opaque(cls) -> bool:
            """As one whole: cleaning goes on with what all entries together say."""
            return True

        @override
        def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
            """One index entry: point it at its newest intact version, in whichever pool; returns both."""
            assert isinstance(unit, int)
            state = int.from_bytes((yield from thread.load(self.state, 8)), "little")
            self.stage, self.working = state >> 1, state & 1
            self.interrupted = self.stage != NORMAL
            address = self.index.address_of(unit)
            key, pointers = self.index.says((yield from thread.load(address, PoolEntry.size)))
            if pointers is None:
                return None, None
            if self.interrupted and pointers.mark != self.working:
                pointers = yield from self.set_mark(thread, address, pointers)
            head = pointers.newest
            intact, passed = yield from self.newest_intact(thread, key, head)
            if intact is not None and intact != head:
                yield from self.index.link(thread, key, (address, pointers), intact)
                yield from thread.flush(address, ENTRY_BYTES)
            for offset in passed:
                yield from self.mark(thread, offset, "valid", CLEAR)
            return head, intact

        def set_mark(self, thread: Thread, address: int, pointers: Pointers) -> Code:
            """The working pool is what the state says, although cleaning was at its end for this entry."""
            yield from thread.store(address + PoolEntry.offset_of("mark"), self.working.to_bytes(8, "little"))
            yield from thread.flush(address, ENTRY_BYTES)
            return replace(pointers, mark=self.working)

        @override
        def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
            """Each pool ends behind the last version that an entry pointed to; stage 2 goes on as stage 1 would.

            What an interrupted cleaning had brought into the new pool is there already when it goes on; what lies
            between is nobody's, and the rest has to find room there.
            """
            yield from thread.compute()
            self.tails = [64, self.pool_bytes + 64]
            for location in [location for pair in results for location in pair if location is not None]:
                pool = self.index.pool_of(location.offset)
                self.tails[pool] = max(self.tails[pool], location.offset + rounded(location.length))
            live = [intact for _, intact in results if intact is not None]
            live.sort(key=lambda location: location.offset)
            self.order = [location for location in live if self.index.pool_of(location.offset) == self.working]
            self._moved = [location for location in live if self.index.pool_of(location.offset) != self.working]
            if self.interrupted:
                self.stage = COMPRESSING
                new = 1 - self.working
                self.gaps = list(self.gaps_between(self._moved, new * self.pool_bytes + 64, self.tails[new]))
                behind = ((new + 1) * self.pool_bytes - self.tails[new]) // self.object_bytes
                self._left = len(self.gaps) + behind - len(self.order)

        def gaps_between(self, live: Iterable[Location], start: int, end: int) -> Iterator[int]:
            """Where between two offsets the largest version finds room beside those that are live, in their order."""
            for location in (*live, Location(end, 0)):
                yield from range(start, location.offset - self.object_bytes + 1, self.object_bytes)
                start = location.offset + rounded(location.length)


class EFactoryWhileCleaning(EFactoryCleaning, name="efactory-while-cleaning"):
    """The same, cleaning from the beginning and, where there is much to copy, to the end of a run."""

    title = "eFactory as long as it cleans its log: what figure 11 measures"
    chosen: ClassVar[dict[str, OptionValue]] = {"at-once": True, "room": 1.0}


def rounded(length: int) -> int:
    """Bytes that an object takes in a pool: whole lines."""
    return -(-length // 64) * 64
