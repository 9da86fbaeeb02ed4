"""Are whole history files, with crashes of all kinds, judged as the definitions say?"""

from __future__ import annotations

import json
import random
import types
from collections import Counter

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.validation.histories import check as checking
from rpsim.validation.histories.check import Report, check_history
from rpsim.validation.histories.fitting import Act, fit
from rpsim.validation.histories.judges import SearchJudge, judge_for
from rpsim.validation.histories.read import HistoryFile, parse_history
from rpsim.validation.oracle import FINDERS
from rpsim.validation.oracle.conditions import durable, monotonic, no_lost_ack, persistent, strict
from rpsim.validation.oracle.known import NEVER_PS
from rpsim.validation.oracle.models.simple import MODELS
from rpsim.validation.oracle.search.general import Interval

from .spans import has_an_order, mutant

REGISTER = MODELS["register"]
BEFORE = -1
LINEARIZABLE, PERSISTENT, STRICT = Condition.LINEARIZABLE, Condition.PERSISTENT, Condition.STRICT
JUDGED = tuple(FINDERS)
"""The conditions on single registers; the others have files of their own."""
MONOTONIC, NO_LOST_ACK = Condition.MONOTONIC, Condition.NO_LOST_ACK


def random_file(rng: random.Random, events: int = 16, repeat: bool = False) -> str:
    """A history of one register: three processes at a time, crashes of every kind, values unique unless ``repeat``."""
    lines: list[dict[str, object]] = []
    pending: dict[int, dict[str, object]] = {}
    written: list[int] = []
    now, fresh = 0, 3
    names = [0, 1, 2]
    for _ in range(events):
        now += rng.randrange(3)
        process = rng.choice(names)
        act = rng.random()
        if act < 0.08:
            node = rng.choice(["system", "system", "server", "client", "replica"])
            crash: dict[str, object] = {"type": "crash", "node": node, "time": now}
            if node == "client":
                crash["process"] = process
                pending.pop(process, None)
            elif node == "system":
                pending.clear()
                if rng.random() < 0.5:  # ids that are fresh, or not
                    names = [fresh, fresh + 1, fresh + 2]
                    fresh += 3
            lines.append(crash)
        elif process not in pending:
            event: dict[str, object] = {"process": process, "type": "invoke", "f": "read", "time": now}
            if rng.random() < 0.5:
                value = rng.randrange(3) if repeat else len(written) + 1
                event |= {"f": "write", "value": value}
                written.append(value)
            lines.append(event)
            pending[process] = event
        else:
            event = {"process": process, "type": "ok", "f": pending[process]["f"], "time": now}
            kind = rng.random()
            if kind < 0.15:
                event["type"] = "info" if kind < 0.1 else "fail"
            elif event["f"] == "read":
                event["value"] = rng.choice([*written[-4:], written[-1] if written else None, None])
            lines.append(event)
            del pending[process]
    return "\n".join(map(json.dumps, lines)) or "{}"


def acts_of(history: HistoryFile) -> list[Act]:
    return [act for subject in fit(history, REGISTER) for act in subject.acts]


def violated(history: HistoryFile) -> set[Condition]:
    """By quantifiers and by trying all orders."""
    acts = acts_of(history)
    writes = {a.call.argument: a.entry for a in acts if a.call.f == "write"}
    reads = [a for a in acts if a.call.f == "read" and a.entry.outcome == "ok"]
    eras = [c.at_ps for c in history.crashes if c.node in ("system", "server")]
    answer = set()

    def is_version(read: Act) -> bool:
        value = read.call.result
        return value is None or (value in writes and writes[value].begin_ps <= read.entry.return_ps)

    def existed_ps(value: object) -> int:
        if value is None:
            return BEFORE
        entry = writes.get(value)
        times = [entry.return_ps] if entry is not None and entry.outcome == "ok" else []
        times += [r.entry.return_ps for r in reads if r.call.result == value and is_version(r)]
        return min(times, default=NEVER_PS)

    def written_ps(value: object) -> int:
        return BEFORE if value is None else writes[value].begin_ps

    if not all(is_version(read) for read in reads):
        answer.add(Condition.COMMITTED)
    for one in reads:
        for other in reads:
            around = any(one.entry.return_ps <= c < other.entry.invoke_ps for c in eras)
            if around and is_version(one) and existed_ps(other.call.result) < written_ps(one.call.result):
                answer.add(MONOTONIC)
    for crash_ps in eras:
        after = [r.call.result for r in reads if r.entry.invoke_ps > crash_ps]
        for update in writes.values():
            if update.outcome != "ok" or update.return_ps > crash_ps or not after:
                continue

            def age(value: object) -> int:
                if value is None or value not in writes:
                    return BEFORE
                return writes[value].return_ps if writes[value].outcome == "ok" else NEVER_PS

            older = [v for v in after if age(v) < update.begin_ps]
            newer = [v for v in after if age(v) >= update.begin_ps and writes[v].invoke_ps <= crash_ps]
            if older and not newer:
                answer.add(NO_LOST_ACK)
    spans = [act.span(NEVER_PS) for act in acts if act.call.f == "write" or act.entry.outcome == "ok"]
    if not has_an_order(REGISTER, spans):
        answer |= {LINEARIZABLE, Condition.DURABLE}
    for condition in (STRICT, PERSISTENT):
        rows = [deadline(act, history, condition) for act in acts if act.call.f == "write" or act in reads]
        if not has_an_order(REGISTER, rows):
            answer.add(condition)
    return answer


