"""The ``workload`` of a scenario: YCSB's mixes, shares of any operations, groups of processes, listed operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from ...protocols.objects import OPERATIONS, SYNCS, TRANSACTION, Takes
from ..ycsb import DELETE, LATEST, LONGEST_SCAN, MIXES, READ, UPDATE, Shares
from .fields import (
    KINDS,
    OF_THE_WORK,
    Count,
    CountOrZero,
    DurationPs,
    InstantPs,
    Operations,
    OperationsOrZero,
    StoredBytes,
)
from .known import Complaint, SchemeFacts, collect, complaint, context_of, name_of
from .maps import FileMap
from .writers import Writes, writer_complaints

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
MixName = Annotated[
    str, BeforeValidator(lambda value: name_of("a mix", value.lower() if isinstance(value, str) else value, MIXES))
]
Order = Literal["drawn", "alternating", "rotating", "phases"]
TURNS = ("alternating", "rotating")
"""The orders in which updates and reads take turns."""
MOST_IN_A_BATCH = 1024
_OWN_SHARES = ("reads", "inserts", "scans", "modifies")
_USUAL: dict[str, object] = {
    "order": "drawn", "deletes": 0, "scan_length": LONGEST_SCAN, "steps": 2, "amount": 1,
    "batch": 1, "past": 0, "own": False, "groups": [],
}  # fmt: skip
"""The defaults of fields that a file which says nothing of them is written without."""


def fewer_than_operations(value: int, info: ValidationInfo) -> int:
    """A warm-up after which something is left to be measured."""
    operations = info.data.get("operations")
    if operations is not None and value >= operations:
        raise complaint(str(value), f"fewer than the {operations} operations")
    return value


class Draws(FileMap):
    """What processes draw; a field that a group leaves out is as in the workload."""

    mix: MixName | None = Field(default=None, description=f"the mix of operations: {', '.join(MIXES)}")
    reads: Share | None = Field(default=None, description="the share of reads, e.g. 0.7; the rest are updates")
    inserts: Share | None = Field(default=None, description="the share of writes of new keys")
    scans: Share | None = Field(default=None, description="the share of scans")
    modifies: Share | None = Field(default=None, description="the share of read-modify-writes")
    shares: dict[str, Share] | None = Field(
        default=None, min_length=1, description="the share of each operation, e.g. {push: 0.5, pop: 0.5}"
    )

    def drawn(self) -> Shares:
        """The shares of YCSB's kinds: the mix's, or those that are given; the rest are updates."""
        given = {name: getattr(self, name) for name in _OWN_SHARES if getattr(self, name) is not None}
        if not given:
            return MIXES[self.mix or "c"]
        reads = given.pop("reads", 0.0)
        return Shares(updates=max(0.0, 1.0 - reads - sum(given.values())), **given)

    @field_validator(*_OWN_SHARES, mode="after")
    @classmethod
    def _at_most_all(cls, value: float | None, info: ValidationInfo) -> float | None:
        own = [info.data.get(name) for name in _OWN_SHARES if name != info.field_name]
        total = (value or 0.0) + sum(share for share in own if isinstance(share, float))
        if total > 1 + 1e-9:
            raise complaint(f"{value:g}, {total:g} with the other shares", "shares of 1 in sum at most")
        return value

    @field_validator("inserts", "scans", "modifies", "mix", mode="after")
    @classmethod
    def _schemes_can(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None or (isinstance(value, float) and not value):
            return value
        shares = MIXES[value] if isinstance(value, str) else Shares(**{str(info.field_name): value})
        for scheme, facts in context_of(info).chosen.items():
            lacks = _lacking(shares, facts)
            if lacks:
                operations = ", ".join(facts.operations)
                what = f"mix {value}" if isinstance(value, str) else info.field_name
                raise complaint(f"{what} for {scheme} (operations: {operations})", f"schemes with {lacks}")
        return value

    @field_validator("shares", mode="after")
    @classmethod
    def _operations_exist(cls, value: dict[str, float] | None, info: ValidationInfo) -> Any:
        if value is None:
            return None
        wrong = []
        for scheme, facts in context_of(info).chosen.items():
            takes = OPERATIONS[facts.model]
            drawn = [f for f in facts.operations if f not in SYNCS and (f not in takes or _drawable(f, takes[f][0]))]
            for f in value:
                if f not in drawn:
                    expected = f"an operation of {scheme} whose arguments can be drawn: {', '.join(drawn)}"
                    wrong.append(Complaint(f"'{f}'", expected, path=(f,)))
        if abs(sum(value.values()) - 1) > 1e-9:
            wrong.append(Complaint(f"{sum(value.values()):g} in sum", "shares of 1 in sum"))
        if wrong:
            raise collect(list(dict.fromkeys(wrong)))
        return value


def _drawable(f: str, takes: Takes) -> bool:
    """Whether an operation's argument can be drawn: not the value that a compare-and-swap expects, nor an element."""
    return takes is not Takes.PAIR and f not in ("contains", "remove")


