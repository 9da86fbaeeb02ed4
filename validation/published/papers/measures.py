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
_ENDS = ("from", "to")
OF_MACHINES = ("role", "machine", *_ENDS)
"""Words that are a role, or one of its machines: ``server[0]``."""
MEASURES: Mapping[str, Measure] = {
    "thr": Measure("throughput, operations per second", _OF_OPERATION),
    "bw": Measure("values moved, bytes per second"),
    "time": Measure("from the end of the warm-up to the end of the run, us"),
    "whole": Measure("time of the whole that a run is a sample of (PageRank, many calls with failures), s"),
    "lat": Measure("mean latency, us", _OF_OPERATION),
    "med": Measure("median latency, us", _OF_OPERATION),
    "min": Measure("shortest latency, us", _OF_OPERATION),
    "p90": Measure("latency that 90 % of the operations stay below, us", _OF_OPERATION),
    "p99": Measure("latency that 99 % of the operations stay below, us", _OF_OPERATION),
    "p999": Measure("latency that 99.9 % of the operations stay below, us", _OF_OPERATION),
    "part": Measure("time of an operation in one hop of its way, mean, us", ("operation", "hop"), 2),
    "side": Measure("time of an operation at `sender`, `network` or `receiver`, mean, us", ("side", "operation"), 1),
    "cpu": Measure("processor time of a role's machines, polling left out, ns an operation", ("role",), 1),
    "polls": Measure("processor time that a role's machines poll for, ns an operation", ("role",), 1),
    "joule": Measure("energy of a role's cores, of all cores without one, J an operation", ("role",)),
    "cost": Measure("price of a role's machines, of all machines without one", ("role",)),
    "verbs": Measure("requests that a role posts, an operation", ("role",), 1),
    "rtt": Measure("dependent round trips, mean", _OF_OPERATION),
    "rtt50": Measure("dependent round trips that 50 % of the operations do not exceed", _OF_OPERATION),
    "rtt99": Measure("dependent round trips that 99 % of the operations do not exceed", _OF_OPERATION),
    "hops": Measure("what the scheme counts as `hops`, an operation", _OF_OPERATION),
    "count": Measure("what the scheme counts under a name, an operation", ("name", "operation"), 1),
    "tally": Measure("what a role counts under a name outside of operations, an operation", ("role", "name"), 2),
    "gauge": Measure("value of a machine's gauge, mean over time", ("machine", "name"), 2),
    "bytes": Measure("payload to and from a role or machine, or from one to another, an operation", _ENDS, 1),
    "share": Measure("of the payload to and from the machines of a role, that of one (`server[0]`)", ("machine",), 1),
    "slope": Measure("growth of throughput along an axis of numbers: 1 in proportion, 0 not at all", ("axis",), 1),
    "knee": Measure(f"the first value of an axis with {KNEE:.0%} of the largest throughput along it", ("axis",), 1),
    "holds": Measure("1 if a condition holds in every crash state, 0 if not, 0.5 undecided", ("condition",), 1),
    "crc": Measure("time of a CRC32 over a value, us"),
}
"""By the name that formulas have for it."""

LATENCIES = ("lat", "med", "min", "p90", "p99", "p999")
"""By operation, in us."""
DRAWN = ("thr", "bw", "time", "whole", *LATENCIES)
"""Those that a figure may draw."""
METERED = ("part", "side", "rtt", "rtt50", "rtt99", "hops", "count", "tally", "gauge", "bytes", "share")
"""Those that take a metered run."""
PRICED: Mapping[str, str] = {"joule": "cpu.core_milliwatts", "cost": "cost"}
"""Those that take values that few platforms state: the key of these in a platform's file."""
ALONG = ("slope", "knee")
"""Those that are about all values of an axis."""
