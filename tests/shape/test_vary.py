"""Platforms with parameters set otherwise, and the fit that does it."""

from __future__ import annotations

import dataclasses

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.profiles.vary import ends, timings, uncertain, varied
from rpsim.sim.errors import InputError
from rpsim.validation.measuring.calibrate import hops as fitting
from rpsim.validation.published.curves.board import PointTask, chosen, simulate
from rpsim.validation.published.curves.sweep import touches, variations


def test_one_parameter_is_set_and_nothing_else():
    platform = load_platform("optane-adr")
    other = varied(platform, {"nic.doorbell": "100 ns", "media.optane.load": "1 us", "imc.wpq": "256 B"})
    assert (other.nic.doorbell_ps, other.media["optane"].load_ps, other.imc.wpq_bytes) == (100_000, 1_000_000, 256)
    back = varied(other, {"nic.doorbell": "150 ns", "media.optane.load": "305 ns", "imc.wpq": "512 B"})
    assert back == platform


def test_what_a_platform_has_not_is_left_alone():
    platform = load_platform("optane-adr")
    assert varied(platform, {"peers.haishen5.settle": "1 us", "nic.no_such": "1 ns", "none.at": "1"}) == platform


def test_a_value_that_means_nothing_is_refused():
    with pytest.raises(InputError) as caught:
        varied(load_platform("optane-adr"), {"nic.doorbell": "soon"})
    assert caught.value.mistakes[0].field == "nic.doorbell"


def test_the_ends_of_a_range_are_those_of_the_profile():
    platform = load_platform("optane-adr")
    by_path = {parameter.path: parameter for parameter in uncertain(platform)}
    assert {"nic.staging", "pcie.posted_write", "imc.wpq"} <= by_path.keys()
    found = list(ends(by_path.values()))
    assert {path for path, _ in found} == by_path.keys()
    for path, text in found:
        assert text in by_path[path].range and text != by_path[path].text
        assert varied(platform, {path: text}) != platform


def test_timings_are_times_and_rates_with_a_range():
    found = timings(load_platform("pmr"))
    assert {"nic.doorbell", "cpu.request", "peers.haishen5.settle", "cpu.memcpy"} <= {p.path for p in found}
    assert "nic.staging" not in {p.path for p in found}


def test_a_variation_concerns_the_platforms_that_have_it():
    found = variations(chosen())
    assert ("imc.wpq", "256 B") in found
    assert all(platforms for platforms in found.values())


def test_the_fit_finds_the_values_that_made_the_curve(monkeypatch):
    """Published numbers replaced by the simulator's own with known hops: least squares has to find these."""
    curves = [curve for curve in fitting.load_curves("nic") if curve.id in fitting.CURVES]
    truth = {path: "120 ns" for path in fitting.PARAMETERS}
    kept = {"cx3-write": (64, 128), "cx3-write-completion": (64,)}
    made = []
    for curve in curves:
        points = {
            x: fitting.simulate(fitting.PointTask(curve, x, tuple(truth.items())).point)
            for x in curve.points
            if x in kept[curve.id]
        }
        made.append(dataclasses.replace(curve, points=points))
    monkeypatch.setattr(fitting, "load_curves", lambda component: made)
    found = fitting.fit()
    assert found.rms_error < 0.002 < found.rms_before
    assert found.values_ps["nic.ack_processing"] == pytest.approx(120_000, abs=4_000)
    way = found.values_ps["nic.tx_processing"] + found.values_ps["nic.rx_processing"]
    assert way == pytest.approx(240_000, abs=4_000)


@pytest.mark.long
def test_an_experiment_does_not_hang_on_what_it_says_it_is_without():
    """All parameters of ``--sweep`` at an end for which a curve is not run again: one point of some experiments."""
    some = {"load-latency", "bandwidth-over-threads", "write-amplification", "ring-hit-rate", "pcie-write-bandwidth"}
    checked = set()
    for curve in (curve for curve in chosen() if curve.experiment in some):
        platform = load_platform(curve.platform, **curve.settings)
        values = {path: text for path, text in ends(uncertain(platform)) if not touches(path, curve)}
        if curve.experiment not in checked:
            x = next(iter(curve.points))
            assert simulate(PointTask(curve, x, tuple(values.items())).point) == simulate(PointTask(curve, x).point), (
                curve.id,
                values,
            )
            checked.add(curve.experiment)
            assert "nic.staging" in values
    assert checked == some


def test_the_sweep_has_the_credits_and_both_kinds_of_buffers():
    found = {path for path, _ in variations(chosen())}
    assert {"pcie.posted_headers", "pcie.posted_data", "media.optane.controller.read_buffer"} <= found
