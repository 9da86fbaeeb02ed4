"""``rpsim matrix groups``: a row is a group's verdicts beside its primitive's, with what it costs and why."""

from __future__ import annotations

import pytest

from rpsim.app.commands.matrix import groups as command
from rpsim.app.main import main
from rpsim.sim.errors import InputError
from rpsim.validation.matrix.configurations import configurations
from rpsim.validation.matrix.groups import group_jobs, group_row

from ...answers import result_of

ADR = configurations(["adr, ddio on"])


@pytest.fixture(scope="module")
def rows():
    faults = ["all power", "replica[0] lost"]
    return [group_row(job) for job in group_jobs(["fan-out of 2"], ["no-flush", "write-imm-cpu-flush"], ADR, faults)]


def test_a_row_is_durable_as_its_primitive_is_and_costs_more(rows):
    assert [(row.job.fault, row.finding.durable, row.alone.durable) for row in rows] == [
        ("all power", False, False), ("all power", True, True),
        ("replica[0] lost", True, False), ("replica[0] lost", True, True),
    ]  # fmt: skip
    for row in rows:
        assert row.cost.p50_ns > row.alone_cost.p50_ns and row.cost.wire_bytes > row.alone_cost.wire_bytes
    assert rows[0].finding.counterexample is not None and "NIC" in rows[0].finding.why


def test_what_is_printed_has_a_table_for_each_fault_and_fits(rows):
    said = command.lines(rows, {0: "case-1.json"})
    assert max(map(len, said)) <= 80
    assert [line for line in said if line in ("all power", "replica[0] lost")] == ["all power", "replica[0] lost"]
    assert "      case-1.json" in said


@pytest.mark.long
def test_the_command_keeps_its_rows_and_cases(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = ["--primitives", "no-flush", "--platforms", "adr, ddio on", "--faults", "all power", "--jobs", "1"]
    assert main(["matrix", "groups", "fan-out of 2", *where, "--json"]) == 0
    (row,) = result_of(capsys.readouterr().out)["rows"]
    assert (row["group"], row["primitive"], row["found"]["no_lost_ack"]) == ("fan-out of 2", "no-flush", "violated")
    (folder,) = (tmp_path / "results").iterdir()
    assert (folder / row["counterexample"]["case"]).is_file()


@pytest.mark.parametrize(
    "groups, primitives, faults, told",
    [
        (["chan"], ["no-flush"], ["all power"], "did you mean 'chain'"),
        (["quorum of 2"], ["no-flush"], ["all power"], "at least 3"),
        (["chain"], ["no-flus"], ["all power"], "did you mean 'no-flush'"),
        (["chain"], ["no-flush"], ["replica[5] lost"], "below 3"),
    ],
)
def test_what_is_no_group_is_refused_at_once(groups, primitives, faults, told):
    with pytest.raises(InputError, match=told):
        group_jobs(groups, primitives, ADR, faults)
