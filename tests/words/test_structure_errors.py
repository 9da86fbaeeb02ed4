"""A structure on a mode that is wrong: one line says where, what was found and what was expected; the status is 2."""

from __future__ import annotations

import json

import pytest

from rpsim.app.main import WRONG_INPUT, main

FILE = """
scenario: structures
title: a structure
platform: rnvm-testbed
schemes: [{scheme}]
roles: {{client: {{processes: {processes}}}}}
workload: {workload}
"""
KEYS = "{kind: ycsb, mix: a, keys: 8, value: 8 B, operations: 10}"
ITEMS = "{kind: mix, shares: {push: 0.5, pop: 0.5}, keys: 1, value: 8 B, operations: 10}"
WRONG = [
    ("bts on rnvm-r", "scheme.yaml:5: schemes[0]: found 'bts' at character 1 of", "did you mean 'bst'?"),
    ("bst on rnvm-cb", "found 'rnvm-cb' at character 8 of", "a mode of bst: "),
    ("bst on rnvm-cb", "found 'rnvm-cb' at character 8 of", "did you mean 'rnvm-rcb'?"),
    ("bst", "found 'bst', expected 'bst on' and a mode", ""),
    ("hash-table on symmetric-b", "found 'symmetric-b' in", "a mode without batches: the paper has none"),
    ("smallbank on rnvm-rcb", "found 'rnvm-rcb' in", "a mode without batches: the paper has none"),
    ("bst on rnvm-r[batch=4]", "found 'batch' at character 15 of", "an option of rnvm-r: reads, "),
    ("bst on rnvm-rc[polcy=lru]", "found 'polcy' at character", "did you mean 'policy'?"),
    (
        "bst on rnvm-rcb[batch=0]",
        "found 'batch=0' at character",
        "a whole number of at least 1 for the option 'batch' of rnvm-rcb",
    ),
    (
        "bst on rnvm-rc[cache=120%]",
        "found 'cache=120%' at character",
        "a share from 0% to 100%, e.g. '10%' for the option 'cache'",
    ),
    ("bst on rnvm-r[log=64 B]", "found 'log=64 B' at character", "a size of at least 256 B with its unit"),
    ("bst on naive over read-after-write", "found 'read-after-write' in", "naive has no logs"),
    (
        "bst on rnvm-r over write-send-cpu-flush",
        "found 'write-send-cpu-flush' in",
        "a primitive without SENDs and steps of the responder's CPU: the back-end is passive",
    ),
]


def said(capsys, tmp_path, monkeypatch, scheme: str, workload: str = KEYS, processes: int = 1, *more: str) -> list[str]:
    """The lines that say what is wrong."""
    text = FILE.format(scheme=json.dumps(scheme), workload=workload, processes=processes)
    (tmp_path / "scheme.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "scheme.yaml", "--jobs", "1", "--no-report", *more]) == WRONG_INPUT
    assert not (tmp_path / "results").exists()
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(("scheme", "found", "expected"), WRONG)
def test_a_name_that_stands_for_nothing(capsys, tmp_path, monkeypatch, scheme, found, expected):
    (line,) = said(capsys, tmp_path, monkeypatch, scheme)
    assert found in line and expected in line


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (
            "options.batch=0",
            "--set options.batch: found 0, expected a whole number of at least 1 for the option 'batch' of bst on",
        ),
        ("options.bach=4", "--set options.bach: found 'bach', expected an option of bst on rnvm-rcb: allocator, batch"),
        ("options.cache=120%", "--set options.cache: found '120%', expected a share from 0% to 100%"),
    ],
)
def test_an_option_in_a_scenario_that_the_mode_refuses(capsys, tmp_path, monkeypatch, given, found):
    (line,) = said(capsys, tmp_path, monkeypatch, "bst on rnvm-rcb", KEYS, 1, "--set", given)
    assert found in line


def test_two_writers_of_one_structure(capsys, tmp_path, monkeypatch):
    (line,) = said(capsys, tmp_path, monkeypatch, "bst on rnvm-r", KEYS, 2)
    assert line.startswith("scheme.yaml:7: workload: found 2 processes that write for bst on rnvm-r") and "own" in line


def test_finds_of_a_stack(capsys, tmp_path, monkeypatch):
    (line,) = said(capsys, tmp_path, monkeypatch, "stack on rnvm-r", ITEMS.replace("pop", "find"))
    assert "workload.shares.find: found 'find', expected an operation of stack on rnvm-r" in line
    assert line.endswith("push, pop")


def test_a_log_that_is_smaller_than_a_transaction(capsys, tmp_path, monkeypatch):
    (line,) = said(capsys, tmp_path, monkeypatch, "mv-bpt on rnvm-r[log=256 B]")
    assert "B in a log of 256 B, expected [log=" in line and line.endswith("or a smaller batch")
