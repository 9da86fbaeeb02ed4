"""A history file as the operations of a sequential model: which model, object by object, and whether values fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...protocols.guarantees import Condition
from ...protocols.objects import LOOKS
from ...sim.errors import InputError, Mistake, nearest, unknown
from ...sim.yaml_source import describe
from ..oracle.known import NEVER_PS
from ..oracle.models.simple import FENCES, MODELS, READS, REMOVES, SYNCS, UNKNOWN, WRITES, Call, Model, Takes
from ..oracle.search.general import Interval
from .entries import FRESH
from .read import MOST_MISTAKES, HistoryEntry, HistoryFile, freeze, in_order, show
from .user_models import user_model
from .values import suits


@dataclass(frozen=True, eq=False, slots=True)
class Act:
    """An operation of the file as a call of the model; the result is UNKNOWN unless it returned ``ok``."""

    entry: HistoryEntry
    call: Call
    answers: Takes = Takes.SAME
    place: str = "line"

    @property
    def where(self) -> str:
        """Which operation of the history it is: ``(line 4)``."""
        return "(after recovery)" if self.entry.process == FRESH else f"({self.place} {self.entry.line})"

    def span(self, until_ps: int, condition: Condition = Condition.LINEARIZABLE) -> Interval:
        """The operation as the search sees it at ``until_ps``, with the deadline that ``condition`` sets."""
        entry = self.entry
        if entry.returned_by(until_ps):
            return Interval(entry.line, self.call, entry.begin_ps, entry.return_ps)
        by_ps = deadline_ps(entry, condition)
        by_ps = NEVER_PS if by_ps is None or by_ps > until_ps else by_ps
        return Interval(entry.line, Call(self.call.f, self.call.argument, UNKNOWN), entry.begin_ps, None, by_ps)

    @property
    def text(self) -> str:
        """``write x = 1``, ``read x -> 2``, ``cas x [1, 2] -> true``."""
        entry, call = self.entry, self.call
        if call.f == "txn" and entry.key is None:
            return f"txn {_steps_text(call, answered=entry.outcome == 'ok')}"
        words = [call.f, *([] if entry.key is None else [key_text(entry.key)])]
        if call.f in WRITES:
            words += ["=", show(call.argument)]
        elif entry.has_argument and entry.argument is not None:
            words.append(show(call.argument))
        if entry.outcome == "ok" and self.answers not in (Takes.SAME, Takes.NOTHING):
            result = call.result
            words += ["->", show(freeze(result) if isinstance(result, bool) else result)]
        return " ".join(words)


def deadline_ps(entry: HistoryEntry, condition: Condition) -> int | None:
    """By when an operation that has not returned took effect, if at all, as ``condition`` has it; None: at any time."""
    if condition is Condition.STRICT:
        return entry.killed_ps
    return entry.reborn_ps if condition is Condition.PERSISTENT else None


@dataclass(frozen=True, eq=False)
class Subject:
    """One object and its operations in the order of invocation, without those that certainly failed (``failed``)."""

    key: Hashable
    acts: list[Act]
    failed: list[Act]
    register: bool = True

    @property
    def unique(self) -> str | None:
        """None if this is a register that no two operations give the same value, else why not."""
        return self._distinct(())

    @property
    def removable(self) -> str | None:
        """The same where operations may also remove it: each leaves the same, absent, and yet is one of its own."""
        return self._distinct(REMOVES)

    def _distinct(self, besides: Sequence[str]) -> str | None:
        writers: dict[Hashable, HistoryEntry] = {}
        for act in self.acts:
            if self.register and (act.call.f in READS or act.call.f in besides):
                continue
            if not self.register or act.call.f not in WRITES:
                return f"{act.text} on line {act.entry.line} is neither a read nor a write"
            value = act.call.argument
            if value is None:
                return f"line {act.entry.line} writes null, which is the initial value"
            if value in writers:
                return f"lines {writers[value].line} and {act.entry.line} both write {show(value)}"
            writers[value] = act.entry
        return None


def _steps_text(call: Call, answered: bool) -> str:
    """The steps of a transaction: ``r x -> 1, w y = 2``."""
    words = []
    steps = call.result if answered and isinstance(call.result, tuple) else call.argument
    for kind, key, value in steps if isinstance(steps, tuple) else ():
        told = f" -> {show(value)}" if kind in LOOKS and answered else ""
        words.append(f"{kind} {key_text(key)}{told if kind in LOOKS else f' = {show(value)}'}")
    return ", ".join(words)


def key_text(key: Hashable) -> str:
    """An object's name, or those of several, as messages show it."""
    if isinstance(key, tuple) and all(isinstance(part, str) for part in key):
        return " and ".join(map(key_text, key))
    return key if isinstance(key, str) and key.isprintable() else show(key)


