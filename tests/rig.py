"""A small rig for short stories with exact times: clients and one server, each connected to it by one queue pair.

Methods that post (``post_write``) start a process that posts at an instant and return at once; methods without
``post_`` run the clock until what they ask for has completed. Addresses are named by the number of a 64-byte line of
the server's persistent memory (``line=0``) plus ``offset``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.models.durability.places import PLACES, Domain, Place
from rpsim.models.durability.views import Views
from rpsim.models.fabric.disturbance import Disturbance
from rpsim.models.host.cacheset import line_key
from rpsim.models.nic.nic import Nic
from rpsim.models.profiles.platform import Platform, load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import Opcode, RecvWR, SendFlags, SendWR, Status, WorkCompletion
from rpsim.sim.trace import NEVER, Chunk

PM_LINES = 4096
LINE = 64
NIC, PCIE, LLC, IIO, WPQ, MEDIA = (
    Place.NIC,
    Place.PCIE,
    Place.LLC,
    Place.IIO_WC,
    Place.WPQ,
    Place.MEDIA,
)
ANYWHERE = {NIC, PCIE, LLC, WPQ, MEDIA}
ELSEWHERE = 64
"""A line that nobody writes."""


def line(number: int, lines: int = 1) -> bytes:
    """The content of a line (or several): every word tells which version, line and word it is."""
    return b"".join(
        bytes([number, at >> 8, at & 255, word, number, number, number, number])
        for at in range(lines)
        for word in range(8)
    )


@dataclass(frozen=True)
class Done:
    """A completion, and the instant at which its poll returned."""

    ps: int
    wr_id: int
    status: Status
    opcode: Opcode
    data: bytes = b""


class Client:
    """One connection of a client machine to the server; ``posted`` maps work request numbers to what was posted."""

    def __init__(self, rig: Rig, node: int, core: int) -> None:
        self.rig = rig
        self.node = rig.system.nodes["client"][node]
        self.thread = self.node.thread(core, f"client {node}")
        self.cq, receive_cq = self.node.create_cq(), self.node.create_cq()
        self.receive_cq = receive_cq
        self.qp = self.node.alloc_pd().create_qp(self.cq, receive_cq)
        self.peer = rig.server_pd.create_qp(rig.server.sent, rig.server.received)
        self.peer.connect(self.qp)
        self.posted: dict[int, SendWR] = {}
        self.done: dict[int, Done] = {}
        self._program: Any = None
        rig.clock.start(self._poll())

    def _poll(self) -> Generator[Any, Any, None]:
        while True:
            completion: WorkCompletion = yield from self.thread.poll(self.cq)
            work = self.posted[completion.wr_id]
            node_memory = self.node.memory["dram"].space
            data = b""
            if work.opcode is Opcode.IBV_WR_RDMA_READ and completion.status is Status.IBV_WC_SUCCESS:
                data = node_memory.read(self.rig.clock.now_ps, work.local_address, work.length)
            found = Done(self.rig.clock.now_ps, work.wr_id, completion.status, work.opcode, data)
            self.done[work.wr_id] = found
            self.rig.completions.append(found)

    def buffer(self, data: bytes) -> int:
        """A buffer of the client's DRAM that holds ``data``, cached and dirty as after a store."""
        device = self.node.memory["dram"]
        address = device.allocate(max(LINE, len(data)), "buffer", align=4096)
        device.space.poke(address - device.base, data)
        for number in range(address // LINE, (address + len(data) - 1) // LINE + 1):
            self.node.host.caches.access(self.thread.core.agent, line_key(device.number, number), True)
        return address

    def work(
        self,
        opcode: Opcode,
        data: bytes = b"",
        length: int | None = None,
        line: int = 0,
        offset: int = 0,
        inline: bool | None = None,
        signalled: bool = True,
        rkey: int | None = None,
    ) -> SendWR:
        """A work request; small payloads are inline unless said otherwise."""
        length = len(data) if length is None else length
        reads = opcode is Opcode.IBV_WR_RDMA_READ
        if inline is None:
            inline = not reads and length <= self.rig.platform.nic.inline_max_bytes
        flags = SendFlags.IBV_SEND_SIGNALED if signalled else SendFlags.NONE
        work = SendWR(
            wr_id=self.rig.next_number(),
            opcode=opcode,
            local_address=self.buffer(bytes(length) if reads else data),
            length=length,
            remote_address=self.rig.address(line, offset),
            rkey=self.rig.region.key if rkey is None else rkey,
            send_flags=flags | (SendFlags.IBV_SEND_INLINE if inline else SendFlags.NONE),
        )
        self.posted[work.wr_id] = work
        return work

    def post(self, work: SendWR, at: int = 0) -> SendWR:
        """Post ``work`` at an instant (or now, if that has passed); a program posts in the order of the calls."""
        before = self._program

        def code() -> Generator[Any, Any, None]:
            if before is not None:
                yield before
            yield self.rig.clock.until(at)
            yield from self.thread.post_send(self.qp, work)

        self._program = self.rig.clock.start(code())
        return work

    def post_write(self, at: int = 0, data: bytes = b"", line: int = 0, **how: Any) -> SendWR:
        return self.post(self.work(Opcode.IBV_WR_RDMA_WRITE, data, line=line, **how), at)

    def post_read(self, at: int = 0, length: int = 8, line: int = 0, **how: Any) -> SendWR:
        return self.post(self.work(Opcode.IBV_WR_RDMA_READ, length=length, line=line, **how), at)

    def post_send(self, at: int = 0, data: bytes = b"\1" * 8, **how: Any) -> SendWR:
        return self.post(self.work(Opcode.IBV_WR_SEND, data, **how), at)

    def wait(self, work: SendWR) -> Done:
        """Run until ``work`` has completed."""
        while work.wr_id not in self.done:
            before = self.rig.clock.peek()
            assert before != float("inf"), f"{work.opcode} never completed"
            self.rig.clock.step()
        return self.done[work.wr_id]

    def write(self, data: bytes, line: int = 0, **how: Any) -> Done:
        return self.wait(self.post_write(self.rig.clock.now_ps, data, line, **how))

    def read(self, length: int = 8, line: int = 0, **how: Any) -> Done:
        return self.wait(self.post_read(self.rig.clock.now_ps, length, line, **how))

    def send(self, data: bytes = b"\1" * 8, **how: Any) -> Done:
        return self.wait(self.post_send(self.rig.clock.now_ps, data, **how))


class Server:
    """The server's side: one thread for each core, and the completion queue of all connections."""

    def __init__(self, rig: Rig, cores: int) -> None:
        self.rig = rig
        self.node = rig.system.nodes["server"][0]
        self.threads = [self.node.thread(core, f"server thread {core}") for core in range(cores)]
        self.sent, self.received = self.node.create_cq(), self.node.create_cq()

    def run(self, code: Generator[Any, Any, Any]) -> Any:
        """Run one thread's ``code`` to its end; returns its value."""
        return self.rig.clock.run_until(self.rig.clock.start(code))

    def post_recv(self, client: Client, length: int = 256, count: int = 1) -> int:
        """Give the client's connection receive buffers in DRAM; returns the address of the last."""
        address = 0
        for _ in range(count):
            address = self.node.memory["dram"].allocate(length, "receive buffer")
            client.peer.post_recv(RecvWR(0, address, length))
        return address

    def receive(self, core: int = 0) -> Done:
        """Poll one receive completion."""
        completion = self.run(self.threads[core].poll(self.received))
        return Done(self.rig.clock.now_ps, completion.wr_id, completion.status, completion.opcode)

    def post_send(self, client: Client, data: bytes = b"\1" * 8, core: int = 0) -> int:
        """Post a SEND to a client, inline; returns the instant at which the doorbell has rung."""
        address = self.node.memory["dram"].allocate(64, "message")
        self.node.memory["dram"].space.poke(address - self.node.memory["dram"].base, data)
        buffer = client.node.memory["dram"].allocate(64, "receive buffer")
        client.qp.post_recv(RecvWR(0, buffer, 64))
        work = SendWR(0, Opcode.IBV_WR_SEND, address, len(data), send_flags=SendFlags.IBV_SEND_INLINE)
        self.run(self.threads[core].post_send(client.peer, work))
        return self.rig.clock.now_ps

    def reply(self, client: Client) -> int:
        """SEND to a client; returns the instant at which it has polled the receive completion."""
        self.post_send(client)
        self.run(client.thread.poll(client.receive_cq))
        return self.rig.clock.now_ps

    def _at(self, method: Callable[..., Any], number: int, *rest: Any, offset: int = 0) -> int:
        self.run(method(self.rig.address(number, offset), *rest))
        return self.rig.clock.now_ps

    def store(self, data: bytes, line: int = 0, offset: int = 0, core: int = 0) -> int:
        """Store; returns the instant at which it retired."""
        return self._at(self.threads[core].store, line, data, offset=offset)

    def ntstore(self, data: bytes, line: int = 0, offset: int = 0, core: int = 0) -> int:
        return self._at(self.threads[core].ntstore, line, data, offset=offset)

    def load(self, length: int = LINE, line: int = 0, offset: int = 0, core: int = 0) -> bytes:
        data: bytes = self.run(self.threads[core].load(self.rig.address(line, offset), length))
        return data

    def clwb(self, line: int = 0, lines: int = 1, core: int = 0) -> int:
        return self._at(self.threads[core].clwb, line, lines * LINE)

    def clflush(self, line: int = 0, lines: int = 1, core: int = 0) -> int:
        return self._at(self.threads[core].clflush, line, lines * LINE)

    def sfence(self, core: int = 0) -> int:
        self.run(self.threads[core].sfence())
        return self.rig.clock.now_ps

    def flush(self, line: int = 0, lines: int = 1, core: int = 0) -> int:
        """Write lines back and fence; returns the instant at which the fence has completed."""
        return self._at(self.threads[core].flush, line, lines * LINE)


class Timed:
    """What this timing left of a line: all that the run wrote to it, or less."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def content(self, line: int, crash_ps: int) -> bytes:
        return self._rig.views().timed(self._rig.key(line), crash_ps).data

    def survives(self, line: int, crash_ps: int) -> bool:
        return self.content(line, crash_ps) == self._rig.memory(line)

    def lost(self, line: int, crash_ps: int) -> bool:
        return not self.survives(line, crash_ps)


class Adversarial:
    """All that a power failure may leave."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def places(self, line: int, crash_ps: int, chunk: int = -1) -> set[Place]:
        """Where the newest write to a line may be (or another: by its index)."""
        return self._rig.views().places(self._rig.chunks(line)[chunk], crash_ps)

    def contents(self, line: int, crash_ps: int) -> set[bytes]:
        return {content.data for content in self._rig.views().contents(self._rig.key(line), crash_ps, {})}

    def images(self, lines: Iterable[int], crash_ps: int) -> set[tuple[bytes, ...]]:
        """What several lines may hold together."""
        return images(self._rig.views(), [self._rig.key(number) for number in lines], crash_ps)

    def durable(self, line: int, data: bytes, crash_ps: int) -> bool:
        return self.contents(line, crash_ps) == {data}


def images(views: Views, keys: list[tuple[int, int]], at_ps: int) -> set[tuple[bytes, ...]]:
    """What lines may hold together, one looked at after the other, as recovery does."""

    def extend(rest: list[tuple[int, int]], cut: Any) -> Iterator[tuple[bytes, ...]]:
        if not rest:
            yield ()
            return
        for content in views.contents(rest[0], at_ps, cut):
            for others in extend(rest[1:], content.cut):
                yield (content.data, *others)

    return set(extend(keys, {}))


class Rig:
    """A system of ``clients`` machines and one server; ``nic={"mtu_bytes": 1024}`` and the like change its platform."""

    def __init__(
        self,
        platform: str | Platform = "optane-adr",
        *,
        ddio: str | None = None,
        domain: str | None = None,
        clients: int = 1,
        connections: int = 1,
        cores: int = 2,
        seed: int = 1,
        iio_wc_survives: bool | None = None,
        whole_lines: bool = False,
        disturbance: Disturbance | None = None,
        adapter: type[Nic] = Nic,
        **changes: dict[str, Any],
    ) -> None:
        profile = load_platform(platform) if isinstance(platform, str) else platform
        if ddio is not None:
            changes["llc"] = {**changes.get("llc", {}), "ddio": ddio == "on"}
        parts = {name: replace(getattr(profile, name), **values) for name, values in changes.items()}
        profile = replace(profile, **parts)
        if domain is not None:
            profile = replace(profile, memory={**profile.memory, "pm": replace(profile.memory["pm"], domain=domain)})
        self.platform = profile
        self.whole_lines = whole_lines
        self.iio_wc_survives = profile.iio_wc_survives if iio_wc_survives is None else iio_wc_survives
        specs = {
            "client": [NodeSpec(cores=max(1, connections)) for _ in range(clients)],
            "server": [NodeSpec(cores=cores, memory=("pm", "dram"))],
        }
        self.system = System(profile, specs, seed, disturbance=disturbance, adapter=adapter)
        self.clock, self.trace = self.system.clock, self.system.trace
        self.completions: list[Done] = []
        self._numbers = 0
        self.server = Server(self, cores)
        self.pm = self.server.node.memory["pm"]
        self.server_pd = self.server.node.alloc_pd()
        self._base = self.pm.allocate(PM_LINES * LINE, "pool", align=4096)
        self.region = self.server_pd.reg_mr(self._base, PM_LINES * LINE)
        self.clients = [Client(self, node, core) for node in range(clients) for core in range(connections)]
        self.client = self.clients[0]
        self.timed, self.adversarial = Timed(self), Adversarial(self)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def address(self, line: int, offset: int = 0) -> int:
        """The server's address of a line."""
        return self._base + line * LINE + offset

    def key(self, line: int) -> tuple[int, int]:
        """The line as the trace names it."""
        return self.pm.number, (self._base - self.pm.base) // LINE + line

    def run(self, until_ps: int | None = None) -> int:
        """Run until nothing is left to do (or until an instant); returns the instant."""
        self.clock.run_until(until_ps)
        return self.clock.now_ps

    def thread(self, core: int = 0) -> Thread:
        """A further thread on one of the server's cores."""
        return self.server.node.thread(core, f"another thread on core {core}")

    def memory(self, line: int, lines: int = 1) -> bytes:
        """What coherent memory shows of a line now."""
        return self.pm.space.read(self.clock.now_ps, self.key(line)[1] * LINE, lines * LINE)

    def chunks(self, line: int) -> list[Chunk]:
        """The writes to a line of persistent memory, as recorded."""
        device, number = self.key(line)
        start = number * LINE
        return [
            chunk
            for chunk in self.trace.chunks
            if chunk.device == device and chunk.address < start + LINE and start < chunk.address + len(chunk.data)
        ]

    def story(self, line: int = 0, chunk: int = 0) -> list[tuple[Place, int]]:
        """Where a write to the line was from which instant on, in this timing."""
        found = self.chunks(line)[chunk]
        reached = list(found.reached_ps)
        for seen_ps, queued_ps, stored_ps in self.trace.write_backs.get(self.key(line), ()):
            if seen_ps >= reached[2]:
                reached[3], reached[4] = min(reached[3], queued_ps), min(reached[4], stored_ps)
        story: dict[Place, int] = {}
        for place, ps in zip(PLACES[found.path], reached, strict=True):
            if ps < NEVER:
                story.setdefault(place, ps)
        return list(story.items())

    def views(self) -> Views:
        """Both views of what a power failure of the server leaves."""
        domains = {device.number: Domain(device.domain) for device in self.server.node.devices}
        return Views(
            self.trace,
            domains,
            lambda key: bytes(LINE),
            whole_lines=self.whole_lines,
            iio_wc_survives=self.iio_wc_survives,
        )
