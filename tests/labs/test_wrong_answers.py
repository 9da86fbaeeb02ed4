"""Does a typical wrong answer get the message that is meant for it, and never the solution?"""

import json
from pathlib import Path

import pytest

from .benches import bench, checked, edited, starter

ANSWERS = "answers.yaml"
WRONG = [
    # lab, file, what the solution has, what a student writes instead, the check, words of the message meant for it
    ("1", "put.yaml", "no_lost_ack: violated", "no_lost_ack: holds", "scenario", "Who sent the completion"),
    (
        "1",
        "put.yaml",
        "no_lost_ack: violated",
        "no_lost_ack: {optane-adr: violated}",
        "scenario",
        "says nothing of no_lost_ack",
    ),
    ("1", "completions.yaml", '"FLUSH q1 record persist", ', "", "verdicts", "cannot be lost|may leave the record|"),
    (
        "1",
        "completions.yaml",
        '["recv q1", "clwb record", "fence", "reply"]',
        '["recv q1", "reply"]',
        "mine",
        "Where is it in the last step",
    ),
    ("1", "completions.yaml", '["W q1 record 1", "SEND q1"', '["SEND q1"', "mine", "as the first operation"),
    (
        "1",
        "completions.yaml",
        '["W q1 record 1", "SEND q1", "wait reply"]',
        '["W q1 record 1", "FLUSH q1 record persist", "SEND q1", "wait reply"]',
        "mine",
        "without",
    ),
    ("4", "my-flush.yaml", "- {id: drain, at: responder nic, do: drain, of: queue pair}\n", "", "adr-on", "adapter"),
    ("4", "my-flush.yaml", "- {id: queued, at: imc, do: wait}\n", "", "adr-on", "which waits until that is done"),
    ("7", ANSWERS, "h04: violated\n", "h04: holds\n", "durable", "somebody had read 2"),
    ("7", ANSWERS, "h07: holds", "h07: violated", "durable", "may take effect all the same"),
    ("7", ANSWERS, "h09: violated\n", "h09: holds\n", "durable", "two reads before the crash"),
    ("7", ANSWERS, "ack-h06: violated", "ack-h06: holds", "promises", "the write of y had returned"),
    ("7", ANSWERS, "h01: violated", "h01:", "by-hand", "Still blank"),
    ("7", "mine.jsonl", '"value": null', '"value": 1', "mine", "mine.jsonl is strict"),
]
SLOW = [
    ("2", ANSWERS, "read-adr-on: llc\nread-adr-off", "read-adr-on: nic\nread-adr-off", "places", "may not pass"),
    ("2", ANSWERS, "global-eadr-off: iio_wc", "global-eadr-off: nothing", "places", "visible is not durable here"),
    ("2", ANSWERS, "certain: 2.464", "certain: 1.533", "slider", "not the time at which the line reached the queue"),
    ("2", "safe.yaml", "write-send-cpu-flush", "read-after-write", "safe", "Visible is durable only where"),
    ("3", ANSWERS, "longest: CPU of client\nwire", "longest: wire and switch\nwire", "trace", "Which bar"),
    ("3", ANSWERS, "dimm: 0", "dimm: 675", "changes", "is the medium asked by then"),
    (
        "5",
        "store.py",
        "thread.flush(head + 64, self.length)",
        "thread.compute()",
        "store",
        "torn value",
    ),
    (
        "5",
        "collide.py",
        "    pivots: dict",
        "    return old[:256] + new[256:]\n    pivots: dict",
        "collide",
        "replacing one word",
    ),
    (
        "6",
        "log.py",
        "thread.flush(address, self.used)",
        "thread.compute()",
        "acknowledged",
        "before the reply",
    ),
    ("8", ANSWERS, "cores-gets: 1.0", "cores-gets: 2.0", "cores", "Who answers a READ"),
    ("8", ANSWERS, "md1: 1.72", "md1: 5.83", "formula", "rho s / (2 (1 - rho))"),
    ("10", ANSWERS, "spread-write: 399.1", "spread-write: 1.2", "spread", "p99 over p50"),
    ("9", ANSWERS, "mirror: holds", "mirror: violated", "faults", "What does the primary still have"),
    ("9", "replicated.py", "ibta-flush-persistent", "read-after-write", "survives", "each was in a cache"),
    (
        "9",
        "replicated.py",
        "ibta-flush-persistent",
        "write-send-cpu-flush",
        "survives",
        "A run of your scheme ended early",
    ),
    ("6", "test_log.py", 'ault="server[0] power in recovery"', 'ault="server[0] power"', "tests", "not a second one"),
]


def answered_wrongly(tmp_path, number, file, right, wrong, check, words):
    lab, desk = bench(tmp_path, number)
    edited(desk, file, right, wrong)
    found = checked(lab, desk, check)
    assert not found.finding.passed and found.points == 0
    said = " ".join(found.finding.said)
    assert any(part in said for part in words.split("|")), said
    return found


@pytest.mark.parametrize(("number", "file", "right", "wrong", "check", "words"), WRONG)
def test_a_wrong_answer_gets_its_message(tmp_path, number, file, right, wrong, check, words):
    answered_wrongly(tmp_path, number, file, right, wrong, check, words)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "file", "right", "wrong", "check", "words"), SLOW)
def test_a_wrong_answer_gets_its_message_after_a_longer_run(tmp_path, number, file, right, wrong, check, words):
    answered_wrongly(tmp_path, number, file, right, wrong, check, words)


def test_a_counterexample_can_be_replayed(tmp_path):
    found = answered_wrongly(
        tmp_path, "1", "put.yaml", "no_lost_ack: violated", "no_lost_ack: holds", "scenario", "completion"
    )
    case = json.loads(Path(found.case).read_text())
    assert case["scenario"]["schemes"] == ["word over no-flush"]
    assert any("power failure" in line for line in found.finding.shown)
    assert all(len(line) <= 80 for line in found.finding.shown)


def test_a_run_of_nothing_does_not_pass(tmp_path):
    lab, desk = bench(tmp_path, "1")
    (desk / "put.yaml").write_text(starter(lab, "put.yaml").replace("f: put", "f: get").replace("holds", "violated"))
    found = checked(lab, desk, "scenario")
    assert not found.finding.passed and "workload is not what it was" in found.finding.said[0]
