"""Assembling a system from a scenario's variant and running its workload on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ...models.cpu import Thread
from ...models.cpu.core import Core, Pauses
from ...models.fabric.disturbance import Disturbance
from ...models.memory.devices import DeviceFull
from ...models.profiles.platform import Platform, load_platform
from ...models.profiles.scaling import scaled
from ...models.system import NodeSpec, Process, System
from ...models.verbs import QueuePair, Span
from ...protocols.failures import CLIENT
from ...protocols.objects import TRANSACTION
from ...protocols.registry import scheme
from ...protocols.scheme import Role, Scheme, Sizes
from ...sim.errors import InputError, Mistake
from ...sim.streams import Streams
from ...sim.trace import NotRecorded
from ...sim.units import parse_duration_ps
from ..history import History, Operation
from ..schema.known import SchemeFacts
from ..schema.perturbed import LAGGING, PAUSES, PAUSING, perturbed_network, perturbed_platform
from ..schema.ranking import PageRank
from ..schema.schema import Scenario, Variant
from ..schema.workloads import Ycsb
from .background import start_background
from .clients import ClientWork
from .cost import cost
from .cputime import spent
from .draws import Plan, Planned, draw_past
from .metered import Metered
from .parts import MeanWay, way
from .ranking import Caller, Ranking
from .results import Hop, RunResult
from .workload import initial_values, objects, of_work, own_objects, plan, repeating, requests, room_for_updates

# How a disturbed schedule pauses cores: a choice of the exploration, not a property of hardware. Long enough for a
# client's operation to fit into a pause, often enough for some to fall where it matters.
PAUSE_EVERY = 8
PAUSE_SHORTEST_PS = 1_000_000
PAUSE_LONGEST_PS = 20_000_000


class AssembledVariant:
    """One variant of a scenario, assembled and about to run: loaded, connected, every client at its first operation.

    Schedule 0 is the undisturbed one; in others the scenario's perturbations are drawn from the seed: servers' cores
    pause now and then, hardware chooses otherwise. ``watched`` notes where cores might pause, and when packets leave.
    ``observer`` adds a client machine that takes no part, or a core to the one that hosts what is read. ``platform``
    stands for the one that the variant names. A ``metered`` run has the figures of ``metered.py`` besides, at the same
    instants.
    """

    def __init__(
        self,
        scenario: Scenario,
        variant: Variant,
        schedule: int = 0,
        *,
        watched: bool = False,
        observer: bool = False,
        platform: Platform | None = None,
        metered: bool = False,
    ) -> None:
        self.scenario, self.variant = scenario, variant
        workload, clients, streams = scenario.workload, scenario.role(CLIENT), Streams(scenario.seed)
        kind = scheme(variant.scheme)
        self.processes = clients.machines * clients.processes
        self.retries = clients.retries
        planned = plan(workload, self.processes, streams, SchemeFacts.of(kind))
        self.ranking = Ranking(workload, streams) if isinstance(workload, PageRank) else None
        self.initial = initial_values(workload, kind.model) if self.ranking is None else self.ranking.initial
        number = (scenario.crash.first or 0) + schedule
        perturbed = scenario.crash.perturbed if number else ()
        self.system = build_system(
            kind,
            self._platform(platform, perturbed),
            scenario,
            perturbed_network(scenario.network.disturbance() if scenario.network is not None else None, perturbed),
            observer=observer,
            draws=f"schedule {number}, " if set(perturbed) - PAUSING else "",
            metered=metered,
        )
        meter = self.system.meter
        self.metered = None if meter is None else Metered(meter, workload.warmup)
        self.at_work = self._loaded(kind, planned)
        if isinstance(workload, Ycsb) and workload.past:
            self.at_work.age(draw_past(workload, self.processes, of_work(workload, streams), planned))
        pausing = PAUSING.intersection(perturbed) if schedule > 0 else frozenset()
        self.pauses = self._pauses(number, streams, pausing, watched=watched)
        if watched:
            self.system.fabric.departures = []
        devices = self.system.devices()
        self.loaded = {n: device.space.snapshot() for n, (_, device) in devices.items() if device.traced}
        self.at_work.start()
        start_background(self.system, scenario)
        self.history = History(kind.updates, model=kind.model, promises=self.at_work.promises)
        self.at_work.on_applied = lambda number: self.history.applied(number, self.system.clock.now_ps)
        self.spans: dict[int, Span] = {}
        self.work: dict[int, ClientWork] = {}
        """By client process."""
        self.on_answer: Callable[[], None] | None = None
        """Who is told whenever a request has returned."""
        self.running: dict[int, Any] = {}
        """By client process the event of its end."""
        self.repeating = repeating(scenario.workload)
        """The processes that go on until all others have ended."""
        running = []
        for process, operations in enumerate(planned):
            machine, core = divmod(process, clients.processes)
            running.append(self.start_client(machine, core, process, operations))
        self.finished = self.system.clock.all_of(running)
        """When every client has performed its operations, or is dead."""

    def _platform(self, platform: Platform | None, perturbed: tuple[str, ...]) -> Platform:
        """The platform of the machines: the variant's, or the one in its place, as scenario and schedule change it."""
        variant = self.variant
        platform = scaled(platform or load_platform(variant.platform, **variant.settings), self.scenario.scale)
        platform = perturbed_platform(platform, perturbed)
        return platform if self.ranking is None else self.ranking.platform(platform)

    def _loaded(self, kind: type[Scheme], planned: Plan) -> Scheme:
        """The scheme on the system, formatted for what clients are to do, with the objects' initial values.

        Raises InputError where they find no room.
        """
        scenario, workload = self.scenario, self.scenario.workload
        sizes = Sizes(
            workload.value_bytes,
            objects(workload, planned),
            room_for_updates(workload, planned),
            self.processes,
            threads=next((scenario.role(name).threads for name, role in kind.role_types.items() if role.served), 1),
            batch=max((len(each) for operations in planned for each in requests(operations)), default=1),
            own=own_objects(workload),
        )
        try:
            at_work = kind(self.system, sizes)
            at_work.load(self.initial)
        except DeviceFull as error:
            remedy, field = error.remedy or "fewer objects or smaller ones", "schemes" if error.remedy else "workload"
            expected = f"{remedy}: what {self.variant.scheme} keeps has to fit"
            raise InputError(Mistake(str(error), expected, field=field)) from error
        return at_work

    def _pauses(self, number: int, streams: Streams, pausing: Collection[str], *, watched: bool) -> Pauses:
        """The pauses of servers' cores in the schedule of that number; the cores know them where one may pause, or is
        ``watched``.
        """
        cores = server_cores(self.system, type(self.at_work))
        every = PAUSE_EVERY if PAUSES in pausing else 0
        pauses = Pauses(streams.stream(f"pauses[{number}]"), every, PAUSE_SHORTEST_PS, PAUSE_LONGEST_PS)
        if LAGGING in pausing and cores:
            turn, place = divmod(number - 1, len(cores))
            pauses.lags(cores[place].name, 1 + turn)
        if pausing or watched:
            for core in cores:
                core.pauses = pauses
        return pauses

    def start_client(
        self, machine: int, core: int, process: int, operations: list[Planned], *, takes_over: bool = False
    ) -> Any:
        """Start a client process on a core of a machine; returns the event of its end.

        ``takes_over``: it is the first since another one has died.
        """
        thread = self.system.nodes[CLIENT][machine].thread(core, f"client {process}")
        client: Role = self.at_work.roles[CLIENT][machine]
        session = client.connect(thread)
        if self.ranking is not None:
            caller = Caller(client, session, thread, self.history, self.system.clock, self.metered)
            return self.process_of(machine, process).start(self.ranking.client(caller))
        work = self.work[process] = ClientWork(self, operations)
        code = work.run(client, session, thread, client.take_over(session) if takes_over else ())
        running = self.running[process] = self.process_of(machine, process).start(code)
        return running

    def others_run(self) -> bool:
        """Whether a process runs that ends by itself."""
        running = ((process, end) for process, end in self.running.items() if process not in self.repeating)
        return any(not end.processed for process, end in running)

    def start_again(self, process: int) -> None:
        """A client process closes its connections, opens others, and goes on with what it was at, as a retry."""
        machine, core = divmod(process, self.scenario.role(CLIENT).processes)
        self.process_of(machine, process).end()
        thread = self.system.nodes[CLIENT][machine].thread(core, f"client {process}")
        client: Role = self.at_work.roles[CLIENT][machine]
        code = self.work[process].run(client, client.connect(thread), thread)
        self.running[process] = self.process_of(machine, process).start(code)

    def process_of(self, machine: int, process: int) -> Process:
        """The operating system's process that a client process is."""
        return self.system.nodes[CLIENT][machine].process(f"client {process}")

    def result(self) -> RunResult:
        """The results of the run so far."""
        result = _result(self)
        result.outages, result.may_pause = self.pauses.taken, self.pauses.offered
        return result


