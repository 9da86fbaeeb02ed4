"""Published curves: are they read as they stand, do the experiments replay them, and is the bar stated honestly?

The quick points of every curve run here, with fewer requests than the board's; ``make slow`` runs all of them in full
against the bar.
"""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.sim.errors import InputError
from rpsim.validation.published.curves.board import PointTask, chosen, run, simulate
from rpsim.validation.published.curves.curves import FOLDER, components, load_curves, read_curves
from rpsim.validation.published.experiments import cores, inbound, rings, scale, tails
from rpsim.validation.published.experiments.experiments import experiments
from rpsim.validation.published.scoreboard import Bound, ClaimStatus

CURVES = load_curves()
CHEAPER = {"size-clwb-6-dimms": (256,)}
"""Where the quick point is dear and another says as much of whether the curve is met."""
GUARDED = [(curve, x) for curve in CURVES for x in CHEAPER.get(curve.id, curve.quick) or list(curve.points)[-1:]]
"""Points that run here: the quick ones of each curve, or its last."""

LESS = {
    (cores, "TOTAL_BYTES"): 4, (cores, "TOTAL_OF_DIMM_BYTES"): 4, (inbound, "BYTES"): 4, (inbound, "MOST_WRITES"): 4,
    (rings, "WARM_ROUNDS"): 2, (rings, "ROUNDS"): 2, (tails, "OPERATIONS"): 4, (tails, "TRAFFIC_BYTES"): 2,
}  # fmt: skip
"""How many times less than the board's experiments those that run here do: enough for a factor of two."""
SETTLES_LATE = {"dram-under-reads"}
"""Curves whose experiment is not made smaller: buffers that are still filling would be the result."""
LESS_VERBS = 6
LESS_SCALED_VERBS = 2
"""Those on a scaled SRAM: with fewer its caches are not warm."""

FAR = {
    ("dram-under-reads", 84.2): 0.48, ("persist-places", "random"): 0.474,
    ("far-share-4", "1:1"): 2.63,
}  # fmt: skip
"""Points that are known to be off by more than a factor of two: simulated over published. The curve says why."""


def test_ids_are_unique_and_every_experiment_has_a_curve():
    assert max(Counter(curve.id for curve in CURVES).values()) == 1
    assert set(experiments()) == {curve.experiment for curve in CURVES}


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.id)
def test_a_curve_says_where_it_comes_from(curve):
    assert len(curve.source.split()) >= 3 and len(curve.condition.split()) >= 3
    assert curve.role is ClaimStatus.SHAPE or all(value > 0 for value in curve.points.values())
    assert (curve.role is ClaimStatus.SHAPE) == all(isinstance(value, Bound) for value in curve.points.values())
    assert load_platform(curve.platform, **curve.settings)


@pytest.fixture
def less(monkeypatch):
    """The number at a point, of an experiment that does less, so that the guard is cheap."""

    def simulated(curve, x):
        point = PointTask(curve, x).point
        if curve.id in SETTLES_LATE:
            return simulate(point)
        for (module, name), times in LESS.items():
            monkeypatch.setattr(module, name, getattr(module, name) // times)
        fewer = scale.rate.__kwdefaults__["verbs"] // LESS_SCALED_VERBS
        monkeypatch.setitem(scale.rate.__kwdefaults__, "verbs", fewer)
        verbs = inspect.signature(experiments()[point.experiment].measure).parameters.get("verbs")
        if verbs is not None:
            point = replace(point, given=(*point.given, ("verbs", verbs.default // LESS_VERBS)))
        return simulate(point)

    return simulated


@pytest.mark.long
@pytest.mark.parametrize(("curve", "x"), GUARDED, ids=lambda value: str(getattr(value, "id", value)))
def test_a_point_is_within_a_factor_of_two_of_what_was_published(curve, x, less):
    published, simulated = curve.points[x], less(curve, x)
    if isinstance(published, Bound):
        assert published.met_by(simulated) or curve.reason(x), (simulated, str(published))
    elif (curve.id, x) in FAR:
        assert curve.reason(x)
        assert simulated / published == pytest.approx(FAR[curve.id, x], rel=0.1)
    else:
        assert 0.5 <= simulated / published <= 2, simulated


@pytest.mark.long
def test_a_point_comes_out_the_same_twice():
    (curve,) = [curve for curve in CURVES if curve.id == "cx5-write-window"]
    point = PointTask(curve, list(curve.points)[-1]).point
    assert simulate(point) == simulate(point)


@pytest.mark.slow
def test_the_predictions_reach_the_bar():
    summary = run(chosen(), jobs=2).summary()
    assert summary.met, summary


@pytest.mark.slow
def test_every_missed_point_has_been_looked_at():
    missed = [
        claim for claim in run(chosen(), jobs=2).claims() if not claim.met and claim.status is not ClaimStatus.INPUT
    ]
    assert [claim.id for claim in missed if not claim.reason] == []


# what is wrong with a file of curves ------------------------------------------------------------------------

GOOD = """component: nic
curves:
  - id: one
    title: a curve
    source: by us, here, today
    condition: on a quiet machine
    confidence: high
    role: predict
    platform: optane-adr
    experiment: write-one-way
    unit: us
    points: {64: 1.0, 128: 1.1}
"""


def mistakes(tmp_path: Path, text: str):
    path = tmp_path / "nic.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_curves(path)
    return caught.value.mistakes


def test_a_good_file_is_read(tmp_path):
    path = tmp_path / "nic.yaml"
    path.write_text(GOOD + "    missed: {64: the clock was wrong}\n    with: {mtu: 1024}\n")
    (curve,) = read_curves(path)
    assert (curve.points, curve.quick, curve.tolerance) == ({64: 1.0, 128: 1.1}, (64,), 0.25)
    assert (curve.reason(64), curve.reason(128), curve.given) == ("the clock was wrong", "", {"mtu": 1024})


@pytest.mark.parametrize(
    ("old", "new", "line", "nearest"),
    [
        ("role: predict", "role: predicted", 8, "predict"),
        ("unit: us", "unit: GB/s", 11, None),
        ("unit: us", "unit: usec", 11, "us"),
        ("platform: optane-adr", "platform: optane-ard", 9, "optane-adr"),
        ("experiment: write-one-way", "experiment: write-one-wy", 10, "write-one-way"),
        ("confidence: high", "confidence: good", 7, None),
        ("points: {64: 1.0, 128: 1.1}", "points: {64: fast}", 12, None),
        ("points: {64: 1.0, 128: 1.1}", "points: {64: {at_least: 1}}", 12, None),
        ("points: {64: 1.0, 128: 1.1}", "points: []", 12, None),
        ("points: {64: 1.0, 128: 1.1}", "points: {64: 1.0}\n    quick: [65]", 13, None),
        ("points: {64: 1.0, 128: 1.1}", "points: {64: 1.0}\n    missed: {65: x}", 13, None),
        ("points: {64: 1.0, 128: 1.1}", "points: {64: 1.0}\n    with: {mtus: 1}", 13, "mtu"),
        ("title: a curve", "title: [a curve]", 4, None),
        ("    title: a curve\n", "    titel: a curve\n    title: a curve\n", 4, "title"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, old, new, line, nearest):
    found = mistakes(tmp_path, GOOD.replace(old, new))
    assert [(mistake.line, mistake.nearest) for mistake in found] == [(line, nearest)]


def test_the_components_are_the_files():
    assert components() == sorted(path.stem for path in FOLDER.glob("*.yaml"))
    with pytest.raises(InputError) as caught:
        load_curves("nick")
    assert caught.value.mistakes[0].nearest == "nic"
