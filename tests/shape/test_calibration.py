"""Does a calibration find what made the measurements, and say what they do not determine?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rpsim.models.profiles.platform import load_platform
from rpsim.sim.errors import InputError
from rpsim.validation.measuring.calibrate import calibration as fits
from rpsim.validation.measuring.calibrate import identify, solver
from rpsim.validation.measuring.calibrate.knobs import CANDIDATES, FURTHER, candidates, knob
from rpsim.validation.measuring.calibrate.runner import Base, Runner
from rpsim.validation.measuring.conditions import Conditions, Measurement
from rpsim.validation.measuring.documents import merged
from rpsim.validation.measuring.reading import read_measurements
from rpsim.validation.published.curves.curves import load_curves

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
BASE = Base("optane-adr")
PLATFORM = load_platform("optane-adr")
GROUPS = [("nic.tx_processing",), ("nic.rx_processing",), *CANDIDATES[1:]]
"""All that latencies and rates of these points determine."""


def one(verb: str, size: int, **given) -> Conditions:
    return Conditions("made", verb, size_bytes=size, **given)


POINTS = [
    *(one("WRITE", size) for size in (8, 64, 128, 512, 2048, 8192)),
    *(one("WRITE", size, method="half_round_trip") for size in (8, 64, 128, 512, 2048)),
    *(one("READ", size) for size in (8, 512, 2048)),
    *(one("SEND", size, method="half_round_trip") for size in (8, 64, 512, 2048)),
    one("CAS", 8),
    one("WRITE", 64, depth=32),
    one("WRITE", 4096, depth=32),
]


def made(texts: dict[str, str], base: Base = BASE, points: list[Conditions] = POINTS) -> list[Measurement]:
    """The measurements of a platform with these parameters."""
    with Runner(base) as runner:
        (row,) = runner.numbers(points, [texts])
    return [
        Measurement(about, {"p50": ps / 1000}) if about.depth == 1 else Measurement(about, operations_per_s=1e12 / ps)
        for about, ps in zip(points, row, strict=True)
    ]


def recovers(base: Base, slower: list[float]) -> None:
    knobs = [knob(base.platform(), group) for group in GROUPS]
    texts = {path: text for one, x in zip(knobs, slower, strict=True) for path, text in one.texts(x).items()}
    with Runner(base) as runner:
        found = fits.calibrate(made(texts, base), runner, knobs=knobs)
    assert [one.slower for one in found.fitted] == pytest.approx(slower, rel=0.02)
    assert fits.rms(found.of(True)) < 0.01


slowness = st.lists(st.floats(0.6, 1.7), min_size=len(GROUPS), max_size=len(GROUPS))


@pytest.mark.long
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(slowness)
def test_a_known_profile_is_recovered_within_two_percent(slower):
    recovers(BASE, slower)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(st.sampled_from(["optane-adr", "connectx3-perftest", "optane-adr-roce"]), slowness)
def test_known_profiles_of_other_platforms_are_recovered(name, slower):
    recovers(Base(name), slower)


@pytest.mark.long
def test_noise_stays_within_the_confidence_intervals():
    texts = {"nic.post_wqe": "260 ns", "pcie.dma_read": "450 ns"}
    rng = np.random.Generator(np.random.PCG64(7))
    noisy = [
        replace(one, latency_ns={key: value * rng.normal(1, 0.005) for key, value in one.latency_ns.items()})
        for one in made(texts)
    ]
    knobs = [knob(PLATFORM, [path]) for path in texts]
    with Runner(BASE) as runner:
        found = fits.calibrate(noisy, runner, knobs=knobs)
    truth = [260 / 200, 450 / 550]
    for fitted, x in zip(found.fitted, truth, strict=True):
        assert abs(fitted.slower - x) <= 2 * fitted.certainty.error < 0.2


@pytest.mark.long
def test_two_that_show_in_sum_only_are_said_to():
    latencies = [about for about in POINTS if about.depth == 1 and about.verb in ("WRITE", "SEND")]
    knobs = [knob(PLATFORM, [path]) for path in ("nic.tx_processing", "nic.rx_processing", "pcie.dma_read")]
    with Runner(BASE) as runner:
        found = fits.calibrate(made({"nic.tx_processing": "210 ns"}, points=latencies), runner, knobs=knobs)
    assert found.together == (("nic.tx_processing", "nic.rx_processing"),)
    assert [one.interval() is None for one in found.fitted] == [True, True, False]
    way = sum(one.knob.values(one.slower)[one.knob.paths[0]] for one in found.fitted[:2])
    assert way == pytest.approx(360_000, rel=0.01)


@pytest.mark.long
def test_what_no_measurement_moves_is_not_fitted():
    writes = [about for about in POINTS if about.verb == "WRITE" and about.depth == 1]
    with Runner(BASE) as runner:
        found = fits.calibrate(made({"nic.tx_processing": "250 ns"}, points=writes), runner)
    left = dict(found.left)
    assert left["nic.recv_processing"] == left["nic.atomic_occupancy"] == "no measurement moves with it"
    assert fits.rms(found.of(True)) < 0.25 * fits.rms(found.of(True), after=False)


@pytest.mark.long
def test_one_mad_measurement_does_not_bend_the_others():
    truth = {"pcie.dma_read": "450 ns"}
    spoilt = [
        replace(one, latency_ns={"p50": one.typical_ns * 2}) if one.conditions.verb == "CAS" else one
        for one in made(truth)
    ]
    knobs = [knob(PLATFORM, [path]) for path in ("pcie.dma_read", "nic.post_wqe")]
    with Runner(BASE) as runner:
        found = fits.calibrate(spoilt, runner, knobs=knobs)
    assert [one.slower for one in found.fitted] == pytest.approx([450 / 550, 1], rel=0.03)


def test_held_out_are_inner_points_of_different_sizes():
    sizes = [8, 16, 32, 64, 128, 256, 512, 1024]
    rows = [Measurement(one(verb, size), {"p50": 1.0}) for verb in ("WRITE", "READ") for size in sizes]
    out = fits.held_out(rows, 0.25)
    assert [row.conditions.size_bytes for row, held in zip(rows, out, strict=True) if held] == [16, 256, 32, 512]
    assert not any(fits.held_out(rows, 0)) and not any(fits.held_out(rows[:2], 0.25))


@pytest.mark.slow  # tests/words/test_docs_calibration.py runs the same fits
@pytest.mark.parametrize(
    ("name", "base", "largest"),
    [("perftest-connectx3.txt", "connectx5-lab", 2048), ("connectx4-send.json", "connectx4-lab", 65536)],
)
def test_published_curves_are_foretold_better_after_the_fit(name, base, largest):
    measurements = merged([read_measurements(EXAMPLES / name)])
    with Runner(Base(base)) as runner:
        found = fits.calibrate(measurements, runner, largest_bytes=largest)
    assert found.of(True) and fits.rms(found.of(True)) < 0.7 * fits.rms(found.of(True), after=False)
    assert fits.rms(found.of(False)) < 0.4 * fits.rms(found.of(False), after=False)


def test_the_shipped_measurements_are_the_published_curves():
    shipped = merged([read_measurements(EXAMPLES / "connectx4-send.json")])
    found = {(m.conditions.id, m.conditions.size_bytes): m.typical_ns / 1000 for m in shipped}
    curves = [curve for curve in load_curves("nic") if curve.id.startswith("cx4-send")]
    assert found == {(curve.id, x): value for curve in curves for x, value in curve.points.items()}
    log = merged([read_measurements(EXAMPLES / "perftest-connectx3.txt")])
    times = {(m.conditions.verb, m.conditions.size_bytes): m.typical_ns / 1000 for m in log}
    for curve in load_curves("nic"):
        verb = {"cx3-write": "WRITE", "cx3-send": "SEND", "cx3-send-64": "SEND", "cx3-read": "READ"}.get(curve.id)
        for x, value in curve.points.items() if verb else ():
            assert times[verb, x] == value


def test_too_few_measurements_are_refused():
    with Runner(BASE) as runner, pytest.raises(InputError, match="2 measurements to fit to"):
        fits.calibrate(made({}, points=POINTS[:2]), runner)


# the parts ----------------------------------------------------------------------------------------------------


def test_the_solver_finds_a_minimum_in_a_corner_and_one_along_a_valley():
    target = np.array([1.0, 2.0, 3.0])

    def residuals(places):
        return [np.array([x[0] - 5, x[0] + x[1] - 3, 0.1 * (x[2] - 1)]) for x in places]

    low, high, step = np.zeros(3), np.array([2.0, 9.0, 9.0]), np.full(3, 0.01)
    found = solver.least_squares(residuals, target, low, high, step)
    assert found.x == pytest.approx([2, 1, 1], abs=1e-6)

    def valley(places):
        return [np.array([x[0] + x[1] - 5, 2 * (x[0] + x[1]) - 10, x[2] - 2]) for x in places]

    found = solver.least_squares(valley, target, low, np.full(3, 9.0), step)
    assert found.x == pytest.approx([2, 3, 2], abs=1e-6)  # both moved alike: the shortest step
    with pytest.raises(ValueError, match="bounds"):
        solver.least_squares(residuals, target, high, low, step)


@pytest.mark.parametrize(("free", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (30, 2.042)])
def test_student_s_quantiles(free, quantile):
    assert identify.student(free) == pytest.approx(quantile, rel=0.005)


def test_every_candidate_is_a_parameter_of_some_platform():
    assert len(candidates(PLATFORM, CANDIDATES)) == len(CANDIDATES)
    assert len(candidates(PLATFORM, FURTHER)) == len(FURTHER)
    with pytest.raises(InputError, match=r"did you mean 'nic.post_wqe'"):
        knob(PLATFORM, ["nic.post_wqee"])
    with pytest.raises(InputError, match="as a time or a rate"):
        knob(PLATFORM, ["nic.mtu"])
