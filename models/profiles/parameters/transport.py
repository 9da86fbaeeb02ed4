"""The reliable transport of an adapter, as a platform profile describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TransportParameters:
    """The choices of a responder and a requester."""

    ack_interval: int = 1
    """WRITEs and SENDs that a responder takes in before it acknowledges them, unless a requester asks for it: with a
    signalled request, with one that is the last for now, and with one that it sends again."""
    read_retry: Literal["missing packet", "whole"] = "missing packet"
    """What a requester asks for again of a READ whose response has come in part: the rest of it, or all of it."""
