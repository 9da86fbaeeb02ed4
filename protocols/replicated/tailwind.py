"""Tailwind: a primary writes its log into backups' buffers by WRITE; their CPUs see a segment's first and last record.

Source: Taleb, Stutsman, Antoniu, Cortes, USENIX ATC'18 (abstract), and its re-implementation in the public code of the
RDMA Flush paper (CGCL-codes/PRDMA: dhmp_client.c:1447-1463, dhmp_server.c:264-286, dhmp.h:103). An RPC opens a buffer
at each backup, and carries the first record of a segment; the others go there by WRITE, each behind a head with its
size and a checksum; the last one closes the segment by RPC, and the backup may move it to storage. After a failure an
open buffer is scanned up to the first record whose checksum does not match.

What the sources leave open is read so. The buffers are in persistent memory, as the RDMA Flush paper (section 4.4.1)
has them; RAMCloud's are DRAM with a battery. The checksum is a CRC32 over the data (the public code sends the field
and never computes it); ``check`` beside it is the record's place in the log, which tells it from old bytes. A
backup's CPU flushes what an RPC brings, and the whole segment when it is closed: that stands for storage. The primary's
log is in DRAM; a primary that begins again has the backups scan, takes the longest replica of each segment, completes
the others and seals it. A backup that is lost is left out; one that comes back gets the open segment again. The log's
cleaner is left out: there is room for all updates of a run.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Hashable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ...models.cpu import Thread
from ...models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ...models.persist.service import Service
from ...models.system import Node
from ...sim.bytespace import LINE_BYTES
from ..guarantees import Claims, Condition
from ..layout import U32, U64, Layout, Rest
from ..naming import Option
from ..parts.onesided import VerbsError
from ..parts.rpc import Connection, Listener
from ..scheme import OutcomeUnknown, Request, Role, Scheme, Sizes

Code = Generator[Any, Any, Any]
PATIENCE = "10 ms"
"""After what time without a reply a client looks whether the primary is still there. Assumption: no call takes so long.
"""
WORD = 8
NONE, OPEN, CLOSED = 0, 1, 2
SPARE_SEGMENTS = 4
"""For primaries that begin again: each begins a segment of its own."""


class LogRecord(Layout):
    """A record of the log."""

    size = U64()
    check = U32()
    checksum = U32()
    number = U64()
    value = Rest()


HEAD = LogRecord.size - WORD


class SegmentState(Layout):
    """A word: what a segment is, and how many records it has once it is closed."""

    state = U32()
    records = U32()


class Put(Layout):
    """Write an object; the reply says nothing."""

    number = U32()
    value = Rest()


class Get(Layout):
    """Read an object: the reply."""

    number = U32()


class OpenSegment(Layout):
    """Open a buffer for a segment, and put its first record there."""

    segment = U32()
    record = Rest()


class CloseSegment(Layout):
    """Put a segment's last record there, and close it."""

    segment = U32()
    record = Rest()


class ScanSegment(Layout):
    """Say of a segment what it is and how many whole records it begins with."""

    segment = U32()


class SealSegment(Layout):
    """Close a segment that has so many records."""

    segment = U32()
    records = U32()


