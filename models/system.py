"""A system of nodes: machines with cores, memory and an adapter, on one fabric, one clock and one trace."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import cycle, repeat
from typing import Any, Literal

import simpy

from ..sim.clock import Clock
from ..sim.onlooker import Onlooker
from ..sim.streams import Streams
from ..sim.trace import Trace
from .cpu.channel import CompletionChannel
from .cpu.core import Core
from .cpu.noise import Noise
from .cpu.scheduler import FairCore
from .cpu.software import Signal
from .cpu.thread import Thread
from .durability.ordering import Ordering
from .durability.places import Domain
from .fabric.disturbance import Disturbance, Weather
from .fabric.fabric import Fabric
from .host.numa import build_sockets
from .kernel.sockets import Socket
from .kernel.system_calls import Kernel
from .memory.bandwidth import without
from .memory.devices import AddressSpace, MemoryDevice
from .meter import Meter, MeteredThread
from .nic.lossy.psn import TransportCounters
from .nic.lossy.transport import GoBackN
from .nic.nic import Nic
from .profiles.platform import Platform
from .verbs.objects import CompletionQueue, ProtectionDomain

ORDER_OF_READS = "DMA read order of "
"""The stream of a machine's adapter, with the machine's name behind."""
CORE_BITS = 16
"""Of the number of an agent: the rest is its node's."""


@dataclass(frozen=True)
class NodeSpec:
    """What a machine has: cores, and which of the platform's memory devices; and how its threads use the cores."""

    cores: int = 1
    memory: tuple[str, ...] = ("dram",)
    fair: bool = False
    """The operating system gives cores to threads by time slices, whatever the platform says."""
    shared: bool = False
    """There may be fewer cores than threads: thread n runs on core n modulo their number."""
    pinned: bool = True
    """Threads stay on their cores; else the scheduler moves them (with time slices only)."""
    waits: Literal["poll", "sleep", "adaptive"] = "poll"
    """How ``Thread.poll`` waits: in a loop, asleep until the adapter interrupts, or first one and then the other."""
    core_type: str | None = None
    """One of the platform's ``cpu.types``; None: its own cores."""
    others: int = 0
    """Cores of other programs, beyond these: they have no time slices."""
    stolen: tuple[tuple[str, int], ...] = ()
    """Memory bandwidth that other processes take: (device, bits per second)."""
    work_ps: int = 0
    """What its software computes for each request, beside the platform's ``cpu.request``."""


def places_of_cores(platform: Platform) -> Iterator[str]:
    """The sockets of a node's cores, core by core: ``cpu.socket`` (or the first) is filled, then the next one."""
    if not platform.sockets:
        return repeat("")
    names = list(platform.sockets)
    first = names.index(platform.cpu.socket) if platform.cpu.socket else 0
    return cycle([name for name in names[first:] + names[:first] for _ in range(platform.sockets[name].cores)])


