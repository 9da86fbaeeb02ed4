"""Faults with survivors, executed: the run is replayed to the instant, then the survivors run on.

The replay takes the way that the run took, because every random choice is drawn from the seed. A machine whose power
fails is back ``crash.down`` later: cold, without queue pairs, its memory as the strike says, line by line when somebody
first looks. Machines recover in the scheme's order (``Scheme.recovery``); those that stand go on with the code that
they run, beside their part in the recovery, where the scheme gives them one. After the survivors have finished the
operations that they still had, a fresh client reads every object, on a machine of its own; where clients' machine hosts
what they read, as another process there, behind a power failure of that machine too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from ...models.fabric.fabric import Departure
from ...models.memory.devices import AddressSpace
from ...models.system import Node, Process, System
from ...models.verbs import CompletedWithError
from ...protocols.failures import LOST, PROCESS, Failing
from ...protocols.objects import TAKES_OUT, TRANSACTIONAL
from ...protocols.scheme import Role
from ...sim.onlooker import Onlooker
from ..history import Crash, History, Unread
from ..schema.schema import Scenario, Variant
from .draws import Planned
from .experiment import AssembledVariant
from .results import RunResult
from .waiting import SurvivorWait

LastArriving = Mapping[str, Mapping[int, int]]
"""Which packets on their way arrive: by machine and number of a queue pair, the instant until which a packet must have
left. Packets of machines and queue pairs that are not named all arrive."""
LineOf = Callable[[int, int], bytes]
"""The bytes of a line of memory that has come back, called when the line is first looked at: with the number that its
device had before the failure, and the number of the line."""
Memory = Callable[[System], LineOf]
"""What memory holds that comes back: called once, when power is on again."""
Compared = Callable[[int, int, int, int], bool | None]
"""Whether a range of such memory has a checksum, called before anybody has looked at the range: with the number that
its device had before the failure, offset, length, checksum. None: the bytes of the range have to be compared."""


@dataclass(frozen=True)
class Strike:
    """A fault at an instant, behind all that happens then."""

    at_ps: int
    parts: tuple[Failing, ...]
    last_ps: LastArriving = field(default_factory=dict)
    memory: Memory | None = None
    """What the memory of the machines holds that come back; needed where one does."""
    compared: Compared | None = None
    """How checksums of that memory are compared; None: by its bytes."""
    onlooker: Callable[[int], Onlooker] | None = None
    """Who is told what is looked at of such memory, by the number that its device had before the failure."""
    down_ps: int | None = None
    """How long those machines are away; None: as the scenario's ``crash`` says."""
    restart_ps: int = 0
    """How long after it a server's process has a successor."""
    told: bool = True
    """Whether the peers of a server's process learn that it is gone."""


@dataclass(frozen=True)
class Aftermath:
    """The result of faults: the run with survivors, the crashes in its history, the instants of recovery and end."""

    result: RunResult
    at_ps: int
    """When the last fault came."""
    back_ps: int
    """When the machines that it struck were back; where none comes back, the same instant."""
    recovered_ps: int | None
    """When all that were struck and come back had recovered and listened; None if none had to, or if one never did."""
    settled_ps: int
    """When survivors had finished, or were given up; after that a fresh client read."""
    finished: bool
    """Whether all survivors and the reader came to their ends, no recovery by an error."""
    unread: Mapping[Hashable, Unread]
    """The objects that the fresh client could not read after a fault."""
    on_their_way: Mapping[str, Mapping[tuple[str, int], list[int]]]
    """Of each machine that the last fault took from the network: its packets on their way (``Nic.on_their_way``)."""
    departures: Sequence[Departure]

    @property
    def history(self) -> History:
        return self.result.history


def instants(scenario: Scenario, variant: Variant, schedule: int = 0) -> tuple[RunResult, list[int]]:
    """The run without the fault, and every instant at which the fault makes a difference to any other machine or
    process: :func:`changes`. Where nothing fails there is one: when all have returned.
    """
    whole, fault = run_with_faults(scenario, variant, (), schedule, reads=False), scenario.crash.fault
    if fault.nothing:
        return whole.result, [whole.settled_ps]
    return whole.result, sorted(changes(whole, scenario, fault.parts))


