# ruff: noqa: E501 (whole lines of output)
"""Faults that cannot be explored and outages of no core, on the command line: one line that names what was found and expected, exit 2."""

# ruff: noqa: E501
import pytest

from rpsim.app.main import main
from rpsim.scenarios.schema.load import load_scenario

SCENARIO = """\
scenario: mirrored
platform: optane-adr
roles: {client: {machines: 2}}
schemes: [mirrored]
workload: {kind: ycsb, mix: update-only, keys: 1, value: 8 B, operations: 2}
"""


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("crash.fault=data[9] power", "found 'data', expected a fault of a role of these schemes: client, primary, mirror, as in 'primary[0] power'"),
        ("crash.fault=primary[9] power", "found 'primary[9] power', expected an index below 1: so many primary machines there are, counted from 0"),
        ("crash.fault=primray power", "found 'primray', expected a fault of a role of these schemes: client, primary, mirror; did you mean 'primary'?"),
        ("crash.fault=mirror[0] process", "found 'process', expected something of a mirror that may fail: power, lost"),
        ("crash.fault=primary[0] lost", "found 'lost', expected something of a primary that may fail: power, process, power in recovery"),
        ("crash.fault=all lost", "found 'lost', expected something of all machines that may fail: power"),
        ("crash.fault=mirror[0] lost then mirror[0] power", "found 'mirror[0] power', expected behind 'then' a machine that is still there: mirror[0] is lost"),
        ("crash.fault=mirror[0] + mirror power", "found 'mirror[0]' twice, expected each machine once"),
        ("crash.fault=client[0] process in recovery", "found 'process in recovery', expected something of a client that may fail: power, process"),
        ("crash.down=soon", "found 'soon', expected a time from the start with its unit, e.g. '1.2 us'"),
        ("outages=[{core: 'primry[0] core 0', at: 1 us, for: 1 us}]", "outages[0].core: found 'primry', expected a role of these schemes: client, primary, mirror; did you mean 'primary'?"),
        ("outages=[{core: 'primary[5] core 0', at: 1 us, for: 1 us}]", "outages[0].core: found 'primary[5]', expected an index below 1: so many primary machines there are, counted from 0"),
        ("outages=[{core: 'client[1] core 999', at: 1 us, for: 1 us}]", "outages[0].core: found 'client[1] core 999', expected a core below 1: so many cores client[1] has, counted from 0"),
        ("outages=[{core: 'primary[0] cor 0', at: 1 us, for: 1 us}]", "outages[0].core: found 'primary[0] cor 0', expected a machine and the number of its core, e.g. 'server[0] core 0'"),
        ("outages=[{cor: 'primary[0] core 0', at: 1 us, for: 1 us}]", "outages[0].cor: found the unknown key 'cor', expected one of core, at, for; did you mean 'core'?"),
    ],
)  # fmt: skip
def test_one_line_and_exit_2(changed, told, tmp_path, capsys):
    path = tmp_path / "mirrored.yaml"
    path.write_text(SCENARIO)
    assert main(["crash", str(path), "--set", changed]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and len(printed.err.splitlines()) == 1
    assert told in printed.err


def test_power_in_recovery_is_not_offered_for_a_machine_that_recovers_nothing_and_taken_where_others_recover_for_it(
    tmp_path, capsys
):
    path = tmp_path / "mirrored.yaml"
    path.write_text(SCENARIO)
    for role, offered in (("primary", "power, process, power in recovery"), ("mirror", "power, lost")):
        assert main(["crash", str(path), "--set", f"crash.fault={role}[0] powr in recovery"]) == 2
        assert f"expected something of a {role} that may fail: {offered}" in capsys.readouterr().err
    scenario = load_scenario(str(path), ["crash.fault=mirror[0] power in recovery"])
    assert str(scenario.crash.fault) == "mirror[0] power in recovery"


def test_a_list_of_faults_may_have_pluses_and_commas_in_brackets(capsys):
    faults = "primary[0,7] power,mirror[0] + mirror[0] lost"
    assert main(["matrix", "schemes", "mirrored", "--faults", faults, "--quick"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "'primary[7] power'" in first and "'mirror[0]' twice" in second
