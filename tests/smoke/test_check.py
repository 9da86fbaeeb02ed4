"""``rpsim check``: what it prints of the examples, its JSON document, its exit statuses."""

from __future__ import annotations

import json
import os
import re

import pytest

from rpsim.app.main import main

from ..answers import result_of

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
    document = result_of(capsys.readouterr().out)
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
    (order,) = result_of(capsys.readouterr().out)["verdicts"]["linearizable"]["witness"]["orders"]
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
    one = result_of(capsys.readouterr().out)["verdicts"]["linearizable"]
    assert one["verdict"] == "undecided" and "given up at" in one["witness"]["explanation"]


def test_wrong_input_is_status_2(tmp_path, capsys):
    path = tmp_path / "h.jsonl"
    path.write_text('{"process": 0, "type": "ok", "f": "write", "time": 1}\n')
    assert main(["check", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{path}:1: type: found ok of process 0")
    assert main(["check", str(tmp_path / "absent.jsonl")]) == 2
    assert main(["check"]) == 2
    assert "rpsim check: found no HISTORY, expected files of JSON Lines" in capsys.readouterr().err


def test_a_folder_of_histories_has_a_verdict_each(root, tmp_path, capsys):
    for name in ("lost-dequeue.jsonl", "two-clients.jsonl", "register.edn"):
        (tmp_path / name).write_text((root / "docs/examples" / name).read_text())
    assert main(["check", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "violated: linearizable" in printed and "2 of 3 histories: every condition holds" in printed
    (tmp_path / "lost-dequeue.jsonl").unlink()
    assert main(["check", str(tmp_path / "two-clients.jsonl"), str(tmp_path / "register.edn"), "--json"]) == 0
    assert len(result_of(capsys.readouterr().out)["histories"]) == 2


def test_a_folder_may_have_empty_logs_and_texts_that_are_no_histories(root, tmp_path, capsys):
    (tmp_path / "register.txt").write_text((root / "docs/examples/register.edn").read_text())
    (tmp_path / "README.txt").write_text("Not a history.\n")
    (tmp_path / "empty.log").write_text("")
    assert main(["check", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.err == f"{tmp_path}/empty.log: no operations: passed over\n" and "README" not in said.out
    assert main(["check", str(tmp_path / "empty.log")]) == 2, "named, it is a mistake"
    (tmp_path / "register.txt").unlink()
    assert main(["check", str(tmp_path)]) == 2, "and so it is alone"
    assert "empty.log: found no operations" in capsys.readouterr().err


def test_the_mistakes_of_all_histories_come_at_once(root, tmp_path, capsys):
    assert main(["check", str(tmp_path)]) == 2
    assert "a folder without histories" in capsys.readouterr().err
    (tmp_path / "a.jsonl").write_text("nonsense\n")
    fine = str(root / "docs/examples/two-clients.jsonl")
    assert main(["check", fine, str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]) == 2
    wrong = capsys.readouterr()
    assert "a.jsonl:1" in wrong.err and "b.jsonl: found no such file" in wrong.err and not wrong.out
    assert main(["check", fine, fine, "--html", str(tmp_path / "x.html")]) == 2
