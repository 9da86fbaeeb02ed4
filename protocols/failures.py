"""What may fail: machines of a role by their index, processes, everything; how schemes and scenarios name it."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

CLIENT = "client"
"""The role whose processes invoke operations: so scenarios and histories call it."""

POWER, PROCESS, LOST = "power", "process", "lost"
"""A machine loses power and comes back later, cold; a process dies and its machine starts another; a machine is lost
for good, with all that its memory held."""
KINDS = (POWER, PROCESS, LOST)
ALL = "all"
"""In the place of a role: every machine at once, those of clients too."""


@dataclass(frozen=True, slots=True)
class Failing:
    """One part that fails: a machine, by its role and index, or a process of it.

    Of clients ``process`` counts client processes through all machines; of other roles it is the machine's only one.
    """

    role: str
    index: int
    kind: str

    @property
    def client(self) -> bool:
        """Whether it is a machine or process of clients: these invoke operations and recover nothing."""
        return self.role == CLIENT

    @property
    def at(self) -> tuple[str, int]:
        """Role and index."""
        return self.role, self.index

    @property
    def place(self) -> str:
        """The machine as scenarios write it: ``data[0]``."""
        return f"{self.role}[{self.index}]"

    @override
    def __str__(self) -> str:
        return f"{self.place} {self.kind}"


def usual_kinds(*, invokes: bool, passive: bool) -> tuple[str, ...]:
    """What a role may suffer unless its scheme says otherwise: every machine may lose power, every process may die."""
    return (POWER,) if passive and not invokes else (POWER, PROCESS)
