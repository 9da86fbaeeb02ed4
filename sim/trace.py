"""The trace of a run as a partial order: each write, how far it got in this timing, and the events that forced it on.

A *chunk* is one write of one writer: a TLP of a DMA write, a store to one line. It goes through five *stages*
(which place each one is depends on its path: ``models.durability.places``). ``reached_ps`` says when it was where in
this timing. That alone proves nothing about another timing: a move that nothing forced may happen arbitrarily late. So
the trace also records the *ordering edges*: from which instant on a chunk was certainly at a stage or beyond, because
an agent observed an effect that is ordered behind it (``models.durability.ordering`` has the rules).

Chunks of one *channel* (a queue pair at the responder, the store buffer of a core) move in order, unless the channel
is unordered. A chunk may also be *behind* the first chunks of other channels: it is visible only if they are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from .bytespace import LINE_BYTES, lines

NEVER = 1 << 62
"""Later than any instant."""
RELEASE = "atomic-write-releases"
"""The rule (``models.durability.rules``) behind the edges of ``Chunk.behind``, unless the channel names another."""
ChannelPrefixes = tuple[tuple[int, int], ...]
"""Chunks of several channels: (channel, how many of its first chunks) pairs."""


class Stage(IntEnum):
    """How far a chunk is: taken in, on its way, visible to coherent reads, in the memory's queue, on the medium."""

    ACCEPTED = 0
    TRANSIT = 1
    VISIBLE = 2
    QUEUED = 3
    STORED = 4


# What most chunks have, shared: they are never forced one by one, and never flushed.
_UNFORCED: Sequence[int] = (NEVER,) * 5


class _Unflushed(dict[int, int]):
    """An empty mapping with a hash, as defaults must have."""

    __hash__ = object.__hash__  # type: ignore[assignment]


_UNFLUSHED: Mapping[int, int] = _Unflushed()


@dataclass(slots=True, eq=False)
class Chunk:
    """Bytes written at once; ``position`` is its index in its channel, ``address`` is within its device."""

    number: int
    device: int
    channel: int
    position: int
    address: int
    data: bytes
    path: str
    writer: str
    reached_ps: list[int]
    """By stage, in this timing; NEVER where it did not get."""
    forced_ps: Sequence[int] = _UNFORCED
    """By stage: from when on it was certainly there or beyond."""
    forced_by: str = ""
    """The rule by which it was first certainly visible."""
    flushed_ps: Mapping[int, int] = _UNFLUSHED
    """By line: from when on a completed flush had certainly put this line of it into the memory's queue."""
    behind: ChannelPrefixes = ()
    """Release edges: this chunk is visible only if those are."""

    kept_ps: int = 0
    """Until when whoever accepted it keeps it for certain: before that it is nowhere else, however fast others are."""

    def force(self, stage: Stage, at_ps: int, rule: str) -> None:
        """It is certainly at ``stage`` (hence at all before it) from ``at_ps`` on."""
        forced_ps = list(self.forced_ps)
        for earlier in range(stage + 1):
            if at_ps < forced_ps[earlier]:
                forced_ps[earlier] = at_ps
                if earlier == Stage.VISIBLE:
                    self.forced_by = rule
        self.forced_ps = forced_ps

    def flush(self, line: int, at_ps: int) -> None:
        """This line of it is certainly in the memory's queue from ``at_ps`` on: a completed flush has said so."""
        self.flushed_ps = {**self.flushed_ps, line: min(at_ps, self.flushed_ps.get(line, NEVER))}


@dataclass(slots=True)
class Channel:
    """A first-in first-out way to memory; ``ordered`` is False where its chunks may overtake each other.

    An unordered channel still keeps the order of chunks that meet in one line, unless it is ``loose``.
    """

    name: str
    ordered: bool
    loose: bool = False
    versions: bool = False
    """Its chunks are versions of one unit that a device writes whole: what survives of them is a prefix, wherever the
    persistence domain begins."""
    whole: bool = False
    """None of its chunks is ever torn."""
    release: str = RELEASE
    """The rule behind the release edges of its chunks."""
    chunks: list[Chunk] = field(default_factory=list)
    settled: list[int] = field(default_factory=lambda: [0] * 5)


@dataclass(slots=True)
class Flush:
    """A cache line written back by ``channel``'s core: covers what certainly was in the line when it was issued."""

    device: int
    line: int
    channel: int
    own: int
    """How many of the core's own stores came before it."""
    issued_ps: int


_WHOLE_LINE = (1 << LINE_BYTES) - 1


def _mask(address: int, length: int, line: int) -> int:
    """The bytes of a line that a range covers, a bit for each."""
    start = max(0, address - line * LINE_BYTES)
    end = min(LINE_BYTES, address + length - line * LINE_BYTES)
    return (1 << end) - (1 << start)


def coherent_order(chunk: Chunk) -> tuple[int, int, int]:
    """The order in which chunks became visible in this schedule: that of ``sim.bytespace``."""
    return chunk.reached_ps[Stage.VISIBLE], chunk.channel, chunk.number


