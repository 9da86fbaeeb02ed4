"""The arguments of a scenario in Python: the keys of its file, with their types.

Sizes are text with a unit (``"256 B"``) or bytes, times text with a unit (``"1.2 us"``). What each key means, its
default and its bounds are in :mod:`rpsim.scenarios.schema.schema`; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Required, TypedDict

Switch = Literal["on", "off"]


class BackgroundFields(TypedDict, total=False):
    """Other programs on a role's machines."""

    kind: Required[Literal["compute", "memory", "network"]]
    threads: int
    device: str
    bandwidth: str
    to: str
    size: str | int
    rate: int


class RoleFields(TypedDict, total=False):
    """How often there is a role, and how its threads use the cores of its machines."""

    machines: int
    processes: int
    cores: int | None
    threads: int
    pinned: bool
    waits: Literal["poll", "sleep", "adaptive"]
    core_type: str | None
    retries: int
    background: Sequence[BackgroundFields]


class DrawFields(TypedDict, total=False):
    """What is drawn: one of YCSB's mixes, or shares of operations."""

    mix: str | None
    reads: float | None
    inserts: float | None
    scans: float | None
    modifies: float | None
    shares: Mapping[str, float] | None


class GroupFields(DrawFields, total=False):
    """Processes with work of their own."""

    processes: Required[int]
    begin: str
    first: int
    keys: int | None
    operations: int | None
    zipf: float | None
    until: Literal["others"] | None


class YcsbFields(DrawFields, total=False):
    """Closed-loop clients with one of YCSB's mixes over Zipfian keys, or with shares of any operations."""

    kind: Required[Literal["ycsb", "mix"]]
    keys: Required[int]
    value: Required[str | int]
    operations: Required[int]
    zipf: float
    warmup: int
    order: Literal["drawn", "alternating", "rotating", "phases"]
    deletes: float
    scan_length: int
    loaded: int | None
    steps: int
    step_reads: float | None
    amount: int
    batch: int
    work: str | None
    think: str | None
    past: int
    own: bool
    groups: Sequence[GroupFields]
    seed: int | None


class PageRankFields(TypedDict, total=False):
    """One client that computes PageRank from the records that it reads."""

    kind: Required[Literal["pagerank"]]
    nodes: Required[int]
    edges: Required[int]
    value: str | int
    damping: float
    tolerance: float
    iterations: int
    sample: int | None
    work: str | None


class TransactionsFields(TypedDict, total=False):
    """Closed-loop clients with the transactions of a standard benchmark."""

    kind: Required[Literal["transactions"]]
    benchmark: Required[Literal["smallbank", "tatp"]]
    customers: Required[int]
    value: Required[str | int]
    operations: Required[int]
    mix: Literal["writes", "standard"]
    shares: Mapping[str, float] | None
    zipf: float
    warmup: int
    own: bool
    work: str | None
    think: str | None
    seed: int | None


class OperationFields(TypedDict, total=False):
    """One operation of a client process, not before a time."""

    process: Required[int]
    f: Required[str]
    object: str
    at: str
    stamp: int
    argument: int
    steps: Sequence[Sequence[str | int]]
    batch: int


class ScheduleFields(TypedDict, total=False):
    """An explicit list of operations."""

    kind: Required[Literal["schedule"]]
    keys: Required[int]
    value: Required[str | int]
    operations: Required[Sequence[OperationFields]]
    room: int
    loaded: int | Sequence[str]
    own: int
    work: str


class CrashFields(TypedDict, total=False):
    """Which fault is explored, at which instants, over which crash states."""

    nested: int
    loss: str
    fault: str
    down: str
    instants: Literal["all"] | int
    view: Literal["adversarial", "timed"]
    budget: int
    images: int
    schedules: int
    perturb: Sequence[str]
    first: int
    operations: int
    keys: int


class FailureFields(TypedDict, total=False):
    """What fails at an instant of a run."""

    at: Required[str]
    fault: Required[str]
    down: str


class DrawnFailureFields(TypedDict, total=False):
    """A server that fails at random instants, is repaired, and is called again."""

    of: Required[str]
    availability: float | None
    every: str | None
    repair: str
    resend_after: str
    told: bool
    rpcs: int | None


OutageFields = TypedDict("OutageFields", {"core": str, "at": str, "for": str})
"""A stretch of time in which a core does nothing."""
HeldFields = TypedDict("HeldFields", {"machine": str, "queue_pair": int, "for": str})
"""A queue pair whose packets an adapter has accepted and holds up."""
PacketFields = TypedDict(
    "PacketFields",
    {
        "from": Required[str],
        "to": Required[str],
        "packet": Required[int],
        "lost": bool,
        "delay": str,
        "repeated_after": str,
    },
    total=False,
)
"""What happens to one packet of a path."""


class NetworkFields(TypedDict, total=False):
    """What happens to packets on their way, at random or chosen."""

    loss: float
    delay: str
    reorder: float
    repeat: float
    packets: Sequence[PacketFields]


class ScenarioFields(TypedDict, total=False):
    """All of a scenario; ``scenario`` is its name."""

    scenario: str
    title: str
    description: str
    seed: int
    platform: str | None
    ddio: Switch | None
    vary: Mapping[str, Sequence[str]]
    roles: Mapping[str, RoleFields]
    schemes: str | Sequence[str]
    options: Mapping[str, object]
    workload: YcsbFields | PageRankFields | TransactionsFields | ScheduleFields
    scale: int
    crash: CrashFields
    failures: Sequence[FailureFields] | DrawnFailureFields
    outages: Sequence[OutageFields]
    held: Sequence[HeldFields] | None
    network: NetworkFields | None
    expect: Mapping[str, Mapping[str, str | Mapping[str, str]]]
