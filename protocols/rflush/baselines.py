"""The calls that the durable ones are compared with, each by its two paths.

Source: Duan et al., SC'21, section 3 and figure 2, which reduces each system to how requests and replies travel; the
stores that HERD and Octopus are otherwise known for are not meant.
"""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from ..naming import Option
from ..scheme import Limits
from .calls import CallClient, CallScheme, Code
from .ends import CallSession
from .messages import CallMessage, Tail
from .options import COMPLETION, COPIES, REPLY, RESEND_LOST, WORK
from .paths import (
    ByDatagram,
    ByImmediate,
    BySend,
    ByUnreliableWrite,
    ByWrite,
    ByWriteAndFlag,
    InKernel,
    LeftThere,
    MessagePath,
)

DATAGRAM_BYTES = 4096
DATAGRAMS = Limits(
    value_bytes=DATAGRAM_BYTES - Tail.size,
    source=f"a datagram of {DATAGRAM_BYTES} B (IBTA 9.8.3) has the message's {Tail.size} B as well",
)


class DaRpc(CallScheme, name="darpc"):
    """SEND; the receive completion; SEND as the reply."""

    title = "SEND, executed and flushed by the server, SEND as the reply"
    section = "section 3, figure 2a"
    requests, replies = BySend, BySend
    options: ClassVar[dict[str, Option]] = {"copies": COPIES}
    batches = True


class Farm(CallScheme, name="farm"):
    """WRITE into a ring whose last byte the server polls; WRITE into a slot that the client polls."""

    title = "WRITE into a ring that the server polls, WRITE as the reply"
    section = "section 3, figure 2b"
    requests, replies = ByWrite, ByWrite
    options: ClassVar[dict[str, Option]] = {"completion": COMPLETION}


class HerdRpc(CallScheme, name="herd-rpc"):
    """WRITE over an unreliable connection; the reply in the same way, as the paper abstracts it, or as a datagram, as
    HERD itself does.
    """

    title = "unreliable WRITE that the server polls, unreliable WRITE as the reply"
    section = "section 3, figure 2c"
    requests = ByUnreliableWrite
    replies: ClassVar[type[MessagePath]] = ByUnreliableWrite
    options: ClassVar[dict[str, Option]] = {
        "resend": RESEND_LOST,
        "reply": Option(
            "write", choices=("write", "datagram"),
            source="write: section 3, figure 2c; datagram: HERD (Kalia et al., SIGCOMM'14, section 4.3) itself",
            text="how replies travel: WRITE over the unreliable connection, or SEND of a datagram",
        ),
    }  # fmt: skip

    @override
    @classmethod
    def composed(cls) -> None:
        super().composed()
        if cls.option("reply") == "datagram":
            cls.replies, cls.limits = ByDatagram, DATAGRAMS


class Fasst(CallScheme, name="fasst"):
    """SEND of a datagram; the receive completion; SEND of a datagram. Nobody tells a client that a server is gone: it
    finds out when it calls again.
    """

    title = "a datagram, executed and flushed by the server, a datagram as the reply"
    section = "section 3, figure 2d"
    requests, replies = ByDatagram, ByDatagram
    limits = DATAGRAMS
    options: ClassVar[dict[str, Option]] = {"resend": RESEND_LOST, "work": WORK}


class L5(CallScheme, name="l5"):
    """WRITE of the request, WRITE of a flag into a mailbox that the server polls; WRITE as the reply."""

    title = "WRITE, and WRITE of a flag that the server polls, WRITE as the reply"
    section = "section 3, figure 2e"
    requests, replies = ByWriteAndFlag, ByWrite
    options: ClassVar[dict[str, Option]] = {"completion": COMPLETION, "reply": REPLY, "work": WORK}


class Rfp(CallScheme, name="rfp"):
    """WRITE that the server polls; the result stays in its memory until the client has READ it."""

    title = "WRITE that the server polls, the reply left for the client's READ"
    section = "section 3, figure 2f"
    requests, replies = ByWrite, LeftThere
    options: ClassVar[dict[str, Option]] = {"reply": REPLY}


class Lite(CallScheme, name="lite"):
    """As ``octopus-rpc``, from kernel to kernel: a system call at the client, a thread of the kernel at the server, and
    a look at the permissions in both. The client waits inside of its system call.
    """

    title = "from the kernel, WRITE with immediate, executed and flushed by the server's kernel, the same as the reply"
    section = "section 3, figure 2i"
    requests, replies = InKernel, ByImmediate

    class Client(CallClient):
        @override
        def call(self, session: CallSession, message: CallMessage, length: int) -> Code:
            yield from session.thread.syscall()
            return (yield from super().call(session, message, length))
