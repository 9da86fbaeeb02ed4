"""Do histories that runs record have what the condition ``session`` needs: who invoked what, on which connection?"""

from __future__ import annotations

import json

import pytest

from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.inject import run_with_fault
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

from ..small import get, only_variant, put, scenario

WORK = [
    put(0, "k0"), put(0, "k0", 9_000), get(0, "k0", 25_000), get(1, "k0", 4_000), get(1, "k0", 30_000),
    get(1, "k0", 40_000),
]  # fmt: skip
LOADED = ["k0"]


def lines_of(history):
    return list(history.lines(LOADED))


def verdict(lines):
    report = check_history(parse_history("\n".join(lines), "the run"), "kv", ["session"])
    return str(report.verdicts["session"].verdict)


@pytest.fixture
def lines():
    made = scenario("saw", WORK, processes=2)
    return lines_of(run_variant(made, only_variant(made)).history)


def test_the_processes_of_a_run_are_its_sessions(lines):
    assert {json.loads(line)["process"] for line in lines} == {"loader", 0, 1}
    assert verdict(lines) == "holds"


def with_result(lines, process, turn, value):
    """The same history in which the ``turn``-th read of a process returned another value."""
    reads = [n for n, line in enumerate(map(json.loads, lines)) if line["process"] == process and line["type"] == "ok"]
    reads = [n for n in reads if json.loads(lines[n])["f"] == "get"]
    changed = {**json.loads(lines[reads[turn]]), "value": value}
    return [*lines[: reads[turn]], json.dumps(changed), *lines[reads[turn] + 1 :]]


def test_a_session_that_does_not_read_its_own_write_or_goes_back_is_told(lines):
    rows = list(map(json.loads, lines))
    first, second = [row["value"] for row in rows if row["process"] == 0 and row["type"] == "invoke" and "value" in row]
    assert verdict(with_result(lines, 0, 0, first)) == "violated"  # behind its own second put
    assert verdict(with_result(lines, 0, 0, second)) == "holds"
    assert verdict(with_result(lines, 1, 2, first)) == "violated"  # it had seen the second
    behind = with_result(with_result(lines, 1, 1, first), 1, 2, first)
    assert verdict(behind) == "holds"  # another session may be late


def test_a_process_that_dies_and_its_reader_are_sessions_of_their_own():
    made = scenario("saw", WORK, processes=2, crash={"fault": "client[0] process"})
    history = run_with_fault(made, only_variant(made), 10_000_000).history
    sessions = {operation.process for operation in history.operations}
    assert sessions == {0, 1, 2} and verdict(lines_of(history)) == "holds"
