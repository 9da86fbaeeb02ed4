"""Does `rpsim explain` find every word of the glossary, and a shell the names that it completes?"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rpsim.app.commands.explain import entries, known
from rpsim.app.main import main
from rpsim.protocols.guarantees import Condition, Verdict

from ..answers import result_of


@pytest.mark.long
def test_every_word_of_the_glossary_is_explained_by_its_own_name(capsys):
    words = [name for entry in entries() for name in entry.names]
    assert len(words) > 100
    for word in words:
        assert main(["explain", *word.split(), "--json"]) == 0
        found = result_of(capsys.readouterr().out)["glossary"]
        assert any(word.casefold() in row["words"].casefold() for row in found)


def test_an_entry_is_plain_text_and_says_what_it_refers_to(capsys):
    assert main(["explain", "persistence", "domain"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("persistence domain: the set of places")
    assert not set("*`[]") & set(shown)
    assert "see also: places" in shown


def test_the_words_of_verdicts_and_those_that_entries_refer_to_are_explained():
    for entry in entries():
        assert all(map(known, [entry.words, *entry.others])), entry
    for word in (*Condition, *Verdict, "timed", "places", "Polling", "ok, fail, info", "loose"):
        assert known(str(word)), word
    _, durable = known("durable")
    assert durable.text.startswith("a *condition*: durable linearizability")


def test_a_name_of_rpsim_is_said_to_be_one(capsys):
    assert main(["explain", "saw"]) == 0
    assert capsys.readouterr().out.startswith("saw: a scheme, send after write")


def test_a_word_that_there_is_not_has_the_nearest_beside_it(capsys):
    assert main(["explain", "doorbel"]) == 2
    assert "found 'doorbel', expected a word of the glossary" in (err := capsys.readouterr().err)
    assert err.endswith("did you mean 'doorbell'?\n")


def test_a_step_of_primitives_is_explained_at_each_place_where_it_may_happen(capsys):
    assert main(["explain", "write", "back"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "llc: write back: a step, the root complex writes lines back, and keeps them",
        "  its end proves: nothing",
    ]
    assert main(["explain", "wait", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)["result"]["names"]
    assert {row["name"] for row in names} >= {"requester cpu: wait", "imc: wait"} and all(
        row["proves"] for row in names
    )
    assert main(["explain", "wirte back"]) == 2
    assert "did you mean 'write back'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rpsim expl", {"explain"}),
        ("rpsim crash quickst", {"quickstart"}),
        ("rpsim list pl", {"platforms"}),
        ("rpsim new li", {"litmus"}),
        ("rpsim measure plan.yaml --platform rnvm", {"rnvm-testbed"}),
    ],
)
def test_a_shell_is_given_the_names_that_fit(line, expected, tmp_path):
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    asked |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    subprocess.run([sys.executable, "-m", "rpsim"], env=os.environ | asked, check=True, timeout=60)
    assert set(answer.read_text().split()) == expected


def test_the_code_for_a_shell_names_the_command(capsys):
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert "rpsim" in capsys.readouterr().out
    assert main(["completion", "bsh"]) == 2
    assert "did you mean 'bash'?" in capsys.readouterr().err
