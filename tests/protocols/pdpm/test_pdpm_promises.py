"""What the Clover paper promises: the cells of docs/reproduction/clover-crash.md, and the cases that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.protocols.guarantees import claimed
from rpsim.protocols.registry import scheme as find_scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import load_scenario
from rpsim.validation.crash.explore import explore

PAGE = Path(__file__).parents[3] / "docs" / "reproduction" / "clover-crash.md"
EXAMPLES = PAGE.parents[1] / "examples"
TEXT = PAGE.read_text(encoding="utf-8")
POWER = [
    f"{scheme}{commit}" for scheme in ("pdpm-direct", "pdpm-central", "clover") for commit in ("", "[durable=commit]")
]


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    text = TEXT.split(f"## {heading}\n", 1)[1]
    lines = text[text.index("\n|---") :].splitlines()[2:]
    end = next((turn for turn, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[:end]]


def found(name: str, scheme: str, domain: str = "wsp"):
    """The report of one variant of a scenario, which was explored whole."""
    made = load_scenario(name)
    told = (scheme.replace(" ", ""), domain)
    (variant,) = (one for one in made.variants() if (one.scheme.replace(" ", ""), one.settings["domain"]) == told)
    report = explore(run_variant(made, variant), made, variant, examples=())
    assert report.exhaustive
    return report


def verdicts(report, *conditions: str) -> list[str]:
    told = {str(condition): str(verdict) for condition, verdict in report.verdicts.items()}
    return [told[condition] for condition in conditions]


@pytest.mark.parametrize("domain", ["adr", "eadr", "wsp"])
@pytest.mark.parametrize("scheme", POWER)
def test_what_all_machines_lose_with_their_power(scheme, domain):
    (cells,) = (row for row in rows("Power of all machines") if row[0] == scheme)
    turn = 1 + ("adr", "eadr", "wsp").index(domain)
    name = "clover-power" if scheme.startswith("clover") else "pdpm-power"
    assert verdicts(found(name, scheme, domain), "committed", "no_lost_ack") == [cells[turn], cells[turn + 3]]


@pytest.mark.parametrize("row", rows("One data node of two"), ids=lambda row: " ".join(row[:3]))
def test_what_a_data_node_loses(row):
    scheme, fault, domain, *told, states = row
    name = "clover-data-node" if fault.endswith("power") else "clover-replica-lost"
    report = found(name, scheme, domain)
    assert verdicts(report, "committed", "no_lost_ack") == told
    assert report.states == int(states)


@pytest.mark.long
@pytest.mark.parametrize("row", rows("The metadata server"), ids=lambda row: row[0])
def test_what_is_lost_with_the_metadata_server(row):
    scheme, *told, states = row
    report = found("clover-metadata", scheme)
    assert verdicts(report, "committed", "no_lost_ack") == told
    assert report.states == int(states)


@pytest.mark.parametrize("row", rows("A client that dies"), ids=lambda row: row[0])
def test_what_a_dead_client_leaves_behind(row):
    scheme, *told, waits = row
    report = found("pdpm-client", scheme)
    assert verdicts(report, "committed", "no_lost_ack", "linearizable") == told
    assert waits == f"{report.waiting or 'none'} of {report.states}{' runs' if report.waiting else ''}"


@pytest.mark.parametrize("name", ["pdpm-direct", "pdpm-central", "clover"])
def test_the_claims_are_a_crash_at_any_point_and_with_copies_the_loss_of_a_node(name):
    def claims(scheme, fault):
        return claimed(find_scheme(scheme).claims, "no_lost_ack", "clover-testbed, domain wsp", fault)

    assert all(claims(name, fault) for fault in ("client[0] process", "client[0] power", "data[1] power", "all power"))
    assert claims(f"{name}[replicas=2]", "data[0] lost") and not claims(name, "data[0] lost")
    assert not claims(f"{name}[replicas=2]", "metadata[0] lost")


@pytest.mark.parametrize("name", re.findall(r"rpsim replay docs/examples/([\w-]+)\.json", TEXT))
def test_a_case_of_the_page_is_violated_again(name, capsys):
    assert main(["replay", str(EXAMPLES / f"{name}.json")]) == 0
    assert "VIOLATED" in capsys.readouterr().out
