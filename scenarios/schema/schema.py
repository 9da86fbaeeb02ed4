"""The fields of a scenario file; every model here is one map of such a file.

``Scenario`` is what :func:`rpsim.scenarios.schema.load.load_scenario` returns: validated, frozen, sizes in bytes, times
in picoseconds. :mod:`rpsim.scenarios.schema.mistakes` puts what pydantic finds into plain words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationInfo,
    field_validator,
    model_serializer,
)

from ...protocols.guarantees import Condition
from ...sim.errors import nearest
from ...sim.yaml_source import describe
from .equipment import KEYS, NEEDED, core_complaints, machine_complaints, scheme_complaints
from .failures import DrawnFailures, Failure
from .faults import DOWN_PS, USUAL, Fault, FaultText, conditions_after
from .fields import (
    MAX_COUNT,
    ConditionName,
    CoreText,
    Count,
    CountOrZero,
    Ddio,
    InstantPs,
    Machines,
    MachineText,
    Operations,
    PlatformName,
    RateBitsPerS,
    RoleName,
    SchemeName,
    SchemeNames,
    Selector,
    ValueBytes,
    VerdictName,
    check_vary,
)
from .known import Complaint, SchemeFacts, collect, complaint, context_of, name_of
from .listed import ListedWorkload
from .maps import FileMap
from .network import NetworkSection
from .perturbed import PAUSES, PAUSING, PERTURBED
from .ranking import PageRank
from .transactions import Transactions
from .workloads import Ycsb

Perturbed = Annotated[str, BeforeValidator(lambda value: name_of("something to perturb", value, list(PERTURBED)))]
MOST_NESTED = 9
"""The most power failures during recoveries that a fault may name."""


class Background(FileMap):
    """Other programs on a role's machines: they compute on its cores, take bandwidth of its memory, or send packets."""

    kind: Literal["compute", "memory", "network"] = Field(description="what they do: compute, memory or network")
    threads: Machines = Field(default=1, description="how many threads compute")
    device: str = Field(default="dram", description="the memory device whose bandwidth they take")
    bandwidth: RateBitsPerS | None = Field(default=None, description="how much of it, e.g. '10 GB/s'")
    to: MachineText | None = Field(default=None, description="the machine that they send to, e.g. 'server[0]'")
    size_bytes: ValueBytes | None = Field(default=None, alias="size", description="a message's size, e.g. '64 B'")
    rate: Count | None = Field(default=None, description="how many messages a machine wants to send in a second")

    @field_validator("kind", mode="before")
    @classmethod
    def _known_kind(cls, value: Any) -> str:
        return name_of("a kind of background load", value, list(NEEDED))

    @model_serializer(mode="wrap")
    def _as_needed(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        needed = [KEYS.get(name, name) for name in NEEDED[self.kind]]
        return {key: value for key, value in handler(self).items() if key == "kind" or key in needed}


class RoleCount(FileMap):
    """How often there is a role, and how its threads use the cores of its machines."""

    machines: Machines = Field(default=1, description="how many machines play the role")
    processes: Machines = Field(default=1, description="how many processes of it run on each machine")
    cores: Machines | None = Field(default=None, description="how many cores its threads share; else each has its own")
    threads: Machines = Field(default=1, description="how many threads serve its requests, each with a core")
    pinned: bool = Field(default=True, strict=True, description="whether threads stay on their cores: true or false")
    waits: Literal["poll", "sleep", "adaptive"] = Field(default="poll", description="poll, sleep or adaptive")
    core_type: str | None = Field(default=None, description="a kind of cores that the platforms have, e.g. arm-a72")
    retries: CountOrZero = Field(default=0, description="how often an operation of unknown outcome is tried again")
    background: tuple[Background, ...] = Field(default=(), description="a list of what runs on its machines beside")

    @field_validator("waits", mode="before")
    @classmethod
    def _known_way(cls, value: Any) -> str:
        return name_of("a way to wait for completions", value, ["poll", "sleep", "adaptive"])

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is as always, so that a file that says nothing of cores reads as it did."""
        data: dict[str, Any] = handler(self)
        usual: dict[str, object] = {
            "cores": None,
            "threads": 1,
            "pinned": True,
            "waits": "poll",
            "core_type": None,
            "retries": 0,
            "background": [],
        }
        return {key: value for key, value in data.items() if key not in usual or value != usual[key]}


class Outage(FileMap):
    """A stretch of time in which a core does nothing, as when an interrupt or a hypervisor has it."""

    core: CoreText = Field(description="the core, e.g. 'server[0] core 0'")
    at_ps: InstantPs = Field(alias="at", description="when it begins, e.g. '1.2 us'")
    for_ps: InstantPs = Field(alias="for", description="how long it lasts, e.g. '10 us'")


class Held(FileMap):
    """A queue pair whose packets an adapter has accepted and holds up: nothing bounds for how long it may."""

    machine: MachineText = Field(description="whose adapter, e.g. 'server[0]'")
    queue_pair: Count = Field(description="its number at that adapter, counted from 1 in the order of connecting")
    for_ps: InstantPs = Field(alias="for", description="how long each packet stays in the adapter, e.g. '20 us'")


EXPLORED_OTHERWISE = ("operations", "keys")
"""The fields of a workload that ``crash`` may have as well: so many of them where crashes are explored."""


class CrashSection(FileMap):
    """Which fault is explored, at which instants, over which crash states."""

    nested: Annotated[int, Field(strict=True, ge=1, le=MOST_NESTED)] | None = Field(
        default=None, description="how often power fails again, each time during the recovery from the time before"
    )
    fault: FaultText = Field(default=USUAL, validate_default=True, description="what fails, e.g. 'server[0] power'")
    down_ps: InstantPs | None = Field(
        default=None, alias="down", description="how long a machine without power is away (else 1 s), e.g. '2 s'"
    )
    instants: Literal["all"] | Count = Field(default="all", description="all, or how many instants to sample")
    view: Literal["adversarial", "timed"] = Field(default="adversarial", description="adversarial or timed")
    budget: Count | None = Field(default=None, description="after how many crash states a verdict is undecided")
    images: Count | None = Field(
        default=None, description="after how many images of an object at an instant it is given up (else 4,096)"
    )
    schedules: Annotated[Count, Field(le=1000)] = Field(
        default=1, description="how many schedules: the undisturbed one, then others in which servers' cores pause"
    )
    perturb: tuple[Perturbed, ...] | None = Field(
        default=None, min_length=1, description=f"what further schedules do otherwise: a list of {', '.join(PERTURBED)}"
    )
    first: CountOrZero | None = Field(
        default=None, description="the number of the schedule that comes first: its pauses left out, all else as drawn"
    )

    loss_ps: InstantPs | None = Field(
        default=None, alias="loss", description="the time of bounded_loss, e.g. '1 ms'; without it the scheme's"
    )
    operations: Operations | None = Field(
        default=None, description="how many operations are performed where crashes are explored (else all)"
    )
    keys: Count | None = Field(
        default=None, description="how many objects there are where crashes are explored (else all)"
    )

    @property
    def away_ps(self) -> int:
        """How long a machine without power is away."""
        return DOWN_PS if self.down_ps is None else self.down_ps

    @property
    def perturbed(self) -> tuple[str, ...]:
        """What further schedules do otherwise."""
        return self.perturb or (PAUSES,)

    @field_validator("fault", mode="after")
    @classmethod
    def _as_often_as_it_says(cls, value: Fault, info: ValidationInfo) -> Fault:
        nested = info.data.get("nested")
        if nested is not None and not value.recovered:
            found = f"'{value}' with nested: {nested}"
            raise complaint(found, "a server's power, which may fail again during recovery")
        return value if nested is None else value.nested(nested)

    @field_validator("instants", mode="before")
    @classmethod
    def _all_or_a_count(cls, value: Any) -> Any:
        if value == "all" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT):
            return value
        raise complaint(describe(value), "all, or how many instants to sample (at least 1)")

    @field_validator("view", mode="before")
    @classmethod
    def _known_view(cls, value: Any) -> str:
        return name_of("a view", value, ["adversarial", "timed"])


def _expectation_kind(value: Any) -> str:
    return "by variant" if isinstance(value, dict) else "always"


Failures = Annotated[
    Annotated[tuple[Failure, ...], Tag("listed")] | Annotated[DrawnFailures, Tag("drawn")],
    Discriminator(lambda value: "drawn" if isinstance(value, dict | DrawnFailures) else "listed"),
]
"""Failures at stated instants, or at random ones."""

Expected = Annotated[
    Annotated[VerdictName, Tag("always")] | Annotated[dict[Selector, VerdictName], Tag("by variant")],
    Discriminator(_expectation_kind),
]
"""A verdict for every variant, or by variant: ``{optane-adr: violated, optane-eadr: holds}``."""


@dataclass(frozen=True)
class Variant:
    """One run of a scenario: a scheme on a platform with its switches set."""

    scheme: str
    platform: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """The switches that the scenario sets (``{"ddio": "on"}``); others stay as the platform has them."""
    label: str = ""
    """The platform with its switches: ``optane-adr, ddio on``."""


def _platforms(info: ValidationInfo) -> list[str]:
    """The platforms of the scenario, as far as they are known."""
    return [name for name in (info.data.get("platform"), *info.data.get("vary", {}).get("platform", ())) if name]


class Scenario(FileMap):
    """A scenario: what is built, what is run, what must come out."""

    name: str = Field(alias="scenario", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="the scenario's name")
    title: str = Field(default="", description="one line that says what it shows")
    description: str = Field(default="", description="what it is about")
    seed: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)] = Field(
        1, description="the seed of all random choices"
    )
    platform: PlatformName | None = Field(default=None, description="a platform (or several, in vary)")
    ddio: Ddio | None = Field(default=None, description="on or off (or both, in vary)")
    vary: dict[str, tuple[str, ...]] = Field(
        {}, validate_default=True, description="what varies, e.g. {ddio: [on, off]}"
    )
    roles: dict[RoleName, RoleCount] = Field(default={}, description="how often there is each role")
    schemes: SchemeNames = Field(description="a list of schemes, e.g. [saw]")
    options: dict[str, Any] = Field(
        default={}, description="options of the schemes, e.g. {replicas: 2} or {clover: {replicas: 2}}"
    )
    workload: Annotated[
        Ycsb | PageRank | Transactions | ListedWorkload,
        Field(discriminator="kind", description="a map with the workload"),
    ]
    scale: Count = Field(default=1, description="how many times as many keys this stands for")
    crash: CrashSection = Field(default={}, validate_default=True, description="which crash is explored")
    failures: Failures = Field(default=(), description="what fails in a run: a list, or a map with of and availability")
    outages: tuple[Outage, ...] = Field(default=(), description="a list of outages of cores")
    held: tuple[Held, ...] | None = Field(default=None, description="a list of queue pairs that adapters hold up")
    network: NetworkSection | None = Field(default=None, description="what happens to packets, e.g. {loss: 0.001}")
    expect: dict[SchemeName, dict[ConditionName, Expected]] = Field(
        default={}, description="scheme -> condition -> verdict"
    )

    @field_validator("vary", mode="before")
    @classmethod
    def _known_axes(cls, value: Any, info: ValidationInfo) -> dict[str, tuple[str, ...]]:
        return check_vary(value, info)

    @field_validator("roles", mode="after")
    @classmethod
    def _platforms_have_it(cls, value: dict[str, RoleCount], info: ValidationInfo) -> dict[str, RoleCount]:
        wrong = machine_complaints(value, _platforms(info))
        if wrong:
            raise collect(wrong)
        return value

    @field_validator("schemes", mode="after")
    @classmethod
    def _platforms_have_what_they_need(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        wrong = scheme_complaints(context_of(info).chosen, _platforms(info))
        if wrong:
            raise collect(wrong)
        return value

    @field_validator("outages", mode="after")
    @classmethod
    def _machines_have_the_cores(cls, value: tuple[Outage, ...], info: ValidationInfo) -> tuple[Outage, ...]:
        wrong = core_complaints([one.core for one in value], info.data.get("roles", {}), context_of(info))
        if wrong:
            raise collect(wrong)
        return value

    @field_validator("expect", mode="after")
    @classmethod
    def _conditions_fit_the_fault(cls, value: dict[str, dict[str, Any]], info: ValidationInfo) -> Any:
        crash = info.data.get("crash")
        if isinstance(crash, CrashSection):
            schemes = context_of(info).known.schemes
            wrong = []
            for scheme, wanted in value.items():
                facts = schemes.get(scheme, SchemeFacts({}, (), frozenset()))
                fitting = list(map(str, conditions_after(crash.fault, facts.model)))
                for condition in wanted:
                    where = scheme, condition
                    if condition not in fitting:
                        expected = f"a condition that {crash.fault} is judged by: {', '.join(fitting)}"
                        wrong.append(Complaint(f"'{condition}'", expected, nearest(condition, fitting), where))
                    elif condition == Condition.BOUNDED_LOSS and crash.loss_ps is None and not facts.loss_ps:
                        found = f"'{condition}' without a time"
                        wrong.append(Complaint(found, "crash.loss, how long what is lost had returned", None, where))
            if wrong:
                raise collect(wrong)
        return value

    @field_validator("crash", mode="after")
    @classmethod
    def _explores_no_more_than_there_is(cls, value: CrashSection, info: ValidationInfo) -> CrashSection:
        workload, wrong = info.data.get("workload"), []
        for name in EXPLORED_OTHERWISE:
            most, fewer = getattr(workload, name, None), getattr(value, name)
            if workload is None or fewer is None:
                continue
            if not isinstance(workload, Ycsb):
                wrong.append(Complaint(f"{fewer} of a workload of kind {workload.kind}", "ycsb or mix", path=(name,)))
            elif isinstance(most, int) and fewer > most:
                wrong.append(Complaint(str(fewer), f"at most the workload's {most:,}", path=(name,)))
        if wrong:
            raise collect(wrong)
        return value

    def role(self, name: str) -> RoleCount:
        """How often there is the role; once if the file does not say."""
        return self.roles.get(name, RoleCount())

    def from_schedule(self, number: int) -> Scenario:
        """The same beginning with that schedule, its pauses left out."""
        crash, first = self.crash, (self.crash.first or 0) + number
        if not first or PAUSING.issuperset(crash.perturbed):
            return self
        return self.model_copy(update={"crash": crash.model_copy(update={"first": first})})

    def variants(self) -> list[Variant]:
        """All runs in the file's order: schemes outermost, then the axes of ``vary`` as they are written."""
        fixed = {"platform": self.platform, "ddio": self.ddio}
        axes = {axis: (value,) for axis, value in fixed.items() if value is not None} | self.vary
        variants = []
        for scheme, *values in product(self.schemes, *axes.values()):
            settings = dict(zip(axes, values, strict=True))
            platform = settings.pop("platform")
            label = ", ".join([platform, *(f"{switch} {position}" for switch, position in sorted(settings.items()))])
            variants.append(Variant(scheme, platform, settings, label))
        return variants

    def resolved(self) -> dict[str, Any]:
        """The whole scenario with all defaults, as plain data that :func:`scenario_from_data` reads again.

        Options stand in the names of the schemes.
        """
        left_out = {"options"} if self.failures else {"options", "failures"}
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=left_out)
