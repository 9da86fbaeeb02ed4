"""A history file as the operations of a sequential model: which model, object by object, and whether values fit."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from ..sim.errors import InputError, Mistake, nearest
from ..sim.yaml_source import describe
from .histories import MOST_MISTAKES, Entry, HistoryFile, freeze, in_order, show
from .oracle.known import NEVER_PS
from .oracle.models import MODELS, READS, UNKNOWN, WRITES, Call, Model, Takes
from .oracle.search import Span


@dataclass(frozen=True, eq=False)
class Act:
    """An operation of the file as a call of the model; the result is UNKNOWN unless it returned ``ok``."""

    entry: Entry
    call: Call

    def span(self, until_ps: int, strict: bool) -> Span:
        """What the search sees of it at ``until_ps``; ``strict`` if it takes effect before what killed it or never."""
        entry = self.entry
        if entry.outcome == "ok" and entry.return_ps is not None and entry.return_ps <= until_ps:
            return Span(entry.line, self.call, entry.invoke_ps, entry.return_ps)
        killed = strict and entry.killed_ps is not None and entry.killed_ps <= until_ps
        by_ps = entry.killed_ps if killed and entry.killed_ps is not None else NEVER_PS
        return Span(entry.line, Call(self.call.f, self.call.argument, UNKNOWN), entry.invoke_ps, None, by_ps)

    @property
    def text(self) -> str:
        """``write x = 1``, ``read x -> 2``, ``cas x [1, 2] -> true``."""
        entry, call = self.entry, self.call
        words = [call.f, *([] if entry.key is None else [key_text(entry.key)])]
        if call.f in WRITES:
            words += ["=", show(call.argument)]
        elif entry.has_argument and entry.argument is not None:
            words.append(show(call.argument))
        if entry.outcome == "ok" and _RESULT[call.f] not in (Takes.SAME, Takes.NOTHING):
            result = call.result
            words += ["->", show(freeze(result) if isinstance(result, bool) else result)]
        return " ".join(words)


@dataclass(frozen=True, eq=False)
class Subject:
    """One object and what was done to it, in the order of invocation; without what certainly failed (``failed``)."""

    key: Hashable
    acts: list[Act]
    failed: list[Act]

    @property
    def unique(self) -> str | None:
        """None if this is a register that no two operations give the same value, else why not."""
        writers: dict[Hashable, Entry] = {}
        for act in self.acts:
            if act.call.f in READS:
                continue
            if act.call.f not in WRITES:
                return f"{act.text} on line {act.entry.line} is neither a read nor a write"
            value = act.call.argument
            if value is None:
                return f"line {act.entry.line} writes null, which is the initial value"
            if value in writers:
                return f"lines {writers[value].line} and {act.entry.line} both write {show(value)}"
            writers[value] = act.entry
        return None


def key_text(key: Hashable) -> str:
    """An object's name as messages show it."""
    return key if isinstance(key, str) and key.isprintable() else show(key)


def model_named(name: str | None, history: HistoryFile) -> Model:
    """The model of that name, or the first that has all of the history's operations; InputError if there is none."""
    if name is not None:
        if name not in MODELS:
            mistake = Mistake(
                f"'{name}'", f"one of {', '.join(MODELS)}", field="--model", nearest=nearest(name, MODELS)
            )
            raise InputError(mistake)
        return MODELS[name]
    used = {entry.f: entry for entry in reversed(history.entries)}
    for model in MODELS.values():
        if used.keys() <= model.operations.keys():
            return model
    everything = list(dict.fromkeys(f for model in MODELS.values() for f in model.operations))
    strange = [entry for f, entry in used.items() if f not in everything]
    if strange:
        raise InputError([_unknown_f(history, entry, everything, "an operation of a model") for entry in strange])
    together = " and ".join(sorted(used))
    raise InputError(Mistake(f"{together} together", "the operations of one model (name it: --model)", history.file))


def _unknown_f(history: HistoryFile, entry: Entry, known: list[str], what: str) -> Mistake:
    expected = f"{what}: {', '.join(known)}"
    return Mistake(describe(entry.f), expected, history.file, entry.line, "f", nearest(entry.f, known))


def fit(history: HistoryFile, model: Model) -> list[Subject]:
    """The history's objects, in the order of their first operations; InputError where a value is not the model's."""
    mistakes: list[Mistake] = []
    subjects: dict[Hashable, Subject] = {}
    for entry in in_order(history.entries):
        if entry.f not in model.operations:
            mistakes.append(_unknown_f(history, entry, list(model.operations), f"an operation of {model.name}"))
        else:
            mistakes += _misfits(history, entry, *model.operations[entry.f])
        if len(mistakes) >= MOST_MISTAKES:
            break
        if not mistakes:
            subject = subjects.setdefault(entry.key, Subject(entry.key, [], []))
            act = Act(
                entry, Call(entry.f, freeze(entry.argument) if entry.has_argument else None, _result(entry, model))
            )
            (subject.failed if entry.outcome == "fail" else subject.acts).append(act)
    if mistakes:
        raise InputError(mistakes)
    return list(subjects.values())


def _result(entry: Entry, model: Model) -> Hashable:
    if entry.outcome != "ok":
        return UNKNOWN
    takes = model.operations[entry.f][1]
    if takes in (Takes.SUCCESS, Takes.TRUTH):
        return entry.result is not False  # a comparison that says nothing has succeeded
    return freeze(entry.result) if entry.has_result and takes is not Takes.SAME else None


def _misfits(history: HistoryFile, entry: Entry, asks: Takes, answers: Takes) -> list[Mistake]:
    """What is wrong with the values of one operation."""
    wrong = []
    if not _suits(asks, entry.argument, entry.has_argument):
        found = describe(entry.argument) if entry.has_argument else "no value"
        expected = f"{asks.value} in the invoke of {entry.f}"
        wrong.append(Mistake(found, expected, history.file, entry.line, "value"))
    if entry.outcome == "ok":
        again = entry.has_argument and entry.has_result and entry.result == entry.argument
        if not _suits(answers, entry.result, entry.has_result, again):
            found = describe(entry.result) if entry.has_result else "no value"
            expected = f"{answers.value} in the ok of {entry.f}"
            wrong.append(Mistake(found, expected, history.file, entry.return_line, "value"))
    return wrong


def _suits(takes: Takes, value: Any, given: bool, again: bool = False) -> bool:
    match takes:
        case Takes.NOTHING:
            return not given or value is None
        case Takes.SAME:
            return not given or value is None or again
        case Takes.SUCCESS:
            return not given or isinstance(value, bool) or again
        case Takes.TRUTH:
            return isinstance(value, bool)
        case Takes.VALUE:
            return given
        case Takes.ITEM:
            return given and value is not None
        case Takes.NUMBER:
            return isinstance(value, int) and not isinstance(value, bool)
        case Takes.PAIR:
            return isinstance(value, list) and len(value) == 2
        case Takes.LIST:
            return isinstance(value, list)


_RESULT = {f: answers for model in MODELS.values() for f, (_, answers) in model.operations.items()}
