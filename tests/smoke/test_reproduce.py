"""``rpsim reproduce hardware`` on the command line: fields, exit statuses, folder, page, widths."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.app.commands.reproduce import hardware
from rpsim.app.main import main
from rpsim.validation.published.curves import board
from rpsim.validation.published.curves.sweep import variations
from rpsim.validation.published.scoreboard import Bar, summarise

from ..answers import result_of

QUICK = ["reproduce", "hardware", "--component", "nic", "--quick", "--jobs", "1"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder for the results of several commands: a point is simulated once, and kept there."""
    return str(tmp_path_factory.mktemp("results"))


@pytest.mark.long
@pytest.mark.xdist_group("reproduce nic")
def test_json_has_the_fields_that_scripts_lean_on(out, capsys):
    status = main([*QUICK, "--json", "--out", out])
    answer = result_of(capsys.readouterr().out)
    assert status == (0 if answer["summary"]["met"] else 1)
    for claim in answer["claims"]:
        assert {"id", "paper", "status", "published", "simulated", "met", "reason"} <= claim.keys()
        assert claim["status"] in ("fit", "input", "predict", "shape")
    folder = Path(answer["results"])
    assert {path.name for path in folder.iterdir()} == {"summary.json", "claims.csv", "report.html", "manifest.json"}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Plotly.newPlot" in page and "<script src" not in page and "{{" not in page.partition("<script>")[0]


@pytest.mark.long
@pytest.mark.xdist_group("reproduce nic")
@pytest.mark.parametrize(("bar", "status"), [(Bar(0.0, 9.0), 0), (Bar(1.1, 0.0), 1)])
def test_the_exit_status_is_the_bar(out, capsys, monkeypatch, bar, status):
    monkeypatch.setattr(board, "summarise", lambda claims, _: summarise(claims, bar))
    assert main([*QUICK, "--no-report", "--out", out]) == status
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines()[:-1])) <= 80
    assert ("the bar is met" if status == 0 else "the bar is missed") in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["reproduce", "hardwar"], "did you mean 'hardware'?"),
        (["reproduce"], "no PAPER"),
        (["reproduce", "hardware", "--component", "nick"], "did you mean 'nic'?"),
        (["reproduce", "hardware", "--qick"], "did you mean '--quick'?"),
        (["reproduce", "hardware", "--jobs", "0"], "at least 1"),
    ],
)
def test_wrong_input_is_told_with_the_nearest_name(tmp_path, capsys, monkeypatch, words, told):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_has_a_row_for_each_end(tmp_path, capsys, monkeypatch):
    kept = [curve for curve in hardware.chosen("nic", True) if curve.id in ("cx3-read", "cx5-write")]
    monkeypatch.setattr(hardware, "chosen", lambda component, quick: kept)
    main([*QUICK, "--sweep", "--json", "--no-report", "--out", str(tmp_path)])
    rows = result_of(capsys.readouterr().out)["sweep"]
    assert [(row["parameter"], row["value"]) for row in rows] == list(variations(kept))
