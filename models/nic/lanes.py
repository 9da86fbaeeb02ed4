"""The ways on which one queue pair's writes go to one destination: host memory, or one peer device.

Writes in order, the results of atomics included, share an ordered channel of the trace. WRITEs that may be placed in
any order (relaxed ordering, out-of-order placement) have a loose one, on which each may be late. ATOMIC WRITEs have one
of their own, since later WRITEs may overtake them; they, and the results of atomics where WRITEs are loose, are behind
everything that came before them. The result of an atomic is also behind what its operand showed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...sim.trace import ChannelPrefixes, Chunk
from ..durability.rules import Placement, RequestKind
from ..host.hostmemory import HostMemory
from ..pcie.credits import PostedCredits


@dataclass(frozen=True, slots=True)
class Operand:
    """The evidence of other writes in the operand of an atomic, as the adapter has read it."""

    before: ChannelPrefixes
    """Earlier writes of its queue pair: it was read behind them."""
    seen: list[Chunk]
    """The chunks whose bytes it shows."""


class Lanes:
    """The channels of ``name`` (a queue pair at its responder) to one destination; made when they are needed."""

    def __init__(self, host: HostMemory, name: str, piece_bytes: int | None = None, late_up_to_ps: int = 0) -> None:
        """WRITEs without order become visible in aligned pieces of ``piece_bytes``; None: TLP by TLP.

        Those in order keep it among themselves, and are late by less than ``late_up_to_ps``: writes to elsewhere may
        show before them.
        """
        self._host = host
        self._piece_bytes = piece_bytes
        self._late_up_to_ps = late_up_to_ps
        self._trace = host.trace
        self._name = name
        self._in_order: int | None = None
        self.loose: int | None = None
        self._releases: int | None = None
        self.results: ChannelPrefixes = ()
        """The results of atomics so far, and the writes before them in order."""
        self.placed_ps = 0
        """When all that came so far is visible in this timing."""

    @property
    def in_order(self) -> int:
        """The channel of writes that are placed in order."""
        if self._in_order is None:
            self._in_order = self._trace.channel(self._name)
            self._trace.channels[self._in_order].release = "atomic-returns-visible"
        return self._in_order

    @property
    def empty(self) -> bool:
        """Whether nothing that the trace knows came on them so far."""
        channels = self._trace.channels
        for channel in (self._in_order, self.loose, self._releases):
            if channel is not None and channels[channel].chunks:
                return False
        return True

    def earlier(self) -> ChannelPrefixes:
        """The chunks accepted so far, without ATOMIC WRITEs."""
        channels, in_order, loose = self._trace.channels, self._in_order, self.loose
        if in_order is not None and loose is None:  # almost always
            return ((in_order, len(channels[in_order].chunks)),)
        return tuple((number, len(channels[number].chunks)) for number in (in_order, loose) if number is not None)

    def earlier_releases(self) -> ChannelPrefixes:
        """The ATOMIC WRITEs so far."""
        return () if self._releases is None else ((self._releases, self._trace.count(self._releases)),)

    def write(
        self,
        request: RequestKind,
        placement: Placement,
        address: int,
        data: bytes,
        writer: str,
        accepted_ps: int,
        transit_ps: int,
        arrive_ps: int,
        credits: PostedCredits | None = None,
    ) -> None:
        """One TLP of ``request`` is on its way: it leaves the adapter at ``transit_ps``, is at the root at the last."""
        if self._piece_bytes and placement is not Placement.STRICT and request is not RequestKind.ATOMIC_WRITE:
            leave = self.accept(request, placement, address, data, writer, accepted_ps, credits)
            leave(transit_ps, arrive_ps)
            return
        channel, behind, late_ps, follows = self._way(request, placement)
        visible_ps = self._host.dma_write(
            address,
            data,
            channel,
            writer,
            accepted_ps,
            transit_ps,
            arrive_ps,
            behind=behind,
            late_ps=late_ps,
            not_before_ps=self.placed_ps + 1 if follows else 0,
            credits=credits,
        )
        self.placed_ps = max(self.placed_ps, visible_ps)

    def accept(
        self,
        request: RequestKind,
        placement: Placement,
        address: int,
        data: bytes,
        writer: str,
        accepted_ps: int,
        credits: PostedCredits | None,
    ) -> Callable[[int, int], None]:
        """One TLP of ``request`` waits in the adapter; returns what to call, in order, when it is on its way."""
        most = self._piece_bytes
        first = len(data) if most is None else most - address % most
        if first < len(data) and placement is not Placement.STRICT and request is not RequestKind.ATOMIC_WRITE:
            more = len(data) - first
            whole = None if credits is None else credits.for_tlp(len(data))
            # Its credits come back with the last piece.
            pieces = [
                self.accept(request, placement, address, data[:first], writer, accepted_ps, None),
                self.accept(request, placement, address + first, data[-more:], writer, accepted_ps, whole),
            ]

            def all_leave(transit_ps: int, arrive_ps: int) -> None:
                for piece in pieces:
                    piece(transit_ps, arrive_ps)

            return all_leave
        channel, behind, late_ps, follows = self._way(request, placement)
        chunk = self._host.accept(address, data, channel, writer, accepted_ps, behind)

        def leave(transit_ps: int, arrive_ps: int) -> None:
            visible_ps = self._host.dma_write(
                address,
                data,
                channel,
                writer,
                accepted_ps,
                transit_ps,
                arrive_ps,
                behind=behind,
                late_ps=late_ps,
                not_before_ps=self.placed_ps + 1 if follows else 0,
                credits=credits,
                chunk=chunk,
            )
            self.placed_ps = max(self.placed_ps, visible_ps)

        return leave

    def _way(self, request: RequestKind, placement: Placement) -> tuple[int, ChannelPrefixes, int, bool]:
        """For a TLP of ``request``: its channel, the chunks before it, how many ps later than in order it shows, and
        whether not before all that came so far: so does an ATOMIC WRITE behind another one.
        """
        if request is RequestKind.ATOMIC_WRITE:
            if self._releases is None:
                self._releases = self._trace.channel(f"atomic writes of {self._name}")
            return self._releases, self.earlier(), self._host.late_release_ps(self._name), True
        if placement is not Placement.STRICT:
            if self.loose is None:
                self.loose = self._trace.channel(f"{self._name}, in any order", loose=True)
            return self.loose, (), self._host.late_ps(self._name), False
        up_to_ps = self._late_up_to_ps
        late_ps = self._host.draw(f"peer writes of {self._name}", up_to_ps) if up_to_ps else 0
        if self.loose is None:
            return self.in_order, (), late_ps, bool(up_to_ps)
        return self.in_order, ((self.loose, self._trace.count(self.loose)),), late_ps, True

    def write_result(
        self,
        address: int,
        data: bytes,
        writer: str,
        accepted_ps: int,
        transit_ps: int,
        arrive_ps: int,
        operand: Operand,
    ) -> None:
        """Write the result of an atomic: in order, behind the writes before its operand and those the operand shows."""
        trace, channel = self._trace, self.in_order
        counts = dict(operand.before)
        counts.pop(channel, None)
        single = set()
        for chunk in operand.seen:
            if not trace.channels[chunk.channel].ordered:
                single.add(chunk)
                counts.setdefault(chunk.channel, 0)
            elif chunk.channel != channel:
                counts[chunk.channel] = max(chunk.position + 1, counts.get(chunk.channel, 0))
        behind = tuple(counts.items())
        number = len(trace.chunks)
        visible_ps = self._host.dma_write(
            address, data, channel, writer, accepted_ps, transit_ps, arrive_ps, behind=behind,
            not_before_ps=self.placed_ps + 1 if self._late_up_to_ps else 0,
        )  # fmt: skip
        if single:
            trace.shown[number] = frozenset(single)
        self.placed_ps = max(self.placed_ps, visible_ps)
        self.results = ((channel, trace.count(channel)),)
