import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.sim.statistics import (
    mean_and_half_width_ps,
    percentile_ps,
    summarise,
    throughput_over_time,
)
from rpsim.sim.streams import Streams


def test_percentiles_are_values_that_occurred():
    latency = np.arange(1, 1001, dtype=np.int64) * 7
    assert [percentile_ps(latency, p) for p in (0, 50, 99, 99.9, 100)] == [7, 3_500, 6_930, 6_993, 7_000]
    assert percentile_ps(np.array([3]), 99.9) == 3


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=200), st.integers(1, 1000))
def test_a_percentile_is_the_smallest_value_that_enough_others_do_not_exceed(values, permille):
    found = percentile_ps(np.array(values, dtype=np.int64), permille / 10)
    needed = permille * len(values)
    assert found in values
    assert 1000 * sum(value <= found for value in values) >= needed
    assert 1000 * sum(value < found for value in values) < needed


def test_a_summary_of_large_times_does_not_overflow():
    summary = summarise(np.full(10, 2**61, dtype=np.int64))
    assert (summary.count, summary.mean_ps, summary.p999_ps, summary.max_ps) == (10, float(2**61), 2**61, 2**61)


def test_nothing_has_no_percentile_and_no_mean():
    with pytest.raises(ValueError, match="no operation"):
        summarise(np.array([], dtype=np.int64))


def test_throughput_counts_a_bucket_by_its_true_width():
    completed = [0, 10, 999_999, 1_000_000, 1_400_000]
    begins, per_s = throughput_over_time(completed, 1_000_000, end_ps=1_500_000)
    assert begins.tolist() == [0, 1_000_000]
    assert per_s.tolist() == [3e6, 4e6]


def test_throughput_without_an_end_covers_every_completion():
    begins, per_s = throughput_over_time([5, 25], 10, start_ps=5)
    assert (begins.tolist(), (per_s / 1e11).tolist()) == ([5, 15, 25], [1, 0, 1])
    assert [part.tolist() for part in throughput_over_time([], 10)] == [[], []]


def test_batch_means_cover_the_true_mean_about_as_often_as_they_say():
    draw = Streams(5).stream("noise")
    hits = 0
    for _ in range(200):
        mean, half_width = mean_and_half_width_ps(draw.exponential(1e6, 2_000).astype(np.int64))
        hits += abs(mean - 1e6) <= half_width
    assert 180 <= hits <= 198


def test_batch_means_need_a_value_a_batch():
    with pytest.raises(ValueError, match="at least 20"):
        mean_and_half_width_ps(np.arange(19))
