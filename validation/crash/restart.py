"""What comes back after a power failure: recovery and a fresh client's read, run in the simulator on surviving bytes.

Each restart is a new system of the same machines (one client process suffices) whose persistent memory shows the given
lines, and a new instance of the scheme: nothing volatile is carried over. After some restarts it is the one that was
built for one of them, taken back to how it was then (``validation.crash.rewind``), which is as good and costs less.
Where an object needs no recovery, that is how it was when its servers had started and the client had connected:
whatever memory held, they came that far without looking at it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from ...models.cpu import Thread
from ...models.durability.places import Domain
from ...models.durability.views import LineKey, Views
from ...models.memory.devices import AddressSpace
from ...models.system import ORDER_OF_READS, NodeSpec, System
from ...models.verbs import CompletedWithError
from ...protocols.failures import CLIENT
from ...protocols.scheme import OperationFailed, OutcomeUnknown, Role, Scheme
from ...scenarios.calls import probing
from ...scenarios.history import Unread, Value
from ...scenarios.run.experiment import client_thread
from ...scenarios.run.results import RunResult
from ...scenarios.schema.perturbed import punctual_platform
from ...sim.bytespace import ByteSpace
from ...sim.streams import Streams
from .checksums import Guarded
from .rewind import CannotRewind, Rewind
from .standing import StandingViews
from .timeless import TimelessThread
from .work import WaitsForEver, Work

Source = Callable[[LineKey], bytes]
"""What a line of the run's devices holds after the failure."""

BUILT_ANEW = 10
"""So many restarts have machines of their own; it takes as long as ten to note how one is, which pays from then on."""

Decide = Callable[[Guarded], bool | None]
"""Whether a range has its checksum; None: the bytes have to say."""


@dataclass
class _Machines:
    """Machines that have been switched on, and an instance of the scheme."""

    system: System
    scheme: Scheme
    spaces: list[tuple[ByteSpace, int]]
    """The byte spaces of the devices that the failure left something in, by the run's numbers."""
    session: Any = None
    """That of the client, if it has connected."""
    turn: int | None = None
    """Of the code of recovery and the read, among what the servers' start has scheduled."""
    rewind: Rewind | None = None
    """What takes them back to how they are handed out."""


