"""Writes that arrived through one queue pair at its responder: events come behind them, and a FLUSH covers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ...sim.bytespace import lines
from ...sim.trace import ChannelPrefixes, Chunk, NotRecorded
from ..durability.ordering import Covered, Ordering
from ..durability.rules import Event, Placement, RequestKind, Switches, Target, executed_before
from ..host.hostmemory import HostMemory
from ..memory.devices import DEVICE_SPAN_BITS, HOST_MEMORY, OFFSET_MASK
from .lanes import Lanes

Observe = Callable[[int], None]
"""Reports to the ordering rules that something has been observed at an instant."""


class Proof:
    """A proof by an executed request, reported once: by a later request's execution, or by the poll of its answer."""

    __slots__ = ("_observe", "observed")

    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self.observed = False

    def __call__(self, at_ps: int) -> None:
        if not self.observed:
            self.observed = True
            self._observe(at_ps)


class Inbound:
    """The writes of one queue pair at its responder, by destination: PCIe orders nothing between destinations."""

    def __init__(
        self,
        ordering: Ordering,
        host: HostMemory,
        name: str,
        out_of_order: bool,
        switches: Switches,
        piece_bytes: int | None = None,
    ) -> None:
        """``piece_bytes``: what the platform keeps in order of a message (:attr:`NicParameters.piece_bytes`)."""
        self._piece_bytes = piece_bytes
        self._ordering = ordering
        self._host = host
        self._name = name
        self._out_of_order = out_of_order or piece_bytes is not None
        self._switches = switches
        self._lanes: dict[int, Lanes] = {}
        self._anywhere: dict[int, int] = {}
        """By destination: any one address there."""
        self._sends: set[tuple[int, int]] = set()
        """(channel, position) of chunks that SENDs wrote."""
        self._looked_at: dict[int, int] = {}
        self._uncovered: dict[int, list[tuple[Chunk, RequestKind]]] = {}
        """By destination: updates that a FLUSH may still have to cover."""
        self.proved: list[tuple[RequestKind, Observe, frozenset[RequestKind]]] = []
        """Proofs by executed atomics and FLUSHes: (kind of the request, proof, kinds of later requests that waited)."""

    def placement(self, relaxed: bool) -> Placement:
        """How a request to a region with (or without) relaxed ordering is placed."""
        if relaxed:
            return Placement.RELAXED
        return Placement.OUT_OF_ORDER if self._out_of_order else Placement.STRICT

    def lanes(self, address: int) -> Lanes:
        """The ways to where ``address`` is."""
        number = self._host.attached[address >> DEVICE_SPAN_BITS].destination.number
        found = self._lanes.get(number)
        if found is None:
            found = self._lanes[number] = Lanes(
                self._host, self._name, self._piece_bytes, self._host.peer_late_up_to_ps(number)
            )
            self._anywhere[number] = address
        return found

    @property
    def placed_ps(self) -> int:
        """When all that went to host memory so far is visible in this timing."""
        lanes = self._lanes.get(HOST_MEMORY)
        return lanes.placed_ps if lanes is not None else 0

    @property
    def placed_anywhere_ps(self) -> int:
        """When all that went to any destination so far is visible in this timing, writes that are late included."""
        return max((lanes.placed_ps for lanes in self._lanes.values()), default=0)

    def note_send(self, address: int, before: Iterable[tuple[int, int]]) -> None:
        """All chunks on the ways to ``address`` since ``before`` are a SEND's: a FLUSH does not cover them."""
        known = dict(before)
        for channel, count in self.lanes(address).earlier():
            self._sends.update((channel, position) for position in range(known.get(channel, 0), count))

    # events -------------------------------------------------------------------------------------------------
    def observer(
        self,
        event: Event,
        address: int,
        placement: Placement = Placement.STRICT,
        returned: Sequence[Chunk] = (),
        covered: Sequence[Covered] = (),
        *,
        pushes: bool = True,
    ) -> Observe:
        """The report of ``event``, which is behind all writes so far to the destination of ``address``.

        ``pushes`` is False where nothing goes to memory behind those writes (a READ of no bytes).
        """
        to = self._host.destination(address)
        lanes = self._lanes.get(to.number) if pushes else None
        return partial(
            self._ordering.happened,
            event,
            here=self._host.circumstances(address, placement),
            qp=lanes.earlier() if lanes is not None else (),
            releases=lanes.earlier_releases() if lanes is not None else (),
            returned=returned,
            covered=covered,
            device=to.number if to.target is Target.PMR and pushes else None,
            issued_ps=self._host.clock.now_ps,
        )

    def received(self) -> Observe | None:
        """As :meth:`observer`, of a receive completion, which is behind the writes to all destinations.

        None where it proves nothing: all went to host memory, and nothing of it is traced.
        """
        for number, lanes in self._lanes.items():
            if number != HOST_MEMORY or not lanes.empty:
                break
        else:
            return None
        found = [self.observer(Event.RECV_COMPLETION, address) for address in self._anywhere.values()]
        return found[0] if len(found) == 1 else partial(_report, found)

    def acknowledged(self, address: int) -> Observe | None:
        """The proof by an ACK of writes to the destination of ``address``; None if no rule gives it a meaning."""
        meaning = self._ordering.rules(Event.ACK, self._host.circumstances(address))
        return self.observer(Event.ACK, address) if meaning else None

    def behind_results(self, observe: Observe, address: int) -> Observe:
        """``observe`` of an atomic that reads ``address`` now: it is behind earlier results to there as well."""
        results = self.lanes(address).results
        if not results:
            return observe
        here = self._host.circumstances(address)
        return partial(_report, [observe, partial(self._ordering.happened, Event.ATOMIC_RESULT, here=here, qp=results)])

    def executed(self, request: RequestKind, observe: Observe, holds: frozenset[RequestKind] = frozenset()) -> None:
        """The adapter has executed an atomic or a FLUSH: its proof holds for every request executed behind it.

        ``holds`` are kinds of requests that have waited for it although the table lets them overtake it.
        """
        if request is RequestKind.ATOMIC:  # its successor proves no less
            self.proved = [entry for entry in self.proved if entry[0] is not RequestKind.ATOMIC]
        elif self.proved:
            self.proved = [entry for entry in self.proved if not (isinstance(entry[1], Proof) and entry[1].observed)]
        self.proved.append((request, observe, holds))

    def behind_executed(self, request: RequestKind, now_ps: int) -> None:
        """``request`` has its effect now: the requests that the table puts before it have been executed."""
        if not self.proved:
            return
        for entry in self.proved[:]:
            if request in entry[2] or executed_before(entry[0], request, False, self._switches):
                entry[1](now_ps)
                self.proved.remove(entry)

    def accepted(self) -> dict[int, tuple[ChannelPrefixes, ChannelPrefixes]]:
        """By destination, the chunks accepted so far: in lanes, and as ATOMIC WRITEs."""
        return {number: (lanes.earlier(), lanes.earlier_releases()) for number, lanes in self._lanes.items()}

    # FLUSH --------------------------------------------------------------------------------------------------
    def covered(self, pieces: Sequence[tuple[int, int]]) -> list[Covered]:
        """The updates so far that lie in ranges (address, length) of one device, except those that a flush has put into
        the memory's queue already.

        Raises NotRecorded in a run without a record of them.
        """
        if not self._ordering.trace.complete:
            raise NotRecorded("the lines that a FLUSH covers")
        device, _ = self._host.memory.locate(pieces[0][0])
        number = self._host.destination(pieces[0][0]).number
        lanes = self._lanes.get(number)
        if lanes is None:
            return []
        waiting = self._uncovered.setdefault(number, [])
        releases = lanes.earlier_releases()
        for channel, count in (*lanes.earlier(), *releases):
            chunks = self._ordering.trace.channels[channel].chunks
            kind = RequestKind.ATOMIC_WRITE if (channel, count) in releases else RequestKind.WRITE
            for position in range(self._looked_at.get(channel, 0), count):
                is_send = (channel, position) in self._sends
                waiting.append((chunks[position], RequestKind.SEND if is_send else kind))
            self._looked_at[channel] = count
        waiting[:] = [entry for entry in waiting if not _flushed(entry[0])]
        found = []
        for chunk, kind in waiting:
            if chunk.device != device.number:
                continue
            for address, length in pieces:
                start = address - device.base
                first, end = max(start, chunk.address), min(start + length, chunk.address + len(chunk.data))
                if first < end:
                    found.append(Covered(chunk, kind, lines(first, end - first)))
        return found


def _flushed(chunk: Chunk) -> bool:
    """Whether every line of a chunk is certainly in the memory's queue."""
    return len(chunk.flushed_ps) == len(lines(chunk.address, len(chunk.data)))


def _report(observers: list[Observe], at_ps: int) -> None:
    for observe in observers:
        observe(at_ps)


def of_part(observe: Observe, address: int, length: int) -> Observe:
    """The report of a READ (:meth:`Inbound.observer`) of whose bytes only those from ``address`` on have arrived."""
    assert isinstance(observe, partial), "a READ's report is one of an observer"
    first = address & OFFSET_MASK

    def happened(at_ps: int) -> None:
        returned = observe.keywords["returned"]  # complete once its lines have been fetched
        part = [one for one in returned if one.address < first + length and first < one.address + len(one.data)]
        partial(observe, returned=part)(at_ps)

    return happened
