"""The example of messaging by spinning: who polls the last byte is right where bytes come in order, else is caught."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.run.experiment import AssembledVariant, run_variant
from rpsim.validation.testing.checks import crash_report, scenario_of

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "messaging.py"
LONG = {"mix": "a", "operations": 24, "keys": 2, "value": "4 KiB"}


@pytest.fixture(scope="module")
def example():
    """The example's module, as if its file lay in ``protocols/``."""
    name = "rpsim.protocols.messaging"
    spec = importlib.util.spec_from_file_location(name, EXAMPLE)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name], Scheme.registry["messaging"], Scheme.registry["messaging-checked"]


def report(kind, order):
    return crash_report(kind, "optane-adr", fault="no fault", workload=LONG, clients=2, data_in_order=order)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["Messaging", "Checked"])
@pytest.mark.parametrize("order", ["whole message", "128 B", "none"])
def test_polling_the_last_byte_is_right_only_where_a_message_comes_in_order(example, scheme, order):
    found = report(getattr(example, scheme), order).verdicts["linearizable"]
    assert found == ("violated" if scheme == "Messaging" and order != "whole message" else "holds")


@pytest.mark.long
@pytest.mark.parametrize("fault", ["client[0] power", "client[0] process"])
def test_a_client_that_dies_in_the_middle_of_a_message_spoils_nothing(example, fault):
    found = crash_report(example.Messaging, fault=fault, workload=LONG | {"operations": 8}, clients=2)
    assert found.verdicts["linearizable"] == "holds" and found.states > 10


def test_a_table_in_dram_is_lost_with_the_power(example):
    found = crash_report(example.Messaging, fault="server[0] power", workload=LONG | {"operations": 8}, clients=2)
    assert found.verdicts["no_lost_ack"] == "violated"


def test_the_checked_server_has_seen_torn_messages_and_says_so(example):
    scenario = scenario_of(example.Checked, workload=LONG, clients=2, data_in_order="none")
    fields = run_variant(scenario, scenario.variants()[0], metered=True).summary()
    torn = [own["torn messages"]["mean"] for own in fields["counts"].values()]
    assert torn and all(mean > 0 for mean in torn)


def test_an_operation_is_one_round_trip_and_no_completion_is_polled(example):
    scenario = scenario_of(example.Messaging, workload=LONG, clients=2)
    experiment = AssembledVariant(scenario, scenario.variants()[0], metered=True)
    experiment.system.clock.run_until(experiment.finished)
    fields = experiment.result().summary()
    assert fields["round_trips"] == {f: {"p50": 1.0, "p99": 1.0, "mean": 1.0} for f in ("get", "put")}
    assert all(set(row["verbs"]) == {"WRITE"} for row in fields["traffic"])
    assert fields["per_operation"]["server"]["polling_ns"] > 0


def test_a_client_whose_connection_breaks_learns_so(example):
    scenario = scenario_of(example.Messaging, workload=LONG, clients=1)
    experiment = AssembledVariant(scenario, scenario.variants()[0])
    server = experiment.system.nodes["server"][0]
    experiment.system.clock.run_until(20_000_000)
    server.process(server.name).end()
    experiment.system.clock.run_until(experiment.finished)
    outcomes = [operation.outcome for operation in experiment.history.operations]
    assert outcomes[0] == "ok" and outcomes[-1] == "info"
