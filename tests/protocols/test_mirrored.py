"""A scheme of two machines beside its client: does it run, is a failure of the primary judged, is a broken twin caught?

The scheme is the one that docs/adding.md shows.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from rpsim.protocols.registry import scheme
from rpsim.protocols.scheme import Request, Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.errors import InputError
from rpsim.validation.crash.brute_force import compare
from rpsim.validation.crash.explorer import ASKED
from rpsim.validation.crash.strikes import Walk
from rpsim.validation.testing.checks import Refuted, assert_holds, crash_report, scenario_of

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "mirrored.py"
SMALL = {"mix": "update-only", "operations": 3, "keys": 2}
TINY = {"mix": "update-only", "operations": 2, "keys": 1, "value": "8 B"}


@pytest.fixture(scope="module")
def example():
    """The example's module, as if its file lay in ``protocols/``."""
    name = "rpsim.protocols.mirrored"
    spec = importlib.util.spec_from_file_location(name, EXAMPLE)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name], Scheme.registry["mirrored"], Scheme.registry["mirrored-hasty"]


def ran(kind, **workload):
    scenario = scenario_of(kind, workload={"mix": "a", "operations": 20, **workload})
    (variant,) = scenario.variants()
    return run_variant(scenario, variant)


def test_a_role_is_an_instance_for_each_machine(example):
    at_work = ran(example.Mirrored).scheme
    assert {name: [role.node.name for role in roles] for name, roles in at_work.roles.items()} == {
        "client": ["client[0]"], "primary": ["primary[0]"], "mirror": ["mirror[0]"],
    }  # fmt: skip
    assert [type(role).passive for role in at_work.machines()] == [False, False, True]


def test_what_is_put_is_read_and_lies_in_both_logs(example):
    result = ran(example.Mirrored)
    assert all(operation.outcome == "ok" for operation in result.history.operations)
    report = crash_report(example.Mirrored, fault="no fault", workload={"mix": "a", "operations": 20})
    assert report.verdicts["linearizable"] == "holds"
    logs = [result.scheme.roles[role][0] for role in ("primary", "mirror")]
    now_ps = result.system.clock.now_ps
    first, second = (log.pm.space.read(now_ps, log.log - log.pm.base, log.length) for log in logs)
    assert first == second and any(first)


@pytest.mark.long
@pytest.mark.parametrize("ddio", ["on", "off"])
def test_no_power_failure_of_the_primary_takes_back_what_was_put_or_read(example, ddio):
    report = assert_holds(
        example.Mirrored, "optane-adr", "no_lost_ack", "durable", "monotonic",
        fault="primary[0] power", workload=TINY | {"keys": 2}, ddio=ddio,
    )  # fmt: skip
    assert report.exhaustive and report.states > 20


def test_nor_does_the_end_of_its_process(example):
    report = assert_holds(
        example.Mirrored, "optane-adr", "no_lost_ack", fault="primary[0] process", workload=SMALL, ddio="on"
    )
    assert report.exhaustive


@pytest.mark.long
@pytest.mark.parametrize(
    ("primitive", "ddio", "verdict"),
    [
        ("no-flush", "off", "violated"),
        ("no-flush", "on", "violated"),
        ("read-after-write", "off", "holds"),
        ("read-after-write", "on", "violated"),  # the READ pushes the record into the cache, which ADR does not keep
        ("ibta-flush-persistent", "on", "holds"),
    ],
)
def test_when_all_lose_power_it_depends_on_the_primitive(example, primitive, ddio, verdict):
    kind = scheme(f"mirrored over {primitive}")
    report = crash_report(kind, "optane-adr", fault="all power", workload=TINY, ddio=ddio, examples=False)
    alone = crash_report(kind, "optane-adr", fault="primary[0] power", workload=TINY, clients=1, ddio=ddio)
    assert report.exhaustive and alone.exhaustive
    assert {report.verdicts[c] for c in ("no_lost_ack", "durable")} == {verdict}
    assert {alone.verdicts[c] for c in ("no_lost_ack", "durable")} == {"holds"}  # one failing at a time needs no flush


@pytest.mark.long
@pytest.mark.parametrize("fault", ["all power in recovery", "primary[0] + mirror[0] power"])
def test_power_of_both_is_power_of_all_and_may_fail_again_in_recovery(example, fault):
    assert assert_holds(example.Mirrored, "optane-adr", "durable", fault=fault, workload=TINY, ddio="off").exhaustive
    twin = scheme("mirrored over no-flush")
    report = crash_report(twin, fault=fault, workload=TINY, ddio="off", examples=False)
    assert report.verdicts["no_lost_ack"] == "violated"


