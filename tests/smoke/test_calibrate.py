"""``rpsim measure`` and ``rpsim calibrate`` as commands: what they print and write, and what takes their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.models.profiles.platform import load_platform

from ..answers import result_of

ROOT = Path(__file__).resolve().parents[2]
PLAN = """plan: small
measurements:
- {id: write, verb: WRITE, sizes: [8 B, 64 B, 512 B, 2 KiB], iterations: 4, warmup: 2}
- {id: read, verb: READ, sizes: [8 B, 512 B, 2 KiB], iterations: 4, warmup: 2}
- {id: send, verb: SEND, sizes: [8 B, 512 B], method: half_round_trip, iterations: 4, warmup: 2}
- {id: flush, verb: WRITE+FLUSH, sizes: 64 B, memory: [dram, dax], placement: persistent, iterations: 4, warmup: 2}
- {id: peer, verb: WRITE, sizes: 64 B, memory: dmabuf, iterations: 4, warmup: 2}
"""


@pytest.fixture
def measured(tmp_path, capsys, monkeypatch) -> Path:
    """A folder with the measurements of optane-eadr."""
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(PLAN, encoding="utf-8")
    assert main(["measure", "plan.yaml", "--platform", "optane-eadr", "--jobs", "1", "--write", "lab.json"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80 and "ibv_reg_mr: EINVAL" in " ".join(out.split())
    return tmp_path


def test_a_plan_is_measured_in_the_shared_format(measured):
    document = json.loads((measured / "lab.json").read_text(encoding="utf-8"))
    assert document["format"] == "rpsim-measurements-1" and document["origin"] == "simulated"
    assert document["machine"]["platform"] == "optane-eadr" and document["plan"] == "small"
    assert [bool(one.get("skipped")) for one in document["results"]].count(True) == 2
    for one in document["results"]:
        assert one.get("skipped") or sum(count for _, count in one["histogram"]) == 4
    schema = ROOT / "validation" / "verbs_bench" / "measurements.schema.json"
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(document, json.loads(schema.read_text(encoding="utf-8")))


@pytest.mark.long
def test_one_seed_the_same_bytes_with_one_process_or_two(measured, capsys):
    arguments = ["measure", "plan.yaml", "--platform", "optane-eadr", "--json"]
    assert main([*arguments, "--jobs", "2"]) == 0
    assert result_of(capsys.readouterr().out) == json.loads((measured / "lab.json").read_text(encoding="utf-8"))


@pytest.mark.long
def test_a_fit_is_written_as_a_profile_that_scenarios_take(measured, capsys):
    fit = ["calibrate", "lab.json", "--platform", "optane-adr", "--fit", "pcie.dma_read", "--jobs", "1"]
    assert main([*fit, "--write", "lab.yaml", "--html", "lab.html", "--json"]) == 0
    answer = result_of(capsys.readouterr().out)
    assert answer["parameters"][0]["paths"] == ["pcie.dma_read"] and answer["profile"] == "lab.yaml"
    assert answer["error"]["held_out"]["after"] <= answer["error"]["held_out"]["before"]
    profile = load_platform("lab.yaml")
    (found,) = (one for one in profile.parameters() if one.path == "pcie.dma_read")
    assert found.origin == "fitted" and "lab.json" in found.source
    assert profile.name == "lab" and "sha256" in profile.description
    page = Path("lab.html").read_text(encoding="utf-8")
    assert "Plotly.newPlot" in page and "{{" not in page.partition("<script>")[0] and "held out" in page
    few = [
        "--set",
        "workload.operations=20",
        "--set",
        "workload.warmup=0",
        "--set",
        "workload.keys=4",
        "--no-report",
        "--out",
        "results",
    ]
    assert main(["run", "ycsb-b", "--set", "platform=lab.yaml", *few, "--jobs", "1"]) == 0
    assert "lab" in capsys.readouterr().out
    assert main([*fit[:2], "--platform", "lab.yaml", *fit[4:], "--write", "again.yaml"]) == 0
    assert load_platform("again.yaml").name == "again"  # it extends lab.yaml, by its path


def test_what_is_there_is_not_replaced_unless_told(measured, capsys):
    before = (measured / "lab.json").read_bytes()
    again = ["measure", "plan.yaml", "--platform", "optane-adr", "--jobs", "1", "--write", "lab.json"]
    assert main(again) == 2
    assert "there already" in capsys.readouterr().err and (measured / "lab.json").read_bytes() == before
    assert main([*again, "--force"]) == 0
    assert (measured / "lab.json").read_bytes() != before
    assert {path.name for path in measured.iterdir()} == {"plan.yaml", "lab.json"}


def test_a_comparison_fits_nothing(measured, capsys):
    assert main(["calibrate", "compare", "lab.json", "--platform", "optane-adr", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "error (rms)" in out and "fitted" not in out and max(map(len, out.splitlines())) <= 80
    assert main(["calibrate", "compare", "lab.json", "--platform", "optane-adr", "--write", "x.yaml"]) == 2
    assert "--write: found it with rpsim calibrate compare, expected rpsim calibrate" in capsys.readouterr().err


def test_a_fit_that_foretells_nothing_better_ends_with_one(measured, capsys):
    """Measurements of the platform itself: nothing is left to gain, and a parameter bound elsewhere only spoils it."""
    arguments = ["calibrate", "lab.json", "--platform", "optane-eadr", "--fit", "pcie.dma_read", "--jobs", "1"]
    assert main([*arguments, "--bounds", "pcie.dma_read=1us..2us"]) == 1
    assert "stands at its lower bound" in " ".join(capsys.readouterr().out.split())
