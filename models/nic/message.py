"""A message in flight: one request that an adapter has been given, and then its response.

It is made once, when its doorbell rings. Both adapters keep their progress in it; the work request stays as its
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
"""``Message.attempt`` of a message that is sent again: its packets that are still on their way are ignored."""


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
        "wqe",
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
        """The requester's end."""
        self.to: ReceiveEnd = to  # type: ignore[assignment]  # None only where nothing ever goes: it is not connected
        """The responder's end."""
        self.key = key
        """Its order among the customers of one station and instant (``models.verbs.ties``)."""
        self.wqe = key
        """The name of its work queue element, however often it is sent."""
        self.payload = payload
        """The bytes that the adapter fetched, or that the WQE had inline; of an answer, its data."""
        self.ready = False
        """Whether everything that it needs has been fetched."""
        self.attempt = 0
        """How often its queue pair had gone back to repeat requests when this was sent; VOID: it is sent again."""
        self.sent_bytes = 0
        """Bytes that the responder took of it before it requested a repetition."""
        self.parts: list[int] | None = None
        """When each piece of ``part_bytes`` may come to the port, of a payload that is fetched piece by piece."""
        self.sent: Any = None
        """For the reliability that repeats requests (``models.nic.lossy.psn``): the :class:`Sent` request of which this
        is one sending; None of a NAK for a sequence error."""

    # Set when they are known:
    part_bytes: int
    status: Status
    n_bytes: int
    """Bytes of the first packet."""
    more: list[Any] | None
    """Of the other packets: their sizes, and then the instants at which the first and last bit of each leave."""
    start_ps: int
    """When its first packet leaves the port; negative while that is not known yet."""
    end_ps: int
    """When the last bit of that packet leaves."""
    sent_ps: int
    """When the request's last bit has left the port."""
    observe: Callable[[int], None] | None
    """The proof by its response, or by the poll of its completion."""
    slots: int
    """The send queue slots that its completion gives back (``WorkCompletion.slots``)."""
    psn: int
    """On a fabric that disturbs packets: the PSN of the first packet of its payload; of a NAK, the expected PSN."""
    asks: bool
    """Whether it asks for an acknowledgement."""

    def again(self, key: int) -> Message:
        """The same request, to be sent once more."""
        made = Message(self.work, self.end, key, self.payload)
        made.wqe, made.to, made.span, made.ready = self.wqe, self.to, self.span, self.ready
        made.attempt, made.sent_bytes, made.parts = self.attempt, self.sent_bytes, self.parts
        if made.parts is not None:
            made.part_bytes = self.part_bytes
        return made


Packet = tuple[Message, int, bytes, bool, int]
"""Its message, offset of its payload, payload, whether it is the last, and when its last bit leaves the port."""


def mark(message: Message, hop: str, at_ps: int) -> None:
    """Mark in the span of ``message``, if it has one, that a hop ended."""
    if message.span is not None:
        message.span.marks.append((hop, at_ps))