def deadline(act: Act, history: HistoryFile, condition: Condition) -> Interval:
    """An open operation takes effect by the first crash after it that killed its process, by the file's own lines.

    Or before the next invocation of that process after the crash.
    """
    span = act.span(NEVER_PS)
    if span.return_ps is not None:
        return span
    entry = act.entry
    kills = [
        crash.at_ps
        for crash in history.crashes
        if crash.line > entry.line
        and (crash.node == "system" or (crash.node == "client" and crash.process == entry.process))
    ]
    if condition is STRICT or not kills:
        return span._replace(by_ps=min(kills, default=NEVER_PS))
    again = [e.invoke_ps for e in history.entries if e.process == entry.process and e.line > first_kill(act, history)]
    before = max(min(again) - 1, min(kills)) if again else NEVER_PS  # the next operation is certainly later
    return span._replace(by_ps=before)


def first_kill(act: Act, history: HistoryFile) -> int:
    """The line of the crash that killed the process of ``act``."""
    return min(
        crash.line
        for crash in history.crashes
        if crash.line > act.entry.line
        and (crash.node == "system" or (crash.node == "client" and crash.process == act.entry.process))
    )


def found(report: Report) -> set[Condition]:
    return {condition for condition, one in report.verdicts.items() if one.verdict is Verdict.VIOLATED}


@pytest.mark.parametrize("node", ['"client", "process": 0', '"system"'])
@pytest.mark.parametrize(("f", "model"), [("write", "register"), ("cas", "cas-register")])
def test_a_killed_operation_is_over_before_its_process_goes_on(node: str, f: str, model: str) -> None:
    second = "[null, 2]" if f == "cas" else "2"
    events = [
        '{"process": 0, "type": "invoke", "f": "write", "value": 1, "time": 10}',
        f'{{"type": "crash", "node": {node}, "time": 20}}',
        f'{{"process": 0, "type": "invoke", "f": "{f}", "value": {second}, "time": 30}}',
        f'{{"process": 0, "type": "ok", "f": "{f}", "time": 40}}',
        '{"process": 1, "type": "invoke", "f": "read", "time": 50}',
        '{"process": 1, "type": "ok", "f": "read", "value": 1, "time": 60}',
    ]
    history = parse_history("\n".join(events), "a story")
    report = check_history(history, model, ["linearizable", "persistent", "strict"])
    assert found(report) == {PERSISTENT, STRICT}


@pytest.mark.long
def test_files_of_unique_values_are_judged_as_the_definitions_say() -> None:
    rng = random.Random(1)
    seen: Counter[tuple[Condition, bool]] = Counter()
    only_strict = only_persistent = 0
    for _ in range(2500):
        text = random_file(rng)
        if "invoke" not in text:
            continue
        history = parse_history(text, "h")
        report = check_history(history, "register", [str(c) for c in JUDGED])
        answer = found(report)
        assert answer == violated(history), text
        seen.update((condition, condition in answer) for condition in JUDGED)
        only_strict += answer == {STRICT}
        only_persistent += answer == {PERSISTENT, STRICT}
        for condition in answer:
            shown(report, condition)
    assert min(seen[condition, broken] for condition in JUDGED for broken in (True, False)) > 40, seen
    assert only_strict > 5 and only_persistent > 5, (only_strict, only_persistent)


