"""A run that nobody explores keeps no record of what a power failure would leave, and is the same run."""

from __future__ import annotations

import pytest

from rpsim.protocols.registry import schemes
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.validation.matrix.testbeds import fits

STORES = sorted(
    name
    for name, kind in schemes().items()
    if fits(kind, "optane-adr") and any("pm" in role.memory for role in kind.role_types.values())
)
"""Without those that write to a drive, whose record its files are read from, or to DRAM alone, where nothing lasts."""


def both(scheme, **vary):
    """A small workload with a record and without."""
    made = Draft.new(
        "small",
        scenario="small",
        vary={"platform": ["optane-adr"]} | vary,
        schemes=[scheme],
        roles={"client": {"machines": 1, "processes": 3}},
        workload={"kind": "ycsb", "mix": "update-only", "keys": 5, "value": "64 B", "operations": 24},
    ).build()
    (variant,) = made.variants()
    return run_variant(made, variant), run_variant(made, variant, recorded=False)


def told(result):
    """All that a run says but its trace."""
    operations = [(o.process, o.f, o.invoke_ps, o.return_ps, o.outcome, o.result) for o in result.history.operations]
    nodes = [node for machines in result.system.nodes.values() for node in machines]
    memory = [device.space.snapshot() for _, device in result.system.devices().values()]
    return operations, result.elapsed_ps, [node.nic.counters() for node in nodes], memory


@pytest.mark.long
@pytest.mark.parametrize("ddio", ["on", "off"])
@pytest.mark.parametrize("store", STORES)
def test_it_is_the_same_run(store, ddio):
    recorded, bare = both(store, ddio=[ddio])
    assert told(recorded) == told(bare)
    assert recorded.system.trace.chunks and not bare.system.trace.chunks


def test_what_a_flush_writes_back_is_recorded_all_the_same():
    recorded, bare = both("word over ibta-flush-persistent")
    assert told(recorded) == told(bare)
    assert len(recorded.system.trace.chunks) == len(bare.system.trace.chunks) > 0
