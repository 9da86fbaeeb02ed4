"""Do the conditions that are not local agree with their definitions, on thousands of small histories with crashes?"""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.history import History
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.fitting import fit, syncs
from rpsim.validation.histories.judges import Terms
from rpsim.validation.histories.read import HistoryFile, parse_history
from rpsim.validation.histories.whole import WholeJudge
from rpsim.validation.oracle.conditions import buffered_zones
from rpsim.validation.oracle.models.simple import MODELS

from . import definitions
from .definitions import Row, Sync

BUFFERED, CUT, SESSION = Condition.BUFFERED, Condition.BUFFERED_CUT, Condition.SESSION


def random_whole(
    rng: random.Random, events: int = 13, model: str = "register", scoped: bool = False, keys: str = "xy"
) -> str:
    """A history of two objects by three processes: crashes, syncs, unknown outcomes, batches; values unique."""
    lines: list[dict[str, object]] = []
    pending: dict[int, dict[str, object]] = {}
    written: dict[str, list[int]] = {key: [] for key in keys}
    now, fresh, value = 0, 3, 0
    names = [0, 1, 2]
    for _ in range(events):
        now += rng.choice([0, 1, 1, 2])
        process = rng.choice(names)
        if rng.random() < 0.13:
            node = rng.choice(["system", "system", "server", "server", "client", "replica"])
            crash: dict[str, object] = {"type": "crash", "node": node, "time": now}
            if node == "client":
                crash["process"] = process
                pending.pop(process, None)
            elif node == "system":
                pending.clear()
                if rng.random() < 0.5:
                    names = [fresh, fresh + 1, fresh + 2]
                    fresh += 3
            lines.append(crash)
        elif process not in pending:
            key = rng.choice(keys)
            event: dict[str, object] = {"process": process, "type": "invoke", "key": key, "time": now}
            kind = rng.random()
            if kind < 0.1:
                event = {"process": process, "type": "invoke", "f": "sync", "time": now}
                if scoped and rng.random() < 0.8:
                    event["scope"] = rng.choice([key, [key], {"from": "x", "to": key}, {"session": process}])
            elif kind < 0.5:
                value += 1
                event |= {"f": {"register": "write", "queue": "enqueue", "append": "append"}[model], "value": value}
                written[key].append(value)
            else:
                event["f"] = {"register": "read", "queue": "dequeue", "append": "read"}[model]
            lines.append(event)
            pending[process] = event
        else:
            begun = pending.pop(process)
            event = {"process": process, "type": "ok", "f": begun["f"], "time": now}
            if rng.random() < 0.12:
                event["type"] = rng.choice(["info", "fail"])
            elif "value" not in begun and begun["f"] != "sync":
                known = written[str(begun["key"])]
                event["value"] = rng.choice([*known[-3:], known[-1] if known else None, None])
                if model == "append":
                    event["value"] = [v for v in known if rng.random() < 0.75]
            lines.append(event)
    return "\n".join(map(json.dumps, lines)) or "{}"


