"""A history file judged by conditions: the verdicts, and what shows a violation."""

from __future__ import annotations

import gc
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ...protocols.guarantees import Condition, Verdict
from ...protocols.objects import FOUND
from ...sim.errors import InputError, Mistake, unknown
from ..oracle import assert_implications
from ..oracle.conditions.exactly_once import SHOWS
from ..oracle.conditions.exactly_once import find as find_twice
from ..oracle.conditions.invented import find as find_invented
from ..oracle.known import NEVER_PS
from ..oracle.models.simple import Model
from ..oracle.search.general import BUDGET, BUDGET_BYTES, Budget
from .fitting import Act, Subject, fit, key_text, model_named, syncs
from .judges import (
    LOCAL,
    ORDERED,
    AroundCrash,
    ItemJudge,
    Judge,
    Opinion,
    SearchJudge,
    Terms,
    ZoneJudge,
    judge_for,
    search_for,
)  # fmt: skip
from .pieces import SHRINKING_BUDGET, first_failure, named_and_written, prefix_of, shrink
from .read import HistoryEntry, HistoryFile, show
from .turns import take_turns
from .whole import WholeJudge

WHOLE = frozenset({Condition.SESSION, Condition.BUFFERED, Condition.BUFFERED_CUT})
"""The conditions that are not local: all objects are judged together."""

UNIQUE = frozenset(
    {Condition.COMMITTED, Condition.SESSION, Condition.MONOTONIC, Condition.BOUNDED_LOSS, Condition.NO_LOST_ACK}
)
"""The conditions on registers with unique values; but for ``session`` they may be removed too."""

ANY_MODEL = frozenset({Condition.NO_LOST_ACK, Condition.BOUNDED_LOSS})
"""Those that are searched where an object is no such register: ``durable`` without the reads before the crash."""

LARGE = 20_000
"""From how many operations on ``session`` is judged by what implies it, if that holds."""

CRASH_CONDITIONS = frozenset(
    {
        Condition.MONOTONIC, Condition.BOUNDED_LOSS, Condition.NO_LOST_ACK, Condition.BUFFERED_CUT,
        Condition.BUFFERED, Condition.DURABLE, Condition.PERSISTENT, Condition.STRICT,
    }
)  # fmt: skip
"""Conditions that say nothing about a history without a crash; judged all the same if asked for by name."""


