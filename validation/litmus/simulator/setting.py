"""A litmus test's machines in the simulator: the platform that a profile stands for, with its delays perturbed, the
variables at addresses, and a connection for each queue pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from ....models.cpu import Thread
from ....models.durability.places import Domain
from ....models.durability.rules import Placement, Switches
from ....models.fabric.disturbance import Disturbance
from ....models.memory.devices import MemoryDevice
from ....models.persist.requester import PrimitiveRequester
from ....models.persist.service import Service
from ....models.primitives.language import Primitive
from ....models.profiles.platform import Platform, load_platform, platform_names
from ....models.system import Node, NodeSpec, System
from ....models.verbs import FLUSHES, REMOTE, Access, MemoryRegion, Opcode, QueuePair, RecvWR, SendFlags
from ....sim.trace import NEVER
from ..language.program import DRAM, THIRD, LitmusOperation, LitmusProfile, Test, groups
from ..machine.plan import RECEIVED
from .relay import Relay

OPCODES = {
    "W": "IBV_WR_RDMA_WRITE",
    "WIMM": "IBV_WR_RDMA_WRITE_WITH_IMM",
    "R": "IBV_WR_RDMA_READ",
    "SEND": "IBV_WR_SEND",
    "FAA": "IBV_WR_ATOMIC_FETCH_AND_ADD",
    "CAS": "IBV_WR_ATOMIC_CMP_AND_SWP",
    "AW": "IBV_WR_ATOMIC_WRITE",
    "FLUSH": "IBV_WR_FLUSH",
}
IMPATIENT = 1
"""The local ACK timeout (8.192 us) of connections on a network that loses packets."""
SLOWEST = 4.0
"""Every delay of the platform is scaled by a factor between 1 / SLOWEST and SLOWEST."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Perturbation:
    """How one run is perturbed, beside what its seed draws; the default perturbs delays and dawdling."""

    slowest: float = SLOWEST
    """Every delay is scaled by a factor between one over this and this."""
    fine: bool = False
    """Programs dawdle for any time up to microseconds, instead of one of a few."""
    hurried: bool = False
    """A does not dawdle."""
    held_ps: int = 0
    """How long at most the responder holds up accepted requests of some queue pairs, and ATOMIC WRITEs."""
    bad_network: bool = False
    """Packets are lost, late and overtaken (:data:`STORM`)."""
    b_at_ps: tuple[int, ...] = ()
    """Before when B does not begin each of its operations."""


STORM = Disturbance(loss=0.15, delay_ps=3_000_000, reorder=0.15, repeat=0.1)


class CannotRun(Exception):
    """The simulator has no way to run this test on this profile; the text names the missing part."""


def check(test: Test, profile: LitmusProfile) -> None:
    """Raise :class:`CannotRun` for each part that the simulator lacks: nothing is left out in silence."""
    for operation in test.a:
        name = OPCODES.get(operation.verb)
        if name is not None and name not in Opcode.__members__:
            raise CannotRun(f"the simulator's adapters have no {name} (in '{operation.text}')")
        if operation.verb == "FLUSH" and profile.domain == "pmr":
            raise CannotRun(f"no region of a peer device admits FLUSH (in '{operation.text}')")
        if operation.source and len(operation.names) > 1:
            raise CannotRun(f"one local variable sent to several places (in '{operation.text}')")
        if operation.fenced and "IBV_SEND_FENCE" not in SendFlags.__members__:
            raise CannotRun(f"the simulator's adapters know no fence (in '{operation.text}')")
    _check_parts(test)
    for operation in test.b:
        if operation.verb == "cpucas" and profile.domain == "pmr":
            raise CannotRun(f"no core can lock a peer device (in '{operation.text}')")
    if profile.domain == "pmr" and "pmr" not in platform_names():
        raise CannotRun("the simulator has no peer device with a PMR")
    if profile.nic is Placement.RELAXED and "IBV_ACCESS_RELAXED_ORDERING" not in Access.__members__:
        raise CannotRun("the simulator's regions know no relaxed ordering")
    if profile.nic is Placement.OUT_OF_ORDER and not hasattr(QueuePair, "out_of_order"):
        raise CannotRun("the simulator's queue pairs know no out-of-order placement")
    odd = [f.name for f in fields(Switches) if getattr(profile.switches, f.name) != f.default]
    if set(odd) - {"iio_wc_survives"} and not _has_switches():
        raise CannotRun(f"the simulator's platforms know no switch {odd[0]}")


