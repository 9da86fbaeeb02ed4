"""HERD: the server's threads poll for requests, execute them, and reply.

Source: Tsai et al., ATC'20, sections 2.2 and 6.1, which measures Kalia, Kaminsky, Andersen, SIGCOMM'14: a request is
written into the server's memory over an unreliable connection, the reply is a datagram; 12 threads poll. ``herd-bf`` is
the same on a SmartNIC's cores. What it stores counts as persistent memory, which nothing is flushed to: neither paper
claims that anything lasts.

What is open is read so. Each client has a slot, and a thread polls the slots of every twelfth client; an object is one
thread's at a time (in HERD a key belongs to a thread). An object is stored in place.
"""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ..guarantees import Claims
from ..naming import Option
from ..rflush.baselines import DATAGRAMS
from ..rflush.calls import CallScheme, CallServer, Code
from ..rflush.options import RESEND_LOST
from ..rflush.paths import ByDatagram, ByUnreliableWrite, MessagePath


class HerdServer(CallServer, memory=("dram", "pm"), served=True):
    """The machine with the objects."""

    @override
    def flush(self, thread: Thread, number: int) -> Code:
        """Nothing is flushed."""
        yield from ()


class Herd(CallScheme, name="herd"):
    """One round trip, by processors of the server."""

    title = "HERD: unreliable WRITE that a server's thread polls, executed in memory, a datagram as the reply"
    paper = "Tsai et al., ATC'20 (Clover)"
    section = "sections 2.2 and 6.1"
    requests: ClassVar[type[MessagePath]] = ByUnreliableWrite
    replies: ClassVar[type[MessagePath]] = ByDatagram
    limits = DATAGRAMS
    claims: ClassVar[Claims] = {}
    options: ClassVar[dict[str, Option]] = {"resend": RESEND_LOST}
    model = "kv"
    Server = HerdServer


class HerdBf(Herd, name="herd-bf"):
    """The same on slower cores, one hop further from the adapter."""

    title = "HERD on the cores of a SmartNIC"
    section = "section 6.1"

    class Server(HerdServer, core_type="arm-a72"):
        """A SmartNIC with the objects."""
