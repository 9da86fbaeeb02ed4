"""The names that a scenario is checked against, and how a mistake is reported to pydantic."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic import BeforeValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from ...protocols.objects import TAKES_OUT, verbs
from ...sim.errors import InputError, Mistake, listed, nearest
from ...sim.units import parse_duration_ps
from ...sim.yaml_source import FieldPath, describe

if TYPE_CHECKING:
    from ...protocols.naming import Option
    from ...protocols.scheme import Scheme


@dataclass(frozen=True)
class RoleFacts:
    """The facts of a role that a scenario needs; ``protocols.scheme.Role`` explains each."""

    many: bool = False
    invokes: bool = False
    passive: bool = False
    served: bool = False
    memory: tuple[str, ...] = ("dram",)
    machines: int | None = None
    """How many machines play it, where an option of the scheme says so."""
    per_client: bool = False
    software: tuple[str, ...] = ()
    at_least: int = 1
    """How many machines play it at least."""
    cores_for: Callable[[int, int, int], int] | None = None
    """How many cores a machine of it has, where that is known: for all clients, its processes and its threads."""
    hosts: bool = False

    @property
    def recovers(self) -> bool:
        """Whether a machine of it may fail and start again with recovery."""
        return not (self.invokes or self.passive)


@dataclass(frozen=True)
class SchemeFacts:
    """The facts of a scheme that a scenario needs: its roles and its operations."""

    roles: Mapping[str, RoleFacts]
    operations: tuple[str, ...]
    updates: frozenset[str]
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the scheme declares that its roles may suffer."""
    model: str = "register"
    loss_ps: int | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    """Its own."""
    mode_options: Mapping[str, Option] = field(default_factory=dict)
    """Those of the mode that it is on."""
    inserts: str | None = None
    """The operation that writes a key which was never there."""
    one_writer: bool = False
    """Whether a structure has one process that updates it: each object of a container, or else all together."""
    ages: bool = False
    """Whether a workload's past shapes its state."""
    scans: bool = False
    batches: bool = False
    """Whether a request may have several operations."""
    scans_by_reads: bool = False
    most_value_bytes: int | None = None
    most_clients: int | None = None
    limited_by: str = ""

    @property
    def verbs(self) -> tuple[str, str] | None:
        """What it has in the place of YCSB's update and read (``objects.verbs``); None: nothing."""
        return verbs(self.operations)

    @property
    def takes(self) -> bool:
        """Whether what stands for a read takes something out."""
        return self.verbs is not None and self.verbs[1] in TAKES_OUT

    @staticmethod
    def of(scheme: type[Scheme]) -> SchemeFacts:
        roles = {
            name: RoleFacts(
                role.many, role.invokes, role.passive, role.served,
                role.memory, None if role.counted_by is None else scheme.option(role.counted_by), role.per_client,
                role.software, 1 if role.at_least_by is None else scheme.option(role.at_least_by), role.cores_for,
                role.hosts,
            )
            for name, role in scheme.role_types.items()
        }  # fmt: skip
        loss, mode = scheme.loss_within, getattr(scheme, "mode", None)
        return SchemeFacts(
            roles, tuple(scheme.operations), frozenset(scheme.updates), scheme.faults, scheme.model,
            None if loss is None else parse_duration_ps(loss),
            scheme.options, {} if mode is None else mode.options, scheme.inserts,
            scheme.one_writer, scheme.ages(), scheme.scans,
            scheme.scans or scheme.batches, scheme.scans_by_reads, *scheme.limits,
        )  # fmt: skip


