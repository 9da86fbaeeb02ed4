"""Do the sequential models do what plain Python objects do, and are parts that nothing ties judged alike apart?"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.fitting import fit
from rpsim.validation.histories.judges import SearchJudge
from rpsim.validation.histories.read import freeze, parse_history
from rpsim.validation.oracle.models.model import no_parts
from rpsim.validation.oracle.models.simple import ILLEGAL, MODELS, UNKNOWN, Call

Act = tuple[str, Any, Any]
"""What was asked for and what came back."""


def ordered_map(held: dict[int, int], rng: random.Random) -> Act:
    kind, key = rng.randrange(4), rng.randrange(4)
    if kind == 0:
        held[key] = rng.randrange(9)
        return "insert", [key, held[key]], None
    if kind == 1:
        held.pop(key, None)
        return "delete", key, None
    if kind == 2:
        return "find", key, held.get(key)
    low, high = rng.choice([None, key]), rng.choice([None, key + 1])
    return (
        "scan",
        [low, high],
        [[k, v] for k, v in sorted(held.items()) if (low is None or k >= low) and (high is None or k <= high)],
    )


def txn(held: dict[str, Any], rng: random.Random) -> Act:
    asked, told = [], []
    for _ in range(rng.randrange(1, 4)):
        key, kind = rng.choice("ab"), rng.choice("rwe")
        if kind == "r":
            asked.append(["r", key, None])
            told.append(["r", key, held.get(key)])
        elif kind == "w":
            asked.append(["w", key, rng.randrange(9)])
            held[key] = asked[-1][2]
            told.append(asked[-1])
        else:
            asked.append(["append", "list", rng.randrange(9)])
            held["list"] = [*held.get("list", []), asked[-1][2]]
            told.append(asked[-1])
    return "txn", asked, told


def allocator(held: dict[int, int], rng: random.Random) -> Act:
    if held and rng.random() < 0.4:
        address = rng.choice(list(held))
        del held[address]
        return "free", address, None
    size = rng.randrange(1, 4)
    free = [a for a in range(12) if all(a + size <= b or b + held[b] <= a for b in held)]
    if not free:
        return "alloc", size, None
    address = rng.choice(free)
    held[address] = size
    return "alloc", size, rng.choice([address, [address, size]])


def file(held: dict[str, bytearray], rng: random.Random) -> Act:
    data = held.setdefault("bytes", bytearray())
    kind, offset = rng.randrange(5), rng.randrange(6)
    text = "".join(rng.choice("xyz") for _ in range(rng.randrange(1, 4)))
    if kind == 0:
        data.extend(b"\0" * (offset - len(data)))
        data[offset : offset + len(text)] = text.encode()
        return "write", [offset, text], None
    if kind == 1:
        data.extend(text.encode())
        return "append", text, None
    if kind == 2:
        data.extend(b"\0" * (offset - len(data)))
        del data[offset:]
        return "truncate", offset, None
    if kind == 3:
        return "size", None, len(data)
    return "read", [offset, 3], data[offset : offset + 3].decode()


DOING: dict[str, Callable[[Any, random.Random], Act]] = {
    "ordered-map": ordered_map, "txn": txn, "allocator": allocator, "file": file,
}  # fmt: skip


@pytest.mark.parametrize("name", DOING)
def test_a_model_does_what_the_plain_object_does(name: str) -> None:
    rng = random.Random(31)
    model = MODELS[name]
    refused = looked = 0
    for _ in range(150):
        held: Any = {}
        state: Hashable = model.initial
        for _ in range(20):
            f, argument, result = DOING[name](held, rng)
            asked = freeze(argument)
            after = model.step(state, Call(f, asked, freeze(result)))
            assert after is not ILLEGAL, (f, argument, result)
            if model.inert(Call(f, asked, freeze(result))):
                assert after == state
                looked += 1
            if f in ("find", "scan", "size", "read"):
                refused += model.step(state, Call(f, asked, ("something", "else"))) is ILLEGAL
                assert model.step(state, Call(f, asked, UNKNOWN)) == state
            state = after
    assert looked > 20 or name == "txn"
    assert refused > 200 or name in ("txn", "allocator")


def test_blocks_that_overlap_and_what_is_not_there_are_refused() -> None:
    step = MODELS["allocator"].step
    state = step(frozenset(), Call("alloc", 4, 8))
    assert step(state, Call("alloc", 1, 11)) is ILLEGAL and step(state, Call("alloc", None, (6, 3))) is ILLEGAL
    assert step(state, Call("alloc", 4, 12)) is not ILLEGAL and step(state, Call("alloc", 8, 0)) is not ILLEGAL
    assert step(state, Call("free", 9)) is ILLEGAL
    assert step(step(state, Call("free", 8)), Call("alloc", 2, 9)) is not ILLEGAL


def test_a_transaction_reads_what_it_wrote_and_nothing_of_others() -> None:
    step = MODELS["txn"].step
    state = step(frozenset(), Call("txn", (("w", "x", 1), ("r", "x", None)), (("w", "x", 1), ("r", "x", 1))))
    assert state is not ILLEGAL
    assert step(state, Call("txn", (("r", "x", None),), (("r", "x", None),))) is ILLEGAL
    assert step(state, Call("txn", (("r", "y", None),), (("r", "y", ()),))) == state
    assert step(state, Call("txn", (("w", "y", 3), ("r", "x", None)), UNKNOWN)) is not ILLEGAL


def concurrent(name: str, rng: random.Random) -> str:
    """Overlapping operations of three processes that took effect in some order, or nearly."""
    held: Any = {}
    rows: list[tuple[int, dict[str, Any]]] = []
    busy = [0, 0, 0]
    for _ in range(rng.randrange(2, 8)):
        process = rng.randrange(3)
        begin = busy[process] + 1
        f, argument, result = DOING[name](held, rng)
        end = busy[process] = begin + rng.randrange(1, 6)
        event = {"process": process, "f": f}
        rows.append((begin, event | {"type": "invoke", "value": argument, "time": begin}))
        if rng.random() < 0.85:
            value = result if rng.random() < 0.9 or f != "find" else rng.randrange(9)
            back = {} if result is None and f not in ("find", "alloc") else {"value": value}
            rows.append((end, event | {"type": "ok", "time": end} | back))
        else:
            rows.append((end, event | {"type": "info", "time": end}))
    return "\n".join(json.dumps(row) for _, row in sorted(rows, key=lambda row: row[0]))


@pytest.mark.long
@pytest.mark.parametrize("name", ["ordered-map", "txn"])
def test_parts_judged_apart_and_all_together_agree(name: str) -> None:
    rng = random.Random(32)
    model = MODELS[name]
    seen: Counter[bool] = Counter()
    split = 0
    for _ in range(600):
        history = parse_history(concurrent(name, rng), "h")
        subjects = fit(history, model)
        split += len(subjects) > 1
        apart = all(
            SearchJudge(one, model).judge(Condition.LINEARIZABLE, one.acts).verdict is Verdict.HOLDS for one in subjects
        )
        (whole,) = fit(history, replace(model, parts=no_parts))
        together = SearchJudge(whole, model).judge(Condition.LINEARIZABLE, whole.acts).verdict is Verdict.HOLDS
        assert apart == together
        seen[apart] += 1
    assert min(seen.values()) > 30 and split > 100


def of(*events: dict[str, Any]) -> dict[str, str]:
    """The model that is meant, and what it says of operations one after the other."""
    lines = []
    for n, event in enumerate(events):
        result = event.pop("ok", None)
        lines.append({"process": 0, "type": "invoke", "time": 10 * n, **event})
        end = {"process": 0, "type": "ok", "f": event["f"], "time": 10 * n + 5}
        lines.append(end if result is None else end | {"value": result})
    report = check_history(parse_history("\n".join(map(json.dumps, lines)), "h"))
    verdicts = {str(condition): str(one.verdict) for condition, one in report.verdicts.items()}
    return {"model": report.model.name, "linearizable": verdicts["linearizable"]}


def test_the_model_is_the_first_whose_operations_and_values_fit() -> None:
    assert of({"f": "insert", "value": [1, 2]}, {"f": "find", "value": 1, "ok": 2})["model"] == "ordered-map"
    assert of({"f": "insert", "value": [1, 2]}, {"f": "find", "ok": [1, 2]})["model"] == "kv"
    assert of({"f": "send", "key": 64, "value": 3}, {"f": "read", "key": 64, "ok": 3})["model"] == "words"
    assert of({"f": "txn", "value": [["w", "x", 1]]})["model"] == "txn"
    assert of({"f": "alloc", "value": 8, "ok": 64}, {"f": "free", "value": 64}) == {
        "model": "allocator", "linearizable": "holds",
    }  # fmt: skip
    assert of({"f": "write", "value": [0, "ab"]}, {"f": "read", "value": [1, 2], "ok": "b"}) == {
        "model": "file", "linearizable": "holds",
    }  # fmt: skip
    assert of({"f": "alloc", "value": 8, "ok": 64}, {"f": "alloc", "value": 8, "ok": 70})["linearizable"] == "violated"