def model_named(name: str | None, history: HistoryFile) -> Model:
    """The model of that name (``file.py:Name``: a user's own), or the first that fits the history.

    Raises InputError if there is none.
    """
    if name is not None and name not in MODELS and (":" in name or name.endswith(".py")):
        return user_model(name)
    if name is not None:
        if name not in MODELS:
            raise InputError(unknown(name, MODELS, "one of {}, or path/to/file.py:Name", field="--model"))
        appends = name == "kv" and any(entry.f == "append" for entry in history.entries)
        return MODELS["kv-text" if appends else name]
    used = {entry.f: entry for entry in reversed(history.entries) if entry.f not in SYNCS + FENCES}
    fitting = [model for model in MODELS.values() if used.keys() <= model.operations.keys()]
    for model in fitting:
        if len(fitting) == 1 or not _all_misfits(history, model):
            return model
    if fitting:
        return fitting[0]
    everything = list(dict.fromkeys([f for model in MODELS.values() for f in model.operations] + [*SYNCS, *FENCES]))
    strange = [entry for f, entry in used.items() if f not in everything]
    if strange:
        raise InputError([_unknown_f(history, entry, everything, "an operation of a model") for entry in strange])
    together = " and ".join(sorted(used))
    raise InputError(Mistake(f"{together} together", "the operations of one model (name it: --model)", history.file))


def _unknown_f(history: HistoryFile, entry: HistoryEntry, known: list[str], what: str) -> Mistake:
    expected = f"{what}: {', '.join(known)}"
    return Mistake(describe(entry.f), expected, history.file, entry.line, "f", nearest(entry.f, known))


def _all_misfits(history: HistoryFile, model: Model) -> list[Mistake]:
    mistakes: list[Mistake] = []
    for entry in in_order(history.entries):
        if entry.f in model.operations:
            mistakes += _misfits(history, entry, *model.operations[entry.f])
        elif entry.f not in SYNCS + FENCES:
            known = [*model.operations, *SYNCS, *FENCES]
            mistakes.append(_unknown_f(history, entry, known, f"an operation of {model.name}"))
        if len(mistakes) >= MOST_MISTAKES:
            break
    return mistakes


def fit(history: HistoryFile, model: Model) -> list[Subject]:
    """The history's objects, in the order of their first operations; InputError where a value is not the model's.

    Keys that no operation ties together are objects of their own, and so are a model's own ``parts`` of one key.
    """
    mistakes = _all_misfits(history, model)
    if mistakes:
        raise InputError(mistakes)
    by_key: dict[Hashable, list[Act]] = {}
    for entry in in_order(history.entries):
        if entry.f in model.operations:
            argument = freeze(entry.argument) if entry.has_argument else None
            call = Call(entry.f, argument, _result(entry, model))
            by_key.setdefault(entry.key, []).append(Act(entry, call, model.operations[entry.f][1], history.place))
    subjects = []
    for key, acts in by_key.items():
        for name, together in _apart(key, acts, model):
            failed = [act for act in together if act.entry.outcome == "fail"]
            rest = [act for act in together if act.entry.outcome != "fail"]
            subjects.append(Subject(name, rest, failed, model.register))
    return subjects


