"""Does docs/calibration.md show what the commands print? (RPSIM_RENEW=1 writes the files anew.)"""

from __future__ import annotations

import re

import pytest

from rpsim.app.main import main
from rpsim.validation.measuring.plan import DEFAULTS, KEYS

from .pages import EXAMPLES, ROOT, code, rows, section
from .test_docs_outcomes import printed

PAGE = ROOT / "docs" / "calibration.md"
LOG, TABLE = str(EXAMPLES / "perftest-connectx3.txt"), str(EXAMPLES / "connectx4-send.json")


@pytest.mark.long
def test_a_fit_prints_and_writes_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [LOG, "--platform", "connectx5-lab", "--largest", "2KiB", "--write", "connectx3-lab.yaml"]
    assert main(["calibrate", *words, "--jobs", "1"]) == 0
    out = capsys.readouterr().out.removesuffix("\nprofile: connectx3-lab.yaml\n")
    assert out == printed("calibrate-fit.txt", out)
    profile = (tmp_path / "connectx3-lab.yaml").read_text(encoding="utf-8")
    shown = printed("connectx3-lab.yaml", profile)
    assert "rpsim " in profile and _any_version(profile) == _any_version(shown)


def _any_version(text: str) -> str:
    return re.sub(r"by rpsim \S+", "by rpsim", text)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("calibrate-compare.txt", ["compare", LOG, "--platform", "connectx3-perftest"]),
        ("calibrate-connectx4.txt", [TABLE, "--platform", "connectx4-lab"]),
    ],
)
def test_a_calibration_prints_what_the_page_shows(capsys, name, words):
    assert main(["calibrate", *words, "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert out == printed(name, out)
    assert max(map(len, out.splitlines())) <= 80


def test_every_key_of_a_plan_is_explained():
    named = [
        code(word) for row in rows(section(PAGE, "One description, two ways to run it")) for word in row[0].split(", ")
    ]
    assert sorted(named) == sorted(KEYS)
    assert set(DEFAULTS) <= set(KEYS)