class Node:
    """One machine; ``name`` is its role and index (``server[0]``)."""

    def __init__(self, system: System, name: str, spec: NodeSpec) -> None:
        self.system = system
        self.name = name
        self.spec = spec
        self.threads: list[Thread] = []
        self.former: list[MemoryDevice] = []
        """Its memory before each time that its power came back."""
        self._lost: list[Socket] = []
        """Sockets of before it lost power, whose peers need not know that."""
        self.watched_by: list[Signal] = []
        """Raised when its power fails: heartbeats that stay away from then on, whose messages are not modelled."""
        self.awaited_by: list[Signal] = []
        """Of threads elsewhere that wait until a process here listens, whichever process that will be."""
        self._switch_on()

    def _switch_on(self) -> None:
        """All that a machine has at power-on: empty memory, cold caches, cores without threads, an adapter that knows
        nobody.
        """
        system, name, spec = self.system, self.name, self.spec
        platform = without(system.platform, spec.stolen) if spec.stolen else system.platform
        self.devices = []
        for index, device_name in enumerate(spec.memory):
            profile = platform.memory[device_name]
            kind, domain, number = profile.device, Domain(profile.domain), system.next_device()
            size = platform.kind_of(kind).capacity_bytes * profile.dimms
            self.devices.append(MemoryDevice(number, index, device_name, kind, domain, profile.dimms, size))
        self.memory = AddressSpace(self.devices)
        self.sockets = build_sockets(system.clock, system.trace, platform, self.memory, system.streams)
        self.host = self.sockets[platform.nic.socket or next(iter(self.sockets))]
        """Memory as the adapter's socket addresses it."""
        self.kind = platform.cpu.types[spec.core_type] if spec.core_type is not None else None
        cpu = platform.cpu if self.kind is None else platform.cpu.of_type(self.kind)
        self.cpu = replace(cpu, request_ps=cpu.request_ps + spec.work_ps) if spec.work_ps else cpu
        hop_ps, speed = (0, 100) if self.kind is None else (self.kind.hop_ps, self.kind.speed_percent)
        self._hand_over = (
            platform.nic.post_wqe_ps * 100 // speed + hop_ps,
            platform.poll_ps * 100 // speed + hop_ps,
        )
        os = self.cpu.os
        self.fair = spec.fair or not spec.pinned or os.scheduler == "fair" or os.smt > 1
        self.cores: list[Core] = []
        """Those of the role's code; behind them those of other programs."""
        mates: list[FairCore] = []
        fills = platform.private.fill_buffers, platform.private.prefetch_lines
        for index in range(spec.cores + spec.others):
            core = f"{name} core {index}"
            agent = system.fabric.number(name) << CORE_BITS | index
            away = system.outages.get(core, ())
            if self.fair and index < spec.cores:
                self.cores.append(FairCore(system.ordering, core, away, agent, fills, system.clock, os, mates))
            else:
                self.cores.append(Core(system.ordering, core, away, agent, fills))
        for made, socket in zip(self.cores, places_of_cores(platform), strict=False):
            made.host = self.sockets[socket]
        if os.smt > 1:
            for one, other in zip(mates[::2], mates[1::2], strict=False):
                one.sibling, other.sibling = other, one
        if os.noise == "on":
            for made in self.cores:
                Noise(system.clock, made, os, system.streams.stream(f"noise of {made.name}"))
        arbiter = partial(system.streams.stream, ORDER_OF_READS + name)
        self.nic: Nic = system.adapter(system.clock, system.ordering, name, platform, self.host, system.fabric, arbiter)
        if system.meter is not None:
            system.meter.listen(self.nic)
        self._processes: dict[str, Process] = {}

    @cached_property
    def kernel(self) -> Kernel:
        """Its operating system: drives and files."""
        return Kernel(self)

    def process(self, name: str) -> Process:
        """The process of that name on this machine; the first who asks starts it."""
        if name not in self._processes:
            self._processes[name] = Process(self)
        return self._processes[name]

    def abandon(self) -> None:
        """Nobody will run its code any further."""
        for process in self._processes.values():
            process.abandon()

    def power_off(self, last_ps: Mapping[int, int] | None = None) -> None:
        """Power fails: no code runs any more, and nothing leaves or enters the adapter; nobody is told, but for those
        who look at its heartbeats (:attr:`watched_by`).

        ``last_ps`` says of queue pairs, by number, which packets on their way still arrive, as ``Nic.power_off`` does.
        """
        self.nic.power_off(last_ps)
        for process in self._processes.values():
            process.stop()
        for signal in self.watched_by:
            signal.set()
        self.watched_by.clear()

    def tell_who_waits(self) -> None:
        """Let those look again who wait until a process here listens (:attr:`awaited_by`): one does, or never will."""
        for signal in self.awaited_by:
            signal.set()
        self.awaited_by.clear()

    @property
    def off(self) -> bool:
        """Whether it has no power."""
        return self.nic.off_ps <= self.system.clock.now_ps

    def power_on(self, line: Callable[[int, int], bytes], onlooker: Callable[[int], Onlooker] | None = None) -> None:
        """Power is back: the machine is as new, but for memory that lasts, which holds what ``line`` says.

        ``line`` is called with a device's number before the failure and a line of it, when that is first looked at, for
        every device that is traced; others hold zeros. Devices get new numbers: the trace keeps both lives apart.
        ``onlooker`` says, for the former number, who is told what is looked at of a device.
        """
        before, adapter = self.devices, self.nic
        self._lost += (socket for process in self._processes.values() for socket in process.sockets)
        self.former += before
        self.__dict__.pop("kernel", None)
        self._switch_on()
        self.nic.number_on(adapter)
        for old, new in zip(before, self.devices, strict=True):
            new.traced = old.traced
            if old.traced:
                new.space.restore(partial(line, old.number), None if onlooker is None else onlooker(old.number))
        self._lost = [socket for socket in self._lost if not socket.peer.reset]
        for socket in self._lost:
            socket.power_is_back()

    def shows(self, address: int, length: int) -> bytes:
        """What its memory shows now, to somebody who looks from outside: it takes no simulated time, unlike a load."""
        device, offset = self.memory.locate(address)
        return device.space.read(self.system.clock.now_ps, offset, length)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """While its software begins again: memory that lasts holds what it held, and no initial contents."""
        for device in self.devices:
            device.space.kept = device.traced
        try:
            yield
        finally:
            for device in self.devices:
                device.space.kept = False

    def thread(self, core: int, name: str, kind: type[Thread] = Thread) -> Thread:
        """A new thread on one of the node's cores; where they are shared, on that core modulo their number.

        Raises ValueError for a core that the node does not have.
        """
        spec = self.spec
        kind = self.system.thread_type if kind is Thread else kind
        thread = self._thread(core % spec.cores if spec.shared else core, name, spec.pinned, spec.waits, kind)
        thread.injected_ps = spec.work_ps
        if self.system.meter is not None:
            self.system.meter.follow(thread, self.name)
        self.threads.append(thread)
        return thread

    def other_thread(self, core: int, name: str) -> Thread:
        """A thread of another program, which polls: it does not count among the node's."""
        return self._thread(core, name, True, "poll", Thread)

    def _thread(self, core: int, name: str, pinned: bool, waits: str, kind: type[Thread]) -> Thread:
        system = self.system
        if not 0 <= core < len(self.cores):
            raise ValueError(f"{self.name} has no core {core}: its {len(self.cores)} cores are numbered from 0")
        return kind(
            system.clock,
            system.ordering,
            system.platform,
            self.cores[core].host or self.host,
            self.cores[core],
            name,
            hand_over=self._hand_over,
            cpu=self.cpu,
            pinned=pinned,
            waits=waits,
        )

    def alloc_pd(self) -> ProtectionDomain:
        """``ibv_alloc_pd``."""
        return ProtectionDomain(self.nic)

    def create_comp_channel(self, vector: int = 0) -> CompletionChannel:
        """``ibv_create_comp_channel``; core ``vector`` takes the interrupts (``comp_vector``)."""
        platform = self.system.platform
        return CompletionChannel(self.system.clock, self.cores[vector], self.cpu.os, platform.pcie.posted_write_ps)

    def create_cq(self, channel: CompletionChannel | None = None) -> CompletionQueue:
        """``ibv_create_cq``; with a channel it can be waited for without polling."""
        queue = CompletionQueue()
        if channel is not None:
            channel.attach(queue)
        return queue


