"""The knobs of a calibration: times and rates of a platform, alone or several scaled together.

The unknown of a knob is how much slower it makes the platform: times are multiplied by it, rates divided. So 1 is the
platform as it stands, and latencies are linear in all unknowns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....models.profiles.platform import Platform
from ....models.profiles.vary import value_of
from ....sim.errors import InputError, Mistake, nearest
from ....sim.units import format_duration, format_rate, parse_duration_ps, parse_rate

CANDIDATES = (
    ("nic.tx_processing", "nic.rx_processing"),
    ("nic.ack_generation", "nic.ack_processing"),
    ("nic.recv_processing",),
    ("nic.post_wqe",),
    ("nic.post_line",),
    ("pcie.dma_read",),
    ("fabric.link",),
)
"""The first candidates of a calibration, unless ``--fit`` names others. Two are scaled together: the two ways through
an adapter, which only READs and atomics separate, by little; and the two halves of an acknowledgement, which nothing
separates.
"""
FURTHER = (
    ("nic.doorbell",),
    ("nic.poll",),
    ("nic.post_next_wqe",),
    ("nic.tx_occupancy",),
    ("nic.rx_occupancy",),
    ("nic.rx_read_occupancy",),
    ("nic.rx_packet_occupancy",),
    ("nic.atomic_occupancy",),
    ("pcie.posted_write",),
    ("pcie.tlp",),
    ("fabric.switch",),
)
"""The next candidates, taken where the measurements separate them from the first."""
SLOWEST = 20.0
"""The bounds of a fit: times up to 20 times the platform's and down to a twentieth; rates likewise."""
DIGITS = 4
"""Significant digits of a fitted value."""


def kind(platform: Platform, path: str) -> str | None:
    """``time`` or ``rate``; None for a parameter that is neither, or not there."""
    found = value_of(platform, path)
    if found is None or isinstance(found[1], bool) or not isinstance(found[1], int):
        return None
    if found[0].endswith("_ps"):
        return "time"
    return "rate" if found[0].endswith("_bits_per_s") else None


@dataclass(frozen=True)
class Knob:
    """Parameters that are scaled together; most often one."""

    paths: tuple[str, ...]
    base: tuple[int, ...]
    """The platform's own values: picoseconds, or bits a second."""
    kinds: tuple[str, ...]
    low: float = 1 / SLOWEST
    high: float = SLOWEST

    @property
    def name(self) -> str:
        """The paths with plus signs: ``nic.tx_processing + nic.rx_processing``."""
        return " + ".join(self.paths)

    def values(self, slower: float) -> dict[str, int]:
        """The parameters at this unknown."""
        pairs = zip(self.paths, self.base, self.kinds, strict=True)
        return {path: max(1, round(base * slower if what == "time" else base / slower)) for path, base, what in pairs}

    def texts(self, slower: float) -> dict[str, str]:
        """The values as profiles have them, exactly."""
        units = dict(zip(self.paths, self.kinds, strict=True))
        return {
            path: f"{value} ps" if units[path] == "time" else f"{value} b/s"
            for path, value in self.values(slower).items()
        }

    def rounded(self, slower: float) -> dict[str, str]:
        """The values as people read them, and as a fitted profile states them."""
        units = dict(zip(self.paths, self.kinds, strict=True))
        return {path: show(value, units[path]) for path, value in self.values(slower).items()}

    def together(self, slower: float) -> str:
        """The sum of times that show in sum; one parameter as it is."""
        values = list(self.values(slower).values())
        return show(sum(values) if self.kinds[0] == "time" else values[0], self.kinds[0])


def show(value: int, what: str) -> str:
    """A time or a rate to DIGITS significant digits."""
    digits = len(str(value)) - DIGITS
    short = round(value, -digits) if digits > 0 else value
    return format_duration(short) if what == "time" else format_rate(short)


def knob(platform: Platform, paths: Sequence[str], bounds: tuple[str, str] | None = None) -> Knob:
    """A knob for these parameters, with bounds in the words of a profile. Raises InputError for what cannot be one."""
    base, kinds = [], []
    for path in paths:
        what = kind(platform, path)
        if what is None:
            known = [one for paths in (*CANDIDATES, *FURTHER) for one in paths if kind(platform, one)]
            found = f"'{path}', which {platform.name} does not have as a time or a rate"
            raise InputError(
                Mistake(found, f"one such as {', '.join(known[:4])}", field="--fit", nearest=nearest(path, known))
            )
        found_value = value_of(platform, path)
        assert found_value is not None
        if found_value[1] <= 0:
            expected = f"one that is not 0 in {platform.name}: what is scaled stays 0"
            raise InputError(Mistake(f"'{path}'", expected, field="--fit"))
        base.append(int(found_value[1]))
        kinds.append(what)
    low, high = (1 / SLOWEST, SLOWEST) if bounds is None else _bounds(paths[0], base[0], kinds[0], bounds)
    return Knob(tuple(paths), tuple(base), tuple(kinds), low, high)


def _bounds(path: str, base: int, what: str, texts: tuple[str, str]) -> tuple[float, float]:
    parse = parse_duration_ps if what == "time" else parse_rate
    try:
        low, high = (parse(text) for text in texts)
    except ValueError as error:
        raise InputError(
            Mistake(f"bounds of {path}: {error}", "LOW..HIGH, as in 50ns..200ns", field="--bounds")
        ) from None
    if not 0 < low < high:
        raise InputError(
            Mistake(f"'{texts[0]}..{texts[1]}' for {path}", "LOW..HIGH, LOW above 0 and below HIGH", field="--bounds")
        )
    return (low / base, high / base) if what == "time" else (base / high, base / low)


def candidates(platform: Platform, of: Sequence[tuple[str, ...]]) -> list[Knob]:
    """A knob for each of them that the platform has, and not as 0."""
    return [knob(platform, paths) for paths in of if all(_turns(platform, path) for path in paths)]


def _turns(platform: Platform, path: str) -> bool:
    found = value_of(platform, path)
    return kind(platform, path) is not None and found is not None and found[1] > 0