@dataclass(frozen=True)
class KnownNames:
    """The names that a scenario may use; :meth:`shipped` finds them, tests bring their own."""

    schemes: Mapping[str, SchemeFacts]
    platforms: Mapping[str, Mapping[str, tuple[str, ...]]]
    """The platforms, each with its switches and their positions: ``{"optane-adr": {"ddio": ("on", "off")}}``."""
    refused: Mapping[str, tuple[Mistake, ...]] = field(default_factory=dict)
    """Names that stand for no scheme, with what is wrong with them."""

    def switches(self) -> dict[str, tuple[str, ...]]:
        """The switches of all platforms."""
        found: dict[str, tuple[str, ...]] = {}
        for switches in self.platforms.values():
            for switch, positions in switches.items():
                found[switch] = tuple(dict.fromkeys((*found.get(switch, ()), *positions)))
        return found

    @staticmethod
    def shipped() -> KnownNames:
        """All schemes of ``protocols/`` and all platforms of ``models/platforms/``."""
        # Reading a schema needs no hardware, hence the imports here.
        from ...protocols.registry import schemes  # noqa: PLC0415

        return KnownNames({name: SchemeFacts.of(scheme) for name, scheme in schemes().items()}, _shipped_platforms())

    def with_profiles(self, paths: Sequence[str]) -> KnownNames:
        """These names and the platforms of a user's own files. Raises InputError with a file's mistakes."""
        if not paths:
            return self
        from ...models.profiles.platform import load_platform, platform_settings  # noqa: PLC0415

        own = {}
        for path in paths:
            load_platform(path)  # all of its mistakes, not just those that its settings would show
            own[path] = {name: setting.values for name, setting in platform_settings(path).items()}
        return replace(self, platforms={**self.platforms, **own})

    def with_composed(self, names: Iterable[str]) -> KnownNames:
        """These names and those of schemes with options, on a mode, over a primitive, or in a user's own file.

        A name that stands for no scheme is known as refused, with its mistakes. Raises InputError for what is wrong in
        the files that a name leads to.
        """
        new = [name for name in names if name not in self.schemes]
        if not new:
            return self
        from ...protocols.registry import is_more_than_listed, scheme  # noqa: PLC0415
        from .faults import check_claims  # noqa: PLC0415  # which is about this module's names

        found, refused = dict(self.schemes), dict(self.refused)
        for name in list(filter(is_more_than_listed, new)):  # before a file is loaded that has several of them
            try:
                kind = scheme(name)
                facts = SchemeFacts.of(kind)
                check_claims(kind.claims, facts, replace(self, schemes=found))
                found[name] = facts
            except InputError as error:
                if any(mistake.file for mistake in error.mistakes):
                    raise
                refused[name] = tuple(error.mistakes)
        return replace(self, schemes=found, refused=refused)


@functools.cache
def _shipped_platforms() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    from ...models.profiles.platform import platform_names, platform_settings  # noqa: PLC0415

    return {
        platform: {name: setting.values for name, setting in platform_settings(platform).items()}
        for platform in platform_names()
    }


@dataclass(frozen=True)
class Context:
    """The context of a field's check: known names, and the other fields of the same file (as far as valid)."""

    known: KnownNames
    chosen: Mapping[str, SchemeFacts]
    """The known ones among the scenario's schemes."""
    counts: Mapping[str, tuple[int, int]]
    """Machines and processes on each, of the roles for which the file says it properly."""
    processes: int
    """All client processes together; 0 where the file does not say it properly."""
    threads: Mapping[str, int] = field(default_factory=dict)
    """How many threads serve the requests of a role, where the file says it properly."""
    full_names: Mapping[str, str] = field(default_factory=dict)
    """The names of schemes with the scenario's options in them, by the names that the file has."""
    cores: Mapping[str, int] = field(default_factory=dict)
    """How many cores the threads of a role share, where the file says it properly."""

    def roles(self) -> dict[str, RoleFacts]:
        """The roles of all chosen schemes; of two that are called the same, one that there may be many of."""
        found: dict[str, RoleFacts] = {}
        for facts in self.chosen.values():
            for name, role in facts.roles.items():
                if name not in found or role.many:
                    found[name] = role
        return found

    def counted(self) -> dict[str, int]:
        """How many machines play the roles that options of the schemes count; the most where schemes differ."""
        found: dict[str, int] = {}
        for facts in self.chosen.values():
            for name, role in facts.roles.items():
                if role.machines is not None:
                    found[name] = max(found.get(name, 0), role.machines)
        return found

    def at_least(self) -> dict[str, int]:
        """How many machines play the roles of which one is not enough; the most where schemes differ."""
        found: dict[str, int] = {}
        for facts in self.chosen.values():
            for name, role in facts.roles.items():
                if role.at_least > 1:
                    found[name] = max(found.get(name, 0), role.at_least)
        return found

    def recovering(self) -> str:
        """The first role that recovers: whose power fails unless a scenario says otherwise."""
        roles = self.roles().items()
        passive = (name for name, role in roles if role.passive)
        return next((name for name, role in roles if role.recovers), next(passive, "server"))