def _lacking(shares: Shares, facts: SchemeFacts) -> str:
    """What these shares need beside put and get and a scheme has not; empty if it has all."""
    lacks = ["scans"] if shares.scans and not (facts.scans or facts.scans_by_reads) else []
    lacks += ["an insert of new keys"] if shares.inserts and facts.inserts is None else []
    return " and ".join(lacks)


class ClientGroup(Draws):
    """Processes with work of their own, which is that of the workload where the group says nothing else."""

    processes: Count = Field(description="how many client processes it has, counted on from the group before")
    begin_ps: InstantPs = Field(default=0, alias="begin", description="when they begin, e.g. '10 us'")
    first: CountOrZero = Field(default=0, description="the number of its first key")
    keys: Count | None = Field(default=None, description="how many of the objects its keys are, from the first on")
    operations: Operations | None = Field(
        default=None, description="how many operations its processes perform together"
    )
    zipf: float | None = Field(
        default=None, strict=True, ge=0, le=10, description="the exponent of its keys' popularity"
    )
    until: Literal["others"] | None = Field(
        default=None, description="others: its processes, which only read, begin anew until all others have done theirs"
    )

    @field_validator("until", mode="before")
    @classmethod
    def _known_end(cls, value: Any) -> str | None:
        return None if value is None else name_of("until when a group goes on", value, ["others"])


