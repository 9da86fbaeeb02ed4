"""Two machines on one fabric, as benchmarks of verbs use them: a client with queue pairs to a server, and buffers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...models.cpu import Thread
from ...models.nic.packets import GRH_BYTES
from ...models.profiles.platform import Platform
from ...models.system import NodeSpec, System
from ...models.verbs import REMOTE, Access, Opcode, QpType, QueuePair, RecvWR, SendFlags, SendWR

Code = Generator[Any, Any, Any]

PAGE_BYTES = 4096


class Pair:
    """A client and a server; ``memory`` is the server's device that requests go to, ``access`` what its key opens.

    Completions of the client's requests come to ``sent``, its receives to ``answers``, the server's to ``received``.
    """

    def __init__(
        self,
        platform: Platform,
        *,
        memory: str = "dram",
        queue_pairs: int = 1,
        region_bytes: int = 1 << 20,
        qp_type: QpType = QpType.IBV_QPT_RC,
        cores: int = 1,
        access: Access = REMOTE,
    ) -> None:
        devices = tuple(dict.fromkeys(("dram", memory)))
        specs = {"server": [NodeSpec(cores=cores, memory=devices)], "client": [NodeSpec()]}
        self.system = System(platform, specs, seed=1)
        self.platform = platform
        self.clock = self.system.clock
        self.server, self.client = self.system.nodes["server"][0], self.system.nodes["client"][0]
        self.device = self.server.memory[memory]
        self.region_bytes = region_bytes
        self.target = self.device.allocate(region_bytes, "target", align=PAGE_BYTES)
        server_pd, client_pd = self.server.alloc_pd(), self.client.alloc_pd()
        self.rkey = server_pd.reg_mr(self.target, region_bytes, access).key
        self.sent, self.received = self.client.create_cq(), self.server.create_cq()
        self.answers = self.client.create_cq()
        self.queue_pairs: list[QueuePair] = []
        self.peers: list[QueuePair] = []
        for _ in range(queue_pairs):
            ours = client_pd.create_qp(self.sent, self.answers, qp_type)
            theirs = server_pd.create_qp(self.server.create_cq(), self.received, qp_type)
            if qp_type is not QpType.IBV_QPT_UD:
                ours.connect(theirs)
            self.queue_pairs.append(ours)
            self.peers.append(theirs)
        self.thread = self.client.thread(0, "client")
        self.source = self.client.memory["dram"].allocate(region_bytes, "source", align=PAGE_BYTES)

    def server_thread(self, core: int = 0) -> Thread:
        """A thread of the server."""
        return self.server.thread(core, f"server {core}")

    def run(self, code: Code) -> Any:
        """Run code to its end; returns its value."""
        return self.clock.run_until(self.clock.start(code))

    def work(self, opcode: Opcode, length: int, *, at: int = 0, number: int = 0, signalled: bool = True) -> SendWR:
        """A request for ``length`` bytes at offset ``at`` of the server's region; inline as perftest has it."""
        flags = SendFlags.IBV_SEND_SIGNALED if signalled else SendFlags.NONE
        carries = opcode in (Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_SEND)
        if carries and length <= self.platform.nic.inline_max_bytes:
            flags |= SendFlags.IBV_SEND_INLINE
        remote, rkey = (0, 0) if opcode is Opcode.IBV_WR_SEND else (self.target + at, self.rkey)
        return SendWR(number, opcode, self.source, length, remote, rkey, flags)

    def cached_source(self, length: int) -> Code:
        """The client's code fills its buffer: the payload lies in its cache, as after a program's stores."""
        for at in range(0, length, PAGE_BYTES):
            yield from self.thread.store(self.source + at, bytes(min(PAGE_BYTES, length - at)))

    def post_recv(self, count: int, length: int) -> None:
        """Receive requests at the server, for every queue pair."""
        buffer = self.server.memory["dram"].allocate(length + GRH_BYTES, "receive buffer", align=64)
        for peer in self.peers:
            for number in range(count):
                peer.post_recv(RecvWR(number, buffer, length + GRH_BYTES))
