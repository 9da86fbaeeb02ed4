"""One system that lives on through crashes: operations, a power failure with a chosen image, recovery, and so on.

Where an exploration looks at all that one failure may leave, a world goes one way, but for any number of failures:
every era starts from the image that the failure before it left, and the next failure can take recovery's writes. All
eras together are one history, which the oracle judges in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable
from itertools import islice
from typing import Any

from ...models.durability.views import Cut, LineKey, Views
from ...models.profiles.platform import load_platform
from ...models.system import NodeSpec, System
from ...protocols.failures import CLIENT
from ...protocols.objects import REGISTERS, TAKES_OUT, TRANSACTIONAL, VALUED
from ...protocols.scheme import OperationFailed, OutcomeUnknown, Request, Role, Scheme, Sizes
from ...scenarios.calls import argument_of, given_by, probe_of, result_of, step_of
from ...scenarios.history import Crash, History, Operation
from ...scenarios.keyspace import KeySpace, Same
from ...scenarios.schema.faults import Fault
from ...scenarios.values import encode_value
from ...sim.errors import InputError, Mistake
from ...sim.yaml_source import describe
from ..histories.check import Report, check_history
from ..histories.read import parse_history
from .checks import needs_class

Pick = Callable[[int], int]
"""Chooses one of n: gets n, returns a number below it."""

MOST_CONTENTS = 32
"""A line's content after a failure is chosen from at most this many, those in which little moved first."""


