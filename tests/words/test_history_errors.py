"""What is said of a history file that is wrong: line, field, found, expected, and the nearest name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.sim.errors import InputError
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import HistoryFile, parse_history, read_history

WRITE = '{"process": 0, "type": "invoke", "f": "write", "key": "x", "value": 1, "time": 10}'
OK = '{"process": 0, "type": "ok", "f": "write", "key": "x", "value": 1, "time": 25}'
CRASH = '{"type": "crash", "node": "system", "time": 30}'


def complaints(*lines: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        check_history(parse_history("\n".join(lines), "h.jsonl"))
    return [str(mistake) for mistake in caught.value.mistakes]


def parsed(*lines: str) -> HistoryFile:
    return parse_history("\n".join(lines), "h.jsonl")


def edited(line: str, **fields: object) -> str:
    data = json.loads(line) | fields
    return json.dumps({name: value for name, value in data.items() if value != "GONE"})


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "h.jsonl: found no operations, expected at least one line of type invoke"),
        (["{"], "h.jsonl:1: found '{', which is no JSON at column 2, expected a JSON object"),
        (
            [edited(WRITE, batch=1), edited(WRITE, batch=1, key="y"), edited(OK, key="GONE")],
            "h.jsonl:3: batch: found ok of one of 2 operations of the batch 1, expected the batch (all of them), or",
        ),
        (
            [edited(WRITE, batch=1), edited(WRITE, batch=1, key="y"), edited(OK, batch=1, value=[1, 2, 3])],
            "value: found a list of 3, expected a list of 2 results, one for each of the batch",
        ),
        ([edited(WRITE, batch=1), edited(OK, batch=2)], "h.jsonl:2: batch: found 2, expected 1, the batch under way"),
        ([edited(OK, type="applied")], "type: found applied of process 0, of nothing that returned, expected the ok"),
        (
            [WRITE, OK, edited(WRITE, f="sync", scope={"form": 1}, time=30)],
            'scope: found a list of 1, expected a key, a list of keys, {"from": a, "to": b} or {"session": s}',
        ),
        (["[1, 2]"], "h.jsonl:1: found a list of 2, expected a JSON object: one event a line"),
        (["{:process 0, :type :invoke}"], "h.jsonl:1: f: found nothing, expected the name of an operation"),
        ([edited(WRITE, time="soon")], "h.jsonl:1: time: found 'soon', expected the time in nanoseconds"),
        ([edited(WRITE, time="GONE")], "h.jsonl:1: time: found nothing, expected the time in nanoseconds"),
        ([edited(WRITE, time=True)], "h.jsonl:1: time: found true, expected the time in nanoseconds"),
        ([edited(WRITE, time=10**400)], "expected the time in nanoseconds"),
        (['{"time": NaN}'], "h.jsonl:1: found NaN, which is no JSON"),
        (['{"time": 1, "time": 2}'], "h.jsonl:1: found the field 'time' twice"),
        ([edited(WRITE, proces=1)], "h.jsonl:1: found a field 'proces', expected fields among process, type"),
        ([edited(WRITE, proces=1)], "did you mean 'process'?"),
        (
            [edited(WRITE, type="invok")],
            "type: found 'invok', expected one of invoke, ok, fail, info, applied, crash; did you",
        ),
        ([edited(WRITE, process=None)], "h.jsonl:1: process: found nothing, expected the number or name of a process"),
        ([edited(WRITE, f=7)], "h.jsonl:1: f: found 7, expected the name of an operation"),
        ([edited(WRITE, f="wirte")], "h.jsonl:1: f: found 'wirte', expected an operation of a model: read"),
        ([edited(WRITE, f="wirte")], "did you mean 'write'?"),
        ([edited(WRITE, value="GONE")], "h.jsonl:1: value: found no value, expected a value in the invoke of write"),
        ([OK], "h.jsonl:1: type: found ok of process 0, which has no operation under way, expected an invoke first"),
        (
            [WRITE, edited(WRITE, time=12, value=2)],
            "h.jsonl:2: process: found a second operation of process 0, whose write of line 1 is open, "
            "expected a response of that one first",
        ),
        ([WRITE, edited(OK, time=9)], "h.jsonl:2: time: found 9, expected at least 10, the time of line 1"),
        ([WRITE, edited(OK, f="read")], "h.jsonl:2: f: found 'read', expected \"write\", as invoked on line 1"),
        ([WRITE, edited(OK, key="y")], "h.jsonl:2: key: found 'y', expected \"x\", as invoked on line 1"),
        ([WRITE, edited(OK, value=2)], "h.jsonl:2: value: found 2, expected nothing, or the invocation's value again"),
        (
            [WRITE, CRASH, edited(OK, time=40)],
            "h.jsonl:3: type: found ok of an operation that the crash of the system on line 2 had killed, "
            "expected an invoke first (a crash of the server alone: node server)",
        ),
        (
            [edited(CRASH, node="sytem")],
            "node: found 'sytem', expected one of system, server, client, replica; did you",
        ),
        ([edited(CRASH, node="client")], "process: found nothing, expected which client process crashed"),
        ([edited(CRASH, f="write")], "f: found 'write', expected no f in the crash of a system"),
        (
            [WRITE, OK, edited(WRITE, key="GONE", time=30)],
            "h.jsonl:3: key: found nothing, expected a key, as on line 1",
        ),
        ([edited(WRITE, retry_of="a")], "retry_of: found 'a', expected the id of an earlier operation"),
        (
            [edited(WRITE, id="a"), OK, edited(WRITE, id="a", time=30, value=2)],
            "h.jsonl:3: id: found 'a', expected an id of its own (line 1 has this one)",
        ),
        (
            [edited(WRITE, f="cas", value=[1]), edited(OK, f="cas", value=[1])],
            "value: found a list of 1, expected a list of two: [expected, new] in the invoke of cas",
        ),
        (
            [edited(WRITE, f="enqueue", value=None)],
            "found nothing, expected a value, not null in the invoke of enqueue",
        ),
        (
            [edited(WRITE, f="cas", value=[1, 2]), edited(OK, f="cas", value=[1, 2]), edited(WRITE, f="push", time=30)],
            "h.jsonl: found cas and push together, expected the operations of one model (name it: --model)",
        ),
        (
            [edited(WRITE, f="read", value=None), edited(OK, f="read", value="GONE")],
            "h.jsonl:2: value: found no value, expected a value in the ok of read",
        ),
        ([WRITE, edited(OK, time=10**17)], "h.jsonl:2: time: found 100000000000000000, expected at most"),
    ],
)
def test_a_mistake_is_told_in_its_line(lines, message):
    found = complaints(*lines)
    assert any(message in one for one in found), found
    assert all("\n" not in one for one in found)


def test_one_mistake_is_told_once():
    assert len(complaints(edited(WRITE, tme=3), OK)) == 1
    assert len(complaints("{", OK, edited(OK, time=26))) == 1


def test_all_mistakes_are_told_but_no_more_than_twenty():
    assert len(complaints(edited(WRITE, tme=3), edited(CRASH, node="x"))) == 2
    assert len(complaints(*["{"] * 50)) == 20


@pytest.mark.parametrize(
    "name_and_bytes",
    [("absent.jsonl", None), ("binary.jsonl", b"{}\n\xff\xfe"), ("folder", "mkdir")],
    ids=lambda pair: pair[0],
)
def test_files_that_cannot_be_read(name_and_bytes, tmp_path):
    name, content = name_and_bytes
    path: Path = tmp_path / name
    if content == "mkdir":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=name):
        read_history(path)


def test_what_is_not_wrong():
    assert parsed(WRITE, "", OK, "").entries[0].outcome == "ok"
    assert parsed(WRITE, '{"process": "nemesis", "type": "info", "f": "kill", "time": 12}').entries[0].outcome is None
    assert parsed(WRITE, CRASH, edited(WRITE, time=40, value=2)).entries[0].killed_ps == 30_000
    shifted = parsed(edited(WRITE, time=1_700_000_000_000_000_000), edited(OK, time=1_700_000_000_000_000_007))
    assert (shifted.entries[0].invoke_ps, shifted.entries[0].return_ps) == (0, 7000)
    assert parsed(edited(WRITE, time=10.5)).entries[0].invoke_ps == 10_500
    assert parsed(edited(WRITE, error=["timeout"], index=4)).entries


def test_crashes_kill_whom_they_should():
    client = '{"type": "crash", "node": "client", "process": %d, "time": 30}'
    assert parsed(WRITE, client % 0).entries[0].killed_ps == 30_000
    assert parsed(WRITE, client % 1, edited(OK, time=40)).entries[0].return_ps == 40_000
    for node in ("server", "replica"):
        assert parsed(WRITE, edited(CRASH, node=node), edited(OK, time=40)).entries[0].return_ps == 40_000
    timed_out = edited(OK, type="info")
    assert parsed(WRITE, timed_out, client % 0).entries[0].killed_ps == 30_000
    retried = edited(WRITE, process=1, time=27, retry_of="a")
    assert parsed(edited(WRITE, id="a"), timed_out, retried, client % 0).entries[0].killed_ps is None


def test_conditions_that_do_not_apply_are_refused_when_asked_for():
    twice = parsed(WRITE, OK, edited(WRITE, time=30))
    with pytest.raises(InputError, match="lines 1 and 3 both write 1"):
        check_history(twice, conditions=["committed"])
    assert "committed" in check_history(twice).not_judged
    with pytest.raises(InputError, match="did you mean 'durable'"):
        check_history(twice, conditions=["durabel"])
    with pytest.raises(InputError, match="did you mean 'register'"):
        check_history(twice, "registr")
    with pytest.raises(InputError, match="f: found 'write', expected an operation of queue"):
        check_history(twice, "queue")


KEYS = st.sampled_from(["process", "type", "f", "key", "value", "time", "node", "id", "retry_of", "x"])
VALUES = st.sampled_from(["invoke", "ok", "fail", "info", "crash", "write", "read", "cas", "system", "client", "x"])
ANY = st.recursive(st.none() | st.booleans() | st.integers(0, 4) | st.floats() | VALUES, st.lists, max_leaves=3)
EVENTS = st.dictionaries(KEYS, ANY, max_size=7)
PLAIN = st.fixed_dictionaries(
    {"process": st.integers(0, 2), "type": VALUES, "f": VALUES, "time": st.integers(0, 9), "node": VALUES},
    optional={"value": ANY, "id": ANY, "retry_of": ANY},
)


@pytest.mark.long
@settings(max_examples=400)
@given(st.lists(EVENTS | PLAIN, max_size=6))
def test_whatever_a_file_holds_the_answer_is_a_report_or_a_mistake(events):
    try:
        check_history(parse_history("\n".join(map(json.dumps, events)), "h"))
    except InputError as error:
        assert all(mistake.found and mistake.expected for mistake in error.mistakes)
