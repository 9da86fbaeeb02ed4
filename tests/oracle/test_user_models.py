"""A user's own model: does it judge, and is what is wrong with it told?"""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.sim.errors import InputError
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

COUNTER = """
class Counter:
    initial = 0
    reads = ("total",)

    def add(self, state, value):
        return state + value, None

    def total(self, state, value):
        return state, state
"""

HISTORY = """
{"process": 0, "type": "invoke", "f": "add", "value": 2, "time": 1}
{"process": 1, "type": "invoke", "f": "add", "value": 3, "time": 2}
{"process": 0, "type": "ok", "f": "add", "time": 4}
{"process": 2, "type": "invoke", "f": "total", "time": 5}
{"process": 2, "type": "ok", "f": "total", "value": %d, "time": 6}
{"process": 1, "type": "info", "f": "add", "time": 9}
{"process": 3, "type": "invoke", "f": "total", "time": 10}
{"process": 3, "type": "ok", "f": "total", "value": %d, "time": 12}
"""


def written(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(("reads", "holds"), [((2, 5), True), ((5, 5), True), ((2, 2), True), ((5, 2), False)])
def test_it_judges(reads: tuple[int, int], holds: bool, tmp_path: Path) -> None:
    name = f"{written(tmp_path, COUNTER)}:Counter"
    report = check_history(parse_history(HISTORY % reads, "h"), name)
    assert report.model.name == "Counter"
    assert (report.verdicts[Condition.LINEARIZABLE].verdict is Verdict.HOLDS) == holds


def test_a_record_is_a_model_too(tmp_path: Path) -> None:
    text = "from rpsim.validation.oracle.models.simple import MODELS\nMine = MODELS['register']\n"
    history = parse_history('{"process": 0, "type": "invoke", "f": "write", "value": 1, "time": 1}', "h")
    assert check_history(history, f"{written(tmp_path, text)}:Mine").model.name == "register"


def test_an_operation_may_be_refused(tmp_path: Path) -> None:
    text = (
        "from rpsim.validation.oracle.models.simple import ILLEGAL\n\nclass Lock:\n    initial = None\n"
        "    def lock(self, state, value):\n        return ILLEGAL if state else (value, None)\n"
        "    def unlock(self, state, value):\n        return (None, None) if state == value else ILLEGAL\n"
    )
    events = [("lock", 1), ("lock", 2)]
    lines = []
    for n, (f, value) in enumerate(events):
        for kind in ("invoke", "ok"):
            lines.append(f'{{"process": 0, "type": "{kind}", "f": "{f}", "value": {value}, "time": {n}}}')
    lines[1] = lines[1].replace('"time": 0', '"time": 0.5')
    report = check_history(parse_history("\n".join(lines), "h"), f"{written(tmp_path, text)}:Lock")
    assert report.verdicts[Condition.LINEARIZABLE].verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (COUNTER, "Countr", "found no 'Countr' in .*expected one of Counter; did you mean 'Counter'"),
        (COUNTER, "", "found no name after .*mine.py, expected one of Counter"),
        ("x = 3", "x", "expected a class with `initial` and a method"),
        ("class Empty:\n    initial = 0", "Empty", "found Empty without methods"),
        ("class Counter:\n  def", "Counter", r"mine.py:2: --model: found invalid syntax"),
        ("import nonsense_that_is_not_there", "x", r"mine.py:1: found ModuleNotFoundError: No module named"),
        (COUNTER.replace('"total",', '"totl",'), "Counter", "reads: found 'totl', expected operations among add"),
        (COUNTER.replace("state + value, None", "state + value"), "Counter", "found add returning 2, expected a pair"),
        (COUNTER.replace("state + value", "[state]"), "Counter", "the state after add: a list of 1, expected a state"),
        (COUNTER.replace("initial = 0", "initial = {}"), "Counter", "found initial: "),
        (COUNTER.replace("+ value", "+ len(value)"), "Counter", r"mine.py:7: found TypeError: .* in add\(0, 2\)"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_it_is_told(text: str, name: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=message):
        check_history(parse_history(HISTORY % (2, 5), "h"), f"{path}:{name}" if name else path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    written(tmp_path, COUNTER)
    with pytest.raises(InputError, match=r"no file .*did you mean 'mine.py'|no file .*did you mean '.*mine.py'"):
        check_history(parse_history(HISTORY % (2, 5), "h"), f"{tmp_path}/min.py:Counter")


def test_operations_that_it_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found 'total', expected an operation of Counter: add"):
        text = COUNTER.replace("total", "sum")
        check_history(parse_history(HISTORY % (2, 5), "h"), f"{written(tmp_path, text)}:Counter")


NEWEST_FIRST = """
class queue:
    initial = ()

    def enqueue(self, state, value):
        return (*state, value), None

    def dequeue(self, state, value):
        return state[:-1], (state[-1] if state else None)
"""


def test_a_queue_of_ones_own_is_judged_by_its_own_rules(tmp_path: Path) -> None:
    """Not by the items of a first-in-first-out queue, which ours of that name is."""
    rows = [("enqueue", 1), ("enqueue", 2), ("dequeue", 2), ("dequeue", 1)]
    lines = []
    for at, (f, item) in enumerate(rows):
        asked, found = (f', "value": {item}', "") if f == "enqueue" else ("", f', "value": {item}')
        lines.append(f'{{"process": 0, "type": "invoke", "f": "{f}", "time": {2 * at}{asked}}}')
        lines.append(f'{{"process": 0, "type": "ok", "f": "{f}", "time": {2 * at + 1}{found}}}')
    history = parse_history("\n".join(lines), "h")
    own = check_history(history, f"{written(tmp_path, NEWEST_FIRST)}:queue").verdicts[Condition.LINEARIZABLE]
    assert (own.verdict, own.by) == (Verdict.HOLDS, ("search",))
    ours = check_history(history, "queue").verdicts[Condition.LINEARIZABLE]
    assert (ours.verdict, ours.by) == (Verdict.VIOLATED, ("items",))
