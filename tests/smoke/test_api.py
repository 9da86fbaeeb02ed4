"""rpsim from Python: run, crash, check and load, their answers as fields, records, words and pages."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

import rpsim
from rpsim.app.main import main

from ..answers import result_of

SMALL = {"workload.keys": 4, "workload.operations": 24, "workload.value": "64 B", "roles.client.processes": 2}
ONE = {"schemes": ["client-active"], "platform": "optane-adr", "seed": 7}
HISTORY = Path(__file__).parents[2] / "docs/examples/lost-update.jsonl"
PUSH = HISTORY.with_name("push.yaml")


@pytest.fixture(scope="module")
def crashed():
    return rpsim.crash("quickstart", ddio="on", set=SMALL, **ONE)


def on_the_command_line(capsys, tmp_path, command):
    settings = [word for item in SMALL.items() for word in ("--set", "=".join(map(str, item)))]
    settings += ["--set", "schemes=[client-active]", "--set", "platform=optane-adr", "--set", "ddio=on", "--seed", "7"]
    main([command, "quickstart", *settings, "--json", "--jobs", "1", "--no-report", "--out", str(tmp_path)])
    return result_of(capsys.readouterr().out)


def test_a_run_is_that_of_the_command_line(capsys, tmp_path):
    answer = rpsim.run("quickstart", ddio="on", set=SMALL, **ONE)
    (entry,) = on_the_command_line(capsys, tmp_path, "run")["schemes"]
    (run,) = answer.runs
    assert (run.scheme, run.platform, run.operations) == (entry["scheme"], entry["platform"], entry["operations"])
    assert run.latency_ns == entry["latency_ns"] and run.throughput_ops_per_s == entry["throughput_ops_per_s"]
    records = answer.records()
    assert [row["operation"] for row in records] == ["get", "put"] and sum(row["count"] for row in records) == 24
    assert records[1]["p50_ns"] == entry["latency_ns"]["put"]["p50"] and records[1]["seed"] == 7
    rows = answer.operations()
    assert len(rows) == 24 and {"invoke_ps", "latency_ns", "platform"} <= rows[0].keys()
    assert all(abs(row["latency_ns"] * 1000 - (row["return_ps"] - row["invoke_ps"])) < 1 for row in rows)
    assert "p50 us" in str(answer) and "client-active" in str(answer)
    assert "p50, us" in unescape(answer._repr_html_())


def test_a_crash_is_that_of_the_command_line(crashed, capsys, tmp_path):
    (entry,) = on_the_command_line(capsys, tmp_path, "crash")["schemes"]
    (found,) = crashed.explorations
    assert dict(found.verdicts) == entry["verdicts"] == crashed.verdicts["client-active"]
    assert (found.states, found.exhaustive) == (entry["states"], entry["exhaustive"])
    assert dict(found.violating_states) == entry["violating_states"]
    assert not crashed.unexpected
    assert {case.condition for case in crashed.cases} == {one["condition"] for one in entry["counterexamples"]}
    lost = next(case for case in crashed.cases if case.condition == "no_lost_ack")
    assert lost.lines_lost[0].label in lost.timeline() and lost.timeline() in str(crashed)
    assert {row["condition"]: row["verdict"] for row in crashed.records()} == entry["verdicts"]


def test_a_case_that_is_saved_replays(crashed, tmp_path, capsys):
    file = tmp_path / "case.json"
    crashed.cases[0].save(file)
    assert main(["replay", str(file)]) == 0
    assert crashed.cases[0].timeline().splitlines()[-1] in capsys.readouterr().out
    saved = file.read_text()
    assert main(["replay", str(file), "--perfetto", str(file)]) == 2
    assert f"--perfetto: found {file}, which the command reads" in capsys.readouterr().err
    assert file.read_text() == saved
    with pytest.raises(rpsim.InputError, match=r"path: found the folder \., expected a file to write"):
        crashed.cases[0].save(".")
    with pytest.raises(rpsim.InputError, match="cannot be written"):
        crashed.cases[0].save(tmp_path / "no such folder" / "case.json")


def test_a_notebook_shows_verdicts_slider_and_the_smallest_case(crashed):
    page = unescape(crashed._repr_html_())
    assert page.startswith('<iframe srcdoc="<!doctype html>')
    for part in (
        "no_lost_ack",
        'id="crash-lanes"',
        "Smallest counterexample",
        "const SLIDERS = [{",
        crashed.cases[0].scheme,
    ):
        assert part in page
    assert "{{" not in page and "Plotly" not in page


def test_verdicts_of_several_platforms_are_the_worst(crashed):
    (one,) = crashed.explorations
    words = [("holds", "holds", "undecided"), ("holds", "undecided", "violated"), ("holds", "holds", "undecided")]
    several = [replace(one, verdicts=dict(zip("abc", verdicts, strict=True))) for verdicts in words]
    answer = replace(crashed, explorations=(*several, replace(one, scheme="other", verdicts={"a": "violated"})))
    assert answer.verdicts == {
        "client-active": {"a": "holds", "b": "undecided", "c": "violated"},
        "other": {"a": "violated"},
    }


@pytest.mark.long
def test_the_variants_may_run_in_processes_of_their_own():
    schemes = ["saw", "client-active"]
    alone, together = (
        rpsim.run("quickstart", ddio="on", set=SMALL, **{**ONE, "schemes": schemes}, jobs=n) for n in (1, 2)
    )
    assert alone == together
    assert pickle.loads(pickle.dumps(alone.scenario)) == alone.scenario


def test_load_takes_whatever_run_takes(tmp_path):
    loaded = rpsim.load("quickstart", schemes=["saw"], set={"workload.keys": 9})
    assert loaded.schemes == ("saw",) and loaded.workload.keys == 9
    assert rpsim.load(loaded) == loaded == rpsim.load(rpsim.Draft.of(loaded))
    file = tmp_path / "mine.yaml"
    file.write_text(
        "scenario: mine\nplatform: optane-adr\nschemes: [saw]\n"
        "workload: {kind: ycsb, mix: a, keys: 2, value: 8 B, operations: 3}\n"
    )
    assert rpsim.load(file).name == "mine"


def test_a_history_is_judged_from_a_file_and_from_events(capsys):
    status = main(["check", str(HISTORY), "--json"])
    command = result_of(capsys.readouterr().out)["verdicts"]
    judged = rpsim.check(HISTORY)
    assert dict(judged.verdicts) == {name: one["verdict"] for name, one in command.items()}
    assert judged.holds is (status == 0) is False
    events = [json.loads(text) for text in HISTORY.read_text().splitlines()]
    again = rpsim.check(events)
    assert (again.verdicts, again.explanations) == (judged.verdicts, judged.explanations)
    assert set(judged.explanations) == {row["condition"] for row in judged.records() if row["verdict"] != "holds"}
    assert "VIOLATED" in str(judged) and "srcdoc" in judged._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rpsim.run("quickstat"), "quickstat: found no such scenario, expected the path of a scenario file"),
        (lambda: rpsim.run("quickstart", schemes=["sav"]), "argument schemes: schemes[0]: found 'sav'"),
        (lambda: rpsim.run("quickstart", sheme=["saw"]), "found the unknown argument 'sheme'"),
        (lambda: rpsim.run("quickstart", jobs=0), "argument jobs: found 0, expected a whole number of processes"),
        (lambda: rpsim.crash("quickstart", set={"workload.keys": 200_000}), "workload.keys: found 200,000 objects"),
        (lambda: rpsim.crash("quickstart", crash={"fault": "server[0] powr"}), "argument crash: crash.fault: found"),
        (
            lambda: rpsim.check([{"process": 0, "type": "invok", "f": "read", "time": 1}]),
            "history:1: type: found 'invok'",
        ),
        (lambda: rpsim.matrix(["read-after-rite"]), "did you mean 'read-after-write'?"),
        (lambda: rpsim.matrix(platforms=["adr, ddio of"]), "argument platforms: found 'adr, ddio of'"),
        (lambda: rpsim.matrix(shapes=["wrd"]), "did you mean 'word'?"),
        (lambda: rpsim.matrix(sizes=["64"]), "argument sizes: found '64', expected sizes with their units"),
        (lambda: rpsim.check(HISTORY, model="regster"), "did you mean 'register'?"),
        (lambda: rpsim.run(None), "argument scenario: found None, expected a shipped scenario's name"),
        (lambda: rpsim.run(5), "argument scenario: found 5"),
        (lambda: rpsim.run("quickstart", set=["workload.keys=5"]), "argument set: found ['workload.keys=5'], expected"),
        (lambda: rpsim.run("quickstart", set={5: 5}), "argument set: found {5: 5}"),
        (lambda: rpsim.matrix("no-flush"), "argument primitives: found 'no-flush', expected a list of primitives"),
        (lambda: rpsim.matrix(5), "argument primitives: found 5"),
        (lambda: rpsim.matrix(platforms="quick"), "argument platforms: found 'quick', expected a list"),
        (lambda: rpsim.matrix(sizes="64 B"), "argument sizes: found '64 B', expected a list of sizes"),
        (lambda: rpsim.matrix(queue_pairs=[0]), "argument queue_pairs: found 0, expected whole numbers"),
        (lambda: rpsim.matrix(queue_pairs=["a"]), "argument queue_pairs: found 'a'"),
        (lambda: rpsim.matrix(jobs=0), "argument jobs: found 0, expected a whole number of processes, at least 1"),
        (lambda: rpsim.check(5), "argument history: found 5, expected a list of events"),
        (
            lambda: rpsim.check([{"process": 0, "type": "invoke", "f": "get"}, {"value": b"x"}]),
            "history:2: found what JSON cannot hold (Object of type bytes is not JSON serializable), expected an event",
        ),
        (lambda: rpsim.check(HISTORY, conditions="durable"), "argument conditions: found 'durable', expected a list"),
        (lambda: rpsim.check(HISTORY, budget="x"), "argument budget: found 'x'"),
        (lambda: rpsim.check(HISTORY, model=5), "argument model: found 5"),
        (lambda: rpsim.check(HISTORY, loss="soon"), "argument loss: found 'soon', expected a time with its unit"),
        (lambda: rpsim.check(HISTORY, conditions=["durabl"]), "argument conditions: found 'durabl', expected one of"),
        (lambda: rpsim.check(HISTORY, model="registr"), "argument model: found 'registr', expected one of"),
        (lambda: rpsim.load(PUSH), "push.yaml: found a flush primitive, expected a scenario"),
    ],
)
def test_wrong_input_is_one_clear_error(call, message):
    with pytest.raises(rpsim.InputError) as caught:
        call()
    assert message in str(caught.value)


def test_a_matrix_is_judged_and_timed_as_on_the_command_line(capsys, tmp_path):
    where = ["adr, ddio on", "eadr, ddio on"]
    answer = rpsim.matrix(["no-flush", "read-after-write"], platforms=where, shapes=["word"])
    assert answer.verdicts["read-after-write"] == {"adr, ddio on": "violated", "eadr, ddio on": "holds"}
    assert set(answer.verdicts["no-flush"].values()) == {"violated"}
    options = ["no-flush,read-after-write", "--platforms", ";".join(where), "--shapes", "word", "--sizes", "64 B"]
    main(["matrix", "primitives", *options, "--quick", "--json", "--jobs", "1", "--out", str(tmp_path)])
    rows = result_of(capsys.readouterr().out)["rows"]
    assert [row["found"] for row in rows] == [one.found for one in answer.rows]
    assert [row["latency_ns"]["64"]["p50"] for row in rows] == [cost["p50_ns"] for cost in answer.costs()]
    found = {(row["primitive"], row["platform"], row["condition"]): row["verdict"] for row in answer.records()}
    assert found["read-after-write", "eadr, ddio on", "durable"] == "holds"
    assert {case.primitive for case in answer.cases} == {"no-flush", "read-after-write"}
    assert "LOST" in answer.cases[0].timeline() and "what it costs" in str(answer)
    assert "const ROWS = [{" in unescape(answer._repr_html_())


def test_the_figures_of_a_run_are_plotly_s():
    figures = rpsim.run("quickstart", ddio="on", set=SMALL, **ONE).figures()
    assert set(figures) == {"latency", "throughput", "hops of get", "hops of put"}
    assert {trace.name for trace in figures["latency"].data} == {"client-active, optane-adr, ddio on"}
