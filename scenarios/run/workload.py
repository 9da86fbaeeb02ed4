"""The work of the client processes: a list of operations each, fixed before the run by named random streams.

A process performs its list in closed loop: the next operation is invoked when the one before has returned (and its
``not_before_ps`` has come). The list does not depend on scheme or platform, so all variants of a scenario get the
same load.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from ...protocols.objects import VALUED
from ...sim.streams import Streams
from ..arguments import OperationFields, ScheduleFields
from ..keyspace import KeySpace, LoadedRows, Same
from ..schema.fields import exact_duration
from ..schema.known import SchemeFacts
from ..schema.listed import ListedWorkload
from ..schema.ranking import PageRank
from ..schema.transactions import Transactions
from ..schema.workloads import Ycsb
from ..transactions import BENCHMARKS
from ..values import encode_value
from ..ycsb import READ, UPDATE
from .draws import Drawing, Plan, Planned
from .transacting import draw_transactions

Workload = Ycsb | PageRank | Transactions | ListedWorkload


STORE = SchemeFacts({}, (UPDATE, READ), frozenset({UPDATE}), model="kv")
"""A key-value store, as far as a plan needs it."""


def objects(workload: Workload, planned: Iterable[Sequence[Planned]] = ()) -> KeySpace:
    """The objects ``k0``, ``k1``, ...: those of the workload, and those that a plan inserts beyond them."""
    inserted: Iterable[Sequence[Planned]] = ()
    if isinstance(workload, Ycsb) and _inserts(workload):
        inserted = planned
    names = (name for operations in inserted for o in operations for name in _named(o))
    newest = max((int(name[1:]) for name in names), default=-1)
    return KeySpace(max(workload.keys, newest + 1))


def _named(planned: Planned) -> Iterator[str]:
    """The objects of an operation: of a transaction those of its steps."""
    if planned.object:
        yield planned.object
    elif planned.f == "txn" and isinstance(planned.argument, tuple):
        yield from (name for _, name, *_ in planned.argument)


def _inserts(workload: Ycsb) -> bool:
    return any(part.draws.shares is None and part.draws.drawn().inserts for part in workload.parts(1))


def initial_values(workload: Workload, model: str = "register") -> Mapping[Hashable, bytes]:
    """The values loaded before the run: every object's value carries stamp 0; of a model whose objects begin empty, no
    bytes.
    """
    value = encode_value(0, workload.value_bytes) if model in VALUED else b""
    if isinstance(workload, Transactions):
        return LoadedRows(BENCHMARKS[workload.benchmark].tables, workload.customers, value)
    if isinstance(workload, ListedWorkload):
        if isinstance(workload.loaded, tuple):
            return dict.fromkeys(workload.loaded, value)
        loaded = workload.keys if workload.loaded is None else workload.loaded
    elif isinstance(workload, PageRank):
        loaded = workload.run_nodes
    else:
        loaded = workload.loaded_keys
    return Same(KeySpace(loaded), value)


def of_work(workload: Workload, streams: Streams) -> Streams:
    """The streams that a workload draws from: those of a run, unless it has a seed of its own."""
    own = workload.seed if isinstance(workload, Ycsb | Transactions) else None
    return streams if own is None else Streams(own)


def plan(workload: Workload, processes: int, streams: Streams, kind: SchemeFacts = STORE) -> Plan:
    """The operations of each of ``processes`` client processes of a scheme; :mod:`.draws` names the streams."""
    if isinstance(workload, PageRank):
        return [[] for _ in range(processes)]  # what it asks for depends on what it reads
    streams = of_work(workload, streams)
    if isinstance(workload, Transactions):
        return draw_transactions(workload, processes, streams)
    if isinstance(workload, ListedWorkload):
        return _scheduled(workload, processes, kind.updates)
    return Drawing(workload, processes, streams, kind).plan()


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


def has_one_writer(planned: Plan) -> bool:
    """Whether no two processes write one object."""
    writers: dict[str, int] = {}
    return all(
        writers.setdefault(name, process) == process
        for process, operations in enumerate(planned)
        for one in operations
        if one.is_update
        for name in _named(one)
    )


def planned_updates(planned: Plan) -> int:
    """How many of the planned operations write."""
    return sum(operation.is_update for operations in planned for operation in operations)


def room_for_updates(workload: Workload, planned: Plan) -> int:
    """For how many updates stores are formatted: a log that is cleaned when it is full is as large as that says."""
    if isinstance(workload, PageRank):
        return workload.run_edges
    room = workload.room if isinstance(workload, ListedWorkload) else None
    return room or planned_updates(planned)


def own_objects(workload: Workload) -> int:
    """How many objects in turn belong to each process alone; 0: all belong to all."""
    if isinstance(workload, ListedWorkload):
        return workload.own or 0
    if isinstance(workload, Transactions):
        return BENCHMARKS[workload.benchmark].tables.each if workload.own else 0
    return int(isinstance(workload, Ycsb) and workload.own)


def repeating(workload: Workload) -> frozenset[int]:
    """The processes that go on until all others have performed what is theirs."""
    found, before = set(), 0
    for group in workload.groups if isinstance(workload, Ycsb) else ():
        if group.until:
            found |= {*range(before, before + group.processes)}
        before += group.processes
    return frozenset(found)


def schedule_data(workload: Workload, operations: Iterable[Planned], room: int | None = None) -> ScheduleFields:
    """The ``workload`` map of a scenario that performs just these operations (a process's in the given order)."""
    listed: list[OperationFields] = []
    performed = list(operations)
    for o in performed:
        entry: OperationFields = {"process": o.process, "f": o.f}
        if o.object:
            entry["object"] = o.object
        if isinstance(o.argument, tuple):
            entry["steps"] = [[*step] for step in o.argument]
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
    if own := own_objects(workload):
        data["own"] = own
    if workload.work_ps:
        data["work"] = exact_duration(workload.work_ps)
    if isinstance(workload, ListedWorkload) and workload.loaded is not None:
        data["loaded"] = list(workload.loaded) if isinstance(workload.loaded, tuple) else workload.loaded
    elif isinstance(workload, Transactions) and len(rows := list(initial_values(workload, "txn"))) < workload.keys:
        data["loaded"] = list(map(str, rows))
    elif isinstance(workload, Ycsb) and (there := len(objects(workload, [performed]))) > workload.loaded_keys:
        data["keys"], data["loaded"] = there, workload.loaded_keys
    return data
