"""The crash explorer: walks a run's crash instants in order and judges what may have survived at each.

Between two instants neither the lines' possible contents nor the history changes. At each instant only those objects
are looked at again whose lines or whose history changed; only images that were never met are recovered; a verdict is
computed again only when the object's history has changed. Equal images share a recovery, never a verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ...models.durability.views import Content, Cut, LineKey
from ...protocols.guarantees import Condition, Verdict
from ...scenarios.history import Operation, Value
from ...scenarios.run.results import RunResult
from ...sim.collector import seldom_collecting
from .checksums import Families
from .nested import OutcomesAgain, Recoveries
from .opaque import WholeTree
from .outcomes import Contents, Outcome, Outcomes, OutcomesElsewhere, Remains
from .restart import Restart
from .subjects import (
    REST_WITHIN_PS,
    Follower,
    Subject,
    by_object,
    concerned,
    follow,
    follower,
    judgeable,
    run_on,
    subjects,
)
from .subjects import events as events_of

ASKED = (Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE)
"""The conditions that are explored unless a scenario or a claim asks for more."""

IMAGES_PER_STATE = 4096
"""After how many images an object's state at one instant is given up as not exhausted."""
WHEN_IN_VAIN = 32
"""After how many, once one was given up: nothing holds any more, and what is broken shows in few images or in none."""

SEARCHED_IN_VAIN = "some histories were too much for the search"
"""Before the conditions that are undecided for that."""
_ALL = "all instants of the schedule"
_OVER = (
    f"{_ALL} and all images of the lines that recovery and reads look at; "
    "writes of different channels to one line in the schedule's order, at most one torn write a line"
)
_OVER_TIMED = f"{_ALL}, each with the one image that its timing leaves"
_AT_REST = f"{_ALL} (which went on after the last return until every machine was at rest)"
_RESTLESS = f"{_ALL} until {REST_WITHIN_PS // 10**9} ms after the last return, when not every machine was at rest"


@dataclass(frozen=True, slots=True)
class Violation:
    """A crash state that violates a condition."""

    condition: Condition
    instant_ps: int
    subject: Subject
    outcome: Outcome
    explanation: str
    acknowledged: bool
    """For ``no_lost_ack``: an update of the history had returned (and not just what was loaded before it)."""

    @property
    def object(self) -> Hashable:
        """The object that was read, or a tuple of several."""
        return self.subject.object


@dataclass
class Exploration:
    """What a walk over the crash instants found.

    ``first`` is the earliest violation of each condition; of ``no_lost_ack`` the earliest after an update of the
    object had returned, if there is one (it tells more than the loss of what was loaded).
    """

    instants: int = 0
    states: int = 0
    verdicts_computed: int = 0
    recoveries_run: int = 0
    exhaustive: bool = True
    over: str = _OVER
    violating_states: dict[Condition, int] = field(default_factory=dict)
    first: dict[Condition, Violation] = field(default_factory=dict)
    timed: bool = False
    undecided: set[Condition] = field(default_factory=set)
    """The conditions about which a search for an order has given up at some state."""

    def joined(self, other: Exploration) -> Exploration:
        """This exploration and that of another schedule together; what this one found first stays first."""
        first = dict(self.first)
        for condition, violation in other.first.items():
            if not self.loses(condition, acknowledged=violation.acknowledged):
                first[condition] = violation
        return Exploration(
            instants=self.instants + other.instants,
            states=self.states + other.states,
            verdicts_computed=self.verdicts_computed + other.verdicts_computed,
            recoveries_run=self.recoveries_run + other.recoveries_run,
            exhaustive=self.exhaustive and other.exhaustive,
            over=other.over if self.exhaustive else self.over,
            violating_states={
                condition: count + self.violating_states.get(condition, 0)
                for condition, count in other.violating_states.items()
            },
            first=first,
            timed=self.timed or other.timed,
            undecided=self.undecided | other.undecided,
        )

    def loses(self, condition: Condition, *, acknowledged: bool) -> bool:
        """Whether a violation is known; if ``acknowledged``, one after an update had returned."""
        violation = self.first.get(condition)
        return violation is not None and violation.acknowledged >= acknowledged

    def verdict(self, condition: Condition) -> Verdict:
        """A timed view never carries a "holds": it is one timing among many."""
        if condition in self.first:
            return Verdict.VIOLATED
        decided = self.exhaustive and not self.timed and condition not in self.undecided
        return Verdict.HOLDS if decided else Verdict.UNDECIDED


