"""What B has posted beforehand: its queue pairs that wait, enable and send without its CPU, to B itself or to C."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from ....models.cpu import Code
from ....models.verbs import Opcode, SendFlags, SendWR
from ....models.verbs.cross_channel import CrossChannelQueue, enable, wait
from ....models.verbs.objects import QueuePair
from ....models.verbs.work import WQE_BYTES, ManagedQueue
from ..language.program import LitmusOperation

if TYPE_CHECKING:
    from .setting import LitmusSystem

WORD = struct.Struct(">Q")
PAYLOAD_AT = WQE_BYTES - WORD.size
"""Where a work request in memory says the address of its payload."""


class Relay:
    """B's queue pairs for a test's list ``relay``, with the words of work requests that A may write into."""

    def __init__(self, setting: LitmusSystem) -> None:
        self._setting = setting
        self._operations = setting.test.relay
        self.arrived = {one.other: CrossChannelQueue() for one in self._operations if one.verb == "wait"}
        """By queue pair of A: the completions of its messages at B, which WAITs count."""
        self._rings: dict[str, ManagedQueue] = {}
        for name in sorted(setting.test.managed):
            posted = max(1, sum(one.qp == name for one in self._operations))
            ring = setting.server.memory["dram"].allocate(posted * WQE_BYTES, f"send queue of {name}", align=4096)
            self._rings[name] = ManagedQueue(ring, posted)
        self._payloads: dict[tuple[str, int], int] = {}
        """By word of a work request and value: the address of a buffer that holds the value."""
        self.words: dict[str, int] = {}
        """By variable that is such a word: its address."""
        for operation in self._operations:
            if operation.element:
                mine = [one for one in self._operations if one.qp == operation.qp]
                self.words[operation.element] = self._rings[operation.qp].place(mine.index(operation)) + PAYLOAD_AT
        self.pairs: dict[str, QueuePair] = {}

    def connect(self) -> None:
        """Bring the queue pairs up, once B's variables have their places."""
        for name in sorted({one.qp for one in self._operations}):
            domain = self._setting.server.alloc_pd()
            cqs = self._setting.server.create_cq(), self._setting.server.create_cq()
            near = domain.create_qp(*cqs, cross_channel=True, managed=self._rings.get(name))
            near.connect(self._setting.far_end(name))
            self.pairs[name] = near

    def word(self, name: str, value: int) -> bytes:
        """What a word of a work request holds so that its payload is ``value``."""
        if (name, value) not in self._payloads:
            (operation,) = (one for one in self._operations if one.element == name)
            self._payloads[name, value] = self._buffer(operation, value)
        return WORD.pack(self._payloads[name, value])

    def value(self, name: str, word: bytes) -> int:
        """The value that was written to a word of a work request; 0 where it is as B has posted it."""
        (address,) = WORD.unpack(word)
        return next((value for (of, value), at in self._payloads.items() if (of, at) == (name, address)), 0)

    def post(self) -> Code:
        """B's CPU posts everything, before either program begins."""
        thread = self._setting.b
        for operation in self._operations:
            yield from thread.post_send(self.pairs[operation.qp], self._work(operation))
        yield from thread.sfence()

    def _work(self, operation: LitmusOperation) -> SendWR:
        if operation.verb == "wait":
            return wait(self.arrived[operation.other], operation.values[0])
        if operation.verb == "enable":
            return enable(self.pairs[operation.other], operation.values[0])
        names, setting = operation.names, self._setting
        length = len(setting.payload(names, 0))
        if operation.source:
            address = setting.address[operation.source]
        else:
            address = self._buffer(operation, operation.values[0])
        more: dict[str, Any] = {"remote_address": setting.start(names), "rkey": setting.region(names).key}
        return SendWR(0, Opcode.IBV_WR_RDMA_WRITE, address, length, send_flags=SendFlags.NONE, **more)

    def _buffer(self, operation: LitmusOperation, value: int) -> int:
        """The address of a buffer of B with what a WRITE of ``value`` carries."""
        setting, dram = self._setting, self._setting.server.memory["dram"]
        content = setting.payload(operation.names, value)
        address = setting.scratch(setting.server, max(64, len(content)))
        dram.space.poke(address - dram.base, content)
        return address
