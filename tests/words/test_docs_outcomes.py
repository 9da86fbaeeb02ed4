"""Do the runs that the pages tell of come out as told? With RPSIM_RENEW=1 what was printed is written anew."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys

import pytest

from rpsim.app.main import main
from rpsim.app.terminal.summary import performance
from rpsim.app.terminal.work import Job, perform
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import explored, load_scenario
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.oracle import CONDITIONS

from ..rig import Rig, line
from .pages import EXAMPLES, ROOT, blocks, commands

# what the program prints ----------------------------------------------------------------------------------


def printed(name: str, text: str) -> str:
    """What a file of docs/examples says was printed; written anew first if that is asked for."""
    if os.environ.get("RPSIM_RENEW"):
        (EXAMPLES / name).write_text(text, encoding="utf-8")
    return (EXAMPLES / name).read_text(encoding="utf-8")


def test_one_write_prints_what_the_page_shows(capsys):
    runpy.run_path(str(EXAMPLES / "one_write.py"))
    out = capsys.readouterr().out
    assert out == printed("one_write.txt", out)


def test_one_primitive_prints_what_the_page_shows(capsys):
    runpy.run_path(str(EXAMPLES / "one_primitive.py"))
    out = capsys.readouterr().out
    assert out == printed("one_primitive.txt", out)


@pytest.mark.long
def test_the_example_in_python_prints_what_the_page_shows():
    """In a process of its own: there the folder of the examples is the first in which modules are looked for."""
    program = [sys.executable, str(EXAMPLES / "python_api.py")]
    ran = subprocess.run(program, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == printed("python_api.txt", ran.stdout)


def test_no_example_hides_a_standard_module():
    assert not {file.stem for file in EXAMPLES.glob("*.py")} & sys.stdlib_module_names


@pytest.mark.parametrize("name", ["lost-ack.json", "read-then-lost.json"])
def test_the_told_cases_replay_as_told(name, capsys):
    assert main(["replay", str(EXAMPLES / name)]) == 0
    story = capsys.readouterr().out.split("\n", 2)[2]
    assert story in (EXAMPLES / "quickstart.txt").read_text(encoding="utf-8")
    assert story in (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")


def verdict_table(text: str) -> dict[tuple[str, str], dict[str, str]]:
    """(scheme, platform) -> condition -> verdict, as a printed table has them."""
    table: dict[tuple[str, str], dict[str, str]] = {}
    scheme, conditions = "", []
    for text_line in text.splitlines():
        words = text_line.split()
        if words[1:2] == ["committed"]:
            scheme, conditions = words[0], words[1:-1]
        elif found := re.fullmatch(r"  (\S+, ddio \S+) +(.*?) +[\d,]+ (all|some)", text_line):
            table[scheme, found[1]] = dict(zip(conditions, found[2].split(), strict=True))
    return table


@pytest.mark.long
def test_the_quickstart_s_verdicts_are_the_explorer_s():
    shown = verdict_table((ROOT / "docs/quickstart.md").read_text(encoding="utf-8"))
    few, small = ["workload.operations=60", "workload.keys=6"], "workload.value=64 B"
    variants = load_scenario("quickstart").variants()
    assert len(shown) == len(variants) == 12
    for variant in variants:  # it takes many words for one torn image to have the checksum of the whole
        scenario = load_scenario("quickstart", few if variant.scheme == "efactory" else [*few, small])
        asked = [condition for condition in CONDITIONS if str(condition) in shown[variant.scheme, variant.label]]
        walked = Explorer(run_variant(scenario, variant), conditions=asked).walk()
        found = {str(condition): str(walked.verdict(condition)) for condition in asked}
        if (variant.scheme, variant.platform) == ("saw", "optane-adr"):
            found["durable"] = "violated"  # it takes a pause at the right place: read-then-lost.json
        assert shown[variant.scheme, variant.label] == found


@pytest.mark.long
def test_the_quickstart_s_latencies_are_the_simulator_s():
    shown = [text.split() for text in (ROOT / "docs/quickstart.md").read_text(encoding="utf-8").splitlines()]
    made = explored(load_scenario("quickstart"))
    for index in (0, 4, 8):
        for text in performance([perform(Job(made, (), None, index, False), lambda _: None)])[3:]:
            assert text.split() in shown


@pytest.mark.slow
def test_the_demo_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["crash", "quickstart"]) == 0
    out = capsys.readouterr().out
    assert out == printed("quickstart.txt", out)


@pytest.mark.long
@pytest.mark.parametrize("name", ["counter", "queue", "transfers"])
def test_the_examples_of_objects_print_what_the_page_shows(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["crash", str(EXAMPLES / f"{name}.yaml"), "--no-report", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert out == printed(f"{name}.txt", out)


# adding things ----------------------------------------------------------------------------------------------


ADDING = (ROOT / "docs" / "adding.md", ROOT / "docs" / "adding-hardware.md")
FEWER = {
    "rpsim matrix schemes": ["--quick"],
    "rpsim crash card": ["--set", "workload.operations=3"],
    "rpsim run ycsb-b": ["--set", "workload.operations=60", "--set", "workload.warmup=0"],
}
"""What makes the dearest commands of the page quick; status 0 says that verdicts are as the scenario expects them."""


@pytest.mark.long
@pytest.mark.parametrize("fewer", [FEWER, pytest.param({}, marks=pytest.mark.slow)], ids=["smaller", "whole"])
def test_what_is_added_as_the_page_says_works(fewer, tmp_path):
    hidden = shutil.ignore_patterns(".*", "build", "dist", "results", "tests", "*.egg-info")
    house = shutil.copytree(ROOT, tmp_path / "rpsim", ignore=hidden)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    answers = {}
    for words, _ in (entry for page in ADDING for entry in commands(page) if entry[0][0] in ("cp", "rpsim")):
        if "--pages" in words:  # of all schemes: a quarter of an hour
            continue
        alone = ["--jobs", "1"] if words[1] in ("run", "crash") else []
        alone += fewer.get(" ".join(words[:3]), [])
        command = words if words[0] == "cp" else [sys.executable, "-m", *words, *alone]
        done = subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answers[" ".join(words[:3])] = done.stdout
    assert "read-back " in answers["rpsim list schemes"]
    assert "our-lab " in answers["rpsim list platforms"]
    assert "our-lab, ddio on" in answers["rpsim run ycsb-b"]
    for name in ("read-back", "mirrored", *([] if fewer else ["card"])):
        out = answers[f"rpsim crash {name}"]
        assert out == printed(f"{name}.txt", out)


@pytest.mark.long
def test_the_switch_delays_what_the_page_says_it_does():
    spec = importlib.util.spec_from_file_location("rpsim.models.pcie_switch", EXAMPLES / "pcie_switch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (snippet,) = [b for b in blocks(ADDING[1]) if b.language == "python" and "slot.link = " in b.text]
    plain, switched = Rig(), Rig()
    fitted = {"node": switched.server.node, "system": switched.system, "SwitchedLink": module.SwitchedLink}
    exec(snippet.text, fitted)
    header = plain.platform.pcie
    forward_ps = 110_000

    def on_link(n_bytes: int) -> int:
        return -(-n_bytes * 8 * 10**12 // header.tlp_bits_per_s)

    assert switched.client.write(line(1)).ps == plain.client.write(line(1)).ps
    plain.run()
    switched.run()
    (before,), (after,) = plain.chunks(0), switched.chunks(0)
    write_ps = forward_ps + on_link(header.tlp_header_write_bytes + 64)
    assert after.reached_ps[2] - before.reached_ps[2] == write_ps
    reads = []
    for rig in (plain, switched):
        began = rig.clock.now_ps
        reads.append(rig.client.read(64).ps - began)
    request_ps = on_link(header.tlp_header_read_bytes)
    completion_ps = on_link(header.tlp_header_completion_bytes + 64)
    assert reads[1] - reads[0] == pytest.approx(2 * forward_ps + request_ps + completion_ps, abs=2)
