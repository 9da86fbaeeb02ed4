"""Deletes in a history file: is each judged as a write of "absent" that is unique, whichever a read saw?

By the definition, tried on small histories: give each delete a value of its own, let each read that found nothing have
returned that of any delete which had begun, or the beginning. The history is at fault if it is for every choice.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import product

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.sim.errors import InputError
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

BOUNDS = (Condition.COMMITTED, Condition.MONOTONIC, Condition.BOUNDED_LOSS, Condition.NO_LOST_ACK)
LOSS_PS = 3_000


def history(rng, operations, crashes):
    """Operations of one process each, most of which return, and crashes of the server."""
    events, written = [], []
    for number in range(operations):
        f = rng.choice(["put", "delete", "get", "get"])
        begin = rng.randrange(0, 40, 2)
        end = begin + rng.randrange(2, 12, 2)
        head = {"process": number, "f": f}
        if f == "put":
            written.append((begin, number))
            head["value"] = number
        events.append((begin, 1, {**head, "type": "invoke", "time": begin}))
        if f == "get" or rng.random() < 0.8:
            kind = "fail" if f != "get" and rng.random() < 0.1 else "ok"
            events.append((end, 0, {**head, "type": kind, "time": end}))
    for _ in range(crashes):
        at = rng.randrange(15, 31, 2)
        events.append((at, 2, {"type": "crash", "node": "server", "time": at}))
    lines = [event for _, _, event in sorted(events, key=lambda row: row[:2])]
    for line in lines:
        if line["type"] == "ok" and line["f"] == "get":
            there = [value for begin, value in written if begin <= line["time"] or rng.random() < 0.05]
            line["value"] = rng.choice([None, *there])
    return lines


def violated(lines, conditions=BOUNDS, model="kv"):
    text = "\n".join(json.dumps({"key": "x", **line} if "f" in line else line) for line in lines)
    report = check_history(parse_history(text, "h.jsonl"), model, [str(c) for c in conditions], loss_ps=LOSS_PS)
    return {c for c, judgement in report.verdicts.items() if judgement.verdict is Verdict.VIOLATED}


def with_values_of_their_own(lines):
    """The histories without deletes that this one may stand for."""
    begun, choices = [], []
    for number, line in enumerate(lines):
        if line.get("f") == "delete" and line["type"] == "invoke":
            failed = any(o.get("process") == line["process"] and o["type"] == "fail" for o in lines)
            begun += [] if failed else [f"gone {line['process']}"]
        elif line["type"] == "ok" and line["f"] == "get" and line["value"] is None:
            choices.append([(number, value) for value in (None, *begun)])
    for chosen in product(*choices):
        named = [dict(line) for line in lines]
        for line in named:
            if line.get("f") == "delete":
                line |= {"f": "put", "value": f"gone {line['process']}"}
        for number, value in chosen:
            named[number]["value"] = value
        yield named


@pytest.mark.parametrize("crashes", [1, 2])
def test_a_history_is_at_fault_if_it_is_whichever_delete_each_read_saw(crashes):
    rng, seen = random.Random(crashes), Counter()
    for _ in range(100):
        lines = history(rng, rng.randrange(4, 8), crashes)
        found = violated(lines)
        certain = set.intersection(*(violated(one, model="register") for one in with_values_of_their_own(lines)))
        if crashes == 1:
            assert found == certain, lines
        else:  # what a read saw may have to be old for one crash and young for another: such a history passes
            assert found <= certain and (Condition.COMMITTED in found) is (Condition.COMMITTED in certain), lines
        seen.update(found)
    assert all(seen[condition] for condition in BOUNDS), seen


def test_what_has_an_order_breaks_no_weaker_condition():
    rng = random.Random(7)
    kept = 0
    for _ in range(100):
        lines = history(rng, 5, 1)
        if Condition.LINEARIZABLE not in violated(lines, [Condition.LINEARIZABLE]):
            assert not violated(lines), lines
            kept += 1
    assert kept > 20


def story(*operations):
    """(f, value, begin, end) one after the other, or a number: a crash."""
    lines = []
    for process, row in enumerate(operations):
        if isinstance(row, int):
            lines.append({"type": "crash", "node": "server", "time": row})
            continue
        f, value, begin, end = row
        said = {"value": value} if f != "delete" else {}
        lines.append({"process": process, "type": "invoke", "f": f, "time": begin, **(said if f == "put" else {})})
        lines += [{"process": process, "type": "ok", "f": f, "time": end, **said}] if end else []
    return lines


def test_a_delete_that_returned_is_not_undone_by_a_crash():
    lost = story(("put", 1, 0, 2), ("delete", None, 4, 6), 20, ("get", 1, 22, 24))
    assert violated(lost) == {Condition.NO_LOST_ACK, Condition.BOUNDED_LOSS}
    assert not violated(story(("put", 1, 0, 2), ("delete", None, 4, None), 20, ("get", 1, 22, 24)))


def test_a_delete_that_began_after_a_read_does_not_excuse_it():
    lost = story(("put", 1, 0, 2), 20, ("get", None, 22, 24), ("delete", None, 26, 28))
    assert Condition.NO_LOST_ACK in violated(lost)
    assert not violated(story(("put", 1, 0, 2), ("delete", None, 4, None), 20, ("get", None, 22, 24)))


def test_session_is_not_judged_and_says_why():
    lines = story(("put", 1, 0, 2), ("delete", None, 4, 6))
    with pytest.raises(InputError, match="delete x on line 3 is neither a read nor a write"):
        violated(lines, [Condition.SESSION])
    with pytest.raises(InputError, match="both write 1"):
        violated(story(("put", 1, 0, 2), ("put", 1, 4, 6), ("delete", None, 8, 9)), [Condition.COMMITTED])
