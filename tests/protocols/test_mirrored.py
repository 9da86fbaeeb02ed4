"""A scheme of two machines beside its client: does it run, is a failure of the primary judged, is a broken twin caught?

The scheme is the one that docs/adding.md shows.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from rpsim.protocols.scheme import Request, Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.errors import InputError
from rpsim.validation.testing.checks import Refuted, assert_holds, crash_report, scenario_of

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "mirrored.py"
SMALL = {"mix": "update-only", "operations": 3, "keys": 2}


@pytest.fixture(scope="module")
def example():
    """The example's module, as if its file lay in ``protocols/``."""
    name = "rpsim.protocols.mirrored"
    spec = importlib.util.spec_from_file_location(name, EXAMPLE)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name], Scheme.registry["mirrored"], Scheme.registry["mirrored-hasty"]


def ran(scheme, **workload):
    scenario = scenario_of(scheme, workload={"mix": "a", "operations": 20, **workload})
    (variant,) = scenario.variants()
    return run_variant(scenario, variant)


def test_a_role_is_an_instance_for_each_machine(example):
    scheme = ran(example.Mirrored).scheme
    assert {name: [role.node.name for role in roles] for name, roles in scheme.roles.items()} == {
        "client": ["client[0]"], "primary": ["primary[0]"], "mirror": ["mirror[0]"],
    }  # fmt: skip
    assert [type(role).passive for role in scheme.machines()] == [False, False, True]


def test_what_is_put_is_read_and_lies_in_both_logs(example):
    result = ran(example.Mirrored)
    assert all(operation.outcome == "ok" for operation in result.history.operations)
    report = crash_report(example.Mirrored, fault="no fault", workload={"mix": "a", "operations": 20})
    assert report.verdicts["linearizable"] == "holds"
    logs = [result.scheme.roles[role][0] for role in ("primary", "mirror")]
    now_ps = result.system.clock.now_ps
    first, second = (log.pm.space.read(now_ps, log.log - log.pm.base, log.length) for log in logs)
    assert first == second and any(first)


@pytest.mark.parametrize("ddio", ["on", "off"])
def test_no_power_failure_of_the_primary_takes_back_what_was_put_or_read(example, ddio):
    report = assert_holds(example.Mirrored, "optane-adr", "no_lost_ack", "durable", "monotonic", ddio=ddio)
    assert report.exhaustive and report.fault == "primary[0] power" and report.states > 100


def test_nor_does_the_end_of_its_process(example):
    report = assert_holds(
        example.Mirrored, "optane-adr", "no_lost_ack", fault="primary[0] process", workload=SMALL, ddio="on"
    )
    assert report.exhaustive


def test_a_twin_that_does_not_wait_is_caught(example):
    with pytest.raises(Refuted, match=r"primary\[0\]: log.* may still be in the LLC"):
        assert_holds(
            example.Hasty, "optane-adr", "no_lost_ack", workload=SMALL | {"operations": 2}, clients=1, ddio="on"
        )
    assert_holds(example.Hasty, "optane-eadr", "no_lost_ack", workload=SMALL, ddio="on")


@pytest.mark.long
@pytest.mark.parametrize("mirrored", [True, False])
def test_what_the_primary_never_flushed_is_found_in_the_mirror(example, mirrored):
    class Primary(example.Mirrored.Primary):
        def persist(self, thread, link, record):
            yield from thread.store(self.log + self.tail, record)
            if mirrored:
                yield from link.persist([(self.mirror.log + self.tail, record)])

    name = f"mirrored-{mirrored}".lower()
    kind = type("Unflushed", (example.Mirrored,), {"Primary": Primary}, name=name)
    try:
        report = crash_report(kind, "optane-adr", workload=SMALL | {"operations": 2}, clients=1, ddio="on")
    finally:
        del Scheme.registry[name]
    assert report.exhaustive
    assert report.verdicts["no_lost_ack"] == ("holds" if mirrored else "violated")


def test_a_passive_mirror_has_no_process_that_could_die(example):
    with pytest.raises(InputError, match="'process', expected something of a mirror that may fail: power"):
        crash_report(example.Mirrored, fault="mirror[0] process")


def test_the_page_counts_its_lines():
    text = (DOCS / "adding.md").read_text(encoding="utf-8")
    told = re.search(r"Its (\d+) lines are\n\n((?:\|.*\n)+)", text)
    parts = [int(number) for number in re.findall(r"^\| (\d+) \|", told[2], flags=re.MULTILINE)]
    assert sum(parts) == int(told[1]) == len(EXAMPLE.read_text(encoding="utf-8").splitlines())


def test_a_request_of_several_steps_is_none_of_one():
    one = Request.of("put", "k0", b"v")
    assert one.step == ("put", "k0", b"v")
    with pytest.raises(ValueError, match="too many"):
        _ = Request((one.step, one.step)).step
