"""What the PMR paper promises, in small: the cells of docs/reproduction/pmr-crash.md, and the cases that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.validation.crash.explore import explore

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
HELD, LOST = Verdict.HOLDS, Verdict.VIOLATED


def cell(scheme: str, platform: str = "pmr-testbed", **settings: str):
    """The verdicts on six puts of two keys, power cut at any instant; of a raw path or a line one process puts."""
    raw = scheme in ("ssdsync", "pmrsync", "pmrsync-barrier", "pmrdirect", "pmemdirect") or scheme.startswith("line")
    scenario = Draft.new(
        "cell",
        scenario="cell",
        vary={"platform": [platform], **{name: [value] for name, value in settings.items()}},
        schemes=[scheme],
        roles={"client": {"machines": 1, "processes": 1 if raw else 2}},
        workload={"kind": "ycsb", "mix": "update-only", "keys": 2, "value": "16 B", "operations": 6},
        crash={"fault": "server[0] power", "instants": "all", "view": "adversarial"},
    ).build()
    (variant,) = scenario.variants()
    report = explore(run_variant(scenario, variant), scenario, variant, examples=())
    assert report.exhaustive
    return report.verdicts[Condition.NO_LOST_ACK], report.verdicts[Condition.COMMITTED]


@pytest.mark.parametrize("pmrwbm", ["1", "2", "3"])
@pytest.mark.parametrize(
    ("scheme", "lost"), [("pmrsync", LOST), ("pmrsync-barrier", HELD), ("pmrdirect", LOST), ("pmraccess", LOST)]
)
def test_what_is_in_the_region_lasts_or_not(scheme, lost, pmrwbm):
    assert cell(scheme, ddio="off", pmrwbm=pmrwbm)[0] == lost


@pytest.mark.parametrize("pmrwbm", ["1", "2"])
@pytest.mark.parametrize("mapping", ["uc", "wc"])
def test_a_barrier_is_one_through_either_mapping(mapping, pmrwbm):
    assert cell("pmrsync-barrier", ddio="off", pmrwbm=pmrwbm, pmr_mapping=mapping)[0] == HELD


@pytest.mark.parametrize(
    ("scheme", "settings", "found"),
    [
        ("ssdsync", {}, (HELD, HELD)),
        ("syncaccess", {}, (HELD, HELD)),
        ("groupaccess", {}, (HELD, HELD)),
        ("rdma-dram", {}, (LOST, LOST)),
        ("pmemaccess", {"ddio": "off"}, (LOST, LOST)),
        ("pmrdirect", {}, (LOST, LOST)),
        ("pmemdirect", {"ddio": "off"}, (LOST, LOST)),
        ("pmemdirect", {"ddio": "off", "ddio_off_ack_durable": "on"}, (HELD, HELD)),
        ("pmraccess", {}, (LOST, LOST)),
    ],
)
def test_what_has_returned_is_lost_or_torn_or_neither(scheme, settings, found):
    assert cell(scheme, **settings) == found


@pytest.mark.parametrize(("pmrwbm", "lost"), [("1", HELD), ("2", LOST), ("3", HELD)])
def test_a_read_back_is_a_barrier_where_the_drive_says_so(pmrwbm, lost):
    assert cell("line over pmr-write-read-back", "any-pmr", pmrwbm=pmrwbm)[0] == lost
    assert cell("line over pmr-write", "any-pmr", pmrwbm=pmrwbm)[0] == LOST


@pytest.mark.parametrize("name", ["direct", "posted-stores", "torn", "order", "no-barrier"])
def test_a_case_of_the_page_is_violated_again(name, capsys):
    assert main(["replay", str(EXAMPLES / f"pmr-{name}.json")]) == 0
    assert "VIOLATED" in capsys.readouterr().out
