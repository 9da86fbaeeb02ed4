"""``rpsim reproduce PAPER`` on the command line: stopped, started again, swept, drawn; with the paper of the docs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.validation.published.papers import paper, runs
from rpsim.validation.published.papers.paper import read_paper

from ..answers import result_of

EXAMPLE = Path(__file__).parents[2] / "docs/examples/claims.yaml"


@pytest.fixture
def words(tmp_path, monkeypatch):
    """The command's words, for a paper that takes a moment."""
    text = EXAMPLE.read_text(encoding="utf-8").replace("published: 1.96", "published: 9.96")
    text += 'quick_operations: 20\nsweep_operations: 10\nmissed:\n  - {claims: [X-1], because: "Too few operations."}\n'
    claims = tmp_path / "claims"
    claims.mkdir()
    (claims / "example.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(paper, "FOLDER", claims)
    return ["reproduce", "example", "--quick", "--jobs", "1", "--out", str(tmp_path / "results")]


@pytest.mark.long
def test_who_is_stopped_goes_on_where_it_stopped(words, tmp_path, capsys, monkeypatch):
    measure, begun = runs.measure, []

    def stopped(draft, values):
        if len(begun) == 2:
            raise KeyboardInterrupt
        begun.append(repr(draft.data))
        return measure(draft, values)

    monkeypatch.setattr(runs, "measure", stopped)
    assert main([*words, "--json"]) == 130
    told = capsys.readouterr()
    assert told.out == "" and "2 of 5 runs are kept: the same command goes on from there" in told.err
    assert [path.name for path in (tmp_path / "results").iterdir()] == [".example-runs.jsonl"]

    def going_on(draft, values):
        assert repr(draft.data) not in begun
        return measure(draft, values)

    monkeypatch.setattr(runs, "measure", going_on)
    main([*words, "--json"])
    answer = result_of(capsys.readouterr().out)
    assert {claim["id"] for claim in answer["claims"]} == {"X-1", "X-2"}
    assert len(json.loads((Path(answer["results"]) / "runs.json").read_text())) == 5


@pytest.mark.long
def test_page_report_and_terminal_show_the_figure_the_reason_and_what_is_swept(words, tmp_path, capsys):
    main([*words, "--sweep", "--pages", str(tmp_path / "pages")])
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert max(len(line) for line in lines if not line.startswith(("report:", "results:"))) <= 80
    assert "0 as it is" in out and "1 cpu.request = 300 ns" in out and "2 cpu.request = 800 ns" in out
    (folder,) = [path for path in (tmp_path / "results").iterdir() if path.is_dir()]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'id="plot-figure-1"' in page and "Left out" not in page
    text = (tmp_path / "pages/example.md").read_text(encoding="utf-8")
    assert "| claim | as it is | cpu.request = 300 ns | cpu.request = 800 ns |" in text
    assert "- X-1: Too few operations." in text
    swept = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["sweep"]
    assert [row["parameter"] for row in swept] == ["as it is", "cpu.request = 300 ns", "cpu.request = 800 ns"]


def test_fields_of_a_scenario_may_be_swept_as_well():
    example = read_paper(EXAMPLE)
    (run, *_) = runs.needed(example, example.claims, figures=False)
    assert "server" not in runs.scenario(example, run).data.get("roles", {})
    otherwise = runs.scenario(example, run, values={"roles.server.threads": 4, "cpu.request": "1 us"}).data
    assert otherwise["roles"]["server"] == {"threads": 4} and "cpu" not in otherwise
    assert runs.hardware_of({"roles.server.threads": 4, "cpu.request": "1 us"}) == {"cpu.request": "1 us"}
