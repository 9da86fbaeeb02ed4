"""The page of ``rpsim check --html``: one file that shows what is wrong, and where operations took effect."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.app.pages.history import MOST_SHOWN, drawing, page
from rpsim.protocols.guarantees import Condition
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.placing import place
from rpsim.validation.histories.read import parse_history, read_history

from ..answers import result_of

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
VOID = {"meta", "link", "line", "rect", "path", "br"}


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        assert {value for name, value in attrs if name in ("src", "href")} <= {"data:,"}, "it must not load anything"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        pass


@pytest.mark.parametrize("name", ["lost-update", "surfacing-write", "lock-word", "two-clients"])
def test_the_page_is_whole_and_needs_nothing(name):
    report = check_history(read_history(EXAMPLES / f"{name}.jsonl"))
    text = page(report)
    parser = Balanced()
    parser.feed(text)
    assert parser.open == [] and "{{" not in text and "http" not in text
    assert text == page(report)
    for condition in Condition:
        assert f"<th>{condition}</th>" in text


def test_a_crash_a_stuck_operation_and_points_are_drawn():
    report = check_history(read_history(EXAMPLES / "lost-update.jsonl"))
    text = page(report)
    history = text[text.index("<h2>The history</h2>") :]
    assert "crash of the server" in history
    (bad,) = re.findall(r"<title>([^<]*)</title><rect class='[^']*bad'", history)
    assert bad == "line 9: read x -&gt; 1, 60 ns to 70 ns"
    assert history.count("class='point'") == 5  # three on x before the one that is stuck, both on y


def test_the_axis_has_its_unit():
    assert ">time, ns</text>" in page(check_history(read_history(EXAMPLES / "lost-update.jsonl")))


def test_points_lie_between_invocation_and_response_in_the_order_told():
    report = check_history(read_history(EXAMPLES / "two-clients.jsonl"))
    entries = {entry.line: entry for entry in report.history.entries}
    for placed in place(report):
        instants = [at for _, at in sorted(placed.turns.values())]
        assert instants == sorted(instants) and placed.stuck is None
        for line, (_, at) in placed.turns.items():
            assert entries[line].invoke_ps <= at <= (entries[line].return_ps or at)


def test_names_of_users_are_text():
    lines = [
        {"process": "<b>", "type": "invoke", "f": "write", "key": "&", "value": "</svg>", "time": 1},
        {"process": "<b>", "type": "ok", "f": "write", "key": "&", "time": 2},
    ]
    text = page(check_history(parse_history("\n".join(map(json.dumps, lines)), "<i>.jsonl")))
    assert "<b>" not in text and "&lt;b&gt;" in text and "<i>" not in text and text.count("</svg>") == 1


def test_of_a_long_history_a_part_is_shown():
    lines = []
    for n in range(MOST_SHOWN):
        event = {"process": 0, "f": "write", "value": n + 1}
        lines += [event | {"type": "invoke", "time": 2 * n}, event | {"type": "ok", "time": 2 * n + 1}]
    end = 2 * MOST_SHOWN
    read = {"process": 1, "f": "read"}
    lines += [read | {"type": "invoke", "time": end}, read | {"type": "ok", "time": end + 1, "value": 7}]
    text = page(check_history(parse_history("\n".join(map(json.dumps, lines)), "h")))
    assert f"Operations 2 to {MOST_SHOWN + 1} of {MOST_SHOWN + 1}." in text
    history = text[text.index("<h2>The history</h2>") :]
    assert history.count("<rect") == MOST_SHOWN and " bad'" in history


def test_nothing_to_draw():
    report = check_history(read_history(EXAMPLES / "two-clients.jsonl"))
    assert drawing(report, [], (), {}, 0) == ""


def test_the_command_writes_it(tmp_path, capsys):
    history = str(EXAMPLES / "lost-update.jsonl")
    target = tmp_path / "view.html"
    assert main(["check", history, "--html", str(target), "--json"]) == 1
    result_of(capsys.readouterr().out)
    assert target.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["view.html"]
    assert main(["check", history, "--html", str(tmp_path / "no" / "view.html")]) == 2
    assert "--html: found " in capsys.readouterr().err


def test_the_page_replaces_no_history_and_no_folder(tmp_path, monkeypatch, capsys):
    text = (EXAMPLES / "lost-update.jsonl").read_text()
    (tmp_path / "h.jsonl").write_text(text)
    monkeypatch.chdir(tmp_path)
    for target, message in (
        (str(tmp_path / "h.jsonl"), "h.jsonl, which the command reads, expected a file to write that is not its input"),
        (".", "the folder ., expected a file to write"),
    ):
        assert main(["check", "h.jsonl", "--html", target]) == 2
        assert message in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == [text]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--loss", "soon"], "--loss: found 'soon', expected a time with its unit"),
        (["--memory", "much"], "--memory: found 'much', expected a size with its unit"),
        (["--condition", "bounded_loss"], "--condition: found bounded_loss (needs a time: --loss, as in --loss 1s)"),
        (["--model", "no.py:Thing"], "--model: found no file 'no.py'"),
    ],
)
def test_options_that_are_wrong(options, message, capsys):
    assert main(["check", str(EXAMPLES / "lost-update.jsonl"), *options]) == 2
    assert message in capsys.readouterr().err


def test_the_time_of_bounded_loss(capsys):
    history = str(EXAMPLES / "lost-update.jsonl")
    assert main(["check", history, "--condition", "bounded_loss", "--loss", "1us"]) == 0
    assert main(["check", history, "--condition", "bounded_loss", "--loss", "1ns"]) == 1
