"""``rpsim check``: what it prints of the examples, its JSON document, its exit statuses."""

from __future__ import annotations

import json
import os
import re

import pytest

from rpsim.app.main import main

EXAMPLES = {"surfacing-write": 1, "lost-update": 1, "lock-word": 1, "lost-dequeue": 1, "two-clients": 0}
"""The example histories of docs/check.md and the exit status of judging them."""


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d{3}$", "0.000", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("name", "status"), EXAMPLES.items())
def test_the_examples_print_what_the_page_shows(name, status, root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    assert main(["check", f"docs/examples/{name}.jsonl"]) == status
    printed = without_times(capsys.readouterr().out)
    shown = root / "docs" / "examples" / f"{name}.txt"
    if os.environ.get("RPSIM_RENEW"):
        shown.write_text(printed, encoding="utf-8")
    assert printed == shown.read_text(encoding="utf-8")
    assert max(map(len, printed.splitlines())) <= 80


def test_json_has_the_fields_that_scripts_lean_on(root, capsys):
    assert main(["check", str(root / "docs/examples/lost-update.jsonl"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["model"], document["operations"], document["objects"]) == ("register", 6, 2)
    for verdict in document["verdicts"].values():
        assert {"verdict", "steps", "seconds", "witness"} <= verdict.keys()
    witness = document["verdicts"]["no_lost_ack"]["witness"]
    assert witness["key"] == "x" and witness["operation"]["text"] == "read x -> 1"
    assert [row["line"] for row in witness["piece"]] == [1, 4, 9]
    assert document["verdicts"]["committed"]["witness"] is None
    assert "strict" in document["not_judged"]


def test_a_legal_order_is_a_witness_too(tmp_path, capsys):
    path = tmp_path / "list.jsonl"
    path.write_text(
        '{"process": 0, "type": "invoke", "f": "append", "value": "a", "time": 10}\n'
        '{"process": 1, "type": "invoke", "f": "read", "time": 11}\n'
        '{"process": 1, "type": "ok", "f": "read", "value": [], "time": 14}\n'
        '{"process": 0, "type": "ok", "f": "append", "time": 15}\n'
        '{"process": 1, "type": "invoke", "f": "read", "time": 16}\n'
        '{"process": 1, "type": "ok", "f": "read", "value": ["a"], "time": 18}\n'
    )
    assert main(["check", str(path), "--json"]) == 0
    (order,) = json.loads(capsys.readouterr().out)["verdicts"]["linearizable"]["witness"]["orders"]
    assert order == {"key": None, "lines": [2, 1, 5]}


def test_options(root, capsys):
    path = str(root / "docs/examples/surfacing-write.jsonl")
    assert main(["check", path, "--condition", "durable", "--condition", "monotonic"]) == 0
    out = capsys.readouterr().out
    assert "durable" in out and "monotonic" in out and "strict" not in out
    assert main(["check", path, "--condition", "strict"]) == 1
    capsys.readouterr()
    assert main(["check", path, "--budget", "0"]) == 2
    assert main(["check", path, "--conditon", "strict"]) == 2
    assert "did you mean '--condition'?" in capsys.readouterr().err
    assert main(["check", path, "--condition", "stirct"]) == 2
    assert "--condition: found 'stirct'" in capsys.readouterr().err


def test_a_spent_budget_is_no_success(tmp_path, capsys):
    lines = [{"process": n, "type": "invoke", "f": "enqueue", "value": max(n, 1), "time": 0} for n in range(12)]
    lines += [{"process": n, "type": "ok", "f": "enqueue", "time": 1} for n in range(12)]
    path = tmp_path / "queue.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    assert main(["check", str(path), "--budget", "100"]) == 1
    assert "linearizable UNDECIDED" in capsys.readouterr().out
    assert main(["check", str(path), "--budget", "100", "--json"]) == 1
    one = json.loads(capsys.readouterr().out)["verdicts"]["linearizable"]
    assert one["verdict"] == "undecided" and "given up at" in one["witness"]["explanation"]


def test_wrong_input_is_status_2(tmp_path, capsys):
    path = tmp_path / "h.jsonl"
    path.write_text('{"process": 0, "type": "ok", "f": "write", "time": 1}\n')
    assert main(["check", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{path}:1: type: found ok of process 0")
    assert main(["check", str(tmp_path / "absent.jsonl")]) == 2
    assert main(["check"]) == 2
    assert "rpsim check: found no HISTORY, expected a file of JSON Lines" in capsys.readouterr().err
