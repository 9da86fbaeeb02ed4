"""Small runs that take every component of a platform through its work: what they look at is what a profile's values do.

Each takes a function that stands between a platform and the run (it notes what is read, or turns a value), and returns
the numbers that came out: two equal lists say that what was turned had no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....models.cpu import Code, Thread
from ....models.kernel.sockets import Epoll, Socket, connect
from ....models.profiles.parameters.adapter import TableCache
from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
from ....models.storage.aio import AioContext, Iocb
from ....models.storage.files import Open
from ....models.storage.nvme import NvmeOpcode
from ....models.system import NodeSpec, System
from ....models.verbs import REMOTE, Access, FlushType, Opcode, QueuePair, RecvWR, SendWR, Status
from ....scenarios.arguments import RoleFields
from ....scenarios.build import Draft
from ....scenarios.run.experiment import run_variant
from ....scenarios.run.results import RunResult
from ...rigs.pair import Pair

Wrap = Callable[[Platform], Platform]
PAGE = 4096
TIMES_SHORT = {
    "cpu.os.scheduler": "fair",
    "cpu.os.smt": "2",
    "cpu.os.noise": "on",
    "cpu.os.sched_latency": "60 us",
    "cpu.os.min_granularity": "10 us",
    "cpu.os.wakeup_granularity": "5 us",
    "cpu.os.tick_every": "20 us",
    "cpu.os.stray_every": "50 us",
}
"""Time slices and ticks so short that a run of a tenth of a millisecond has some."""
WORN = {
    "media.optane.controller.full_lines": "periodic",
    "media.optane.controller.full_line_period": "1 us",
    "media.optane.controller.ait": "4 KiB",
    "media.optane.controller.ait_miss": "200 ns",
    "media.optane.controller.wear_writes": "2",
}
"""Of the DIMMs: what only long runs would show."""
TAILS = {
    "tails.refresh": "on",
    "tails.arbitration": "on",
    "tails.replays": "on",
    "pcie.error_every": "16 KiB",
    "media.dram.refresh_every": "1 us",
}
"""Sources of tails, so frequent that a short run meets each."""


def stores(wrap: Wrap) -> list[float]:
    """Two stores, with checksums in software and by instruction; one polls, and one sleeps, on a kind of core."""
    arm: RoleFields = {"threads": 1, "waits": "sleep", "core_type": "arm-a72"}
    spinning: RoleFields = {"waits": "adaptive"}
    instruction = {"cpu.crc32": "instruction"}
    return [
        *_store("efactory", wrap),
        *_store("erda", wrap),
        *_store("forca", lambda platform: wrap(varied(platform, instruction))),
        *_store("saw", wrap, roles={"server": arm}),
        *_store("saw", wrap, roles={"server": spinning, "client": {"waits": "sleep"}}),
        *_store("saw", wrap, vary={"platform": ["optane-eadr"], "ddio": ["off"]}),
    ]


def scheduling(wrap: Wrap) -> list[float]:
    """Threads that share cores by time slices, with ticks and stray interrupts, beside other programs."""
    server: RoleFields = {
        "threads": 4,
        "cores": 2,
        "pinned": False,
        "background": [{"kind": "compute", "threads": 2}, {"kind": "memory", "device": "pm", "bandwidth": "10 GB/s"}],
    }
    client: RoleFields = {"processes": 4, "cores": 2, "background": [_packets()]}
    roles = {"server": server, "client": client}
    return _store("efactory", lambda platform: wrap(varied(platform, TIMES_SHORT)), roles=roles, operations=200)


def losses(wrap: Wrap) -> list[float]:
    """A network that loses, delays, reorders and repeats packets."""
    network: Any = {"loss": 0.02, "delay": "2 us", "reorder": 0.02, "repeat": 0.02}
    return _store("saw", wrap, vary={"platform": ["optane-adr-roce"], "ddio": ["on"]}, network=network)


def primitives(wrap: Wrap) -> list[float]:
    """Flush primitives of each kind, on a server and on a drive's region."""
    found: list[float] = []
    for name, platform in (
        ("read-after-write", "any-server"),
        ("ibta-flush-persistent", "any-server"),
        ("rflush-send", "any-server"),
        ("write-imm-cpu-flush", "any-server"),
        ("write-send-cpu-flush", "any-server"),
        ("pmr-write-read-back", "any-pmr"),
        ("sflush", "any-server"),
    ):
        workload: Any = {
            "kind": "ycsb",
            "mix": "update-only",
            "keys": 2,
            "value": "256 B",
            "operations": 4,
            "zipf": 0.0,
        }
        found += _run(wrap, schemes=[f"line over {name}"], vary={"platform": [platform]}, workload=workload)
    return found


