"""The shipped scenario of table 3 in small: options reach the modes, and a smaller cache changes no result."""

from __future__ import annotations

import pytest

from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import load_scenario

FEW = ["workload.keys=200", "workload.operations=80", "workload.warmup=0"]


def ran(name, *settings):
    scenario = load_scenario("rnvm-table3", [*FEW, *settings])
    (variant,) = (one for one in scenario.variants() if one.scheme.partition("[")[0] == name)
    return run_variant(scenario, variant, metered=True)


def seen(result):
    return [(o.process, o.f, str(o.object), str(o.argument), str(o.result)) for o in result.history.operations]


def hits(result):
    return sum(one.counts["cache hits"] for took in result.took.values() for one in took)


@pytest.mark.parametrize("mode", ["rnvm-rc", "rnvm-rcb"])
def test_a_smaller_cache_has_fewer_hits_and_the_same_results(mode):
    usual, small = ran(f"bst on {mode}"), ran(f"bst on {mode}", "options.cache=1%")
    assert seen(small) == seen(usual) and any(one[1] == "find" for one in seen(usual))
    assert hits(small) < hits(usual)


def test_every_mode_and_every_batch_has_the_same_results():
    results = [seen(ran(f"bst on {mode}")) for mode in ("naive", "rnvm-r", "rnvm-rcb", "symmetric", "symmetric-b")]
    results.append(seen(ran("bst on rnvm-rcb", "options.batch=64")))
    assert all(one == results[0] for one in results)