def run_variant(
    scenario: Scenario,
    variant: Variant,
    schedule: int = 0,
    watched: bool = False,
    platform: Platform | None = None,
    recorded: bool = True,
    metered: bool = False,
) -> RunResult:
    """Run one scheme of ``scenario`` on one platform: load, connect, perform the workload to its end.

    ``platform`` stands for the one that the variant names, with some parameter set otherwise. Not ``recorded``, the run
    has no trace, and nothing of what its writes left can be explored; its times are the same. A ``metered`` run counts
    round trips and traffic; that takes real time and no simulated time.
    """
    experiment = AssembledVariant(scenario, variant, schedule, watched=watched, platform=platform, metered=metered)
    try:
        if not recorded:
            experiment.system.record_nothing()
        experiment.system.clock.run_until(experiment.finished)
    except NotRecorded:
        return run_variant(scenario, variant, schedule, watched, platform, metered=metered)
    return experiment.result()


def build_system(
    kind: type[Scheme],
    platform: Platform,
    scenario: Scenario,
    network: Disturbance | None,
    *,
    observer: bool = False,
    draws: str = "",
    metered: bool = False,
) -> System:
    """The machines that a scheme's roles need, as many as the scenario says, and one more client for an observer:
    a machine, or a core of the one that hosts what is read.

    ``draws`` names the stream of the hardware's random choices: another name, other draws.
    """
    specs: dict[str, list[NodeSpec]] = {}
    clients = scenario.role(CLIENT)
    everyone = clients.machines * clients.processes
    for name, role in kind.role_types.items():
        count = scenario.role(name)
        threads = role.cores_for(everyone, count.processes, count.threads)
        if role.counted_by is not None:
            machines = int(kind.option(role.counted_by))
        else:
            machines = max(count.machines, 1 if role.at_least_by is None else int(kind.option(role.at_least_by)))
        machines += observer and role.invokes and not role.hosts
        spec = NodeSpec(
            (count.cores or threads) + (observer and role.hosts),
            role.memory,
            fair=any(load.kind == "compute" for load in count.background) or (count.cores or threads) < threads,
            shared=count.cores is not None,
            pinned=count.pinned,
            waits=count.waits,
            core_type=count.core_type or role.core_type,
            others=sum(load.kind == "network" for load in count.background),
            work_ps=0 if role.invokes else scenario.workload.work_ps or 0,
            stolen=tuple((load.device, load.bandwidth) for load in count.background if load.bandwidth is not None),
        )
        specs[name] = [spec] * machines
    outages: dict[str, list[tuple[int, int]]] = {}
    for outage in sorted(scenario.outages, key=lambda outage: outage.at_ps):
        outages.setdefault(outage.core, []).append((outage.at_ps, outage.for_ps))
    system = System(platform, specs, scenario.seed, outages, network, draws, metered=metered)
    held: dict[tuple[str, int], dict[int, int]] = {}
    for one in scenario.held or ():
        held.setdefault(one.machine, {})[one.queue_pair] = one.for_ps
    for (where, number), by_number in held.items():
        system.nodes[where][number].nic.responder.drain.hold_up(_held(by_number))
    return system


