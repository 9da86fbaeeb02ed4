"""The crash explorer once more without any cleverness, for small runs: a check of the explorer on itself.

Every instant at which anything happened, and the picosecond before it; every image of all lines together; recovery and
a read of every object on each of them; judged from scratch. There is no tree here, nothing is judged incrementally, and
nobody has an opinion about which instants or lines matter. It shares with the explorer what a line may hold (``Views``)
and what recovery makes of it (``Restart``), both of which have tests of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...models.durability.views import Cut, LineKey, Views
from ...protocols.guarantees import Condition, Verdict
from ...scenarios.history import History, Operation, Value
from ...scenarios.run.results import RunResult
from ...sim.trace import NEVER, Trace
from ..histories.recorded import JudgedHistory
from ..oracle import check
from .explorer import Explorer
from .nested import Recoveries
from .restart import Restart, lines_of
from .subjects import Subject, by_object, concerned, events, follow, follower, subjects

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
        self._recoveries = {whole: Recoveries(result, whole=whole) for whole in (self._whole, True)}
        self._at_most = at_most
        self._values: dict[Hashable, frozenset[Value]] = {}
        self.count = 0

    def violations(self, conditions: Iterable[Condition]) -> dict[Condition, int]:
        """The conditions that are violated, and the earliest instants that show it.

        Of ``no_lost_ack``, as the explorer has it, the earliest after an update of the object had returned, if any.
        """
        result, lines = self._result, sorted(self._views.pieces)
        found: dict[Condition, set[tuple[bool, int]]] = {}
        wanted = tuple(conditions)
        judged = subjects(result, wanted)
        for at_ps in self.instants(wanted):
            values: dict[Hashable, set[Value]] = {subject.key: set() for subject in judged}
            for image in self.images(self._views, lines, at_ps):
                for subject in judged:
                    values[subject.key] |= self._read(subject, image, result.fault.again)
            for subject in judged:
                own = by_object([subject])
                seen = [o for o in result.history.operations if o.invoke_ps <= at_ps and concerned(own, o)]
                until = _cut_off(result.history, seen, at_ps)
                updated = any(o.f in until.updates and o.outcome == "ok" for o in until.operations)
                for value in values[subject.key]:
                    for condition in self._judge(subject, until, at_ps, value):
                        late = condition is Condition.NO_LOST_ACK and not updated
                        found.setdefault(condition, set()).add((late, at_ps))
        return {condition: min(states)[1] for condition, states in sorted(found.items())}

    def _judge(self, subject: Subject, until: History, at_ps: int, value: Value) -> Collection[Condition]:
        """The conditions that a value violates which is found after a failure at an instant."""
        if not subject.from_scratch:
            loaded = [name for name in subject.targets if name in self._result.initial]
            findings = check(until, at_ps, {subject.object: value}, subject.conditions, loaded=loaded)
            return [c for c, finding in findings.items() if finding.verdict is Verdict.VIOLATED]
        one = follower(subject, self._result)
        for event_ps, kind, operation in until.events():
            follow(one, kind, operation, event_ps)
        if isinstance(one, JudgedHistory):
            one.passed(at_ps)
        return one.judge(value)

    def instants(self, conditions: Collection[Condition] = ()) -> list[int]:
        """Whenever anything happened, the picosecond before it, and the beginning."""
        found = _happenings(self._result.system.trace)
        for at_ps, _, _ in events(self._result, conditions):
            found.add(at_ps)
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

    def _read(self, subject: Subject, image: Image, again: int) -> frozenset[Value]:
        """All that may be read of a subject where memory holds ``image``, power failing up to ``again`` times more."""
        key, name = (subject.key, again, frozenset(image.items())), subject.object
        if key not in self._values:  # the same whole image gives the same: the one short cut
            source = lines_of(image.items(), self._restart.initial)
            whole = self._whole or subject.together
            several = subject.together and len(subject.targets) > 1
            read_all, read = self._restart.read_all, self._restart.read
            values = {read_all(subject.targets, source) if several else read(name, source, whole=whole)}
            if again:
                number = self._recoveries[whole].read(name, source)
                assert isinstance(number, int)
                recovery = self._recoveries[whole].made[number]
                theirs = {own: of_run for of_run, own in recovery.numbers.items()}
                views = recovery.views.over(lambda key: source((theirs[key[0]], key[1])))
                written = sorted(views.pieces)
                for at_ps in sorted(_happenings(recovery.trace)):
                    for left in self.images(views, written, at_ps):
                        then = {(theirs[device], line): data for (device, line), data in left.items()}
                        values |= self._read(subject, {**image, **then}, again - 1)
            self._values[key] = frozenset(values)
        return self._values[key]


def _happenings(trace: Trace) -> set[int]:
    found: set[int] = set()
    for chunk in trace.chunks:
        found |= {*chunk.reached_ps, *chunk.forced_ps, *chunk.flushed_ps.values()} - {NEVER}
    return found


def _cut_off(history: History, seen: Sequence[Operation], at_ps: int) -> History:
    """What clients had seen of these operations by then."""
    over = [o if o.return_ps is not None and o.return_ps <= at_ps else _pending(o) for o in seen]
    return replace(history, operations=over)


def _pending(operation: Operation) -> Operation:
    return replace(operation, return_ps=None, result=None, outcome=None)
