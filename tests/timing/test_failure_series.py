"""Servers that fail at random, are repaired, and are called again: what clients see, what is counted, what it costs."""

from __future__ import annotations

import json

import pytest

from rpsim.protocols.registry import scheme, schemes
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import AssembledVariant, run_variant
from rpsim.scenarios.run.failing import performed
from rpsim.scenarios.run.series import FailureSeries, fields
from rpsim.sim.errors import InputError

MS = 10**9
SERIES = {"of": "server[0] process", "every": "100 us", "repair": "300 us", "resend_after": "100 us"}


def built(schemes="farm", seed=1, clients=1, operations=40, workload=None, **failures):
    kind = {"kind": "ycsb", "reads": 0.5, "order": "alternating", "keys": 4, "value": "64 B", "operations": operations}
    return Draft.new(
        "x", scenario="x", schemes=schemes, platform="rflush-testbed", seed=seed,
        roles={"client": {"machines": 1, "processes": clients}}, workload=kind | {"work": "5 us"} | (workload or {}),
        failures=SERIES | failures,
    ).build()  # fmt: skip


def ran(*args, **more):
    scenario = built(*args, **more)
    return performed(scenario, scenario.variants()[0], metered=True)


def refused(**failures):
    with pytest.raises(InputError) as caught:
        built(**failures)
    return str(caught.value)


def wrong_reads(result):
    """The reads of a single client that do not return what was written last."""
    value, wrong = {}, []
    for o in result.history.operations:
        if o.f == "put":
            value[o.object] = o.argument
        elif o.result != value.get(o.object, 0):
            wrong.append(o)
    return wrong


@pytest.fixture
def registry(monkeypatch):
    schemes()
    monkeypatch.setattr(Scheme, "registry", dict(Scheme.registry))


@pytest.mark.parametrize("of", ["server[0] process", "server[0] power"])
@pytest.mark.parametrize("name", ["farm", "darpc", "rfp", "scalerpc", "wflush-rpc", "s-rflush-rpc", "saw"])
def test_every_operation_ends_and_nothing_acknowledged_is_lost(name, of):
    result = ran(name, of=of, operations=30)
    found = result.over_time["repaired"]
    assert found["failures"] > 0 < found["sent_again"] and found["waiting"] == 0
    assert {o.outcome for o in result.history.operations} == {"ok"} and wrong_reads(result) == []
    assert found["down_ms"] == pytest.approx(0.3 * found["failures"], rel=0.2)


def test_a_client_of_a_silent_death_waits_for_its_own_timer():
    silent, told = ran(seed=2), ran(seed=2, told=True)
    assert silent.over_time["repaired"]["timers_expired"] > 3 * silent.over_time["repaired"]["sent_again"] > 0
    again = [(o.retries[0][1] - o.invoke_ps) / MS for o in silent.history.operations if o.retries]
    assert all(wait == pytest.approx(0.4, abs=1e-9) for wait in again)  # the fourth time, behind the repair
    least = min(o.return_ps - o.invoke_ps for o in told.history.operations if o.return_ps - o.invoke_ps > 0.25 * MS)
    assert least / MS < 0.38


def test_clients_that_give_their_calls_up_while_the_server_lives_find_a_connection_again():
    """Six clients of one thread, each call of which takes more than the time after which they open another one."""
    result = ran(clients=6, operations=12, every="300 us", workload={"work": "60 us"})
    found = result.over_time["repaired"]
    assert found["waiting"] == 0 and found["sent_again"] > 2 * 6
    assert {o.outcome for o in result.history.operations} == {"ok"}


def test_the_mean_is_that_of_the_undisturbed_run_however_few_operations_the_other_one_has():
    """Of that one nothing is left but its first operations: it was given up."""
    scenario = built(operations=40)
    (variant,) = scenario.variants()
    undisturbed = run_variant(scenario, variant)
    series = FailureSeries(AssembledVariant(scenario, variant, metered=True), scenario.failures)
    result = series.run_series()
    whole = fields(series, result, undisturbed)["mean_us"]
    del result.history.operations[10:]
    assert fields(series, result, undisturbed)["mean_us"] == whole < 20


