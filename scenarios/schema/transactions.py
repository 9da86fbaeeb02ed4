"""The ``workload`` of kind ``transactions``: SmallBank or TATP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer

from ...protocols.objects import TRANSACTIONAL
from ...sim.errors import nearest
from ..transactions import BENCHMARKS, MIXES
from .fields import KINDS, OF_THE_WORK, Count, CountOrZero, DurationPs, Operations, StoredBytes
from .known import Complaint, collect, complaint, context_of, name_of
from .maps import FileMap
from .workloads import Share, fewer_than_operations
from .writers import Writes, writer_complaints


class Transactions(FileMap):
    """Closed-loop clients with the transactions of a standard benchmark."""

    kind: Literal["transactions"] = Field(description=KINDS)
    benchmark: Literal["smallbank", "tatp"] = Field(description="smallbank or tatp")
    customers: Count = Field(description="how many customers there are, e.g. 1000")
    value_bytes: StoredBytes = Field(alias="value", description="the size of a row's value, e.g. '8 B'")
    operations: Operations = Field(description="how many transactions all processes perform together")
    mix: Literal["writes", "standard"] = Field(
        default="writes", description="writes: those that write alone; standard: with the benchmark's reads"
    )
    shares: dict[str, Share] | None = Field(
        default=None, min_length=1, description="the share of each transaction in place of a mix"
    )
    zipf: float = Field(default=0.0, strict=True, ge=0, le=10, description="the exponent of the customers' popularity")
    warmup: CountOrZero = Field(
        default=0, description="how many of the transactions come first and stay out of the statistics"
    )
    own: bool = Field(
        default=False, strict=True, validate_default=True, description="whether each process has customers of its own"
    )
    work_ps: DurationPs | None = Field(
        default=None, alias="work", description="how long a server computes for each request beside, e.g. '100 us'"
    )
    think_ps: DurationPs | None = Field(
        default=None, alias="think", description="a process's mean pause before a transaction, at random, e.g. '10 us'"
    )
    seed: Count | None = Field(default=None, description=OF_THE_WORK)

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {key: data[key] for key in ("kind", *data) if key in data}

    @property
    def keys(self) -> int:
        """The objects: all rows that there may be."""
        return self.customers * BENCHMARKS[self.benchmark].tables.each

    def drawn(self) -> dict[str, float]:
        """The share of each transaction."""
        return self.shares if self.shares is not None else BENCHMARKS[self.benchmark].shares(self.mix)

    @field_validator("kind", mode="after")
    @classmethod
    def _schemes_have_transactions(cls, value: str, info: ValidationInfo) -> str:
        for scheme, facts in context_of(info).chosen.items():
            if facts.model not in TRANSACTIONAL:
                operations = ", ".join(facts.operations)
                found = f"'transactions' for {scheme} (operations: {operations})"
                raise complaint(found, f"schemes whose model is {' or '.join(TRANSACTIONAL)}")
        return value

    @field_validator("benchmark", mode="before")
    @classmethod
    def _known_benchmark(cls, value: Any, info: ValidationInfo) -> str:
        return name_of("a benchmark", value, BENCHMARKS)

    @field_validator("mix", mode="before")
    @classmethod
    def _known_mix(cls, value: Any) -> str:
        return name_of("a mix of transactions", value, MIXES)

    @field_validator("shares", mode="after")
    @classmethod
    def _transactions_exist(cls, value: dict[str, float] | None, info: ValidationInfo) -> Any:
        benchmark = info.data.get("benchmark")
        if value is None or benchmark is None:
            return value
        known = list(BENCHMARKS[benchmark].transactions)
        expected = f"a transaction of {benchmark}: {', '.join(known)}"
        wrong = [Complaint(f"'{f}'", expected, nearest(f, known), (f,)) for f in value if f not in known]
        if abs(sum(value.values()) - 1) > 1e-9:
            wrong.append(Complaint(f"{sum(value.values()):g} in sum", "shares of 1 in sum"))
        if wrong:
            raise collect(wrong)
        return value

    @field_validator("customers", mode="after")
    @classmethod
    def _enough(cls, value: int, info: ValidationInfo) -> int:
        if value < 2 and info.data.get("benchmark") == "smallbank":
            raise complaint(str(value), "at least 2: some transactions are between two customers")
        return value

    _something_is_measured = field_validator("warmup", mode="after")(fewer_than_operations)

    @field_validator("own", mode="after")
    @classmethod
    def _customers_for_all(cls, value: bool, info: ValidationInfo) -> bool:
        processes, customers = context_of(info).processes, info.data.get("customers", 0)
        least = 2 * processes if info.data.get("benchmark") == "smallbank" else processes
        if value and 0 < customers < least:
            found = f"true with {customers} customers and {processes} processes"
            raise complaint(found, f"at least {least} customers")
        if not value:
            writes = [Writes(process, 0) for process in range(processes)]
            wrong = list(writer_complaints(context_of(info).chosen, lambda _: writes, "one process, or own: true"))
            if wrong:
                raise collect(wrong)
        return value
