"""The adapter of the naive model, and the network between adapters: a process per message and per packet."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy
from simpy.resources.resource import PriorityRequest

from ...models.pcie.credits import UNIT_BYTES, matter
from ...models.profiles.platform import Platform
from ...models.verbs import Span
from ...sim.bytespace import LINE_BYTES
from ...sim.units import PS_PER_S
from .engine import PCIE, Gate, Key, Process, Simulation, Station, Ticket, Wire
from .host import Host
from .network import Network, Packet
from .pieces import aligned, by_line, packets, tlps
from .workload import Request

BEHIND = 1 << 20
"""More parts than any packet has."""


@dataclass
class Message:
    """A posted request on its way."""

    request: Request
    number: int
    local: int
    remote: int
    span: Span
    payload: bytes = b""
    parts: list[simpy.Event] = field(default_factory=list)
    """When the parts of its payload have passed the engine."""


@dataclass
class Pair:
    """One end of a connection."""

    adapter: Adapter
    number: int
    sent: simpy.Store
    """The completion queue of the requests sent from here."""
    received: simpy.Store
    reads: simpy.Resource
    posts: Gate
    """Requests go to the transmit engine in the order in which they were posted."""
    executed: Gate
    """READs of this end look at memory one after the other."""
    responses: Gate
    """Responses of this end leave in the order of its requests."""
    answers: Gate
    """Responses to this end are processed in order."""
    gone: simpy.Event
    """Happens when every packet that this end has accepted has gone to PCIe."""
    peer: Pair = field(init=False)
    receives: list[int] = field(default_factory=list)
    """Where the next SENDs go."""

    def key(self, message: Message, phase: int, part: int = 0) -> Key:
        """The place of a request of this end, or of the response to it, among ties."""
        return Key(self.adapter.node, self.number, message.number, phase, part)


class Adapter:
    """One adapter with its slot."""

    def __init__(
        self, sim: Simulation, platform: Platform, node: int, host: Host, network: Network, arbiter: np.random.Generator
    ) -> None:
        self.sim = sim
        self.node = node
        self.host = host
        self._network = network
        self._arbiter = arbiter
        self._nic, self._pcie, self._switches = platform.nic, platform.pcie, platform.switches
        self._engine = [Station(sim) for _ in range(platform.nic.processing_units)]
        self._receiver = [Station(sim) for _ in range(platform.nic.processing_units)]
        """A queue pair has one unit of each, by its number."""
        self._entrance = Station(sim)
        """The messages that want room in staging, in order."""
        self._staging = simpy.Container(sim, platform.nic.staging_bytes, platform.nic.staging_bytes)
        self._up = Wire(sim, platform.pcie.tlp_bits_per_s, level=PCIE)
        self._down = Wire(sim, platform.pcie.tlp_bits_per_s, level=PCIE)
        self._reads = Gate(sim)
        """Data of DMA reads comes back in the order of the reads."""
        self._behind = sim.event()
        """The last posted write at the root port, completions included, is visible."""
        self._behind.succeed()
        self._headers = simpy.Container(sim, platform.pcie.posted_headers, platform.pcie.posted_headers)
        data = platform.pcie.posted_data_bytes // UNIT_BYTES
        self._data = simpy.Container(sim, data, data)
        """The root port's credits for posted writes that are left."""
        self._credits_matter = matter(platform)
        self._accepted = simpy.Store(sim)
        """Packets in staging that are to go to PCIe, in order."""
        sim.process(self._drain())
        self._sent: tuple[int, Key] = (-1, Key(0, 0, 0, 0, 0))
        self._tags = simpy.Container(sim, platform.pcie.read_tags, platform.pcie.read_tags)
        self._last_waiting: tuple[int, Key] = (-1, Key(0, 0, 0, 0, 0))
        self._let_in: tuple[int, Key] = (-1, Key(0, 0, 0, 0, 0))
        self.apart_ps = -(-LINE_BYTES * 8 * PS_PER_S // platform.pcie.tlp_bits_per_s)

    def pair(self, number: int, sent: simpy.Store, received: simpy.Store) -> Pair:
        """A new end of a connection here."""
        gone = self.sim.event().succeed()
        reads = simpy.Resource(self.sim, self._nic.outstanding_reads)
        posts, executed, responses, answers = Gate(self.sim), Gate(self.sim), Gate(self.sim), Gate(self.sim)
        return Pair(self, number, sent, received, reads, posts, executed, responses, answers, gone)

    # PCIe -----------------------------------------------------------------------------------------------------
    def _write(self, address: int, data: bytes, key: Key) -> None:
        """Payload goes to the host as posted writes, one TLP each."""
        for part, (at, length) in enumerate(tlps(self._pcie, address, len(data))):
            piece = data[at - address : at - address + length]
            self.sim.process(self._posted(at, piece, key._replace(part=key.part + part), staged=False))

    def _stage(self, address: int, data: bytes, key: Key) -> simpy.Event:
        """A packet is in staging: it goes to PCIe when there are credits; the event is that it has gone."""
        gone = self.sim.event()
        self._accepted.put((address, data, key, gone))
        return gone

    def _drain(self) -> Process:
        while True:
            address, data, key, gone = yield self._accepted.get()
            for part, (at, length) in enumerate(tlps(self._pcie, address, len(data))):
                if self._credits_matter:
                    yield self._headers.get(1)
                    yield self._data.get(-(-length // UNIT_BYTES))
                own, (at_ps, before) = key._replace(part=key.part + part), self._sent
                if at_ps == self.sim.now_ps and own <= before:  # in order, whatever the keys are
                    own = before._replace(part=before.part + BEHIND)
                self._sent = self.sim.now_ps, own
                self.sim.process(self._posted(at, data[at - address : at - address + length], own, staged=True))
            gone.succeed(self._sent[1])

    def _taken(self, taken: list[simpy.Event], n_bytes: int) -> Process:
        """The credits of a write come back."""
        yield self.sim.all_of(taken)
        yield self._headers.put(1)
        yield self._data.put(-(-n_bytes // UNIT_BYTES))

    def _posted(self, address: int, data: bytes, key: Key, staged: bool) -> Process:
        yield from self._up.carry(self._pcie.tlp_header_write_bytes + len(data), key)
        visible = self._behind = self.sim.event()
        if staged:
            yield self._staging.put(len(data))
        yield self.sim.timeout(self._pcie.visible_ps)
        taken = self.host.inbound(address, data)
        visible.succeed()
        if staged and self._credits_matter:
            self.sim.process(self._taken(taken, len(data)))

    def _completion(self, queue: simpy.Store, entry: Any, span: Span | None, hop: str, key: Key) -> Process:
        """A completion entry goes to the host, behind all that went there before."""
        yield from self._up.carry(self._pcie.tlp_header_write_bytes + self._nic.cqe_bytes, key)
        visible = self._behind = self.sim.event()
        yield self.sim.timeout(self._pcie.visible_ps)
        visible.succeed()
        if span is not None:
            span.mark(hop, self.sim.now_ps)
        yield queue.put(entry)

    def _ask(self, n_bytes: int, address: int, key: Key) -> Generator[simpy.Event, Any, Ticket]:
        """The requests of a DMA read, until the last is at the root port."""
        requests = max(1, len(aligned(address, n_bytes, self._pcie.mrrs_bytes)))
        yield from self._up.carry(requests * self._pcie.tlp_header_read_bytes, key)
        return self._reads.ticket()

    def _bring(self, n_bytes: int, address: int, key: tuple[int, ...], joined: simpy.Event) -> Process:
        """The completions of a DMA read (or a part of it), until the data is in the adapter."""
        completions = max(1, len(aligned(address, n_bytes, self._pcie.most_completion_bytes)))
        n_bytes += completions * self._pcie.tlp_header_completion_bytes
        yield from self._down.carry(n_bytes, key, joined=joined)

    def _fetch_wqe(self, request: Request, key: Key) -> Process:
        further = (
            max(0, request.length - self._nic.wqe_inline_bytes) if request.inline and request.verb != "READ" else 0
        )
        yield from self._read(0, 0, key, None, self._nic.wqe_bytes * (1 + -(-further // self._nic.wqe_bytes)))

    def _read(
        self,
        address: int,
        length: int,
        key: Key,
        order: list[int] | None,
        n_bytes: int | None = None,
        executed: Ticket | None = None,
        parts: list[simpy.Event] | None = None,
        part_bytes: int = 0,
    ) -> Generator[simpy.Event, Any, list[bytes]]:
        """A DMA read: behind all posted writes; in one piece, or line by line in ``order``, behind the READ before it.

        ``n_bytes`` is the size of a read that is no range of memory here: a work request, which the core has just
        written. Returns the pieces found when the first of ``parts`` is there: the others are found until theirs are.
        """
        n_bytes = length if n_bytes is None else n_bytes
        tags = min(max(1, len(aligned(address, n_bytes, self._pcie.mrrs_bytes))), self._pcie.read_tags)
        waits = bool(self._tags.get_queue) or self._tags.level < tags
        yield self._tags.get(tags)
        if waits:  # in order, whatever the keys are
            at_ps, before = self._last_waiting
            key = before._replace(part=before.part + BEHIND) if at_ps == self.sim.now_ps and key <= before else key
            self._last_waiting = self.sim.now_ps, key
        ticket = yield from self._ask(n_bytes, address, key)
        at_root_ps = self.sim.now_ps
        yield self._behind
        latency_ps, behind = self.host.read_latency(address, length)
        drained = self.sim.all_of([self.host.drained(), *behind])
        yield self.sim.until(at_root_ps + latency_ps // 2)
        yield drained
        if executed is not None:
            yield executed.before
        pieces = [(address, length)] if order is None else by_line(address, length)
        found = [b""] * len(pieces)
        by_part = part_bytes if parts is not None and order is not None else 0
        slots = _slots(address, pieces, order or range(len(pieces)), by_part)
        self.sim.process(self._sampled(pieces, slots, found, executed))
        start_ps, back_ps = self.sim.now_ps, latency_ps - latency_ps // 2
        if parts is None:
            yield self.sim.until(self._leaves_ps(start_ps, len(pieces) - 1, n_bytes, address) + back_ps)
            yield ticket.before
            yield from self._bring(n_bytes, address, (ticket.number,), ticket.after)
            self._tags.put(tags)
            return found
        ahead = ticket.before
        for at in range(0, length, part_bytes):
            part = min(part_bytes, length - at)
            own = [turn for turn, (piece, _) in enumerate(pieces) if at <= piece - address < at + part]
            first = own[0] if own else sum(piece - address < at for piece, _ in pieces) - 1
            from_ps = start_ps + first * self.apart_ps
            leaves_ps = self._leaves_ps(from_ps, len(own) - 1, part, address + at) + back_ps
            joined = ticket.after if at + part == length else self.sim.event()
            parts.append(self.sim.process(self._part(part, address + at, ticket.number, leaves_ps, ahead, joined)))
            ahead = joined
        yield parts[0]
        self._tags.put(tags)  # with the first part: the others are on their way, in order
        return found

    def _part(
        self, n_bytes: int, address: int, number: int, leaves_ps: int, before: simpy.Event, joined: simpy.Event
    ) -> Process:
        """A part of a DMA read's data, from then on, behind the part before it."""
        yield self.sim.until(leaves_ps)
        yield before
        yield from self._bring(n_bytes, address, (number, address), joined)

    def _leaves_ps(self, from_ps: int, further_lines: int, n_bytes: int, address: int) -> int:
        """When completions begin of which a line is there at ``from_ps`` and then one after the other."""
        if further_lines <= 0:
            return from_ps
        last_ps = from_ps + further_lines * self.apart_ps
        n_bytes += (
            len(aligned(address, n_bytes, self._pcie.most_completion_bytes)) * self._pcie.tlp_header_completion_bytes
        )
        return max(from_ps, last_ps + self.apart_ps + (-n_bytes * 8 * PS_PER_S) // self._pcie.tlp_bits_per_s)

    def _sampled(
        self, pieces: list[tuple[int, int]], slots: list[list[int]], found: list[bytes], executed: Ticket | None
    ) -> Process:
        """The lines of one slot after the other are looked at."""
        for turn, slot in enumerate(slots):
            if turn:
                yield self.sim.timeout(self.apart_ps)
            for index in slot:
                found[index] = yield from self.host.sample(*pieces[index])
        if executed is not None:
            executed.after.succeed()

    # requester ------------------------------------------------------------------------------------------------
    def post(self, pair: Pair, message: Message) -> None:
        """The doorbell has left the core."""
        self.sim.process(self._message(pair, message, pair.posts.ticket()))

    def _message(self, pair: Pair, message: Message, turn: Ticket) -> Process:
        request, mark = message.request, message.span.mark
        yield self.sim.timeout(self._nic.doorbell_ps)
        mark("doorbell", self.sim.now_ps)
        if not self._nic.blueflame:
            yield from self._fetch_wqe(request, pair.key(message, 0))
        if request.verb != "READ" and request.length and not request.inline:
            parts: list[simpy.Event] | None = [] if request.length > self._nic.part_bytes else None
            found = yield from self._read(
                message.local, request.length, pair.key(message, 0), None, parts=parts, part_bytes=self._nic.part_bytes
            )
            message.payload = b"".join(found)
            message.parts = [self.sim.process(self._later(part)) for part in parts or ()]
        mark("WQE and payload fetch", self.sim.now_ps)
        yield turn.before
        if request.verb == "READ":
            yield pair.reads.request()
        unit = self._engine[pair.number % self._nic.processing_units]
        served = unit.join(pair.key(message, 0))
        turn.after.succeed()
        yield served
        self.sim.process(self._hold(unit, served, self._nic.tx_occupancy_ps))
        yield self.sim.timeout(self._nic.tx_processing_ps)
        mark("requester NIC", self.sim.now_ps)
        headers, remote = self._nic.headers, pair.peer.adapter
        if request.verb == "READ":
            code = remote.serve(pair.peer, message)
            held_ps = self._nic.rx_read_occupancy_ps
            packet = self._packet(
                pair.peer, headers.read_request_bytes, pair.key(message, 0), message, None, code, held_ps
            )
            self._network.send(self.node, remote.node, [packet])
            return
        first_bytes = headers.send_bytes if request.verb == "SEND" else headers.write_bytes
        out = []
        for at, payload, last in packets(message.payload, self._nic.mtu_bytes):
            n_bytes = (headers.middle_bytes if at else first_bytes) + len(payload)
            code = remote.take_in(pair.peer, message, at, payload, last)
            held_ps = self._nic.rx_packet_occupancy_ps if at else self._nic.rx_occupancy_ps
            packet = self._packet(pair.peer, n_bytes, pair.key(message, 0, at), message, None, code, held_ps)
            if message.parts:
                packet.ready = message.parts[at // self._nic.part_bytes]
            out.append(packet)
        self._network.send(self.node, remote.node, out)

    def _later(self, part: simpy.Event) -> Process:
        """A part of a payload passes the engine."""
        yield part
        yield self.sim.timeout(self._nic.tx_processing_ps)

    def _hold(self, unit: Station, turn: PriorityRequest, for_ps: int) -> Process:
        """A unit is busy for as long as it takes until it can take the next message, whenever this one is through."""
        yield self.sim.timeout(for_ps)
        unit.release(turn)

    def _packet(
        self, to: Pair, n_bytes: int, key: Key, message: Message, answers: Gate | None, code: Process, held_ps: int
    ) -> Packet:
        """A packet for ``to``; ``code`` runs when it has been processed there (answers: in order).

        It holds its unit there for ``held_ps``.
        """
        remote = to.adapter
        unit = remote._receiver[to.number % remote._nic.processing_units]

        def arrived() -> Process:
            message.span.mark("wire and switch", self.sim.now_ps)
            ticket = answers.ticket() if answers is not None else None
            turn = unit.join(key)
            yield turn
            self.sim.process(self._hold(unit, turn, held_ps))
            yield self.sim.timeout(remote._nic.rx_processing_ps)
            if ticket is not None:
                yield ticket.before
                ticket.after.succeed()
            yield from code

        return Packet(n_bytes, key, arrived)

    # responder ------------------------------------------------------------------------------------------------
    def _enter(self, key: Key, n_bytes: int) -> Generator[simpy.Event, Any, Key]:
        """Wait for room in staging, behind the messages that wait already; returns the key to go on with.

        Messages admitted at one instant stay in order: each goes right behind the one before, whichever key it has.
        """
        with self._entrance.join(key) as turn:
            yield turn
            if n_bytes:
                yield self._staging.get(n_bytes)
            at_ps, before = self._let_in
            if at_ps == self.sim.now_ps:
                key = before._replace(part=before.part + BEHIND)
            self._let_in = self.sim.now_ps, key
        return key

    def take_in(self, pair: Pair, message: Message, at: int, payload: bytes, last: bool) -> Process:
        """A packet of a WRITE or SEND has been processed; ``pair`` is the end here."""
        own = pair.peer.key(message, 0, at)
        key = yield from self._enter(own, len(payload))
        is_send = message.request.verb == "SEND"
        target = pair.receives[0] if is_send else message.remote
        if payload:
            pair.gone = self._stage(target + at, payload, key)
        if not last:
            return
        turn = pair.responses.ticket()
        if is_send:
            self.sim.process(self._match(pair, message, pair.receives.pop(0), pair.gone))
        else:
            message.span.mark("responder NIC", self.sim.now_ps)
        yield self.sim.timeout(self._nic.ack_generation_ps)
        yield turn.before
        turn.after.succeed()
        self._acknowledge(pair, message)

    def _match(self, pair: Pair, message: Message, address: int, gone: simpy.Event) -> Process:
        yield gone
        yield self.sim.timeout(self._nic.recv_processing_ps)
        key = pair.peer.key(message, 2)
        entry = (message, address)
        yield from self._completion(pair.received, entry, message.span, "responder NIC, DMA and CQE", key)

    def _acknowledge(self, pair: Pair, message: Message) -> None:
        requester = pair.peer

        def arrived() -> Process:
            if message.request.verb != "SEND":
                message.span.mark("ACK on the wire", self.sim.now_ps)
            ticket = requester.answers.ticket()
            yield self.sim.timeout(requester.adapter._nic.ack_processing_ps)
            yield ticket.before
            ticket.after.succeed()
            requester.adapter._answered(requester, message)

        key = requester.key(message, 1)
        packet = Packet(self._nic.headers.ack_bytes, key, arrived)
        self._network.send(self.node, requester.adapter.node, [packet])

    def serve(self, pair: Pair, message: Message) -> Process:
        """A READ request has been processed: answer it in the order of this connection's requests."""
        length = message.request.length
        key = yield from self._enter(pair.peer.key(message, 0), 0)
        turn = pair.responses.ticket()
        executed = pair.executed.ticket() if self._switches.reads_in_order else None
        if not pair.gone.processed:  # right behind the event that it waits for, before all others
            before = yield pair.gone
            key = before._replace(part=before.part + 1)
        message.span.mark("responder NIC", self.sim.now_ps)
        count = len(by_line(message.remote, length))
        order = [int(index) for index in self._arbiter.permutation(count)] if count > 1 else list(range(count))
        mtu_bytes = self._nic.mtu_bytes
        parts: list[simpy.Event] | None = [] if length > mtu_bytes else None
        found = yield from self._read(
            message.remote, length, key, order, executed=executed, parts=parts, part_bytes=mtu_bytes
        )
        yield turn.before
        turn.after.succeed()
        message.span.mark("responder PCIe read", self.sim.now_ps)
        headers, requester = self._nic.headers, pair.peer
        out = []
        for at, nothing, last in packets(bytes(length), mtu_bytes):
            n_bytes = (headers.read_response_bytes if last or not at else headers.middle_bytes) + len(nothing)
            code = requester.adapter.take_response(requester, message, at, len(nothing), found, last)
            key = requester.key(message, 1, at)
            held_ps = self._nic.rx_packet_occupancy_ps
            packet = self._packet(requester, n_bytes, key, message, requester.answers, code, held_ps)
            packet.ready = parts[at // mtu_bytes] if parts else None
            out.append(packet)
        self._network.send(self.node, requester.adapter.node, out)

    # responses, back at the requester ---------------------------------------------------------------------------
    def take_response(
        self, pair: Pair, message: Message, at: int, length: int, found: list[bytes], last: bool
    ) -> Process:
        """A packet of a READ's response has been processed: all up to its end has been found."""
        self._write(message.local + at, b"".join(found)[at : at + length], pair.key(message, 1, at))
        if last:
            self._answered(pair, message)
            yield pair.reads.release(pair.reads.users[0])

    def _answered(self, pair: Pair, message: Message) -> None:
        """The oldest request has been answered."""
        if message.request.signalled:
            hop = "" if message.request.verb == "SEND" else "CQE"
            span = message.span if hop else None
            key = pair.key(message, 3)
            self.sim.process(self._completion(pair.sent, message, span, hop, key))


def _slots(address: int, pieces: list[tuple[int, int]], order: Sequence[int], part_bytes: int) -> list[list[int]]:
    """The pieces that are looked at together: those whose part has to leave before their turn, beside earlier ones."""
    slots: list[list[int]] = [[] for _ in pieces]
    for turn, index in enumerate(order):
        end = ((pieces[index][0] - address) // part_bytes + 1) * part_bytes if part_bytes else 0
        slots[turn % sum(start - address < end for start, _ in pieces) if end else turn].append(index)
    return slots
