"""Does a test suite of somebody's own find what is wrong with a scheme, and does it say so in few lines?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import rpsim
from rpsim.app.main import main
from rpsim.protocols.efactory.client_active import ClientActive
from rpsim.protocols.efactory.efactory import EFactory
from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.parts.index import Location
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.errors import InputError
from rpsim.validation.pytest_plugin import Checker
from rpsim.validation.testing import Refuted, assert_holds, crash_report
from rpsim.validation.testing.machine import crash_machine
from rpsim.validation.testing.strategies import faults, platforms, scenarios, workloads
from rpsim.validation.testing.world import World

from .pages import EXAMPLES, ROOT, blocks

OWN = EXAMPLES / "own-store"


def said_of(folder):
    """The tests of a folder of somebody's, run by pytest with rpsim's plugin alone."""
    plugin = ["-p", "rpsim.validation.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist"]
    own = {"PYTHONPATH": str(Path(rpsim.__file__).absolute().parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin],
        cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What pytest says in the example's folder."""
    copy = tmp_path_factory.mktemp("own")
    for file in OWN.glob("*.py"):
        (copy / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    done = said_of(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_the_example_finds_the_planted_bug_and_says_so_in_few_events(printed):
    assert "1 failed, 2 passed" in printed
    failure = printed.partition("smallest counterexample\n")[2].partition("=====")[0]
    events = re.findall(r"^ +\d+\.\d{3}  ", failure, flags=re.MULTILINE)
    assert 0 < len(events) <= 10
    assert "LOST" in failure and "get k1 -> v0 after recovery, but put k1 = v1 had returned" in failure
    assert "Traceback" not in printed and "Error" not in failure


def test_the_example_s_page_shows_what_is_printed(printed):
    story = printed.partition("loses_nothing")[2].partition("\n")[2].partition("=====")[0]
    page = OWN / "README.md"
    text = page.read_text(encoding="utf-8")
    before, mark, rest = text.partition("<!-- printed -->\n```\n")
    if os.environ.get("RPSIM_RENEW"):
        page.write_text(before + mark + story + rest[rest.index("```\n") :], encoding="utf-8")
        rest = story + rest[rest.index("```\n") :]
    assert mark and rest.startswith(story + "```\n")
    assert all(len(line) <= 80 for line in story.splitlines())


# in one line ----------------------------------------------------------------------------------------------


def test_what_holds_passes_and_what_does_not_is_told():
    report = assert_holds(Saw, "optane-adr", ddio="on")  # what it claims
    assert {str(condition) for condition in Saw.claims} <= {str(condition) for condition in report.verdicts}
    with pytest.raises(Refuted, match="no_lost_ack violated") as refuted:
        assert_holds(ClientActive, "optane-adr", "no_lost_ack", ddio="on")
    assert refuted.value.report.counterexamples


def test_a_workload_and_a_fault_of_one_s_own():
    one = {"kind": "schedule", "keys": 1, "value": "64 B",
           "operations": [{"process": 0, "f": "put", "object": "k0"}]}  # fmt: skip
    report = crash_report(Saw, "optane-eadr", workload=one, clients=1, fault="server[0] process", ddio="on")
    assert report.fault == "server[0] process"
    assert set(map(str, report.verdicts.values())) == {"holds"}
    assert crash_report(Saw, workload={"operations": 2}).states < crash_report(Saw).states


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: assert_holds(Saw, "optane-adr", "no_lost_akc"), "did you mean 'no_lost_ack'"),
        (lambda: assert_holds(Saw, "optane-adrr", "durable"), "did you mean 'optane-adr'"),
        (lambda: assert_holds(ClientActive), "which claims nothing"),
        (lambda: crash_report(Saw, fault="server[0] powr"), "did you mean 'power'"),
        (lambda: crash_report(Saw, ddoi="on"), "did you mean 'ddio'"),
        (lambda: crash_machine(Saw, "optane-adr", "durabel"), "did you mean 'durable'"),
        (lambda: crash_report("saw"), "scheme: found 'saw', expected the class of a scheme"),
        (lambda: assert_holds(int, "optane-adr", "durable"), "expected the class of a scheme"),
        (lambda: crash_report(Saw, workload="64 B"), "workload: found '64 B', expected the workload map of a scenario"),
        (lambda: crash_machine("saw"), "scheme: found 'saw', expected the class of a scheme"),
        (lambda: crash_machine(Saw, "optane-adrr"), "did you mean 'optane-adr'"),
        (lambda: crash_machine(Saw, ddoi="on"), "did you mean 'ddio'"),
        (
            lambda: World(Saw, keys=0, clients="2"),
            "keys: found 0, expected a whole number, at least 1\nclients: found '2'",
        ),
        (lambda: faults("saw"), "expected the class of a scheme"),
    ],
)
def test_a_mistake_is_told(wrong, message):
    with pytest.raises(InputError, match=message):
        wrong()


