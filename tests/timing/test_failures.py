"""What fails in time during a run: operations end unknown or wait, throughput has a gap, what was written is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.failing import performed
from rpsim.sim.errors import InputError

from ..answers import result_of


def draft(*failures, clients=1, scheme="saw", **workload):
    load = {"kind": "ycsb", "mix": "a", "keys": 4, "value": "64 B", "operations": 60}
    return Draft.new(
        "x", scenario="x", schemes=scheme, platform="optane-adr", ddio="on",
        roles={"client": {"machines": clients, "processes": 1}}, workload=load | workload, failures=list(failures),
    )  # fmt: skip


def ran(*failures, **more):
    built = draft(*failures, **more).build()
    return performed(built, built.variants()[0])


def refused(failure):
    with pytest.raises(InputError) as caught:
        draft(failure).build()
    return str(caught.value)


def test_without_failures_nothing_is_otherwise():
    plain = ran()
    assert plain.over_time == {} and "failures" not in draft().build().resolved()
    assert (
        ran({"at": "10 s", "fault": "server[0] process"}).latency_ps["put"].tolist() == plain.latency_ps["put"].tolist()
    )


@pytest.mark.parametrize(
    "failures",
    [
        [{"at": "100 us", "fault": "server[0] process"}],
        [{"at": "100 us", "fault": "server[0] power", "down": "3 ms"}],
        [{"at": "100 us", "fault": "server[0] power"}, {"at": "537.779 ms", "fault": "server[0] power"}],
    ],
)
def test_a_server_that_comes_back_has_what_was_acknowledged(failures):
    result = ran(*failures, operations=300)
    operations = result.history.operations
    assert len(operations) == 300 and all(o.outcome in ("ok", "info") for o in operations)
    may_be: dict[object, set[object]] = {}
    for o in operations:  # of one client: what is read is its last write, or one of unknown outcome behind that
        if o.f == "get":
            assert o.result in may_be.get(o.object, {0})
        elif o.outcome == "ok":
            may_be[o.object] = {o.argument}
        else:
            may_be[o.object] = may_be.get(o.object, {0}) | {o.argument}
    last_ps = max(int(1e6 * one["at_us"]) for one in result.over_time["failures"])
    assert any(o.f == "get" and o.invoke_ps > last_ps for o in operations)


def test_power_is_away_as_long_as_it_says_and_no_operation_returns_meanwhile():
    result = ran({"at": "100 us", "fault": "server[0] power", "down": "600 ms"}, clients=2)
    (failure,) = result.over_time["failures"]
    assert failure == {"at_us": 100.0, "fault": "server[0] power", "back_us": 600_100.0, "after_the_end": False}
    returned = sorted(o.return_ps for o in result.history.operations if o.outcome == "ok")
    assert not [at_ps for at_ps in returned if 105_000_000 < at_ps < 600_100_000_000]
    assert returned[-1] > 600_100_000_000
    intervals = result.over_time["intervals"]
    assert sum(row[kind] for row in intervals for kind in ("ok", "fail", "info")) == 60
    assert intervals[10]["ok"] == 0 < intervals[0]["ok"] and result.over_time["waiting"] == 0


def test_a_client_that_dies_leaves_the_others_at_work():
    result = ran({"at": "50 us", "fault": "client[0] process"}, clients=2)
    late = {o.process for o in result.history.operations if o.invoke_ps > 50_000_000}
    assert late == {1} and sum(o.process == 1 for o in result.history.operations) == 30


def test_what_strikes_nobody_says_so():
    (failure,) = ran({"at": "10 s", "fault": "server[0] process"}).over_time["failures"]
    assert failure["after_the_end"]


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ({"at": "1 us", "fault": "server[1] process"}, "fault: found 'server[1] process', expected an index below 1"),
        ({"at": "1 us", "fault": "server[0] lost then server[0] power"}, "failures[0].fault: found"),
        ({"at": "1 us", "fault": "all power"}, "expected machines or processes that fail at one instant"),
        ({"at": "1 us", "fault": "no fault"}, "found 'no fault', expected machines or processes"),
        ({"at": "1 us", "fault": "server[0] power in recovery"}, "expected machines or processes"),
        ({"at": "1 us", "fault": "server[0] process", "down": "1 ms"}, "down: found down of 'server[0] process'"),
        ({"at": "soon", "fault": "server[0] power"}, "failures[0].at: found 'soon', expected a time from the start"),
        ({"fault": "server[0] power"}, "failures[0].at: found nothing, expected when it fails"),
        ({"at": "1 us", "faults": "server[0] power"}, "the unknown key 'faults', expected one of at, fault, down"),
    ],
)  # fmt: skip
def test_a_wrong_failure(failure, said):
    assert said in refused(failure)


def test_run_prints_it_and_crash_explores_what_crash_fault_says(tmp_path, capsys):
    file = tmp_path / "gap.yaml"
    file.write_text(
        "scenario: gap\nplatform: optane-adr\nddio: on\nschemes: [saw]\n"
        "workload: {kind: ycsb, mix: update-only, keys: 1, value: 64 B, operations: 2}\n"
        "failures: [{at: 3 us, fault: 'server[0] process'}]\n"
    )
    few = ["--out", str(tmp_path), "--json", "--jobs", "1", "--no-report"]
    assert main(["run", str(file), *few]) == 0
    (entry,) = result_of(capsys.readouterr().out)["schemes"]
    assert entry["failures"][0]["fault"] == "server[0] process" and len(entry["intervals"]) == 20
    assert main(["crash", str(file), *few]) == 0
    (entry,) = result_of(capsys.readouterr().out)["schemes"]
    assert entry["fault"] == "server[0] power" and "failures" not in entry


def test_the_terminal_tells_what_failed_and_for_how_long_nobody_got_an_answer(tmp_path, capsys):
    file = Path(__file__).parents[2] / "docs" / "examples" / "gap.yaml"
    few = ["--set", "schemes=[saw]", "--set", "workload.operations=100", "--out", str(tmp_path), "--no-report"]
    assert main(["run", str(file), *few, "--jobs", "1"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "saw on optane-adr: server[0] power at 100 us, back at 600,100 us: no answer for " in text
    assert float(text.split("no answer for ")[1].split()[0].replace(",", "")) > 600_000
