"""The field types of scenario files: each reports a wrong value and the expected ones in the words of its users."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo
from pydantic_core import PydanticCustomError

from ...protocols.guarantees import Condition, Verdict
from ...sim.errors import listed, nearest
from ...sim.units import (
    LONGEST,
    PS_PER_NS,
    PS_PER_US,
    TooLongError,
    format_bytes,
    parse_bytes,
    parse_duration_ps,
    parse_rate,
)
from ...sim.yaml_source import describe
from ..values import MIN_LENGTH
from .known import Complaint, Context, KnownNames, collect, complaint, context_of, from_context, name_of

LIST_SCHEMES, LIST_PLATFORMS = "rpsim list schemes", "rpsim list platforms"
MAX_VALUE_BYTES = 1 << 30
MAX_COUNT = 10**9
OPERATION_BYTES = 1 << 10
"""What a run keeps of an operation at the least: what is planned, and what the history says of it."""


def _listed(value: Any) -> Any:
    """One name stands for a list of one: ``schemes: saw``."""
    return [value] if isinstance(value, str) else value


def _no_twins(value: tuple[str, ...]) -> tuple[str, ...]:
    for i, name in enumerate(value):
        if name in value[:i]:
            raise complaint(f"'{name}' twice", "each name once")
    return value


def switch_position(switch: str, value: Any, known: KnownNames) -> str:
    """The position of a switch; ``true`` and ``false`` (which some tools write for on and off) count as well, and the
    numbers of positions that are such.
    """
    positions = known.switches().get(switch, ())
    value = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
    value = str(value) if isinstance(value, int) else value
    return name_of(f"a position of {switch}", value, positions)


# names -------------------------------------------------------------------------------------------------------------


def _scheme_name(value: Any, context: Context) -> str:
    """The full name of a scheme, with the scenario's options."""
    if isinstance(value, str) and value.endswith((".yaml", ".yml")) and " over " not in value:
        raise complaint(describe(value), f"a scheme: of a primitive's file as in 'word over {value}'")
    if isinstance(value, str) and value in context.known.refused:
        raise collect([Complaint(m.found, m.expected, m.nearest) for m in context.known.refused[value]])
    name = name_of("a scheme", value, context.known.schemes, LIST_SCHEMES)
    return context.full_names.get(name, name)


SchemeName = Annotated[str, from_context(_scheme_name)]
PlatformName = Annotated[str, from_context(lambda v, c: name_of("a platform", v, c.known.platforms, LIST_PLATFORMS))]
Ddio = Annotated[str, from_context(lambda v, c: switch_position("ddio", v, c.known))]
RoleName = Annotated[
    str, from_context(lambda v, c: name_of("a role of these schemes", v, c.roles()) if c.chosen else v)
]
_CONDITIONS = list(map(str, Condition))
ConditionName = Annotated[str, BeforeValidator(lambda v: name_of("a condition", v, _CONDITIONS))]
VerdictName = Annotated[str, BeforeValidator(lambda v: name_of("a verdict", v, [str(r) for r in Verdict]))]
SchemeNames = Annotated[
    tuple[SchemeName, ...], BeforeValidator(_listed), AfterValidator(_no_twins), Field(min_length=1, strict=False)
]


def _check_selector(value: Any, context: Context) -> str:
    positions = [f"{switch} {position}" for switch, all_of in context.known.switches().items() for position in all_of]
    known = [*context.known.platforms, *positions]
    for part in str(value).split(","):
        name_of("a platform, a switch, or several with ', '", part.strip(), known, LIST_PLATFORMS)
    return str(value)


Selector = Annotated[str, from_context(_check_selector)]
"""Which variants an expectation is for: ``optane-adr``, ``ddio on`` or ``optane-adr, ddio on``."""


def check_vary(value: Any, info: ValidationInfo) -> dict[str, tuple[str, ...]]:
    """The axes of ``vary`` in the file's order; also that there is a platform, and nothing both varied and set."""
    known = context_of(info).known
    if not isinstance(value, dict):
        raise complaint(describe(value), "a map from what varies to a list, e.g. {ddio: [on, off]}")
    wrong: list[Complaint] = []
    axes: dict[str, tuple[str, ...]] = {}
    may_vary = ["platform", *known.switches()]
    for axis, given in value.items():
        names = [given] if isinstance(given, str | bool) else given
        if axis not in may_vary:
            expected = f"something that may vary: {', '.join(may_vary)}"
            wrong.append(Complaint(f"'{axis}'", expected, nearest(axis, may_vary), (axis,)))
        elif not isinstance(names, list | tuple) or not names:
            wrong.append(Complaint(describe(given), "a list with at least one value", None, (axis,)))
        else:
            if info.data.get(axis) is not None:
                wrong.append(Complaint(f"both {axis} and vary.{axis}", "one of them", None, (axis,)))
            axes[axis] = tuple(_check_position(axis, name, known, i, wrong) for i, name in enumerate(names))
            for i, name in enumerate(axes[axis]):
                if name in axes[axis][:i]:
                    wrong.append(Complaint(f"'{name}' twice", "each value once", None, (axis, i)))
    if "platform" not in value and "platform" in info.data and info.data["platform"] is None:
        expected = f"a platform ({listed('', known.platforms, LIST_PLATFORMS)}), or several in vary"
        wrong.append(Complaint("nothing", expected, None, ("platform",), from_root=True))
    for platform in axes.get("platform", (info.data.get("platform"),)):
        switches = known.platforms.get(str(platform))
        missing = [axis for axis in axes if axis != "platform" and switches is not None and axis not in switches]
        wrong += [Complaint(f"a switch that {platform} does not have", "one that it has", None, (a,)) for a in missing]
    if wrong:
        raise collect(wrong)
    return axes


