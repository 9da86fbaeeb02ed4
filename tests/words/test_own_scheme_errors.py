"""A scheme of a user's own that raises an error: one line says where, and the status is that of wrong input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rpsim
from rpsim.app.main import BUG, WRONG_INPUT, main
from rpsim.protocols.registry import schemes
from rpsim.scenarios.schema.faults import check_claims
from rpsim.scenarios.schema.known import KnownNames

COUNTER = Path(rpsim.__file__).parent / "docs" / "examples" / "counter.py"
STORED = '            server = self.scheme.roles["server"][0]\n            address'
RUN = """
scenario: counter
title: a counter with a mistake in it
platform: optane-adr
ddio: on
schemes: ["{file}:{name}"]
workload:
  {{kind: schedule, keys: 1, value: 8 B, operations: [{{process: 0, f: fetch_add, object: k0, argument: 5}}]}}
"""


def wrong(folder: Path, line: str) -> int:
    """A counter with a line that is wrong, and its scenario; returns the number of the line."""
    text = COUNTER.read_text(encoding="utf-8").replace("flushed-counter", "wrong-counter")
    assert STORED in text
    text = text.replace(STORED, f"            {line}\n{STORED}", 1)
    (folder / "wrong.py").write_text(text, encoding="utf-8")
    (folder / "run.yaml").write_text(RUN.format(file="wrong.py", name="wrong-counter"), encoding="utf-8")
    return text[: text.index(line)].count("\n") + 1


@pytest.mark.parametrize(
    ("command", "line", "found"),
    [
        ("crash", "1 // 0", "ZeroDivisionError: integer division or modulo by zero, expected"),
        ("run", "self.nobody()", "AttributeError: 'Client' object has no attribute 'nobody', expected"),
        ("run", "self.node.memory['pm'].allocate(1 << 60, 'all')", "(raised in devices.py:"),
    ],
)
def test_the_file_and_the_line_of_the_scheme_are_named(command, line, found, tmp_path, monkeypatch, capsys):
    at = wrong(tmp_path, line)
    monkeypatch.chdir(tmp_path)
    assert main([command, "run.yaml", "--jobs", "1"]) == WRONG_INPUT
    (said,) = [row for row in capsys.readouterr().err.splitlines() if "found" in row]
    assert said.startswith(f"wrong.py:{at}: found ") and found in said
    assert said.endswith("expected code that runs without an error of its own")


def test_a_claim_for_a_place_that_there_is_not(tmp_path, monkeypatch, capsys):
    wrong(tmp_path, "pass")
    text = (tmp_path / "wrong.py").read_text(encoding="utf-8")
    claims = 'claims: ClassVar[Claims] = {Condition.DURABLE: "CLAIM"}'
    text, count = re.subn(r"claims: ClassVar\[Claims\] = .*", claims, text)
    assert count == 1
    monkeypatch.chdir(tmp_path)
    for number, (claim, hint) in enumerate(
        {
            "ddio offf": "; did you mean 'ddio off'?",
            "server[0] power": "; did you mean 'server power'?",
            "optane-adr, sever process": "; did you mean 'server process'?",
        }.items()
    ):
        Path(f"claim{number}.py").write_text(text.replace("CLAIM", claim), encoding="utf-8")
        Path("run.yaml").write_text(RUN.format(file=f"claim{number}.py", name="wrong-counter"), encoding="utf-8")
        assert main(["crash", "run.yaml"]) == WRONG_INPUT
        part = claim.rpartition(", ")[2]
        expected = (
            f"schemes[0]: found the claim of durable for '{part}', expected always alone, or a platform, a switch"
        )
        said = capsys.readouterr().err
        assert expected in said and said.endswith(hint + "\n")


def test_shipped_schemes_claim_what_can_be_claimed():
    known = KnownNames.shipped()
    for name, facts in known.schemes.items():
        check_claims(schemes()[name].claims, facts, known)


def changed(folder: Path, old: str, new: str) -> int:
    """The file that ``rpsim new scheme`` writes, with one change; returns the number of the first changed line."""
    assert main(["new", "scheme", "own"]) == 0
    text = (folder / "own.py").read_text(encoding="utf-8")
    assert old in text
    (folder / "own.py").write_text(text.replace(old, new, 1), encoding="utf-8")
    return text[: text.index(old)].count("\n") + 1


RUN_NEW = ["run", "own.yaml", "--jobs", "1", "--set", "workload.operations=6"]


@pytest.mark.parametrize(
    ("old", "new", "where", "found"),
    [
        ("def probe", "def prob", 58, "Own: found no probe(), expected all that a scheme has to have"),
        ("def perform", "def perfom", 58, "Own: found no Client.perform(), expected all"),
        ("    title = ", "    heading = ", 58, "Own: found no title, expected all"),
        (
            'return b"durable"',
            'return "durable"',
            113,
            "Server.on_put: found a reply that is 'durable', expected bytes",
        ),
        ('return b"durable"', "return None", 113, "Server.on_put: found a reply that is None, expected bytes"),
        ('return b"durable"', "return bytes(100_000)", 113, "found a reply of 100,000 bytes, expected bytes, at most"),
        ('return b"durable"', "yield 5", 0, "found RuntimeError: serve yields 5: an event, or HOLD"),
        ("step = request.step", "step = request.step; yield 5", 0, 'yields "5": an event, or HOLD'),
        ('return b"durable"', "self.versionz", 0, "object has no attribute 'versionz', expected code"),
    ],
)
def test_a_scheme_that_is_not_as_it_should_be_is_told_with_its_line(
    old, new, where, found, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    at = changed(tmp_path, old, new)
    assert main(RUN_NEW) == WRONG_INPUT
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"own.py:{where or at}: ") and found in said


@pytest.mark.long
def test_an_error_in_a_worker_names_the_same_line(tmp_path, monkeypatch, capsys):
    at = wrong(tmp_path, "1 // 0")
    monkeypatch.chdir(tmp_path)
    run = (tmp_path / "run.yaml").read_text(encoding="utf-8").replace("ddio: on", "vary: {ddio: [on, off]}")
    (tmp_path / "run.yaml").write_text(run, encoding="utf-8")
    assert main(["run", "run.yaml", "--jobs", "2"]) == WRONG_INPUT
    assert f"wrong.py:{at}: found ZeroDivisionError" in capsys.readouterr().err


def test_an_error_without_a_users_code_is_a_bug(monkeypatch, capsys):
    def failing(arguments):
        raise ZeroDivisionError("nobody's")

    monkeypatch.setattr("rpsim.app.main.dispatch", failing)
    assert main([]) == BUG
    assert "this is a bug in rpsim" in capsys.readouterr().err


def test_a_bug_in_a_job_says_which_variant_it_was(monkeypatch, capsys):
    def failing(*arguments, **options):
        raise ZeroDivisionError("nobody's")

    monkeypatch.setattr("rpsim.validation.crash.explore.explore", failing)
    assert main(["crash", "quickstart", "--jobs", "1"]) == BUG
    said = capsys.readouterr().err
    assert "in client-active on optane-adr, ddio on, server[0] power, seed 1\n" in said
    assert "this is a bug in rpsim" in said
