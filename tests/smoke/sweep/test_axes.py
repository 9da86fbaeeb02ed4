"""The values of `--over`: lists, ranges, units, and what is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.scenarios.sweep.axes import magnitude, parse_axes, parse_axis
from rpsim.scenarios.sweep.groups import grouped, records
from rpsim.sim.errors import InputError
from rpsim.sim.intervals import interval


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("50,100", (50, 100)),
        ("50..400*2", (50, 100, 200, 400)),
        ("50..399*2", (50, 100, 200)),
        ("1..10+3", (1, 4, 7, 10)),
        ("0.1..0.5+0.1", (0.1, 0.2, 0.3, 0.4, 0.5)),
        ("-2..2+2", (-2, 0, 2)),
        ("1e-4..1e-1*10", (0.0001, 0.001, 0.01, 0.1)),
        ("64 B..256 B*2", ("64 B", "128 B", "256 B")),
        ("64 B..2 KiB*2", ("64 B", "128 B", "256 B", "512 B", "1 KiB", "2 KiB")),
        ("1 us..2us+500 ns", ("1 us", "1.5 us", "2 us")),
        ("1,2,4..64*4", (1, 2, 4, 16, 64)),
        ("on, off", ("on", "off")),
        ("saw,efactory[batch=4, client-crc=true]", ("saw", "efactory[batch=4, client-crc=true]")),
        ("[saw],[saw, erda]", (["saw"], ["saw", "erda"])),
        ("../a.yaml,'b,c'", ("../a.yaml", "b,c")),
        ("{loss: 0.1, delay: 1 us},{}", ({"loss": 0.1, "delay": "1 us"}, {})),
        ("7", (7,)),
    ],
)
def test_values(text, values):
    axis = parse_axis(f"workload.keys={text}")
    assert (axis.field, axis.values) == ("workload.keys", values)
    assert [type(value) for value in axis.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", "--over: found 'a', expected a field and its values"),
        ("=1", "--over: found '=1'"),
        ("a=", "--over a: found '', expected a value between commas"),
        ("a=1,,2", "--over a: found '1,,2'"),
        ("a=5..1*2", "--over a: found the empty range '5..1*2'"),
        ("a=5 KiB..1 MB+1 us", "--over a: found '5 KiB..1 MB+1 us', expected one kind of unit"),
        ("a=1..5", "--over a: found '1..5', expected a range with its step"),
        ("a=1..5x2", "--over a: found '1..5x2', expected"),
        ("a=0..5*2", "--over a: found '0..5*2', which never ends"),
        ("a=1..5*1", "--over a: found '1..5*1', which never ends"),
        ("a=1..5+0", "--over a: found '1..5+0', which never ends"),
        ("a=1 B..4 B*2 B", "expected a factor without a unit"),
        ("a=1,1", "--over a: found 1 twice"),
        ("a=1..1000000+1", "--over a: found more than 10,000 values"),
        ("a=[1", "--over a: found a YAML syntax error"),
        ("seed=1,2", "--over seed: found the seed, expected --seeds N"),
    ],
)
def test_what_is_refused(text, found):
    with pytest.raises(InputError) as raised:
        parse_axis(text)
    (mistake,) = raised.value.mistakes
    assert found in str(mistake)


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(InputError) as raised:
        parse_axes(["a=1..", "b=2", "b=3", "c=9..1*2"])
    assert [mistake.field for mistake in raised.value.mistakes] == ["--over a", "--over b", "--over c"]


@given(st.integers(-1000, 1000), st.integers(0, 50), st.integers(1, 100), st.sampled_from(["", ".5"]))
def test_a_range_by_steps_has_what_a_loop_would_have(first, count, step, part):
    last = first + count * step
    axis = parse_axis(f"a={first}{part}..{last}{part}+{step}")
    expected = [Decimal(f"{first}{part}") + n * step for n in range(count + 1)]
    reached = Decimal(f"{last}{part}")
    assert list(axis.values) == [float(value) if part else int(value) for value in expected if value <= reached]


@given(st.integers(1, 64), st.integers(2, 10), st.integers(0, 6))
def test_a_range_by_factors_ends_at_its_last_value(first, factor, count):
    values = parse_axis(f"a={first} B..{first * factor**count} B*{factor}").values
    assert values == tuple(f"{first * factor**n} B" for n in range(count + 1))


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (5, (5, "")),
        ("4 KiB", (4096, "bytes")),
        ("500 ns", (0.5, "us")),
        ("1 Gb/s", (1, "Gb/s")),
        ("saw", None),
        (True, None),
    ],
)
def test_a_value_on_a_scale(value, place):
    assert magnitude(value) == place


def test_an_interval_is_student_s():
    """2, 4, 6: mean 4, standard error 2 / sqrt(3), and t of two degrees of freedom is 4.303 (any table)."""
    found = interval([2, 4, 6])
    assert (found.mean, found.samples) == (4, 3)
    assert found.half_width == pytest.approx(4.3027 * 2 / 3**0.5, rel=1e-4)
    assert interval([5]).half_width is None


def row(seed, rate, verdict="holds", states=4):
    crash = {
        "verdicts": {"durable": verdict},
        "violating_states": {"durable": int(verdict != "holds")},
        "states": states,
    }
    answer = {"operations": 9, "throughput_ops_per_s": rate, "latency_ns": {"put": {"p50": 2.0}}, "crash": crash}
    return {"job": "", "over": {"k": 1}, "scheme": "s", "platform": "p", "seed": seed, "answer": answer}


def test_a_group_has_means_over_seeds_and_the_worst_verdict():
    (group,) = grouped([row(1, 10.0), row(2, 20.0, "violated"), row(3, 30.0, "undecided")])
    assert group.figures()["throughput_ops_per_s"].mean == 20
    assert group.figures()["durable_violating_share"].mean == pytest.approx(2 / 12)
    assert group.worst() == {"durable": "violated"}
    assert group.verdicts()["durable"] == {"holds": 1, "violated": 1, "undecided": 1}
    assert len(grouped([row(1, 1.0), {**row(1, 1.0), "scheme": "t"}])) == 2


def test_a_record_is_flat():
    (one,) = records([row(1, 10.0)])
    assert one == {
        "k": 1, "scheme": "s", "platform": "p", "seed": 1, "operations": 9, "throughput_ops_per_s": 10.0,
        "put_p50_ns": 2.0, "crash_states": 4.0, "durable_violating_share": 0.0, "durable": "holds",
    }  # fmt: skip
