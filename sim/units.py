"""Units: text to integers and back. Time is picoseconds, sizes are bytes, rates are bits per second.

Everything inside rpsim is an integer; text such as ``"62.3 ns"`` or ``"4 KiB"`` exists only at the edges. All
arithmetic here is decimal or integer, never binary floating point, so the same text gives the same integer on
every machine. A fraction of a picosecond is rounded half up.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

PS_PER_NS = 1_000
PS_PER_US = 1_000_000
PS_PER_MS = 1_000_000_000
PS_PER_S = 1_000_000_000_000
LONGEST = "at most a day (86400 s)"
"""Of one duration: a run's instants are 64-bit numbers of picoseconds, which end after some months."""

_DURATIONS = {
    "ps": 1,
    "ns": PS_PER_NS,
    "us": PS_PER_US,
    "µs": PS_PER_US,  # U+00B5, the micro sign of most keyboards
    "μs": PS_PER_US,  # U+03BC, the Greek letter, is what other programs print
    "ms": PS_PER_MS,
    "s": PS_PER_S,
}
_BYTES = {"B": 1}
_BYTES |= {f"{prefix}B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)} | {"KB": 1000}
_BYTES |= {f"{prefix}iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)}
_BITS = {"b": 1} | {f"{prefix}b": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)} | {"Kb": 1000}
_RATES = {f"{unit}/s": factor for unit, factor in _BITS.items()} | {
    f"{unit}/s": 8 * factor for unit, factor in _BYTES.items()
}

_QUANTITY = re.compile(r"\s*([+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(\S*)\s*", re.ASCII)

Number = int | float | Decimal


class TooLongError(ValueError):
    """A duration beyond LONGEST."""


def _half_up(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_HALF_UP))


def _decimal(value: Number) -> Decimal:
    """The number as it is written: 62.3 is 62.3, not the binary fraction nearest to it."""
    return Decimal(str(value)) if isinstance(value, float) else Decimal(value)


def ns(value: Number) -> int:
    """The picoseconds of a number of nanoseconds, rounded half up."""
    return value * PS_PER_NS if type(value) is int else _half_up(_decimal(value) * PS_PER_NS)


def us(value: Number) -> int:
    """The picoseconds of a number of microseconds, rounded half up."""
    return value * PS_PER_US if type(value) is int else _half_up(_decimal(value) * PS_PER_US)


def _parse(text: str, units: dict[str, int], kind: str, listed: str, example: str) -> Decimal:
    """``text`` in the smallest of ``units``; ValueError that says what to write instead."""
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[2] not in units:
        raise ValueError(f"'{text}' is not a {kind}: write a number and one of {listed}, e.g. '{example}'")
    try:
        value = Decimal(match[1].replace("_", "")) * units[match[2]]
    except InvalidOperation:
        raise ValueError(f"'{text}' is not a {kind}: the number is out of range") from None
    if value < 0:
        raise ValueError(f"'{text}' is not a {kind}: it is negative")
    return value


def parse_duration_ps(text: str) -> int:
    """``"62.3 ns"`` or ``"1.2us"`` as picoseconds, rounded half up to one.

    Raises ValueError for anything that is not a non-negative number and a unit of time, or is too long.
    """
    value = _parse(text, _DURATIONS, "duration", "ps, ns, us, ms, s", "1.2 us")
    if value > 86_400 * PS_PER_S:
        raise TooLongError(f"'{text}' is not a duration: {LONGEST}")
    return _half_up(value)


def parse_bytes(text: str) -> int:
    """``"256 B"``, ``"4 KiB"`` (1024) or ``"1.5 MB"`` (1000) as bytes. Raises ValueError, also for parts of a byte."""
    value = _parse(text, _BYTES, "size", "B, KiB, MiB, GiB, TiB, KB, MB, GB, TB", "4 KiB")
    if value != value.to_integral_value():
        raise ValueError(f"'{text}' is not a size: it is not a whole number of bytes")
    return int(value)


def parse_rate(text: str) -> int:
    """``"100 Gb/s"`` or ``"6.5 GB/s"`` as bits per second. Raises ValueError, also for a rate of zero."""
    value = _half_up(_parse(text, _RATES, "rate", "b/s, Kb/s, Mb/s, Gb/s, Tb/s, B/s, KB/s, MB/s, GB/s", "100 Gb/s"))
    if value == 0:
        raise ValueError(f"'{text}' is not a rate: one above 0, as in 100 Gb/s")
    return value


def parse_share(text: str) -> int:
    """``"10%"`` or ``"0.1"`` as parts per million. Raises ValueError, also for what is not between 0% and 100%."""
    try:
        value = Decimal(text.strip().removesuffix("%").strip()) * (10_000 if text.strip().endswith("%") else 1_000_000)
    except InvalidOperation:
        value = Decimal(-1)
    if value.is_nan() or not 0 <= value <= 1_000_000:
        raise ValueError(f"'{text}' is not a share: from 0% to 100%, as in 10%")
    return int(value)


def read_quantity(kind: str, text: str) -> int:
    """A ``time`` in ps, a ``size`` in bytes or a ``share`` in parts per million, from text with its unit.

    Raises ValueError for other text.
    """
    return {"time": parse_duration_ps, "size": parse_bytes, "share": parse_share}[kind](text)


def format_us(ps: int) -> str:
    """Picoseconds as microseconds with three decimals and no unit: 2_010_000 is ``"2.010"``."""
    return _fixed(ps, PS_PER_US, 3)


def format_duration(ps: int) -> str:
    """Picoseconds in the largest unit that leaves a whole part: ``"62.3 ns"``, ``"1.2 us"``; at most 3 decimals."""
    for unit, factor in (("s", PS_PER_S), ("ms", PS_PER_MS), ("us", PS_PER_US), ("ns", PS_PER_NS)):
        if abs(ps) >= factor:
            return f"{_trim(_fixed(ps, factor, 3))} {unit}"
    return f"{ps} ps"


def format_bytes(n_bytes: int) -> str:
    """Bytes in the largest binary unit that divides them, else plainly: ``"4 KiB"``, ``"100 B"``."""
    for power, prefix in ((4, "T"), (3, "G"), (2, "M"), (1, "K")):
        if n_bytes and n_bytes % 1024**power == 0:
            return f"{n_bytes // 1024**power} {prefix}iB"
    return f"{n_bytes} B"


def format_rate(bits_per_s: int) -> str:
    """Bits per second in the largest decimal unit that leaves a whole part; at most 3 decimals."""
    for unit, factor in (("Tb/s", 10**12), ("Gb/s", 10**9), ("Mb/s", 10**6), ("Kb/s", 10**3)):
        if bits_per_s >= factor:
            return f"{_trim(_fixed(bits_per_s, factor, 3))} {unit}"
    return f"{bits_per_s} b/s"


def _fixed(value: int, factor: int, decimals: int) -> str:
    """``value / factor`` with ``decimals`` digits after the point, rounded half up in magnitude, by integers only."""
    scale: int = 10**decimals
    scaled = (2 * abs(value) * scale + factor) // (2 * factor)
    sign = "-" if value < 0 and scaled else ""
    return f"{sign}{scaled // scale}.{scaled % scale:0{decimals}d}"


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".")


def numeral(number: float) -> str:
    """A bound as messages have it: ``1,000,000,000``, ``0.5``."""
    return f"{int(number):,}" if number == int(number) else f"{number:g}"
