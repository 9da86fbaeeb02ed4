"""The contents of a drive: its bytes, and which versions of each unit may be where.

The unit is the part that a power failure leaves whole or not at all (AWUPF). Its versions, one for each write that
touched it, are a channel of the trace: one of them survives, and units are independent of one another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...sim.trace import NEVER, Chunk, Stage, Trace
from ..durability.ordering import Event, Ordering
from ..durability.places import Path
from ..durability.rules import Circumstances, Target
from ..memory.devices import MemoryDevice

Versions = tuple[tuple[int, int], ...]
"""(channel, how many of its versions) for each unit that a command covers."""
HERE = Circumstances(target=Target.DRIVE)


class Blocks:
    """The content of one drive; ``stable`` says that pages do not change while they are written back."""

    def __init__(self, ordering: Ordering, device: MemoryDevice, unit_bytes: int, stable: bool) -> None:
        self.device = device
        self.unit_bytes = unit_bytes
        self._ordering = ordering
        self._trace: Trace = ordering.trace
        self._stable = stable
        self._channels: dict[int, int] = {}
        self._order = itertools.count()
        self._trace.uncached.add(device.number)

    def _units(self, offset: int, length: int) -> Iterator[tuple[int, int, int]]:
        """(unit, start, end) of the parts of a range."""
        end = offset + length
        while offset < end:
            unit = offset // self.unit_bytes
            stop = min(end, (unit + 1) * self.unit_bytes)
            yield unit, offset, stop
            offset = stop

    def _channel(self, unit: int) -> int:
        found = self._channels.get(unit)
        if found is None:
            found = self._trace.channel(f"unit {unit} of {self.device.name}")
            entry = self._trace.channels[found]
            entry.versions, entry.whole = True, self._stable
            self._channels[unit] = found
        return found

    def write(
        self, offset: int, data: bytes, path: Path, writer: str, reached_ps: list[int], behind: Versions = ()
    ) -> list[Chunk]:
        """New versions of the units of a range enter; each is visible only if all that it is ``behind`` is."""
        if not self.device.traced:
            return []
        return [
            self._trace.write(
                self.device.number,
                self._channel(unit),
                start,
                data[start - offset : end - offset],
                path,
                writer,
                list(reached_ps),
                behind,
            )
            for unit, start, end in self._units(offset, len(data))
        ]

    def show(self, at_ps: int, offset: int, data: bytes, now_ps: int) -> None:
        """Reads of the drive return ``data`` from an instant on."""
        self.device.space.write_at(at_ps, 0, next(self._order), offset, data, None, now_ps)

    @property
    def explored(self) -> bool:
        """Whether somebody may ask what a failure leaves of the drive; else its record serves its reads alone."""
        return self._trace.complete

    def covers(self, offset: int, length: int) -> Versions:
        """The versions so far of the units of a range."""
        if not self.device.traced:
            return ()
        known = (self._channels.get(unit) for unit, _, _ in self._units(offset, length))
        return tuple((channel, self._trace.count(channel)) for channel in known if channel is not None)

    def moved(self, versions: Versions, reached_ps: list[int]) -> None:
        """In this timing, these versions got to the stages behind the first at the given instants."""
        for channel, count in versions:
            for chunk in reversed(self._trace.channels[channel].chunks[:count]):
                if chunk.reached_ps[Stage.VISIBLE] != NEVER:
                    break
                chunk.reached_ps[Stage.TRANSIT :] = reached_ps[Stage.TRANSIT :]

    def read(self, at_ps: int, offset: int, length: int) -> bytes:
        """The bytes that a read of the drive returns at an instant."""
        return self.device.space.read(at_ps, offset, length)

    # observations by code ---------------------------------------------------------------------------------
    def written(self, at_ps: int, versions: Versions, fua: bool) -> None:
        """A write of these versions has completed: apply the ordering rules."""
        self._ordering.happened(Event.BLOCK_WRITE, at_ps, here=HERE, command=versions)
        if fua:
            self._ordering.happened(Event.BLOCK_FUA, at_ps, here=HERE, command=versions)

    def returned(self, at_ps: int, read_ps: int, offset: int, length: int) -> None:
        """A read that was served at ``read_ps`` has completed."""
        if self.device.traced:
            seen = self._trace.observed(self.device.number, offset, length, read_ps)
            self._ordering.happened(Event.BLOCK_READ, at_ps, here=HERE, returned=seen)

    def flushed(self, at_ps: int, submitted_ps: int) -> None:
        """A FLUSH has completed: apply the ordering rules to all that completed before it was submitted."""
        number = self.device.number
        self._ordering.happened(Event.BLOCK_FLUSH, at_ps, here=HERE, device=number, issued_ps=submitted_ps)