def changes(
    run: Aftermath, scenario: Scenario, parts: Iterable[Failing], from_ps: int = 0, *, packets: bool = True
) -> set[int]:
    """Every instant of a run, from one on until its survivors had finished, at which it makes a difference to any other
    machine or process that these parts fail then, as far as packets and histories go.

    Between two of them the failing parts send no packet, take none into persistent memory and store nothing there, and
    no client sees anything: whichever instant between them it is, it leaves the same bytes and packets behind.
    """
    found = (
        {from_ps} | {o.invoke_ps for o in run.history.operations} | {o.return_ps or 0 for o in run.history.operations}
    )
    for part in parts:
        node = _node(run.result, scenario, part)
        own = {device.number for device in (*node.devices, *node.former)}
        if packets:
            found |= {packet.end_ps for packet in run.departures if packet.port == node.name}
        found |= {chunk.reached_ps[0] for chunk in run.result.system.trace.chunks if chunk.device in own}
    return {at_ps for at_ps in found if from_ps <= at_ps <= run.settled_ps}


def takes_part(run: Aftermath, scenario: Scenario, part: Failing) -> bool:
    """Whether the machine of a part sends or stores anything: a fault of one that does not hits nobody."""
    return bool(changes(run, scenario, [part]) - changes(run, scenario, ()))


def run_with_fault(
    scenario: Scenario, variant: Variant, at_ps: int, schedule: int = 0, memory: Memory | None = None
) -> Aftermath:
    """Execute the first fault of the scenario at ``at_ps``, behind all that happens at that instant."""
    return run_with_faults(scenario, variant, [Strike(at_ps, scenario.crash.fault.parts, {}, memory)], schedule)


