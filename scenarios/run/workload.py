"""The work of the client processes: a list of operations each, fixed before the run by named random streams.

A process performs its list in closed loop: the next operation is invoked when the one before has returned (and its
``not_before_ps`` has come). The list does not depend on scheme or platform, so all variants of a scenario get the
same load.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ...protocols.objects import VALUED
from ...sim.streams import Streams
from ..arguments import OperationFields, ScheduleFields
from ..keyspace import KeySpace, Same
from ..schema.fields import exact_duration
from ..schema.workloads import ListedWorkload, Ycsb
from ..values import encode_value
from ..ycsb import DELETE, READ, UPDATE, ZipfianKeys, draw_updates

Workload = Ycsb | ListedWorkload


@dataclass(frozen=True, slots=True)
class Planned:
    """One operation that a process will perform; an update writes ``stamp``, by default the operation's number."""

    process: int
    f: str
    object: str
    is_update: bool
    not_before_ps: int = 0
    stamp: int | None = None
    argument: Hashable = None
    """What else it takes (see ``calls.argument_of``)."""
    batch: int | None = None
    """Those of a process with the same number, one behind the other, are one request with one acknowledgement."""
    until_empty: bool = False
    """Whether it is repeated until it finds nothing."""


Plan = list[list[Planned]]
"""Per process its operations, in order."""


def objects(workload: Workload) -> KeySpace:
    """The objects that are loaded before the run: ``k0``, ``k1``, ..."""
    return KeySpace(workload.keys)


def initial_values(workload: Workload, model: str = "register") -> Mapping[Hashable, bytes]:
    """The values loaded before the run: every object's value carries stamp 0; of a model whose objects begin empty, no
    bytes.
    """
    loaded = workload.loaded if isinstance(workload, ListedWorkload) else None
    value = encode_value(0, workload.value_bytes) if model in VALUED else b""
    return Same(KeySpace(workload.keys if loaded is None else loaded), value)


def plan(workload: Workload, processes: int, streams: Streams, updates: frozenset[str] = frozenset({UPDATE})) -> Plan:
    """The operations of each of ``processes`` client processes; ``updates`` are the names of those that write.

    Drawn from the streams ``workload.keys`` (which key is how popular), ``workload.process[i]`` and, where some updates
    delete, ``workload.deletes[i]``.
    """
    if isinstance(workload, ListedWorkload):
        return _scheduled(workload, processes, updates)
    keys = ZipfianKeys(workload.keys, workload.zipf, streams.stream("workload.keys"))
    share, rest = divmod(workload.operations, processes)
    planned: Plan = []
    for process in range(processes):
        random = streams.stream(f"workload.process[{process}]")
        count = share + (process < rest)
        is_update = draw_updates(workload.mix, random, count).tolist()
        drawn = keys.draw(random, count)
        deletes = _deletes(workload, process, count, streams)
        planned.append(
            [
                Planned(process, (DELETE if gone else UPDATE) if writes else READ, f"k{key}", writes)
                for writes, gone, key in zip(is_update, deletes, drawn, strict=True)
            ]
        )
    return planned


def _deletes(workload: Ycsb, process: int, count: int, streams: Streams) -> list[bool]:
    """Which of a process's operations delete if they are updates: of a stream of its own, so that no other changes."""
    if not workload.deletes:
        return [False] * count
    drawn = streams.stream(f"workload.deletes[{process}]").random(count) < workload.deletes
    return [bool(gone) for gone in drawn]


def _scheduled(workload: ListedWorkload, processes: int, updates: frozenset[str]) -> Plan:
    planned: Plan = [[] for _ in range(processes)]
    for o in workload.operations:
        given: Hashable = o.argument if o.steps is None else o.steps
        one = Planned(o.process, o.f, o.object, o.f in updates, o.at_ps, o.stamp, given, o.batch)
        planned[o.process].append(one)
    return planned


def requests(operations: Sequence[Planned]) -> Iterator[list[Planned]]:
    """A process's operations by request: one each, or those of a batch."""
    for _, same in groupby(enumerate(operations), lambda row: -1 - row[0] if row[1].batch is None else row[1].batch):
        yield [one for _, one in same]


def planned_updates(planned: Plan) -> int:
    """How many of the planned operations write."""
    return sum(operation.is_update for operations in planned for operation in operations)


def room_for_updates(workload: Workload, planned: Plan) -> int:
    """For how many updates stores are formatted: a log that is cleaned when it is full is as large as that says."""
    room = workload.room if isinstance(workload, ListedWorkload) else None
    return room or planned_updates(planned)


def schedule_data(workload: Workload, operations: Iterable[Planned], room: int | None = None) -> ScheduleFields:
    """The ``workload`` map of a scenario that performs just these operations (a process's in the given order)."""
    listed: list[OperationFields] = []
    for o in operations:
        entry: OperationFields = {"process": o.process, "f": o.f}
        if o.object:
            entry["object"] = o.object
        if isinstance(o.argument, tuple):
            entry["steps"] = [[str(word) for word in step] for step in o.argument]
        elif isinstance(o.argument, int):
            entry["argument"] = int(o.argument)
        if o.batch is not None:
            entry["batch"] = o.batch
        if o.not_before_ps:
            entry["at"] = exact_duration(o.not_before_ps)
        if o.stamp is not None:
            entry["stamp"] = o.stamp
        listed.append(entry)
    value = f"{workload.value_bytes} B"
    data: ScheduleFields = {"kind": "schedule", "keys": workload.keys, "value": value, "operations": listed}
    if room is not None:
        data["room"] = room
    if isinstance(workload, ListedWorkload) and workload.loaded is not None:
        data["loaded"] = workload.loaded
    return data
