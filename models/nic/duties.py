"""What the parts of an adapter do for each other, whichever parts a generation of adapters has.

An adapter is put together in ``models.nic.nic``. A part knows the others by these duties, so that no file of a part
imports another's.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from ...sim.stations import Credits
from ..durability.rules import Placement, RequestKind
from ..verbs.objects import QueuePair
from ..verbs.opcodes import Status
from .ends import ReceiveEnd, SendEnd
from .inbound import Observe
from .lanes import Operand
from .message import Message, Packet
from .staging import Staging


class Wire(Protocol):
    """From the port of this adapter to what the far one has processed."""

    def request(self, message: Message) -> None:
        """A request's first packet may be at the last switch."""

    def acknowledgement(self, message: Message) -> None:
        """An acknowledgement may be at the last switch."""

    def response(self, message: Message) -> None:
        """The first packet of a response with data may be at the last switch."""


class Reliability(Protocol):
    """What makes sure that every request is executed once, in order, and answered; or that its requester knows."""

    def goes(self, at_ps: int, message: Message) -> None:
        """Requester: a request goes to the engine for the first time, to be there at ``at_ps``."""

    def acknowledged(self, message: Message, tail_ps: int) -> None:
        """Requester: the last bit of an acknowledgement arrives at ``tail_ps``."""

    def take_response(self, packet: Packet) -> None:
        """Requester: a packet of a response with data has been processed."""

    def answered(self, end: SendEnd, message: Message, status: Status, observe: Observe | None) -> None:
        """Requester: the oldest outstanding request is done, with this status."""

    def unanswered(self, message: Message) -> None:
        """Requester: nobody will ever answer this request."""

    def flushed(self, qp: QueuePair) -> None:
        """Requester: nothing is outstanding any more on a broken queue pair."""

    def expects(self, packet: Packet) -> bool:
        """Responder: whether it is the turn of a packet that has been processed."""

    def acknowledges(self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status) -> bool:
        """Responder: whether a request that has been accepted, or refused, is to be acknowledged now."""

    def answers(self, message: Message, payload: bytes, observe: Observe | None) -> None:
        """Responder: a request has been executed, and is about to be answered."""

    def counters(self) -> dict[str, int]:
        """What it counts, as its driver would tell."""


class Answering(Protocol):
    """How a responder answers."""

    def acknowledge(
        self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        """An answer of one packet."""

    def answer(
        self, end: ReceiveEnd, message: Message, ready_ps: int, payload: bytes = b"", observe: Observe | None = None
    ) -> None:
        """The response to an executed request will be ready, with what it returns."""

    def refuse(self, end: ReceiveEnd, message: Message, status: Status) -> None:
        """Answer with an error; the connection is broken."""

    def send_acknowledgement(
        self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        """An acknowledgement, whatever the reliability would say to it."""

    def send_answer(
        self, end: ReceiveEnd, message: Message, ready_ps: int, payload: bytes, observe: Observe | None
    ) -> None:
        """A response, whatever the reliability would say to it."""


class Requesting(Protocol):
    """The half that sends requests."""

    def pump(self, end: SendEnd) -> None:
        """Pass to the engine what is ready, in the order of the posts."""

    def cut(self, message: Message) -> None:
        """Make its packets."""

    def place(self, packet: Packet) -> None:
        """A packet of a response goes to memory, the last completes the request."""

    def done(self, end: SendEnd, message: Message, status: Status, observe: Observe | None) -> None:
        """A response has completed the oldest outstanding request."""


class Responding(Protocol):
    """The half that takes requests."""

    staging: Credits
    """Its bytes."""
    held: deque[Any]
    """Requests that wait for room in it."""
    drain: Staging
    flush_issue_ps: int
    """Between the lines that a FLUSH writes back."""
    flush_keeps_lines: bool

    def serve_now(self, packet: Packet) -> None:
        """Execute a request that is answered once executed: it is its turn."""

    def wait_for_room(self, room_ps: int | None, packet: Packet, address: int) -> None:
        """A packet that nobody waits before has to wait for room: until an instant, or until more is known."""

    def stage(self, packet: Packet, end: ReceiveEnd, address: int, may_go: bool = True) -> None:
        """A packet has its room in staging: pass it to PCIe if it may go, acknowledge the last."""

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
        """Posted writes of a request's data go to PCIe now."""

    def post_result(self, end: ReceiveEnd, message: Message, data: bytes, operand: Operand) -> None:
        """The result of an atomic goes to PCIe now."""
