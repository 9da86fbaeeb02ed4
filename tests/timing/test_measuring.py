"""Measurements made on the models: the instants of the curves' experiments, closed forms, and what cannot be."""

from __future__ import annotations

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.validation.measuring.conditions import VERBS, Conditions, Measurement, legal, series_names
from rpsim.validation.measuring.simulated import Unmeasurable, histogram, measure, per_operation_ps, statistics
from rpsim.validation.published.experiments.verbs import read_completion, send_one_way, write_completion, write_one_way

PLATFORM = load_platform("optane-adr")


def few(verb: str, **given) -> Conditions:
    return Conditions("test", verb, iterations=given.pop("iterations", 8), warmup=given.pop("warmup", 4), **given)


@pytest.mark.parametrize(
    ("experiment", "verb", "method"),
    [
        (write_one_way, "WRITE", "half_round_trip"),
        (write_completion, "WRITE", "completion"),
        (read_completion, "READ", "completion"),
        (send_one_way, "SEND", "half_round_trip"),
    ],
)
@pytest.mark.parametrize("size", [2, 64, 220, 2048])
def test_a_latency_is_that_of_the_curves_experiment(experiment, verb, method, size):
    asked = few(verb, size_bytes=size, method=method)
    assert per_operation_ps(PLATFORM, asked) == experiment(PLATFORM, size)
    assert measure(PLATFORM, asked).typical_ns == pytest.approx(experiment(PLATFORM, size) / 1000, abs=1e-3)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_has_a_latency_and_the_quick_number_is_the_same(verb):
    flush = {"placement": "global", "level": "range"} if verb.endswith("FLUSH") else {}
    one = measure(PLATFORM, few(verb, **flush))
    assert one.latency_ns["min"] <= one.latency_ns["p50"] <= one.latency_ns["p999"] <= one.latency_ns["max"]
    assert sum(count for _, count in one.histogram) == 8
    assert per_operation_ps(PLATFORM, one.conditions) / 1000 == pytest.approx(one.typical_ns, abs=1e-3)


def test_one_after_the_other_makes_a_rate_of_one_over_the_latency():
    one = measure(PLATFORM, few("READ", size_bytes=64))
    assert one.operations_per_s * one.latency_ns["mean"] == pytest.approx(1e9, rel=1e-3)
    half = measure(PLATFORM, few("WRITE", method="half_round_trip"))
    assert half.operations_per_s * 2 * half.latency_ns["mean"] == pytest.approx(1e9, rel=1e-3)


@pytest.mark.parametrize("verb", ["WRITE", "READ", "SEND"])
@pytest.mark.parametrize(("size", "qps"), [(64, 4), (4096, 1)])
def test_a_short_window_has_the_rate_of_a_long_one(verb, size, qps):
    asked = few(verb, size_bytes=size, depth=32 if size < 4096 else 8, qps=qps, iterations=64, warmup=128)
    long = measure(PLATFORM, asked)
    assert per_operation_ps(PLATFORM, asked) * long.operations_per_s == pytest.approx(1e12, rel=0.02)


def test_more_under_way_is_never_slower():
    rates = [measure(PLATFORM, few("WRITE", size_bytes=64, depth=depth, iterations=64)).rate for depth in (1, 2, 4, 16)]
    assert rates == sorted(rates) and rates[1] > 1.5 * rates[0]


def test_a_read_behind_a_write_costs_more_than_either_and_less_than_both():
    write, read, both = (per_operation_ps(PLATFORM, few(v, size_bytes=64)) for v in ("WRITE", "READ", "WRITE+READ"))
    assert max(write, read) < both < write + read


def test_moderated_completions_count_all_operations():
    plain = per_operation_ps(PLATFORM, few("WRITE", size_bytes=4096, depth=64))
    assert per_operation_ps(PLATFORM, few("WRITE", size_bytes=4096, depth=64, signal_every=16)) == pytest.approx(
        plain, rel=0.05
    )


def test_many_queue_pairs_and_random_pages_do_not_fit_the_adapter():
    known = per_operation_ps(PLATFORM, few("READ", size_bytes=64))
    small = load_platform("optane-adr")
    assert per_operation_ps(small, few("READ", size_bytes=64, access="random", region_bytes=1 << 20)) == known


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"verb": "WRITE", "memory": "dmabuf"}, "no memory beside the adapter"),
        ({"verb": "WRITE", "size_bytes": 4096, "inline": True}, "4096 B inline"),
        ({"verb": "SEND", "transport": "ud", "size_bytes": 8192}, "a datagram of 8192 B"),
        ({"verb": "WRITE+FLUSH", "placement": "persistent", "level": "range"}, "loses all with the power"),
        ({"verb": "READ", "method": "half_round_trip"}, "cannot be answered in kind"),
    ],
)
def test_what_the_platform_cannot_do_is_skipped_with_the_reason(given, told):
    asked = few(**given)
    assert told in measure(PLATFORM, asked).skipped
    with pytest.raises(Unmeasurable, match=told.replace("+", r"\+")):
        per_operation_ps(PLATFORM, asked)


def test_a_region_that_a_device_has_no_room_for_is_skipped():
    peers = load_platform("pmr")
    assert "no room for a region of 16 MiB" in measure(peers, few("WRITE", memory="dmabuf")).skipped
    assert measure(peers, few("WRITE", memory="dmabuf", region_bytes=1 << 20)).typical_ns > 0


def test_transports_have_the_verbs_of_the_specification():
    assert [verb for verb in VERBS if legal(verb, "ud")] == ["SEND"]
    assert [verb for verb in VERBS if legal(verb, "uc")] == ["WRITE", "WRITE_WITH_IMM", "SEND"]
    assert all(legal(verb, "rc") for verb in VERBS)


def test_statistics_and_bins():
    assert statistics([3000, 1000, 2000, 4000]) == {
        "min": 1, "mean": 2.5, "p50": 2, "p90": 4, "p99": 4, "p999": 4, "max": 4,
    }  # fmt: skip
    assert histogram([999, 1000, 63_999, 64_000, 65_999, 127_999, 128_000]) == (
        (1.0, 1), (2.0, 1), (64.0, 1), (66.0, 2), (128.0, 1), (132.0, 1),
    )  # fmt: skip


def test_series_say_only_what_tells_them_apart():
    points = [few("WRITE", size_bytes=8, inline=True), few("WRITE", size_bytes=4096, inline=False)]
    assert series_names(points) == ["WRITE", "WRITE"]
    twice = [*points, few("WRITE", size_bytes=8, inline=False)]
    assert series_names(twice) == ["WRITE inline", "WRITE not inline", "WRITE not inline"]
    mtus = [few("SEND", mtu_bytes=mtu) for mtu in (256, 512)]
    assert series_names(mtus) == ["SEND MTU 256", "SEND MTU 512"]


def test_what_is_compared_is_a_latency_at_depth_one_and_else_a_rate():
    assert Measurement(few("READ"), {"mean": 7.0, "p50": 5.0}, operations_per_s=1e6).per_operation_ns == 5.0
    assert Measurement(few("READ"), {"mean": 7.0}).per_operation_ns == 7.0
    assert Measurement(few("READ", depth=2), {"p50": 5.0}, operations_per_s=1e6).per_operation_ns == 1000.0
    assert Measurement(few("READ", depth=2, size_bytes=4), bytes_per_s=4e6).per_operation_ns == 1000.0
    assert Measurement(few("READ", depth=2), {"p50": 5.0}).per_operation_ns is None
