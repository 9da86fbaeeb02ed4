"""Is a new scheme one that works, in a folder of the user's, and does its scenario find a mistake in it?"""

from __future__ import annotations

import re

import pytest

from rpsim.app.main import main

from ..answers import result_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


FLUSH = "            yield from thread.flush(address, self.used)  # clwb of every line, then sfence\n"


def verdicts(capsys):
    """By platform: what was found of an acknowledged put."""
    found = result_of(capsys.readouterr().out)["schemes"]
    return {one["platform"]: one["verdicts"]["no_lost_ack"] for one in found}


@pytest.mark.long
def test_a_new_scheme_keeps_what_it_promises_and_does_not_without_its_flush(folder, capsys):
    assert main(["new", "scheme", "my-store"]) == 0
    assert capsys.readouterr().out == (
        "my_store.py, my-store.yaml: a scheme to start from; rpsim crash my-store.yaml\n  explores it\n"
    )
    assert main(["crash", "my-store.yaml", "--json", "--jobs", "1"]) == 0
    kept = verdicts(capsys)
    assert len(kept) == 4 and set(kept.values()) == {"holds"}

    code, scenario = (folder / "my_store.py").read_text(), (folder / "my-store.yaml").read_text()
    assert code.count(FLUSH) == 1
    (folder / "broken.py").write_text(code.replace(FLUSH, ""))
    (folder / "broken.yaml").write_text(scenario.replace("my_store.py:", "broken.py:"))
    (folder / "my_store.py").unlink()
    assert main(["crash", "broken.yaml", "--json", "--jobs", "1"]) == 1
    lost = verdicts(capsys)
    assert lost == {platform: "holds" if "eadr" in platform else "violated" for platform in kept}


@pytest.mark.long
def test_a_scheme_that_does_not_do_the_same_in_every_run_is_told(folder, capsys):
    assert main(["new", "scheme", "fickle"]) == 0
    once = FLUSH.replace(
        "            y", "            RUNS.append(self)\n            if RUNS[0] is not self:\n                y"
    )
    code = (folder / "fickle.py").read_text().replace("\n\n\n", "\n\nRUNS = []\n\n\n", 1).replace(FLUSH, once)
    (folder / "fickle.py").write_text(code)
    one = ["--set", "platform=optane-adr", "--set", "ddio=on", "--jobs", "1"]
    assert main(["crash", "fickle.yaml", *one]) == 2
    said = capsys.readouterr().err
    assert re.match(
        r"fickle\.py:\d+: Fickle: found a violation of \w+ that does not show when its run is made again, ", said
    )


def test_a_new_scheme_overwrites_no_file_and_leaves_none_half_done(folder, capsys):
    (folder / "mine.yaml").write_text("precious")
    assert main(["new", "scheme", "mine"]) == 2
    assert "mine.yaml: found a file that is there already" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("mine.yaml", "precious")]


@pytest.mark.parametrize(("name", "of"), [("my-store", "MyStore"), ("put", "PutScheme"), ("none", "NoneScheme")])
def test_a_new_scheme_s_class_is_called_as_it_is_and_nothing_else_is(folder, name, of):
    assert main(["new", "scheme", name]) == 0
    code = (folder / f"{name.replace('-', '_')}.py").read_text()
    assert len(re.findall(rf"^class {of}\(", code, re.MULTILINE)) == 1 and "CLASS" not in code
    assert f"{of}.Server = " in code


def test_a_new_scheme_has_a_name_of_its_own(folder, capsys):
    assert main(["new", "scheme", "saw"]) == 2
    assert "NAME: found 'saw', expected a name that no scheme of rpsim has" in capsys.readouterr().err
    assert main(["new", "scheme", "other-store.py", "--json"]) == 0
    made = {"kind": "scheme", "name": "other-store", "file": "other_store.py", "scenario": "other-store.yaml"}
    assert result_of(capsys.readouterr().out) == made
    assert sorted(path.name for path in folder.iterdir()) == ["other-store.yaml", "other_store.py"]


def test_a_new_scenario_runs_and_is_as_it_expects(folder, capsys):
    assert main(["new", "scenario", "mine"]) == 0
    assert main(["crash", "mine.yaml", "--set", "workload.operations=8", "--no-report", "--jobs", "1"]) == 0
    assert "\nas expected: " in capsys.readouterr().out


def test_a_new_litmus_test_holds_and_with_a_write_it_does_not(folder, capsys):
    assert main(["new", "litmus", "mine"]) == 0
    assert main(["litmus", "mine.yaml"]) == 0
    text = (folder / "mine.yaml").read_text()
    (folder / "mine.yaml").write_text(text.replace('"AW q1', '"W q1'))
    assert main(["litmus", "mine.yaml"]) == 1


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("primitive", "a flush primitive, expected a scenario (rpsim matrix primitives mine.yaml judges one)"),
        ("litmus", "litmus tests, expected a scenario (rpsim litmus mine.yaml judges them)"),
    ],
)
def test_another_file_than_a_scenario_is_told_with_what_takes_it(kind, told, folder, capsys):
    assert main(["new", kind, "mine"]) == 0
    assert main(["crash", "mine.yaml"]) == 2
    assert capsys.readouterr().err == f"mine.yaml: found {told}\n"


def test_a_primitive_where_none_is_expected_is_told_where_it_goes(folder, capsys):
    assert main(["new", "primitive", "mine"]) == 0
    assert main(["matrix", "mine.yaml"]) == 2
    assert capsys.readouterr().err.endswith("groups, methods, as in rpsim matrix primitives mine.yaml\n")
    assert main(["crash", "quickstart", "--set", "schemes=[mine.yaml]"]) == 2
    assert (
        "found 'mine.yaml', expected a scheme: of a primitive's file as in 'word over mine.yaml'"
        in capsys.readouterr().err
    )


def test_a_new_lab_is_that_of_the_command_lab(folder, capsys):
    assert main(["new", "lab", "mine"]) == 0
    assert (folder / "mine" / "lab.md").exists()