class Restart:
    """Restarts of one run's system, the machines that the scenario's fault names having lost their power.

    Recovery and the read take no time, but for what they need others for; ``timed`` has them take what they take.
    """

    def __init__(self, result: RunResult, *, timed: bool = False) -> None:
        self._result = result
        self._kind = Thread if timed else TimelessThread
        system, client = result.system, result.scheme.role_types[CLIENT]
        self._specs = {
            role: [NodeSpec(len(node.cores), tuple(node.memory.devices)) for node in nodes]
            for role, nodes in system.nodes.items()
            if role != CLIENT
        } | {CLIENT: [NodeSpec(client.cores_for(1), tuple(system.nodes[CLIENT][0].memory.devices))]}
        self._numbers = {
            (node.name, device.name): number for number, (node, device) in system.devices().items() if device.traced
        }
        devices = system.devices()
        self.domains: dict[int, Domain] = {number: devices[number][1].domain for number in self._numbers.values()}
        fault = result.fault
        self._failures = fault.failures({role: len(nodes) for role, nodes in system.nodes.items()})
        names = [part.place for part in self._failures]
        self._standing = {number for (name, _), number in self._numbers.items() if name not in names}
        """The devices of machines that do not lose power."""
        self._initial: dict[LineKey, bytes] = {}
        """Lines at time zero, as far as anybody asked."""
        self._dead_clients = any(part.client for part in self._failures)
        self.opaque = self._is_opaque()
        """Whether recovery runs as one whole."""
        self.runs = 0
        self._builds = 0
        self._off: _Machines | None = None
        """Machines on which nothing has run yet, if they can be taken back to that."""
        self._up: _Machines | None = None
        """The same with servers that have started and a client that has connected."""
        self._needs: dict[Hashable, bool] | None = {}
        """Whether an object needs recovery; None: all have to do without ``_up``."""

    def _is_opaque(self) -> bool:
        """Whether a machine recovers in its own way, or a client looks after what dead ones have left."""
        scheme = self._result.scheme
        before, scheme.failures = scheme.failures, self._failures
        recovering = [role.opaque() for role in scheme.recovery()]
        scheme.failures = before
        return any(recovering) or (self._dead_clients and scheme.role_types[CLIENT].takes_over())

    def initial(self, key: LineKey) -> bytes:
        """What a line held at time zero."""
        content = self._initial.get(key)
        if content is None:
            device, line = key
            content = self._initial[key] = self._result.loaded[device].line(line)
        return content

    def views(self) -> Views:
        """Both views over the run's trace."""
        return self._views(self._result.system, self.initial, {number: number for number in self.domains})

    def _views(self, system: System, initial: Callable[[LineKey], bytes], numbers: Mapping[int, int]) -> Views:
        """Both views over a trace of these machines; ``numbers`` are their devices', by the run's."""
        return StandingViews(
            system.trace,
            {own: self.domains[number] for number, own in numbers.items()},
            initial,
            {own for number, own in numbers.items() if number in self._standing},
            whole_lines=system.platform.line_atomicity == "whole",
            iio_wc_survives=system.platform.iio_wc_survives,
        )

    def read(self, object: Hashable, source: Source, *, whole: bool = False, decide: Decide | None = None) -> Value:
        """What a fresh client reads of ``object`` after recovery of the units that it depends on (or as a ``whole``).

        ``decide`` is asked whether a range has a checksum before the range's lines are asked for.
        """
        return self._read((object,), source, whole or self.opaque, decide)[0]

    def read_all(self, objects: Sequence[Hashable], source: Source, decide: Decide | None = None) -> tuple[Value, ...]:
        """What a fresh client reads of each object, one after the other, after recovery as a whole."""
        found = self._read(objects, source, True, decide)
        while len(found) < len(objects):  # a read never returned, and what would have come next is not known
            found += self._read(objects[len(found) :], source, True, decide)
        return tuple(found)

    def _read(self, objects: Sequence[Hashable], source: Source, whole: bool, decide: Decide | None) -> list[Value]:
        self.runs += 1
        machines = (None if whole else self._connected(objects[0])) or self._fresh()
        system, scheme = machines.system, machines.scheme
        for space, number in machines.spaces:
            space.restore(lambda line, number=number: source((number, line)))  # type: ignore[misc]
        if decide is not None:
            self._let_decide(system, decide)
        answers: list[Value] = []

        work = Work(system, len(scheme.sizes.objects))

        def code() -> Any:
            session, client = machines.session, scheme.roles[CLIENT][0]
            if session is None:
                scheme.start((yield from self._recover(scheme, None if whole else objects[0])))
                session = self._session(machines)
                if self._dead_clients:
                    yield from client.take_over(session)
            for one in objects:
                work.begins()
                session = session or self._session(machines)
                try:
                    answers.append((yield from probing(scheme, client, session, one)))
                except (CompletedWithError, OutcomeUnknown) as error:
                    answers.append(Unread(f"the read fails: {error}"))
                    session = None  # its queue pair is in the error state

        turn = machines.turn
        done = system.clock.start(code()) if turn is None else system.clock.start_in(turn, code())
        try:
            work.run_through(done)
        except (CompletedWithError, OperationFailed, OutcomeUnknown) as error:
            answers.append(Unread(f"the read fails: {error}"))
        except WaitsForEver as error:
            answers.append(Unread(f"it waits for ever: {error}"))
        except RuntimeError as error:  # SimPy: nothing is left to happen, and the read has not returned
            if done.triggered:
                raise
            answers.append(Unread(f"the read never returns: {error}"))
        finally:
            self._take_back(machines)
        return answers

    def _recover(self, scheme: Scheme, object: Hashable | None, kind: type[Thread] | None = None) -> Any:
        """The recovery of each machine that the scheme names, of the units of an ``object`` or (None) as a whole.

        Returns the instances whose code has started: all but the last.
        """
        started: list[Role] = []
        before = None
        for role in scheme.recovery():
            if before is not None:
                before.start()
                started.append(before)
            thread = role.node.thread(0, "recovery", kind or self._kind)
            if object is None:
                yield from role.recover(thread)
            else:
                for unit in units_of(role, object):
                    yield from role.recover_unit(thread, unit)
            before = role
        return started

    def _let_decide(self, system: System, decide: Decide) -> None:
        names, numbers = system.devices(), self._numbers

        def deciding(memory: AddressSpace, address: int, length: int, expected: int) -> bool | None:
            device, offset = memory.locate(address)
            number = numbers.get((names[device.number][0].name, device.name))
            device.space.catch_up(system.clock.now_ps)  # what was stored by now touches its lines
            if number is None or device.space.is_touched(offset, length):
                return None
            return decide(Guarded(number, offset, length, expected))

        for machines in system.nodes.values():
            for node in machines:
                for core in node.cores:
                    core.deciding = deciding

    def _session(self, machines: _Machines) -> Any:
        return machines.scheme.roles[CLIENT][0].connect(client_thread(machines.system, 1, 0, self._kind))

    def _fresh(self) -> _Machines:
        """Machines that have just been switched on, and an instance of the scheme that has done nothing yet."""
        if self._off is not None:
            return self._off
        built = self._build()
        self._builds += 1
        if self._builds == BUILT_ANEW + 1:
            with suppress(CannotRewind):  # then a new one is built each time
                built.rewind = Rewind(built.system, built.scheme)
                self._off = built
        return built

    def _connected(self, object: Hashable) -> _Machines | None:
        """Machines whose servers have started, a client having connected; None if ``object`` needs recovery before."""
        if self._builds < BUILT_ANEW or self._needs is None or self._needs.get(object):
            return None
        if self._up is None:
            try:
                self._up = self._brought_up()
            except (CannotRewind, CompletedWithError, OperationFailed, RuntimeError):
                self._needs = None
                return None
        if object not in self._needs:
            recovering = self._up.scheme.recovery()
            self._needs[object] = any(True for role in recovering for _ in units_of(role, object))
        return None if self._needs[object] else self._up

    def _take_back(self, machines: _Machines) -> None:
        """Have them as they were, for the next time; what they were given to read is let go of."""
        for nodes in machines.system.nodes.values():
            for node in nodes:
                node.abandon()
        if machines.rewind is None:
            _let_go(machines)
            return
        try:
            machines.rewind()
        except CannotRewind:  # a server's code has begun to run, as one does that is asked for something
            if machines is self._up:
                self._up = self._needs = None
            else:
                self._off = None

    def _brought_up(self) -> _Machines:
        """Raises CannotRewind, also if anything that survives a failure is looked at or changed on the way."""
        built = self._build()
        for space, _ in built.spaces:
            space.restore(_untouched)
        built.turn = built.system.clock.turn()
        for role in built.scheme.recovery():
            role.node.thread(0, "recovery", self._kind)
        built.scheme.start()
        built.session = self._session(built)
        built.rewind = Rewind(built.system, built.scheme, built.session)
        return built

    def _build(self) -> _Machines:
        system = System(punctual_platform(self._result.system.platform), self._specs, self._result.seed)
        spaces = []
        for machines in system.nodes.values():
            for node in machines:
                orders = FirstOrders(system.streams.seed, ORDER_OF_READS + node.name)
                node.nic.slot.dma.orders.arbiter = orders.itself
        for node, device in system.devices().values():
            device.traced = device.kind in system.platform.drives  # nobody crashes this one again
            number = self._numbers.get((node.name, device.name))
            if number is not None:
                spaces.append((device.space, number))
        return _Machines(system, self._scheme(system), spaces)

    def _scheme(self, system: System) -> Scheme:
        """An instance of the scheme on machines that have come back."""
        scheme = type(self._result.scheme)(system, self._result.scheme.sizes)
        scheme.failures = self._failures
        return scheme