def run_with_faults(
    scenario: Scenario,
    variant: Variant,
    strikes: Sequence[Strike],
    schedule: int = 0,
    *,
    departures: Sequence[Departure] = (),
    reads: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Aftermath:
    """Execute faults, in the order of their instants, and read every object by a fresh client, unless not ``reads``.

    ``departures`` are those of the run without the last of them: what has left a port is known a little later.
    ``progress`` is told the share of the objects that have been read.
    """
    experiment = AssembledVariant(scenario, variant, schedule, watched=True, observer=True)
    return StruckRun(experiment, strikes, departures, reads=reads, progress=progress).run()


def run_struck(experiment: AssembledVariant, strikes: Sequence[Strike]) -> RunResult:
    """The run of an assembled variant with faults in it, until its survivors have finished; nobody reads afterwards."""
    return StruckRun(experiment, strikes, (), reads=False).run().result


class StruckRun:
    """A run with faults in it."""

    def __init__(
        self,
        experiment: AssembledVariant,
        strikes: Sequence[Strike],
        departures: Sequence[Departure],
        *,
        reads: bool = True,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """``reads``: a fresh client reads every object at the end; ``progress`` is told which share of them it has."""
        self.experiment = experiment
        self.reads = reads
        self.progress = progress
        self.scenario = experiment.scenario
        self.clock = experiment.system.clock
        self.strikes = strikes
        self.departures = departures
        self.recovering: list[Any] = []
        """The events of the recoveries' ends: the value is the instant, or None if the machine has failed again."""
        self.earlier = 0
        """How many of them are of strikes before the last."""
        self.pending: dict[str, Strike] = {}
        """By machine: who has failed and has not recovered yet, with the last strike that hit it."""
        self.back_ps = 0
        """When the machines of the last strike are back."""
        self.wait = SurvivorWait(experiment)
        self.on_their_way: dict[str, dict[tuple[str, int], list[int]]] = {}
        self._compared: dict[int, tuple[int, Compared]] = {}
        """By the number of a device that came back: its number before, and who compares its ranges."""

    def run(self) -> Aftermath:
        """The replay, the faults, the survivors' ends, the reads."""
        experiment, clock = self.experiment, self.clock
        for at_ps, happens in self._agenda():
            while at_ps >= clock.now_ps:
                with suppress(CompletedWithError):
                    clock.run_until(at_ps + 1)  # exclusive: all events of the instant have happened
            happens()
        ends = [clock.start(_end_of(recovery)) for recovery in self.recovering]
        finished = self.wait.run_until(clock.all_of([experiment.finished, *ends]))
        settled_ps = clock.now_ps
        unread = self._read() if self.reads else {}
        failed = any(recovery.processed and not recovery.ok for recovery in self.recovering)
        return Aftermath(
            experiment.result(),
            self.strikes[-1].at_ps if self.strikes else settled_ps,
            self.back_ps,
            None if failed else self._recovered_ps(ends),
            settled_ps,
            finished and not failed and not any("for ever" in one.note for one in unread.values()),
            unread if any(strike.parts for strike in self.strikes) else {},
            self.on_their_way,
            tuple(experiment.system.fabric.departures or ()),
        )

    def _recovered_ps(self, ends: Sequence[Any]) -> int | None:
        """When the last one had recovered, of all strikes: the machine of an earlier one may have waited for these."""
        own = ends[self.earlier :]
        if not own or not all(end.processed for end in ends) or any(end.value is None for end in own):
            return None
        return max(int(end.value) for end in ends if end.value is not None)

    # the fault --------------------------------------------------------------------------------------------------
    def _agenda(self) -> list[tuple[int, Callable[[], None]]]:
        """The faults, and before each from when on acknowledgements do not arrive that are on their way then."""
        agenda: list[tuple[int, Callable[[], None]]] = []
        for strike in self.strikes:
            for part in strike.parts:
                for number, last_ps in strike.last_ps.get(part.place, {}).items():
                    agenda.append((last_ps, partial(self._lose, part, number, last_ps)))
            agenda.append((strike.at_ps, partial(self.strike, strike)))
        return sorted(agenda, key=lambda each: each[0])

    def _lose(self, part: Failing, number: int, last_ps: int) -> None:
        self._node(part).nic.lose_acknowledgements(number, last_ps)

    def strike(self, strike: Strike) -> None:
        """The fault comes now."""
        scheme = self.experiment.at_work
        self.earlier, self.back_ps = len(self.recovering), strike.at_ps
        self._note_crashes(strike)
        for part in strike.parts:
            if part.client and part.kind == PROCESS:
                for _, process in self._clients(part):
                    process.end()
        away = [part for part in strike.parts if part.kind != PROCESS]
        nodes = [self._node(part) for part in away]
        self.on_their_way = {node.name: node.nic.on_their_way(self.departures) for node in nodes}
        for node in nodes:
            node.power_off(strike.last_ps.get(node.name))
        returning = [part for part in away if scheme.comes_back(part)]
        down = [part for part in strike.parts if not part.client or part in returning]
        struck = {part.place for part in down}
        scheme.failures = (*(part for part in self._still_failed() if part.place not in struck), *strike.parts)
        for part in down:
            self.pending.pop(part.place, None)
            if part.kind != LOST:
                self.pending[part.place] = strike
            else:
                self._node(part).tell_who_waits()
        if returning:
            down_ps = self.scenario.crash.away_ps if strike.down_ps is None else strike.down_ps
            self.back_ps = strike.at_ps + down_ps
            self.wait.since_ps = max(self.wait.since_ps, self.back_ps)
        for part in strike.parts:
            if part.kind == PROCESS and not part.client:
                role = scheme.roles[part.role][part.index]
                self.recovering.append(self._successor(role, strike))
        if returning:
            self.recovering.append(self.clock.start(self._return(strike, returning, self.back_ps)))

    def _note_crashes(self, strike: Strike) -> None:
        """The history gets a crash for each server's machine or process, and for each client process that ends."""
        experiment, crashes = self.experiment, self.experiment.history.crashes
        servers = {node.name for name, kind in experiment.at_work.role_types.items() if not kind.invokes
                   for node in experiment.system.nodes[name]}  # fmt: skip
        all_fail = servers <= {part.place for part in strike.parts}
        for part in strike.parts:
            if part.client:
                crashes += [Crash("client", strike.at_ps, process) for process, _ in self._clients(part)]
            else:
                place = part.place if len(servers) > 1 else None
                crashes.append(Crash("server" if all_fail else "replica", strike.at_ps, id=place))

    def _still_failed(self) -> list[Failing]:
        """What has failed and is not there again: lost machines, those that have not recovered yet, and clients."""
        scheme = self.experiment.at_work
        return [
            part
            for part in scheme.failures
            if part.kind == LOST or part.place in self.pending or (part.client and not scheme.comes_back(part))
        ]

    def _successor(self, role: Role, strike: Strike) -> Any:
        """A machine's process dies and another takes over; the event of its listening, whose value is the instant.

        It begins as soon as the operating system has destroyed the queue pairs of the first: then all that the adapter
        had accepted from them is in coherent memory, and nothing of them can land any more. Or later, as the strike
        says.
        """
        role.node.process(role.node.name).end(told=strike.told)
        role.begin()
        destroyed_ps = max(self.clock.now_ps + strike.restart_ps, role.node.host.last_visible_ps)
        return self.clock.start(self._until_recovered(role, strike, destroyed_ps))

    def _return(self, strike: Strike, parts: Sequence[Failing], at_ps: int) -> Generator[Any, Any, int | None]:
        """Power is back on these machines at ``at_ps``. Returns when all have recovered, None if one failed again."""
        clock, system, scheme = self.clock, self.experiment.system, self.experiment.at_work
        assert strike.memory is not None, "a machine comes back, and nobody says what its memory holds"
        yield clock.until(at_ps)
        parts = [part for part in parts if self.pending.get(part.place) is strike]  # else it is lost meanwhile
        if not parts:
            return None
        for node in (node for nodes in system.nodes.values() for node in nodes):
            for part in parts:
                node.nic.believe(part.place)  # else an answer that is polled later could prove the contrary
        roles = [scheme.roles[part.role][part.index] for part in parts]
        line = strike.memory(system)
        for role in roles:
            role.node.power_on(line, strike.onlooker)
        if strike.compared is not None:
            self._let_compare([role.node for role in roles], strike.compared)
        for role in roles:
            _as_at_first(role)
        others = [part for part in scheme.failures if part.client and part not in parts]
        scheme.failures = (*self._still_failed(), *others)
        recovering = list(scheme.recovery())
        for role in roles:
            if role not in recovering:
                del self.pending[role.node.name]
                if not role.passive:
                    role.start()
        again = False
        for role in recovering:
            whose = self.pending.get(role.node.name)
            if whose is strike:
                again |= (yield from self._until_recovered(role, strike)) is None
            elif role in roles:
                again = True
            elif whose is None:  # it stands; else it recovers when it is back itself
                again |= (yield from self._until_helped(role)) is None
        return None if again else clock.now_ps

    def _until_helped(self, role: Role) -> Generator[Any, Any, int | None]:
        """A machine that stands has its part in the recovery of others; if it fails meanwhile, another one that the
        scheme names then begins. Returns the instant of the end, None if there is no other one.
        """
        scheme, tried = self.experiment.at_work, [role]
        while (ended_ps := (yield role.node.process(role.node.name).start(_helping(role)))) is None:
            standing = (one for one in scheme.recovery() if not one.node.off and one.node.name not in self.pending)
            another = next((one for one in standing if one not in tried), None)
            if another is None:
                return None
            tried.append(role := another)
        return int(ended_ps)

    def _until_recovered(self, role: Role, strike: Strike, at_ps: int = 0) -> Generator[Any, Any, int | None]:
        """A role recovers, and starts its code; returns the instant, None if it failed again meanwhile."""
        end = role.node.process(role.node.name).start(_recovered(role, at_ps))
        yield end
        if self.pending.get(role.node.name) is not strike:
            return None
        del self.pending[role.node.name]
        return self.clock.now_ps

    def _let_compare(self, returned: Iterable[Node], compared: Compared) -> None:
        """Cores of any machine, that of the fresh client too, may compare what came back with a checksum."""
        for node in returned:
            before = node.former[-len(node.devices) :]
            self._compared |= {
                new.number: (old.number, compared) for old, new in zip(before, node.devices, strict=True)
            }
        for nodes in self.experiment.system.nodes.values():
            for node in nodes:
                for core in node.cores:
                    core.deciding = self._compare

    def _compare(self, memory: AddressSpace, address: int, length: int, checksum: int) -> bool | None:
        device, offset = memory.locate(address)
        if device.number not in self._compared:
            return None
        device.space.catch_up(self.clock.now_ps)  # what was stored by now touches its lines
        if device.space.is_touched(offset, length):
            return None
        before, compared = self._compared[device.number]
        return compared(before, offset, length, checksum)

    def _node(self, part: Failing) -> Node:
        return _node(self.experiment, self.scenario, part)

    def _clients(self, part: Failing) -> list[tuple[int, Process]]:
        """The client processes that end: one, or all of a machine."""
        every = range(self.experiment.processes)
        numbers = [part.index] if part.kind == PROCESS else [n for n in every if self._machine(n) == part.index]
        return [(number, self.experiment.process_of(self._machine(number), number)) for number in numbers]

    def _machine(self, process: int) -> int:
        return process // self.scenario.role("client").processes

    # behind it --------------------------------------------------------------------------------------------------
    def _read(self) -> dict[Hashable, Unread]:
        """A fresh client reads every object; another goes on where one waits for ever. What could not be read."""
        experiment, unread = self.experiment, dict[Hashable, Unread]()
        clients, number = self.scenario.role("client"), experiment.processes
        hosted = experiment.at_work.role_types["client"].hosts
        machine, core = (0, clients.processes) if hosted else (clients.machines, 0)
        left = _probes(experiment, number)
        look = self._look(len(left))
        first_after = any(part.client for part in experiment.at_work.failures)
        while left:
            begun = len(experiment.history.operations)
            reading = experiment.start_client(machine, core, number, left, takes_over=first_after)
            whole = self.wait.run_until(reading, look)
            made = [o for o in experiment.history.operations[begun:] if o.process == number]
            unread |= {read.object: _UNREAD[read.outcome] for read in made if read.outcome != "ok"}
            if whole:
                break
            experiment.process_of(machine, number).end()
            tried = len(list(groupby(made, key=lambda read: (read.f, read.object, read.argument))))
            number, first_after = number + 1, False
            left = [replace(read, process=number) for read in left[max(1, tried) :]]
        return unread

    def _look(self, probes: int) -> Callable[[], None] | None:
        """Tells how much has been read."""
        progress, history = self.progress, self.experiment.history
        begun = history.returned
        return None if progress is None else lambda: progress((history.returned - begun) / probes)


def _probes(experiment: AssembledVariant, process: int) -> list[Planned]:
    """The reads by which a fresh client finds out what became of all objects: of transactions a single one."""
    scheme = experiment.at_work
    names = list(scheme.sizes.objects)
    if scheme.model in TRANSACTIONAL:
        steps = tuple((step.f, step.object) for step in scheme.probe(tuple(names)).steps)
        return [Planned(process, "txn", "", False, argument=steps)]
    probes = [scheme.probe(name).step for name in names]
    return [
        Planned(process, step.f, str(step.object), False, argument=step.number, until_empty=step.f in TAKES_OUT)
        for step in probes
    ]


_UNREAD = {
    "fail": Unread("the read fails"),
    "info": Unread("nobody can say"),
    None: Unread("the read waits for ever"),
}


def _node(of: AssembledVariant | RunResult, scenario: Scenario, part: Failing) -> Node:
    """The machine of a part: of client processes, which are counted through all machines, theirs."""
    one_of_many = part.client and part.kind == PROCESS
    index = part.index // scenario.role("client").processes if one_of_many else part.index
    return of.system.nodes[part.role][index]


def _as_at_first(role: Role) -> None:
    """The machine of a role has been switched on: nothing of what its instance knew is left."""
    scheme, node, number = role.scheme, role.node, role.number
    vars(role).clear()
    with node.keeping():
        type(role).__init__(role, scheme, node, number)
        role.begin()


def _recovered(role: Role, at_ps: int = 0) -> Generator[Any, Any, None]:
    """A role's code begins at an instant: its recovery, then what runs by itself."""
    yield role.system.clock.until(at_ps)
    yield from role.recover(role.node.thread(0, "recovery"))
    role.start()


def _end_of(recovery: Any) -> Generator[Any, Any, int | None]:
    """Wait for a recovery's end; returns the instant, None if the machine has failed again, or if an error ended it."""
    try:
        ended_ps: int | None = yield recovery
        return ended_ps
    except CompletedWithError:
        return None


def _helping(role: Role) -> Generator[Any, Any, int]:
    """The part of a role that stands in the recovery of another, beside the code that it runs."""
    yield from role.recover(role.node.thread(0, "recovery"))
    return role.system.clock.now_ps
