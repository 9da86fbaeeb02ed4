"""Does every starter fail every check, and every solution pass all? The whole of it is slow; a form of it is quick."""

import re

import pytest

from rpsim.app.labs.definition import FILE, HOME
from rpsim.app.labs.kinds import KINDS
from rpsim.app.labs.marking import mark
from rpsim.app.labs.shelf import find, read, shipped
from rpsim.app.main import main

from ..answers import result_of
from .benches import SOLUTIONS, bench

NUMBERS = tuple(shipped())
QUICK = ("7",)


@pytest.mark.parametrize(
    "number", [number if number in QUICK else pytest.param(number, marks=pytest.mark.slow) for number in NUMBERS]
)
def test_the_starter_fails_every_check_and_the_solution_passes_all(tmp_path, number):
    lab, desk = bench(tmp_path / "starter", number, solved=False)
    before = mark(lab, desk)
    assert before.points == 0 and not any(one.finding.passed for one in before.marks)
    assert all(one.finding.said for one in before.marks), "a failed check says nothing"
    lab, desk = bench(tmp_path / "solution", number)  # elsewhere: a process reads a scheme's file once
    after = mark(lab, desk)
    assert after.passed and after.points == lab.points == 10, [
        (one.check.id, one.finding.said) for one in after.marks if not one.finding.passed
    ]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lab_is_whole(number):
    lab = find(number)
    assert (lab.name, lab.desk) == (number, f"lab-{number}")
    assert 45 <= lab.minutes <= 90 and len(lab.able) >= 2 and len(lab.hints) >= 3
    assert lab.checks[0].kind == "predictions", "predict before running"
    for heading in ("What you need to know", "Predict", "Run", "Explain", "For discussion", "Further reading"):
        assert f"# {heading}" in lab.text, heading
    assert "answers.yaml" in [path.name for path in lab.starters()]
    answers = (lab.place / "starter" / "answers.yaml").read_text()
    assert set(re.findall(r"^([a-z0-9-]+):$", answers, re.MULTILINE)) == set(lab.questions)
    asked = {key for check in lab.checks for key in check.given.get("of", ())}
    assert asked == set(lab.questions)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_solution_changes_files_of_the_starter_and_adds_none(number):
    lab = find(number)
    mine = {path.name for path in (SOLUTIONS / lab.place.name).iterdir() if path.is_file()}
    assert mine and mine <= {path.name for path in lab.starters()}


def test_the_numbers_are_those_of_the_folders():
    assert list(shipped()) == [str(int(path.parent.name[:2])) for path in sorted(HOME.glob(f"*/{FILE}"))]


@pytest.mark.slow
def test_all_labs_at_once(tmp_path, capsys):
    """What a lecturer runs: of the starters none is passed, of the solutions all."""
    for number in NUMBERS:
        bench(tmp_path / "starter", number, solved=False)
    assert main(["lab", "check", "--all", "--json", "--in", str(tmp_path / "starter")]) == 1
    document = result_of(capsys.readouterr().out)
    assert (document["points"], document["passed"]) == (0, False)
    for number in NUMBERS:
        bench(tmp_path / "solution", number)
    assert main(["lab", "check", "--all", "--json", "--in", str(tmp_path / "solution")]) == 0
    document = result_of(capsys.readouterr().out)
    assert document["points"] == document["of"] == 10 * len(NUMBERS)


def test_every_kind_of_check_is_used_and_explained(root):
    used = {check.kind for number, place in shipped().items() for check in read(place, number).checks}
    page = (root / "docs" / "teaching.md").read_text()
    for kind in KINDS:
        assert kind in used, f"no lab uses {kind}"
        assert f"`{kind}`" in page, f"docs/teaching.md does not explain {kind}"
