"""What comes back after a power failure: recovery and a fresh client's read, run in the simulator on surviving bytes.

Each restart is a new system of the same machines (one client process suffices) whose persistent memory shows the given
lines, and a new instance of the scheme: nothing volatile is carried over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ..models.places import Domain
from ..models.system import NodeSpec, System
from ..models.views import LineKey, Views
from ..protocols.rpc import VerbsError
from ..protocols.scheme import OperationFailed
from ..scenarios.experiment import client_thread
from ..scenarios.history import Torn, Value
from ..scenarios.results import RunResult
from ..scenarios.values import decode_value
from ..sim.bytespace import LINE_BYTES, PAGE_BYTES

Source = Callable[[LineKey], bytes]
"""What a line of the run's devices holds after the failure."""

LINES_PER_PAGE = PAGE_BYTES // LINE_BYTES


class Restart:
    """Restarts of one run's system, its machines with persistent memory having lost their power."""

    def __init__(self, result: RunResult) -> None:
        self._result = result
        system = result.system
        self._specs = {
            role: [NodeSpec(len(node.cores), tuple(node.memory.devices)) for node in nodes]
            for role, nodes in system.nodes.items()
            if role != "client"
        } | {"client": [NodeSpec()]}
        self._numbers = {
            (node.name, device.name): number for number, (node, device) in system.devices().items() if device.traced
        }
        devices = system.devices()
        self.domains: dict[int, Domain] = {number: devices[number][1].domain for number in self._numbers.values()}
        self.runs = 0

    def initial(self, key: LineKey) -> bytes:
        """What a line held at time zero."""
        device, line = key
        page = self._result.loaded[device].get(line // LINES_PER_PAGE)
        if page is None:
            return bytes(LINE_BYTES)
        start = line % LINES_PER_PAGE * LINE_BYTES
        return page[start : start + LINE_BYTES]

    def views(self) -> Views:
        """Both views over the run's trace."""
        platform = self._result.system.platform
        return Views(
            self._result.system.trace,
            self.domains,
            self.initial,
            whole_lines=platform.line_atomicity == "whole",
            iio_wc_survives=platform.iio_wc_survives,
        )

    def read(self, object: Hashable, source: Source, *, whole: bool = False) -> Value:
        """What a fresh client reads of ``object`` after recovery of the units that it depends on (or of all)."""
        self.runs += 1
        result = self._result
        system = System(result.system.platform, self._specs, result.seed)
        scheme = type(result.scheme)(system, result.scheme.sizes)
        for node, device in system.devices().values():
            number = self._numbers.get((node.name, device.name))
            if number is not None:
                device.space.restore(lambda line, number=number: source((number, line)))  # type: ignore[misc]
        answer: list[bytes | None] = []

        def code() -> Any:
            thread = system.nodes[scheme.recovery_role][0].thread(0, "recovery")
            if whole:
                yield from scheme.recover(thread)
            else:
                for unit in scheme.units_of(object):
                    yield from scheme.recover_unit(thread, unit)
            scheme.start()
            session = scheme.connect(client_thread(system, 1, 0))
            answer.append((yield from scheme.perform(session, scheme.probe(object))))

        done = system.clock.start(code())
        try:
            system.clock.run_until(done)
        except (VerbsError, OperationFailed) as error:
            return Torn(f"the read fails: {error}")
        except RuntimeError as error:  # SimPy: nothing is left to happen, and the read has not returned
            if done.triggered:
                raise
            return Torn(f"the read never returns: {error}")
        found = answer[0]
        return None if found is None else decode_value(found, result.scheme.sizes.value_bytes)


def lines_of(image: Iterable[tuple[LineKey, bytes]], otherwise: Source) -> Source:
    """A source that shows the lines of ``image``, and ``otherwise`` for all others."""
    known = dict(image)
    return lambda key: known[key] if key in known else otherwise(key)