def _held(for_ps: Mapping[int, int]) -> Callable[[QueuePair], int]:
    """How long packets of a queue pair stay in its adapter, by the queue pair's number."""
    return lambda qp: for_ps.get(qp.number, 0)


def server_cores(system: System, kind: type[Scheme]) -> list[Core]:
    """The cores that run the code of a scheme's servers."""
    servers = (name for name, role in kind.role_types.items() if role.recovers())
    return [core for name in servers for node in system.nodes[name] for core in node.cores]


def client_thread(system: System, processes_per_machine: int, process: int, kind: type[Thread] = Thread) -> Thread:
    """The thread of a client process, on a core of its own."""
    machine, core = divmod(process, processes_per_machine)
    return system.nodes[CLIENT][machine].thread(core, f"client {process}", kind)


def _result(experiment: AssembledVariant) -> RunResult:
    scenario, history, at_work = experiment.scenario, experiment.history, experiment.at_work
    warmup = scenario.workload.warmup
    finished = sorted((o.return_ps, o.number, o) for o in history.operations if o.return_ps is not None)
    measured = [operation for _, _, operation in finished[warmup:]]
    measured_from_ps = finished[warmup - 1][0] if 0 < warmup <= len(finished) else 0
    latency_ps, completed_ps, hops = {}, {}, {}
    for f in at_work.operations:
        own = [o for o in measured if o.f == f and (o.part_of is None or f == TRANSACTION)]
        if f in at_work.removals and not own:
            continue  # few workloads remove anything
        latency_ps[f] = np.array([(o.return_ps or 0) - o.invoke_ps for o in own], dtype=np.int64)
        completed_ps[f] = np.array([o.return_ps for o in own], dtype=np.int64)
        if own:
            hops[f] = _mean_hops(own, experiment.spans)
    for name, wholes in _wholes(measured, history).items():
        latency_ps[name] = np.array([end_ps - begin_ps for begin_ps, end_ps in wholes], dtype=np.int64)
        completed_ps[name] = np.array([end_ps for _, end_ps in wholes], dtype=np.int64)
    completed = sum(o.outcome is not None for o in history.operations)
    metered = experiment.metered
    took = {} if metered is None else metered.took(measured)
    return RunResult(
        scheme_name=experiment.variant.scheme,
        platform_label=experiment.variant.label,
        seed=scenario.seed,
        history=history,
        initial=experiment.initial,
        loaded=experiment.loaded,
        system=experiment.system,
        scheme=at_work,
        measured_from_ps=measured_from_ps,
        elapsed_ps=max((o.return_ps for o in measured if o.return_ps is not None), default=0),
        latency_ps=latency_ps,
        completed_ps=completed_ps,
        hops={f: found for f, found in hops.items() if found},
        fault=scenario.crash.fault,
        loss_ps=_loss_ps(scenario, at_work),
        spans={number: span.marks for number, span in experiment.spans.items()},
        spent=spent(experiment.system, completed),
        cost=cost(experiment.system, type(at_work)),
        took=took,
        metered={} if metered is None else metered.fields(took),
        more={} if experiment.ranking is None else {"pagerank": experiment.ranking.fields()},
    )


