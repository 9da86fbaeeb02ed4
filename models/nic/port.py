"""The way out of an adapter: transmit engine, port, and the entrance of the switch, where several flows meet.

A *lazy merge*: a message whose arrival at a station is known ahead goes into a sorted inbox, and one event is set at
the earliest instant at which its first bit could be at the switch. When that fires, everything that arrived before
the message is known (every cause lies strictly earlier, every latency is at least a picosecond), so engine and port
catch up as far as that message; if it leaves later than that, because others were before it, the event is set again.

Ties: at one station and instant customers are served in the order of their keys (``models.verbs.ties``). The order of
the calls does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from ...sim.clock import HARDWARE, Clock
from ..fabric.fabric import Departure, Fabric
from ..profiles.parameters.adapter import NicParameters
from ..verbs.ties import RESPONSE
from .ends import SendEnd
from .message import Message

IN_ENGINE, IN_PORT, WITHDRAWN = -1, -2, -3
"""``Message.start_ps`` of a message that is not served yet, or never; at the port ``end_ps`` is when its wait began."""


class Port:
    """Engine and port of one adapter; ``leave(message)`` is called at an instant at which it may be at the switch."""

    def __init__(self, clock: Clock, fabric: Fabric, name: str, nic: NicParameters) -> None:
        self.name = name
        self.pipe = fabric.port(name)
        self._fabric = fabric
        self.propagation_ps = fabric.lead_ps
        """The propagation up to the last switch."""
        self._queue: list[Any] = clock._queue
        self._engine = [0] * nic.processing_units
        """By unit of the transmit engine: when it has processed all requests so far."""
        self._processing_ps = nic.tx_processing_ps
        self._occupancy_ps = nic.tx_occupancy_ps
        self._mtu_bytes = nic.mtu_bytes
        self._lead_ps = nic.tx_processing_ps + self.propagation_ps
        self._reserved_ps = 0
        """Until when the port is reserved for a message of several packets: its last packet comes then."""
        self._to_engine: list[tuple[int, int, Message]] = []
        """Requests by (instant, key)."""
        self._to_port: list[tuple[int, int, Message]] = []
        """Requests and responses by (instant, key)."""

    def request(self, at_ps: int, message: Message, leave: Callable[[Message], None]) -> None:
        """A request is ready for the engine at ``at_ps``."""
        message.start_ps = IN_ENGINE
        key = message.key
        heappush(self._to_engine, (at_ps, key, message))
        heappush(self._queue, (at_ps + self._lead_ps, HARDWARE, key, leave, message))

    def watched_request(self, at_ps: int, message: Message, out: Callable[[Message], None]) -> None:
        """As :meth:`request`, with ``out`` called when the request may come to the port."""
        message.start_ps = IN_ENGINE
        heappush(self._to_engine, (at_ps, message.key, message))
        heappush(self._queue, (at_ps + self._processing_ps, HARDWARE, message.key, out, message))

    def response(self, at_ps: int, message: Message, leave: Callable[[Message], None]) -> None:
        """A response is ready for the port at ``at_ps``."""
        message.start_ps, message.end_ps = IN_PORT, at_ps
        key = message.key + RESPONSE
        heappush(self._to_port, (at_ps, key, message))
        heappush(self._queue, (at_ps + self.propagation_ps, HARDWARE, key, leave, message))

    def serve_request(self, message: Message, now_ps: int) -> int:
        """Engine and port catch up as far as this request; returns when its first bit is at the switch.

        It may be later than that if others come to the port before it that are not known yet: call again then.
        """
        if message.start_ps == IN_ENGINE:
            engine, inbox = self._engine, self._to_engine
            while True:  # as ``_serve_engine``
                at_ps, key, found = heappop(inbox)
                unit = found.end.unit
                free_ps = engine[unit]
                start_ps = at_ps if at_ps > free_ps else free_ps
                engine[unit] = start_ps + self._occupancy_ps
                depart_ps = start_ps + self._processing_ps
                if found.span is not None:
                    found.span.marks.append(("requester NIC", depart_ps))
                if found is message:
                    break
                found.start_ps, found.end_ps = IN_PORT, depart_ps
                heappush(self._to_port, (depart_ps, key, found))
            known = depart_ps + self.propagation_ps <= now_ps
            if known and not self._to_port and message.more is None:  # straight on
                reserved_ps = self._reserved_ps
                start_ps, message.end_ps = self.pipe.send(
                    depart_ps if depart_ps > reserved_ps else reserved_ps, message.n_bytes
                )
                message.start_ps = start_ps
                if self._fabric.departures is not None:
                    self._departs(message)
                return start_ps + self.propagation_ps
            message.start_ps, message.end_ps = IN_PORT, depart_ps
            heappush(self._to_port, (depart_ps, key, message))
        if message.end_ps + self.propagation_ps > now_ps:
            return message.end_ps + self.propagation_ps
        self._serve_engine(message.end_ps - self._processing_ps)
        self._serve_port(message.end_ps, message.key)
        return message.start_ps + self.propagation_ps

    def serve_response(self, message: Message) -> None:
        """Engine and port catch up as far as this response, which sets its ``start_ps`` and ``end_ps``."""
        ready_ps = message.end_ps
        if self._to_engine:
            self._serve_engine(ready_ps - self._processing_ps)
        to_port = self._to_port
        if to_port[0][2] is message and message.more is None:  # none before it
            heappop(to_port)
            reserved_ps = self._reserved_ps
            message.start_ps, message.end_ps = self.pipe.send(
                ready_ps if ready_ps > reserved_ps else reserved_ps, message.n_bytes
            )
            if self._fabric.departures is not None:
                self._departs(message)
        else:
            self._serve_port(ready_ps, message.key + RESPONSE)

    def _serve_engine(self, latest_ps: int) -> None:
        """The engine's units take the requests until ``latest_ps``: a busy unit holds up its queue pairs only."""
        inbox, engine = self._to_engine, self._engine
        while inbox and inbox[0][0] <= latest_ps:
            at_ps, key, found = heappop(inbox)
            unit = found.end.unit
            start_ps = max(at_ps, engine[unit])
            engine[unit] = start_ps + self._occupancy_ps
            depart_ps = start_ps + self._processing_ps
            if found.span is not None:
                found.span.marks.append(("requester NIC", depart_ps))
            found.start_ps, found.end_ps = IN_PORT, depart_ps
            heappush(self._to_port, (depart_ps, key, found))

    def _serve_port(self, at_ps: int, key: int) -> None:
        inbox, send, watched = self._to_port, self.pipe.send, self._fabric.departures is not None
        while inbox and (inbox[0][0] < at_ps or (inbox[0][0] == at_ps and inbox[0][1] <= key)):
            ready_ps, _, found = heappop(inbox)
            ready_ps = max(ready_ps, self._reserved_ps)
            found.start_ps, found.end_ps = send(ready_ps, found.n_bytes)
            if found.more is not None:
                found.more = self._further(found, ready_ps)
            if watched:
                self._departs(found)

    def _departs(self, message: Message) -> None:
        """Note when the packets of a message leave, for those who watch."""
        assert self._fabric.departures is not None
        requester, responder = message.end, message.to
        own, peer = (requester, responder) if requester.nic.name == self.name else (responder, requester)
        for start_ps, end_ps in ((message.start_ps, message.end_ps), *(message.more or ())):
            self._fabric.departures.append(Departure(end_ps, self.name, start_ps, own.number, peer.nic.name))

    def _further(self, message: Message, ready_ps: int) -> list[tuple[int, int]]:
        """Send the packets behind the first, each once its part of the payload may come here.

        The port is the message's until all have left: others wait.
        """
        sent, at = [], message.sent_bytes
        assert message.more is not None
        for n_bytes in message.more:
            at += self._mtu_bytes
            if message.parts is not None:
                ready_ps = max(ready_ps, message.parts[at // message.part_bytes])
            sent.append(self.pipe.send(ready_ps, n_bytes))
        self._reserved_ps = ready_ps
        return sent

    def withdraw(self, end: SendEnd, from_ps: int) -> None:
        """Requests of ``end`` that would come to the engine from ``from_ps`` on never do."""
        kept = []
        for entry in self._to_engine:
            if entry[0] >= from_ps and entry[2].end is end:
                entry[2].start_ps = WITHDRAWN
            else:
                kept.append(entry)
        if len(kept) < len(self._to_engine):
            self._to_engine[:] = sorted(kept)
