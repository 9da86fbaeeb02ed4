"""What is in flight: one request that an adapter has been given, and then its response.

It is made once, when its doorbell rings. Both adapters keep in it where they are with it; the work request stays as its
program has posted it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..verbs.opcodes import Status
from ..verbs.work import SendWR

if TYPE_CHECKING:
    from .ends import ReceiveEnd, SendEnd

VOID = -1
"""``Message.attempt`` of what is sent again: whatever is still on its way of it counts for nothing."""


class Message:
    """A request on its way, or its response."""

    __slots__ = (
        "asks",
        "attempt",
        "end",
        "end_ps",
        "key",
        "length",
        "more",
        "n_bytes",
        "observe",
        "opcode",
        "part_bytes",
        "parts",
        "payload",
        "psn",
        "ready",
        "sent",
        "sent_bytes",
        "sent_ps",
        "slots",
        "span",
        "start_ps",
        "status",
        "to",
        "work",
    )

    def __init__(self, work: SendWR, end: SendEnd, key: int, payload: bytes) -> None:
        to = end.to
        if to is None and work.destination is not None:
            to = work.destination.end.receive
        self.work = work
        self.opcode = work.opcode
        self.length = work.length
        self.span = work.span
        self.end = end
        """The requester's."""
        self.to: ReceiveEnd = to  # type: ignore[assignment]  # None only where nothing ever goes: it is not connected
        """The responder's."""
        self.key = key
        """Its place among the customers of a station and instant (``models.verbs.ties``)."""
        self.payload = payload
        """What the adapter fetched, or what was copied into the WQE (inline); of an answer: what it returns."""
        self.ready = False
        """All is fetched that it needs."""
        self.attempt = 0
        """How often its queue pair had gone back to repeat something when this was sent; VOID: it is sent again."""
        self.sent_bytes = 0
        """What the responder has taken of it before it asked for a repetition."""
        self.parts: list[int] | None = None
        """When each piece of ``part_bytes`` may come to the port, of a payload that is fetched piece by piece."""
        self.sent: Any = None
        """For the reliability, where one has to send again (``models.nic.lossy.psn``): the request that this is one
        sending of; None of a NAK for a sequence error."""

    # Set when they are known:
    part_bytes: int
    status: Status
    n_bytes: int
    """Of the first packet."""
    more: list[Any] | None
    """Of the other packets: how large they are, and then when the first and last bit of each leave."""
    start_ps: int
    """When its first packet leaves the port; negative while that is not known yet."""
    end_ps: int
    """When the last bit of that packet leaves."""
    sent_ps: int
    """When the request's last bit has left the port."""
    observe: Callable[[int], None] | None
    """What its response proves, or what its completion lets the poller know."""
    slots: int
    """Of its completion, as there."""
    psn: int
    """On a fabric that disturbs packets: of the packet that its payload begins with; of a NAK, what is expected."""
    asks: bool
    """Whether it asks for an acknowledgement."""

    def again(self, key: int) -> Message:
        """The same request, to be sent once more."""
        made = Message(self.work, self.end, key, self.payload)
        made.to, made.span, made.ready = self.to, self.span, self.ready
        made.attempt, made.sent_bytes, made.parts = self.attempt, self.sent_bytes, self.parts
        if made.parts is not None:
            made.part_bytes = self.part_bytes
        return made


Packet = tuple[Message, int, bytes, bool, int]
"""Its message, offset of its payload, payload, whether it is the last, and when its last bit leaves the port."""


def mark(message: Message, hop: str, at_ps: int) -> None:
    """A hop of ``message`` ended, if anybody wants to know."""
    if message.span is not None:
        message.span.mark(hop, at_ps)
