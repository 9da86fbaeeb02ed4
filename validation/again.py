"""Power fails, recovery runs, and power fails again in the middle of it: once, at every instant of that recovery.

The first recovery of an object is run on each image that the first failure may have left, in machines whose writes are
traced. From then on it is the same question: what may memory hold now, and what do recovery and a read make of it?
Lines that the first recovery wrote hold what its own trace allows; all others what the first failure left in them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..models.system import System
from ..models.views import Content, Cut, LineKey, Views
from ..protocols.rpc import VerbsError
from ..scenarios.history import Value
from ..scenarios.results import RunResult
from .checksums import Families
from .outcomes import Contents, Outcome, Outcomes
from .restart import Decide, Restart, Source

SECOND = 1 << 32
"""Channels of the first recovery's trace are numbered from here in a cut that speaks of both traces."""


@dataclass(frozen=True, slots=True)
class OutcomeAgain(Outcome):
    """An outcome of two failures; ``image`` is what the first left."""

    again_ps: int = 0
    """When power failed again: after the first recovery had begun."""
    then: tuple[tuple[LineKey, Content], ...] = ()
    """What the second left of the lines that the first recovery had written, as far as anybody looked at them."""


@dataclass(frozen=True)
class _FirstRecovery:
    """A recovery that was under way when power failed again: what it may have left of what it wrote."""

    views: Views
    numbers: Mapping[int, int]
    """By number of a device in the run: its number in the machines of this recovery."""

    def wrote(self, key: LineKey) -> bool:
        return self.own(key) in self.views.pieces

    def own(self, key: LineKey) -> LineKey:
        return self.numbers[key[0]], key[1]

    def instants(self) -> list[int]:
        """When what its lines may hold changes."""
        return sorted({at_ps for at_ps, _ in self.views.changes()})


class _Recoveries(Restart):
    """Runs the recovery of one object's units, and no read; what "is read" is the number of the recovery."""

    def __init__(self, result: RunResult) -> None:
        super().__init__(result)
        self.made: list[_FirstRecovery] = []

    def read(self, object: Hashable, source: Source, *, whole: bool = False, decide: Decide | None = None) -> Value:
        """``decide`` is not asked: what a checksum was computed over must still be known at the second failure."""
        self.runs += 1
        run = self._result
        system = System(run.system.platform, self._specs, run.seed)
        scheme = type(run.scheme)(system, run.scheme.sizes)
        numbers: dict[int, int] = {}
        before: dict[LineKey, bytes] = {}
        for own, (node, device) in system.devices().items():
            number = self._numbers.get((node.name, device.name))
            if number is not None:
                numbers[number] = own
                device.space.restore(_noting(before, own, number, source))

        def code() -> Any:
            thread = system.nodes[scheme.recovery_role][0].thread(0, "recovery")
            for unit in scheme.units_of(object):
                yield from scheme.recover_unit(thread, unit)

        done = system.clock.start(code())
        with suppress(VerbsError):  # it got this far, and the second failure may come before that
            system.clock.run_until(done)
        views = Views(
            system.trace,
            {numbers[number]: domain for number, domain in self.domains.items()},
            before.__getitem__,
            whole_lines=system.platform.line_atomicity == "whole",
            iio_wc_survives=system.platform.iio_wc_survives,
        )
        self.made.append(_FirstRecovery(views, numbers))
        return len(self.made) - 1


def _noting(before: dict[LineKey, bytes], own: int, number: int, source: Source) -> Callable[[int], bytes]:
    def content(line: int) -> bytes:
        before[own, line] = source((number, line))
        return before[own, line]

    return content


class OutcomesAgain(Outcomes):
    """The outcomes of one object after one failure, and after another one during the recovery from it."""

    def __init__(
        self,
        object: Hashable,
        restart: Restart,
        result: RunResult,
        contents: Contents,
        may_change: Callable[[LineKey], bool],
        families: Families | None = None,
    ) -> None:
        super().__init__(object, restart, contents, may_change, families)
        self._made = _Recoveries(result)
        self._first = Outcomes(object, self._made, contents, may_change)
        self._under: tuple[_FirstRecovery, dict[LineKey, Content], int, Cut] | None = None
        self._second = Outcomes(object, restart, self._left, lambda key: True)
        self._first.looked_at = self._second.looked_at = self.looked_at

    def at(self, at_ps: int) -> Iterator[Outcome]:
        """Every outcome of a power failure at ``at_ps``, then those with another one during recovery."""
        yield from super().at(at_ps)
        for first in self._first.at(at_ps):
            assert isinstance(first.value, int)
            recovery = self._made.made[first.value]
            image = dict(first.image)
            cut = first.image[-1][1].cut if first.image else {}
            for again_ps in recovery.instants():
                self._under = recovery, image, at_ps, cut
                for outcome in self._second.at(again_ps):
                    then = tuple((key, content) for key, content in outcome.image if recovery.wrote(key))
                    more = tuple(
                        (key, content) for key, content in outcome.image if key not in image and not recovery.wrote(key)
                    )
                    yield OutcomeAgain(outcome.value, (*first.image, *more), again_ps=again_ps, then=then)

    def _left(self, key: LineKey, again_ps: int, cut: Cut) -> Iterator[Content]:
        """What a line may hold after both failures."""
        assert self._under is not None
        recovery, image, at_ps, decided = self._under
        cut = {**decided, **cut}
        if recovery.wrote(key):
            own = {channel - SECOND: span for channel, span in cut.items() if channel >= SECOND}
            for content in recovery.views.contents(recovery.own(key), again_ps, own):
                shifted = {channel + SECOND: span for channel, span in content.cut.items()}
                yield Content(content.data, {**cut, **shifted}, content.absent, content.torn)
        elif key in image:
            yield Content(image[key].data, cut, ())
        else:
            earlier = {channel: span for channel, span in cut.items() if channel < SECOND}
            for content in self._contents(key, at_ps, earlier):
                yield Content(content.data, {**cut, **content.cut}, content.absent, content.torn)
