"""Power fails, recovery runs, and power fails again in the middle of it: at every instant of that recovery, and so on.

The recovery is run on each image that the failure before may have left, in machines whose writes are traced. From then
on it is the same question: what may memory hold now, and what do recovery and a read make of it? Lines that the
recovery wrote hold what its own trace allows; all others what the failure before left in them. And from each of these
images power may fail again, as often as one has the patience to ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from ...models.cpu import Thread
from ...models.durability.views import Content, Cut, LineKey, TornLine, Views
from ...models.system import System
from ...models.verbs import CompletedWithError
from ...protocols.failures import CLIENT
from ...protocols.scheme import OperationFailed, OutcomeUnknown
from ...scenarios.history import Value
from ...scenarios.run.experiment import client_thread
from ...scenarios.run.results import RunResult
from ...scenarios.schema.perturbed import punctual_platform
from ...sim.trace import Trace
from .checksums import Families, Guarded
from .outcomes import Contents, Outcome, Outcomes, RecoveryReader, Remains
from .restart import Decide, Restart, Source
from .work import WaitsForEver, Work

AGAIN = 32
"""In a cut that speaks of several traces, channels of the n-th recovery's are numbered from n << AGAIN."""

Failed = tuple[int, tuple[tuple[LineKey, Content], ...]]
"""When power failed again, after a recovery had begun; and what that left of the lines that this recovery had written,
as far as anybody looked at them."""


@dataclass(slots=True)
class OutcomeAgain(Outcome):
    """An outcome of several failures; ``image`` is what the first left."""

    again: tuple[Failed, ...] = ()
    """The others, in their order."""

    @override
    def reading(self, value: Value) -> OutcomeAgain:
        return OutcomeAgain(value, self.image, self.matched, self.again)


@dataclass(frozen=True)
class Recovery:
    """A recovery that was under way when power failed again: what it may have left of what it wrote."""

    number: int
    views: Views
    numbers: Mapping[int, int]
    """By number of a device in the run: its number in the machines of this recovery."""
    instants: Sequence[int]
    """When what its lines may hold changes."""
    trace: Trace
    written: Collection[LineKey]
    """The lines that it wrote, by the run's numbers of devices."""
    covered: Collection[LineKey]
    """Those of them that it wrote without looking: what they held before is as the failure before left it."""
    refused: Collection[Guarded]
    """The checksums that it compared and that did not match: of what these ranges held it knows no more."""

    def own(self, key: LineKey) -> LineKey:
        return self.numbers[key[0]], key[1]