def test_what_is_sent_again_is_the_same_operation():
    result = ran("wflush-rpc")
    rows = [json.loads(line) for line in result.history.lines(["k0", "k1", "k2", "k3"])]
    again = [row for row in rows if "retry_of" in row]
    assert len(again) == result.over_time["repaired"]["sent_again"] > 0
    assert all(row["type"] == "invoke" for row in again)
    assert len({o.number for o in result.history.operations}) == 40


def test_the_log_is_executed_again_and_a_traditional_call_perhaps_twice():
    durable = ran("wflush-rpc", workload={"reads": 0.0}, operations=40).over_time["repaired"]
    traditional = ran("farm", workload={"reads": 0.0}, operations=40).over_time["repaired"]
    assert durable["recovered"] > 0 and traditional["recovered"] == 0
    assert durable["executed_again"] <= durable["sent_again"] + durable["recovered"]


def test_a_recovery_that_leaves_the_log_alone_is_seen(registry):
    durable = scheme("wflush-rpc")

    class Server(durable.Server):
        def execute_again(self, thread, ring, operator):
            yield from ()

    type("Forgetful", (durable,), {"Server": Server}, name="forgetful")
    assert wrong_reads(ran("forgetful", operations=60, seed=3))
    assert not wrong_reads(ran("wflush-rpc", operations=60, seed=3))


def test_the_seed_decides_when_it_fails():
    first, same, other = (ran(seed=seed).over_time["failures"] for seed in (1, 1, 2))
    assert first == same != other and all(event["back_us"] > event["at_us"] + 299 for event in first)


@pytest.mark.parametrize("name", ["farm", "wflush-rpc"])
def test_many_calls_cost_their_mean_and_each_failure_the_mean_of_one(name):
    few = ran(name, operations=100, workload={"work": "20 us"}, every="400 us").over_time["repaired"]
    many = ran(name, operations=400, workload={"work": "20 us"}, every="400 us", seed=2)
    found = many.over_time["repaired"]
    whole_ps = max(o.return_ps for o in many.history.operations)
    product_ps = 400 * few["mean_us"] * 10**6 + found["failures"] * few["cost_ms"] * MS
    assert few["failures"] >= 3 < found["failures"]
    assert product_ps == pytest.approx(whole_ps, rel=0.02)


def test_the_time_of_many_calls_at_an_availability():
    found = ran(availability=0.75, rpcs=10_000, operations=60).over_time["repaired"]
    whole = found["of_rpcs"]
    assert whole["without_failures_s"] == pytest.approx(0.01 * found["mean_us"], abs=1e-6)
    assert whole["failures"] == pytest.approx(whole["without_failures_s"] / (0.3e-3 * 0.75 / 0.25), abs=1e-2)
    expected = whole["without_failures_s"] + whole["failures"] * found["cost_ms"] / 1000
    assert whole["time_s"] == pytest.approx(expected, rel=1e-3)


def test_several_clients_send_again_each_by_its_own_timer():
    result = ran("wflush-rpc", clients=3, operations=60)
    assert {o.outcome for o in result.history.operations} == {"ok"}
    assert {o.process for o in result.history.operations if o.retries} == {0, 1, 2}


def test_what_cannot_fail_so_is_refused():
    assert "failures.availability: found 1.5, expected less than 1" in refused(availability=1.5)
    assert "found 'client[0] process', expected a machine or a process that comes back" in refused(
        of="client[0] process"
    )
    assert "failures.every: found 10, expected a time with its unit" in refused(every=10)
    assert "found the unknown key 'availabilty'" in refused(availabilty=0.9)
    assert "failures.every: found nothing, expected availability, or the mean time" in refused(every=None)
