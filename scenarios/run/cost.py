"""The price of the machines of a run, from the prices that a platform states."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.profiles.parameters.cost import ADAPTER, HOST
from ...models.system import Node, System
from ...protocols.scheme import Scheme


def cost(system: System, kind: type[Scheme]) -> dict[str, int]:
    """By role the price of all its machines, in the platform's currency.

    A role is left out where the platform has no price of one of its machines' parts.
    """
    prices = {part: one.price for part, one in system.platform.cost.items()}
    found: dict[str, int] = {}
    for role, nodes in system.nodes.items():
        parts = [part for node in nodes for part in _parts(node, runs_code=not kind.role_types[role].passive)]
        if all(part in prices for part in parts):
            found[role] = sum(prices[part] for part in parts)
    return found


def _parts(node: Node, *, runs_code: bool) -> Iterator[str]:
    """The parts that a machine is bought in: a passive one needs no processor."""
    if runs_code:
        yield node.spec.core_type or HOST
    yield ADAPTER
    yield from node.spec.memory