class Recoveries(Restart):
    """Runs recovery, of one object's units or (``whole``) of everything, and no read: "read" is the number of the run.

    Equal bytes are recovered alike: recoveries that found the same, bytes and checksums, have one number.
    """

    def __init__(self, result: RunResult, *, whole: bool = False) -> None:
        super().__init__(result)
        self.made: list[Recovery] = []
        self._whole = whole
        self._alike: dict[Hashable, int] = {}

    @override
    def read(self, object: Hashable, source: Source, *, whole: bool = False, decide: Decide | None = None) -> Value:
        """Of a range that has its checksum the bytes are known; of one that has not, that it has not."""
        self.runs += 1
        run = self._result
        system = System(punctual_platform(run.system.platform), self._specs, run.seed)
        scheme = self._scheme(system)
        numbers: dict[int, int] = {}
        before: dict[LineKey, bytes] = {}
        refused: set[Guarded] = set()
        found: dict[int, Callable[[int], bytes]] = {}
        for own, (node, device) in system.devices().items():
            number = self._numbers.get((node.name, device.name))
            if number is not None:
                numbers[number] = own
                found[number] = _noting(before, own, number, source)
                device.space.restore(found[number])

        def noted(guarded: Guarded) -> bool | None:
            assert decide is not None
            matches = decide(guarded)
            if matches is False:
                refused.add(guarded)
            elif matches:
                for _, line in guarded.line_keys():
                    found[guarded.device](line)
            return matches

        if decide is not None:
            self._let_decide(system, noted)

        def code() -> Any:
            started = yield from self._recover(scheme, None if self._whole else object, Thread)
            if self._dead_clients and scheme.role_types[CLIENT].takes_over():
                scheme.start(started)
                client = scheme.roles[CLIENT][0]
                yield from client.take_over(client.connect(client_thread(system, 1, 0)))

        done, work = system.clock.start(code()), Work(system, len(scheme.sizes.objects))
        # it got this far, and the next failure may come before that
        with suppress(CompletedWithError, OperationFailed, OutcomeUnknown, WaitsForEver):
            try:
                work.run_through(done)
            except RuntimeError:  # SimPy: nothing is left to happen; it waits for ever, until power fails
                if done.triggered:
                    raise
        return self._note(system, before, refused, numbers)

    def _note(
        self, system: System, before: dict[LineKey, bytes], refused: set[Guarded], numbers: dict[int, int]
    ) -> int:
        name = frozenset(before.items()), frozenset(refused)
        known = self._alike.setdefault(name, len(self.made))
        if known < len(self.made):
            return known
        views = self._views(system, before.__getitem__, numbers)
        system.trace.unsettled.clear()  # of these machines nothing is kept but what they wrote
        instants = sorted({at_ps for at_ps, _ in views.changes()})
        theirs, numbers_of = {own: number for number, own in numbers.items()}, numbers
        written = frozenset((theirs[device], line) for device, line in views.pieces)
        covered = frozenset(key for key in written if (numbers_of[key[0]], key[1]) not in before)
        self.made.append(Recovery(known, views, numbers, instants, system.trace, written, covered, refused))
        return known


def _noting(before: dict[LineKey, bytes], own: int, number: int, source: Source) -> Callable[[int], bytes]:
    def content(line: int) -> bytes:
        before[own, line] = source((number, line))
        return before[own, line]

    return content


class _State:
    """What failures have left so far: by the first alone, or (:class:`_After`) by another in a recovery from that."""

    def __init__(self, left: Remains, parts: tuple[tuple[tuple[LineKey, Content], ...], ...] = ((),)) -> None:
        self.left = left
        self.parts = parts
        """What is known of it: the lines that the first failure left, then those that the next left, and so on."""

    def failure(self, key: LineKey) -> int | None:
        """Which failure left a line as it is; None if what a recovery found in it says that already."""
        return 0

    def settled(self) -> dict[LineKey, Hashable]:
        """The lines that are not as the first failure left them, but as a recovery found or wrote them."""
        return {}

    def known(self, image: tuple[tuple[LineKey, Content], ...]) -> tuple[tuple[tuple[LineKey, Content], ...], ...]:
        """``parts`` with what these lines turned out to hold."""
        more: list[list[tuple[LineKey, Content]]] = [[] for _ in self.parts]
        for key, content in image:
            which = self.failure(key)
            if which is not None:
                more[which].append((key, content))
        return tuple((*part, *found) for part, found in zip(self.parts, more, strict=True))


class _BytesMatter(Exception):
    """After a later failure somebody looks at a range of which a recovery knows only that its checksum is another."""

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(guarded)
        self.guarded = guarded


