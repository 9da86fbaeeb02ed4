"""Is the answer of every command with ``--json`` in the one form, is the page of all of them true, and what is hashed?

The tests of each command hold its answer against the schema as well (``tests/answers.py``).
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import rpsim
from rpsim.app.commands import forms
from rpsim.app.main import main
from rpsim.app.pages.answers import page
from rpsim.app.terminal.envelope import input_hash, schema

from ...answers import answer_of

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
HISTORY, MEASURED = str(EXAMPLES / "two-clients.jsonl"), str(EXAMPLES / "connectx4-send.json")
CALLS = {
    **{form: form.split() for form in forms() if form.startswith("list ")},
    "explain": ["explain", "WPQ"],
    "completion": ["completion", "bash"],
    "check": ["check", HISTORY],
    "litmus": ["litmus", "payload"],
    "new": ["new", "litmus", "mine"],
    "lab": ["lab"],
    "lab new": ["lab", "new", "mine"],
    "replay": ["replay", str(EXAMPLES / "lost-ack.json")],
    "run": ["run", "quickstart", "--set", "workload.operations=4", "--set", "workload.warmup=0", "--jobs", "1"],
    "calibrate compare": ["calibrate", "compare", MEASURED, "--platform", "connectx4-lab", "--jobs", "1"],
}
"""Quick calls. Of other commands the answers are held against the schema where these are tested."""
ELSEWHERE = {
    "bench components", "bench operations", "bench oracle", "bench speed", "bench sweep", "calibrate", "calibrate hops",
    "crash", "design", "lab check", "matrix groups", "matrix methods", "matrix primitives", "matrix schemes", "measure",
    "mutate", "reproduce", "reproduce hardware", "sweep", "sweep merge",
}  # fmt: skip


def test_every_command_is_here_or_elsewhere():
    assert CALLS.keys() | ELSEWHERE == forms().keys() and not CALLS.keys() & ELSEWHERE


@pytest.mark.long
@pytest.mark.parametrize("form", CALLS)
def test_the_answer_of_a_command_has_the_one_form(form, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*CALLS[form], "--json"]) == 0
    said = capsys.readouterr().out
    answer = answer_of(said)
    assert list(answer) == ["command", "version", "seed", "input_hash", "result"]
    assert answer["command"] == form and answer["version"] == rpsim.__version__
    jsonschema.validate(answer, schema(forms()))


def test_the_schema_is_printed_and_refuses_what_is_not_described(capsys):
    assert main(["list", "commands", "--schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(schema(forms())))
    jsonschema.Draft202012Validator.check_schema(printed)
    good = {
        "command": "completion",
        "version": "1",
        "seed": None,
        "input_hash": "0",
        "result": {"shell": "a", "code": ""},
    }
    jsonschema.validate(good, printed)
    for wrong in (
        {**good, "command": "complete"},
        {**good, "result": {"shell": "a"}},
        {**good, "result": {**good["result"], "more": 1}},
        {**good, "seed": "1"},
        {name: value for name, value in good.items() if name != "input_hash"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, printed)


def test_every_answer_is_described():
    for name, command in forms().items():
        assert command.answer, f"rpsim {name}: its answer has no fields"
        assert len({field.name for field in command.answer}) == len(command.answer)


def test_the_page_has_every_field_of_every_answer():
    made = page(forms())
    for name, command in forms().items():
        own = made.partition(f"\n## rpsim {name}\n")[2].partition("\n## ")[0]
        assert all(field.name in own and field.text in own for field in command.answer), name


def test_the_hash_is_that_of_contents(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = Path(HISTORY).read_text(encoding="utf-8")
    for name, content in (("a.jsonl", text), ("b.jsonl", text), ("c.jsonl", text + "\n")):
        Path(name).write_text(content, encoding="utf-8")
    found = {}
    for words in ("a.jsonl", "b.jsonl", "c.jsonl", "a.jsonl --condition linearizable", "a.jsonl b.jsonl"):
        assert main(["check", *words.split(), "--json"]) == 0
        found[words] = answer_of(capsys.readouterr().out)["input_hash"]
    assert found["a.jsonl"] == found["b.jsonl"]
    assert len(set(found.values())) == len(found) - 1
    Path("folder").mkdir()
    assert input_hash("check", {"subject": "folder"}) != input_hash("check", {"subject": "other"})
    assert input_hash("run", {"title": "a long text " * 100}) == input_hash("run", {"title": "a long text " * 100})


def test_the_seed_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    few = ["--set", "workload.operations=4", "--set", "workload.warmup=0", "--jobs", "1", "--no-report", "--json"]
    answers = []
    for seed in ("3", "4"):
        assert main(["run", "quickstart", *few, "--set", "schemes=[saw]", "--seed", seed]) == 0
        answers.append(answer_of(capsys.readouterr().out))
    assert [answer["seed"] for answer in answers] == [3, 4]
    assert answers[0]["input_hash"] != answers[1]["input_hash"]
