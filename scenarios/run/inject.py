"""A fault with survivors, executed: the run is replayed to the instant, then the survivors run on.

The replay takes the way that the run took, because every random choice is drawn from the seed. After the survivors have
finished the operations that they still had, a fresh client on a machine of its own reads every object.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from ...models.system import Process
from ...protocols.failures import POWER, PROCESS
from ...protocols.objects import TAKES_OUT
from ...protocols.scheme import Role
from ...sim.errors import InputError, Mistake
from ..history import Crash, History
from ..schema.faults import Fault
from ..schema.schema import Scenario, Variant
from .draws import Planned
from .experiment import AssembledVariant
from .results import RunResult

PATIENCE_PS = 2 * 10**12
"""How long survivors, and after them the reader, may take: more than an adapter needs to give up on a dead peer. What
has not returned by then stays open."""


@dataclass(frozen=True)
class Aftermath:
    """The result of a fault: the run with survivors, the crash in its history, and the instants of recovery and end."""

    result: RunResult
    at_ps: int
    recovered_ps: int | None
    """When a server's successor had recovered and listened; None if no server had to, or if it never did."""
    finished: bool
    """Whether all survivors and the reader came to their ends."""

    @property
    def history(self) -> History:
        return self.result.history


def instants(scenario: Scenario, variant: Variant, schedule: int = 0) -> tuple[RunResult, list[int]]:
    """The run without the fault, and every instant at which the fault makes a difference to any other machine or
    process.

    Between two of them the failing part sends no packet, takes none into persistent memory and stores nothing there,
    and no client sees anything: whichever instant between them it is, it leaves the same bytes and packets behind.
    Where nothing fails there is one: when all have returned.
    """
    experiment = AssembledVariant(scenario, variant, schedule, watched=True)
    experiment.system.clock.run_until(experiment.finished)
    result, fault = experiment.result(), scenario.crash.fault
    if fault.nothing:
        return result, [experiment.system.clock.now_ps]
    role, index, kind = fault.part.role, fault.part.index, fault.part.kind
    machine = index if kind == POWER or not fault.client else _machine(scenario, index)
    node = experiment.system.nodes[role][machine]
    history = result.history
    found = {0} | {o.invoke_ps for o in history.operations} | {o.return_ps or 0 for o in history.operations}
    found |= {left_ps for left_ps, port in experiment.system.fabric.departures or () if port == node.name}
    own = {device.number for device in node.devices}
    found |= {chunk.reached_ps[0] for chunk in experiment.system.trace.chunks if chunk.device in own}
    return result, sorted(found)


def run_with_fault(scenario: Scenario, variant: Variant, at_ps: int, schedule: int = 0) -> Aftermath:
    """Execute the scenario's fault at ``at_ps``, behind all that happens at that instant."""
    experiment = AssembledVariant(scenario, variant, schedule, observer=True)
    clock, fault = experiment.system.clock, scenario.crash.fault
    clock.run_until(at_ps + 1)  # exclusive: all events of the instant have happened
    recovery = None
    _check(fault)
    if fault.nothing:
        pass
    elif not fault.client:
        recovery = _restart(experiment.at_work.roles[fault.part.role][fault.part.index])
        experiment.history.crashes.append(Crash("server", at_ps))
    else:
        for process, running in _dying(experiment):
            if fault.part.kind != POWER:
                running.end()
            experiment.history.crashes.append(Crash("client", at_ps, process))
        if fault.part.kind == POWER:
            experiment.system.nodes[fault.part.role][fault.part.index].power_off()
    clock.run_until(clock.any_of([experiment.finished, clock.timeout(PATIENCE_PS)]))
    machines, number = scenario.role("client").machines, experiment.processes
    reads = _probes(experiment, number)
    reader = experiment.start_client(machines, 0, number, reads)
    clock.run_until(clock.any_of([reader, clock.timeout(PATIENCE_PS)]))
    finished = bool(experiment.finished.processed and reader.processed)
    recovered_ps = recovery.value if recovery is not None and recovery.processed else None
    return Aftermath(experiment.result(), at_ps, recovered_ps, finished)


def _check(fault: Fault) -> None:
    """Raises InputError for a fault that cannot be executed."""
    alone = len(fault.parts) <= 1 and fault.then is None and not fault.again
    if not alone or not (fault.nothing or fault.client or fault.part.kind == PROCESS):
        expected = "with survivors: a process, or a client's power"
        raise InputError(Mistake(f"'{fault}'", expected, "this version", field="crash.fault"))


def _probes(experiment: AssembledVariant, process: int) -> list[Planned]:
    """The reads by which a fresh client finds out what became of all objects: of transactions a single one."""
    scheme = experiment.at_work
    names = list(scheme.sizes.objects)
    if scheme.model == "txn":
        steps = tuple((step.f, step.object) for step in scheme.probe(tuple(names)).steps)
        return [Planned(process, "txn", "", False, argument=steps)]
    probes = [scheme.probe(name).step for name in names]
    return [
        Planned(process, step.f, str(step.object), False, argument=step.number, until_empty=step.f in TAKES_OUT)
        for step in probes
    ]


def _machine(scenario: Scenario, process: int) -> int:
    return process // scenario.role("client").processes


def _dying(experiment: AssembledVariant) -> list[tuple[int, Process]]:
    """The client processes that a fault kills: one, or all of a machine."""
    fault, scenario = experiment.scenario.crash.fault, experiment.scenario
    every = range(experiment.processes)
    index, kind = fault.part.index, fault.part.kind
    numbers = [n for n in every if _machine(scenario, n) == index] if kind == POWER else [index]
    return [(number, experiment.process_of(_machine(scenario, number), number)) for number in numbers]


def _restart(role: Role) -> Any:
    """A machine's process dies and another takes over; the event of its listening, whose value is the instant.

    It begins as soon as the operating system has destroyed the queue pairs of the first: then all that the adapter had
    accepted from them is in coherent memory, and nothing of them can land any more.
    """
    clock, node = role.system.clock, role.node
    node.process(node.name).end()
    role.begin()
    destroyed_ps = max(clock.now_ps, node.host.last_visible_ps)

    def successor() -> Generator[Any, Any, int]:
        yield clock.until(destroyed_ps)
        yield from role.recover(node.thread(0, "recovery"))
        role.start()
        return clock.now_ps

    return node.process(node.name).start(successor())


def arrived(before: RunResult, after: RunResult, label: str) -> list[tuple[str, int, int, int, int]]:
    """The fate of the one-sided messages of an operation that the fault cut short.

    For each range that the run without the fault wrote for ``label`` and this one did not write whole: (what begins
    there, device, address, how many bytes of it arrived, how many there are).
    """
    found = []
    for key, whole in _messages(before, label).items():
        came = _messages(after, label).get(key, {})
        length, there = sum(map(len, whole.values())), sum(map(len, came.values()))
        if there < length:
            device, address = min(whole)
            name = before.system.devices()[device][1].name_of(address)
            found.append((name, device, address, there, length))
    return found


def _messages(result: RunResult, label: str) -> dict[str, dict[tuple[int, int], bytes]]:
    """By verb: what arrived of the messages of an operation, by device and address."""
    found: dict[str, dict[tuple[int, int], bytes]] = {}
    for chunk in result.system.trace.chunks:
        verb, _, whose = chunk.writer.partition(", ")
        if whose == label and not verb.startswith(("store", "ntstore")):
            found.setdefault(verb, {})[chunk.device, chunk.address] = chunk.data
    return found
