"""Hypothesis strategies: workloads, platforms with their switches, faults, whole scenarios. Needs ``hypothesis``."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from ...models.profiles.platform import platform_names, platform_settings
from ...protocols.failures import ALL, CLIENT, POWER, PROCESS
from ...protocols.scheme import Scheme
from ...scenarios.arguments import OperationFields, ScheduleFields
from ...scenarios.build import Draft
from ...scenarios.schema.faults import AGAIN, kinds_of
from ...scenarios.schema.known import SchemeFacts
from ...scenarios.schema.schema import Scenario
from .checks import needs_class

LONGEST_NS = 20_000
"""The longest time between the earliest instants of two operations of a process: some operations' time."""


@st.composite
def workloads(
    draw: st.DrawFn,
    scheme: type[Scheme],
    *,
    keys: int = 2,
    clients: int = 2,
    most: int = 8,
    value: str = "64 B",
) -> ScheduleFields:
    """The ``workload`` map of a scenario: up to ``most`` operations of ``clients`` processes on ``keys`` objects."""
    needs_class(scheme)
    operations: list[OperationFields] = []
    for _ in range(draw(st.integers(1, most))):
        at_ns = draw(st.integers(0, LONGEST_NS))
        operation: OperationFields = {
            "process": draw(st.integers(0, clients - 1)),
            "f": draw(st.sampled_from(scheme.operations)),
            "object": f"k{draw(st.integers(0, keys - 1))}",
        }
        if at_ns:
            operation["at"] = f"{at_ns} ns"
        operations.append(operation)
    return {"kind": "schedule", "keys": keys, "value": value, "operations": operations}


@st.composite
def platforms(draw: st.DrawFn, names: tuple[str, ...] = ()) -> tuple[str, dict[str, str]]:
    """A platform and a position for each of its switches; ``names`` are those to choose from (default: all)."""
    name = draw(st.sampled_from(names or tuple(platform_names())))
    return name, {switch: draw(st.sampled_from(values)) for switch, values in _switches(name).items()}


@functools.cache
def _switches(platform: str) -> dict[str, tuple[str, ...]]:
    return {switch: setting.values for switch, setting in platform_settings(platform).items()}


def faults(scheme: type[Scheme], clients: int = 2) -> st.SearchStrategy[str]:
    """A fault that the scheme can be explored with: of one machine or process, or of all."""
    needs_class(scheme)
    facts = SchemeFacts.of(scheme)
    found = []
    for role, played in scheme.role_types.items():
        places = {PROCESS: range(clients)} if played.invokes else {}
        kinds = kinds_of(role, facts)
        found += [f"{role}[{number}] {kind}" for kind in kinds for number in places.get(kind, (0,))]
        found += [f"{role}[0] {AGAIN}"] if played.recovers() and POWER in kinds else []
    if sum(not role.invokes for role in scheme.role_types.values()) > 1:
        found += [f"{ALL} {kind}" for kind in kinds_of(ALL, facts)]
    return st.sampled_from(found)


@st.composite
def scenarios(draw: st.DrawFn, /, scheme: type[Scheme], *, clients: int = 2, **how: Any) -> Scenario:
    """A scenario of one variant: workload, platform, fault and seed drawn; ``how`` is as for :func:`workloads`."""
    platform, settings = draw(platforms())
    return Draft.new(
        "a drawn scenario",
        scenario="drawn",
        seed=draw(st.integers(0, 2**32)),
        vary={"platform": [platform], **{switch: [position] for switch, position in settings.items()}},
        schemes=[scheme.name],
        roles={CLIENT: {"machines": 1, "processes": clients}},
        workload=draw(workloads(scheme, clients=clients, **how)),
        crash={"fault": draw(faults(scheme, clients))},
    ).build()