@pytest.mark.long
@pytest.mark.parametrize("primitive", ["read-after-write", "no-flush"])
@pytest.mark.parametrize("name", ["mirrored", "mirrored-hasty"])
def test_every_image_of_both_machines_one_by_one_gives_the_same_verdicts(example, name, primitive):
    """The explorer against the brute force over all lines of both logs together."""
    kind, work = scheme(f"{name} over {primitive}"), TINY | {"operations": 1}
    scenario = scenario_of(kind, "optane-adr", workload=work, clients=1, fault="all power", ddio="off")
    (variant,) = scenario.variants()
    compared = compare(run_variant(scenario, variant), ASKED)
    assert compared.agree and compared.images > compared.states


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("primary[0] power", r"primary\[0\] loses power"),
        ("all power", r"primary\[0\]: log.* may still be in the LLC"),
    ],
)
def test_a_twin_that_does_not_wait_is_caught(example, fault, told):
    with pytest.raises(Refuted, match=told):
        assert_holds(example.Hasty, "optane-adr", "no_lost_ack", fault=fault, workload=TINY, clients=1, ddio="off")
    assert_holds(example.Hasty, "optane-eadr", "no_lost_ack", fault=fault, workload=TINY, ddio="on")


@pytest.mark.long
@pytest.mark.parametrize("fault", ["mirror[0] lost", "mirror[0] power"])
def test_the_primary_goes_on_alone_when_its_mirror_is_gone(example, fault):
    report = assert_holds(example.Mirrored, "optane-adr", "durable", fault=fault, workload=TINY, ddio="off")
    assert report.exhaustive and report.view == "executed"


def walked(kind, fault, **workload):
    """The states of a fault of one of the machines, of a client that puts."""
    made = scenario_of(kind, "optane-adr", workload=TINY | workload, clients=1, fault=fault, ddio="off")
    (variant,) = made.variants()
    walk = Walk(made, variant)
    return list(walk.states(walk.instants))


def records_of(state, role):
    """The log of a machine as it is at the end."""
    machine = state.aftermath.result.scheme.roles[role][0]
    memory, now_ps = machine.node.memory["pm"], state.aftermath.result.system.clock.now_ps
    return memory.space.read(now_ps, machine.log - memory.base, machine.length)


@pytest.mark.parametrize("fault", ["primary[0] power", "mirror[0] lost"])
def test_no_client_waits_for_ever(example, fault):
    for state in walked(example.Mirrored, fault):
        assert all(operation.outcome for operation in state.aftermath.history.operations)


@pytest.mark.parametrize("fault", ["mirror[0] lost", "mirror[0] power", "primary[0] process"])
def test_the_late_twin_is_right_as_long_as_the_primary_s_memory_stands(example, fault):
    """What it had not mirrored is in the primary's coherent memory, which outlives the mirror and a process of its own.
    Only a power failure takes it: that of the primary, in another test.
    """
    assert_holds(example.Hasty, "optane-adr", "no_lost_ack", fault=fault, workload=TINY, clients=1, ddio="off")
    states = walked(example.Hasty, fault)
    only_here = [state for state in states if records_of(state, "primary") != records_of(state, "mirror")]
    assert only_here  # it is late in some of them, and yet nothing that was acknowledged is lost there
    for state in only_here:
        reads = [o for o in state.aftermath.history.operations if o.f == "get"]
        assert [read.outcome for read in reads] == ["ok"] and not state.aftermath.unread


@pytest.mark.parametrize("helps", [True, False])
def test_a_role_that_stands_takes_part_in_the_recovery_of_another(example, helps):
    """A primary that copies its log to a mirror whose power is back, if the scheme says that it recovers too."""

    class Copying(example.Mirrored, name="mirrored-copying"):
        def recovery(self):
            yield from super().recovery()
            if helps and self.failed("mirror") and not self.failed("primary"):
                yield self.roles["primary"][0]

        class Primary(example.Mirrored.Primary):
            def recover(self, thread):
                if self.scheme.failed("primary"):
                    yield from super().recover(thread)
                    return
                self.link = self.mirror.service.connect(thread, self.node)
                yield from self.link.persist([(self.mirror.log, (yield from thread.load(self.log, self.length)))])

    try:
        states = walked(Copying, "mirror[0] power")
    finally:
        del Scheme.registry["mirrored-copying"]
    assert all((records_of(state, "primary") == records_of(state, "mirror")) for state in states) is helps


@pytest.mark.slow
def test_what_the_primary_had_not_flushed_is_lost_if_it_follows_its_mirror(example):
    """Between the loss and the first flush after it, what was acknowledged before is in the primary's caches alone."""
    fault = "mirror[0] lost then primary[0] power"
    with pytest.raises(Refuted, match=r"primary\[0\]: loses power\n.*primary\[0\]: log\[1\] may still be in the LLC"):
        assert_holds(example.Mirrored, "optane-adr", "no_lost_ack", fault=fault, workload=TINY, clients=1, ddio="off")


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
    assert one.step[:3] == ("put", "k0", b"v")
    with pytest.raises(ValueError, match="too many"):
        _ = Request((one.step, one.step)).step
