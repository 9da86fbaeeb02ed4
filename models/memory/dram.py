"""DRAM: which row each bank of a DIMM holds open, so that a read next to the one before is nearer; and busy banks.

Closed form of DDR4 with open pages: a load that finds its row open takes ``MediaParameters.near_load_ps``; any other
opens it first (precharge and activate) and takes ``MediaParameters.load_ps``. A bank opens one row in ``row_cycle_ps``
(JEDEC's tRC): reads of other rows of the bank wait, and reads of a row that is being opened. Reads wait for a refresh
that is under way; what refresh takes of the bandwidth is part of the measured one, as are bank groups and the
turn-around of the bus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...sim.bytespace import LINE_BYTES
from ...sim.streams import Streams
from ..profiles.parameters.memory import MediaParameters
from ..profiles.parameters.tails import TailParameters


class Refresh(NamedTuple):
    """The refreshes of one DIMM: each takes a while, and the first begins at ``phase_ps``."""

    every_ps: int
    takes_ps: int
    phase_ps: int

    def over_ps(self, at_ps: int) -> int:
        """When a read may begin that comes at an instant: then, or when the refresh is over."""
        since_ps = (at_ps - self.phase_ps) % self.every_ps
        return at_ps if since_ps >= self.takes_ps else at_ps + self.takes_ps - since_ps


Refreshes = Callable[[int], Refresh | None]
"""The refreshes of a device's DIMM, by number; None: it has none."""


def never(_number: int) -> Refresh | None:
    """No DIMM is refreshed."""
    return None


def refreshes(tails: TailParameters, media: MediaParameters, streams: Streams, device: int) -> Refreshes:
    """The refreshes of the DIMMs of a device, each with a phase of its own, out of the run's seed."""
    if not tails.refresh or not media.refresh_ps:
        return never

    def of(number: int) -> Refresh:
        random = streams.stream(f"refresh of device {device} DIMM {number}")
        return Refresh(media.refresh_every_ps, media.refresh_ps, int(random.integers(media.refresh_every_ps)))

    return of


class Rows:
    """The open rows of one DIMM, and its busy banks; asked in the order in which lines and reads come to it."""

    __slots__ = ("_banks", "_cycle_ps", "_free_ps", "_open", "_opened_ps", "_opening_ps", "_refresh", "_row_lines")

    def __init__(self, media: MediaParameters, refresh: Refresh | None = None) -> None:
        self._row_lines = media.row_bytes // LINE_BYTES
        self._banks = media.banks
        self._open: dict[int, int] = {}
        self._cycle_ps = media.row_cycle_ps
        self._opening_ps = max(0, media.load_ps - (media.near_load_ps or media.load_ps))
        self._free_ps: dict[int, int] = {}
        """By bank: when it may open another row."""
        self._opened_ps: dict[int, int] = {}
        """By bank: when its row is open."""
        self._refresh = refresh

    def write(self, line: int, at_ps: int) -> None:
        """A line comes to be written: its row is open from now on."""
        if not self._row_lines:
            return
        row = line // self._row_lines
        bank = row % self._banks
        if self._open.get(bank) == row:
            return
        self._open[bank] = row
        if self._cycle_ps:
            begin_ps = max(self._free_ps.get(bank, 0), at_ps)
            self._free_ps[bank] = begin_ps + self._cycle_ps
            self._opened_ps[bank] = begin_ps + self._opening_ps

    def read(self, line: int, at_ps: int) -> tuple[bool, int]:
        """A line comes to be read: whether its row is open, and when the DIMM begins with it."""
        if self._refresh is not None:
            at_ps = self._refresh.over_ps(at_ps)
        if not self._row_lines:
            return False, at_ps
        row = line // self._row_lines
        bank = row % self._banks
        near = self._open.get(bank) == row
        if not self._cycle_ps:
            self._open[bank] = row
            return near, at_ps
        if near:
            opened_ps = self._opened_ps.get(bank, 0)
            return True, opened_ps if opened_ps > at_ps else at_ps
        self._open[bank] = row
        begin_ps = self._free_ps.get(bank, 0)
        begin_ps = max(begin_ps, at_ps)
        self._free_ps[bank] = begin_ps + self._cycle_ps
        self._opened_ps[bank] = begin_ps + self._opening_ps
        return False, begin_ps
