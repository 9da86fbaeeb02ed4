"""Every bit of a hardware event's key: which of the events of one instant comes first (``sim.clock``).

Customers of one station and instant are served in the order of their keys: the requester's adapter, its queue pair, the
number of the request on it, its phase (request, response, completion of a receive, completion), and the packet.
"""

from __future__ import annotations

from typing import NamedTuple


class TieField(NamedTuple):
    """A field of a key: its lowest bit, and how many bits it has."""

    shift: int
    width: int


FIELDS = {
    "packet": TieField(0, 20),
    "step": TieField(20, 1),
    "nak": TieField(21, 1),
    "phase": TieField(22, 2),
    "request": TieField(24, 40),
    "queue_pair": TieField(64, 24),
    "adapter": TieField(88, 32),
}
"""From the lowest bit up. A packet is named by its payload's offset in the message, in units of the smallest MTU
(:data:`PACKET_SHIFT`); with ``step`` set the packet's bits name a step of a primitive and one of its requests."""


def tie(
    *,
    adapter: int = 0,
    queue_pair: int = 0,
    request: int = 0,
    phase: int = 0,
    nak: int = 0,
    step: int = 0,
    packet: int = 0,
) -> int:
    """The key with these fields; hot code adds such keys up. Raises ValueError for a value that its field cannot hold.

    ``adapter`` counts from 1, so that every key is beyond those that end a run at an instant.
    """
    values = (packet, step, nak, phase, request, queue_pair, adapter)
    key = 0
    for (name, (shift, width)), value in zip(FIELDS.items(), values, strict=True):
        if not 0 <= value < 1 << width:
            raise ValueError(f"{name} {value} of an event's key: from 0 to {(1 << width) - 1}")
        key |= value << shift
    return key


def phase_of(key: int) -> int:
    """The phase of a key: 0 of a request, else that of :data:`RESPONSE`, :data:`RECEIVED` or :data:`COMPLETION`."""
    shift, width = FIELDS["phase"]
    return key & ((1 << width) - 1) << shift


NEXT_REQUEST = tie(request=1)
RESPONSE, RECEIVED, COMPLETION = (tie(phase=phase) for phase in (1, 2, 3))
"""Added to a request's key."""
SEQUENCE_NAK = tie(nak=1)
"""Of a NAK for a sequence error: its packet may be answered otherwise as well."""
PACKET_SHIFT = 8
"""A packet's offset in bytes, shifted right by this, is its ``packet`` field."""
STEP = tie(step=1)
STEP_REQUESTS = 1 << 10
"""Of a step's keys the first is for its own events, the others are for its requests to PCIe."""
