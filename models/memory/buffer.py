"""A buffer that takes bytes in as long as it has room, and empties in order through a pipe: a drive's write cache, the
elasticity buffer of a persistent memory region."""

from __future__ import annotations

from collections import deque

from ...sim.stations import Pipe


class Buffer:
    """Asked in order of arrival; a write larger than the buffer has it for itself."""

    def __init__(self, capacity_bytes: int, drain_bits_per_s: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._drain = Pipe(drain_bits_per_s)
        self._in_ps = 0
        self._taken_bytes = 0
        self._given_bytes = 0
        self._leaving: deque[tuple[int, int]] = deque()
        """(instant at which they are out, bytes), in order, of transfers that may still be in."""

    def put(self, arrive_ps: int, n_bytes: int) -> tuple[int, int, int]:
        """When ``n_bytes`` are in, when they begin to leave, and when they are out."""
        in_ps, leaving = max(arrive_ps, self._in_ps), self._leaving  # no transfer overtakes one that waits for room
        self._taken_bytes += n_bytes
        while leaving and self._taken_bytes - self._given_bytes > self.capacity_bytes:
            out_ps, gone_bytes = leaving.popleft()
            self._given_bytes += gone_bytes
            in_ps = out_ps if out_ps > in_ps else in_ps
        self._in_ps = in_ps
        begin_ps, out_ps = self._drain.send(in_ps, n_bytes)
        leaving.append((out_ps, n_bytes))
        return in_ps, begin_ps, out_ps

    @property
    def empty_ps(self) -> int:
        """When all that came so far is out."""
        return self._drain.free_ps