def shown(report: Report, condition: Condition) -> None:
    """A piece of a violated order fails by itself, and nothing that may be taken away is left in it."""
    witness = report.verdicts[condition].witness
    assert witness is not None and witness.explanation and witness.act in witness.piece
    if condition in (LINEARIZABLE, PERSISTENT, STRICT):
        live = [act for act in witness.piece if act.entry.outcome != "fail"]
        assert not has_an_order(REGISTER, [a.span(witness.at_ps, condition) for a in live if told(a, witness.at_ps)])
        for value in {a.call.argument for a in live if a.call.f == "write"}:
            rest = [a for a in live if value not in (a.call.argument, a.call.result)]
            assert has_an_order(REGISTER, [a.span(witness.at_ps, condition) for a in rest if told(a, witness.at_ps)])


def told(act: Act, at_ps: int) -> bool:
    return act.call.f == "write" or (act.entry.outcome == "ok" and act.entry.return_ps <= at_ps)


@pytest.mark.long
def test_zones_and_search_agree_and_so_do_their_first_failures() -> None:
    rng = random.Random(2)
    seen: Counter[Verdict] = Counter()
    for _ in range(1500):
        text = random_file(rng, events=24)
        history = parse_history(text, "h")
        for subject in fit(history, REGISTER):
            assert subject.unique is None
            zones = judge_for(history, subject, REGISTER)
            for condition in (LINEARIZABLE, PERSISTENT, STRICT):
                one = zones.judge(condition, subject.acts)
                other = SearchJudge(subject, REGISTER).judge(condition, subject.acts, budget=100_000)
                assert one.verdict is other.verdict
                seen[one.verdict] += 1
    assert min(seen[Verdict.HOLDS], seen[Verdict.VIOLATED]) > 200


@pytest.mark.long
def test_files_of_values_that_repeat_go_to_the_search() -> None:
    rng = random.Random(3)
    seen: Counter[bool] = Counter()
    for _ in range(600):
        text = random_file(rng, events=14, repeat=True)
        if "invoke" not in text:
            continue
        history = parse_history(text, "h")
        conditions = [str(LINEARIZABLE), str(PERSISTENT), str(STRICT)]
        answer = found(check_history(history, "register", conditions))
        assert answer == violated(history) & {LINEARIZABLE, PERSISTENT, STRICT}
        seen[bool(answer)] += 1
    assert min(seen.values()) > 50


