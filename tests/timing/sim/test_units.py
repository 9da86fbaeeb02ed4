from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.sim.units import (
    format_bytes,
    format_duration,
    format_rate,
    format_us,
    ns,
    parse_bytes,
    parse_duration_ps,
    parse_rate,
    us,
)


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("62.3 ns", 62_300),
        ("1.2us", 1_200_000),
        ("1.2 µs", 1_200_000),
        ("0 ps", 0),
        ("3 ms", 3_000_000_000),
        ("1 s", 10**12),
        (".5 ns", 500),
        ("1e3 ns", 1_000_000),
        ("1_000 ps", 1_000),
        ("0.4999 ps", 0),
        ("0.5 ps", 1),
        ("1.5 ps", 2),
        ("2.5 ps", 3),
    ],
)
def test_a_duration_is_read_exactly_or_rounded_half_up(text, ps):
    assert parse_duration_ps(text) == ps


@pytest.mark.parametrize(
    "text", ["3 parsecs", "3", "ns", "", "1,2 us", "nan ns", "inf s", "-1 ns", "1 NS", "1 2 ns", "0x10 ns", "\u0661 ns"]
)
def test_what_is_no_duration_is_told_how_to_write_one(text):
    with pytest.raises(ValueError, match=r"is not a duration: "):
        parse_duration_ps(text)


@pytest.mark.parametrize("text", ["86401 s", "1e400 ns"])
def test_a_duration_beyond_what_a_run_may_last_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a duration: at most a day \(86400 s\)"):
        parse_duration_ps(text)
    assert parse_duration_ps("86400 s") == 86_400 * 10**12


def test_the_message_for_a_wrong_duration_says_all_that_one_needs():
    with pytest.raises(ValueError) as caught:
        parse_duration_ps("3 parsecs")
    assert str(caught.value) == (
        "'3 parsecs' is not a duration: write a number and one of ps, ns, us, ms, s, e.g. '1.2 us'"
    )


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("256 B", 256),
        ("4 KiB", 4096),
        ("33 MiB", 34_603_008),
        ("1.5 MB", 1_500_000),
        ("4 KB", 4000),
        ("4 kB", 4000),
        ("0.5 KiB", 512),
        ("256 GB", 256 * 10**9),
        ("1 TiB", 2**40),
        ("0 B", 0),
    ],
)
def test_a_size_is_binary_with_an_i_and_decimal_without(text, n_bytes):
    assert parse_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["1.5 B", "0.3 KiB", "-4 KiB", "4 K", "4 kib", "four KiB", "4 Kb"])
def test_a_size_is_a_whole_number_of_bytes(text):
    with pytest.raises(ValueError, match="is not a size: "):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "bits_per_s"),
    [("100 Gb/s", 100 * 10**9), ("6.5 GB/s", 52 * 10**9), ("113.7 Gb/s", 113_700_000_000), ("1 GiB/s", 8 * 2**30)],
)
def test_a_rate_is_in_bits_by_a_small_b_and_in_bytes_by_a_large_one(text, bits_per_s):
    assert parse_rate(text) == bits_per_s


@pytest.mark.parametrize("text", ["100 Gbps", "0 Gb/s", "-1 Gb/s", "100 Gb", "fast"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ValueError, match="is not a rate: "):
        parse_rate(text)


def test_a_float_means_what_is_written_and_not_its_binary_neighbour():
    assert ns(62.3) == 62_300
    assert us(1.0000005) == 1_000_001  # half up, though the float is a little below
    assert ns(Decimal("0.0005")) == 1
    assert (ns(7), us(7)) == (7_000, 7_000_000)


def test_times_are_printed_without_a_float():
    assert format_us(2_010_000) == "2.010"
    assert format_us(499) == "0.000"
    assert format_us(500) == "0.001"
    assert format_us(2**62 + 1) == "4611686018427.388"
    assert [format_duration(ps) for ps in (0, 999, 62_300, 1_200_000, 640_000_000, 3 * 10**12)] == [
        "0 ps",
        "999 ps",
        "62.3 ns",
        "1.2 us",
        "640 us",
        "3 s",
    ]


def test_sizes_and_rates_are_printed_in_the_unit_that_fits():
    assert [format_bytes(n) for n in (0, 100, 4096, 34_603_008, 1_500_000)] == [
        "0 B",
        "100 B",
        "4 KiB",
        "33 MiB",
        "1500000 B",
    ]
    assert format_rate(113_700_000_000) == "113.7 Gb/s"


@given(st.integers(0, 86_400 * 10**12))
def test_a_duration_survives_being_written_in_picoseconds(ps):
    assert parse_duration_ps(f"{ps} ps") == ps


@given(st.integers(0, 10**6), st.integers(0, 999))
def test_three_decimals_of_a_nanosecond_are_exact(whole, thousandths):
    assert parse_duration_ps(f"{whole}.{thousandths:03d} ns") == whole * 1000 + thousandths


@given(st.integers(0, 10**15))
def test_a_printed_size_reads_back(n_bytes):
    assert parse_bytes(format_bytes(n_bytes)) == n_bytes
