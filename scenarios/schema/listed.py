"""The ``workload`` of kind ``schedule``: listed operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from ...protocols.objects import LOOKS, SYNCS
from ...sim.yaml_source import FieldPath, describe
from ..transactions import STEPS
from .fields import KINDS, Count, CountOrZero, DurationPs, InstantPs, StoredBytes
from .known import Complaint, SchemeFacts, collect, complaint, context_of, name_of
from .maps import FileMap
from .workloads import refuse_batches
from .writers import Writes, writer_complaints


def _step(value: Any) -> tuple[Any, ...]:
    """A step of a transaction: (kind, object), behind which ``add`` says by how much it changes the object's number."""
    parts = tuple(value) if isinstance(value, list | tuple) else ()
    named = 2 <= len(parts) <= 3 and isinstance(parts[0], str) and isinstance(parts[1], str)
    if not named or (len(parts) == 3) is not (parts[0] == "add") or not all(type(one) is int for one in parts[2:]):
        raise complaint(describe(value), "a step of two, e.g. [r, k0], or of three with add: [add, k0, -500]")
    name_of("the kind of a step", parts[0], STEPS)
    return parts


Step = Annotated[tuple[Any, ...], BeforeValidator(_step)]


def _is_object(name: Any, keys: int | None) -> bool:
    """Whether it is the name of one of so many objects."""
    number = name.removeprefix("k") if isinstance(name, str) else ""
    return number.isdecimal() and f"k{int(number)}" == name and (keys is None or int(number) < keys)


class ScheduledOperation(FileMap):
    """One operation of a process, in this process's order, not before a time."""

    process: CountOrZero = Field(description="the number of the client process, counted from 0")
    f: str = Field(description="the operation, e.g. put")
    object: str = Field(
        default="",
        validate_default=True,
        description="the object, e.g. k17; none of a transaction and of a sync of all",
    )
    at_ps: InstantPs = Field(default=0, alias="at", description="when it may be invoked, e.g. '1.2 us'")
    stamp: Count | None = Field(default=None, description="what an update writes; without it the operation's number")
    argument: int | None = Field(
        default=None,
        strict=True,
        description="a number that is added or allocated; the stamp that a cas expects, or of a set's element",
    )
    steps: tuple[Step, ...] | None = Field(
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

    @field_validator("object", mode="after")
    @classmethod
    def _is_there(cls, value: str, info: ValidationInfo) -> str:
        if not value and info.data.get("f", "txn") not in ("txn", *SYNCS):
            raise complaint("nothing", "the object, e.g. k17")
        return value

    @field_validator("batch", mode="after")
    @classmethod
    def _schemes_batch(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None:
            refuse_batches(value, info)
        return value

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


class ListedWorkload(FileMap):
    """An explicit list of operations: what a counterexample replays."""

    kind: Literal["schedule"] = Field(description=KINDS)
    keys: Count = Field(description="how many objects there are")
    value_bytes: StoredBytes = Field(alias="value", description="the size of a value, e.g. '256 B'")
    operations: tuple[ScheduledOperation, ...] = Field(min_length=1, description="a list of operations")
    room: Count | None = Field(
        default=None, description="for how many updates stores make room; without it for those that are listed"
    )
    loaded: int | tuple[str, ...] | None = Field(
        default=None,
        description="how many of the objects, from k0 on, are there before time zero, or which; without it all",
    )
    work_ps: DurationPs | None = Field(
        default=None, alias="work", description="how long a server computes for each request beside, e.g. '100 us'"
    )

    own: Count | None = Field(
        default=None, description="how many objects in turn belong to each process; without it all belong to all"
    )

    @property
    def warmup(self) -> int:
        """A schedule has none: everything counts."""
        return 0

    @field_validator("loaded", mode="before")
    @classmethod
    def _objects_there(cls, value: Any, info: ValidationInfo) -> int | tuple[str, ...] | None:
        keys = info.data.get("keys")
        if value is None or (type(value) is int and 0 <= value <= (keys or value)):
            return value
        names = tuple(value) if isinstance(value, list | tuple) else ()
        strange = [name for name in names if not _is_object(name, keys)]
        if strange or not names:
            found = describe(strange[0] if strange else value)
            raise complaint(found, f"how many of the {keys} objects, or a list of them, e.g. [k0, k2]")
        return names

    @field_validator("operations", mode="after")
    @classmethod
    def _objects_exist(cls, value: tuple[ScheduledOperation, ...], info: ValidationInfo) -> Any:
        keys = info.data.get("keys")
        last = f"k{keys - 1}" if keys else "the last key"
        wrong = []
        seen: set[int | None] = set()
        for i, operation in enumerate(value):
            named: list[tuple[str, FieldPath]] = [(operation.object, ("object",))] if operation.object else []
            named += [(step[1], ("steps", turn)) for turn, step in enumerate(operation.steps or ())]
            for name, where in named:
                if not _is_object(name, keys):
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

    @model_validator(mode="after")
    def _one_writes(self, info: ValidationInfo) -> ListedWorkload:
        """Structures with one writer have one; where each process has its own it is not asked which."""
        if self.own is None:
            chosen, remedy = context_of(info).chosen, "one, the updates of other processes left out, or own: 1"
            wrong = list(writer_complaints(chosen, lambda facts: _writes(self.operations, facts), remedy))
            if wrong:
                raise collect(wrong)
        return self


def _writes(operations: tuple[ScheduledOperation, ...], facts: SchemeFacts) -> Iterator[Writes]:
    """What each process writes."""
    for one in operations:
        if one.steps is not None:
            yield from (Writes(one.process, int(step[1][1:])) for step in one.steps if step[0] not in LOOKS)
        elif one.f in facts.updates:
            yield Writes(one.process, int(one.object[1:]))
