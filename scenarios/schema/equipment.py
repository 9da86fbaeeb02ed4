"""The scenario's fields about a role's machines, checked against the platforms and the other roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...sim.errors import nearest
from ...sim.yaml_source import FieldPath
from .known import Complaint, Context, SchemeFacts

if TYPE_CHECKING:
    from ...models.profiles.platform import Platform
    from .schema import Background, RoleCount

NEEDED = {
    "compute": ("threads",),
    "memory": ("device", "bandwidth"),
    "network": ("to", "size_bytes", "rate"),
}
"""The fields of a background load of each kind; none of another kind's."""
KEYS = {"size_bytes": "size"}


def machine_complaints(roles: Mapping[str, RoleCount], platforms: Sequence[str]) -> list[Complaint]:
    """Kinds of cores, memory and bandwidth that platforms have not; loads that say too little or too much."""
    wrong = [
        complaint
        for role, count in roles.items()
        for index, load in enumerate(count.background)
        for complaint in _fields(role, load, (role, "background", index))
    ]
    if wrong or not any(count.core_type is not None or count.background for count in roles.values()):
        return wrong
    from ...models.profiles.platform import load_platform  # noqa: PLC0415  # reading a schema needs no hardware otherwise

    return [
        complaint
        for name in platforms
        for role, count in roles.items()
        for complaint in _of_platform(load_platform(name), role, count)
    ]


def core_complaints(cores: Sequence[str], roles: Mapping[str, RoleCount], context: Context) -> list[Complaint]:
    """Cores of outages, ``server[0] core 0``, that no scheme's machine has; the most cores count where they differ."""
    wrong = []
    for index, core in enumerate(cores):
        machine, _, number = core.rpartition(" core ")
        role = machine.partition("[")[0]
        known = [facts.roles[role].cores_for for facts in context.chosen.values() if role in facts.roles]
        has = [_cores(count_for, roles.get(role), context) for count_for in known if count_for is not None]
        if has and int(number) >= max(has):
            expected = f"a core below {max(has)}: so many cores {machine} has, counted from 0"
            wrong.append(Complaint(f"'{core}'", expected, None, (index, "core")))
    return wrong


def _cores(cores_for: Callable[[int, int, int], int], count: RoleCount | None, context: Context) -> int:
    """How many cores a machine has, those of its loads on the network too."""
    if count is None:
        return cores_for(context.processes, 1, 1)
    others = sum(load.kind == "network" for load in count.background)
    return (count.cores or cores_for(context.processes, count.processes, count.threads)) + others


def scheme_complaints(schemes: Mapping[str, SchemeFacts], platforms: Sequence[str]) -> list[Complaint]:
    """What a role of a scheme needs and a platform has not: memory, or else a cost of software that it states."""
    from ...models.profiles.platform import load_platform  # noqa: PLC0415  # reading a schema needs no hardware otherwise

    roles = [(scheme, role, own) for scheme, facts in schemes.items() for role, own in facts.roles.items()]
    found: dict[tuple[str, str, str], Complaint] = {}
    for name in platforms if any(own.software or set(own.memory) - {"dram"} for _, _, own in roles) else ():
        platform = load_platform(name)
        devices, costs = list(platform.memory), list(platform.cpu.software)
        with_memory, with_costs = ", ".join(devices), ", ".join(costs) or "no costs of software"
        for scheme, role, own in roles:
            where, lacking = (list(schemes).index(scheme),), [one for one in own.memory if one not in devices]
            for device in lacking:
                need = f"{scheme}, whose {role} needs the memory device '{device}'"
                remedy = f"a scheme for the memory of {name}: {with_memory}"
                found.setdefault((name, scheme, device), Complaint(need, remedy, nearest(device, devices), where))
            cost = next((one for one in own.software if one not in costs), None)
            if cost is not None and not lacking:
                need = f"{scheme}, whose {role} needs the cost of the software '{cost}'"
                remedy = f"a scheme for {name}, which states {with_costs}"
                found.setdefault((name, scheme, cost), Complaint(need, remedy, nearest(cost, costs), where))
    return list(found.values())


def _fields(role: str, load: Background, path: FieldPath) -> Iterator[Complaint]:
    needed = NEEDED[load.kind]
    for fields in NEEDED.values():
        for name in fields:
            key, given = KEYS.get(name, name), name in load.model_fields_set
            if name not in needed and given:
                yield Complaint(f"'{key}' of a load of kind {load.kind}", _listed(needed), None, (*path, key))
    missing = [KEYS.get(name, name) for name in needed if getattr(load, name) is None]
    if missing:
        yield Complaint(f"a load of kind {load.kind} without {missing[0]}", _listed(needed), None, path)
    elif load.to is not None and load.to[0] == role:
        yield Complaint(f"'{load.to[0]}[{load.to[1]}]'", f"a machine of another role than {role}", None, (*path, "to"))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(KEYS.get(name, name) for name in names)


def _of_platform(platform: Platform, role: str, count: RoleCount) -> Iterator[Complaint]:
    from ...models.memory.bandwidth import without  # noqa: PLC0415

    kinds, devices = list(platform.cpu.types), list(platform.memory)
    if count.core_type is not None and count.core_type not in kinds:
        expected = f"a kind of cores of {platform.name}: {', '.join(kinds) or 'it has none'}"
        yield Complaint(f"'{count.core_type}'", expected, nearest(count.core_type, kinds), (role, "core_type"))
    taken: list[tuple[str, int]] = []
    for index, load in enumerate(count.background):
        path = (role, "background", index)
        if load.bandwidth is None:
            continue
        if load.device not in devices:
            expected = f"a memory device of {platform.name}: {', '.join(devices)}"
            yield Complaint(f"'{load.device}'", expected, nearest(load.device, devices), (*path, "device"))
            continue
        taken.append((load.device, load.bandwidth))
        try:
            without(platform, taken)
        except ValueError as error:
            yield Complaint(str(error), "less", None, (*path, "bandwidth"))
