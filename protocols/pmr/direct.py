"""Messages alone, and messages to a store in DRAM: nothing here makes an update durable before its answer.

Source: Luo et al., TCAD 2024, section IV-B (``write-messaging``, ``send-messaging``: the two ways of messages, compared
in figure 12) and table I (``rdma-dram``: RDMA+DRAM, "not durable").
"""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from .cuckoo import Cuckoo
from .messaging import connect_by_send
from .registers import Registers
from .stack import Stack, StackServer, StackSession
from .store import Store


class WriteMessaging(Stack, name="write-messaging"):
    """A request and a flag by WRITE, a reply and a flag by WRITE; the server keeps a register for each key."""

    title = "messages by WRITE: request and flag, reply and flag, one round trip; nothing is durable"
    section = "section IV-B, algorithms 1 and 2"
    Backend: ClassVar[type[Store]] = Registers

    class Server(StackServer):
        """The server."""


class SendMessaging(Stack, name="send-messaging"):
    """A request by SEND whose completion is awaited, then a RECV for the reply; the server does the same."""

    title = "messages by SEND: each side waits for its SEND, then for its RECV; nothing is durable"
    section = "section IV-B, figure 3a (FaSST)"
    Backend: ClassVar[type[Store]] = Registers

    class Server(StackServer):
        """The server."""

        @override
        def admit(self, thread: Thread, node: Node) -> StackSession:
            domain = node.process(thread.name).alloc_pd()
            theirs, ours = connect_by_send(node, domain, self.node, self.domain, self.room)
            return self.serve_from_now(thread, theirs, ours)


class RdmaDram(Stack, name="rdma-dram"):
    """Table I's RDMA+DRAM: what all others are measured against."""

    title = "messages by WRITE to LibCuckoo in DRAM; nothing is durable"
    section = "section V-C, table I"
    Backend: ClassVar[type[Store]] = Cuckoo

    class Server(StackServer, software=Cuckoo.software):
        """The server."""
