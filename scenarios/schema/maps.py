"""What all maps of a scenario file have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FileMap(BaseModel):
    """A map of a scenario file: no unknown keys, frozen, finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