class Ycsb(Draws):
    """Closed-loop clients with one of YCSB's mixes over Zipfian keys, or with shares of any operations."""

    kind: Literal["ycsb", "mix"] = Field(description=KINDS)
    keys: Count = Field(description="how many objects there are")
    value_bytes: StoredBytes = Field(alias="value", description="the size of a value, e.g. '256 B'")
    operations: Operations = Field(description="how many operations all processes perform together")
    zipf: float = Field(default=0.99, strict=True, ge=0, le=10, description="the exponent of the keys' popularity")
    warmup: CountOrZero = Field(
        default=0, description="how many of the operations come first and stay out of the statistics"
    )
    order: Order = Field(
        default="drawn",
        description="drawn: at random; alternating: updates and reads in a fixed turn, an update first; "
        "rotating: so, or one operation of `shares`, on a process's keys in a fixed turn, which begins at its number; "
        "phases: all of the first operation in `shares`, then all of the next",
    )
    deletes: float = Field(
        default=0.0, strict=True, ge=0, le=1, description="the share of the updates that delete, e.g. 0.2"
    )
    scan_length: Count = Field(default=LONGEST_SCAN, description="how many keys the longest scan reads")
    loaded: CountOrZero | None = Field(
        default=None, description="how many of the objects, from k0 on, are there before time zero; without it all"
    )
    steps: Annotated[Count, Field(le=64)] = Field(default=2, description="how many steps a transaction has")
    step_reads: Share | None = Field(default=None, description="the share of reads among the steps; without it 0.5")
    amount: Count = Field(default=1, description="what is added, or how many bytes are allocated")
    batch: Annotated[Count, Field(le=MOST_IN_A_BATCH)] = Field(
        default=1, description="how many operations of a process are one request, acknowledged together"
    )
    work_ps: DurationPs | None = Field(
        default=None, alias="work", description="how long a server computes for each request beside, e.g. '100 us'"
    )
    think_ps: DurationPs | None = Field(
        default=None, alias="think", description="a process's mean pause before an operation, at random, e.g. '10 us'"
    )
    past: OperationsOrZero = Field(
        default=0, description="how many operations came before time zero, and shaped the state"
    )
    own: bool = Field(
        default=False, strict=True, description="whether each process has objects of its own, every so many-th"
    )
    groups: tuple[ClientGroup, ...] = Field(default=(), description="a list of groups of processes")
    seed: Count | None = Field(default=None, description=OF_THE_WORK)

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is as always, so that a file that says nothing of it reads as it did."""
        data: dict[str, Any] = handler(self)
        first = ("kind", "mix", "keys", "value", "operations", "zipf", "warmup")
        ordered = {key: data[key] for key in (*first, *data) if key in data}
        return {key: value for key, value in ordered.items() if key not in _USUAL or value != _USUAL[key]}

    @property
    def loaded_keys(self) -> int:
        """How many objects are there before time zero."""
        return self.loaded if self.loaded is not None else 0 if self.mix == "load" else self.keys

    @field_validator("order", mode="before")
    @classmethod
    def _known_order(cls, value: Any) -> str:
        return name_of("an order of the operations", value, get_args(Order))

    @field_validator("deletes", mode="after")
    @classmethod
    def _schemes_delete(cls, value: float, info: ValidationInfo) -> float:
        for scheme, facts in context_of(info).chosen.items():
            if value and DELETE not in facts.operations:
                raise complaint(f"deletes for {scheme}, whose paper gives it none", f"schemes with {DELETE}")
        return value

    @field_validator("kind", mode="after")
    @classmethod
    def _schemes_have_operations(cls, value: str, info: ValidationInfo) -> str:
        for scheme, facts in context_of(info).chosen.items():
            if value == "ycsb" and facts.verbs is None:
                operations = ", ".join(facts.operations)
                raise complaint(f"'ycsb' for {scheme} (operations: {operations})", f"schemes with {UPDATE} and {READ}")
        return value

    _something_is_measured = field_validator("warmup", mode="after")(fewer_than_operations)

    @field_validator("loaded", mode="after")
    @classmethod
    def _no_more_than_there_are(cls, value: int | None, info: ValidationInfo) -> int | None:
        keys = info.data.get("keys")
        if value is not None and keys is not None and value > keys:
            raise complaint(str(value), f"at most the {keys} keys")
        return value

    @field_validator("steps", mode="after")
    @classmethod
    def _of_different_objects(cls, value: int, info: ValidationInfo) -> int:
        keys = info.data.get("keys")
        if TRANSACTION in (info.data.get("shares") or {}) and keys is not None and value > keys:
            raise complaint(str(value), f"at most the {keys} keys: each step has an object of its own")
        return value

    @field_validator("batch", mode="after")
    @classmethod
    def _schemes_batch(cls, value: int, info: ValidationInfo) -> int:
        if value > 1:
            refuse_batches(value, info)
        return value

    @field_validator("past", mode="after")
    @classmethod
    def _schemes_age(cls, value: int, info: ValidationInfo) -> int:
        for scheme, facts in context_of(info).chosen.items():
            if value and not facts.ages:
                raise complaint(f"{value} for {scheme}", "0: its state does not depend on what came before")
        return value

    @model_validator(mode="after")
    def _is_one_kind(self, info: ValidationInfo) -> Ycsb:
        """A mix or shares as its kind has it, keys that are there, and as many processes as there are."""
        wrong: list[Complaint] = []
        own = [name for name in _OWN_SHARES if getattr(self, name) is not None]
        if self.kind == "mix" and (self.shares is None or self.mix is not None or own):
            wrong.append(Complaint("a workload of kind mix", "shares of its operations, and no mix", path=("shares",)))
        if self.kind == "ycsb" and self.shares is not None:
            wrong.append(Complaint("shares in a workload of kind ycsb", "kind: mix", path=("shares",)))
        if self.kind == "ycsb" and self.mix is None and not own and not (self.groups and all(map(_says, self.groups))):
            wrong.append(Complaint("nothing", f"the mix of operations: {', '.join(MIXES)}", path=("mix",)))
        if self.mix is not None and own:
            wrong.append(Complaint(f"mix and {own[0]}", "one of them", path=(own[0],)))
        if self.mix == "load" and not self.groups and self.keys - self.loaded_keys < self.operations:
            there = f", {self.loaded_keys} of them loaded" if self.loaded_keys else ""
            found = f"{self.keys} keys{there}, for {self.operations} operations"
            wrong.append(Complaint(found, "a new key for each operation of load", path=("keys",)))
        drawn = [part.draws.drawn() for part in self.parts(1) if part.draws.shares is None]
        if self.batch > 1 and any(shares.scans or shares.modifies for shares in drawn):
            found = f"batches of {self.batch} with scans or read-modify-writes"
            wrong.append(Complaint(found, "batches of operations that do not wait for each other", path=("batch",)))
        one = self.order == "rotating" and all(len(part.draws.shares or ()) == 1 for part in self.parts(1))
        if self.order in TURNS and not one and not all(_turns(part.draws) for part in self.parts(1)):
            found = f"{self.order} with inserts, scans, read-modify-writes or shares of other operations"
            wrong.append(Complaint(found, "reads and updates alone", path=("order",)))
        if self.order == "phases" and any(part.draws.shares is None for part in self.parts(1)):
            wrong.append(
                Complaint("phases without shares", "kind: mix, with shares of its operations", path=("order",))
            )
        processes = context_of(info).processes
        if self.groups and processes and sum(group.processes for group in self.groups) != processes:
            found = f"groups of {sum(group.processes for group in self.groups)} processes"
            wrong.append(Complaint(found, f"the {processes} client processes", path=("groups",)))
        for number, part in enumerate(self.parts(processes)):
            where = ("groups", number) if self.groups else ()
            if _looks(part) and (part.keys < 1 or part.first + part.keys > self.loaded_keys):
                found = f"keys up to k{part.first + part.keys - 1}" if part.keys > 0 else "no key"
                there = f"keys below k{self.loaded_keys}: so many are loaded"
                wrong.append(Complaint(found, there, path=(*where, "keys")))
            if self.own and part.keys < processes:
                wrong.append(
                    Complaint(f"true with {part.keys} keys", f"a key for each of {processes} processes", path=("own",))
                )
            if self.own and part.draws.shares is None and (part.draws.drawn().scans or part.draws.mix == LATEST):
                wrong.append(Complaint("true with scans or the newest keys", "reads, updates, inserts", path=("own",)))
        chosen = context_of(info).chosen
        for number, group in enumerate(self.groups):
            if group.until and (writing := next((name for name in chosen if self.written(chosen[name])[number]), None)):
                found = f"until others, and updates ({writing})"
                wrong.append(Complaint(found, "a group that only reads", path=("groups", number, "until")))
        if self.groups and all(group.until for group in self.groups):
            wrong.append(Complaint("until others of every group", "a group that ends", path=("groups", 0, "until")))
        remedy = "one: groups: [{processes: 1}, {processes: 3, reads: 1.0}], or own: true"
        if not self.own:
            wrong += writer_complaints(chosen, lambda facts: self._writes(facts, processes), remedy)
        if wrong:
            raise collect(wrong)
        return self

    def written(self, facts: SchemeFacts) -> list[bool]:
        """Whether each part's processes update anything."""
        takes, found = facts.takes, []
        for part in self.parts(1):
            if part.draws.shares is not None:
                reading = part.draws.shares.keys() - facts.updates
                if TRANSACTION in part.draws.shares and self.step_reads == 1:
                    reading |= {TRANSACTION}
                found.append(any(part.draws.shares[f] for f in part.draws.shares.keys() - reading))
            else:
                shares = part.draws.drawn()
                found.append(takes or bool(shares.updates + shares.inserts + shares.modifies))
        return found

    def _writes(self, facts: SchemeFacts, processes: int) -> Iterator[Writes]:
        """What each process writes."""
        before = 0
        for part, writes in zip(self.parts(processes), self.written(facts), strict=True):
            for process in range(before, before + part.processes) if writes else ():
                yield Writes(process, part.first, part.keys)
            before += part.processes

    def parts(self, processes: int) -> list[Part]:
        """What each group draws; without groups one part with all ``processes``."""
        if not self.groups:
            keys = self.keys if self.shares is not None else self.loaded_keys
            return [Part(self, processes, 0, 0, keys, self.operations, self.zipf)]
        share, rest = divmod(self.operations, max(1, sum(group.processes for group in self.groups)))
        found, before = [], 0
        for group in self.groups:
            usual = share * group.processes + max(0, min(rest, before + group.processes) - before)
            before += group.processes
            keys = group.keys if group.keys is not None else self.loaded_keys - group.first
            draws = group if _says(group) or group.shares is not None else self
            zipf = self.zipf if group.zipf is None else group.zipf
            found.append(
                Part(draws, group.processes, group.begin_ps, group.first, keys, group.operations or usual, zipf)
            )
        return found


