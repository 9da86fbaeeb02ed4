"""``failures:`` of a scenario: what fails at stated instants of ``rpsim run``, while others go on."""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from ...protocols.failures import POWER
from .faults import Fault, FaultText
from .fields import InstantPs
from .known import complaint
from .maps import FileMap

DOWN_PS = 10**9
"""How long a machine without power is away unless the file says: 1 ms. A boot takes a thousand times longer, and leaves
the same picture: nothing but the length of the gap differs."""


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
        return any(part.kind == POWER and not part.client for part in self.fault.parts)

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
