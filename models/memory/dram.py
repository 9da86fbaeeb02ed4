"""DRAM: which row each bank of a DIMM holds open, so that a read next to the one before is nearer.

Closed form of DDR4 with open pages: a load that finds its row open takes ``MediaParameters.near_load_ps``; any other
opens it first (precharge and activate) and takes ``MediaParameters.load_ps``. Refresh, bank groups and the turn-around
of the bus are not modelled; they are part of the measured bandwidth.
"""

from __future__ import annotations

from ...sim.bytespace import LINE_BYTES
from ..profiles.parameters.memory import MediaParameters


class Rows:
    """The open rows of one DIMM; no clock inside."""

    __slots__ = ("_banks", "_open", "_row_lines")

    def __init__(self, media: MediaParameters) -> None:
        self._row_lines = media.row_bytes // LINE_BYTES
        self._banks = media.banks
        self._open: dict[int, int] = {}

    def near(self, line: int) -> bool:
        """Whether the line's row is open; it is from now on."""
        if not self._row_lines:
            return False
        row = line // self._row_lines
        bank = row % self._banks
        if self._open.get(bank) == row:
            return True
        self._open[bank] = row
        return False