class LogGeometry(NamedTuple):
    """The sizes of the log."""

    record_bytes: int
    segment: int
    """Records of a segment."""
    segments: int

    @staticmethod
    def of(sizes: Sizes, segment: int) -> LogGeometry:
        """For what a system is formatted for."""
        record_bytes = -(-(LogRecord.size + sizes.value_bytes) // WORD) * WORD
        segments = -(-len(sizes.objects) // segment) + -(-sizes.updates // segment) + SPARE_SEGMENTS
        return LogGeometry(record_bytes, segment, segments)

    @property
    def segment_bytes(self) -> int:
        """A buffer, in whole lines."""
        return -(-self.record_bytes * self.segment // LINE_BYTES) * LINE_BYTES

    def record(self, place: int, number: int, value: bytes) -> bytes:
        """The record at a place of the log."""
        checksum = zlib.crc32(number.to_bytes(WORD, "little") + value)
        record = LogRecord.pack(
            size=len(value), check=place + 1 & 0xFFFFFFFF, checksum=checksum, number=number, value=value
        )
        return record.ljust(self.record_bytes, b"\0")


class Backup(Role, memory=("dram", "pm"), cores=2, counted_by="backups"):
    """A machine with buffers; its CPU opens, closes and scans them."""

    scheme: Tailwind

    def __init__(self, scheme: Tailwind, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.log = scheme.log
        self.states = self.pm.allocate(LINE_BYTES * self.log.segments, "states", item_bytes=LINE_BYTES, align=4096)
        self.buffers = self.pm.allocate(
            self.log.segment_bytes * self.log.segments, "buffers", item_bytes=self.log.record_bytes, align=4096
        )

    @override
    def begin(self) -> None:
        room = self.log.record_bytes + 64
        self.service = Service(self.scheme.primitive, self.node, slot_bytes=-(-(room + 64) // 64) * 64)
        self.listener = Listener(
            self.node,
            {
                OpenSegment: self.on_open,
                CloseSegment: self.on_close,
                ScanSegment: self.on_scan,
                SealSegment: self.on_seal,
            },
            message_bytes=room,
        )
        self.key = self.listener.register(self.buffers, self.log.segment_bytes * self.log.segments).key

    @override
    def start(self) -> None:
        process = self.node.process(self.node.name)
        if self in self.scheme.failed("backup"):
            self.service.register(self.buffers, self.log.segment_bytes * self.log.segments)
        process.start(self.listener.serve(self.node.thread(0, self.node.name)))
        if self.service.needs_thread:
            process.start(self.service.serve(self.node.thread(1, f"{self.node.name} primitive")))
        self.listener.listen()

    def buffer(self, segment: int) -> int:
        """Where a segment lies."""
        return self.buffers + segment * self.log.segment_bytes

    def place(self, place: int) -> int:
        """Where a record lies."""
        segment, turn = divmod(place, self.log.segment)
        return self.buffer(segment) + turn * self.log.record_bytes

    # calls ------------------------------------------------------------------------------------------------------------
    def on_open(self, thread: Thread, request: OpenSegment) -> Code:
        """Register a buffer, put the first record there, durable, and note that it is open."""
        yield from self.open(thread, request.segment)
        yield from self.keep(thread, self.buffer(request.segment), request.record)
        yield from self.note(thread, request.segment, OPEN, 0)
        return b"open"

    def open(self, thread: Thread, segment: int) -> Code:
        """Register a segment's buffer for WRITEs."""
        yield from self.service.register_by(thread, self.buffer(segment), self.log.segment_bytes)

    def on_close(self, thread: Thread, request: CloseSegment) -> Code:
        """Put the last record there, and close the segment."""
        last = self.place((request.segment + 1) * self.log.segment - 1)
        yield from thread.store(last, request.record)
        yield from self.close(thread, request.segment, self.log.segment)
        return b"closed"

    def on_seal(self, thread: Thread, request: SealSegment) -> Code:
        """Close a segment that a primary has completed which begins again."""
        yield from self.close(thread, request.segment, request.records)
        return b"closed"

    def close(self, thread: Thread, segment: int, records: int) -> Code:
        """Have a segment last, as storage would, and note that it is closed."""
        yield from thread.flush(self.buffer(segment), max(1, records) * self.log.record_bytes)
        yield from self.note(thread, segment, CLOSED, records)

    def on_scan(self, thread: Thread, request: ScanSegment) -> Code:
        """What a segment is, and how many records it has."""
        said = SegmentState.unpack((yield from thread.load(self.states + request.segment * LINE_BYTES, WORD)))
        records = said.records
        if said.state == OPEN:
            records = 0
            while records < self.log.segment and (
                yield from self.is_whole(thread, request.segment * self.log.segment + records)
            ):
                records += 1
        return SegmentState.pack(state=said.state, records=records)

    def is_whole(self, thread: Thread, place: int) -> Code:
        """Whether the record at a place has the checksum that its head says."""
        address, value_bytes = self.place(place), self.sizes.value_bytes
        data = yield from thread.load(address, HEAD)
        head = LogRecord.unpack(data.ljust(LogRecord.size, b"\0"))
        if head.size != value_bytes or head.check != place + 1 & 0xFFFFFFFF:
            return False
        return (yield from thread.crc32_matches(address + HEAD, WORD + value_bytes, head.checksum))

    def keep(self, thread: Thread, address: int, data: bytes) -> Code:
        """Store bytes and flush them."""
        yield from thread.store(address, data)
        yield from thread.flush(address, len(data))

    def note(self, thread: Thread, segment: int, state: int, records: int) -> Code:
        """Write down what a segment is."""
        return self.keep(thread, self.states + segment * LINE_BYTES, SegmentState.pack(state=state, records=records))


class BackupLink:
    """The primary's way to one backup."""

    def __init__(self, thread: Thread, node: Node, backup: Backup) -> None:
        self.thread = thread
        self.node = node
        self.backup = backup
        self.connect()

    def connect(self) -> None:
        """New queue pairs."""
        self.broken = False
        self.requester: PrimitiveRequester | None = None
        room = self.backup.log.segment_bytes
        self.calls: Connection = self.backup.listener.accept(self.thread, self.node, room, PATIENCE)

    @property
    def lost(self) -> bool:
        """Whether the backup is gone for good, and the primary has found out."""
        return self.broken and self.backup in self.backup.scheme.lost("backup")

    def post(self, place: int, record: bytes) -> Code:
        """Begin to write records from a place on; returns the ticket."""
        if self.requester is None:
            self.requester = self.backup.service.connect(self.thread, self.node)
        return (yield from self.requester.post([(self.backup.place(place), record)]))

    def wait(self, ticket: Any) -> Code:
        """Wait until the primitive has ended for a ticket."""
        assert self.requester is not None
        return self.requester.wait(ticket)

    def mend(self) -> Code:
        """Wait until the backup is there again, and connect; nothing for one that is lost."""
        self.broken = True
        if not self.lost:
            yield from self.backup.listener.until_listening(self.thread)
            self.connect()


class Tailwind(Scheme, name="tailwind"):
    """A put is one call to the primary and, in it, a WRITE to each backup; two calls to each a segment."""

    title = "Tailwind: WRITEs into the open buffers of backups whose CPUs stay idle, checksums against what is torn"
    paper = "Taleb et al., ATC'18 (Tailwind)"
    section = "abstract; RDMA Flush, section 4.4.1, and its public code"
    operations = ("put", "get")
    updates = frozenset({"put"})
    over = "no-flush"
    claims: ClassVar[Claims] = {
        Condition.COMMITTED: "primary power; primary process; backup power; backup lost; all power",
    }
    faults: ClassVar = {
        "primary": ("power", "process"), "backup": ("power", "lost"), "client": ("power", "process"), "all": ("power",),
    }  # fmt: skip
    options: ClassVar[dict[str, Option]] = {
        "backups": Option(3, at_least=1, at_most=8, source="RAMCloud's usual number", text="replicas of a segment"),
        "segment": Option(100, at_least=2, source="PRDMA, dhmp.h:103", text="records of a segment"),
    }  # fmt: skip
    Backup = Backup

    def __init__(self, *args: Any) -> None:
        sizes: Sizes = args[1]
        self.log = LogGeometry.of(sizes, int(self.option("segment")))
        super().__init__(*args)

    class Client(Role, invokes=True):
        """A machine whose processes call the primary."""

        scheme: Tailwind

        @override
        def connect(self, thread: Thread) -> list[Connection]:
            return [self.connection(thread)]

        def connection(self, thread: Thread) -> Connection:
            """A connection to the primary's process of now."""
            primary: Tailwind.Primary = self.scheme.roles["primary"][0]
            return primary.listener.accept(thread, self.node, 64, PATIENCE)

        @override
        def perform(self, session: list[Connection], request: Request) -> Code:
            """Of a put that was cut short nobody knows; a get is repeated with the primary that begins again."""
            value, number = request.step.value, self.sizes.objects.index(request.step.object)
            while True:
                try:
                    if value is None:
                        return (yield from session[0].call(Get, number=number))
                    yield from session[0].call(Put, number=number, value=value)
                    return None
                except VerbsError as error:
                    if not error.disconnected:
                        raise
                    thread = session[0].thread
                    yield from self.scheme.roles["primary"][0].listener.until_listening(thread)
                    session[0] = self.connection(thread)
                    if value is not None:
                        raise OutcomeUnknown(str(error)) from error

    class Primary(Role, memory=("dram",)):
        """The machine that answers clients; its log is in DRAM."""

        scheme: Tailwind

        def __init__(self, scheme: Tailwind, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.dram = node.memory["dram"]
            self.own = self.dram.allocate(scheme.log.segment_bytes * scheme.log.segments, "log")

        @override
        def begin(self) -> None:
            self.tail = 0
            self.index: dict[int, int] = {}
            """By object: the place of its newest record."""
            self.links: list[BackupLink] = []
            room = 64 + self.sizes.value_bytes
            self.listener = Listener(self.node, {Put: self.on_put, Get: self.on_get}, message_bytes=room)

        @override
        def start(self) -> None:
            thread = self.node.thread(0, self.node.name)
            if not self.links:
                self.reach(thread)
            self.node.process(self.node.name).start(self.listener.serve(thread))
            self.listener.listen()

        def reach(self, thread: Thread) -> None:
            """Connect to the backups."""
            backups = [one for one in self.scheme.roles["backup"] if one not in self.scheme.lost("backup")]
            self.links = [BackupLink(thread, self.node, backup) for backup in backups]

        def address(self, place: int) -> int:
            """Where a record lies in the primary's own log."""
            segment, turn = divmod(place, self.scheme.log.segment)
            return self.own + segment * self.scheme.log.segment_bytes + turn * self.scheme.log.record_bytes

        # requests -----------------------------------------------------------------------------------------------------
        def on_get(self, thread: Thread, request: Get) -> Code:
            """Load the newest record's value."""
            address = self.address(self.index[request.number]) + LogRecord.size
            return (yield from thread.load(address, self.sizes.value_bytes))

        def on_put(self, thread: Thread, request: Put) -> Code:
            """Append a record here and at all backups."""
            place, log = self.tail, self.scheme.log
            if place >= log.segments * log.segment:
                raise MemoryError("log: no room for a record, and there is no cleaner")
            record = log.record(place, request.number, request.value)
            yield from thread.crc32_of(record[: LogRecord.size + len(request.value)])
            yield from thread.store(self.address(place), record)
            yield from self.replicate(thread, place, record)
            self.tail, self.index[request.number] = place + 1, place
            return b"replicated"

        def replicate(self, thread: Thread, place: int, record: bytes) -> Code:
            """Have all backups hold a record; returns when the primitive has ended for all, or the call."""
            segment, turn = divmod(place, self.scheme.log.segment)
            left = [link for link in self.links if not link.lost]
            while left:
                if turn == 0:
                    failed = yield from self.call_all(left, OpenSegment, segment=segment, record=record)
                elif turn == self.scheme.log.segment - 1:
                    failed = yield from self.call_all(left, CloseSegment, segment=segment, record=record)
                else:
                    failed = yield from self.write_all(left, place, record)
                left = []
                for link in failed:
                    yield from link.mend()
                    left += [] if link.lost else [link]
                    if not link.lost and turn:
                        yield from self.repeat(thread, link, segment, turn)

        def write_all(self, links: list[BackupLink], place: int, record: bytes) -> Code:
            """WRITE a record to backups, on the way together; returns those that are gone."""
            tickets, failed = [], []
            for link in links:
                try:
                    tickets.append((link, (yield from link.post(place, record))))
                except PrimitiveFailed as error:
                    failed += self.gone(link, error)
            for link, ticket in tickets:
                try:
                    yield from link.wait(ticket)
                except PrimitiveFailed as error:
                    failed += self.gone(link, error)
            return failed

        def call_all(self, links: list[BackupLink], kind: type[Layout], **fields: Any) -> Code:
            """Call backups, one after the other; returns those that are gone."""
            failed = []
            for link in links:
                try:
                    yield from link.calls.call(kind, **fields)
                except VerbsError as error:
                    failed += self.gone(link, error)
            return failed

        def gone(self, link: BackupLink, error: PrimitiveFailed | VerbsError) -> list[BackupLink]:
            """The link, where the error says that its backup is gone; raises it where it says anything else."""
            if not error.disconnected:
                raise error
            return [link]

        def repeat(self, thread: Thread, link: BackupLink, segment: int, records: int) -> Code:
            """A backup that comes back gets the open segment again, as far as it goes."""
            log, first = self.scheme.log, segment * self.scheme.log.segment
            data = yield from thread.load(self.address(first), records * log.record_bytes)
            yield from link.calls.call(OpenSegment, segment=segment, record=data[: log.record_bytes])
            for turn in range(1, records):
                piece = data[turn * log.record_bytes : (turn + 1) * log.record_bytes]
                yield from link.wait((yield from link.post(first + turn, piece)))

        # after a failure ----------------------------------------------------------------------------------------------
        @override
        def recover(self, thread: Thread) -> Code:
            """Segment by segment the longest replica; what was open is completed at the others, and sealed."""
            self.reach(thread)
            log = self.scheme.log
            for segment in range(log.segments):
                said = []
                for link in self.links:
                    said.append(SegmentState.unpack((yield from link.calls.call(ScanSegment, segment=segment))))
                if all(one.state == NONE for one in said):
                    break
                records = max(one.records for one in said)
                best = next(link for link, one in zip(self.links, said, strict=True) if one.records == records)
                data = yield from best.calls.read(
                    best.backup.buffer(segment), best.backup.key, max(1, records) * log.record_bytes
                )
                yield from thread.store(self.address(segment * log.segment), data)
                for link, one in zip(self.links, said, strict=True):
                    if one.state != CLOSED:
                        yield from self.complete(link, segment, one.records, records, data)
                for turn in range(records):
                    record = LogRecord.unpack(data[turn * log.record_bytes :][: LogRecord.size])
                    self.index[record.number] = segment * log.segment + turn
                self.tail = (segment + 1) * log.segment

        def complete(self, link: BackupLink, segment: int, there: int, records: int, data: bytes) -> Code:
            """Have a backup hold a segment's records as another one does, and seal it."""
            size = self.scheme.log.record_bytes
            if there == 0:
                yield from link.calls.call(OpenSegment, segment=segment, record=data[:size])
            for turn in range(max(1, there), records):
                place = segment * self.scheme.log.segment + turn
                yield from link.wait((yield from link.post(place, data[turn * size : (turn + 1) * size])))
            yield from link.calls.call(SealSegment, segment=segment, records=records)

    @override
    def recovery(self) -> Iterator[Role]:
        """Backups begin; a primary that comes back asks them then. Backups that come back alone have nothing to do."""
        lost = self.lost("backup")
        yield from (one for one in self.failed("backup") if one not in lost)
        yield from self.failed("primary")

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names, log = self.sizes.objects, self.log
        primary: Tailwind.Primary = self.roles["primary"][0]

        def line_of(start: int, line: int) -> bytes:
            found, offset = b"", line * LINE_BYTES - start
            segment, inside = divmod(offset, log.segment_bytes)
            turn = inside // log.record_bytes
            skip = inside - turn * log.record_bytes
            while len(found) < LINE_BYTES + skip:
                place = segment * log.segment + turn
                there = turn < log.segment and place < len(objects)
                found += log.record(place, place, objects[names[place]]) if there else bytes(log.record_bytes)
                turn += 1
            return found[skip : skip + LINE_BYTES]

        used = -(-len(objects) // log.segment)
        for backup in self.roles["backup"]:
            start = backup.buffers - backup.pm.base
            backup.pm.space.compute(start, used * log.segment_bytes, partial(line_of, start))
            for segment in range(used):
                records = min(log.segment, len(objects) - segment * log.segment)
                state = SegmentState.pack(state=CLOSED, records=records)
                backup.pm.space.poke(backup.states + segment * LINE_BYTES - backup.pm.base, state)
        start = primary.own - primary.dram.base
        primary.dram.space.compute(start, used * log.segment_bytes, partial(line_of, start))
        primary.index = {number: number for number in range(len(objects))}
        primary.tail = used * log.segment

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)
