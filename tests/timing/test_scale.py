"""Data sets that nobody stores: is what is computed what would have been stored?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.host.privatecaches import Caches
from rpsim.models.profiles.platform import load_platform
from rpsim.models.profiles.scaling import scaled
from rpsim.protocols.parts import kv, placement
from rpsim.scenarios.build import Draft
from rpsim.scenarios.keyspace import KeySpace, Same
from rpsim.scenarios.run import experiment as experiment_module
from rpsim.scenarios.run.experiment import AssembledVariant, run_variant
from rpsim.sim.bytespace import LINE_BYTES, ByteSpace
from rpsim.sim.permutation import Permutation


@pytest.mark.long
@given(st.integers(1, 3000), st.integers(0, 5))
def test_a_computed_permutation_is_one(n, seed):
    permutation = Permutation(n, seed)
    images = [permutation(number) for number in range(n)]
    assert sorted(images) == list(range(n))
    assert [permutation.inverse(image) for image in images] == list(range(n))


def test_a_large_permutation_spreads_neighbours():
    permutation = Permutation(100_000_000, 1)
    images = [permutation(number) for number in range(1000)]
    assert sum(images) / 1000 == pytest.approx(50_000_000, rel=0.1)
    assert min(abs(a - b) for a, b in pairwise(images)) > 1000
    with pytest.raises(ValueError, match="none of the 100000000"):
        permutation(100_000_000)


def test_names_are_numbered_and_not_stored():
    names = KeySpace(100_000_000)
    assert (names[0], names[-1], len(names)) == ("k0", "k99999999", 100_000_000)
    assert names.index("k4711") == 4711
    assert names[3:5] == ["k3", "k4"]
    assert all(name not in names for name in ("k100000000", "k007", "x1", "k", 7))
    assert Same(names, b"v")["k5"] == b"v"
    with pytest.raises(ValueError, match="none of the 100000000 objects"):
        names.index("k100000000")


@given(st.lists(st.tuples(st.integers(0, 1000), st.binary(min_size=1, max_size=200)), max_size=20))
def test_a_computed_range_is_as_if_it_had_been_stored(writes):
    def source(line):
        return bytes([line % 251 + 1]) * LINE_BYTES

    stored, computed = ByteSpace(2048), ByteSpace(2048)
    for line in range(4, 20):
        stored.poke(line * LINE_BYTES, source(line))
    computed.compute(4 * LINE_BYTES, 16 * LINE_BYTES, source)
    for address, data in writes:
        stored.poke(address, data)
        computed.poke(address, data)
    before = computed.snapshot()
    assert [before.line(line) for line in range(32)] == [stored.snapshot().line(line) for line in range(32)]
    assert computed.peek(0, 2048) == stored.peek(0, 2048)


def ycsb(keys, operations=400, schemes=("saw", "efactory"), **more):
    return Draft.new(
        "scale",
        scenario="scale",
        vary={"platform": ["optane-adr"], "ddio": ["on"]},
        roles={"client": {"machines": 2, "processes": 4}},
        workload={"kind": "ycsb", "mix": "a", "keys": keys, "value": "100 B", "operations": operations},
        schemes=list(schemes),
        **more,
    ).build()


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1])
def test_a_store_with_computed_contents_answers_like_one_with_stored_ones(number, monkeypatch):
    scenario = ycsb(50, operations=200)
    stored = run_variant(scenario, scenario.variants()[number])
    monkeypatch.setattr(kv, "STORED_KEYS", 10)
    monkeypatch.setattr(placement, "STORED_KEYS", 10)
    computed = run_variant(scenario, scenario.variants()[number])
    assert {o.outcome for o in computed.history.operations} == {"ok"}

    def reads(result):
        return {(o.process, o.number, o.result is None) for o in result.history.operations if o.f == "get"}

    assert {entry[2] for entry in reads(computed)} == {entry[2] for entry in reads(stored)} == {False}
    assert computed.latency_ps["get"].mean() == pytest.approx(stored.latency_ps["get"].mean(), rel=0.15)


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1])
def test_a_hundred_million_keys_are_run_on(number):
    scenario = ycsb(100_000_000)
    experiment = AssembledVariant(scenario, scenario.variants()[number])
    experiment.system.clock.run_until(experiment.finished)
    operations = experiment.history.operations
    assert {o.outcome for o in operations} == {"ok"}
    assert all(o.result is not None for o in operations if o.f == "get")
    assert sum(len(device.space.snapshot()) for _, device in experiment.system.devices().values()) < 6000


# scaling an experiment down --------------------------------------------------------------------------------------


def hits(keys, scale, monkeypatch):
    """Of what the server's core loads and stores, the share that its caches have; mean latency of a put in us."""
    platform = load_platform("optane-adr", ddio="on")
    small = replace(
        platform,
        llc=replace(platform.llc, size_bytes=352 << 10),
        private=replace(platform.private, l2_bytes=128 << 10),
        tlb=replace(platform.tlb, entries=64),
    )
    monkeypatch.setattr(experiment_module, "load_platform", lambda name, **settings: small)
    scenario = ycsb(keys, operations=2 * keys, scale=scale, schemes=["saw"])
    scenario = scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"zipf": 0.0})})
    result = run_variant(scenario, scenario.variants()[0])
    counters = result.system.nodes["server"][0].host.counters
    served = counters.l1_hits + counters.l2_hits + counters.llc_hits
    return served / (served + counters.core_misses), result.latency_ps["put"].mean() / 1e6


@pytest.mark.long
def test_a_scaled_experiment_has_smaller_caches(monkeypatch):
    assert hits(500, 16, monkeypatch)[0] < hits(500, 1, monkeypatch)[0] - 0.02


@pytest.mark.slow
def test_a_scaled_experiment_meets_the_same_caches_and_fewer_keys_alone_do_not(monkeypatch):
    whole, half = hits(8000, 1, monkeypatch), hits(2000, 4, monkeypatch)
    assert half[0] == pytest.approx(whole[0], abs=0.04)
    assert half[1] == pytest.approx(whole[1], rel=0.03)
    assert hits(2000, 1, monkeypatch)[0] > whole[0] + 0.06


@pytest.mark.parametrize("factor", [1, 2, 7, 1000, 10**9])
def test_a_scaled_platform_has_caches_that_can_be_built(factor):
    platform = load_platform("optane-adr", ddio="on")
    small = scaled(platform, factor)
    Caches(small.llc, small.private, lambda: 0)
    assert small.llc.size_bytes == max(platform.llc.size_bytes // factor, 64 * platform.llc.ways)
    assert (small.pcie, small.fabric, small.cpu) == (platform.pcie, platform.fabric, platform.cpu)
