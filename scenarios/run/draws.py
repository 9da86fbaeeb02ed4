"""What client processes draw from the seed: operations and keys of YCSB's mixes, shares of any operations, a past.

Drawn from the streams ``workload.keys`` (which key is how popular), ``workload.process[i]`` and, where a workload has
them, ``workload.deletes[i]``, ``workload.scans[i]`` and ``workload.steps[i]``; a group's keys are of
``workload.group[g].keys``, the past of ``workload.past``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from ...protocols.objects import OPERATIONS, TRANSACTIONAL, Takes
from ...protocols.scheme import PastOperation
from ...sim.streams import Streams
from ..schema.known import SchemeFacts
from ..schema.workloads import TURNS, Part, Ycsb
from ..ycsb import DELETE, LATEST, MODIFY, READ, SCAN, UPDATE, Ranks, Shares, ZipfianKeys, draw_kinds, take_turns

_UPDATE, _INSERT, _SCAN, _MODIFY = range(len(Shares._fields))
"""The places of the kinds in :class:`Shares`."""


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
    part_of: tuple[str, int] | None = None
    """Of a scan or a read-modify-write that is several requests, and of a benchmark's transaction: what it is, and its
    number in the process."""
    until_empty: bool = False
    """Whether it is repeated until it finds nothing."""


Plan = list[list[Planned]]
"""Per process its operations, in order."""


class Drawing:
    """The processes' operations, drawn one process after the other."""

    def __init__(self, workload: Ycsb, processes: int, streams: Streams, kind: SchemeFacts) -> None:
        self._workload, self._streams, self._kind = workload, streams, kind
        self._processes = processes
        self._own = processes if workload.own else 0
        """How many processes have objects of their own; 0: none has."""

    def plan(self) -> Plan:
        """The operations of each process."""
        planned: Plan = []
        parts = self._workload.parts(self._processes)
        for number, part in enumerate(parts):
            name = f"workload.group[{number}].keys" if self._workload.groups else "workload.keys"
            keys = ZipfianKeys(max(1, part.keys // max(1, self._own)), part.zipf, self._streams.stream(name))
            share, rest = divmod(part.operations, max(1, part.processes))
            for turn in range(part.processes):
                count = share + (turn < rest)
                planned.append(self._process(part, keys, len(planned), count))
        return planned

    def _process(self, part: Part, keys: ZipfianKeys, process: int, count: int) -> list[Planned]:
        random = self._streams.stream(f"workload.process[{process}]")
        draw = self._shares if part.draws.shares is not None else self._ycsb
        operations = list(draw(part, keys, process, count, random))
        if draw == self._ycsb and self._kind.model in TRANSACTIONAL:
            operations = list(_transactions(operations))
        if self._workload.batch > 1:
            size = self._workload.batch
            operations = [replace(one, batch=turn // size) for turn, one in enumerate(operations)]
        if part.begin_ps and operations:
            operations[0] = replace(operations[0], not_before_ps=part.begin_ps)
        return operations

    # YCSB's kinds -------------------------------------------------------------------------------------------------
    def _ycsb(
        self, part: Part, keys: ZipfianKeys, process: int, count: int, random: np.random.Generator
    ) -> Iterator[Planned]:
        shares, (update, read) = part.draws.drawn(), self._kind.verbs or (UPDATE, READ)
        kinds: Ranks = draw_kinds(shares, random, count)
        latest, takes = part.draws.mix == LATEST, self._kind.takes
        numbers = keys.draw_ranks(random, count).tolist() if latest else keys.draw(random, count)
        if self._workload.order in TURNS:
            kinds = take_turns(shares, count)
        if self._workload.order == "rotating":
            numbers = self._in_turn(part, process, count)
        deletes, lengths = self._deletes(process, count), self._lengths(shares, process, count)
        new = self._workload.loaded_keys
        new += -new % self._own if self._own else 0  # the first new key of process 0
        mine: list[int] = []  # the keys that it has inserted
        for turn, (what, drawn) in enumerate(zip(kinds.tolist(), numbers, strict=True)):
            number = self._newest(part, mine, drawn) if latest else part.number(drawn, process, self._own)
            if what == _INSERT:
                mine.append(new + process + self._processes * len(mine))
                yield Planned(process, self._kind.inserts or update, f"k{mine[-1]}", True)
            elif what == _SCAN:
                end = min(number + lengths[turn], part.first + part.keys)
                for each in range(number, end):
                    if self._kind.scans_by_reads:
                        yield Planned(process, read, f"k{each}", False, part_of=(SCAN, turn))
                    else:
                        yield Planned(process, read, f"k{each}", False, batch=turn)
            else:
                whole = (MODIFY, turn) if what == _MODIFY else None
                if whole:
                    yield Planned(process, read, f"k{number}", takes, part_of=whole)
                writes = what in (_UPDATE, _MODIFY)
                f = (DELETE if deletes[turn] and what == _UPDATE else update) if writes else read
                yield Planned(process, f, f"k{number}", writes or takes, part_of=whole)

    def _in_turn(self, part: Part, process: int, count: int) -> list[int]:
        """So many keys in their turn, of a process's own if it has such, from that of its number on."""
        each = max(1, part.keys // max(1, self._own))
        return [(process + turn) % each for turn in range(count)]

    @staticmethod
    def _newest(part: Part, mine: list[int], rank: int) -> int:
        """The key that so many are newer than, of its own inserts and the loaded ones: others' may not be there yet."""
        return mine[-1 - rank] if rank < len(mine) else max(part.first, part.first + part.keys - 1 - (rank - len(mine)))

    def _deletes(self, process: int, count: int) -> list[bool]:
        """Which of a process's operations delete if they are updates: of a stream of its own, so that no other
        changes.
        """
        share = self._workload.deletes
        if not share:
            return [False] * count
        drawn = self._streams.stream(f"workload.deletes[{process}]").random(count) < share
        return [bool(gone) for gone in drawn]

    def _lengths(self, shares: Shares, process: int, count: int) -> list[int]:
        """How many keys a process's operations read if they are scans: uniform from 1."""
        if not shares.scans:
            return [0] * count
        stream = self._streams.stream(f"workload.scans[{process}]")
        lengths: list[int] = stream.integers(1, self._workload.scan_length, count, endpoint=True).tolist()
        return lengths

    # any operations -----------------------------------------------------------------------------------------------
    def _shares(
        self, part: Part, keys: ZipfianKeys, process: int, count: int, random: np.random.Generator
    ) -> Iterator[Planned]:
        shares = part.draws.shares
        assert shares is not None
        names = list(shares)
        drawn = random.random(count)
        if self._workload.order == "phases":
            drawn = (np.arange(count) + 0.5) / count
        kinds = np.minimum(np.searchsorted(np.cumsum(list(shares.values())), drawn, side="right"), len(names) - 1)
        numbers = keys.draw(random, count)
        if self._workload.order == "rotating":
            numbers = self._in_turn(part, process, count)
        for f, number in zip((names[kind] for kind in kinds.tolist()), numbers, strict=True):
            if f == "txn":
                yield self._transaction(part, keys, process, number)
                continue
            takes = OPERATIONS[self._kind.model][f][0] if f in OPERATIONS[self._kind.model] else Takes.NOTHING
            amount = self._workload.amount if takes in (Takes.NUMBER, Takes.SIZE) and f != "free" else None
            place = part.number(number, process, self._own)
            yield Planned(process, f, f"k{place}", f in self._kind.updates, argument=amount)

    def _transaction(self, part: Part, keys: ZipfianKeys, process: int, number: int) -> Planned:
        """Steps on different objects, the first of which is drawn already: each reads or writes."""
        workload, random = self._workload, self._streams.stream(f"workload.steps[{process}]")
        numbers = [number]
        if workload.order == "rotating":
            numbers = self._in_turn(part, number, workload.steps)
        while len(numbers) < workload.steps:
            numbers += [one for one in keys.draw(random, 1) if one not in numbers]
        share = 0.5 if workload.step_reads is None else workload.step_reads
        reads = (random.random(workload.steps) < share).tolist()
        steps = tuple(
            ("r" if only_read else "w", f"k{part.number(one, process, self._own)}")
            for only_read, one in zip(reads, numbers, strict=True)
        )
        return Planned(process, "txn", "", not all(reads), argument=steps)


def _transactions(operations: Sequence[Planned]) -> Iterator[Planned]:
    """Each request as a transaction of its reads and writes, which take effect together: a scan is one."""
    for _, same in groupby(enumerate(operations), lambda row: -1 - row[0] if row[1].batch is None else row[1].batch):
        steps = tuple(("w" if each.is_update else "r", each.object) for _, each in same)
        process = operations[0].process
        yield Planned(process, "txn", "", any(kind == "w" for kind, _ in steps), argument=steps)


def draw_past(workload: Ycsb, processes: int, streams: Streams, planned: Plan) -> list[PastOperation]:
    """The operations before time zero on the objects that the run touches, of all the ``past`` that are drawn: each by
    a random process, with the workload's mix and the popularity that the run's own keys have.
    """
    touched = np.array(sorted({int(o.object[1:]) for operations in planned for o in operations if o.object}), np.int64)
    random, past = streams.stream("workload.past"), []
    before = 0
    for number, part in enumerate(workload.parts(processes)):
        name = f"workload.group[{number}].keys" if workload.groups else "workload.keys"
        keys = ZipfianKeys(max(1, part.keys), part.zipf, Streams(streams.seed).stream(name))
        count = round(workload.past * part.operations / max(1, sum(p.operations for p in workload.parts(processes))))
        drawn = part.first + np.array(keys.draw(random, count), dtype=np.int64)
        kinds = draw_kinds(part.draws.drawn(), random, count)
        whose = before + random.integers(0, max(1, part.processes), count)
        before += part.processes
        for at in np.flatnonzero(np.isin(drawn, touched)).tolist():
            writes = kinds[at] in (_UPDATE, _MODIFY)
            if kinds[at] != _INSERT:
                past.append(PastOperation(int(whose[at]), UPDATE if writes else READ, f"k{drawn[at]}"))
    return past
