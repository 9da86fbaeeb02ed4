"""The conditions on whole histories once more, by their literal definitions and brute force: no cleverness at all."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from rpsim.validation.oracle.models.simple import ILLEGAL, UNKNOWN, Call, Model

FOREVER = 10**15


class Row(NamedTuple):
    """An operation. ``dead_ps``: the crash of the system after which nothing of it is under way any more."""

    object: Hashable
    call: Call
    invoke_ps: int
    return_ps: int | None
    dead_ps: int | None
    session: Hashable = None


class Sync(NamedTuple):
    invoke_ps: int
    return_ps: int
    covered: frozenset[int]
    """The indices of the rows in its scope."""


def era_of(at_ps: int, crashes: Sequence[int]) -> int:
    return sum(crash < at_ps for crash in crashes)


# buffered: one execution ----------------------------------------------------------------------------------------


def buffered(model: Model, rows: Sequence[Row], syncs: Sequence[Sync], crashes: Sequence[int]) -> bool:
    """Some execution, era by era: an order, then a prefix of it that the next era starts from."""
    return _era(model, rows, syncs, crashes, 0, {}, frozenset())


State = dict[Hashable, Hashable]


def _era(
    model: Model,
    rows: Sequence[Row],
    syncs: Sequence[Sync],
    crashes: Sequence[int],
    era: int,
    state: State,
    placed: frozenset[int],
) -> bool:
    begin = crashes[era - 1] if era else -1
    end = crashes[era] if era < len(crashes) else FOREVER
    asked = [
        (FOREVER + i, sync) for i, sync in enumerate(syncs) if begin < sync.invoke_ps <= end and sync.return_ps <= end
    ]
    open_now = {
        i: (max(row.invoke_ps, begin), min(ends(row), end), row.return_ps is not None and row.return_ps <= end)
        for i, row in enumerate(rows)
        if i not in placed and row.invoke_ps <= end and (row.dead_ps is None or row.dead_ps > begin)
    }
    open_now |= {name: (sync.invoke_ps, sync.return_ps, True) for name, sync in asked}
    must = {i for i, (_, _, needed) in open_now.items() if needed}
    for order in _orders(model, rows, open_now, must, state, []):
        if era == len(crashes):
            return True
        last = max([k + 1 for k, i in enumerate(order) if _durable(model, rows, syncs, order, k)], default=0)
        for cut in range(last, len(order) + 1):
            after = _run(model, rows, order[:cut], state)
            taken = placed | {i for i in order if i < FOREVER}
            if _era(model, rows, syncs, crashes, era + 1, after, taken):
                return True
    return False


def ends(row: Row) -> int:
    if row.return_ps is not None:
        return row.return_ps
    return FOREVER if row.dead_ps is None else row.dead_ps


def _durable(model: Model, rows: Sequence[Row], syncs: Sequence[Sync], order: Sequence[int], k: int) -> bool:
    """Whether a sync after position ``k`` of ``order`` covers the update there."""
    if order[k] >= FOREVER or model.inert(rows[order[k]].call):
        return False
    return any(i >= FOREVER and order[k] in syncs[i - FOREVER].covered for i in order[k + 1 :])


def _orders(
    model: Model,
    rows: Sequence[Row],
    open_now: dict[int, tuple[int, int, bool]],
    must: set[int],
    state: State,
    so_far: list[int],
) -> Iterator[list[int]]:
    left = [i for i in open_now if i not in so_far]
    if not any(i in must for i in left):
        yield list(so_far)
    for i in left:
        begin = open_now[i][0]
        if any(open_now[j][1] < begin for j in left if j != i and j in must):
            continue
        if any(begin > open_now[j][1] for j in [i]) or any(open_now[i][1] < open_now[j][0] for j in so_far):
            continue
        after = state if i >= FOREVER else _run(model, rows, [i], state)
        if after is not None:
            yield from _orders(model, rows, open_now, must, after, [*so_far, i])


def _run(model: Model, rows: Sequence[Row], order: Sequence[int], state: State) -> State | None:
    state = dict(state)
    for i in order:
        if i >= FOREVER:
            continue
        row = rows[i]
        after = model.step(state.get(row.object, model.initial), row.call)
        if after is ILLEGAL:
            return None
        state[row.object] = after
    return state


# buffered_cut: a linearizable history for each era -----------------------------------------------------------------


def buffered_cut(model: Model, rows: Sequence[Row], syncs: Sequence[Sync], crashes: Sequence[int]) -> bool:
    """Some cuts, one in each era but the last."""
    instants = sorted({t for row in rows for t in (row.invoke_ps, row.return_ps) if t is not None})
    choices = []
    for era, crash in enumerate(crashes):
        begin = crashes[era - 1] if era else -1
        inside = [t for t in instants if begin < t <= crash]
        # just after an instant's invocations; after its responses too
        choices.append([begin, *(t for t in inside), *(t + 0.5 for t in inside if t < crash)])
    return any(_fits(model, rows, syncs, crashes, cuts) for cuts in product(*choices))


def _fits(
    model: Model, rows: Sequence[Row], syncs: Sequence[Sync], crashes: Sequence[int], cuts: Sequence[float]
) -> bool:
    forced = set()
    for sync in syncs:
        era = era_of(sync.invoke_ps, crashes)
        if era == era_of(sync.return_ps, crashes):
            for i in sync.covered:
                row = rows[i]
                early = row.return_ps is not None and row.return_ps < sync.invoke_ps
                if early and era_of(row.invoke_ps, crashes) == era and not model.inert(row.call):
                    forced.add(i)
                    if era < len(crashes) and row.invoke_ps > cuts[era]:
                        return False
    for era in range(len(crashes) + 1):
        fixed, optional = [], []
        for i, row in enumerate(rows):
            at = era_of(row.invoke_ps, crashes)
            if at > era:
                continue
            since = row.invoke_ps
            across = at < len(crashes) and ends(row) > crashes[at]
            if at < era and row.invoke_ps > cuts[at]:
                if not across:
                    continue
                since = crashes[at]
            answered = False
            if row.return_ps is not None:
                back = era_of(row.return_ps, crashes)
                answered = back == era or (back < era and (row.return_ps < cuts[back] or i in forced))
            unknown = Call(row.call.f, row.call.argument, UNKNOWN)
            if answered and not across:
                fixed.append((since, row.return_ps, row.object, row.call))
            else:
                optional.append((since, row.return_ps if answered else FOREVER, row.object, unknown))
        if not any(
            _linear(model, fixed + [row for row, take in zip(optional, taken, strict=True) if take], {})
            for taken in product((False, True), repeat=len(optional))
        ):
            return False
    return True


def _linear(model: Model, rows: list[tuple[int, int, Hashable, Call]], state: State) -> bool:
    if not rows:
        return True
    for i, (begin, _, name, call) in enumerate(rows):
        if any(other[1] < begin for other in rows):
            continue
        after = model.step(state.get(name, model.initial), call)
        if after is not ILLEGAL and _linear(model, rows[:i] + rows[i + 1 :], state | {name: after}):
            return True
    return False


# session: an order for each session and era -----------------------------------------------------------------------


def session(rows: Sequence[Row], crashes: Sequence[int]) -> bool:
    """Registers: for each session and era, some order of updates and of that session's reads."""
    for era in range(len(crashes) + 1):
        end = crashes[era] if era < len(crashes) else FOREVER
        begin = crashes[era - 1] if era else -1
        here = [row for row in rows if begin < row.invoke_ps <= end]
        for name in {row.session for row in here}:
            reads = [
                row
                for row in here
                if row.session == name and row.call.f == "read" and row.return_ps is not None and row.return_ps <= end
            ]
            old = [row for row in rows if row.call.f == "write" and row.invoke_ps <= begin]
            new = [row for row in here if row.call.f == "write"]
            if reads and not _session_order(reads, old, new, end):
                return False
    return True


def _session_order(reads: list[Row], old: list[Row], new: list[Row], end: int) -> bool:
    sure = [row for row in new if row.return_ps is not None and row.return_ps <= end]
    maybe = [row for row in new if row not in sure] + old
    for taken in product((False, True), repeat=len(maybe)):
        chosen = [row for row, take in zip(maybe, taken, strict=True) if take]
        if _some_order(reads + sure + chosen, set(map(id, old)), end, {}):
            return True
    return False


def _some_order(rows: list[Row], old: set[int], end: int, state: State) -> bool:
    if not rows:
        return True
    for i, row in enumerate(rows):
        if any(
            other.session == row.session
            and id(other) not in old
            and id(row) not in old
            and other.return_ps is not None
            and other.return_ps <= end
            and other.return_ps < row.invoke_ps
            for other in rows
        ):
            continue
        if row.call.f == "read" and state.get(row.object) != row.call.result:
            continue
        after = state | {row.object: row.call.argument} if row.call.f == "write" else state
        if _some_order(rows[:i] + rows[i + 1 :], old, end, after):
            return True
    return False
