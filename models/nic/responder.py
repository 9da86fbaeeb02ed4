"""The responder: staging, placement, acknowledgements, and the requests that are answered once executed.

It acknowledges a WRITE when its last packet is *accepted* into volatile staging, before it has crossed PCIe: an ACK
proves arrival in the responder's adapter and nothing more (IBTA 9.7.5.1.6; Kalia et al., SoCC'20). How staging drains
to PCIe is ``models.nic.staging``'s business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from ...sim.stations import Credits
from ..durability.rules import Placement, RequestKind
from ..primitives.order import PrimitiveOrder
from ..profiles.platform import Platform
from ..verbs.opcodes import ATOMICS, CARRYING, KIND, RECEIVING, SENDS, Opcode, Status
from ..verbs.ties import PACKET_SHIFT
from ..verbs.work import ScatterRecvWR
from .adapter import Adapter
from .ends import ReceiveEnd
from .executing import receive
from .executing.atomics import AtomicUnit
from .executing.order import Running
from .executing.primitive import arrived, execute
from .executing.remote_flush import flush
from .executing.remote_read import read
from .lanes import Operand
from .message import Message, Packet, mark
from .plainway.routes import open_reads, open_writes
from .staging import Staging

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_READ = Opcode.IBV_WR_RDMA_READ
_BUFFERED = frozenset({_WRITE, Opcode.PRIMITIVE_WRITE})
"""Requests that the persist buffer takes behind an epoch: others wait until it is over."""
_SUCCESS = Status.IBV_WC_SUCCESS


class Responder:
    """The half of an adapter that takes requests."""

    def __init__(self, nic: Adapter, platform: Platform) -> None:
        self._nic = nic
        self.clock = nic.clock
        self.slot = nic.slot
        self.host = nic.host
        self.regions = nic.regions
        self.staging = Credits(platform.nic.staging_bytes)
        self.held: deque[tuple[Callable[[Any], bool], Any]] = deque()
        """Requests that wait for room in staging, in order of arrival; each returns False while it has to wait."""
        self._blocked: tuple[Packet, int] | None = None
        """The first of them and its address, if it is not known yet when there is room for it."""
        draw = partial(nic.host.draw, f"staging of {nic.name}")
        self.drain = Staging(nic.clock, nic.slot, platform, draw, self._leaves_staging)
        self._atomic_unit = AtomicUnit(nic)
        self.engines: dict[str, int] = {}
        """By step of a primitive: until when its engine is busy."""
        self.flush_issue_ps, self.flush_keeps_lines = platform.cpu.clwb_ps, not platform.cpu.clwb_invalidates
        """A FLUSH writes lines back as a core does."""

    # WRITE and SEND -----------------------------------------------------------------------------------------
    def take_in(self, packet: Packet) -> None:
        """A packet of a WRITE or SEND has been processed."""
        if self._nic.reliability.expects(packet):
            self.take_in_now(packet)

    def take_in_now(self, packet: Packet) -> None:
        """Stage a packet, behind the ones that wait for room."""
        message, last = packet[0], packet[3]
        requester, end = message.end, message.to
        if end.gone:
            requester.nic.unanswered(message)
        elif end.order.idle(self.clock._now):
            self._stage_now(packet)
        else:
            if last and end.reliable:
                end.responses.expect(message)
            follows = message.opcode in _BUFFERED
            start = partial(self._stage_in_turn, packet)
            end.order.arrive(KIND[message.opcode], self.clock._now, start, follows=follows)

    def wait_for_room(self, room_ps: int | None, packet: Packet, address: int) -> None:
        """The first packet of the queue waits for room: until an instant, or until one is known (None)."""
        self._wait(room_ps, packet, address)
        self._hold(packet)

    def _stage_in_turn(self, packet: Packet, not_before: Callable[[], int], running: Running) -> None:
        at_ps = not_before()
        if at_ps > self.clock._now:

            def start(_: Packet) -> None:
                self._stage_now(packet)
                self._end(packet, running)

            self.clock.hardware(at_ps, _key(packet), start, packet)
            return
        self._stage_now(packet)
        self._end(packet, running)

    def _end(self, packet: Packet, running: Running) -> None:
        end = packet[0].to
        end.order.end(running, self.clock._now)

    def _stage_now(self, packet: Packet) -> None:
        if self.held or not self._admit(packet):
            self._hold(packet)

    def _hold(self, packet: Packet) -> None:
        self.held.append((self._admit, packet))
        message, end = packet[0], packet[0].to
        if packet[3] and end is not None and end.reliable:
            end.responses.expect(message)

    def _admit(self, packet: Packet) -> bool:
        """Accept a packet (or refuse it) if there is room now, else when there is: then it returns False."""
        message, at, payload, last, _ = packet
        end = message.to
        if end.ignores(message):
            end.responses.forget(message)
            if end.gone:
                message.end.nic.unanswered(message)
            return True
        address = receive.target(self._nic, end, message, at, len(payload), last)
        if address is None:
            return True
        if payload:
            now_ps = self.clock._now
            room_ps = self.staging.take(now_ps, len(payload))
            if room_ps != now_ps:
                self._wait(room_ps, packet, address)
                return False
        self.stage(packet, end, address)
        return True

    def _wait(self, room_ps: int | None, packet: Packet, address: int) -> None:
        """There is room for a packet at ``room_ps``; None: not known yet, credits have to come back first."""
        if room_ps is None:
            self._blocked = packet, address
        else:
            self.clock.hardware(room_ps, _key(packet), self._resume, (packet, address))

    def _leaves_staging(self, at_ps: int, n_bytes: int) -> None:
        """A TLP that had to wait gives its room back at ``at_ps``."""
        self.staging.give(at_ps, n_bytes)
        if self._blocked is not None:
            packet, address = self._blocked
            room_ps = self.staging.take(self.clock.now_ps, len(packet[2]))
            if room_ps is not None:
                self._blocked = None
                self._wait(room_ps, packet, address)

    def _resume(self, admitted: tuple[Packet, int]) -> None:
        """There is room for the first packet that waits; the packets behind it may follow."""
        packet, address = admitted
        message = packet[0]
        end = message.to
        self.held.popleft()
        if end.gone:
            self.staging.give(self.clock._now, len(packet[2]))
            message.end.nic.unanswered(message)
        else:
            self.stage(packet, end, address)
        while self.held and self.held[0][0](self.held[0][1]):
            self.held.popleft()

    def stage(self, packet: Packet, end: ReceiveEnd, address: int, may_go: bool = True) -> None:
        """A packet has its room in staging: pass it to PCIe if it may go, acknowledge the last."""
        message, at, payload, last, _ = packet
        now_ps, opcode = self.clock._now, message.opcode
        kind, sends = KIND[opcode], opcode in SENDS
        inbound = end.inbound
        gated = self.drain.gated(end)
        if not gated:
            inbound.behind_executed(kind, now_ps)
        if payload:
            relaxed = not sends and self.regions.relaxed(message.work.rkey)
            before = inbound.lanes(address).earlier() if sends else None
            placement, key = inbound.placement(relaxed), _key(packet)
            pieces = [(address + at, payload)]
            if sends:
                if isinstance(end.receiving, ScatterRecvWR):
                    pieces = end.receiving.pieces(at, payload)
            elif self.regions.files:
                pieces = self._pieces(message, at, payload)
            for place, piece in pieces:
                if may_go and not gated and (self.drain.always_open or self.drain.open(now_ps, place, len(piece))):
                    self.post_write(end, message, kind, placement, piece, place, key)
                else:
                    self._stay(end, message, kind, placement, piece, place, key)
            if before is not None:
                inbound.note_send(address, before)
        if not last:
            return
        if opcode in RECEIVING:
            receive.received(self._nic, end, message)
        else:
            mark(message, "responder NIC", now_ps)
        if opcode in CARRYING:
            arrived(self._nic, end, message)
        elif end.reliable:
            observe = inbound.acknowledged(address)
            self._nic.answers.acknowledge(end, message, observe)
            plain = message.end.plain
            if observe is None and opcode is _WRITE and payload and plain is not None and plain.arrivals is not None:
                open_writes(self._nic, end, message)

    def _pieces(self, message: Message, at: int, payload: bytes) -> list[tuple[int, bytes]]:
        """Where the bytes of a WRITE go that begin ``at`` its offset: of a file's region, extent by extent."""
        found, start = [], 0
        for place, length in self.regions.places(message.work.rkey, message.work.remote_address + at, len(payload)):
            found.append((place, payload[start : start + length]))
            start += length
        return found

    def _stay(
        self,
        end: ReceiveEnd,
        message: Message,
        kind: RequestKind,
        placement: Placement,
        data: bytes,
        address: int,
        key: int,
    ) -> None:
        """A packet of ``message`` has to wait in staging."""
        lanes, now_ps, chunks = end.inbound.lanes(address), self.clock._now, self._nic.ordering.trace.chunks
        before = len(chunks)
        writer = f"{message.opcode}, {message.span.label}" if message.span is not None else end.writers[message.opcode]
        tlps = [
            (len(piece), lanes.accept(kind, placement, at, piece, writer, now_ps, self.drain.credits))
            for at, piece in self.slot.link.tlps(address, data)
        ]
        self.drain.wait(end, key, tlps, kind, chunks[before:])

    def post_write(
        self,
        end: ReceiveEnd,
        message: Message,
        kind: RequestKind,
        placement: Placement,
        data: bytes,
        address: int | None = None,
        staged: int | None = None,
    ) -> None:
        """Posted writes of ``message``'s data go to PCIe now; data that was ``staged`` (by its key) gives its room
        back.

        Staged data has its credits; other data needs none.
        """
        now_ps = self.clock._now
        self.slot.settle(message.key if staged is None else staged)
        address = self.regions.place(message.work) if address is None else address
        lanes = end.inbound.lanes(address)
        writer = f"{message.opcode}, {message.span.label}" if message.span is not None else end.writers[message.opcode]
        for at, piece in self.slot.link.tlps(address, data):
            start_ps, at_root_ps = self.slot.link.write(now_ps, len(piece))
            if staged is not None:
                self.staging.give(at_root_ps, len(piece))
            credits = self.drain.credits if staged is not None else None
            lanes.write(kind, placement, at, piece, writer, now_ps, start_ps, at_root_ps, credits)

    def post_result(self, end: ReceiveEnd, message: Message, data: bytes, operand: Operand) -> None:
        """The result of an atomic goes to PCIe now: one TLP, for it is aligned."""
        now_ps = self.clock._now
        self.slot.settle(message.key)
        writer = f"{message.opcode}, {message.span.label}" if message.span is not None else end.writers[message.opcode]
        start_ps, at_root_ps = self.slot.link.write(now_ps, len(data))
        address = self.regions.place(message.work)
        lanes = end.inbound.lanes(address)
        lanes.write_result(address, data, writer, now_ps, start_ps, at_root_ps, operand)

    # requests that are answered once executed ---------------------------------------------------------------
    def serve(self, packet: Packet) -> None:
        """A request that is answered once executed has been processed."""
        if self._nic.reliability.expects(packet):
            self.serve_now(packet)

    def serve_now(self, packet: Packet) -> None:
        """Serve a request behind all posted writes before it."""
        message, now_ps = packet[0], self.clock._now
        end = message.to
        if end.gone:
            message.end.nic.unanswered(message)
            return
        end.responses.expect(message)
        kind, start = KIND[message.opcode], partial(self._serve_in_turn, end, message)
        reads = None
        if (
            message.opcode is _READ
            and not self.regions.relaxed(message.work.rkey)
            and self.regions.refuses(message.work) is None
        ):
            reads = self.host.destination(self.regions.place(message.work)).number
        if end.order.idle(now_ps):
            start(lambda: now_ps, end.order.begin(kind, reads))
        else:
            order = message.work.order if message.opcode is Opcode.PRIMITIVE else None
            follows, holds = False, frozenset[RequestKind]()
            if isinstance(order, PrimitiveOrder):
                follows, holds = order.program.buffered, frozenset(map(RequestKind, order.program.holds))
            end.order.arrive(kind, now_ps, start, reads, holds=holds, follows=follows)

    def _serve_in_turn(
        self, end: ReceiveEnd, message: Message, not_before: Callable[[], int], running: Running
    ) -> None:
        if self.held:
            self.held.append((self._execute, (end, message, not_before, running)))
        else:
            self._execute((end, message, not_before, running))

    def _execute(self, turn: tuple[ReceiveEnd, Message, Callable[[], int], Running]) -> bool:
        """Start to execute a request, or refuse it, behind its queue pair's packets in staging; takes no room."""
        if turn[1].opcode is Opcode.PRIMITIVE or not self.drain.behind(turn[0], partial(self._execute_now, turn)):
            self._execute_now(turn)
        return True

    def _execute_now(self, turn: tuple[ReceiveEnd, Message, Callable[[], int], Running]) -> None:
        end, message, not_before, running = turn
        now_ps = self.clock._now
        if end.ignores(message):
            end.responses.forget(message)
            end.order.end(running, now_ps)
            if end.gone:
                message.end.nic.unanswered(message)
            return
        status = self.regions.refuses(message.work)
        if status is not None:
            self._nic.answers.refuse(end, message, status)
            end.order.end(running, now_ps)
            return
        mark(message, "responder NIC", now_ps)
        if message.opcode is _READ:
            plain = message.end.plain
            if plain is not None and plain.arrivals is not None:
                open_reads(self._nic, end, message)
            read(self._nic, end, message, not_before, running)
        elif message.opcode in ATOMICS:
            self._atomic_unit.execute(end, message, running)
        elif message.opcode is Opcode.IBV_WR_FLUSH:
            flush(self._nic, end, message, not_before(), running)
        elif message.opcode is Opcode.PRIMITIVE:
            execute(self._nic, end, message, not_before(), running)
        else:
            self._write_atomically(end, message)
            end.order.end(running, now_ps)

    def _write_atomically(self, end: ReceiveEnd, message: Message) -> None:
        """An ATOMIC WRITE: posted behind all that came before it; its answer promises neither place nor persistence."""
        now_ps = self.clock._now
        end.inbound.behind_executed(RequestKind.ATOMIC_WRITE, now_ps)
        self.post_write(end, message, RequestKind.ATOMIC_WRITE, Placement.STRICT, message.payload)
        self._nic.answers.answer(end, message, now_ps + self._nic.parameters.ack_generation_ps)


def _key(packet: Packet) -> int:
    """A request packet's key in ties."""
    return packet[0].key + (packet[1] >> PACKET_SHIFT)