@dataclass(frozen=True)
class Witness:
    """What shows a violation: the object, the operation that cannot be placed, why, and the shortest failing piece."""

    key: Hashable
    act: Act
    explanation: str
    piece: tuple[Act, ...]
    at_ps: int
    """When it was certain: responses after it play no part."""
    prefix: tuple[int, ...] | None = None
    """By lines: an order of the longest prefix that has one, where the condition asks for an order of one object."""
    prefix_ps: int | None = None
    """Until when that prefix goes: the response before ``at_ps``."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one condition. ``order`` is a legal order of each searched object, by lines, if it holds."""

    verdict: Verdict
    by: tuple[str, ...]
    """How: ``zones``, ``items``, ``search``, ``session``, ``count``."""
    steps: int
    seconds: float
    witness: Witness | None = None
    undecided: str = ""
    order: Mapping[Hashable, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All verdicts on a history file, weaker conditions first."""

    history: HistoryFile
    model: Model
    subjects: Sequence[Subject]
    verdicts: Mapping[Condition, Judgement]
    not_judged: Mapping[Condition, str]
    """Conditions that do not apply, and why."""

    @property
    def objects(self) -> int:
        return len(self.subjects)


def check_history(
    history: HistoryFile,
    model_name: str | None = None,
    conditions: Sequence[str] = (),
    budget: int = BUDGET,
    memory_bytes: int = BUDGET_BYTES,
    loss_ps: int | None = None,
    crashes_ps: tuple[int, ...] | None = None,
) -> Report:
    """Judge ``history`` by ``conditions`` (default: all that apply) of the named model (default: the first that fits).

    ``budget`` is how many steps the search of one object may take, ``memory_bytes`` how much all searches of a
    condition may hold; ``loss_ps`` is the time of ``bounded_loss``, ``crashes_ps`` are the crashes that a loss of an
    object other than a register is blamed on (by default those of the system and the server). Raises InputError for
    names that there are not, for values that are not the model's, and for conditions that do not apply but were asked
    for.
    """
    wanted = _conditions(conditions)
    model = model_named(model_name, history)
    subjects = fit(history, model)
    terms = Terms(Budget(budget, memory_bytes), loss_ps, crashes_ps)
    bench = _Bench(history, model, subjects, terms)
    verdicts: dict[Condition, Judgement] = {}
    skipped: dict[Condition, str] = {}
    for condition in Condition:
        if condition not in (wanted or Condition):
            continue
        reason = _why_not(history, model, condition, subjects, bool(wanted), loss_ps)
        if reason and wanted:
            raise InputError(Mistake(f"{condition} ({reason})", "a condition that applies", field="--condition"))
        if reason:
            skipped[condition] = reason
        elif condition is Condition.DURABLE and Condition.LINEARIZABLE in verdicts:
            verdicts[condition] = verdicts[Condition.LINEARIZABLE]  # the same question: see oracle/durable.py
        else:
            verdicts[condition] = bench.judge(condition)
    assert_implications({condition: judgement.verdict for condition, judgement in verdicts.items()})
    return Report(history, model, subjects, verdicts, skipped)


@contextmanager
def uncollected() -> Iterator[None]:
    """Python's cyclic garbage collector is off meanwhile: over a long history it costs more than judging it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _known_by(entry: HistoryEntry, at_ps: int) -> bool:
    """Whether the operation had returned by then."""
    known_ps = _known_ps(entry)
    return known_ps is not None and known_ps <= at_ps


def _known_ps(entry: HistoryEntry) -> int | None:
    """When what an operation returned was known."""
    return entry.promised_ps or entry.return_ps if entry.outcome == "ok" else None


def _conditions(names: Sequence[str]) -> list[Condition]:
    known = [str(condition) for condition in Condition]
    for name in names:
        if name not in known:
            raise InputError(unknown(name, known, field="--condition"))
    return [Condition(name) for name in names]


def _why_not(
    history: HistoryFile,
    model: Model,
    condition: Condition,
    subjects: Sequence[Subject],
    asked: bool,
    loss_ps: int | None,
) -> str | None:
    if (
        condition in UNIQUE
        and condition not in ANY_MODEL
        and not (condition is Condition.COMMITTED and model.name in FOUND)
    ):
        each = (s.unique if condition is Condition.SESSION else s.removable for s in subjects)
        odd = next((reason for reason in each if reason is not None), None)
        if odd is not None:
            return f"needs registers with unique values: {odd}"
    if condition is Condition.EXACTLY_ONCE and model.name not in SHOWS:
        return f"needs a model that shows it: {', '.join(sorted(SHOWS))}"
    crashed = any(crash.ends_era for crash in history.crashes)
    if condition is Condition.BOUNDED_LOSS and loss_ps is None and (asked or crashed):
        return "needs a time: --loss, as in --loss 1s"
    if asked or condition not in CRASH_CONDITIONS:
        return None
    if condition in (Condition.PERSISTENT, Condition.STRICT):
        return None if any(c.node in ("system", "client") for c in history.crashes) else "no process was killed"
    return None if crashed else "neither system nor server crashed"


class _Bench:
    """The judges of a history, and how each condition is put to them."""

    def __init__(self, history: HistoryFile, model: Model, subjects: Sequence[Subject], terms: Terms) -> None:
        self._history, self._model, self._subjects, self._terms = history, model, subjects, terms
        self._judges = {subject.key: judge_for(history, subject, model, terms) for subject in subjects}
        self._removed: dict[Hashable, ZoneJudge] = {}
        self._losing: dict[Hashable, SearchJudge] = {}
        """By object: who found that a crash has lost updates."""
        self._together: WholeJudge | None = None

    @property
    def _whole(self) -> WholeJudge:
        if self._together is None:
            args = (self._history, self._subjects, self._model, syncs(self._history), self._terms)
            self._together = WholeJudge(*args)
        return self._together

    def judge(self, condition: Condition) -> Judgement:
        began = time.perf_counter()
        rows: list[tuple[Subject | None, Opinion]]
        if condition is Condition.SESSION and self._follows():
            rows = [(None, Opinion(Verdict.HOLDS, 0, by="linearizable"))]
        elif condition in WHOLE:
            rows = [(None, self._whole.judge(condition, self._whole.acts))]
        elif condition is Condition.EXACTLY_ONCE:
            rows = [(subject, self._twice(subject)) for subject in self._subjects]
        else:
            rows = self._one_by_one(condition)
        seconds = time.perf_counter() - began
        by = tuple(dict.fromkeys(opinion.by for _, opinion in rows)) or ("zones",)
        steps = sum(opinion.steps for _, opinion in rows)
        wrong = [(subject, opinion) for subject, opinion in rows if opinion.verdict is Verdict.VIOLATED]
        if wrong:
            return Judgement(Verdict.VIOLATED, by, steps, seconds, self._witness(condition, wrong))
        open_ones = [(subject, opinion) for subject, opinion in rows if opinion.verdict is Verdict.UNDECIDED]
        if open_ones:
            subject, opinion = open_ones[0]
            name = "" if subject is None or subject.key is None else f"{key_text(subject.key)}: "
            more = f" (and {len(open_ones) - 1} more)" if len(open_ones) > 1 else ""
            return Judgement(Verdict.UNDECIDED, by, steps, seconds, undecided=f"{name}{opinion.explanation}{more}")
        order = {s.key: opinion.order for s, opinion in rows if s is not None and opinion.order is not None}
        return Judgement(Verdict.HOLDS, by, steps, seconds, order=order)

    def _follows(self) -> bool:
        """Whether a history is so large that ``session`` is taken from ``linearizable``, which it follows from."""
        if sum(len(subject.acts) for subject in self._subjects) < LARGE:
            return False
        rows = self._one_by_one(Condition.LINEARIZABLE)
        return all(opinion.verdict is Verdict.HOLDS for _, opinion in rows)

    def _one_by_one(self, condition: Condition) -> list[tuple[Subject | None, Opinion]]:
        """Each object by its judge: zones at once, searches in turns until one of them says no."""
        rows: list[tuple[Subject | None, Opinion]] = []
        searches: list[tuple[Subject, SearchJudge]] = []
        for subject in self._subjects:
            judge = self._judges[subject.key]
            if condition in ANY_MODEL and subject.removable is not None:
                rows.append((subject, self._lost(subject, condition)))
                continue
            if condition is Condition.COMMITTED and subject.removable is not None:
                rows.append((subject, self._invented(subject)))
                continue
            if condition in UNIQUE:
                judge = self._by_bounds(subject, judge)
            if not isinstance(judge, SearchJudge):
                rows.append((subject, replace(judge.judge(condition, subject.acts), by=judge.by)))
            elif (known := judge.at_once(condition, subject.acts)) is not None:
                rows.append((subject, known))
            else:
                searches.append((subject, judge))
        refuted = any(opinion.verdict is Verdict.VIOLATED for _, opinion in rows)
        if not refuted:
            rows += [(s, replace(opinion, by="search")) for s, opinion in take_turns(searches, condition, self._terms)]
        return rows

    def _by_bounds(self, subject: Subject, judge: Judge) -> ZoneJudge:
        """The judge of an object by a condition that needs no order; conditions that need one have a search."""
        if isinstance(judge, ZoneJudge):
            return judge
        if subject.key not in self._removed:
            self._removed[subject.key] = ZoneJudge(self._history, subject, self._terms.loss_ps)
        return self._removed[subject.key]

    def _lost(self, subject: Subject, condition: Condition) -> Opinion:
        """Whether a crash has lost updates of an object that is no register with unique values: searched, crash by
        crash.
        """
        spared_ps = (self._terms.loss_ps or 0) if condition is Condition.BOUNDED_LOSS else 0
        crashes_ps, steps, open_one = self._terms.crashes_ps, 0, None
        if crashes_ps is None:
            crashes_ps = tuple(self._history.eras_ps())
        for turn, at_ps in enumerate(crashes_ps):
            until_ps = crashes_ps[turn + 1] if turn + 1 < len(crashes_ps) else NEVER_PS
            if not any(_known_by(act.entry, at_ps) for act in subject.acts if not self._model.inert(act.call)):
                continue  # nothing had returned that could be lost
            judge = search_for(subject, self._model, self._terms, AroundCrash(at_ps, until_ps, spared_ps))
            opinion = judge.judge(Condition.LINEARIZABLE, subject.acts)
            steps += opinion.steps
            if opinion.verdict is Verdict.VIOLATED:
                self._losing[subject.key] = judge
                return replace(opinion, steps=steps, by=opinion.by or "search")
            if opinion.verdict is Verdict.UNDECIDED:
                open_one = opinion
        return Opinion(Verdict.HOLDS, steps, by="search") if open_one is None else replace(open_one, by="search")

    def _invented(self, subject: Subject) -> Opinion:
        rows = [(a.entry.line, a.entry.invoke_ps, _known_ps(a.entry), a.call) for a in subject.acts]
        invented = find_invented(rows)
        if invented is None:
            return Opinion(Verdict.HOLDS, len(rows), by="count")
        act = next(act for act in subject.acts if act.entry.line == invented.number)
        why = f"{act.text} {act.where}, but nobody had put {show(invented.item)} there"
        return Opinion(Verdict.VIOLATED, len(rows), (invented.number,), why, by="count")

    def _twice(self, subject: Subject) -> Opinion:
        eras_ps = self._history.eras_ps()
        acts = sorted([*subject.acts], key=lambda act: (act.entry.return_ps or act.entry.invoke_ps, act.entry.line))
        rows = [(a.entry.line, sum(c < (a.entry.return_ps or 0) for c in eras_ps), a.call) for a in acts]
        twice = find_twice(rows)
        if twice is None:
            return Opinion(Verdict.HOLDS, len(rows), by="count")
        text = next(f"{act.text} {act.where}" for act in acts if act.entry.line == twice.number)
        times = "once" if twice.put == 1 else f"{twice.put} times"
        why = f"{text}: {show(twice.item)} is there {twice.found} times, and was put there {times}"
        return Opinion(Verdict.VIOLATED, len(rows), (twice.number,), why, by="count")

    def _witness(self, condition: Condition, wrong: Sequence[tuple[Subject | None, Opinion]]) -> Witness:
        """Of the objects at fault, the one that was first."""
        bad: list[tuple[int, Subject, Judge | WholeJudge, Opinion]] = []
        for subject, opinion in wrong:
            judge: Judge | WholeJudge = self._whole if subject is None else self._judges[subject.key]
            one = Subject(None, self._whole.acts, [], False) if subject is None else subject
            at_ps, first = 0, opinion
            judge = self._losing.get(one.key, judge) if condition in ANY_MODEL else judge
            if condition in ORDERED or (condition in ANY_MODEL and isinstance(judge, SearchJudge)):
                at_ps, first = first_failure(judge, condition, one.acts, opinion)
            bad.append((at_ps, one, judge, first))
        at_ps, one, judge, first = min(bad, key=lambda row: row[0])
        if condition in ORDERED or (condition in ANY_MODEL and isinstance(judge, SearchJudge)):
            return self._piece(condition, one, judge, first, at_ps)
        everything = sorted([*one.acts, *one.failed], key=lambda act: (act.entry.invoke_ps, act.entry.line))
        by_line = {act.entry.line: act for act in everything}
        if condition is Condition.EXACTLY_ONCE:
            piece = [act for act in everything if act.entry.line == first.lines[0] or not self._model.inert(act.call)]
        else:
            piece = named_and_written(everything, first.lines)
        at_ps = max(by_line[line].entry.return_ps or 0 for line in first.lines)
        return Witness(one.key, by_line[first.lines[0]], first.explanation, tuple(piece), at_ps)

    def _piece(
        self, condition: Condition, one: Subject, judge: Judge | WholeJudge, first: Opinion, at_ps: int
    ) -> Witness:
        by_line = {act.entry.line: act for act in [*one.acts, *one.failed]}
        piece = shrink(judge, condition, self._model, one.acts, at_ps, first)
        opinion = judge.judge(condition, piece, at_ps)
        if opinion.verdict is not Verdict.VIOLATED:
            opinion = first
        named = named_and_written(one.failed, opinion.lines)
        returned = [act for act in one.acts if act.entry.return_ps == at_ps and act.entry.outcome == "ok"]
        named_stuck = by_line[opinion.lines[0]] if opinion.lines else piece[-1]
        stuck = next((act for act in piece if act in returned), named_stuck)
        rows = sorted([*piece, *named], key=lambda act: (act.entry.invoke_ps, act.entry.line))
        prefix, prefix_ps = None, None
        if condition in LOCAL:
            budget = SHRINKING_BUDGET if isinstance(judge, ItemJudge) else None  # no search has come so far before
            prefix_ps, prefix = prefix_of(condition, self._model, one, at_ps, self._terms, budget)
        return Witness(one.key, stuck, opinion.explanation, tuple(rows), at_ps, prefix, prefix_ps)