def units_of(role: Role, object: Hashable) -> Iterable[Hashable]:
    """The recovery units that a read of an object, or of a tuple of them, depends on."""
    if not isinstance(object, tuple):
        return role.units_of(object)
    return dict.fromkeys(unit for one in object for unit in role.units_of(one))


def _let_go(machines: _Machines) -> None:
    """Have nothing reach from machines of one use to who used them: they wait for the collector, and that is large."""
    for space, _ in machines.spaces:
        space.restore(_untouched)
    for nodes in machines.system.nodes.values():
        for node in nodes:
            for core in node.cores:
                core.deciding = None


def _untouched(line: int) -> NoReturn:
    """In the place of a device's lines where nobody may look at them."""
    raise CannotRewind(f"line {line}: looked at before a client asked for anything")


class FirstOrders:
    """The draws of an adapter whose power has just come back: always the same, so each is made once."""

    def __init__(self, seed: int, stream: str) -> None:
        self._stream = seed, stream
        self._at = _beginning(seed, stream)

    def itself(self) -> Any:
        """In the place of the stream."""
        return self

    def permutation(self, count: int) -> tuple[int, ...]:
        """The stream's next order of so many."""
        order, self._at = _order(self._stream, self._at, count)
        return order


_At = tuple[int, int, int]
"""How far a stream has been drawn: the state of PCG64, and half a draw that is left over, if there is one."""


def _beginning(seed: int, stream: str) -> _At:
    return _at(Streams(seed).stream(stream).bit_generator.state)


def _at(state: Mapping[str, Any]) -> _At:
    return state["state"]["state"], state["has_uint32"], state["uinteger"]


@functools.lru_cache(maxsize=1 << 16)
def _order(stream: tuple[int, str], at: _At, count: int) -> tuple[tuple[int, ...], _At]:
    """The order that a stream draws which was drawn so far, and how far it is drawn then."""
    random = Streams(stream[0]).stream(stream[1])
    bits: Any = random.bit_generator
    state = bits.state
    bits.state = state | {
        "state": state["state"] | {"state": at[0]}, "has_uint32": at[1], "uinteger": at[2],
    }  # fmt: skip
    order = tuple(map(int, random.permutation(count)))
    return order, _at(bits.state)


def lines_of(image: Iterable[tuple[LineKey, bytes]], otherwise: Source) -> Source:
    """A source that shows the lines of ``image``, and ``otherwise`` for all others."""
    known = dict(image)
    return lambda key: known[key] if key in known else otherwise(key)
