"""Who judges a whole history by the conditions that are not local: the buffered ones, and ``session``.

A judge answers as those of single objects do (see ``judges``): for a set of operations as known at an instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from ...protocols.guarantees import Condition, Verdict
from ..oracle.conditions import buffered, buffered_cut, buffered_zones, session
from ..oracle.eras import Barrier, Eras, Op, Tag
from ..oracle.known import NEVER_PS
from ..oracle.models.simple import UNKNOWN, Call, Model, State
from ..oracle.search.general import Search
from ..oracle.wording import moment_text
from .fitting import Act, Subject, Sync, key_text
from .judges import Opinion, Terms, told
from .read import HistoryEntry, HistoryFile, show


class WholeJudge:
    """All objects of a history together."""

    def __init__(
        self, history: HistoryFile, subjects: Sequence[Subject], model: Model, syncs: Sequence[Sync], terms: Terms
    ) -> None:
        self.acts = sorted((act for s in subjects for act in s.acts), key=lambda a: (a.entry.invoke_ps, a.entry.line))
        self._history, self._subjects, self._model, self._terms = history, subjects, model, terms
        self._index: Mapping[Act, int] = {act: n for n, subject in enumerate(subjects) for act in subject.acts}
        self.registers = all(subject.unique is None for subject in subjects)
        self._tags = {act: _tag(n, act.entry) for act, n in self._index.items()}
        self._barriers = _barriers(syncs, self._tags)
        self._text = {act.entry.line: act for act in self.acts}

    def judge(
        self, condition: Condition, acts: Sequence[Act], until_ps: int = NEVER_PS, budget: int | None = None
    ) -> Opinion:
        """The answer about ``acts`` at ``until_ps``; undecided after ``budget`` steps."""
        eras = self.eras(acts, until_ps)
        if condition is Condition.SESSION:
            return self._session(eras)
        if condition is Condition.BUFFERED:
            if self.registers:
                with suppress(buffered_zones.NotForZones):
                    return self._zones(eras)
            return self._search(eras, acts, budget)
        return self._cuts(eras, acts, budget)

    def eras(self, acts: Sequence[Act], until_ps: int = NEVER_PS) -> Eras:
        """The operations as they were known at ``until_ps``."""
        ops = []
        for act in acts:
            entry = act.entry
            if entry.invoke_ps > until_ps:
                continue
            returned = entry.returned_by(until_ps)
            call = act.call if returned else Call(act.call.f, act.call.argument, UNKNOWN)
            dead_ps = None if entry.dead_ps is None or entry.dead_ps > until_ps else entry.dead_ps
            return_ps = entry.return_ps if returned else None
            op = Op(entry.line, self._index[act], call, entry.begin_ps, return_ps, dead_ps, self._tags[act])
            ops.append(op)
        crashes_ps = [at_ps for at_ps in self._history.eras_ps() if at_ps <= until_ps]
        barriers = [barrier for barrier in self._barriers if barrier.return_ps <= until_ps]
        return Eras(self._model, len(self._subjects), ops, barriers, crashes_ps)

    def _name(self, object: int) -> str:
        key = self._subjects[object].key
        return "the object" if key is None else key_text(key)

    def _at(self, at_ps: int) -> str:
        return moment_text(at_ps, self._history.time_zero_ns, self._history.timed)

    def _where(self, number: int) -> str:
        act = self._text[number]
        return f"{act.text} {act.where}"

    def _held(self, values: Sequence[tuple[int, State]]) -> str:
        return " and ".join(f"{self._name(object)} = {show(value)}" for object, value in values[:4])

    def _zones(self, eras: Eras) -> Opinion:
        clash = buffered_zones.find(eras)
        if clash is None:
            return Opinion(Verdict.HOLDS, len(eras.ops), by="zones")
        lines = tuple(sorted(clash.numbers, key=lambda line: -(self._text[line].entry.return_ps or 0)))
        crash, when = "a crash", "without any crash"
        if clash.era < len(eras.crashes_ps):
            crash = f"the crash at {self._at(eras.crashes_ps[clash.era])}"
            when = f"before {crash}"
        elif eras.crashes_ps:
            when = f"after the crash at {self._at(eras.crashes_ps[-1])}"
        why = clash.reason.format(held=self._held(clash.values), crash=crash, when=when)
        return Opinion(Verdict.VIOLATED, len(eras.ops), lines, why, by="zones")

    def _search(self, eras: Eras, acts: Sequence[Act], budget: int | None) -> Opinion:
        model, spans = buffered.spans_of(eras)
        answer = Search(model, spans, self._terms.fresh(budget)).run()
        object = self._index[self._text[answer.stuck]] if answer.stuck in self._text else 0
        states = tuple(dict.fromkeys(buffered.now(state, object) for state in answer.states))
        opinion = told(answer, acts, self._name(object), states)
        order = tuple(line for line in opinion.order or () if line > 0)
        return Opinion(
            opinion.verdict,
            opinion.steps,
            opinion.lines,
            opinion.explanation,
            order,
            opinion.passed,
            opinion.of,
            "search",
        )

    def _cuts(self, eras: Eras, acts: Sequence[Act], budget: int | None) -> Opinion:
        if self.registers:
            found = buffered_cut.find_in_registers(eras)
        else:
            found = buffered_cut.CutSearch(eras, self._terms.fresh(budget)).run()
        by = "zones" if self.registers else "search"
        if found.verdict is Verdict.HOLDS:
            return Opinion(Verdict.HOLDS, found.steps, by=by)
        if found.verdict is Verdict.UNDECIDED and found.answer is not None:
            opinion = told(found.answer, acts, self._name(found.object), found.answer.states)
            return Opinion(found.verdict, found.steps, opinion.lines, opinion.explanation, by=by)
        if found.verdict is Verdict.UNDECIDED:
            return Opinion(found.verdict, found.steps, (), f"given up after {found.steps} steps", by=by)
        lines = tuple(sorted(found.numbers, key=lambda line: -(self._text[line].entry.return_ps or 0)))
        after = f"after {found.era} crash{'es' if found.era > 1 else ''}" if found.era else "before any crash"
        what = " and ".join(self._where(line) for line in lines[:3])
        why = f"{what}, {after}: no order, wherever the eras before it are cut off"
        return Opinion(Verdict.VIOLATED, found.steps, lines, why, by=by)

    def _session(self, eras: Eras) -> Opinion:
        found = session.find(eras)
        if found.verdict is Verdict.HOLDS:
            return Opinion(Verdict.HOLDS, found.steps, by="session")
        if found.verdict is Verdict.UNDECIDED:
            why = "overlapping reads of one session: no order was found, and none was ruled out"
            return Opinion(found.verdict, found.steps, (), why, by="session")
        read = self._where(found.read)
        if found.seen < 0 and found.writer < 0:
            why = f"{read}, but nobody wrote that"
        elif found.seen < 0:
            why = f"{read}, but its session had been past it before {self._where(found.writer)}"
        elif found.writer < 0:
            why = f"{read}, but its session was past {self._where(found.seen)}"
        else:
            why = f"{read}, but its session was past {self._where(found.seen)}, and that comes after what it read"
        lines = tuple(line for line in (found.read, found.seen, found.writer) if line >= 0)
        return Opinion(Verdict.VIOLATED, found.steps, lines, why, by="session")


def _tag(object: int, entry: HistoryEntry) -> Tag:
    return object, entry.key, entry.session


def _barriers(syncs: Sequence[Sync], tags: Mapping[Act, Tag]) -> list[Barrier]:
    """Syncs with the tags that their scope takes in."""
    samples: dict[Tag, HistoryEntry] = {tag: act.entry for act, tag in tags.items()}
    barriers = []
    for sync in syncs:
        covered: frozenset[Tag] | None = None
        if not sync.whole:
            covered = frozenset(tag for tag, entry in samples.items() if sync.covers(entry))
        if sync.entry.return_ps is not None:
            barriers.append(Barrier(sync.entry.invoke_ps, sync.entry.return_ps, covered))
    return barriers
