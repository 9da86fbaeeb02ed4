"""A scenario's network: what it may say, what it says where it is wrong, and what comes of it."""

from __future__ import annotations

import json

import pytest

from rpsim.models.fabric.disturbance import Disturbance, PacketFault
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import scenario_from_data
from rpsim.sim.errors import InputError

PLAIN = Draft.new(
    "mine.yaml",
    scenario="mine",
    platform="optane-adr",
    ddio="on",
    roles={"client": {"machines": 2}},
    schemes=["saw"],
    workload={"kind": "ycsb", "mix": "a", "keys": 20, "value": "256 B", "operations": 100},
)


def run(network):
    scenario = PLAIN.with_(network=network).build()
    return run_variant(scenario, scenario.variants()[0])


def test_a_network_becomes_a_disturbance_and_text_again():
    packets = [{"from": "client[1]", "to": "server[0]", "packet": 3, "lost": True, "repeated_after": "5 us"}]
    network = {"loss": 0.001, "delay": "2 us", "reorder": 0.25, "packets": packets}
    scenario = PLAIN.with_(network=network).build()
    assert scenario.network is not None
    chosen = PacketFault("client[1]", "server[0]", 3, lost=True, repeated_after_ps=5_000_000)
    assert scenario.network.disturbance() == Disturbance(0.001, 2_000_000, 0.25, 0.0, (chosen,))
    assert scenario_from_data(json.loads(json.dumps(scenario.resolved())), "mine.yaml") == scenario


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"loss": 2}, "network.loss: found 2, expected a probability from 0 to 1"),
        ({"loss": "often"}, "network.loss: found 'often', expected a probability from 0 to 1"),
        ({"lost": 0.1}, "found the unknown key 'lost', expected one of loss, delay, reorder, repeat, packets"),
        ({"delay": 2}, "network.delay: found 2, expected a time"),
        ({"reorder": 0.1}, "network.reorder: found 0.1 without a delay, expected a 'delay' as well"),
        ({"packets": [{"from": "client[0]", "to": "server[0]"}]}, "packet: found nothing, expected its number"),
        (
            {"packets": [{"from": "client[2]", "to": "server[0]", "packet": 1}]},
            "found 'client[2]', expected a machine below client[2]",
        ),
        ({"packets": [{"from": "clent[0]", "to": "server[0]", "packet": 1}]}, "did you mean 'client'"),
        (
            {"packets": [{"from": "client[0]", "to": "server[0]", "packet": 1}] * 2},
            "found packet 1 from client[0] to server[0] a second time, expected each packet once",
        ),
    ],
)
def test_what_a_network_may_not_say(network, message):
    with pytest.raises(InputError) as caught:
        PLAIN.with_(network=network).build()
    assert message in str(caught.value)


def test_a_network_that_does_nothing_changes_nothing_but_that_it_counts():
    scenario = PLAIN.build()
    without = run_variant(scenario, scenario.variants()[0]).summary()
    quiet = run({}).summary()
    network = quiet.pop("network")
    assert quiet == without
    assert network["packets"] > 200
    assert {value for name, value in network.items() if name != "packets"} == {0}


def test_what_is_lost_is_sent_again_and_counted():
    found = run({"loss": 0.02, "delay": "1 us"}).summary()
    assert found["operations"] == 100
    assert found["network"]["lost"] > 0
    assert found["network"]["retransmitted"] > 0
    assert found["network"]["local_ack_timeout_err"] > 0


def test_one_chosen_packet():
    packet = {"from": "client[0]", "to": "server[0]", "packet": 1, "lost": True}
    found = run({"packets": [packet]}).summary()["network"]
    assert (found["lost"], found["retransmitted"]) == (1, 1)