class Process:
    """A process of a machine's operating system: threads and queue pairs that end together."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._code: list[simpy.Process] = []
        self._domains: list[ProtectionDomain] = []
        self.sockets: list[Socket] = []
        """Those that are closed when it ends."""
        self.ends = 0
        """How often it has died: under its name the machine may start another."""

    def start(self, code: Generator[Any, Any, Any]) -> simpy.Process:
        """Run a thread's code from now on; done when it returns, or when the process ends."""
        running = self.node.system.clock.start(code)
        self._code.append(running)
        return running

    def alloc_pd(self) -> ProtectionDomain:
        """``ibv_alloc_pd``: what is created in it ends with the process."""
        domain = ProtectionDomain(self.node.nic)
        self._domains.append(domain)
        return domain

    def own(self, socket: Socket) -> Socket:
        """A socket of this process, which is closed when it ends; returns it."""
        self.sockets.append(socket)
        return socket

    def abandon(self) -> None:
        """Close code that nobody will resume: the collector would do so in any order, with complaints."""
        for running in self._code:
            code: Any = running._generator
            if running.is_alive and code.gi_suspended:
                code.close()

    def stop(self) -> None:
        """Its threads execute nothing any more."""
        for running in self._code:
            if running.is_alive:
                self.node.system.clock.end(running)
        self._code.clear()
        for core in self.node.cores:
            core.reap()

    def end(self, *, told: bool = True) -> None:
        """It dies: the operating system destroys its queue pairs, and the connection manager tells their peers.

        Source: Linux, drivers/infiniband/core: closing the device destroys the connection identifiers, and that of an
        established connection sends a DREQ; the peer's application moves its queue pair to the error state. Not
        ``told``, nobody sends one, as where a whole virtual machine is gone.
        """
        self.stop()
        self.ends += 1
        for domain in self._domains:
            for qp in domain.queue_pairs:
                qp.destroy()
                if qp.peer is not None and told:
                    self.node.nic.disconnect(qp, qp.peer.fail)
        self._domains.clear()
        for socket in self.sockets:
            socket.close()
        self.sockets = [socket for socket in self.sockets if not socket.peer.reset]  # power may fail before they know