@pytest.mark.long
@pytest.mark.parametrize(
    ("condition", "module", "old", "new"),
    [
        pytest.param(*row[1:], id=row[0])
        for row in [
            ("the killed live on", STRICT, strict, "known.killed_ps)", "{})"),
            ("deadlines make writes happen", STRICT, durable, "finish_ps[value] < NEVER_PS or value", "True or value"),
            ("a read across is after", MONOTONIC, monotonic, "bisect_left(crashes_ps", "bisect_right(crashes_ps"),
            ("the reborn have time", PERSISTENT, persistent, "known.reborn_ps)", "{})"),
            ("the last crash of all counts", MONOTONIC, monotonic, "crashes_ps[crashes - 1]", "crashes_ps[-1]"),
            ("what came later survived", NO_LOST_ACK, no_lost_ack, "before and _age_ps", "_age_ps"),
            ("one stale read is a loss", NO_LOST_ACK, no_lost_ack, "continue\n        bad =", "pass\n        bad ="),
            (
                "acknowledged later is lost",
                NO_LOST_ACK,
                no_lost_ack,
                "spared_ps else crash_ps)",
                "spared_ps else NEVER_PS)",
            ),
        ]
    ],
)
def test_a_broken_judge_of_files_is_found_out(
    condition: Condition, module: types.ModuleType, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = mutant(module, old, new)
    if module is durable:
        monkeypatch.setattr(durable, "find_by", broken.find_by)
    else:
        monkeypatch.setitem(FINDERS, condition, broken.find)
    monkeypatch.setattr(checking, "assert_implications", lambda found: None)
    rng = random.Random(4)
    for _ in range(4000):
        text = random_file(rng, events=20)
        if "invoke" in text:
            history = parse_history(text, "h")
            one = check_history(history, "register", [str(condition)]).verdicts[condition]
            if (one.verdict is Verdict.VIOLATED) != (condition in violated(history)):
                return
    pytest.fail("nobody noticed")


QUEUE = """
{"process": 0, "type": "invoke", "f": "enqueue", "value": "a", "time": 1}
{"process": 0, "type": "ok", "f": "enqueue", "time": 2}
{"process": 0, "type": "invoke", "f": "enqueue", "value": "b", "time": 3}
{"process": 0, "type": "ok", "f": "enqueue", "time": 4}
{"process": 1, "type": "invoke", "f": "enqueue", "value": "c", "time": 5}
{"process": 1, "type": "ok", "f": "enqueue", "time": 6}
{"process": 1, "type": "invoke", "f": "dequeue", "time": 7}
{"process": 1, "type": "ok", "f": "dequeue", "value": "b", "time": 8}
{"process": 1, "type": "invoke", "f": "dequeue", "time": 9}
{"process": 1, "type": "ok", "f": "dequeue", "value": "a", "time": 10}
"""


def test_the_shortest_piece_of_a_queue() -> None:
    witness = check_history(parse_history(QUEUE, "q")).verdicts[LINEARIZABLE].witness
    assert witness is not None
    assert (witness.act.entry.line, [act.entry.line for act in witness.piece]) == (8, [2, 4, 8])
    assert witness.explanation == (
        'dequeue -> "b" (line 8) had returned, yet enqueue "a" (line 2) had returned before enqueue "b" (line 4) was '
        "invoked, and nobody had taken it out"
    )


def test_a_budget_that_is_spent_is_said() -> None:
    lines = []
    for n in range(12):
        lines.append({"process": n, "type": "invoke", "f": "enqueue", "value": max(n, 1), "time": 0})
    for n in range(12):
        lines.append({"process": n, "type": "ok", "f": "enqueue", "time": 1 + n})
    history = parse_history("\n".join(map(json.dumps, lines)), "q")
    one = check_history(history, budget=2000).verdicts[LINEARIZABLE]
    assert one.verdict is Verdict.UNDECIDED
    assert "given up at" in one.undecided and "of 12 responses" in one.undecided


RETRY = """
{"process": 0, "type": "invoke", "f": "write", "value": 1, "time": 1, "id": "a"}
{"process": 0, "type": "info", "f": "write", "time": 5}
{"process": 1, "type": "invoke", "f": "write", "value": 1, "time": 6, "retry_of": "a"}
{"process": 1, "type": "%s", "f": "write", "time": 8}
{"process": 2, "type": "invoke", "f": "write", "value": 2, "time": 10}
{"process": 2, "type": "ok", "f": "write", "time": 12}
{"process": 2, "type": "invoke", "f": "read", "time": 14}
{"process": 2, "type": "ok", "f": "read", "value": 1, "time": 16}
"""


@pytest.mark.parametrize(("kind", "verdict"), [("ok", "violated"), ("info", "holds"), ("fail", "holds")])
def test_a_retry_is_the_same_operation(kind: str, verdict: str) -> None:
    """When it returned ``ok`` its value is overwritten for good; when the first attempt is open, it may still land."""
    report = check_history(parse_history(RETRY % kind, "h"))
    assert len(report.history.entries) == 3
    assert report.verdicts[LINEARIZABLE].verdict == verdict


@pytest.mark.parametrize("model", ["register", "queue"])
def test_the_response_that_is_named_is_the_first_by_which_no_order_is_left(model: str) -> None:
    violated = 0
    for seed in range(200):
        history = parse_history(clients_of(random.Random(seed), model), "h")
        report = check_history(history, model, ["linearizable"])
        witness = report.verdicts[LINEARIZABLE].witness
        if witness is None:
            continue
        violated += 1
        (subject,) = report.subjects
        judge = judge_for(history, subject, report.model)
        ends_ps = sorted({act.entry.return_ps for act in subject.acts})
        wrong = (at for at in ends_ps if judge.judge(LINEARIZABLE, subject.acts, at).verdict is Verdict.VIOLATED)
        assert witness.at_ps == next(wrong)
    assert 50 < violated < 190


def clients_of(rng: random.Random, model: str) -> str:
    """Three clients that put unique values and get some of the latest of them."""
    put, get = ("write", "read") if model == "register" else ("enqueue", "dequeue")
    free, values, events = [0] * 3, [], []
    for number in range(1, 13):
        process = min(range(3), key=free.__getitem__)
        begin = free[process] + rng.randrange(1, 4)
        free[process] = begin + rng.randrange(1, 6)
        row = {"process": process, "f": put if rng.randrange(2) or not values else get}
        if row["f"] == put:
            values.append(number)
            asked, found = {"value": number}, {}
        else:
            asked, found = {}, {"value": rng.choice(values[-3:]) if model == "register" else values.pop(0)}
            if model == "queue" and len(values) > 1:
                found["value"], values[-1] = values[-1], found["value"]
        events.append((begin, 0, row | asked | {"type": "invoke"}))
        events.append((free[process], 1, row | found | {"type": "ok"}))
    return "\n".join(json.dumps(row | {"time": at}) for at, _, row in sorted(events, key=lambda event: event[:2]))
