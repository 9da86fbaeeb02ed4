"""Does what the matrix of schemes finds depend on the seed? What it says of a scheme must not be luck."""

from __future__ import annotations

import pytest

from rpsim.protocols.efactory.cleaning import COMPRESSING, MERGING, NORMAL
from rpsim.protocols.guarantees import EXPLORED, Condition
from rpsim.protocols.registry import scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import load_scenario
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.matrix.guarantees import file_of, scenario_of, usual

TAKEN_BACK = {Condition.DURABLE, Condition.MONOTONIC}
"""What breaks where a reader is shown an update that is not durable yet."""
LOST = {Condition.DURABLE, Condition.NO_LOST_ACK}
"""What breaks where an update returns before it is durable."""


def shipped(name, platform, seed, ddio="on"):
    kind = scheme(name)
    settings = (f"schemes=[{name}]", f"vary.platform=[{platform}]", f"vary.ddio=[{ddio}]")
    made = load_scenario(file_of(scenario_of(usual(kind), kind)), settings, seed)
    (variant,) = made.variants()
    return made, variant


def shown(scheme, platform, seed, schedule):
    """What one schedule of the shipped scenario violates."""
    explorer = Explorer(run_variant(*shipped(scheme, platform, seed), schedule), conditions=EXPLORED)
    return set(explorer.walk(until=lambda found: len(found.first) == 2).first)


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "seed"), [("saw", 3), ("imm", 5), ("rpc", 3), ("rpc", 5)])
def test_a_reader_meets_what_is_published_and_not_durable_with_each_seed(scheme, seed):
    """Seeds with which pauses that are drawn alone do not show it."""
    assert shown(scheme, "optane-adr", seed, schedule=1) == TAKEN_BACK


@pytest.mark.long
def test_a_put_returns_before_a_verifier_that_lags_has_seen_its_value():
    """Where caches survive nothing else loses it: as soon as it was seen it was in a cache."""
    assert shown("efactory", "optane-eadr", 3, schedule=2) == LOST


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["efactory-cleaning", "efactory-while-cleaning"])
def test_power_can_fail_in_both_stages_of_cleaning(scheme):
    """What the server's word in persistent memory says: the stage, and the working pool in its last bit."""
    result = run_variant(*shipped(scheme, "optane-adr", 3))
    state = result.scheme.server.state - result.scheme.server.pm.base
    stages = [
        int.from_bytes(chunk.data, "little") >> 1 for chunk in result.system.trace.chunks if chunk.address == state
    ]
    assert stages[:3] == [COMPRESSING, MERGING, NORMAL]


@pytest.mark.slow
@pytest.mark.parametrize("ddio", ["on", "off"])
@pytest.mark.parametrize(("platform", "broken"), [("optane-adr", TAKEN_BACK), ("optane-eadr", set())])
@pytest.mark.parametrize("scheme", ["saw", "imm", "rpc"])
def test_the_vector_is_the_same_with_eight_seeds(scheme, platform, broken, ddio):
    for seed in range(1, 9):
        made, variant = shipped(scheme, platform, seed, ddio)
        report = explore(run_variant(made, variant), made, variant, also=EXPLORED, examples=())
        assert {c for c, verdict in report.verdicts.items() if verdict == "violated"} == broken, seed
        assert report.exhaustive
