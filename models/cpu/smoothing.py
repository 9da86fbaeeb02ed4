"""A smoothed time, as TCP keeps one of its round trips; code that waits for a multiple of it has a deadline."""

from __future__ import annotations

from .software import Deadline, SoftwareThread

WEIGHT = 8
"""Of the time so far against a new one, which counts as one (RFC 6298, section 2.3: alpha is 1/8)."""


class SmoothedTime:
    """The times of something that is done again and again, each with a weight of one in eight."""

    def __init__(self) -> None:
        self._smoothed_ps: int | None = None

    def begin(self, thread: SoftwareThread) -> Deadline:
        """It begins now: the time stamp counter, which :meth:`end` takes."""
        return Deadline(thread.clock, thread.clock.now_ps)

    def end(self, thread: SoftwareThread, begun: Deadline) -> None:
        """It has ended now."""
        took_ps = thread.clock.now_ps - begun.at_ps
        before_ps = took_ps if self._smoothed_ps is None else self._smoothed_ps
        self._smoothed_ps = ((WEIGHT - 1) * before_ps + took_ps) // WEIGHT

    def deadline(self, thread: SoftwareThread, times: int) -> Deadline | None:
        """The instant that lies so many of it ahead; None as long as it has not been done."""
        if self._smoothed_ps is None:
            return None
        return Deadline(thread.clock, thread.clock.now_ps + times * self._smoothed_ps)