def verbs(wrap: Wrap) -> list[float]:
    """Every verb, short and long, and every instruction; once with DIMMs that soon run out of translations and wear,
    and adapters' caches that hardly hold anything, and once with all sources of tails.
    """

    def worn(platform: Platform) -> Platform:
        return replace(varied(platform, WORN), nic=replace(platform.nic, caches={"contexts": TableCache(1, 1)}))

    hard = [*_verbs(lambda platform: wrap(worn(platform))), *_verbs(lambda platform: wrap(varied(platform, TAILS)))]
    return [*_verbs(wrap), *hard]


def _verbs(wrap: Wrap) -> list[float]:
    spec = NodeSpec(2, ("dram", "pm"))
    system = System(wrap(load_platform("optane-adr")), {"server": [spec], "client": [spec]}, 1)
    server, client = system.nodes["server"][0], system.nodes["client"][0]
    target = server.memory["pm"].allocate(64 * PAGE, "target", align=PAGE)
    source = client.memory["dram"].allocate(64 * PAGE, "source", align=PAGE)
    thread, other = client.thread(0, "client"), server.thread(0, "server")
    times: list[float] = []

    def code() -> Code:
        domain = server.alloc_pd()
        allowed = REMOTE | Access.IBV_ACCESS_FLUSH_GLOBAL | Access.IBV_ACCESS_FLUSH_PERSISTENT
        region = yield from other.reg_mr(domain, target, 64 * PAGE, access=allowed)
        qp = client.alloc_pd().create_qp(client.create_cq(), client.create_cq())
        qp.connect(domain.create_qp(server.create_cq(), server.create_cq()))
        for opcode, length in (
            (Opcode.IBV_WR_RDMA_WRITE, 64),
            (Opcode.IBV_WR_RDMA_WRITE, 32 * PAGE),
            (Opcode.IBV_WR_RDMA_READ, 64),
            (Opcode.IBV_WR_RDMA_READ, 32 * PAGE),
            (Opcode.IBV_WR_ATOMIC_CMP_AND_SWP, 8),
            (Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD, 8),
            (Opcode.IBV_WR_ATOMIC_WRITE, 8),
            (Opcode.IBV_WR_FLUSH, 64),
        ):
            work = SendWR(len(times), opcode, source, length, target, region.key)
            work.flush_type = FlushType.IBV_FLUSH_PERSISTENT if opcode is Opcode.IBV_WR_FLUSH else 0
            yield from thread.post_send(qp, work)
            yield from _succeeds(thread, qp)
            times.append(system.clock.now_ps)
        work = SendWR(0, Opcode.IBV_WR_RDMA_WRITE, source, 64, target, region.key)
        yield from thread.post_list(qp, [work, replace(work, wr_id=1)])
        for _ in range(2):
            yield from _succeeds(thread, qp)
        times.append(system.clock.now_ps)
        assert qp.peer is not None
        yield from thread.post_send(qp, SendWR(2, Opcode.IBV_WR_SEND, source, 64))
        yield from other.sleep(50_000_000)  # nobody is ready to receive
        other.post_recv(qp.peer, RecvWR(3, target, 64))
        yield from _succeeds(thread, qp)
        times.append(system.clock.now_ps)
        yield from _instructions(other, target, server.memory["dram"].allocate(PAGE, "copy"))
        yield from other.dereg_mr(domain, region)
        times.append(system.clock.now_ps)

    system.clock.run_until(system.clock.start(code()))
    return [*times, system.clock.now_ps]