class _After(_State):
    """Power has failed again, ``again_ps`` into ``recovery``, which found in ``before`` the lines of ``first``."""

    def __init__(self, before: _State, first: Outcome, recovery: Recovery, again_ps: int) -> None:
        left = Remains(self._contents, self._families, again_ps, self._compared)
        super().__init__(left, (*before.known(first.image), ()))
        self.again_ps: tuple[int, ...] = (*(before.again_ps if isinstance(before, _After) else ()), again_ps)
        """When power failed again, each time after the recovery had begun."""
        self.asked = False
        """Whether anybody has looked at a line that this recovery has neither written nor looked at."""
        self._before = before
        self._recovery = recovery
        self._number = len(self.parts) - 1
        self._image = dict(first.image)
        self._refused = {key: one for one in recovery.refused for key in one.line_keys() if key in self._image}
        """Lines of which the image is an example."""
        self._decided: Cut = first.image[-1][1].cut if first.image else {}

    @override
    def failure(self, key: LineKey) -> int | None:
        if key in self._recovery.written:
            return self._number
        return None if key in self._image else self._before.failure(key)

    @override
    def settled(self) -> dict[LineKey, Hashable]:
        read = {key: content.data for key, content in self._image.items()}
        how, before = (self._recovery.number, self.again_ps[-1]), self._before.settled()
        wrote = {
            key: (*how, before.get(key)) if key in self._recovery.covered else how for key in self._recovery.written
        }
        return {**before, **read, **self._refused, **wrote}

    def _contents(self, key: LineKey, again_ps: int, cut: Cut) -> Iterator[Content]:
        """What a line may hold after all these failures."""
        for item in self._items(key, again_ps, cut, written_out=True):
            assert isinstance(item, Content)
            yield item

    def _families(self, key: LineKey, again_ps: int, cut: Cut) -> Iterator[Content | TornLine]:
        """The same with torn pieces not written out."""
        return self._items(key, again_ps, cut, written_out=False)

    def _compared(self, guarded: Guarded) -> Families:
        """The same for whoever compares the checksum of a range."""
        return partial(self._items, written_out=False, guarded=guarded)

    def _items(
        self, key: LineKey, again_ps: int, cut: Cut, written_out: bool, guarded: Guarded | None = None
    ) -> Iterator[Content | TornLine]:
        cut = {**self._decided, **cut}
        base = self._number << AGAIN
        if key in self._recovery.covered:
            yield from self._over_old(key, again_ps, cut)
        elif key in self._recovery.written:
            views = self._recovery.views
            own = {channel - base: span for channel, span in cut.items() if channel >= base}
            view = views.contents if written_out else views.families
            for item in view(self._recovery.own(key), again_ps, own):
                yield _under(item, lambda found: {**cut, **{c + base: span for c, span in found.items()}})
        elif key in self._image:
            refused = self._refused.get(key)
            if refused is not None and refused != guarded:
                raise _BytesMatter(refused)
            yield Content(self._image[key].data, cut, ())
        else:
            self.asked = True
            earlier = {channel: span for channel, span in cut.items() if channel < base}
            left = self._before.left
            whole = left.contents if written_out else left.families
            if guarded is not None and left.compared is not None:
                whole = left.compared(guarded)
            for item in whole(key, left.at_ps, earlier):
                yield _under(item, lambda found: {**cut, **found})

    def _over_old(self, key: LineKey, again_ps: int, cut: Cut) -> Iterator[Content]:
        """What a line may hold that the recovery wrote without looking: over all that it may have held before."""
        base, own = self._number << AGAIN, self._recovery.own(key)
        self.asked = True
        theirs = {channel - base: span for channel, span in cut.items() if channel >= base}
        earlier = {channel: span for channel, span in cut.items() if channel < base}
        seen: set[Hashable] = set()
        for old in self._before.left.contents(key, self._before.left.at_ps, earlier):
            views = self._recovery.views.over(lambda _, old=old: old.data)  # type: ignore[misc]
            for item in views.contents(own, again_ps, theirs):
                found = {**cut, **old.cut, **{c + base: span for c, span in item.cut.items()}}
                name = item.data, frozenset(found.items())
                if name not in seen:
                    seen.add(name)
                    yield Content(item.data, found, item.absent, item.torn)


def _under(item: Content | TornLine, cut: Callable[[Cut], Cut]) -> Content | TornLine:
    """The same under a cut that its own is turned into."""
    if isinstance(item, TornLine):
        without = item.without
        return TornLine(Content(without.data, cut(without.cut), without.absent, without.torn), item.words, item.there)
    return Content(item.data, cut(item.cut), item.absent, item.torn)


