"""A core's line fill buffers: how many lines it may have on their way, to it or from it.

Loads that miss, non-temporal stores and write-backs share them (Intel 64 and IA-32 Architectures Optimization Reference
Manual: a write-combining buffer is a fill buffer). Closed form: a stream of lines that take ``t`` each, none of which
is waited for by itself, goes at ``count / t``.
"""

from __future__ import annotations

from heapq import heapreplace

RUN_AHEAD = 18
"""So many times what a core waits for at a fence it runs ahead: a store buffer of 56 entries (Intel 64 and IA-32
Architectures Optimization Reference Manual, Skylake), three for a store, its flush and the fence."""

WINDOW_PS = 200_000
"""... and past so much other work (assumption: 224 instructions in flight, Skylake, one each two cycles of 2.2 GHz)."""


class FillBuffers:
    """When each buffer of a core is free again. Only that core calls it, for one instruction after the other."""

    __slots__ = ("ahead_ps", "busy_ps", "count", "fenced_ps", "stored_ps", "streams")

    def __init__(self, count: int, streams: int = 0) -> None:
        self.count = count
        self.streams = FillBuffers(streams) if streams else self
        """Those in which a prefetcher brings lines."""
        self.busy_ps = [0] * count
        """Until when each is taken: a heap, the first of which is free first. Hot code takes that one itself."""
        self.stored_ps = 0
        """When the core has all lines that it stored to so far: a fence waits for that."""
        self.fenced_ps = -1
        """When the core's last fence was over, ..."""
        self.ahead_ps = 0
        """... and how far the core has run ahead meanwhile."""

    def fenced(self, issued_ps: int, done_ps: int) -> None:
        """A fence is over that was issued at ``issued_ps``.

        The core runs ahead of it, and of those before it that it came to while it ran ahead, to the next stores.
        """
        waited_ps, ahead_ps = done_ps - issued_ps, 0
        since_ps = issued_ps - self.fenced_ps
        if since_ps < self.ahead_ps and since_ps < WINDOW_PS:
            ahead_ps = self.ahead_ps + since_ps
        self.ahead_ps = min(waited_ps + ahead_ps, RUN_AHEAD * waited_ps)
        self.fenced_ps = done_ps

    def ran_ahead_ps(self, at_ps: int) -> int:
        """How long before ``at_ps`` the core has come to a store that it executes then."""
        since_ps = at_ps - self.fenced_ps
        return self.ahead_ps if since_ps < self.ahead_ps and since_ps < WINDOW_PS else 0

    def take(self, until_ps: int) -> None:
        """Take the buffer that is free first until ``until_ps``."""
        heapreplace(self.busy_ps, until_ps)
