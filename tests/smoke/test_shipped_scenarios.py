"""Does every shipped scenario come out as it says, and does a run still take the same way as before?

Scenarios are cut short here; ``make slow`` runs the demo whole. A fingerprint is a hash of all that clients saw in a
run, and when: it changes with every change of a timing or of the order of events. Such a change has to be meant: renew
the file with ``RPSIM_RENEW=1`` and put what changed under "Changed numbers" in CHANGELOG.md.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from rpsim.app.terminal.expected import surprises
from rpsim.models.nic.nic import Nic
from rpsim.protocols.registry import scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import load_scenario, scenario_names
from rpsim.validation.crash.explore import explore

FINGERPRINTS = Path(__file__).parent / "fingerprints.json"

SHORT = {"workload.operations": 160, "workload.warmup": 0, "crash.schedules": 1}
FEW = {"workload.operations": 30, "workload.keys": 8}
"""For those with many schemes and objects, all of which are read at the end."""
RANKED = {"workload.nodes": 6, "workload.edges": 30, "workload.iterations": 2, "workload.sample": ""}
BUSY = {"workload.operations": 4, "workload.keys": 8, "workload.work": "1 us"}
"""For one whose other programs send millions of packets in a second, which are all in the trace."""
RUN_ONLY = {
    "clover", "clover-balance", "filemr", "hyperloop", "tailwind",
    "pagerank", "pmr-stacks", "pmr-utilisation", "rnvm-table3", "rpc-busy", "rpc-failures", "rpc-senders", "ycsb-d",
    "ycsb-e", "ycsb-f",
}  # fmt: skip
"""Scenarios for `rpsim run` alone, which state no verdict."""
MANY = ("pmr-stacks", "pmr-utilisation", "rpc-", "ycsb-d", "ycsb-e", "ycsb-f")
WHOLE = {
    "efactory",
    "far-adapter",
    "client-crash",
    "server-process",
    "recovery-crash",
    "cleaning-crash",
    "durable-rpc",
    "append-twice",
    "rpc-lost-packets",
    "redis",
    "redis-process",
    "rnvm-front-end",
    "rnvm-mirror",
    "rnvm-readers",
    "rnvm-queue",
    "rnvm-bank",
    "pmr-order",
    "pmr-torn",
    "pmr-barrier",
    "pmr-repaired",
    "clover-power",
    "clover-data-node",
    "clover-replica-lost",
    "clover-metadata",
    "pdpm-client",
    "pdpm-power",
    "mojim-window",
    "hotpot-commit",
}
"""Small enough as they are."""
DEAR = {"server-process": {"workload.operations": 6}, "client-crash": {"workload.operations": 8},
        "hotpot-commit": {"vary.platform": "[optane-adr]", "vary.ddio": "[on]"}}  # fmt: skip
"""Whole to be run once, and not to have every fault executed; ``make slow`` does."""


def settings(values):
    return [f"{field}={value}" for field, value in values.items()]


def short(name, **more):
    if name == "pagerank":
        return load_scenario(name, settings(RANKED))
    few = BUSY if name == "rpc-busy" else FEW if name.startswith(MANY) else {}
    return load_scenario(name, settings({} if name in WHOLE else SHORT | few | more))


def fingerprint(result):
    seen = [
        (o.number, o.process, o.f, str(o.object), o.invoke_ps, o.return_ps, o.outcome, str(o.result))
        for o in result.history.operations
    ]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]


@pytest.mark.long
@pytest.mark.parametrize("plain_way", [True, False], ids=["the plain way", "the general code"])
@pytest.mark.parametrize("name", scenario_names())
def test_a_run_takes_the_way_that_it_took(name, plain_way, monkeypatch):
    monkeypatch.setattr(Nic, "takes_plain_way", plain_way)
    scenario = short(name)
    variants = scenario.variants()
    if not plain_way:  # as good with a scheme's first hardware as with all
        variants = [*{v.scheme: v for v in reversed(variants)}.values()]
    found = {f"{v.scheme} on {v.label}": fingerprint(run_variant(scenario, v)) for v in variants}
    known = json.loads(FINGERPRINTS.read_text(encoding="utf-8")) if FINGERPRINTS.exists() else {}
    if os.environ.get("RPSIM_RENEW") and plain_way:
        FINGERPRINTS.write_text(json.dumps(known | {name: found}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        pytest.skip("renewed")
    assert found == (known[name] if plain_way else {variant: known[name][variant] for variant in found})


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in scenario_names() if name != "quickstart" and name not in RUN_ONLY])
def test_a_shipped_scenario_comes_out_as_it_says(name):
    comes_out(load_scenario(name, settings(DEAR[name])) if name in DEAR else short(name, **{"workload.value": "64 B"}))


@pytest.mark.slow
@pytest.mark.parametrize("name", DEAR)
def test_a_dear_scenario_comes_out_as_it_says(name):
    comes_out(load_scenario(name))


def comes_out(scenario):
    for variant in scenario.variants():
        report = explore(run_variant(scenario, variant), scenario, variant, examples=())
        assert surprises(report, scenario.expect, scheme(variant.scheme).claims) == []


def test_the_warm_up_is_run_and_not_counted():
    scenario = load_scenario("quickstart", ["workload.operations=100", "workload.warmup=40"])
    result = run_variant(scenario, scenario.variants()[0])
    returns_ps = sorted(o.return_ps for o in result.history.operations)
    assert (len(returns_ps), result.operations) == (100, 60)
    assert result.measured_from_ps == returns_ps[39]
    assert sorted(ps for completed in result.completed_ps.values() for ps in completed) == returns_ps[40:]


@pytest.mark.long
def test_a_disturbed_schedule_is_another_way():
    scenario = short("quickstart")
    variant = scenario.variants()[-1]
    assert fingerprint(run_variant(scenario, variant, 1)) != fingerprint(run_variant(scenario, variant))
    assert fingerprint(run_variant(scenario, variant, 1)) == fingerprint(run_variant(scenario, variant, 1))
