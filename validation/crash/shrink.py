"""Making a case small until no operation can be spared: operations first, then pauses of cores, then the rest.

The operations that are left start when they did in the original run (shifted together to time zero), so that those
which met still meet. Every candidate is simulated and judged anew: nothing is assumed to carry over. Where the
violation needs a core to pause and fewer operations are too quick for the pause, it is moved to where the core stores
something, and reads to where the pause begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Generic

from ...protocols.naming.own import error_of
from ...protocols.registry import scheme
from ...scenarios.arguments import OutageFields
from ...scenarios.build import Draft
from ...scenarios.run.draws import Planned
from ...scenarios.run.experiment import PAUSE_LONGEST_PS, run_variant
from ...scenarios.run.results import RunResult
from ...scenarios.run.workload import schedule_data
from ...scenarios.schema.fields import exact_duration
from ...scenarios.schema.schema import Outage, Scenario, Variant
from .case import Case, Evidence, Sought, V, find, performed, planned
from .subjects import run_on

EXPLORING = 0.8
"""How much of the progress is exploring; the rest is shrinking: a guess for the bar, nothing else."""
MOVED_AT_MOST = 4
"""Up to how many operations pauses and reads are moved about: the search tries every place."""
MANY = 6
"""More operations than that are left out in a hurry first: where the violation was, it is looked for."""
EARLIER_PS = 50_000_000
"""So much earlier it may show with fewer operations, which wait less, and be found in a hurry."""

_Outage = tuple[str, int, int]
"""(core, from, for how long)"""


def shrink(
    kind: type[Evidence[V]],
    scenario: Scenario,
    variant: Variant,
    result: RunResult,
    violation: V,
    look: Callable[..., Case | None] = find,
    progress: Callable[[float], None] | None = None,
    enough: Callable[[Scenario], bool] = lambda _: False,
) -> Case:
    """The smallest case found for a violation of a scenario's run: no operation, and no lost line, can be spared.

    ``kind`` is that of the scenario's fault; ``look`` looks through a scenario as :func:`.case.find` does. ``progress``
    is told how much of leaving out operations is done; smaller scenarios of which ``enough`` says that they would take
    too long are not tried. Raises InputError for a user's scheme whose code does not do the same when it runs again.
    """
    outages = [*map(_outage, scenario.outages), *result.outages]
    rooms = (None, result.scheme.sizes.updates)  # where a log is cleaned its size matters
    attempts = [
        (
            _Search(kind, each, variant, violation, outages, look, enough),
            [planned(operation, result.history) for operation in chosen],
        )
        for each, chosen in kind.attempts(scenario, result, violation)
    ]
    best = None
    for hurries in (True, False):  # what is left out in a hurry may be what shows it
        for room, (search, chosen) in product(rooms, attempts):
            search.room = room
            search.hurried_ps *= hurries
            best = search.case(chosen)
            if best is not None:
                break
        if best is not None:
            break
    if best is None:
        search, chosen = attempts[-1]
        best = search.told(chosen)
        if best is not None:  # it shows in more images than a trial looks at: told as it was found
            return replace(best, shrunk=False)
        search.hurried_ps = 0  # it shows after their last return, to which the run gets with those that return later
        every = [planned(operation, result.history) for operation in performed(scenario, result.history)]
        best = search.case(every) or search.told(every)
        if best is None:
            found = f"a violation of {violation.condition} that does not show when its run is made again"
            raise error_of(scheme(variant.scheme), found, "code that does the same in every run: no random, no clock")
    best = search.fewer_operations(best, progress or (lambda _: None))
    best = search.fewer_outages(best)
    return replace(search.told_from_time_zero(best), stopped=search.stopped)


class _Search(Generic[V]):
    """Tries smaller scenarios for one violation."""

    def __init__(
        self,
        kind: type[Evidence[V]],
        scenario: Scenario,
        variant: Variant,
        like: V,
        outages: list[_Outage],
        look: Callable[..., Case | None],
        enough: Callable[[Scenario], bool],
    ) -> None:
        self.kind = kind
        self.look = look
        self.enough = enough
        self.stopped = False
        """Whether operations are left that nobody has tried to leave out."""
        self.scenario = scenario
        self.variant = variant
        self.sought = Sought(like.condition, like.object, like.acknowledged)
        self.hurried_ps = max(0, like.instant_ps - EARLIER_PS) if kind.may_hurry else 0
        self.outages = [outage for outage in outages if outage[1] <= like.instant_ps or not kind.pauses_move]
        self.room: int | None = None

    def case(self, chosen: list[Planned]) -> Case | None:
        """The violation with just these operations, pauses moved about if it takes that."""
        if not chosen:
            return None
        found = self._try(chosen, self.outages, self.hurried_ps if len(chosen) > MANY else 0)
        if found is not None or not self.outages or len(chosen) > MOVED_AT_MOST or not self.kind.pauses_move:
            return found
        quiet = run_variant(self._scenario(chosen, []), self.variant, watched=True)
        run_on(quiet, ())
        for core, at_ps in quiet.may_pause:
            for moved in (chosen, [o if o.is_update else replace(o, not_before_ps=at_ps) for o in chosen]):
                found = self._try(moved, [(core, at_ps, PAUSE_LONGEST_PS)])
                if found is not None:
                    return found
        return None

    def _scenario(self, chosen: list[Planned], outages: list[_Outage]) -> Scenario:
        listed: list[OutageFields] = [
            {"core": core, "at": exact_duration(at), "for": exact_duration(length)} for core, at, length in outages
        ]
        workload = schedule_data(self.scenario.workload, chosen, self.room)
        named = {operation.f for operation in chosen}
        schemes = [name for name in self.scenario.schemes if named <= set(scheme(name).operations)]
        draft = Draft.of(self.scenario, f"{self.scenario.name} (shrunk)")
        return draft.with_(workload=workload, outages=listed, schemes=schemes).build()

    def _try(self, chosen: list[Planned], outages: list[_Outage], since_ps: int = 0) -> Case | None:
        return self.look(self.kind, self._scenario(chosen, outages), self.variant, self.sought, since_ps=since_ps)

    def told(self, chosen: list[Planned]) -> Case | None:
        """The violation with these operations, looked for among all images, and told as well as it can be."""
        return self._told(self._scenario(chosen, self.outages))

    def fewer_operations(self, best: Case, progress: Callable[[float], None]) -> Case:
        """Leave out operations as long as the violation stays; those that only a hurry has kept as well."""
        best = self._fewer_operations(best, progress)
        if self.hurried_ps and len(best.performed()) > MANY:
            self.hurried_ps = 0
            best = self._fewer_operations(best, progress)
        return best

    def _fewer_operations(self, best: Case, progress: Callable[[float], None]) -> Case:
        """Delta debugging: leave out ever smaller stretches of operations."""
        chosen = _operations(best)
        size = max(1, len(chosen) // 2)
        sizes = size.bit_length()
        while size >= 1:
            start, removed = 0, False
            while start < len(chosen):
                progress((sizes - size.bit_length() + start / len(chosen)) / sizes)
                fewer = chosen[:start] + chosen[start + size :]
                too_much = bool(fewer) and self.enough(self._scenario(fewer, self.outages))
                self.stopped = self.stopped or too_much
                smaller = None if too_much else self.case(fewer)
                if smaller is not None:
                    best, chosen, removed = smaller, _operations(smaller), True
                else:
                    start += size
            size = size if removed and size == 1 else size // 2
        return best

    def fewer_outages(self, best: Case) -> Case:
        """Leave out the pauses that it does not take."""
        outages = [_outage(outage) for outage in best.scenario.outages]
        for outage in list(outages) if self.kind.pauses_move else ():
            kept = [other for other in outages if other != outage]
            smaller = self._try(_operations(best), kept)
            if smaller is not None:
                best, outages = smaller, kept
        return best

    def told_from_time_zero(self, best: Case) -> Case:
        """Tell the case, its first operation at time zero and what is written numbered from one, if it shows there."""
        chosen = _operations(best)
        first_ps = min(operation.not_before_ps for operation in chosen)
        outages = [(core, at - first_ps, length) for core, at, length in map(_outage, best.scenario.outages)]
        at_ps = best.violation.instant_ps if len(chosen) <= MANY else first_ps  # of more a hurry has found it
        told = None
        if all(from_ps >= 0 for _, from_ps, _ in outages) and (self.kind.pauses_move or not outages):
            shifted = [replace(o, not_before_ps=o.not_before_ps - first_ps, stamp=None) for o in chosen]
            told = self._told(self._scenario(shifted, outages), at_ps - first_ps)
        return told or self._told(best.scenario, at_ps) or best

    def _told(self, scenario: Scenario, since_ps: int = 0) -> Case | None:
        return self.look(self.kind, scenario, self.variant, self.sought, telling=True, since_ps=since_ps)


def _operations(case: Case) -> list[Planned]:
    """The operations of a case, in the order of their invocations."""
    return [planned(operation, case.history) for operation in case.performed()]


def _outage(outage: Outage) -> _Outage:
    return outage.core, outage.at_ps, outage.for_ps