def refuse_batches(value: int, info: ValidationInfo) -> None:
    """A complaint about a batch if a scheme takes none."""
    for scheme, facts in context_of(info).chosen.items():
        if not facts.batches:
            expected = "a scheme that takes batches, such as wflush-rpc (docs/objects.md)"
            raise complaint(f"{value} for {scheme}, which takes one operation at a time", expected)


class Part(NamedTuple):
    """Processes that draw alike."""

    draws: Draws
    processes: int
    begin_ps: int
    first: int
    """The number of their first key."""
    keys: int
    operations: int
    zipf: float

    def number(self, drawn: int, process: int, own_of: int) -> int:
        """The number of a key that a process has drawn; where ``own_of`` processes have their own, one of these."""
        return self.first + drawn if not own_of else self.first + (process - self.first) % own_of + drawn * own_of


def _says(draws: Draws) -> bool:
    """Whether it says which of YCSB's operations are drawn."""
    return draws.mix is not None or any(getattr(draws, name) is not None for name in _OWN_SHARES)


def _looks(part: Part) -> bool:
    """Whether it draws keys that have to be there."""
    return part.draws.shares is None and part.draws.drawn().inserts < 1


def _turns(draws: Draws) -> bool:
    """Whether it has updates and reads alone, which may take turns."""
    return draws.shares is None and not any(draws.drawn()._replace(updates=0.0))