def test_the_fixture_shows_of_a_mistake_the_line_of_the_test_alone():
    with pytest.raises(InputError, match="did you mean 'optane-adr'") as caught:
        Checker(seed=1).assert_holds(Saw, "optane-adrr", "durable")
    shown = [entry for entry in caught.traceback if not entry.ishidden(caught)]
    assert [Path(str(entry.path)).name for entry in shown] == [Path(__file__).name]


@pytest.mark.long
def test_the_page_s_examples_run_as_they_stand_on_a_new_scheme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "scheme", "my-store"]) == 0
    written = [block.text for block in blocks(ROOT / "docs" / "testing.md") if block.language == "python"]
    for number, text in enumerate(written):
        (tmp_path / f"test_{number}.py").write_text(text, encoding="utf-8")
    few = ["from hypothesis import settings", "settings.register_profile('few', max_examples=2)"]
    (tmp_path / "conftest.py").write_text("\n".join([*few, "settings.load_profile('few')", ""]), encoding="utf-8")
    done = said_of(tmp_path)
    assert f"{len(written)} passed" in done.stdout, done.stdout + done.stderr


def test_hypothesis_does_not_name_lines_of_rpsim():
    assert Phase.explain not in crash_machine(Saw).TestCase.settings.phases


# many crashes ---------------------------------------------------------------------------------------------


def lived(scheme, random, conditions=(), **options):
    world = World(scheme, "optane-adr", **{"ddio": "on", **options})
    for _ in range(14):
        step = random.random()
        if step < 0.5 and world.idle():
            f, name = random.choice(scheme.operations), random.choice(list(world.names))
            world.invoke(random.choice(world.idle()), f, name)
        elif step < 0.85:
            world.run(random.randint(1, 8_000_000))
        elif step < 0.9:
            world.finish()
        else:
            world.crash(lambda n: random.randint(0, n - 1))
    world.read_all()
    return world, world.judge(conditions)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["on", "off"]))
def test_a_scheme_that_persists_before_it_answers_lives_through_any_number_of_crashes(random, ddio):
    world, report = lived(Saw, random, ddio=ddio)
    assert {str(judgement.verdict) for judgement in report.verdicts.values()} == {"holds"}
    times = [operation.invoke_ps for operation in world.history.operations]
    assert times == sorted(times)


class Forgetful(Saw):
    """Flushes the object and not the index entry."""

    class Server(Saw.Server):
        def on_persist(self, thread, request):
            yield from thread.flush(self.log + request.offset, request.length)
            yield from self.index.publish(thread, request.key, Location(request.offset, request.length))
            return b"durable"


@pytest.mark.long
def test_the_state_machine_catches_a_forgotten_flush():
    machine = crash_machine(Forgetful, "optane-adr", "no_lost_ack", keys=1, clients=1, ddio="on")
    case = machine.TestCase
    case.settings = settings(
        max_examples=300, stateful_step_count=8, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip  # shrinking is Hypothesis' business
    with pytest.raises(AssertionError, match="no_lost_ack violated"):
        case("runTest").runTest()


def test_a_busy_client_is_not_asked_again():
    world = World(EFactory)
    world.invoke(0, "put", "k0")
    with pytest.raises(ValueError, match="client 0 has an operation under way"):
        world.invoke(0, "get", "k0")


# strategies -----------------------------------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(scenarios(Saw, most=4))
def test_a_drawn_scenario_runs(scenario):
    (variant,) = scenario.variants()
    result = run_variant(scenario, variant)
    assert len(result.history.operations) == len(scenario.workload.operations)


@pytest.mark.long
@given(platforms(), faults(ClientActive), workloads(Saw, keys=3, clients=1))
def test_drawn_parts_are_of_what_there_is(platform, fault, workload):
    assert set(platform[1].values()) <= {"on", "off", "word", "whole", "1", "2", "3", *platform[1].values()}
    assert re.fullmatch(r"(server|client)\[\d\] (power|power in recovery|process)", fault)
    assert {operation["process"] for operation in workload["operations"]} == {0}
