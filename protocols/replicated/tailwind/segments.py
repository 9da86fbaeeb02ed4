"""Segments of Tailwind's log, and the backups whose persistent memory has them."""

from __future__ import annotations

import zlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import override

from ....models.cpu import Thread
from ....models.persist.service import Service
from ....models.system import Node
from ....sim.bytespace import LINE_BYTES, round_up
from ...layout import U32, U64, WORD, Layout, Rest
from ...parts.rpc import Listener
from ...scheme import Role, Sizes

if TYPE_CHECKING:
    from .tailwind import Tailwind

Code = Generator[Any, Any, Any]
NONE, OPEN, CLOSED = 0, 1, 2
SPARE_SEGMENTS = 4
"""For primaries that begin again: each begins a segment of its own. After more of them puts may be refused."""


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
        record_bytes = round_up(LogRecord.size + sizes.value_bytes, WORD)
        segments = -(-len(sizes.objects) // segment) + -(-sizes.updates // segment) + SPARE_SEGMENTS
        return LogGeometry(record_bytes, segment, segments)

    @property
    def segment_bytes(self) -> int:
        """A buffer, in whole lines."""
        return round_up(self.record_bytes * self.segment)

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
        self.service = Service(self.scheme.primitive, self.node, slot_bytes=round_up(room + 64))
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
        records, scanned = said.records, self.scheme.option("closed") == "scanned"
        if said.state == OPEN or (said.state == CLOSED and scanned):
            records, most = 0, said.records if said.state == CLOSED else self.log.segment
            while records < most and (yield from self.is_whole(thread, request.segment * self.log.segment + records)):
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