def _check_position(axis: str, name: Any, known: KnownNames, index: int, wrong: list[Complaint]) -> str:
    """A value of an axis; mistakes in it go to ``wrong``."""
    try:
        if axis == "platform":
            return name_of("a platform", name, known.platforms, LIST_PLATFORMS)
        return switch_position(axis, name, known)
    except PydanticCustomError as error:
        wrong.extend(replace(c, path=(axis, index)) for c in (error.context or {})["complaints"])
        return f"{name}[{index}]"


# numbers with units -----------------------------------------------------------------------------------------------


def _parse_size(value: Any) -> int:
    expected = "a size with its unit, e.g. '256 B' or '4 KiB'"
    if not isinstance(value, str):
        unit = " without a unit" if isinstance(value, int | float) and not isinstance(value, bool) else ""
        raise complaint(describe(value) + unit, expected)
    try:
        size = parse_bytes(value)
    except ValueError:
        if value.strip().startswith("-"):
            expected = f"a size of at least {MIN_LENGTH} B"
        raise complaint(describe(value), expected) from None
    if not MIN_LENGTH <= size <= MAX_VALUE_BYTES:
        raise complaint(
            describe(value), f"a size from {MIN_LENGTH} B (room for a stamp) to {MAX_VALUE_BYTES >> 30} GiB"
        )
    return size


def _parse_instant(value: Any) -> int:
    try:
        return parse_duration_ps(value)
    except TooLongError:
        raise complaint(describe(value), LONGEST) from None
    except (ValueError, TypeError):
        raise complaint(describe(value), "a time from the start with its unit, e.g. '1.2 us'") from None


def _parse_duration(value: Any) -> int:
    try:
        return parse_duration_ps(value)
    except TooLongError:
        raise complaint(describe(value), LONGEST) from None
    except (ValueError, TypeError):
        raise complaint(describe(value), "a time with its unit, e.g. '100 us'") from None


def exact_duration(duration_ps: int) -> str:
    """A duration as text that loses nothing: in the largest of us, ns, ps that divides it."""
    for unit, factor in (("us", PS_PER_US), ("ns", PS_PER_NS)):
        if duration_ps % factor == 0:
            return f"{duration_ps // factor} {unit}"
    return f"{duration_ps} ps"


def _parse_rate(value: Any) -> int:
    try:
        return parse_rate(value)
    except (ValueError, TypeError, AttributeError):
        raise complaint(describe(value), "a rate with its unit, e.g. '10 GB/s' or '40 Gb/s'") from None


_MACHINE = re.compile(r"\s*([A-Za-z_][\w-]*)\s*\[\s*(\d{1,6})\s*\]\s*")
_CORE = re.compile(r"([^\]]*\])\s+core\s+(\d{1,6})\s*")


def _parse_machine(value: Any, context: Context) -> tuple[str, int]:
    match = _MACHINE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise complaint(describe(value), "a role with its index, e.g. 'client[0]'")
    role, index = match[1], int(match[2])
    if context.chosen:
        name_of("a role of these schemes", role, context.roles())
    machines, _ = context.counts.get(role, (1, 1))
    if index >= machines:
        raise complaint(f"'{value}'", f"an index below {machines}: so many {role} machines there are, counted from 0")
    return role, index


def _parse_core(value: Any, context: Context) -> str:
    """A core of a machine that there is, ``server[0] core 0``; how many cores that has is checked with the roles."""
    match = _CORE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise complaint(describe(value), "a machine and the number of its core, e.g. 'server[0] core 0'")
    role, index = _parse_machine(match[1], context)
    return f"{role}[{index}] core {int(match[2])}"


MachineText = Annotated[
    tuple[str, int],
    from_context(_parse_machine),
    PlainSerializer(lambda place: f"{place[0]}[{place[1]}]", return_type=str),
]
CoreText = Annotated[str, from_context(_parse_core)]
RateBitsPerS = Annotated[
    int, BeforeValidator(_parse_rate), PlainSerializer(lambda rate: f"{rate} b/s", return_type=str)
]
ValueBytes = Annotated[int, BeforeValidator(_parse_size), PlainSerializer(format_bytes, return_type=str)]


def _fits_schemes(value: int, info: ValidationInfo) -> int:
    """A value's size that every scheme has room for."""
    for scheme, facts in context_of(info).chosen.items():
        if facts.most_value_bytes is not None and value > facts.most_value_bytes:
            expected = f"at most {format_bytes(facts.most_value_bytes)} with {scheme}: {facts.limited_by}"
            raise complaint(f"'{format_bytes(value)}'", expected)
    return value


StoredBytes = Annotated[ValueBytes, AfterValidator(_fits_schemes)]
InstantPs = Annotated[int, BeforeValidator(_parse_instant), PlainSerializer(exact_duration, return_type=str)]
DurationPs = Annotated[int, BeforeValidator(_parse_duration), PlainSerializer(exact_duration, return_type=str)]
Machines = Annotated[int, Field(strict=True, ge=1, le=10_000)]
KINDS = "the kind of workload: ycsb, mix, pagerank, transactions or schedule"
Count = Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=MAX_COUNT)]


def _fits_memory(value: int) -> int:
    """A number of operations that a run on this machine can keep."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // OPERATION_BYTES
    if value > most:
        kept = format_bytes(OPERATION_BYTES)
        raise complaint(f"{value:,}", f"at most {most:,}: a run keeps {kept} or more of each in this machine's memory")
    return value


Operations = Annotated[Count, AfterValidator(_fits_memory)]
OperationsOrZero = Annotated[CountOrZero, AfterValidator(_fits_memory)]
OF_THE_WORK = "the seed of what the workload draws, so that every run has the same work; without it the run's"