def _succeeds(thread: Thread, qp: QueuePair) -> Code:
    completion = yield from thread.poll(qp.send_cq)
    assert completion.status is Status.IBV_WC_SUCCESS, completion


def _instructions(thread: Thread, pm: int, dram: int) -> Code:
    yield from thread.store(pm, b"x" * 256)
    yield from thread.clwb(pm, 256)
    yield from thread.sfence()
    yield from thread.ntstore(pm, b"y" * 256)
    yield from thread.sfence()
    yield from thread.store(pm + 512, b"z" * 128)
    yield from thread.clflush(pm + 512, 64)
    yield from thread.clflushopt(pm + 576, 64)
    yield from thread.sfence()
    yield from thread.prefetch(pm + PAGE, 256)
    yield from thread.memcpy(dram, pm, 1024)
    yield from thread.crc32(dram, 1024)
    yield from thread.load(pm + 2 * PAGE, 64)
    yield from thread.compute()
    yield from thread.wbinvd()
    for page in range(40, 64):  # more than a small cache of translations holds
        yield from thread.load(pm + page * PAGE, 64)


def storage(wrap: Wrap) -> list[float]:
    """Files on a drive, whose write cache is protected and then not."""
    return [*_storage(wrap, "plp", "off"), *_storage(wrap, "flash", "on")]


def _storage(wrap: Wrap, domain: str, volatile: str) -> list[float]:
    """Through the page cache, directly and asynchronously, appended, synchronised, read back cold; and a region."""
    drive = {"drives.haishen5_flash.volatile_cache": volatile, "memory.ssd.domain": domain}
    system = System(wrap(varied(load_platform("pmr"), drive)), {"server": [NodeSpec(2, ("dram", "pmr", "ssd"))]}, 1)
    node = system.nodes["server"][0]
    files, thread = node.kernel.file_system("ssd"), node.thread(0, "server")
    buffer = node.memory["dram"].allocate(32 * PAGE, "buffer", align=PAGE)
    region = node.memory["pmr"].allocate(PAGE, "region", align=PAGE)
    direct = files.create("direct", 32 * PAGE, Open.O_DIRECT)
    log = files.create("log", 64 * PAGE, grows=True)
    times: list[float] = []

    def code() -> Code:
        for turn in range(4):
            yield from log.pwrite(thread, bytes([turn]) * 3000, turn * 3000)
            yield from log.fsync(thread)
        times.append(system.clock.now_ps)
        yield from direct.pwrite(thread, buffer, 0, 32 * PAGE)
        yield from direct.pread(thread, 31 * PAGE, PAGE)  # the drive still has it in its write cache
        times.append(system.clock.now_ps)
        yield from direct.pread(thread, 0, 4 * PAGE)
        context = AioContext(system.platform.kernel, 4)
        requests = [Iocb(direct, NvmeOpcode.WRITE, turn * PAGE, PAGE, buffer) for turn in range(4)]
        yield from context.io_submit(thread, requests)
        yield from context.io_getevents(thread, 4, 4)
        yield from direct.fdatasync(thread)
        times.append(system.clock.now_ps)
        yield from thread.store(region, b"x" * 256)
        yield from thread.ntstore(region + 256, b"y" * 256)
        yield from thread.sfence()
        yield from thread.read_pmrsts(region)
        yield from thread.load(region, 64)
        times.append(system.clock.now_ps)
        files.drop_caches()
        yield from log.pread(thread, 100, 5000)
        yield from log.pread(thread, 100, 50)
        times.append(system.clock.now_ps)

    system.clock.run_until(system.clock.start(code()))
    system.clock.run_until()
    return [*times, system.clock.now_ps]