class _Object:
    """One subject during the walk: its history so far, and its outcomes while its lines stay as they are."""

    def __init__(self, subject: Subject, follows: Follower, outcomes: Outcomes) -> None:
        self.subject = subject
        self.follower = follows
        self.outcomes = outcomes
        self.found: list[Outcome] = []
        self.more: Iterator[Outcome] = iter(())
        self.values: dict[Value, frozenset[Condition]] = {}
        self.version = -1
        self.watched = 0
        self.complete = False
        self.acknowledged = False

    def images(self) -> Iterator[Outcome]:
        """The outcomes at the instant that ``look`` was called for, those met before first."""
        yield from self.found
        for outcome in self.more:
            self.found.append(outcome)
            yield outcome
        self.complete = True

    def look(self, at_ps: int) -> None:
        """The lines may have changed: forget the images, not the recoveries."""
        self.found, self.more, self.complete = [], self.outcomes.at(at_ps), False


class Explorer:
    """Explores one run; ``only`` limits it to some objects, ``conditions`` to what is asked for.

    ``whole`` has recovery run as one opaque whole, as it is for schemes that recover in their own way. Whoever has to
    find a violation soon leaves out instants before ``since_ps``, torn lines, and images beyond so many (``most``).
    """

    def __init__(
        self,
        result: RunResult,
        *,
        timed: bool = False,
        conditions: Iterable[Condition] = ASKED,
        only: Iterable[Hashable] | None = None,
        whole: bool = False,
        since_ps: int = 0,
        torn: bool = True,
        most: int = IMAGES_PER_STATE,
    ) -> None:
        self.result = result
        self._since_ps = since_ps
        self._torn = torn
        self._at_rest = run_on(result, judgeable(result, conditions))
        self.restart = Restart(result)
        with seldom_collecting():
            self.views = self.restart.views()
        self._timed = timed
        self._conditions = judgeable(result, conditions)
        self._most = most * (1 + result.fault.again)
        whole = whole or self.restart.opaque
        found = subjects(result, self._conditions, only)
        self._by_object = by_object(found)
        self._recoveries = Recoveries(result, whole=whole) if result.fault.again else None
        self._again = self._recoveries
        if self._recoveries is not None and not whole and any(subject.together for subject in found):
            self._again = Recoveries(result, whole=True)
        targets = list(dict.fromkeys(target for subject in found for target in subject.targets))
        self._whole = self._tree(targets) if whole else None
        self._together = self._whole or (self._tree(targets) if any(subject.together for subject in found) else None)
        self._trees: dict[Hashable, Outcomes] = {}
        self._objects = {one.key: _Object(one, follower(one, result), self._outcomes(one)) for one in found}
        self._watchers: dict[LineKey, set[Hashable]] = defaultdict(set)
        self._open: tuple[Set[Condition], Set[Condition]] = self._conditions, self._conditions

    def subjects(self) -> list[Subject]:
        """What is judged."""
        return [one.subject for one in self._objects.values()]

    def outcomes(
        self, subject: Subject, contents: Contents | None = None, families: Families | None = None
    ) -> Outcomes | OutcomesElsewhere:
        """The outcomes of a subject in the view that is explored, or where lines hold just these contents."""
        if contents is None:
            return self._outcomes(subject)
        if subject.together:
            return self._tree(subject.targets, contents, families).together()
        if self._whole is not None:
            return self._tree(subject.targets, contents, families).of(subject.object)
        return OutcomesElsewhere(self._objects[subject.key].outcomes, *self._view(contents, families))

    def newest(self, subject: Subject, at_ps: int) -> Value:
        """What is read of a subject if everything that had been written at ``at_ps`` has made it."""

        def contents(key: LineKey, at_ps: int, cut: Cut) -> Iterator[Content]:
            yield Content(self.views.newest(key, at_ps), cut, ())

        return next(self._outcomes(subject).of(Remains(contents, contents, at_ps))).value

    def _outcomes(self, subject: Subject) -> Outcomes:
        if subject.together:
            assert self._together is not None
            return self._together.together()
        name = subject.object
        if self._whole is not None:
            return self._whole.of(name)
        known = self._trees.get(name)
        if known is None:
            known = self._trees[name] = self._outcomes_alone(name)
        return known

    def _outcomes_alone(self, name: Hashable) -> Outcomes:
        may_change = self.views.pieces.__contains__
        contents, families = self._view(None, None)
        if self._recoveries is not None:
            how = self.restart, self._recoveries, contents, may_change, families
            return OutcomesAgain(name, *how, times=self.result.fault.again)
        return Outcomes(name, self.restart, contents, may_change, families)

    def _tree(
        self, names: Sequence[Hashable], contents: Contents | None = None, families: Families | None = None
    ) -> WholeTree:
        contents, families = self._view(contents, families)
        may_change, times = self.views.pieces.__contains__, self.result.fault.again
        return WholeTree(names, self.restart, contents, families, may_change, self._again, times)

    def _view(self, contents: Contents | None, families: Families | None) -> tuple[Contents, Families]:
        if contents is not None:
            return contents, families if families is not None else contents
        if self._timed:
            return self._timed_contents, self._timed_contents
        if not self._torn:
            return partial(_whole_lines, self.views.contents), partial(_whole_lines, self.views.families)
        return self.views.contents, self.views.families

    def _timed_contents(self, key: LineKey, at_ps: int, cut: Cut) -> Iterator[Content]:
        yield self.views.timed(key, at_ps)

    def instants(self) -> list[tuple[int, list[LineKey], list[tuple[str, Operation]]]]:
        """Every instant at which something changes: which lines may, and what clients saw."""
        changed: dict[int, list[LineKey]] = defaultdict(list)
        events: dict[int, list[tuple[str, Operation]]] = defaultdict(list)
        for at_ps, key in self.views.timed_changes() if self._timed else self.views.changes():
            changed[at_ps].append(key)
        for at_ps, kind, operation in events_of(self.result, self._conditions):
            if concerned(self._by_object, operation):
                events[at_ps].append((kind, operation))
        every = sorted({0} | changed.keys() | events.keys())
        return [(at_ps, changed.get(at_ps, []), events.get(at_ps, [])) for at_ps in every]

    def walk(
        self,
        *,
        until: Callable[[Exploration], bool] | None = None,
        budget: int | None = None,
        sample: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Exploration:
        """Judge every crash state, in the order of time.

        ``until`` ends the walk early; ``budget`` ends it after that many states, ``sample`` looks at that many
        instants only (drawn from the run's seed): both leave what is not violated undecided.
        """
        with seldom_collecting():
            return self._walk(until, budget, sample, progress)

    def _walk(
        self,
        until: Callable[[Exploration], bool] | None,
        budget: int | None,
        sample: int | None,
        progress: Callable[[float], None] | None,
    ) -> Exploration:
        violating = dict.fromkeys(sorted(self._conditions), 0)
        found = Exploration(exhaustive=self._at_rest, timed=self._timed, over=self._over(), violating_states=violating)
        instants = self.instants()
        looked_at = self._sampled(len(instants), sample, found)
        dirty: set[Hashable] = set(self._objects)  # objects to judge
        moved: set[Hashable] = set(self._objects)  # objects whose lines have changed
        watchers = self._watchers
        self._open = self._still_open(found)
        for turn, (at_ps, lines, events) in enumerate(instants):
            for kind, operation in events:
                for subject in concerned(self._by_object, operation):
                    one = self._objects[subject.key]
                    follow(one.follower, kind, operation, at_ps)
                    one.acknowledged |= kind == "ok" and operation.f in self.result.history.updates
                    dirty.add(subject.key)
            for line in lines:
                moved.update(watchers.get(line, ()))
            dirty |= moved
            if turn not in looked_at or at_ps < self._since_ps:
                continue
            found.instants += 1
            for name in sorted(dirty, key=str) if len(dirty) > 1 else dirty:
                self._judge(name, at_ps, found, name in moved)
            dirty.clear()
            moved.clear()
            if until is not None and until(found):
                found.exhaustive = False
                break
            if budget is not None and found.states >= budget:
                found.exhaustive = found.exhaustive and turn + 1 == len(instants)
                found.over = f"the first {found.states} states of {turn + 1} of {len(instants)} instants"
                break
            if progress is not None:
                progress((turn + 1) / len(instants))
        open_ = found.undecided - found.first.keys()
        if open_:
            found.over += f"; {SEARCHED_IN_VAIN}: {', '.join(sorted(open_))}"
        found.recoveries_run = self.restart.runs + (self._recoveries.runs if self._recoveries is not None else 0)
        return found

    def _over(self) -> str:
        """What the walk is over, unless it ends before."""
        if not self._at_rest:
            return _RESTLESS
        over = _OVER_TIMED if self._timed else _OVER
        goes_on = any(role.comes_to_rest() for role in self.result.scheme.machines())
        return over.replace(_ALL, _AT_REST) if goes_on else over

    def _still_open(self, found: Exploration) -> tuple[Set[Condition], Set[Condition]]:
        """What a violation of would still be news: of an object of which no update has returned, and of another."""
        before, after = (
            frozenset(c for c in self._conditions if not found.loses(c, acknowledged=_tells(c, acknowledged)))
            for acknowledged in (False, True)
        )
        return before, after

    def _sampled(self, count: int, sample: int | None, found: Exploration) -> range | frozenset[int]:
        if sample is None or sample >= count:
            return range(count)
        found.exhaustive = False
        found.over = f"a sample of {sample} of {count} instants"
        chosen = np.random.default_rng([self.result.seed, count]).choice(count, sample, replace=False)
        return frozenset(int(turn) for turn in chosen)

    def _judge(self, name: Hashable, at_ps: int, found: Exploration, moved: bool) -> None:
        one = self._objects[name]
        if not moved and one.version == one.follower.version:
            return
        if moved or not one.complete:  # lines that nobody has looked at yet are not watched
            one.look(at_ps)
        if one.version != one.follower.version:
            one.values.clear()
            one.version = one.follower.version
        own = one.subject.conditions
        open_ = self._open[one.acknowledged] & own
        violated: set[Condition] = set()
        images = one.found if one.complete else one.images()
        if not self._judge_images(one, at_ps, found, islice(images, self._most + 1), open_, violated):
            return self._watch(name, one)
        if found.exhaustive:
            found.exhaustive, found.over = (
                False,
                f"{self._most} image{'s' * (self._most > 1)} at most of an object at an instant",
            )
        self._most = min(self._most, WHEN_IN_VAIN)
        contents, families = self._view(None, None)
        whole = self.outcomes(one.subject, partial(_whole_lines, contents), partial(_whole_lines, families))
        images = islice(whole.at(at_ps), self._most)
        self._judge_images(one, at_ps, found, images, open_, violated)
        return self._watch(name, one)

    def _judge_images(
        self,
        one: _Object,
        at_ps: int,
        found: Exploration,
        images: Iterator[Outcome],
        open_: Set[Condition],
        violated: set[Condition],
    ) -> bool:
        """Judge images of an object at an instant, as long as they can change a verdict; whether too many were left."""
        values, judge, violating = one.values, one.follower.judge, found.violating_states
        own = one.subject.conditions
        turn = -1
        for turn, outcome in enumerate(images):
            found.states += 1
            verdict = values.get(outcome.value)
            if verdict is None:
                found.verdicts_computed += 1
                verdict = values[outcome.value] = judge(outcome.value) & own
                found.undecided |= one.follower.undecided & own
            if verdict:
                for condition in verdict:
                    violating[condition] += 1
                for condition in verdict & open_ - violated:
                    why = one.follower.explain(outcome.value, condition)
                    told = _tells(condition, one.acknowledged)
                    found.first[condition] = Violation(condition, at_ps, one.subject, outcome, why, told)
                    self._open = self._still_open(found)
                violated |= verdict
            if turn > 0 and open_ <= violated:
                return False  # this state cannot change a verdict any more
        return turn >= self._most

    def _watch(self, name: Hashable, one: _Object) -> None:
        """Have the object looked at again when a line changes that was looked at for it."""
        looked_at = one.outcomes.looked_at
        if len(looked_at) > one.watched:
            for line in islice(looked_at, one.watched, None):
                self._watchers[line].add(name)
            one.watched = len(looked_at)


def _whole_lines(view: Contents | Families, key: LineKey, at_ps: int, cut: Cut) -> Iterator[Any]:
    """What a line may hold with none of its writes torn; all that it may where there is no such."""
    found = False
    for item in view(key, at_ps, cut):
        if isinstance(item, Content) and item.torn is None:
            found = True
            yield item
    if not found:
        yield from view(key, at_ps, cut)


def _tells(condition: Condition, acknowledged: bool) -> bool:
    """Whether a violation tells all that one may: a ``no_lost_ack`` does once an update of the object has returned."""
    return acknowledged or condition is not Condition.NO_LOST_ACK
