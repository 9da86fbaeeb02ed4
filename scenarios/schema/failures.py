"""``failures:`` of a scenario: what fails in ``rpsim run`` while others go on, at stated instants or at random ones."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from ...protocols.failures import LOST, POWER
from .faults import Fault, FaultText
from .fields import Count, DurationPs, InstantPs
from .known import complaint
from .maps import FileMap

DOWN_PS = 10**9
"""How long a machine without power is away unless the file says: 1 ms. A boot takes a thousand times longer, and leaves
the same picture: nothing but the length of the gap differs."""


REPAIR_PS, RESEND_PS = 300 * 10**9, 100 * 10**9
"""A unikernel virtual machine starts again within 300 ms, and a client sends again after 100 ms: Duan et al., SC'21,
section 5.4."""


class DrawnFailures(FileMap):
    """Failures of a server at random instants, repairs, and clients who send again what has not been answered.

    The time to the next failure is drawn exponentially (a Poisson process), from the first answer behind a repair on:
    so failures may come often, and each costs what one costs where they are rare. Its mean is ``every``, or follows
    from the availability A and the time of a repair R: R A / (1 - A).
    """

    of: FaultText = Field(description="what fails, e.g. 'server[0] process'")
    availability: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = Field(
        default=None, description="the share of time in which the server is there, e.g. 0.999"
    )
    every_ps: DurationPs | None = Field(
        default=None, validate_default=True, alias="every", description="the mean time to the next failure, e.g. '1 s'"
    )
    repair_ps: DurationPs = Field(
        default=REPAIR_PS, validate_default=False, alias="repair", description="how long a repair takes, e.g. '300 ms'"
    )
    resend_after_ps: DurationPs = Field(
        default=RESEND_PS,
        validate_default=False,
        alias="resend_after",
        description="after what time without an answer a client sends again, e.g. '100 ms'",
    )
    told: bool = Field(default=False, strict=True, description="whether clients are told that a process is gone")
    rpcs: Count | None = Field(default=None, description="of how many operations the time is computed, e.g. 1_000_000")

    @property
    def mean_ps(self) -> float:
        """The mean time from a repair to the next failure in the run."""
        return float(self.every_ps) if self.every_ps is not None else self.available_ps

    @property
    def available_ps(self) -> float:
        """The same as the availability has it; without one as it is in the run."""
        if self.availability is None:
            return float(self.every_ps or 0)
        return self.repair_ps * self.availability / (1.0 - self.availability)

    @field_validator("of", mode="after")
    @classmethod
    def _is_repaired(cls, value: Fault) -> Fault:
        if value.then is not None or value.again or len(value.parts) != 1 or value.client or value.part.kind == LOST:
            raise complaint(f"'{value}'", "a machine or a process that comes back, e.g. 'server[0] process'")
        return value

    @field_validator("every_ps", mode="after")
    @classmethod
    def _is_given(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is None and "availability" in info.data and info.data["availability"] is None:
            raise complaint("nothing", "availability, or the mean time to the next failure, e.g. '1 s'")
        if value == 0:
            raise complaint("0", "more than nothing")
        return value

    @field_validator("repair_ps", "resend_after_ps", mode="after")
    @classmethod
    def _takes_time(cls, value: int) -> int:
        if not value:
            raise complaint("0", "more than nothing")
        return value


class Failure(FileMap):
    """Machines or processes that fail at one instant; machines that lose power come back."""

    at_ps: InstantPs = Field(alias="at", description="when it fails, e.g. '100 us'")
    fault: FaultText = Field(description="what fails, e.g. 'data[0] lost'")
    down_ps: InstantPs = Field(
        default=DOWN_PS, validate_default=False, alias="down", description="how long power is away, e.g. '2 ms'"
    )

    @property
    def comes_back(self) -> bool:
        """Whether a machine is switched on again."""
        return any(part.kind == POWER and (self.fault.hosted or not part.client) for part in self.fault.parts)

    @field_validator("fault", mode="after")
    @classmethod
    def _happens_once(cls, value: Fault, info: ValidationInfo) -> Fault:
        if not value.parts or value.then is not None or value.again:
            raise complaint(
                f"'{value}'", "machines or processes that fail at one instant, e.g. 'data[0] + data[1] power'"
            )
        return value

    @field_validator("down_ps", mode="after")
    @classmethod
    def _something_comes_back(cls, value: int, info: ValidationInfo) -> Any:
        fault = info.data.get("fault")
        if isinstance(fault, Fault) and not any(part.kind == POWER for part in fault.parts):
            raise complaint(f"down of '{fault}'", "down of machines that lose power: nothing else comes back")
        return value