class NotRecorded(RuntimeError):
    """A run without a record came to a request whose execution depends on the record: it has to be made with one."""


class Trace:
    """All chunks, channels and edges of one system's run."""

    def __init__(self) -> None:
        self.complete = True
        """Whether all writes are recorded that may outlive a power failure; False in a run that nobody will explore."""
        self.chunks: list[Chunk] = []
        self.channels: list[Channel] = []
        self._indexed = 0
        self._open: dict[tuple[int, int], list[Chunk]] = {}
        self._unflushed: dict[tuple[int, int], list[Chunk]] = {}
        self.unsettled: list[Callable[[int], None]] = []
        """A source of further write-backs: called with an instant, it returns those up to then."""
        self._write_backs: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self.uncached: set[int] = set()
        """Devices whose lines no core's flush reaches, and whose buffers a barrier empties."""
        self._unbarred: dict[int, list[Chunk]] = {}
        self.shown: dict[int, frozenset[Chunk]] = {}
        """By chunk number: single chunks of unordered channels that this one is behind, beside its release edges."""
        self.persisted: dict[tuple[int, int], int] = {}
        """By (chunk number, line): from when on that line of it is certainly persistent, wherever the domain begins."""

    def channel(self, name: str, ordered: bool = True, loose: bool = False) -> int:
        """A new channel; returns its number. A ``loose`` one keeps no order at all."""
        self.channels.append(Channel(name, ordered and not loose, loose))
        return len(self.channels) - 1

    def count(self, channel: int) -> int:
        """How many chunks the channel has taken so far: an edge behind them covers these."""
        return len(self.channels[channel].chunks)

    def write(
        self,
        device: int,
        channel: int,
        address: int,
        data: bytes,
        path: str,
        writer: str,
        reached_ps: list[int],
        behind: ChannelPrefixes = (),
    ) -> Chunk:
        """Record a chunk; ``reached_ps`` may be filled in later by the component that moves it on."""
        chunks = self.channels[channel].chunks
        chunk = Chunk(len(self.chunks), device, channel, len(chunks), address, data, path, writer, reached_ps)
        if behind:
            chunk.behind = behind
        self.chunks.append(chunk)
        chunks.append(chunk)
        return chunk

    def write_run(
        self,
        device: int,
        channel: int,
        address: int,
        data: bytes,
        path: str,
        writer: str,
        accepted_ps: int,
        parts: list[tuple[int, int, int]],
    ) -> int:
        """Record chunks at consecutive addresses, as :meth:`write` of one after the other; returns the first's number.

        Each of ``parts`` is (how many bytes, when they were on their way, when visible).
        """
        every, own = self.chunks, self.channels[channel].chunks
        first = number = len(every)
        position, at = len(own), 0
        for size, transit_ps, visible_ps in parts:
            reached_ps = [accepted_ps, transit_ps, visible_ps, NEVER, NEVER]
            piece = data[at : at + size]
            chunk = Chunk(number, device, channel, position, address + at, piece, path, writer, reached_ps)
            every.append(chunk)
            own.append(chunk)
            at += size
            number += 1
            position += 1
        return first

    def _index(self) -> None:
        """Enter the chunks since the last look into the index by line; late, since most are never read or flushed."""
        for chunk in self.chunks[self._indexed :]:
            for line in lines(chunk.address, len(chunk.data)):
                self._open.setdefault((chunk.device, line), []).append(chunk)
                self._unflushed.setdefault((chunk.device, line), []).append(chunk)
            if chunk.device in self.uncached:
                self._unbarred.setdefault(chunk.device, []).append(chunk)
        self._indexed = len(self.chunks)

    @property
    def write_backs(self) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
        """By (device, line), in this timing: all that was visible at the first instant was queued at the second and on
        the medium at the third. To be asked for once the run is over."""
        for catch_up in self.unsettled:
            catch_up(NEVER)
        return self._write_backs

    def wrote_back(self, device: int, line: int, visible_ps: int, queued_ps: int, stored_ps: int) -> None:
        """In this timing, the bytes that the line showed at ``visible_ps`` moved on (a flush, an eviction, a drain)."""
        self._write_backs.setdefault((device, line), []).append((visible_ps, queued_ps, stored_ps))

    # ordering edges -----------------------------------------------------------------------------------
    def force_channel(self, channel: int, count: int, stage: Stage, at_ps: int, rule: str) -> None:
        """The first ``count`` chunks of a channel are certainly at ``stage`` from ``at_ps`` on."""
        entry = self.channels[channel]
        for position in range(entry.settled[stage], count):
            chunk = entry.chunks[position]
            chunk.force(stage, at_ps, rule)
            if chunk.behind and stage >= Stage.VISIBLE:
                self._force_behind(chunk, stage, at_ps)
        entry.settled[stage] = max(entry.settled[stage], count)

    def force_chunk(self, chunk: Chunk, stage: Stage, at_ps: int, rule: str) -> None:
        """One chunk is certainly at ``stage``; if that is visible, so are the chunks ordered before it."""
        chunk.force(stage, at_ps, rule)
        if stage >= Stage.VISIBLE:
            if self.channels[chunk.channel].ordered:
                self.force_channel(chunk.channel, chunk.position + 1, self._before(chunk, stage), at_ps, rule)
            elif chunk.behind:
                self._force_behind(chunk, stage, at_ps)

    def _before(self, chunk: Chunk, stage: Stage) -> Stage:
        """Where that is which was visible before a chunk that is at ``stage``: a barrier has emptied the whole buffer,
        while caches let lines go in any order."""
        return stage if chunk.device in self.uncached else Stage.VISIBLE

    def _force_behind(self, chunk: Chunk, stage: Stage, at_ps: int) -> None:
        before, rule = self._before(chunk, stage), self.channels[chunk.channel].release
        for channel, count in chunk.behind:
            self.force_channel(channel, count, before, at_ps, rule)
        for other in self.shown.get(chunk.number, ()):
            self.force_chunk(other, before, at_ps, rule)

    def barrier(self, device: int, issued_ps: int, at_ps: int, rule: str, returned: Iterable[Chunk] = ()) -> None:
        """The bytes that the device's buffer certainly held are where they last: when the barrier was issued, and what
        it ``returned``, if that was a read.
        """
        self._index()
        for chunk in returned:
            self.force_chunk(chunk, Stage.QUEUED, at_ps, rule)
        waiting = self._unbarred.get(device, ())
        for chunk in waiting:
            if chunk.forced_ps[Stage.VISIBLE] <= issued_ps:
                chunk.force(Stage.QUEUED, at_ps, rule)
        self._unbarred[device] = [chunk for chunk in waiting if chunk.forced_ps[Stage.QUEUED] == NEVER]

    def observed(self, device: int, address: int, length: int, now_ps: int) -> list[Chunk]:
        """The chunks that a coherent read at ``now_ps`` returned bytes of, as far as nothing forced them yet: to be
        visible, or to be where they last on a device whose reads may be barriers.

        A chunk whose bytes others have overwritten since proves nothing.
        """
        found: list[Chunk] = []
        if self._indexed < len(self.chunks):
            self._index()
        stage = Stage.QUEUED if device in self.uncached else Stage.VISIBLE
        for line in range(address // LINE_BYTES, (address + length - 1) // LINE_BYTES + 1) if length else ():
            waiting = self._open.get((device, line))
            if not waiting:
                continue
            if len(waiting) > 1:
                waiting.sort(key=coherent_order)
            asked, uncovered, unforced, kept = _mask(address, length, line), _WHOLE_LINE, False, []
            for chunk in reversed(waiting):  # the latest first: it hides what is below
                if chunk.reached_ps[Stage.VISIBLE] > now_ps:
                    kept.append(chunk)
                    continue
                shows = _mask(chunk.address, len(chunk.data), line) & uncovered
                uncovered &= ~shows
                if shows:
                    kept.append(chunk)
                    if shows & asked and chunk.forced_ps[stage] == NEVER and chunk not in found:
                        found.append(chunk)
            # What nothing unforced lies below hides nothing of interest.
            waiting.clear()
            for chunk in reversed(kept):
                unforced = unforced or chunk.forced_ps[stage] == NEVER
                if unforced:
                    waiting.append(chunk)
        return found

    def force_observed(self, chunks: Iterable[Chunk], at_ps: int, rule: str, reader: int | None = None) -> None:
        """An agent has seen these chunks' bytes: they, and the chunks before them in order, are visible.

        ``reader`` is the channel of the reading core, whose own stores it may see before other agents do.
        """
        for chunk in chunks:
            if chunk.channel != reader:
                self.force_chunk(chunk, Stage.VISIBLE, at_ps, rule)

    def flush(self, device: int, line: int, channel: int, issued_ps: int) -> Flush:
        """A core issues the write-back of a line; it takes effect with :meth:`retire`, if the line can be cached."""
        if device in self.uncached:
            return Flush(device, line, channel, own=0, issued_ps=-1)
        return Flush(device, line, channel, len(self.channels[channel].chunks), issued_ps)

    def flush_all(self, devices: Container[int], channel: int, issued_ps: int) -> list[Flush]:
        """A core issues the write-back of all lines of these devices; each takes effect as one of :meth:`flush`."""
        self._index()
        return [self.flush(device, line, channel, issued_ps) for device, line in self._unflushed if device in devices]

    def retire(self, flushes: Iterable[Flush], at_ps: int) -> None:
        """The flushes have completed: what each of them certainly covered is in the memory's queue."""
        if self._indexed < len(self.chunks):
            self._index()
        for flush in flushes:
            key = (flush.device, flush.line)
            remaining: list[Chunk] = []
            for chunk in self._unflushed.get(key, ()):
                own = chunk.channel == flush.channel and chunk.position < flush.own
                if own or chunk.forced_ps[Stage.VISIBLE] <= flush.issued_ps:
                    chunk.flush(flush.line, at_ps)
                else:
                    remaining.append(chunk)
            if key in self._unflushed:
                self._unflushed[key] = remaining
