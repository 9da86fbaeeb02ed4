"""One measurement: its conditions (a verb, how it travels, how many operations are under way) and its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...models.verbs import CARRIES, Opcode, QpType
from ...sim.units import format_bytes

Method = Literal["completion", "half_round_trip"]

VERBS: Mapping[str, tuple[Opcode, ...]] = {
    "WRITE": (Opcode.IBV_WR_RDMA_WRITE,),
    "WRITE_WITH_IMM": (Opcode.IBV_WR_RDMA_WRITE_WITH_IMM,),
    "SEND": (Opcode.IBV_WR_SEND,),
    "READ": (Opcode.IBV_WR_RDMA_READ,),
    "CAS": (Opcode.IBV_WR_ATOMIC_CMP_AND_SWP,),
    "FETCH_ADD": (Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD,),
    "WRITE+READ": (Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_RDMA_READ),
    "WRITE+SEND": (Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_SEND),
    "FLUSH": (Opcode.IBV_WR_FLUSH,),
    "WRITE+FLUSH": (Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_FLUSH),
    "ATOMIC_WRITE": (Opcode.IBV_WR_ATOMIC_WRITE,),
}
"""The work requests of one operation, posted together; its latency ends with the last one's completion or reply."""
WORDS = ("CAS", "FETCH_ADD", "ATOMIC_WRITE")
"""Verbs of eight bytes: a plan's size does not count."""
REPLIED = "WRITE+SEND"
"""The responder's core flushes the written bytes and answers; the latency ends with the answer."""
INLINE = ("WRITE", "WRITE_WITH_IMM", "SEND", "WRITE+READ", "WRITE+SEND", "WRITE+FLUSH")
"""Verbs whose first work request may carry its data inline."""
ANSWERABLE = ("WRITE", "WRITE_WITH_IMM", "SEND")
"""Verbs that a responder can answer in kind: half of the round trip is one way."""
TRANSPORTS = ("rc", "uc", "ud")
MEMORIES = ("dram", "dax", "dmabuf")
METHODS = ("completion", "half_round_trip")
ACCESSES = ("sequential", "random")
PLACEMENTS = ("global", "persistent")
LEVELS = ("range", "region")
WORD_BYTES = 8
REGION_BYTES = 16 << 20
SLOT_BYTES = 64
"""Consecutive operations go to consecutive slots: so many bytes, or as many lines as the operation has."""


def legal(verb: str, transport: str) -> bool:
    """Whether the transport has the verb; FLUSH and the like need an answer, so that they are for RC alone."""
    carried = CARRIES[QpType(transport.upper())]
    return all(opcode in carried for opcode in VERBS[verb]) and (len(VERBS[verb]) == 1 or transport == "rc")


@dataclass(frozen=True)
class Conditions:
    """The conditions of a measurement. ``depth`` is operations under way over all queue pairs together."""

    id: str
    verb: str
    transport: str = "rc"
    size_bytes: int = WORD_BYTES
    inline: bool | None = None
    """Whether the data is in the work request; None: if the adapter takes so much."""
    qps: int = 1
    depth: int = 1
    method: str = "completion"
    memory: str = "dram"
    region_bytes: int = REGION_BYTES
    access: str = "sequential"
    placement: str = ""
    level: str = ""
    iterations: int = 1000
    warmup: int = 100
    mtu_bytes: int | None = None
    """None: the platform's."""
    signal_every: int = 1
    """A completion is wanted of one request in so many (perftest's CQ moderation)."""

    @property
    def slot_bytes(self) -> int:
        """From one operation's bytes to the next one's."""
        return max(1, -(-self.size_bytes // SLOT_BYTES)) * SLOT_BYTES

    @property
    def series(self) -> str:
        """All but size, MTU and where the data is, in words: measurements of one series make one curve."""
        words = [self.verb, "" if self.transport == "rc" else self.transport.upper()]
        words.append("one way" if self.method == "half_round_trip" else "")
        if self.verb.endswith("FLUSH"):
            words += [self.placement, "" if self.level == "range" else self.level]
        words.append("" if self.memory == "dram" else self.memory)
        words.append(f"{self.qps} QPs" if self.qps > 1 else "")
        words.append(f"depth {self.depth}" if self.depth > 1 else "")
        words.append("" if self.region_bytes == REGION_BYTES else f"in {format_bytes(self.region_bytes)}")
        words.append("random" if self.access == "random" else "")
        return " ".join(word for word in words if word)

    @property
    def name(self) -> str:
        """The series and the size."""
        return f"{self.series}, {format_bytes(self.size_bytes)}"


def series_names(points: Sequence[Conditions]) -> list[str]:
    """The series of each, with its MTU and ``inline`` where a series has several of the one or both of the other."""
    mtus: dict[str, set[int | None]] = {}
    inline: dict[tuple[str, int, int | None], set[bool | None]] = {}
    for one in points:
        mtus.setdefault(one.series, set()).add(one.mtu_bytes)
        inline.setdefault((one.series, one.size_bytes, one.mtu_bytes), set()).add(one.inline)
    both = {key[0] for key, found in inline.items() if len(found) > 1}
    names = []
    for one in points:
        words = [one.series]
        if len(mtus[one.series]) > 1 and one.mtu_bytes is not None:
            words.append(f"MTU {one.mtu_bytes}")
        if one.series in both and one.inline is not None:
            words.append("inline" if one.inline else "not inline")
        names.append(" ".join(words))
    return names


STATISTICS = ("min", "mean", "p50", "p90", "p99", "p999", "max")


@dataclass(frozen=True)
class Measurement:
    """Conditions and the numbers measured under them; ``skipped`` says why there are none."""

    conditions: Conditions
    latency_ns: Mapping[str, float] = field(default_factory=dict)
    """By name of the statistic (STATISTICS), as many as are known."""
    histogram: tuple[tuple[float, int], ...] = ()
    """(upper edge in ns, how many)."""
    operations_per_s: float | None = None
    bytes_per_s: float | None = None
    skipped: str = ""
    file: str = ""
    line: int | None = None

    @property
    def rate(self) -> float | None:
        """The rate in operations a second."""
        if self.operations_per_s is None and self.bytes_per_s is not None:
            return self.bytes_per_s / self.conditions.size_bytes
        return self.operations_per_s

    @property
    def typical_ns(self) -> float | None:
        """The median, or the mean where no median is known."""
        return self.latency_ns.get("p50", self.latency_ns.get("mean"))

    @property
    def per_operation_ns(self) -> float | None:
        """The number to compare: a latency where one operation is under way, else the time from one to the next."""
        if self.conditions.depth == 1 and self.typical_ns:
            return self.typical_ns
        return 1e9 / self.rate if self.rate else None