class System:
    """All machines of a run. ``nodes`` lists them by role: ``system.nodes["server"][0]``.

    ``outages`` says when which core (``server[0] core 0``) is away: (from, for how long) in picoseconds.
    ``disturbance`` is what the fabric does to packets: with one (be it one that does nothing) adapters keep the
    reliable transport packet by packet, without one they leave out what shows only where packets are lost or late.
    ``draws`` names what the hardware draws at random: another name, other draws from the same seed.
    ``adapter`` is the kind of adapter that every machine has. ``metered`` systems have a meter.
    """

    def __init__(
        self,
        platform: Platform,
        specs: Mapping[str, list[NodeSpec]],
        seed: int,
        outages: Mapping[str, Sequence[tuple[int, int]]] | None = None,
        disturbance: Disturbance | None = None,
        draws: str = "",
        adapter: type[Nic] = Nic,
        metered: bool = False,
    ) -> None:
        self.platform = platform
        self.adapter = adapter
        self.clock = Clock()
        self.trace = Trace()
        self.ordering = Ordering(self.trace)
        self.streams = Streams(seed, draws)
        self.outages = outages or {}
        self.meter = Meter(self.clock) if metered else None
        self.thread_type: type[Thread] = MeteredThread if metered else Thread
        """What new threads are: whoever wants to look over their shoulders puts a kind of its own here."""
        self._devices = 0
        names = [f"{role}[{index}]" for role, machines in specs.items() for index in range(len(machines))]
        fabric = platform.fabric
        if disturbance is None and (
            platform.transport.ack_interval > 1 or fabric.forwarding != "cut_through" or fabric.buffer_bytes
        ):
            disturbance = Disturbance()
        weather = None if disturbance is None else Weather(disturbance, self.streams.stream)
        self.fabric = Fabric(self.clock, fabric, names, weather)
        self.nodes = {
            role: [Node(self, f"{role}[{index}]", spec) for index, spec in enumerate(machines)]
            for role, machines in specs.items()
        }

    def record_nothing(self) -> None:
        """From now on, before anything is written: no record of what a power failure would leave of memory.

        Drives keep theirs, which their reads look at. Times do not depend on it, but for those of a FLUSH, which writes
        back what its record says: that raises NotRecorded.
        """
        self.trace.complete = False
        for _, device in self.devices().values():
            device.traced = device.kind in self.platform.drives

    def next_device(self) -> int:
        """A device number that is free in this system."""
        self._devices += 1
        return self._devices - 1

    def network_counters(self) -> dict[str, int] | None:
        """What adapters counted of packets so far, all together; None where they do not keep track of packets."""
        if self.fabric.weather is None:
            return None
        total = TransportCounters()
        for machines in self.nodes.values():
            for node in machines:
                if isinstance(node.nic.reliability, GoBackN):
                    total.add(node.nic.reliability.total())
        return {"packets": total.packets, "lost": self.fabric.weather.lost} | {
            one.name: getattr(total, one.name) for one in fields(total) if one.name != "packets"
        }

    def devices(self) -> dict[int, tuple[Node, MemoryDevice]]:
        """Every memory device by its number, with the node that it is in; also as it was before power came back."""
        return {
            device.number: (node, device)
            for machines in self.nodes.values()
            for node in machines
            for device in (*node.devices, *node.former)
        }