def _wholes(measured: Iterable[Operation], history: History) -> dict[str, list[tuple[int, int]]]:
    """By name the scans and read-modify-writes whose requests have all returned, the last of them measured: when the
    first request was invoked, and when the last one returned.
    """
    parts: dict[tuple[int, str, int], list[Operation]] = {}
    for o in history.operations:
        if o.part_of is not None:
            parts.setdefault((o.process, *o.part_of), []).append(o)
    found: dict[str, list[tuple[int, int]]] = {}
    for key in dict.fromkeys((o.process, *o.part_of) for o in measured if o.part_of is not None):
        ends = [each.return_ps for each in parts[key] if each.return_ps is not None]
        if len(ends) == len(parts[key]):
            found.setdefault(key[1], []).append((parts[key][0].invoke_ps, max(ends)))
    return {name: sorted(wholes, key=lambda each: each[1]) for name, wholes in found.items()}


def _mean_hops(operations: list[Operation], spans: Mapping[int, Span]) -> list[Hop]:
    """The mean way of the operations whose marks were kept."""
    mean = MeanWay()
    for operation in operations:
        if operation.number in spans and operation.outcome == "ok":
            mean.add(way(operation, spans[operation.number].marks))
    return mean.hops()


def _loss_ps(scenario: Scenario, scheme: Scheme) -> int | None:
    """The time of ``bounded_loss``: the scenario's, or the scheme's own."""
    if scenario.crash.loss_ps is not None or scheme.loss_within is None:
        return scenario.crash.loss_ps
    return parse_duration_ps(scheme.loss_within)