def _check_parts(test: Test) -> None:
    """Primitives run on queue pairs of their own kind."""
    kinds: dict[str, str] = {}
    for part in test.parts:
        made, qp = part.primitive, part.operation.qp
        copies = any(step.do == "copy" for step in made.steps)
        if made.follows[0] == "SEND" and not copies:
            raise CannotRun(
                f"a receive buffer of the primitive's own instead of a variable (in '{part.operation.text}')"
            )
        if kinds.setdefault(qp, made.name) != made.name:
            raise CannotRun(f"one queue pair for two primitives (in '{part.operation.text}')")
        before = [one for one in test.a[: part.first] if one.qp == qp and one.packet is None]
        if any(one.verb not in ("W", "AW", "poll") for one in before if not _within(test, one)):
            raise CannotRun(f"other requests than WRITEs before a primitive (in '{part.operation.text}')")


def _within(test: Test, operation: LitmusOperation) -> bool:
    return any(operation is one for part in test.parts for one in test.a[part.first : part.first + part.count])


def _has_switches() -> bool:
    return any(f.name == "switches" for f in fields(Platform))


def platform_of(profile: LitmusProfile, random: np.random.Generator, slowest: float = SLOWEST) -> Platform:
    """The platform of ``profile`` with every delay scaled at random, each by a factor of its own."""
    base: Any = load_platform("pmr" if profile.domain == "pmr" else "optane-adr")
    parts: dict[str, Any] = {
        name: _perturbed(getattr(base, name), random, slowest)
        for name in ("nic", "fabric", "pcie", "llc", "imc", "cpu")
    }
    rate = base.pcie.tlp_bits_per_s / random.uniform(1, slowest) if slowest > SLOWEST else base.pcie.tlp_bits_per_s
    parts["pcie"] = replace(parts["pcie"], tlp_bits_per_s=int(rate))
    parts["media"] = {name: _perturbed(media, random, slowest) for name, media in base.media.items()}
    # A read that hits saves a part of its own time, so never more than half of it.
    saving_ps = min(parts["llc"].dma_read_hit_saving_ps, parts["pcie"].dma_read_ps // 2)
    parts["llc"] = replace(parts["llc"], ddio=profile.ddio, dma_read_hit_saving_ps=saving_ps)
    if profile.data_in_order is not None:
        parts["nic"] = replace(parts["nic"], data_in_order=profile.data_in_order)
    if profile.domain == "pmr":
        peers = {
            name: replace(_perturbed(peer, random, slowest), pmrwbm=profile.pmrwbm) for name, peer in base.peers.items()
        }
        parts["peers"] = peers
    else:
        parts["memory"] = {**base.memory, "pm": replace(base.memory["pm"], domain=Domain(profile.domain))}
    if _has_switches():
        parts["switches"] = profile.switches
    else:
        parts["iio_wc_survives"] = profile.switches.iio_wc_survives
    found: Platform = replace(base, line_atomicity="whole" if profile.whole_lines else "word", **parts)
    return found


def _perturbed(part: _T, random: np.random.Generator, slowest: float) -> _T:
    changed = {}
    for one in fields(part):  # type: ignore[arg-type]
        value = getattr(part, one.name)
        if one.name.endswith("_ps") and isinstance(value, int):
            changed[one.name] = int(value * slowest ** random.uniform(-1, 1))
    return replace(part, **changed)  # type: ignore[type-var]


class LitmusSystem:
    """One run's system, made for a test on a profile."""

    def __init__(
        self,
        test: Test,
        profile: LitmusProfile,
        seed: int,
        disturbance: Disturbance | None = None,
        schedule: Perturbation = Perturbation(),
    ) -> None:
        self.test = test
        self.profile = profile
        self.schedule = schedule
        self.random = np.random.default_rng(seed)
        if schedule.bad_network:
            disturbance = STORM
        memory = ("pm", "dram", "pmr") if profile.domain == "pmr" else ("pm", "dram")
        served = {part.operation.qp: part.primitive for part in test.parts}
        specs = {"client": [NodeSpec(1, ("dram",))], "server": [NodeSpec(1 + len(served), memory)]}
        self._lead = {one.qp: one.names for one in (*test.relay, *test.a) if one.request and one.names}
        """By queue pair: variables of the machine that it leads to; without any that is B."""
        if any(name.startswith(THIRD) for names in self._lead.values() for name in names):
            specs["third"] = [NodeSpec(1, memory)]
        self.system = System(platform_of(profile, self.random, schedule.slowest), specs, seed, disturbance=disturbance)
        self.client, self.server = self.system.nodes["client"][0], self.system.nodes["server"][0]
        self.a: Thread = self.client.thread(0, "A")
        self.b: Thread = self.server.thread(0, "B")
        self.width = 4 if test.grain == "4" else 8
        self._kind = "pmr" if profile.domain == "pmr" else "pm"
        self.device: MemoryDevice = self.server.memory[self._kind]
        self._regions: dict[int, MemoryRegion] = {}
        self.relay = Relay(self)
        self.address: dict[str, int] = {**self.relay.words}
        stride = {"4": 4, "8": 8, "64": 64, "tlp": self.system.platform.pcie.mps_bytes}[test.grain]
        for group in groups(test):
            if group[0] in self.address:
                continue
            device = self.memory_of(group[0])
            start = device.allocate(max(64, stride * len(group)), group[0], align=4096)
            for turn, name in enumerate(group):
                self.address[name] = start + turn * stride
        self.requesters: dict[str, PrimitiveRequester] = {}
        """By queue pair that a primitive has: its client's end."""
        self._services: list[Service] = []
        for qp, made in served.items():
            self._serve(qp, made)
        self.pairs = {
            qp: self._pair_of(qp) if qp in served else self._connect(qp)
            for qp in sorted({one.qp for one in test.a if one.request})
        }
        self.relay.connect()
        self.back = self._connect()
        self.local = {one.source: self.scratch(self.client, 8) for one in test.a if one.source}
        for operation in test.a:
            if operation.verb in RECEIVED and operation.qp not in self.requesters:
                self._post_receive(operation)
        if schedule.held_ps:
            self.server.nic.responder.drain.hold_up(self._held_ps())
            self.server.host.late_up_to_ps = schedule.held_ps
        for _ in test.b:
            self.back[0].post_recv(RecvWR(0, self.scratch(self.client, 64), 64))

    def node_of(self, names: tuple[str, ...]) -> Node:
        """The machine that variables are on; B without any."""
        return self.system.nodes["third" if names and names[0].startswith(THIRD) else "server"][0]

    def memory_of(self, name: str) -> MemoryDevice:
        """The device that a variable is in."""
        in_dram = name.startswith(DRAM) or name in self.relay.words
        return self.node_of((name,)).memory["dram" if in_dram else self._kind]

    def scratch(self, node: Any, length: int) -> int:
        """Room in a node's DRAM."""
        address: int = node.memory["dram"].allocate(length, "scratch", align=64)
        return address

    def region(self, names: tuple[str, ...]) -> MemoryRegion:
        """The region that variables are in: their device, as far as it is used (B's persistent memory by default)."""
        device = self.memory_of(names[0] if names else "")
        if device.number not in self._regions:
            access = REMOTE
            if self.profile.nic is Placement.RELAXED:
                access |= Access["IBV_ACCESS_RELAXED_ORDERING"]
            if device.name != "pmr" and "IBV_ACCESS_FLUSH_GLOBAL" in Access.__members__:
                access |= Access["IBV_ACCESS_FLUSH_GLOBAL"]
                if device.domain is not Domain.NONE:
                    access |= Access["IBV_ACCESS_FLUSH_PERSISTENT"]
            made = self.node_of(names).alloc_pd().reg_mr(device.base, 1 << 20, access)
            self._regions[device.number] = made
        return self._regions[device.number]

    def _serve(self, qp: str, made: Primitive) -> None:
        """A service of its own for a queue pair, with a thread on a core of its own."""
        service = Service(made, self.server)
        more = Access["IBV_ACCESS_RELAXED_ORDERING"] if self.profile.nic is Placement.RELAXED else Access(0)
        flushes = FLUSHES if self.device.name != "pmr" else Access(0)
        service.register(self.device.base, 1 << 20, REMOTE | flushes | more)
        self.requesters[qp] = service.connect(self.a, self.client)
        self._services.append(service)
        if service.needs_thread:
            thread = self.server.thread(len(self._services), f"service of {qp}")
            self.system.clock.start(service.serve(thread))

    def _pair_of(self, qp: str) -> tuple[QueuePair, QueuePair]:
        near = self.requesters[qp].qp
        assert near.peer is not None
        return near, near.peer

    def key_of(self, qp: str, names: tuple[str, ...]) -> int:
        """The key of the region that variables are in, as a queue pair may use it."""
        if qp in self.requesters:
            return self.requesters[qp].service.regions[0].key
        return self.region(names).key

    def far_end(self, qp: str) -> QueuePair:
        """A new queue pair on the machine that ``qp`` leads to, for its other end."""
        more: dict[str, Any] = {"out_of_order": True} if self.profile.nic is Placement.OUT_OF_ORDER else {}
        node = self.node_of(self._lead.get(qp, ()))
        arrived = self.relay.arrived.get(qp)
        if arrived is not None:
            more["cross_channel"] = True
        return node.alloc_pd().create_qp(node.create_cq(), arrived or node.create_cq(), **more)

    def _connect(self, qp: str = "") -> tuple[QueuePair, QueuePair]:
        """A queue pair of A and its peer: at B, or where ``qp`` leads to."""
        near, far = self.client.alloc_pd().create_qp(self.client.create_cq(), self.client.create_cq()), self.far_end(qp)
        near.connect(far)
        if self.system.fabric.weather is not None:  # lost packets come again while others are under way
            for end in near, far:
                end.timeout, end.retry_cnt = IMPATIENT, 1000
        return near, far

    def _post_receive(self, operation: LitmusOperation) -> None:
        into_buffer = operation.verb == "SEND" and operation.names
        node = self.node_of(operation.names)
        address = self.address[operation.names[0]] if into_buffer else self.scratch(node, 64)
        self.pairs[operation.qp][1].post_recv(RecvWR(0, address, 4096))

    def start(self, names: tuple[str, ...]) -> int:
        """Where the range of one operation begins; where B's persistent memory does, if it names none."""
        return min(self.address[name] for name in names) if names else self.device.base

    def payload(self, names: tuple[str, ...], value: int) -> bytes:
        """``value`` into each of the variables of one operation, as one contiguous range."""
        start = self.start(names)
        content = bytearray(max(self.address[name] for name in names) + self.width - start)
        for name in names:
            at = self.address[name] - start
            content[at : at + self.width] = self._word(name, value)
        return bytes(content)

    def pause_of_a_ps(self) -> int:
        """How long A dawdles before its next operation."""
        return 0 if self.schedule.hurried else self.pause_ps()

    def pause_ps(self) -> int:
        """How long a program dawdles before its next operation: mostly not at all, sometimes for microseconds."""
        if self.schedule.fine:
            return int(1000 * 10 ** self.random.uniform(-1, 4))
        return int(self.random.choice([0, 0, 1, 30, 300, 3000]) * 1000 * self.random.uniform(0.5, 2))

    def _held_ps(self) -> Callable[[QueuePair], int]:
        """How long each packet of each queue pair is held up: of some, but never of all where there are several."""
        everyone = [far for _, far in self.pairs.values()]
        some = self.random.integers(1, max(2, len(everyone)))
        slow = [everyone[i] for i in self.random.permutation(len(everyone))[:some]]
        return lambda qp: int(self.schedule.held_ps * self.random.uniform(0.3, 1)) if qp in slow else 0

    def memory(self, name: str) -> int:
        """The value that coherent memory shows of a variable once everything has landed."""
        device = self.memory_of(name)
        return self.value(name, bytes(device.space.read(NEVER - 1, self.address[name] - device.base, self.width)))

    def value(self, name: str, data: bytes) -> int:
        """The value that a variable's bytes stand for."""
        return self.relay.value(name, data) if name in self.relay.words else int.from_bytes(data, "little")

    def _word(self, name: str, value: int) -> bytes:
        in_request = name in self.relay.words
        return self.relay.word(name, value) if in_request else value.to_bytes(self.width, "little")
