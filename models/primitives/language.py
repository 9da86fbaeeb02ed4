"""A flush primitive as data: the file of its author, read and complete, with every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .vocabulary import ACTIONS, Action, StepPlace

Value = str | bool | int | tuple[str, ...] | None
"""A parameter's value: durations are picoseconds, sizes bytes."""


@dataclass(frozen=True)
class Step:
    """One step: an action at a place, and the steps that it waits for."""

    id: str
    place: StepPlace
    do: str
    parameters: Mapping[str, Value]
    after: tuple[str, ...]
    """Ids of steps; ``update`` is the primitive's updates."""
    note: str = ""
    """Its source, or why it is assumed."""
    line: int | None = field(default=None, compare=False)

    @property
    def action(self) -> Action:
        """The action of the vocabulary that the step names."""
        return ACTIONS[self.place][self.do]

    def __getitem__(self, parameter: str) -> Value:
        return self.parameters[parameter]

    @property
    def hop(self) -> str:
        """The name of the step in traces."""
        return f"{self.place}: {self.id}"


@dataclass(frozen=True)
class Choice:
    """One reading of what sources leave open: parameters that it sets (``step.parameter``), steps that it drops."""

    source: str
    set: Mapping[str, Value] = field(default_factory=dict)
    drop: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrimitiveOption:
    """A switch: its readings by name, and the default one."""

    text: str
    default: str
    choices: Mapping[str, Choice]


@dataclass(frozen=True)
class Primitive:
    """The content of a primitive's file, with its switches set."""

    name: str
    title: str
    source: str
    status: str
    transport: tuple[str, ...]
    """The transports that it can run on; the first is the default."""
    follows: tuple[str, ...]
    """How updates may travel; the first is the default."""
    steps: tuple[Step, ...]
    complete: str
    """The step at whose end the requester takes the updates for durable; ``update``: their own completion."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """The claims of its source: condition, and where (``ddio off``), as schemes claim."""
    options: Mapping[str, PrimitiveOption] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)
    """The chosen reading of each option, by its name."""
    batching: int = 1
    """How many updates one run of the steps may cover."""
    memory: str = "any"
    """The memory that it is for: ``pmr`` for a drive's persistent memory region alone."""
    packet: str = ""
    """The name of the updates' own packets, where the responder's adapter acts on their arrival."""
    header_bytes: int = 0
    """The bytes that those packets carry beside the headers of the verb that they replace."""
    file: str = field(default="", compare=False)

    def step(self, id: str) -> Step:
        """The step of that id. Raises KeyError."""
        return {step.id: step for step in self.steps}[id]
