"""A run of PageRank: a client that loads a graph and iterates over what it reads, and what the whole takes.

A sampled run has a smaller graph, and caches that are smaller by the same factor; it loads that graph and iterates
twice. The whole is computed from it: the mean time of a call of each kind in each phase, times how often the whole
graph has that call. How many iterations the whole graph takes is computed without any simulation.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...models.cpu import Thread
from ...models.profiles.platform import Platform
from ...models.verbs import Span
from ...protocols.scheme import Request, RequestStep, Role
from ...sim.clock import Clock
from ...sim.streams import Streams
from ..history import History
from ..pagerank import EDGE, NODE, Graph, NodeRecords, Record, next_ranks
from ..schema.ranking import PageRank
from ..ycsb import READ, UPDATE
from .metered import Metered

SAMPLED_ROUNDS = 2
"""The first iteration comes behind the loading, the second stands for all others."""
LEAST_LINES = {"l1_bytes": 64, "l2_bytes": 128, "llc": 256}
"""A sampled run's caches hold so many lines at least: with fewer, the calls' own buffers would not stay in them. The
records of a sample are more than that, so they stay only where those of the whole graph would."""

Code = Generator[Any, Any, Any]


@dataclass
class PhaseTime:
    """How often a phase did something, and how long that took in all."""

    count: int = 0
    took_ps: int = 0

    @property
    def mean_ps(self) -> float:
        return self.took_ps / self.count if self.count else 0.0


@dataclass
class Ranking:
    """One run: the graph, how far the client has come, what took how long."""

    workload: PageRank
    streams: Streams
    graph: Graph = field(init=False)
    """The graph that is run."""
    times: dict[str, PhaseTime] = field(default_factory=dict)
    """``load`` by edge (a write and a read); ``first nodes``, ``first edges`` and, of later iterations, ``nodes`` and
    ``edges`` by call."""
    iterations: int = 0
    """Those that were run."""
    change: float = 0.0
    ranks: Any = None
    wrong: int = 0
    """Records that came back as none, or as another's."""

    def __post_init__(self) -> None:
        self.graph = self._drawn(self.workload.run_nodes, self.workload.run_edges)

    def _drawn(self, nodes: int, edges: int) -> Graph:
        return Graph.drawn(nodes, edges, Streams(self.streams.seed).stream("pagerank.graph"))

    @property
    def initial(self) -> Mapping[Hashable, bytes]:
        """The objects that are there before the run."""
        return NodeRecords(self.graph, self.workload.value_bytes)

    def platform(self, platform: Platform) -> Platform:
        """The platform of a run: with caches that hold as large a share of the records as they do of the whole
        graph's. Translations stay: the paper's largest graph is 60 pages of 2 MiB.
        """
        factor = self.workload.factor
        if factor == 1:
            return platform
        llc, private = platform.llc, platform.private

        def smaller(size_bytes: int, name: str) -> int:
            return min(size_bytes, max(size_bytes // factor, LEAST_LINES[name] * llc.line_bytes))

        return replace(
            platform,
            llc=replace(llc, size_bytes=smaller(llc.size_bytes, "llc")),
            private=replace(
                private,
                l1_bytes=smaller(private.l1_bytes, "l1_bytes"),
                l2_bytes=smaller(private.l2_bytes, "l2_bytes"),
            ),
        )

    # the client -----------------------------------------------------------------------------------------------------
    def client(self, caller: Caller) -> Code:
        """The client process: load, then iterate until the ranks stay as they are."""
        workload, graph = self.workload, self.graph
        load = self._phase("load", caller)
        for number in range(graph.edges):
            name = self._edge(number)
            yield from caller.write(name, graph.edge(number).pack(workload.value_bytes))
            self._check(Record.unpack((yield from caller.read(name))), EDGE, number)
        load(graph.edges)
        most = SAMPLED_ROUNDS if workload.factor > 1 else workload.iterations
        ranks = np.full(graph.nodes, 1.0 / graph.nodes)
        for iteration in range(most):
            after = yield from self._iterate(caller, ranks, "" if iteration else "first ")
            self.iterations, self.change = iteration + 1, float(np.abs(after - ranks).sum())
            self.ranks = ranks = after
            if self.change < workload.tolerance:
                break

    def _iterate(self, caller: Caller, ranks: Any, which: str) -> Code:
        """An iteration, out of the bytes that come back: the nodes' out-degrees, then the edges."""
        graph = self.graph
        each, dangling, arriving = np.zeros(graph.nodes), 0.0, np.zeros(graph.nodes)
        nodes = self._phase(f"{which}nodes", caller)
        for number in range(graph.nodes):
            record = self._check(Record.unpack((yield from caller.read(f"k{number}"))), NODE, number)
            if record is not None and record.first:
                each[number] = ranks[number] / record.first
            elif record is not None:
                dangling += ranks[number]
        nodes(graph.nodes)
        edges = self._phase(f"{which}edges", caller)
        for number in range(graph.edges):
            record = self._check(Record.unpack((yield from caller.read(self._edge(number)))), EDGE, number)
            if record is not None:
                arriving[record.second] += each[record.first]
        edges(graph.edges)
        return next_ranks(arriving, dangling, self.workload.damping)

    def _edge(self, number: int) -> str:
        return f"k{self.graph.nodes + number}"

    def _check(self, record: Record | None, kind: int, number: int) -> Record | None:
        """The record if it is one that this place may have; else None, and it is counted."""
        ends = () if record is None else (record.first, record.second) if record.kind == EDGE else ()
        if record is None or (record.kind, record.number) != (kind, number) or any(e >= self.graph.nodes for e in ends):
            self.wrong += 1
            return None
        return record

    def _phase(self, name: str, caller: Caller) -> Any:
        """A phase begins; call what is returned with its number of calls when it has ended."""
        began_ps = caller.clock.now_ps

        def ended(count: int) -> None:
            time = self.times.setdefault(name, PhaseTime())
            time.count, time.took_ps = time.count + count, time.took_ps + caller.clock.now_ps - began_ps

        return ended

    # what it took ---------------------------------------------------------------------------------------------------
    def fields(self) -> dict[str, Any]:
        """The field ``pagerank`` of ``rpsim run --json``."""
        workload, sampled = self.workload, self.workload.factor > 1
        iterations = self.iterations
        if sampled:
            whole = self._drawn(workload.nodes, workload.edges)
            _, iterations = whole.ranks(workload.damping, workload.tolerance, workload.iterations)
        mean = {name: time.mean_ps for name, time in self.times.items()}
        later = {name: mean.get(name, mean[f"first {name}"]) for name in ("nodes", "edges")}
        iteration_ps = workload.nodes * later["nodes"] + workload.edges * later["edges"]
        first_ps = workload.nodes * mean["first nodes"] + workload.edges * mean["first edges"]
        took_ps = workload.edges * mean["load"] + first_ps + (iterations - 1) * iteration_ps
        rpcs = 2 * workload.edges + iterations * (workload.nodes + workload.edges)
        run_rpcs = 2 * self.graph.edges + self.iterations * (self.graph.nodes + self.graph.edges)
        return {
            "nodes": workload.nodes,
            "edges": workload.edges,
            "iterations": iterations,
            "rpcs": rpcs,
            "execution_time_s": round(took_ps / 1e12, 9),
            "load_time_s": round(workload.edges * mean["load"] / 1e12, 9),
            "iteration_time_s": round(iteration_ps / 1e12, 9),
            "rpcs_run": run_rpcs,
            "edges_run": self.graph.edges,
            "wrong_records": self.wrong,
            "rank_sum": None if self.ranks is None else round(float(self.ranks.sum()), 9),
        }


@dataclass
class Caller:
    """A client process that calls, each call an operation of the history."""

    client: Role
    session: Any
    thread: Thread
    history: History
    clock: Clock
    metered: Metered | None
    process: int = 0

    def write(self, name: str, data: bytes) -> Code:
        """Write an object's bytes."""
        yield from self._call(RequestStep(UPDATE, name, data))

    def read(self, name: str) -> Code:
        """The bytes of an object, None where there is none."""
        return (yield from self._call(RequestStep(READ, name)))

    def _call(self, step: RequestStep) -> Code:
        operation = self.history.invoke(self.process, step.f, step.object, None, self.clock.now_ps)
        span = self.thread.span = Span(f"{step.f} {step.object} by client {self.process}")
        if self.metered is not None:
            self.metered.begins(self.thread)
        found = yield from self.client.perform(self.session, Request((step,), operation.number))
        self.history.complete(operation, "ok", self.clock.now_ps)
        if self.metered is not None:
            self.metered.ended(operation, self.thread, span)
        return found
