"""Tailwind: a primary writes its log into backups' buffers by WRITE; their CPUs see a segment's first and last record.

Source: Taleb, Stutsman, Antoniu, Cortes, USENIX ATC'18 (abstract), and its re-implementation in the public code of the
RDMA Flush paper (CGCL-codes/PRDMA: dhmp_client.c:1447-1463, dhmp_server.c:264-286, dhmp.h:103). An RPC opens a buffer
at each backup, and carries the first record of a segment; the others go there by WRITE, each behind a head with its
size and a checksum; the last one closes the segment by RPC, and the backup may move it to storage. After a failure an
open buffer is scanned up to the first record whose checksum does not match.

What the sources leave open is read so. The buffers are in persistent memory, as the RDMA Flush paper (section 4.4.1)
has them; RAMCloud's are DRAM with a battery. The checksum is a CRC32 over the data (the public code sends the field and
never computes it); ``check`` beside it is the record's place in the log, which tells it from old bytes. A backup's CPU
flushes what an RPC brings, and the whole segment when it is closed: that stands for storage. The primary's log is in
DRAM; a primary that begins again waits for all backups that are not lost and has them scan, takes the longest replica
of each segment, completes the others and seals it. A backup that is lost is left out; one that comes back gets the open
segment again. The log's cleaner is left out: there is room for all updates of a run, and for the rest of a segment that
a primary leaves when it begins again, four times. A put for which there is no room left is refused, and has no effect.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ....models.cpu import Thread
from ....models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ....models.system import Node
from ....sim.bytespace import LINE_BYTES
from ...guarantees import Claims, Condition
from ...layout import Layout
from ...naming import Option
from ...parts.onesided import VerbsError
from ...parts.rpc import PATIENCE, Connection, Listener
from ...scheme import Request, Role, Scheme, Sizes
from ..calling import NO_ROOM, CallingClient, ObjectGet, ObjectPut
from .segments import (
    CLOSED,
    NONE,
    Backup,
    CloseSegment,
    LogGeometry,
    LogRecord,
    OpenSegment,
    ScanSegment,
    SealSegment,
    SegmentState,
)

Code = Generator[Any, Any, Any]


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
            self.requester = self.backup.service.connect(self.thread, self.node, patience=PATIENCE)
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
        "backups": Option(3, at_least=1, at_most=8, small=2, source="RAMCloud's usual number",
                          text="replicas of a segment"),
        "segment": Option(100, at_least=2, small=3, source="PRDMA, dhmp.h:103", text="records of a segment"),
        "closed": Option("trusted", choices=("trusted", "scanned"),
                         source="assumption: the abstract has open buffers scanned, and says nothing of closed ones",
                         text="whether closed segments are taken to be whole, or are scanned as well"),
    }  # fmt: skip
    Backup = Backup

    def __init__(self, *args: Any) -> None:
        sizes: Sizes = args[1]
        self.log = LogGeometry.of(sizes, int(self.option("segment")))
        super().__init__(*args)

    class Client(CallingClient):
        """A machine whose processes call the primary."""

        answering = "primary"

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
            self.listener = Listener(self.node, {ObjectPut: self.on_put, ObjectGet: self.on_get}, message_bytes=room)

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
        def on_get(self, thread: Thread, request: ObjectGet) -> Code:
            """Load the newest record's value; nothing where no backup had a record of the object after a failure."""
            if (place := self.index.get(request.number)) is None:
                return b""
            address = self.address(place) + LogRecord.size
            return (yield from thread.load(address, self.sizes.value_bytes))

        def on_put(self, thread: Thread, request: ObjectPut) -> Code:
            """Append a record here and at all backups, if there is room for it: there is no cleaner."""
            place, log = self.tail, self.scheme.log
            if place >= log.segments * log.segment:
                return NO_ROOM
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
                for link in failed:
                    yield from self.mend(thread, link, segment, turn)
                left = [link for link in failed if not link.lost]

        def mend(self, thread: Thread, link: BackupLink, segment: int, turn: int) -> Code:
            """Reach a backup again, and have it hold the open segment up to a record; it may fail meanwhile as well."""
            while True:
                yield from link.mend()
                if link.lost or not turn:
                    return
                try:
                    yield from self.repeat(thread, link, segment, turn)
                except (PrimitiveFailed, VerbsError) as error:
                    self.gone(link, error)
                else:
                    return

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
            """Segment by segment; from the first one on once more where a backup fails meanwhile."""
            self.reach(thread)
            segment, log = 0, self.scheme.log
            while segment < log.segments:
                try:
                    if not (yield from self.recover_segment(thread, segment)):
                        break
                    segment += 1
                    self.tail = segment * log.segment
                except (PrimitiveFailed, VerbsError) as error:
                    if not error.disconnected:
                        raise
                    for link in self.links:
                        yield from link.mend()
                    self.links = [link for link in self.links if not link.lost]
                    segment, self.tail, self.index = 0, 0, {}

        def recover_segment(self, thread: Thread, segment: int) -> Code:
            """Take a segment's longest replica, and have the others completed and sealed; False where there is none."""
            said, log = [], self.scheme.log
            for link in self.links:
                said.append(SegmentState.unpack((yield from link.calls.call(ScanSegment, segment=segment))))
            if all(one.state == NONE for one in said):
                return False
            records = max(one.records for one in said)
            best = next(link for link, one in zip(self.links, said, strict=True) if one.records == records)
            data = yield from best.calls.read(
                best.backup.buffer(segment), best.backup.key, max(1, records) * log.record_bytes
            )
            yield from thread.store(self.address(segment * log.segment), data)
            for link, one in zip(self.links, said, strict=True):
                if one.state != CLOSED or one.records < records:
                    yield from self.complete(link, segment, one.records, records, data)
            for turn in range(records):
                record = LogRecord.unpack(data[turn * log.record_bytes :][: LogRecord.size])
                self.index[record.number] = segment * log.segment + turn
            return True

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
