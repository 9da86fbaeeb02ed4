"""PageRank over a graph whose records lie far away: the graph, its records as bytes, the iteration, their counts.

Source: Duan et al., SC'21, section 5.1 and figure 10: the graph lies in remote persistent memory, the ranks in the
client's DRAM; the public code (CGCL-codes/PRDMA, 0426c57) has a record of 32 bytes for each call, writes and reads each
edge while it loads the graph, then reads each edge and each node once in every iteration, until the ranks change by
less than 1e-7 in sum, at a damping of 0.8.

The paper's graphs (10,000 nodes and 72,000 edges; 69,000 and 276,000; 326,000 and 1,615,000) are not shipped. Here a
graph of any size is drawn from the seed: sources are uniform, and a node's expected in-degree falls with its place as a
power (Chung and Lu, PNAS 99(25), 2002), by the exponent 3 that Barabasi and Albert found (Science 286, 1999). How many
iterations it takes depends on the graph, how long a call takes does not.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from .keyspace import FirstValues, KeySpace

RECORD_BYTES = 32
DAMPING, TOLERANCE, MOST_ITERATIONS = 0.8, 1e-7, 75
"""A change of the ranks that shrinks by the damping alone is below the tolerance after 73 iterations."""
EXPONENT = 3.0
"""Of the distribution of in-degrees."""

EDGE, NODE = 1, 2
"""What a record is of. So none is all zeros, as the place of one that was never written."""
_RECORD = struct.Struct("<QQQQ")

Numbers = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.float64]


class Record(NamedTuple):
    """A record as it is read: of an edge its number and its two nodes, of a node its number and out-degree."""

    kind: int
    number: int
    first: int
    """The edge's source; the node's out-degree."""
    second: int
    """The edge's target; 0 of a node."""

    def pack(self, length: int) -> bytes:
        """Its bytes, filled up with zeros to ``length``."""
        return _RECORD.pack(*self).ljust(length, b"\0")

    @staticmethod
    def unpack(data: bytes | None) -> Record | None:
        """What ``data`` says; None where it is no record."""
        if data is None or len(data) < RECORD_BYTES:
            return None
        found = Record(*_RECORD.unpack_from(data))
        return found if found.kind in (EDGE, NODE) else None


@dataclass(frozen=True)
class Graph:
    """A directed graph: by edge its source and its target."""

    nodes: int
    sources: Numbers
    targets: Numbers

    @staticmethod
    def drawn(nodes: int, edges: int, random: np.random.Generator) -> Graph:
        """A graph of so many ``nodes`` (at least 2) and ``edges``, without loops."""
        weights = np.arange(1, nodes + 1, dtype=np.float64) ** (-1.0 / (EXPONENT - 1.0))
        limits = np.cumsum(weights)
        sources = random.integers(0, nodes, edges, dtype=np.int64)
        targets = np.searchsorted(limits / limits[-1], random.random(edges), side="right").astype(np.int64)
        targets = np.where(targets == sources, (targets + 1) % nodes, targets)
        return Graph(nodes, sources, targets)

    @property
    def edges(self) -> int:
        return len(self.sources)

    def degrees(self) -> Numbers:
        """By node the number of edges that leave it."""
        return np.bincount(self.sources, minlength=self.nodes).astype(np.int64)

    def edge(self, number: int) -> Record:
        """The record of an edge."""
        return Record(EDGE, number, int(self.sources[number]), int(self.targets[number]))

    def ranks(self, damping: float, tolerance: float, most: int) -> tuple[Ranks, int]:
        """The ranks, and after how many iterations they changed by less than the tolerance (``most`` at most)."""
        degrees = self.degrees()
        ranks: Ranks = np.full(self.nodes, 1.0 / self.nodes)
        for iteration in range(1, most + 1):
            each = np.divide(ranks, degrees, out=np.zeros(self.nodes), where=degrees > 0)
            arriving: Ranks = np.bincount(self.targets, each[self.sources], self.nodes).astype(np.float64)
            after = next_ranks(arriving, float(ranks[degrees == 0].sum()), damping)
            change = float(np.abs(after - ranks).sum())
            ranks = after
            if change < tolerance:
                return ranks, iteration
        return ranks, most


def next_ranks(arriving: Ranks, dangling: float, damping: float) -> Ranks:
    """Ranks after an iteration: what arrives over edges, and what has no edge to leave by (``dangling``), which goes to
    all nodes alike (Langville and Meyer, Internet Mathematics 1(3), 2004).
    """
    nodes = len(arriving)
    found: Ranks = (1.0 - damping) / nodes + damping * (arriving + dangling / nodes)
    return found


class NodeRecords(FirstValues):
    """What lies there before the run: the nodes' records, as objects ``k0`` and on."""

    def __init__(self, graph: Graph, record_bytes: int) -> None:
        super().__init__(KeySpace(graph.nodes))
        self._degrees = graph.degrees()
        self._bytes = record_bytes

    @override
    def value(self, number: int) -> bytes:
        return Record(NODE, number, int(self._degrees[number]), 0).pack(self._bytes)
