"""The workload and the settings with which a structure's faults are explored: small, and with all that it can do."""

from __future__ import annotations

import json
from typing import Any

from ...protocols.failures import CLIENT, POWER
from ...protocols.guarantees import NO_FAULT
from ...protocols.objects import TAKES_OUT, TRANSACTIONAL, verbs
from ...protocols.scheme import Scheme
from ...scenarios.arguments import OutageFields
from ...scenarios.schema.faults import IN_RECOVERY

STRUCTURES = "structures"
"""The scenario of structures that have one writer."""
OPERATIONS_EACH = 30
"""How many operations the processes perform together."""
TAKEN = 20
"""The same of queues and stacks, whose batches leave more lines open: of 24 and more not all images are tried."""
FEWER = 6
"""The same where each instant is a run of its own, or recovery fails as well."""
NOTHING_FAILS = ("crash.schedules=96", "crash.perturb=[pauses, hardware]")
"""Settings where nothing fails: so many schedules that a reader meets a writer in some of them, whatever the seed."""
BATCH, LOG_PAGES = 4, 32
"""Batches and rings (in pages of the structure) of which a run has several, and laps."""
AWAY: OutageFields = {"core": "server[0] core 1", "at": "5 us", "for": "10 us"}
"""The core of the first log's thread is away: an idle one flushes a log before its writer knows that it has come."""
_BENCHMARKS = {"accounts": "smallbank", "txn": "tatp"}
_CUSTOMERS, _LEAST = {"smallbank": 4, "tatp": 2}, 2
"""How many customers each has, and where recovery fails as well: a read of all rows has too many images of more."""
_VALUE = {"accounts": "8 B"}
WORK = 2
"""The seed of the work, which is the same whatever a run's seed is: of 1, 2 and 3 the one whose work shows most."""


def workload(kind: type[Scheme], operations: int, processes: int, again: bool = False) -> dict[str, Any]:
    """A workload of 8 keys or rows. One of the processes writes, the others read; each has structures of its own where
    reading takes something out, or where transactions read and write.
    """
    value = _VALUE.get(kind.model, "16 B")
    if kind.model in TRANSACTIONAL:
        benchmark = _BENCHMARKS[kind.model]
        customers = max(_LEAST if again else _CUSTOMERS[benchmark], (2 if benchmark == "smallbank" else 1) * processes)
        given: dict[str, Any] = {"kind": "transactions", "benchmark": benchmark, "customers": customers}
        return given | {"value": value, "operations": operations, "own": processes > 1, "seed": WORK}
    pair = verbs(kind.operations)
    assert pair is not None, f"{kind.name} neither writes nor reads"
    update, read = kind.inserts or pair[0], pair[1]
    made: dict[str, Any] = {"kind": "mix", "shares": {update: 0.5, read: 0.5}, "value": value}
    made |= {"operations": operations, "seed": WORK}
    if read in TAKES_OUT:
        return made | {"keys": processes, "own": processes > 1}
    readers = [{"processes": processes - 1, "keys": 8, "shares": {read: 1.0}}] if processes > 1 else []
    return made | {
        "keys": 8,
        "loaded": 4,
        "zipf": 0.0,
        "groups": [{"processes": 1, "keys": 8}, *readers] if readers else [],
    }


def processes(kind: type[Scheme], most: int = 2) -> int:
    """How many client processes there are: of a bank one, since a reader behind it reads all rows at once."""
    return 1 if kind.model in TRANSACTIONAL else most


def options(kind: type[Scheme]) -> dict[str, Any]:
    """Small batches and logs, where its mode has them and its name does not say how large they are."""
    mode, algorithm = getattr(kind, "mode", None), getattr(kind, "algorithm", None)
    if mode is None or algorithm is None:  # no structure; one that is executed anew is none of the class known here
        return {}
    small = {"batch": BATCH, "log": f"{LOG_PAGES * algorithm.page_bytes} B"}
    return {name: value for name, value in small.items() if name in mode.options and name not in mode.chosen}


def logged(kind: type[Scheme]) -> bool:
    """Whether its mode writes logs, whose records are checked: then lines tear as wholes, since a line that is torn
    within is no better there than a missing one, and images are up to 2**8 times fewer for each record.
    """
    return "log" in getattr(getattr(kind, "mode", None), "options", {})


def derived(kind: type[Scheme], fault: str) -> bool:
    """Whether the fault ends the power of the machine that has the structure: one run gives every image."""
    return POWER in fault.split() and fault.startswith(CLIENT) == kind.role_types[CLIENT].hosts


def outages(kind: type[Scheme], fault: str) -> list[OutageFields]:
    """Cores that are away for a while: where a log is replayed and the fault is derived."""
    return [AWAY] if logged(kind) and derived(kind, fault) else []


def fitted(kind: type[Scheme], fault: str) -> tuple[str, ...]:
    """The settings of the scenario for a structure and a fault."""
    nothing, again = fault.strip() in (NO_FAULT, "none"), fault.endswith(IN_RECOVERY)
    hosted = kind.role_types[CLIENT].hosts
    how = NOTHING_FAILS if nothing else ()
    chosen = options(kind)
    if away := outages(kind, fault):
        how = (*how, "vary.line_atomicity=[whole]", f"outages={json.dumps(away)}")
    count = processes(kind)
    pair = verbs(kind.operations)
    whole = TAKEN if pair is not None and pair[1] in TAKES_OUT else OPERATIONS_EACH
    many = hosted or (not again and (nothing or derived(kind, fault)))  # of few nothing may leave a host
    operations = whole if many else FEWER
    if again:
        how = (*how, "crash.images=65536")
    return (
        f"roles.client.processes={count}",
        f"workload={json.dumps(workload(kind, operations, count, again))}",
        *((f"options={json.dumps(chosen)}",) if chosen else ()),
        *how,
    )
