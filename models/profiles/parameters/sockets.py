"""The sockets of a machine and the link between them, as a platform profile describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SocketParameters:
    """One processor; its last-level cache, with I/O ways, and its memory controllers are as large as any other's."""

    cores: int


@dataclass(frozen=True, slots=True)
class InterconnectParameters:
    """The link between any two sockets (Intel: QPI, UPI)."""

    link_bits_per_s: int = 0
    """Of all links between two sockets together, each way. Two sockets have one."""
    crossing_ps: int = 0
    """From one socket to the other, without serialisation. Two sockets have one."""
    header_bytes: int = 8
    """What a message takes of the link besides the line that it carries, if it carries one."""
    directory: Literal["none", "memory"] = "none"
    """Where a socket keeps which lines of its memory another one may have. ``memory``: in the line itself, which is
    therefore written once more when another socket gets it.
    """
