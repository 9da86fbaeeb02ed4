"""The command line: what it answers to, what it leaves behind, and with which status it ends."""

from __future__ import annotations

import builtins
import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import rpsim.app.terminal.output
import rpsim.app.terminal.work
import rpsim.protocols.registry
import rpsim.scenarios.schema.load
from rpsim.app.main import main

from ..answers import result_of
from ..words import fakes

HEAVY = {"numpy", "jinja2", "simpy", "networkx", "plotly", "pydantic", "yaml", "tqdm", "multiprocessing"}


@pytest.fixture
def quickstart(monkeypatch, tmp_path):
    """The commands on hand-made outcomes instead of an engine; runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    world = SimpleNamespace(scenario=fakes.scenario(), claims={}, failure=None)

    def perform_all(jobs, workers, description):
        if world.failure:
            raise world.failure
        return fakes.outcomes(crash=jobs[0].crash)

    monkeypatch.setattr(rpsim.scenarios.schema.load, "load_scenario", lambda name, overrides, seed: world.scenario)
    monkeypatch.setattr(rpsim.app.terminal.work, "perform_all", perform_all)
    both = {name: SimpleNamespace(claims=world.claims) for name in ("client-active", "saw")}
    monkeypatch.setattr(rpsim.protocols.registry, "scheme", both.get)
    return world


def results(folder: Path = Path("results")) -> Path:
    (only,) = folder.iterdir()
    return only


def test_help_loads_nothing_heavy():
    """That is what keeps it under 0.3 s (``rpsim bench`` measures it)."""
    code = "import sys; from rpsim.app.main import main\ntry: main(['--help'])\nexcept SystemExit: print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Exit status" in ended.stdout
    assert not HEAVY & {name.partition(".")[0] for name in ended.stdout.splitlines()[-1].split()}


def test_version_and_bare_call(capsys):
    assert main(["--version"]) == 0
    assert re.fullmatch(r"rpsim \d+\.\d+\S*\n", capsys.readouterr().out)
    assert main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["crahs"], "rpsim: found 'crahs', expected a command: run, crash, sweep, litmus,"),
        (["crahs"], "did you mean 'crash'?"),
        (["run"], "rpsim run: found no SCENARIO, expected a path to a scenario file, or"),
        (["run", "quickstart", "--sed", "5"], "did you mean '--seed'?"),
        (["run", "quickstart", "--seed"], "rpsim: --seed: found nothing, expected a value"),
        (["run", "quickstart", "--seed", "x"], "rpsim: --seed: found 'x', expected a whole number, at least 0"),
        (["run", "quickstart", "--jobs", "0"], "rpsim: --jobs: found '0', expected a whole number, at least 1"),
        (["run", "quickstart", "--set", "seed"], "rpsim: --set: found 'seed', expected FIELD=VALUE"),
        (["run", "quickstart", "again"], "rpsim: found 'again', expected nothing more"),
        (["run", "quikstart"], "quikstart: found no such scenario, expected"),
        (["run", "quickstart", "--set", "workload.kees=5"], "did you mean 'keys'?"),
        (["crash", "quickstart", "--set", "workload.keys=200000"], "workload.keys: found 200,000 objects, each of"),
        (
            ["list", "scheme"],
            "rpsim list: found 'scheme', expected one of kinds, schemes, structures, modes, parts, primitives, ",
        ),
        (["replay", "case-1.json"], "case-1.json: found no such file, expected a case-N.json"),
        (["--verson"], "did you mean '--version'?"),
    ],
)
def test_wrong_input_is_one_line_status_2_and_nothing_written(arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.count("\n") == 1
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "found"), [("", "an empty file"), ('{"a":', "no JSON (Expecting value)"), ("[]", "JSON that is no case")]
)
def test_a_file_that_is_no_case_is_told_in_one_line(text, found, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("case.json").write_text(text)
    assert main(["replay", "case.json"]) == 2
    assert re.fullmatch(
        rf"case\.json(:1)?: found {re.escape(found)}, expected a case-N\.json .*\n", capsys.readouterr().err
    )


def test_a_file_in_the_place_of_the_results_folder(quickstart, capsys, tmp_path):
    Path("taken").write_text("")
    assert main(["run", "quickstart", "--out", "taken/below"]) == 2
    assert "--out: found the file" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a file system in which nobody makes files")
def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work_whoever_asks(capsys):
    assert main(["mutate", "saw", "--out", "/proc/results"]) == 2
    assert capsys.readouterr().err.startswith("rpsim: --out: found /proc, which is not writable")


def test_run_prints_writes_and_says_where(quickstart, capsys):
    assert main(["run", "quickstart"]) == 0
    said = capsys.readouterr()
    folder = results()
    assert re.fullmatch(r"quickstart-[0-9a-f]{8}", folder.name)
    assert said.out.splitlines()[-1] == f"results: {folder.as_posix()}"
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json", "operations.csv", "report.html", "summary.json", "trace.json",
    ]  # fmt: skip
    with (folder / "operations.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 and rows[0]["latency_ns"] == "2010.000" and rows[0]["platform"] == "optane-adr, ddio on"


def test_json_is_one_document_and_nothing_else(quickstart, capsys):
    assert main(["run", "quickstart", "--json", "--no-report"]) == 0
    document = result_of(capsys.readouterr().out)
    scheme = document["schemes"][0]
    assert {"scheme", "platform", "operations", "throughput_ops_per_s", "latency_ns"} <= scheme.keys()
    assert scheme["latency_ns"]["put"].keys() == {"p50", "p99", "p999", "mean"}
    assert {"cpu_ns", "polling_ns", "asleep_ns", "verbs"} <= scheme["per_operation"]["server"].keys()
    assert not (Path(document["results"]) / "report.html").exists()


def test_crash_json_has_the_fields_that_scripts_lean_on(quickstart, capsys):
    assert main(["crash", "quickstart", "--json", "--no-report"]) == 0
    document = result_of(capsys.readouterr().out)
    assert len(document["schemes"]) == 8
    for scheme in document["schemes"]:
        assert {
            "scheme", "platform", "view", "states", "recoveries_run", "verdicts_computed", "exhaustive",
            "states_per_second", "verdicts", "counterexamples", "throughput_ops_per_s", "latency_ns",
        } <= scheme.keys()  # fmt: skip
        for example in scheme["counterexamples"]:
            assert {"condition", "instant_ps", "operations", "lines_lost", "case"} <= example.keys()
            assert Path(example["case"]).is_file(), "a path that rpsim replay takes"


def test_the_manifest_knows_of_wall_time_and_the_summary_does_not(quickstart, capsys):
    main(["crash", "quickstart", "--no-report"])
    manifest, summary = (json.loads((results() / f"{name}.json").read_text()) for name in ("manifest", "summary"))
    assert {"rpsim_version", "git_revision", "scenario", "seed", "platforms", "wall_time_s"} <= manifest.keys()
    assert manifest["states_per_second"][0]["states_per_second"] == 19462.0
    assert not re.search('second"|seconds|wall|time_s', json.dumps(summary).replace("ops_per_s", ""))
    assert "states_per_second" not in json.dumps(summary)


@pytest.mark.long
def test_the_same_run_twice_gives_the_same_bytes_wherever_it_goes(quickstart, capsys):
    for out in ("a", "b", "b"):
        assert main(["crash", "quickstart", "--out", out]) == 0
    one, two = results(Path("a")), results(Path("b"))
    assert one.name == two.name
    for name in ("summary.json", "operations.csv", "report.html", "case-1.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_another_seed_goes_into_another_folder(quickstart, capsys):
    main(["run", "quickstart", "--no-report"])
    quickstart.scenario.seed = 2
    main(["run", "quickstart", "--no-report"])
    assert len(list(Path("results").iterdir())) == 2


def test_a_run_does_not_replace_the_cases_of_an_exploration(quickstart, capsys):
    main(["crash", "quickstart", "--no-report"])
    cases = results()
    main(["run", "quickstart", "--no-report"])
    assert (cases / "case-1.json").exists()


def test_status_is_1_when_a_verdict_is_not_what_the_scenario_expects(quickstart, capsys):
    quickstart.scenario.expect = {"saw": {"durable": "holds"}, "client-active": {"no_lost_ack": "violated"}}
    assert main(["crash", "quickstart", "--no-report"]) == 1
    said = capsys.readouterr().out
    assert "! saw on optane-adr, ddio on: durable violated, but the scenario expects holds" in said
    assert results().exists(), "a finding is a result"


def test_status_is_1_when_a_claim_falls_and_the_scenario_is_silent(quickstart, capsys):
    quickstart.claims["durable"] = "always"
    assert main(["crash", "quickstart", "--no-report"]) == 1
    assert "but the scheme claims holds" in capsys.readouterr().out


@pytest.mark.parametrize(("failure", "status"), [(KeyboardInterrupt(), 130), (RuntimeError("bug"), 70)])
def test_what_ends_early_writes_nothing(quickstart, capsys, failure, status):
    quickstart.failure = failure
    assert main(["crash", "quickstart"]) == status
    assert not Path("results").exists()


def test_a_failure_while_writing_leaves_the_old_results(quickstart, capsys, monkeypatch):
    main(["run", "quickstart", "--no-report"])
    before = (results() / "manifest.json").read_bytes()
    monkeypatch.setattr(
        rpsim.app.terminal.output, "manifest", lambda *_, **more: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    assert main(["run", "quickstart", "--no-report"]) == 130
    assert (results() / "manifest.json").read_bytes() == before


def test_the_report_is_one_file_that_asks_nobody(quickstart, capsys):
    main(["crash", "quickstart"])
    page = (results() / "report.html").read_text()
    assert "Move the power failure" in page and "{{" not in page.split("<script>")[0]
    sources = re.findall(r"<(?:script|link|img|iframe)\s[^>]*?(?:src|href)=[\"']([^\"']+)", page)
    assert sources == ["data:,"], "all that it needs is inside"
    assert page.count("Plotly.newPlot(") >= 1
    assert "</script" not in re.search(r"const SLIDERS = (.*?);\n", page, re.DOTALL)[1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", ["list schemes", "--version"])
def test_a_full_standard_output_is_told_in_a_line(command):
    words = [sys.executable, "-m", "rpsim", *command.split()]
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == (
        "rpsim: standard output: found 'No space left on device', expected room for what is printed; a results folder "
        "that was written is whole\n"
    )


@pytest.mark.parametrize("module", ["grammar", "sim.errors"])
def test_ctrl_c_during_the_imports_ends_as_it_does_later(module, monkeypatch, capsys):
    found = builtins.__import__

    def interrupted(name, *arguments, **more):
        if name == module:
            raise KeyboardInterrupt
        return found(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    status = main(["--version"])
    monkeypatch.undo()
    assert (status, capsys.readouterr().err) == (130, "rpsim: interrupted\n")


@pytest.mark.long
def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m rpsim list scenarios | true"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert ended.stderr == ""


def rpsim_(*arguments: str, **more) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rpsim", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["schemes", "platforms", "scenarios"])
def test_list(kind, capsys):
    assert main(["list", kind]) == 0
    printed = capsys.readouterr().out
    assert main(["list", kind, "--json"]) == 0
    for row in result_of(capsys.readouterr().out)[kind]:
        assert row["name"] in printed and row["title"]
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.long
def test_the_whole_way_with_any_number_of_jobs(tmp_path):
    few = ["workload.operations=12", "workload.keys=3", "schemes=[client-active, saw]"]
    smaller = [word for field in (*few, "vary.platform=[optane-adr]", "vary.ddio=[on]") for word in ("--set", field)]
    for jobs in ("1", "2"):
        ended = rpsim_("crash", "quickstart", *smaller, "--jobs", jobs, "--out", jobs, cwd=tmp_path)
        assert ended.returncode in (0, 1), ended.stderr
        assert ended.stderr == "", "no progress bar where there is no terminal"
    one, two = results(tmp_path / "1"), results(tmp_path / "2")
    for name in sorted(path.name for path in one.iterdir() if path.name != "manifest.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    case = next(path for path in sorted(one.iterdir()) if path.name.startswith("case-"))
    again = rpsim_("replay", str(case))
    assert "VIOLATED" in again.stdout and "power failure" in again.stdout


def test_wrong_cases_are_wrong_input(tmp_path, capsys):
    for number, content in enumerate([b"", b"[]", b"{}", b"\x00\xff\x00", b'{"scenario": 1}']):
        path = tmp_path / f"case-{number}.json"
        path.write_bytes(content)
        assert main(["replay", str(path)]) == 2
        told = capsys.readouterr().err
        assert path.name in told and "Traceback" not in told


@pytest.mark.long
def test_failures_in_recoveries_are_explored_to_any_depth_and_once_more_by_brute_force(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["workload.keys=1", "workload.operations=2", "vary.platform=[optane-eadr]"]
    said = ["crash", "recovery-crash", *(word for field in small for word in ("--set", field)), "--no-report"]
    found = {}
    for depth in ("1", "2"):
        assert main([*said, "--nested", depth, "--brute-force", "--jobs", "1", "--json"]) == 0
        found[depth] = result_of(capsys.readouterr().out)["schemes"]
        for scheme in found[depth]:
            assert scheme["fault"] == "server[0] power in recovery" and scheme["exhaustive"]
            assert scheme["brute_force"]["agrees"] and scheme["brute_force"]["images"] > scheme["states"] > 0
    assert "up to 2 times more" in found["2"][0]["over"]
    assert found["2"][1]["brute_force"]["images"] > found["1"][1]["brute_force"]["images"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--nested", "0"], "--nested: found '0', expected a whole number, at least 1"),
        (["--nested", "12"], "--nested: found '12', expected a whole number, at most 9"),
        (
            ["--set", "crash.fault=client[0] process", "--nested", "1"],
            "expected a server's power, which may fail again",
        ),
        (["--set", "crash.perturb=[pause]"], "did you mean 'pauses'?"),
        (["--set", "crash.view=timed", "--brute-force"], "--brute-force: found a scenario that does not explore all"),
    ],
)
def test_what_cannot_be_explored_that_way_is_wrong_input(more, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["crash", "recovery-crash", *more]) == 2
    said = capsys.readouterr()
    assert message in said.err and said.out == "" and list(tmp_path.iterdir()) == []