class World:
    """``clients`` client processes of ``scheme`` on one machine, its servers, and their history.

    ``settings`` are switches of the platform. Objects are ``k0``, ``k1``, ..., loaded before the first era. Raises
    InputError for what is no scheme's class, no platform, no switch, or no number that can be.
    """

    def __init__(
        self,
        scheme: type[Scheme],
        platform: str = "optane-adr",
        *,
        keys: int = 2,
        clients: int = 2,
        value_bytes: int = 64,
        updates: int = 256,
        seed: int = 1,
        **settings: str,
    ) -> None:
        needs_class(scheme)
        numbers = (("keys", keys, 1), ("clients", clients, 1), ("value_bytes", value_bytes, 8), ("updates", updates, 1))
        wrong = [
            Mistake(describe(value), f"a whole number, at least {least}", field=name)
            for name, value, least in (*numbers, ("seed", seed, 0))
            if isinstance(value, bool) or not isinstance(value, int) or value < least
        ]
        if wrong:
            raise InputError(wrong)
        self.scheme = scheme
        self.clients = clients
        self.history = History(scheme.updates, model=scheme.model)
        self.eras = 0
        self.names = KeySpace(keys)
        self._platform = load_platform(platform, **settings)
        self._sizes = Sizes(value_bytes, self.names, updates, clients)
        self._loaded = Same(self.names, encode_value(0, value_bytes) if scheme.model in VALUED else b"")
        self._seed = seed
        self._base_ps = 0
        """When this era began, counted from the beginning of the first."""
        self._build()
        self._at_work.load(self._loaded)
        devices = self._system.devices()
        snapshots = {number: device.space.snapshot() for number, (_, device) in devices.items() if device.traced}
        self._initial: Callable[[LineKey], bytes] = lambda key: snapshots[key[0]].line(key[1])
        self._serve()

    @property
    def now_ps(self) -> int:
        """The present instant, counted from the beginning of the first era."""
        return self._base_ps + self._system.clock.now_ps

    def idle(self) -> list[int]:
        """The client processes of this era that have nothing under way, by number."""
        return [number for number, process in enumerate(self._running) if process is None or not process.is_alive]

    def invoke(self, client: int, f: str, name: Hashable, argument: Hashable = None) -> Operation:
        """Let an idle client begin an operation; time goes on with :meth:`run` and :meth:`finish` only.

        ``argument`` is what it takes beside a value of its own (see ``calls.argument_of``). Raises ValueError for a
        client that is busy.
        """
        if client not in self.idle():
            raise ValueError(f"client {client} has an operation under way")
        operation = self.history.invoke(self.eras * self.clients + client, f, name, None, self.now_ps)
        operation.argument = argument_of(self.scheme, f, argument, operation.number)
        self._running[client] = self._system.clock.start(self._perform(client, operation))
        return operation

    def run(self, duration_ps: int) -> None:
        """Let time go on for ``duration_ps``."""
        self._system.clock.run_until(self._system.clock.now_ps + duration_ps)

    def finish(self) -> None:
        """Let time go on until every operation that is under way has returned."""
        running = [process for process in self._running if process is not None]
        self._system.clock.run_until(self._system.clock.all_of(running))

    def crash(self, pick: Pick) -> None:
        """Power fails everywhere, now; ``pick`` chooses what each line holds after it. Then recovery, and a new era."""
        at_ps = self._system.clock.now_ps
        domains = {number: device.domain for number, (_, device) in self._system.devices().items() if device.traced}
        views = Views(
            self._system.trace,
            domains,
            self._initial,
            whole_lines=self._platform.line_atomicity == "whole",
            iio_wc_survives=self._platform.iio_wc_survives,
        )
        image: dict[LineKey, bytes] = {}
        cut: Cut = {}
        for key in sorted(views.pieces):
            options = list(islice(views.contents(key, at_ps, cut), MOST_CONTENTS))
            chosen = options[pick(len(options))] if len(options) > 1 else options[0]
            image[key], cut = chosen.data, chosen.cut
        before = self._initial
        self._initial = lambda key: image[key] if key in image else before(key)
        self.history.crashes.append(Crash("system", self.now_ps))
        self._base_ps = self.now_ps + 1
        self.eras += 1
        self._build()
        for number, (_, device) in self._system.devices().items():
            if device.traced:
                device.space.restore(lambda line, number=number: self._initial((number, line)))  # type: ignore[misc]
        self._recover()
        self._serve()

    def read_all(self) -> None:
        """Every operation returns; then one client reads every object."""
        self.finish()
        if self.scheme.model in TRANSACTIONAL:
            probe = probe_of(self._at_work, tuple(self.names))
            self.invoke(0, "txn", probe.object, given_by("txn", probe.argument)[0])
            self.finish()
            return
        for name in self.names:
            probe = probe_of(self._at_work, name)
            while True:
                found = self.invoke(0, probe.f, str(probe.object), given_by(probe.f, probe.argument)[0])
                self.finish()
                if probe.f not in TAKES_OUT or found.result is None:
                    break

    def judge(self, conditions: Iterable[str] = ()) -> Report:
        """The oracle's report on the whole history (default: on all conditions that apply)."""
        lines = "\n".join(self.history.lines(self.names))
        model = None if self.scheme.model in REGISTERS else self.scheme.model
        return check_history(parse_history(lines, "the history"), model, list(conditions))

    # an era ---------------------------------------------------------------------------------------------------
    def _build(self) -> None:
        specs = {
            name: [NodeSpec(role.cores_for(self.clients, self.clients), role.memory)]
            * (int(self.scheme.option(by)) if (by := role.counted_by or role.at_least_by) else 1)
            for name, role in self.scheme.role_types.items()
        }
        self._system = System(self._platform, specs, self._seed)
        self._at_work = self.scheme(self._system, self._sizes)
        if self.eras:
            machines = {role: len(nodes) for role, nodes in self._system.nodes.items()}
            self._at_work.failures = Fault(everyone=True).failures(machines)
        self._running: list[Any] = [None] * self.clients
        self._started: list[Role] = []

    def _serve(self) -> None:
        self._at_work.start(self._started)
        client = self._at_work.roles[CLIENT][0]
        era = self.eras * self.clients
        threads = [client.node.thread(core, f"client {era + core}") for core in range(self.clients)]
        self._sessions = [(thread, client.connect(thread)) for thread in threads]
        if self.eras and client.takes_over():
            clock, (_, session) = self._system.clock, self._sessions[0]
            clock.run_until(clock.start(client.take_over(session)))

    def _recover(self) -> None:
        before = None
        for role in self._at_work.recovery():
            if before is not None:
                before.start()
                self._started.append(before)
            thread = role.node.thread(0, "recovery")
            self._system.clock.run_until(self._system.clock.start(role.recover(thread)))
            before = role

    def _perform(self, client: int, operation: Operation) -> Generator[Any, Any, None]:
        _, session = self._sessions[client]
        value_bytes = self._sizes.value_bytes
        try:
            machine = self._at_work.roles[CLIENT][0]
            found = yield from machine.perform(session, Request(step_of(operation, value_bytes), operation.number))
        except OperationFailed:
            self.history.complete(operation, "fail", self.now_ps)
            return
        except OutcomeUnknown:
            self.history.complete(operation, "info", self.now_ps)
            return
        result = result_of(self.scheme, operation, found, value_bytes)
        self.history.complete(operation, "ok", self.now_ps, result)
