"""``rpsim lab`` as students and lecturers call it, with right and wrong input."""

import json
import re

import pytest

from rpsim.app.labs.shelf import shipped
from rpsim.app.main import main

from ..answers import result_of
from .benches import bench


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys, *arguments, status=0):
    assert main(["lab", *arguments]) == status
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    return out


def test_the_list(here, capsys):
    out = said(capsys)
    assert "1  What a completion means (60 minutes)" in out
    assert [row["lab"] for row in result_of(said(capsys, "--json"))["labs"]] == list(shipped())


@pytest.mark.parametrize("number", list(shipped()))
def test_the_text_fits_and_the_starter_is_there(here, capsys, number):
    out = said(capsys, number)
    assert "What you need to know" in out and "written to" in out
    assert (here / f"lab-{number}" / "answers.yaml").is_file()


def test_work_is_never_overwritten(here, capsys):
    said(capsys, "7")
    (here / "lab-7" / "answers.yaml").write_text("h01: holds\n")
    (here / "lab-7" / "mine.jsonl").unlink()
    out = " ".join(said(capsys, "7").split())
    assert "written to lab-7: mine.jsonl" in out and "kept in lab-7 as they are: answers.yaml" in out
    assert (here / "lab-7" / "answers.yaml").read_text() == "h01: holds\n"


def test_what_goes_on_names_the_folder_of_the_labs(here, capsys):
    (here / "my desk").mkdir()
    assert "rpsim lab 7 check --in 'my desk'     rpsim lab 7 hint --in 'my desk'" in said(
        capsys, "7", "--in", "my desk"
    )
    assert "A hint: rpsim lab 7 hint --in 'my desk'" in said(capsys, "7", "check", "--in", "my desk", status=1)


def test_hints_come_one_by_one(here, capsys):
    said(capsys, "7")
    for number in range(1, 5):
        assert said(capsys, "7", "hint").startswith(f"Hint {number} of 4: ")
    assert said(capsys, "7", "hint") == "These were all hints of lab 7: 4.\n"


def test_a_check_from_inside_the_folder_is_the_same(here, capsys, monkeypatch):
    bench(here, "7")
    assert "4 of 4 checks, 10 of 10 points" in said(capsys, "7", "check")
    monkeypatch.chdir(here / "lab-7")
    assert "4 of 4 checks" in said(capsys, "7", "check")


def test_points_for_graders(here, capsys, monkeypatch):
    only = {"7": shipped()["7"]}
    monkeypatch.setattr("rpsim.app.labs.shelf.shipped", lambda: only)
    bench(here, "7", solved=False)
    (here / "lab-7" / "answers.yaml").write_text("[not a map")
    arguments = ["check", "--all", "--json", "--gradescope", "results.json", "--otter", "tests"]
    document = result_of(said_json(capsys, *arguments))
    assert (document["points"], document["of"], document["passed"]) == (0, 10, False)
    assert [check["wrong_input"] for check in document["labs"][0]["checks"]] == [True, True, True, False]
    tests = json.loads((here / "results.json").read_text())["tests"]
    assert sum(test["max_score"] for test in tests) == 10 and {test["status"] for test in tests} == {"failed"}
    namespace = {}
    exec((here / "tests" / "lab-7.py").read_text(), namespace)
    cases = namespace["test"]["suites"][0]["cases"]
    assert namespace["OK_FORMAT"] and len(cases) == len(namespace["test"]["points"]) == 4
    from rpsim.app.labs.forms import passes

    assert not passes("7", "mine")
    bench(here, "7")
    assert passes("7", "mine") and passes("7", "durable")


def said_json(capsys, *arguments):
    assert main(["lab", *arguments]) == 1
    return capsys.readouterr().out


def test_a_lab_of_a_lecturer_s_own(here, capsys):
    assert "a lab to start from" in said(capsys, "new", "mine-of-a-longer-name")
    said(capsys, "new", "mine")
    assert said(capsys, "mine", "test").endswith("fine\n")
    said(capsys, "mine")
    checked = said(capsys, "mine", "check", status=1)
    assert "0 of 1 check" in checked
    share = re.search(r"\((\d+ of \d+) crash states; smallest below", checked)
    assert share and f"no_lost_ack violated ({share[1]} crash states)" in " ".join(checked.split())


WRONG = [
    (["11"], "rpsim lab: found '11', expected a lab: 1, 2"),
    (["chek"], "did you mean 'check'?"),
    (["historys"], "did you mean '7'?"),
    (["3", "chek"], "rpsim lab 3: found 'chek', expected check, hint, test, or nothing; did you mean 'check'?"),
    (["3", "check"], "lab-3: found no such folder, expected the folder that rpsim lab 3 makes"),
    (["check"], "rpsim lab check: found no lab, expected rpsim lab 1 check, or rpsim lab check --all"),
    (["check", "--gradescope", "x.json"], "--gradescope: found no --all"),
    (["7", "--all"], "--all: found it with rpsim lab, expected rpsim lab check"),
    (["check", "--all", "--in", "nowhere"], "--in: found 'nowhere'"),
    (["hint"], "rpsim lab hint: found no number"),
    (["new"], "rpsim lab new: found no NAME"),
    (["new", "a/../b c"], "expected a name of letters"),
    (["lab-8"], "lab-8: found a folder without lab.md"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_wrong_input_is_one_line(here, capsys, arguments, words):
    (here / "lab-8").mkdir()
    assert main(["lab", *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
    assert [path.name for path in here.iterdir()] == ["lab-8"]


def test_a_folder_that_is_a_file(here, capsys):
    (here / "lab-7").write_text("mine")
    assert main(["lab", "7"]) == 2
    assert "lab-7: found a file, expected a folder" in capsys.readouterr().err
    assert main(["lab", "7", "check"]) == 2


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("answers.yaml", "[not a map", "answers.yaml:1"),
        ("answers.yaml", "h01: hold\n", "lab-7/answers.yaml:1: h01: found 'hold', expected one of holds, violated"),
        ("answers.yaml", "h1: holds\n", "found the unknown key 'h1'"),
    ],
)
def test_answers_that_cannot_be_read(here, capsys, file, text, words):
    bench(here, "7")
    (here / "lab-7" / file).write_text(text)
    assert main(["lab", "7", "check"]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_a_definition_with_mistakes_is_refused_line_by_line(here, capsys):
    said(capsys, "new", "mine")
    path = here / "mine" / "lab.md"
    path.write_text(path.read_text().replace("kind: expectations", "kind: expectation").replace("minutes: 60", ""))
    assert main(["lab", "mine"]) == 2
    err = capsys.readouterr().err
    assert "did you mean 'expectations'?" in err and "mine/lab.md" in err and "no minutes" in err
