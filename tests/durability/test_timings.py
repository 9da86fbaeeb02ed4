"""A verdict comes from bytes and rules: it may not change when the hardware is merely faster or slower.

Every time and rate that is an assumption is moved over its range, all to one end, all to the other, and to random
corners, and each shipped scenario is judged again. ``make slow`` does it with all scenarios and more corners.
"""

from __future__ import annotations

import random

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.profiles.vary import timings, varied
from rpsim.scenarios.run import experiment
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import load_scenario, scenario_names
from rpsim.validation.crash.explore import explore

WHOLE = {"efactory", "far-adapter", "client-crash", "server-process", "recovery-crash", "cleaning-crash"}
"""Small enough as they are."""
QUICK = ("update-only", "recovery-crash")
CORNERS = 4


def short(name, operations, **more):
    """A scenario with fewer operations, and otherwise its own: its schedules too, since verdicts are over all of them.

    What a crash may do to one schedule hangs on what happened to run before what in it (a background thread that is
    quick enough leaves nothing to lose): the schedules that a scenario explores make up for that, whatever the timing.
    """
    fields = {"workload.operations": operations, "workload.warmup": 0, "workload.value": "64 B"} | more
    return load_scenario(name, [f"{field}={value}" for field, value in fields.items()] if name not in WHOLE else [])


def corner(number):
    """Which end of its range a parameter goes to: 0 all to the lower, 1 all to the upper, others at random."""

    def values(platform):
        draws, ends = random.Random(number), {}
        for parameter in timings(platform):
            low, high = parameter.range
            ends[parameter.path] = (low, high)[number] if number < 2 else draws.choice((low, high))
        return varied(platform, ends)

    return values


def verdicts(scenario, monkeypatch, change=lambda platform: platform):
    """The verdict vector of every variant, on platforms that are changed so."""
    found = {}
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "load_platform", lambda name, **settings: change(load_platform(name, **settings)))
        for variant in scenario.variants():
            report = explore(run_variant(scenario, variant), scenario, variant, examples=())
            found[variant.scheme, variant.label] = {str(c): str(verdict) for c, verdict in report.verdicts.items()}
    return found


@pytest.mark.long
@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("name", QUICK)
def test_the_ends_of_all_ranges_change_no_verdict(name, number, monkeypatch):
    scenario = short(name, 24, **{"crash.schedules": 1})
    assert verdicts(scenario, monkeypatch, corner(number)) == verdicts(scenario, monkeypatch)


def test_the_platform_is_really_another(monkeypatch):
    """The same run takes another time: else the tests above would compare a thing with itself."""
    scenario = short("update-only", 8, **{"crash.schedules": 1})
    variant = scenario.variants()[0]
    before_ps = run_variant(scenario, variant).elapsed_ps
    monkeypatch.setattr(experiment, "load_platform", lambda name, **more: corner(1)(load_platform(name, **more)))
    assert run_variant(scenario, variant).elapsed_ps > before_ps


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2 + CORNERS))
@pytest.mark.parametrize("name", scenario_names())
def test_no_corner_changes_a_verdict_of_a_shipped_scenario(name, number, monkeypatch):
    scenario = short(name, 80)
    assert verdicts(scenario, monkeypatch, corner(number)) == verdicts(scenario, monkeypatch)
