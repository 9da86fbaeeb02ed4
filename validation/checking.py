"""A history file judged by conditions: every object by each, the verdicts, and what shows a violation."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from ..protocols.guarantees import Condition, Verdict
from ..sim.errors import InputError, Mistake, nearest
from .fitting import Act, Subject, fit, key_text, model_named
from .histories import HistoryFile
from .judges import ORDERED, Judge, Opinion, judge_for
from .oracle import assert_implications
from .oracle.models import Model
from .oracle.search import BUDGET
from .pieces import SHRINKING_BUDGET, first_failure, named_and_written, shrink

CRASH_CONDITIONS = frozenset({Condition.MONOTONIC, Condition.NO_LOST_ACK, Condition.DURABLE, Condition.STRICT})
"""Those that say nothing where nothing crashed; judged all the same if asked for by name."""


@dataclass(frozen=True)
class Witness:
    """What shows a violation: the object, the operation that cannot be placed, why, and the shortest failing piece."""

    key: Hashable
    act: Act
    explanation: str
    piece: tuple[Act, ...]
    at_ps: int
    """When it was certain: responses after it play no part."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on one condition. ``order`` is a legal order of each searched object, by lines, if it holds."""

    verdict: Verdict
    by: tuple[str, ...]
    """How: ``zones``, ``search``."""
    steps: int
    seconds: float
    witness: Witness | None = None
    undecided: str = ""
    order: Mapping[Hashable, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All verdicts on a history file, weakest condition first."""

    history: HistoryFile
    model: Model
    objects: int
    verdicts: Mapping[Condition, Judgement]
    not_judged: Mapping[Condition, str]
    """Conditions that do not apply, and why."""


def check_history(
    history: HistoryFile, model_name: str | None = None, conditions: Sequence[str] = (), budget: int = BUDGET
) -> Report:
    """Judge ``history`` by ``conditions`` (default: all that apply) of the named model (default: the first that fits).

    ``budget`` is how many steps the search of one object may take. Raises InputError for names that there are not, for
    values that are not the model's, and for conditions that do not apply but were asked for.
    """
    wanted = _conditions(conditions)
    model = model_named(model_name, history)
    subjects = fit(history, model)
    odd = _not_unique(subjects)
    judges = {subject.key: judge_for(history, subject, model) for subject in subjects}
    verdicts: dict[Condition, Judgement] = {}
    skipped: dict[Condition, str] = {}
    for condition in Condition:
        if condition not in (wanted or Condition):
            continue
        reason = _why_not(history, condition, odd, bool(wanted))
        if reason and wanted:
            raise InputError(Mistake(f"{condition} ({reason})", "a condition that applies", field="--condition"))
        if reason:
            skipped[condition] = reason
        elif condition is Condition.DURABLE and Condition.LINEARIZABLE in verdicts:
            verdicts[condition] = verdicts[Condition.LINEARIZABLE]  # the same question: see oracle/durable.py
        else:
            verdicts[condition] = _judge(judges, model, subjects, condition, budget)
    assert_implications({condition: judgement.verdict for condition, judgement in verdicts.items()})
    return Report(history, model, len(subjects), verdicts, skipped)


def _conditions(names: Sequence[str]) -> list[Condition]:
    known = [str(condition) for condition in Condition]
    for name in names:
        if name not in known:
            raise InputError(
                Mistake(f"'{name}'", f"one of {', '.join(known)}", field="--condition", nearest=nearest(name, known))
            )
    return [Condition(name) for name in names]


def _not_unique(subjects: Sequence[Subject]) -> str | None:
    for subject in subjects:
        reason = subject.unique
        if reason is not None:
            return reason
    return None


def _why_not(history: HistoryFile, condition: Condition, odd: str | None, asked: bool) -> str | None:
    if condition not in ORDERED and odd is not None:
        return f"needs registers with unique values: {odd}"
    if asked or condition not in CRASH_CONDITIONS:
        return None
    if condition is Condition.STRICT:
        return None if any(c.node in ("system", "client") for c in history.crashes) else "no process was killed"
    return None if any(crash.ends_era for crash in history.crashes) else "neither system nor server crashed"


def _judge(
    judges: Mapping[Hashable, Judge], model: Model, subjects: Sequence[Subject], condition: Condition, budget: int
) -> Judgement:
    began = time.perf_counter()
    steps, used = 0, []
    order: dict[Hashable, tuple[int, ...]] = {}
    undecided: list[str] = []
    wrong: list[tuple[Subject, Opinion]] = []
    for subject in subjects:
        judge = judges[subject.key]
        opinion = judge.judge(condition, subject.acts, budget=budget)
        steps += opinion.steps
        used.append(judge.by)
        if opinion.verdict is Verdict.UNDECIDED:
            name = "" if subject.key is None else f"{key_text(subject.key)}: "
            undecided.append(f"{name}{opinion.explanation}")
        elif opinion.verdict is Verdict.VIOLATED:
            wrong.append((subject, opinion))
        elif opinion.order is not None:
            order[subject.key] = opinion.order
    seconds = time.perf_counter() - began
    by = tuple(dict.fromkeys(used))
    if wrong:
        bad = []
        for subject, opinion in wrong:
            at_ps, first = 0, opinion
            if condition in ORDERED:
                at_ps, first = first_failure(judges[subject.key], condition, subject.acts, opinion)
            bad.append((at_ps, subject, first))
        at_ps, subject, first = min(bad, key=lambda row: row[0])
        witness = _witness(model, condition, subject, judges[subject.key], first, at_ps)
        return Judgement(Verdict.VIOLATED, by, steps, seconds, witness)
    if undecided:
        return Judgement(Verdict.UNDECIDED, by, steps, seconds, undecided=undecided[0])
    return Judgement(Verdict.HOLDS, by, steps, seconds, order=order)


def _witness(
    model: Model, condition: Condition, subject: Subject, judge: Judge, opinion: Opinion, at_ps: int
) -> Witness:
    everything = sorted([*subject.acts, *subject.failed], key=lambda act: (act.entry.invoke_ps, act.entry.line))
    by_line = {act.entry.line: act for act in everything}
    if condition not in ORDERED:
        piece = named_and_written(everything, opinion.lines)
        at_ps = max(by_line[line].entry.return_ps or 0 for line in opinion.lines)
        return Witness(subject.key, by_line[opinion.lines[0]], opinion.explanation, tuple(piece), at_ps)
    piece = shrink(judge, condition, model, subject.acts, at_ps, opinion)
    opinion = judge.judge(condition, piece, at_ps, SHRINKING_BUDGET)
    named = named_and_written(subject.failed, opinion.lines)
    returned = [act for act in subject.acts if act.entry.return_ps == at_ps and act.entry.outcome == "ok"]
    stuck = next((act for act in piece if act in returned), by_line[opinion.lines[0]])
    rows = sorted([*piece, *named], key=lambda act: (act.entry.invoke_ps, act.entry.line))
    return Witness(subject.key, stuck, opinion.explanation, tuple(rows), at_ps)
