"""The ``workload`` of kind ``pagerank``: PageRank over a graph that lies in the servers' memory."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer

from ..pagerank import DAMPING, MOST_ITERATIONS, RECORD_BYTES, TOLERANCE
from ..ycsb import READ, UPDATE
from .fields import KINDS, Count, DurationPs, StoredBytes
from .known import complaint, context_of
from .maps import FileMap

LEAST_SAMPLE = 512
"""So many records are more than the smallest caches of a sampled run hold."""


class PageRank(FileMap):
    """One client computes PageRank from the records that it reads: load the graph, then iterate."""

    kind: Literal["pagerank"] = Field(description=KINDS)
    nodes: Annotated[Count, Field(ge=2)] = Field(description="how many nodes the graph has, at least 2")
    edges: Count = Field(description="how many edges the graph has")
    value_bytes: StoredBytes = Field(
        default=RECORD_BYTES, alias="value", description="the size of a record, e.g. '32 B'"
    )
    damping: float = Field(default=DAMPING, strict=True, gt=0, lt=1, description="the damping, e.g. 0.8")
    tolerance: float = Field(
        default=TOLERANCE, strict=True, gt=0, le=1, description="below which change of all ranks it ends"
    )
    iterations: Count = Field(default=MOST_ITERATIONS, description="after how many iterations it ends at the latest")
    sample: Annotated[Count, Field(ge=LEAST_SAMPLE)] | None = Field(
        default=None, description="how many edges are run, of which the whole is computed; without it all"
    )
    work_ps: DurationPs | None = Field(
        default=None, alias="work", description="how long a server computes for each request beside, e.g. '100 us'"
    )

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: data[key] for key in ("kind", *data) if key in data}

    @property
    def factor(self) -> int:
        """How many times as large the graph is as the one that is run."""
        return 1 if self.sample is None else max(1, self.edges // self.sample)

    @property
    def run_nodes(self) -> int:
        """The nodes of the graph that is run."""
        return max(2, self.nodes // self.factor)

    @property
    def run_edges(self) -> int:
        """The edges of the graph that is run."""
        return self.edges // self.factor

    @property
    def keys(self) -> int:
        """The objects of a run: its nodes' records, then its edges'."""
        return self.run_nodes + self.run_edges

    @property
    def warmup(self) -> int:
        """All calls count."""
        return 0

    @field_validator("kind", mode="after")
    @classmethod
    def _schemes_store_records(cls, value: str, info: ValidationInfo) -> str:
        context = context_of(info)
        for scheme, facts in context.chosen.items():
            if facts.inserts != UPDATE or not {UPDATE, READ} <= set(facts.operations):
                found = f"'pagerank' for {scheme} (operations: {', '.join(facts.operations)})"
                raise complaint(found, f"schemes with {UPDATE}, also of new objects, and {READ}")
        if context.processes > 1:
            raise complaint(f"'pagerank' with {context.processes} client processes", "one: the ranks are in its memory")
        return value

    @field_validator("value_bytes", mode="after")
    @classmethod
    def _holds_a_record(cls, value: int) -> int:
        if value < RECORD_BYTES:
            raise complaint(f"{value} B", f"at least {RECORD_BYTES} B: a record's four numbers")
        return value
