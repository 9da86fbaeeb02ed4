"""One more store, one file: does its row appear everywhere? The store is the one that docs/adding.md adds."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.app.pages.schemes import contents, page
from rpsim.protocols.registry import schemes
from rpsim.protocols.scheme import Scheme
from rpsim.validation.mutation.mutants import planted, seeded

from ..answers import result_of

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
def seventh():
    """The store, as if its file lay in ``protocols/``."""
    name = "rpsim.protocols.read_back"
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / "read_back.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.ReadBack
    del sys.modules[name], Scheme.registry["read-back"]


def printed(capsys, *arguments):
    assert main([*arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.long
def test_its_row_appears_everywhere(seventh, capsys, tmp_path):
    assert "\nread-back " in printed(capsys, "list", "schemes")
    few = ["--set", "vary.platform=[optane-adr]", "--set", "vary.ddio=[off]", "--jobs", "1", "--no-report"]
    scenario = [str(EXAMPLES / "read-back.yaml"), *few, "--json", "--out", str(tmp_path)]
    (ran,) = result_of(printed(capsys, "run", *scenario))["schemes"]
    (crashed,) = result_of(printed(capsys, "crash", *scenario))["schemes"]
    assert (ran["scheme"], ran["operations"], crashed["verdicts"]["no_lost_ack"]) == ("read-back", 24, "holds")
    where = [
        "--platforms",
        "optane-adr",
        "--faults",
        "client[0] process",
        "--quick",
        "--jobs",
        "1",
        "--out",
        str(tmp_path),
    ]
    (row,) = result_of(printed(capsys, "matrix", "schemes", "read-back", *where, "--json"))["rows"]
    assert (row["subject"], row["platform"], row["claimed"]) == ("read-back", "optane-adr, ddio on", {})
    assert row["found"] == {"committed": "holds", "linearizable": "holds", "no_lost_ack": "holds"}


def test_its_page_is_made_and_faults_are_planted_in_it(seventh):
    made = page(seventh)
    assert all(part in made for part in ("# read-back\n", "**Publish**", "READ of 1 B", "| put | client |"))
    assert "[read-back](read-back.md)" in contents(schemes().values())
    faults = list(seeded(seventh, shared=False))
    assert faults
    with planted(seventh, *faults[0][::2]) as mutant:
        assert mutant.name == "read-back" and mutant is not seventh