def plausible(rng: random.Random, operations: int, keys: str = "xy") -> str:
    """What a store that keeps a prefix may show: wide overlaps, a server that loses what came after the cut; a lie."""
    crashes = sorted(rng.sample(range(10, 60), rng.choice([1, 1, 2])))
    cuts = [rng.randrange(max(begin, crash - 25), crash) for begin, crash in zip([0, *crashes], crashes, strict=False)]
    busy = dict.fromkeys(range(4), 0)
    plans: list[tuple[int, int, int, int | None, str, str]] = []
    while len(plans) < operations:
        process = min(busy, key=busy.__getitem__)
        begin = busy.pop(process) + rng.randrange(1, 8)
        act = begin + rng.randrange(1, 14)
        end = act + rng.randrange(1, 14)
        returned = rng.random() < 0.9
        busy[process if returned else 10 + len(plans)] = end
        f = rng.choice(["write", "read", "read"])
        plans.append((act, process, begin, end if returned else None, f, rng.choice(keys)))
    rows: list[tuple[int, int, dict[str, object]]] = []
    state: dict[str, object] = {}
    kept: dict[str, object] = {}
    happens = [(act, 2, plan) for plan in plans for act in [plan[0]]]
    happens += [(cut, 0, None) for cut in cuts] + [(crash, 1, None) for crash in crashes]
    value = 0
    for at, kind, plan in sorted(happens, key=lambda row: row[:2]):
        if kind == 0:
            kept = dict(state)
        elif kind == 1:
            state = dict(kept)
            rows.append((at, 3, {"type": "crash", "node": "server", "time": at}))
        elif plan is not None:
            _, process, begin, end, f, key = plan
            event: dict[str, object] = {"process": process, "f": f, "key": key}
            result: dict[str, object] = {}
            if f == "write":
                value += 1
                event["value"] = state[key] = value
            else:
                lie = rng.random() < 0.1
                result = {"value": rng.randrange(1, value + 1) if lie and value else state.get(key)}
            rows.append((begin, 2, event | {"type": "invoke", "time": begin}))
            if end is not None:
                rows.append((end, 1, event | {"type": "ok", "time": end} | result))
    if rng.random() < 0.5:
        at = rng.randrange(60)
        rows.append((at, 2, {"process": 9, "type": "invoke", "f": "sync", "time": at}))
        rows.append((at + 1, 1, {"process": 9, "type": "ok", "f": "sync", "time": at + 1}))
    return "\n".join(json.dumps(row) for _, _, row in sorted(rows, key=lambda row: row[:2]))


def rows_of(history: HistoryFile, model: str) -> tuple[list[Row], list[Sync], list[int]]:
    acts = [act for subject in fit(history, MODELS[model]) for act in subject.acts]
    acts = [act for act in acts if act.entry.outcome == "ok" or not MODELS[model].inert(act.call)]
    rows = []
    for act in acts:
        entry = act.entry
        rows.append(Row(entry.key, act.call, entry.begin_ps, entry.return_ps, entry.dead_ps, entry.session))
    found = []
    for sync in syncs(history):
        covered = frozenset(i for i, act in enumerate(acts) if sync.covers(act.entry))
        found.append(Sync(sync.entry.invoke_ps, sync.entry.return_ps or 0, covered))
    return rows, found, history.eras_ps()


def whole_judge(history: HistoryFile, model: str) -> WholeJudge:
    subjects = fit(history, MODELS[model])
    return WholeJudge(history, subjects, MODELS[model], syncs(history), Terms())


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "scoped", "turns", "events"),
    [
        ("register", False, 600, 17),
        ("register", True, 600, 17),
        ("queue", True, 500, 14),
        ("append", False, 600, 14),
        pytest.param("register", False, 6000, 17, marks=pytest.mark.slow),
        pytest.param("register", True, 6000, 17, marks=pytest.mark.slow),
        pytest.param("queue", True, 4000, 14, marks=pytest.mark.slow),
        pytest.param("append", False, 4000, 14, marks=pytest.mark.slow),
    ],
)
def test_buffered_forms_are_what_their_definitions_say(model: str, scoped: bool, turns: int, events: int) -> None:
    rng = random.Random(11)
    seen: Counter[tuple[Condition, bool]] = Counter()
    ways: Counter[str] = Counter()
    for _ in range(turns):
        text = random_whole(rng, events, model, scoped)
        if "crash" not in text or '"key"' not in text:
            continue
        history = parse_history(text, "h")
        if not history.eras_ps():
            continue
        rows, asked, crashes = rows_of(history, model)
        judge = whole_judge(history, model)
        expected = {
            BUFFERED: definitions.buffered(MODELS[model], rows, asked, crashes),
            CUT: definitions.buffered_cut(MODELS[model], rows, asked, crashes),
        }
        assert expected[CUT] or not expected[BUFFERED], text
        for condition, holds in expected.items():
            opinion = judge.judge(condition, judge.acts)
            assert opinion.verdict is (Verdict.HOLDS if holds else Verdict.VIOLATED), (condition, text)
            seen[condition, holds] += 1
            ways[opinion.by] += 1
        if model == "register":  # the other way to the same answer
            opinion = judge._search(judge.eras(judge.acts), judge.acts, None)
            assert (opinion.verdict is Verdict.HOLDS) == expected[BUFFERED], text
            ways["search"] += 1
    assert min(seen[condition, holds] for condition in (BUFFERED, CUT) for holds in (True, False)) > 30, seen
    assert seen[BUFFERED, False] > seen[CUT, False]  # it is the stronger one
    assert model != "register" or min(ways["zones"], ways["search"]) > 100


