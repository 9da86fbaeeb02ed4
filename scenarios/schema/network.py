"""The faults of a scenario's network: ``network: {loss: 0.001, delay: 2 us}``, or chosen packets."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from ...models.fabric.disturbance import Disturbance, PacketFault
from ...sim.yaml_source import describe
from .fields import Count, InstantPs
from .known import Complaint, collect, complaint, context_of, name_of

_MACHINE = re.compile(r"(.+)\[(\d{1,6})\]")


def _machine(value: object, info: ValidationInfo) -> str:
    """A machine by role and number: ``server[0]``."""
    match = _MACHINE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise complaint(describe(value), "a machine, e.g. 'server[0]'")
    context = context_of(info)
    if context.chosen:
        name_of("a role of these schemes", match[1], context.roles())
    machines = context.counts.get(match[1], (1, 1))[0]
    if int(match[2]) >= machines:
        raise complaint(f"'{value}'", f"a machine below {match[1]}[{machines}]: so many there are, counted from 0")
    return match[0]


def _probability(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise complaint(describe(value), "a probability from 0 to 1, e.g. 0.001")
    return float(value)


Machine = Annotated[str, BeforeValidator(_machine)]
Probability = Annotated[float, BeforeValidator(_probability)]


class ChosenPacket(BaseModel):
    """What happens to one packet of a path."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Machine = Field(alias="from", description="the machine that sends it, e.g. 'client[0]'")
    destination: Machine = Field(alias="to", description="the machine that it is for, e.g. 'server[0]'")
    packet: Count = Field(description="its number among those that go this way, from 1")
    lost: Annotated[bool, Field(strict=True)] = Field(default=False, description="true: it is lost")
    delay_ps: InstantPs = Field(default=0, alias="delay", description="how long it is held up, e.g. '5 us'")
    repeated_after_ps: InstantPs | None = Field(
        default=None, alias="repeated_after", description="how much later it comes once more, e.g. '5 us'"
    )

    def fault(self) -> PacketFault:
        """The faults as the fabric's own type."""
        return PacketFault(self.source, self.destination, self.packet, self.lost, self.delay_ps, self.repeated_after_ps)


class NetworkSection(BaseModel):
    """What happens to packets on their way, at random or chosen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    loss: Probability = Field(default=0.0, description="the probability that a packet is lost, e.g. 0.001")
    delay_ps: InstantPs = Field(
        default=0, alias="delay", description="how long a packet may be held up, e.g. '2 us'; the order is kept"
    )
    reorder: Probability = Field(
        default=0.0, description="the probability that a packet is held up by itself, so that others overtake it"
    )
    repeat: Probability = Field(default=0.0, description="the probability that a packet comes twice")
    packets: tuple[ChosenPacket, ...] = Field(default=(), description="a list of chosen packets")

    @field_validator("reorder", mode="after")
    @classmethod
    def _held_up_for_how_long(cls, value: float, info: ValidationInfo) -> float:
        if value and info.data.get("delay_ps") == 0:
            raise complaint(f"{value} without a delay", "a 'delay' as well: how long a packet may be held up")
        return value

    @field_validator("packets", mode="after")
    @classmethod
    def _each_packet_once(cls, value: tuple[ChosenPacket, ...]) -> tuple[ChosenPacket, ...]:
        wrong, seen = [], set()
        for index, chosen in enumerate(value):
            which = chosen.source, chosen.destination, chosen.packet
            if which in seen:
                found = f"packet {chosen.packet} from {chosen.source} to {chosen.destination} a second time"
                wrong.append(Complaint(found, "each packet once", path=(index, "packet")))
            seen.add(which)
        if wrong:
            raise collect(wrong)
        return value

    def disturbance(self) -> Disturbance:
        """The network as the fabric's own type."""
        packets = tuple(chosen.fault() for chosen in self.packets)
        return Disturbance(self.loss, self.delay_ps, self.reorder, self.repeat, packets)
