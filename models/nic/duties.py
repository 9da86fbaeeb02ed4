"""The duties of an adapter's parts for each other, as protocols that the parts of every generation implement.

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
    """The wire from the port of this adapter until the far one has processed a packet."""

    def request(self, message: Message) -> None:
        """A request's first packet may be at the last switch."""

    def acknowledgement(self, message: Message) -> None:
        """An acknowledgement may be at the last switch."""

    def response(self, message: Message) -> None:
        """The first packet of a response with data may be at the last switch."""


class Reliability(Protocol):
    """The part that has every request executed once, in order, and answered; or its requester informed."""

    def goes(self, at_ps: int, message: Message) -> None:
        """Requester: a request goes to the engine for the first time, to be there at ``at_ps``."""

    def acknowledged(self, message: Message, tail_ps: int) -> None:
        """Requester: the last bit of an acknowledgement arrives at ``tail_ps``."""

    def take_response(self, packet: Packet) -> None:
        """Requester: a packet of a response with data has been processed."""

    def answered(self, end: SendEnd, message: Message, status: Status, observe: Observe | None) -> None:
        """Requester: the oldest outstanding request is done, with this status."""

    def unanswered(self, message: Message) -> None:
        """Requester: no answer to this request will ever come."""

    def flushed(self, qp: QueuePair) -> None:
        """Requester: nothing is outstanding any more on a broken queue pair."""

    def expects(self, packet: Packet) -> bool:
        """Responder: whether it is the turn of a packet that has been processed."""

    def acknowledges(self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status) -> bool:
        """Responder: whether a request that has been accepted, or refused, is to be acknowledged now."""

    def answers(self, message: Message, payload: bytes, observe: Observe | None) -> None:
        """Responder: a request has been executed, and is about to be answered."""

    def counters(self) -> dict[str, int]:
        """Its counters by name, as the driver would show them."""


class Answering(Protocol):
    """The part that sends a responder's answers."""

    def acknowledge(
        self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        """Send an answer of one packet."""

    def answer(
        self, end: ReceiveEnd, message: Message, ready_ps: int, payload: bytes = b"", observe: Observe | None = None
    ) -> None:
        """Send the response to an executed request, with its payload, when it is ready."""

    def refuse(self, end: ReceiveEnd, message: Message, status: Status) -> None:
        """Answer with an error; the connection is broken."""

    def send_acknowledgement(
        self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        """Send an acknowledgement without consulting the reliability."""

    def send_answer(
        self, end: ReceiveEnd, message: Message, ready_ps: int, payload: bytes, observe: Observe | None
    ) -> None:
        """Send a response without consulting the reliability."""


class Requesting(Protocol):
    """The half that sends requests."""

    def doorbell(self, messages: list[Message]) -> None:
        """The doorbell of these requests is here."""

    def ready(self, message: Message) -> None:
        """All that a request needs has been fetched."""

    def pump(self, end: SendEnd) -> None:
        """Pass ready requests to the engine, in the order of the posts."""

    def cut(self, message: Message) -> None:
        """Cut a request into packets."""

    def place(self, packet: Packet) -> None:
        """A packet of a response goes to memory, the last completes the request."""

    def done(self, end: SendEnd, message: Message, status: Status, observe: Observe | None) -> None:
        """A response has completed the oldest outstanding request."""


class Responding(Protocol):
    """The half that takes requests."""

    staging: Credits
    """The free bytes of staging."""
    held: deque[Any]
    """Requests that wait for room in it."""
    drain: Staging
    engines: dict[str, int]
    """By step of a primitive: until when its engine is busy."""
    flush_issue_ps: int
    """The time from one line that a FLUSH writes back to the next."""
    flush_keeps_lines: bool

    def serve_now(self, packet: Packet) -> None:
        """Execute a request whose turn it is, and that is answered once executed."""

    def wait_for_room(self, room_ps: int | None, packet: Packet, address: int) -> None:
        """The first packet of the queue waits for room: until an instant, or until one is known (None)."""

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
