"""What rNVM promises, in small: the cells of docs/reproduction/rnvm-crash.md, and the cases that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.registry import scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import load_scenario
from rpsim.validation.crash.explore import explore
from rpsim.validation.matrix.guarantees import file_of, fitted_to, scenario_of

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
POWER = "server[0] power"
LIST = f"{EXAMPLES}/sorted_list.py:sorted-list"
HELD, LOST = Verdict.HOLDS, Verdict.VIOLATED


def cell(name: str, domain: str, operations: int = 6):
    """The verdicts on a structure on rNVM's testbed, and whether all was explored."""
    kind = scheme(name)
    file, fitted = scenario_of(POWER, kind), fitted_to(kind, scenario_of(POWER, kind), POWER)
    chosen = (f'schemes=["{name}"]', "vary.platform=[rnvm-testbed]", "vary.ddio=[on]", f"vary.domain=[{domain}]")
    scenario = load_scenario(file_of(file), (*chosen, *fitted, f"workload.operations={operations}"), 1)
    (variant,) = scenario.variants()
    report = explore(run_variant(scenario, variant), scenario, variant, examples=())
    assert report.exhaustive
    return report.verdicts


@pytest.mark.parametrize(
    ("name", "domain", "lost"),
    [
        ("bst on rnvm-r", "adr", LOST),
        ("bst on rnvm-r", "wsp", HELD),
        ("bst on rnvm-r over ibta-flush-persistent", "adr", HELD),
        ("bst on rnvm-r over read-after-write", "adr", LOST),
        ("queue on rnvm-rcb", "wsp", LOST),
        ("queue on rnvm-rcb[oplog=awaited]", "wsp", HELD),
        (f"{LIST} on rnvm-r", "adr", LOST),
        (f"{LIST} on rnvm-r", "wsp", HELD),
        (f"{LIST} on rnvm-rcb[oplog=awaited]", "wsp", HELD),
    ],
)
def test_what_has_returned_is_lost_or_not_and_never_half_there(name, domain, lost):
    verdicts = cell(name, domain)
    assert (verdicts[Condition.NO_LOST_ACK], verdicts[Condition.COMMITTED]) == (lost, HELD)


@pytest.mark.parametrize("mode", ["naive", "rnvm-r", "rnvm-rc", "rnvm-rcb", "symmetric", "symmetric-b"])
def test_a_structure_of_a_file_of_ones_own_goes_on_every_mode(mode, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workload = "{kind: mix, shares: {insert: 0.5, find: 0.5}, keys: 8, value: 8 B, operations: 40}"
    alone = ("roles.client.machines=1", "roles.client.processes=1")
    given = (f'schemes=["{LIST} on {mode}"]', "platform=rnvm-testbed", f"workload={workload}", *alone)
    options = [word for one in given for word in ("--set", one)]
    assert main(["run", "update-only", "--jobs", "1", "--no-report", "--out", "results", *options]) == 0
    assert "sorted-list" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["lost-ack", "read-back", "posted", "half-payment", "out-of-sight", "shift-met"])
def test_a_case_of_the_page_is_violated_again(name, capsys):
    assert main(["replay", str(EXAMPLES / f"rnvm-{name}.json")]) == 0
    assert "VIOLATED" in capsys.readouterr().out