class OutcomesAgain(Outcomes):
    """The outcomes after one failure, and after up to ``times`` more, each during the recovery from the one before."""

    def __init__(
        self,
        object: Hashable,
        restart: RecoveryReader,
        recoveries: Recoveries,
        contents: Contents,
        may_change: Callable[[LineKey], bool],
        families: Families | None = None,
        *,
        times: int = 1,
    ) -> None:
        super().__init__(object, restart, contents, may_change, families)
        self._recoveries = recoveries
        self._times = times
        self._first = Outcomes(object, recoveries, contents, may_change, families)
        self._next = Outcomes(object, recoveries, contents, _any)
        self._read = Outcomes(object, restart, contents, _any)
        for tree in (self._first, self._next, self._read):
            tree.looked_at = self.looked_at
        self._settled: dict[int, list[list[Outcome]]] = {}
        """By recovery and instant: what follows a failure in it, where that depends on nothing but what it found."""

    @override
    def after(self, left: Remains) -> Iterator[Outcome]:
        """Every outcome of a power failure, then those with another one during recovery, and so on."""
        yield from self.of(left)
        while True:
            try:
                yield from self._again(left)
            except _BytesMatter as found:
                for tree in (self._first, self._next):
                    tree.give_up(found.guarded)
                self._settled.clear()
                continue
            return

    def _again(self, left: Remains) -> Iterator[Outcome]:
        """The outcomes of several failures."""
        states = [_State(left)]
        met: set[Hashable] = set()
        for time in range(1, self._times + 1):
            following: list[_State] = []
            for before in states:
                for first in (self._first if time == 1 else self._next).of(before.left):
                    assert isinstance(first.value, int)
                    recovery = self._recoveries.made[first.value]
                    if recovery.instants and self._is_new(recovery, before, first, met):
                        yield from self._during(recovery, before, first, following if time < self._times else None)
            states = following

    def _is_new(self, recovery: Recovery, before: _State, first: Outcome, met: set[Hashable]) -> bool:
        """Whether power has not failed before in this recovery while memory held the same.

        What it found it found; what it did not look at is as the first failure left it, but for ``rest``.
        """
        image = {key for key, _ in first.image}
        sure = image.union(recovery.written).difference(set(recovery.covered) - image)
        rest = {k: how for k, how in before.settled().items() if k not in sure}
        decided = first.image[-1][1].cut if first.image else {}
        further = any(isinstance(how, tuple) for how in rest.values())
        cut = frozenset(item for item in decided.items() if further or not item[0] >> AGAIN)
        name = recovery.number, frozenset(rest.items()), cut
        is_new = name not in met
        met.add(name)
        return is_new

    def _during(
        self, recovery: Recovery, before: _State, first: Outcome, following: list[_State] | None
    ) -> Iterator[Outcome]:
        """The outcomes of a failure at every instant of a recovery; what these leave goes to ``following``."""
        settled = self._settled.get(recovery.number)
        made: list[list[Outcome]] = []
        asked = False
        for turn, again_ps in enumerate(recovery.instants):
            after = _After(before, first, recovery, again_ps)
            found = settled[turn] if settled is not None else []
            if settled is not None:
                for outcome in found:
                    yield _of_several(after, outcome)
            else:
                for outcome in self._read.of(after.left):
                    found.append(outcome)
                    yield _of_several(after, outcome)
                made.append(found)
                asked |= after.asked
            if following is not None:
                following.append(after)
        if settled is None and not asked:
            self._settled[recovery.number] = made


def _of_several(after: _After, outcome: Outcome) -> OutcomeAgain:
    image, *again = after.known(outcome.image)
    return OutcomeAgain(outcome.value, image, outcome.matched, again=tuple(zip(after.again_ps, again, strict=True)))


def _any(key: LineKey) -> bool:
    """Recovery may have written any line."""
    return True
