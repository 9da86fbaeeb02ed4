"""The measures that a claim may name: what each is, in which unit, and the words that say of what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

KNEE = 0.95
"""A system is past its knee where it has this share of its largest throughput: a reading, papers draw no line."""


class Measure(NamedTuple):
    """A quantity of a run; ``words`` follow the scheme in a term's brackets, ``least`` of them have to be there."""

    text: str
    words: tuple[str, ...] = ()
    least: int = 0

    def form(self, name: str) -> str:
        """How a term of it is written."""
        return f"{name}[{', '.join(['scheme', *self.words, 'axis=value'])}]"


_OF_OPERATION = ("operation",)
MEASURES: Mapping[str, Measure] = {
    "thr": Measure("throughput, operations per second", _OF_OPERATION),
    "bw": Measure("values moved, bytes per second"),
    "time": Measure("from the end of the warm-up to the end of the run, us"),
    "lat": Measure("mean latency, us", _OF_OPERATION),
    "med": Measure("median latency, us", _OF_OPERATION),
    "min": Measure("shortest latency, us", _OF_OPERATION),
    "p90": Measure("latency that 90 % of the operations stay below, us", _OF_OPERATION),
    "p99": Measure("latency that 99 % of the operations stay below, us", _OF_OPERATION),
    "p999": Measure("latency that 99.9 % of the operations stay below, us", _OF_OPERATION),
    "part": Measure("time of an operation in one hop, a mean over those followed, us", ("operation", "hop"), 2),
    "cpu": Measure("processor time of a role's machines, polling left out, ns an operation", ("role",), 1),
    "verbs": Measure("requests that a role posts, an operation", ("role",), 1),
    "rtt": Measure("dependent round trips of the clients, an operation"),
    "bytes": Measure("bytes that a role's machines send, headers included, an operation", ("role",), 1),
    "share": Measure("of the bytes that the machines of a role send, those of one (`server[0]`)", ("machine",), 1),
    "slope": Measure("growth of throughput along an axis of numbers: 1 in proportion, 0 not at all", ("axis",), 1),
    "knee": Measure(f"the first value of an axis with {KNEE:.0%} of the largest throughput along it", ("axis",), 1),
    "holds": Measure("1 if a condition holds in every crash state, 0 if not, 0.5 undecided", ("condition",), 1),
    "crc": Measure("time of a CRC32 over a value, us"),
}
"""By the name that formulas have for it."""

LATENCIES = ("lat", "med", "min", "p90", "p99", "p999")
"""By operation, in us."""
DRAWN = ("thr", "bw", *LATENCIES)
"""Those that a figure may draw."""
ALONG = ("slope", "knee")
"""Those that are about all values of an axis."""