@dataclass(frozen=True)
class Complaint:
    """One mistake inside a field; ``path`` leads on from the field (or from the root, if ``from_root``)."""

    found: str
    expected: str
    nearest: str | None = None
    path: FieldPath = ()
    from_root: bool = False


def collect(complaints: Sequence[Complaint]) -> PydanticCustomError:
    """Mistakes for pydantic to collect with all others; ``mistakes.py`` takes them out again."""
    return PydanticCustomError("rpsim", "not valid", {"complaints": tuple(complaints)})


def complaint(found: str, expected: str, hint: str | None = None) -> PydanticCustomError:
    """One mistake for pydantic to collect with all others."""
    return collect([Complaint(found, expected, hint)])


def name_of(what: str, value: Any, names: Iterable[str], command: str = "") -> str:
    """``value`` if it is one of ``names``, all of which a ``command`` prints; else a mistake with the nearest."""
    known = list(names)
    if isinstance(value, str) and value in known:
        return value
    names = listed(str(value), known, command) if known else "none is known"
    raise complaint(describe(value), f"{what}: {names}", nearest(str(value), known))


def role_complaints(context: Context) -> list[Complaint]:
    """Roles of which the file has more than the schemes can have."""
    roles = context.roles()
    wrong = [
        Complaint(str(number), f"1, since {name} has one thread for requests", None, ("roles", role, "threads"))
        for role, number in context.threads.items()
        for name, facts in context.chosen.items()
        if number > 1 and role in facts.roles and not facts.roles[role].served
    ]
    counted = context.counted()
    wrong += [
        Complaint(
            str(cores), f"at least {context.processes}: a thread of {name} spins for each client", None,
            ("roles", role, "cores"),
        )
        for role, cores in context.cores.items()
        for name, facts in context.chosen.items()
        if role in facts.roles and facts.roles[role].per_client and cores < context.processes
    ]  # fmt: skip
    for name, facts in context.chosen.items():
        if facts.most_clients is not None and context.processes > facts.most_clients:
            expected = f"at most {facts.most_clients} of {name}: {facts.limited_by}"
            wrong.append(Complaint(f"{context.processes} client processes", expected, path=("roles", "client")))
    wrong += [
        Complaint(
            str(machines), f"{counted[role]}, as the options of the schemes say", None, ("roles", role, "machines")
        )
        for role, (machines, _) in context.counts.items()
        if role in counted and machines != counted[role]
    ]
    wrong += [
        Complaint(
            str(context.counts[role][0]), f"at least {least}, as the options of the schemes say", None,
            ("roles", role, "machines"),
        )
        for role, least in context.at_least().items()
        if role in context.counts and context.counts[role][0] < least
    ]  # fmt: skip
    for role, (machines, processes) in context.counts.items():
        for unit, number in (("machines", machines), ("processes", processes)):
            of_machines = unit == "machines" and role in roles and (roles[role].many or role in counted)
            if number > 1 and role in roles and not (roles[role].invokes or of_machines):
                wrong.append(
                    Complaint(str(number), f"1, since these schemes have one {role}", path=("roles", role, unit))
                )
    return wrong


def context_of(info: ValidationInfo) -> Context:
    """The context that the validation runs in."""
    assert isinstance(info.context, Context)
    return info.context


def from_context(check: Callable[[Any, Context], Any]) -> BeforeValidator:
    """A field's check that looks at the context beside the value."""
    return BeforeValidator(lambda value, info: check(value, context_of(info)))