def sockets(wrap: Wrap) -> list[float]:
    """A request and an answer of several segments over TCP, with epoll at the server."""
    system = System(wrap(load_platform("optane-adr")), {role: [NodeSpec(1)] for role in ("client", "server")}, 1)
    client, server = system.nodes["client"][0], system.nodes["server"][0]
    near, far = connect(client, server)
    threads = client.thread(0, "client"), server.thread(0, "server")
    times: list[float] = []

    def serve() -> Code:
        epoll = Epoll(system.platform.kernel)
        epoll.add(far)
        for _ in range(2):
            yield from epoll.wait(threads[1])
            yield from _take(far, threads[1], 200)
            yield from far.send(threads[1], bytes(100_000))

    def ask() -> Code:
        for _ in range(2):
            yield from near.send(threads[0], bytes(200))
            yield from _take(near, threads[0], 100_000)
            times.append(system.clock.now_ps)

    system.clock.start(serve())
    system.clock.run_until(system.clock.start(ask()))
    return times


def numa(wrap: Wrap) -> list[float]:
    """A WRITE and a READ of an adapter, and instructions of a core, that cross the link between two sockets."""
    pair = Pair(wrap(load_platform("fast20-sockets")), memory="far_pm")
    thread, times = pair.server_thread(), list[float]()

    def code() -> Code:
        for opcode in (Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_RDMA_READ):
            yield from pair.thread.post_send(pair.queue_pairs[0], pair.work(opcode, PAGE))
            yield from pair.thread.poll(pair.sent)
            times.append(pair.clock.now_ps)
        yield from thread.load(pair.target + 4 * PAGE, PAGE)
        times.append(pair.clock.now_ps)
        yield from thread.ntstore(pair.target + 8 * PAGE, bytes(PAGE))
        yield from thread.sfence()
        times.append(pair.clock.now_ps)

    pair.run(code())
    return times


def named(wrap: Wrap) -> list[float]:
    """Every named cost of software once, each behind the other."""
    system = System(wrap(load_platform("rnvm-testbed")), {"client": [NodeSpec(1)]}, 1)
    thread, times = system.nodes["client"][0].thread(0, "client"), list[float]()
    for name in system.platform.cpu.software:
        system.clock.run_until(system.clock.start(thread.software(name)))
        times.append(system.clock.now_ps)
    return times


def _take(socket: Socket, thread: Thread, n_bytes: int) -> Code:
    while n_bytes:
        n_bytes -= len((yield from socket.recv(thread, n_bytes)))


RUNS: Sequence[Callable[[Wrap], list[float]]] = (
    stores, scheduling, losses, primitives, verbs, storage, sockets, numa, named,
)  # fmt: skip


def _packets() -> Any:
    return {"kind": "network", "to": "server[0]", "size": "64 B", "rate": 100_000}


def _store(
    scheme: str, wrap: Wrap, *, operations: int = 40, roles: Mapping[str, RoleFields] | None = None, **fields: Any
) -> list[float]:
    place: Any = {"vary": {"platform": ["optane-adr"], "ddio": ["on"]}} | fields
    return _run(
        wrap,
        schemes=[scheme],
        roles={"client": {"processes": 3}, **(roles or {})},
        workload={"kind": "ycsb", "mix": "a", "keys": 4, "value": "512 B", "operations": operations},
        **place,
    )


def _run(wrap: Wrap, **fields: Any) -> list[float]:
    """The measurements of a scenario: when it ended, and every latency, in picoseconds."""
    scenario = Draft.new("reading", scenario="reading", **fields).build()
    variant = scenario.variants()[0]
    platform = wrap(load_platform(variant.platform, **variant.settings))
    result: RunResult = run_variant(scenario, variant, platform=platform, recorded=False)
    latencies = [int(value) for values in result.latency_ps.values() for value in values]
    return [result.elapsed_ps, *latencies]
