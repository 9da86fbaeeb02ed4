"""The crash explorer once more without any cleverness, for small runs: a check of the explorer on itself.

Every instant at which anything happened, and the picosecond before it; every image of all lines together; recovery and
a read of every object on each of them; judged from scratch. There is no tree here, nothing is judged incrementally, and
nobody has an opinion about which instants or lines matter. It shares with the explorer what a line may hold (``Views``)
and what recovery makes of it (``Restart``), both of which have tests of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ...models.durability.views import Cut, LineKey, Views
from ...protocols.guarantees import Condition, Verdict
from ...scenarios.history import History, Operation, Value
from ...scenarios.run.results import RunResult
from ...sim.trace import NEVER, Trace
from ..oracle import check
from .explorer import Explorer
from .nested import Recoveries
from .restart import Restart, lines_of

Image = Mapping[LineKey, bytes]

IMAGES_AT_MOST = 1_000_000
"""After so many images brute force gives up."""


class TooMuch(Exception):
    """Brute force has given up; the message says over what."""


@dataclass(frozen=True)
class Comparison:
    """What both found: by condition the earliest instant at which a crash violates it, in picoseconds."""

    pruned: Mapping[Condition, int]
    brute: Mapping[Condition, int]
    states: int
    """Crash states that the explorer judged."""
    images: int
    """Whole images that brute force recovered and judged."""

    @property
    def agree(self) -> bool:
        """Whether they found the same."""
        return self.pruned == self.brute


def compare(result: RunResult, conditions: Iterable[Condition], at_most: int = IMAGES_AT_MOST) -> Comparison:
    """Explore a run both ways. Raises TooMuch where brute force is at its end, or the explorer was not exhaustive."""
    wanted = tuple(conditions)
    walked = Explorer(result, conditions=wanted).walk()
    if not walked.exhaustive:
        raise TooMuch(f"the explorer looked at {walked.over}")
    brute = BruteForce(result, at_most)
    found = brute.violations(wanted)
    pruned = {condition: violation.instant_ps for condition, violation in sorted(walked.first.items())}
    return Comparison(pruned, found, walked.states, brute.count)


class BruteForce:
    """All crash states of one run, one by one; at most so many images."""

    def __init__(self, result: RunResult, at_most: int = IMAGES_AT_MOST) -> None:
        self._result = result
        self._restart = Restart(result)
        self._views = self._restart.views()
        self._whole = self._restart.opaque
        self._recoveries = Recoveries(result, whole=self._whole)
        self._at_most = at_most
        self._values: dict[Hashable, frozenset[Value]] = {}
        self.count = 0

    def violations(self, conditions: Iterable[Condition]) -> dict[Condition, int]:
        """The conditions that are violated, and the earliest instants that show it.

        Of ``no_lost_ack``, as the explorer has it, the earliest after an update of the object had returned, if any.
        """
        wanted = tuple(conditions)
        history, lines = self._result.history, sorted(self._views.pieces)
        found: dict[Condition, set[tuple[bool, int]]] = {}
        for at_ps in self.instants():
            seen = {name: _cut_off(history, name, at_ps) for name in self._result.initial}
            values: dict[Hashable, set[Value]] = {name: set() for name in seen}
            for image in self.images(self._views, lines, at_ps):
                for name in seen:
                    values[name] |= self._read(name, image, self._result.fault.again)
            for name, value in ((name, value) for name, own in values.items() for value in own):
                operations = seen[name].operations
                updated = any(o.f in history.updates and o.outcome == "ok" for o in operations)
                for condition, finding in check(seen[name], at_ps, {name: value}, wanted).items():
                    if finding.verdict is Verdict.VIOLATED:
                        late = condition is Condition.NO_LOST_ACK and not updated
                        found.setdefault(condition, set()).add((late, at_ps))
        return {condition: min(states)[1] for condition, states in sorted(found.items())}

    def instants(self) -> list[int]:
        """Whenever anything happened, the picosecond before it, and the beginning."""
        found = _happenings(self._result.system.trace)
        for operation in self._result.history.operations:
            found |= {operation.invoke_ps, operation.return_ps or 0}
        return sorted({0} | found | {at_ps - 1 for at_ps in found if at_ps})

    def images(self, views: Views, lines: list[LineKey], at_ps: int, cut: Cut | None = None) -> Iterator[Image]:
        """Everything that all these lines may hold together."""
        if not lines:
            self.count += 1
            if self.count > self._at_most:
                raise TooMuch(f"more than {self._at_most:,} images")
            yield {}
            return
        for content in views.contents(lines[0], at_ps, cut or {}):
            for others in self.images(views, lines[1:], at_ps, content.cut):
                yield {lines[0]: content.data, **others}

    def _read(self, name: Hashable, image: Image, again: int) -> frozenset[Value]:
        """All that may be read of an object where memory holds ``image``, power failing up to ``again`` times more."""
        key = name, again, frozenset(image.items())
        if key not in self._values:  # the same whole image gives the same: the one short cut
            source = lines_of(image.items(), self._restart.initial)
            values = {self._restart.read(name, source, whole=self._whole)}
            if again:
                number = self._recoveries.read(name, source)
                assert isinstance(number, int)
                recovery = self._recoveries.made[number]
                theirs = {own: of_run for of_run, own in recovery.numbers.items()}
                views = recovery.views.over(lambda key: source((theirs[key[0]], key[1])))
                written = sorted(views.pieces)
                for at_ps in sorted(_happenings(recovery.trace)):
                    for left in self.images(views, written, at_ps):
                        then = {(theirs[device], line): data for (device, line), data in left.items()}
                        values |= self._read(name, {**image, **then}, again - 1)
            self._values[key] = frozenset(values)
        return self._values[key]


def _happenings(trace: Trace) -> set[int]:
    found: set[int] = set()
    for chunk in trace.chunks:
        found |= {*chunk.reached_ps, *chunk.forced_ps, *chunk.flushed_ps.values()} - {NEVER}
    return found


def _cut_off(history: History, name: Hashable, at_ps: int) -> History:
    """What clients had seen of an object by then."""
    seen = [o for o in history.operations if o.invoke_ps <= at_ps and o.object == name]
    over = [o if o.return_ps is not None and o.return_ps <= at_ps else _pending(o) for o in seen]
    return replace(history, operations=over)


def _pending(operation: Operation) -> Operation:
    return replace(operation, return_ps=None, result=None, outcome=None)
