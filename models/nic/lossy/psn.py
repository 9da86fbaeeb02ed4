"""Packet sequence numbers, and the transport's state at one end of a connection: sent requests, answers, counters.

IBTA 1.4, volume 1, section 9.7: a request packet has the next PSN of its queue pair, 24 bits; a READ takes as many as
its response has packets. The responder takes in the packet of the PSN that it expects; a packet with an earlier PSN is
a duplicate, one with a later PSN shows that something was lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields

from ...verbs.opcodes import NO_PAYLOAD, Opcode
from ..message import VOID, Message

PSN_MASK = (1 << 24) - 1
_HALF = 1 << 23


def distance(psn: int, other: int) -> int:
    """How far ``psn`` is behind ``other`` in the order of sending (negative: before it), at most half of all apart."""
    return ((psn - other + _HALF) & PSN_MASK) - _HALF


def psns(message: Message, mtu_bytes: int) -> int:
    """How many PSNs a request takes: one for each packet of it, or of a READ's response."""
    if message.opcode in NO_PAYLOAD and message.opcode is not Opcode.IBV_WR_RDMA_READ:
        return 1
    return max(1, -(-message.length // mtu_bytes))


@dataclass(slots=True)
class TransportCounters:
    """Counters of one end of a connection, under the names of mlx5's hardware counters where it has one."""

    packets: int = 0
    """Packets that left for the other end."""
    retransmitted: int = 0
    """Packets of requests that were sent before."""
    out_of_sequence: int = 0
    """Request packets that came too early: one before them was missing."""
    duplicate_request: int = 0
    """Request packets that had been taken in before."""
    packet_seq_err: int = 0
    """NAKs for a sequence error that came back."""
    implied_nak_seq_err: int = 0
    """Responses that showed that one before them was lost."""
    local_ack_timeout_err: int = 0
    """Local ACK timeouts."""
    rnr_nak_retry_err: int = 0
    """RNR NAKs that came back."""

    def add(self, other: TransportCounters) -> None:
        """Add what another end has counted."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class Sent:
    """A request that has a PSN; it may be on its way more than once, each time as a :class:`Message` of its own."""

    __slots__ = (
        "answer",
        "at_ps",
        "attempt",
        "got",
        "last",
        "latest",
        "message",
        "observe",
        "payload",
        "pieces",
        "psn",
        "sent_ps",
    )

    def __init__(self, message: Message, psn: int, count: int, at_ps: int) -> None:
        self.message = self.latest = message
        """The message as it was posted, and as it was sent last."""
        self.payload = message.payload
        self.psn = psn
        self.last = (psn + count - 1) & PSN_MASK
        self.attempt = message.attempt
        """How often its queue pair had gone back when it was sent last."""
        self.at_ps = at_ps
        """When it came to the engine, the last time."""
        self.sent_ps: int | None = None
        """When its last bit has left the port, the last time."""
        self.answer = VOID
        """Which attempt's response is arriving, and how much has come of all, in order."""
        self.got = 0
        self.pieces: list[tuple[Message, int, int]] = []
        """What has come: from which offset to which, and of which sending's response."""
        self.observe: Callable[[int], None] | None = None
        """The proof by its acknowledgement."""

    def take(self, message: Message, at: int, n_bytes: int) -> None:
        """The bytes from ``at`` on have come, in the response to ``message``: a later sending's take their place."""
        pieces = [(of, start, min(end, at)) for of, start, end in self.pieces if start < at]
        if pieces and pieces[-1][0] is message:
            at = pieces.pop()[1]
        self.got = self.got + n_bytes
        self.pieces = [*pieces, (message, at, self.got)]


class TransportEnd:
    """The transport's state at one end of a connection: as requester, and as responder."""

    __slots__ = (
        "accepted",
        "answers",
        "broken",
        "counters",
        "expected",
        "nak_sent",
        "next_psn",
        "oldest",
        "retries",
        "sent",
        "since_ps",
        "timing",
        "unanswered",
    )  # fmt: skip

    def __init__(self, first_psn: int) -> None:
        self.counters = TransportCounters()
        # requester
        self.next_psn = first_psn
        self.oldest = first_psn
        """The first PSN that is not known to have been taken in."""
        self.sent: deque[Sent] = deque()
        """Outstanding requests, in order."""
        self.retries = 0
        """Retries in a row without any new acknowledgement."""
        self.since_ps = 0
        """When something new was acknowledged last."""
        self.timing = False
        """Whether the timer is set."""
        # responder
        self.expected = first_psn
        self.nak_sent = False
        """A NAK has been sent for the expected PSN."""
        self.accepted = (first_psn - 1) & PSN_MASK
        """The last WRITE or SEND that was accepted whole."""
        self.unanswered = 0
        """WRITEs and SENDs accepted since the last acknowledgement."""
        self.answers: dict[int, tuple[bytes, Callable[[int], None] | None]] = {}
        """By PSN: results of atomics, and the answers to FLUSH and ATOMIC WRITE, for the case that they are lost."""
        self.broken: Message | None = None
        """Of an unreliable connection: the message that lacks a packet."""