def _apart(key: Hashable, acts: list[Act], model: Model) -> Iterable[tuple[Hashable, list[Act]]]:
    """The acts on one key by the components of the model's parts, each with a name."""
    touched = [model.parts(act.call) for act in acts]
    if any(parts is None and act.entry.outcome != "fail" for parts, act in zip(touched, acts, strict=True)):
        return [(key, acts)]
    above: dict[Hashable, Hashable] = {}

    def root(part: Hashable) -> Hashable:
        while above.setdefault(part, part) != part:
            above[part] = part = above[above[part]]
        return part

    for parts, act in zip(touched, acts, strict=True):
        for part in (parts or ())[1:] if act.entry.outcome != "fail" else ():
            above[root(part)] = root((parts or ())[0])
    groups: dict[Hashable, list[Act]] = {}
    for parts, act in zip(touched, acts, strict=True):
        groups.setdefault(root(parts[0]) if parts else None, []).append(act)
    names: dict[Hashable, list[Hashable]] = {}
    for part in above:
        names.setdefault(root(part), []).append(part)
    prefix = () if key is None else (key,)
    rows = []
    for group, some in groups.items():
        inside = names.get(group, [None])
        label: Hashable = (*prefix, *inside) if prefix or len(inside) > 1 else inside[0]
        rows.append((label, some))
    return rows


def _result(entry: HistoryEntry, model: Model) -> Hashable:
    if entry.outcome != "ok":
        return UNKNOWN
    takes = model.operations[entry.f][1]
    if takes in (Takes.SUCCESS, Takes.TRUTH):
        return entry.result is not False  # a comparison that says nothing has succeeded
    if takes in (Takes.TXN, Takes.POSTING) and not entry.has_result:
        return freeze(entry.argument)
    return freeze(entry.result) if entry.has_result and takes is not Takes.SAME else None


def _misfits(history: HistoryFile, entry: HistoryEntry, asks: Takes, answers: Takes) -> list[Mistake]:
    """The mistakes in the values of one operation."""
    wrong = []
    if not suits(asks, entry.argument, entry.has_argument):
        found = describe(entry.argument) if entry.has_argument else "no value"
        expected = f"{asks.value} in the invoke of {entry.f}"
        wrong.append(Mistake(found, expected, history.file, entry.line, "value"))
    elif entry.outcome == "ok":
        again = entry.has_argument and entry.has_result and entry.result == entry.argument
        if not suits(answers, entry.result, entry.has_result, again, entry.argument if entry.has_argument else None):
            found = describe(entry.result) if entry.has_result else "no value"
            expected = f"{answers.value} in the ok of {entry.f}"
            wrong.append(Mistake(found, expected, history.file, entry.return_line, "value"))
    return wrong


@dataclass(frozen=True, eq=False)
class Sync:
    """An operation that makes what returned before it durable; of the objects and sessions that ``covers`` accepts."""

    entry: HistoryEntry
    whole: bool
    covers: Callable[[HistoryEntry], bool]


def syncs(history: HistoryFile) -> Sequence[Sync]:
    """The syncs of a history that returned, in the order of invocation."""
    found = []
    for entry in in_order(history.entries):
        if entry.f in SYNCS and entry.outcome == "ok":
            scope = entry.scope if isinstance(entry.scope, dict) else freeze(entry.scope) if _scoped(entry) else None
            if scope is None and entry.key is None:
                found.append(Sync(entry, True, lambda other: True))
            else:
                found.append(Sync(entry, False, _coverage(entry.key if scope is None else scope)))
    return found


def _scoped(entry: HistoryEntry) -> bool:
    return isinstance(entry.scope, list | str | int | float) and entry.scope is not None


def _coverage(scope: Any) -> Callable[[HistoryEntry], bool]:
    """Which operations a scope takes in: a key, keys, a range of keys, or a connection."""
    if isinstance(scope, dict) and "session" in scope:
        connection = freeze(scope["session"])
        return lambda other: isinstance(other.session, tuple) and other.session[0] == connection
    if isinstance(scope, dict):
        low, high = scope["from"], scope["to"]
        return lambda other: _within(low, other.key, high)
    keys = scope if isinstance(scope, tuple) else (scope,)
    return lambda other: other.key in keys


def _within(low: Any, key: Any, high: Any) -> bool:
    return isinstance(key, str) == isinstance(low, str) == isinstance(high, str) and bool(low <= key <= high)
