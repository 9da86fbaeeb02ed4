"""The ``workload`` of a scenario: YCSB's mixes, and listed operations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer

from ...protocols.objects import SYNCS
from ..ycsb import DELETE, MIXES, READ, UPDATE
from .fields import Count, CountOrZero, InstantPs, ValueBytes
from .known import Complaint, collect, complaint, context_of, name_of
from .maps import FileMap


class Ycsb(FileMap):
    """Closed-loop clients with one of YCSB's mixes over Zipfian keys."""

    kind: Literal["ycsb"] = Field(description="the kind of workload: ycsb or schedule")
    mix: Annotated[str, Field(description=f"the mix of updates and reads: {', '.join(MIXES)}")]
    keys: Count = Field(description="how many objects there are")
    value_bytes: ValueBytes = Field(alias="value", description="the size of a value, e.g. '256 B'")
    operations: Count = Field(description="how many operations all processes perform together")
    zipf: float = Field(default=0.99, strict=True, ge=0, le=10, description="the exponent of the keys' popularity")
    warmup: CountOrZero = Field(
        default=0, description="how many of the operations come first and stay out of the statistics"
    )
    deletes: float = Field(
        default=0.0, strict=True, ge=0, le=1, description="the share of the updates that delete, e.g. 0.2"
    )

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without deletes where there are none, so that a file that says nothing of them reads as it did."""
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key != "deletes" or value}

    @field_validator("deletes", mode="after")
    @classmethod
    def _schemes_delete(cls, value: float, info: ValidationInfo) -> float:
        for scheme, facts in context_of(info).chosen.items():
            if value and DELETE not in facts.operations:
                raise complaint(f"deletes for {scheme}, whose paper gives it none", f"schemes with {DELETE}")
        return value

    @field_validator("mix", mode="before")
    @classmethod
    def _known_mix(cls, value: Any) -> str:
        return name_of("a mix", value.lower() if isinstance(value, str) else value, MIXES)

    @field_validator("kind", mode="after")
    @classmethod
    def _schemes_have_operations(cls, value: str, info: ValidationInfo) -> str:
        for scheme, facts in context_of(info).chosen.items():
            if not {UPDATE, READ} <= set(facts.operations):
                operations = ", ".join(facts.operations)
                raise complaint(f"'ycsb' for {scheme} (operations: {operations})", f"schemes with {UPDATE} and {READ}")
        return value

    @field_validator("warmup", mode="after")
    @classmethod
    def _something_is_measured(cls, value: int, info: ValidationInfo) -> int:
        operations = info.data.get("operations")
        if operations is not None and value >= operations:
            raise complaint(str(value), f"fewer than the {operations} operations")
        return value


class ScheduledOperation(FileMap):
    """One operation of a process, in this process's order, not before a time."""

    process: CountOrZero = Field(description="the number of the client process, counted from 0")
    f: str = Field(description="the operation, e.g. put")
    object: str = Field(default="", description="the object, e.g. k17; none of a transaction and of a sync of all")
    at_ps: InstantPs = Field(default=0, alias="at", description="when it may be invoked, e.g. '1.2 us'")
    stamp: Count | None = Field(default=None, description="what an update writes; without it the operation's number")
    argument: int | None = Field(
        default=None,
        strict=True,
        description="a number that is added or allocated; the stamp that a cas expects, or of a set's element",
    )
    steps: tuple[tuple[Literal["r", "w", "append"], str], ...] | None = Field(
        default=None, min_length=1, description="the steps of a transaction, e.g. [[r, k0], [w, k1]]"
    )
    batch: CountOrZero | None = Field(
        default=None, description="a number: neighbours of a process with the same are acknowledged together"
    )

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without an object where there is none."""
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key != "object" or value}

    @field_validator("process", mode="after")
    @classmethod
    def _process_exists(cls, value: int, info: ValidationInfo) -> int:
        processes = context_of(info).processes
        if processes and value >= processes:
            raise complaint(str(value), f"a process below {processes}: so many there are, counted from 0")
        return value

    @field_validator("f", mode="before")
    @classmethod
    def _operation_exists(cls, value: Any, info: ValidationInfo) -> Any:
        for scheme, facts in context_of(info).chosen.items():
            name_of(f"an operation of {scheme}", value, facts.operations)
        return value


def _needs_object(operation: ScheduledOperation) -> bool:
    return operation.f not in ("txn", *SYNCS)


class ListedWorkload(FileMap):
    """An explicit list of operations: what a counterexample replays."""

    kind: Literal["schedule"] = Field(description="the kind of workload: ycsb or schedule")
    keys: Count = Field(description="how many objects there are")
    value_bytes: ValueBytes = Field(alias="value", description="the size of a value, e.g. '256 B'")
    operations: tuple[ScheduledOperation, ...] = Field(min_length=1, description="a list of operations")
    room: Count | None = Field(
        default=None, description="for how many updates stores make room; without it for those that are listed"
    )
    loaded: CountOrZero | None = Field(
        default=None, description="how many of the objects, from k0 on, are there before time zero; without it all"
    )

    @property
    def warmup(self) -> int:
        """A schedule has none: everything counts."""
        return 0

    @field_validator("operations", mode="after")
    @classmethod
    def _objects_exist(cls, value: tuple[ScheduledOperation, ...], info: ValidationInfo) -> Any:
        keys = info.data.get("keys")
        last = f"k{keys - 1}" if keys else "the last key"
        wrong = []
        seen: set[int | None] = set()
        for i, operation in enumerate(value):
            named = [(operation.object, ("object",))] if operation.object or _needs_object(operation) else []
            named += [(name, ("steps", turn)) for turn, (_, name) in enumerate(operation.steps or ())]
            for name, where in named:
                number = name.removeprefix("k")
                if not (number.isdecimal() and f"k{int(number)}" == name and (keys is None or int(number) < keys)):
                    wrong.append(Complaint(f"'{name}'", f"an object from k0 to {last}", path=(i, *where)))
            if operation.f == "txn" and (operation.object or not operation.steps):
                found = f"'{operation.object}'" if operation.object else "nothing"
                wrong.append(Complaint(found, "steps of the transaction, and no object", path=(i, "steps")))
            elif operation.steps and operation.f != "txn":
                wrong.append(Complaint(f"steps of {operation.f}", "steps of a txn", path=(i, "steps")))
            if operation.stamp is not None and operation.stamp in seen:
                wrong.append(Complaint(f"{operation.stamp} a second time", "a stamp of its own", path=(i, "stamp")))
            seen.add(operation.stamp)
        if wrong:
            raise collect(wrong)
        return value