@pytest.mark.long
def test_sessions_are_what_the_definition_says() -> None:
    rng = random.Random(12)
    seen: Counter[bool] = Counter()
    for _ in range(1000):
        text = random_whole(rng, 17)
        if '"key"' not in text:
            continue
        history = parse_history(text, "h")
        rows, _, crashes = rows_of(history, "register")
        judge = whole_judge(history, "register")
        holds = definitions.session(rows, crashes)
        assert (judge.judge(SESSION, judge.acts).verdict is Verdict.HOLDS) == holds, text
        seen[holds] += 1
    assert min(seen.values()) > 100, seen


@pytest.mark.long
def test_what_follows_from_what_is_asserted_on_every_history() -> None:
    rng = random.Random(13)
    seen: Counter[tuple[Condition, Verdict]] = Counter()
    for turn in range(750):
        text = random_whole(rng, 16, ("register", "queue", "append")[turn % 3], scoped=turn % 2 == 0)
        if '"key"' not in text:
            continue
        report = check_history(parse_history(text, "h"), loss_ps=2000)
        seen.update((condition, one.verdict) for condition, one in report.verdicts.items())
    assert {condition for condition, _ in seen} == set(Condition)
    assert not any(verdict is Verdict.UNDECIDED for _, verdict in seen)


@pytest.mark.long
def test_the_two_ways_to_judge_buffered_agree_on_longer_histories() -> None:
    rng = random.Random(14)
    seen: Counter[tuple[bool, bool]] = Counter()
    for turn in range(700):
        text = random_whole(rng, 40, keys="xyz") if turn % 2 else plausible(rng, 18)
        history = parse_history(text, "h")
        judge = whole_judge(history, "register")
        eras = judge.eras(judge.acts)
        zones = buffered_zones.find(eras) is None
        assert (judge._search(eras, judge.acts, None).verdict is Verdict.HOLDS) == zones
        seen[zones, bool(eras.crashes_ps)] += 1
    assert seen[False, True] > 100


def test_what_was_written_before_time_zero_may_be_lost_in_either_buffered_form():
    lines = [
        '{"process": "loader", "type": "invoke", "f": "put", "key": "k0", "value": 0, "time": -1}',
        '{"process": "loader", "type": "ok", "f": "put", "key": "k0", "value": 0, "time": -1}',
        '{"type": "crash", "node": "system", "time": 0}',
        '{"process": 2, "type": "invoke", "f": "get", "key": "k0", "time": 1}',
        '{"process": 2, "type": "ok", "f": "get", "key": "k0", "value": null, "time": 2}',
    ]
    report = check_history(parse_history("\n".join(lines), "h"), None, ["buffered", "buffered_cut"])
    assert {str(judgement.verdict) for judgement in report.verdicts.values()} == {"holds"}


def test_an_operation_that_takes_no_time_is_invoked_before_it_returns():
    history = History(frozenset({"put"}))
    waiting = history.invoke(0, "put", "k", 1, 5)
    history.complete(waiting, "ok", 9)
    history.complete(history.invoke(1, "put", "k", 2, 9), "ok", 9)
    told = [(json.loads(line)["process"], json.loads(line)["type"]) for line in history.lines()]
    assert told == [(0, "invoke"), (0, "ok"), (1, "invoke"), (1, "ok")]
    parse_history("\n".join(history.lines()), "run.jsonl")
